//! Writes a part row group by row group.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use wal::{Disk, DiskFile};

use super::{
    FORMAT, LEADING, METADATA_KEY, Metadata, PartInfo, RowGroupMetadata, checksum, content, day_name,
    io_error,
};
use crate::builder::Day;
use crate::columns::{Chunk, Column, Field, Value};
use crate::decode::Content;
use crate::encode::Encoder;
use crate::json::Scratch;
use crate::shape::{FIXED, Property, RestNames, Shape, count_players};

/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// A file that is being written under a temporary name. Nothing is durable before [`PartWriter::finish`].
pub(crate) struct PartWriter {
    file: SerializedFileWriter<Sink>,
    encoder: Encoder,
    metadata: Metadata,
    info: PartInfo,
    scratch: Scratch,
}

impl PartWriter {
    /// Creates the file at `path`, for rows with the columns of `properties`.
    pub(crate) fn create(
        disk: &dyn Disk,
        path: &Path,
        game: u32,
        day: Day,
        log: (u64, u64),
        properties: &[Property],
    ) -> io::Result<PartWriter> {
        PartWriter::on(disk.create(path)?, game, day, log, properties)
    }

    /// Writes to an empty file, from its start to its end.
    pub(crate) fn on(
        file: Arc<dyn DiskFile>,
        game: u32,
        day: Day,
        log: (u64, u64),
        properties: &[Property],
    ) -> io::Result<PartWriter> {
        let shape = Shape { properties: properties.to_vec(), rest: RestNames::default() };
        let columns = (0..shape.width()).map(|place| column_type(&shape, place));
        let times = required("ts", Physical::INT64, LogicalType::timestamp(true, TimeUnit::MILLIS));
        let hashes = optional("player_hash", Physical::INT64, Some(LogicalType::integer(64, false)), -1);
        let fields = [times, hashes].into_iter().chain(columns).map(|column| column.map(Arc::new));
        let fields = fields.collect::<Result<Vec<_>, _>>().map_err(io_error)?;
        let schema = Type::group_type_builder("events").with_fields(fields).build().map_err(io_error)?;
        let properties = WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_created_by("playmeter".to_owned())
            .build();
        let sink = Sink { file, at: 0, buffer: Vec::new(), kept: None };
        let file =
            SerializedFileWriter::new(sink, Arc::new(schema), Arc::new(properties)).map_err(io_error)?;
        let info = PartInfo {
            day,
            log,
            revision: 0,
            rows: 0,
            players: 0,
            hashes: (0, 0),
            times: (i64::MAX, i64::MIN),
            bytes: 0,
            footer: (0, 0),
        };
        let metadata =
            Metadata { format: FORMAT, game, day: day_name(day), log, shape, row_groups: Vec::new() };
        Ok(PartWriter { file, encoder: Encoder::new()?, metadata, info, scratch: Scratch::default() })
    }

    /// Appends rows, sorted behind those before, with all columns of the shape. Each dictionary holds only values that
    /// these rows have.
    pub(crate) fn row_group(&mut self, rows: &Chunk) -> io::Result<()> {
        self.try_row_group(rows).map_err(io_error)
    }

    fn try_row_group(&mut self, rows: &Chunk) -> Result<(), ParquetError> {
        let count = rows.rows();
        let (Some(first), Some(last)) = (rows.players.first(), rows.players.last()) else { return Ok(()) };
        let columns = self.file.schema_descr().columns().to_vec();
        let mut group = self.file.next_row_group()?;
        let mut checksums = Vec::with_capacity(columns.len());
        for (index, column) in columns.into_iter().enumerate() {
            let encoded = match index {
                0 => self.encoder.times(&rows.times, column)?,
                1 => self.encoder.players(&rows.players, column)?,
                _ => {
                    let place = index - LEADING;
                    let values = &rows.columns[place];
                    match content(&self.metadata.shape, place) {
                        Content::Texts => {
                            let may_repeat = place == self.metadata.shape.rest_place();
                            self.encoder.texts(values, count, may_repeat, column)?
                        }
                        Content::Numbers => self.encoder.numbers(values, count, column)?,
                        Content::WholeNumbers => self.encoder.whole_numbers(values, count, column)?,
                        Content::Flags => self.encoder.flags(values, count, column)?,
                        Content::Uuids => self.encoder.uuids(values, count, column)?,
                    }
                }
            };
            checksums.push(checksum(&encoded.bytes));
            group.append_column(&encoded.bytes, encoded.close)?;
        }
        group.close()?;
        let shape = &mut self.metadata.shape;
        for (property, column) in shape.properties.iter_mut().zip(&rows.columns[FIXED.len()..]) {
            property.rows += column.count_values() as u64;
        }
        if let Some(rest @ Column::Coded { .. }) = rows.columns.last() {
            for row in 0..count {
                if let Some(Value::Text(json)) = rest.value(row) {
                    shape.rest.count(json, &mut self.scratch);
                }
            }
        }
        let times = (
            rows.times.iter().copied().min().unwrap_or(0),
            rows.times.iter().copied().max().unwrap_or(0).saturating_add(1),
        );
        if self.info.rows == 0 {
            self.info.hashes.0 = *first;
        }
        self.info.hashes.1 = *last;
        self.info.rows += count as u64;
        self.info.players += count_players(&rows.players);
        self.info.times = (self.info.times.0.min(times.0), self.info.times.1.max(times.1));
        let group = RowGroupMetadata { rows: count as u64, hashes: (*first, *last), times, checksums };
        self.metadata.row_groups.push(group);
        Ok(())
    }

