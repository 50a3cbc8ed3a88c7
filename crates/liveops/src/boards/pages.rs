//! Rows by number, written in pages, with what changed since between them.
//!
//! A page is a record of 256 rows. A checkpoint writes the rows that changed into records of their own, the *changes*,
//! and some pages in turn; when all pages were written once since, changes are not needed any more. So what is written
//! follows what changed, and what is read at start is little more than the rows.
//!
//! ```text
//! page:    checkpoint u32 | rows, one after the other
//! changes: checkpoint u32 | turn u32 | page u32 | per row: number u32, row
//! ```
//! Numbers are little-endian. A page holds everything up to its checkpoint.

use std::collections::VecDeque;

use crate::subject::{Changes, Damaged};

/// Rows in a page.
pub const ROWS: u32 = 256;
/// From so many changed rows on, a page is written whole.
const MANY: usize = 32;
/// Changed rows for which another page is written in turn. Then changes hold at most an eighth of all rows, and for a
/// changed row an eighth of a page's row is written besides.
const ROWS_PER_PAGE_IN_TURN: usize = 32;
/// Bytes of one record of changes.
const CHANGES_BYTES: usize = 48 << 10;

/// A table whose rows are written.
pub trait Rows {
    /// How many there are.
    fn len(&self) -> u32;
    /// Adds the bytes of a row.
    fn write(&self, row: u32, bytes: &mut Vec<u8>);
}

/// A table into which rows are read back.
pub trait Read {
    /// Takes the bytes of a row off the front.
    fn read(&mut self, row: u32, bytes: &mut &[u8]) -> Result<(), Damaged>;
    /// Takes the bytes of a row off the front, which another record knows better.
    fn skip(bytes: &mut &[u8]) -> Result<(), Damaged>;
}

/// The records of one table.
#[derive(Default)]
pub struct Pages {
    changes: VecDeque<Written>,
    /// How often all pages were written in turn, and the next page.
    turn: u32,
    next: u32,
    /// While reading: the checkpoint of each page.
    read: Vec<u32>,
}

/// The changes of one checkpoint.
struct Written {
    checkpoint: u32,
    records: u16,
    turn: u32,
    page: u32,
    /// The rows that they hold, in order.
    rows: Vec<u32>,
}

/// Where the records of a table are: a prefix for pages and one for changes.
#[derive(Clone, Copy)]
pub struct Prefixes {
    /// Of pages.
    pub page: [u8; 5],
    /// Of changes.
    pub changes: [u8; 5],
}

impl Pages {
    /// Rewrites everything that holds a row, so that what it was is in no record any more.
    pub fn forget(
        &mut self,
        row: u32,
        rows: &impl Rows,
        checkpoint: u32,
        prefixes: Prefixes,
        changes: &mut Changes<'_>,
    ) {
        let holds = |it: &Written| it.rows.binary_search(&row).is_ok();
        let (gone, kept): (Vec<Written>, _) = self.changes.drain(..).partition(holds);
        self.changes = kept.into();
        let mut pages: Vec<u32> = gone.iter().flat_map(|it| &it.rows).map(|row| row / ROWS).collect();
        pages.push(row / ROWS);
        pages.sort_unstable();
        pages.dedup();
        pages.iter().for_each(|page| write_page(*page, rows, checkpoint, prefixes, changes));
        gone.iter().for_each(|it| it.remove(prefixes, changes));
    }

    /// Puts the rows that changed.
    pub fn write(
        &mut self,
        mut changed: Vec<u32>,
        rows: &impl Rows,
        checkpoint: u32,
        prefixes: Prefixes,
        changes: &mut Changes<'_>,
    ) {
        changed.sort_unstable();
        changed.dedup();
        let mut few = Vec::new();
        for rows_of_page in changed.chunk_by(|a, b| a / ROWS == b / ROWS) {
            if rows_of_page.len() >= MANY {
                write_page(rows_of_page[0] / ROWS, rows, checkpoint, prefixes, changes);
            } else {
                few.extend_from_slice(rows_of_page);
            }
        }
        if !few.is_empty() {
            self.write_changes(&few, rows, checkpoint, prefixes, changes);
            self.write_in_turn(
                few.len().div_ceil(ROWS_PER_PAGE_IN_TURN),
                rows,
                checkpoint,
                prefixes,
                changes,
            );
            self.remove_old(prefixes, changes);
        }
    }

