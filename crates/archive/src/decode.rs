//! The bytes of column chunks to columns. Bytes that are not as this program writes them are an error, never a panic.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length, SerializedPageReader};

use crate::bits::{Malformed, decode_delta, decode_hybrid};
use crate::columns::{ABSENT, Column, Dictionary, Uuids, Value};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Texts,
    Numbers,
    WholeNumbers,
    Flags,
    Uuids,
}

/// Why a column cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("{0}")]
    Page(#[from] ParquetError),
    #[error("a page does not hold what it should")]
    Malformed,
}

impl From<Malformed> for DecodeError {
    fn from(_: Malformed) -> DecodeError {
        DecodeError::Malformed
    }
}

/// The bytes of a column chunk, at their place in the file.
pub(crate) struct ChunkBytes {
    pub(crate) start: u64,
    pub(crate) bytes: Bytes,
}

impl Length for ChunkBytes {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for ChunkBytes {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        use bytes::Buf;
        let at = start.checked_sub(self.start).filter(|at| *at <= self.bytes.len() as u64);
        let at = at.ok_or_else(|| ParquetError::EOF("a page lies outside of its column".to_owned()))?;
        Ok(self.bytes.slice(at as usize..).reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let at = start.checked_sub(self.start).map(|at| at as usize);
        let end = at.and_then(|at| at.checked_add(length)).filter(|end| *end <= self.bytes.len());
        match (at, end) {
            (Some(at), Some(end)) => Ok(self.bytes.slice(at..end)),
            _ => Err(ParquetError::EOF("a page lies outside of its column".to_owned())),
        }
    }
}

/// Reads the pages of one column chunk, one after the other.
pub(crate) struct ColumnReader {
    pages: SerializedPageReader<ChunkBytes>,
    dictionary: Option<(Bytes, u32)>,
    texts: Option<Arc<Dictionary>>,
    numbers: Option<Vec<u64>>,
    scratch: Vec<u32>,
}

/// A data page without levels.
struct Values {
    buf: Bytes,
    at: usize,
    rows: usize,
    encoding: Encoding,
    /// Which rows have a value; `None` if all have.
    present: Option<Vec<u32>>,
    count: usize,
}

impl Values {
    fn bytes(&self) -> &[u8] {
        &self.buf[self.at..]
    }

    /// Puts the values at the rows that have one.
    fn spread<T: Copy>(&self, values: Vec<T>, absent: T) -> Vec<T> {
        let Some(present) = &self.present else { return values };
        let mut values = values.into_iter();
        present
            .iter()
            .map(|present| if *present == 1 { values.next().unwrap_or(absent) } else { absent })
            .collect()
    }
}

impl ColumnReader {
    pub(crate) fn new(
        bytes: ChunkBytes,
        metadata: &ColumnChunkMetaData,
        rows: usize,
    ) -> Result<ColumnReader, DecodeError> {
        let pages = SerializedPageReader::new(Arc::new(bytes), metadata, rows, None)?;
        Ok(ColumnReader { pages, dictionary: None, texts: None, numbers: None, scratch: Vec::new() })
    }

    /// Skips a page without decompressing it.
    pub(crate) fn skip_page(&mut self) -> Result<(), DecodeError> {
        if self.dictionary.is_none()
            && self.pages.peek_next_page()?.is_some_and(|page| page.is_dict)
            && let Some(Page::DictionaryPage { buf, num_values, .. }) = self.pages.get_next_page()?
        {
            self.dictionary = Some((buf, num_values));
        }
        Ok(self.pages.skip_next_page()?)
    }

    /// Reads times, which are never absent.
    pub(crate) fn times(&mut self) -> Result<Vec<i64>, DecodeError> {
        let page = self.page(false)?;
        let mut times = Vec::with_capacity(page.rows);
        match page.encoding {
            Encoding::DELTA_BINARY_PACKED => decode_delta(page.bytes(), page.rows, &mut times)?,
            _ => return Err(DecodeError::Malformed),
        };
        Ok(times)
    }