    /// Completes the file and makes its content durable. Its name is up to the caller.
    pub(crate) fn finish(mut self) -> io::Result<PartInfo> {
        self.complete()?;
        self.file.inner_mut().file.sync()?;
        Ok(self.info)
    }

    /// Completes a file that does not outlive the process.
    pub(crate) fn finish_temporary(mut self) -> io::Result<()> {
        self.complete()
    }

    fn complete(&mut self) -> io::Result<()> {
        let text = serde_json::to_string(&self.metadata).map_err(io::Error::other)?;
        self.file.append_key_value_metadata(KeyValue::new(METADATA_KEY.to_owned(), text));
        let start = self.file.bytes_written() as u64;
        self.file.flush()?;
        self.file.inner_mut().kept = Some(Vec::new());
        self.file.finish().map_err(io_error)?;
        self.file.flush()?;
        let sink = self.file.inner_mut();
        let kept = sink.kept.take().unwrap_or_default();
        self.info.bytes = sink.at;
        self.info.footer = (start, checksum(&kept));
        Ok(())
    }
}

fn column_type(shape: &Shape, place: usize) -> Result<Type, ParquetError> {
    let name = match FIXED.get(place) {
        Some(field) => fixed_name(field).to_owned(),
        None => match shape.properties.get(place - FIXED.len()) {
            Some(property) => format!("props.{}", property.name),
            None => "props".to_owned(),
        },
    };
    match content(shape, place) {
        Content::Texts => optional(&name, Physical::BYTE_ARRAY, Some(LogicalType::String), -1),
        Content::Numbers => optional(&name, Physical::DOUBLE, None, -1),
        Content::WholeNumbers => {
            let millis = LogicalType::timestamp(true, TimeUnit::MILLIS);
            optional(&name, Physical::INT64, Some(millis), -1)
        }
        Content::Flags => optional(&name, Physical::BOOLEAN, None, -1),
        Content::Uuids => optional(&name, Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid), 16),
    }
}

fn fixed_name(field: &Field) -> &'static str {
    match field {
        Field::Event => "event",
        Field::Id => "id",
        Field::Player => "player",
        Field::Anonymous => "anonymous",
        Field::Session => "session",
        Field::Value => "value",
        Field::Country => "country",
        Field::Platform => "platform",
        Field::Version => "version",
        Field::Source => "source",
        Field::Level => "level",
        Field::Received => "received",
        Field::Property(_) => unreachable!("not a fixed column"),
    }
}

fn required(name: &str, physical: Physical, logical: LogicalType) -> Result<Type, ParquetError> {
    let column = Type::primitive_type_builder(name, physical).with_logical_type(Some(logical));
    column.with_repetition(Repetition::REQUIRED).build()
}

fn optional(
    name: &str,
    physical: Physical,
    logical: Option<LogicalType>,
    length: i32,
) -> Result<Type, ParquetError> {
    let column = Type::primitive_type_builder(name, physical).with_logical_type(logical);
    column.with_repetition(Repetition::OPTIONAL).with_length(length).build()
}

/// Writes a file from its start to its end.
struct Sink {
    file: Arc<dyn DiskFile>,
    at: u64,
    buffer: Vec<u8>,
    /// A copy of what is written from now on.
    kept: Option<Vec<u8>>,
}

impl Sink {
    fn write_buffer(&mut self) -> io::Result<()> {
        let mut rest = &self.buffer[..];
        while !rest.is_empty() {
            match self.file.write_at(rest, self.at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = &rest[written..];
                    self.at += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.buffer.clear();
        Ok(())
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(bytes);
        }
        if self.buffer.len() >= WRITE_BYTES {
            self.write_buffer()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_buffer()
    }
}
