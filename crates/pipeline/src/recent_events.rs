//! The last events of each game as they came, with what became of them.
//!
//! A window for people, not a record: under load it shows some of the events and says how many it did not show.

use std::collections::{HashMap, VecDeque};

use model::batch::{Endpoint, StoredEvent};
use model::{Dimension, Outcome, Reject};
use parking_lot::Mutex;

/// Events kept per game.
pub const KEPT_MAX: usize = 50;
/// Events of one game that are taken up between two calls of [`Inspector::next_cycle`].
const PER_CYCLE_MAX: u32 = 25;

/// One event as people see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Counts the shown events of the game.
    pub n: u64,
    /// When it happened, milliseconds since 1970.
    pub at_ms: i64,
    /// Its name; empty when the event was refused before it had one.
    pub name: String,
    /// Empty: not known.
    pub player: String,
    /// Empty: not known.
    pub country: String,
    /// Empty: not known.
    pub platform: String,
    /// The measured value.
    pub value: Option<f64>,
    /// Why it was refused; `None`: accepted.
    pub reject: Option<Reject>,
    /// The door it came through.
    pub endpoint: Endpoint,
}

impl Shown {
    /// What became of it.
    pub fn outcome(&self) -> Outcome {
        self.reject.map_or(Outcome::Accepted, Reject::outcome)
    }
}

/// A refused event.
pub struct Refusal {
    /// When its request was received.
    pub at_ms: i64,
    /// As far as it was readable.
    pub name: String,
    /// As far as it was readable.
    pub player: String,
    /// Why.
    pub reject: Reject,
    /// The door it came through.
    pub endpoint: Endpoint,
}

/// The last events of every game.
#[derive(Default)]
pub struct Inspector {
    games: Mutex<HashMap<u32, Recent>>,
}

#[derive(Default)]
struct Recent {
    shown: VecDeque<Shown>,
    count: u64,
    skipped: u64,
    forgotten: u64,
    this_cycle: u32,
}

/// What there is to see of one game.
#[derive(Debug, Default, PartialEq)]
pub struct View {
    /// Newest first.
    pub shown: Vec<Shown>,
    /// The number of the newest.
    pub until: u64,
    /// Events that were not shown, since the start.
    pub skipped: u64,
    /// How often events were taken back, since the start.
    pub forgotten: u64,
}

impl Inspector {
    /// Shows events that were refused.
    pub fn refused(&self, game: u32, refusals: impl Iterator<Item = Refusal>) {
        let mut games = self.games.lock();
        let recent = games.entry(game).or_default();
        for refusal in refusals {
            recent.push(|n| Shown {
                n,
                at_ms: refusal.at_ms,
                name: refusal.name,
                player: refusal.player,
                country: String::new(),
                platform: String::new(),
                value: None,
                reject: Some(refusal.reject),
                endpoint: refusal.endpoint,
            });
        }
    }

    /// Shows the first events of an accepted batch, as far as this cycle has room.
    pub fn accepted<'a>(
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
            recent.push(|n| shown(n, endpoint, &event));
        }
    }

    /// Shows nothing more of a player, under any of these ids.
    pub fn forget(&self, game: u32, ids: &[String]) {
        if let Some(recent) = self.games.lock().get_mut(&game) {
            recent.shown.retain(|shown| !ids.contains(&shown.player));
            recent.forgotten += 1;
        }
    }

    /// Lets every game show events again.
    pub fn next_cycle(&self) {
        self.games.lock().values_mut().for_each(|recent| recent.this_cycle = 0);
    }

    /// The events after number `after`, newest first.
    pub fn view(&self, game: u32, after: u64) -> View {
        let games = self.games.lock();
        let Some(recent) = games.get(&game) else { return View::default() };
        let shown = recent.shown.iter().rev().take_while(|shown| shown.n > after).cloned().collect();
        View { shown, until: recent.count, skipped: recent.skipped, forgotten: recent.forgotten }
    }
}

impl Recent {
    fn push(&mut self, shown: impl FnOnce(u64) -> Shown) {
        if self.this_cycle >= PER_CYCLE_MAX {
            self.skipped += 1;
            return;
        }
        self.this_cycle += 1;
        self.count += 1;
        if self.shown.len() == KEPT_MAX {
            self.shown.pop_front();
        }
        self.shown.push_back(shown(self.count));
    }
}

fn shown(n: u64, endpoint: Endpoint, event: &StoredEvent<'_>) -> Shown {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Shown {
        n,
        at_ms: event.ts_ms,
        name: text(event.name),
        player: text(event.player),
        country: text(event.dimensions[Dimension::Country as usize]),
        platform: text(event.dimensions[Dimension::Platform as usize]),
        value: event.value.or_else(|| sum(event)),
        reject: None,
        endpoint,
    }
}

/// Of samples: what their values come to.
fn sum(event: &StoredEvent<'_>) -> Option<f64> {
    let cell = event.samples?.aggregate().ok()?;
    cell.values.map(|values| values.sum.value())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str) -> StoredEvent<'_> {
        StoredEvent { name: name.as_bytes(), ..StoredEvent::default() }
    }

    fn take(inspector: &Inspector, names: &[&str]) {
        let events = names.iter().map(|name| event(name));
        inspector.accepted(1, Endpoint::Events, names.len() as u32, events);
    }

    #[test]
    fn the_newest_event_comes_first() {
        let inspector = Inspector::default();
        take(&inspector, &["start", "score"]);
        let view = inspector.view(1, 0);
        let names: Vec<&str> = view.shown.iter().map(|shown| shown.name.as_str()).collect();
        assert_eq!((names, view.until, view.skipped), (vec!["score", "start"], 2, 0));
        assert_eq!(inspector.view(1, 1).shown.len(), 1);
    }

    #[test]
    fn a_forgotten_player_is_not_shown() {
        let inspector = Inspector::default();
        let of = |player: &'static str| StoredEvent {
            name: b"score",
            player: player.as_bytes(),
            ..StoredEvent::default()
        };
        inspector.accepted(1, Endpoint::Events, 3, ["bo", "cy", "anon"].map(of).into_iter());
        inspector.forget(1, &["bo".to_owned(), "anon".to_owned()]);
        let view = inspector.view(1, 0);
        assert_eq!((view.shown.len(), view.shown[0].player.as_str(), view.until), (1, "cy", 3));
    }

    #[test]
    fn what_is_not_shown_is_counted() {
        let inspector = Inspector::default();
        take(&inspector, &["score"; 100]);
        take(&inspector, &["score"; 7]);
        assert_eq!((inspector.view(1, 0).until, inspector.view(1, 0).skipped), (25, 82));
        inspector.next_cycle();
        take(&inspector, &["score"; 3]);
        assert_eq!(inspector.view(1, 0).until, 28);
    }

    #[test]
    fn memory_per_game_is_bounded() {
        let inspector = Inspector::default();
        for _ in 0..10 {
            take(&inspector, &["score"; 25]);
            inspector.next_cycle();
        }
        assert_eq!(inspector.view(1, 0).shown.len(), KEPT_MAX);
    }
}
