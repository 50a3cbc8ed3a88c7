//! Events with links between ids, folded in one go and in pieces.

use std::collections::{BTreeMap, BTreeSet};

use model::batch::{BatchBuilder, Endpoint, ErasureScope, KeyClass};
use model::identity::Identities;
use model::ports::counters::StoreError;
use model::ports::records::{RecordWrite, Records};
use model::rollup::{Aggregate, Distinct, hash_player};
use model::series::Cut;
use proptest::prelude::*;

use super::*;

const GAME: u32 = 3;
const SEED: u64 = 7;
const START_MS: i64 = 1_800_000_000_000;

/// Who did something, who `$identify` says that is, and how long after the event before, in seconds.
type Happened = (u8, Option<u8>, u32);

fn happened() -> impl Strategy<Value = Vec<Happened>> {
    let link = prop_oneof![3 => Just(None), 1 => (0..8u8).prop_map(Some)];
    prop::collection::vec((0..8u8, link, 0..900u32), 0..40)
}

fn name(id: u8) -> [u8; 1] {
    [b'a' + id]
}

/// One batch for each event.
fn log(happened: &[Happened]) -> Vec<Vec<u8>> {
    let mut at_ms = START_MS;
    let batch = |(id, link, after_s): &Happened| {
        at_ms += i64::from(*after_s) * 1000;
        let (id, link) = (name(*id), link.map(name));
        let event = match &link {
            Some(player) => {
                StoredEvent { name: b"$identify", player, anonymous: &id, ..StoredEvent::default() }
            }
            None => StoredEvent { name: b"hit", player: &id, ..StoredEvent::default() },
        };
        let mut batch = BatchBuilder::new(Endpoint::Events, KeyClass::Public, GAME, at_ms, 64);
        batch.push(&StoredEvent { ts_ms: at_ms, ..event });
        batch.finish(&[]).0
    };
    happened.iter().map(batch).collect()
}

/// Records without a disk.
#[derive(Default)]
struct Memory(BTreeMap<Vec<u8>, Vec<u8>>);

impl Records for Memory {
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(key).cloned())
    }

    fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        self.0.iter().filter(|(key, _)| key.starts_with(prefix)).for_each(|(key, value)| visit(key, value));
        Ok(())
    }
}

/// What folding has come to.
#[derive(Default)]
struct World {
    sessions: Sessions,
    identities: Identities,
    kept: Memory,
    rows: BTreeMap<(String, Cut, String, u32), Aggregate>,
    offset: u64,
}

impl World {
    /// Folds some batches into one set of additions.
    fn fold(&mut self, batches: &[Vec<u8>]) {
        let mut deltas = Deltas::default();
        for bytes in batches {
            let batch = EventBatch::read(bytes).expect("it was built a moment ago");
            let people = People { sessions: &mut self.sessions, identities: &self.identities, seed: SEED };
            deltas.set_offset(self.offset);
            fold_events(people, self.offset, &batch, &mut deltas, |_, _| {});
            self.offset += 1;
        }
        for row in deltas.rows() {
            let place = (row.metric.to_owned(), row.cut, row.value.to_owned(), row.minute);
            row.add_to(self.rows.entry(place).or_default());
        }
    }

    /// Ends and starts again from what is kept with a checkpoint.
    fn restart(&mut self) {
        for RecordWrite { key, value } in self.identities.changes() {
            self.kept.0.insert(key, value.expect("links are never removed"));
        }
        self.identities = Identities::restore(&self.kept).expect("it is whole");
        self.sessions = Sessions::restore(&self.sessions.snapshot()).expect("it is whole");
    }

    /// Players of all time, as a question counts them.
    fn players(&self) -> u64 {
        let links = self.identities.game(GAME);
        let who = |id: u64| links.as_ref().map_or(id, |links| links.player(id));
        let mut seen = Distinct::default();
        for id in (0..8).map(|id| hash_player(SEED, &name(id))) {
            let is_seen = self.rows.values().any(|cell| {
                let mut with = cell.players.clone();
                with.insert(id);
                with == cell.players
            });
            seen.extend(is_seen.then(|| who(id)));
        }
        seen.count()
    }
}

proptest! {
    #[test]
    fn cutting_the_log_changes_nothing_for_ids_that_are_linked(
        happened in happened(),
        cuts in prop::collection::vec(0..40usize, 0..4),
    ) {
        let log = log(&happened);
        let (mut whole, mut cut) = (World::default(), World::default());
        whole.fold(&log);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(log.len())).chain([log.len()]).collect();
        cuts.sort_unstable();
        for until in cuts {
            cut.fold(&log[cut.offset as usize..until]);
            cut.restart();
        }
        prop_assert_eq!(&cut.rows, &whole.rows);
        prop_assert_eq!(cut.sessions.snapshot(), whole.sessions.snapshot());
    }

    #[test]
    fn an_order_in_which_the_same_links_come_first_or_last_counts_the_same_players(happened in happened()) {
        let (links, hits): (Vec<Happened>, Vec<Happened>) = happened.iter().partition(|(_, link, _)| link.is_some());
        let fold = |parts: [&[Happened]; 2]| {
            let mut world = World::default();
            world.fold(&log(&parts.concat()));
            world.players()
        };
        prop_assert_eq!(fold([&links, &hits]), fold([&hits, &links]));
    }

    #[test]
    fn a_log_whose_start_is_gone_is_folded_with_the_links_of_that_start(happened in happened(), first in 0..40usize) {
        let log = log(&happened);
        let mut whole = World::default();
        whole.fold(&log);
        let first = first.min(log.len());
        let identities = whole.identities.before(first as u64);
        let mut again = World { identities, offset: first as u64, ..World::default() };
        again.fold(&log[first..]);
        let who_is_who = |world: &World| {
            let links = world.identities.game(GAME);
            let player = |id| links.as_ref().map_or(id, |links| links.player(id));
            (0..8).map(|id| player(hash_player(SEED, &name(id)))).collect::<Vec<_>>()
        };
        prop_assert_eq!(who_is_who(&again), who_is_who(&whole));
    }

    #[test]
    fn a_log_that_has_forgotten_a_player_is_folded_as_before(happened in happened(), forgotten in 0..8u8) {
        let mut ids = BTreeSet::from([forgotten]);
        for _ in 0..8 {
            let links = happened.iter().filter_map(|(id, link, _)| Some([*id, (*link)?]));
            ids.extend(links.filter(|link| link.iter().any(|id| ids.contains(id))).flatten().collect::<Vec<_>>());
        }
        let is_forgotten = |event: &StoredEvent| ids.iter().any(|id| event.player == name(*id));
        let gone = |event: &StoredEvent| if is_forgotten(event) { ErasureScope::Player } else { ErasureScope::None };
        let log = log(&happened);
        let erase = |bytes: &Vec<u8>| EventBatch::read(bytes).expect("a batch").erase(SEED, gone, |_| None);
        let erased: Vec<Vec<u8>> = log.iter().map(erase).collect();
        let (mut whole, mut again) = (World::default(), World::default());
        whole.fold(&log);
        again.fold(&erased);
        prop_assert_eq!(&again.rows, &whole.rows);
        prop_assert_eq!(again.sessions.snapshot(), whole.sessions.snapshot());
        prop_assert_eq!(again.players(), whole.players());
        let sizes = |log: &[Vec<u8>]| log.iter().map(|it| EventBatch::read(it).expect("a batch").bytes).collect::<Vec<_>>();
        prop_assert_eq!(sizes(&erased), sizes(&log));
    }
}