    fn write_changes(
        &mut self,
        changed: &[u32],
        rows: &impl Rows,
        checkpoint: u32,
        prefixes: Prefixes,
        changes: &mut Changes<'_>,
    ) {
        let header = [checkpoint, self.turn, self.next].map(u32::to_le_bytes).concat();
        let (mut bytes, mut records) = (header.clone(), 0);
        for (at, row) in changed.iter().enumerate() {
            bytes.extend_from_slice(&row.to_le_bytes());
            rows.write(*row, &mut bytes);
            if bytes.len() >= CHANGES_BYTES || at + 1 == changed.len() {
                let full = std::mem::replace(&mut bytes, header.clone());
                changes.put(&changes_key(prefixes, checkpoint, records), full);
                records += 1;
            }
        }
        let (turn, page, rows) = (self.turn, self.next, changed.to_vec());
        self.changes.push_back(Written { checkpoint, records, turn, page, rows });
    }

    fn write_in_turn(
        &mut self,
        pages: usize,
        rows: &impl Rows,
        checkpoint: u32,
        prefixes: Prefixes,
        changes: &mut Changes<'_>,
    ) {
        let all = rows.len().div_ceil(ROWS);
        for _ in 0..pages.min(all as usize) {
            write_page(self.next, rows, checkpoint, prefixes, changes);
            self.next += 1;
            if self.next >= all {
                (self.turn, self.next) = (self.turn + 1, 0);
            }
        }
    }

    /// Removes changes since which all pages were written.
    fn remove_old(&mut self, prefixes: Prefixes, changes: &mut Changes<'_>) {
        let (turn, next) = (self.turn, self.next);
        let is_old = |it: &mut Written| (turn, next) >= (it.turn + 1, it.page);
        while let Some(old) = self.changes.pop_front_if(is_old) {
            (0..old.records)
                .for_each(|record| changes.remove(&changes_key(prefixes, old.checkpoint, record)));
        }
    }

    /// Takes a page that was written.
    pub fn read_page(&mut self, page: u32, bytes: &[u8], rows: &mut impl Read) -> Result<(), Damaged> {
        let mut rest = bytes;
        let checkpoint = take_u32(&mut rest)?;
        let mut row = page.checked_mul(ROWS).ok_or_else(|| Damaged("there is no such page".to_owned()))?;
        while !rest.is_empty() {
            rows.read(row, &mut rest)?;
            row += 1;
        }
        let len = self.read.len().max(page as usize + 1);
        self.read.resize(len, 0);
        self.read[page as usize] = checkpoint;
        Ok(())
    }

    /// Takes changes that were written, after all pages and in the order of their keys.
    pub fn read_changes(&mut self, key: &[u8], bytes: &[u8], rows: &mut impl Read) -> Result<(), Damaged> {
        let mut rest = bytes;
        let [checkpoint, turn, page] = [take_u32(&mut rest)?, take_u32(&mut rest)?, take_u32(&mut rest)?];
        let record = key.last_chunk::<2>().map_or(0, |bytes| u16::from_be_bytes(*bytes));
        if self.changes.back().is_none_or(|last| last.checkpoint != checkpoint) {
            self.changes.push_back(Written { checkpoint, records: 0, turn, page, rows: Vec::new() });
        }
        let written = self.changes.back_mut().expect("it was just put");
        written.records = record + 1;
        while !rest.is_empty() {
            let row = take_u32(&mut rest)?;
            written.rows.push(row);
            let known = self.read.get((row / ROWS) as usize).copied();
            if known.is_some_and(|known| known >= checkpoint) {
                skip(rows, &mut rest)?;
            } else {
                rows.read(row, &mut rest)?;
            }
        }
        Ok(())
    }

