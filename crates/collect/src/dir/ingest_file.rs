//! Ingesting one file, batch by batch.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use decode::csv::{CsvReader, Mapping};
use decode::json::{self, BodyFormat};
use decode::lines::{LineChunk, LineSplitter};
use model::limits::EVENT_BYTES_MAX;
use model::{RawBatch, Reject};
use pipeline::catalog::Access;
use pipeline::file_ids::FileIds;
use pipeline::ingest::IngestError;
use pipeline::reject_tally::RejectTally;
use pipeline::shutdown::wait_for_stop;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::folder::FileIdentity;
use crate::settings::Decoder;
use crate::sink::Sink;

/// Bytes of a file that are read at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Lines of one batch.
const LINES_AT_ONCE: usize = 2_000;
/// The longest wait before a retry when the game has used up its quota.
const QUOTA_WAIT_MAX: Duration = Duration::from_secs(60);

/// The outcome of ingesting a file.
pub(super) enum FileOutcome {
    /// All of it is durable.
    Complete,
    /// The collector is stopping, or the log is not accepting writes.
    Interrupted,
    /// The file cannot be read, for this reason.
    Unreadable(String),
}

/// Why a file was not ingested completely.
enum FileError {
    Interrupted,
    Unreadable(String),
}

/// Ingests a file to its end.
pub(super) async fn ingest_file(
    file: File,
    identity: FileIdentity,
    sink: &Sink,
    stop: &watch::Receiver<bool>,
) -> FileOutcome {
    let reader = FileReader { file: Some(file), sink };
    let mut writer =
        FileWriter { sink, access: sink.access(), ids: FileIds::new(&identity.to_bytes(), 0), stop };
    let ingested = match &sink.collector.settings.decoder {
        Decoder::Csv(mapping) => ingest_rows(reader, Mapping::clone(mapping), &mut writer).await,
        _ => ingest_lines(reader, &mut writer).await,
    };
    match ingested {
        Ok(()) => FileOutcome::Complete,
        Err(FileError::Interrupted) => FileOutcome::Interrupted,
        Err(FileError::Unreadable(reason)) => FileOutcome::Unreadable(reason),
    }
}

async fn ingest_lines(mut reader: FileReader<'_>, writer: &mut FileWriter<'_>) -> Result<(), FileError> {
    let mut lines = LineSplitter::new(EVENT_BYTES_MAX);
    loop {
        let chunk = reader.read_chunk().await?;
        if chunk.is_empty() {
            lines.finish();
        }
        lines.push(&chunk);
        while let Some(piece) = lines.next_chunk(LINES_AT_ONCE) {
            match piece {
                LineChunk::Lines { bytes, .. } => writer.write_lines(bytes).await?,
                LineChunk::TooLong { .. } => {
                    writer.write(RawBatch::default(), &[(Reject::EventTooLarge, 1)]).await?
                }
            }
        }
        if chunk.is_empty() {
            return Ok(());
        }
    }
}

async fn ingest_rows(
    mut reader: FileReader<'_>,
    mapping: Mapping,
    writer: &mut FileWriter<'_>,
) -> Result<(), FileError> {
    let unreadable = |bad: decode::csv::MappingError| FileError::Unreadable(bad.to_string());
    let mut rows = CsvReader::new(mapping);
    loop {
        let chunk = reader.read_chunk().await?;
        let mut read = 0;
        while read < chunk.len() {
            read += rows.read(&chunk[read..]).map_err(unreadable)?;
            if rows.is_full() {
                writer.write(rows.decoded(), &[]).await?;
                rows.clear();
            }
        }
        if chunk.is_empty() {
            rows.finish().map_err(unreadable)?;
            writer.write(rows.decoded(), &[]).await?;
            return Ok(());
        }
    }
}

/// Reads a file on a thread where blocking is allowed.
struct FileReader<'a> {
    file: Option<File>,
    sink: &'a Sink,
}

impl FileReader<'_> {
    /// Reads the next chunk. It is empty at the end of the file.
    async fn read_chunk(&mut self) -> Result<Vec<u8>, FileError> {
        let mut file = self.file.take().expect("the file is put back after each read");
        let read = spawn_blocking(move || {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            let read = file.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk);
            (file, read.map(|_| chunk))
        });
        let (file, chunk) = read.await.map_err(|failure| FileError::Unreadable(failure.to_string()))?;
        self.file = Some(file);
        let chunk =
            chunk.map_err(|failure| FileError::Unreadable(format!("the file cannot be read: {failure}")))?;
        self.sink.collector.counters.bytes.add(chunk.len() as u64);
        Ok(chunk)
    }
}

/// Writes the events of one file.
struct FileWriter<'a> {
    sink: &'a Sink,
    access: Access,
    ids: FileIds,
    stop: &'a watch::Receiver<bool>,
}

impl FileWriter<'_> {
    async fn write_lines(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        match self.sink.collector.settings.decoder {
            Decoder::Flow => self.write_packets(bytes).await,
            _ => self.write_events(bytes).await,
        }
    }

    /// Gives packets to the flows at once. Only rejected ones are counted in the log.
    async fn write_packets(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let (collector, context) = (&self.sink.collector, &self.sink.context);
        let mut rejects = RejectTally::default();
        let counts = context.flows.apply_lines(collector.game, bytes, &mut rejects);
        collector.counters.accepted.add(counts.packets() - counts.rejected);
        self.sink.show(&mut rejects);
        self.write(RawBatch::default(), rejects.counts()).await
    }

    async fn write_events(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let mut decoded = RawBatch::default();
        if json::decode(bytes, BodyFormat::Lines, &mut decoded).is_ok() {
            return self.write(decoded, &[]).await;
        }
        // Either all lines are blank, or some line is not UTF-8: then the other lines are ingested without it.
        let (mut text, mut rejected) = (Vec::with_capacity(bytes.len()), 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            match str::from_utf8(line) {
                Ok(_) => text.extend_from_slice(line),
                Err(_) => rejected += 1,
            }
        }
        let mut decoded = RawBatch::default();
        let _ = json::decode(&text, BodyFormat::Lines, &mut decoded);
        let rejected = [(Reject::NotUtf8, rejected)];
        self.write(decoded, if rejected[0].1 == 0 { &[] } else { &rejected }).await
    }

    /// Writes events. Returns when they are durable.
    async fn write(
        &mut self,
        mut decoded: RawBatch<'_>,
        rejected: &[(Reject, u32)],
    ) -> Result<(), FileError> {
        if decoded.events.is_empty() && rejected.is_empty() {
            return Ok(());
        }
        self.ids.assign(&mut decoded);
        let give_up = || *self.stop.borrow();
        loop {
            if give_up() {
                return Err(FileError::Interrupted);
            }
            match self.sink.submit(&self.access, &decoded, rejected, give_up).await {
                Ok(receipt) => {
                    let counters = &self.sink.collector.counters;
                    rejected
                        .iter()
                        .for_each(|(reject, count)| counters.add_rejected(*reject, u64::from(*count)));
                    let all = decoded.events.len() as u64;
                    self.sink.count(&receipt, |index| index.map_or(all, |_| 1));
                    return Ok(());
                }
                Err(IngestError::Limited(over)) => self.wait_for_quota(u64::from(over.retry_s)).await,
                Err(_) => return Err(FileError::Interrupted),
            }
        }
    }

    async fn wait_for_quota(&self, retry_s: u64) {
        let mut stop = self.stop.clone();
        tokio::select! {
            () = sleep(Duration::from_secs(retry_s).min(QUOTA_WAIT_MAX)) => {}
            () = wait_for_stop(&mut stop) => {}
        }
    }
}
