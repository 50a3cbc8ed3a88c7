//! Reading levels: one, or a page of many.

use std::collections::BTreeMap;

use model::ports::counters::StoreError;
use serde::Serialize;

use super::Levels;
use super::content::{self, Unread};
use super::days::{day, rfc3339};
use super::level::{Level, State};
use super::orders::{Mode, Place};
use super::votes::Tally;
use crate::Refusal;

/// Data and pictures of one page, not compressed.
pub const PAGE_BYTES_MAX: u64 = 8 << 20;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// Sees what is published.
    Anybody,
    /// Sees their own drafts and removed levels as well.
    Player(String),
    /// A moderator or the game's own server sees those of everybody.
    Moderator,
}

impl Viewer {
    fn sees_all_of(&self, player: &str) -> bool {
        match self {
            Viewer::Anybody => false,
            Viewer::Player(id) => id == player,
            Viewer::Moderator => true,
        }
    }
}

/// Which levels, in which order. All conditions must hold.
#[derive(Clone, Debug)]
pub struct List {
    /// The order.
    pub mode: Mode,
    /// Fields that must have these values; a level may have others beside them.
    pub filters: Vec<(String, String)>,
    /// Made by one of these.
    pub friends: Option<Vec<String>>,
    /// Made by this player.
    pub player: Option<String>,
    /// The player's drafts and removed levels as well, for those who may see them.
    pub all_states: bool,
    /// From this source.
    pub source: Option<String>,
    /// Made at or after this time, milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Made before this time.
    pub to_ms: Option<i64>,
    /// Counted from 1.
    pub page: u64,
    /// Levels a page.
    pub per_page: u64,
    /// With their data.
    pub data: bool,
    /// With their pictures.
    pub thumbs: bool,
    /// Who asks.
    pub viewer: Viewer,
}

impl List {
    /// Published levels in this order, without data.
    pub fn of(mode: Mode) -> List {
        List {
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
            viewer: Viewer::Anybody,
        }
    }

    fn check_states(&self) -> Result<(), Refusal> {
        if !self.all_states {
            return Ok(());
        }
        let Some(player) = &self.player else {
            return Err(Refusal::invalid("state", "all states are listed of one player"));
        };
        if self.viewer.sees_all_of(player) {
            return Ok(());
        }
        Err(Refusal::forbidden("only the player and moderators see drafts and removed levels"))
    }
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// How many levels there are on all pages.
    pub total: usize,
    /// Those of this page.
    pub levels: Vec<Found>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// It would be too large.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A level as answers have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its id, 12 letters and digits.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Who made it.
    pub player: String,
    /// The maker's name as others see it.
    pub player_name: String,
    /// Who sees it.
    pub state: State,
    /// What lists can be filtered by.
    pub fields: BTreeMap<String, String>,
    /// Where it was made; may be empty.
    pub source: String,
    /// When it was made.
    pub created_at: String,
    /// How many players rated it.
    pub votes: u32,
    /// The mean of all votes; null without votes.
    pub rating: Option<f64>,
    /// The Bayesian average of all votes.
    pub score: f64,
    /// How often it was started.
    pub starts: u64,
    /// How often it was won.
    pub wins: u64,
    /// How often it was tried again.
    pub retries: u64,
    /// How often it was left.
    pub quits: u64,
    /// How often it was flagged.
    pub flags: u64,
    /// The votes by which the list is ordered, in a mode that does not count all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Its picture, a data URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thumb: Option<String>,
    /// Its data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

/// Some of a level's votes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Window {
    /// How many.
    pub votes: u32,
    /// Their mean; null without votes.
    pub rating: Option<f64>,
    /// Their Bayesian average.
    pub score: f64,
}

impl Window {
    fn of(tally: Tally) -> Window {
        Window { votes: tally.votes, rating: tally.mean(), score: tally.score() }
    }
}

/// A level that was found, what is large in it not yet decompressed.
#[derive(Clone, Debug)]
pub struct Found {
    row: Row,
    data: Option<Unread>,
    thumb: Option<Unread>,
}

impl Found {
    /// What there is to decompress, in bytes of text.
    pub fn bytes(&self) -> usize {
        self.data.iter().chain(&self.thumb).map(Unread::bytes).sum()
    }

    /// The level for an answer. Takes some milliseconds for large data, so call it without a lock.
    pub fn row(self) -> Result<Row, StoreError> {
        let text = |unread: Option<Unread>| unread.map(|unread| unread.text()).transpose();
        Ok(Row { data: text(self.data)?, thumb: text(self.thumb)?, ..self.row })
    }
}

impl Levels {
    /// The level of this id with all it has, if the viewer may see it.
    pub fn load(&self, id: &str, viewer: &Viewer) -> Result<Option<Found>, StoreError> {
        let Some(level) = self.shelf.slot(id.as_bytes()).map(|slot| self.shelf.get(slot)) else {
            return Ok(None);
        };
        if !level.is_published() && !viewer.sees_all_of(self.maker(level)) {
            return Ok(None);
        }
        self.found(level, true, true).map(Some)
    }

