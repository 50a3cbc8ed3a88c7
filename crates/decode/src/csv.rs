//! CSV with a header: each row an event, as a mapping of columns to fields says.
//!
//! RFC 4180, read by `csv-core`: quoted fields with separators, quotes and newlines in them; line ends of any kind;
//! a byte order mark. A file is read piece by piece and may be larger than memory: [`Rows::read`] takes bytes until a
//! batch is full, [`Rows::decoded`] gives the batch as the same raw events that JSON gives.

mod mapping;
mod props;

pub use mapping::{BadMapping, Field, Mapping, Others, Target};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use memchr::memchr_iter;
use model::limits::{EVENT_BYTES_MAX, EVENTS_PER_REQUEST_MAX};
use model::{RawBatch, RawEvent, Reject};
use std::ops::Range;

use mapping::COLUMNS_MAX;

/// A batch is full when its rows have so many bytes, even if more rows would be allowed.
const BATCH_BYTES: usize = 4 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file while it is read.
#[derive(Debug)]
pub struct Rows {
    mapping: Mapping,
    reader: Reader,
    /// What to do with each column, once the header has been read.
    columns: Option<Vec<Target>>,
    record: Record,
    batch: Batch,
    /// Rows of one batch.
    rows_max: usize,
    /// Bytes of a byte order mark that were met at the very beginning, until something else came.
    mark: Option<usize>,
    /// Newlines so far.
    newlines: u64,
}

/// The row that is being read.
#[derive(Debug)]
struct Record {
    /// Room for the fields' text and for where each of them ends; it grows up to the limits of a row.
    bytes: Vec<u8>,
    len: usize,
    ends: Vec<usize>,
    fields: usize,
    /// Quotation marks in the source: an odd number of them at the end of the file is a field that does not end.
    quotes: usize,
    /// The line that it begins in, if it has begun.
    line: Option<u64>,
    refused: Option<Reject>,
}

/// Rows that were read and wait to be taken.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    props: String,
    rows: Vec<(u64, Result<Row, Reject>)>,
}

/// Where the parts of a row stand in its batch.
#[derive(Clone, Debug)]
struct Row {
    bytes: Range<usize>,
    ends: Range<usize>,
    props: Range<usize>,
}

impl Rows {
    /// The beginning of a file.
    pub fn new(mapping: Mapping) -> Rows {
        let record = Record {
            bytes: vec![0; 1 << 10],
            len: 0,
            ends: vec![0; 1 << 6],
            fields: 0,
            quotes: 0,
            line: None,
            refused: None,
        };
        let mut rows = Rows {
            reader: ReaderBuilder::new().delimiter(mapping.delimiter).build(),
            mapping,
            columns: None,
            record,
            batch: Batch::default(),
            rows_max: EVENTS_PER_REQUEST_MAX,
            mark: None,
            newlines: 0,
        };
        rows.restart();
        rows
    }

    /// Begins another file with the same mapping. What was read is forgotten; the memory and the tables are kept, which
    /// take longer to make than a short file takes to read.
    pub fn restart(&mut self) {
        self.reader.reset();
        // It would look for a byte order mark in its first input alone; a blank line is nothing to it.
        let _ = self.reader.read_record(b"\n", &mut [0], &mut [0]);
        self.columns = None;
        self.record.clear();
        self.record.line = None;
        self.clear();
        (self.mark, self.newlines) = (Some(0), 0);
    }

    /// Takes bytes of the file, as many as the batch has room for, and says how many. Where the chunks end never
    /// matters. An error means that the file cannot be read with this mapping.
    pub fn read(&mut self, chunk: &[u8]) -> Result<usize, BadMapping> {
        let mut read = self.skip_mark(chunk)?;
        while read < chunk.len() && !self.is_full() {
            read += self.step(&chunk[read..])?;
        }
        Ok(read)
    }

