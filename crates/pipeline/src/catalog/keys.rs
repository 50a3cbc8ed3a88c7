//! Secret keys: create, list, rotate and revoke.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::error::{invalid, no_game, no_key};
use super::key_format::{self, SecretKey};
use super::{Catalog, CatalogError, Cidr, Scopes};

const KEYS_MAX: usize = 100_000;
const CIDRS_MAX: usize = 100;

/// A secret key as the catalog stores it, without the secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    /// The middle part of the key, which identifies it without revealing it.
    pub id: String,
    /// The game's number.
    pub game: u32,
    /// A description by the person who created it.
    pub label: String,
    /// The scopes of the key.
    pub scopes: Scopes,
    /// SHA-256 of the whole key, hexadecimal.
    pub sha256: String,
    /// The time of creation, in seconds since 1970.
    pub created_s: u64,
    /// The time from which the key is invalid, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_s: Option<u64>,
    /// The addresses from which the key may be used; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cidrs: Vec<Cidr>,
    /// The time of revocation, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_s: Option<u64>,
}

impl KeyRecord {
    pub(super) fn is_valid(&self, now_s: u64) -> bool {
        self.revoked_s.is_none() && self.expires_s.is_none_or(|end_s| now_s < end_s)
    }

    pub(super) fn may_be_used_from(&self, address: Option<IpAddr>) -> bool {
        let is_inside = |address| self.cidrs.iter().any(|cidr| cidr.contains(address));
        self.cidrs.is_empty() || address.is_some_and(is_inside)
    }
}

impl Catalog {
    /// Returns the secret keys of a game.
    pub fn keys(&self, game: &str) -> Result<Vec<KeyRecord>, CatalogError> {
        let number = self.game(game).ok_or_else(|| no_game(game))?.number;
        let current = self.current.load();
        Ok(current.file.keys.iter().filter(|key| key.game == number).cloned().collect())
    }

    /// Creates a secret key. The secret is returned here only and is not stored.
    pub fn create_key(
        &self,
        game: &str,
        label: &str,
        scopes: Scopes,
        expires_s: Option<u64>,
        cidrs: Vec<Cidr>,
        now_s: u64,
    ) -> Result<(String, KeyRecord), CatalogError> {
        if cidrs.len() > CIDRS_MAX {
            return Err(invalid("cidr", format!("a key must not have more than {CIDRS_MAX} address ranges")));
        }
        let secret = SecretKey::random();
        self.update(|file| {
            if file.keys.len() >= KEYS_MAX {
                return Err(invalid("game", format!("the limit of {KEYS_MAX} keys is reached")));
            }
            let game = file.game_mut(game)?.number;
            let record = KeyRecord {
                id: secret.id.clone(),
                game,
                label: label.to_owned(),
                scopes,
                sha256: key_format::sha256_hex(&secret.text),
                created_s: now_s,
                expires_s,
                cidrs,
                revoked_s: None,
            };
            file.keys.push(record.clone());
            Ok((secret.text.clone(), record))
        })
    }

    /// Creates a successor of a secret key with the same scopes. Both work until the old one is revoked.
    pub fn rotate_key(&self, id: &str, now_s: u64) -> Result<(String, KeyRecord), CatalogError> {
        let current = self.current.load();
        let old = current.secret.get(id).filter(|key| key.revoked_s.is_none()).ok_or_else(|| no_key(id))?;
        let game = current.games.get(&old.game).ok_or_else(|| no_key(id))?;
        self.create_key(&game.id, &old.label, old.scopes, old.expires_s, old.cidrs.clone(), now_s)
    }

    /// Revokes a secret key by its id, or an old public key by the key itself, at once.
    pub fn revoke_key(&self, id: &str, now_s: u64) -> Result<(), CatalogError> {
        self.update(|file| {
            if let Some(key) = file.keys.iter_mut().find(|key| key.id == id) {
                key.revoked_s.get_or_insert(now_s);
                return Ok(());
            }
            let mut games = file.games.iter_mut();
            let owner = games.find(|game| game.old_public_keys.iter().any(|key| key == id));
            let game = owner.ok_or_else(|| no_key(id))?;
            game.old_public_keys.retain(|key| key != id);
            Ok(())
        })
    }

    /// Returns the time of the last use of a secret key, in seconds since 1970, exact to the minute.
    pub fn last_used_s(&self, id: &str) -> Option<u64> {
        self.last_used.last_s(id)
    }

    /// Writes the times of the last use of keys to disk.
    pub fn save_last_used(&self) {
        self.last_used.write();
    }
}
