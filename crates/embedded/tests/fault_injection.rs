//! Each injected fault is detected by the conformance suite of its port: a test that cannot fail proves nothing.
#![cfg(feature = "fault-injection")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use embedded::InjectedFault;
use embedded::counters::{EmbeddedCounters, Store, StoreOptions};
use embedded::ids::{EmbeddedIds, IdsOptions};
use model::ports::counters::Counters as CountersPort;
use model::ports::ids::Ids;
use tempfile::TempDir;
use testkit::conformance::counters::counters_conform;
use testkit::conformance::ids::ids_conform;

fn rollups(injected_fault: Option<InjectedFault>) -> impl Fn() -> Arc<dyn CountersPort> {
    let folder = TempDir::new().expect("a folder");
    move || {
        let options = StoreOptions { injected_fault, ..StoreOptions::default() };
        let store = Store::open(folder.path(), &options).expect("the store opens");
        Arc::new(EmbeddedCounters::open(store).expect("the rollups open"))
    }
}

fn ids(injected_fault: Option<InjectedFault>) -> impl Fn(u64) -> Box<dyn Ids> {
    let folder = TempDir::new().expect("a folder");
    move |log_end| {
        let options = IdsOptions { injected_fault, ..IdsOptions::default() };
        Box::new(EmbeddedIds::open(folder.path(), options, log_end).expect("the ids open").0)
    }
}

fn is_detected(check: impl Fn()) -> bool {
    catch_unwind(AssertUnwindSafe(check)).is_err()
}

#[test]
fn checkpoint_without_its_position_is_detected() {
    assert!(is_detected(|| counters_conform(|| rollups(Some(InjectedFault::DropCheckpointPosition)))));
    assert!(!is_detected(|| counters_conform(|| rollups(None))));
}

#[test]
fn dropped_id_is_detected() {
    assert!(is_detected(|| ids_conform(|| ids(Some(InjectedFault::DropIdInsert)))));
    assert!(!is_detected(|| ids_conform(|| ids(None))));
}
