//! Reading one level, or a page of many.

use std::collections::BTreeMap;

use model::ports::counters::StoreError;
use serde::Serialize;

use super::Levels;
use super::content::{self, PackedText};
use super::days::{day, rfc3339};
use super::level::{Level, LevelState};
use super::orders::{LevelMode, OrderKey};
use super::votes::VoteTally;
use crate::Refusal;

/// Uncompressed bytes of data and thumbnails on one page.
pub const PAGE_BYTES_MAX: u64 = 8 << 20;

/// The viewer of a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LevelViewer {
    /// A viewer who sees published levels.
    Public,
    /// A player, who also sees their own drafts and removed levels.
    Player(String),
    /// A moderator or the game's own server, who sees all drafts and removed levels.
    Moderator,
}

impl LevelViewer {
    fn sees_all_of(&self, player: &str) -> bool {
        match self {
            LevelViewer::Public => false,
            LevelViewer::Player(id) => id == player,
            LevelViewer::Moderator => true,
        }
    }
}

/// The levels to list, and their order. All conditions must hold.
#[derive(Clone, Debug)]
pub struct LevelQuery {
    /// The order.
    pub mode: LevelMode,
    /// Fields that must have these values. A level may have others.
    pub filters: Vec<(String, String)>,
    /// Only levels of these players.
    pub friends: Option<Vec<String>>,
    /// Only levels of this player.
    pub player: Option<String>,
    /// Includes the player's drafts and removed levels, for viewers who may see them.
    pub all_states: bool,
    /// Only levels from this source.
    pub source: Option<String>,
    /// Only levels created at or after this time, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Only levels created before this time.
    pub to_ms: Option<i64>,
    /// The page number from 1 on.
    pub page: u64,
    /// Levels per page.
    pub per_page: u64,
    /// Includes the data.
    pub data: bool,
    /// Includes the thumbnails.
    pub thumbs: bool,
    /// The viewer.
    pub viewer: LevelViewer,
}

impl LevelQuery {
    /// Returns a query for published levels in this order, without data.
    pub fn of(mode: LevelMode) -> LevelQuery {
        LevelQuery {
            mode,
            filters: Vec::new(),
            friends: None,
            player: None,
            all_states: false,
            source: None,
            from_ms: None,
            to_ms: None,
            page: 1,
            per_page: 20,
            data: false,
            thumbs: true,
            viewer: LevelViewer::Public,
        }
    }

    fn check_states(&self) -> Result<(), Refusal> {
        if !self.all_states {
            return Ok(());
        }
        let Some(player) = &self.player else {
            return Err(Refusal::invalid(
                "state",
                "`all` requires `player`: drafts and removed levels can only be listed for one player",
            ));
        };
        if self.viewer.sees_all_of(player) {
            return Ok(());
        }
        Err(Refusal::forbidden("only the player and moderators can see drafts and removed levels"))
    }
}

/// A page of levels.
#[derive(Clone, Debug)]
pub struct LevelPage {
    /// The number of levels on all pages.
    pub total: usize,
    /// The levels of this page.
    pub levels: Vec<LoadedLevel>,
}

/// The reason why a page cannot be returned.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The query is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A level as clients see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelRow {
    /// The level's id, 12 letters and digits.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The id of its maker.
    pub player: String,
    /// The maker's display name.
    pub player_name: String,
    /// Its visibility.
    pub state: LevelState,
    /// The fields that lists can be filtered by.
    pub fields: BTreeMap<String, String>,
    /// The place where it was made; may be empty.
    pub source: String,
    /// The time at which it was created.
    pub created_at: String,
    /// The number of players who rated it.
    pub votes: u32,
    /// The mean of all votes; null without votes.
    pub rating: Option<f64>,
    /// The Bayesian average of all votes.
    pub score: f64,
    /// The number of starts.
    pub starts: u64,
    /// The number of wins.
    pub wins: u64,
    /// The number of retries.
    pub retries: u64,
    /// The number of quits.
    pub quits: u64,
    /// The number of flags.
    pub flags: u64,
    /// The votes that decide the order of the list, in a mode that does not count all votes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<RatingWindow>,
    /// The thumbnail, a data URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thumb: Option<String>,
    /// The data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

