//! Apache Parquet: columns go where a table's columns go. Properties keep their types, nested ones too.
//!
//! The record reader of the `parquet` crate, without Arrow: rows are what is needed here, and it adds 28 CPU-seconds to the
//! build and 2 MB to the program. It panics on some files that are damaged; such a panic ends the file, not the program.

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

use super::{Batch, Rows};

/// The name of a column whose fields are properties.
const PROPS: &str = "props";

/// A Parquet file.
pub struct Columns {
    rows: RowIter<'static>,
    columns: Vec<Column>,
    mapping: Mapping,
    /// Where the next row is, from 0 on.
    row: u64,
    rows_in_all: u64,
    texts: Texts,
}

/// What to do with one column.
struct Column {
    target: Target,
    kind: Kind,
    is_props: bool,
}

/// What the values of a column mean beyond their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Whole numbers that are times since 1970: so many of them are a millisecond.
    Time {
        per_ms: i64,
    },
    Uuid,
}

/// The texts of one row; the memory is used again.
#[derive(Default)]
struct Texts {
    bytes: String,
    /// Each field's text ends here.
    fields: Vec<(csv::Field, usize)>,
    props: String,
}

impl Columns {
    /// Opens a file that is to be read from this row on. The answer has the row from which it is read, which may come
    /// before.
    pub fn open(path: &Path, mapping: &Mapping, from: u64) -> anyhow::Result<(Columns, u64)> {
        guarded(|| {
            let (mut end, mut first) = (0, 0);
            let options = ReadOptionsBuilder::new().with_predicate(Box::new(move |group, _| {
                end += group.num_rows().max(0) as u64;
                end > from
            }));
            let file = File::open(path).context("opening it")?;
            let whole = SerializedFileReader::new(file.try_clone().context("opening it")?)?;
            let rows_in_all = whole.metadata().file_metadata().num_rows().max(0) as u64;
            for group in whole.metadata().row_groups() {
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
            let (mapping, texts) = (mapping.clone(), Texts::default());
            Ok((Columns { rows, columns, mapping, row: first, rows_in_all, texts }, first))
        })
    }
}

impl Rows for Columns {
    fn fill(&mut self, rows_max: usize, batch: &mut Batch) -> anyhow::Result<()> {
        while !batch.is_full(rows_max) {
            let Some(row) = guarded(|| self.rows.next().transpose().context("reading it"))? else {
                return Ok(());
            };
            self.row += 1;
            let event = self.texts.read(&row, &self.columns).and_then(|()| self.texts.event(&self.mapping));
            batch.push(self.row, event.as_ref().map_err(|reject| *reject));
        }
        Ok(())
    }

    fn part(&self) -> Option<f64> {
        Some(self.row as f64 / self.rows_in_all.max(1) as f64)
    }
}

/// Has a panic of the crate be a failure.
fn guarded<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err(anyhow!("it is damaged, or has a type that cannot be read")))
}

fn columns(schema: &Type, mapping: &Mapping) -> anyhow::Result<Vec<Column>> {
    let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
    let targets = mapping.resolve(&names)?;
    let column = |(target, field): (Target, &parquet::schema::types::TypePtr)| {
        if matches!(target, Target::Field(_)) && !field.is_primitive() {
            bail!("the column {:?} is nested and cannot be a field of an event", field.name());
        }
        let is_props = field.name() == PROPS && target == Target::Prop(PROPS.to_owned());
        Ok(Column { target, kind: Kind::of(field), is_props })
    };
    targets.into_iter().zip(schema.get_fields()).map(column).collect()
}

impl Kind {
    fn of(field: &Type) -> Kind {
        match field.get_basic_info().logical_type_ref() {
            Some(LogicalType::Timestamp(time)) => {
                let per_ms = match time.unit {
                    TimeUnit::MILLIS => 1,
                    TimeUnit::MICROS => 1_000,
                    TimeUnit::NANOS => 1_000_000,
                };
                Kind::Time { per_ms }
            }
            Some(LogicalType::Uuid) => Kind::Uuid,
            _ => Kind::Plain,
        }
    }
}

impl Texts {
    /// Takes the texts of a row.
    fn read(&mut self, row: &Row, columns: &[Column]) -> Result<(), Reject> {
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

/// Whether there is nothing, as programs that know no `null` in a column of numbers say it too.
fn is_absent(value: &Field) -> bool {
    match value {
        Field::Null => true,
        Field::Float(value) => value.is_nan(),
        Field::Double(value) => value.is_nan(),
        _ => false,
    }
}
