//! Sign-ins of the owner in browsers.

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::file::CatalogFile;
use super::{Catalog, CatalogError, key_format};

/// The time in which a sign-in link must be used.
pub(super) const SIGN_IN_LINK_S: u64 = 15 * 60;
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
    /// Exchanges the token of a sign-in link for a session token, which goes into a cookie. A link works once, and for 15
    /// minutes after it was created.
    pub fn sign_in(&self, token: &str, now_s: u64) -> Result<String, CatalogError> {
        let token_sha256 = key_format::sha256_hex(token);
        let is_link = |file: &CatalogFile| {
            let is_same = bool::from(token_sha256.as_bytes().ct_eq(file.sign_in_sha256.as_bytes()));
            is_same && now_s < file.sign_in_expires_s
        };
        // A wrong token does not wait for writers.
        if !is_link(&self.current.load().file) {
            return Err(CatalogError::UnknownKey);
        }
        let session = key_format::random_token();
        let sha256 = key_format::sha256_hex(&session);
        self.update(|file| {
            if !is_link(file) {
                return Err(CatalogError::UnknownKey);
            }
            file.sign_in_sha256.clear();
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

    /// Creates the token of a new sign-in link. The previous link stops working; with `sign_out`, all signed-in browsers
    /// do, too.
    pub fn create_sign_in_link(&self, now_s: u64, sign_out: bool) -> Result<String, CatalogError> {
        let token = key_format::random_token();
        let sha256 = key_format::sha256_hex(&token);
        self.update(|file| {
            file.sign_in_sha256 = sha256;
            file.sign_in_expires_s = now_s + SIGN_IN_LINK_S;
            if sign_out {
                file.sign_ins.clear();
            }
            Ok(())
        })?;
        Ok(token)
    }
}
