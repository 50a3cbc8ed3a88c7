//! Conformance of the rollups on one disk, compared with the simplest engine.

use std::sync::Arc;

use embedded::counters::{EmbeddedCounters, Store, StoreOptions};
use model::ports::counters::Counters as Port;
use proptest::prelude::*;
use tempfile::TempDir;
use testkit::conformance::counters::{check_event_order, check_log_split, counters_conform, steps};
use testkit::events::events;

/// Returns a function that opens the rollups in one temporary folder, removed with the function.
fn opener() -> impl Fn() -> Arc<dyn Port> {
    let folder = TempDir::new().expect("a folder");
    move || {
        let store = Store::open(folder.path(), &StoreOptions::default()).expect("the store opens");
        Arc::new(EmbeddedCounters::open(store).expect("the rollups open"))
    }
}

#[test]
fn interrupted_creation_of_a_store_is_repeated() {
    let home = TempDir::new().expect("a folder");
    let unfinished = home.path().join("views.unfinished");
    std::fs::create_dir_all(unfinished.join("keyspaces")).expect("a folder in it");
    std::fs::write(unfinished.join("0.jnl"), [0; 100]).expect("a file in it");
    let store = Store::open(&home.path().join("views"), &StoreOptions::default());
    assert_eq!((store.is_ok(), unfinished.exists()), (true, false));
}

#[test]
fn embedded_counters_conform() {
    counters_conform(opener);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn division_of_the_log_into_ranges_does_not_change_the_rows(events in events(0..150), steps in steps()) {
        check_log_split(opener(), &events, &steps);
    }

    #[test]
    fn order_of_events_does_not_change_the_rollups(events in events(0..150), seed: u64) {
        check_event_order(opener(), &events, seed);
    }
}
