//! Sign-ins of the owner in browsers.

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::{Catalog, CatalogError, key_format};

/// The lifetime of a sign-in.
pub(super) const SIGN_IN_S: u64 = 30 * 24 * 3600;
/// Concurrent sign-ins; above this, the oldest ends.
const SIGN_INS_MAX: usize = 1_000;

/// A signed-in browser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignIn {
    sha256: String,
    expires_s: u64,
}

impl Catalog {
    /// Exchanges the owner's sign-in token for a session token, which goes into a cookie.
    pub fn sign_in(&self, token: &str, now_s: u64) -> Result<String, CatalogError> {
        let expected = self.current.load().file.sign_in_sha256.clone();
        if !bool::from(key_format::sha256_hex(token).as_bytes().ct_eq(expected.as_bytes())) {
            return Err(CatalogError::UnknownKey);
        }
        let session = key_format::random_token();
        let sha256 = key_format::sha256_hex(&session);
        self.update(|file| {
            file.sign_ins.retain(|sign_in| sign_in.expires_s > now_s);
            if file.sign_ins.len() >= SIGN_INS_MAX {
                file.sign_ins.remove(0);
            }
            file.sign_ins.push(SignIn { sha256, expires_s: now_s + SIGN_IN_S });
            Ok(())
        })?;
        Ok(session)
    }

    /// Ends the session of a signed-in browser.
    pub fn sign_out(&self, session: &str) -> Result<(), CatalogError> {
        let sha256 = key_format::sha256_hex(session);
        self.update(|file| {
            file.sign_ins.retain(|sign_in| sign_in.sha256 != sha256);
            Ok(())
        })
    }

    /// Returns true if this session token belongs to the signed-in owner.
    pub fn is_signed_in(&self, session: &str, now_s: u64) -> bool {
        let sha256 = key_format::sha256_hex(session);
        let current = self.current.load();
        let mut sign_ins = current.file.sign_ins.iter();
        sign_ins.any(|sign_in| {
            sign_in.expires_s > now_s && bool::from(sign_in.sha256.as_bytes().ct_eq(sha256.as_bytes()))
        })
    }

    /// Creates a new sign-in token and ends the old one and all signed-in browsers.
    pub fn rotate_sign_in(&self) -> Result<String, CatalogError> {
        let token = key_format::random_token();
        let sha256 = key_format::sha256_hex(&token);
        self.update(|file| {
            file.sign_in_sha256 = sha256;
            file.sign_ins.clear();
            Ok(())
        })?;
        Ok(token)
    }
}
