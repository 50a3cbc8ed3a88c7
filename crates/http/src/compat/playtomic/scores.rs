//! `leaderboards.save`, `list` and `saveandlist`.
//!
//! A board is made by its first score, open to everybody who has the game's keys: its order is the score's, the score's
//! fields are those by which it can be filtered, and it keeps each player's best score, or every score if the first one
//! allowed duplicates. A player is an id or, without one, a name; an address is no part of it.

use std::collections::BTreeMap;

use liveops::boards::{
    self, BoardQuery, BoardUpdate, BoardView, BoardViewer, BoardWindow, KeepRule, SOURCE, ScoreOrder,
    SubmitMode, SubmittedScore,
};
use liveops::{Caller, Command, Refusal, RefusalKind};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::asked::{Answered, Asked};
use super::code::{Code, Reply};
use super::words::{self, Paging, Text, Texts, key_of, player_id, told_id};
use crate::api::commands::hex;
use pipeline::time::parse_time;

/// Fields of the first score by which a board can be filtered.
const FILTERS_MAX: usize = 4;
/// Decimals of scores: games count seconds, too.
const DECIMALS: u8 = 3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    table: Option<String>,
    mode: Option<String>,
    page: Option<usize>,
    perpage: Option<usize>,
    highest: Option<bool>,
    lowest: Option<bool>,
    #[serde(default)]
    filters: Texts,
    source: Option<String>,
    #[serde(default)]
    friendslist: Vec<Text>,
    playerid: Option<Text>,
    #[serde(default)]
    excludeplayerid: bool,
    #[serde(rename = "global")]
    _global: Option<bool>,
}

/// A score, and what to list where it is listed as well.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Save {
    table: Option<String>,
    playername: Option<String>,
    playerid: Option<Text>,
    points: Option<Value>,
    source: Option<String>,
    #[serde(default)]
    fields: Texts,
    #[serde(default)]
    allowduplicates: bool,
    highest: Option<bool>,
    lowest: Option<bool>,
    mode: Option<String>,
    #[serde(rename = "page")]
    _page: Option<usize>,
    perpage: Option<usize>,
    #[serde(default)]
    filters: Texts,
    #[serde(default)]
    friendslist: Vec<Text>,
    #[serde(rename = "excludeplayerid")]
    _excludeplayerid: Option<bool>,
    global: Option<bool>,
}

/// A page of a board. A board that nobody has played on yet is empty.
pub(super) fn list(asked: &Asked<'_>, list: List) -> Answered {
    let table = table(list.table)?;
    let friends = words::friends(list.friendslist)?;
    let own = list.playerid.filter(|_| !list.excludeplayerid).map(|id| id.0);
    let shown = Shown {
        mode: list.mode,
        filters: list.filters,
        source: list.source,
        players: friends.into_iter().chain(own).collect(),
        paging: Paging::of(list.page, list.perpage)?,
        highest: is_highest(list.highest, list.lowest),
    };
    Ok(Reply::ok(asked.page(&table, &shown.query()?)?))
}

/// Saves a score, if it is the player's best.
pub(super) async fn save(asked: &Asked<'_>, save: Save) -> Answered {
    submit(asked, save, false).await
}

/// The same, and the page that holds it.
pub(super) async fn save_and_list(asked: &Asked<'_>, save: Save) -> Answered {
    submit(asked, save, true).await
}

