//! The HTTP client of the commands that talk to a server on another machine.
//!
//! `ureq`, because its callers send one request at a time: it reuses a connection and needs no runtime. TLS is `rustls`
//! with the certificates that the system trusts. They add 2.8 MB to the program and 33 CPU-seconds to its build; without
//! TLS 0.7 MB and 9. Keys should not be sent in the clear.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;
use server::bootstrap;
use ureq::http::{HeaderMap, Method, Uri, header};

/// A reachable server accepts a connection sooner than this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A request of 10 MB that waits for the disk takes less than this.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Receipts list events one by one; none is larger.
const RESPONSE_BYTES_MAX: u64 = 16 << 20;
/// Limit of the excerpt of an error response that is not a problem document.
const EXCERPT_CHARS: usize = 200;

/// The server to talk to, and the key for it.
#[derive(Args, Clone)]
pub(crate) struct ServerArgs {
    /// URL of the server, for example https://play.example.com [default: from bootstrap.json in the data folder]
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Secret key; prefer the environment variable, which other users of this machine cannot see
    #[arg(long, value_name = "KEY", env = "PLAYMETER_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Data folder on this machine whose bootstrap.json has the key and the URL [default: data, unless --to is given]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl ServerArgs {
    pub(crate) fn new(to: Option<String>, key: Option<String>, data: Option<PathBuf>) -> ServerArgs {
        ServerArgs { to, key, data }
    }

    /// Returns a client for the server.
    ///
    /// If only `--to` is given, no key is read from the default folder: a key must not be sent to an unrelated server.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
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
        let bootstrap = bootstrap::read(folder)?;
        let bootstrap = bootstrap.with_context(|| {
            format!("{} has no bootstrap.json; name the server with --to and --key", folder.display())
        })?;
        let field = |name: &str| bootstrap[name].as_str().unwrap_or_default().to_owned();
        let url = self.to.clone().unwrap_or_else(|| field("url"));
        let key = self.key.clone().unwrap_or_else(|| field("secret_key"));
        Ok(Client::new(&url, &key)?)
    }
}

/// A client of one server. Clones share connections.
#[derive(Clone)]
pub(crate) struct Client {
    agent: ureq::Agent,
    /// Without a trailing slash.
    url: String,
    bearer: String,
}

/// A request to be sent.
pub(crate) struct ApiRequest<'a> {
    pub(crate) method: Method,
    /// The path and the query, with the leading slash.
    pub(crate) path: &'a str,
    /// Names and values of headers; the client adds the key.
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// The body; empty for none.
    pub(crate) body: &'a [u8],
}

/// A response with a status from 200 to 299.
#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) body: Vec<u8>,
}

/// A URL or a key that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidServer {
    #[error(
        "--to {0}: must be http:// or https:// with a host and an optional port, for example https://play.example.com"
    )]
    Url(String),
    /// The URL may contain a password, so it is not repeated.
    #[error("--to: must not contain a user, a password or an @; pass the key with PLAYMETER_KEY or --key")]
    Credentials,
    #[error("--key: must not be empty, and must not contain spaces or characters outside ASCII")]
    Key,
}

/// The reason why a request has no [`ApiResponse`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The server was not reached, or the response was incomplete. The server may have processed the request. Retryable.
    #[error("{url} does not answer: {why}")]
    NoResponse { url: String, why: String },
    /// The server rejected the request.
    #[error("{url} answered {status}: {why}")]
    Rejected {
        url: String,
        /// 300 or higher.
        status: u16,
        /// The problem document in one line.
        why: String,
        retry_after: Option<Duration>,
    },
}

impl ClientError {
    /// Returns true if the same request may succeed later.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            ClientError::NoResponse { .. } => true,
            ClientError::Rejected { status, .. } => matches!(status, 408 | 425 | 429 | 500..),
        }
    }

    /// Returns how long the server asked the client to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            ClientError::NoResponse { .. } => None,
            ClientError::Rejected { retry_after, .. } => *retry_after,
        }
    }
}

