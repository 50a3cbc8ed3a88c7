//! Who speaks: what a connection brought with its handshake, or what it gave with `login`.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, USER_AGENT};
use hyper::http::request::Parts;

use crate::AppState;
use crate::api::events;
use crate::auth;
use crate::problem::Problem;
use pipeline::catalog::{Access, Catalog};
use pipeline::time::now_s;

const FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What proves who speaks.
#[derive(Debug)]
enum Proof {
    /// Nothing was brought yet.
    None,
    /// A key, in the `Authorization` header or by `login`.
    Key(Box<str>),
    /// A public key in the address.
    InAddress(Box<str>),
    /// The cookie of somebody who is signed in, on a page that may speak for the person.
    Person(Box<str>),
}

/// A connection's credential, and from where it came. What it may do is asked anew each time: keys are revoked.
#[derive(Debug)]
pub struct Credential {
    proof: Proof,
    /// The game that a signed-in person looks at.
    game: Option<Box<str>>,
    origin: Option<HeaderValue>,
    host: Option<HeaderValue>,
    agent: Option<HeaderValue>,
    address: Option<IpAddr>,
    peer: SocketAddr,
}

impl Credential {
    /// What a handshake brings. A page of an origin that is not allowed is refused; one that is not this server's own and
    /// was not listed speaks for no person, whatever its cookies are.
    pub fn of_handshake(shared: &AppState, head: &Parts, peer: SocketAddr) -> Result<Credential, Problem> {
        let headers = &head.headers;
        let query = head.uri.query().unwrap_or_default();
        let is_own = auth::same_origin(headers).is_ok();
        let is_listed = is_listed(&shared.settings.origins, headers.get(ORIGIN));
        if !is_own && !is_listed && !shared.settings.origins.is_empty() {
            return Err(Problem::scope("pages of this origin may not connect here").field("Origin"));
        }
        let parameter = |name: &str| auth::parameter(query, name).map(Box::from);
        let authorization = headers.get(AUTHORIZATION);
        let key = authorization.map(|value| auth::bearer(value.to_str().unwrap_or_default())).transpose()?;
        let person = auth::session(headers).filter(|_| is_own || is_listed);
        let person = person.filter(|session| shared.catalog.is_signed_in(session, now_s()));
        let proof = match (key, parameter("key"), person) {
            (Some(key), ..) => Proof::Key(key.into()),
            (None, Some(key), _) => Proof::InAddress(key),
            (None, None, Some(session)) => Proof::Person(session.into()),
            (None, None, None) => Proof::None,
        };
        // Copied: each is a view of the whole buffer in which the handshake was read.
        let copy = |value: &HeaderValue| HeaderValue::from_bytes(value.as_bytes()).ok();
        let header = |name| headers.get(name).and_then(copy);
        let credential = Credential {
            proof,
            game: parameter("game"),
            origin: header(ORIGIN),
            host: header(HOST),
            agent: header(USER_AGENT),
            address: events::address(shared, headers, peer),
            peer,
        };
        if !matches!(credential.proof, Proof::None) {
            credential.access(&shared.catalog)?;
        }
        Ok(credential)
    }

    /// The same connection with a key that it gave.
    pub fn with_key(&self, key: &str) -> Credential {
        Credential {
            proof: Proof::Key(key.into()),
            game: None,
            origin: self.origin.clone(),
            host: self.host.clone(),
            agent: self.agent.clone(),
            address: self.address,
            peer: self.peer,
        }
    }

    /// What it may do now.
    pub fn access(&self, catalog: &Catalog) -> Result<Access, Problem> {
        let nobody =
            || Problem::key("connect with a key or signed in, or call `login` with `{\"key\": ...}`");
        match self.proof {
            Proof::None => Err(nobody()),
            _ => auth::for_reads(catalog, &self.headers(), self.query().as_deref(), now_s()),
        }
    }

    /// A request with this credential, as it would come through the HTTP door.
    pub fn request(&self, shared: &AppState) -> hyper::http::request::Builder {
        let mut request = hyper::Request::builder();
        let headers = request.headers_mut().expect("nothing is in it yet");
        *headers = self.headers();
        if shared.settings.behind_proxy
            && let Some(address) = self.address
        {
            headers.insert(FORWARDED, value(&address.to_string()));
        }
        request.extension(axum::extract::ConnectInfo(self.peer))
    }

    /// The address of a request to this path: with what else of the address says who asks.
    pub fn target(&self, path: &str) -> String {
        let separator = if path.contains('?') { '&' } else { '?' };
        self.query().map_or_else(|| path.to_owned(), |query| format!("{path}{separator}{query}"))
    }

    /// The headers that say who asks, from where.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut put =
            |name: HeaderName, value: Option<HeaderValue>| value.map(|value| headers.insert(name, value));
        put(HOST, self.host.clone());
        put(USER_AGENT, self.agent.clone());
        put(ORIGIN, self.origin.clone());
        match &self.proof {
            Proof::None | Proof::InAddress(_) => {}
            Proof::Key(key) => drop(put(AUTHORIZATION, Some(value(&format!("Bearer {key}"))))),
            Proof::Person(session) => {
                // The handshake has shown that the page may speak for the person; from here on it is our own.
                let host = self.host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or_default();
                put(ORIGIN, Some(value(&format!("http://{host}"))));
                put(COOKIE, Some(value(&format!("{}={session}", auth::cookie_name(false)))));
                put(HeaderName::from_static("x-csrf-token"), Some(value(&auth::csrf_token(session))));
            }
        }
        auth::note_address(&mut headers, self.address);
        headers
    }

    /// From where the connection came: an address, or a range that counts as one.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The connection's other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn query(&self) -> Option<String> {
        match &self.proof {
            Proof::InAddress(key) => Some(format!("key={key}")),
            Proof::Person(_) => self.game.as_ref().map(|game| format!("game={game}")),
            Proof::None | Proof::Key(_) => None,
        }
    }
}

/// Whether the origin is among those that were set.
fn is_listed(origins: &[String], origin: Option<&HeaderValue>) -> bool {
    origin.is_some_and(|origin| origins.iter().any(|listed| listed.as_bytes() == origin.as_bytes()))
}

/// A header of what came as a header, or through `login`; what cannot stand in one is no key.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}
