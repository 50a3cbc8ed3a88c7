//! Who wants to be told at once: what they read is applied as soon as it is durable.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

use super::routes::Route;

/// What is watched without an interval, by game.
#[derive(Default)]
pub struct Eager {
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

impl Eager {
    /// Whether somebody waits for events of one of these names.
    pub fn wants<'a>(&self, game: u32, mut names: impl Iterator<Item = &'a str>) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let games = self.games.read();
        let Some(wanted) = games.get(&game) else { return false };
        wanted.everything > 0 || names.any(|name| wanted.events.contains_key(name))
    }

    pub(super) fn add(&self, game: u32, routes: &[Route]) {
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

    pub(super) fn remove(&self, game: u32, routes: &[Route]) {
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
fn wanted_event(route: &Route) -> Option<&str> {
    match route {
        Route::Metric(name) if !name.starts_with('$') => Some(name),
        Route::Metric(_) | Route::EveryEvent | Route::Everything => None,
        Route::Vars | Route::Board(_) | Route::Feed(_) => Some(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_somebody_waits_for_is_wanted() {
        let eager = Eager::default();
        let hit = [Route::Metric("hit".into())];
        let wants = |game, name| eager.wants(game, [name].into_iter());
        assert!(!wants(1, "hit"));
        eager.add(1, &hit);
        eager.add(1, &hit);
        eager.add(2, &[Route::Everything]);
        eager.add(3, &[Route::Vars]);
        assert_eq!(
            [wants(1, "hit"), wants(1, "miss"), wants(2, "any"), wants(3, "hit")],
            [true, false, true, false]
        );
        eager.remove(1, &hit);
        assert!(wants(1, "hit"));
        eager.remove(1, &hit);
        eager.remove(2, &[Route::Everything]);
        eager.remove(3, &[Route::Vars]);
        assert_eq!([wants(1, "hit"), wants(2, "any")], [false, false]);
        assert_eq!((eager.count.into_inner(), eager.games.into_inner().len()), (0, 0));
    }
}
