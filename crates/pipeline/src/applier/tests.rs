//! Applying events with identity links, in one go and in pieces; catching up with a long log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use model::batch::{BatchBuilder, Endpoint, ErasureScope, KeyClass};
use model::deltas::DeltaRow;
use model::identity::Identities;
use model::ports::counters::StoreError;
use model::ports::records::{RecordWrite, Records};
use model::rollup::{Aggregate, Distinct, hash_player};
use model::series::Cut;
use proptest::prelude::*;
use testkit::counters::{MemoryCounters, MemoryDisk};

use super::*;

const GAME: u32 = 3;
const SEED: u64 = 7;
const START_MS: i64 = 1_800_000_000_000;

/// The id of an event, the player that `$identify` links it to, and the seconds since the previous event.
type TestEvent = (u8, Option<u8>, u32);

fn events() -> impl Strategy<Value = Vec<TestEvent>> {
    let link = prop_oneof![3 => Just(None), 1 => (0..8u8).prop_map(Some)];
    prop::collection::vec((0..8u8, link, 0..900u32), 0..40)
}

fn name(id: u8) -> [u8; 1] {
    [b'a' + id]
}

/// Encodes one batch for each event.
fn log(events: &[TestEvent]) -> Vec<Vec<u8>> {
    let mut at_ms = START_MS;
    let batch = |(id, link, after_s): &TestEvent| {
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
    events.iter().map(batch).collect()
}

/// Records in memory.
#[derive(Default)]
struct MemoryRecords(BTreeMap<Vec<u8>, Vec<u8>>);

impl Records for MemoryRecords {
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(key).cloned())
    }

    fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        self.0.iter().filter(|(key, _)| key.starts_with(prefix)).for_each(|(key, value)| visit(key, value));
        Ok(())
    }
}

/// The views to which batches are applied.
#[derive(Default)]
struct World {
    sessions: Sessions,
    identities: Identities,
    records: MemoryRecords,
    rows: BTreeMap<(String, Cut, String, u32), Aggregate>,
    offset: u64,
}

impl World {
    /// Applies some batches as one set of deltas.
    fn apply(&mut self, batches: &[Vec<u8>]) {
        let mut deltas = Deltas::default();
        for bytes in batches {
            let batch = EventBatch::read(bytes).expect("it was built a moment ago");
            let views =
                PlayerViews { sessions: &mut self.sessions, identities: &self.identities, seed: SEED };
            deltas.set_offset(self.offset);
            let (offset, time_ms) = (self.offset, batch.received_ms as u64);
            let entry = EntryRef { offset, kind: BATCH, events: 1, time_ms, bytes };
            apply_events(views, &entry, &batch, &mut deltas, |_, _| {});
            self.offset += 1;
        }
        for row in deltas.rows() {
            let place = (row.metric.to_owned(), row.cut, row.value.to_owned(), row.minute);
            row.add_to(self.rows.entry(place).or_default());
        }
    }

    /// Restarts from a checkpoint.
    fn restart(&mut self) {
        for RecordWrite { key, value } in self.identities.changes() {
            self.records.0.insert(key, value.expect("links are never removed"));
        }
        self.identities = Identities::restore(&self.records).expect("it is whole");
        self.sessions = Sessions::restore(&self.sessions.snapshot()).expect("it is whole");
    }

    /// Counts the players of all time as a query does.
    fn players(&self) -> u64 {
        let links = self.identities.game(GAME);
        let player = |id: u64| links.as_ref().map_or(id, |links| links.player(id));
        let mut seen = Distinct::default();
        for id in (0..8).map(|id| hash_player(SEED, &name(id))) {
            let is_seen = self.rows.values().any(|cell| {
                let mut with = cell.players.clone();
                with.insert(id);
                with == cell.players
            });
            seen.extend(is_seen.then(|| player(id)));
        }
        seen.count()
    }
}

