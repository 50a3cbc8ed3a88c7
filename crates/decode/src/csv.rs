//! CSV with a header: each row is an event, by a mapping of columns to fields.
//!
//! RFC 4180, read by `csv-core`: quoted fields that contain separators, quotes and newlines; any line ending; a byte
//! order mark. A file is read in pieces and may be larger than memory: [`CsvReader::read`] consumes bytes until a batch is
//! full, and [`CsvReader::decoded`] returns the batch as the same raw events as JSON.

mod mapping;
mod props;

pub use mapping::{Field, Mapping, MappingError, OtherColumns, Target};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use memchr::memchr_iter;
use model::limits::{EVENT_BYTES_MAX, EVENTS_PER_REQUEST_MAX};
use model::{RawBatch, RawEvent, Reject};
use std::ops::Range;

use mapping::COLUMNS_MAX;

/// A batch is full when its rows have this many bytes, even if more rows would be allowed.
const BATCH_BYTES: usize = 4 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A reader of one file.
#[derive(Debug)]
pub struct CsvReader {
    mapping: Mapping,
    reader: Reader,
    /// The target of each column, once the header has been read.
    columns: Option<Vec<Target>>,
    record: RowBuffer,
    batch: RowBatch,
    /// Maximum number of rows of a batch.
    rows_max: usize,
    /// Number of bytes of a byte order mark matched at the start of the file, until another byte came.
    mark: Option<usize>,
    /// Newlines read so far.
    newlines: u64,
}

/// The row being read.
#[derive(Debug)]
struct RowBuffer {
    /// Buffers for the text and the ends of the fields; they grow up to the limits of a row.
    bytes: Vec<u8>,
    len: usize,
    ends: Vec<usize>,
    fields: usize,
    /// Quotation marks in the source: an odd number at the end of the file means an unterminated field.
    quotes: usize,
    /// The line on which it starts, if it has started.
    line: Option<u64>,
    rejected: Option<Reject>,
}

/// CsvReader that were read and wait for the caller.
#[derive(Debug, Default)]
struct RowBatch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    props: String,
    rows: Vec<(u64, Result<Row, Reject>)>,
}

/// The positions of a row's parts in its batch.
#[derive(Clone, Debug)]
struct Row {
    bytes: Range<usize>,
    ends: Range<usize>,
    props: Range<usize>,
}

impl CsvReader {
    /// Creates a reader at the start of a file.
    pub fn new(mapping: Mapping) -> CsvReader {
        let record = RowBuffer {
            bytes: vec![0; 1 << 10],
            len: 0,
            ends: vec![0; 1 << 6],
            fields: 0,
            quotes: 0,
            line: None,
            rejected: None,
        };
        let mut rows = CsvReader {
            reader: ReaderBuilder::new().delimiter(mapping.delimiter).build(),
            mapping,
            columns: None,
            record,
            batch: RowBatch::default(),
            rows_max: EVENTS_PER_REQUEST_MAX,
            mark: None,
            newlines: 0,
        };
        rows.restart();
        rows
    }

    /// Starts another file with the same mapping. Discards what was read, but keeps the buffers and tables, which take longer
    /// to create than a short file takes to read.
    pub fn restart(&mut self) {
        self.reader.reset();
        // `csv-core` looks for a byte order mark only in its first input; a blank line has no effect.
        let _ = self.reader.read_record(b"\n", &mut [0], &mut [0]);
        self.columns = None;
        self.record.clear();
        self.record.line = None;
        self.clear();
        (self.mark, self.newlines) = (Some(0), 0);
    }

    /// Reads bytes of the file until the batch is full and returns how many it consumed. The division into chunks does not
    /// affect the result. An error means that the file cannot be read with this mapping.
    pub fn read(&mut self, chunk: &[u8]) -> Result<usize, MappingError> {
        let mut read = self.skip_mark(chunk)?;
        while read < chunk.len() && !self.is_full() {
            read += self.step(&chunk[read..])?;
        }
        Ok(read)
    }

    /// Ends the file: text after the last newline is a row as well.
    pub fn finish(&mut self) -> Result<(), MappingError> {
        if let Some(len) = self.mark.take() {
            self.feed(&BYTE_ORDER_MARK[..len])?;
        }
        if self.record.line.is_some() {
            if self.record.quotes % 2 == 1 {
                self.record.rejected = self.record.rejected.or(Some(Reject::MalformedLine));
            }
            // An empty input means the end to `csv-core`; a row that overflows gets there in several steps.
            while self.record.line.is_some() {
                self.step(&[])?;
            }
        }
        if self.columns.is_none() { Err(MappingError::NoHeader) } else { Ok(()) }
    }

    /// Sets the maximum number of rows of a batch, 1 to [`EVENTS_PER_REQUEST_MAX`].
    pub fn set_rows_max(&mut self, rows_max: usize) {
        self.rows_max = rows_max.clamp(1, EVENTS_PER_REQUEST_MAX);
    }

    /// Returns true if the batch must be cleared before more is read.
    pub fn is_full(&self) -> bool {
        let bytes = self.batch.bytes.len() + self.batch.props.len();
        self.batch.rows.len() >= self.rows_max || bytes >= BATCH_BYTES
    }

