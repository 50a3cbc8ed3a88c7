//! What was sent and what became of it, in a file that outlives any crash of the server.
//!
//! One line an event: `id crc32 outcome`. The CRC is that of the event's JSON text as it was
//! sent (the one of zlib, eight hexadecimal digits). `acked`, `duplicate` and `refused` are what
//! the server answered; `unknown` had no answer, or one that asks to send again, and may or may
//! not be stored.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::Context;

/// How long a line may wait for its fsync.
const SYNC_INTERVAL_NS: u64 = 100_000_000;
/// With a disk that hangs, the generator waits after this many intervals.
const BLOCKS_WAITING_MAX: usize = 64;

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    Acked,
    Duplicate,
    Refused,
    Unknown,
}

/// An event on its way: what its line will say before the outcome.
#[derive(Clone, Debug)]
pub struct Entry {
    id: [u8; 36],
    crc32: u32,
}

impl Entry {
    /// The entry of an event with this id and JSON text.
    pub fn new(id: [u8; 36], text: &[u8]) -> Self {
        Self { id, crc32: crc32(text) }
    }
}

/// The open ledger. Lines are written and synced by a thread of its own, so that a slow disk
/// does not delay requests.
#[derive(Debug)]
pub struct Ledger {
    lines: Vec<u8>,
    sync_at_ns: u64,
    blocks: SyncSender<Vec<u8>>,
    writer: JoinHandle<anyhow::Result<()>>,
}

impl Ledger {
    /// Starts a new ledger, in the place of an older file.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("creating the ledger {}", path.display()))?;
        let (blocks, waiting) = sync_channel::<Vec<u8>>(BLOCKS_WAITING_MAX);
        let writer =
            std::thread::spawn(move || waiting.into_iter().try_for_each(|block| write(&file, &block)));
        Ok(Self { lines: Vec::new(), sync_at_ns: 0, blocks, writer })
    }

    /// Notes what became of an event.
    pub fn note(&mut self, entry: &Entry, fate: Fate) {
        let word = match fate {
            Fate::Acked => "acked",
            Fate::Duplicate => "duplicate",
            Fate::Refused => "refused",
            Fate::Unknown => "unknown",
        };
        self.lines.extend(entry.id);
        writeln!(self.lines, " {:08x} {word}", entry.crc32).expect("memory takes every write");
    }

    /// Hands what was noted to the disk, ten times a second.
    pub fn sync_if_due(&mut self, now_ns: u64) {
        if now_ns >= self.sync_at_ns {
            self.sync_at_ns = now_ns + SYNC_INTERVAL_NS;
            self.hand_over();
        }
    }

    /// Writes and syncs the rest, and says whether everything got to the disk.
    pub fn close(mut self) -> anyhow::Result<()> {
        self.hand_over();
        drop(self.blocks);
        self.writer.join().expect("the writer does not panic")
    }

    fn hand_over(&mut self) {
        if !self.lines.is_empty() {
            // A writer that ended has failed; `close` says why.
            let _ = self.blocks.send(std::mem::take(&mut self.lines));
        }
    }
}

fn write(mut file: &File, block: &[u8]) -> anyhow::Result<()> {
    file.write_all(block).and_then(|()| file.sync_data()).context("writing the ledger")
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| crc >> 8 ^ CRC32_TABLE[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(!0, step)
}

const CRC32_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn every_event_has_a_line_with_its_outcome() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let path = folder.path().join("ledger");
        let mut ledger = Ledger::create(&path).expect("the folder is writable");
        let entry = Entry::new(*b"018bcfe5-6800-7000-8000-000000000001", b"123456789");
        ledger.note(&entry, Fate::Unknown);
        ledger.sync_if_due(1);
        ledger.note(&entry, Fate::Acked);
        ledger.close().expect("the disk takes it");
        assert_eq!(
            std::fs::read_to_string(path).expect("the ledger is there"),
            "018bcfe5-6800-7000-8000-000000000001 cbf43926 unknown\n\
             018bcfe5-6800-7000-8000-000000000001 cbf43926 acked\n"
        );
    }
}
