//! Settings of TLS.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use collect::TlsFiles;
use collect::net::read_certified_key;
use http::tls::{AcmeChallenge, AcmeSettings, CertificateSource, TlsSettings};
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
    /// A certificate authority instead of files.
    pub(crate) acme: RawAcme,
}

/// A certificate authority that issues and renews the certificate.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct RawAcme {
    /// The names of the certificate, which lead to this server. Empty: no authority is asked.
    #[serde(deserialize_with = "super::string_or_list")]
    pub(crate) domains: Vec<String>,
    /// Mail addresses under which the authority reaches you.
    #[serde(deserialize_with = "super::string_or_list")]
    pub(crate) contact: Vec<String>,
    /// The directory of the authority.
    pub(crate) directory_url: String,
    /// How the authority checks the names: `tls-alpn-01` on port 443, or `http-01` on port 80.
    pub(crate) challenge: String,
    /// A PEM file with the roots that the authority's own server is trusted by, instead of those of the system.
    pub(crate) ca_file: PathBuf,
}

impl Default for RawAcme {
    fn default() -> RawAcme {
        RawAcme {
            domains: Vec::new(),
            contact: Vec::new(),
            directory_url: "https://acme-v02.api.letsencrypt.org/directory".into(),
            challenge: "tls-alpn-01".into(),
            ca_file: PathBuf::new(),
        }
    }
}

impl RawAcme {
    fn resolve(&self, data: &Path, redirects: bool) -> anyhow::Result<AcmeSettings> {
        for domain in &self.domains {
            let is_allowed =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
            let is_name =
                domain.contains('.') && domain.bytes().all(is_allowed) && domain.parse::<IpAddr>().is_err();
            ensure!(
                is_name,
                "tls.acme.domains: `{domain}` is not a name such as stats.example, in lower case"
            );
        }
        let contact =
            self.contact.iter().map(|address| match address.strip_prefix("mailto:").unwrap_or(address) {
                address if address.contains('@') => Ok(format!("mailto:{address}")),
                _ => bail!("tls.acme.contact: `{address}` is not a mail address"),
            });
        ensure!(
            self.directory_url.starts_with("https://"),
            "tls.acme.directory_url: `{}` must begin with https://",
            self.directory_url
        );
        let ca_file = (!self.ca_file.as_os_str().is_empty()).then(|| self.ca_file.clone());
        if let Some(file) = &ca_file {
            ensure!(file.exists(), "tls.acme.ca_file: no such file: {}", file.display());
        }
        let challenge = match self.challenge.as_str() {
            "tls-alpn-01" => AcmeChallenge::TlsAlpn01,
            "http-01" => AcmeChallenge::Http01,
            other => bail!("tls.acme.challenge: `{other}` is not `tls-alpn-01` or `http-01`"),
        };
        ensure!(
            challenge == AcmeChallenge::TlsAlpn01 || redirects,
            "tls.acme.challenge: http-01 needs tls.redirect_listen, which port 80 leads to"
        );
        Ok(AcmeSettings {
            domains: self.domains.clone(),
            contact: contact.collect::<anyhow::Result<_>>()?,
            directory_url: self.directory_url.clone(),
            challenge,
            ca_file,
            folder: data.join("tls"),
        })
    }
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
            acme: RawAcme::default(),
        }
    }
}

impl RawTls {
    /// Returns the settings; `None` if there is no certificate.
    pub(super) fn resolve(&self, data: &Path) -> anyhow::Result<Option<TlsSettings>> {
        ensure!(self.handshakes_max > 0, "tls.handshakes_max: must be at least 1");
        ensure!(self.handshakes_per_address_max > 0, "tls.handshakes_per_address_max: must be at least 1");
        Ok(self.source(data)?.map(|source| TlsSettings {
            source,
            handshakes_max: self.handshakes_max,
            handshakes_per_address_max: self.handshakes_per_address_max,
            hsts_max_age: Duration::from_secs(self.hsts_max_age_s),
        }))
    }

    fn source(&self, data: &Path) -> anyhow::Result<Option<CertificateSource>> {
        let has_authority = !self.acme.domains.is_empty();
        match (self.certificate.as_os_str().is_empty(), self.key.as_os_str().is_empty()) {
            (true, true) if has_authority => {
                Ok(Some(CertificateSource::Acme(self.acme.resolve(data, !self.redirect_listen.is_empty())?)))
            }
            (true, true) => Ok(None),
            _ if has_authority => bail!("tls.acme.domains: set either these or tls.certificate and tls.key"),
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
            !self.certificate.as_os_str().is_empty() || !self.acme.domains.is_empty(),
            "tls.redirect_listen: there is no HTTPS to redirect to; set tls.certificate and tls.key, or \
             tls.acme.domains"
        );
        Ok(Some(address))
    }
}