    /// The file has ended: what stands behind the last newline is a row as well.
    pub fn finish(&mut self) -> Result<(), BadMapping> {
        if let Some(len) = self.mark.take() {
            self.feed(&BYTE_ORDER_MARK[..len])?;
        }
        if self.record.line.is_some() {
            if self.record.quotes % 2 == 1 {
                self.record.refused = self.record.refused.or(Some(Reject::MalformedLine));
            }
            // An empty input is the end for `csv-core`; a row that overflows gets there in several steps.
            while self.record.line.is_some() {
                self.step(&[])?;
            }
        }
        if self.columns.is_none() { Err(BadMapping::NoHeader) } else { Ok(()) }
    }

    /// Lets a batch have so many rows, 1 to [`EVENTS_PER_REQUEST_MAX`].
    pub fn set_rows_max(&mut self, rows_max: usize) {
        self.rows_max = rows_max.clamp(1, EVENTS_PER_REQUEST_MAX);
    }

    /// Whether the batch has to be taken before there is room for more.
    pub fn is_full(&self) -> bool {
        let bytes = self.batch.bytes.len() + self.batch.props.len();
        self.batch.rows.len() >= self.rows_max || bytes >= BATCH_BYTES
    }

    /// The batch as raw events, in the order of the rows.
    pub fn decoded(&self) -> RawBatch<'_> {
        let events = self.batch.rows.iter().map(|(_, row)| match row {
            Ok(row) => self.event(row),
            Err(reject) => Err(*reject),
        });
        RawBatch { sent_at_ms: None, events: events.collect() }
    }

    /// The line of the file, from 1 on, that each row of the batch begins in.
    pub fn lines(&self) -> impl Iterator<Item = u64> {
        self.batch.rows.iter().map(|(line, _)| *line)
    }

    /// Makes room: the batch has been taken.
    pub fn clear(&mut self) {
        self.batch.bytes.clear();
        self.batch.ends.clear();
        self.batch.props.clear();
        self.batch.rows.clear();
    }

    /// Skips a byte order mark, however it is cut.
    fn skip_mark(&mut self, chunk: &[u8]) -> Result<usize, BadMapping> {
        let Some(met) = self.mark else { return Ok(0) };
        let rest = &BYTE_ORDER_MARK[met..];
        let same = chunk.iter().zip(rest).take_while(|(byte, mark)| byte == mark).count();
        self.mark = Some(met + same);
        if same < rest.len() && same < chunk.len() {
            // It was none.
            self.mark = None;
            self.feed(&BYTE_ORDER_MARK[..met + same])?;
        } else if same == rest.len() {
            self.mark = None;
        }
        Ok(same)
    }

    fn feed(&mut self, mut bytes: &[u8]) -> Result<(), BadMapping> {
        while !bytes.is_empty() {
            bytes = &bytes[self.step(bytes)?..];
        }
        Ok(())
    }

    /// Reads to the end of the row or of the bytes; no bytes mean the end of the file.
    fn step(&mut self, bytes: &[u8]) -> Result<usize, BadMapping> {
        if self.record.line.is_none() {
            let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.newlines += newlines(&bytes[..blank]);
            if blank > 0 {
                return Ok(blank);
            }
            self.record.line = Some(self.newlines + 1);
        }
        let record = &mut self.record;
        let output = &mut record.bytes[record.len..];
        let ends = &mut record.ends[record.fields..];
        let (result, read, written, fields) = self.reader.read_record(bytes, output, ends);
        record.len += written;
        record.fields += fields;
        record.quotes += memchr_iter(b'"', &bytes[..read]).count();
        self.newlines += newlines(&bytes[..read]);
        match result {
            ReadRecordResult::InputEmpty => {}
            // `csv-core` asks for more room as soon as there is none left, so there is room for one byte too many.
            ReadRecordResult::OutputFull if grow(&mut record.bytes, EVENT_BYTES_MAX + 1) => {}
            ReadRecordResult::OutputFull => record.overflow(Reject::EventTooLarge),
            ReadRecordResult::OutputEndsFull if grow(&mut record.ends, COLUMNS_MAX) => {}
            ReadRecordResult::OutputEndsFull => record.overflow(Reject::MalformedLine),
            ReadRecordResult::Record | ReadRecordResult::End => self.end_record()?,
        }
        Ok(read)
    }

    fn end_record(&mut self) -> Result<(), BadMapping> {
        let line = self.record.line.take().expect("a row has begun before it ends");
        let Some(columns) = &self.columns else {
            let header = self.record.header().map_err(|_| BadMapping::HeaderUnreadable)?;
            self.columns = Some(self.mapping.resolve(&header)?);
            self.record.clear();
            return Ok(());
        };
        let row = self.record.checked(columns.len()).and_then(|()| self.batch.push(&self.record, columns));
        self.batch.rows.push((line, row));
        self.record.clear();
        Ok(())
    }

    fn event(&self, row: &Row) -> Result<RawEvent<'_>, Reject> {
        let columns = self.columns.as_deref().expect("there is no row before the header");
        let mut event = self.mapping.event()?;
        let texts = texts(&self.batch.bytes[row.bytes.clone()], &self.batch.ends[row.ends.clone()]);
        for (column, text) in columns.iter().zip(texts) {
            if let (Target::Field(field), text @ [_, ..]) = (column, text) {
                let text = str::from_utf8(text).expect("it was checked when it was read");
                field.put(&mut event, text)?;
            }
        }
        let props = &self.batch.props[row.props.clone()];
        event.props = (!props.is_empty()).then_some(props);
        Ok(event)
    }
}

