//! Items of the feed as clients read them.

use std::cmp::Reverse;

use model::ports::counters::StoreError;
use serde::Serialize;
use serde_json::value::RawValue;

use super::cursor::Cursor;
use super::deed::Deed;
use super::page::{Group, Mode};
use super::post::Body;
use super::stamp::Stamp;
use super::{Feed, rfc3339};

/// Players that one item names. It counts all.
const PLAYERS_NAMED_MAX: usize = 1_000;

/// A page of the feed.
#[derive(Debug, Serialize)]
pub struct Page<'a> {
    items: Vec<Item<'a>>,
    /// Where the next page goes on; without it there is none. A page may have fewer items than were asked for, or
    /// none, and still a next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Equal items of several players, or the item of one.
#[derive(Debug, Serialize)]
struct Item<'a> {
    /// Of the newest of them.
    id: String,
    kind: String,
    at: String,
    /// The newest first.
    players: Vec<Named<'a>>,
    players_count: usize,
    #[serde(flatten)]
    what: What<'a>,
}

#[derive(Debug, Serialize)]
struct Named<'a> {
    player: &'a str,
    name: &'a str,
}

#[derive(Debug, Default, Serialize)]
struct What<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    achievement: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    props: Option<Box<RawValue>>,
}

impl Feed {
    /// A page of what those did whom the player follows, at most `n` items of it. `None`: the cursor is of the other
    /// mode.
    pub fn page(
        &self,
        player: &str,
        mode: Mode,
        n: usize,
        from: Option<Cursor>,
    ) -> Result<Option<Page<'_>>, StoreError> {
        if from.is_some_and(|from| (from.round == 0) != (mode == Mode::Latest)) {
            return Ok(None);
        }
        let groups = self.groups(player, mode, n, from);
        let items: Result<_, _> = groups.groups.into_iter().map(|group| self.item(group)).collect();
        Ok(Some(Page { items: items?, next: groups.next.map(|next| next.text()) }))
    }

    fn item(&self, group: Group) -> Result<Item<'_>, StoreError> {
        let (kind, what) = self.what(group.item.tail())?;
        let (players, players_count) = self.named(group.members);
        let (id, at) = (group.item.number().to_string(), rfc3339(group.item.at_ms()));
        Ok(Item { id, kind, at, players, players_count, what })
    }

    /// What was done: the kind, and what is told of it. An achievement has its name as text, a level its title.
    fn what(&self, deed: u32) -> Result<(String, What<'_>), StoreError> {
        let bytes = self.deeds.bytes(deed);
        let Some(deed) = Deed::read(bytes) else {
            return Err(StoreError("an item of the feed is damaged".to_owned()));
        };
        let none = What::default();
        let (kind, what) = match deed {
            Deed::Score { table, score } => {
                ("score", What { table: Some(table), score: Some(score), ..none })
            }
            Deed::Achievement { key } => {
                let text = self.achievements.get(key).map(|it| it.name.clone());
                ("achievement", What { achievement: Some(key), text, ..none })
            }
            Deed::Level { level } => {
                ("level", What { level: Some(level), text: self.body(bytes)?.text, ..none })
            }
            Deed::Post { .. } => {
                let Body { kind, text, props } = self.body(bytes)?;
                return Ok((kind, What { text, props, ..none }));
            }
        };
        Ok((kind.to_owned(), what))
    }

    fn body(&self, deed: &[u8]) -> Result<Body, StoreError> {
        let Some(body) = self.blobs.get(deed)? else { return Ok(Body::default()) };
        serde_json::from_slice(&body).map_err(|error| StoreError(error.to_string()))
    }

    /// Each player once, the newest first; and how many there are beside.
    fn named(&self, mut members: Vec<Stamp>) -> (Vec<Named<'_>>, usize) {
        members.sort_by_key(|stamp| (stamp.tail(), Reverse(*stamp)));
        members.dedup_by_key(|stamp| stamp.tail());
        let count = members.len();
        if count > PLAYERS_NAMED_MAX {
            members.select_nth_unstable_by_key(PLAYERS_NAMED_MAX, |stamp| Reverse(*stamp));
            members.truncate(PLAYERS_NAMED_MAX);
        }
        members.sort_unstable_by_key(|stamp| Reverse(*stamp));
        let named = |stamp: &Stamp| {
            let actor = self.actors.get(stamp.tail());
            Named { player: &actor.id, name: &actor.name }
        };
        (members.iter().map(named).collect(), count)
    }

    /// What a player did, the newest first, each item as it is told to followers.
    pub(super) fn items_of(&self, player: &str) -> Result<impl Serialize, StoreError> {
        let actor = self.actors.find(player);
        let items = actor.map_or(&[][..], |actor| &self.actors.get(actor).items);
        let group = |item: &Stamp| Group { item: *item, members: vec![item.with(actor.unwrap_or_default())] };
        items.iter().rev().map(|item| self.item(group(item))).collect::<Result<Vec<_>, _>>()
    }
}
