//! The certificate that clients are shown, and the state of its renewal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_acme::{ResolvesServerCertAcme, is_tls_alpn_challenge};
use tracing::error;
use x509_parser::extensions::GeneralName;

/// The certificate in use, and whether it could be renewed.
#[derive(Debug, Default)]
pub(crate) struct Certificate {
    current: ArcSwapOption<ParsedCertificate>,
    /// Answers the challenges of a certificate authority.
    challenges: ArcSwapOption<ResolvesServerCertAcme>,
    /// Why the last renewal failed; `None` after one that succeeded.
    failure: Mutex<Option<String>>,
    failures: AtomicU64,
    pub(crate) handshakes: HandshakeCounts,
}

/// Handshakes by outcome.
#[derive(Debug, Default)]
pub(crate) struct HandshakeCounts {
    pub(crate) completed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) rejected: AtomicU64,
}

/// A certificate with its key, and the facts that the server uses itself.
#[derive(Debug)]
pub(crate) struct ParsedCertificate {
    certified: Arc<CertifiedKey>,
    /// The first name that is not a pattern.
    name: Option<String>,
    /// Seconds since 1970.
    begins_s: i64,
    /// Seconds since 1970.
    pub(crate) expires_s: i64,
}

impl ParsedCertificate {
    pub(crate) fn parse(certified: CertifiedKey) -> anyhow::Result<ParsedCertificate> {
        let first = certified.end_entity_cert().context("no certificate")?;
        let (_, parsed) = x509_parser::parse_x509_certificate(first).context("parsing the certificate")?;
        let names = parsed.subject_alternative_name().ok().flatten();
        let names = names.iter().flat_map(|names| &names.value.general_names);
        let mut names = names.filter_map(|name| match name {
            GeneralName::DNSName(name) if !name.contains('*') => Some((*name).to_owned()),
            _ => None,
        });
        let name = names.next();
        let [begins_s, expires_s] =
            [parsed.validity().not_before, parsed.validity().not_after].map(|time| time.timestamp());
        Ok(ParsedCertificate { certified: Arc::new(certified), name, begins_s, expires_s })
    }
}

impl Certificate {
    /// Shows this certificate, which was renewed, to the clients from now on.
    pub(crate) fn replace(&self, certificate: ParsedCertificate) {
        self.show(certificate);
        self.clear_failure();
    }

    /// Shows this certificate, which may be an old one, to the clients from now on.
    pub(super) fn show(&self, certificate: ParsedCertificate) {
        self.current.store(Some(Arc::new(certificate)));
    }

    pub(super) fn clear_failure(&self) {
        *self.failure.lock() = None;
    }

    pub(super) fn set_challenges(&self, challenges: Arc<ResolvesServerCertAcme>) {
        self.challenges.store(Some(challenges));
    }

    /// Returns the answer to an HTTP-01 challenge with this token.
    pub(super) fn http_01(&self, token: &str) -> Option<String> {
        self.challenges.load().as_ref()?.get_http_01_key_auth(token)
    }

    /// Returns true if there is no certificate, or if two thirds of its time are over.
    pub(super) fn is_due(&self, now_s: i64) -> bool {
        self.current.load().as_ref().is_none_or(|current| {
            current.expires_s.saturating_sub(now_s) <= (current.expires_s - current.begins_s) / 3
        })
    }

    /// Records that there is no new certificate. The current one stays in use.
    pub(crate) fn report_failure(&self, why: &str) {
        error!("{why}; the server goes on with the certificate that it has");
        self.failures.fetch_add(1, Ordering::Relaxed);
        *self.failure.lock() = Some(why.to_owned());
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns what is wrong; `None` if clients are shown a valid certificate that could be renewed so far.
    pub(crate) fn problem(&self, now_s: i64) -> Option<String> {
        if let Some(why) = &*self.failure.lock() {
            return Some(why.clone());
        }
        match self.expires_s() {
            None => Some("there is no certificate yet".into()),
            Some(expires_s) if expires_s <= now_s => Some("the certificate has expired".into()),
            Some(_) => None,
        }
    }

    /// Returns when the certificate expires, in seconds since 1970.
    pub(crate) fn expires_s(&self) -> Option<i64> {
        self.current.load().as_ref().map(|current| current.expires_s)
    }

    pub(super) fn name(&self) -> Option<String> {
        self.current.load().as_ref()?.name.clone()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if is_tls_alpn_challenge(&hello) {
            return self.challenges.load().as_ref()?.resolve(hello);
        }
        self.current.load().as_ref().map(|current| Arc::clone(&current.certified))
    }
}
