//! Rows by number, stored in pages, with records of changes in between.
//!
//! A page is a record of 256 rows. A checkpoint writes the rows that changed into separate records, the *changes*, and
//! also some pages in rotation. Changes are removed when all pages have been written since. So the bytes written follow
//! the number of changes, and the bytes read at start are little more than the rows.
//!
//! ```text
//! page:    checkpoint u32 | rows, one after the other
//! changes: checkpoint u32 | turn u32 | page u32 | per row: number u32, row
//! ```
//! Numbers are little-endian. A page contains everything up to its checkpoint.

use std::collections::VecDeque;

use crate::subject::{RecordError, RecordWriter};

/// Rows of a page.
pub(super) const ROWS_PER_PAGE: u32 = 256;
/// From this number of changed rows on, the page is written whole.
const ROWS_FOR_WHOLE_PAGE: usize = 32;
/// Changed rows per additional page in rotation. Changes then hold at most an eighth of all rows, at a cost of eight
/// more rows written per changed row.
const ROWS_PER_EXTRA_PAGE: usize = 32;
/// Bytes of one record of changes.
const CHANGES_BYTES: usize = 48 << 10;

/// A table whose rows are written.
pub(super) trait WriteRows {
    fn len(&self) -> u32;
    /// Appends the bytes of a row.
    fn write(&self, row: u32, bytes: &mut Vec<u8>);
}

/// A table whose rows are restored.
pub(super) trait ReadRows {
    /// Reads a row from the front of `bytes`.
    fn read(&mut self, row: u32, bytes: &mut &[u8]) -> Result<(), RecordError>;
    /// Skips a row at the front of `bytes`, of which a page has a newer version.
    fn skip(bytes: &mut &[u8]) -> Result<(), RecordError>;
}

/// The records of one table.
#[derive(Default)]
pub(super) struct RowPages {
    changes: VecDeque<ChangeSet>,
    /// The number of complete rotations, and the next page.
    turn: u32,
    next: u32,
    /// The checkpoint of each page, while records are restored.
    page_checkpoints: Vec<u32>,
}

/// The changes of one checkpoint.
struct ChangeSet {
    checkpoint: u32,
    records: u16,
    turn: u32,
    page: u32,
    /// The changed rows, sorted.
    rows: Vec<u32>,
}

/// The key prefixes of a table's records.
#[derive(Clone, Copy)]
pub(super) struct KeyPrefixes {
    pub page: [u8; 5],
    pub changes: [u8; 5],
}

impl RowPages {
    /// Rewrites all records that contain a row, so that no record has its old value.
    pub(super) fn erase_row(
        &mut self,
        row: u32,
        rows: &impl WriteRows,
        checkpoint: u32,
        prefixes: KeyPrefixes,
        writer: &mut RecordWriter<'_>,
    ) {
        let holds = |it: &ChangeSet| it.rows.binary_search(&row).is_ok();
        let (affected, kept): (Vec<ChangeSet>, _) = self.changes.drain(..).partition(holds);
        self.changes = kept.into();
        let mut pages: Vec<u32> =
            affected.iter().flat_map(|it| &it.rows).map(|row| row / ROWS_PER_PAGE).collect();
        pages.push(row / ROWS_PER_PAGE);
        pages.sort_unstable();
        pages.dedup();
        pages.iter().for_each(|page| write_page(*page, rows, checkpoint, prefixes, writer));
        affected.iter().for_each(|it| it.remove(prefixes, writer));
    }

    /// Writes the rows that changed.
    pub(super) fn write(
        &mut self,
        mut changed: Vec<u32>,
        rows: &impl WriteRows,
        checkpoint: u32,
        prefixes: KeyPrefixes,
        writer: &mut RecordWriter<'_>,
    ) {
        changed.sort_unstable();
        changed.dedup();
        let mut few = Vec::new();
        for rows_of_page in changed.chunk_by(|a, b| a / ROWS_PER_PAGE == b / ROWS_PER_PAGE) {
            if rows_of_page.len() >= ROWS_FOR_WHOLE_PAGE {
                write_page(rows_of_page[0] / ROWS_PER_PAGE, rows, checkpoint, prefixes, writer);
            } else {
                few.extend_from_slice(rows_of_page);
            }
        }
        if !few.is_empty() {
            self.write_changes(&few, rows, checkpoint, prefixes, writer);
            self.write_next_pages(
                few.len().div_ceil(ROWS_PER_EXTRA_PAGE),
                rows,
                checkpoint,
                prefixes,
                writer,
            );
            self.remove_old(prefixes, writer);
        }
    }

