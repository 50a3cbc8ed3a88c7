//! Entries of the log on which the applier panicked.
//!
//! A panic ends the process, and the next start applies the same entries again. What was being applied is stored before
//! the process ends. The next start applies that range entry by entry, and an entry on which it panics once more is
//! skipped from then on: logged, counted, and listed by `playmeter verify`.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use tracing::error;

use crate::catalog::{read_private, replace_private};

/// The file in the data folder. It exists after the first panic.
const NAME: &str = "panics.json";
/// An entry is skipped after this many panics.
const PANICS_MAX: u32 = 2;
/// Ranges that are stored; more are dropped, the oldest first.
const RANGES_MAX: usize = 1_000;

/// A range of the log on which the applier panicked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PanickedRange {
    /// The first offset.
    pub from: u64,
    /// The offset after the last.
    pub until: u64,
    /// The number of panics.
    pub panics: u32,
    /// The message of the last panic.
    pub message: String,
}

impl PanickedRange {
    fn is_skipped(&self) -> bool {
        self.panics >= PANICS_MAX
    }

    fn contains(&self, offset: u64) -> bool {
        (self.from..self.until).contains(&offset)
    }
}

/// The panics of the applier, on this and on earlier starts.
#[derive(Default)]
pub struct Quarantine {
    folder: Option<PathBuf>,
    ranges: RwLock<Vec<PanickedRange>>,
}

impl Quarantine {
    /// Reads the panics of earlier starts. Those before `durable_until` that did not happen again are dropped.
    pub(crate) fn open(folder: &Path, durable_until: u64) -> anyhow::Result<Quarantine> {
        let path = folder.join(NAME);
        let mut ranges: Vec<PanickedRange> = match read_private(&path)? {
            Some(text) => serde_json::from_slice(&text)
                .with_context(|| format!("{} is not valid: move it to another place", path.display()))?,
            None => Vec::new(),
        };
        ranges.retain(|range| range.is_skipped() || range.until > durable_until);
        Ok(Quarantine { folder: Some(folder.to_owned()), ranges: RwLock::new(ranges) })
    }

    /// Returns true if the entry at this offset is skipped.
    pub fn is_skipped(&self, offset: u64) -> bool {
        self.ranges.read().iter().any(|range| range.is_skipped() && range.contains(offset))
    }

    /// Returns the skipped entries.
    pub fn skipped(&self) -> Vec<PanickedRange> {
        self.ranges.read().iter().filter(|range| range.is_skipped()).cloned().collect()
    }

    /// Returns true if the applier panicked on a range that contains this offset, so that it has to be found out which
    /// entry is the cause.
    pub(crate) fn is_suspect(&self, offset: u64) -> bool {
        self.ranges.read().iter().any(|range| range.contains(offset))
    }

    /// Records a panic while `applied` was applied, and stores it for the next start.
    pub(crate) fn record(&self, applied: Range<u64>, message: String) {
        let mut ranges = self.ranges.write();
        let known =
            ranges.iter().position(|range| range.contains(applied.start) && range.until >= applied.end);
        let panics = known.map_or(0, |known| ranges.remove(known).panics) + 1;
        error!(from = applied.start, until = applied.end, panics, "applying the log panicked");
        ranges.push(PanickedRange { from: applied.start, until: applied.end, panics, message });
        let excess = ranges.len().saturating_sub(RANGES_MAX);
        ranges.drain(..excess);
        let Some(folder) = &self.folder else { return };
        let text = serde_json::to_vec_pretty(&*ranges).expect("ranges have only numbers and text");
        if let Err(failure) = replace_private(folder, NAME, &text) {
            error!("{NAME} cannot be written, so that the panic is not known to the next start: {failure:#}");
        }
    }
}

/// Returns the message of a panic.
pub(crate) fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_skipped_after_its_second_panic_and_the_range_around_it_is_not() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let open = |durable_until| Quarantine::open(folder.path(), durable_until).expect("it is readable");
        let first = open(0);
        assert!(!first.is_suspect(7));
        first.record(5..20, "out of range".into());
        let second = open(5);
        assert!(second.is_suspect(5) && second.is_suspect(19) && !second.is_suspect(20));
        assert!(!second.is_skipped(7));
        second.record(7..9, "out of range".into());
        let third = open(5);
        assert!(third.is_skipped(7) && third.is_skipped(8) && !third.is_skipped(9) && !third.is_suspect(9));
        let message = "out of range".to_owned();
        assert_eq!(third.skipped(), [PanickedRange { from: 7, until: 9, panics: 2, message }]);
        assert!(open(100).is_skipped(7), "it stays listed");
    }

    #[test]
    fn a_panic_that_did_not_happen_again_is_forgotten() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Quarantine::open(folder.path(), 0).expect("it is readable").record(5..6, "once".into());
        let later = Quarantine::open(folder.path(), 6).expect("it is readable");
        assert!(!later.is_suspect(5));
    }
}
