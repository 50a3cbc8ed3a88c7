//! Who may do what: games, their keys and the signed-in people. One small file in the data folder.
//!
//! The file is replaced as a whole (written beside, synced, renamed, folder synced), so it is always either the old
//! or the new one. Secrets are not in it, only their SHA-256; reading it gives nobody access.

mod cidr;
mod gameanalytics;
mod keys;
mod playtomic;
mod settings;
mod store;
mod used;

pub use cidr::{BadCidr, Cidr};
pub use gameanalytics::GameAnalytics;
use keys::Secret;
pub use keys::{Scope, Scopes, SecretKind};
pub use playtomic::Playtomic;
pub use settings::{DeclaredDimension, GameSettings, SettingsChange};
pub use store::{read_private, replace};
use used::Used;

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use model::batch::KeyClass;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

/// Games, keys and sign-ins in memory, with every change on disk before it counts.
pub struct Catalog {
    folder: std::path::PathBuf,
    /// One writer at a time; readers never wait.
    writing: Mutex<()>,
    used: Arc<Used>,
    current: ArcSwap<Loaded>,
    changes: AtomicU64,
}

/// What a request may do, from its credential alone.
#[derive(Clone, Debug)]
pub struct Access {
    /// The tenant.
    pub game: Arc<Game>,
    /// Public keys are in every client; secret keys are not.
    pub class: KeyClass,
    /// What the key was made for.
    pub scopes: Scopes,
    /// Signed in through the dashboard rather than by key.
    pub person: bool,
    /// Tells credentials apart, as far as limits are concerned.
    pub key: u64,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Game {
    /// The number the log stores; never reused.
    pub number: u32,
    /// The name in routes and commands: lower-case letters, digits and `-`.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// IANA time zone of days, weeks and months.
    pub tz: String,
    /// In every client; not a secret.
    pub public_key: String,
    /// Public keys that were replaced and still work.
    #[serde(default)]
    pub old_public_keys: Vec<String>,
    /// For games that were built with Playtomic's SDKs.
    #[serde(default, skip_serializing_if = "Playtomic::is_default")]
    pub playtomic: Playtomic,
    /// For games that were built with GameAnalytics' SDKs.
    #[serde(default, skip_serializing_if = "GameAnalytics::is_default")]
    pub gameanalytics: GameAnalytics,
    /// What the game decides about its events.
    #[serde(default, skip_serializing_if = "GameSettings::is_default")]
    pub settings: GameSettings,
}

/// A secret key as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    /// The middle part of the key; names it without giving it away.
    pub id: String,
    /// The game's number.
    pub game: u32,
    /// What it is for, in its maker's words.
    pub label: String,
    /// What it may do.
    pub scopes: Scopes,
    /// SHA-256 of the whole key, hexadecimal.
    pub sha256: String,
    /// Seconds since 1970.
    pub created_s: u64,
    /// Not valid from this second on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_s: Option<u64>,
    /// From where it may be used; none: from everywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cidrs: Vec<Cidr>,
    /// Revoked at this second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_s: Option<u64>,
}

/// A signed-in browser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    sha256: String,
    expires_s: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    /// Makes the stored form of event ids unguessable; hexadecimal.
    id_secret: String,
    /// SHA-256 of the owner's sign-in token.
    sign_in_sha256: String,
    games: Vec<Game>,
    keys: Vec<KeyRecord>,
    sign_ins: Vec<SignIn>,
}

struct Loaded {
    document: Document,
    games: HashMap<u32, Arc<Game>>,
    public: HashMap<String, Arc<Game>>,
    /// By lower-case key.
    playtomic: HashMap<String, Arc<Game>>,
    gameanalytics: HashMap<String, Arc<Game>>,
    secret: HashMap<String, KeyRecord>,
}

/// What was made at the first start. The secrets are here and nowhere else.
pub struct Made {
    /// The demo game.
    pub game: Game,
    /// A key with every scope.
    pub secret_key: String,
    /// The owner's sign-in token.
    pub sign_in_token: String,
}

