//! The keys of an encrypted target, derived from a passphrase or a key file.

use std::fmt::{self, Debug, Formatter};

use anyhow::{anyhow, bail, ensure};
use argon2::{Algorithm, Argon2, Params, Version};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::installation::{hex, unhex};

/// The shortest passphrase.
const PASSPHRASE_MIN: usize = 12;
/// Memory of the key derivation in KiB, its passes and its lanes: the second recommendation of RFC 9106.
const ARGON2_KIB: u32 = 64 << 10;
const ARGON2_PASSES: u32 = 3;
const ARGON2_LANES: u32 = 4;
/// The most memory that a target may demand, in KiB.
const ARGON2_KIB_MAX: u32 = 1 << 20;

/// What encrypts the backups of a target.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Secret {
    /// A passphrase.
    Passphrase(String),
    /// 32 random bytes as 64 hexadecimal digits.
    Key(String),
}

impl Debug for Secret {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Reads a passphrase.
    ///
    /// # Errors
    ///
    /// If it is too short.
    pub fn passphrase(text: &str) -> anyhow::Result<Secret> {
        let text = text.trim_end_matches(['\r', '\n']);
        let is_long = text.chars().count() >= PASSPHRASE_MIN;
        ensure!(is_long, "the passphrase must have at least {PASSPHRASE_MIN} characters");
        Ok(Secret::Passphrase(text.to_owned()))
    }

    /// Reads the content of a key file.
    ///
    /// # Errors
    ///
    /// If it is not 64 hexadecimal digits.
    pub fn key(text: &str) -> anyhow::Result<Secret> {
        let text = text.trim();
        let is_key = unhex(text).is_some_and(|key| key.len() == 32);
        ensure!(is_key, "a key is 64 hexadecimal digits; `docs/howto/backup.md` shows how to create one");
        Ok(Secret::Key(text.to_ascii_lowercase()))
    }
}

/// How a target is encrypted, as stored beside its backups. It contains nothing secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Encryption {
    /// How the main key follows from the secret.
    derivation: Derivation,
    /// A value derived from the main key, to recognise a wrong secret.
    check: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Derivation {
    Argon2id { salt: String, kib: u32, passes: u32, lanes: u32 },
    KeyFile,
}

/// The keys that encrypt and name objects.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) encryption: [u8; 32],
    naming: [u8; 32],
}

impl Encryption {
    /// Chooses how a new target is encrypted.
    pub(crate) fn new(secret: &Secret) -> anyhow::Result<Encryption> {
        let derivation = match secret {
            Secret::Key(_) => Derivation::KeyFile,
            Secret::Passphrase(_) => {
                let (kib, passes, lanes) = (ARGON2_KIB, ARGON2_PASSES, ARGON2_LANES);
                Derivation::Argon2id { salt: hex(&random::<16>()?), kib, passes, lanes }
            }
        };
        let check = hex(&derive(&derivation.main_key(secret)?, "check"));
        Ok(Encryption { derivation, check })
    }

    /// Derives the keys of the target.
    pub(crate) fn keys(&self, secret: &Secret) -> anyhow::Result<Keys> {
        let main = self.derivation.main_key(secret)?;
        let is_right = hex(&derive(&main, "check")) == self.check;
        ensure!(is_right, "the backups are encrypted with another passphrase or key");
        Ok(Keys { encryption: derive(&main, "encryption"), naming: derive(&main, "naming") })
    }
}

impl Derivation {
    fn main_key(&self, secret: &Secret) -> anyhow::Result<[u8; 32]> {
        let mut main = [0; 32];
        match (self, secret) {
            (Derivation::KeyFile, Secret::Key(key)) => {
                let key = unhex(key).filter(|key| key.len() == 32);
                main.copy_from_slice(&key.ok_or_else(|| anyhow!("the key is not 64 hexadecimal digits"))?);
            }
            (Derivation::Argon2id { salt, kib, passes, lanes }, Secret::Passphrase(passphrase)) => {
                ensure!(*kib <= ARGON2_KIB_MAX, "the key derivation demands {kib} KiB of memory");
                let params = Params::new(*kib, *passes, *lanes, Some(32));
                let params = params.map_err(|error| anyhow!("the key derivation is not valid: {error}"))?;
                let salt = unhex(salt).ok_or_else(|| anyhow!("the salt is not hexadecimal"))?;
                let derived = Argon2::new(Algorithm::Argon2id, Version::V0x13, params).hash_password_into(
                    passphrase.as_bytes(),
                    &salt,
                    &mut main,
                );
                derived.map_err(|error| anyhow!("the key derivation failed: {error}"))?;
            }
            (Derivation::KeyFile, Secret::Passphrase(_)) => {
                bail!("the backups are encrypted with a key file, not with a passphrase")
            }
            (Derivation::Argon2id { .. }, Secret::Key(_)) => {
                bail!("the backups are encrypted with a passphrase, not with a key file")
            }
        }
        Ok(main)
    }
}

impl Keys {
    /// Returns the name of an object with this content. It tells nothing about the content without the key.
    pub(crate) fn name(&self, content: &[u8]) -> [u8; 32] {
        mac(&self.naming, content)
    }
}

fn derive(main: &[u8; 32], purpose: &str) -> [u8; 32] {
    mac(main, format!("playmeter backup {purpose}").as_bytes())
}

fn mac(key: &[u8; 32], content: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(content);
    mac.finalize().into_bytes().into()
}

/// Returns random bytes.
pub(crate) fn random<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("no random bytes: {error}"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_secret_gives_the_keys() {
        let secret = Secret::key(&"ab".repeat(32)).expect("a key");
        let encryption = Encryption::new(&secret).expect("it can be derived");
        let keys = encryption.keys(&secret).expect("it is the same secret");
        assert_ne!(keys.encryption, keys.naming);
        for other in [
            Secret::key(&"ac".repeat(32)).expect("a key"),
            Secret::passphrase("a long passphrase").expect("it is long enough"),
        ] {
            assert!(encryption.keys(&other).is_err());
        }
        let passphrase = Secret::passphrase("a long passphrase\n").expect("it is long enough");
        let encryption = Encryption::new(&passphrase).expect("it can be derived");
        assert!(encryption.keys(&passphrase).is_ok());
        assert!(encryption.keys(&Secret::passphrase("another passphrase").expect("long")).is_err());
        assert!(encryption.keys(&secret).is_err());
    }

    #[test]
    fn weak_secrets_are_rejected() {
        assert!(Secret::passphrase("short").is_err());
        assert!(Secret::key("abcd").is_err());
        assert!(Secret::key(&"zz".repeat(32)).is_err());
    }
}
