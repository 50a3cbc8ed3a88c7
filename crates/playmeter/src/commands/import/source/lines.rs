//! Lines of JSON. What is in them is the server's to read; here it is only told where each of them ends.

use std::io::BufRead;

use anyhow::Context;
use decode::lines::{self, LineChunk};
use model::Reject;
use model::limits::EVENT_BYTES_MAX;

use super::{BYTE_ORDER_MARK, Batch, Rows};

/// A file of lines.
pub struct Lines {
    input: Box<dyn BufRead>,
    lines: lines::LineSplitter,
    is_at_end: bool,
}

impl Lines {
    pub fn new(input: Box<dyn BufRead>) -> Lines {
        Lines { input, lines: lines::LineSplitter::new(EVENT_BYTES_MAX), is_at_end: false }
    }

    /// Reads more, if there is more.
    fn read(&mut self) -> anyhow::Result<()> {
        let chunk = self.input.fill_buf().context("reading it")?;
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

impl Rows for Lines {
    fn fill(&mut self, rows_max: usize, batch: &mut Batch) -> anyhow::Result<()> {
        while !batch.is_full(rows_max) {
            match self.lines.next_chunk(rows_max - batch.rows()) {
                Some(LineChunk::Lines { bytes, first_line }) => {
                    for (line, bytes) in (first_line..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
                        add(batch, line, bytes);
                    }
                }
                Some(LineChunk::TooLong { line }) => batch.refused.push((line, Reject::EventTooLarge)),
                None if self.is_at_end => return Ok(()),
                None => self.read()?,
            }
        }
        Ok(())
    }
}

/// A blank line is no event, as everywhere, and a byte order mark before the first line no part of it.
fn add(batch: &mut Batch, line: u64, bytes: &[u8]) {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).filter(|_| line == 1).unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
        return;
    }
    match str::from_utf8(bytes) {
        Ok(text) => batch.push_line(line, text),
        Err(_) => batch.refused.push((line, Reject::NotUtf8)),
    }
}
