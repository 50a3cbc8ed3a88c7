//! Authentication and authorization: from the credentials of a request to its access. Only this module decides the
//! game.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::extract::FromRequestParts;
use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use pipeline::catalog::{Access, Catalog, CatalogError, KeyKind, Scope};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::hex::to_hex;
use crate::problem::Problem;
use crate::request_context::RequestContext;

/// The header that carries the CSRF token of the dashboard's writes.
pub(crate) const CSRF_HEADER: &str = "X-CSRF-Token";

/// Returns the name of the session cookie. Over TLS the prefix binds it to this host; without TLS browsers reject the
/// prefix.
pub(crate) fn cookie_name(tls: bool) -> &'static str {
    if tls { "__Host-playmeter" } else { "playmeter" }
}

/// The credentials of a request: its headers, its query string and the context that records the game.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    headers: HeaderMap,
    query: Option<String>,
    context: RequestContext,
}

impl Credentials {
    pub(crate) fn new(headers: HeaderMap, query: Option<String>, context: RequestContext) -> Credentials {
        Credentials { headers, query, context }
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the same credentials for a stream that outlives its request. The headers are copied, because each value
    /// references the whole buffer in which the request was read.
    pub(crate) fn detached(&self) -> Credentials {
        let mut headers = HeaderMap::new();
        for name in [AUTHORIZATION, COOKIE, HOST, ORIGIN] {
            let values = self.headers.get_all(&name).iter();
            for value in values.filter_map(|value| HeaderValue::from_bytes(value.as_bytes()).ok()) {
                headers.append(&name, value);
            }
        }
        Credentials { headers, query: self.query.clone(), context: self.context.clone() }
    }

    /// The client's address; `None` if the proxy in front reports none.
    pub(crate) fn client_address(&self) -> Option<IpAddr> {
        self.context.client_address()
    }

    /// Returns the access of a key in the `Authorization` header or, for public keys, in the query string. Returns
    /// `None` if the request carries no key.
    pub(crate) fn authorize_key(&self, catalog: &Catalog, now_s: u64) -> Result<Option<Access>, Problem> {
        let Credentials { headers, query, context } = self;
        let access = access_by_key(catalog, headers, query.as_deref(), context.client_address(), now_s)?;
        if let Some(access) = &access {
            context.set_game(access.game.number);
        }
        Ok(access)
    }

    /// Returns the access for reads that any key of the game may do.
    pub(crate) fn authorize_read(&self, catalog: &Catalog, now_s: u64) -> Result<Access, Problem> {
        match self.authorize_key(catalog, now_s)? {
            Some(access) => Ok(access),
            None => self.authorize_person(catalog, now_s),
        }
    }

    /// Returns the access for analytics queries: by a key with the scope, or of a signed-in person.
    pub(crate) fn authorize_query(&self, catalog: &Catalog, now_s: u64) -> Result<Access, Problem> {
        if let Some(access) = self.authorize_key(catalog, now_s)? {
            return allow(access, Scope::Query);
        }
        self.authorize_person(catalog, now_s)
    }

    /// Returns the access for live-ops writes: by key, or of a signed-in person whose page sends the CSRF token.
    pub(crate) fn authorize_write(&self, catalog: &Catalog, now_s: u64) -> Result<Access, Problem> {
        if let Some(access) = self.authorize_key(catalog, now_s)? {
            return Ok(access);
        }
        let access = self.authorize_person(catalog, now_s)?;
        self.check_intended()?;
        Ok(access)
    }

    /// Fails unless the request is sent by a signed-in person, who may manage every game. A key belongs to one game.
    pub(crate) fn authorize_owner(&self, catalog: &Catalog, now_s: u64) -> Result<(), Problem> {
        if self.authorize_key(catalog, now_s)?.is_some() {
            let detail =
                "a key cannot manage games; sign in to the dashboard, or use `playmeter games` on the server";
            return Err(Problem::forbidden(detail).field("Authorization"));
        }
        self.check_signed_in(catalog, now_s)
    }

    /// As [`Credentials::authorize_owner`], for a write: the person's page sends the CSRF token.
    pub(crate) fn authorize_owner_write(&self, catalog: &Catalog, now_s: u64) -> Result<(), Problem> {
        self.authorize_owner(catalog, now_s)?;
        self.check_intended()
    }

    /// Fails unless a write by a signed-in person comes from a page of the dashboard.
    fn check_intended(&self) -> Result<(), Problem> {
        if !self.headers.contains_key(ORIGIN) {
            return Err(
                Problem::forbidden("a write by a signed-in person must send its origin").field("Origin")
            );
        }
        let token = self.headers.get(CSRF_HEADER).map(|value| value.as_bytes()).unwrap_or_default();
        let expected = csrf_token(session(&self.headers, self.context.is_https()).unwrap_or_default());
        if !bool::from(token.ct_eq(expected.as_bytes())) {
            return Err(Problem::forbidden("send the `csrf` token from `/v1/me`").field(CSRF_HEADER));
        }
        Ok(())
    }

    fn check_signed_in(&self, catalog: &Catalog, now_s: u64) -> Result<(), Problem> {
        if !is_signed_in(catalog, &self.headers, self.context.is_https(), now_s) {
            return Err(Problem::unauthorized("send a key as `Authorization: Bearer KEY`, or sign in"));
        }
        same_origin(&self.headers, self.context.is_https())
    }

    /// Returns the access of a signed-in person to the game that the request names, or to the first game.
    fn authorize_person(&self, catalog: &Catalog, now_s: u64) -> Result<Access, Problem> {
        self.check_signed_in(catalog, now_s)?;
        let games = catalog.games();
        let id = self
            .query
            .as_deref()
            .and_then(|query| parameter(query, "game"))
            .or_else(|| games.first().map(|game| game.id.as_str()))
            .unwrap_or_default();
        let game = catalog
            .game(id)
            .ok_or_else(|| Problem::not_found(format!("no such game: `{id}`")).field("game"))?;
        self.context.set_game(game.number);
        Ok(Access { person: true, ..Access::server(game) })
    }
}

impl From<&Parts> for Credentials {
    fn from(head: &Parts) -> Credentials {
        let query = head.uri.query().map(str::to_owned);
        Credentials::new(head.headers.clone(), query, RequestContext::from(head))
    }
}

impl<S: Sync> FromRequestParts<S> for Credentials {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Credentials, Infallible> {
        Ok(Credentials::from(&*head))
    }
}

/// Returns the access of a key in the `Authorization` header or, for public keys, in the query string. Borrows
/// everything, for the ingest endpoint; others use [`Credentials::authorize_key`].
pub(crate) fn access_by_key(
    catalog: &Catalog,
    headers: &HeaderMap,
    query: Option<&str>,
    address: Option<IpAddr>,
    now_s: u64,
) -> Result<Option<Access>, Problem> {
    let key = match headers.get(AUTHORIZATION) {
        Some(value) => bearer(value.to_str().unwrap_or_default())?,
        None => match query.and_then(|query| parameter(query, "key")) {
            Some(key) => public_key_in_query(key)?,
            None => return Ok(None),
        },
    };
    access_of_key(catalog, headers, key, address, now_s).map(Some)
}

/// Returns the access of a key that was found in the headers, the query string or the body.
pub(crate) fn access_of_key(
    catalog: &Catalog,
    headers: &HeaderMap,
    key: &str,
    address: Option<IpAddr>,
    now_s: u64,
) -> Result<Access, Problem> {
    if KeyKind::of(key) == Some(KeyKind::Secret) && headers.contains_key(ORIGIN) {
        return Err(Problem::unauthorized(
            "a secret key must not be used in a browser; use the game's public key",
        ));
    }
    catalog.access(key, address, now_s).map_err(|refused| match refused {
        CatalogError::Address => Problem::forbidden(refused.to_string()),
        refused => Problem::unauthorized(refused.to_string()),
    })
}

/// Returns the token that a page of the dashboard sends with its writes. Other origins cannot read it.
pub(crate) fn csrf_token(session: &str) -> String {
    to_hex(&Sha256::digest(format!("csrf {session}")))
}

/// Rejects access without the scope.
pub(crate) fn allow(access: Access, scope: Scope) -> Result<Access, Problem> {
    if access.may(scope) {
        return Ok(access);
    }
    Err(Problem::forbidden(format!("this request needs a key with the scope `{}`", scope.label())))
}

/// Returns true if the request carries the cookie of a valid session.
pub(crate) fn is_signed_in(catalog: &Catalog, headers: &HeaderMap, is_https: bool, now_s: u64) -> bool {
    session(headers, is_https).is_some_and(|session| catalog.is_signed_in(session, now_s))
}

/// Returns the session token in the cookie. Over TLS only the name with the prefix counts: a cookie of another name
/// may come from a sibling domain or from a connection without TLS.
pub(crate) fn session(headers: &HeaderMap, is_https: bool) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split("; ")).filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == cookie_name(is_https)).map(|(_, value)| value)
}

