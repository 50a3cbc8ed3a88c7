//! Which event names of a game have rows of their own; events with any other name count in `(other)`.
//!
//! A game has a limited number of places. A name keeps its place as long as it is used at least once in seven days. New
//! names take free places; once half of the places are taken, each address and each public key may add only a share of
//! them per day, so that no client can use up all of them. Beyond that, a new name that is used more often replaces the
//! least used one, first among those that are new today.
//!
//! The decision is stored with each event, so that applying the log gives the same rows again, whatever the limit is then.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use model::batch::KeyClass;
use model::limits::EVENT_NAMES_PER_GAME;
use model::ports::counters::{Counters, SlotSelector};
use model::query::is_event;
use model::series::{Cut, OTHER, Resolution};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use crate::catalog::{Access, address_group};

const DAY_MS: i64 = 24 * 3_600_000;
/// Days without use after which a name loses its place.
const KEPT_DAYS: i64 = 7;
/// The share of the places that one address may give to new names on one day, as a divisor.
const ADDRESS_SHARE: usize = 20;
/// The same for a public key.
const PUBLIC_KEY_SHARE: usize = 4;
/// An established name is replaced only by one that is used this many times as often.
const ESTABLISHED_FACTOR: u64 = 2;
/// Names without a place that are counted per game.
const CANDIDATES_MAX: usize = 1_000;

/// The event names of all games.
pub(super) struct EventNames {
    names_max: usize,
    games: RwLock<HashMap<u32, Arc<Mutex<GameNames>>>>,
}

/// The use of the places of a game.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventNamesUsage {
    /// The number of names that have a place.
    pub names: usize,
    /// The number of places.
    pub names_max: usize,
    /// The number of events without a place since the start of the process.
    pub without_place: u64,
}

impl EventNames {
    /// Each game has `names_max` places; 0 means the default.
    pub(super) fn new(names_max: u32) -> EventNames {
        let names_max = if names_max == 0 { EVENT_NAMES_PER_GAME } else { names_max };
        EventNames { names_max: names_max as usize, games: RwLock::default() }
    }

    /// Returns the use of a game's places.
    pub(super) fn usage(&self, counters: &dyn Counters, game: u32, now_ms: i64) -> EventNamesUsage {
        let game = self.game(counters, game, now_ms);
        let game = game.lock();
        EventNamesUsage {
            names: game.names.len(),
            names_max: self.names_max,
            without_place: game.without_place,
        }
    }

    /// Returns the names of a game today. Those that have rows in `counters` are known from the start.
    fn game(&self, counters: &dyn Counters, number: u32, now_ms: i64) -> Arc<Mutex<GameNames>> {
        let day = now_ms.div_euclid(DAY_MS);
        let existing = self.games.read().get(&number).cloned();
        let game = existing.unwrap_or_else(|| {
            let load = || Arc::new(Mutex::new(GameNames::load(counters, number, day, self.names_max)));
            Arc::clone(self.games.write().entry(number).or_insert_with(load))
        });
        game.lock().start_day(day);
        game
    }

    /// Returns the names for one batch.
    pub(super) fn of_batch(
        &self,
        counters: &dyn Counters,
        access: &Access,
        address: Option<IpAddr>,
        now_ms: i64,
    ) -> BatchNames {
        let game = self.game(counters, access.game.number, now_ms);
        let key = (access.class == KeyClass::Public).then(|| sender(("key", access.key)));
        let address = address.map(|address| sender(("address", address_group(address))));
        let budgets = Budgets {
            key: key.map(|key| (key, self.names_max / PUBLIC_KEY_SHARE)),
            address: address.map(|address| (address, self.names_max / ADDRESS_SHARE)),
        };
        BatchNames { game, budgets, names_max: self.names_max, decided: FxHashMap::default() }
    }
}

