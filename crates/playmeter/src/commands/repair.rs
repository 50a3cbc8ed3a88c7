//! `playmeter repair`: has a data folder start again after a part of its log or of its views was lost for good.

use clap::Args;
use pipeline::open_log::{LogRepair, open_log, repair_log};
use serde_json::json;

use crate::admin::{FolderLock, check_is_data_folder};
use crate::cli::FolderArgs;
use crate::{engine, private_folder};

/// Whether the loss is accepted.
#[derive(Args)]
pub(crate) struct RepairArgs {
    /// Continue without what is lost; without this flag the command only reports what is wrong
    #[arg(long)]
    accept_loss: bool,
    #[command(flatten)]
    folder: FolderArgs,
}

/// Repairs the folder, on which no server may run, and prints what is lost.
pub(crate) fn run(args: RepairArgs) -> anyhow::Result<()> {
    let folder = &args.folder.data;
    check_is_data_folder(folder)?;
    private_folder::restrict_new_files();
    let _lock = FolderLock::acquire(folder)?;
    let repaired = if args.accept_loss {
        repair_log(folder, &*engine::open_or_create(folder)?.counters)?
    } else {
        let views_until = engine::open(folder)?.counters.durable_until();
        open_log(folder, wal::Options::default(), views_until)?;
        LogRepair::Nothing
    };
    if args.folder.json {
        println!("{}", as_json(&repaired));
    } else {
        println!("{}", as_text(&repaired));
    }
    Ok(())
}

fn as_json(repaired: &LogRepair) -> serde_json::Value {
    match repaired {
        LogRepair::Nothing => json!({ "lost": null }),
        LogRepair::SkippedEnd { from, until, views_until } => {
            json!({ "lost": "log", "offsets": [from, until], "views_until": views_until })
        }
        LogRepair::SkippedStart { from, until } => json!({ "lost": "views", "offsets": [from, until] }),
    }
}

fn as_text(repaired: &LogRepair) -> String {
    match repaired {
        LogRepair::Nothing => "log and views fit together; nothing was changed".to_owned(),
        LogRepair::SkippedEnd { from, until, views_until } => format!(
            "the log continues at offset {until}. Offsets {from} to {until} are lost and listed by `playmeter verify`; the \
             views keep what they contain of those before offset {views_until}"
        ),
        LogRepair::SkippedStart { from, until } => format!(
            "the views continue at offset {until}, where the log starts. What the log contained from offset {from} on is lost"
        ),
    }
}
