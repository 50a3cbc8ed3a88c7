//! The events of one game that are in no file yet.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use model::batch::InvalidBatch;

use crate::builder::{Table, build};
use crate::columns::Column;

/// Entries become columns when there are this many events or bytes of them.
const SEGMENT_ROWS: u64 = 32_768;
const SEGMENT_BYTES: usize = 8 << 20;

/// Events as columns, by day.
#[derive(Debug)]
pub(crate) struct Segment {
    log: Range<u64>,
    pub(crate) tables: Vec<Arc<Table>>,
    bytes: usize,
    rows: u64,
    received_ms: i64,
}

impl Segment {
    pub(crate) fn log(&self) -> &Range<u64> {
        &self.log
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The newest entries, as the log has them.
#[derive(Debug, Default)]
pub(crate) struct OpenTail {
    /// Each with its time of receipt.
    batches: Vec<(i64, Arc<[u8]>)>,
    log: Option<Range<u64>>,
    bytes: usize,
    tables: OnceLock<Vec<Arc<Table>>>,
}

impl OpenTail {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the entries as columns, which are made once.
    pub(crate) fn tables(&self, seed: u64) -> Result<&[Arc<Table>], InvalidBatch> {
        if let Some(tables) = self.tables.get() {
            return Ok(tables);
        }
        let tables = build(seed, self.batches.iter().map(|(_, batch)| &**batch))?;
        Ok(self.tables.get_or_init(|| tables.into_iter().map(Arc::new).collect()))
    }
}

/// Returns about how many bytes of memory tables take that share dictionaries.
fn bytes_of(tables: &[Arc<Table>]) -> usize {
    let mut shared = HashSet::new();
    let mut bytes = 256;
    for table in tables {
        bytes += table.chunk.bytes() + 256;
        for column in &table.chunk.columns {
            if let Column::Coded { dictionary, .. } = column
                && !shared.insert(Arc::as_ptr(dictionary))
            {
                bytes -= dictionary.bytes();
            }
        }
    }
    bytes
}

/// Sealed segments and the open entries behind them.
#[derive(Debug, Default)]
pub(super) struct Tail {
    segments: Vec<Arc<Segment>>,
    open: Arc<OpenTail>,
    open_rows: u64,
    until: u64,
}

impl Tail {
    pub(super) fn push(&mut self, log: Range<u64>, received_ms: i64, batch: &[u8]) {
        self.until = log.end;
        self.open_rows += log.end - log.start;
        // A snapshot may share the entries; and columns that were made of them are no longer all.
        if Arc::get_mut(&mut self.open).is_none_or(|open| open.tables.get().is_some()) {
            let OpenTail { batches, log, bytes, .. } = &*self.open;
            let (batches, log, bytes) = (batches.clone(), log.clone(), *bytes);
            self.open = Arc::new(OpenTail { batches, log, bytes, tables: OnceLock::new() });
        }
        let open = Arc::get_mut(&mut self.open).expect("not shared, or just made");
        open.batches.push((received_ms, batch.into()));
        open.bytes += batch.len() + 32;
        open.log = Some(open.log.as_ref().map_or(log.start, |open| open.start)..log.end);
    }

    pub(super) fn is_open_full(&self) -> bool {
        self.open_rows >= SEGMENT_ROWS || self.open.bytes >= SEGMENT_BYTES
    }

    pub(super) fn open(&self) -> Arc<OpenTail> {
        self.open.clone()
    }

    pub(super) fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// Replaces the entries of `sealed`, whose columns were made, by a segment. Entries behind them stay open.
    pub(super) fn seal(&mut self, sealed: &Arc<OpenTail>) {
        let is_prefix = self.open.batches.len() >= sealed.batches.len()
            && self
                .open
                .batches
                .iter()
                .zip(&sealed.batches)
                .all(|(open, sealed)| Arc::ptr_eq(&open.1, &sealed.1));
        let (Some(log), Some(tables), true) = (&sealed.log, sealed.tables.get(), is_prefix) else { return };
        let received_ms = sealed.batches.first().map_or(0, |(received_ms, _)| *received_ms);
        let rows = tables.iter().map(|table| table.rows() as u64).sum();
        let bytes = bytes_of(tables);
        let segment = Segment { log: log.clone(), tables: tables.clone(), bytes, rows, received_ms };
        self.segments.push(Arc::new(segment));
        let left = self.open.batches[sealed.batches.len()..].to_vec();
        let bytes = left.iter().map(|(_, batch)| batch.len() + 32).sum();
        let log = (!left.is_empty()).then_some(log.end..self.until);
        self.open_rows = log.as_ref().map_or(0, |log| log.end - log.start);
        self.open = Arc::new(OpenTail { batches: left, log, bytes, tables: OnceLock::new() });
    }

    /// Removes segments that are in parts now.
    pub(super) fn remove(&mut self, cut: &[Arc<Segment>]) {
        self.segments.retain(|segment| !cut.iter().any(|cut| Arc::ptr_eq(cut, segment)));
    }

    pub(super) fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes).sum::<usize>() + self.open.bytes
    }

    pub(super) fn rows(&self) -> u64 {
        self.segments.iter().map(|segment| segment.rows).sum::<u64>() + self.open_rows
    }

    /// Returns the end of the entries, also of those that were cut.
    pub(super) fn until(&self) -> u64 {
        self.until
    }

    /// Returns the position of the oldest entry.
    pub(super) fn from(&self) -> Option<u64> {
        let segment = self.segments.first().map(|segment| segment.log.start);
        segment.or(self.open.log.as_ref().map(|log| log.start))
    }

    /// Returns when the oldest entry was received.
    pub(super) fn received_ms(&self) -> Option<i64> {
        let segment = self.segments.first().map(|segment| segment.received_ms);
        segment.or(self.open.batches.first().map(|(received_ms, _)| *received_ms))
    }
}
