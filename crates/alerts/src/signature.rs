//! Signatures of webhooks, as in the specification Standard Webhooks.
//!
//! The signed text is `<id>.<seconds>.<body>`; the key is the secret without `whsec_`, decoded from base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";
const NEW_BYTES: usize = 32;

/// Returns a new secret.
///
/// # Errors
/// If the operating system provides no random bytes.
pub fn new_secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0; NEW_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{PREFIX}{}", STANDARD.encode(bytes)))
}

/// Returns the value of `webhook-signature`; `None` if the secret is not valid.
pub(crate) fn sign(secret: &str, id: &str, seconds: u64, body: &[u8]) -> Option<String> {
    let key = STANDARD.decode(secret.strip_prefix(PREFIX)?).ok()?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body);
    Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    #[test]
    fn signature_is_that_of_the_specification() {
        let signed = sign(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signed.as_deref(), Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
    }

    #[test]
    fn new_secrets_differ_and_can_sign() {
        let [one, other] = [(); 2].map(|()| new_secret().expect("random bytes"));
        assert_ne!(one, other);
        assert!(sign(&one, "a", 1, b"").is_some());
    }
}
