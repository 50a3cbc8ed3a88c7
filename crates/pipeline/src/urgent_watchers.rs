//! Urgent watchers: subscribers without a minimum interval, whose events are applied as soon as they are durable.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::interest::Interest;

/// The interests of all urgent watchers, by game.
#[derive(Default)]
pub struct UrgentWatchers {
    /// The number of interests. Mostly there is none, and then the map is not read.
    count: AtomicUsize,
    games: RwLock<HashMap<u32, WantedEvents>>,
}

#[derive(Default)]
struct WantedEvents {
    /// The number of interests in each event name.
    events: HashMap<String, usize>,
    /// The number of interests in all events.
    everything: usize,
}

impl UrgentWatchers {
    /// Returns true if an urgent watcher reads events of one of these names.
    pub fn wants<'a>(&self, game: u32, mut names: impl Iterator<Item = &'a str>) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let games = self.games.read();
        let Some(wanted) = games.get(&game) else { return false };
        wanted.everything > 0 || names.any(|name| wanted.events.contains_key(name))
    }

    /// Registers the interests of an urgent watcher.
    pub fn add(&self, game: u32, interests: &[Interest]) {
        let mut games = self.games.write();
        let wanted = games.entry(game).or_default();
        for interest in interests {
            match wanted_event(interest) {
                Some(name) => *wanted.events.entry(name.to_owned()).or_default() += 1,
                None => wanted.everything += 1,
            }
        }
        self.count.fetch_add(interests.len(), Ordering::Relaxed);
    }

    /// Removes the interests of an urgent watcher that were registered with [`UrgentWatchers::add`].
    pub fn remove(&self, game: u32, interests: &[Interest]) {
        let mut games = self.games.write();
        let Some(wanted) = games.get_mut(&game) else { return };
        for interest in interests {
            match wanted_event(interest).map(|name| wanted.events.get_mut(name)) {
                Some(count) => count.into_iter().for_each(|count| *count -= 1),
                None => wanted.everything -= 1,
            }
        }
        wanted.events.retain(|_, count| *count > 0);
        if wanted.events.is_empty() && wanted.everything == 0 {
            games.remove(&game);
        }
        self.count.fetch_sub(interests.len(), Ordering::Relaxed);
    }
}

/// Returns the event name that an interest reads; `None` means all events, of which the server's own metrics are made.
/// Interests in commands read no event, because commands are applied at once anyway.
fn wanted_event(interest: &Interest) -> Option<&str> {
    match interest {
        Interest::Metric(name) if !name.starts_with('$') => Some(name),
        Interest::Metric(_) | Interest::EveryEvent | Interest::Everything => None,
        Interest::Vars | Interest::Alerts | Interest::Board(_) | Interest::Feed(_) => Some(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_of_registered_interests_are_wanted() {
        let watchers = UrgentWatchers::default();
        let hit = [Interest::Metric("hit".into())];
        let wants = |game, name| watchers.wants(game, [name].into_iter());
        assert!(!wants(1, "hit"));
        watchers.add(1, &hit);
        watchers.add(1, &hit);
        watchers.add(2, &[Interest::Everything]);
        watchers.add(3, &[Interest::Vars]);
        assert_eq!(
            [wants(1, "hit"), wants(1, "miss"), wants(2, "any"), wants(3, "hit")],
            [true, false, true, false]
        );
        watchers.remove(1, &hit);
        assert!(wants(1, "hit"));
        watchers.remove(1, &hit);
        watchers.remove(2, &[Interest::Everything]);
        watchers.remove(3, &[Interest::Vars]);
        assert_eq!([wants(1, "hit"), wants(2, "any")], [false, false]);
        assert_eq!((watchers.count.into_inner(), watchers.games.into_inner().len()), (0, 0));
    }
}
