//! The catalog in memory, indexed by every kind of key.

use std::collections::HashMap;
use std::sync::Arc;

use super::file::CatalogFile;
use super::{Game, GameAnalytics, KeyRecord};

/// The content of the catalog's file with its indexes.
pub(super) struct CatalogIndex {
    pub(super) file: CatalogFile,
    pub(super) games: HashMap<u32, Arc<Game>>,
    pub(super) public: HashMap<String, Arc<Game>>,
    /// Indexed by lower-case key.
    pub(super) playtomic: HashMap<String, Arc<Game>>,
    pub(super) gameanalytics: HashMap<String, Arc<Game>>,
    /// Indexed by lower-case domain or website id.
    pub(super) sites: HashMap<String, Arc<Game>>,
    pub(super) secret: HashMap<String, KeyRecord>,
}

impl From<CatalogFile> for CatalogIndex {
    fn from(file: CatalogFile) -> CatalogIndex {
        let games: HashMap<u32, Arc<Game>> =
            file.games.iter().map(|game| (game.number, Arc::new(game.clone()))).collect();
        let (mut public, mut playtomic, mut gameanalytics) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut sites = HashMap::new();
        for game in games.values() {
            sites.extend(game.sites.iter().map(|site| (site.clone(), game.clone())));
            gameanalytics.insert(GameAnalytics::of(game, &file.id_secret).key, game.clone());
            for key in game.playtomic_keys() {
                playtomic.insert(key.to_ascii_lowercase(), game.clone());
            }
            for key in std::iter::once(&game.public_key).chain(&game.old_public_keys) {
                public.insert(key.clone(), game.clone());
            }
        }
        let secret = file.keys.iter().map(|key| (key.id.clone(), key.clone())).collect();
        CatalogIndex { file, games, public, playtomic, gameanalytics, sites, secret }
    }
}
