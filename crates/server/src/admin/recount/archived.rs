//! Compares the archive with the log and the rollups: the number of events of each game and UTC day.
//!
//! Every event of the log is in a file of the archive, or comes after what the game has in files. So for each day, the
//! rollups have as many events as the files and that rest of the log together; and the files as many as the log before it,
//! as far back as the log goes. Days are left out from which events were deleted because of their age, that the log had
//! partly lost before there was an archive, or that lie partly outside of the range that is verified.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use archive::{Archive, GameInventory};
use model::batch::EventBatch;
use model::ports::counters::SnapshotRow;
use model::rollup::HourBlock;
use model::series::{Cut, EVENTS};
use serde_json::{Value, json};
use wal::EntryRef;

use super::NAMED_MAX;

const DAY_MS: i64 = 86_400_000;
const HOURS: i64 = 24;

/// The number of events of one game and day in each place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DayCounts {
    /// In files of the archive.
    files: u64,
    /// In the log, before what is not in files yet.
    log: u64,
    /// In the log, and not in files yet.
    unarchived: u64,
    /// In rollups.
    rollups: i64,
    /// The lowest offset of the log from which a row of the rollups has counted.
    since: Option<u64>,
}

/// Counts events by game and day.
#[derive(Default)]
pub(super) struct ArchiveCheck {
    /// Events of all games before this position of the log are in files.
    position: u64,
    games: BTreeMap<u32, GameInventory>,
    days: BTreeMap<(u32, i32), DayCounts>,
    problems: Vec<String>,
}

impl ArchiveCheck {
    /// Reads every byte of the archive. Must be created before the position up to which the log is counted is chosen.
    pub(super) fn new(archive: &Archive) -> ArchiveCheck {
        let (position, games) = archive.inventory();
        let problems = games.keys().flat_map(|game| archive.verify(*game)).collect();
        let mut check = ArchiveCheck { position, games, problems, ..ArchiveCheck::default() };
        for (number, game) in &check.games {
            for file in &game.files {
                check.days.entry((*number, file.day)).or_default().files += file.events;
            }
        }
        check
    }

    /// Counts the events of an entry of the log.
    pub(super) fn add_batch(&mut self, entry: &EntryRef<'_>, batch: &EventBatch<'_>) {
        let until = self.games.get(&batch.game).map_or(0, |game| game.until).max(self.position);
        for event in batch.events().filter(|event| event.samples.is_none()) {
            let day = event.ts_ms.div_euclid(DAY_MS) as i32;
            let counts = self.days.entry((batch.game, day)).or_default();
            if entry.offset < until {
                counts.log += 1;
            } else {
                counts.unarchived += 1;
            }
        }
    }

    /// Counts the events of a row of the rollups, if it is a total of all events.
    pub(super) fn add_row(&mut self, row: &SnapshotRow) {
        // The key of a row; see docs/data_files.md.
        let Some((game, rest)) = row.key.split_first_chunk() else { return };
        let total = [&[Cut::Total.code(), EVENTS.len() as u8], EVENTS.as_bytes()].concat();
        let Some(block) = rest.strip_prefix(&*total).and_then(|_| HourBlock::decode(&row.block).ok()) else {
            return;
        };
        let day = (u32::from_be_bytes(*game), (i64::from(row.hour) / HOURS) as i32);
        let counts = self.days.entry(day).or_default();
        counts.rollups += block.total().count;
        counts.since = Some(counts.since.map_or(row.since, |since| since.min(row.since)));
    }

    /// Compares the counts of the days that lie within `hours`. `lost` are the offsets that the log does not have. Returns
    /// the report and whether everything agrees.
    pub(super) fn report(
        &self,
        hours: &Range<u32>,
        lost: &[Range<u64>],
        name: impl Fn(u32) -> Option<String>,
    ) -> (Value, bool) {
        let log_first = lost.iter().filter(|lost| lost.start == 0).map(|lost| lost.end).max().unwrap_or(0);
        let is_damaged = lost.iter().any(|lost| lost.start > 0);
        let files = || self.games.values().flat_map(|game| &game.files);
        let archive_first = files().map(|file| file.log_start).min().unwrap_or(u64::MAX);
        // Of these days, a part was archived from entries that the log no longer has.
        let partial: BTreeSet<(u32, i32)> = self
            .games
            .iter()
            .flat_map(|(number, game)| game.files.iter().map(move |file| (*number, file)))
            .filter(|(_, file)| file.log_start < log_first)
            .map(|(number, file)| (number, file.day))
            .collect();
        let (mut compared, mut different) = (0, Vec::new());
        for ((game, day), counts) in &self.days {
            let Some(name) = name(*game) else { continue };
            let day_hours = i64::from(*day) * HOURS..i64::from(*day + 1) * HOURS;
            let is_verified =
                i64::from(hours.start) <= day_hours.start && day_hours.end <= i64::from(hours.end);
            let deleted_before = self.games.get(game).and_then(|game| game.deleted_before);
            if !is_verified || deleted_before.is_some_and(|first| *day < first) {
                continue;
            }
            let has_log = !partial.contains(&(*game, *day));
            let is_archived = |since: u64| since >= archive_first || since >= log_first;
            let has_rollups = counts.since.is_none_or(is_archived);
            if !has_log && !has_rollups {
                continue;
            }
            compared += 1;
            let all = (counts.files + counts.unarchived) as i64;
            // A damaged log has less than was in it. Rollups that were lost for good have less than the archive, and where
            // the log is gone, too, nothing says whether that was accepted.
            let log_differs =
                has_log && if is_damaged { counts.files < counts.log } else { counts.files != counts.log };
            let rollups_differ = has_rollups
                && !is_damaged
                && if has_log { all != counts.rollups } else { all < counts.rollups };
            if log_differs || rollups_differ {
                different.push(json!({
                    "game": name,
                    "day": day_text(*day),
                    "archive": counts.files,
                    "not_in_files_yet": counts.unarchived,
                    "log": has_log.then_some(counts.log),
                    "rollups": has_rollups.then_some(counts.rollups),
                }));
            }
        }
        let agrees = self.problems.is_empty() && different.is_empty();
        let report = json!({
            "files": files().count(),
            "events": files().map(|file| file.events).sum::<u64>(),
            "days": compared,
            "different": different.len(),
            "examples": different.iter().take(NAMED_MAX).collect::<Vec<_>>(),
            "problems": self.problems,
        });
        (report, agrees)
    }
}

fn day_text(day: i32) -> String {
    let text = pipeline::time::rfc3339(i64::from(day) * DAY_MS);
    text.split_once('T').map_or_else(|| text.clone(), |(date, _)| date.to_owned())
}