proptest! {
    #[test]
    fn cutting_the_log_changes_nothing_for_linked_ids(
        events in events(),
        cuts in prop::collection::vec(0..40usize, 0..4),
    ) {
        let log = log(&events);
        let (mut whole, mut cut) = (World::default(), World::default());
        whole.apply(&log);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(log.len())).chain([log.len()]).collect();
        cuts.sort_unstable();
        for until in cuts {
            cut.apply(&log[cut.offset as usize..until]);
            cut.restart();
        }
        prop_assert_eq!(&cut.rows, &whole.rows);
        prop_assert_eq!(&cut.sessions, &whole.sessions);
    }

    #[test]
    fn links_before_or_after_the_events_count_the_same_players(events in events()) {
        let (links, hits): (Vec<TestEvent>, Vec<TestEvent>) = events.iter().partition(|(_, link, _)| link.is_some());
        let players = |parts: [&[TestEvent]; 2]| {
            let mut world = World::default();
            world.apply(&log(&parts.concat()));
            world.players()
        };
        prop_assert_eq!(players([&links, &hits]), players([&hits, &links]));
    }

    #[test]
    fn a_log_without_its_start_is_applied_with_the_links_of_that_start(events in events(), first in 0..40usize) {
        let log = log(&events);
        let mut whole = World::default();
        whole.apply(&log);
        let first = first.min(log.len());
        let identities = whole.identities.before(first as u64);
        let mut again = World { identities, offset: first as u64, ..World::default() };
        again.apply(&log[first..]);
        let players = |world: &World| {
            let links = world.identities.game(GAME);
            let player = |id| links.as_ref().map_or(id, |links| links.player(id));
            (0..8).map(|id| player(hash_player(SEED, &name(id)))).collect::<Vec<_>>()
        };
        prop_assert_eq!(players(&again), players(&whole));
    }

    #[test]
    fn a_log_with_an_erased_player_gives_the_same_rollups(events in events(), erased_id in 0..8u8) {
        let mut ids = BTreeSet::from([erased_id]);
        for _ in 0..8 {
            let links = events.iter().filter_map(|(id, link, _)| Some([*id, (*link)?]));
            ids.extend(links.filter(|link| link.iter().any(|id| ids.contains(id))).flatten().collect::<Vec<_>>());
        }
        let is_erased = |event: &StoredEvent| ids.iter().any(|id| event.player == name(*id));
        let scope = |event: &StoredEvent| if is_erased(event) { ErasureScope::Player } else { ErasureScope::None };
        let log = log(&events);
        let erase = |bytes: &Vec<u8>| EventBatch::read(bytes).expect("a batch").erase(SEED, scope, |_| None);
        let erased: Vec<Vec<u8>> = log.iter().map(erase).collect();
        let (mut whole, mut again) = (World::default(), World::default());
        whole.apply(&log);
        again.apply(&erased);
        prop_assert_eq!(&again.rows, &whole.rows);
        prop_assert_eq!(&again.sessions, &whole.sessions);
        prop_assert_eq!(again.players(), whole.players());
        let sizes = |log: &[Vec<u8>]| log.iter().map(|it| EventBatch::read(it).expect("a batch").bytes).collect::<Vec<_>>();
        prop_assert_eq!(sizes(&erased), sizes(&log));
    }
}

/// The views of a log in memory.
fn open_views(wal: &Wal<Claims>) -> (Arc<Views>, Applier) {
    let counters = Arc::new(MemoryCounters::open(&MemoryDisk::default()));
    let views = Arc::new(Views::open(counters, "secret").expect("an empty store is readable"));
    let applier = Applier::new(Path::new("data"), wal.clone(), Arc::clone(&views), Arc::default());
    (views, applier)
}

/// Opens a log and appends batches of one event, each in its own commit.
fn log_with(batches: u64) -> Wal<Claims> {
    let options = wal::Options { clock: Arc::new(|| 0), free_bytes_min: 0, ..wal::Options::default() };
    let opened = Wal::<Claims>::open(Arc::new(wal::sim::SimDisk::new(1)), Path::new("log"), options);
    let (log, mut committer, _) = opened.expect("the log opens").into_parts(Box::new(wal::AcceptAll));
    let events: Vec<TestEvent> = (0..batches).map(|n| ((n % 8) as u8, None, 1)).collect();
    for bytes in self::log(&events) {
        let entry =
            wal::Entry { kind: BATCH, events: 1, bytes, ack: wal::Ack::Disk, extra: Claims::default() };
        drop(log.append(entry).expect("the entry is queued"));
        committer.step(0);
    }
    assert_eq!(log.durable_until(), batches);
    log
}

