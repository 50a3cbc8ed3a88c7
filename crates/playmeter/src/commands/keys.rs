//! `playmeter keys`: make, list, rotate and revoke keys.

use clap::{Args, Subcommand};
use pipeline::time::{now_s, rfc3339};
use serde_json::Value;
use server::admin::Command;

use crate::admin;
use crate::cli::FolderArgs;

/// `playmeter keys ...`
#[derive(Args)]
pub struct KeysArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List a game's secret keys, without the secrets.
    List {
        /// The game.
        #[arg(long, default_value = "demo")]
        game: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Make a secret key; it is shown once.
    Create {
        /// The game.
        #[arg(long, default_value = "demo")]
        game: String,
        /// What the key may do, for instance `events:write,query`.
        #[arg(long, value_delimiter = ',', required = true)]
        scopes: Vec<String>,
        /// What it is for.
        #[arg(long, default_value = "")]
        label: String,
        /// It ends after so many days.
        #[arg(long, value_name = "N")]
        expires_days: Option<u64>,
        /// It works only from these addresses, for instance `203.0.113.0/24`. May be given several times.
        #[arg(long, value_name = "RANGE", value_delimiter = ',')]
        cidr: Vec<String>,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Make a successor of a secret key, or a new public key with --public. The old one works until it is revoked.
    Rotate {
        /// The secret key's id.
        key: Option<String>,
        /// The game whose public key is replaced.
        #[arg(long, value_name = "GAME", conflicts_with = "key", required_unless_present = "key")]
        public: Option<String>,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// End a secret key by its id, or an old public key.
    Revoke {
        /// The secret key's id, or the old public key.
        key: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Make a new sign-in link; the old one and every signed-in browser end.
    SignIn {
        #[command(flatten)]
        folder: FolderArgs,
    },
}

/// Does it and prints what came of it.
pub fn run(args: KeysArgs) -> anyhow::Result<()> {
    let (folder, command) = command(args.action)?;
    admin::show(&folder, command, print)
}

fn command(action: Action) -> anyhow::Result<(FolderArgs, Command)> {
    Ok(match action {
        Action::List { game, folder } => (folder, Command::ListKeys { game }),
        Action::Create { game, scopes, label, expires_days, cidr: cidrs, folder } => {
            let expires_s = expires_days.map(|days| now_s().saturating_add(days.saturating_mul(24 * 3600)));
            (folder, Command::CreateKey { game, label, scopes, expires_s, cidrs })
        }
        Action::Rotate { key: Some(key), folder, .. } => (folder, Command::RotateKey { key }),
        Action::Rotate { public: Some(game), folder, .. } => (folder, Command::RotatePublicKey { game }),
        Action::Rotate { .. } => anyhow::bail!("name a key, or a game with --public"),
        Action::Revoke { key, folder } => (folder, Command::RevokeKey { key }),
        Action::SignIn { folder } => (folder, Command::RotateSignIn),
    })
}

fn print(key: &Value) {
    for field in ["secret_key", "public_key", "sign_in_url", "revoked"] {
        if let Some(text) = key[field].as_str() {
            println!("{field}: {text}");
        }
    }
    if let Some(id) = key["id"].as_str().filter(|_| key["scopes"].is_array()) {
        let scopes: Vec<&str> =
            key["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let state = if key["revoked_s"].is_null() { "live" } else { "revoked" };
        let used = key["last_used_s"]
            .as_u64()
            .map_or("never used".into(), |last_s| format!("used {}", rfc3339(last_s as i64 * 1000)));
        let label = key["label"].as_str().unwrap_or_default();
        println!("{id}  {state}  {used}  {label}  {}{}", scopes.join(","), from(key));
    }
}

/// From where the key may be used, if not from everywhere.
fn from(key: &Value) -> String {
    let cidrs: Vec<&str> = key["cidrs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if cidrs.is_empty() { String::new() } else { format!("  from {}", cidrs.join(",")) }
}
