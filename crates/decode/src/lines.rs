//! Splits a byte stream into lines, for files and connections that are read in pieces.
//!
//! The result goes to a decoder of lines ([`crate::json`], [`crate::statsd`], [`crate::influx`]). LineSplitter are never
//! split, and a line that is too long is skipped without affecting others.

use memchr::{memchr, memchr_iter};

/// A splitter and its unconsumed bytes.
#[derive(Debug)]
pub struct LineSplitter {
    bytes: Vec<u8>,
    /// Number of bytes already consumed.
    consumed: usize,
    /// The number of the line at `consumed`.
    line: u64,
    line_bytes_max: usize,
    /// The line at `consumed` was too long and is skipped to its end.
    is_skipping: bool,
    is_at_end: bool,
}

/// The next part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineChunk<'a> {
    /// Whole lines.
    Lines {
        /// Each with its newline, except the last line of the stream.
        bytes: &'a [u8],
        /// The number of the first one, counted from 1.
        first_line: u64,
    },
    /// A line with more bytes than allowed, which is skipped.
    TooLong {
        /// Its number, counted from 1.
        line: u64,
    },
}

impl LineSplitter {
    /// Creates a splitter for lines of at most this many bytes, the newline not counted.
    pub fn new(line_bytes_max: usize) -> LineSplitter {
        LineSplitter {
            bytes: Vec::new(),
            consumed: 0,
            line: 1,
            line_bytes_max,
            is_skipping: false,
            is_at_end: false,
        }
    }

    /// Appends a chunk. Before the next call [`LineSplitter::next_chunk`] must have returned `None`, so that no more than one line and one
    /// chunk is buffered.
    pub fn push(&mut self, chunk: &[u8]) {
        self.bytes.drain(..self.consumed);
        self.consumed = 0;
        self.bytes.extend_from_slice(chunk);
    }

    /// Ends the stream: text after the last newline is a line as well.
    pub fn finish(&mut self) {
        self.is_at_end = true;
    }

    /// Returns the next lines, `lines_max` at most; `None` if more bytes are needed.
    pub fn next_chunk(&mut self, lines_max: usize) -> Option<LineChunk<'_>> {
        if self.is_skipping {
            self.skip_line()?;
        }
        let pending = &self.bytes[self.consumed..];
        let (mut end, mut lines) = (0, 0);
        let ends = memchr_iter(b'\n', pending).map(|at| at + 1);
        let last =
            (self.is_at_end && pending.last().is_some_and(|byte| *byte != b'\n')).then_some(pending.len());
        for next in ends.chain(last).take(lines_max) {
            let newline = usize::from(pending[next - 1] == b'\n');
            if next - newline - end > self.line_bytes_max {
                break;
            }
            (end, lines) = (next, lines + 1);
        }
        if lines > 0 {
            let (from, first_line) = (self.consumed, self.line);
            self.consumed += end;
            self.line += lines;
            return Some(LineChunk::Lines { bytes: &self.bytes[from..from + end], first_line });
        }
        self.skip_too_long(lines_max)
    }

    /// Skips the line at `consumed` if it is too long.
    fn skip_too_long(&mut self, lines_max: usize) -> Option<LineChunk<'_>> {
        let pending = &self.bytes[self.consumed..];
        let len = memchr(b'\n', pending).unwrap_or(pending.len());
        if lines_max == 0 || len <= self.line_bytes_max {
            return None;
        }
        let line = self.line;
        self.is_skipping = true;
        self.skip_line();
        Some(LineChunk::TooLong { line })
    }

    /// Skips the rest of a line; returns `None` if its end has not arrived.
    fn skip_line(&mut self) -> Option<()> {
        match memchr(b'\n', &self.bytes[self.consumed..]) {
            Some(at) => {
                self.consumed += at + 1;
                self.line += 1;
                self.is_skipping = false;
                Some(())
            }
            None => {
                self.consumed = self.bytes.len();
                None
            }
        }
    }
}
