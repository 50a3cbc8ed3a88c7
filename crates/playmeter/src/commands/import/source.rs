//! What is in a file, batch by batch, whatever its form.

mod columns;
mod lines;
mod table;

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

/// A batch takes no more when its events have so many bytes.
const BATCH_BYTES: usize = 4 << 20;
/// So much of a file is read at once.
const CHUNK_BYTES: usize = 256 << 10;
/// May stand before a text in UTF-8, and is no part of it.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// One JSON object a line.
    Ndjson,
    /// A table with a header.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl Form {
    /// That of a file which nobody named: by its first bytes and by its name. Compression is told by its first bytes.
    pub fn of(path: &Path) -> anyhow::Result<Form> {
        let file = File::open(path).context("opening it")?;
        if starts(&file, &mut [0; 4])? == b"PAR1" {
            return Ok(Form::Parquet);
        }
        let mut input = inflated(Counted { input: Box::new(file), read: Arc::default() })?;
        guess(path.to_str(), &mut input)
    }
}

/// Events that were read and are to be sent.
#[derive(Default)]
pub struct Batch {
    /// One JSON object a line.
    pub body: String,
    /// The line or row of the file, from 1 on, that each of them is from.
    pub lines: Vec<u64>,
    /// What could not be read as an event, with its line.
    pub refused: Vec<(u64, Reject)>,
}

impl Batch {
    /// How much of the file this is.
    pub fn rows(&self) -> usize {
        self.lines.len() + self.refused.len()
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.body.clear();
        self.lines.clear();
        self.refused.clear();
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
        let from = self.body.len();
        let written = event.and_then(|event| {
            write_event(&mut self.body, event);
            let fits = self.body.len() - from <= EVENT_BYTES_MAX;
            if fits { Ok(()) } else { Err(Reject::EventTooLarge) }
        });
        match written {
            Ok(()) => {
                self.body.push('\n');
                self.lines.push(line);
            }
            Err(reject) => {
                self.body.truncate(from);
                self.refused.push((line, reject));
            }
        }
    }
}

/// One form's way of reading.
trait Rows {
    /// Adds up to so many rows; none at the end.
    fn fill(&mut self, rows_max: usize, batch: &mut Batch) -> anyhow::Result<()>;

    /// How much of the file has been read, from 0 to 1, if that is known without its size.
    fn part(&self) -> Option<f64> {
        None
    }
}

/// A file while it is read.
pub struct Source {
    rows: Box<dyn Rows>,
    /// Bytes of the file that were read.
    read: Arc<AtomicU64>,
    /// Bytes of the file; 0: not known.
    bytes: u64,
}

impl Source {
    /// Opens a file that is read from its row `skip` on, counted from 0. Compression is told by its first bytes.
    pub fn open(path: &Path, form: Form, mapping: &Mapping, skip: u64) -> anyhow::Result<Source> {
        let file = File::open(path).context("opening it")?;
        let bytes = file.metadata().context("looking at it")?.len();
        if form == Form::Parquet {
            let (rows, skipped) = columns::Columns::open(path, mapping, skip)?;
            let mut source = Source { rows: Box::new(rows), read: Arc::default(), bytes };
            source.skip(skip - skipped)?;
            return Ok(source);
        }
        let mut source = Source::stream(Box::new(file), Some(form), mapping)?;
        source.bytes = bytes;
        source.skip(skip)?;
        Ok(source)
    }

    /// Reads what comes on standard input.
    pub fn standard_input(form: Option<Form>, mapping: &Mapping) -> anyhow::Result<Source> {
        if form == Some(Form::Parquet) {
            bail!("a Parquet file is read from its end; name the file instead of `-`");
        }
        Source::stream(Box::new(io::stdin()), form, mapping)
    }

    fn stream(input: Box<dyn Read>, form: Option<Form>, mapping: &Mapping) -> anyhow::Result<Source> {
        let read = Arc::new(AtomicU64::new(0));
        let mut input = inflated(Counted { input, read: Arc::clone(&read) })?;
        let rows: Box<dyn Rows> = match form.map_or_else(|| guess(None, &mut input), Ok)? {
            Form::Ndjson => Box::new(lines::Lines::new(input)),
            Form::Csv => Box::new(table::Table::new(input, mapping.clone())),
            Form::Parquet => bail!("a Parquet file is not compressed as a whole"),
        };
        Ok(Source { rows, read, bytes: 0 })
    }

    /// Reads up to so many rows into the batch, which is empty. It stays empty at the end.
    pub fn fill(&mut self, rows_max: usize, batch: &mut Batch) -> anyhow::Result<()> {
        self.rows.fill(rows_max, batch)
    }

    /// How much of the file has been read, from 0 to 1.
    pub fn part(&self) -> Option<f64> {
        let by_bytes = || {
            let read = self.read.load(Ordering::Relaxed);
            (self.bytes > 0).then(|| (read as f64 / self.bytes as f64).min(1.0))
        };
        self.rows.part().or_else(by_bytes)
    }

    fn skip(&mut self, mut rows: u64) -> anyhow::Result<()> {
        let mut batch = Batch::default();
        while rows > 0 {
            batch.clear();
            self.fill(rows.min(10_000) as usize, &mut batch)?;
            if batch.rows() == 0 {
                bail!("it ends before the place where its import was interrupted");
            }
            rows -= batch.rows() as u64;
        }
        Ok(())
    }
}

/// The first bytes of a file, as many as fit. The file is at its beginning afterwards.
fn starts<'a>(mut file: &File, into: &'a mut [u8]) -> anyhow::Result<&'a [u8]> {
    let read = file.read(into).context("reading it")?;
    io::Seek::rewind(&mut file).context("reading it")?;
    Ok(&into[..read])
}

/// Undoes gzip and zstd.
fn inflated(input: Counted) -> anyhow::Result<Box<dyn BufRead>> {
    let mut input = BufReader::with_capacity(CHUNK_BYTES, input);
    Ok(match input.fill_buf().context("reading it")? {
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

/// The form by the name or, without a name that says it, by the first character.
fn guess(name: Option<&str>, input: &mut dyn BufRead) -> anyhow::Result<Form> {
    let name = name.unwrap_or_default().to_ascii_lowercase();
    let plain = [".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    match plain.rsplit('.').next() {
        Some("csv") => return Ok(Form::Csv),
        Some("ndjson" | "jsonl") => return Ok(Form::Ndjson),
        _ => {}
    }
    let start = input.fill_buf().context("reading it")?;
    let start = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start);
    match start.trim_ascii_start().first() {
        Some(b'{') => Ok(Form::Ndjson),
        Some(b'[') => bail!("it is an array of JSON; write one object a line"),
        _ => bail!("its form is not known; name it with --format"),
    }
}

/// Counts what is read.
struct Counted {
    input: Box<dyn Read>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
