//! The catalog's file: read as a whole, replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::error::no_game;
use super::key_format::{self, SecretKey};
use super::sign_ins::{SIGN_IN_LINK_S, SignIn};
use super::{CatalogError, DeletedGame, Game, InitialKeys, KeyRecord, Scopes};

const NAME: &str = "catalog.json";
/// The newest format that this program reads.
const FORMAT: u32 = 2;
/// The format of a file without what format 2 added: archived games, the number after that of a deleted game, and how long
/// raw events are kept. Such a file is written in this format, so that an older program reads it.
const FIRST_FORMAT: u32 = 1;
/// The permissions of users who are neither the owner nor in the group. (Volumes of containers are often given to a
/// group.)
const OTHERS: u32 = 0o007;

/// The content of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CatalogFile {
    format: u32,
    /// Makes the stored form of event ids unguessable; hexadecimal.
    pub(super) id_secret: String,
    /// SHA-256 of the token in the owner's sign-in link; empty after its use.
    pub(super) sign_in_sha256: String,
    /// The time from which the link is invalid, in seconds since 1970. Files of older versions have none: their links
    /// are no longer valid.
    #[serde(default)]
    pub(super) sign_in_expires_s: u64,
    /// The lowest number of a new game, once it is greater than that of the newest game: the numbers of deleted games are
    /// not used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next_game: Option<u32>,
    pub(super) games: Vec<Game>,
    /// The games whose data is being removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) deleted_games: Vec<DeletedGame>,
    pub(super) keys: Vec<KeyRecord>,
    pub(super) sign_ins: Vec<SignIn>,
}

impl CatalogFile {
    /// Creates the content of a first start.
    pub(super) fn with_first_game(now_s: u64, name: &str) -> (CatalogFile, InitialKeys) {
        let game = Game::new(1, "demo", name, "UTC");
        let (secret, sign_in_token) = (SecretKey::random(), key_format::random_token());
        let key = KeyRecord {
            id: secret.id.clone(),
            game: game.number,
            label: "first start".into(),
            scopes: Scopes::ALL,
            sha256: key_format::sha256_hex(&secret.text),
            created_s: now_s,
            expires_s: None,
            cidrs: Vec::new(),
            revoked_s: None,
        };
        let file = CatalogFile {
            format: FIRST_FORMAT,
            id_secret: key_format::sha256_hex(&key_format::random_token()),
            sign_in_sha256: key_format::sha256_hex(&sign_in_token),
            sign_in_expires_s: now_s + SIGN_IN_LINK_S,
            next_game: None,
            games: vec![game.clone()],
            deleted_games: Vec::new(),
            keys: vec![key],
            sign_ins: Vec::new(),
        };
        (file, InitialKeys { game, secret_key: secret.text, sign_in_token })
    }

    /// Returns the number of a new game: greater than that of every game that ever was. Files of older versions have no
    /// `next_game`; they could not delete games, so the newest game has the greatest number.
    pub(super) fn next_game(&self) -> u32 {
        let newest = self.games.iter().map(|game| game.number).max().unwrap_or(0);
        self.next_game.unwrap_or(0).max(newest + 1)
    }

    /// Sets the format that the content needs.
    pub(super) fn set_format(&mut self) {
        let is_new = |game: &Game| game.is_archived() || game.settings.events_days.is_some();
        let needs_second = self.next_game.is_some() || self.games.iter().any(is_new);
        self.format = if needs_second { FORMAT } else { FIRST_FORMAT };
    }

    pub(super) fn game_mut(&mut self, id: &str) -> Result<&mut Game, CatalogError> {
        self.games.iter_mut().find(|game| game.id == id).ok_or_else(|| no_game(id))
    }
}

pub(super) fn load(folder: &Path) -> anyhow::Result<Option<CatalogFile>> {
    let path = folder.join(NAME);
    let Some(text) = read_private(&path)? else { return Ok(None) };
    check_format_of(&text, folder)?;
    let file: CatalogFile = serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a valid catalog", path.display()))?;
    Ok(Some(file))
}

/// Checks that this program reads the format of a data folder. Changes nothing. A newer program that changes the format
/// of any file in the folder increases the number in the catalog, so this is checked before everything else.
pub fn check_format(folder: &Path) -> anyhow::Result<()> {
    match read_private(&folder.join(NAME))? {
        Some(text) => check_format_of(&text, folder),
        None => Ok(()),
    }
}

fn check_format_of(text: &[u8], folder: &Path) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let path = folder.join(NAME);
    let format: Format =
        serde_json::from_slice(text).with_context(|| format!("{} is not a valid catalog", path.display()))?;
    ensure!(
        format.format <= FORMAT,
        "{} was used by a newer version of Playmeter: its catalog.json has format {}, and this version reads formats up to {FORMAT}. \
         Install the newer version, or restore a backup from before the upgrade to another folder; nothing was changed",
        folder.display(),
        format.format
    );
    Ok(())
}

pub(super) fn save(folder: &Path, file: &CatalogFile) -> anyhow::Result<()> {
    let text = serde_json::to_vec_pretty(file).context("encoding the catalog")?;
    replace_private(folder, NAME, &text)
}

/// Reads a private file, if it exists. Fails if the file is accessible to other users of the machine.
pub fn read_private(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let reading = || format!("reading {}", path.display());
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(reading),
    };
    let mode = file.metadata().with_context(reading)?.permissions().mode();
    ensure!(
        mode & OTHERS == 0,
        "{0} is accessible to other users of this machine; run `chmod 600 {0}` and rotate the keys in it",
        path.display()
    );
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(reading)?;
    Ok(Some(bytes))
}

/// Replaces a small private file atomically: after a crash it is either the old or the new one.
pub fn replace_private(folder: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let (path, temporary) = (folder.join(name), folder.join(format!("{name}.new")));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .with_context(|| format!("creating {}", temporary.display()))?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .with_context(|| format!("writing {}", temporary.display()))?;
    fs::rename(&temporary, &path).with_context(|| format!("replacing {}", path.display()))?;
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .with_context(|| format!("syncing {}", folder.display()))
}
