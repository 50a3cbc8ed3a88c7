//! Certificates from a certificate authority that speaks ACME (RFC 8555).
//!
//! `rustls-acme` implements the protocol. It has no time limits for its requests and may wait hours between attempts, so
//! an attempt that fails or hangs is dropped here and begun again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use async_trait::async_trait;
use futures_util::StreamExt;
use parking_lot::Mutex;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};
use rustls_acme::{AccountCache, AcmeConfig, AcmeState, CertCache, EventError, EventOk, UseChallenge};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{info, warn};

use pipeline::catalog::{read_private, replace_private};
use pipeline::shutdown::wait_for_stop;
use pipeline::time::now_s;

use super::certificate::{Certificate, ParsedCertificate};
use crate::hex::to_hex;

/// The protocol in the handshake of a challenge (RFC 8737).
pub(super) const CHALLENGE_ALPN: &[u8] = rustls_acme::acme::ACME_TLS_ALPN_NAME;

/// The time in which a certificate that is due must arrive.
const ATTEMPT: Duration = Duration::from_secs(300);
/// The time until the first repetition of an attempt, doubled after each.
const RETRY_MIN: Duration = Duration::from_secs(10);
/// The longest time between two attempts.
const RETRY_MAX: Duration = Duration::from_secs(3600);
/// How often a certificate that is not due is looked at.
const IDLE: Duration = Duration::from_secs(3600);
/// The longest reason that is logged.
const REASON_BYTES_MAX: usize = 600;

/// Settings of ACME.
#[derive(Clone, Debug)]
pub struct AcmeSettings {
    /// The names of the certificate; not empty.
    pub domains: Vec<String>,
    /// URLs under which the authority reaches the owner, such as `mailto:admin@stats.example`.
    pub contact: Vec<String>,
    /// The URL of the authority's directory.
    pub directory_url: String,
    /// How the authority checks that the names lead to this server.
    pub challenge: AcmeChallenge,
    /// A PEM file with the roots that the authority's own server is trusted by; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// The folder for the account and the certificates.
    pub folder: PathBuf,
}

/// How the authority checks that the names lead to this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// By a TLS handshake on port 443.
    TlsAlpn01,
    /// By a request to port 80.
    Http01,
}

/// Loads the last certificate, if there is one.
pub(super) fn load(settings: &AcmeSettings, certificate: &Arc<Certificate>) {
    Store::new(settings, Arc::clone(certificate)).load_certificate();
}

/// Orders and renews certificates until the server stops.
pub(super) async fn renew(
    settings: &AcmeSettings,
    certificate: &Arc<Certificate>,
    stopping: &mut watch::Receiver<bool>,
) {
    let store = Store::new(settings, Arc::clone(certificate));
    let mut retry = RETRY_MIN;
    loop {
        let failed = tokio::select! {
            () = wait_for_stop(stopping) => return,
            failed = attempt(settings, &store) => failed,
        };
        let Err(failure) = failed else {
            retry = RETRY_MIN;
            continue;
        };
        let why: String = format!("{failure:#}").chars().take(REASON_BYTES_MAX).collect();
        certificate.report_failure(&format!(
            "tls.acme: no certificate for {} from {}: {why}; the next attempt is in {} s",
            settings.domains.join(", "),
            settings.directory_url,
            retry.as_secs(),
        ));
        tokio::select! {
            () = wait_for_stop(stopping) => return,
            () = tokio::time::sleep(retry) => {}
        }
        retry = (retry * 2).min(RETRY_MAX);
    }
}

/// Keeps the certificate valid until an attempt to renew it fails. Returns after each new certificate.
async fn attempt(settings: &AcmeSettings, store: &Store) -> anyhow::Result<()> {
    let mut state = begin(settings, store)?;
    store.0.certificate.set_challenges(state.resolver());
    loop {
        let is_due = store.0.certificate.is_due(now_s() as i64);
        let Ok(event) = timeout(if is_due { ATTEMPT } else { IDLE }, state.next()).await else {
            ensure!(!is_due, "no certificate within {} s", ATTEMPT.as_secs());
            store.save_again();
            continue;
        };
        match event.context("the attempt ended")? {
            Ok(EventOk::DeployedNewCert) => {
                info!(domains = settings.domains.join(", "), "a new certificate was issued");
            }
            Ok(EventOk::CertCacheStore) => return Ok(()),
            Ok(EventOk::DeployedCachedCert | EventOk::AccountCacheStore) => {}
            // It is in use, and stored later.
            Err(EventError::CertCacheStore(failure)) => {
                let why = format!("tls.acme: the new certificate cannot be stored: {failure:#}");
                store.0.certificate.report_failure(&why);
            }
            Err(EventError::AccountCacheStore(failure)) => {
                warn!("tls.acme: the new account cannot be stored: {failure:#}");
            }
            Err(failure) => anyhow::bail!("{failure}"),
        }
    }
}