impl Client {
    /// Creates a client of the server at this URL. Sends nothing.
    pub(crate) fn new(url: &str, key: &str) -> Result<Client, InvalidServer> {
        if url.contains('@') {
            return Err(InvalidServer::Credentials);
        }
        let bad_url = || InvalidServer::Url(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| bad_url())?;
        uri.host().filter(|host| !host.is_empty()).ok_or_else(bad_url)?;
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_web || uri.query().is_some() {
            return Err(bad_url());
        }
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidServer::Key);
        }
        let agent = backup::agent(url, CONNECT_TIMEOUT, REQUEST_TIMEOUT);
        Ok(Client { agent, url: url.trim_end_matches('/').to_owned(), bearer: format!("Bearer {key}") })
    }

    /// Returns the URL of the server, without a trailing slash.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request and waits up to a minute for the whole response.
    ///
    /// # Panics
    /// If the path or a header contains characters that a request cannot contain: callers encode them.
    pub(crate) fn send(&self, request: &ApiRequest<'_>) -> Result<ApiResponse, ClientError> {
        let mut built = ureq::http::Request::builder().method(&request.method);
        built = built.uri(format!("{}{}", self.url, request.path));
        built = built.header(header::AUTHORIZATION, &self.bearer);
        for (name, value) in request.headers {
            built = built.header(*name, *value);
        }
        let expected = "callers encode paths and headers";
        let response = match request.body {
            [] => self.agent.run(built.body(()).expect(expected)),
            body => self.agent.run(built.body(body).expect(expected)),
        };
        self.read(response)
    }

    /// Gets a path and writes the body to `file`. Returns the headers once the body is complete. Fails with a
    /// [`ClientError`], or with the error of the file.
    ///
    /// # Panics
    /// If the path contains characters that a request cannot contain: callers encode them.
    pub(crate) fn download(
        &self,
        path: &str,
        timeout: Duration,
        file: &mut File,
    ) -> anyhow::Result<HeaderMap> {
        let built = ureq::http::Request::builder().method(Method::GET).uri(format!("{}{path}", self.url));
        let built = built.header(header::AUTHORIZATION, &self.bearer).body(());
        let request = self.agent.configure_request(built.expect("callers encode paths"));
        let response = self.agent.run(request.timeout_global(Some(timeout)).build());
        let mut response = response.map_err(|error| self.no_response(&error))?;
        let status = response.status().as_u16();
        if !(200..=299).contains(&status) {
            let body = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX).read_to_vec();
            let body = body.map_err(|error| self.no_response(&error))?;
            return Err(self.rejected(status, response.headers(), &body).into());
        }
        let mut body = response.body_mut().with_config().limit(u64::MAX).reader();
        let mut piece = vec![0; 64 << 10];
        loop {
            match body.read(&mut piece) {
                Ok(0) => return Ok(response.headers().clone()),
                Ok(read) => file.write_all(&piece[..read]).context("writing the file")?,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.no_response(&ureq::Error::Io(error)).into()),
            }
        }
    }

    fn read(
        &self,
        response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<ApiResponse, ClientError> {
        let mut response = response.map_err(|error| self.no_response(&error))?;
        let body = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| self.no_response(&error))?;
        match response.status().as_u16() {
            200..=299 => Ok(ApiResponse { body }),
            status => Err(self.rejected(status, response.headers(), &body)),
        }
    }

    fn no_response(&self, error: &ureq::Error) -> ClientError {
        let why = match error {
            ureq::Error::Io(error) => error.to_string(),
            other => other.to_string(),
        };
        ClientError::NoResponse { url: self.url.clone(), why }
    }

    fn rejected(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> ClientError {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let why = match header(header::LOCATION) {
            Some(url) if status < 400 => format!("redirected to {url}; use that URL"),
            _ => problem_text(body),
        };
        let seconds = header(header::RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
        let retry_after = seconds.map(Duration::from_secs);
        ClientError::Rejected { url: self.url.clone(), status, why, retry_after }
    }
}

/// Returns the problem document of an error response in one line.
fn problem_text(body: &[u8]) -> String {
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |field: &str| document[field].as_str().filter(|text| !text.is_empty());
    match (text("title"), text("detail"), text("field")) {
        (Some(title), Some(detail), Some(field)) => format!("{title}: {field}: {detail}"),
        (Some(title), Some(detail), None) => format!("{title}: {detail}"),
        (Some(title), None, _) => title.to_owned(),
        _ => excerpt(&String::from_utf8_lossy(body)),
    }
}

fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.is_empty() {
        true => "no details".to_owned(),
        false => line.chars().filter(|character| !character.is_control()).take(EXCERPT_CHARS).collect(),
    }
}
