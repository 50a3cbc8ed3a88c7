//! Reads a part, checking every byte against its checksum before it is decoded.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use wal::{Disk, DiskFile};

use super::{FORMAT, LEADING, MAGIC, METADATA_KEY, Metadata, PartInfo, RowGroupMetadata, checksum, content};
use crate::columns::Chunk;
use crate::decode::{ChunkBytes, ColumnReader, Content, DecodeError};
use crate::encode::PAGE_ROWS;
use crate::scan::ScanFailure;
use crate::shape::Shape;

/// An open part. It stays readable when its name is removed.
pub(crate) struct PartReader {
    file: Arc<dyn DiskFile>,
    name: String,
    footer: ParquetMetaData,
    metadata: Metadata,
}

impl PartReader {
    /// Opens the file at `path`, called `name` in errors.
    pub(crate) fn open(
        disk: &dyn Disk,
        path: &Path,
        name: String,
        info: &PartInfo,
    ) -> Result<PartReader, ScanFailure> {
        let damaged = |problem: String| ScanFailure::Damaged { path: name.clone(), problem };
        let file = disk.open(path).map_err(|error| damaged(cannot_read(&error)))?;
        let bytes = file.bytes().map_err(|error| damaged(cannot_read(&error)))?;
        let (at, expected) = info.footer;
        if bytes != info.bytes || at.saturating_add(12) > bytes {
            return Err(damaged(format!("has {bytes} bytes instead of {}", info.bytes)));
        }
        let magic = read(&*file, 0, MAGIC.len()).map_err(|error| damaged(cannot_read(&error)))?;
        let end = read(&*file, at, (bytes - at) as usize).map_err(|error| damaged(cannot_read(&error)))?;
        if magic[..] != MAGIC[..] || checksum(&end) != expected {
            return Err(damaged("its metadata differs from what was written".to_owned()));
        }
        // The length of the metadata and the magic bytes follow it.
        let length = u32::from_le_bytes(*end[end.len() - 8..].first_chunk().expect("8 bytes")) as usize;
        let start = (end.len() - 8).checked_sub(length);
        let start = start.ok_or_else(|| damaged("its metadata has a wrong length".to_owned()))?;
        let footer = ParquetMetaDataReader::decode_metadata(&end[start..end.len() - 8])
            .map_err(|error| damaged(error.to_string()))?;
        let pairs = footer.file_metadata().key_value_metadata();
        let pair = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == METADATA_KEY));
        let text = pair.and_then(|pair| pair.value.as_deref()).unwrap_or_default();
        let metadata: Metadata =
            serde_json::from_str(text).map_err(|error| damaged(format!("its metadata: {error}")))?;
        if metadata.format > FORMAT {
            let problem = format!("has format {}; this program reads up to {FORMAT}", metadata.format);
            return Err(damaged(problem));
        }
        let columns = LEADING + metadata.shape.width();
        let fits = footer.num_row_groups() == metadata.row_groups.len()
            && footer.row_groups().iter().all(|group| group.num_columns() == columns)
            && metadata.row_groups.iter().all(|group| group.checksums.len() == columns);
        if !fits {
            return Err(damaged("its metadata contradicts itself".to_owned()));
        }
        Ok(PartReader { file, name, footer, metadata })
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.metadata.shape
    }

    pub(crate) fn row_groups(&self) -> &[RowGroupMetadata] {
        &self.metadata.row_groups
    }

    /// Starts to read some columns of a row group.
    pub(crate) fn row_group(&self, index: usize, places: &[usize]) -> Result<RowGroupReader, ScanFailure> {
        let rows = self.metadata.row_groups[index].rows as usize;
        let mut bytes = 0;
        let mut open = |column: usize| {
            let metadata = self.footer.row_group(index).column(column);
            let (start, length) = metadata.byte_range();
            let chunk = read(&*self.file, start, length as usize);
            let chunk = chunk.map_err(|error| self.damaged(cannot_read(&error)))?;
            if checksum(&chunk) != self.metadata.row_groups[index].checksums[column] {
                let column = metadata.column_path().string();
                return Err(self.damaged(format!("column {column} differs from what was written")));
            }
            bytes += chunk.len();
            let chunk = ChunkBytes { start, bytes: Bytes::from(chunk) };
            ColumnReader::new(chunk, metadata, rows).map_err(|error| self.damaged(error.to_string()))
        };
        let (times, players) = (open(0)?, open(1)?);
        let columns = places
            .iter()
            .map(|place| Ok((open(LEADING + *place)?, content(&self.metadata.shape, *place))))
            .collect::<Result<Vec<_>, ScanFailure>>()?;
        let name = self.name.clone();
        Ok(RowGroupReader { name, rows_left: rows, times, players, columns, bytes })
    }

    fn damaged(&self, problem: String) -> ScanFailure {
        ScanFailure::Damaged { path: self.name.clone(), problem }
    }
}

/// Reads a row group page by page.
pub(crate) struct RowGroupReader {
    name: String,
    rows_left: usize,
    times: ColumnReader,
    players: ColumnReader,
    columns: Vec<(ColumnReader, Content)>,
    bytes: usize,
}

impl RowGroupReader {
    /// Returns the bytes that were read from the file.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the rows of the next page if `keep` wants any of its players; a chunk without rows
    /// and columns if not.
    pub(crate) fn next(&mut self, keep: impl FnOnce(&[u64]) -> bool) -> Result<Option<Chunk>, ScanFailure> {
        if self.rows_left == 0 {
            return Ok(None);
        }
        let page = self
            .read_page(keep)
            .map_err(|error| ScanFailure::Damaged { path: self.name.clone(), problem: error.to_string() })?;
        Ok(Some(page))
    }

    fn read_page(&mut self, keep: impl FnOnce(&[u64]) -> bool) -> Result<Chunk, DecodeError> {
        let rows = self.rows_left.min(PAGE_ROWS);
        self.rows_left -= rows;
        let players = self.players.players()?;
        if players.len() != rows {
            return Err(DecodeError::Malformed);
        }
        if !keep(&players) {
            self.times.skip_page()?;
            self.columns.iter_mut().try_for_each(|(column, _)| column.skip_page())?;
            return Ok(Chunk::default());
        }
        let times = self.times.times()?;
        let mut columns = Vec::with_capacity(self.columns.len());
        for (column, content) in &mut self.columns {
            columns.push(column.column(*content)?);
        }
        let chunk = Chunk { players, times, columns };
        let fits = chunk.times.len() == rows && chunk.columns.iter().all(|column| column.has_rows(rows));
        if fits { Ok(chunk) } else { Err(DecodeError::Malformed) }
    }
}

fn read(file: &dyn DiskFile, at: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], at + filled as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

fn cannot_read(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "is missing; restore it from a backup".to_owned(),
        _ => format!("cannot be read: {error}"),
    }
}