fn begin(settings: &AcmeSettings, store: &Store) -> anyhow::Result<AcmeState<anyhow::Error>> {
    let client = Arc::new(client(settings.ca_file.as_deref())?);
    let challenge = match settings.challenge {
        AcmeChallenge::TlsAlpn01 => UseChallenge::TlsAlpn01,
        AcmeChallenge::Http01 => UseChallenge::Http01,
    };
    let config = AcmeConfig::new_with_client_config(&settings.domains, client)
        .contact(&settings.contact)
        .directory(&settings.directory_url)
        .challenge_type(challenge);
    Ok(config.cache(store.clone()).state())
}

/// Returns the settings of connections to the authority.
fn client(ca_file: Option<&Path>) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        Some(file) => {
            let reading = || format!("tls.acme.ca_file: reading {}", file.display());
            for certificate in CertificateDer::pem_file_iter(file).with_context(reading)? {
                roots.add(certificate.with_context(reading)?).with_context(reading)?;
            }
        }
    }
    ensure!(!roots.is_empty(), "this machine trusts no certificate authority; install `ca-certificates`");
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().context("tls")?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// The account and the certificate, in files that only their owner can read.
#[derive(Clone)]
struct Store(Arc<StoreParts>);

struct StoreParts {
    folder: PathBuf,
    certificate_name: String,
    account_name: String,
    certificate: Arc<Certificate>,
    /// A certificate that could not be written.
    unsaved: Mutex<Option<Vec<u8>>>,
}

impl Store {
    /// Other names or another authority have files of their own.
    fn new(settings: &AcmeSettings, certificate: Arc<Certificate>) -> Store {
        let name = |kind: &str, parts: &[String]| {
            let mut hash = Sha256::new();
            for part in parts.iter().chain([&settings.directory_url]) {
                hash.update(part.as_bytes());
                hash.update([0]);
            }
            format!("{kind}-{}", to_hex(&hash.finalize()[..8]))
        };
        Store(Arc::new(StoreParts {
            folder: settings.folder.clone(),
            certificate_name: format!("{}.pem", name("certificate", &settings.domains)),
            account_name: format!("{}.pkcs8", name("account", &settings.contact)),
            certificate,
            unsaved: Mutex::default(),
        }))
    }

    fn read(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        read_private(&self.0.folder.join(name))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let folder = &self.0.folder;
        std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        replace_private(folder, name, bytes)
    }

    /// Loads the stored certificate and shows it to clients. One that cannot be used is ordered again.
    fn load_certificate(&self) -> Option<Vec<u8>> {
        let name = &self.0.certificate_name;
        let unsaved = self.0.unsaved.lock().clone();
        let stored = unsaved.map_or_else(|| self.read(name), |pem| Ok(Some(pem)));
        let loaded = stored.and_then(|pem| {
            pem.map(|pem| {
                self.0.certificate.show(parse(&pem)?);
                Ok(pem)
            })
            .transpose()
        });
        loaded.unwrap_or_else(|failure| {
            warn!(name, "tls.acme: the stored certificate is not used: {failure:#}");
            None
        })
    }

    fn save_certificate(&self, pem: &[u8]) -> anyhow::Result<()> {
        let written = self.write(&self.0.certificate_name, pem);
        *self.0.unsaved.lock() = written.is_err().then(|| pem.to_vec());
        written
    }

    /// Writes a certificate that could not be written before.
    fn save_again(&self) {
        let unsaved = self.0.unsaved.lock().clone();
        if let Some(pem) = unsaved
            && self.save_certificate(&pem).is_ok()
        {
            self.0.certificate.clear_failure();
        }
    }
}

/// Parses a private key that is followed by its certificate and the intermediate ones.
fn parse(pem: &[u8]) -> anyhow::Result<ParsedCertificate> {
    let key = PrivateKeyDer::from_pem_slice(pem).context("reading the key")?;
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.context("reading the certificates")?;
    let certified = CertifiedKey::from_der(certificates, key, &default_provider());
    ParsedCertificate::parse(certified.context("the key does not match the certificate")?)
}

#[async_trait]
impl CertCache for Store {
    type EC = anyhow::Error;

    async fn load_cert(&self, _: &[String], _: &str) -> anyhow::Result<Option<Vec<u8>>> {
        Ok(self.load_certificate())
    }

    async fn store_cert(&self, _: &[String], _: &str, pem: &[u8]) -> anyhow::Result<()> {
        self.0.certificate.replace(parse(pem)?);
        self.save_certificate(pem)
    }
}

#[async_trait]
impl AccountCache for Store {
    type EA = anyhow::Error;

    async fn load_account(&self, _: &[String], _: &str) -> anyhow::Result<Option<Vec<u8>>> {
        self.read(&self.0.account_name)
    }

    async fn store_account(&self, _: &[String], _: &str, key: &[u8]) -> anyhow::Result<()> {
        self.write(&self.0.account_name, key)
    }
}
