//! A client of a Playmeter server over HTTP and HTTPS, for the commands that run on another machine.
//!
//! `ureq`, because its callers do one thing after the other: a connection is kept and used again, and no runtime is
//! needed. TLS is `rustls` with the certificates that the system trusts. Alone they make 2.8 MB of program and take 33
//! CPU-seconds to build, without TLS 0.7 MB and 9: keys should not travel in the clear.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;
use server::bootstrap;
use ureq::http::{HeaderMap, Method, Uri, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Nobody answers this slowly who is there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A request of 10 MB that waits for the disk takes less than this.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Receipts name events one by one; none is larger.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// How much of an answer without a problem document is shown.
const SHOWN_CHARS: usize = 200;

/// Which server, and the key for it.
#[derive(Args, Clone)]
pub struct ServerArgs {
    /// The server, for instance https://play.example.com. Left out: the one of the data folder.
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// A secret key. A key in the environment cannot be seen by others on this machine.
    #[arg(long, value_name = "KEY", env = "PLAYMETER_KEY", hide_env_values = true)]
    key: Option<String>,
    /// A data folder on this machine, whose bootstrap.json has the key and the URL. Left out, with no URL given: `data`.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl ServerArgs {
    /// The client of that server.
    ///
    /// The key of a folder that was not named never goes to a server that was.
    pub fn client(&self) -> anyhow::Result<Client> {
        let folder = match (&self.data, &self.to) {
            (Some(folder), _) => Some(folder.as_path()),
            (None, None) => Some(Path::new(crate::settings::DATA)),
            (None, Some(_)) => None,
        };
        if let (Some(url), Some(key)) = (&self.to, &self.key) {
            return Ok(Client::new(url, key)?);
        }
        let Some(folder) = folder else {
            bail!("no key: set PLAYMETER_KEY, or name a data folder with --data");
        };
        let known = bootstrap::read(folder)?;
        let known = known.with_context(|| {
            format!("{} has no bootstrap.json: name the server with --to and --key", folder.display())
        })?;
        let field = |name: &str| known[name].as_str().unwrap_or_default().to_owned();
        let url = self.to.clone().unwrap_or_else(|| field("url"));
        let key = self.key.clone().unwrap_or_else(|| field("secret_key"));
        Ok(Client::new(&url, &key)?)
    }
}

/// A server and a key for it. Clones share connections.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    /// Without a slash at its end.
    url: String,
    bearer: String,
}

/// A request that is yet to be sent.
pub struct Request<'a> {
    /// The method.
    pub method: Method,
    /// The path and what is behind it, from the first slash on.
    pub path: &'a str,
    /// Names and values of headers; the key need not be among them.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body; empty: none.
    pub body: &'a [u8],
}

/// An answer with a status from 200 to 299.
#[derive(Debug)]
pub struct Answer {
    /// The whole body.
    pub body: Vec<u8>,
}

/// The URL or the key cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadServer {
    /// It is no URL of a server.
    #[error("--to {0}: it is http:// or https://, a host and perhaps a port, as in https://play.example.com")]
    Url(String),
    /// It may have a password in it, and is not repeated.
    #[error("--to: it has no user, no password and no @; the key is named with PLAYMETER_KEY or --key")]
    User,
    /// It cannot be sent.
    #[error("--key: it is empty, or has characters that no key has")]
    Key,
}

/// Why there is no [`Answer`].
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The server was not reached, or did not answer to the end: the request may have been done. Trying again helps.
    #[error("{url} does not answer: {why}")]
    NoAnswer {
        /// The server.
        url: String,
        /// What happened.
        why: String,
    },
    /// The server answered that it did not do it.
    #[error("{url} says {status}: {why}")]
    Refused {
        /// The server.
        url: String,
        /// The status, from 300 on.
        status: u16,
        /// The problem that it told, in one line.
        why: String,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
}

