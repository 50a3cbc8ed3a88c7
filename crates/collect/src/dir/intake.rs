//! From a file to the log, batch by batch.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use decode::csv::{CsvReader, Mapping};
use decode::json::{self, BodyFormat};
use decode::lines::{LineChunk, LineSplitter};
use model::limits::EVENT_BYTES_MAX;
use model::{RawBatch, Reject};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::folder::Identity;
use crate::intake::Desk;
use crate::settings::Decoder;
use pipeline::catalog::Access;
use pipeline::file_ids::FileIds;
use pipeline::ingest::IngestError;
use pipeline::reject_tally::RejectTally;

/// So much of a file is read at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Lines of one batch.
const LINES_AT_ONCE: usize = 2_000;
/// A file whose game has used up its quota waits so long at most before it is tried again.
const QUOTA_WAIT: Duration = Duration::from_secs(60);

/// What became of a file.
pub(super) enum Taken {
    /// All of it is durable.
    Whole,
    /// The collector is to stop, or the log takes nothing more.
    Interrupted,
    /// It cannot be read, and why.
    Unreadable(String),
}

/// Why a file was not taken to its end.
enum Broken {
    Interrupted,
    Unreadable(String),
}

/// Takes in all of a file.
pub(super) async fn take_in(
    file: File,
    identity: Identity,
    desk: &Desk,
    end: &watch::Receiver<bool>,
) -> Taken {
    let reader = Reader { file: Some(file), desk };
    let mut writer = Writer { desk, access: desk.access(), ids: FileIds::new(&identity.bytes(), 0), end };
    let taken = match &desk.collector.settings.decoder {
        Decoder::Csv(mapping) => rows(reader, Mapping::clone(mapping), &mut writer).await,
        _ => lines(reader, &mut writer).await,
    };
    match taken {
        Ok(()) => Taken::Whole,
        Err(Broken::Interrupted) => Taken::Interrupted,
        Err(Broken::Unreadable(reason)) => Taken::Unreadable(reason),
    }
}

async fn lines(mut reader: Reader<'_>, writer: &mut Writer<'_>) -> Result<(), Broken> {
    let mut lines = LineSplitter::new(EVENT_BYTES_MAX);
    loop {
        let chunk = reader.chunk().await?;
        if chunk.is_empty() {
            lines.finish();
        }
        lines.push(&chunk);
        while let Some(piece) = lines.next_chunk(LINES_AT_ONCE) {
            match piece {
                LineChunk::Lines { bytes, .. } => writer.lines(bytes).await?,
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

async fn rows(mut reader: Reader<'_>, mapping: Mapping, writer: &mut Writer<'_>) -> Result<(), Broken> {
    let unreadable = |bad: decode::csv::MappingError| Broken::Unreadable(bad.to_string());
    let mut rows = CsvReader::new(mapping);
    loop {
        let chunk = reader.chunk().await?;
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

/// Reads a file without making others wait.
struct Reader<'a> {
    file: Option<File>,
    desk: &'a Desk,
}

impl Reader<'_> {
    /// What comes next; nothing at the end.
    async fn chunk(&mut self) -> Result<Vec<u8>, Broken> {
        let mut file = self.file.take().expect("it is put back each time");
        let read = spawn_blocking(move || {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            let read = file.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk);
            (file, read.map(|_| chunk))
        });
        let (file, chunk) = read.await.map_err(|failure| Broken::Unreadable(failure.to_string()))?;
        self.file = Some(file);
        let chunk = chunk.map_err(|failure| Broken::Unreadable(format!("it cannot be read: {failure}")))?;
        self.desk.collector.counters.bytes.add(chunk.len() as u64);
        Ok(chunk)
    }
}

/// Writes the events of one file.
struct Writer<'a> {
    desk: &'a Desk,
    access: Access,
    ids: FileIds,
    end: &'a watch::Receiver<bool>,
}

impl Writer<'_> {
    async fn lines(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        match self.desk.collector.settings.decoder {
            Decoder::Flow => self.packets(bytes).await,
            _ => self.events(bytes).await,
        }
    }

    /// Packets go to the flows at once; what was refused is counted in the log.
    async fn packets(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let (collector, context) = (&self.desk.collector, &self.desk.context);
        let mut refusals = RejectTally::default();
        let taken = context.flows.apply_lines(collector.game, bytes, &mut refusals);
        collector.counters.accepted.add(taken.packets() - taken.rejected);
        self.desk.show(&mut refusals);
        self.write(RawBatch::default(), refusals.counts()).await
    }

    async fn events(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let mut decoded = RawBatch::default();
        if json::decode(bytes, BodyFormat::Lines, &mut decoded).is_ok() {
            return self.write(decoded, &[]).await;
        }
        // Some line is not UTF-8: the others are taken without it. Or all are blank.
        let (mut text, mut refused) = (Vec::with_capacity(bytes.len()), 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            match str::from_utf8(line) {
                Ok(_) => text.extend_from_slice(line),
                Err(_) => refused += 1,
            }
        }
        let mut decoded = RawBatch::default();
        let _ = json::decode(&text, BodyFormat::Lines, &mut decoded);
        let refused = [(Reject::NotUtf8, refused)];
        self.write(decoded, if refused[0].1 == 0 { &[] } else { &refused }).await
    }

    /// Returns when the events are durable.
    async fn write(&mut self, mut decoded: RawBatch<'_>, refused: &[(Reject, u32)]) -> Result<(), Broken> {
        if decoded.events.is_empty() && refused.is_empty() {
            return Ok(());
        }
        self.ids.assign(&mut decoded);
        let give_up = || *self.end.borrow();
        loop {
            if give_up() {
                return Err(Broken::Interrupted);
            }
            match self.desk.take(&self.access, &decoded, refused, give_up).await {
                Ok(receipt) => {
                    let counters = &self.desk.collector.counters;
                    refused.iter().for_each(|(reject, count)| counters.refused(*reject, u64::from(*count)));
                    let all = decoded.events.len() as u64;
                    self.desk.count(&receipt, |index| index.map_or(all, |_| 1));
                    return Ok(());
                }
                Err(IngestError::Limited(over)) => self.wait(u64::from(over.retry_s)).await,
                Err(_) => return Err(Broken::Interrupted),
            }
        }
    }

    async fn wait(&self, retry_s: u64) {
        let mut end = self.end.clone();
        tokio::select! {
            () = sleep(Duration::from_secs(retry_s).min(QUOTA_WAIT)) => {}
            () = pipeline::shutdown::wait_for_stop(&mut end) => {}
        }
    }
}
