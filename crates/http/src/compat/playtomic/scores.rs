//! `leaderboards.save`, `list` and `saveandlist`.
//!
//! The first score creates its board. The board is open to all clients of the game, has the order of that score, and can be
//! filtered by its fields. Each score says whether it is kept beside the player's others (`allowduplicates`) or replaces
//! the best of them if it is better. A board that was created with another rule keeps to that rule, and a score that it
//! does not keep is answered with 209. A player is identified by an id or, without one, by a name; never by an address.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use liveops::boards::{
    self, BoardQuery, BoardUpdate, BoardView, BoardViewer, BoardWindow, KeepRule, SOURCE, ScoreDecimal,
    ScoreOrder, SubmitMode, SubmittedScore,
};
use liveops::{Caller, Command, Refusal, RefusalKind};
use pipeline::time::parse_time;

use super::code::ReplyCode;
use super::format;
use super::parameters::{self, LenientText, Paging, TextMap, key_of, player_id, public_id};
use super::reply::Reply;
use super::request::{PlaytomicRequest, ReplyResult};
use crate::hex::to_hex;

/// The fields of the first score by which its board can be filtered.
const FILTERS_MAX: usize = 4;
/// The decimals of scores: some games count fractions of seconds.
const DECIMALS: u8 = 3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListScoresParams {
    table: Option<String>,
    mode: Option<String>,
    page: Option<usize>,
    perpage: Option<usize>,
    highest: Option<bool>,
    lowest: Option<bool>,
    #[serde(default)]
    filters: TextMap,
    source: Option<String>,
    #[serde(default)]
    friendslist: Vec<LenientText>,
    playerid: Option<LenientText>,
    #[serde(default)]
    excludeplayerid: bool,
    #[serde(rename = "global")]
    _global: Option<bool>,
}

/// A score, and the page to list for `saveandlist`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SaveScoreParams {
    table: Option<String>,
    playername: Option<String>,
    playerid: Option<LenientText>,
    points: Option<Value>,
    source: Option<String>,
    #[serde(default)]
    fields: TextMap,
    #[serde(default)]
    allowduplicates: bool,
    highest: Option<bool>,
    lowest: Option<bool>,
    mode: Option<String>,
    #[serde(rename = "page")]
    _page: Option<usize>,
    perpage: Option<usize>,
    #[serde(default)]
    filters: TextMap,
    #[serde(default)]
    friendslist: Vec<LenientText>,
    #[serde(rename = "excludeplayerid")]
    _excludeplayerid: Option<bool>,
    global: Option<bool>,
}

/// Lists a page of a board. A board that does not exist yet is empty.
pub(super) fn list(request: &PlaytomicRequest<'_>, list: ListScoresParams) -> ReplyResult {
    let table = table(list.table)?;
    let friends = parameters::friends(list.friendslist)?;
    let own = list.playerid.filter(|_| !list.excludeplayerid).map(|id| id.0);
    let page = PageParams {
        mode: list.mode,
        filters: list.filters,
        source: list.source,
        players: friends.into_iter().chain(own).collect(),
        paging: Paging::new(list.page, list.perpage)?,
        highest: is_highest(list.highest, list.lowest),
    };
    Ok(Reply::ok(request.page(&table, &page.query()?)?))
}

/// Saves a score if it is the best of the player, or if it allows duplicates.
pub(super) async fn save(request: &PlaytomicRequest<'_>, save: SaveScoreParams) -> ReplyResult {
    submit(request, save, false).await
}

/// Saves a score like [`save`] and returns the page that contains it.
pub(super) async fn save_and_list(request: &PlaytomicRequest<'_>, save: SaveScoreParams) -> ReplyResult {
    submit(request, save, true).await
}