    /// Called after the last record.
    pub fn restored(&mut self) {
        self.read = Vec::new();
        // Pages that were written after the last changes are written once more, no harm done.
        (self.turn, self.next) = self.changes.back().map_or((0, 0), |last| (last.turn, last.page));
    }
}

impl Written {
    fn remove(&self, prefixes: Prefixes, changes: &mut Changes<'_>) {
        (0..self.records).for_each(|record| changes.remove(&changes_key(prefixes, self.checkpoint, record)));
    }
}

fn skip<R: Read>(_: &mut R, bytes: &mut &[u8]) -> Result<(), Damaged> {
    R::skip(bytes)
}

fn write_page(page: u32, rows: &impl Rows, checkpoint: u32, prefixes: Prefixes, changes: &mut Changes<'_>) {
    let mut bytes = checkpoint.to_le_bytes().to_vec();
    for row in page * ROWS..rows.len().min((page + 1) * ROWS) {
        rows.write(row, &mut bytes);
    }
    changes.put(&[prefixes.page.as_slice(), &page.to_be_bytes()].concat(), bytes);
}

fn changes_key(prefixes: Prefixes, checkpoint: u32, record: u16) -> Vec<u8> {
    [prefixes.changes.as_slice(), &checkpoint.to_be_bytes(), &record.to_be_bytes()].concat()
}

/// Takes bytes off the front.
#[inline]
pub fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], Damaged> {
    let (taken, rest) = bytes.split_at_checked(len).ok_or_else(|| Damaged("a row is cut off".to_owned()))?;
    *bytes = rest;
    Ok(taken)
}

#[inline]
fn take_u32(bytes: &mut &[u8]) -> Result<u32, Damaged> {
    take(bytes, 4).map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::ports::records::RecordWrite;

    use super::*;

    const PREFIXES: Prefixes = Prefixes { page: *b"1pppp", changes: *b"2cccc" };

    impl Rows for Vec<u8> {
        fn len(&self) -> u32 {
            self.len() as u32
        }

        fn write(&self, row: u32, bytes: &mut Vec<u8>) {
            bytes.push(self[row as usize]);
        }
    }

    impl Read for Vec<u8> {
        fn read(&mut self, row: u32, bytes: &mut &[u8]) -> Result<(), Damaged> {
            let len = self.len().max(row as usize + 1);
            self.resize(len, 0);
            self[row as usize] = take(bytes, 1)?[0];
            Ok(())
        }

        fn skip(bytes: &mut &[u8]) -> Result<(), Damaged> {
            take(bytes, 1).map(drop)
        }
    }

    fn restore(records: &BTreeMap<Vec<u8>, Vec<u8>>) -> (Pages, Vec<u8>) {
        let (mut pages, mut rows) = (Pages::default(), Vec::new());
        for (key, value) in records {
            if key.starts_with(&PREFIXES.page) {
                let page = u32::from_be_bytes(key[5..].try_into().expect("four bytes"));
                pages.read_page(page, value, &mut rows).expect("a page");
            } else {
                pages.read_changes(key, value, &mut rows).expect("changes");
            }
        }
        pages.restored();
        (pages, rows)
    }

    #[test]
    fn what_was_written_is_read_back_after_each_checkpoint_and_little_more_is_kept() {
        let (mut rows, mut pages, mut records) = (Vec::new(), Pages::default(), BTreeMap::new());
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
                pages.forget(row, &rows, checkpoint, PREFIXES, &mut Changes::new(0, 0, &mut writes));
            }
            pages.write(changed, &rows, checkpoint, PREFIXES, &mut Changes::new(0, 0, &mut writes));
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
