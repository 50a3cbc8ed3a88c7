//! `achievements.list`, `stream` and `save`.
//!
//! Playtomic identified an achievement by its name and required a secret key to save it. Here the secret is the key of the
//! achievement. An achievement is granted once and its grant has no fields: saving it again changes nothing, and filters
//! on fields are ignored.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use liveops::feed::{self, FriendFilter};
use liveops::{Caller, Command};
use pipeline::time::parse_time;

use super::code::ReplyCode;
use super::format;
use super::parameters::{self, LenientText, Paging, TextMap, key_of, player_id, public_id};
use super::reply::Reply;
use super::request::{PlaytomicRequest, ReplyResult};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListAchievementsParams {
    playerid: Option<LenientText>,
    #[serde(default)]
    friendslist: Vec<LenientText>,
    #[serde(rename = "filters")]
    _filters: Option<TextMap>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamAchievementsParams {
    playerid: Option<LenientText>,
    #[serde(default)]
    friendslist: Vec<LenientText>,
    #[serde(default)]
    group: bool,
    mode: Option<String>,
    page: Option<usize>,
    perpage: Option<usize>,
    #[serde(rename = "filters")]
    _filters: Option<TextMap>,
    #[serde(rename = "source")]
    _source: Option<LenientText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SaveAchievementParams {
    achievement: Option<String>,
    achievementkey: Option<String>,
    playerid: Option<LenientText>,
    playername: Option<String>,
    #[serde(default)]
    overwrite: bool,
    #[serde(default)]
    allowduplicates: bool,
    #[serde(rename = "fields")]
    _fields: Option<TextMap>,
    #[serde(rename = "source")]
    _source: Option<LenientText>,
}

/// Lists all achievements with the grants of the player and the friends.
pub(super) fn list(request: &PlaytomicRequest<'_>, list: ListAchievementsParams) -> ReplyResult {
    let friends = parameters::friends(list.friendslist)?;
    let own = list.playerid.map(|id| id.0);
    let achievements = request.achievements(own.as_deref(), &friends)?;
    let rows = achievements.iter().map(|achievement| achievement.json(own.as_deref(), request.received_ms));
    let mut body = Map::new();
    body.insert("achievements".into(), rows.collect());
    Ok(Reply::ok(body))
}

/// Lists the grants of the player and the friends, or the newest 1,000 of all players, newest first.
pub(super) fn stream(request: &PlaytomicRequest<'_>, stream: StreamAchievementsParams) -> ReplyResult {
    let friends = parameters::friends(stream.friendslist)?;
    let own = stream.playerid.map(|id| id.0);
    let since_ms = parameters::since_ms(stream.mode.as_deref(), request.received_ms)?;
    let paging = Paging::new(stream.page, stream.perpage)?;
    let achievements = match own.is_none() && friends.is_empty() {
        true => request.listed_achievements(None, FriendFilter::Everyone)?,
        false => request.achievements(own.as_deref(), &friends)?,
    };
    let grants = achievements
        .iter()
        .flat_map(|achievement| achievement.grants.iter().map(move |grant| (achievement, grant)));
    let mut grants: Vec<(&Achievement, &Grant)> =
        grants.filter(|(_, grant)| grant.at_ms() >= since_ms).collect();
    grants.sort_by_key(|(_, grant)| std::cmp::Reverse((grant.at_ms(), grant.sequence)));
    let rows = if stream.group { group_by_player(&grants) } else { grant_rows(&grants, request.received_ms) };
    let mut body = Map::new();
    body.insert("numachievements".into(), rows.len().into());
    body.insert("achievements".into(), paging.slice(rows));
    Ok(Reply::ok(body))
}

/// Grants an achievement.
pub(super) async fn save(request: &PlaytomicRequest<'_>, save: SaveAchievementParams) -> ReplyResult {
    let player = player_id(save.playerid.as_ref(), "", None);
    if public_id(&player).is_none() {
        return Err(Reply::error(ReplyCode::NoPlayerId));
    }
    let name = save
        .playername
        .filter(|name| !name.is_empty())
        .ok_or_else(|| Reply::error(ReplyCode::NoPlayerName))?;
    let (Some(achievement), Some(secret)) = (save.achievement, save.achievementkey) else {
        return Err(Reply::error(ReplyCode::NoAchievement));
    };
    let key = key_of(&secret);
    let matches =
        |known: &Achievement| known.key == key && (known.name == achievement || known.key == achievement);
    if !request.achievements(None, &[])?.iter().any(matches) {
        return Err(Reply::error(ReplyCode::InvalidAchievement));
    }
    let grant = feed::FeedCommand::Grant { key, player, name };
    let answer =
        request.submit(Caller::Server, Command::Feed(grant), &[]).await?.map_err(Reply::from_refusal)?;
    match (answer.status, save.overwrite || save.allowduplicates) {
        (201, _) => Ok(Reply::ok(Map::new())),
        (_, true) => Ok(Reply::ok_with(ReplyCode::AchievedAgain, Map::new())),
        (_, false) => Err(Reply::error(ReplyCode::AlreadyAchieved)),
    }
}

/// An achievement as the live-ops API returns it.
#[derive(Deserialize)]
struct Achievement {
    key: String,
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    points: u32,
    /// Newest first.
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
struct AchievementList {
    achievements: Vec<Achievement>,
}

impl PlaytomicRequest<'_> {
    /// Returns all achievements with the grants of these players.
    fn achievements(&self, own: Option<&str>, friends: &[String]) -> Result<Vec<Achievement>, Reply> {
        let players: Vec<&str> = friends.iter().map(String::as_str).chain(own).collect();
        self.listed_achievements(own, FriendFilter::Players(&players))
    }

    fn listed_achievements(
        &self,
        own: Option<&str>,
        players: FriendFilter<'_>,
    ) -> Result<Vec<Achievement>, Reply> {
        let game = self.runtime.shared.views.liveops.game(self.access.game.number);
        let list = {
            let game = game.read();
            serde_json::to_value(game.feed.achievements(own, players, false).with_sequence())
        };
        let list = list.and_then(serde_json::from_value::<AchievementList>);
        let list = list.map_err(|error| Reply::error_with(ReplyCode::General, &error.to_string()))?;
        Ok(list.achievements)
    }
}

impl Achievement {
    /// Returns the achievement with the player's grant and those of the friends, in the order of the old service: by id
    /// where ids are numbers, then newest first.
    fn json(&self, own: Option<&str>, now_ms: i64) -> Value {
        let mut json = self.summary();
        let (own_grants, mut friend_grants): (Vec<&Grant>, Vec<&Grant>) =
            self.grants.iter().partition(|grant| Some(grant.player.as_str()) == own);
        friend_grants.sort_by_key(|grant| grant.numeric_id().unwrap_or(u64::MAX));
        if let Some(grant) = own_grants.first() {
            json.insert("player".into(), grant.json(now_ms).into());
        }
        if !friend_grants.is_empty() {
            let friends = friend_grants.into_iter().map(|grant| Value::from(grant.json(now_ms)));
            json.insert("friends".into(), friends.collect());
        }
        json.into()
    }

    fn summary(&self) -> Map<String, Value> {
        let mut summary = Map::new();
        summary.insert("achievement".into(), self.name.as_str().into());
        summary.insert("description".into(), self.description.as_str().into());
        summary.insert("points".into(), self.points.into());
        summary
    }
}

impl Grant {
    /// Returns the id of the player if it is a number as JavaScript writes it.
    fn numeric_id(&self) -> Option<u64> {
        let number: u32 = self.player.parse().ok()?;
        (number.to_string() == self.player).then_some(number.into())
    }

    fn at_ms(&self) -> i64 {
        parse_time(&self.at).unwrap_or_default()
    }

    fn json(&self, now_ms: i64) -> Map<String, Value> {
        let mut json = Map::new();
        json.insert("playerid".into(), self.player.as_str().into());
        json.insert("playername".into(), self.name.as_str().into());
        json.insert("date".into(), (self.at_ms() / 1000).into());
        json.insert("rdate".into(), format::ago(self.at_ms(), now_ms).into());
        json
    }
}

fn grant_rows(grants: &[(&Achievement, &Grant)], now_ms: i64) -> Vec<Value> {
    let rows = grants.iter().map(|(achievement, grant)| {
        let mut row = grant.json(now_ms);
        row.insert("awarded".into(), achievement.summary().into());
        Value::from(row)
    });
    rows.collect()
}

/// Returns one row per player, ordered by the newest grant. `awarded` is the newest one, `achievements` lists all.
fn group_by_player(grants: &[(&Achievement, &Grant)]) -> Vec<Value> {
    let mut players: Vec<(&str, Vec<(&Achievement, &Grant)>)> = Vec::new();
    for (achievement, grant) in grants {
        match players.iter_mut().find(|(player, _)| *player == grant.player) {
            Some((_, own)) => own.push((achievement, grant)),
            None => players.push((&grant.player, vec![(achievement, grant)])),
        }
    }
    let rows = players.into_iter().map(|(player, own)| {
        let entry = |(achievement, grant): &(&Achievement, &Grant)| {
            json!({ "achievement": achievement.name, "date": grant.at_ms() / 1000 })
        };
        let (newest, oldest) = (own[0], own[own.len() - 1]);
        json!({
            "playerid": player,
            "playername": newest.1.name,
            "awards": own.len(),
            "awarded": newest.0.summary(),
            "oldest": oldest.1.at_ms() / 1000,
            "achievements": own.iter().map(entry).collect::<Vec<_>>(),
        })
    });
    rows.collect()
}
