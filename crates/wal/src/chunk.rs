//! The entries of one commit, as readers receive them.

use crate::format::{ENTRY_HEADER_BYTES, FrameHeader, offsets_of, u32_at};

/// The entries of one commit. Readers always receive the whole commit; a reader that starts in the middle skips
/// the entries before its offset with `entries_from`.
#[derive(Debug)]
pub struct Chunk {
    first: u64,
    until: u64,
    time_ms: u64,
    bytes: Vec<u8>,
    payload_from: usize,
    payload_to: usize,
}

impl Chunk {
    /// Creates a chunk from `bytes`, which contain the payload starting at `payload_from`.
    pub(crate) fn new(header: &FrameHeader, bytes: Vec<u8>, payload_from: usize) -> Chunk {
        let payload_to = payload_from + header.payload_bytes as usize;
        debug_assert!(payload_to <= bytes.len());
        let (first, until, time_ms) = (header.first, header.until(), header.time_ms);
        Chunk { first, until, time_ms, bytes, payload_from, payload_to }
    }

    /// Returns the offset of the first entry.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the offset after the last entry.
    pub fn until(&self) -> u64 {
        self.until
    }

    /// Returns the time of the commit in milliseconds since 1970, by the server's clock, which may jump.
    pub fn time_ms(&self) -> u64 {
        self.time_ms
    }

    /// Returns the bytes of memory it occupies.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + size_of::<Chunk>()
    }

    /// Returns all entries in order.
    pub fn entries(&self) -> Entries<'_> {
        Entries {
            offset: self.first,
            time_ms: self.time_ms,
            rest: &self.bytes[self.payload_from..self.payload_to],
        }
    }

    /// Returns the entries that contain `offset` or come after it.
    pub fn entries_from(&self, offset: u64) -> impl Iterator<Item = EntryRef<'_>> {
        self.entries().skip_while(move |entry| entry.until() <= offset)
    }
}

/// One entry, borrowed from its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// The offset of its first event.
    pub offset: u64,
    /// The kind given by the caller that appended it.
    pub kind: u8,
    /// Number of events.
    pub events: u32,
    /// The time of its commit in milliseconds since 1970, by the server's clock, which may jump.
    pub time_ms: u64,
    /// Its content.
    pub bytes: &'a [u8],
}

impl EntryRef<'_> {
    /// Returns the offset after it: an entry takes one offset per event, and one if it has none.
    pub fn until(&self) -> u64 {
        self.offset + offsets_of(self.events)
    }
}

/// Iterates over the entries of a chunk.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    offset: u64,
    time_ms: u64,
    rest: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = EntryRef<'a>;

    fn next(&mut self) -> Option<EntryRef<'a>> {
        // The checksum was verified, so the payload cannot be cut short; if it were, the iterator would end here.
        let (head, rest) = self.rest.split_at_checked(ENTRY_HEADER_BYTES)?;
        let (bytes, rest) = rest.split_at_checked(u32_at(head, 0) as usize)?;
        let (offset, time_ms) = (self.offset, self.time_ms);
        let entry = EntryRef { offset, kind: head[4], events: u32_at(head, 5), time_ms, bytes };
        self.offset = entry.until();
        self.rest = rest;
        Some(entry)
    }
}
