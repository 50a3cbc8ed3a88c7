//! Reads NDJSON. Only splits lines: the server parses them.

use std::io::BufRead;

use anyhow::Context;
use decode::lines::{self, LineChunk};
use model::Reject;
use model::limits::EVENT_BYTES_MAX;

use super::{BYTE_ORDER_MARK, EventBatch, RowReader};

pub(crate) struct NdjsonReader {
    input: Box<dyn BufRead>,
    lines: lines::LineSplitter,
    is_at_end: bool,
}

impl NdjsonReader {
    pub(crate) fn new(input: Box<dyn BufRead>) -> NdjsonReader {
        NdjsonReader { input, lines: lines::LineSplitter::new(EVENT_BYTES_MAX), is_at_end: false }
    }

    /// Reads the next chunk.
    fn read_chunk(&mut self) -> anyhow::Result<()> {
        let chunk = self.input.fill_buf().context("reading the file")?;
        let read = chunk.len();
        self.lines.push(chunk);
        self.input.consume(read);
        if read == 0 {
            self.lines.finish();
            self.is_at_end = true;
        }
        Ok(())
    }
}

impl RowReader for NdjsonReader {
    fn fill(&mut self, rows_max: usize, batch: &mut EventBatch) -> anyhow::Result<()> {
        while !batch.is_full(rows_max) {
            match self.lines.next_chunk(rows_max - batch.rows()) {
                Some(LineChunk::Lines { bytes, first_line }) => {
                    for (line, bytes) in (first_line..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
                        add(batch, line, bytes);
                    }
                }
                Some(LineChunk::TooLong { line }) => batch.rejected.push((line, Reject::EventTooLarge)),
                None if self.is_at_end => return Ok(()),
                None => self.read_chunk()?,
            }
        }
        Ok(())
    }
}

/// Adds a line without a byte order mark. Skips blank lines.
fn add(batch: &mut EventBatch, line: u64, bytes: &[u8]) {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).filter(|_| line == 1).unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
        return;
    }
    match str::from_utf8(bytes) {
        Ok(text) => batch.push_line(line, text),
        Err(_) => batch.rejected.push((line, Reject::NotUtf8)),
    }
}
