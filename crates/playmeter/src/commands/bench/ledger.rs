//! The ledger of a load test: each event that was sent and its outcome, in a file that survives crashes of the server.
//!
//! One line per event: `id crc32 outcome`. The CRC is that of the JSON text of the event as it was sent (CRC-32 of zlib,
//! eight hexadecimal digits). The outcomes `acked`, `duplicate` and `refused` are responses of the server. An event with
//! `unknown` had no response or a retryable one, and may or may not be stored.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::Context;

/// The longest time that a line waits to be synced.
const SYNC_INTERVAL_NS: u64 = 100_000_000;
/// If the disk hangs, the generator blocks after this many intervals.
const BLOCKS_WAITING_MAX: usize = 64;

/// The outcome of sending an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SendOutcome {
    Acked,
    Duplicate,
    Rejected,
    Unknown,
}

/// The id and the checksum of an event that was sent.
#[derive(Clone, Debug)]
pub(crate) struct EventRecord {
    id: [u8; 36],
    crc32: u32,
}

impl EventRecord {
    /// Creates the record of an event with this id and JSON text.
    pub(crate) fn new(id: [u8; 36], text: &[u8]) -> Self {
        Self { id, crc32: crc32(text) }
    }
}

/// An open ledger. A separate thread writes and syncs the lines, so that a slow disk does not delay requests.
#[derive(Debug)]
pub(crate) struct EventLedger {
    lines: Vec<u8>,
    sync_at_ns: u64,
    blocks: SyncSender<Vec<u8>>,
    writer: JoinHandle<anyhow::Result<()>>,
}

impl EventLedger {
    /// Creates a ledger. Replaces an existing file.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("creating the ledger {}", path.display()))?;
        let (blocks, receiver) = sync_channel::<Vec<u8>>(BLOCKS_WAITING_MAX);
        let writer =
            std::thread::spawn(move || receiver.into_iter().try_for_each(|block| write(&file, &block)));
        Ok(Self { lines: Vec::new(), sync_at_ns: 0, blocks, writer })
    }

    /// Adds the outcome of an event.
    pub(crate) fn add(&mut self, record: &EventRecord, outcome: SendOutcome) {
        let label = match outcome {
            SendOutcome::Acked => "acked",
            SendOutcome::Duplicate => "duplicate",
            SendOutcome::Rejected => "refused",
            SendOutcome::Unknown => "unknown",
        };
        self.lines.extend(record.id);
        writeln!(self.lines, " {:08x} {label}", record.crc32).expect("writing to memory works");
    }

    /// Passes the new lines to the writer, ten times per second.
    pub(crate) fn sync_if_due(&mut self, now_ns: u64) {
        if now_ns >= self.sync_at_ns {
            self.sync_at_ns = now_ns + SYNC_INTERVAL_NS;
            self.flush();
        }
    }

    /// Writes and syncs the remaining lines. Fails if any write failed.
    pub(crate) fn close(mut self) -> anyhow::Result<()> {
        self.flush();
        drop(self.blocks);
        self.writer.join().expect("the writer does not panic")
    }

    fn flush(&mut self) {
        if !self.lines.is_empty() {
            // If the writer has stopped, `close` returns its error.
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
    fn checksum_is_that_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn each_outcome_is_a_line() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let path = folder.path().join("ledger");
        let mut ledger = EventLedger::create(&path).expect("the folder is writable");
        let record = EventRecord::new(*b"018bcfe5-6800-7000-8000-000000000001", b"123456789");
        ledger.add(&record, SendOutcome::Unknown);
        ledger.sync_if_due(1);
        ledger.add(&record, SendOutcome::Acked);
        ledger.close().expect("the disk works");
        assert_eq!(
            std::fs::read_to_string(path).expect("the ledger exists"),
            "018bcfe5-6800-7000-8000-000000000001 cbf43926 unknown\n\
             018bcfe5-6800-7000-8000-000000000001 cbf43926 acked\n"
        );
    }
}
