//! Events as lines of JSON and CSV.

use std::io::Write;

use jiff::Timestamp;
use model::csv::push_csv_text;

use crate::columns::{Chunk, Field, Value};
use crate::shape::{FIXED, place};

/// The columns behind the time, in the order of CSV.
const COLUMNS: [(&str, Field); 12] = [
    ("event", Field::Event),
    ("id", Field::Id),
    ("player", Field::Player),
    ("anonymous", Field::Anonymous),
    ("session", Field::Session),
    ("value", Field::Value),
    ("country", Field::Country),
    ("platform", Field::Platform),
    ("version", Field::Version),
    ("source", Field::Source),
    ("level", Field::Level),
    ("received", Field::Received),
];

/// Writes rows with the fixed columns and the JSON of all properties.
pub(super) struct RowWriter {
    is_csv: bool,
    /// The places of [`COLUMNS`].
    places: Vec<usize>,
}

impl RowWriter {
    pub(super) fn csv() -> RowWriter {
        RowWriter { is_csv: true, places: COLUMNS.iter().map(|(_, field)| place(field)).collect() }
    }

    pub(super) fn ndjson() -> RowWriter {
        RowWriter { is_csv: false, ..RowWriter::csv() }
    }

    /// Writes what is in front of the rows.
    pub(super) fn start(&self, out: &mut Vec<u8>) {
        if self.is_csv {
            out.extend_from_slice(b"ts");
            for (name, _) in &COLUMNS {
                out.push(b',');
                out.extend_from_slice(name.as_bytes());
            }
            out.extend_from_slice(b",props\r\n");
        }
    }

    pub(super) fn row(&mut self, out: &mut Vec<u8>, rows: &Chunk, row: usize) {
        if self.is_csv { self.csv_row(out, rows, row) } else { self.ndjson_row(out, rows, row) }
    }

    fn csv_row(&self, out: &mut Vec<u8>, rows: &Chunk, row: usize) {
        push_time(out, rows.times[row]);
        for (place, (_, field)) in self.places.iter().zip(&COLUMNS) {
            out.push(b',');
            match rows.columns[*place].value(row) {
                None => {}
                Some(Value::Number(ms)) if *field == Field::Received => push_time(out, ms as i64),
                Some(Value::Number(number)) => push_json(out, &number),
                Some(Value::Flag(flag)) => push_json(out, &flag),
                Some(Value::Text(text)) => push_csv_text(out, text),
            }
        }
        out.push(b',');
        if let Some(Value::Text(props)) = rows.columns[FIXED.len()].value(row) {
            push_csv_text(out, props);
        }
        out.extend_from_slice(b"\r\n");
    }

    fn ndjson_row(&self, out: &mut Vec<u8>, rows: &Chunk, row: usize) {
        out.extend_from_slice(b"{\"ts\":\"");
        push_time(out, rows.times[row]);
        out.push(b'"');
        for (place, (name, field)) in self.places.iter().zip(&COLUMNS) {
            let Some(value) = rows.columns[*place].value(row) else { continue };
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            match value {
                Value::Number(ms) if *field == Field::Received => {
                    out.push(b'"');
                    push_time(out, ms as i64);
                    out.push(b'"');
                }
                Value::Number(number) => push_json(out, &number),
                Value::Flag(flag) => push_json(out, &flag),
                Value::Text(text) => push_json(out, text),
            }
        }
        if let Some(Value::Text(props)) = rows.columns[FIXED.len()].value(row) {
            out.extend_from_slice(b",\"props\":");
            out.extend_from_slice(props.as_bytes());
        }
        out.extend_from_slice(b"}\n");
    }
}

fn push_json(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("memory accepts every byte");
}

/// Writes a time as RFC 3339. Times beyond the year 9999, which no client can send, are written as the last one.
fn push_time(out: &mut Vec<u8>, ms: i64) {
    let time =
        Timestamp::from_millisecond(ms).unwrap_or(if ms < 0 { Timestamp::MIN } else { Timestamp::MAX });
    write!(out, "{time:.3}").expect("memory accepts every byte");
}
