//! Recomputes rollups from the log, to compare them with the stored ones or to replace those.

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use model::batch::EventBatch;
use model::deltas::Deltas;
use model::ports::counters::{Counters, ExportedRows};
use model::sessions::Sessions;
use serde_json::{Value, json};

use super::Admin;
use pipeline::accounting::{AccountingMetrics, IngestAccounting};
use pipeline::applier::{PlayerViews, apply_events};
use pipeline::ingest::BATCH;

/// The maximum size of one read of the log.
const READ_BYTES: usize = 8 << 20;
/// The number of rows after which deltas are applied.
const ROWS_MAX: usize = 200_000;
/// The maximum number of differing rows in a report.
const NAMED_MAX: usize = 20;

/// Compares all rows at one position of the log while the server keeps running.
pub(super) fn verify(admin: &Admin<'_>, hours: Option<Range<u32>>) -> anyhow::Result<Value> {
    let hours = hours.unwrap_or(0..u32::MAX);
    admin.views.wait_caught_up(admin.log.durable_until())?;
    let checked = admin.log.verify().context("checking the log")?;
    let (until, stored) = admin.views.counters.export(&hours).context("reading the rollups")?;
    let derived = derive(admin, until)?;
    let (_, recomputed) = derived.export(&hours).context("reading the recomputed rollups")?;
    let first = admin.log.first();
    let report = compare(&stored, &recomputed, first);
    let damage = admin.log.damage();
    let quarantined = admin.views.quarantine.skipped();
    let agrees = report.different.is_empty() && damage.is_empty() && quarantined.is_empty();
    let answer = json!({
        "agrees": agrees,
        "position": format!("0/{until}"),
        "log": { "first": first, "segments": checked.segments, "bytes": checked.bytes, "damage": damage.iter().map(|damage| json!({
            "segment": damage.segment, "bytes": [damage.byte_from, damage.byte_to], "offsets": [damage.offset_from, damage.offset_to],
        })).collect::<Vec<_>>() },
        "quarantined": quarantined.iter().map(|entry| json!({
            "offset": entry.from, "panics": entry.panics, "message": entry.message,
        })).collect::<Vec<_>>(),
        "rows": stored.len(),
        "compared": report.compared,
        "before_the_log": report.before_the_log,
        "different": report.different.len(),
        "examples": report.different.iter().take(NAMED_MAX).collect::<Vec<_>>(),
    });
    Ok(answer)
}

/// Replaces the stored rows. The applier is paused meanwhile; the log keeps accepting events.
pub(super) fn rebuild(admin: &Admin<'_>, hours: Option<Range<u32>>) -> anyhow::Result<Value> {
    let hours = hours.unwrap_or(0..u32::MAX);
    let first = admin.log.first();
    ensure!(
        first == 0 || hours.start > 0,
        "the log starts at offset {first}: older rollups cannot be recomputed; select hours that the log covers with --from and --to"
    );
    admin.views.wait_caught_up(admin.log.durable_until())?;
    let _paused = admin.views.pause_at_checkpoint().context("writing a checkpoint")?;
    let until = admin.views.counters.applied_until();
    let derived = derive(admin, until)?;
    let (_, rows) = derived.export(&hours).context("reading the recomputed rollups")?;
    if first > 0 && rows.is_empty() {
        bail!("the log has no events in these hours");
    }
    admin.views.counters.replace(&hours, &rows).context("replacing the rollups")?;
    Ok(json!({ "position": format!("0/{until}"), "rows": rows.len() }))
}

/// Applies the log from its start up to `until` to empty rollups, exactly as the applier does.
fn derive(admin: &Admin<'_>, until: u64) -> anyhow::Result<Arc<dyn Counters>> {
    let derived = (admin.scratch)();
    let (names, meter) = (AccountingMetrics::get(), IngestAccounting::default());
    let (mut sessions, mut deltas) = (Sessions::default(), Deltas::default());
    let mut at = admin.log.first();
    let identities = admin.views.identities.before(at);
    while at < until {
        let from = at;
        while at < until && deltas.len() < ROWS_MAX {
            let read = admin.log.read(at, READ_BYTES).context("reading the log")?;
            for entry in read.chunks.iter().flat_map(|chunk| chunk.entries_from(at)) {
                let is_skipped = admin.views.quarantine.is_skipped(entry.offset);
                if entry.offset >= until || entry.kind != BATCH || is_skipped {
                    continue;
                }
                let batch = EventBatch::read(entry.bytes)?;
                deltas.set_offset(entry.offset);
                meter.count(&batch, entry.events, &mut deltas, names);
                let seed = admin.views.seeds.of(batch.game);
                let people = PlayerViews { sessions: &mut sessions, identities: &identities, seed };
                apply_events(people, entry.offset, &batch, &mut deltas, |_, _| {});
            }
            at = read.next.min(until);
        }
        derived.apply(from..at, &deltas).context("applying the log")?;
        deltas.clear();
    }
    Ok(derived)
}

struct Comparison {
    compared: usize,
    /// Rows with events that were trimmed from the log.
    before_the_log: usize,
    different: Vec<String>,
}

fn compare(stored: &ExportedRows, recomputed: &ExportedRows, first: u64) -> Comparison {
    let mut report = Comparison { compared: 0, before_the_log: 0, different: Vec::new() };
    for (key, row) in stored {
        if row.since < first {
            report.before_the_log += 1;
            continue;
        }
        report.compared += 1;
        if recomputed.get(key).is_none_or(|other| other.block != row.block) {
            report.different.push(row.name.clone());
        }
    }
    let missing = recomputed.iter().filter(|(key, _)| !stored.contains_key(*key));
    report.different.extend(missing.map(|(_, row)| row.name.clone()));
    report
}
