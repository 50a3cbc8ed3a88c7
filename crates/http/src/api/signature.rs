//! Signed requests: a player's session signs for its player only.
//!
//! `X-Playmeter-Signature: v1;SESSION;TIMESTAMP;NONCE;HMAC`, where HMAC is HMAC-SHA-256 (RFC 2104) in lower-case
//! hexadecimal, with the session's 32-byte key, over
//! `TIMESTAMP \n NONCE \n METHOD \n PATH \n SHA-256 of the body in lower-case hexadecimal`.
//!
//! Signatures prevent impersonation, replay and bulk scripts. They do not stop players who modify their own client,
//! which contains the key.

use hmac::{Hmac, KeyInit, Mac};
use hyper::http::request::Parts;
use liveops::RequestSignature;
use pipeline::catalog::Access;
use sha2::{Digest, Sha256};

use crate::AppState;
use crate::hex::{from_hex, to_hex};
use crate::problem::Problem;

/// The header that carries the signature.
pub(crate) const SIGNATURE_HEADER: &str = "X-Playmeter-Signature";
/// The largest accepted clock skew of a client, in seconds.
const CLOCK_S_MAX: i64 = 300;
const NONCE_BYTES: std::ops::RangeInclusive<usize> = 8..=64;

/// Verifies the signature of a request; `None` if it has no signature. Reuse of a nonce is rejected with the command.
pub(crate) fn verify_signature(
    shared: &AppState,
    access: &Access,
    head: &Parts,
    body: &[u8],
    now_ms: i64,
) -> Result<Option<RequestSignature>, Problem> {
    let Some(value) = head.headers.get(SIGNATURE_HEADER) else { return Ok(None) };
    let problem = |detail: &str| Problem::invalid_signature(detail).field(SIGNATURE_HEADER);
    let parts: Vec<&str> = value.to_str().unwrap_or_default().split(';').collect();
    let ["v1", session, timestamp, nonce, hmac] = parts[..] else {
        return Err(problem("must have the form `v1;SESSION;TIMESTAMP;NONCE;HMAC`"));
    };
    let at_s: i64 = timestamp.parse().map_err(|_| problem("the timestamp must be in seconds since 1970"))?;
    if (now_ms / 1000 - at_s).abs() > CLOCK_S_MAX {
        return Err(problem(
            "the timestamp is more than 300 s off; correct your clock with the `Date` of this response",
        ));
    }
    if !NONCE_BYTES.contains(&nonce.len()) || !nonce.bytes().all(is_nonce_byte) {
        return Err(problem("the nonce must be 8 to 64 letters, digits, `-` or `_`"));
    }
    let key = session_key(shared, access.game.number, session);
    let text = signed_text(timestamp, nonce, head.method.as_str(), head.uri.path(), body);
    let is_valid = from_hex(hmac).is_some_and(|hmac| verify(&key, text.as_bytes(), &hmac));
    let game = shared.views.liveops.game(access.game.number);
    let is_open = game.read().players.session(session, now_ms).is_some();
    // The same error for both, so that a client cannot find out which sessions exist.
    if !is_valid || !is_open {
        return Err(problem(
            "the signature does not match the request, or the session has expired; open a session with POST /v1/session",
        ));
    }
    Ok(Some(RequestSignature { session: session.to_owned(), nonce: nonce.to_owned() }))
}

/// Returns the key of a session. It is derived, so that neither the log nor a checkpoint contains it.
pub(crate) fn session_key(shared: &AppState, game: u32, session: &str) -> [u8; 32] {
    let secret = shared.catalog.id_secret();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(format!("session key {game} {session}").as_bytes());
    mac.finalize().into_bytes().into()
}

fn signed_text(timestamp: &str, nonce: &str, method: &str, path: &str, body: &[u8]) -> String {
    format!("{timestamp}\n{nonce}\n{method}\n{path}\n{}", to_hex(&Sha256::digest(body)))
}

/// Verifies an HMAC in constant time.
fn verify(key: &[u8], message: &[u8], hmac: &[u8]) -> bool {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.verify_slice(hmac).is_ok()
}

fn is_nonce_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test cases 1 and 2.
    #[test]
    fn hmac_matches_rfc_4231() {
        let check = |key: &[u8], message: &[u8], hmac: &str| {
            assert!(verify(key, message, &from_hex(hmac).unwrap()));
            assert!(!verify(key, b"something else", &from_hex(hmac).unwrap()));
            assert!(!verify(key, message, &from_hex(hmac).unwrap()[..31]), "a truncated HMAC is invalid");
        };
        let first = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        check(&[0x0b; 20], b"Hi There", first);
        let second = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        check(b"Jefe", b"what do ya want for nothing?", second);
    }

    /// The vectors of Project Wycheproof, if they are present: valid, modified and truncated tags.
    #[test]
    fn published_vectors_verify_as_expected() {
        let suites = std::env::var_os("PLAYMETER_SUITES").map_or_else(
            || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/suites"),
            std::path::PathBuf::from,
        );
        let path = suites.join("hmac/testvectors_v1/hmac_sha256_test.json");
        let Ok(text) = std::fs::read_to_string(path) else {
            testkit::skip::skip("hmac-vectors", "set PLAYMETER_SUITES to the folder that contains hmac");
            return;
        };
        let vectors: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        let mut checked = 0;
        for group in vectors["testGroups"].as_array().expect("groups") {
            let is_full_length = group["tagSize"] == 256;
            for vector in group["tests"].as_array().expect("tests") {
                let bytes =
                    |name: &str| from_hex(vector[name].as_str().expect("hexadecimal")).expect("hexadecimal");
                let expected = is_full_length && vector["result"] == "valid";
                assert_eq!(verify(&bytes("key"), &bytes("msg"), &bytes("tag")), expected, "{vector}");
                checked += 1;
            }
        }
        assert_eq!(Some(checked), vectors["numberOfTests"].as_u64());
    }
}
