//! `playerlevels.save`, `load`, `list` and `rate`.
//!
//! A player has one level of a name. Where a request says nothing of who rates, an address is somebody: it is not kept,
//! only a digest of it that nobody else can make.

use std::fmt::Display;

use liveops::levels::{
    self, LevelMode, LevelQuery as Asks, LevelRow, LevelViewer, ListError, LoadedLevel, PackedLevel,
};
use liveops::{Caller, Command, RefusalKind};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::asked::{Answered, Asked, read};
use super::code::{Code, Reply};
use super::words::{self, Paging, Text, Texts, player_id, told_id};
use crate::api::commands::hex;
use crate::api::levels::{draw_id, unless_small};
use pipeline::catalog::address_group;
use pipeline::time::parse_time;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Level {
    name: Option<String>,
    data: Option<String>,
    playerid: Option<Text>,
    playername: Option<String>,
    source: Option<String>,
    #[serde(default)]
    fields: Texts,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Load {
    levelid: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rate {
    levelid: Option<Text>,
    rating: Option<Value>,
    playerid: Option<Text>,
    #[serde(rename = "playername")]
    _playername: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    mode: Option<String>,
    datemin: Option<Text>,
    datemax: Option<Text>,
    #[serde(default)]
    filters: Texts,
    #[serde(default)]
    friendslist: Vec<Text>,
    playerid: Option<Text>,
    source: Option<String>,
    page: Option<usize>,
    perpage: Option<usize>,
    #[serde(default)]
    data: bool,
}

/// The level of a request, which some SDKs send as such and others field by field.
pub(super) fn nested(mut body: Map<String, Value>) -> Result<Level, Reply> {
    match body.remove("level") {
        Some(Value::Object(level)) if body.is_empty() => read(level),
        Some(_) => {
            Err(Reply::fails_because(Code::InvalidRequest, "`level` is an object with all there is to say"))
        }
        None => read(body),
    }
}

/// Saves a level, unless the player has one of this name.
pub(super) async fn save(asked: &Asked<'_>, level: Level) -> Answered {
    let missing = || Reply::fails(Code::NoLevelName);
    let name = level.name.filter(|name| !name.is_empty()).ok_or_else(missing)?;
    let (data, player_name) = (level.data.unwrap_or_default(), level.playername.unwrap_or_default());
    let source = words::source(level.source.as_deref());
    let player = player_id(level.playerid.as_ref(), &player_name, Some(&source));
    if let Some(row) = asked.level_named(&player, &name)? {
        return Ok(Reply::with(Code::LevelExists, leveled(told(&json(&row)?, asked.received_ms))));
    }
    let text = data.clone();
    let packed = unless_small(data.len(), move || PackedLevel::new(&text, None)).await;
    let packed = packed.map_err(|problem| Reply::problem(&problem))?.map_err(Reply::refused)?;
    let save = levels::SaveLevel {
        id: draw_id(),
        name,
        player,
        player_name,
        fields: words::plain(level.fields),
        source,
        state: levels::LevelState::Published,
        data: packed.data,
        thumb: None,
    };
    let command = Command::Levels(levels::LevelCommand::Save(save));
    let answer = asked.decide(Caller::Public, command, &packed.blob).await?.map_err(Reply::refused)?;
    let mut saved: Value = serde_json::from_str(&answer.json).map_err(|error| failed(&error))?;
    saved["data"] = data.into();
    Ok(Reply::ok(leveled(told(&saved, asked.received_ms))))
}

/// A level with its data.
pub(super) async fn load(asked: &Asked<'_>, load: Load) -> Answered {
    let id = load.levelid.ok_or_else(|| Reply::fails(Code::NoLevelId))?.0;
    let game = asked.local.shared.views.liveops.game(asked.access.game.number);
    let found = game.read().levels.load(&id, &LevelViewer::Public).map_err(|error| failed(&error))?;
    let row = unpacked(found.ok_or_else(|| Reply::fails(Code::NoLevelId))?).await?;
    Ok(Reply::ok(leveled(told(&row, asked.received_ms))))
}

/// A page of levels.
pub(super) async fn list(asked: &Asked<'_>, list: List) -> Answered {
    let paging = Paging::of(list.page, list.perpage)?;
    let friends: Vec<String> = words::friends(list.friendslist)?;
    let makers: Vec<String> = friends.into_iter().chain(list.playerid.map(|id| id.0)).collect();
    let asks = Asks {
        filters: words::plain(list.filters).into_iter().collect(),
        friends: (!makers.is_empty()).then_some(makers),
        source: Some(words::source(list.source.as_deref())).filter(|source| !source.is_empty()),
        from_ms: list.datemin.map(date).transpose()?.flatten(),
        to_ms: list.datemax.map(date).transpose()?.flatten(),
        page: paging.page as u64,
        per_page: paging.perpage as u64,
        data: list.data,
        thumbs: false,
        ..Asks::of(mode(list.mode.as_deref())?)
    };
    let game = asked.local.shared.views.liveops.game(asked.access.game.number);
    let page = game.read().levels.list(&asks, asked.received_ms, &asked.access.game.tz);
    let page = page.map_err(|error| match error {
        ListError::Refused(refusal) => Reply::refused(refusal),
        ListError::Store(error) => failed(&error),
    })?;
    let mut levels = Vec::with_capacity(page.levels.len());
    for found in page.levels {
        levels.push(told(&unpacked(found).await?, asked.received_ms));
    }
    let mut body = Map::new();
    body.insert("levels".into(), levels.into());
    body.insert("numlevels".into(), page.total.into());
    Ok(Reply::ok(body))
}

/// Rates a level, once and for good.
pub(super) async fn rate(asked: &Asked<'_>, rate: Rate) -> Answered {
    let id = rate.levelid.filter(|id| !id.0.is_empty()).ok_or_else(|| Reply::fails(Code::NoLevelId))?.0;
    let rating = rate.rating.as_ref().and_then(whole).and_then(|rating| u8::try_from(rating).ok());
    let rating = rating.filter(|rating| (levels::RATING_MIN..=levels::RATING_MAX).contains(rating));
    let rating = rating.ok_or_else(|| Reply::fails(Code::InvalidRating))?;
    let player = player_id(rate.playerid.as_ref(), "", None);
    let player = if told_id(&player).is_some() { player } else { asked.somebody() };
    let game = asked.local.shared.views.liveops.game(asked.access.game.number);
    if game.read().levels.rating_of(&id, &player).is_some() {
        return Err(Reply::fails(Code::AlreadyRated));
    }
    let command = Command::Levels(levels::LevelCommand::Rate { id, player, rating });
    match asked.decide(Caller::Public, command, &[]).await? {
        Ok(_) => Ok(Reply::ok(Map::new())),
        Err(refusal) if refusal.kind == RefusalKind::NotFound => Err(Reply::fails(Code::NoLevelId)),
        Err(refusal) => Err(Reply::refused(refusal)),
    }
}

impl Asked<'_> {
    /// The level of this name that the player has made.
    fn level_named(&self, player: &str, name: &str) -> Result<Option<LevelRow>, Reply> {
        let game = self.local.shared.views.liveops.game(self.access.game.number);
        let asks = Asks {
            player: Some(player.to_owned()),
            per_page: levels::PLAYER_LEVELS_MAX as u64,
            thumbs: false,
            ..Asks::of(LevelMode::Newest)
        };
        let page = game.read().levels.list(&asks, self.received_ms, &self.access.game.tz);
        let page = page.map_err(|error| failed(&error))?;
        for found in page.levels {
            let row = found.row().map_err(|error| failed(&error))?;
            if row.name == name {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Who asks from this address: the same for a game as long as the address is, and for nobody else to compute.
    fn somebody(&self) -> String {
        let address = self.address.map_or_else(String::new, |address| address_group(address).to_string());
        let secret = self.local.shared.catalog.id_secret();
        let digest = Sha256::digest(format!("{secret} voter {} {address}", self.access.game.number));
        format!("somebody:{}", hex(&digest[..12]))
    }
}

/// Decompresses what is large off the runtime.
async fn unpacked(found: LoadedLevel) -> Result<Value, Reply> {
    let row = unless_small(found.bytes(), move || found.row()).await;
    let row = row.map_err(|problem| Reply::problem(&problem))?;
    json(&row.map_err(|error| failed(&error))?)
}

fn json(row: &LevelRow) -> Result<Value, Reply> {
    serde_json::to_value(row).map_err(|error| failed(&error))
}

fn failed(error: &dyn Display) -> Reply {
    Reply::fails_because(Code::General, &error.to_string())
}

fn leveled(level: Value) -> Map<String, Value> {
    Map::from_iter([("level".to_owned(), level)])
}

/// A level as live-ops tell it in the words of the SDKs.
fn told(row: &Value, now_ms: i64) -> Value {
    const SAME: [(&str, &str); 8] = [
        ("id", "levelid"),
        ("name", "name"),
        ("player_name", "playername"),
        ("source", "source"),
        ("fields", "fields"),
        ("votes", "votes"),
        ("starts", "plays"),
        ("data", "data"),
    ];
    let mut told = Map::new();
    for (own, theirs) in SAME {
        if let Some(value) = row.get(own).filter(|value| !value.is_null()) {
            told.insert(theirs.into(), value.clone());
        }
    }
    if let Some(id) = row["player"].as_str().and_then(told_id) {
        told.insert("playerid".into(), id.into());
    }
    let (rating, votes) =
        (row["rating"].as_f64().unwrap_or_default(), row["votes"].as_f64().unwrap_or_default());
    told.insert("rating".into(), rating.into());
    told.insert("score".into(), ((rating * votes).round() as u64).into());
    let made_ms = row["created_at"].as_str().and_then(parse_time).unwrap_or_default();
    told.insert("date".into(), (made_ms / 1000).into());
    told.insert("rdate".into(), words::ago(made_ms, now_ms).into());
    told.into()
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
        mode => Err(Reply::fails_because(Code::InvalidRequest, &format!("there is no mode `{mode}`"))),
    }
}

/// A time as SDKs write it; empty is none.
fn date(Text(text): Text) -> Result<Option<i64>, Reply> {
    if text.is_empty() {
        return Ok(None);
    }
    let american = || {
        let mut parts = text.splitn(3, '/').map(|part| part.parse::<i16>().ok());
        let (month, day, year) = (parts.next()??, parts.next()??, parts.next()??);
        let date = jiff::civil::Date::new(year, month.try_into().ok()?, day.try_into().ok()?).ok()?;
        Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond())
    };
    let midnight = || parse_time(&format!("{text}T00:00:00Z"));
    let found = parse_time(&text).or_else(midnight).or_else(american);
    let detail = || format!("`{text}` is not a time");
    found.map(Some).ok_or_else(|| Reply::fails_because(Code::InvalidRequest, &detail()))
}

/// A whole number, also as text.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}
