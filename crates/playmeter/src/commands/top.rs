//! `playmeter top`: what the server of a data folder is doing, in a terminal.
//!
//! It asks the running server once per interval; what is shown is the difference to the answer before.

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

/// `playmeter top ...`
#[derive(Args)]
pub struct TopArgs {
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    every: f64,
    /// Look once, print and end. Without a terminal it is always so.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    folder: FolderArgs,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "it is 0.1 to 3600 seconds".to_owned())
}

/// Shows until `q` is pressed; once, and as plain text, where there is no terminal.
pub fn run(args: TopArgs) -> anyhow::Result<()> {
    let folder = &args.folder.data;
    let first = look(folder)?;
    if args.folder.json {
        println!("{first}");
        return Ok(());
    }
    let every = Duration::from_secs_f64(args.every);
    if !args.once && std::io::stdout().is_terminal() {
        return screen::run(first, every, || look(folder));
    }
    std::thread::sleep(every);
    print(&tables(&look(folder)?, Some(&first)));
    Ok(())
}

fn look(folder: &Path) -> anyhow::Result<Value> {
    admin::run(folder, Command::Monitor)
}

fn print(tables: &[Table]) {
    for table in tables {
        println!("{}", table.text());
    }
}
