//! The promises of the rollups on one disk, and that they are those of the plainest engine.

use std::sync::Arc;

use embedded::counters::{Counters, Store, StoreOptions};
use model::ports::counters::Counters as Port;
use proptest::prelude::*;
use tempfile::TempDir;
use testkit::conformance::counters::{check_event_order, check_log_split, counters_conform, steps};
use testkit::events::events;

/// A folder that is gone with its home.
fn new_home() -> impl Fn() -> Arc<dyn Port> {
    let folder = TempDir::new().expect("a folder");
    move || {
        let store = Store::open(folder.path(), &StoreOptions::default()).expect("the store opens");
        Arc::new(Counters::open(store).expect("the rollups open"))
    }
}

#[test]
fn a_store_that_was_half_made_when_the_process_was_killed_is_made_again() {
    let home = TempDir::new().expect("a folder");
    let unfinished = home.path().join("views.unfinished");
    std::fs::create_dir_all(unfinished.join("keyspaces")).expect("a folder in it");
    std::fs::write(unfinished.join("0.jnl"), [0; 100]).expect("a file in it");
    let store = Store::open(&home.path().join("views"), &StoreOptions::default());
    assert_eq!((store.is_ok(), unfinished.exists()), (true, false));
}

#[test]
fn rollups_on_one_disk_conform() {
    counters_conform(new_home);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn cutting_the_log_changes_no_byte(events in events(0..150), steps in steps()) {
        check_log_split(new_home(), &events, &steps);
    }

    #[test]
    fn any_order_of_the_events_gives_the_same_rollups(events in events(0..150), seed: u64) {
        check_event_order(new_home(), &events, seed);
    }
}
