//! Archives events of standard input: archive_events FOLDER [--merge] < EVENTS
//!
//! Each line is a JSON object with the columns of the archive: `ts` and `received` in milliseconds, `event`, `id`,
//! `player`, `anonymous`, `session`, `value`, `country`, `source`, `platform`, `version`, `level` and the object `props`.
//! With `--merge`, files are cut every 50,000 events and merged at the end. For tests of other programs that read Parquet.

use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Arc;

use archive::{Archive, ArchiveOptions};
use model::batch::{BatchBuilder, Endpoint, KeyClass, StoredEvent};
use serde_json::Value;

const GAME: u32 = 1;
const SEED: u64 = 42;
const FAR_FUTURE_MS: i64 = 4_000_000_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().ok_or("usage: archive_events FOLDER [--merge] < EVENTS")?);
    let merges = args.next().as_deref() == Some("--merge");
    let options = match merges {
        true => ArchiveOptions { part_rows: 50_000, ..ArchiveOptions::default() },
        false => ArchiveOptions { part_rows: usize::MAX, memory_bytes_max: usize::MAX },
    };
    let (archive, _) = Archive::open(Arc::new(wal::RealDisk), &folder, options)?;
    let mut received_ms = 0;
    for (offset, line) in std::io::stdin().lock().lines().enumerate() {
        let event: Value = serde_json::from_str(&line?)?;
        let text = |name: &str| event[name].as_str().unwrap_or_default().as_bytes();
        let props = match &event["props"] {
            Value::Null => String::new(),
            props => props.to_string(),
        };
        received_ms = event["received"].as_i64().ok_or("each event has `received`")?;
        let mut batch = BatchBuilder::new(Endpoint::Import, KeyClass::Secret, GAME, received_ms, 256);
        batch.push(&StoredEvent {
            id: model::uuid::parse(text("id")),
            ts_ms: event["ts"].as_i64().ok_or("each event has `ts`")?,
            name: text("event"),
            player: text("player"),
            session: text("session"),
            value: event["value"].as_f64(),
            dimensions: ["country", "source", "platform", "version", "level"].map(text),
            anonymous: text("anonymous"),
            props: props.as_bytes(),
            ..StoredEvent::default()
        });
        let (bytes, _) = batch.finish(&[]);
        archive.append(SEED, offset as u64..offset as u64 + 1, &bytes)?;
        if merges && offset % 10_000 == 9_999 {
            archive.maintain(received_ms)?;
        }
    }
    archive.flush(GAME)?;
    if merges {
        archive.maintain(FAR_FUTURE_MS.max(received_ms))?;
    }
    let problems = archive.verify(GAME);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}
