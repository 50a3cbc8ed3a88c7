//! The last events of each game with their outcomes.
//!
//! Samples are not events and are not shown.
//!
//! This is a preview for people, not a record: under load it shows a part of the events and counts the others.

use std::collections::{HashMap, VecDeque};

use model::batch::{Endpoint, StoredEvent};
use model::{Dimension, Outcome, Reject};
use parking_lot::Mutex;

/// Events kept per game.
const KEPT_MAX: usize = 50;
/// Events of one game that are added between two calls of [`RecentEvents::start_cycle`].
const PER_CYCLE_MAX: u32 = 25;

/// A recent event as people see it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecentEvent {
    /// The number of the event among those shown of the game.
    pub n: u64,
    /// The time of the event, in milliseconds since 1970.
    pub at_ms: i64,
    /// The name; empty if the event was rejected before it could be read.
    pub name: String,
    /// The player; empty if not known.
    pub player: String,
    /// The country; empty if not known.
    pub country: String,
    /// The platform; empty if not known.
    pub platform: String,
    /// The measured value.
    pub value: Option<f64>,
    /// The reason of a rejected event; `None` if it was accepted.
    pub reject: Option<Reject>,
    /// The endpoint at which the event arrived.
    pub endpoint: Endpoint,
}

impl RecentEvent {
    /// Returns the outcome of the event.
    pub fn outcome(&self) -> Outcome {
        self.reject.map_or(Outcome::Accepted, Reject::outcome)
    }
}

/// A rejected event, with the parts that were readable.
pub(crate) struct RejectedEvent {
    /// The time of receipt, in milliseconds since 1970.
    pub(crate) at_ms: i64,
    pub(crate) name: String,
    pub(crate) player: String,
    pub(crate) reject: Reject,
    pub(crate) endpoint: Endpoint,
}

/// The last events of every game.
#[derive(Default)]
pub struct RecentEvents {
    games: Mutex<HashMap<u32, GameEvents>>,
}

#[derive(Default)]
struct GameEvents {
    shown: VecDeque<RecentEvent>,
    count: u64,
    skipped: u64,
    erasures: u64,
    this_cycle: u32,
}

/// The recent events of one game.
#[derive(Debug, Default, PartialEq)]
pub struct RecentEventsView {
    /// The events, newest first.
    pub shown: Vec<RecentEvent>,
    /// The number of the newest event.
    pub until: u64,
    /// The number of events that were not shown, since the start.
    pub skipped: u64,
    /// The number of erasures that removed events, since the start.
    pub erasures: u64,
}

impl RecentEvents {
    /// Adds rejected events, as far as this cycle has room.
    pub(crate) fn add_rejected(&self, game: u32, events: impl Iterator<Item = RejectedEvent>) {
        let mut games = self.games.lock();
        let recent = games.entry(game).or_default();
        for event in events {
            recent.push(|n| RecentEvent {
                n,
                at_ms: event.at_ms,
                name: event.name,
                player: event.player,
                country: String::new(),
                platform: String::new(),
                value: None,
                reject: Some(event.reject),
                endpoint: event.endpoint,
            });
        }
    }

