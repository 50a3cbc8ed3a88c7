//! TLS for accepted connections: a certificate and its key, as PEM files.
//!
//! The files are read at every start of the collector, so a renewed certificate is used after `collectors restart`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::sign::SingleCertAndKey;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::net::read_certified_key;
use crate::settings::TlsFiles;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the files. The error names the setting of the file that is wrong.
pub(crate) fn acceptor(files: &TlsFiles) -> anyhow::Result<TlsAcceptor> {
    let certified = read_certified_key(files, "tls_")?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().context("tls_certificate")?;
    let config = config.with_no_client_auth().with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Performs the TLS handshake with a client.
pub(super) async fn handshake(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
) -> anyhow::Result<TlsStream<TcpStream>> {
    let accepted = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
    accepted.context("TLS handshake timed out")?.context("TLS handshake")
}
