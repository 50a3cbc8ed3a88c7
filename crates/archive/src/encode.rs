//! Columns to the bytes of Parquet's column chunks.
//!
//! Text and numbers of few values have a dictionary; other numbers are BYTE_STREAM_SPLIT, times DELTA_BINARY_PACKED,
//! UUIDs DELTA_BYTE_ARRAY. A chunk is compressed with zstd if that saves enough.

use std::io;

use bytes::Bytes;
use hashbrown::HashMap;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use rustc_hash::FxBuildHasher;
use zstd::bulk::Compressor;

use crate::bits::{encode_delta, encode_hybrid, width_of};
use crate::columns::{ABSENT, Column, Uuids, Value};

/// Rows of a page. Pages of all columns begin at the same rows.
pub(crate) const PAGE_ROWS: usize = 65_536;
/// Numbers with at most this many distinct values have a dictionary.
const DISTINCT_NUMBERS_MAX: usize = 65_536;
/// A chunk is compressed if that saves at least this part of it: reading it costs more.
const SAVED_PERCENT_MIN: usize = 8;
const LEVEL: i32 = 1;

/// The encoded bytes of one column of a row group.
pub(crate) struct EncodedColumn {
    pub(crate) bytes: Bytes,
    pub(crate) close: ColumnCloseResult,
}

/// Encodes columns; keeps its buffers.
pub(crate) struct Encoder {
    compressor: Compressor<'static>,
}

/// Pages before compression.
struct Pages {
    dictionary: Option<(Vec<u8>, u32)>,
    data: Vec<(Vec<u8>, u32)>,
    encoding: Encoding,
    statistics: Option<Statistics>,
    tries_compression: bool,
}

impl Encoder {
    pub(crate) fn new() -> io::Result<Encoder> {
        Ok(Encoder { compressor: Compressor::new(LEVEL)? })
    }

    /// Encodes times, which are never absent.
    pub(crate) fn times(
        &mut self,
        times: &[i64],
        column: ColumnDescPtr,
    ) -> Result<EncodedColumn, ParquetError> {
        let data = times.chunks(PAGE_ROWS).map(|times| {
            let mut page = Vec::with_capacity(times.len() * 4 + 64);
            encode_delta(times, &mut page);
            (page, times.len() as u32)
        });
        let (min, max) = (times.iter().min().copied(), times.iter().max().copied());
        let statistics = Statistics::int64(min, max, None, Some(0), false);
        let pages = Pages {
            dictionary: None,
            data: data.collect(),
            encoding: Encoding::DELTA_BINARY_PACKED,
            statistics: Some(statistics),
            tries_compression: false,
        };
        self.finish(pages, times.len(), column)
    }

    /// Encodes the hashes of sorted players; 0 is absent.
    pub(crate) fn players(
        &mut self,
        players: &[u64],
        column: ColumnDescPtr,
    ) -> Result<EncodedColumn, ParquetError> {
        let (mut dictionary, mut count, mut last) = (Vec::new(), 0u32, 0);
        let codes: Vec<u32> = players
            .iter()
            .map(|player| {
                if *player == 0 {
                    return ABSENT;
                }
                if *player != last {
                    dictionary.extend_from_slice(&player.to_le_bytes());
                    (last, count) = (*player, count + 1);
                }
                count - 1
            })
            .collect();
        let mut pages = coded_pages(&codes, count, dictionary);
        pages.tries_compression = false;
        self.finish(pages, players.len(), column)
    }

    /// Encodes whole numbers that are held as doubles, such as times of receipt.
    pub(crate) fn whole_numbers(
        &mut self,
        numbers: &Column,
        rows: usize,
        column: ColumnDescPtr,
    ) -> Result<EncodedColumn, ParquetError> {
        let present = |row: usize| match numbers {
            Column::Numbers(values) => !values[row].is_nan(),
            _ => false,
        };
        let data = ranges(rows).map(|range| {
            let mut page = levels(range.clone().map(present));
            let values: Vec<i64> = match numbers {
                Column::Numbers(values) => {
                    let present = values[range.clone()].iter().filter(|value| !value.is_nan());
                    present.map(|value| *value as i64).collect()
                }
                _ => Vec::new(),
            };
            encode_delta(&values, &mut page);
            (page, range.len() as u32)
        });
        let pages = Pages {
            dictionary: None,
            data: data.collect(),
            encoding: Encoding::DELTA_BINARY_PACKED,
            statistics: None,
            tries_compression: true,
        };
        self.finish(pages, rows, column)
    }

