//! Recomputes rollups from the log, to compare them with the stored ones or to replace those. A comparison includes the
//! archive.
//!
//! The log is applied to a store of its own beside the views, and the two are compared row by row in the order of their
//! keys, so the memory that is needed does not depend on their size. The stored rows are read from a snapshot: the server
//! keeps running.
//!
//! Rows that contain events which the log no longer has, or whose bytes are damaged, cannot be derived; what the log
//! gives for them is less than what is stored. Such rows are neither called different nor replaced.

mod archived;
mod days;
mod scratch;

pub(crate) use scratch::remove_leftover;

use std::cmp::Ordering;
use std::ops::Range;

use anyhow::{Context, anyhow, bail};
use model::batch::EventBatch;
use model::deltas::Deltas;
use model::ports::counters::{RowChange, SideState, SnapshotRow, StoreSnapshot};
use model::sessions::Sessions;
use parking_lot::Mutex;
use serde_json::{Value, json};
use wal::{Damage, EntryRef};

use self::archived::ArchiveCheck;
use self::days::DerivableDays;
use self::scratch::Scratch;
use super::Admin;
use pipeline::accounting::{AccountingMetrics, IngestAccounting};
use pipeline::applier::{PlayerViews, apply_events, lower_priority};
use pipeline::ingest::BATCH;
use pipeline::open_log::advice_for_damaged_views;
use pipeline::time::rfc3339;

/// The maximum size of one read of the log.
const READ_BYTES: usize = 8 << 20;
/// The number of rows after which deltas are applied.
const ROWS_MAX: usize = 200_000;
/// The bytes of the log after which deltas are applied: few rows can hold many players.
const APPLY_BYTES: usize = 32 << 20;
/// The applied rows, or bytes of the log, after which rows are written to disk and those of old hours leave the memory.
const CHECKPOINT_ROWS: usize = 2 * ROWS_MAX;
const CHECKPOINT_BYTES: usize = 2 * APPLY_BYTES;
/// The number of rows after which a comparison looks whether the server stops.
const ROWS_PER_CHECK: u64 = 10_000;
/// The maximum number of differing rows in a report.
const NAMED_MAX: usize = 20;
/// The number of rows that are replaced at once.
const CHANGES_MAX: usize = 1_000;

/// Held while a recount runs: each needs disk space for all rollups.
static RUNNING: Mutex<()> = Mutex::new(());

/// Runs a recount on a thread of low priority. Fails if another one is running.
pub(super) fn run(recount: impl FnOnce() -> anyhow::Result<Value> + Send) -> anyhow::Result<Value> {
    let Some(_running) = RUNNING.try_lock() else {
        bail!("another `verify` or `rebuild` is running; try again later")
    };
    std::thread::scope(|scope| {
        let work = || {
            lower_priority();
            recount()
        };
        let thread = std::thread::Builder::new().name("recount".into()).spawn_scoped(scope, work);
        let result = thread.context("starting a thread")?.join();
        result.map_err(|_| anyhow!("the recount failed inside the server"))?
    })
}

/// Compares all rows at one position of the log while the server keeps running.
pub(super) fn verify(admin: &Admin<'_>, hours: Option<Range<u32>>) -> anyhow::Result<Value> {
    let hours = hours.unwrap_or(0..u32::MAX);
    // Before the position, which then contains everything that is in files of the archive.
    let archiver = (admin.archiver)()?;
    let mut archived = ArchiveCheck::new(archiver.archive());
    admin.views.wait_caught_up(admin.log.durable_until())?;
    let checked = admin.log.verify().context("checking the log")?;
    let stored = {
        let _paused = admin.views.pause_at_checkpoint().context("writing a checkpoint")?;
        admin.views.counters.snapshot().context("reading the rollups")?
    };
    let records = stored.check_records().context("reading the records")?;
    let derived = derive(admin, stored.position(), |entry, batch| archived.add_batch(entry, batch))?;
    let recomputed = derived.counters.snapshot().context("reading the recomputed rollups")?;
    let days = DerivableDays::find(&*stored, lost_until(&derived.lost)).context("reading the rollups")?;
    let mut report = Report::default();
    for_each_row(admin, &*stored, &*recomputed, &hours, |row| {
        row.stored.iter().for_each(|row| archived.add_row(row));
        report.add(&row, &days, || stored.row_name(row.key()));
        Ok(())
    })?;
    let damage = admin.log.damage();
    let quarantined = admin.views.quarantine.skipped();
    let game_name = |number| admin.catalog.game_by_number(number).map(|game| game.id.clone());
    let (archive, archive_agrees) = archived.report(&hours, &derived.lost, game_name);
    let is_complete = damage.is_empty() && quarantined.is_empty();
    let records_advice = (!records.agrees).then(|| advice_for_damaged_views(admin.folder));
    Ok(json!({
        "agrees": report.different == 0 && records.agrees && is_complete && archive_agrees,
        "position": format!("0/{}", stored.position()),
        "log": {
            "first": admin.log.first(),
            "segments": checked.segments,
            "bytes": checked.bytes,
            "damage": damage.iter().map(damage_json).collect::<Vec<_>>(),
        },
        "quarantined": quarantined.iter().map(|entry| json!({
            "offset": entry.from, "panics": entry.panics, "message": entry.message,
        })).collect::<Vec<_>>(),
        "rows": report.stored,
        "compared": report.compared,
        "not_derivable": report.not_derivable,
        "not_derivable_hours": report.not_derivable_hours(),
        "different": report.different,
        "examples": report.examples,
        "archive": archive,
        "records": {
            "count": records.count, "expected": records.expected, "agrees": records.agrees, "advice": records_advice,
        },
    }))
}

