//! Sends one request to a URL that a user has written.
//!
//! The name is resolved once; every address is checked, and a checked one is connected to. Redirects are not followed, no
//! proxy is used, and of a response only its status and the beginning of an error are read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::AlertSettings;

/// The time until a connection is open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for everything: the name, the connection, the request and the response.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 2;
/// What is read of an error.
const EXCERPT_BYTES: usize = 512;
const EXCERPT_CHARS: usize = 160;
/// Bytes of a response's head.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Why a notification was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    /// True if another attempt would fail, too.
    pub(crate) is_final: bool,
}

impl Failure {
    pub(crate) fn retryable(reason: impl Into<String>) -> Failure {
        Failure { reason: reason.into(), is_final: false }
    }

    pub(crate) fn last(reason: impl Into<String>) -> Failure {
        Failure { reason: reason.into(), is_final: true }
    }
}

/// A client for requests to URLs of users.
pub(crate) struct HttpClient {
    settings: AlertSettings,
    tls: TlsConnector,
}

/// A request with JSON.
pub(crate) struct JsonRequest<'a> {
    pub(crate) url: &'a str,
    /// Names and values of headers besides the usual ones.
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpClient {
    /// Creates a client that trusts the certificates of the system and those in `ca_file`.
    pub(crate) fn new(settings: &AlertSettings) -> anyhow::Result<HttpClient> {
        let mut roots = RootCertStore::empty();
        let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(file) = &settings.ca_file {
            let reading = || format!("alerts.ca_file: reading {}", file.display());
            for certificate in CertificateDer::pem_file_iter(file).with_context(reading)? {
                roots.add(certificate.with_context(reading)?).with_context(reading)?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config.context("tls")?.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(HttpClient { settings: settings.clone(), tls: TlsConnector::from(Arc::new(config)) })
    }

    /// Sends a request. Succeeds if the response has a status from 200 to 299.
    pub(crate) async fn post(&self, request: JsonRequest<'_>) -> Result<(), Failure> {
        let late = || Failure::retryable(format!("no response within {} s", TOTAL_TIMEOUT.as_secs()));
        timeout(TOTAL_TIMEOUT, self.exchange(request)).await.map_err(|_| late())?
    }

    async fn exchange(&self, request: JsonRequest<'_>) -> Result<(), Failure> {
        let uri: Uri = request.url.parse().map_err(|_| Failure::last("the URL is not valid"))?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let is_https = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let authority = uri.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut built = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, authority)
            .header(USER_AGENT, concat!("Playmeter/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json");
        for (name, value) in request.headers {
            built = built.header(name, value);
        }
        let request = built.body(Full::new(Bytes::from(request.body)));
        let request = request.map_err(|_| Failure::last("the URL is not valid"))?;
        let stream = self.connect(&host, port).await?;
        if !is_https {
            return send(stream, request).await;
        }
        let name = ServerName::try_from(host).map_err(|_| Failure::last("the URL has no valid host"))?;
        let stream = self.tls.connect(name, stream).await;
        send(stream.map_err(|error| Failure::retryable(format!("TLS: {error}")))?, request).await
    }

    /// Resolves the name and connects to an address that is allowed.
    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, Failure> {
        let unresolved =
            |error: std::io::Error| Failure::retryable(format!("the host cannot be resolved: {error}"));
        let addresses: Vec<SocketAddr> =
            tokio::net::lookup_host((host, port)).await.map_err(unresolved)?.collect();
        let refused = addresses.first().copied();
        let allowed = addresses.into_iter().filter(|address| self.settings.allows(address.ip()));
        let mut failure = match refused {
            None => Failure::retryable("the host has no address"),
            Some(address) => Failure::last(format!(
                "{} is not a public address; the operator of the server can allow it in `alerts.allowed_addresses`",
                address.ip()
            )),
        };
        for address in allowed.take(ADDRESSES_MAX) {
            match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failure = Failure::retryable(format!("no connection: {error}")),
                Err(_elapsed) => failure = Failure::retryable("no connection: timed out"),
            }
        }
        Err(failure)
    }
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Full<Bytes>>,
) -> Result<(), Failure> {
    let failed = |error: hyper::Error| Failure::retryable(format!("no response: {error}"));
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let exchange = async move {
        let response = sender.send_request(request).await.map_err(failed)?;
        judge(response).await
    };
    tokio::pin!(exchange, connection);
    tokio::select! {
        result = &mut exchange => return result,
        // The response is complete, or the exchange reports why it is not.
        _ended = &mut connection => {}
    }
    exchange.await
}

async fn judge(response: Response<hyper::body::Incoming>) -> Result<(), Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    if status.is_redirection() {
        return Err(Failure::retryable(format!("status {}: redirects are not followed", status.as_u16())));
    }
    let mut reason = format!("status {}", status.as_u16());
    let excerpt = excerpt(response.into_body()).await;
    if !excerpt.is_empty() {
        reason.push_str(": ");
        reason.push_str(&excerpt);
    }
    // By this status a receiver asks to be sent nothing more.
    Err(Failure { reason, is_final: status.as_u16() == 410 })
}

/// Returns the beginning of a body as one line.
async fn excerpt(mut body: hyper::body::Incoming) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < EXCERPT_BYTES {
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    bytes.extend_from_slice(&data[..data.len().min(EXCERPT_BYTES - bytes.len())]);
                }
            }
            Some(Err(_)) | None => break,
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|char| !char.is_control()).take(EXCERPT_CHARS).collect()
}
