//! `playmeter top`: live statistics of the running server in a terminal.
//!
//! It requests a snapshot once per interval and shows the difference to the previous one.

mod screen;
mod tables;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use server::admin::Command;

use crate::admin;
use crate::cli::FolderArgs;
use tables::{Table, tables};

#[derive(Args)]
pub(crate) struct TopArgs {
    /// Seconds between two updates: 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    every: f64,
    /// Print one update and exit; the default if standard output is not a terminal
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    folder: FolderArgs,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "must be between 0.1 and 3600 seconds".to_owned())
}

/// Shows updates until `q` is pressed. Without a terminal, prints one update as plain text.
pub(crate) fn run(args: TopArgs) -> anyhow::Result<()> {
    let folder = &args.folder.data;
    let first = snapshot(folder)?;
    if args.folder.json {
        println!("{first}");
        return Ok(());
    }
    let every = Duration::from_secs_f64(args.every);
    if !args.once && std::io::stdout().is_terminal() {
        return screen::run(first, every, || snapshot(folder));
    }
    std::thread::sleep(every);
    print(&tables(&snapshot(folder)?, Some(&first)));
    Ok(())
}

fn snapshot(folder: &Path) -> anyhow::Result<Value> {
    admin::run(folder, Command::Monitor)
}

fn print(tables: &[Table]) {
    for table in tables {
        println!("{}", table.text());
    }
}