impl Record {
    /// It has more than there is room for: what it says is dropped up to its end.
    fn overflow(&mut self, reject: Reject) {
        self.refused = self.refused.or(Some(reject));
        self.len = 0;
        self.fields = 0;
    }

    fn checked(&self, columns: usize) -> Result<(), Reject> {
        match self.refused {
            Some(reject) => Err(reject),
            None if self.fields != columns => Err(Reject::MalformedLine),
            None => self.texts().try_for_each(|text| text.map(|_| ())),
        }
    }

    fn header(&self) -> Result<Vec<&str>, Reject> {
        self.checked(self.fields)?;
        self.texts().collect()
    }

    fn texts(&self) -> impl Iterator<Item = Result<&str, Reject>> {
        let texts = texts(&self.bytes[..self.len], &self.ends[..self.fields]);
        texts.map(|text| str::from_utf8(text).map_err(|_| Reject::NotUtf8))
    }

    fn clear(&mut self) {
        (self.len, self.fields, self.quotes, self.refused) = (0, 0, 0, None);
    }
}

impl Batch {
    fn push(&mut self, record: &Record, columns: &[Target]) -> Result<Row, Reject> {
        let (bytes, ends) = (&record.bytes[..record.len], &record.ends[..record.fields]);
        let props = self.props.len();
        let written = props::write(&mut self.props, columns.iter().zip(texts(bytes, ends)));
        let fits = self.props.len() - props <= EVENT_BYTES_MAX;
        if let Err(reject) = written.and(if fits { Ok(()) } else { Err(Reject::EventTooLarge) }) {
            self.props.truncate(props);
            return Err(reject);
        }
        let row = Row {
            bytes: self.bytes.len()..self.bytes.len() + bytes.len(),
            ends: self.ends.len()..self.ends.len() + ends.len(),
            props: props..self.props.len(),
        };
        self.bytes.extend_from_slice(bytes);
        self.ends.extend_from_slice(ends);
        Ok(row)
    }
}

/// Doubles the room up to a limit; `false` if it is reached.
fn grow<T: Clone + Default>(room: &mut Vec<T>, len_max: usize) -> bool {
    let (len, longer) = (room.len(), (2 * room.len()).min(len_max));
    room.resize(longer, T::default());
    longer > len
}

/// The fields of a row, whose ends are counted from its beginning.
fn texts<'a>(bytes: &'a [u8], ends: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, end)| &bytes[start..*end])
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}
