//! The memory of rollups stays within its budget, whatever the events.

use std::path::Path;

use embedded::counters::{EmbeddedCounters, Store, StoreOptions};
use model::ports::counters::{Counters as Port, SideState};
use testkit::counters::{MemoryCounters, MemoryDisk};
use testkit::events::{TestEvent, deltas_of};

const EVENTS: u64 = 6_000;
/// Events that are applied at once.
const RANGE: u64 = 50;

fn open(folder: &Path, bytes_max: usize) -> EmbeddedCounters {
    let store = Store::open(folder, &StoreOptions::default()).expect("the store opens");
    EmbeddedCounters::open(store).expect("the rollups open").with_memory(bytes_max)
}

/// Returns an event of a fixed log: 200 names over 30 days.
fn event(number: u64) -> TestEvent {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    let (minute, name) = (100_000 + mixed % (30 * 24 * 60), (mixed >> 20) % 200);
    let (player, level, value) =
        (char::from(b'a' + (mixed >> 30) as u8 % 26), (mixed >> 40) % 4, mixed >> 54);
    TestEvent::read(&format!("{minute} name-{name} {player} FR {level} {value}"))
}

/// Applies everything, with a checkpoint whenever the store wants one. Returns the greatest use of memory.
fn apply(counters: &dyn Port) -> u64 {
    let mut peak = 0;
    for from in (0..EVENTS).step_by(RANGE as usize) {
        let events: Vec<TestEvent> = (from..from + RANGE).map(event).collect();
        counters.apply(from..from + RANGE, &deltas_of(&events, from)).expect("the disk works");
        peak = peak.max(counters.memory().bytes);
        if counters.wants_checkpoint() {
            counters.checkpoint(SideState::default()).commit().expect("the disk works");
        }
    }
    peak
}

#[test]
fn memory_of_rollups_stays_within_its_budget() {
    const BUDGET: usize = 8 << 20;
    let [bounded, unbounded] = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"));
    let (bounded, unbounded) = (open(bounded.path(), BUDGET), open(unbounded.path(), usize::MAX));
    let peak = apply(&bounded);
    assert!(peak <= BUDGET as u64, "{peak}");
    assert!(apply(&unbounded) > 4 * BUDGET as u64, "without a budget they take {}", unbounded.memory().bytes);
    let reference = MemoryCounters::open(&MemoryDisk::default());
    apply(&reference);
    let all = 0..u32::MAX;
    assert!(
        bounded.export(&all).expect("the disk works") == reference.export(&all).expect("it is in memory")
    );
}

#[test]
fn rows_of_a_checkpoint_in_progress_stay_in_memory() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let counters = open(folder.path(), 1);
    let apply = |number: u64| {
        let events = [event(number)];
        counters.apply(number..number + 1, &deltas_of(&events, number)).expect("the disk works");
    };
    apply(0);
    let mut checkpoint = counters.checkpoint(SideState::default());
    assert!(counters.is_over_budget() && !counters.wants_checkpoint(), "one is in progress");
    apply(1);
    let reference = MemoryCounters::open(&MemoryDisk::default());
    (0..2).for_each(|number| {
        reference.apply(number..number + 1, &deltas_of(&[event(number)], number)).expect("it is in memory");
    });
    let all = 0..u32::MAX;
    assert_eq!(
        counters.export(&all).expect("the disk works"),
        reference.export(&all).expect("it is in memory")
    );
    checkpoint.commit().expect("the disk works");
    assert!(counters.wants_checkpoint(), "for the second event");
    counters.checkpoint(SideState::default()).commit().expect("the disk works");
    counters.apply(2..3, &deltas_of(&[], 2)).expect("the disk works");
    assert_eq!(counters.memory().bytes, 0, "everything is in the store");
}