    /// Adds the first events of an accepted batch, as far as this cycle has room.
    pub(crate) fn add_accepted<'a>(
        &self,
        game: u32,
        endpoint: Endpoint,
        count: u32,
        events: impl Iterator<Item = StoredEvent<'a>>,
    ) {
        let mut games = self.games.lock();
        let recent = games.entry(game).or_default();
        let room = PER_CYCLE_MAX.saturating_sub(recent.this_cycle).min(count);
        recent.skipped += u64::from(count - room);
        for event in events.take(room as usize) {
            recent.push(|n| recent_event(n, endpoint, &event));
        }
    }

    /// Removes the events of a player, who is known by any of these ids.
    pub(crate) fn erase_player(&self, game: u32, ids: &[String]) {
        if let Some(recent) = self.games.lock().get_mut(&game) {
            recent.shown.retain(|shown| !ids.contains(&shown.player));
            recent.erasures += 1;
        }
    }

    /// Removes the events of a game.
    pub(crate) fn remove_game(&self, game: u32) {
        self.games.lock().remove(&game);
    }

    /// Starts a cycle, in which every game may add events again.
    pub fn start_cycle(&self) {
        self.games.lock().values_mut().for_each(|recent| recent.this_cycle = 0);
    }

    /// Returns the events after number `after`, newest first.
    pub fn view(&self, game: u32, after: u64) -> RecentEventsView {
        let games = self.games.lock();
        let Some(recent) = games.get(&game) else { return RecentEventsView::default() };
        let shown = recent.shown.iter().rev().take_while(|shown| shown.n > after).cloned().collect();
        RecentEventsView { shown, until: recent.count, skipped: recent.skipped, erasures: recent.erasures }
    }
}

impl GameEvents {
    fn push(&mut self, event: impl FnOnce(u64) -> RecentEvent) {
        if self.this_cycle >= PER_CYCLE_MAX {
            self.skipped += 1;
            return;
        }
        self.this_cycle += 1;
        self.count += 1;
        if self.shown.len() == KEPT_MAX {
            self.shown.pop_front();
        }
        self.shown.push_back(event(self.count));
    }
}

fn recent_event(n: u64, endpoint: Endpoint, event: &StoredEvent<'_>) -> RecentEvent {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    RecentEvent {
        n,
        at_ms: event.ts_ms,
        name: text(event.name),
        player: text(event.player),
        country: text(event.dimensions[Dimension::Country as usize]),
        platform: text(event.dimensions[Dimension::Platform as usize]),
        value: event.value,
        reject: None,
        endpoint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str) -> StoredEvent<'_> {
        StoredEvent { name: name.as_bytes(), ..StoredEvent::default() }
    }

    fn add(recent: &RecentEvents, names: &[&str]) {
        let events = names.iter().map(|name| event(name));
        recent.add_accepted(1, Endpoint::Events, names.len() as u32, events);
    }

    #[test]
    fn the_newest_event_comes_first() {
        let recent = RecentEvents::default();
        add(&recent, &["start", "score"]);
        let view = recent.view(1, 0);
        let names: Vec<&str> = view.shown.iter().map(|shown| shown.name.as_str()).collect();
        assert_eq!((names, view.until, view.skipped), (vec!["score", "start"], 2, 0));
        assert_eq!(recent.view(1, 1).shown.len(), 1);
    }

    #[test]
    fn events_of_an_erased_player_are_not_shown() {
        let recent = RecentEvents::default();
        let of = |player: &'static str| StoredEvent {
            name: b"score",
            player: player.as_bytes(),
            ..StoredEvent::default()
        };
        recent.add_accepted(1, Endpoint::Events, 3, ["bo", "cy", "anon"].map(of).into_iter());
        recent.erase_player(1, &["bo".to_owned(), "anon".to_owned()]);
        let view = recent.view(1, 0);
        assert_eq!((view.shown.len(), view.shown[0].player.as_str(), view.until), (1, "cy", 3));
    }

    #[test]
    fn events_that_are_not_shown_are_counted() {
        let recent = RecentEvents::default();
        add(&recent, &["score"; 100]);
        add(&recent, &["score"; 7]);
        assert_eq!((recent.view(1, 0).until, recent.view(1, 0).skipped), (25, 82));
        recent.start_cycle();
        add(&recent, &["score"; 3]);
        assert_eq!(recent.view(1, 0).until, 28);
    }

    #[test]
    fn memory_per_game_is_bounded() {
        let recent = RecentEvents::default();
        for _ in 0..10 {
            add(&recent, &["score"; 25]);
            recent.start_cycle();
        }
        assert_eq!(recent.view(1, 0).shown.len(), KEPT_MAX);
    }
}
