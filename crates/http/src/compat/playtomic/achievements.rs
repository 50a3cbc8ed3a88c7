//! `achievements.list`, `stream` and `save`.
//!
//! The old service knew an achievement by its name and proved that it was achieved by a secret key. Here that key is the
//! achievement's key, and the name its name. A grant happens once and has no fields: saving it over or again changes
//! nothing, and filters on fields find everything.

use liveops::feed::{self, FriendFilter};
use liveops::{Caller, Command};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::asked::{Answered, Asked};
use super::code::{Code, Reply};
use super::words::{self, Paging, Text, Texts, key_of, player_id};
use pipeline::time::parse_time;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    playerid: Option<Text>,
    #[serde(default)]
    friendslist: Vec<Text>,
    #[serde(rename = "filters")]
    _filters: Option<Texts>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stream {
    playerid: Option<Text>,
    #[serde(default)]
    friendslist: Vec<Text>,
    #[serde(default)]
    group: bool,
    mode: Option<String>,
    page: Option<usize>,
    perpage: Option<usize>,
    #[serde(rename = "filters")]
    _filters: Option<Texts>,
    #[serde(rename = "source")]
    _source: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Save {
    achievement: Option<String>,
    achievementkey: Option<String>,
    playerid: Option<Text>,
    playername: Option<String>,
    #[serde(default)]
    overwrite: bool,
    #[serde(default)]
    allowduplicates: bool,
    #[serde(rename = "fields")]
    _fields: Option<Texts>,
    #[serde(rename = "source")]
    _source: Option<Text>,
}

/// The catalogue, with who has what.
pub(super) fn list(asked: &Asked<'_>, list: List) -> Answered {
    let friends = words::friends(list.friendslist)?;
    let own = list.playerid.map(|id| id.0);
    let kept = asked.achievements(own.as_deref(), &friends)?;
    let told = kept.iter().map(|kept| kept.told(own.as_deref(), asked.received_ms));
    let mut body = Map::new();
    body.insert("achievements".into(), told.collect());
    Ok(Reply::ok(body))
}

/// What the player and the friends were granted, the newest first.
pub(super) fn stream(asked: &Asked<'_>, stream: Stream) -> Answered {
    let friends = words::friends(stream.friendslist)?;
    let own = stream.playerid.map(|id| id.0);
    let since_ms = words::since_ms(stream.mode.as_deref(), asked.received_ms)?;
    let paging = Paging::of(stream.page, stream.perpage)?;
    let kept = asked.achievements(own.as_deref(), &friends)?;
    let grants = kept.iter().flat_map(|kept| kept.grants.iter().map(move |grant| (kept, grant)));
    let mut grants: Vec<(&Kept, &Grant)> = grants.filter(|(_, grant)| grant.at_ms() >= since_ms).collect();
    grants.sort_by_key(|(_, grant)| std::cmp::Reverse((grant.at_ms(), grant.sequence)));
    let told = if stream.group { by_player(&grants) } else { one_by_one(&grants, asked.received_ms) };
    let mut body = Map::new();
    body.insert("numachievements".into(), told.len().into());
    body.insert("achievements".into(), paging.cut(told));
    Ok(Reply::ok(body))
}

/// Grants an achievement.
pub(super) async fn save(asked: &Asked<'_>, save: Save) -> Answered {
    let player = player_id(save.playerid.as_ref(), "", None);
    if words::told_id(&player).is_none() {
        return Err(Reply::fails(Code::NoPlayerId));
    }
    let name =
        save.playername.filter(|name| !name.is_empty()).ok_or_else(|| Reply::fails(Code::NoPlayerName))?;
    let (Some(achievement), Some(secret)) = (save.achievement, save.achievementkey) else {
        return Err(Reply::fails(Code::NoAchievement));
    };
    let key = key_of(&secret);
    let is_it = |kept: &Kept| kept.key == key && (kept.name == achievement || kept.key == achievement);
    if !asked.achievements(None, &[])?.iter().any(is_it) {
        return Err(Reply::fails(Code::InvalidAchievement));
    }
    let grant = feed::FeedCommand::Grant { key, player, name };
    let answer = asked.decide(Caller::Server, Command::Feed(grant), &[]).await?.map_err(Reply::refused)?;
    match (answer.status, save.overwrite || save.allowduplicates) {
        (201, _) => Ok(Reply::ok(Map::new())),
        (_, true) => Ok(Reply::with(Code::AchievedAgain, Map::new())),
        (_, false) => Err(Reply::fails(Code::AchievedBefore)),
    }
}

/// An achievement as live-ops tell it.
#[derive(Deserialize)]
struct Kept {
    key: String,
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    points: u32,
    /// The newest first.
    #[serde(rename = "friends")]
    grants: Vec<Grant>,
}

#[derive(Deserialize)]
struct Grant {
    player: String,
    name: String,
    at: String,
    /// Orders grants of the same millisecond.
    sequence: Option<u64>,
}

#[derive(Deserialize)]
struct Catalogue {
    achievements: Vec<Kept>,
}

impl Asked<'_> {
    /// All achievements with what these players were granted of them.
    fn achievements(&self, own: Option<&str>, friends: &[String]) -> Result<Vec<Kept>, Reply> {
        let players: Vec<&str> = friends.iter().map(String::as_str).chain(own).collect();
        let game = self.local.shared.views.liveops.game(self.access.game.number);
        let catalogue = {
            let game = game.read();
            serde_json::to_value(
                game.feed.achievements(own, FriendFilter::Players(&players), false).with_sequence(),
            )
        };
        let catalogue = catalogue.and_then(serde_json::from_value::<Catalogue>);
        let catalogue = catalogue.map_err(|error| Reply::fails_because(Code::General, &error.to_string()))?;
        Ok(catalogue.achievements)
    }
}

