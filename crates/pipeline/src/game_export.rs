//! The export of a game: everything that is stored about it, as files of JSON lines.
//!
//! ```text
//! game.json               name, time zone, settings
//! events/000001.ndjson    the events in the log, oldest first, as `playmeter import` reads them
//! rollups/000001.ndjson   the rollups by hour: one line per metric, hour and value of a dimension
//! vars/, boards/, ...     live-ops, one folder per part
//! summary.json            the number of lines of each folder. Without it, the export is not complete
//! ```
//!
//! Each file has up to about 4 MiB, which is also what is in memory of it.

mod events;
mod rollups;

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use liveops::{ExportCursor, ExportPart};
use serde_json::{Value, json};
use wal::Wal;

use crate::catalog::Game;
use crate::ingest::Claims;
use crate::time::rfc3339;
use crate::views::Views;

/// The size from which on a file is complete.
const FILE_BYTES: usize = 4 << 20;
/// Rows of live-ops that are read at once, while commands of the game wait.
const ROWS_AT_ONCE: usize = 200;
/// Links that are read at once: each page reads the keys of all.
const LINKS_AT_ONCE: usize = 100_000;

/// Receives the files of an export.
pub trait ExportTarget {
    /// Adds a file. Names are unique; at most one `/` separates a folder.
    fn add_file(&mut self, name: &str, content: &[u8]) -> anyhow::Result<()>;
}

/// An export of a game.
pub struct GameExport<'a> {
    /// The game.
    pub game: &'a Game,
    /// The views, which contain everything until `until`.
    pub views: &'a Views,
    /// The log.
    pub log: &'a Wal<Claims>,
    /// The end of what is exported of the log.
    pub until: u64,
    /// The time of the request, milliseconds since 1970.
    pub requested_ms: i64,
    /// Returns true once the process is about to end.
    pub is_stopping: &'a dyn Fn() -> bool,
}

impl GameExport<'_> {
    /// Writes all files. Returns the content of `summary.json`. Memory does not depend on the size of the game, except that
    /// a survey's responses and the rollups of one day of one dimension are read at once; both have limits.
    pub fn write(&self, target: &mut dyn ExportTarget) -> anyhow::Result<Value> {
        let Game { id, name, tz, settings, .. } = self.game;
        let head = json!({ "id": id, "name": name, "tz": tz, "settings": settings });
        target.add_file("game.json", &pretty(&head))?;
        let mut lines = BTreeMap::new();
        let events = self.write_events(target)?;
        lines.insert("events", events.lines);
        lines.insert("rollups", self.write_rollups(target)?);
        for part in ExportPart::ALL {
            lines.insert(part.label(), self.write_part(part, target)?);
        }
        self.check_running()?;
        let summary = json!({
            "format": 1,
            "game": id,
            "exported_at": rfc3339(self.requested_ms),
            "lines": lines,
            "events_lost": events.lost,
            "log_begins_at": events.from,
            "complete": true,
        });
        target.add_file("summary.json", &pretty(&summary))?;
        Ok(summary)
    }

    fn write_part(&self, part: ExportPart, target: &mut dyn ExportTarget) -> anyhow::Result<u64> {
        let mut folder = LineFolder::new(part.label());
        let mut at = Some(ExportCursor::default());
        let limit = if part == ExportPart::Links { LINKS_AT_ONCE } else { ROWS_AT_ONCE };
        while let Some(from) = at {
            self.check_running()?;
            let game = self.views.liveops.game(self.game.number);
            let page = game.read().export(part, &from, limit, self.requested_ms);
            let page = page.with_context(|| format!("reading {}", part.label()))?;
            for row in &page.rows {
                folder.add(row, target)?;
            }
            at = page.next;
        }
        folder.finish(target)
    }

    fn check_running(&self) -> anyhow::Result<()> {
        ensure!(!(self.is_stopping)(), "the server is stopping");
        // Its data is being removed from everything that the export reads.
        ensure!(!self.views.deleted_games.contains(self.game.number), "the game was deleted");
        Ok(())
    }
}

fn pretty(value: &Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("a JSON value is text");
    text.push(b'\n');
    text
}

/// A folder of files of lines.
struct LineFolder {
    name: &'static str,
    files: u32,
    lines: u64,
    buffer: Vec<u8>,
}

impl LineFolder {
    fn new(name: &'static str) -> LineFolder {
        LineFolder { name, files: 0, lines: 0, buffer: Vec::new() }
    }

    fn add(&mut self, row: &Value, target: &mut dyn ExportTarget) -> anyhow::Result<()> {
        serde_json::to_writer(&mut self.buffer, row).expect("memory accepts every byte");
        self.buffer.push(b'\n');
        self.lines += 1;
        if self.buffer.len() < FILE_BYTES { Ok(()) } else { self.flush(target) }
    }

    fn flush(&mut self, target: &mut dyn ExportTarget) -> anyhow::Result<()> {
        self.files += 1;
        target.add_file(&format!("{}/{:06}.ndjson", self.name, self.files), &self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the last file. Returns the number of lines of all.
    fn finish(mut self, target: &mut dyn ExportTarget) -> anyhow::Result<u64> {
        if !self.buffer.is_empty() {
            self.flush(target)?;
        }
        Ok(self.lines)
    }
}
