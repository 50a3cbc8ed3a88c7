//! Tables with a header: CSV.

use std::io::BufRead;

use anyhow::Context;
use decode::csv::{self, Mapping};

use super::{Batch, Rows};

/// A file of CSV.
pub struct Table {
    input: Box<dyn BufRead>,
    rows: csv::CsvReader,
    is_at_end: bool,
}

impl Table {
    pub fn new(input: Box<dyn BufRead>, mapping: Mapping) -> Table {
        Table { input, rows: csv::CsvReader::new(mapping), is_at_end: false }
    }
}

impl Rows for Table {
    fn fill(&mut self, rows_max: usize, batch: &mut Batch) -> anyhow::Result<()> {
        self.rows.clear();
        self.rows.set_rows_max(rows_max);
        while !self.is_at_end && !self.rows.is_full() {
            let chunk = self.input.fill_buf().context("reading it")?;
            if chunk.is_empty() {
                self.rows.finish()?;
                self.is_at_end = true;
            } else {
                let read = self.rows.read(chunk)?;
                self.input.consume(read);
            }
        }
        for (line, event) in self.rows.lines().zip(&self.rows.decoded().events) {
            batch.push(line, event.as_ref().map_err(|reject| *reject));
        }
        Ok(())
    }
}
