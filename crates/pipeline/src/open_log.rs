//! Opening the log beside views that already contain a part of it.
//!
//! The views continue where the log is. If one of the two is missing or of another time, a start would lose
//! acknowledged events without a word, or assign offsets again that the views already contain. So it is refused before
//! anything is changed, with the ways out; `playmeter repair --accept-loss` is the last of them.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use model::deltas::Deltas;
use model::ports::counters::{Counters, SideState};
use wal::{OpenedWal, Options, RealDisk, Wal, WalError, oldest_offset, skip_lost_end};

use crate::ingest::Claims;

/// The folder of the log in a data folder.
const LOG: &str = "log";

/// Opens the log of a data folder, whose views contain everything before `views_until`.
///
/// # Errors
/// If the log does not contain the offset at which the views continue. Nothing was changed then.
pub fn open_log(data: &Path, options: Options, views_until: u64) -> anyhow::Result<OpenedWal> {
    let options = Options { continues_at: Some(views_until), ..options };
    let opened = Wal::<Claims>::open(Arc::new(RealDisk), &data.join(LOG), options);
    opened.map_err(|error| explain(data, error)).context("opening the log")
}

/// Checks that the views of a data folder without views can be derived from its log. Called before they are created.
pub fn check_without_views(data: &Path) -> anyhow::Result<()> {
    let first = oldest_offset(&RealDisk, &data.join(LOG)).context("opening the log")?.unwrap_or(0);
    if first > 0 {
        let (path, next, needed) = (data.join(LOG), first, 0);
        return Err(explain(data, WalError::Mismatch { path, first, next, needed }));
    }
    Ok(())
}

/// Returns what can be done about views that cannot be read.
pub fn advice_for_damaged_views(data: &Path) -> String {
    let views = data.join("views");
    match oldest_offset(&RealDisk, &data.join(LOG)) {
        Ok(Some(0)) => format!(
            "The log has its first segment: move {} to another place and start again, and everything that can be read in the \
             log is derived from it. Keep the moved folder until `playmeter verify` succeeds",
            views.display()
        ),
        Ok(Some(first)) => format!(
            "Restore {0} from a backup that is not older than offset {first} of the log. If there is none, move {0} to \
             another place and run `{1}`: rollups and live-ops state from before offset {first} are lost",
            views.display(),
            repair(data)
        ),
        _ => format!("Restore {} and {} from a backup", views.display(), data.join(LOG).display()),
    }
}

/// Checks that a data folder without a catalog contains nothing that belongs to a lost one.
pub fn check_without_catalog(data: &Path, log_end: u64, views_until: u64) -> anyhow::Result<()> {
    if log_end == 0 && views_until == 0 {
        return Ok(());
    }
    bail!(
        "{0} is missing, but {1} contains data that was written with its keys and its secret: events could no longer be \
         recognised as duplicates, and players would be counted again. Restore {0} from a backup. To start anew, move \
         `log`, `views` and `ids` to another place",
        data.join("catalog.json").display(),
        data.display()
    )
}

/// The result of [`repair_log`].
#[derive(Debug, PartialEq, Eq)]
pub enum LogRepair {
    /// Log and views fit together.
    Nothing,
    /// The end of the log is lost; the log continues after a gap.
    SkippedEnd {
        /// The first lost offset.
        from: u64,
        /// The next offset.
        until: u64,
        /// Before this offset, lost events are contained in the views all the same.
        views_until: u64,
    },
    /// What the views need next is lost; they continue where the log starts.
    SkippedStart {
        /// The first lost offset.
        from: u64,
        /// The first offset that the log has.
        until: u64,
    },
}

/// Has log and views continue after a part of one of them was lost for good.
pub fn repair_log(data: &Path, counters: &dyn Counters) -> anyhow::Result<LogRepair> {
    let (path, views_until) = (data.join(LOG), counters.durable_until());
    let options = Options { continues_at: Some(views_until), ..Options::default() };
    match Wal::<Claims>::open(Arc::new(RealDisk), &path, options.clone()) {
        Ok(_) => Ok(LogRepair::Nothing),
        Err(WalError::Mismatch { first, .. }) if first > views_until => {
            counters.apply(views_until..first, &Deltas::default())?;
            counters.checkpoint(SideState::default()).commit().context("writing a checkpoint")?;
            Ok(LogRepair::SkippedStart { from: views_until, until: first })
        }
        Err(WalError::Mismatch { .. } | WalError::Lost { .. } | WalError::Unreadable { .. }) => {
            let lost = skip_lost_end(Arc::new(RealDisk), &path, &options, views_until)?;
            Ok(LogRepair::SkippedEnd { from: lost.start, until: lost.end, views_until })
        }
        Err(error) => Err(error).context("opening the log"),
    }
}

/// Adds to an error of the log what can be done about it.
fn explain(data: &Path, error: WalError) -> anyhow::Error {
    let (log, views) = (data.join(LOG), data.join("views"));
    let (log, views, repair) = (log.display(), views.display(), repair(data));
    match &error {
        WalError::Mismatch { first, needed, .. } if first > needed => anyhow!(
            "{error}: {views} is missing, or older than the log. Restore {views} from a backup that is not older than \
             offset {first} of the log. If there is none, run `{repair}`: rollups and live-ops state from before offset \
             {first} are then lost"
        ),
        WalError::Mismatch { needed, .. } => anyhow!(
            "{error}: files of {log} are missing, or older than {views}. Put them back. If they are lost, run `{repair}`: \
             the views stay as they are, and what was acknowledged after offset {needed} is lost"
        ),
        WalError::Lost { first, .. } => anyhow!(
            "{error}. Put it back. If it is lost, run `{repair}`: the views stay as they are, and what was acknowledged after \
             offset {first} is lost, except for what they contain"
        ),
        WalError::Unreadable { .. } => anyhow!(
            "{error}. Restore the file from a backup. If there is none, run `{repair}`: the views stay as they are, and \
             what they did not contain yet is lost"
        ),
        _ => error.into(),
    }
}

/// The command that accepts a loss.
fn repair(data: &Path) -> String {
    format!("playmeter repair --accept-loss --data {}", data.display())
}