    /// Encodes text. `may_repeat`: the reader may see the same text with several codes.
    pub(crate) fn texts(
        &mut self,
        texts: &Column,
        rows: usize,
        may_repeat: bool,
        column: ColumnDescPtr,
    ) -> Result<EncodedColumn, ParquetError> {
        let Column::Coded { codes, dictionary } = texts else {
            return self.finish(absent_pages(rows), rows, column);
        };
        let present = codes.iter().filter(|code| **code != ABSENT).count();
        if may_repeat && dictionary.len() * 2 > present {
            let data = codes.chunks(PAGE_ROWS).map(|codes| {
                let mut page = levels(codes.iter().map(|code| *code != ABSENT));
                for code in codes.iter().filter(|code| **code != ABSENT) {
                    put_text(dictionary.value(*code), &mut page);
                }
                (page, codes.len() as u32)
            });
            let pages = Pages {
                dictionary: None,
                data: data.collect(),
                encoding: Encoding::PLAIN,
                statistics: None,
                tries_compression: true,
            };
            return self.finish(pages, rows, column);
        }
        let mut page = Vec::with_capacity(dictionary.bytes());
        for code in 0..dictionary.len() as u32 {
            put_text(dictionary.value(code), &mut page);
        }
        self.finish(coded_pages(codes, dictionary.len() as u32, page), rows, column)
    }

    /// Encodes numbers.
    pub(crate) fn numbers(
        &mut self,
        numbers: &Column,
        rows: usize,
        column: ColumnDescPtr,
    ) -> Result<EncodedColumn, ParquetError> {
        let Column::Numbers(values) = numbers else {
            return self.finish(absent_pages(rows), rows, column);
        };
        let pages = match distinct_numbers(values) {
            Some((codes, distinct)) => {
                let dictionary = distinct.iter().flat_map(|value| value.to_le_bytes()).collect();
                coded_pages(&codes, distinct.len() as u32, dictionary)
            }
            None => {
                let data = values.chunks(PAGE_ROWS).map(|values| {
                    let mut page = levels(values.iter().map(|value| !value.is_nan()));
                    let present: Vec<[u8; 8]> = values
                        .iter()
                        .filter(|value| !value.is_nan())
                        .map(|value| value.to_le_bytes())
                        .collect();
                    for byte in 0..8 {
                        page.extend(present.iter().map(|value| value[byte]));
                    }
                    (page, values.len() as u32)
                });
                Pages {
                    dictionary: None,
                    data: data.collect(),
                    encoding: Encoding::BYTE_STREAM_SPLIT,
                    statistics: None,
                    tries_compression: true,
                }
            }
        };
        self.finish(pages, rows, column)
    }

    /// Encodes true and false.
    pub(crate) fn flags(
        &mut self,
        flags: &Column,
        rows: usize,
        column: ColumnDescPtr,
    ) -> Result<EncodedColumn, ParquetError> {
        let data = ranges(rows).map(|range| {
            let flag = |row: usize| match flags.value(row) {
                Some(Value::Flag(flag)) => Some(flag),
                _ => None,
            };
            let mut page = levels(range.clone().map(|row| flag(row).is_some()));
            let values: Vec<bool> = range.clone().filter_map(flag).collect();
            page.extend(values.chunks(8).map(|values| {
                values.iter().enumerate().fold(0, |byte, (bit, flag)| byte | u8::from(*flag) << bit)
            }));
            (page, range.len() as u32)
        });
        let pages = Pages {
            dictionary: None,
            data: data.collect(),
            encoding: Encoding::PLAIN,
            statistics: None,
            tries_compression: true,
        };
        self.finish(pages, rows, column)
    }