/// Why a credential or a change was refused.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum Refused {
    /// No such key, or it was revoked or has expired.
    #[error("the key is not known, was revoked or has expired")]
    UnknownKey,
    /// The key was made for other addresses.
    #[error("the key may not be used from this address")]
    Address,
    /// The change names something that cannot be.
    #[error("{field}: {message}")]
    Invalid {
        /// The argument.
        field: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// The file could not be written; nothing has changed.
    #[error("the catalog could not be written: {0}")]
    NotWritten(String),
}

const FORMAT: u32 = 1;
const SIGN_IN_S: u64 = 30 * 24 * 3600;
const SIGN_INS_MAX: usize = 1_000;
const GAMES_MAX: usize = 10_000;
const KEYS_MAX: usize = 100_000;
const CIDRS_MAX: usize = 100;

impl Catalog {
    /// Opens the folder's catalog, or makes one with a demo game and says what it made. What was made is on disk only
    /// after [`Catalog::keep`].
    pub fn open(folder: &Path, now_s: u64) -> anyhow::Result<(Catalog, Option<Made>)> {
        if let Some(document) = store::load(folder)? {
            return Ok((Catalog::with(folder, document), None));
        }
        let (document, made) = Document::first(now_s)?;
        Ok((Catalog::with(folder, document), Some(made)))
    }

    /// Writes the catalog. A first start calls this after its secrets were written down: they are not in here, and a
    /// catalog whose secrets nobody has would be of no use. Killed in between, the next start makes new ones.
    pub fn keep(&self) -> anyhow::Result<()> {
        let _writing = self.writing.lock();
        store::save(&self.folder, &self.current.load().document)
    }

    fn with(folder: &Path, document: Document) -> Catalog {
        Catalog {
            folder: folder.to_owned(),
            writing: Mutex::new(()),
            used: Used::open(folder),
            current: ArcSwap::from_pointee(Loaded::from(document)),
            changes: AtomicU64::new(0),
        }
    }

    /// What this key may do now, for a request from this address.
    pub fn access(&self, key: &str, address: Option<IpAddr>, now_s: u64) -> Result<Access, Refused> {
        let current = self.current.load();
        if key.starts_with("pm_pk_") {
            let game = current.public.get(key).cloned().ok_or(Refused::UnknownKey)?;
            return Ok(Access::public(game));
        }
        let id = keys::secret_id(key).ok_or(Refused::UnknownKey)?;
        let record = current.secret.get(id).ok_or(Refused::UnknownKey)?;
        let same: bool = keys::sha256_hex(key).as_bytes().ct_eq(record.sha256.as_bytes()).into();
        let valid = same && record.revoked_s.is_none() && record.expires_s.is_none_or(|end_s| now_s < end_s);
        let game = current.games.get(&record.game).filter(|_| valid).cloned().ok_or(Refused::UnknownKey)?;
        if !record.may_be_used_from(address) {
            return Err(Refused::Address);
        }
        self.used.note(id, now_s);
        Ok(Access { game, class: KeyClass::Secret, scopes: record.scopes, person: false, key: number_of(id) })
    }

    /// When a secret key was last used, in seconds since 1970, to the minute.
    pub fn last_used_s(&self, id: &str) -> Option<u64> {
        self.used.last_s(id)
    }

    /// Writes down when keys were last used.
    pub fn keep_used(&self) {
        self.used.write();
    }

    /// Trades the owner's sign-in token for a session token, which goes into a cookie.
    pub fn sign_in(&self, token: &str, now_s: u64) -> Result<String, Refused> {
        let expected = self.current.load().document.sign_in_sha256.clone();
        if !bool::from(keys::sha256_hex(token).as_bytes().ct_eq(expected.as_bytes())) {
            return Err(Refused::UnknownKey);
        }
        let session = keys::random_token();
        let sha256 = keys::sha256_hex(&session);
        self.change(|document| {
            document.sign_ins.retain(|sign_in| sign_in.expires_s > now_s);
            if document.sign_ins.len() >= SIGN_INS_MAX {
                document.sign_ins.remove(0);
            }
            document.sign_ins.push(SignIn { sha256, expires_s: now_s + SIGN_IN_S });
            Ok(())
        })?;
        Ok(session)
    }

