//! The catalog: games, their keys and the owner's sign-ins, in one small file in the data folder.
//!
//! The file is replaced as a whole (written beside, synced, renamed, folder synced), so it is always either the old or
//! the new one. It contains secrets only as SHA-256, so reading it gives no access.

mod access;
mod cidr;
mod deletion;
mod error;
mod file;
mod game_settings;
mod gameanalytics;
mod games;
mod index;
mod key_format;
mod keys;
mod last_used;
mod playtomic;
mod scopes;
mod sign_ins;
mod sites;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use file::CatalogFile;
use index::CatalogIndex;
use last_used::LastUsed;

pub use access::{Access, address_group};
pub use cidr::{Cidr, InvalidCidr};
pub use deletion::DeletedGame;
pub use error::CatalogError;
pub use file::{check_format, read_private, replace_private};
pub use game_settings::{DimensionDeclaration, GameSettings, SettingsChange, given};
pub use gameanalytics::GameAnalytics;
pub use games::{Game, GameArchived, GameChange};
pub use key_format::KeyKind;
pub use keys::KeyRecord;
pub use playtomic::Playtomic;
pub use scopes::{Scope, Scopes};
pub use sites::VisitorKey;

/// The display name of the game that a first start creates.
pub const FIRST_GAME: &str = "My game";

/// Games, keys and sign-ins in memory. Every change is on disk before it takes effect.
pub struct Catalog {
    folder: PathBuf,
    /// Serialises writers; readers never wait.
    writing: Mutex<()>,
    last_used: Arc<LastUsed>,
    current: ArcSwap<CatalogIndex>,
    revision: AtomicU64,
}

/// The first game and the secrets of a first start. The secrets are stored nowhere else.
pub struct InitialKeys {
    /// The first game.
    pub game: Game,
    /// A key with every scope.
    pub secret_key: String,
    /// The owner's sign-in token.
    pub sign_in_token: String,
}

impl Catalog {
    /// Opens the folder's catalog. If there is none, creates one with a first game and returns its keys; it is on disk
    /// only after [`Catalog::save`].
    pub fn open(folder: &Path, now_s: u64) -> anyhow::Result<(Catalog, Option<InitialKeys>)> {
        Catalog::open_with(folder, now_s, FIRST_GAME)
    }

    /// Like [`Catalog::open`], with the display name of the game that a first start creates.
    pub fn open_with(
        folder: &Path,
        now_s: u64,
        first_game: &str,
    ) -> anyhow::Result<(Catalog, Option<InitialKeys>)> {
        if let Some(file) = file::load(folder)? {
            return Ok((Catalog::with(folder, file), None));
        }
        let (file, initial_keys) = CatalogFile::with_first_game(now_s, first_game);
        Ok((Catalog::with(folder, file), Some(initial_keys)))
    }

    /// Writes the catalog. A first start calls this after it has written the initial keys elsewhere: the catalog
    /// contains only their hashes and would be useless without them. If the process is killed in between, the next
    /// start creates new keys.
    pub fn save(&self) -> anyhow::Result<()> {
        let _writing = self.writing.lock();
        file::save(&self.folder, &self.current.load().file)
    }

    /// Reads the file again after another process has changed it.
    pub fn reload(&self) -> anyhow::Result<()> {
        let _writing = self.writing.lock();
        if let Some(file) = file::load(&self.folder)? {
            self.replace(file);
        }
        Ok(())
    }

    /// Returns a number that increases with every change. While it is the same, earlier access decisions stay valid.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Returns the secret that masks the event ids of this installation.
    pub fn id_secret(&self) -> String {
        self.current.load().file.id_secret.clone()
    }

    fn with(folder: &Path, file: CatalogFile) -> Catalog {
        Catalog {
            folder: folder.to_owned(),
            writing: Mutex::new(()),
            last_used: LastUsed::open(folder),
            current: ArcSwap::from_pointee(CatalogIndex::from(file)),
            revision: AtomicU64::new(0),
        }
    }

    fn replace(&self, file: CatalogFile) {
        self.current.store(Arc::new(CatalogIndex::from(file)));
        self.revision.fetch_add(1, Ordering::Release);
    }

    /// Applies a change to the file, writes it and makes it current.
    fn update<T>(
        &self,
        change: impl FnOnce(&mut CatalogFile) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let _writing = self.writing.lock();
        let mut file = self.current.load().file.clone();
        let result = change(&mut file)?;
        file.set_format();
        file::save(&self.folder, &file).map_err(|error| CatalogError::NotWritten(format!("{error:#}")))?;
        self.replace(file);
        Ok(result)
    }
}

#[cfg(test)]
mod tests;
