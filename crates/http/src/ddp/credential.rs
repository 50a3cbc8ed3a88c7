//! The credential of a connection, from its handshake or from `login`.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, USER_AGENT};
use hyper::http::request::Parts;

use pipeline::catalog::{Access, Catalog};
use pipeline::time::now_s;

use crate::AppState;
use crate::auth::{self, Credentials};
use crate::body_memory::{BodyMemory, ReservedMemory};
use crate::problem::Problem;
use crate::request_context::RequestContext;

/// The proof of identity of a connection.
#[derive(Debug)]
enum Proof {
    /// No credential yet.
    None,
    /// A key from the `Authorization` header or `login`.
    Key(Box<str>),
    /// A public key in the query string.
    QueryKey(Box<str>),
    /// The session cookie of a signed-in person, sent by a page that may act for them.
    Person(Box<str>),
}

/// The credential of a connection and the headers it was sent with. Access is looked up on each use, because keys can be
/// revoked.
#[derive(Debug)]
pub(super) struct Credential {
    proof: Proof,
    /// The game that a signed-in person has selected.
    game: Option<Box<str>>,
    origin: Option<HeaderValue>,
    host: Option<HeaderValue>,
    agent: Option<HeaderValue>,
    address: Option<IpAddr>,
    is_https: bool,
    /// The memory of the bodies of requests over this connection.
    memory: BodyMemory,
}

impl Credential {
    /// Reads the credential of a handshake.
    ///
    /// The handshake is rejected if origins are configured and the page's origin is neither one of them nor this server's
    /// own. If none are configured, every page may connect. The session cookie counts only on a configured origin or this
    /// server's own pages.
    pub(super) fn from_handshake(shared: &AppState, head: &Parts) -> Result<Credential, Problem> {
        let (headers, context) = (&head.headers, RequestContext::from(head));
        let query = head.uri.query().unwrap_or_default();
        let is_https = shared.settings.is_https;
        let is_same_origin = auth::same_origin(headers, is_https).is_ok();
        let is_listed = is_listed(&shared.settings.origins, headers.get(ORIGIN));
        if !is_same_origin && !is_listed && !shared.settings.origins.is_empty() {
            return Err(Problem::forbidden(
                "this origin is not allowed to connect: add it to the origins in the server settings",
            )
            .field("Origin"));
        }
        let parameter = |name: &str| auth::parameter(query, name).map(Box::from);
        let authorization = headers.get(AUTHORIZATION);
        let key = authorization.map(|value| auth::bearer(value.to_str().unwrap_or_default())).transpose()?;
        let person = auth::session(headers, is_https).filter(|_| is_same_origin || is_listed);
        let person = person.filter(|session| shared.catalog.is_signed_in(session, now_s()));
        let proof = match (key, parameter("key"), person) {
            (Some(key), ..) => Proof::Key(key.into()),
            (None, Some(key), _) => Proof::QueryKey(key),
            (None, None, Some(session)) => Proof::Person(session.into()),
            (None, None, None) => Proof::None,
        };
        // Copied, because each value references the whole buffer in which the handshake was read.
        let copy = |value: &HeaderValue| HeaderValue::from_bytes(value.as_bytes()).ok();
        let header = |name| headers.get(name).and_then(copy);
        let credential = Credential {
            proof,
            game: parameter("game"),
            origin: header(ORIGIN),
            host: header(HOST),
            agent: header(USER_AGENT),
            address: context.client_address(),
            is_https,
            memory: context.body_memory().clone(),
        };
        if !matches!(credential.proof, Proof::None) {
            context.set_game(credential.access(&shared.catalog)?.game.number);
        }
        Ok(credential)
    }

    /// Returns the credential of the same connection with another key.
    pub(super) fn with_key(&self, key: &str) -> Credential {
        Credential {
            proof: Proof::Key(key.into()),
            game: None,
            origin: self.origin.clone(),
            host: self.host.clone(),
            agent: self.agent.clone(),
            address: self.address,
            is_https: self.is_https,
            memory: self.memory.clone(),
        }
    }

    /// Returns what the credential currently has access to. Fails if it is missing, unknown, revoked or expired.
    pub(super) fn access(&self, catalog: &Catalog) -> Result<Access, Problem> {
        match self.proof {
            Proof::None => Err(Problem::unauthorized(
                "no credential: connect with a key, sign in, or call `login` with `{\"key\": ...}`",
            )),
            _ => self.credentials().authorize_read(catalog, now_s()),
        }
    }

    /// Returns an HTTP request builder with this credential.
    pub(super) fn request(&self) -> hyper::http::request::Builder {
        let mut request = hyper::Request::builder();
        *request.headers_mut().expect("a new builder has no error") = self.headers();
        request.extension(self.context())
    }

    /// Returns the credentials of a request over this connection.
    pub(super) fn credentials(&self) -> Credentials {
        Credentials::new(self.headers(), self.query(), self.context())
    }

    fn context(&self) -> RequestContext {
        RequestContext::new(self.address, self.is_https).with_body_memory(self.memory.clone())
    }

    /// Returns true if there is a credential.
    pub(super) fn is_some(&self) -> bool {
        !matches!(self.proof, Proof::None)
    }

    /// Reserves the memory of a request of this size.
    pub(super) fn reserve(&self, bytes: usize) -> Result<ReservedMemory, Problem> {
        let mut reserved = ReservedMemory::new(&self.memory);
        reserved.grow_to(bytes)?;
        Ok(reserved)
    }

    /// Returns the request target for a path, with the credential's part of the query string.
    pub(super) fn target(&self, path: &str) -> String {
        let separator = if path.contains('?') { '&' } else { '?' };
        self.query().map_or_else(|| path.to_owned(), |query| format!("{path}{separator}{query}"))
    }

    /// Returns the headers of the handshake that identify the client, and those of the credential.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut put =
            |name: HeaderName, value: Option<HeaderValue>| value.map(|value| headers.insert(name, value));
        put(HOST, self.host.clone());
        put(USER_AGENT, self.agent.clone());
        put(ORIGIN, self.origin.clone());
        match &self.proof {
            Proof::None | Proof::QueryKey(_) => {}
            Proof::Key(key) => drop(put(AUTHORIZATION, Some(header_value(&format!("Bearer {key}"))))),
            Proof::Person(session) => {
                // The handshake proved that the page may act for the person, so the request passes as same-origin.
                let host = self.host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or_default();
                let scheme = if self.is_https { "https" } else { "http" };
                put(ORIGIN, Some(header_value(&format!("{scheme}://{host}"))));
                let name = auth::cookie_name(self.is_https);
                put(COOKIE, Some(header_value(&format!("{name}={session}"))));
                put(HeaderName::from_static("x-csrf-token"), Some(header_value(&auth::csrf_token(session))));
            }
        }
        headers
    }

    /// Returns the client address of the connection, or the range that counts as one address.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    fn query(&self) -> Option<String> {
        match &self.proof {
            Proof::QueryKey(key) => Some(format!("key={key}")),
            Proof::Person(_) => self.game.as_ref().map(|game| format!("game={game}")),
            Proof::None | Proof::Key(_) => None,
        }
    }
}

/// Returns true if the origin is one of the configured origins.
fn is_listed(origins: &[String], origin: Option<&HeaderValue>) -> bool {
    origin.is_some_and(|origin| origins.iter().any(|listed| listed.as_bytes() == origin.as_bytes()))
}

/// Converts text to a header value. Text that is not a valid header value cannot be a key and becomes an empty value.
fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}
