//! `playmeter keys`: creates, lists, rotates and revokes keys.

use clap::{Args, Subcommand};
use pipeline::time::now_s;
use serde_json::Value;
use server::admin::Command;

use crate::admin;
use crate::cli::FolderArgs;

#[derive(Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// List the secret keys of a game, without the secrets
    List {
        /// Id of the game
        #[arg(long, default_value = "demo")]
        game: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Create a secret key and print it; it is shown only once
    Create {
        /// Id of the game
        #[arg(long, default_value = "demo")]
        game: String,
        /// Scopes of the key, for example `events:write,query`
        #[arg(long, value_delimiter = ',', required = true)]
        scopes: Vec<String>,
        /// Description of the key
        #[arg(long, default_value = "")]
        label: String,
        /// Days until the key expires [default: never]
        #[arg(long, value_name = "N")]
        expires_days: Option<u64>,
        /// Address range that may use the key, for example `203.0.113.0/24`; repeatable [default: all]
        #[arg(long, value_name = "RANGE", value_delimiter = ',')]
        cidr: Vec<String>,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Create a successor of a secret key, or of a public key with --public; the old key works until you revoke it
    Rotate {
        /// Id of the secret key
        key: Option<String>,
        /// Id of the game whose public key is replaced
        #[arg(long, value_name = "GAME", conflicts_with = "key", required_unless_present = "key")]
        public: Option<String>,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Revoke a secret key by its id, or an old public key
    Revoke {
        /// Id of the secret key, or the old public key
        key: String,
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Create a sign-in link, which works once and for 15 minutes; the previous link stops working
    SignIn {
        /// Sign out all browsers as well
        #[arg(long)]
        sign_out: bool,
        #[command(flatten)]
        folder: FolderArgs,
    },
}

pub(crate) fn run(args: KeysArgs) -> anyhow::Result<()> {
    let (folder, command) = admin_command(args.command)?;
    admin::run_and_print(&folder, command, print)
}

fn admin_command(command: KeysCommand) -> anyhow::Result<(FolderArgs, Command)> {
    Ok(match command {
        KeysCommand::List { game, folder } => (folder, Command::ListKeys { game }),
        KeysCommand::Create { game, scopes, label, expires_days, cidr: cidrs, folder } => {
            let expires_s = expires_days.map(|days| now_s().saturating_add(days.saturating_mul(24 * 3600)));
            (folder, Command::CreateKey { game, label, scopes, expires_s, cidrs })
        }
        KeysCommand::Rotate { key: Some(key), folder, .. } => (folder, Command::RotateKey { key }),
        KeysCommand::Rotate { public: Some(game), folder, .. } => (folder, Command::RotatePublicKey { game }),
        KeysCommand::Rotate { .. } => anyhow::bail!("name a secret key, or a game with --public"),
        KeysCommand::Revoke { key, folder } => (folder, Command::RevokeKey { key }),
        KeysCommand::SignIn { sign_out, folder } => (folder, Command::CreateSignInLink { sign_out }),
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
        let state = if key["revoked_s"].is_null() { "active" } else { "revoked" };
        let used = key["last_used"].as_str().map_or("never used".into(), |at| format!("used {at}"));
        let label = key["label"].as_str().unwrap_or_default();
        println!("{id}  {state}  {used}  {label}  {}{}", scopes.join(","), allowed_from(key));
    }
}

/// Returns the address ranges that may use the key; empty if all may.
fn allowed_from(key: &Value) -> String {
    let cidrs: Vec<&str> = key["cidrs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if cidrs.is_empty() { String::new() } else { format!("  from {}", cidrs.join(",")) }
}