impl Failure {
    /// Whether the same request may be answered otherwise later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Failure::NoAnswer { .. } => true,
            Failure::Refused { status, .. } => matches!(status, 408 | 425 | 429 | 500..),
        }
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Failure::NoAnswer { .. } => None,
            Failure::Refused { retry_after, .. } => *retry_after,
        }
    }
}

impl Client {
    /// A client of the server at this URL. Nothing is sent yet.
    pub fn new(url: &str, key: &str) -> Result<Client, BadServer> {
        if url.contains('@') {
            return Err(BadServer::User);
        }
        let bad_url = || BadServer::Url(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| bad_url())?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(bad_url)?;
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_web || uri.query().is_some() {
            return Err(bad_url());
        }
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadServer::Key);
        }
        let agent = agent(host, uri.scheme_str() == Some("https"));
        Ok(Client { agent, url: url.trim_end_matches('/').to_owned(), bearer: format!("Bearer {key}") })
    }

    /// The server's URL, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request and waits for the whole answer: a minute at most.
    ///
    /// # Panics
    /// If the path or a header cannot stand in a request: callers encode them.
    pub fn ask(&self, request: &Request<'_>) -> Result<Answer, Failure> {
        let mut built = ureq::http::Request::builder().method(&request.method);
        built = built.uri(format!("{}{}", self.url, request.path));
        built = built.header(header::AUTHORIZATION, &self.bearer);
        for (name, value) in request.headers {
            built = built.header(*name, *value);
        }
        let expected = "callers encode paths and headers";
        let answer = match request.body {
            [] => self.agent.run(built.body(()).expect(expected)),
            body => self.agent.run(built.body(body).expect(expected)),
        };
        self.read(answer)
    }

    fn read(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Answer, Failure> {
        let mut answer = answer.map_err(|error| self.no_answer(&error))?;
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| self.no_answer(&error))?;
        match answer.status().as_u16() {
            200..=299 => Ok(Answer { body }),
            status => Err(self.refused(status, answer.headers(), &body)),
        }
    }

    fn no_answer(&self, error: &ureq::Error) -> Failure {
        let why = match error {
            ureq::Error::Io(error) => error.to_string(),
            other => other.to_string(),
        };
        Failure::NoAnswer { url: self.url.clone(), why }
    }

    fn refused(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let why = match header(header::LOCATION) {
            Some(place) if status < 400 => format!("it is at {place}"),
            _ => told(body),
        };
        let seconds = header(header::RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
        let retry_after = seconds.map(Duration::from_secs);
        Failure::Refused { url: self.url.clone(), status, why, retry_after }
    }
}

/// Servers on this machine are asked without the proxy that the environment may name.
fn agent(host: &str, with_tls: bool) -> ureq::Agent {
    let mut config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_global(Some(REQUEST_TIMEOUT));
    if with_tls {
        config = config.tls_config(tls());
    }
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    let is_local = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    let config = if is_local { config.proxy(None) } else { config };
    config.build().new_agent()
}

/// Trusts whom the system trusts. A certificate of the system's that cannot be read is one less.
fn tls() -> TlsConfig {
    let trusted = rustls_native_certs::load_native_certs().certs;
    let trusted: Vec<Certificate<'static>> =
        trusted.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&trusted));
    builder.unversioned_rustls_crypto_provider(provider).build()
}

/// What an answer says is wrong, in one line.
fn told(body: &[u8]) -> String {
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let word = |field: &str| document[field].as_str().filter(|word| !word.is_empty());
    match (word("title"), word("detail"), word("field")) {
        (Some(title), Some(detail), Some(field)) => format!("{title}: {field}: {detail}"),
        (Some(title), Some(detail), None) => format!("{title}: {detail}"),
        (Some(title), None, _) => title.to_owned(),
        _ => shown(&String::from_utf8_lossy(body)),
    }
}

fn shown(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.is_empty() {
        true => "nothing else".to_owned(),
        false => words.chars().filter(|character| !character.is_control()).take(SHOWN_CHARS).collect(),
    }
}