    fn write_changes(
        &mut self,
        changed: &[u32],
        rows: &impl WriteRows,
        checkpoint: u32,
        prefixes: KeyPrefixes,
        writer: &mut RecordWriter<'_>,
    ) {
        let header = [checkpoint, self.turn, self.next].map(u32::to_le_bytes).concat();
        let (mut bytes, mut records) = (header.clone(), 0);
        for (at, row) in changed.iter().enumerate() {
            bytes.extend_from_slice(&row.to_le_bytes());
            rows.write(*row, &mut bytes);
            if bytes.len() >= CHANGES_BYTES || at + 1 == changed.len() {
                let full = std::mem::replace(&mut bytes, header.clone());
                writer.put(&changes_key(prefixes, checkpoint, records), full);
                records += 1;
            }
        }
        let (turn, page, rows) = (self.turn, self.next, changed.to_vec());
        self.changes.push_back(ChangeSet { checkpoint, records, turn, page, rows });
    }

    fn write_next_pages(
        &mut self,
        pages: usize,
        rows: &impl WriteRows,
        checkpoint: u32,
        prefixes: KeyPrefixes,
        writer: &mut RecordWriter<'_>,
    ) {
        let all = rows.len().div_ceil(ROWS_PER_PAGE);
        for _ in 0..pages.min(all as usize) {
            write_page(self.next, rows, checkpoint, prefixes, writer);
            self.next += 1;
            if self.next >= all {
                (self.turn, self.next) = (self.turn + 1, 0);
            }
        }
    }

    /// Removes changes that are older than all pages.
    fn remove_old(&mut self, prefixes: KeyPrefixes, writer: &mut RecordWriter<'_>) {
        let (turn, next) = (self.turn, self.next);
        let is_old = |it: &mut ChangeSet| (turn, next) >= (it.turn + 1, it.page);
        while let Some(old) = self.changes.pop_front_if(is_old) {
            (0..old.records).for_each(|record| writer.remove(&changes_key(prefixes, old.checkpoint, record)));
        }
    }

    /// Restores a page.
    pub(super) fn read_page(
        &mut self,
        page: u32,
        bytes: &[u8],
        rows: &mut impl ReadRows,
    ) -> Result<(), RecordError> {
        let mut rest = bytes;
        let checkpoint = read_u32(&mut rest)?;
        let mut row = page
            .checked_mul(ROWS_PER_PAGE)
            .ok_or_else(|| RecordError("a page number is out of range".to_owned()))?;
        while !rest.is_empty() {
            rows.read(row, &mut rest)?;
            row += 1;
        }
        let len = self.page_checkpoints.len().max(page as usize + 1);
        self.page_checkpoints.resize(len, 0);
        self.page_checkpoints[page as usize] = checkpoint;
        Ok(())
    }

    /// Restores changes. Called after all pages, in key order.
    pub(super) fn read_changes(
        &mut self,
        key: &[u8],
        bytes: &[u8],
        rows: &mut impl ReadRows,
    ) -> Result<(), RecordError> {
        let mut rest = bytes;
        let [checkpoint, turn, page] = [read_u32(&mut rest)?, read_u32(&mut rest)?, read_u32(&mut rest)?];
        let record = key.last_chunk::<2>().map_or(0, |bytes| u16::from_be_bytes(*bytes));
        if self.changes.back().is_none_or(|last| last.checkpoint != checkpoint) {
            self.changes.push_back(ChangeSet { checkpoint, records: 0, turn, page, rows: Vec::new() });
        }
        let written = self.changes.back_mut().expect("it was pushed above");
        written.records = record + 1;
        while !rest.is_empty() {
            let row = read_u32(&mut rest)?;
            written.rows.push(row);
            let page_checkpoint = self.page_checkpoints.get((row / ROWS_PER_PAGE) as usize).copied();
            if page_checkpoint.is_some_and(|page_checkpoint| page_checkpoint >= checkpoint) {
                skip(rows, &mut rest)?;
            } else {
                rows.read(row, &mut rest)?;
            }
        }
        Ok(())
    }

    /// Called after the last record.
    pub(super) fn finish_restore(&mut self) {
        self.page_checkpoints = Vec::new();
        // Pages that were written after the last changes are written again, which does no harm.
        (self.turn, self.next) = self.changes.back().map_or((0, 0), |last| (last.turn, last.page));
    }
}

impl ChangeSet {
    fn remove(&self, prefixes: KeyPrefixes, writer: &mut RecordWriter<'_>) {
        (0..self.records).for_each(|record| writer.remove(&changes_key(prefixes, self.checkpoint, record)));
    }
}

