//! Reads CSV files with a header.

use std::io::BufRead;

use anyhow::Context;
use decode::csv::{self, Mapping};

use super::{EventBatch, RowReader};

pub(crate) struct CsvReader {
    input: Box<dyn BufRead>,
    rows: csv::CsvReader,
    is_at_end: bool,
}

impl CsvReader {
    pub(crate) fn new(input: Box<dyn BufRead>, mapping: Mapping) -> CsvReader {
        CsvReader { input, rows: csv::CsvReader::new(mapping), is_at_end: false }
    }
}

impl RowReader for CsvReader {
    fn fill(&mut self, rows_max: usize, batch: &mut EventBatch) -> anyhow::Result<()> {
        self.rows.clear();
        self.rows.set_rows_max(rows_max);
        while !self.is_at_end && !self.rows.is_full() {
            let chunk = self.input.fill_buf().context("reading the file")?;
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