    /// Encodes UUIDs.
    pub(crate) fn uuids(
        &mut self,
        uuids: &Column,
        rows: usize,
        column: ColumnDescPtr,
    ) -> Result<EncodedColumn, ParquetError> {
        let Column::Uuids(uuids) = uuids else {
            return self.finish(absent_pages(rows), rows, column);
        };
        let data = ranges(rows).map(|range| (uuid_page(uuids, range.clone()), range.len() as u32));
        let pages = Pages {
            dictionary: None,
            data: data.collect(),
            encoding: Encoding::DELTA_BYTE_ARRAY,
            statistics: None,
            tries_compression: false,
        };
        self.finish(pages, rows, column)
    }

    fn finish(
        &mut self,
        pages: Pages,
        rows: usize,
        column: ColumnDescPtr,
    ) -> Result<EncodedColumn, ParquetError> {
        let raw = |pages: &Pages| {
            let dictionary = pages.dictionary.as_ref().map_or(0, |(bytes, _)| bytes.len());
            dictionary + pages.data.iter().map(|(bytes, _)| bytes.len()).sum::<usize>()
        };
        let (raw_bytes, mut compressed) = (raw(&pages), None);
        if pages.tries_compression && raw_bytes > 64 {
            let mut compress = |(bytes, values): &(Vec<u8>, u32)| {
                Ok::<_, io::Error>((self.compressor.compress(bytes)?, *values))
            };
            let smaller = Pages {
                dictionary: pages.dictionary.as_ref().map(&mut compress).transpose()?,
                data: pages.data.iter().map(&mut compress).collect::<io::Result<_>>()?,
                statistics: None,
                ..pages
            };
            let saved = raw_bytes.saturating_sub(raw(&smaller));
            compressed = (saved * 100 >= raw_bytes * SAVED_PERCENT_MIN).then_some(smaller);
        }
        let codec = match compressed {
            Some(_) => Compression::ZSTD(ZstdLevel::try_new(LEVEL)?),
            None => Compression::UNCOMPRESSED,
        };
        let raw_lengths: Vec<usize> =
            pages.dictionary.iter().chain(&pages.data).map(|(bytes, _)| bytes.len()).collect();
        let statistics = pages.statistics.clone();
        let stored = compressed.unwrap_or(pages);
        write_chunk(stored, &raw_lengths, statistics, codec, rows, column)
    }
}

fn write_chunk(
    pages: Pages,
    raw_lengths: &[usize],
    statistics: Option<Statistics>,
    codec: Compression,
    rows: usize,
    column: ColumnDescPtr,
) -> Result<EncodedColumn, ParquetError> {
    let mut sink = TrackedWrite::new(Vec::new());
    let mut writer = SerializedPageWriter::new(&mut sink);
    let (mut uncompressed, mut stored, mut data_at) = (0, 0, None);
    let mut raw_lengths = raw_lengths.iter();
    let mut encodings = vec![Encoding::RLE, pages.encoding];
    let has_dictionary = pages.dictionary.is_some();
    let mut put = |page: Page| {
        let length = *raw_lengths.next().expect("one for each page");
        let is_data = page.is_data_page();
        let spec = writer.write_page(CompressedPage::new(page, length))?;
        uncompressed += spec.uncompressed_size as i64;
        stored += spec.compressed_size as i64;
        if is_data {
            data_at.get_or_insert(spec.offset as i64);
        }
        Ok::<_, ParquetError>(())
    };
    if let Some((bytes, values)) = pages.dictionary {
        encodings.push(Encoding::PLAIN);
        put(Page::DictionaryPage {
            buf: bytes.into(),
            num_values: values,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        })?;
    }
    for (bytes, values) in pages.data {
        put(Page::DataPage {
            buf: bytes.into(),
            num_values: values,
            encoding: pages.encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })?;
    }
    let bytes = Bytes::from(sink.into_inner()?);
    let mut metadata = ColumnChunkMetaData::builder(column)
        .set_compression(codec)
        .set_encodings(encodings)
        .set_num_values(rows as i64)
        .set_total_compressed_size(stored)
        .set_total_uncompressed_size(uncompressed)
        .set_data_page_offset(data_at.unwrap_or(0))
        .set_dictionary_page_offset(has_dictionary.then_some(0));
    if let Some(statistics) = statistics {
        metadata = metadata.set_statistics(statistics);
    }
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: rows as u64,
        metadata: metadata.build()?,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok(EncodedColumn { bytes, close })
}

