//! Commits in which some event ids cannot be looked up.

use std::path::Path;
use std::sync::Arc;

use model::batch::{BatchBuilder, Endpoint, KeyClass, StoredEvent};
use model::ports::ids::{IdMask, IdStats, IdsError};
use testkit::ids::MemoryIds;
use wal::sim::SimDisk;
use wal::{Ack, Committed, Committer, Entry, Options, Receipt, Wal, WalError};

use super::*;
use crate::ingest::{BATCH, COMMAND};

/// An id whose lookup meets a damaged file.
const DAMAGED: u128 = 13;
/// An id that finds the disk full.
const FULL: u128 = 14;

/// Ids in memory, two of which cannot be looked up.
struct FailingIds(MemoryIds);

impl Ids for FailingIds {
    fn claim(
        &mut self,
        offset: u64,
        now_ms: u64,
        claims: &[Claim],
        fresh: &mut Vec<bool>,
    ) -> Result<(), IdsError> {
        let has = |id| claims.iter().any(|claim| claim.key == Claim::new(IdMask(0), id).key);
        if has(DAMAGED) {
            return Err(IdsError::Corrupt("a run".into()));
        }
        if has(FULL) {
            return Err(IdsError::Full);
        }
        self.0.claim(offset, now_ms, claims, fresh)
    }

    fn release(&mut self, claims: &[Claim]) {
        self.0.release(claims);
    }

    fn registered_until(&self) -> u64 {
        self.0.registered_until()
    }

    fn stats(&self) -> IdStats {
        self.0.stats()
    }
}

struct TestLog {
    log: Wal<Claims>,
    committer: Committer<Claims>,
}

fn open() -> TestLog {
    let options = Options { clock: Arc::new(|| 0), free_bytes_min: 0, ..Options::default() };
    let disk = Arc::new(SimDisk::new(1));
    let opened = Wal::<Claims>::open(disk, Path::new("log"), options).expect("the log opens");
    let ids = Box::new(FailingIds(MemoryIds::new(1 << 40)));
    let (log, committer, _) =
        opened.into_parts(Box::new(Deduplicator::new(ids, Arc::default(), Arc::default(), Arc::default())));
    TestLog { log, committer }
}

/// A batch with one event for each id.
fn batch(ids: &[u128], ack: Ack) -> Entry<Claims> {
    let mut builder = BatchBuilder::new(Endpoint::Events, KeyClass::Public, 1, 0, 64);
    let mut extra = Claims::with_capacity(ids.len());
    for (ordinal, id) in (0..).zip(ids) {
        builder.push(&StoredEvent { name: b"win", id: Some(*id), ..StoredEvent::default() });
        extra.push(ordinal, Claim::new(IdMask(0), *id));
    }
    let (bytes, events) = builder.finish(&[]);
    Entry { kind: BATCH, events, bytes, ack, extra }
}

fn command() -> Entry<Claims> {
    Entry { kind: COMMAND, events: 0, bytes: b"{}".to_vec(), ack: Ack::Disk, extra: Claims::default() }
}

impl TestLog {
    fn append(&self, entry: Entry<Claims>) -> Receipt<Claims> {
        self.log.append(entry).expect("the entry is queued")
    }
}

fn result(mut receipt: Receipt<Claims>) -> Result<Committed<Claims>, WalError> {
    let committed = receipt.try_take().expect("the commit resolves the receipt");
    committed.map(|committed| committed.expect("it was appended with Ack::Disk"))
}

fn offsets(receipt: Receipt<Claims>) -> std::ops::Range<u64> {
    result(receipt).expect("the entry was written").offsets
}

#[test]
fn only_the_entry_whose_ids_cannot_be_looked_up_is_rejected() {
    let mut test = open();
    let first = test.append(batch(&[1, 2], Ack::Disk));
    let damaged = test.append(batch(&[3, DAMAGED], Ack::Disk));
    let full = test.append(batch(&[FULL], Ack::Disk));
    let commands = [test.append(command()), test.append(command())];
    let last = test.append(batch(&[4, 1, 3], Ack::Disk));
    test.committer.step(0);
    assert_eq!(offsets(first), 0..2);
    let damaged = result(damaged).expect_err("its ids cannot be looked up");
    assert!(damaged.is_temporary(), "{damaged}");
    assert!(matches!(result(full), Err(WalError::Full)));
    assert_eq!(commands.map(offsets), [2..3, 3..4], "each command has an offset of its own");
    let last = result(last).expect("it was written");
    assert_eq!((last.offsets, last.extra.removed), (4..6, vec![1]), "the rejected id 3 is still new");
}

#[test]
fn the_next_commit_is_not_affected_by_a_rejected_entry() {
    let mut test = open();
    for round in 0..3_u64 {
        let damaged = test.append(batch(&[DAMAGED, 100], Ack::Disk));
        let other = test.append(batch(&[u128::from(round)], Ack::Disk));
        test.committer.step(0);
        assert!(result(damaged).is_err());
        assert_eq!(offsets(other), round..round + 1);
    }
    let alone = test.append(batch(&[100], Ack::Disk));
    test.committer.step(0);
    assert_eq!(offsets(alone), 3..4);
}

#[test]
fn events_that_were_acknowledged_when_queued_and_then_rejected_are_counted_as_lost() {
    let mut test = open();
    drop(test.append(batch(&[1, 2, DAMAGED], Ack::Memory)));
    drop(test.append(batch(&[5, 6], Ack::Memory)));
    test.committer.step(0);
    let stats = test.log.stats();
    assert_eq!((stats.lost_memory, stats.lost_memory_events), (1, 3));
    assert_eq!(stats.entries, 1);
}

#[test]
fn while_other_disks_are_full_entries_are_rejected_before_they_are_queued() {
    let mut test = open();
    drop(test.append(batch(&[FULL], Ack::Memory)));
    test.committer.step(0);
    let queued = batch(&[1], Ack::Memory);
    assert!(matches!(test.log.append(queued), Err(WalError::Full)), "it is not acknowledged and then lost");
    assert_eq!(test.log.stats().lost_memory, 1);
}

#[test]
fn a_full_disk_releases_the_ids_of_the_entries_that_were_not_rejected() {
    let options = Options { clock: Arc::new(|| 0), free_bytes_min: 0, ..Options::default() };
    let disk = SimDisk::new(1);
    let opened =
        Wal::<Claims>::open(Arc::new(disk.clone()), Path::new("log"), options).expect("the log opens");
    let ids = Box::new(FailingIds(MemoryIds::new(1 << 40)));
    let (log, committer, _) =
        opened.into_parts(Box::new(Deduplicator::new(ids, Arc::default(), Arc::default(), Arc::default())));
    let mut test = TestLog { log, committer };
    disk.fail(wal::sim::Fault { at: 0, kind: wal::sim::FaultKind::NoSpace, permanent: true });
    let receipts = [test.append(batch(&[1], Ack::Disk)), test.append(batch(&[2, DAMAGED], Ack::Disk))];
    drop(test.append(batch(&[DAMAGED], Ack::Memory)));
    test.committer.step(0);
    assert!(receipts.map(result).iter().all(|result| matches!(result, Err(error) if error.is_temporary())));
    assert_eq!(test.log.stats().lost_memory, 1, "counted once");
    disk.heal();
    std::thread::sleep(Options::default().full_retry);
    let again = test.append(batch(&[1, 2], Ack::Disk));
    test.committer.step(0);
    let again = result(again).expect("it was written");
    assert_eq!((again.offsets, again.extra.removed), (0..2, vec![]));
}