    /// Returns the batch as raw events, in the order of the rows.
    pub fn decoded(&self) -> RawBatch<'_> {
        let events = self.batch.rows.iter().map(|(_, row)| match row {
            Ok(row) => self.event(row),
            Err(reject) => Err(*reject),
        });
        RawBatch { sent_at_ms: None, events: events.collect() }
    }

    /// Returns the line of the file, counted from 1, on which each row of the batch starts.
    pub fn lines(&self) -> impl Iterator<Item = u64> {
        self.batch.rows.iter().map(|(line, _)| *line)
    }

    /// Clears the batch.
    pub fn clear(&mut self) {
        self.batch.bytes.clear();
        self.batch.ends.clear();
        self.batch.props.clear();
        self.batch.rows.clear();
    }

    /// Skips a byte order mark, even if it is split between chunks.
    fn skip_mark(&mut self, chunk: &[u8]) -> Result<usize, MappingError> {
        let Some(matched) = self.mark else { return Ok(0) };
        let rest = &BYTE_ORDER_MARK[matched..];
        let same = chunk.iter().zip(rest).take_while(|(byte, mark)| byte == mark).count();
        self.mark = Some(matched + same);
        if same < rest.len() && same < chunk.len() {
            // It was not a byte order mark.
            self.mark = None;
            self.feed(&BYTE_ORDER_MARK[..matched + same])?;
        } else if same == rest.len() {
            self.mark = None;
        }
        Ok(same)
    }

    fn feed(&mut self, mut bytes: &[u8]) -> Result<(), MappingError> {
        while !bytes.is_empty() {
            bytes = &bytes[self.step(bytes)?..];
        }
        Ok(())
    }

    /// Reads to the end of the row or of the bytes; no bytes mean the end of the file.
    fn step(&mut self, bytes: &[u8]) -> Result<usize, MappingError> {
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
            // `csv-core` reports a full output when the buffer is full, so the limit includes one extra byte.
            ReadRecordResult::OutputFull if grow(&mut record.bytes, EVENT_BYTES_MAX + 1) => {}
            ReadRecordResult::OutputFull => record.reject_rest(Reject::EventTooLarge),
            ReadRecordResult::OutputEndsFull if grow(&mut record.ends, COLUMNS_MAX) => {}
            ReadRecordResult::OutputEndsFull => record.reject_rest(Reject::MalformedLine),
            ReadRecordResult::Record | ReadRecordResult::End => self.end_record()?,
        }
        Ok(read)
    }

    fn end_record(&mut self) -> Result<(), MappingError> {
        let line = self.record.line.take().expect("a row starts before it ends");
        let Some(columns) = &self.columns else {
            let header = self.record.header().map_err(|_| MappingError::HeaderUnreadable)?;
            self.columns = Some(self.mapping.resolve(&header)?);
            self.record.clear();
            return Ok(());
        };
        let row = self.record.validate(columns.len()).and_then(|()| self.batch.push(&self.record, columns));
        self.batch.rows.push((line, row));
        self.record.clear();
        Ok(())
    }

    fn event(&self, row: &Row) -> Result<RawEvent<'_>, Reject> {
        let columns = self.columns.as_deref().expect("rows come after the header");
        let mut event = self.mapping.fixed_event()?;
        let texts = texts(&self.batch.bytes[row.bytes.clone()], &self.batch.ends[row.ends.clone()]);
        for (column, text) in columns.iter().zip(texts) {
            if let (Target::Field(field), text @ [_, ..]) = (column, text) {
                let text = str::from_utf8(text).expect("the text was checked when it was read");
                field.put(&mut event, text)?;
            }
        }
        let props = &self.batch.props[row.props.clone()];
        event.props = (!props.is_empty()).then_some(props);
        Ok(event)
    }
}

impl RowBuffer {
    /// Rejects a row that exceeds the limits and discards its content up to its end.
    fn reject_rest(&mut self, reject: Reject) {
        self.rejected = self.rejected.or(Some(reject));
        self.len = 0;
        self.fields = 0;
    }

    fn validate(&self, columns: usize) -> Result<(), Reject> {
        match self.rejected {
            Some(reject) => Err(reject),
            None if self.fields != columns => Err(Reject::MalformedLine),
            None => self.texts().try_for_each(|text| text.map(|_| ())),
        }
    }

    fn header(&self) -> Result<Vec<&str>, Reject> {
        self.validate(self.fields)?;
        self.texts().collect()
    }

    fn texts(&self) -> impl Iterator<Item = Result<&str, Reject>> {
        let texts = texts(&self.bytes[..self.len], &self.ends[..self.fields]);
        texts.map(|text| str::from_utf8(text).map_err(|_| Reject::NotUtf8))
    }

    fn clear(&mut self) {
        (self.len, self.fields, self.quotes, self.rejected) = (0, 0, 0, None);
    }
}

impl RowBatch {
    fn push(&mut self, record: &RowBuffer, columns: &[Target]) -> Result<Row, Reject> {
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

/// Doubles the buffer up to a limit; returns false if the limit is reached.
fn grow<T: Clone + Default>(buffer: &mut Vec<T>, len_max: usize) -> bool {
    let (len, longer) = (buffer.len(), (2 * buffer.len()).min(len_max));
    buffer.resize(longer, T::default());
    longer > len
}

/// Iterates over the fields of a row, whose ends are relative to its start.
fn texts<'a>(bytes: &'a [u8], ends: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, end)| &bytes[start..*end])
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}