async fn submit(asked: &Asked<'_>, save: Save, with_list: bool) -> Answered {
    let Some(name) = save.playername.clone().filter(|name| !name.is_empty()) else {
        return Err(Reply::fails(Code::NoName));
    };
    let title = save.table.clone().unwrap_or_default();
    let table = table(save.table.clone())?;
    let points = points(save.points.as_ref())?;
    let source = words::source(save.source.as_deref());
    let player = player_id(save.playerid.as_ref(), &name, Some(&source));
    let list = if with_list { Some(save.shown(&player)?.query()?) } else { None };
    let board = asked.board(&table, &title, &save).await?;
    if asked.is_banned(&player) {
        return Err(Reply::fails(Code::Banned));
    }
    if board.keep == KeepRule::All && !save.allowduplicates && asked.has_better(&board, &player, points)? {
        let body = match list {
            Some(list) => asked.page(&table, &list)?,
            None => Map::new(),
        };
        return Ok(Reply::with(Code::NotBest, body));
    }
    let score = SubmittedScore {
        player,
        name,
        score: points.to_string(),
        fields: words::plain(save.fields),
        source: Some(source).filter(|source| !source.is_empty()),
        ..SubmittedScore::default()
    };
    let submit = boards::BoardCommand::Submit { table, score, list: list.map(Box::new) };
    let answer = asked.decide(Caller::Public, Command::Boards(submit), &[]).await?.map_err(refused)?;
    let told: Value = serde_json::from_str(&answer.json).map_err(|error| failed(&error))?;
    let body = if with_list { listed(&told, asked.received_ms) } else { Map::new() };
    let is_best = !is_better(board.order, told["best"].as_f64(), points);
    Ok(if is_best || save.allowduplicates { Reply::ok(body) } else { Reply::with(Code::NotBest, body) })
}

/// What of a board is shown.
struct Shown {
    mode: Option<String>,
    filters: Texts,
    source: Option<String>,
    /// Only these; empty: all.
    players: Vec<String>,
    paging: Paging,
    highest: Option<bool>,
}

