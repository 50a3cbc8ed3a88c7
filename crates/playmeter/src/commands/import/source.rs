//! Reads the rows of a file of any supported format in batches.

mod csv;
mod ndjson;
mod parquet;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use clap::ValueEnum;
use decode::csv::Mapping;
use decode::json::write_event;
use model::limits::EVENT_BYTES_MAX;
use model::{RawEvent, Reject};

/// A batch is full when its events have this size.
const BATCH_BYTES: usize = 4 << 20;
/// Buffer size for reading a file.
const CHUNK_BYTES: usize = 256 << 10;
/// An optional prefix of a UTF-8 text that is not part of it.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The format of a file. The ledger contains the names of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// One JSON object per line
    Ndjson,
    /// Comma-separated values with a header
    Csv,
    /// Apache Parquet
    Parquet,
}

impl FileFormat {
    /// Detects the format of a file by its first bytes and its name, and the compression by the first bytes.
    pub(crate) fn detect(path: &Path) -> anyhow::Result<FileFormat> {
        let file = File::open(path).context("opening the file")?;
        if first_bytes(&file, &mut [0; 4])? == b"PAR1" {
            return Ok(FileFormat::Parquet);
        }
        let mut input = decompressed(CountingReader { input: Box::new(file), read: Arc::default() })?;
        detect_by_name_or_content(path.to_str(), &mut input)
    }
}

/// Events to be sent in one request.
#[derive(Default)]
pub(crate) struct EventBatch {
    /// One JSON object per line.
    pub(crate) body: String,
    /// The number of the line or row of each event in the file, starting at 1.
    pub(crate) lines: Vec<u64>,
    /// Lines that could not be parsed as an event.
    pub(crate) rejected: Vec<(u64, Reject)>,
}

impl EventBatch {
    /// Returns the number of rows of the file in this batch.
    pub(crate) fn rows(&self) -> usize {
        self.lines.len() + self.rejected.len()
    }

    pub(crate) fn clear(&mut self) {
        self.body.clear();
        self.lines.clear();
        self.rejected.clear();
    }

    fn is_full(&self, rows_max: usize) -> bool {
        self.rows() >= rows_max || self.body.len() >= BATCH_BYTES
    }

    fn push_line(&mut self, line: u64, text: &str) {
        self.body.push_str(text);
        self.body.push('\n');
        self.lines.push(line);
    }

    fn push(&mut self, line: u64, event: Result<&RawEvent<'_>, Reject>) {
        let start = self.body.len();
        let result = event.and_then(|event| {
            write_event(&mut self.body, event);
            let fits = self.body.len() - start <= EVENT_BYTES_MAX;
            if fits { Ok(()) } else { Err(Reject::EventTooLarge) }
        });
        match result {
            Ok(()) => {
                self.body.push('\n');
                self.lines.push(line);
            }
            Err(reject) => {
                self.body.truncate(start);
                self.rejected.push((line, reject));
            }
        }
    }
}

/// A reader of one format.
trait RowReader {
    /// Reads rows until the batch has `rows_max`. Reads none at the end of the file.
    fn fill(&mut self, rows_max: usize, batch: &mut EventBatch) -> anyhow::Result<()>;

    /// Returns the fraction of the file that was read, from 0 to 1, if the format knows it.
    fn fraction(&self) -> Option<f64> {
        None
    }
}

/// An open file.
pub(crate) struct ImportSource {
    rows: Box<dyn RowReader>,
    /// Bytes that were read.
    read: Arc<AtomicU64>,
    /// Size of the file in bytes; 0 if unknown.
    bytes: u64,
}

impl ImportSource {
    /// Opens a file and skips the first `skip` rows. Detects the compression by the first bytes.
    pub(crate) fn open(
        path: &Path,
        format: FileFormat,
        mapping: &Mapping,
        skip: u64,
    ) -> anyhow::Result<ImportSource> {
        let file = File::open(path).context("opening the file")?;
        let bytes = file.metadata().context("reading its metadata")?.len();
        if format == FileFormat::Parquet {
            let (rows, skipped) = parquet::ParquetReader::open(path, mapping, skip)?;
            let mut source = ImportSource { rows: Box::new(rows), read: Arc::default(), bytes };
            source.skip(skip - skipped)?;
            return Ok(source);
        }
        let mut source = ImportSource::stream(Box::new(file), Some(format), mapping)?;
        source.bytes = bytes;
        source.skip(skip)?;
        Ok(source)
    }