impl Kept {
    /// With the player's own grant, and those of the friends, the oldest first.
    fn told(&self, own: Option<&str>, now_ms: i64) -> Value {
        let mut told = self.named();
        let (of_own, of_friends): (Vec<&Grant>, Vec<&Grant>) =
            self.grants.iter().rev().partition(|grant| Some(grant.player.as_str()) == own);
        if let Some(grant) = of_own.first() {
            told.insert("player".into(), grant.told(now_ms).into());
        }
        if !of_friends.is_empty() {
            let friends = of_friends.into_iter().map(|grant| Value::from(grant.told(now_ms)));
            told.insert("friends".into(), friends.collect());
        }
        told.into()
    }

    fn named(&self) -> Map<String, Value> {
        let mut named = Map::new();
        named.insert("achievement".into(), self.name.as_str().into());
        named.insert("description".into(), self.description.as_str().into());
        named.insert("points".into(), self.points.into());
        named
    }
}

impl Grant {
    fn at_ms(&self) -> i64 {
        parse_time(&self.at).unwrap_or_default()
    }

    fn told(&self, now_ms: i64) -> Map<String, Value> {
        let mut told = Map::new();
        told.insert("playerid".into(), self.player.as_str().into());
        told.insert("playername".into(), self.name.as_str().into());
        told.insert("date".into(), (self.at_ms() / 1000).into());
        told.insert("rdate".into(), words::ago(self.at_ms(), now_ms).into());
        told
    }
}

fn one_by_one(grants: &[(&Kept, &Grant)], now_ms: i64) -> Vec<Value> {
    let told = grants.iter().map(|(kept, grant)| {
        let mut told = grant.told(now_ms);
        told.insert("awarded".into(), kept.named().into());
        Value::from(told)
    });
    told.collect()
}

/// One entry for each player, in the order of the newest grant, which it names; all of them are in `achievements`.
fn by_player(grants: &[(&Kept, &Grant)]) -> Vec<Value> {
    let mut players: Vec<(&str, Vec<(&Kept, &Grant)>)> = Vec::new();
    for (kept, grant) in grants {
        match players.iter_mut().find(|(player, _)| *player == grant.player) {
            Some((_, own)) => own.push((kept, grant)),
            None => players.push((&grant.player, vec![(kept, grant)])),
        }
    }
    let told = players.into_iter().map(|(player, own)| {
        let achievement = |(kept, grant): &(&Kept, &Grant)| {
            json!({ "achievement": kept.name, "date": grant.at_ms() / 1000 })
        };
        let (newest, oldest) = (own[0], own[own.len() - 1]);
        json!({
            "playerid": player,
            "playername": newest.1.name,
            "awards": own.len(),
            "awarded": newest.0.named(),
            "oldest": oldest.1.at_ms() / 1000,
            "achievements": own.iter().map(achievement).collect::<Vec<_>>(),
        })
    });
    told.collect()
}