impl Shown {
    fn query(self) -> Result<BoardQuery, Reply> {
        let mode = self.mode.unwrap_or_default().to_ascii_lowercase();
        let window = match mode.as_str() {
            "" | "alltime" | "newest" => BoardWindow::All,
            "today" => BoardWindow::Hours24,
            "last7days" => BoardWindow::Days7,
            "last30days" => BoardWindow::Days30,
            mode => return Err(invalid(&format!("there is no mode `{mode}`"))),
        };
        let mut filter: BTreeMap<String, String> = BTreeMap::new();
        for (field, value) in words::plain(self.filters) {
            filter.insert(key_of(&field), value);
        }
        if let Some(source) = Some(words::source(self.source.as_deref())).filter(|source| !source.is_empty())
        {
            filter.insert(SOURCE.to_owned(), source);
        }
        let page = u32::try_from(self.paging.page).map_err(|_| invalid("`page` is too high"))?;
        let per_page = u32::try_from(self.paging.perpage).map_err(|_| invalid("`perpage` is too high"))?;
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

impl Save {
    /// What is listed beside: the whole board, or with a list of friends these and the player.
    fn shown(&self, player: &str) -> Result<Shown, Reply> {
        let mut players = words::friends(self.friendslist.clone())?;
        if !players.is_empty() {
            players.push(player.to_owned());
        }
        Ok(Shown {
            mode: self.mode.clone(),
            filters: self.filters.clone(),
            source: self.source.clone().filter(|_| self.global == Some(false)),
            players,
            paging: Paging::of(None, self.perpage)?,
            highest: is_highest(self.highest, self.lowest),
        })
    }
}

impl Asked<'_> {
    /// The board of this name, which is made if there is none.
    async fn board(&self, table: &str, title: &str, save: &Save) -> Result<BoardView, Reply> {
        let found = || {
            let game = self.local.shared.views.liveops.game(self.access.game.number);
            let board = game.read().boards.board(table, BoardViewer::Public(None));
            board.ok()
        };
        if let Some(board) = found() {
            return Ok(board);
        }
        let order = if is_highest(save.highest, save.lowest) == Some(false) {
            ScoreOrder::Asc
        } else {
            ScoreOrder::Desc
        };
        let change = BoardUpdate {
            order: Some(order),
            keep: Some(if save.allowduplicates { KeepRule::All } else { KeepRule::Best }),
            mode: Some(SubmitMode::Open),
            decimals: Some(DECIMALS),
            filters: Some(save.fields.keys().take(FILTERS_MAX).map(|field| key_of(field)).collect()),
            title: Some(title.to_owned()),
            ..BoardUpdate::default()
        };
        let define = boards::BoardCommand::Define { table: table.to_owned(), change };
        self.decide(Caller::Server, Command::Boards(define), &[]).await?.map_err(refused)?;
        found().ok_or_else(|| Reply::fails(Code::NoTable))
    }

    fn is_banned(&self, player: &str) -> bool {
        let game = self.local.shared.views.liveops.game(self.access.game.number);
        game.read().boards.is_banned(player)
    }

    /// Whether the player has a better row on a board that keeps all of them.
    fn has_better(&self, board: &BoardView, player: &str, points: f64) -> Result<bool, Reply> {
        let query =
            BoardQuery { friends: Some(vec![player.to_owned()]), per_page: 1, ..BoardQuery::default() };
        let page = self.page(&board.table, &query)?;
        Ok(is_better(board.order, page["scores"][0]["points"].as_f64(), points))
    }

    fn page(&self, table: &str, query: &BoardQuery) -> Result<Map<String, Value>, Reply> {
        let game = self.local.shared.views.liveops.game(self.access.game.number);
        if game.read().boards.needs_advance(table, self.received_ms) {
            game.write().boards.advance(table, self.received_ms);
        }
        let page = game.read().boards.page(table, BoardViewer::Public(None), query, self.received_ms);
        let page = match page {
            Ok(page) => serde_json::to_value(page).map_err(|error| failed(&error))?,
            Err(refusal) if refusal.kind == RefusalKind::NotFound => {
                serde_json::json!({ "rows": [], "total": 0 })
            }
            Err(refusal) => return Err(Reply::refused(refusal)),
        };
        Ok(listed(&page, self.received_ms))
    }
}

fn table(name: Option<String>) -> Result<String, Reply> {
    let name = name.filter(|name| !name.is_empty()).ok_or_else(|| Reply::fails(Code::NoTable))?;
    Ok(key_of(&name))
}

/// Points as a number, also where they came as text.
fn points(points: Option<&Value>) -> Result<f64, Reply> {
    let number = points.and_then(|points| points.as_f64().or_else(|| points.as_str()?.trim().parse().ok()));
    number.filter(|number| number.is_finite()).ok_or_else(|| invalid("`points` is not a number"))
}

/// Whether the highest scores come first; nothing: as the board has it.
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

/// A page in the words of the SDKs.
fn listed(page: &Value, now_ms: i64) -> Map<String, Value> {
    let rows = page["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut body = Map::new();
    body.insert("scores".into(), rows.iter().map(|row| score(row, &page["table"], now_ms)).collect());
    body.insert("numscores".into(), page["total"].clone());
    body
}

fn score(row: &Value, table: &Value, now_ms: i64) -> Value {
    let player = row["player"].as_str().unwrap_or_default();
    let at = row["at"].as_str().unwrap_or_default();
    let at_ms = parse_time(at).unwrap_or_default();
    let digest = Sha256::digest(format!("{table} {player} {at}"));
    let mut told = Map::new();
    told.insert("playername".into(), row["name"].clone());
    if let Some(id) = told_id(player) {
        told.insert("playerid".into(), id.into());
    }
    told.insert("points".into(), words::number(row["score"].as_f64().unwrap_or_default()));
    told.insert("source".into(), row["source"].as_str().unwrap_or_default().into());
    told.insert("fields".into(), row.get("fields").cloned().unwrap_or_else(|| Map::new().into()));
    told.insert("date".into(), (at_ms / 1000).into());
    told.insert("rdate".into(), words::ago(at_ms, now_ms).into());
    told.insert("rank".into(), row["rank"].clone());
    told.insert("scoreid".into(), hex(&digest[..12]).into());
    if row["submitted"] == true {
        told.insert("submitted".into(), true.into());
    }
    told.into()
}

/// Why a board does not take a score.
fn refused(refusal: Refusal) -> Reply {
    match refusal.kind {
        RefusalKind::Unsigned | RefusalKind::Forbidden => {
            Reply::fails_because(Code::NoAuthority, &refusal.detail)
        }
        _ => Reply::refused(refusal),
    }
}

fn invalid(detail: &str) -> Reply {
    Reply::fails_because(Code::InvalidRequest, detail)
}

fn failed(error: &serde_json::Error) -> Reply {
    Reply::fails_because(Code::General, &error.to_string())
}
