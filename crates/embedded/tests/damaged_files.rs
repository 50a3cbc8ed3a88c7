//! Damaged files of the store: it does not open, or a read fails, or everything is as of one checkpoint. Nothing is lost
//! without a word.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use embedded::counters::{EmbeddedCounters, Store, StoreOptions};
use model::ports::counters::{Counters, ExportedRows, SideState, StoreError};
use model::ports::records::{RecordWrite, Records};
use testkit::events::{TestEvent, deltas_of};

const CHECKPOINTS: u64 = 20;
/// So small that the store has sorted files of several checkpoints.
const MEMTABLE_BYTES: u64 = 16 << 10;

type State = (ExportedRows, BTreeMap<Vec<u8>, Vec<u8>>);

fn open(folder: &Path) -> Result<EmbeddedCounters, StoreError> {
    let options = StoreOptions { memtable_bytes: MEMTABLE_BYTES, ..StoreOptions::default() };
    EmbeddedCounters::open(Store::open(folder, &options)?)
}

fn state(counters: &EmbeddedCounters) -> Result<State, StoreError> {
    let mut records = BTreeMap::new();
    counters.records(&[], &mut |key, value| _ = records.insert(key.to_vec(), value.to_vec()))?;
    Ok((counters.export(&(0..u32::MAX))?.1, records))
}

/// The changes of a checkpoint: new records, changed ones, and removed ones.
fn records(number: u64) -> Vec<RecordWrite> {
    let write = |key: u64, value: Option<u64>| RecordWrite {
        key: [&[0, 0, 0, 1, 1][..], &key.to_be_bytes()].concat(),
        value: value.map(|value| value.to_le_bytes().repeat(20)),
    };
    let new = (0..10).map(|key| write(number * 10 + key, Some(number)));
    let old = number.saturating_sub(1) * 10;
    new.chain([write(old, None), write(old + 1, Some(number)), write(3, Some(number))]).collect()
}

fn commit(counters: &EmbeddedCounters, number: u64) {
    let minute = 100_000 + number as u32 * 20;
    let event = |at: u32| TestEvent::read(&format!("{} score p{at} FR {at} 5", minute + at));
    let events: Vec<TestEvent> = (0..20).map(event).collect();
    let from = counters.applied_until();
    counters.apply(from..from + 20, &deltas_of(&events, from)).expect("the disk works");
    let records = records(number);
    counters.checkpoint(SideState { records, ..SideState::default() }).commit().expect("the disk works");
}

/// Writes a store, and returns its states by position.
fn write(folder: &Path) -> BTreeMap<u64, State> {
    let mut states = BTreeMap::new();
    for part in 0..2 {
        let counters = open(folder).expect("the store opens");
        for number in 0..CHECKPOINTS {
            states.insert(counters.applied_until(), state(&counters).expect("it is readable"));
            commit(&counters, part * CHECKPOINTS + number);
        }
        states.insert(counters.applied_until(), state(&counters).expect("it is readable"));
    }
    states
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.push(path.clone());
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(copied.success());
}

/// Damages a copy of the store and checks it. Returns the error, if the damage was found.
fn check(states: &BTreeMap<u64, State>, store: &Path, what: &str, damage: impl Fn(&Path)) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copied = folder.path().join("views");
    copy(store, &copied);
    damage(&copied);
    let read = open(&copied).and_then(|counters| Ok((counters.durable_until(), state(&counters)?)));
    match read {
        Err(error) => {
            assert!(!error.0.contains("FjallError") && !error.0.contains("LsmTreeError"), "{what}: {error}");
            Some(error.0)
        }
        Ok((position, state)) => {
            let expected =
                states.get(&position).unwrap_or_else(|| panic!("{what}: no checkpoint at {position}"));
            assert!(state.1 == expected.1, "{what}: the records at {position}");
            assert!(state.0 == expected.0, "{what}: the rows at {position}");
            None
        }
    }
}

#[test]
fn missing_shortened_or_changed_file_loses_nothing_unnoticed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().join("views");
    let states = write(&store);
    let (mut found, mut tried) = (0, 0);
    for path in files(&store) {
        let name = path.strip_prefix(&store).expect("it is inside").to_owned();
        let mut run = |what: &str, damage: &dyn Fn(&Path)| {
            tried += 1;
            let what = format!("{} {what}", name.display());
            found += u32::from(check(&states, &store, &what, |copied| damage(&copied.join(&name))).is_some());
        };
        if path.is_dir() {
            run("removed", &|path| fs::remove_dir_all(path).expect("it can be removed"));
            continue;
        }
        run("removed", &|path| fs::remove_file(path).expect("it can be removed"));
        let bytes = fs::read(&path).expect("it is readable");
        run("halved", &|path| fs::write(path, &bytes[..bytes.len() / 2]).expect("it is writable"));
        run("emptied", &|path| fs::write(path, []).expect("it is writable"));
        for at in (0..3).map(|part| bytes.len() * part / 3).filter(|at| *at < bytes.len()) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x41;
            run(&format!("changed at byte {at}"), &|path| fs::write(path, &changed).expect("it is writable"));
        }
    }
    assert!(tried > 100 && found > tried / 3, "{found} of {tried}");
}

#[test]
fn missing_list_of_a_keyspace_is_named_and_nothing_is_deleted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().join("views");
    let states = write(&store);
    for keyspace in ["0", "1", "2", "3"] {
        let (list, moved) =
            (store.join("keyspaces").join(keyspace).join("current"), folder.path().join("moved"));
        fs::rename(&list, &moved).expect("it can be moved");
        let before = files(&store);
        let error = open(&store).err().expect("it does not open").0;
        assert!(error.contains(&format!("keyspaces/{keyspace}")), "{error}");
        assert_eq!(files(&store), before);
        fs::rename(&moved, &list).expect("it can be put back");
    }
    let counters = open(&store).expect("the store opens");
    assert!(state(&counters).expect("it is readable") == states.into_values().last().expect("a state"));
}

#[test]
fn store_without_its_list_of_keyspaces_gets_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = folder.path().join("views");
    write(&store);
    let list = store.join("keyspaces.list");
    let before = fs::read_to_string(&list).expect("there is a list");
    fs::remove_file(&list).expect("it can be removed");
    drop(open(&store).expect("a store of an earlier version opens"));
    assert_eq!(fs::read_to_string(&list).expect("there is a list"), before);
    fs::remove_file(&list).expect("it can be removed");
    fs::remove_file(store.join("keyspaces/2/current")).expect("it can be removed");
    assert!(open(&store).is_err());
}