/// Rejects a browser request from another origin: it must not act for the signed-in person. A page that was loaded
/// without TLS has another origin than a server with TLS: anything on the way may have written it.
pub(crate) fn same_origin(headers: &HeaderMap, is_https: bool) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let Some(origin) = text(ORIGIN) else { return Ok(()) };
    let is_allowed = |scheme: &str| scheme == "https" || (scheme == "http" && !is_https);
    let host = origin.split_once("://").filter(|(scheme, _)| is_allowed(scheme)).map(|(_, host)| host);
    if host.is_some() && host == text(HOST) {
        return Ok(());
    }
    Err(Problem::forbidden("only the dashboard's own pages may send requests with a sign-in").field("Origin"))
}

/// Returns the key in an `Authorization` header.
pub(crate) fn bearer(value: &str) -> Result<&str, Problem> {
    let key = value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer "));
    key.map(str::trim).ok_or_else(|| {
        Problem::unauthorized("send the key as `Authorization: Bearer KEY`").field("Authorization")
    })
}

/// Returns a query parameter without decoding it: keys and game ids need no encoding.
pub(crate) fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

fn public_key_in_query(key: &str) -> Result<&str, Problem> {
    if KeyKind::of(key) == Some(KeyKind::Secret) {
        let detail = "a secret key must not be part of a URL, which ends up in logs; send it in the `Authorization` header";
        return Err(Problem::unauthorized(detail).field("key"));
    }
    Ok(key)
}