    /// Ends a signed-in browser's session.
    pub fn sign_out(&self, session: &str) -> Result<(), Refused> {
        let sha256 = keys::sha256_hex(session);
        self.change(|document| {
            document.sign_ins.retain(|sign_in| sign_in.sha256 != sha256);
            Ok(())
        })
    }

    /// Whether this session token is signed in. Its holder is the owner.
    pub fn is_signed_in(&self, session: &str, now_s: u64) -> bool {
        let sha256 = keys::sha256_hex(session);
        let current = self.current.load();
        let mut sign_ins = current.document.sign_ins.iter();
        sign_ins.any(|sign_in| {
            sign_in.expires_s > now_s && bool::from(sign_in.sha256.as_bytes().ct_eq(sha256.as_bytes()))
        })
    }

    /// Makes a new sign-in token; the old one and all signed-in browsers end.
    pub fn rotate_sign_in(&self) -> Result<String, Refused> {
        let token = keys::random_token();
        let sha256 = keys::sha256_hex(&token);
        self.change(|document| {
            document.sign_in_sha256 = sha256;
            document.sign_ins.clear();
            Ok(())
        })?;
        Ok(token)
    }

    /// Every game, oldest first.
    pub fn games(&self) -> Vec<Game> {
        self.current.load().document.games.clone()
    }

    /// The game with this name for routes.
    pub fn game(&self, id: &str) -> Option<Arc<Game>> {
        self.current.load().games.values().find(|game| game.id == id).cloned()
    }

    /// The game with this stored number.
    pub fn game_by_number(&self, number: u32) -> Option<Arc<Game>> {
        self.current.load().games.get(&number).cloned()
    }

    /// Makes a game with a public key of its own.
    pub fn create_game(&self, id: &str, name: &str, tz: &str) -> Result<Game, Refused> {
        keys::check_game_id(id)?;
        keys::check_time_zone(tz)?;
        self.change(|document| {
            if document.games.len() >= GAMES_MAX {
                return Err(invalid("id", format!("there are {GAMES_MAX} games already")));
            }
            if document.games.iter().any(|game| game.id == id) {
                return Err(invalid("id", format!("there is a game `{id}` already")));
            }
            let number = document.games.iter().map(|game| game.number).max().unwrap_or(0) + 1;
            let game = Game::new(number, id, name, tz);
            document.games.push(game.clone());
            Ok(game)
        })
    }

    /// Gives a game a new public key. The old one works until `revoke_key` ends it.
    pub fn rotate_public_key(&self, id: &str) -> Result<Game, Refused> {
        self.change(|document| {
            let game = document.game_mut(id)?;
            let old = std::mem::replace(&mut game.public_key, keys::new_public_key());
            game.old_public_keys.insert(0, old);
            game.old_public_keys.truncate(1);
            Ok(game.clone())
        })
    }

    /// The secret keys of a game, as they are kept.
    pub fn keys(&self, game: &str) -> Result<Vec<KeyRecord>, Refused> {
        let number = self.game(game).ok_or_else(|| no_game(game))?.number;
        let current = self.current.load();
        Ok(current.document.keys.iter().filter(|key| key.game == number).cloned().collect())
    }

    /// Makes a secret key. The secret is returned once and kept nowhere.
    pub fn create_key(
        &self,
        game: &str,
        label: &str,
        scopes: Scopes,
        expires_s: Option<u64>,
        cidrs: Vec<Cidr>,
        now_s: u64,
    ) -> Result<(String, KeyRecord), Refused> {
        if cidrs.len() > CIDRS_MAX {
            return Err(invalid("cidr", format!("a key has up to {CIDRS_MAX} ranges")));
        }
        let secret = Secret::random();
        self.change(|document| {
            if document.keys.len() >= KEYS_MAX {
                return Err(invalid("game", format!("there are {KEYS_MAX} keys already")));
            }
            let game = document.game_mut(game)?.number;
            let record = KeyRecord {
                id: secret.id.clone(),
                game,
                label: label.to_owned(),
                scopes,
                sha256: keys::sha256_hex(&secret.text),
                created_s: now_s,
                expires_s,
                cidrs,
                revoked_s: None,
            };
            document.keys.push(record.clone());
            Ok((secret.text.clone(), record))
        })
    }

