//! Administration of a data folder: games, keys, backups, and verification of the views against the log.

mod backup;
mod export;
mod recount;

pub(crate) use self::backup::take as take_backup;
pub use self::backup::{BackupContext, BackupRequest};

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use pipeline::engine::ScratchCounters;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wal::Wal;

use crate::bootstrap;
use collect::CollectorAction;
use pipeline::archiver::Archiver;
use pipeline::catalog::{Catalog, Cidr, Game, InvalidCidr, KeyRecord, Scopes, SettingsChange};
use pipeline::deleted_games;
use pipeline::ingest::Claims;
use pipeline::time::{now_s, rfc3339};
use pipeline::views::Views;

/// A command on a data folder, whether a server runs on it or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Lists all games.
    ListGames,
    /// Creates a game.
    CreateGame {
        /// The id, as used in routes.
        id: String,
        /// The display name.
        name: String,
        /// The time zone.
        tz: String,
    },
    /// Changes the display name of a game.
    RenameGame {
        /// The game.
        game: String,
        /// The new name.
        name: String,
    },
    /// Lets a game accept no writes; its data stays readable.
    ArchiveGame {
        /// The game.
        game: String,
    },
    /// Lets an archived game accept writes again.
    RestoreGame {
        /// The game.
        game: String,
    },
    /// Deletes an archived game.
    DeleteGame {
        /// The game.
        game: String,
        /// The display name of the game.
        confirm: String,
    },
    /// Writes everything that is stored about a game into a new folder.
    ExportGame {
        /// The game.
        game: String,
        /// The folder: an absolute path.
        to: PathBuf,
    },
    /// Changes a game's ingest settings; those left out stay.
    SetGame {
        /// The game.
        game: String,
        /// The changes.
        change: SettingsChange,
    },
    /// Sets the keys that Playtomic's SDKs have compiled into a game; `None` keeps a value.
    SetPlaytomic {
        /// The game.
        game: String,
        /// The key that names the game in requests.
        key: Option<String>,
        /// The key that signs requests.
        private_key: Option<String>,
        /// Whether clients may query totals.
        data_api: Option<bool>,
    },
    /// Sets the keys that GameAnalytics' SDKs have compiled into a game; `None` keeps a value.
    SetGameAnalytics {
        /// The game.
        game: String,
        /// The key that names the game in requests.
        key: Option<String>,
        /// The key that signs requests.
        secret_key: Option<String>,
    },
    /// Adds and removes the domains and website ids by which trackers of web analytics name a game.
    SetSites {
        /// The game.
        game: String,
        /// The sites to add.
        add: Vec<String>,
        /// The sites to remove.
        remove: Vec<String>,
    },
    /// Creates a new public key; the old one is valid until it is revoked.
    RotatePublicKey {
        /// The game.
        game: String,
    },
    /// Lists the secret keys of a game, without the secrets.
    ListKeys {
        /// The game.
        game: String,
    },
    /// Creates a secret key.
    CreateKey {
        /// The game.
        game: String,
        /// A description for people.
        label: String,
        /// The scopes.
        scopes: Vec<String>,
        /// The time of expiry, in seconds since 1970.
        expires_s: Option<u64>,
        /// Address ranges that may use it; if empty, every address may.
        #[serde(default)]
        cidrs: Vec<String>,
    },
    /// Creates a successor of a secret key.
    RotateKey {
        /// The id of the old key.
        key: String,
    },
    /// Revokes a key.
    RevokeKey {
        /// The id of a key, or an old public key.
        key: String,
    },
    /// Creates a new sign-in link, which works once and for 15 minutes; the previous one becomes invalid.
    CreateSignInLink {
        /// Ends all browser sessions as well.
        sign_out: bool,
    },
    /// Lists the collectors of the running server with their state.
    ListCollectors,
    /// Starts, stops or restarts a collector.
    OrderCollector {
        /// The name of the collector.
        name: String,
        /// The action.
        order: CollectorAction,
    },
    /// Reports the running server's load; see [`http::monitor`].
    Monitor,
    /// Takes a backup.
    Backup(BackupRequest),
    /// Recomputes rollups from the log and compares them with the stored ones, and the counts of the archive with both.
    Verify {
        /// Hours since 1970; `None`: all.
        hours: Option<Range<u32>>,
    },
    /// Recomputes rollups from the log and replaces the stored ones that differ and can be derived.
    Rebuild {
        /// Hours since 1970; `None`: all.
        hours: Option<Range<u32>>,
    },
}

/// The parts of a data folder that commands use.
pub struct Admin<'a> {
    /// The data folder.
    pub folder: &'a Path,
    /// The catalog of games and keys.
    pub catalog: &'a Catalog,
    /// The views.
    pub views: &'a Arc<Views>,
    /// The log.
    pub log: &'a Wal<Claims>,
    /// Creates empty rollups.
    pub scratch: ScratchCounters,
    /// Returns the archive.
    pub archiver: Box<dyn Fn() -> anyhow::Result<Arc<Archiver>> + Sync + 'a>,
    /// What backups need.
    pub backups: BackupContext<'a>,
}