async fn submit(request: &PlaytomicRequest<'_>, save: SaveScoreParams, with_list: bool) -> ReplyResult {
    let Some(name) = save.playername.clone().filter(|name| !name.is_empty()) else {
        return Err(Reply::error(ReplyCode::NoName));
    };
    let title = save.table.clone().unwrap_or_default();
    let table = table(save.table.clone())?;
    let points = points(save.points.as_ref())?;
    let source = parameters::source(save.source.as_deref());
    let player = player_id(save.playerid.as_ref(), &name, Some(&source));
    let list = if with_list { Some(save.page_params(&player)?.query()?) } else { None };
    let board = request.board(&table, &title, &save).await?;
    // The SDKs send floating-point numbers of any length and expect no error for them.
    let points = ScoreDecimal::rounded(&points.to_string(), board.decimals)
        .ok_or_else(|| invalid("`points` is too large"))?
        .to_string();
    let points_value: f64 = points.parse().map_err(|_| invalid("`points` must be a number"))?;
    if request.is_banned(&player) {
        return Err(Reply::error(ReplyCode::Banned));
    }
    let score = SubmittedScore {
        player,
        name,
        score: points,
        fields: parameters::to_strings(save.fields),
        source: Some(source).filter(|source| !source.is_empty()),
        replace: !save.allowduplicates,
        ..SubmittedScore::default()
    };
    let submit = boards::BoardCommand::Submit { table, score, list: list.map(Box::new) };
    let answer = request.submit(Caller::Public, Command::Boards(submit), &[]).await?.map_err(rejection)?;
    let result: Value = serde_json::from_str(&answer.json).map_err(|error| failed(&error))?;
    let body = if with_list { page_body(&result, request.received_ms) } else { Map::new() };
    Ok(if is_kept(&board, &result, points_value) {
        Reply::ok(body)
    } else {
        Reply::ok_with(ReplyCode::NotBest, body)
    })
}

/// Returns true if a score is on its board, or waits for a moderator. A score equal to the player's best is on it.
fn is_kept(board: &BoardView, result: &Value, points: f64) -> bool {
    let is_best = !is_better(board.order, result["best"].as_f64(), points);
    let is_saved = result["saved"] == true || result["quarantined"] == true;
    match board.keep {
        KeepRule::Best => is_best || result["quarantined"] == true,
        KeepRule::All => is_best || is_saved,
        KeepRule::Last | KeepRule::Sum => is_saved,
    }
}

/// The parameters of a page.
struct PageParams {
    mode: Option<String>,
    filters: TextMap,
    source: Option<String>,
    /// The players to list; empty for all.
    players: Vec<String>,
    paging: Paging,
    highest: Option<bool>,
}

impl PageParams {
    fn query(self) -> Result<BoardQuery, Reply> {
        let mode = self.mode.unwrap_or_default().to_ascii_lowercase();
        let window = match mode.as_str() {
            "" | "alltime" | "newest" => BoardWindow::All,
            "today" => BoardWindow::Hours24,
            "last7days" => BoardWindow::Days7,
            "last30days" => BoardWindow::Days30,
            mode => return Err(invalid(&format!("unknown mode `{mode}`"))),
        };
        let mut filter: BTreeMap<String, String> = BTreeMap::new();
        for (field, value) in parameters::to_strings(self.filters) {
            filter.insert(key_of(&field), value);
        }
        if let Some(source) =
            Some(parameters::source(self.source.as_deref())).filter(|source| !source.is_empty())
        {
            filter.insert(SOURCE.to_owned(), source);
        }
        let page = u32::try_from(self.paging.page).map_err(|_| invalid("`page` is too large"))?;
        let per_page = u32::try_from(self.paging.perpage).map_err(|_| invalid("`perpage` is too large"))?;
        Ok(BoardQuery {
            window: Some(window),
            filter,
            page,
            per_page,
            newest: mode == "newest",
            highest: self.highest,
            friends: (!self.players.is_empty()).then_some(self.players),
            ..BoardQuery::default()
        })
    }
}

impl SaveScoreParams {
    /// Returns the page to list: of the whole board or, with a list of friends, of these and the player.
    fn page_params(&self, player: &str) -> Result<PageParams, Reply> {
        let mut players = parameters::friends(self.friendslist.clone())?;
        if !players.is_empty() {
            players.push(player.to_owned());
        }
        Ok(PageParams {
            mode: self.mode.clone(),
            filters: self.filters.clone(),
            source: self.source.clone().filter(|_| self.global == Some(false)),
            players,
            paging: Paging::new(None, self.perpage)?,
            highest: is_highest(self.highest, self.lowest),
        })
    }
}