fn ranges(rows: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..rows).step_by(PAGE_ROWS).map(move |start| start..rows.min(start + PAGE_ROWS))
}

/// Starts a page with the levels that say which rows have a value.
fn levels(present: impl Iterator<Item = bool>) -> Vec<u8> {
    let levels: Vec<u32> = present.map(u32::from).collect();
    let mut page = vec![0; 4];
    encode_hybrid(&levels, 1, &mut page);
    let length = page.len() as u32 - 4;
    page[..4].copy_from_slice(&length.to_le_bytes());
    page
}

fn absent_pages(rows: usize) -> Pages {
    let data = ranges(rows).map(|range| (levels(range.clone().map(|_| false)), range.len() as u32));
    Pages {
        dictionary: None,
        data: data.collect(),
        encoding: Encoding::PLAIN,
        statistics: None,
        tries_compression: false,
    }
}

fn coded_pages(codes: &[u32], distinct: u32, dictionary: Vec<u8>) -> Pages {
    let width = width_of(u64::from(distinct.saturating_sub(1)));
    let data = codes.chunks(PAGE_ROWS).map(|codes| {
        let mut page = levels(codes.iter().map(|code| *code != ABSENT));
        page.push(width);
        if codes.contains(&ABSENT) {
            let present: Vec<u32> = codes.iter().copied().filter(|code| *code != ABSENT).collect();
            encode_hybrid(&present, width, &mut page);
        } else {
            encode_hybrid(codes, width, &mut page);
        }
        (page, codes.len() as u32)
    });
    Pages {
        dictionary: Some((dictionary, distinct)),
        data: data.collect(),
        encoding: Encoding::RLE_DICTIONARY,
        statistics: None,
        tries_compression: true,
    }
}

fn put_text(value: Value<'_>, page: &mut Vec<u8>) {
    let Value::Text(text) = value else { unreachable!("a column of text holds text") };
    page.extend_from_slice(&(text.len() as u32).to_le_bytes());
    page.extend_from_slice(text.as_bytes());
}

/// Returns codes and the distinct values, unless there are too many.
fn distinct_numbers(values: &[f64]) -> Option<(Vec<u32>, Vec<f64>)> {
    let mut known: HashMap<u64, u32, FxBuildHasher> = HashMap::default();
    let (mut codes, mut distinct) = (Vec::with_capacity(values.len()), Vec::new());
    let mut last = (f64::NAN.to_bits(), ABSENT);
    for value in values {
        if value.is_nan() {
            codes.push(ABSENT);
            continue;
        }
        let bits = value.to_bits();
        if last.0 != bits {
            let code = *known.entry(bits.wrapping_mul(0x9e37_79b9_7f4a_7c15)).or_insert_with(|| {
                distinct.push(*value);
                distinct.len() as u32 - 1
            });
            last = (bits, code);
            // A dictionary is worth it while values repeat.
            if distinct.len() > DISTINCT_NUMBERS_MAX
                || (distinct.len() > 4_096 && distinct.len() * 2 > codes.len())
            {
                return None;
            }
        }
        codes.push(last.1);
    }
    Some((codes, distinct))
}

/// DELTA_BYTE_ARRAY: the lengths of the prefixes shared with the value before, the lengths of the rest, the rest.
fn uuid_page(uuids: &Uuids, rows: std::ops::Range<usize>) -> Vec<u8> {
    let mut page = levels(rows.clone().map(|row| uuids.get(row).is_some()));
    let (mut prefixes, mut suffixes, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let mut last: Option<u128> = None;
    for value in rows.filter_map(|row| uuids.get(row)) {
        // The last byte is always written, so that equal ids need no special case.
        let prefix = last.map_or(0, |last| ((last ^ value).leading_zeros() / 8).min(15));
        prefixes.push(i64::from(prefix));
        suffixes.push(i64::from(16 - prefix));
        bytes.extend_from_slice(&value.to_be_bytes()[prefix as usize..]);
        last = Some(value);
    }
    encode_delta(&prefixes, &mut page);
    encode_delta(&suffixes, &mut page);
    page.extend_from_slice(&bytes);
    page
}