fn skip<R: ReadRows>(_: &mut R, bytes: &mut &[u8]) -> Result<(), RecordError> {
    R::skip(bytes)
}

fn write_page(
    page: u32,
    rows: &impl WriteRows,
    checkpoint: u32,
    prefixes: KeyPrefixes,
    writer: &mut RecordWriter<'_>,
) {
    let mut bytes = checkpoint.to_le_bytes().to_vec();
    for row in page * ROWS_PER_PAGE..rows.len().min((page + 1) * ROWS_PER_PAGE) {
        rows.write(row, &mut bytes);
    }
    writer.put(&[prefixes.page.as_slice(), &page.to_be_bytes()].concat(), bytes);
}

fn changes_key(prefixes: KeyPrefixes, checkpoint: u32, record: u16) -> Vec<u8> {
    [prefixes.changes.as_slice(), &checkpoint.to_be_bytes(), &record.to_be_bytes()].concat()
}

/// Reads bytes from the front.
#[inline]
pub(super) fn read_bytes<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], RecordError> {
    let (taken, rest) =
        bytes.split_at_checked(len).ok_or_else(|| RecordError("a row is truncated".to_owned()))?;
    *bytes = rest;
    Ok(taken)
}

#[inline]
fn read_u32(bytes: &mut &[u8]) -> Result<u32, RecordError> {
    read_bytes(bytes, 4).map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::ports::records::RecordWrite;

    use super::*;

    const PREFIXES: KeyPrefixes = KeyPrefixes { page: *b"1pppp", changes: *b"2cccc" };

    impl WriteRows for Vec<u8> {
        fn len(&self) -> u32 {
            self.len() as u32
        }

        fn write(&self, row: u32, bytes: &mut Vec<u8>) {
            bytes.push(self[row as usize]);
        }
    }

    impl ReadRows for Vec<u8> {
        fn read(&mut self, row: u32, bytes: &mut &[u8]) -> Result<(), RecordError> {
            let len = self.len().max(row as usize + 1);
            self.resize(len, 0);
            self[row as usize] = read_bytes(bytes, 1)?[0];
            Ok(())
        }

        fn skip(bytes: &mut &[u8]) -> Result<(), RecordError> {
            read_bytes(bytes, 1).map(drop)
        }
    }

    fn restore(records: &BTreeMap<Vec<u8>, Vec<u8>>) -> (RowPages, Vec<u8>) {
        let (mut pages, mut rows) = (RowPages::default(), Vec::new());
        for (key, value) in records {
            if key.starts_with(&PREFIXES.page) {
                let page = u32::from_be_bytes(key[5..].try_into().expect("four bytes"));
                pages.read_page(page, value, &mut rows).expect("a page");
            } else {
                pages.read_changes(key, value, &mut rows).expect("changes");
            }
        }
        pages.finish_restore();
        (pages, rows)
    }

    #[test]
    fn rows_are_restored_after_each_checkpoint_and_few_extra_bytes_are_kept() {
        let (mut rows, mut pages, mut records) = (Vec::new(), RowPages::default(), BTreeMap::new());
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for checkpoint in 1..600 {
            let mut changed = Vec::new();
            if checkpoint < 100 {
                let from = rows.len();
                rows.resize(from + random(60) as usize, 0);
                changed.extend(from as u32..rows.len() as u32);
            }
            for _ in 0..random(40) {
                changed.push(random(rows.len().max(1) as u64) as u32);
            }
            changed.retain(|row| (*row as usize) < rows.len());
            changed.iter().for_each(|row| rows[*row as usize] = random(256) as u8);
            let mut writes: Vec<RecordWrite> = Vec::new();
            if random(20) == 0 && !rows.is_empty() {
                let row = random(rows.len() as u64) as u32;
                rows[row as usize] = 0;
                changed.push(row);
                pages.erase_row(row, &rows, checkpoint, PREFIXES, &mut RecordWriter::new(0, 0, &mut writes));
            }
            pages.write(changed, &rows, checkpoint, PREFIXES, &mut RecordWriter::new(0, 0, &mut writes));
            for RecordWrite { key, value } in writes {
                match value {
                    Some(value) => drop(records.insert(key[5..].to_vec(), value)),
                    None => drop(records.remove(&key[5..])),
                }
            }
            let (again, read) = restore(&records);
            assert_eq!(read, rows, "after checkpoint {checkpoint}");
            if checkpoint % 7 == 0 {
                pages = again;
            }
        }
        let bytes: usize = records.values().map(Vec::len).sum();
        assert!(bytes < 3 * rows.len(), "{bytes} bytes for {} rows", rows.len());
    }
}
