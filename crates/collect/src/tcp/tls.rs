//! TLS in front of the streams that others open: a certificate and its key, as PEM files.
//!
//! They are read at every start of the collector, so that a renewed certificate holds after `collectors restart`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::settings::TlsFiles;

/// Both sides have to agree within this time.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// Reads the files. What is wrong with them names the key of the settings.
pub(crate) fn acceptor(files: &TlsFiles) -> anyhow::Result<TlsAcceptor> {
    let certificates = CertificateDer::pem_file_iter(&files.certificate).and_then(Iterator::collect);
    let certificates: Vec<_> =
        certificates.with_context(|| format!("tls_certificate: reading {}", files.certificate.display()))?;
    ensure!(!certificates.is_empty(), "tls_certificate: no certificate in {}", files.certificate.display());
    let key = PrivateKeyDer::from_pem_file(&files.key);
    let key = key.with_context(|| format!("tls_key: reading {}", files.key.display()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().context("tls_certificate")?;
    let config = config.with_no_client_auth().with_single_cert(certificates, key);
    Ok(TlsAcceptor::from(Arc::new(config.context("tls_key: it does not fit to the certificate")?)))
}

/// Agrees with who connects.
pub(super) async fn agree(acceptor: &TlsAcceptor, stream: TcpStream) -> anyhow::Result<TlsStream<TcpStream>> {
    let agreed = timeout(HANDSHAKE_WAIT, acceptor.accept(stream)).await;
    agreed.context("TLS was not agreed on in time")?.context("TLS")
}