    /// Makes a successor of a secret key with the same scopes. Both work until the old one is revoked.
    pub fn rotate_key(&self, id: &str, now_s: u64) -> Result<(String, KeyRecord), Refused> {
        let current = self.current.load();
        let old = current.secret.get(id).filter(|key| key.revoked_s.is_none()).ok_or_else(|| no_key(id))?;
        let game = current.games.get(&old.game).ok_or_else(|| no_key(id))?;
        self.create_key(&game.id, &old.label, old.scopes, old.expires_s, old.cidrs.clone(), now_s)
    }

    /// Ends a secret key by its id, or an old public key by itself, at once.
    pub fn revoke_key(&self, id: &str, now_s: u64) -> Result<(), Refused> {
        self.change(|document| {
            if let Some(key) = document.keys.iter_mut().find(|key| key.id == id) {
                key.revoked_s.get_or_insert(now_s);
                return Ok(());
            }
            let mut games = document.games.iter_mut();
            let owner = games.find(|game| game.old_public_keys.iter().any(|key| key == id));
            let game = owner.ok_or_else(|| no_key(id))?;
            game.old_public_keys.retain(|key| key != id);
            Ok(())
        })
    }

    /// What masks the event ids of this installation.
    pub fn id_secret(&self) -> String {
        self.current.load().document.id_secret.clone()
    }

    /// Reads the file again if another process changed it.
    pub fn reload(&self) -> anyhow::Result<()> {
        let _writing = self.writing.lock();
        if let Some(document) = store::load(&self.folder)? {
            self.put(document);
        }
        Ok(())
    }

    /// How often it was changed: as long as this is the same, whoever may something still may.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn put(&self, document: Document) {
        self.current.store(Arc::new(Loaded::from(document)));
        self.changes.fetch_add(1, Ordering::Release);
    }

    fn change<T>(&self, change: impl FnOnce(&mut Document) -> Result<T, Refused>) -> Result<T, Refused> {
        let _writing = self.writing.lock();
        let mut document = self.current.load().document.clone();
        let answer = change(&mut document)?;
        store::save(&self.folder, &document).map_err(|error| Refused::NotWritten(format!("{error:#}")))?;
        self.put(document);
        Ok(answer)
    }
}

impl Access {
    /// What everybody may do who has the game's public key.
    pub fn public(game: Arc<Game>) -> Access {
        let key = number_of(&game.public_key);
        Access { game, class: KeyClass::Public, scopes: Scopes::PUBLIC, person: false, key }
    }

    /// What the server tells of a game itself.
    pub fn own(game: Arc<Game>) -> Access {
        Access { game, class: KeyClass::Secret, scopes: Scopes::ALL, person: false, key: 0 }
    }

    /// What a collector may do that whoever runs the server has set up: send events, of any age if it imports.
    pub fn collector(game: Arc<Game>, name: &str, import: bool) -> Access {
        let scopes = if import { Scopes::IMPORT } else { Scopes::PUBLIC };
        Access { game, class: KeyClass::Secret, scopes, person: false, key: number_of(name) }
    }

    /// Whether the credential was made for this.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(scope)
    }
}

impl KeyRecord {
    fn may_be_used_from(&self, address: Option<IpAddr>) -> bool {
        let is_inside = |address| self.cidrs.iter().any(|cidr| cidr.contains(address));
        self.cidrs.is_empty() || address.is_some_and(is_inside)
    }
}

/// A number that is another for every credential. Keys are random, so it needs no secret.
fn number_of(key: &str) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    key.hash(&mut hasher);
    hasher.finish()
}

impl Game {
    fn new(number: u32, id: &str, name: &str, tz: &str) -> Game {
        Game {
            number,
            id: id.to_owned(),
            name: name.to_owned(),
            tz: tz.to_owned(),
            public_key: keys::new_public_key(),
            old_public_keys: Vec::new(),
            playtomic: Playtomic::default(),
            gameanalytics: GameAnalytics::default(),
            settings: GameSettings::default(),
        }
    }
}

