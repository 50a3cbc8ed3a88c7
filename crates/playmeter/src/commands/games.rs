//! `playmeter games`: creates, lists, renames, configures, archives, exports and deletes games.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, ensure};
use clap::{Args, Subcommand};
use pipeline::catalog::SettingsChange;
use serde_json::Value;
use server::admin::Command;

use crate::admin;
use crate::cli::FolderArgs;

#[derive(Args)]
pub(crate) struct GamesArgs {
    #[command(subcommand)]
    command: GamesCommand,
}

#[derive(Subcommand)]
enum GamesCommand {
    /// List all games with their public keys
    List {
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Create a game
    Create {
        /// Id of the game in URLs: lower-case letters, digits and `-`
        id: String,
        /// Display name [default: the id]
        #[arg(long)]
        name: Option<String>,
        /// Time zone in which its days begin, for example Europe/Paris
        #[arg(long, default_value = "UTC")]
        tz: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Change the display name of a game; its id and its keys stay
    Rename {
        /// Id of the game
        id: String,
        /// New display name
        name: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Archive a game: its data stays readable, its keys are rejected for writing
    Archive {
        /// Id of the game
        id: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Restore an archived game: it accepts writes again
    Restore {
        /// Id of the game
        id: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Delete an archived game with everything that is stored about it; this cannot be undone
    Delete {
        /// Id of the game
        id: String,
        /// Display name of the game, to confirm
        #[arg(long, value_name = "NAME")]
        confirm: String,
        /// Export the game first, into this folder, which must be empty or not exist
        #[arg(long, value_name = "FOLDER", required_unless_present = "without_export")]
        export: Option<PathBuf>,
        /// Delete the game without an export
        #[arg(long, conflicts_with = "export")]
        without_export: bool,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Export everything that is stored about a game into a new folder
    Export {
        /// Id of the game
        id: String,
        /// The folder, which must be empty or not exist
        #[arg(long, value_name = "FOLDER")]
        to: PathBuf,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Change the settings of a game; settings that are not given stay unchanged
    Set {
        /// Id of the game
        id: String,
        /// Days after which an event counts as late and is not stored: 1 to 30
        #[arg(long, value_name = "N")]
        late_days: Option<u32>,
        /// Values of a dimension with rows of their own per metric and day, 1 to 10000; the rest is counted in `(other)`
        #[arg(long, value_name = "N")]
        values_max: Option<u32>,
        /// Whether keys with the scope `export` may export the raw events
        #[arg(long)]
        export: Option<bool>,
        /// Days for which raw events are kept: up to 36500, 0 for ever, or `default` for the setting of the server
        #[arg(long, value_name = "N")]
        events_days: Option<EventsDays>,
        /// Property of `props` to declare as a dimension; repeatable, up to 16 per game
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        dimension: Vec<String>,
        /// Declared dimension to remove; existing data stays; repeatable
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        drop_dimension: Vec<String>,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Set the keys of a game that uses Playtomic's SDKs, so that only the host changes
    Playtomic {
        /// Id of the game
        id: String,
        /// Public key, or the GUID of older SDKs; empty to use only the game's own public key
        #[arg(long)]
        key: Option<String>,
        /// Private key that signs requests; empty for a generated one
        #[arg(long)]
        private_key: Option<String>,
        /// Allow clients to read totals of views, plays and metrics
        #[arg(long)]
        data_api: Option<bool>,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Show or change the websites of a game, for the trackers of Plausible and Umami
    Sites {
        /// Id of the game
        id: String,
        /// Domain (Plausible) or website id (Umami) to add; repeatable, up to 100 per game
        #[arg(long, value_name = "SITE", value_delimiter = ',')]
        add: Vec<String>,
        /// Domain or website id to remove; repeatable
        #[arg(long, value_name = "SITE", value_delimiter = ',')]
        remove: Vec<String>,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Show or set the keys of a game that uses GameAnalytics' SDKs, so that only the host changes
    Gameanalytics {
        /// Id of the game
        id: String,
        /// Game key, 32 letters and digits; empty for a generated one
        #[arg(long)]
        key: Option<String>,
        /// Secret key that signs requests, 40 letters and digits; empty for a generated one
        #[arg(long)]
        secret_key: Option<String>,
        #[command(flatten)]
        folder: FolderArgs,
    },
}

/// The days for which raw events are kept; `None` for those that the server keeps them by default.
#[derive(Clone)]
struct EventsDays(Option<u32>);

impl FromStr for EventsDays {
    type Err = String;

    fn from_str(text: &str) -> Result<EventsDays, String> {
        match text {
            "default" => Ok(EventsDays(None)),
            days => days
                .parse()
                .map(|days| EventsDays(Some(days)))
                .map_err(|_| "must be a number of days, 0 for ever, or `default`".to_owned()),
        }
    }
}

pub(crate) fn run(args: GamesArgs) -> anyhow::Result<()> {
    let mut print_one: fn(&Value) = print;
    let (folder, command) = match args.command {
        GamesCommand::List { folder } => (folder, Command::ListGames),
        GamesCommand::Create { id, name, tz, folder } => {
            let name = name.unwrap_or_else(|| id.clone());
            (folder, Command::CreateGame { id, name, tz })
        }
        GamesCommand::Rename { id, name, folder } => (folder, Command::RenameGame { game: id, name }),
        GamesCommand::Archive { id, folder } => (folder, Command::ArchiveGame { game: id }),
        GamesCommand::Restore { id, folder } => (folder, Command::RestoreGame { game: id }),
        GamesCommand::Export { id, to, folder } => {
            print_one = print_export;
            (folder, export(id, &to)?)
        }
        GamesCommand::Delete { id, confirm, export: to, without_export: _, folder } => {
            if let Some(to) = to {
                let summary = admin::run(&folder.data, export(id.clone(), &to)?)?;
                ensure!(
                    summary["events_lost"] == 0,
                    "{} events are missing in the export; nothing was deleted. To delete the game all the same, use --without-export",
                    summary["events_lost"]
                );
                ensure!(
                    summary["log_begins_at"] == 0,
                    "the export has only the events since offset {} of the log; nothing was deleted. Older raw events may be in the archive. Copy them with `playmeter export`, then use --without-export",
                    summary["log_begins_at"]
                );
            }
            print_one = print_deleted;
            (folder, Command::DeleteGame { game: id, confirm })
        }
        GamesCommand::Set {
            id,
            late_days,
            values_max,
            export,
            events_days,
            dimension,
            drop_dimension,
            folder,
        } => {
            let events_days = events_days.map(|EventsDays(days)| days);
            let (declare, drop) = (dimension, drop_dimension);
            let change = SettingsChange { late_days, values_max, export, events_days, declare, drop };
            (folder, Command::SetGame { game: id, change })
        }
        GamesCommand::Playtomic { id, key, private_key, data_api, folder } => {
            print_one = print_playtomic;
            (folder, Command::SetPlaytomic { game: id, key, private_key, data_api })
        }
        GamesCommand::Sites { id, add, remove, folder } => {
            print_one = print_sites;
            (folder, Command::SetSites { game: id, add, remove })
        }
        GamesCommand::Gameanalytics { id, key, secret_key, folder } => {
            print_one = print_gameanalytics;
            (folder, Command::SetGameAnalytics { game: id, key, secret_key })
        }
    };
    admin::run_and_print(&folder, command, print_one)
}

fn export(game: String, to: &Path) -> anyhow::Result<Command> {
    // A running server has another working folder.
    let to = std::path::absolute(to).with_context(|| format!("{}", to.display()))?;
    Ok(Command::ExportGame { game, to })
}

fn print_deleted(deleted: &Value) {
    let id = deleted["id"].as_str().unwrap_or_default();
    println!("{id} is deleted; the server removes its data from the files, now or when it starts");
}

fn print(game: &Value) {
    let text = |field: &str| game[field].as_str().unwrap_or_default().to_owned();
    println!("{:<20} {:<24} {:<18} {}", text("id"), text("name"), text("tz"), text("public_key"));
    if let Some(archived_at) = game["archived_at"].as_str() {
        println!("{:<20} archived since {archived_at}", "");
    }
    let settings = &game["settings"];
    let dimensions = settings["dimensions"].as_array().into_iter().flatten();
    let dimensions: Vec<&str> = dimensions.filter_map(|dimension| dimension["name"].as_str()).collect();
    println!(
        "{:<20} late after {} days, {} values per dimension, declared dimensions: {}",
        "",
        settings["late_days"],
        settings["values_max"],
        if dimensions.is_empty() { "none".to_owned() } else { dimensions.join(", ") },
    );
    if settings["export"] == true {
        println!("{:<20} raw events may be exported", "");
    }
    match settings["events_days"].as_u64() {
        None => {}
        Some(0) => println!("{:<20} raw events are kept for ever", ""),
        Some(days) => println!("{:<20} raw events are kept for {days} days", ""),
    }
}

fn print_export(summary: &Value) {
    for (part, lines) in summary["lines"].as_object().into_iter().flatten() {
        println!("{part:<18} {lines} lines");
    }
    if summary["events_lost"] != 0 {
        println!("{} events are damaged in the log and missing", summary["events_lost"]);
    }
}

fn print_playtomic(game: &Value) {
    let keys = &game["playtomic"];
    let key = keys["key"].as_str().filter(|key| !key.is_empty()).or(game["public_key"].as_str());
    println!("key          {}", key.unwrap_or_default());
    println!("private key  {}", keys["private_key"].as_str().unwrap_or_default());
    println!("data api     {}", if keys["data_api"] == true { "on" } else { "off" });
}

fn print_sites(game: &Value) {
    let sites = game["sites"].as_array().into_iter().flatten().filter_map(Value::as_str);
    sites.for_each(|site| println!("{site}"));
    println!("{}  (the public key, always)", game["public_key"].as_str().unwrap_or_default());
}

fn print_gameanalytics(game: &Value) {
    let keys = &game["gameanalytics"];
    println!("game key    {}", keys["key"].as_str().unwrap_or_default());
    println!("secret key  {}", keys["secret_key"].as_str().unwrap_or_default());
}