/// Waits until no checkpoint is being written.
fn wait_for_checkpoint(views: &Views) {
    while views.committing.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_batch_whose_receipt_took_long_does_not_turn_the_sessions_back() {
    let (mut sessions, identities) = (Sessions::default(), Identities::default());
    let mut apply = |offset: u64, received_s: i64, committed_s: u64| {
        let mut batch = BatchBuilder::new(Endpoint::Events, KeyClass::Public, GAME, received_s * 1000, 64);
        batch.push(&StoredEvent {
            ts_ms: received_s * 1000,
            name: b"hit",
            player: &name(offset as u8 % 2),
            ..StoredEvent::default()
        });
        let (bytes, events) = batch.finish(&[]);
        let entry = EntryRef { offset, kind: BATCH, events, time_ms: committed_s * 1000, bytes: &bytes };
        let views = PlayerViews { sessions: &mut sessions, identities: &identities, seed: SEED };
        let (batch, mut deltas) = (EventBatch::read(&bytes).expect("it was built"), Deltas::default());
        apply_events(views, &entry, &batch, &mut deltas, |_, _| {});
        let play = deltas.rows().filter(|row| row.metric == PLAY_TIME && row.cut == Cut::Total);
        let seconds = |row: DeltaRow<'_>| {
            let mut cell = Aggregate::default();
            row.add_to(&mut cell);
            cell.values.map_or(0.0, |values| values.sum.value())
        };
        play.map(seconds).sum::<f64>()
    };
    const NOW: i64 = 1_700_000_000;
    assert_eq!(apply(0, NOW, NOW as u64), 0.0);
    assert_eq!(apply(2, NOW + 1_200, NOW as u64 + 1_200), 1_200.0);
    assert_eq!(apply(1, NOW, NOW as u64 + 1_210), 0.0, "a slow upload of another player");
    assert_eq!(apply(4, NOW + 1_220, NOW as u64 + 1_220), 20.0, "nothing is counted twice");
}

#[test]
fn catching_up_takes_checkpoints_on_the_way() {
    let log = log_with(500);
    let (views, mut applier) = open_views(&log);
    applier.checkpoints.limits = checkpoints::CheckpointLimits { bytes: 4 << 10, waiting_bytes: 8 << 10 };
    applier.catch_up().expect("the log is readable");
    wait_for_checkpoint(&views);
    assert_eq!(views.counters.applied_until(), 500);
    let durable_until = views.counters.durable_until();
    assert!((400..=500).contains(&durable_until), "{durable_until} of 500 are in a checkpoint");
    assert_eq!(views.lag(), Duration::ZERO);
}

/// Applies the whole log to new views with this quarantine. Returns the views and the number of sets of deltas.
fn apply_with(log: &Wal<Claims>, quarantine: Quarantine) -> (Arc<Views>, usize) {
    let counters = Arc::new(MemoryCounters::open(&MemoryDisk::default()));
    let mut views = Views::open(counters, "secret").expect("an empty store is readable");
    views.quarantine = quarantine;
    let applied = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&applied);
    views.on_applied(move |_| {
        seen.fetch_add(1, Ordering::Relaxed);
    });
    let views = Arc::new(views);
    Applier::new(Path::new("data"), log.clone(), Arc::clone(&views), Arc::default())
        .catch_up()
        .expect("nothing panics");
    assert_eq!(views.counters.applied_until(), log.durable_until());
    (views, applied.load(Ordering::Relaxed))
}

#[test]
fn an_entry_that_panicked_is_applied_alone_and_skipped_after_its_second_panic() {
    let log = log_with(10);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || Quarantine::open(folder.path(), 0).expect("it is readable");
    let count = |views: &Views| views.accounting.since_start().values().sum::<u64>();
    let (views, sets) = apply_with(&log, open());
    assert_eq!((count(&views), sets), (10, 1));
    open().record(2..6, "once".into());
    let (views, sets) = apply_with(&log, open());
    assert!(count(&views) == 10 && sets > 4, "each of the 4 entries is applied alone: {sets} sets");
    open().record(4..5, "twice".into());
    let (views, _) = apply_with(&log, open());
    assert_eq!(count(&views), 9, "the entry that panicked twice is skipped");
}