impl Document {
    fn first(now_s: u64) -> anyhow::Result<(Document, Made)> {
        let game = Game::new(1, "demo", "Demo game", "UTC");
        let (secret, sign_in_token) = (Secret::random(), keys::random_token());
        let key = KeyRecord {
            id: secret.id.clone(),
            game: game.number,
            label: "first start".into(),
            scopes: Scopes::ALL,
            sha256: keys::sha256_hex(&secret.text),
            created_s: now_s,
            expires_s: None,
            cidrs: Vec::new(),
            revoked_s: None,
        };
        let document = Document {
            format: FORMAT,
            id_secret: keys::sha256_hex(&keys::random_token()),
            sign_in_sha256: keys::sha256_hex(&sign_in_token),
            games: vec![game.clone()],
            keys: vec![key],
            sign_ins: Vec::new(),
        };
        Ok((document, Made { game, secret_key: secret.text, sign_in_token }))
    }

    fn game_mut(&mut self, id: &str) -> Result<&mut Game, Refused> {
        self.games.iter_mut().find(|game| game.id == id).ok_or_else(|| no_game(id))
    }
}

impl From<Document> for Loaded {
    fn from(document: Document) -> Loaded {
        let games: HashMap<u32, Arc<Game>> =
            document.games.iter().map(|game| (game.number, Arc::new(game.clone()))).collect();
        let (mut public, mut playtomic, mut gameanalytics) = (HashMap::new(), HashMap::new(), HashMap::new());
        for game in games.values() {
            gameanalytics.insert(GameAnalytics::of(game, &document.id_secret).key, game.clone());
            for key in game.playtomic_names() {
                playtomic.insert(key.to_ascii_lowercase(), game.clone());
            }
            for key in std::iter::once(&game.public_key).chain(&game.old_public_keys) {
                public.insert(key.clone(), game.clone());
            }
        }
        let secret = document.keys.iter().map(|key| (key.id.clone(), key.clone())).collect();
        Loaded { games, public, playtomic, gameanalytics, secret, document }
    }
}

fn invalid(field: &'static str, message: String) -> Refused {
    Refused::Invalid { field, message }
}

fn no_game(id: &str) -> Refused {
    invalid("game", format!("there is no game `{id}`"))
}

fn no_key(id: &str) -> Refused {
    invalid("key", format!("there is no key `{id}` that could be changed"))
}

