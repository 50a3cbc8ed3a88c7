//! Signed requests: a player's session speaks for its player and for nobody else.
//!
//! `X-Playmeter-Signature: v1;SESSION;TIMESTAMP;NONCE;HMAC`, where HMAC is HMAC-SHA-256 (RFC 2104) in lower-case
//! hexadecimal, with the session's 32-byte key, over
//! `TIMESTAMP \n NONCE \n METHOD \n PATH \n SHA-256 of the body in lower-case hexadecimal`.
//!
//! This stops other people's names, replay and bulk scripts. It does not stop a player who changes his own client: the
//! key is there.

use hmac::{Hmac, KeyInit, Mac};
use hyper::http::request::Parts;
use liveops::RequestSignature;
use sha2::{Digest, Sha256};

use super::commands::hex;
use crate::AppState;
use crate::problem::Problem;
use pipeline::catalog::Access;

/// The header.
pub const HEADER: &str = "X-Playmeter-Signature";
/// How far a client's clock may be off, in seconds.
const CLOCK_S_MAX: i64 = 300;
const NONCE_BYTES: std::ops::RangeInclusive<usize> = 8..=64;

/// The signature of a request, if it has one and it is right. That its nonce is new is decided with the command.
pub fn check(
    shared: &AppState,
    access: &Access,
    head: &Parts,
    body: &[u8],
    now_ms: i64,
) -> Result<Option<RequestSignature>, Problem> {
    let Some(value) = head.headers.get(HEADER) else { return Ok(None) };
    let problem = |detail: &str| Problem::signature(detail).field(HEADER);
    let parts: Vec<&str> = value.to_str().unwrap_or_default().split(';').collect();
    let ["v1", session, timestamp, nonce, hmac] = parts[..] else {
        return Err(problem("it reads `v1;SESSION;TIMESTAMP;NONCE;HMAC`"));
    };
    let at_s: i64 = timestamp.parse().map_err(|_| problem("its time is in seconds since 1970"))?;
    if (now_ms / 1000 - at_s).abs() > CLOCK_S_MAX {
        return Err(problem(
            "its time is more than 300 s off; correct the clock by the `Date` of this answer",
        ));
    }
    if !NONCE_BYTES.contains(&nonce.len()) || !nonce.bytes().all(is_word) {
        return Err(problem("its nonce has 8 to 64 letters, digits, `-` or `_`"));
    }
    let key = key(shared, access.game.number, session);
    let text = message(timestamp, nonce, head.method.as_str(), head.uri.path(), body);
    let right = unhex(hmac).is_some_and(|hmac| verify(&key, text.as_bytes(), &hmac));
    let game = shared.views.liveops.game(access.game.number);
    let is_open = game.read().players.session(session, now_ms).is_some();
    // One answer for all: nobody learns which sessions there are.
    if !right || !is_open {
        return Err(problem(
            "it does not fit the request, or the session is over; open one with POST /v1/session",
        ));
    }
    Ok(Some(RequestSignature { session: session.to_owned(), nonce: nonce.to_owned() }))
}

/// The key of a session. Derived, so that neither the log nor a checkpoint holds it.
pub fn key(shared: &AppState, game: u32, session: &str) -> [u8; 32] {
    let secret = shared.catalog.id_secret();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(format!("session key {game} {session}").as_bytes());
    mac.finalize().into_bytes().into()
}

fn message(timestamp: &str, nonce: &str, method: &str, path: &str, body: &[u8]) -> String {
    format!("{timestamp}\n{nonce}\n{method}\n{path}\n{}", hex(&Sha256::digest(body)))
}

/// Compares in constant time.
fn verify(key: &[u8], message: &[u8], hmac: &[u8]) -> bool {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.verify_slice(hmac).is_ok()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// The bytes of lower-case hexadecimal digits.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    if text.len() % 2 == 1 {
        return None;
    }
    text.as_bytes().chunks_exact(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test cases 1 and 2.
    #[test]
    fn the_hmac_is_that_of_the_rfc() {
        let check = |key: &[u8], message: &[u8], hmac: &str| {
            assert!(verify(key, message, &unhex(hmac).unwrap()));
            assert!(!verify(key, b"something else", &unhex(hmac).unwrap()));
            assert!(!verify(key, message, &unhex(hmac).unwrap()[..31]), "a part is not the whole");
        };
        let first = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        check(&[0x0b; 20], b"Hi There", first);
        let second = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        check(b"Jefe", b"what do ya want for nothing?", second);
    }

    /// The vectors of Project Wycheproof, where they are there: valid and modified ones, and tags that were cut short.
    #[test]
    fn the_published_vectors_are_told_apart() {
        let suites = std::env::var_os("PLAYMETER_SUITES").map_or_else(
            || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/suites"),
            std::path::PathBuf::from,
        );
        let path = suites.join("hmac/testvectors_v1/hmac_sha256_test.json");
        let Ok(text) = std::fs::read_to_string(path) else {
            eprintln!("SKIPPED: the vectors are not there");
            return;
        };
        let vectors: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let mut seen = 0;
        for group in vectors["testGroups"].as_array().expect("groups") {
            let is_whole = group["tagSize"] == 256;
            for vector in group["tests"].as_array().expect("tests") {
                let bytes =
                    |name: &str| unhex(vector[name].as_str().expect("hexadecimal")).expect("hexadecimal");
                let expected = is_whole && vector["result"] == "valid";
                assert_eq!(verify(&bytes("key"), &bytes("msg"), &bytes("tag")), expected, "{vector}");
                seen += 1;
            }
        }
        assert_eq!(Some(seen), vectors["numberOfTests"].as_u64());
    }

    #[test]
    fn only_lower_case_hexadecimal_is_read() {
        assert_eq!(unhex("00ff1a"), Some(vec![0, 255, 26]));
        for text in ["0", "0g", "FF", "é0"] {
            assert_eq!(unhex(text), None, "{text}");
        }
    }
}