impl PlaytomicRequest<'_> {
    /// Returns a board, which is created if it does not exist.
    async fn board(&self, table: &str, title: &str, save: &SaveScoreParams) -> Result<BoardView, Reply> {
        let find = || {
            let game = self.runtime.shared.views.liveops.game(self.access.game.number);
            let board = game.read().boards.board(table, BoardViewer::Public(None));
            board.ok()
        };
        if let Some(board) = find() {
            return Ok(board);
        }
        let order = if is_highest(save.highest, save.lowest) == Some(false) {
            ScoreOrder::Asc
        } else {
            ScoreOrder::Desc
        };
        let change = BoardUpdate {
            order: Some(order),
            keep: Some(KeepRule::All),
            mode: Some(SubmitMode::Open),
            decimals: Some(DECIMALS),
            filters: Some(save.fields.keys().take(FILTERS_MAX).map(|field| key_of(field)).collect()),
            title: Some(title.to_owned()),
            ..BoardUpdate::default()
        };
        let define = boards::BoardCommand::Define { table: table.to_owned(), change };
        self.submit(Caller::Compat, Command::Boards(define), &[]).await?.map_err(rejection)?;
        find().ok_or_else(|| Reply::error(ReplyCode::NoTable))
    }

    fn is_banned(&self, player: &str) -> bool {
        let game = self.runtime.shared.views.liveops.game(self.access.game.number);
        game.read().boards.is_banned(player)
    }

    fn page(&self, table: &str, query: &BoardQuery) -> Result<Map<String, Value>, Reply> {
        let game = self.runtime.shared.views.liveops.game(self.access.game.number);
        if game.read().boards.needs_advance(table, self.received_ms) {
            game.write().boards.advance(table, self.received_ms);
        }
        let page = game.read().boards.page(table, BoardViewer::Public(None), query, self.received_ms);
        let page = match page {
            Ok(page) => serde_json::to_value(page).map_err(|error| failed(&error))?,
            Err(refusal) if refusal.kind == RefusalKind::NotFound => {
                serde_json::json!({ "rows": [], "total": 0 })
            }
            Err(refusal) => return Err(Reply::from_refusal(refusal)),
        };
        Ok(page_body(&page, self.received_ms))
    }
}

fn table(name: Option<String>) -> Result<String, Reply> {
    let name = name.filter(|name| !name.is_empty()).ok_or_else(|| Reply::error(ReplyCode::NoTable))?;
    Ok(key_of(&name))
}

/// Parses points, which may be sent as text.
fn points(points: Option<&Value>) -> Result<f64, Reply> {
    let number = points.and_then(|points| points.as_f64().or_else(|| points.as_str()?.trim().parse().ok()));
    number.filter(|number| number.is_finite()).ok_or_else(|| invalid("`points` must be a number"))
}

/// Returns true if the highest scores come first, or `None` for the order of the board.
fn is_highest(highest: Option<bool>, lowest: Option<bool>) -> Option<bool> {
    lowest.map(|lowest| !lowest).or(highest)
}

fn is_better(order: ScoreOrder, best: Option<f64>, points: f64) -> bool {
    let Some(best) = best else { return false };
    match order {
        ScoreOrder::Desc => best > points,
        ScoreOrder::Asc => best < points,
    }
}

/// Converts a page of the live-ops API to the fields of the SDKs.
fn page_body(page: &Value, now_ms: i64) -> Map<String, Value> {
    let rows = page["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut body = Map::new();
    body.insert("scores".into(), rows.iter().map(|row| score_json(row, &page["table"], now_ms)).collect());
    body.insert("numscores".into(), page["total"].clone());
    body
}

fn score_json(row: &Value, table: &Value, now_ms: i64) -> Value {
    let player = row["player"].as_str().unwrap_or_default();
    let at = row["at"].as_str().unwrap_or_default();
    let at_ms = parse_time(at).unwrap_or_default();
    let digest = Sha256::digest(format!("{table} {player} {at}"));
    let mut json = Map::new();
    json.insert("playername".into(), row["name"].clone());
    if let Some(id) = public_id(player) {
        json.insert("playerid".into(), id.into());
    }
    json.insert("points".into(), format::number(row["score"].as_f64().unwrap_or_default()));
    json.insert("source".into(), row["source"].as_str().unwrap_or_default().into());
    json.insert("fields".into(), row.get("fields").cloned().unwrap_or_else(|| Map::new().into()));
    json.insert("date".into(), (at_ms / 1000).into());
    json.insert("rdate".into(), format::ago(at_ms, now_ms).into());
    json.insert("rank".into(), row["rank"].clone());
    json.insert("scoreid".into(), to_hex(&digest[..12]).into());
    if row["submitted"] == true {
        json.insert("submitted".into(), true.into());
    }
    json.into()
}

/// Returns the error of a rejected score.
fn rejection(refusal: Refusal) -> Reply {
    match refusal.kind {
        RefusalKind::Unsigned | RefusalKind::Forbidden => {
            Reply::error_with(ReplyCode::NoAuthority, &refusal.detail)
        }
        _ => Reply::from_refusal(refusal),
    }
}

fn invalid(detail: &str) -> Reply {
    Reply::error_with(ReplyCode::InvalidRequest, detail)
}

fn failed(error: &serde_json::Error) -> Reply {
    Reply::error_with(ReplyCode::General, &error.to_string())
}