/// A selection of a level's votes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RatingWindow {
    /// The number of votes.
    pub votes: u32,
    /// Their mean; null without votes.
    pub rating: Option<f64>,
    /// Their Bayesian average.
    pub score: f64,
}

impl RatingWindow {
    fn of(tally: VoteTally) -> RatingWindow {
        RatingWindow { votes: tally.votes, rating: tally.mean(), score: tally.score() }
    }
}

/// A level whose data and thumbnail are not decompressed yet.
#[derive(Clone, Debug)]
pub struct LoadedLevel {
    row: LevelRow,
    data: Option<PackedText>,
    thumb: Option<PackedText>,
}

impl LoadedLevel {
    /// Returns the bytes of text to decompress.
    pub fn bytes(&self) -> usize {
        self.data.iter().chain(&self.thumb).map(PackedText::bytes).sum()
    }

    /// Decompresses the level. This takes some milliseconds for large data, so call it without holding a lock.
    pub fn row(self) -> Result<LevelRow, StoreError> {
        let text = |packed: Option<PackedText>| packed.map(|packed| packed.unpack()).transpose();
        Ok(LevelRow { data: text(self.data)?, thumb: text(self.thumb)?, ..self.row })
    }
}

impl Levels {
    /// Returns the level of this id with its data and thumbnail, if the viewer may see it.
    pub fn load(&self, id: &str, viewer: &LevelViewer) -> Result<Option<LoadedLevel>, StoreError> {
        let Some(level) = self.arena.slot(id.as_bytes()).map(|slot| self.arena.get(slot)) else {
            return Ok(None);
        };
        if !level.is_published() && !viewer.sees_all_of(self.maker(level)) {
            return Ok(None);
        }
        self.load_level(level, true, true).map(Some)
    }

    /// Returns a page of levels and the exact number of levels on all pages.
    ///
    /// Without conditions, the cost is the number of levels before the page: 15 us for the first page, 3 ms for the
    /// last page of 100,000 levels. With conditions, it is about 0.3 us for each level that matches the rarest of them.
    pub fn list(&self, list: &LevelQuery, now_ms: i64, tz: &str) -> Result<LevelPage, ListError> {
        list.check_states()?;
        let today = day(now_ms, tz);
        let take = list.per_page as usize;
        let skip = usize::try_from(list.page.saturating_sub(1).saturating_mul(list.per_page));
        let skip = skip.unwrap_or(usize::MAX);
        let (total, slots) = match self.candidates(list) {
            None => self.orders.page(list.mode, today, &self.arena, skip, take),
            Some(candidates) => self.select(list, today, candidates, skip, take),
        };
        self.check_bytes(list, &slots)?;
        let found = slots.into_iter().map(|slot| {
            let level = self.arena.get(slot);
            let found = self.load_level(level, list.data, list.thumbs)?;
            Ok(found.in_window(list.mode, level, today))
        });
        Ok(LevelPage { total, levels: found.collect::<Result<_, StoreError>>()? })
    }

    /// Returns a superset of the matching levels' slots; `None` without a condition.
    fn candidates(&self, list: &LevelQuery) -> Option<Vec<u32>> {
        let of = |id: &str| self.contributors.find(id).map_or(&[][..], |contributor| &contributor.levels);
        if let Some(player) = &list.player {
            return Some(of(player).to_vec());
        }
        if let Some(friends) = &list.friends {
            let mut slots: Vec<u32> = friends.iter().flat_map(|friend| of(friend)).copied().collect();
            slots.sort_unstable();
            slots.dedup();
            return Some(slots);
        }
        if let Some(slots) = self.filter_index.rarest(&list.filters, list.source.as_deref()) {
            return Some(slots.to_vec());
        }
        let dated = list.from_ms.is_some() || list.to_ms.is_some();
        dated.then(|| self.orders.created_between(list.from_ms.unwrap_or(0), list.to_ms.unwrap_or(i64::MAX)))
    }

