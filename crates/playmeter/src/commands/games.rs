//! `playmeter games`: make, list and set up games.

use clap::{Args, Subcommand};
use pipeline::catalog::SettingsChange;
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
    /// Change what a game decides about its events. What is left out stays as it is.
    Set {
        /// The game.
        id: String,
        /// Events older than so many days are late: 1 to 30.
        #[arg(long, value_name = "N")]
        late_days: Option<u32>,
        /// Values of a dimension that are kept per metric and day; the rest is counted in `(other)`. 1 to 10000.
        #[arg(long, value_name = "N")]
        values_max: Option<u32>,
        /// A property that becomes a dimension, by its key in `props`. May be given several times, up to 16 in all.
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        dimension: Vec<String>,
        /// A dimension that is none any more. What was counted stays.
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        drop_dimension: Vec<String>,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Take the keys that are compiled into a game with Playtomic's SDKs, so that only its host has to change.
    Playtomic {
        /// The game.
        id: String,
        /// The public key, or the GUID of older SDKs. Empty: none but the game's own public key.
        #[arg(long)]
        key: Option<String>,
        /// The private key, which signs requests. Empty: one that is derived for the game.
        #[arg(long)]
        private_key: Option<String>,
        /// Whether clients may ask for totals of views, plays and metrics.
        #[arg(long)]
        data_api: Option<bool>,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Show or take the keys of a game with GameAnalytics' SDKs, so that only its host has to change.
    Gameanalytics {
        /// The game.
        id: String,
        /// The game key, 32 letters and digits. Empty: one that is derived for the game.
        #[arg(long)]
        key: Option<String>,
        /// The secret key, 40 letters and digits, which signs requests. Empty: one that is derived for the game.
        #[arg(long)]
        secret_key: Option<String>,
        #[command(flatten)]
        folder: FolderArgs,
    },
}

/// Does it and prints what came of it.
pub fn run(args: GamesArgs) -> anyhow::Result<()> {
    let mut print_one: fn(&Value) = print;
    let (folder, command) = match args.action {
        Action::List { folder } => (folder, Command::ListGames),
        Action::Create { id, name, tz, folder } => {
            let name = name.unwrap_or_else(|| id.clone());
            (folder, Command::CreateGame { id, name, tz })
        }
        Action::Set { id, late_days, values_max, dimension, drop_dimension, folder } => {
            let change = SettingsChange { late_days, values_max, declare: dimension, drop: drop_dimension };
            (folder, Command::SetGame { game: id, change })
        }
        Action::Playtomic { id, key, private_key, data_api, folder } => {
            print_one = print_playtomic;
            (folder, Command::SetPlaytomic { game: id, key, private_key, data_api })
        }
        Action::Gameanalytics { id, key, secret_key, folder } => {
            print_one = print_gameanalytics;
            (folder, Command::SetGameAnalytics { game: id, key, secret_key })
        }
    };
    admin::show(&folder, command, print_one)
}

fn print(game: &Value) {
    let text = |field: &str| game[field].as_str().unwrap_or_default().to_owned();
    println!("{:<20} {:<24} {:<18} {}", text("id"), text("name"), text("tz"), text("public_key"));
    let settings = &game["settings"];
    let dimensions = settings["dimensions"].as_array().into_iter().flatten();
    let dimensions: Vec<&str> = dimensions.filter_map(|dimension| dimension["name"].as_str()).collect();
    println!(
        "{:<20} late after {} days, {} values of a dimension, dimensions: {}",
        "",
        settings["late_days"],
        settings["values_max"],
        if dimensions.is_empty() { "the built-in ones".to_owned() } else { dimensions.join(", ") },
    );
}

fn print_playtomic(game: &Value) {
    let keys = &game["playtomic"];
    let key = keys["key"].as_str().filter(|key| !key.is_empty()).or(game["public_key"].as_str());
    println!("key          {}", key.unwrap_or_default());
    println!("private key  {}", keys["private_key"].as_str().unwrap_or_default());
    println!("data api     {}", if keys["data_api"] == true { "on" } else { "off" });
}

fn print_gameanalytics(game: &Value) {
    let keys = &game["gameanalytics"];
    println!("game key    {}", keys["key"].as_str().unwrap_or_default());
    println!("secret key  {}", keys["secret_key"].as_str().unwrap_or_default());
}
