//! Feed pages as clients see them.

use std::cmp::Reverse;

use model::ports::counters::StoreError;
use serde::Serialize;
use serde_json::value::RawValue;

use super::activity_key::ActivityKey;
use super::cursor::Cursor;
use super::item_position::ItemPosition;
use super::post::ItemBody;
use super::selection::{FeedMode, ItemGroup};
use super::{Feed, rfc3339};

/// Players that one item names. The count includes all.
const PLAYERS_NAMED_MAX: usize = 1_000;

/// A page of the feed.
#[derive(Debug, Serialize)]
pub struct FeedPage<'a> {
    items: Vec<FeedItem<'a>>,
    /// The cursor of the next page, absent on the last one. A page may have fewer items than requested, or none, and
    /// still a next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Equal items of several players, or the item of one.
#[derive(Debug, Serialize)]
struct FeedItem<'a> {
    /// The number of the newest of them.
    id: String,
    kind: String,
    at: String,
    /// Newest first.
    players: Vec<NamedPlayer<'a>>,
    players_count: usize,
    #[serde(flatten)]
    details: ItemDetails<'a>,
}

#[derive(Debug, Serialize)]
struct NamedPlayer<'a> {
    player: &'a str,
    name: &'a str,
}

#[derive(Debug, Default, Serialize)]
struct ItemDetails<'a> {
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
    /// Returns a page of at most `n` activities of the followed players. `None` if the cursor is of the other mode.
    pub fn page(
        &self,
        player: &str,
        mode: FeedMode,
        n: usize,
        from: Option<Cursor>,
    ) -> Result<Option<FeedPage<'_>>, StoreError> {
        if from.is_some_and(|from| (from.round == 0) != (mode == FeedMode::Latest)) {
            return Ok(None);
        }
        let groups = self.groups(player, mode, n, from);
        let items: Result<_, _> = groups.groups.into_iter().map(|group| self.item(group)).collect();
        Ok(Some(FeedPage { items: items?, next: groups.next.map(|next| next.text()) }))
    }

    fn item(&self, group: ItemGroup) -> Result<FeedItem<'_>, StoreError> {
        let (kind, details) = self.details(group.item.tail())?;
        let (players, players_count) = self.named_players(group.members);
        let (id, at) = (group.item.number().to_string(), rfc3339(group.item.at_ms()));
        Ok(FeedItem { id, kind, at, players, players_count, details })
    }

    /// Returns the kind and the details of an activity. The text of an achievement is its name, that of a level its
    /// title.
    fn details(&self, activity: u32) -> Result<(String, ItemDetails<'_>), StoreError> {
        let bytes = self.activities.bytes(activity);
        let Some(activity) = ActivityKey::read(bytes) else {
            return Err(StoreError("a feed item is damaged".to_owned()));
        };
        let none = ItemDetails::default();
        let (kind, details) = match activity {
            ActivityKey::Score { table, score } => {
                ("score", ItemDetails { table: Some(table), score: Some(score), ..none })
            }
            ActivityKey::Achievement { key } => {
                let text = self.achievements.get(key).map(|it| it.name.clone());
                ("achievement", ItemDetails { achievement: Some(key), text, ..none })
            }
            ActivityKey::Level { level } => {
                ("level", ItemDetails { level: Some(level), text: self.body(bytes)?.text, ..none })
            }
            ActivityKey::Post { .. } => {
                let ItemBody { kind, text, props } = self.body(bytes)?;
                return Ok((kind, ItemDetails { text, props, ..none }));
            }
        };
        Ok((kind.to_owned(), details))
    }

    fn body(&self, activity: &[u8]) -> Result<ItemBody, StoreError> {
        let Some(body) = self.blobs.get(activity)? else { return Ok(ItemBody::default()) };
        serde_json::from_slice(&body).map_err(|error| StoreError(error.to_string()))
    }

    /// Returns each player once, newest first, and the total number of players.
    fn named_players(&self, mut members: Vec<ItemPosition>) -> (Vec<NamedPlayer<'_>>, usize) {
        members.sort_by_key(|position| (position.tail(), Reverse(*position)));
        members.dedup_by_key(|position| position.tail());
        let count = members.len();
        if count > PLAYERS_NAMED_MAX {
            members.select_nth_unstable_by_key(PLAYERS_NAMED_MAX, |position| Reverse(*position));
            members.truncate(PLAYERS_NAMED_MAX);
        }
        members.sort_unstable_by_key(|position| Reverse(*position));
        let named = |position: &ItemPosition| {
            let actor = self.actors.get(position.tail());
            NamedPlayer { player: &actor.id, name: &actor.name }
        };
        (members.iter().map(named).collect(), count)
    }

    /// Returns a player's items, newest first, as followers see them.
    pub(super) fn items_of(&self, player: &str) -> Result<impl Serialize, StoreError> {
        let actor = self.actors.find(player);
        let items = actor.map_or(&[][..], |actor| &self.actors.get(actor).items);
        let group = |item: &ItemPosition| ItemGroup {
            item: *item,
            members: vec![item.with_tail(actor.unwrap_or_default())],
        };
        items.iter().rev().map(|item| self.item(group(item))).collect::<Result<Vec<_>, _>>()
    }
}
