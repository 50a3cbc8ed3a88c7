//! TLS for accepted connections: a certificate and its key, as PEM files.
//!
//! The files are read at every start of the collector, so a renewed certificate is used after `collectors restart`.

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

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the files. The error names the setting of the file that is wrong.
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
    Ok(TlsAcceptor::from(Arc::new(config.context("tls_key: does not match the certificate")?)))
}

/// Performs the TLS handshake with a client.
pub(super) async fn handshake(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
) -> anyhow::Result<TlsStream<TcpStream>> {
    let accepted = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
    accepted.context("TLS handshake timed out")?.context("TLS handshake")
}
