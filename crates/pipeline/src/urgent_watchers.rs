//! Who wants to be told at once: what they read is applied as soon as it is durable.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::interest::Interest;

/// What is watched without an interval, by game.
#[derive(Default)]
pub struct UrgentWatchers {
    /// How many routes there are: mostly none, and then nobody looks further.
    count: AtomicUsize,
    games: RwLock<HashMap<u32, Wanted>>,
}

#[derive(Default)]
struct Wanted {
    /// Events of these names, and how many want each.
    events: HashMap<String, usize>,
    /// How many want whatever comes.
    everything: usize,
}

impl UrgentWatchers {
    /// Whether somebody waits for events of one of these names.
    pub fn wants<'a>(&self, game: u32, mut names: impl Iterator<Item = &'a str>) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let games = self.games.read();
        let Some(wanted) = games.get(&game) else { return false };
        wanted.everything > 0 || names.any(|name| wanted.events.contains_key(name))
    }

    /// Registers the interests of an urgent watcher.
    pub fn add(&self, game: u32, routes: &[Interest]) {
        let mut games = self.games.write();
        let wanted = games.entry(game).or_default();
        for route in routes {
            match wanted_event(route) {
                Some(name) => *wanted.events.entry(name.to_owned()).or_default() += 1,
                None => wanted.everything += 1,
            }
        }
        self.count.fetch_add(routes.len(), Ordering::Relaxed);
    }

    /// Removes the interests of an urgent watcher that were registered with [`UrgentWatchers::add`].
    pub fn remove(&self, game: u32, routes: &[Interest]) {
        let mut games = self.games.write();
        let Some(wanted) = games.get_mut(&game) else { return };
        for route in routes {
            match wanted_event(route).map(|name| wanted.events.get_mut(name)) {
                Some(count) => count.into_iter().for_each(|count| *count -= 1),
                None => wanted.everything -= 1,
            }
        }
        wanted.events.retain(|_, count| *count > 0);
        if wanted.events.is_empty() && wanted.everything == 0 {
            games.remove(&game);
        }
        self.count.fetch_sub(routes.len(), Ordering::Relaxed);
    }
}

/// The event that a route waits for. The server's own metrics are made of any event; commands are applied at once anyway,
/// and wait for none.
fn wanted_event(route: &Interest) -> Option<&str> {
    match route {
        Interest::Metric(name) if !name.starts_with('$') => Some(name),
        Interest::Metric(_) | Interest::EveryEvent | Interest::Everything => None,
        Interest::Vars | Interest::Board(_) | Interest::Feed(_) => Some(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_somebody_waits_for_is_wanted() {
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
