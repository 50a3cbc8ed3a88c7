//! `playmeter collectors`: how the collectors of the running server are doing, and what they are told.

use clap::{Args, Subcommand};
use collect::Order;
use serde_json::Value;
use server::admin::Command;

use crate::admin;
use crate::cli::FolderArgs;

/// `playmeter collectors ...`
#[derive(Args)]
pub struct CollectorsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List all collectors with their state and what they received.
    List {
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Run a collector that was stopped, or try one at once that is waiting.
    Start {
        /// Its name.
        name: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Write what a collector has taken, and end it until it is started again.
    Stop {
        /// Its name.
        name: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Stop a collector and start it.
    Restart {
        /// Its name.
        name: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
}

/// Does it and prints how the collectors are doing.
pub fn run(args: CollectorsArgs) -> anyhow::Result<()> {
    let order = |name, order| Command::OrderCollector { name, order };
    let (folder, command) = match args.action {
        Action::List { folder } => (folder, Command::ListCollectors),
        Action::Start { name, folder } => (folder, order(name, Order::Start)),
        Action::Stop { name, folder } => (folder, order(name, Order::Stop)),
        Action::Restart { name, folder } => (folder, order(name, Order::Restart)),
    };
    admin::show(&folder, command, print)
}

fn print(collector: &Value) {
    let text = |key: &str| collector[key].as_str().unwrap_or("-").to_owned();
    let counters = &collector["counters"];
    println!(
        "{}  {}  {} {}  {}  received {}  accepted {}  refused {}",
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
        println!("    last failure: {error}");
    }
    if let Some(next) = collector["next_try"].as_str() {
        println!("    next try: {next}");
    }
}
