//! Deleted records leave the disk in a purge.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use embedded::counters::{EmbeddedCounters, Store, StoreOptions};
use model::deltas::Deltas;
use model::ports::counters::{Counters as _, SideState};
use model::ports::records::{RecordWrite, Records};

/// Random enough that a compressed file contains it literally.
const CANARY: &str = "x7Qp2-canary-9fKd04LmZe81VtBw";

fn open(folder: &Path) -> EmbeddedCounters {
    let store = Store::open(&folder.join("views"), &StoreOptions::default()).expect("a store");
    EmbeddedCounters::open(store).expect("rollups")
}

/// Writes records in a checkpoint of their own.
fn write(counters: &EmbeddedCounters, at: u64, writes: Vec<(&str, Option<String>)>) {
    counters.apply(at..at + 1, &Deltas::default()).expect("nothing to add");
    let records = writes.into_iter();
    let records =
        records.map(|(key, value)| RecordWrite { key: key.into(), value: value.map(String::into_bytes) });
    let kept = SideState { states: vec![], records: records.collect() };
    counters.checkpoint(kept).commit().expect("it is written");
}

/// Collects the files that contain these bytes.
fn files_containing(folder: &Path, bytes: &str, found: &mut Vec<String>) {
    for item in fs::read_dir(folder).expect("a folder") {
        let path = item.expect("an item").path();
        if path.is_dir() {
            files_containing(&path, bytes, found);
        } else if fs::read(&path).expect("a file").windows(bytes.len()).any(|it| it == bytes.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
}

fn found(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    files_containing(folder, &CANARY[10..], &mut found);
    found
}

#[test]
fn deleted_and_replaced_records_are_in_no_file_after_a_purge() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let counters = Arc::new(open(folder.path()));
    let canary = |n: u32| Some(format!("{{\"player\": \"{CANARY}\", \"n\": {n}}}"));
    write(&counters, 0, vec![("a", canary(1)), ("b", canary(2)), ("c", Some("stays".to_owned()))]);
    write(&counters, 1, vec![(CANARY, Some("as a key".to_owned()))]);
    assert!(found(folder.path()).iter().any(|path| path.ends_with(".jnl")), "the journal is searched");
    counters.purge().expect("a purge");
    let found_in = found(folder.path());
    assert!(found_in.iter().any(|path| path.contains("tables")), "so are sorted files: {found_in:?}");
    assert!(!found_in.iter().any(|path| path.ends_with(".jnl")), "{found_in:?}");
    write(&counters, 2, vec![("a", None), ("b", Some("other".to_owned())), (CANARY, None)]);
    counters.purge().expect("a purge");
    assert_eq!(found(folder.path()), Vec::<String>::new());
    let again = |counters: &EmbeddedCounters| {
        let read = |key: &str| counters.record(key.as_bytes()).expect("a store").map(String::from_utf8);
        let read = ["a", "b", "c", CANARY].map(|key| read(key).map(|text| text.expect("text")));
        assert_eq!(read, [None, Some("other".to_owned()), Some("stays".to_owned()), None]);
        assert_eq!(counters.applied_until(), 3);
    };
    again(&counters);
    drop(counters);
    again(&open(folder.path()));
    assert_eq!(found(folder.path()), Vec::<String>::new());
}

#[test]
fn checkpoints_continue_during_a_purge() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let counters = Arc::new(open(folder.path()));
    write(&counters, 0, vec![("gone", Some(CANARY.to_owned()))]);
    write(&counters, 1, vec![("gone", None)]);
    let purging = Arc::clone(&counters);
    let purge = std::thread::spawn(move || purging.purge());
    for at in 2..100 {
        write(&counters, at, vec![("stays", Some(format!("{at}")))]);
    }
    purge.join().expect("no panic").expect("a purge");
    assert_eq!(found(folder.path()), Vec::<String>::new());
    assert_eq!(counters.record(b"stays").expect("a store"), Some(b"99".to_vec()));
    drop(counters);
    assert_eq!(open(folder.path()).record(b"stays").expect("a store"), Some(b"99".to_vec()));
}
