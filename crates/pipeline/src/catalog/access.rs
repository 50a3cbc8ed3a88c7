//! Access: the rights of a request, from its credential alone.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use model::batch::KeyClass;
use subtle::ConstantTimeEq;

use super::{Catalog, CatalogError, Game, Scope, Scopes, key_format};

/// The rights of a credential in one game.
#[derive(Clone, Debug)]
pub struct Access {
    /// The game.
    pub game: Arc<Game>,
    /// The class of the key. Public keys are in every client; secret keys are not.
    pub class: KeyClass,
    /// The scopes of the key.
    pub scopes: Scopes,
    /// The request comes from a person signed in to the dashboard, not from a key.
    pub person: bool,
    /// A number that differs between credentials, for limits per key.
    pub key: u64,
}

impl Catalog {
    /// Returns the rights of a key for a request from this address.
    pub fn access(&self, key: &str, address: Option<IpAddr>, now_s: u64) -> Result<Access, CatalogError> {
        let current = self.current.load();
        if key.starts_with("pm_pk_") {
            let game = current.public.get(key).cloned().ok_or(CatalogError::UnknownKey)?;
            return Ok(Access::public(game));
        }
        let id = key_format::secret_id(key).ok_or(CatalogError::UnknownKey)?;
        let record = current.secret.get(id).ok_or(CatalogError::UnknownKey)?;
        let is_same: bool = key_format::sha256_hex(key).as_bytes().ct_eq(record.sha256.as_bytes()).into();
        let is_valid = is_same && record.is_valid(now_s);
        let game = current.games.get(&record.game).filter(|_| is_valid).cloned();
        let game = game.ok_or(CatalogError::UnknownKey)?;
        if !record.may_be_used_from(address) {
            return Err(CatalogError::Address);
        }
        self.last_used.record(id, now_s);
        let (class, key) = (KeyClass::Secret, credential_number(id));
        Ok(Access { game, class, scopes: record.scopes, person: false, key })
    }
}

impl Access {
    /// Returns the rights of a game's public key.
    pub fn public(game: Arc<Game>) -> Access {
        let key = credential_number(&game.public_key);
        Access { game, class: KeyClass::Public, scopes: Scopes::PUBLIC, person: false, key }
    }

    /// Returns the rights of the server itself in a game.
    pub fn server(game: Arc<Game>) -> Access {
        Access { game, class: KeyClass::Secret, scopes: Scopes::ALL, person: false, key: 0 }
    }

    /// Returns the rights of a collector in the server's settings: to send events, of any age if `import` is true.
    pub fn collector(game: Arc<Game>, name: &str, import: bool) -> Access {
        let scopes = if import { Scopes::IMPORT } else { Scopes::PUBLIC };
        Access { game, class: KeyClass::Secret, scopes, person: false, key: credential_number(name) }
    }

    /// Returns true if the credential has the scope.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(scope)
    }
}

/// Returns a number that differs between credentials. Keys are random, so the hash needs no secret.
fn credential_number(key: &str) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Returns the unit of limits per address: an IPv4 address, or the /64 of an IPv6 address.
pub fn address_group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address => address,
    }
}
