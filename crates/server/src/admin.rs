//! Commands about the whole: games, keys, and whether the views still agree with the log.

mod recount;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use model::ports::counters::Counters;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wal::Wal;

use crate::bootstrap;
use collect::Order;
use pipeline::catalog::{BadCidr, Catalog, Cidr, Game, KeyRecord, Scopes, SettingsChange};
use pipeline::ingest::Claims;
use pipeline::time::now_s;
use pipeline::views::Views;

/// What can be asked of a data folder, whether a server runs on it or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// All games.
    ListGames,
    /// A new game.
    CreateGame {
        /// Its name in routes.
        id: String,
        /// Its name for people.
        name: String,
        /// Its time zone.
        tz: String,
    },
    /// Changes what a game decides about its events. What is left out stays as it is.
    SetGame {
        /// The game.
        game: String,
        /// The changes.
        change: SettingsChange,
    },
    /// The keys that Playtomic's SDKs have compiled into a game. What is `None` stays as it is.
    SetPlaytomic {
        /// The game.
        game: String,
        /// Names the game in requests.
        key: Option<String>,
        /// Signs requests.
        private_key: Option<String>,
        /// Clients may ask for totals.
        data_api: Option<bool>,
    },
    /// The keys that GameAnalytics' SDKs have compiled into a game. What is `None` stays as it is.
    SetGameAnalytics {
        /// The game.
        game: String,
        /// Names the game in requests.
        key: Option<String>,
        /// Signs requests.
        secret_key: Option<String>,
    },
    /// A new public key; the old one works until it is revoked.
    RotatePublicKey {
        /// The game.
        game: String,
    },
    /// The secret keys of a game, without the secrets.
    ListKeys {
        /// The game.
        game: String,
    },
    /// A new secret key.
    CreateKey {
        /// The game.
        game: String,
        /// What it is for.
        label: String,
        /// What it may do.
        scopes: Vec<String>,
        /// Not valid from this second on.
        expires_s: Option<u64>,
        /// Ranges of addresses from where it may be used; none: from everywhere.
        #[serde(default)]
        cidrs: Vec<String>,
    },
    /// A successor of a secret key.
    RotateKey {
        /// The old key's id.
        key: String,
    },
    /// Ends a key.
    RevokeKey {
        /// The key's id, or an old public key.
        key: String,
    },
    /// A new sign-in link; the old one and all signed-in browsers end.
    RotateSignIn,
    /// The collectors of the running server, and how they are doing.
    ListCollectors,
    /// Tells a collector what to do.
    OrderCollector {
        /// Its name.
        name: String,
        /// What.
        order: Order,
    },
    /// What the running server does: see [`http::monitor::Monitor::look`].
    Monitor,
    /// Derives rollups again from the log and compares.
    Verify {
        /// Hours since 1970; `None`: all.
        hours: Option<Range<u32>>,
    },
    /// Derives rollups again from the log and puts them in the place of what is there.
    Rebuild {
        /// Hours since 1970; `None`: all.
        hours: Option<Range<u32>>,
    },
}

/// What commands work on.
pub struct Admin<'a> {
    /// The data folder.
    pub folder: &'a Path,
    /// Games and keys.
    pub catalog: &'a Catalog,
    /// What is derived from the log.
    pub views: &'a Views,
    /// The log.
    pub log: &'a Wal<Claims>,
    /// Makes empty rollups in memory.
    pub scratch: fn() -> Arc<dyn Counters>,
}

/// Does what is asked, or says why not.
pub fn run(admin: &Admin<'_>, command: Command) -> anyhow::Result<Value> {
    let catalog = admin.catalog;
    Ok(match command {
        Command::ListGames => catalog.games().iter().map(|it| game(catalog, it)).collect(),
        Command::CreateGame { id, name, tz } => game(catalog, &catalog.create_game(&id, &name, &tz)?),
        Command::SetGame { game: id, change } => game(catalog, &catalog.set_game(&id, change)?),
        Command::SetPlaytomic { game: id, key, private_key, data_api } => {
            game(catalog, &catalog.set_playtomic(&id, key, private_key, data_api)?)
        }
        Command::SetGameAnalytics { game: id, key, secret_key } => {
            game(catalog, &catalog.set_gameanalytics(&id, key, secret_key)?)
        }
        Command::RotatePublicKey { game: id } => game(catalog, &catalog.rotate_public_key(&id)?),
        Command::ListKeys { game } => catalog.keys(&game)?.iter().map(|it| listed(catalog, it)).collect(),
        Command::CreateKey { game, label, scopes, expires_s, cidrs } => {
            let scopes = Scopes::parse(scopes.iter().map(String::as_str))?;
            let cidrs: Result<Vec<Cidr>, BadCidr> = cidrs.iter().map(|cidr| cidr.parse()).collect();
            let cidrs = cidrs.context("cidr")?;
            made(catalog.create_key(&game, &label, scopes, expires_s, cidrs, now_s())?)
        }
        Command::RotateKey { key } => made(catalog.rotate_key(&key, now_s())?),
        Command::RevokeKey { key } => {
            catalog.revoke_key(&key, now_s())?;
            json!({ "revoked": key })
        }
        Command::RotateSignIn => {
            let token = catalog.rotate_sign_in()?;
            let link = bootstrap::set_sign_in_token(admin.folder, &token)?;
            json!({ "sign_in_url": link.context("bootstrap.json is gone; sign in with ?token=")? })
        }
        Command::ListCollectors | Command::OrderCollector { .. } | Command::Monitor => {
            bail!("no server runs on {}", admin.folder.display())
        }
        Command::Verify { hours } => recount::verify(admin, hours)?,
        Command::Rebuild { hours } => recount::rebuild(admin, hours)?,
    })
}

/// A game with the keys that its old clients use, also where they were derived.
fn game(catalog: &Catalog, game: &Game) -> Value {
    let mut answer = json!(game);
    answer["settings"] = json!({
        "late_days": game.settings.late_days,
        "values_max": game.settings.values_max,
        "dimensions": game.settings.dimensions,
    });
    answer["playtomic"] = json!({
        "key": game.playtomic.key,
        "private_key": catalog.playtomic_private_key(game),
        "data_api": game.playtomic.data_api,
    });
    answer["gameanalytics"] = json!(catalog.gameanalytics_keys(game));
    answer
}

fn listed(catalog: &Catalog, record: &KeyRecord) -> Value {
    let mut answer = key(record);
    answer["last_used_s"] = catalog.last_used_s(&record.id).into();
    answer
}

fn made((secret, record): (String, KeyRecord)) -> Value {
    let mut answer = key(&record);
    answer["secret_key"] = secret.into();
    answer
}

fn key(record: &KeyRecord) -> Value {
    json!({
        "id": record.id,
        "label": record.label,
        "scopes": record.scopes.labels(),
        "created_s": record.created_s,
        "expires_s": record.expires_s,
        "cidrs": record.cidrs,
        "revoked_s": record.revoked_s,
    })
}
