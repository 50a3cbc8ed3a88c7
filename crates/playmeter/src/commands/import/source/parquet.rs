//! Reads Parquet files. Columns are mapped like those of CSV files. Properties keep their types, including nested ones.
//!
//! Uses the record reader of the `parquet` crate without Arrow, because the import works on rows. It adds 28 CPU-seconds to
//! the build and 2 MB to the program. It panics on some damaged files; such a panic becomes an error.

#[cfg(test)]
mod tests;
mod value;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use decode::csv::{self, Mapping, Target};
use model::{RawEvent, Reject};
use parquet::basic::{LogicalType, TimeUnit};
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use parquet::record::{Field, Row, reader::RowIter};
use parquet::schema::types::Type;

use super::{EventBatch, RowReader};

/// The name of a column whose fields become properties.
const PROPS: &str = "props";

/// A Parquet file.
pub(crate) struct ParquetReader {
    rows: RowIter<'static>,
    columns: Vec<ParquetColumn>,
    mapping: Mapping,
    /// Index of the next row.
    row: u64,
    rows_total: u64,
    text: RowText,
}

/// The treatment of a column.
struct ParquetColumn {
    target: Target,
    kind: ColumnKind,
    is_props: bool,
}

/// The meaning of the values of a column, beyond their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnKind {
    Plain,
    /// Integers that are times since 1970, with `per_ms` units per millisecond.
    Time {
        per_ms: i64,
    },
    Uuid,
}

/// The fields of one row as text. The memory is reused.
#[derive(Default)]
struct RowText {
    bytes: String,
    /// The fields, each with the end of its text in `bytes`.
    fields: Vec<(csv::Field, usize)>,
    props: String,
}

impl ParquetReader {
    /// Opens a file to read from this row on. Also returns the first row that will be read, which is the start of its row
    /// group and may come earlier.
    pub(crate) fn open(path: &Path, mapping: &Mapping, from: u64) -> anyhow::Result<(ParquetReader, u64)> {
        catch_panic(|| {
            let (mut end, mut first) = (0, 0);
            let options = ReadOptionsBuilder::new().with_predicate(Box::new(move |group, _| {
                end += group.num_rows().max(0) as u64;
                end > from
            }));
            let file = File::open(path).context("opening the file")?;
            let metadata_reader = SerializedFileReader::new(file.try_clone().context("opening the file")?)?;
            let rows_total = metadata_reader.metadata().file_metadata().num_rows().max(0) as u64;
            for group in metadata_reader.metadata().row_groups() {
                let rows = group.num_rows().max(0) as u64;
                if first + rows > from {
                    break;
                }
                first += rows;
            }
            let reader = SerializedFileReader::new_with_options(file, options.build())?;
            let schema = reader.metadata().file_metadata().schema_descr_ptr();
            let columns = columns(schema.root_schema(), mapping)?;
            let rows = RowIter::from_file_into(Box::new(reader));
            let (mapping, text) = (mapping.clone(), RowText::default());
            Ok((ParquetReader { rows, columns, mapping, row: first, rows_total, text }, first))
        })
    }
}

impl RowReader for ParquetReader {
    fn fill(&mut self, rows_max: usize, batch: &mut EventBatch) -> anyhow::Result<()> {
        while !batch.is_full(rows_max) {
            let Some(row) = catch_panic(|| self.rows.next().transpose().context("reading the file"))? else {
                return Ok(());
            };
            self.row += 1;
            let event = self.text.read(&row, &self.columns).and_then(|()| self.text.event(&self.mapping));
            batch.push(self.row, event.as_ref().map_err(|reject| *reject));
        }
        Ok(())
    }

    fn fraction(&self) -> Option<f64> {
        Some(self.row as f64 / self.rows_total.max(1) as f64)
    }
}

/// Turns a panic of the `parquet` crate into an error.
fn catch_panic<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let result = catch_unwind(AssertUnwindSafe(work));
    result.unwrap_or_else(|_| Err(anyhow!("the file is damaged or has an unsupported type")))
}

fn columns(schema: &Type, mapping: &Mapping) -> anyhow::Result<Vec<ParquetColumn>> {
    let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
    let targets = mapping.resolve(&names)?;
    let column = |(target, field): (Target, &parquet::schema::types::TypePtr)| {
        if matches!(target, Target::Field(_)) && !field.is_primitive() {
            bail!("the column {:?} is nested and cannot be mapped to a field of an event", field.name());
        }
        let is_props = field.name() == PROPS && target == Target::Prop(PROPS.to_owned());
        Ok(ParquetColumn { target, kind: ColumnKind::of(field), is_props })
    };
    targets.into_iter().zip(schema.get_fields()).map(column).collect()
}

impl ColumnKind {
    fn of(field: &Type) -> ColumnKind {
        match field.get_basic_info().logical_type_ref() {
            Some(LogicalType::Timestamp(time)) => {
                let per_ms = match time.unit {
                    TimeUnit::MILLIS => 1,
                    TimeUnit::MICROS => 1_000,
                    TimeUnit::NANOS => 1_000_000,
                };
                ColumnKind::Time { per_ms }
            }
            Some(LogicalType::Uuid) => ColumnKind::Uuid,
            _ => ColumnKind::Plain,
        }
    }
}

impl RowText {
    /// Reads the text of the fields of a row.
    fn read(&mut self, row: &Row, columns: &[ParquetColumn]) -> Result<(), Reject> {
        self.bytes.clear();
        self.fields.clear();
        self.props.clear();
        for ((_, value), column) in row.get_column_iter().zip(columns) {
            match &column.target {
                Target::Ignore => {}
                Target::Field(field) => {
                    value::push_text(&mut self.bytes, value, column.kind)?;
                    self.fields.push((*field, self.bytes.len()));
                }
                Target::Prop(_) if column.is_props => value::push_props(&mut self.props, value)?,
                Target::Prop(name) => value::push_prop(&mut self.props, name, value, column.kind)?,
            }
        }
        if !self.props.is_empty() {
            self.props.push('}');
        }
        Ok(())
    }

    fn event<'a>(&'a self, mapping: &'a Mapping) -> Result<RawEvent<'a>, Reject> {
        let mut event = mapping.fixed_event()?;
        let mut from = 0;
        for (field, end) in &self.fields {
            let text = &self.bytes[std::mem::replace(&mut from, *end)..*end];
            if !text.is_empty() {
                field.put(&mut event, text)?;
            }
        }
        event.props = (!self.props.is_empty()).then_some(&*self.props);
        Ok(event)
    }
}

/// Returns true for null and for NaN, which some programs write in columns of numbers because they have no null.
fn is_absent(value: &Field) -> bool {
    match value {
        Field::Null => true,
        Field::Float(value) => value.is_nan(),
        Field::Double(value) => value.is_nan(),
        _ => false,
    }
}
