//! `playmeter games`: make and list games.

use clap::{Args, Subcommand};
use serde_json::Value;
use server::admin::Command;

use crate::admin;
use crate::cli::FolderArgs;

/// `playmeter games ...`
#[derive(Args)]
pub struct GamesArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List all games with their public keys.
    List {
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Make a game.
    Create {
        /// Its name in routes: lower-case letters, digits and `-`.
        id: String,
        /// Its name for people; the id if left out.
        #[arg(long)]
        name: Option<String>,
        /// Time zone of its days, for instance Europe/Paris.
        #[arg(long, default_value = "UTC")]
        tz: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
}

/// Does it and prints what came of it.
pub fn run(args: GamesArgs) -> anyhow::Result<()> {
    let (folder, command) = match args.action {
        Action::List { folder } => (folder, Command::ListGames),
        Action::Create { id, name, tz, folder } => {
            let name = name.unwrap_or_else(|| id.clone());
            (folder, Command::CreateGame { id, name, tz })
        }
    };
    let done = admin::run(&folder.data, command)?;
    if folder.json {
        println!("{done}");
        return Ok(());
    }
    match &done {
        Value::Array(games) => games.iter().for_each(print),
        game => print(game),
    }
    Ok(())
}

fn print(game: &Value) {
    let text = |field: &str| game[field].as_str().unwrap_or_default().to_owned();
    println!("{:<20} {:<24} {:<18} {}", text("id"), text("name"), text("tz"), text("public_key"));
}