/// The address a request came from, as far as limits per address are concerned: IPv6 by its /64.
pub fn address_group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> (tempfile::TempDir, Catalog, Made) {
        let folder = tempfile::tempdir().unwrap();
        let (catalog, made) = Catalog::open(folder.path(), 100).unwrap();
        catalog.keep().unwrap();
        (folder, catalog, made.expect("a new folder gets its first keys"))
    }

    #[test]
    fn the_first_start_makes_a_demo_game_and_keys_that_work_after_a_restart() {
        let (folder, _, made) = open();
        let (catalog, again) = Catalog::open(folder.path(), 100).unwrap();
        assert!(again.is_none());
        let access = catalog.access(&made.secret_key, None, 100).unwrap();
        assert_eq!(
            (access.game.id.as_str(), access.class, access.scopes),
            ("demo", KeyClass::Secret, Scopes::ALL)
        );
        let access = catalog.access(&made.game.public_key, None, 100).unwrap();
        assert_eq!((access.class, access.may(Scope::EventsWrite)), (KeyClass::Public, true));
        assert!(!access.may(Scope::Query));
    }

    #[test]
    fn a_first_start_that_did_not_write_down_its_keys_is_followed_by_another_first_start() {
        let folder = tempfile::tempdir().unwrap();
        let made = || Catalog::open(folder.path(), 100).unwrap().1;
        let (first, second) = (made().expect("a new folder"), made().expect("still a new folder"));
        assert_ne!(first.secret_key, second.secret_key);
    }

    #[test]
    fn the_file_holds_no_secret_and_only_its_owner_reads_it() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, _, made) = open();
        let path = folder.path().join("catalog.json");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&made.secret_key) && !text.contains(&made.sign_in_token));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_changed_letter_makes_a_key_unknown() {
        let (_folder, catalog, made) = open();
        for at in [6, 20, made.secret_key.len() - 1] {
            let mut key = made.secret_key.clone().into_bytes();
            key[at] = if key[at] == b'a' { b'b' } else { b'a' };
            let key = String::from_utf8(key).unwrap();
            assert_eq!(catalog.access(&key, None, 100).unwrap_err(), Refused::UnknownKey);
        }
        assert_eq!(catalog.access("", None, 100).unwrap_err(), Refused::UnknownKey);
    }

    #[test]
    fn a_rotated_key_and_its_successor_both_work_until_one_is_revoked() {
        let (_folder, catalog, made) = open();
        let old = catalog.keys("demo").unwrap().remove(0);
        let (key, record) = catalog.rotate_key(&old.id, 100).unwrap();
        assert_eq!(record.scopes, old.scopes);
        assert!(
            catalog.access(&key, None, 100).is_ok() && catalog.access(&made.secret_key, None, 100).is_ok()
        );
        catalog.revoke_key(&old.id, 101).unwrap();
        assert!(
            catalog.access(&key, None, 100).is_ok() && catalog.access(&made.secret_key, None, 100).is_err()
        );
    }

    #[test]
    fn a_public_key_is_rotated_and_revoked_likewise() {
        let (_folder, catalog, made) = open();
        let game = catalog.rotate_public_key("demo").unwrap();
        assert!(
            catalog.access(&game.public_key, None, 1).is_ok()
                && catalog.access(&made.game.public_key, None, 1).is_ok()
        );
        catalog.revoke_key(&made.game.public_key, 1).unwrap();
        assert!(
            catalog.access(&game.public_key, None, 1).is_ok()
                && catalog.access(&made.game.public_key, None, 1).is_err()
        );
    }

    #[test]
    fn an_expired_key_is_unknown_from_its_second_on() {
        let (_folder, catalog, _) = open();
        let (key, _) = catalog.create_key("demo", "job", Scopes::ALL, Some(200), Vec::new(), 100).unwrap();
        assert!(catalog.access(&key, None, 199).is_ok() && catalog.access(&key, None, 200).is_err());
    }

    #[test]
    fn a_key_for_some_addresses_is_refused_from_others_and_from_nowhere() {
        let (_folder, catalog, _) = open();
        let office = vec!["203.0.113.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        let (key, record) = catalog.create_key("demo", "job", Scopes::ALL, None, office, 100).unwrap();
        let from = |address: &str| catalog.access(&key, address.parse().ok(), 100).map(drop);
        assert_eq!((from("203.0.113.9"), from("2001:db8::9")), (Ok(()), Ok(())));
        assert_eq!((from("203.0.114.9"), from("")), (Err(Refused::Address), Err(Refused::Address)));
        assert_eq!(catalog.rotate_key(&record.id, 100).unwrap().1.cidrs, record.cidrs);
    }

    #[test]
    fn the_sign_in_token_opens_sessions_that_end() {
        let (_folder, catalog, made) = open();
        assert!(catalog.sign_in("wrong", 100).is_err());
        let session = catalog.sign_in(&made.sign_in_token, 100).unwrap();
        assert!(catalog.is_signed_in(&session, 100) && !catalog.is_signed_in(&session, 100 + SIGN_IN_S));
        catalog.sign_out(&session).unwrap();
        assert!(!catalog.is_signed_in(&session, 100));
        catalog.rotate_sign_in().unwrap();
        assert!(catalog.sign_in(&made.sign_in_token, 100).is_err());
    }

    #[test]
    fn a_game_needs_a_fitting_id_and_a_known_time_zone() {
        let (_folder, catalog, _) = open();
        let create = |id: &str, tz: &str| catalog.create_game(id, "Name", tz).map(|game| game.number);
        assert_eq!(create("word-game", "Europe/Paris"), Ok(2));
        for (id, tz, field) in
            [("Word", "UTC", "id"), ("word-game", "UTC", "id"), ("other", "Mars/Base", "tz")]
        {
            assert!(matches!(create(id, tz), Err(Refused::Invalid { field: found, .. }) if found == field));
        }
    }
}
