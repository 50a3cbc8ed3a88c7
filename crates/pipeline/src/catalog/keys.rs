//! The forms of keys and tokens, and what a key may be made for.
//!
//! `pm_pk_<id>` is public. `pm_sk_<id>_<43 characters>_<crc>` carries 256 random bits; its last part is a checksum, so
//! that a mistyped key is told from a revoked one before anything is looked up, and scanners find leaked keys.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Refused;

/// One thing a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Scope {
    /// Send events.
    EventsWrite = 1,
    /// Send events of any age.
    EventsImport = 1 << 1,
    /// Submit scores for any player.
    ScoresWrite = 1 << 2,
    /// Change game variables.
    VarsWrite = 1 << 3,
    /// Decide about players' levels.
    LevelsModerate = 1 << 4,
    /// Ask queries and watch.
    Query = 1 << 5,
    /// Ask in SQL.
    Sql = 1 << 6,
    /// Export.
    Export = 1 << 7,
    /// Erase a player.
    PlayersDelete = 1 << 8,
    /// Everything about the game.
    Admin = 1 << 9,
}

impl Scope {
    /// All scopes, in the order in which they are listed.
    pub const ALL: [Scope; 10] = [
        Scope::EventsWrite,
        Scope::EventsImport,
        Scope::ScoresWrite,
        Scope::VarsWrite,
        Scope::LevelsModerate,
        Scope::Query,
        Scope::Sql,
        Scope::Export,
        Scope::PlayersDelete,
        Scope::Admin,
    ];

    /// The word in commands, files and errors.
    pub fn label(self) -> &'static str {
        match self {
            Scope::EventsWrite => "events:write",
            Scope::EventsImport => "events:import",
            Scope::ScoresWrite => "scores:write",
            Scope::VarsWrite => "vars:write",
            Scope::LevelsModerate => "levels:moderate",
            Scope::Query => "query",
            Scope::Sql => "sql",
            Scope::Export => "export",
            Scope::PlayersDelete => "players:delete",
            Scope::Admin => "admin",
        }
    }
}

/// A set of scopes. Stored as their words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Scopes(u16);

impl Scopes {
    /// Every scope there is.
    pub const ALL: Scopes = Scopes((1 << 10) - 1);
    /// What a public key may do.
    pub const PUBLIC: Scopes = Scopes(Scope::EventsWrite as u16);

    /// Events, of any age.
    pub const IMPORT: Scopes = Scopes(Scope::EventsWrite as u16 | Scope::EventsImport as u16);

    /// Whether the scope is in the set. `admin` includes all others.
    pub fn contains(self, scope: Scope) -> bool {
        self.0 & (scope as u16 | Scope::Admin as u16) != 0
    }

    /// The set of these words.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Scopes, Refused> {
        let mut scopes = Scopes(0);
        for word in words {
            let found = Scope::ALL.into_iter().find(|scope| scope.label() == word);
            let known = || Scope::ALL.map(Scope::label).join(", ");
            let message = || format!("`{word}` is not a scope; there are: {}", known());
            scopes.0 |= found.ok_or_else(|| Refused::Invalid { field: "scopes", message: message() })? as u16;
        }
        Ok(scopes)
    }

    /// The words of the set.
    pub fn labels(self) -> Vec<&'static str> {
        Scope::ALL.into_iter().filter(|scope| self.0 & *scope as u16 != 0).map(Scope::label).collect()
    }
}

impl TryFrom<Vec<String>> for Scopes {
    type Error = Refused;

    fn try_from(words: Vec<String>) -> Result<Scopes, Refused> {
        Scopes::parse(words.iter().map(String::as_str))
    }
}

impl From<Scopes> for Vec<String> {
    fn from(scopes: Scopes) -> Vec<String> {
        scopes.labels().into_iter().map(str::to_owned).collect()
    }
}

/// A new secret key, shown once.
pub struct Secret {
    /// Names the key without giving it away.
    pub id: String,
    /// The whole key.
    pub text: String,
}

/// Which kind of credential a text looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// `pm_pk_...`
    Public,
    /// `pm_sk_...`
    Secret,
}

impl SecretKind {
    /// By the prefix alone.
    pub fn of(key: &str) -> Option<SecretKind> {
        match key.get(..6) {
            Some("pm_pk_") => Some(SecretKind::Public),
            Some("pm_sk_") => Some(SecretKind::Secret),
            _ => None,
        }
    }
}

impl Secret {
    /// 256 bits from the operating system.
    pub fn random() -> Secret {
        let id = random_text(12);
        let body = format!("pm_sk_{id}_{}", random_token());
        let text = format!("{body}_{:08x}", checksum(&body));
        Secret { id, text }
    }
}

/// The id inside a secret key whose checksum is right.
pub fn secret_id(key: &str) -> Option<&str> {
    let (body, crc) = key.strip_prefix("pm_sk_")?.rsplit_once('_')?;
    let (id, random) = body.split_once('_')?;
    let whole = &key[..key.len() - crc.len() - 1];
    let fits = id.len() == 12 && random.len() == 43 && crc == format!("{:08x}", checksum(whole));
    fits.then_some(id)
}

/// A key for clients.
pub fn new_public_key() -> String {
    format!("pm_pk_{}", random_text(22))
}

/// 43 characters with 256 random bits.
pub fn random_token() -> String {
    random_text(43)
}

/// SHA-256 in hexadecimal.
pub fn sha256_hex(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Lower-case letters, digits and `-`, 1 to 40 of them.
pub fn check_game_id(id: &str) -> Result<(), Refused> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=40).contains(&id.len()) && id.bytes().all(fits) {
        return Ok(());
    }
    let message = "1 to 40 lower-case letters, digits and `-`".to_owned();
    Err(Refused::Invalid { field: "id", message })
}

/// A zone of the IANA database.
pub fn check_time_zone(tz: &str) -> Result<(), Refused> {
    let message = |error: jiff::Error| format!("`{tz}` is not a time zone: {error}");
    jiff::tz::TimeZone::get(tz)
        .map(|_| ())
        .map_err(|error| Refused::Invalid { field: "tz", message: message(error) })
}

/// Random letters and digits, six bits each but for two values that are drawn again.
fn random_text(length: usize) -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut bytes = [0; 64];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        let letters = bytes.iter().filter_map(|byte| LETTERS.get((byte & 63) as usize));
        text.extend(letters.take(length - text.len()).map(|letter| *letter as char));
    }
    text
}

fn checksum(text: &str) -> u32 {
    let digest = Sha256::digest(text.as_bytes());
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}
