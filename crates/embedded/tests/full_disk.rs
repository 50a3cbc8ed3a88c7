//! The store of the rollups on a full disk: a checkpoint that does not fit is rejected before it is written, and written
//! when there is room.

use std::fs;
use std::sync::Arc;

use embedded::counters::{EmbeddedCounters, Store, StoreOptions};
use model::deltas::Deltas;
use model::ports::counters::{CheckpointError, Counters, RowChange, SideState};
use testkit::tmpfs::{Tmpfs, fill};

#[test]
fn store_that_has_to_be_opened_again_waits_until_its_snapshots_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(_tmpfs) = Tmpfs::mount(folder.path(), 48) else { return };
    let store = Store::open(&folder.path().join("views"), &StoreOptions::default()).expect("the disk works");
    let counters = EmbeddedCounters::open(Arc::clone(&store)).expect("the disk works");
    let checkpoint = |until: u64| {
        counters.apply(counters.applied_until()..until, &Deltas::default()).expect("it is in memory");
        counters.checkpoint(SideState {
            states: vec![("sessions", vec![until as u8; 1_000])],
            ..SideState::default()
        })
    };
    checkpoint(1).commit().expect("there is room");
    let snapshot = counters.snapshot().expect("it is readable");
    // A change of rows does not check the room first, so that the database itself meets the full disk.
    let ballast = fill(folder.path());
    let key = [&[0, 0, 0, 1, 0, 1][..], b"m", &[0, 0, 0, 1]].concat();
    assert!(counters.replace(&[RowChange { key, block: Some(vec![1; 4 << 20]) }]).is_err());
    fs::remove_file(ballast).expect("it can be removed");
    let mut pending = checkpoint(2);
    for _ in 0..2 {
        assert!(matches!(pending.commit(), Err(CheckpointError::Busy)));
    }
    assert!(counters.side_state("sessions").is_ok(), "reads continue");
    drop(snapshot);
    pending.commit().expect("there is room again");
    assert_eq!(counters.durable_until(), 2);
}

#[test]
fn checkpoint_on_a_full_disk_is_rejected_and_written_when_there_is_room() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(_tmpfs) = Tmpfs::mount(folder.path(), 48) else { return };
    let views = folder.path().join("views");
    let store = Store::open(&views, &StoreOptions::default()).expect("the disk works");
    let counters = EmbeddedCounters::open(store).expect("the disk works");
    let checkpoint = |size: usize, until: u64| {
        counters.apply(counters.applied_until()..until, &Deltas::default()).expect("it is in memory");
        let states = vec![("sessions", vec![until as u8; size])];
        counters.checkpoint(SideState { states, ..SideState::default() })
    };
    checkpoint(1_000, 1).commit().expect("there is room");
    let ballast = fill(folder.path());
    let mut pending = checkpoint(2_000, 2);
    for _ in 0..3 {
        assert!(matches!(pending.commit(), Err(CheckpointError::NoSpace)));
    }
    assert_eq!(counters.durable_until(), 1);
    fs::remove_file(ballast).expect("it can be removed");
    pending.commit().expect("there is room again");
    assert_eq!(counters.durable_until(), 2);
    assert_eq!(counters.side_state("sessions").expect("it is readable"), Some(vec![2; 2_000]));
    drop((counters, pending));
    let counters =
        EmbeddedCounters::open(Store::open(&views, &StoreOptions::default()).expect("it is whole"));
    assert_eq!(counters.expect("it is whole").applied_until(), 2);
}
