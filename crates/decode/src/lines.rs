//! A stream of bytes, cut where lines end: for files and connections that are read piece by piece.
//!
//! What comes out goes to a decoder of lines ([`crate::json`], [`crate::statsd`], [`crate::influx`]). A line is never
//! cut, and one that is too long costs nothing but itself.

use memchr::{memchr, memchr_iter};

/// Bytes that have come and lines that have not been taken.
#[derive(Debug)]
pub struct Lines {
    bytes: Vec<u8>,
    /// What of the bytes was taken already.
    taken: usize,
    /// The number of the line at `taken`.
    line: u64,
    line_bytes_max: usize,
    /// The line at `taken` was too long and is left out up to its end.
    is_skipping: bool,
    is_at_end: bool,
}

/// What stands next in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Whole lines.
    Lines {
        /// Each with its newline, but for the last line of the stream.
        bytes: &'a [u8],
        /// The number of the first one, from 1 on.
        first_line: u64,
    },
    /// A line with more bytes than allowed, which is left out.
    TooLong {
        /// Its number, from 1 on.
        line: u64,
    },
}

impl Lines {
    /// An empty stream whose lines have at most so many bytes, the newline not counted.
    pub fn new(line_bytes_max: usize) -> Lines {
        Lines { bytes: Vec::new(), taken: 0, line: 1, line_bytes_max, is_skipping: false, is_at_end: false }
    }

    /// Adds what came. Between two calls [`Lines::take`] must have answered with nothing, so that no more is kept than
    /// one line and one chunk.
    pub fn push(&mut self, chunk: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(chunk);
    }

    /// Nothing more will come: what stands behind the last newline is a line as well.
    pub fn finish(&mut self) {
        self.is_at_end = true;
    }

    /// The next lines, `lines_max` at most. Nothing: more bytes have to come first.
    pub fn take(&mut self, lines_max: usize) -> Option<Piece<'_>> {
        if self.is_skipping {
            self.skip_line()?;
        }
        let pending = &self.bytes[self.taken..];
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
            let (from, first_line) = (self.taken, self.line);
            self.taken += end;
            self.line += lines;
            return Some(Piece::Lines { bytes: &self.bytes[from..from + end], first_line });
        }
        self.take_too_long(lines_max)
    }

    /// The line at `taken` is too long, or not there yet.
    fn take_too_long(&mut self, lines_max: usize) -> Option<Piece<'_>> {
        let pending = &self.bytes[self.taken..];
        let len = memchr(b'\n', pending).unwrap_or(pending.len());
        if lines_max == 0 || len <= self.line_bytes_max {
            return None;
        }
        let line = self.line;
        self.is_skipping = true;
        self.skip_line();
        Some(Piece::TooLong { line })
    }

    /// Leaves out the rest of a line. Nothing: it has not ended.
    fn skip_line(&mut self) -> Option<()> {
        match memchr(b'\n', &self.bytes[self.taken..]) {
            Some(at) => {
                self.taken += at + 1;
                self.line += 1;
                self.is_skipping = false;
                Some(())
            }
            None => {
                self.taken = self.bytes.len();
                None
            }
        }
    }
}
