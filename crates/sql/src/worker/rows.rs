//! Encodes rows as JSON, NDJSON or CSV.

use std::collections::HashSet;

use model::csv::push_csv_text;
use sql::protocol::{Column, SqlFormat, Summary};

use super::json::{push_text, push_value};
use super::text::{Scalar, push_scalar};
use super::types::Type;
use super::vector::Values;

/// Encodes an answer row by row.
pub(crate) struct RowEncoder {
    format: SqlFormat,
    /// The names of the columns as keys of an object, each once.
    keys: Vec<String>,
    rows: u64,
}

impl RowEncoder {
    pub(crate) fn new(format: SqlFormat, columns: &[Column]) -> RowEncoder {
        RowEncoder { format, keys: distinct_names(columns), rows: 0 }
    }

    /// Appends what stands before the rows.
    pub(crate) fn start(&self, out: &mut String, columns: &[Column]) {
        match self.format {
            SqlFormat::Json => {
                out.push_str("{\"columns\":");
                out.push_str(&serde_json::to_string(columns).expect("names and types are JSON"));
                out.push_str(",\"rows\":[");
            }
            SqlFormat::Csv => push_csv_line(out, columns.iter().map(|column| &*column.name), push_csv_cell),
            SqlFormat::Ndjson | SqlFormat::Arrow => {}
        }
    }

    /// Appends a row.
    pub(crate) fn row(&mut self, out: &mut String, columns: &[Values<'_>], row: usize) {
        match self.format {
            SqlFormat::Json => {
                out.push_str(if self.rows == 0 { "[" } else { ",[" });
                for (index, values) in columns.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    push_value(out, values, row);
                }
                out.push(']');
            }
            SqlFormat::Csv => {
                push_csv_line(out, columns.iter(), |out, values| push_csv_value(out, values, row))
            }
            SqlFormat::Ndjson | SqlFormat::Arrow => {
                for (index, (key, values)) in self.keys.iter().zip(columns).enumerate() {
                    out.push_str(if index == 0 { "{" } else { "," });
                    push_text(out, key);
                    out.push(':');
                    push_value(out, values, row);
                }
                out.push_str("}\n");
            }
        }
        self.rows += 1;
    }

    /// Appends what stands behind the rows.
    pub(crate) fn end(&self, out: &mut String, summary: &Summary) {
        if self.format == SqlFormat::Json {
            out.push_str("],\"truncated\":");
            out.push_str(if summary.truncated { "true}" } else { "false}" });
        }
    }
}

/// Returns the names of the columns; a name that occurs again gets a number.
fn distinct_names(columns: &[Column]) -> Vec<String> {
    let mut taken: HashSet<String> = columns.iter().map(|column| column.name.clone()).collect();
    let mut seen = HashSet::new();
    let mut name = |column: &Column| {
        if seen.insert(column.name.clone()) {
            return column.name.clone();
        }
        let numbered = (2..).map(|number| format!("{}_{number}", column.name));
        let free = numbered.into_iter().find(|name| taken.insert(name.clone()));
        free.expect("there are more numbers than columns")
    };
    columns.iter().map(&mut name).collect()
}

fn push_csv_line<T>(out: &mut String, cells: impl Iterator<Item = T>, push: impl Fn(&mut String, T)) {
    for (index, cell) in cells.enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        push(out, cell);
    }
    out.push_str("\r\n");
}

fn push_csv_value(out: &mut String, values: &Values<'_>, row: usize) {
    let mut value = String::new();
    match values.of {
        _ if values.is_null(row) => return,
        Type::Text | Type::Json => return push_csv_cell(out, &values.text(row)),
        Type::Float | Type::Double => {
            let start = out.len();
            if let Scalar::Text = push_scalar(out, values, row) {
                out.truncate(start);
            }
            return;
        }
        of if of.is_nested() => push_value(&mut value, values, row),
        _ => drop(push_scalar(&mut value, values, row)),
    }
    push_csv_cell(out, &value);
}

fn push_csv_cell(out: &mut String, text: &str) {
    let mut cell = Vec::with_capacity(text.len() + 2);
    push_csv_text(&mut cell, text);
    out.push_str(std::str::from_utf8(&cell).expect("CSV of texts is text"));
}