    /// Reads standard input.
    pub(crate) fn standard_input(
        format: Option<FileFormat>,
        mapping: &Mapping,
    ) -> anyhow::Result<ImportSource> {
        if format == Some(FileFormat::Parquet) {
            bail!("Parquet cannot be read from standard input; pass the file name instead of `-`");
        }
        ImportSource::stream(Box::new(io::stdin()), format, mapping)
    }

    fn stream(
        input: Box<dyn Read>,
        format: Option<FileFormat>,
        mapping: &Mapping,
    ) -> anyhow::Result<ImportSource> {
        let read = Arc::new(AtomicU64::new(0));
        let mut input = decompressed(CountingReader { input, read: Arc::clone(&read) })?;
        let rows: Box<dyn RowReader> = match format
            .map_or_else(|| detect_by_name_or_content(None, &mut input), Ok)?
        {
            FileFormat::Ndjson => Box::new(ndjson::NdjsonReader::new(input)),
            FileFormat::Csv => Box::new(csv::CsvReader::new(input, mapping.clone())),
            FileFormat::Parquet => bail!("a compressed Parquet file is not supported; decompress it first"),
        };
        Ok(ImportSource { rows, read, bytes: 0 })
    }

    /// Reads up to `rows_max` rows into the empty batch, which stays empty at the end of the file.
    pub(crate) fn fill(&mut self, rows_max: usize, batch: &mut EventBatch) -> anyhow::Result<()> {
        self.rows.fill(rows_max, batch)
    }

    /// Returns the fraction of the file that was read, from 0 to 1, if it is known.
    pub(crate) fn fraction(&self) -> Option<f64> {
        let by_bytes = || {
            let read = self.read.load(Ordering::Relaxed);
            (self.bytes > 0).then(|| (read as f64 / self.bytes as f64).min(1.0))
        };
        self.rows.fraction().or_else(by_bytes)
    }

    fn skip(&mut self, mut rows: u64) -> anyhow::Result<()> {
        let mut batch = EventBatch::default();
        while rows > 0 {
            batch.clear();
            self.fill(rows.min(10_000) as usize, &mut batch)?;
            if batch.rows() == 0 {
                bail!("the file is shorter than when its import was interrupted");
            }
            rows -= batch.rows() as u64;
        }
        Ok(())
    }
}

/// Returns the first bytes of a file and seeks back to its start.
fn first_bytes<'a>(mut file: &File, into: &'a mut [u8]) -> anyhow::Result<&'a [u8]> {
    let read = file.read(into).context("reading the file")?;
    io::Seek::rewind(&mut file).context("reading the file")?;
    Ok(&into[..read])
}

/// Decompresses gzip and zstd.
fn decompressed(input: CountingReader) -> anyhow::Result<Box<dyn BufRead>> {
    let mut input = BufReader::with_capacity(CHUNK_BYTES, input);
    Ok(match input.fill_buf().context("reading the file")? {
        [0x1f, 0x8b, ..] => buffered(flate2::bufread::MultiGzDecoder::new(input)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            buffered(zstd::stream::read::Decoder::with_buffer(input).context("reading zstd")?)
        }
        _ => Box::new(input),
    })
}

fn buffered(input: impl Read + 'static) -> Box<dyn BufRead> {
    Box::new(BufReader::with_capacity(CHUNK_BYTES, input))
}

/// Detects the format by the extension of the name or, if it is unknown, by the first character.
fn detect_by_name_or_content(name: Option<&str>, input: &mut dyn BufRead) -> anyhow::Result<FileFormat> {
    let name = name.unwrap_or_default().to_ascii_lowercase();
    let plain = [".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    match plain.rsplit('.').next() {
        Some("csv") => return Ok(FileFormat::Csv),
        Some("ndjson" | "jsonl") => return Ok(FileFormat::Ndjson),
        _ => {}
    }
    let start = input.fill_buf().context("reading the file")?;
    let start = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start);
    match start.trim_ascii_start().first() {
        Some(b'{') => Ok(FileFormat::Ndjson),
        Some(b'[') => bail!("the file is a JSON array; write one object per line instead"),
        _ => bail!("unknown format; name it with --format"),
    }
}

/// Counts the bytes that are read.
struct CountingReader {
    input: Box<dyn Read>,
    read: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
