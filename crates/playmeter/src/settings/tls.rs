//! Settings of TLS.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use collect::TlsFiles;
use collect::net::read_certified_key;
use http::tls::{CertificateSource, TlsSettings};
use serde::{Deserialize, Serialize};

use super::listen::ListenAddress;

/// TLS of the listener. Without a certificate the listener speaks HTTP.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct RawTls {
    /// A PEM file with the certificate, followed by its intermediate certificates.
    pub(crate) certificate: PathBuf,
    /// A PEM file with the private key. Both files are read again when they change, and on SIGHUP.
    pub(crate) key: PathBuf,
    /// An address for HTTP, usually port 80, where every request is redirected to HTTPS; empty for none.
    pub(crate) redirect_listen: String,
    /// Seconds for which browsers use HTTPS only; 0 to let them use HTTP.
    pub(crate) hsts_max_age_s: u64,
    /// Handshakes in progress; beyond that, connections are closed.
    pub(crate) handshakes_max: usize,
    /// Handshakes in progress with one address (IPv6: one /64). Behind a proxy only the total is limited.
    pub(crate) handshakes_per_address_max: usize,
}

impl Default for RawTls {
    fn default() -> RawTls {
        RawTls {
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            redirect_listen: String::new(),
            hsts_max_age_s: 365 * 24 * 3600,
            handshakes_max: 1_000,
            handshakes_per_address_max: 64,
        }
    }
}

impl RawTls {
    /// Returns the settings; `None` if there is no certificate.
    pub(super) fn resolve(&self) -> anyhow::Result<Option<TlsSettings>> {
        ensure!(self.handshakes_max > 0, "tls.handshakes_max: must be at least 1");
        ensure!(self.handshakes_per_address_max > 0, "tls.handshakes_per_address_max: must be at least 1");
        Ok(self.source()?.map(|source| TlsSettings {
            source,
            handshakes_max: self.handshakes_max,
            handshakes_per_address_max: self.handshakes_per_address_max,
            hsts_max_age: Duration::from_secs(self.hsts_max_age_s),
        }))
    }

    fn source(&self) -> anyhow::Result<Option<CertificateSource>> {
        match (self.certificate.as_os_str().is_empty(), self.key.as_os_str().is_empty()) {
            (true, true) => Ok(None),
            (true, false) => bail!("tls.certificate: set it together with tls.key"),
            (false, true) => bail!("tls.key: set it together with tls.certificate"),
            (false, false) => {
                let files = TlsFiles { certificate: self.certificate.clone(), key: self.key.clone() };
                read_certified_key(&files, "tls.")?;
                Ok(Some(CertificateSource::Files(files)))
            }
        }
    }

    /// Returns the address that redirects to HTTPS.
    pub(super) fn redirect_listen(&self) -> anyhow::Result<Option<std::net::SocketAddr>> {
        if self.redirect_listen.is_empty() {
            return Ok(None);
        }
        let address = self.redirect_listen.parse::<ListenAddress>().map_err(anyhow::Error::msg);
        let address = address.and_then(|address| address.resolve()).context("tls.redirect_listen")?;
        ensure!(
            !self.certificate.as_os_str().is_empty(),
            "tls.redirect_listen: there is no HTTPS to redirect to; set tls.certificate and tls.key"
        );
        Ok(Some(address))
    }
}
