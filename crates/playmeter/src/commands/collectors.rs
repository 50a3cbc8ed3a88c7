//! `playmeter collectors`: lists, starts and stops the collectors of the running server.

use clap::{Args, Subcommand};
use collect::CollectorAction;
use serde_json::Value;
use server::admin::Command;

use crate::admin;
use crate::cli::FolderArgs;

#[derive(Args)]
pub(crate) struct CollectorsArgs {
    #[command(subcommand)]
    command: CollectorsCommand,
}

#[derive(Subcommand)]
enum CollectorsCommand {
    /// List all collectors with their state and counters
    List {
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Start a stopped collector, or retry a failed one now
    Start {
        /// Name of the collector
        name: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Flush a collector and stop it until you start it again
    Stop {
        /// Name of the collector
        name: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Stop a collector and start it again
    Restart {
        /// Name of the collector
        name: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
}

pub(crate) fn run(args: CollectorsArgs) -> anyhow::Result<()> {
    let order = |name, order| Command::OrderCollector { name, order };
    let (folder, command) = match args.command {
        CollectorsCommand::List { folder } => (folder, Command::ListCollectors),
        CollectorsCommand::Start { name, folder } => (folder, order(name, CollectorAction::Start)),
        CollectorsCommand::Stop { name, folder } => (folder, order(name, CollectorAction::Stop)),
        CollectorsCommand::Restart { name, folder } => (folder, order(name, CollectorAction::Restart)),
    };
    admin::run_and_print(&folder, command, print)
}

fn print(collector: &Value) {
    let text = |key: &str| collector[key].as_str().unwrap_or("-").to_owned();
    let counters = &collector["counters"];
    println!(
        "{}  {}  {} {}  {}  received {}  accepted {}  rejected {}",
        text("name"),
        text("state"),
        text("transport"),
        text("decoder"),
        text("address"),
        counters["received"],
        counters["accepted"],
        counters["refused"],
    );
    if let Some(error) = collector["error"].as_str() {
        println!("    last error: {error}");
    }
    if let Some(next) = collector["next_try"].as_str() {
        println!("    next retry: {next}");
    }
}