/// Removes what commands have left in the data folder that were killed.
pub fn remove_leftovers(folder: &Path) -> anyhow::Result<()> {
    recount::remove_leftover(folder)?;
    self::backup::remove_leftover(folder)
}

/// Executes a command and returns its result.
pub fn run(admin: &Admin<'_>, command: Command) -> anyhow::Result<Value> {
    let catalog = admin.catalog;
    Ok(match command {
        Command::ListGames => catalog.games().iter().map(|it| game(catalog, it)).collect(),
        Command::CreateGame { id, name, tz } => game(catalog, &catalog.create_game(&id, &name, &tz)?),
        Command::RenameGame { game: id, name } => game(catalog, &catalog.rename_game(&id, &name)?),
        Command::ArchiveGame { game: id } => game(catalog, &catalog.archive_game(&id, now_s())?),
        Command::RestoreGame { game: id } => game(catalog, &catalog.restore_game(&id)?),
        Command::DeleteGame { game, confirm } => {
            let deleted = deleted_games::delete_game(catalog, admin.views, &game, &confirm)?;
            json!({ "id": deleted.id, "state": "deleting" })
        }
        Command::ExportGame { game, to } => export::run(admin, &game, &to)?,
        Command::SetGame { game: id, change } => game(catalog, &catalog.set_game(&id, change)?),
        Command::SetPlaytomic { game: id, key, private_key, data_api } => {
            game(catalog, &catalog.set_playtomic(&id, key, private_key, data_api)?)
        }
        Command::SetGameAnalytics { game: id, key, secret_key } => {
            game(catalog, &catalog.set_gameanalytics(&id, key, secret_key)?)
        }
        Command::SetSites { game: id, add, remove } => game(catalog, &catalog.set_sites(&id, &add, &remove)?),
        Command::RotatePublicKey { game: id } => game(catalog, &catalog.rotate_public_key(&id)?),
        Command::ListKeys { game } => {
            catalog.keys(&game)?.iter().map(|it| key_with_last_use(catalog, it)).collect()
        }
        Command::CreateKey { game, label, scopes, expires_s, cidrs } => {
            let scopes = Scopes::parse(scopes.iter().map(String::as_str))?;
            let cidrs: Result<Vec<Cidr>, InvalidCidr> = cidrs.iter().map(|cidr| cidr.parse()).collect();
            let cidrs = cidrs.context("cidr")?;
            key_with_secret(catalog.create_key(&game, &label, scopes, expires_s, cidrs, now_s())?)
        }
        Command::RotateKey { key } => key_with_secret(catalog.rotate_key(&key, now_s())?),
        Command::RevokeKey { key } => {
            catalog.revoke_key(&key, now_s())?;
            json!({ "revoked": key })
        }
        Command::CreateSignInLink { sign_out } => {
            let link = bootstrap::create_sign_in_link(admin.folder, catalog, sign_out)?;
            json!({ "sign_in_url": link })
        }
        Command::ListCollectors | Command::OrderCollector { .. } | Command::Monitor => {
            bail!("no server is running on {}", admin.folder.display())
        }
        Command::Backup(request) => self::backup::run(admin, &request)?,
        Command::Verify { hours } => recount::run(|| recount::verify(admin, hours))?,
        Command::Rebuild { hours } => recount::run(|| recount::rebuild(admin, hours))?,
    })
}

/// Returns a game with the keys of its legacy clients, including derived ones.
fn game(catalog: &Catalog, game: &Game) -> Value {
    let mut answer = json!(game);
    answer["settings"] = json!({
        "late_days": game.settings.late_days,
        "export": game.settings.export,
        "values_max": game.settings.values_max,
        "events_days": game.settings.events_days,
        "dimensions": game.settings.dimensions,
    });
    answer["playtomic"] = json!({
        "key": game.playtomic.key,
        "private_key": catalog.playtomic_private_key(game),
        "data_api": game.playtomic.data_api,
    });
    answer["sites"] = json!(game.sites);
    answer["archived_at"] = json!(game.archived_s.map(|archived_s| rfc3339(archived_s as i64 * 1000)));
    answer["gameanalytics"] = json!(catalog.gameanalytics_keys(game));
    answer
}

fn key_with_last_use(catalog: &Catalog, record: &KeyRecord) -> Value {
    let mut answer = key(record);
    let last_s = catalog.last_used_s(&record.id);
    answer["last_used"] = last_s.map(|last_s| rfc3339(last_s as i64 * 1000)).into();
    answer
}

fn key_with_secret((secret, record): (String, KeyRecord)) -> Value {
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