    /// A page of levels and how many there are on all pages, both exact.
    ///
    /// Without conditions it costs what lies before the page: 15 us for the first one, 3 ms for the last one of
    /// 100,000 levels. With conditions it costs about 0.3 us for each level that meets the rarest of them.
    pub fn list(&self, list: &List, now_ms: i64, tz: &str) -> Result<Page, ListError> {
        list.check_states()?;
        let today = day(now_ms, tz);
        let take = list.per_page as usize;
        let skip = usize::try_from(list.page.saturating_sub(1).saturating_mul(list.per_page));
        let skip = skip.unwrap_or(usize::MAX);
        let (total, slots) = match self.candidates(list) {
            None => self.orders.page(list.mode, today, &self.shelf, skip, take),
            Some(candidates) => self.pick(list, today, candidates, skip, take),
        };
        self.check_bytes(list, &slots)?;
        let found = slots.into_iter().map(|slot| {
            let level = self.shelf.get(slot);
            let found = self.found(level, list.data, list.thumbs)?;
            Ok(found.in_window(list.mode, level, today))
        });
        Ok(Page { total, levels: found.collect::<Result<_, StoreError>>()? })
    }

    /// The slots among which all that meet the conditions are; nothing without a condition.
    fn candidates(&self, list: &List) -> Option<Vec<u32>> {
        let of = |id: &str| self.people.find(id).map_or(&[][..], |person| &person.levels);
        if let Some(player) = &list.player {
            return Some(of(player).to_vec());
        }
        if let Some(friends) = &list.friends {
            let mut slots: Vec<u32> = friends.iter().flat_map(|friend| of(friend)).copied().collect();
            slots.sort_unstable();
            slots.dedup();
            return Some(slots);
        }
        if let Some(slots) = self.postings.rarest(&list.filters, list.source.as_deref()) {
            return Some(slots.to_vec());
        }
        let dated = list.from_ms.is_some() || list.to_ms.is_some();
        dated.then(|| self.orders.made_between(list.from_ms.unwrap_or(0), list.to_ms.unwrap_or(i64::MAX)))
    }

    fn pick(
        &self,
        list: &List,
        today: u32,
        candidates: Vec<u32>,
        skip: usize,
        take: usize,
    ) -> (usize, Vec<u32>) {
        let place = |slot: u32| {
            let level = self.shelf.get(slot);
            self.meets(list, level).then(|| Place::of(list.mode, level, slot, today))?
        };
        let mut places: Vec<Place> = candidates.into_iter().filter_map(place).collect();
        let total = places.len();
        let until = skip.saturating_add(take);
        if until < total {
            places.select_nth_unstable_by(until, |one, other| other.cmp(one));
            places.truncate(until);
        }
        places.sort_unstable_by(|one, other| other.cmp(one));
        (total, places.into_iter().skip(skip).map(|place| place.slot).collect())
    }

    fn meets(&self, list: &List, level: &Level) -> bool {
        let maker = self.maker(level);
        let is_friend = |friends: &Vec<String>| friends.iter().any(|friend| friend == maker);
        // Without a player the candidates are the friends' levels already.
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

    fn check_bytes(&self, list: &List, slots: &[u32]) -> Result<(), Refusal> {
        let levels = slots.iter().map(|slot| self.shelf.get(*slot));
        let bytes = levels.map(|level| {
            let data = if list.data && !level.is_removed() { level.data.bytes } else { 0 };
            let thumb = level.thumb.filter(|_| list.thumbs).map_or(0, |thumb| thumb.bytes);
            u64::from(data) + u64::from(thumb)
        });
        let bytes: u64 = bytes.sum();
        if bytes <= PAGE_BYTES_MAX {
            return Ok(());
        }
        let detail =
            format!("this page would have {bytes} bytes of data and pictures, at most {PAGE_BYTES_MAX} go");
        Err(Refusal::invalid("per_page", detail))
    }

    fn found(&self, level: &Level, data: bool, thumb: bool) -> Result<Found, StoreError> {
        let read = |content| content::read(&self.blobs, content);
        let data = if data && !level.is_removed() { Some(read(&level.data)?) } else { None };
        let thumb = level.thumb.as_ref().filter(|_| thumb).map(read).transpose()?;
        Ok(Found { row: self.row(level), data, thumb })
    }

    /// A level without its data and its picture.
    pub(super) fn row(&self, level: &Level) -> Row {
        let all = level.votes.all();
        let fields = level.fields.iter().map(|(field, value)| (field.to_string(), value.to_string()));
        Row {
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
        &self.people.get(level.maker).id
    }
}

impl Found {
    fn in_window(mut self, mode: Mode, level: &Level, today: u32) -> Found {
        let counts_all = matches!(mode, Mode::Popular | Mode::Newest);
        self.row.window = (!counts_all).then(|| Window::of(mode.tally(level, today)));
        self
    }
}