    /// Reads the hashes of players; 0 if absent.
    pub(crate) fn players(&mut self) -> Result<Vec<u64>, DecodeError> {
        let page = self.page(true)?;
        self.load_numbers()?;
        let numbers = self.numbers.as_deref().unwrap_or_default();
        self.scratch.clear();
        codes(&page, numbers.len(), &mut self.scratch)?;
        let players = self.scratch.iter().map(|code| numbers[*code as usize]).collect();
        Ok(page.spread(players, 0))
    }

    /// Reads the next page.
    pub(crate) fn column(&mut self, content: Content) -> Result<Column, DecodeError> {
        let page = self.page(true)?;
        if page.count == 0 {
            return Ok(Column::Absent);
        }
        match content {
            Content::Texts => self.texts(&page),
            Content::Numbers => self.numbers(&page),
            Content::WholeNumbers => {
                let mut values = Vec::with_capacity(page.count);
                decode_delta(page.bytes(), page.count, &mut values)?;
                let values = values.into_iter().map(|value| value as f64).collect();
                Ok(Column::Numbers(page.spread(values, f64::NAN)))
            }
            Content::Flags => {
                let bytes = page.bytes();
                if bytes.len() * 8 < page.count {
                    return Err(DecodeError::Malformed);
                }
                let codes = (0..page.count).map(|bit| u32::from(bytes[bit / 8] >> (bit % 8) & 1)).collect();
                let dictionary = self.texts.get_or_insert_with(crate::builder::flags).clone();
                Ok(Column::Coded { codes: page.spread(codes, ABSENT), dictionary })
            }
            Content::Uuids => uuids(&page),
        }
    }

    fn texts(&mut self, page: &Values) -> Result<Column, DecodeError> {
        if page.encoding == Encoding::PLAIN {
            let mut dictionary = Dictionary::default();
            read_texts(page.bytes(), page.count, &mut dictionary)?;
            let codes = (0..page.count as u32).collect();
            return Ok(Column::Coded { codes: page.spread(codes, ABSENT), dictionary: Arc::new(dictionary) });
        }
        if self.texts.is_none() {
            let (buf, count) = self.dictionary.take().ok_or(DecodeError::Malformed)?;
            let mut dictionary = Dictionary::default();
            read_texts(&buf, count as usize, &mut dictionary)?;
            self.dictionary = Some((Bytes::new(), 0));
            self.texts = Some(Arc::new(dictionary));
        }
        let dictionary = self.texts.clone().ok_or(DecodeError::Malformed)?;
        let mut present = Vec::with_capacity(page.count);
        codes(page, dictionary.len(), &mut present)?;
        Ok(Column::Coded { codes: page.spread(present, ABSENT), dictionary })
    }

    fn numbers(&mut self, page: &Values) -> Result<Column, DecodeError> {
        let values: Vec<f64> = match page.encoding {
            Encoding::BYTE_STREAM_SPLIT => {
                let (bytes, count) = (page.bytes(), page.count);
                if bytes.len() < count * 8 {
                    return Err(DecodeError::Malformed);
                }
                let streams: [&[u8]; 8] = std::array::from_fn(|byte| &bytes[byte * count..][..count]);
                let value = |row: usize| f64::from_le_bytes(std::array::from_fn(|byte| streams[byte][row]));
                (0..count).map(value).collect()
            }
            _ => {
                self.load_numbers()?;
                let numbers = self.numbers.as_deref().unwrap_or_default();
                self.scratch.clear();
                codes(page, numbers.len(), &mut self.scratch)?;
                self.scratch.iter().map(|code| f64::from_bits(numbers[*code as usize])).collect()
            }
        };
        Ok(Column::Numbers(page.spread(values, f64::NAN)))
    }

