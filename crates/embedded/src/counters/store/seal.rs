//! What each checkpoint leaves in every keyspace, so that a keyspace that is lost, replaced or older than the others is
//! noticed.
//!
//! A checkpoint writes its position to all of them, and to `records` their number and checksum. To keep those, the old
//! value of each changed record is read; the cost follows the changes, not the size of the store.

use std::collections::HashMap;

use fjall::{OwnedWriteBatch, PersistMode};
use model::ports::counters::StoreError;
use model::ports::records::RecordWrite;

use super::{POSITION, Store, Tables, failed};

/// The key of a keyspace's seal. It is after every row and every record.
pub(super) const SEAL: &[u8] = b"\xff\xff\xff\xff\xffseal";
/// The key of the checksum in `meta`.
pub(super) const RECORDS: &str = "records";

/// The number of the records and the sum of their checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordsSum {
    pub(super) count: u64,
    sum: u64,
}

impl RecordsSum {
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(checksum(key, value));
    }

    fn remove(&mut self, key: &[u8], value: &[u8]) {
        self.count = self.count.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(checksum(key, value));
    }

    fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<RecordsSum> {
        let (count, sum) = bytes.split_first_chunk()?;
        let sum = sum.try_into().ok()?;
        Some(RecordsSum { count: u64::from_le_bytes(*count), sum: u64::from_le_bytes(sum) })
    }
}

fn checksum(key: &[u8], value: &[u8]) -> u64 {
    let sum = crc32c::crc32c_append(key.len() as u32, key);
    u64::from(crc32c::crc32c_append(sum, value))
}

impl Store {
    /// Returns the number and the checksum of the records after these changes.
    pub(super) fn sum_after(
        &self,
        tables: &Tables,
        writes: &[RecordWrite],
    ) -> Result<RecordsSum, StoreError> {
        let mut sum = *self.records_sum.lock();
        let last: HashMap<&[u8], Option<&[u8]>> =
            writes.iter().map(|write| (write.key.as_slice(), write.value.as_deref())).collect();
        for (key, value) in last {
            if let Some(old) = tables.records.get(key).map_err(failed)? {
                sum.remove(key, &old);
            }
            if let Some(value) = value {
                sum.add(key, value);
            }
        }
        Ok(sum)
    }

    /// Checks that all keyspaces are of one checkpoint. Seals a store of an earlier version, which reads its records.
    pub(super) fn check_seals(&self) -> Result<(), StoreError> {
        let position = self.number(POSITION)?;
        let tables = self.tables()?;
        let hours = tables.hours.get(SEAL).map_err(failed)?;
        let records = tables.records.get(SEAL).map_err(failed)?;
        let sum = tables.meta.get(RECORDS).map_err(failed)?;
        if hours.is_none() && records.is_none() && sum.is_none() {
            return self.seal(&tables, position);
        }
        let sum = sum.as_deref().and_then(RecordsSum::decode);
        let sum = sum.ok_or_else(|| lost("meta", "it has no checksum of the records"))?;
        if hours.as_deref() != Some(&position.to_le_bytes()[..]) {
            return Err(lost("hours", "it is of another checkpoint than `meta`"));
        }
        if records.as_deref() != Some(&[&position.to_le_bytes()[..], &sum.encode()].concat()[..]) {
            return Err(lost("records", "it is of another checkpoint than `meta`"));
        }
        *self.records_sum.lock() = sum;
        Ok(())
    }

    fn seal(&self, tables: &Tables, position: u64) -> Result<(), StoreError> {
        let mut sum = RecordsSum::default();
        for entry in tables.records.iter() {
            let (key, value) = entry.into_inner().map_err(failed)?;
            sum.add(&key, &value);
        }
        let mut batch = tables.database.batch().durability(Some(PersistMode::SyncAll));
        write(tables, &mut batch, position, sum);
        batch.commit().map_err(failed)?;
        *self.records_sum.lock() = sum;
        Ok(())
    }
}

/// Adds the seals of a position to a batch.
pub(super) fn write(tables: &Tables, batch: &mut OwnedWriteBatch, position: u64, sum: RecordsSum) {
    let position = position.to_le_bytes();
    batch.insert(&tables.meta, POSITION, position);
    batch.insert(&tables.meta, RECORDS, sum.encode());
    batch.insert(&tables.hours, SEAL, position);
    batch.insert(&tables.records, SEAL, [&position[..], &sum.encode()].concat());
}

fn lost(keyspace: &str, why: &str) -> StoreError {
    StoreError(format!("the keyspace `{keyspace}` is lost, or not of the same time as the others: {why}"))
}
