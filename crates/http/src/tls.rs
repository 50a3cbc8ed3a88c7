//! TLS of the listener: handshakes within limits, with a certificate that is replaced while the server runs.

mod acme;
mod certificate;
mod files;

use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use hyper::header::HeaderValue;
use rustls::ServerConfig;
use rustls::crypto::ring::{Ticketer, default_provider};
use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use collect::TlsFiles;
use collect::net::{ConnectionLimits, Connections};
use pipeline::shutdown::wait_for_stop;

use crate::client_stream::{ClientStream, TlsClientStream};

pub use acme::{AcmeChallenge, AcmeSettings};
pub(crate) use certificate::Certificate;
use files::FileVersions;

/// The time in which a client must complete the handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// The protocols of the listener, the preferred one first, and that of challenges.
const PROTOCOLS: [&[u8]; 3] = [b"h2", b"http/1.1", acme::CHALLENGE_ALPN];
/// The time until the renewal begins again after a panic.
const AFTER_PANIC: Duration = Duration::from_secs(60);
/// The response to a client that sends HTTP without TLS.
const NOT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 37\r\n\
    Connection: close\r\n\r\nThis port speaks HTTPS: use https://\r\n";

/// Settings of TLS.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// Where the certificate comes from.
    pub source: CertificateSource,
    /// Handshakes in progress, in total.
    pub handshakes_max: usize,
    /// Handshakes in progress with one address (IPv6: one /64). Behind a proxy only the total is limited.
    pub handshakes_per_address_max: usize,
    /// How long browsers use HTTPS only for this host; zero to let them use HTTP.
    pub hsts_max_age: Duration,
}

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// PEM files, which are read again when they change.
    Files(TlsFiles),
    /// A certificate authority.
    Acme(AcmeSettings),
}

/// Terminates TLS.
pub struct Tls {
    acceptor: TlsAcceptor,
    handshakes: Arc<Connections>,
    hsts: Option<HeaderValue>,
    source: CertificateSource,
    /// The versions of the files that were read first.
    versions: FileVersions,
    pub(crate) certificate: Arc<Certificate>,
}

impl Tls {
    /// Reads the certificate.
    ///
    /// # Errors
    /// A file cannot be used; the error names its setting.
    pub fn open(settings: &TlsSettings) -> anyhow::Result<Arc<Tls>> {
        let certificate = Arc::new(Certificate::default());
        let versions = match &settings.source {
            CertificateSource::Files(files) => {
                let versions = files::versions(files);
                certificate.replace(files::read(files)?);
                versions
            }
            CertificateSource::Acme(settings) => {
                acme::load(settings, &certificate);
                FileVersions::default()
            }
        };
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions().context("tls")?;
        let mut config = config.with_no_client_auth().with_cert_resolver(Arc::clone(&certificate) as _);
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        // Sessions are resumed without memory on the server.
        config.ticketer = Ticketer::new().context("tls")?;
        let limits = ConnectionLimits {
            total: settings.handshakes_max,
            per_address: settings.handshakes_per_address_max,
            subscriptions_per_credential_max: 0,
        };
        let seconds = settings.hsts_max_age.as_secs();
        let hsts = HeaderValue::try_from(format!("max-age={seconds}")).ok();
        Ok(Arc::new(Tls {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            handshakes: Connections::new(limits),
            hsts: hsts.filter(|_| seconds > 0),
            source: settings.source.clone(),
            versions,
            certificate,
        }))
    }

    /// Starts the thread that renews the certificate.
    pub fn start(&self, stopping: watch::Receiver<bool>) -> anyhow::Result<JoinHandle<()>> {
        let (certificate, versions) = (Arc::clone(&self.certificate), self.versions);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("starting a runtime")?;
        // Registered before the server is ready: a signal without a handler would end the process.
        let mut hangup = {
            let _entered = runtime.enter();
            signal(SignalKind::hangup()).context("listening for SIGHUP")?
        };
        let source = self.source.clone();
        let work = move || {
            loop {
                let mut stop = stopping.clone();
                let renewing = AssertUnwindSafe(|| match &source {
                    CertificateSource::Files(files) => {
                        runtime.block_on(files::reload(
                            files,
                            versions,
                            &certificate,
                            &mut hangup,
                            &mut stop,
                        ));
                    }
                    CertificateSource::Acme(settings) => {
                        runtime.block_on(acme::renew(settings, &certificate, &mut stop));
                    }
                });
                // A defect of the renewal must not end it until the certificate has expired.
                if catch_unwind(renewing).is_ok() {
                    return;
                }
                certificate.report_failure("tls: renewing the certificate panicked");
                let mut stop = stopping.clone();
                let stopped =
                    runtime.block_on(async { timeout(AFTER_PANIC, wait_for_stop(&mut stop)).await });
                if stopped.is_ok() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("tls".into()).spawn(work).context("starting a thread")
    }

    /// Returns the first name that the certificate has or will have and that is not a pattern; `None` if there is none.
    pub fn name(&self) -> Option<String> {
        match &self.source {
            CertificateSource::Files(_) => self.certificate.name(),
            CertificateSource::Acme(settings) => settings.domains.first().cloned(),
        }
    }

    /// Returns the answer to an HTTP-01 challenge with this token.
    pub(crate) fn http_01(&self, token: &str) -> Option<String> {
        self.certificate.http_01(token)
    }

    /// Returns the value of `Strict-Transport-Security`.
    pub(crate) fn hsts(&self) -> Option<HeaderValue> {
        self.hsts.clone()
    }

    /// Performs the handshake with a client, whose address is `None` behind a proxy.
    pub(crate) async fn accept(
        &self,
        stream: ClientStream,
        client: Option<IpAddr>,
    ) -> io::Result<TlsClientStream> {
        let counts = &self.certificate.handshakes;
        let admitted = match client {
            Some(address) => self.handshakes.admit(address),
            None => self.handshakes.admit_proxy(),
        };
        let Some(_admitted) = admitted else {
            counts.rejected.fetch_add(1, Ordering::Relaxed);
            return Err(io::Error::other("too many TLS handshakes in progress"));
        };
        let accepted = timeout(HANDSHAKE, self.handshake(stream)).await.unwrap_or_else(|_| {
            Err(io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake took too long"))
        });
        let count = match &accepted {
            Ok(_) => &counts.completed,
            Err(failure) if failure.kind() == io::ErrorKind::TimedOut => &counts.timed_out,
            Err(_) => &counts.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        accepted
    }

    async fn handshake(&self, mut stream: ClientStream) -> io::Result<TlsClientStream> {
        match stream.peek().await? {
            None => Err(io::ErrorKind::UnexpectedEof.into()),
            // The first letter of a method. A handshake begins with 22.
            Some(b'A'..=b'Z') => {
                stream.write_all(NOT_TLS).await?;
                stream.shutdown().await?;
                Err(io::Error::other("the client sent HTTP without TLS"))
            }
            Some(_) => {
                let mut stream = self.acceptor.accept(stream).await?;
                if stream.get_ref().1.alpn_protocol() == Some(acme::CHALLENGE_ALPN) {
                    stream.shutdown().await?;
                    return Err(io::Error::other("a challenge of the certificate authority was answered"));
                }
                Ok(stream)
            }
        }
    }
}