/// Replaces the stored rows that differ and can be derived. The applier is paused meanwhile; the log keeps accepting
/// events.
pub(super) fn rebuild(admin: &Admin<'_>, hours: Option<Range<u32>>) -> anyhow::Result<Value> {
    let hours = hours.unwrap_or(0..u32::MAX);
    admin.views.wait_caught_up(admin.log.durable_until())?;
    let _paused = admin.views.pause_at_checkpoint().context("writing a checkpoint")?;
    let stored = admin.views.counters.snapshot().context("reading the rollups")?;
    let derived = derive(admin, stored.position(), |_, _| {})?;
    let recomputed = derived.counters.snapshot().context("reading the recomputed rollups")?;
    let days = DerivableDays::find(&*stored, lost_until(&derived.lost)).context("reading the rollups")?;
    let (mut report, mut changes) = (Report::default(), Vec::new());
    let replace = |changes: &mut Vec<RowChange>| {
        let replaced = admin.views.counters.replace(changes).context("replacing the rollups");
        changes.clear();
        replaced
    };
    for_each_row(admin, &*stored, &*recomputed, &hours, |row| {
        if report.add(&row, &days, || stored.row_name(row.key())) == RowState::Different {
            let block = row.derived.as_ref().map(|derived| derived.block.clone());
            changes.push(RowChange { key: row.key().to_vec(), block });
        }
        if changes.len() < CHANGES_MAX { Ok(()) } else { replace(&mut changes) }
    })?;
    if !changes.is_empty() {
        replace(&mut changes)?;
    }
    Ok(json!({
        "position": format!("0/{}", stored.position()),
        "rows": report.compared,
        "replaced": report.different,
        "kept": report.not_derivable,
        "kept_hours": report.not_derivable_hours(),
        "lost": derived.lost.iter().map(|lost| json!([lost.start, lost.end])).collect::<Vec<_>>(),
    }))
}

fn damage_json(damage: &Damage) -> Value {
    json!({
        "segment": damage.segment,
        "file": format!("log/{:020}.log", damage.segment),
        "bytes": [damage.byte_from, damage.byte_to],
        "offsets": [damage.offset_from, damage.offset_to],
    })
}

/// The rows of the log up to a position.
struct Derived {
    counters: Scratch,
    /// The offsets before the position that could not be read.
    lost: Vec<Range<u64>>,
}

fn lost_until(lost: &[Range<u64>]) -> u64 {
    lost.iter().map(|lost| lost.end).max().unwrap_or(0)
}

/// Applies the log from its start up to `until` to empty rollups, exactly as the applier does. `visit` is called with each
/// batch.
fn derive(
    admin: &Admin<'_>,
    until: u64,
    mut visit: impl FnMut(&EntryRef<'_>, &EventBatch<'_>),
) -> anyhow::Result<Derived> {
    let counters = Scratch::create(admin)?;
    let (names, meter) = (AccountingMetrics::get(), IngestAccounting::default());
    let (mut sessions, mut deltas) = (Sessions::default(), Deltas::default());
    let mut at = admin.log.first();
    let mut lost = Vec::new();
    if at > 0 {
        lost.push(0..at);
    }
    let identities = admin.views.identities.before(at);
    let (mut rows, mut bytes_applied) = (0, 0);
    while at < until {
        let (from, mut bytes) = (at, 0);
        while at < until && deltas.len() < ROWS_MAX && bytes < APPLY_BYTES {
            let read = admin.log.read(at, READ_BYTES).context("reading the log")?;
            bytes += read.chunks.iter().map(|chunk| chunk.bytes()).sum::<usize>();
            for damage in read.skipped.iter().filter(|damage| damage.offset_from < until) {
                let offsets = damage.offset_from..damage.offset_to.min(until);
                identities.insert_from(&admin.views.identities, &offsets);
                lost.push(offsets);
            }
            for entry in read.chunks.iter().flat_map(|chunk| chunk.entries_from(at)) {
                let is_skipped = admin.views.quarantine.is_skipped(entry.offset);
                if entry.offset >= until || entry.kind != BATCH || is_skipped {
                    continue;
                }
                // The applier skips an invalid batch, too.
                let Ok(batch) = EventBatch::read(entry.bytes) else { continue };
                if admin.views.deleted_games.contains(batch.game) {
                    continue;
                }
                deltas.set_offset(entry.offset);
                meter.count(&batch, entry.events, entry.time_ms, &mut deltas, names);
                visit(&entry, &batch);
                if entry.events > 0 {
                    let seed = admin.views.seeds.of(batch.game);
                    let players = PlayerViews { sessions: &mut sessions, identities: &identities, seed };
                    apply_events(players, &entry, &batch, &mut deltas, |_, _| {});
                }
            }
            at = read.next.min(until);
        }
        (rows, bytes_applied) = (rows + deltas.len(), bytes_applied + bytes);
        counters.apply(from..at, &deltas).context("applying the log")?;
        deltas.clear();
        check_continues(admin)?;
        if rows >= CHECKPOINT_ROWS || bytes_applied >= CHECKPOINT_BYTES || at == until {
            if !admin.views.space.has_room_to_spare() {
                bail!(
                    "the disk has too little room to recompute the rollups beside the stored ones; free some"
                );
            }
            counters.checkpoint(SideState::default()).commit().context("writing the recomputed rollups")?;
            (rows, bytes_applied) = (0, 0);
        }
    }
    Ok(Derived { counters, lost })
}