    fn load_numbers(&mut self) -> Result<(), DecodeError> {
        if self.numbers.is_none() {
            let (buf, count) = self.dictionary.as_ref().ok_or(DecodeError::Malformed)?;
            if buf.len() != *count as usize * 8 {
                return Err(DecodeError::Malformed);
            }
            let number = |bytes: &[u8]| u64::from_le_bytes(*bytes.first_chunk().expect("8 bytes"));
            self.numbers = Some(buf.chunks_exact(8).map(number).collect());
        }
        Ok(())
    }

    /// Reads the next data page, and the dictionary before it.
    fn page(&mut self, has_levels: bool) -> Result<Values, DecodeError> {
        let mut page = self.pages.get_next_page()?.ok_or(DecodeError::Malformed)?;
        if let Page::DictionaryPage { buf, num_values, .. } = page {
            self.dictionary = Some((buf, num_values));
            page = self.pages.get_next_page()?.ok_or(DecodeError::Malformed)?;
        }
        let Page::DataPage { buf, num_values, encoding, .. } = page else {
            return Err(DecodeError::Malformed);
        };
        let rows = num_values as usize;
        if !has_levels {
            return Ok(Values { buf, at: 0, rows, encoding, present: None, count: rows });
        }
        let length = buf.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
        let at = length.and_then(|length| length.checked_add(4)).filter(|at| *at <= buf.len());
        let at = at.ok_or(DecodeError::Malformed)?;
        let mut present = Vec::with_capacity(rows);
        decode_hybrid(&buf[4..at], 1, rows, 2, &mut present)?;
        let count = present.iter().sum::<u32>() as usize;
        Ok(Values { buf, at, rows, encoding, present: (count < rows).then_some(present), count })
    }
}

fn codes(page: &Values, below: usize, into: &mut Vec<u32>) -> Result<(), DecodeError> {
    if page.encoding != Encoding::RLE_DICTIONARY {
        return Err(DecodeError::Malformed);
    }
    let (width, bytes) = page.bytes().split_first().ok_or(DecodeError::Malformed)?;
    if page.count > 0 {
        decode_hybrid(bytes, *width, page.count, below, into)?;
    }
    Ok(())
}

fn read_texts(mut bytes: &[u8], count: usize, dictionary: &mut Dictionary) -> Result<(), DecodeError> {
    dictionary.reserve(count.min(bytes.len() / 4), bytes.len());
    for _ in 0..count {
        let (length, rest) = bytes.split_first_chunk().ok_or(DecodeError::Malformed)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (text, rest) = rest.split_at_checked(length).ok_or(DecodeError::Malformed)?;
        let text = std::str::from_utf8(text).map_err(|_| DecodeError::Malformed)?;
        dictionary.push(Value::Text(text));
        bytes = rest;
    }
    Ok(())
}

fn uuids(page: &Values) -> Result<Column, DecodeError> {
    if page.encoding != Encoding::DELTA_BYTE_ARRAY {
        return Err(DecodeError::Malformed);
    }
    let (mut prefixes, mut suffixes) = (Vec::new(), Vec::new());
    let rest = decode_delta(page.bytes(), page.count, &mut prefixes)?;
    let mut bytes = decode_delta(rest, page.count, &mut suffixes)?;
    let (mut uuids, mut last, mut next) = (Uuids::default(), 0u128, prefixes.iter().zip(&suffixes));
    let is_present = |row: usize| page.present.as_ref().is_none_or(|present| present[row] == 1);
    for row in 0..page.rows {
        if !is_present(row) {
            uuids.push(None);
            continue;
        }
        let (prefix, suffix) = next.next().ok_or(DecodeError::Malformed)?;
        let length = usize::try_from(*suffix).map_err(|_| DecodeError::Malformed)?;
        if !(1..=16).contains(&length) || *prefix != 16 - *suffix {
            return Err(DecodeError::Malformed);
        }
        let (text, rest) = bytes.split_at_checked(length).ok_or(DecodeError::Malformed)?;
        bytes = rest;
        let mut value = last.to_be_bytes();
        value[16 - length..].copy_from_slice(text);
        last = u128::from_be_bytes(value);
        uuids.push(Some(last));
    }
    Ok(Column::Uuids(uuids))
}