    fn select(
        &self,
        list: &LevelQuery,
        today: u32,
        candidates: Vec<u32>,
        skip: usize,
        take: usize,
    ) -> (usize, Vec<u32>) {
        let place = |slot: u32| {
            let level = self.arena.get(slot);
            self.matches(list, level).then(|| OrderKey::of(list.mode, level, slot, today))?
        };
        let mut places: Vec<OrderKey> = candidates.into_iter().filter_map(place).collect();
        let total = places.len();
        let until = skip.saturating_add(take);
        if until < total {
            places.select_nth_unstable_by(until, |one, other| other.cmp(one));
            places.truncate(until);
        }
        places.sort_unstable_by(|one, other| other.cmp(one));
        (total, places.into_iter().skip(skip).map(|place| place.slot).collect())
    }

    fn matches(&self, list: &LevelQuery, level: &Level) -> bool {
        let maker = self.maker(level);
        let is_friend = |friends: &Vec<String>| friends.iter().any(|friend| friend == maker);
        // Without a player, the candidates are already the friends' levels.
        let is_friends = list.player.is_none() || list.friends.as_ref().is_none_or(is_friend);
        (level.is_published() || list.all_states)
            && is_friends
            && list.source.as_deref().is_none_or(|source| source == &*level.source)
            && list.from_ms.is_none_or(|from| level.created_ms >= from)
            && list.to_ms.is_none_or(|to| level.created_ms < to)
            && list
                .filters
                .iter()
                .all(|(field, value)| level.fields.get(field.as_str()).is_some_and(|has| **has == **value))
    }

    fn check_bytes(&self, list: &LevelQuery, slots: &[u32]) -> Result<(), Refusal> {
        let levels = slots.iter().map(|slot| self.arena.get(*slot));
        let bytes = levels.map(|level| {
            let data = if list.data && !level.is_removed() { level.data.bytes } else { 0 };
            let thumb = level.thumb.filter(|_| list.thumbs).map_or(0, |thumb| thumb.bytes);
            u64::from(data) + u64::from(thumb)
        });
        let bytes: u64 = bytes.sum();
        if bytes <= PAGE_BYTES_MAX {
            return Ok(());
        }
        let detail = format!(
            "the page would have {bytes} bytes of data and thumbnails; the limit is {PAGE_BYTES_MAX}, so request fewer levels"
        );
        Err(Refusal::invalid("per_page", detail))
    }

    fn load_level(&self, level: &Level, data: bool, thumb: bool) -> Result<LoadedLevel, StoreError> {
        let read = |content| content::get_blob(&self.blobs, content);
        let data = if data && !level.is_removed() { Some(read(&level.data)?) } else { None };
        let thumb = level.thumb.as_ref().filter(|_| thumb).map(read).transpose()?;
        Ok(LoadedLevel { row: self.row(level), data, thumb })
    }

    /// Returns a level without its data and thumbnail.
    pub(super) fn row(&self, level: &Level) -> LevelRow {
        let all = level.votes.all();
        let fields = level.fields.iter().map(|(field, value)| (field.to_string(), value.to_string()));
        LevelRow {
            id: level.id.as_str().to_owned(),
            name: level.name.to_string(),
            player: self.maker(level).to_owned(),
            player_name: level.maker_name.to_string(),
            state: level.state,
            fields: fields.collect(),
            source: level.source.to_string(),
            created_at: rfc3339(level.created_ms),
            votes: all.votes,
            rating: all.mean(),
            score: all.score(),
            starts: level.counters.starts,
            wins: level.counters.wins,
            retries: level.counters.retries,
            quits: level.counters.quits,
            flags: level.counters.flags,
            window: None,
            thumb: None,
            data: None,
        }
    }

    fn maker(&self, level: &Level) -> &str {
        &self.contributors.get(level.maker).id
    }
}

impl LoadedLevel {
    fn in_window(mut self, mode: LevelMode, level: &Level, today: u32) -> LoadedLevel {
        let counts_all = matches!(mode, LevelMode::Popular | LevelMode::Newest);
        self.row.window = (!counts_all).then(|| RatingWindow::of(mode.tally(level, today)));
        self
    }
}
