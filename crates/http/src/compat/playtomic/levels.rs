//! `playerlevels.save`, `load`, `list` and `rate`.
//!
//! The names of a player's levels are unique. If a rating has no player id, the client address identifies the player: only
//! a digest of it, keyed with a secret of the server, is stored.

use std::fmt::Display;

use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use liveops::levels::{
    self, LevelMode, LevelQuery, LevelRow, LevelViewer, ListError, LoadedLevel, PackedLevel,
};
use liveops::{Caller, Command, RefusalKind};
use pipeline::catalog::address_group;
use pipeline::time::parse_time;

use super::code::ReplyCode;
use super::format;
use super::parameters::{self, LenientText, Paging, TextMap, player_id, public_id};
use super::reply::Reply;
use super::request::{PlaytomicRequest, ReplyResult, read};
use crate::api::levels::{random_level_id, run_blocking_if_large};
use crate::hex::to_hex;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SaveLevelParams {
    name: Option<String>,
    data: Option<String>,
    playerid: Option<LenientText>,
    playername: Option<String>,
    source: Option<String>,
    #[serde(default)]
    fields: TextMap,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadLevelParams {
    levelid: Option<LenientText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RateLevelParams {
    levelid: Option<LenientText>,
    rating: Option<Value>,
    playerid: Option<LenientText>,
    #[serde(rename = "playername")]
    _playername: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListLevelsParams {
    mode: Option<String>,
    datemin: Option<LenientText>,
    datemax: Option<LenientText>,
    #[serde(default)]
    filters: TextMap,
    #[serde(default)]
    friendslist: Vec<LenientText>,
    playerid: Option<LenientText>,
    source: Option<String>,
    page: Option<usize>,
    perpage: Option<usize>,
    #[serde(default)]
    data: bool,
}

/// Parses the parameters of `save`, which some SDKs nest in `level` and others do not.
pub(super) fn parse_save(mut body: Map<String, Value>) -> Result<SaveLevelParams, Reply> {
    match body.remove("level") {
        Some(Value::Object(level)) if body.is_empty() => read(level),
        Some(_) => Err(Reply::error_with(
            ReplyCode::InvalidRequest,
            "`level` must be an object that contains all parameters",
        )),
        None => read(body),
    }
}

/// Saves a level. Returns the existing one with a code if the player already has a level of this name.
pub(super) async fn save(request: &PlaytomicRequest<'_>, level: SaveLevelParams) -> ReplyResult {
    let missing = || Reply::error(ReplyCode::NoLevelName);
    let name = level.name.filter(|name| !name.is_empty()).ok_or_else(missing)?;
    let (data, player_name) = (level.data.unwrap_or_default(), level.playername.unwrap_or_default());
    let source = parameters::source(level.source.as_deref());
    let player = player_id(level.playerid.as_ref(), &player_name, Some(&source));
    if let Some(row) = request.find_level(&player, &name)? {
        return Ok(Reply::ok_with(
            ReplyCode::LevelExists,
            level_body(level_json(&row_json(&row)?, request.received_ms)),
        ));
    }
    let text = data.clone();
    let packed = run_blocking_if_large(data.len(), move || PackedLevel::new(&text, None)).await;
    let packed = packed.map_err(|problem| Reply::from_problem(&problem))?.map_err(Reply::from_refusal)?;
    let save = levels::SaveLevel {
        id: random_level_id(),
        name,
        player,
        player_name,
        fields: parameters::to_strings(level.fields),
        source,
        state: levels::LevelState::Published,
        data: packed.data,
        thumb: None,
    };
    let command = Command::Levels(levels::LevelCommand::Save(save));
    let answer = request.submit(Caller::Public, command, &packed.blob).await?.map_err(Reply::from_refusal)?;
    let mut saved: Value = serde_json::from_str(&answer.json).map_err(|error| failed(&error))?;
    saved["data"] = data.into();
    Ok(Reply::ok(level_body(level_json(&saved, request.received_ms))))
}

/// Loads a level with its data.
pub(super) async fn load(request: &PlaytomicRequest<'_>, load: LoadLevelParams) -> ReplyResult {
    let id = load.levelid.ok_or_else(|| Reply::error(ReplyCode::NoLevelId))?.0;
    let game = request.runtime.shared.views.liveops.game(request.access.game.number);
    let found = game.read().levels.load(&id, &LevelViewer::Public).map_err(|error| failed(&error))?;
    let row = unpack(found.ok_or_else(|| Reply::error(ReplyCode::NoLevelId))?).await?;
    Ok(Reply::ok(level_body(level_json(&row, request.received_ms))))
}

/// Lists a page of levels.
pub(super) async fn list(request: &PlaytomicRequest<'_>, list: ListLevelsParams) -> ReplyResult {
    let paging = Paging::new(list.page, list.perpage)?;
    let friends: Vec<String> = parameters::friends(list.friendslist)?;
    let creators: Vec<String> = friends.into_iter().chain(list.playerid.map(|id| id.0)).collect();
    let query = LevelQuery {
        filters: parameters::to_strings(list.filters).into_iter().collect(),
        friends: (!creators.is_empty()).then_some(creators),
        source: Some(parameters::source(list.source.as_deref())).filter(|source| !source.is_empty()),
        from_ms: list.datemin.map(date).transpose()?.flatten(),
        to_ms: list.datemax.map(date).transpose()?.flatten(),
        page: paging.page as u64,
        per_page: paging.perpage as u64,
        data: list.data,
        thumbs: false,
        ..LevelQuery::of(mode(list.mode.as_deref())?)
    };
    let game = request.runtime.shared.views.liveops.game(request.access.game.number);
    let page = game.read().levels.list(&query, request.received_ms, &request.access.game.tz);
    let page = page.map_err(|error| match error {
        ListError::Refused(refusal) => Reply::from_refusal(refusal),
        ListError::Store(error) => failed(&error),
    })?;
    let mut levels = Vec::with_capacity(page.levels.len());
    for found in page.levels {
        levels.push(level_json(&unpack(found).await?, request.received_ms));
    }
    let mut body = Map::new();
    body.insert("levels".into(), levels.into());
    body.insert("numlevels".into(), page.total.into());
    Ok(Reply::ok(body))
}

/// Rates a level. A player cannot change a rating.
pub(super) async fn rate(request: &PlaytomicRequest<'_>, rate: RateLevelParams) -> ReplyResult {
    let id = rate.levelid.filter(|id| !id.0.is_empty()).ok_or_else(|| Reply::error(ReplyCode::NoLevelId))?.0;
    let rating = rate.rating.as_ref().and_then(integer).and_then(|rating| u8::try_from(rating).ok());
    let rating = rating.filter(|rating| (levels::RATING_MIN..=levels::RATING_MAX).contains(rating));
    let rating = rating.ok_or_else(|| Reply::error(ReplyCode::InvalidRating))?;
    let player = player_id(rate.playerid.as_ref(), "", None);
    let player = if public_id(&player).is_some() { player } else { request.anonymous_player() };
    let game = request.runtime.shared.views.liveops.game(request.access.game.number);
    if game.read().levels.rating_of(&id, &player).is_some() {
        return Err(Reply::error(ReplyCode::AlreadyRated));
    }
    let command = Command::Levels(levels::LevelCommand::Rate { id, player, rating });
    match request.submit(Caller::Public, command, &[]).await? {
        Ok(_) => Ok(Reply::ok(Map::new())),
        Err(refusal) if refusal.kind == RefusalKind::NotFound => Err(Reply::error(ReplyCode::NoLevelId)),
        Err(refusal) => Err(Reply::from_refusal(refusal)),
    }
}

impl PlaytomicRequest<'_> {
    /// Returns the level of a player by its name.
    fn find_level(&self, player: &str, name: &str) -> Result<Option<LevelRow>, Reply> {
        let game = self.runtime.shared.views.liveops.game(self.access.game.number);
        let query = LevelQuery {
            player: Some(player.to_owned()),
            per_page: levels::PLAYER_LEVELS_MAX as u64,
            thumbs: false,
            ..LevelQuery::of(LevelMode::Newest)
        };
        let page = game.read().levels.list(&query, self.received_ms, &self.access.game.tz);
        let page = page.map_err(|error| failed(&error))?;
        for found in page.levels {
            let row = found.row().map_err(|error| failed(&error))?;
            if row.name == name {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Returns an id for the client address. It is stable per game and cannot be computed without the secret of the server.
    fn anonymous_player(&self) -> String {
        let address = self.address.map_or_else(String::new, |address| address_group(address).to_string());
        let secret = self.runtime.shared.catalog.id_secret();
        let digest = Sha256::digest(format!("{secret} voter {} {address}", self.access.game.number));
        format!("somebody:{}", to_hex(&digest[..12]))
    }
}

/// Decompresses a level; a large one outside of the async runtime.
async fn unpack(found: LoadedLevel) -> Result<Value, Reply> {
    let row = run_blocking_if_large(found.bytes(), move || found.row()).await;
    let row = row.map_err(|problem| Reply::from_problem(&problem))?;
    row_json(&row.map_err(|error| failed(&error))?)
}

fn row_json(row: &LevelRow) -> Result<Value, Reply> {
    serde_json::to_value(row).map_err(|error| failed(&error))
}

fn failed(error: &dyn Display) -> Reply {
    Reply::error_with(ReplyCode::General, &error.to_string())
}

fn level_body(level: Value) -> Map<String, Value> {
    Map::from_iter([("level".to_owned(), level)])
}

/// Converts a level of the live-ops API to the fields of the SDKs.
fn level_json(row: &Value, now_ms: i64) -> Value {
    const RENAMED: [(&str, &str); 8] = [
        ("id", "levelid"),
        ("name", "name"),
        ("player_name", "playername"),
        ("source", "source"),
        ("fields", "fields"),
        ("votes", "votes"),
        ("starts", "plays"),
        ("data", "data"),
    ];
    let mut json = Map::new();
    for (field, sdk_field) in RENAMED {
        if let Some(value) = row.get(field).filter(|value| !value.is_null()) {
            json.insert(sdk_field.into(), value.clone());
        }
    }
    if let Some(id) = row["player"].as_str().and_then(public_id) {
        json.insert("playerid".into(), id.into());
    }
    let (rating, votes) =
        (row["rating"].as_f64().unwrap_or_default(), row["votes"].as_f64().unwrap_or_default());
    json.insert("rating".into(), rating.into());
    json.insert("score".into(), ((rating * votes).round() as u64).into());
    let created_ms = row["created_at"].as_str().and_then(parse_time).unwrap_or_default();
    json.insert("date".into(), (created_ms / 1000).into());
    json.insert("rdate".into(), format::ago(created_ms, now_ms).into());
    json.into()
}

fn mode(mode: Option<&str>) -> Result<LevelMode, Reply> {
    match mode.unwrap_or("popular").to_ascii_lowercase().as_str() {
        "popular" | "alltime" => Ok(LevelMode::Popular),
        "newest" => Ok(LevelMode::Newest),
        "recentaverage" => Ok(LevelMode::Recent),
        "todayaverage" => Ok(LevelMode::Today),
        "yesterdayaverage" => Ok(LevelMode::Yesterday),
        "last7days" | "last7daysaverage" => Ok(LevelMode::Days7),
        "last30days" | "last30daysaverage" => Ok(LevelMode::Days30),
        "last90days" | "last90daysaverage" => Ok(LevelMode::Days90),
        mode => Err(Reply::error_with(ReplyCode::InvalidRequest, &format!("unknown mode `{mode}`"))),
    }
}

/// Parses a time as SDKs format it: RFC 3339, `YYYY-MM-DD` or `MM/DD/YYYY`. Empty text is none.
fn date(LenientText(text): LenientText) -> Result<Option<i64>, Reply> {
    if text.is_empty() {
        return Ok(None);
    }
    let us_date = || {
        let mut parts = text.splitn(3, '/').map(|part| part.parse::<i16>().ok());
        let (month, day, year) = (parts.next()??, parts.next()??, parts.next()??);
        let date = jiff::civil::Date::new(year, month.try_into().ok()?, day.try_into().ok()?).ok()?;
        Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond())
    };
    let midnight = || parse_time(&format!("{text}T00:00:00Z"));
    let found = parse_time(&text).or_else(midnight).or_else(us_date);
    let detail = || format!("`{text}` must be a date or an RFC 3339 time");
    found.map(Some).ok_or_else(|| Reply::error_with(ReplyCode::InvalidRequest, &detail()))
}

/// Parses an integer, which may be sent as text.
fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}