/// Returns an error if the server stops.
fn check_continues(admin: &Admin<'_>) -> anyhow::Result<()> {
    if admin.views.is_stopping() { bail!("the server stops") } else { Ok(()) }
}

/// A row as it is stored and as it was derived; at least one of them exists.
struct RowPair {
    stored: Option<SnapshotRow>,
    derived: Option<SnapshotRow>,
}

impl RowPair {
    fn any(&self) -> &SnapshotRow {
        self.stored.as_ref().or(self.derived.as_ref()).expect("one of the two exists")
    }

    fn key(&self) -> &[u8] {
        &self.any().key
    }

    fn is_equal(&self) -> bool {
        let [stored, derived] = [&self.stored, &self.derived].map(|row| row.as_ref().map(|row| &row.block));
        stored == derived
    }
}

/// Visits the rows of both snapshots in the order of their keys.
fn for_each_row(
    admin: &Admin<'_>,
    stored: &dyn StoreSnapshot,
    derived: &dyn StoreSnapshot,
    hours: &Range<u32>,
    mut visit: impl FnMut(RowPair) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut all_stored, mut all_derived) = (stored.rows(hours), derived.rows(hours));
    let mut next_stored =
        || all_stored.next().transpose().with_context(|| advice_for_damaged_views(admin.folder));
    let (mut stored, mut derived) = (next_stored()?, all_derived.next().transpose()?);
    for number in 1_u64.. {
        if number % ROWS_PER_CHECK == 0 {
            check_continues(admin)?;
        }
        let order = match (&stored, &derived) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(stored), Some(derived)) => stored.key.cmp(&derived.key),
        };
        let mut pair = RowPair { stored: None, derived: None };
        if order.is_le() {
            pair.stored = std::mem::replace(&mut stored, next_stored()?);
        }
        if order.is_ge() {
            pair.derived = std::mem::replace(&mut derived, all_derived.next().transpose()?);
        }
        // Rows of a game that is being deleted are removed one after another.
        let game = pair.key().first_chunk().map(|game| u32::from_be_bytes(*game));
        if !game.is_some_and(|game| admin.views.deleted_games.contains(game)) {
            visit(pair)?;
        }
    }
    unreachable!("there are fewer rows than numbers")
}

/// The result of comparing one row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowState {
    Equal,
    Different,
    /// It differs, and what was derived is known to be incomplete.
    NotDerivable,
}

#[derive(Default)]
struct Report {
    stored: u64,
    compared: u64,
    different: u64,
    /// The names of the first rows that differ.
    examples: Vec<String>,
    not_derivable: u64,
    /// The first and the last hour of rows that cannot be derived.
    not_derivable_in: Option<(u32, u32)>,
}

impl Report {
    fn add(&mut self, row: &RowPair, days: &DerivableDays, name: impl FnOnce() -> String) -> RowState {
        let hour = row.any().hour;
        let state = match row.is_equal() {
            true => RowState::Equal,
            false if days.contains_hour(hour) => RowState::Different,
            false => RowState::NotDerivable,
        };
        self.stored += u64::from(row.stored.is_some());
        if state == RowState::NotDerivable {
            self.not_derivable += 1;
            let (first, last) = self.not_derivable_in.unwrap_or((hour, hour));
            self.not_derivable_in = Some((first.min(hour), last.max(hour)));
            return state;
        }
        self.compared += 1;
        if state == RowState::Different {
            self.different += 1;
            if self.examples.len() < NAMED_MAX {
                self.examples.push(name());
            }
        }
        state
    }

    /// Returns the time range of the rows that cannot be derived.
    fn not_derivable_hours(&self) -> Option<[String; 2]> {
        let time = |hour: u32| rfc3339(i64::from(hour) * 3_600_000);
        self.not_derivable_in.map(|(first, last)| [time(first), time(last.saturating_add(1))])
    }
}