fn sender(id: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// The senders of a batch with the number of new names that each may add per day.
struct Budgets {
    key: Option<(u64, usize)>,
    address: Option<(u64, usize)>,
}

/// The names of one batch. Each is decided once.
pub(super) struct BatchNames {
    game: Arc<Mutex<GameNames>>,
    budgets: Budgets,
    names_max: usize,
    decided: FxHashMap<Box<[u8]>, DecidedName>,
}

struct DecidedName {
    has_place: bool,
    /// Uses that are not counted in the game yet.
    uses: u64,
}

impl BatchNames {
    /// Returns true if the name has rows of its own, and counts one use.
    #[inline]
    pub(super) fn has_place(&mut self, name: &[u8]) -> bool {
        if name.first() == Some(&b'$') || name == OTHER.as_bytes() {
            return true;
        }
        if let Some(decided) = self.decided.get_mut(name) {
            decided.uses += 1;
            return decided.has_place;
        }
        let has_place = self.game.lock().decide(name, &self.budgets, self.names_max);
        self.decided.insert(name.into(), DecidedName { has_place, uses: 0 });
        has_place
    }
}

impl Drop for BatchNames {
    /// Counts the repeated uses.
    fn drop(&mut self) {
        let repeated = self.decided.drain().filter(|(_, decided)| decided.uses > 0);
        let repeated: Vec<(Box<[u8]>, DecidedName)> = repeated.collect();
        if repeated.is_empty() {
            return;
        }
        let mut game = self.game.lock();
        repeated.iter().for_each(|(name, decided)| game.count(name, decided));
    }
}

/// The names of one game.
struct GameNames {
    /// Days since 1970.
    day: i64,
    names: HashMap<Box<[u8]>, Place>,
    /// Uses today of names without a place, never too high.
    candidates: HashMap<Box<[u8]>, u64>,
    /// The number of names that each sender added today within its share.
    added: HashMap<u64, usize>,
    /// The number of names that were replaced today, by address.
    replaced: HashMap<u64, usize>,
    replaced_count: usize,
    /// A lower bound of the uses of every name that could be replaced.
    least_uses: u64,
    without_place: u64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// The last day on which it was used.
    last_day: i64,
    /// It had the place before today.
    is_established: bool,
    /// Halved each day.
    uses: u64,
}

/// Returns the number of events of a name in these minutes.
fn count_of(counters: &dyn Counters, game: u32, name: &str, minutes: &Range<i64>) -> i64 {
    let select =
        SlotSelector { game, cut: Cut::Total, metric: name, values: None, resolution: Resolution::Hour };
    let (mut count, minute) = (0, |minute: i64| minute.max(0) as u32);
    let minutes = minute(minutes.start)..minute(minutes.end);
    // A store that fails counts as empty.
    let _ = counters.visit(select, minutes, &mut |_, _, cell| count += cell.count);
    count
}

impl GameNames {
    /// Loads the names that have rows in the last days. A store that fails counts as empty.
    fn load(counters: &dyn Counters, game: u32, day: i64, names_max: usize) -> GameNames {
        let names_of = |days: std::ops::Range<i64>| {
            let minute = |day: i64| (day * 24 * 60).max(0) as u32;
            let names = counters.metrics(game, minute(days.start)..minute(days.end)).unwrap_or_default();
            names.into_iter().filter(|name| is_event(name) && !name.starts_with('$') && name != OTHER)
        };
        let place = |name: String, is_established| {
            (name.into_bytes().into_boxed_slice(), Place { last_day: day, is_established, uses: 1 })
        };
        let mut before: Vec<String> = names_of(day - KEPT_DAYS..day).collect();
        if before.len() > names_max {
            // Names that were replaced have rows, too.
            let minutes = (day - KEPT_DAYS) * 24 * 60..day * 24 * 60;
            before.sort_by_cached_key(|name| Reverse(count_of(counters, game, name, &minutes)));
            before.truncate(names_max);
        }
        let before = before.into_iter().map(|name| place(name, true));
        let mut names: HashMap<Box<[u8]>, Place> = before.collect();
        for (name, place) in names_of(day..day + 1).map(|name| place(name, false)) {
            if names.len() < names_max {
                names.entry(name).or_insert(place);
            }
        }
        let (candidates, added, replaced) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (replaced_count, least_uses, without_place) = (0, 0, 0);
        GameNames { day, names, candidates, added, replaced, replaced_count, least_uses, without_place }
    }

    fn start_day(&mut self, day: i64) {
        if day == self.day {
            return;
        }
        self.day = day;
        self.names.retain(|_, place| (place.last_day - day).abs() <= KEPT_DAYS);
        for place in self.names.values_mut() {
            (place.is_established, place.uses) = (true, place.uses / 2);
        }
        self.candidates.clear();
        self.added.clear();
        self.replaced.clear();
        (self.replaced_count, self.least_uses) = (0, 0);
    }

    fn count(&mut self, name: &[u8], decided: &DecidedName) {
        if let Some(place) = self.names.get_mut(name) {
            place.uses += decided.uses;
        } else if let Some(uses) = self.candidates.get_mut(name) {
            *uses += decided.uses;
        }
        self.without_place += if decided.has_place { 0 } else { decided.uses };
    }

    /// Returns true if the name has a place or gets one, and counts one use.
    fn decide(&mut self, name: &[u8], budgets: &Budgets, names_max: usize) -> bool {
        if let Some(place) = self.names.get_mut(name) {
            (place.last_day, place.uses) = (self.day, place.uses + 1);
            return true;
        }
        let has_place = self.names.len() < names_max / 2
            || (self.names.len() < names_max && self.add_within(budgets))
            || self.replace_least_used(name, budgets, names_max);
        if !has_place {
            self.without_place += 1;
            return false;
        }
        let uses = self.candidates.remove(name).unwrap_or(0).max(1);
        self.least_uses = self.least_uses.min(uses);
        self.names.insert(name.into(), Place { last_day: self.day, is_established: false, uses });
        true
    }

    /// Counts a new name for its senders. Returns false if one of them has used up its share.
    fn add_within(&mut self, budgets: &Budgets) -> bool {
        let senders = || [budgets.key, budgets.address].into_iter().flatten();
        let is_within =
            senders().all(|(sender, max)| self.added.get(&sender).is_none_or(|added| *added < max));
        if is_within {
            senders().for_each(|(sender, _)| *self.added.entry(sender).or_default() += 1);
        }
        is_within
    }

    /// Counts a use of a name without a place. Frees the place of the least used name if this one is used more often.
    fn replace_least_used(&mut self, name: &[u8], budgets: &Budgets, names_max: usize) -> bool {
        let uses = self.count_candidate(name);
        // Each replaced name leaves rows behind, so that their number per day is limited, too.
        if uses <= self.least_uses || self.replaced_count >= names_max {
            return false;
        }
        let replaced = budgets.address.map(|(address, max)| (self.replaced.entry(address).or_default(), max));
        if replaced.as_ref().is_some_and(|(replaced, max)| **replaced >= *max) {
            return false;
        }
        let rank = |place: &Place| {
            let factor = if place.is_established { ESTABLISHED_FACTOR } else { 1 };
            (place.is_established, place.uses.saturating_mul(factor))
        };
        let Some((least, place)) = self.names.iter().min_by_key(|(_, place)| rank(place)) else {
            return false;
        };
        let (_, least_uses) = rank(place);
        self.least_uses = least_uses;
        if uses <= least_uses {
            return false;
        }
        let least = least.clone();
        self.names.remove(&least);
        replaced.into_iter().for_each(|(replaced, _)| *replaced += 1);
        self.replaced_count += 1;
        true
    }

    fn count_candidate(&mut self, name: &[u8]) -> u64 {
        if self.candidates.len() >= CANDIDATES_MAX && !self.candidates.contains_key(name) {
            self.candidates.retain(|_, uses| {
                *uses /= 2;
                *uses > 0
            });
        }
        if self.candidates.len() >= CANDIDATES_MAX && !self.candidates.contains_key(name) {
            return 1;
        }
        let uses = self.candidates.entry(name.into()).or_default();
        *uses += 1;
        *uses
    }
}

#[cfg(test)]
mod tests {
    use testkit::counters::{MemoryCounters, MemoryDisk};
    use testkit::events::{TestEvent, deltas_of};

    use super::*;
    use crate::catalog::Catalog;

    const DAY: i64 = 20_000;

    struct World {
        counters: MemoryCounters,
        names: EventNames,
        access: Access,
        day: i64,
    }

    impl World {
        fn new(names_max: u32) -> World {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let (_, initial) = Catalog::open(folder.path(), 0).expect("a new catalog");
            let access = Access::public(Arc::new(initial.expect("it is new").game));
            let counters = MemoryCounters::open(&MemoryDisk::default());
            World { counters, names: EventNames::new(names_max), access, day: DAY }
        }

        /// Sends each name in one batch from this address. Returns how many of them have a place.
        fn send(&self, address: u8, names: impl Iterator<Item = String>) -> usize {
            let address = Some(IpAddr::from([203, 0, 113, address]));
            let mut batch = self.names.of_batch(&self.counters, &self.access, address, self.day * DAY_MS);
            names.filter(|name| batch.has_place(name.as_bytes())).count()
        }

        fn usage(&self) -> EventNamesUsage {
            self.names.usage(&self.counters, self.access.game.number, self.day * DAY_MS)
        }

        fn send_many(&self, address: u8, name: &str, count: usize) -> usize {
            self.send(address, (0..count).map(|_| name.to_owned()))
        }
    }

    fn names(of: &str, count: usize) -> impl Iterator<Item = String> {
        (0..count).map(move |number| format!("{of}-{number}"))
    }

    #[test]
    fn one_address_leaves_room_for_the_names_of_others() {
        let world = World::new(1_000);
        assert_eq!(world.send(1, names("junk", 10_000)), 550);
        assert_eq!(world.send(2, names("honest", 40)), 40);
        assert_eq!(world.send(2, names("honest", 40)), 40, "they keep their places");
        let usage = world.usage();
        assert_eq!((usage.names, usage.without_place), (590, 9_450));
    }

    #[test]
    fn one_public_key_leaves_room_for_other_keys() {
        let mut world = World::new(1_000);
        let junk: usize = (0..200).map(|address| world.send(address, names(&address.to_string(), 50))).sum();
        assert_eq!(junk, 750);
        world.access = Access { key: 7, class: KeyClass::Secret, ..world.access };
        assert_eq!(world.send(0, names("server", 300)), 50, "an address is limited whatever the key");
        let mut batch = world.names.of_batch(&world.counters, &world.access, None, DAY * DAY_MS);
        assert_eq!(names("statsd", 300).filter(|name| batch.has_place(name.as_bytes())).count(), 200);
    }

    #[test]
    fn least_used_name_makes_room_for_one_that_is_used_more() {
        let world = World::new(100);
        for address in 0..150 {
            world.send(address, names(&format!("junk-{address}"), 1));
        }
        assert_eq!(world.usage().names, 75, "a public key has a quarter of the places");
        let mut world = world;
        world.access = Access { key: 7, class: KeyClass::Secret, ..world.access };
        (100..125)
            .for_each(|address| assert_eq!(world.send(address, names(&format!("own-{address}"), 1)), 1));
        assert_eq!(world.send_many(1, "own-100-0", 5), 5);
        assert_eq!(world.send(1, names("new", 1)), 0, "it is not used more often");
        assert_eq!(world.send(1, names("new", 1)), 1);
        assert_eq!(world.send_many(1, "own-100-0", 1), 1, "it is used often");
        assert_eq!(world.usage().names, 100);
    }

    #[test]
    fn established_name_keeps_its_place_among_new_ones() {
        let mut world = World::new(100);
        assert_eq!(world.send(1, names("game", 50)), 50);
        world.day += 1;
        for address in 0..200 {
            for _ in 0..3 {
                world.send(address, names(&format!("junk-{address}"), 2));
            }
        }
        assert_eq!(world.send(1, names("game", 50)), 50);
        world.day += KEPT_DAYS + 1;
        assert_eq!(world.send(2, names("later", 50)), 50, "unused names have lost their places");
    }

    #[test]
    fn after_a_restart_the_names_that_are_used_most_have_the_places() {
        let world = World::new(10);
        let of_yesterday = |name: &str, count: usize| {
            let minute = (DAY as u32 - 1) * 24 * 60;
            let line = format!("{minute} {name} a FR 1 1");
            vec![TestEvent { game: world.access.game.number, ..TestEvent::read(&line) }; count]
        };
        let mut events: Vec<TestEvent> =
            names("a-flood", 50).flat_map(|name| of_yesterday(&name, 1)).collect();
        events.extend(names("honest", 10).flat_map(|name| of_yesterday(&name, 2)));
        let deltas = deltas_of(&events, 0);
        world.counters.apply(0..events.len() as u64, &deltas).expect("memory does not fail");
        assert_eq!(world.send(1, names("honest", 10)), 10);
        assert_eq!(world.send(1, names("a-flood", 50)), 0);
    }

    #[test]
    fn server_names_have_no_limit() {
        let world = World::new(10);
        assert_eq!(world.send(1, names("$session", 100)), 100);
    }

    #[test]
    fn memory_is_bounded() {
        let world = World::new(100);
        for address in 0..=255 {
            world.send(address, names(&address.to_string(), 1_000));
        }
        let game = Arc::clone(&world.names.games.read()[&world.access.game.number]);
        let game = game.lock();
        assert!(
            game.names.len() <= 100 && game.candidates.len() <= CANDIDATES_MAX && game.added.len() <= 257
        );
        assert!(game.replaced.len() <= 256);
    }
}
