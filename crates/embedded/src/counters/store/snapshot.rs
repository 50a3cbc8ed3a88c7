//! A snapshot of the store, as of one checkpoint.

use std::ops::Range;
use std::sync::Arc;

use fjall::{Keyspace, Readable, Snapshot};
use model::ports::counters::{RecordsCheck, SnapshotRow, SnapshotRows, StoreError, StoreSnapshot};
use model::rollup::StoredBlock;

use super::super::{keys, row_name};
use super::seal::{RECORDS, RecordsSum, SEAL};
use super::{POSITION, Store, damaged, failed};

/// A checkpoint changes all keyspaces at once, so whatever the snapshot sees is as of the last one.
pub(in super::super) struct DiskSnapshot {
    snapshot: Snapshot,
    hours: Keyspace,
    record_rows: Keyspace,
    position: u64,
    records: RecordsSum,
    /// While it exists, the store does not close the database.
    _open: Arc<()>,
}

impl DiskSnapshot {
    pub(in super::super) fn of(store: &Arc<Store>) -> Result<DiskSnapshot, StoreError> {
        let tables = store.tables()?;
        let snapshot = tables.database.snapshot();
        let position = snapshot.get(&tables.meta, POSITION).map_err(failed)?;
        let position = position.map_or(Ok([0; 8]), |bytes| bytes[..].try_into());
        let position = position.map(u64::from_le_bytes).map_err(|_| damaged(POSITION.as_bytes()))?;
        let records = snapshot.get(&tables.meta, RECORDS).map_err(failed)?;
        let records = records.as_deref().and_then(RecordsSum::decode);
        let records = records.ok_or_else(|| damaged(RECORDS.as_bytes()))?;
        let (hours, record_rows) = (tables.hours.clone(), tables.records.clone());
        let open = Arc::clone(&store.snapshots);
        Ok(DiskSnapshot { snapshot, hours, record_rows, position, records, _open: open })
    }
}

impl StoreSnapshot for DiskSnapshot {
    fn position(&self) -> u64 {
        self.position
    }

    fn rows(&self, hours: &Range<u32>) -> SnapshotRows<'_> {
        let hours = hours.clone();
        let rows = self.snapshot.iter(&self.hours).map(move |entry| {
            let (key, block) = entry.into_inner().map_err(failed)?;
            if *key == *SEAL {
                return Ok(None);
            }
            let (group, _) = keys::parse(&key).ok_or_else(|| damaged(&key))?;
            if !hours.contains(&group.hour) {
                return Ok(None);
            }
            let since = StoredBlock::<60>::open(&block).map_or(0, |block| block.since());
            Ok(Some(SnapshotRow { hour: group.hour, since, key: key.to_vec(), block: block.to_vec() }))
        });
        Box::new(rows.filter_map(Result::transpose))
    }

    fn row_name(&self, key: &[u8]) -> String {
        row_name(key).unwrap_or_else(|_| String::from_utf8_lossy(key).into_owned())
    }

    fn check_records(&self) -> Result<RecordsCheck, StoreError> {
        let mut found = RecordsSum::default();
        for entry in self.snapshot.iter(&self.record_rows) {
            let (key, value) = entry.into_inner().map_err(failed)?;
            if *key != *SEAL {
                found.add(&key, &value);
            }
        }
        let (count, expected) = (found.count, self.records.count);
        Ok(RecordsCheck { count, expected, agrees: found == self.records })
    }
}

#[cfg(test)]
mod tests {
    use model::ports::counters::{Checkpoint, SideState};
    use model::ports::records::RecordWrite;

    use super::super::{PendingCheckpoint, StoreOptions};
    use super::*;

    #[test]
    fn records_that_no_checkpoint_wrote_are_noticed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = Store::open(&folder.path().join("views"), &StoreOptions::default()).expect("it opens");
        let write = |key: u8| RecordWrite { key: vec![key], value: Some(vec![key; 30]) };
        let committed = (1, Arc::default());
        let kept = SideState { records: (0..9).map(write).collect(), ..SideState::default() };
        PendingCheckpoint::new(Arc::clone(&store), Vec::new(), kept, 5, committed)
            .commit()
            .expect("the disk works");
        let check = || {
            let found = DiskSnapshot::of(&store).and_then(|snapshot| snapshot.check_records());
            let RecordsCheck { count, expected, agrees } = found.expect("the disk works");
            assert_eq!(expected, 9);
            (count, agrees)
        };
        assert_eq!(check(), (9, true));
        let records = store.tables().expect("it is open").records.clone();
        records.remove([3]).expect("the disk works");
        assert_eq!(check(), (8, false));
        records.insert([3], [4; 30]).expect("the disk works");
        assert_eq!(check(), (9, false));
        records.insert([3], [3; 30]).expect("the disk works");
        assert_eq!(check(), (9, true));
        records.insert([9], [9; 30]).expect("the disk works");
        assert_eq!(check(), (10, false));
    }
}
