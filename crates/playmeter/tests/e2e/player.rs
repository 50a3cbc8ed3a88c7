//! A player session as a client uses it: opened with the public key, its own key signs requests.

use std::sync::atomic::{AtomicU64, Ordering};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::client::Request;
use crate::world::{World, now_ms};

/// The parts of a signature; tests change one of them to forge it.
#[derive(Clone)]
pub(crate) struct Session {
    pub id: String,
    pub player: String,
    pub key: Vec<u8>,
    pub public_key: String,
}

impl Session {
    /// Opens a session over HTTP.
    pub(crate) fn open(world: &World, player: &str) -> Session {
        let body = format!(r#"{{"player":"{player}","name":"{}"}}"#, player.to_uppercase());
        let request = Request::new("POST", "/v1/session").key(&world.public_key).body(body);
        let answer = world.send(&request);
        assert_eq!(answer.status, 201, "{}", answer.text());
        let session = answer.json();
        let text = |field: &str| session[field].as_str().expect("it is text").to_owned();
        Session {
            id: text("session"),
            player: text("player"),
            key: from_base64url(&text("key")),
            public_key: world.public_key.clone(),
        }
    }

    /// A request signed now with a new nonce.
    pub(crate) fn signed(&self, method: &'static str, target: &str, body: &str) -> Request {
        self.signed_at(now_ms() / 1000, &nonce(), method, target, body)
    }

    /// A request signed at this time with this nonce.
    pub(crate) fn signed_at(
        &self,
        at_s: i64,
        nonce: &str,
        method: &'static str,
        target: &str,
        body: &str,
    ) -> Request {
        let path = target.split('?').next().expect("a path");
        let signature = self.signature_at(at_s, nonce, method, path, body);
        let request = Request::new(method, target).key(&self.public_key).body(body);
        request.header("X-Playmeter-Signature", &signature)
    }

    /// A signature made now with a new nonce.
    pub(crate) fn signature(&self, method: &str, path: &str, body: &str) -> String {
        self.signature_at(now_ms() / 1000, &nonce(), method, path, body)
    }

    fn signature_at(&self, at_s: i64, nonce: &str, method: &str, path: &str, body: &str) -> String {
        let message = format!("{at_s}\n{nonce}\n{method}\n{path}\n{}", hex(&Sha256::digest(body)));
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("any key");
        mac.update(message.as_bytes());
        let hmac = hex(&mac.finalize().into_bytes());
        format!("v1;{};{at_s};{nonce};{hmac}", self.id)
    }
}

/// A nonce that was not used before.
fn nonce() -> String {
    static NONCE: AtomicU64 = AtomicU64::new(0);
    format!("nonce-{:08}", NONCE.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_base64url(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'-' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for group in text.as_bytes().chunks(4) {
        let word = group.iter().fold(0u32, |word, byte| word << 6 | u32::from(digit(*byte)));
        let word = word << (6 * (4 - group.len()));
        bytes.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    bytes
}
