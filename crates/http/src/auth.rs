//! From a request's credential to what it may do. The tenant comes from here and from nowhere else.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::monitor::note_game;
use crate::problem::Problem;
use pipeline::catalog::{Access, Catalog, CatalogError, KeyKind, Scope};

/// Goes with writes of the dashboard.
pub const CSRF_HEADER: &str = "X-CSRF-Token";

/// The cookie of a signed-in browser. Over TLS the prefix binds it to this host; without TLS browsers refuse the prefix.
pub fn cookie_name(tls: bool) -> &'static str {
    if tls { "__Host-playmeter" } else { "playmeter" }
}

/// Where the server notes for itself from where a request came. What a client sends under this name is thrown away.
const ADDRESS: HeaderName = HeaderName::from_static("playmeter-client-address");

/// Notes from where a request came, for keys that are limited to some addresses. Called for every request before any
/// handler; without it, such keys are refused.
pub fn note_address(headers: &mut HeaderMap, address: Option<IpAddr>) {
    let noted = address.and_then(|address| HeaderValue::from_str(&address.to_string()).ok());
    match noted {
        Some(address) => drop(headers.insert(ADDRESS, address)),
        None => drop(headers.remove(ADDRESS)),
    }
}

/// The access of a key in the `Authorization` header or, for public keys, in the query string.
pub fn by_key(
    catalog: &Catalog,
    headers: &HeaderMap,
    query: Option<&str>,
    now_s: u64,
) -> Result<Option<Access>, Problem> {
    let noted = headers.get(ADDRESS).and_then(|address| address.to_str().ok()?.parse().ok());
    by_key_from(catalog, headers, query, noted, now_s)
}

/// The same for a request from this address, whatever was noted.
pub fn by_key_from(
    catalog: &Catalog,
    headers: &HeaderMap,
    query: Option<&str>,
    address: Option<IpAddr>,
    now_s: u64,
) -> Result<Option<Access>, Problem> {
    let key = match headers.get(AUTHORIZATION) {
        Some(value) => bearer(value.to_str().unwrap_or_default())?,
        None => match query.and_then(|query| parameter(query, "key")) {
            Some(key) => in_query(key)?,
            None => return Ok(None),
        },
    };
    of_key(catalog, headers, key, address, now_s).map(Some)
}

/// The access of this key, wherever the request has it.
pub fn of_key(
    catalog: &Catalog,
    headers: &HeaderMap,
    key: &str,
    address: Option<IpAddr>,
    now_s: u64,
) -> Result<Access, Problem> {
    if KeyKind::of(key) == Some(KeyKind::Secret) && headers.contains_key(ORIGIN) {
        return Err(Problem::key("a secret key must not be used in a browser; use the game's public key"));
    }
    let access = catalog.access(key, address, now_s).map_err(|refused| match refused {
        CatalogError::Address => Problem::scope(refused.to_string()),
        refused => Problem::key(refused.to_string()),
    })?;
    note_game(access.game.number);
    Ok(access)
}

/// The access for questions: by key, or of a signed-in person to the game that the request names.
pub fn for_questions(
    catalog: &Catalog,
    headers: &HeaderMap,
    query: Option<&str>,
    now_s: u64,
) -> Result<Access, Problem> {
    if let Some(access) = by_key(catalog, headers, query, now_s)? {
        return allow(access, Scope::Query);
    }
    of_person(catalog, headers, query, now_s)
}

/// The access of a signed-in person to the game that the request names.
fn of_person(
    catalog: &Catalog,
    headers: &HeaderMap,
    query: Option<&str>,
    now_s: u64,
) -> Result<Access, Problem> {
    if !is_signed_in(catalog, headers, now_s) {
        return Err(Problem::key("send `Authorization: Bearer KEY`, or sign in"));
    }
    same_origin(headers)?;
    let games = catalog.games();
    let id = query
        .and_then(|query| parameter(query, "game"))
        .or_else(|| games.first().map(|game| game.id.as_str()))
        .unwrap_or_default();
    let game = catalog
        .game(id)
        .ok_or_else(|| Problem::not_found(format!("there is no game `{id}`")).field("game"))?;
    note_game(game.number);
    Ok(Access { person: true, ..Access::server(game) })
}

/// The access for writes of live-ops: by key, or of a person who is signed in and whose page proves that it is ours.
pub fn for_writes(catalog: &Catalog, head: &Parts, now_s: u64) -> Result<Access, Problem> {
    let (headers, query) = (&head.headers, head.uri.query());
    if let Some(access) = by_key(catalog, headers, query, now_s)? {
        return Ok(access);
    }
    let access = of_person(catalog, headers, query, now_s)?;
    if !headers.contains_key(ORIGIN) {
        return Err(Problem::scope("a write with a sign-in says its origin").field("Origin"));
    }
    let token = headers.get(CSRF_HEADER).map(|value| value.as_bytes()).unwrap_or_default();
    let expected = csrf_token(session(headers).unwrap_or_default());
    if !bool::from(token.ct_eq(expected.as_bytes())) {
        return Err(Problem::scope("send the token that `/v1/me` gives as `csrf`").field(CSRF_HEADER));
    }
    Ok(access)
}

/// The access for reads that any key of the game may do.
pub fn for_reads(
    catalog: &Catalog,
    headers: &HeaderMap,
    query: Option<&str>,
    now_s: u64,
) -> Result<Access, Problem> {
    match by_key(catalog, headers, query, now_s)? {
        Some(access) => Ok(access),
        None => of_person(catalog, headers, query, now_s),
    }
}

/// What a page of the dashboard sends along with its writes. Other origins cannot read it.
pub fn csrf_token(session: &str) -> String {
    let digest = Sha256::digest(format!("csrf {session}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Refuses access without the scope.
pub fn allow(access: Access, scope: Scope) -> Result<Access, Problem> {
    if access.may(scope) {
        return Ok(access);
    }
    Err(Problem::scope(format!("this needs a key with the scope `{}`", scope.label())))
}

/// Whether the request carries the cookie of a live session.
pub fn is_signed_in(catalog: &Catalog, headers: &HeaderMap, now_s: u64) -> bool {
    session(headers).is_some_and(|session| catalog.is_signed_in(session, now_s))
}

/// The session token in the cookie.
pub fn session(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split("; ")).filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| [true, false].map(cookie_name).contains(name)).map(|(_, value)| value)
}

/// A browser that names another origin does not act for the person who is signed in.
pub fn same_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value: &hyper::header::HeaderValue| value.to_str().ok());
    let Some(origin) = text(ORIGIN) else { return Ok(()) };
    let host = origin.split_once("://").map(|(_, host)| host);
    if host.is_some() && host == text(HOST) {
        return Ok(());
    }
    Err(Problem::scope("requests with a sign-in come from the dashboard's own pages").field("Origin"))
}

/// The key in an `Authorization` header.
pub fn bearer(value: &str) -> Result<&str, Problem> {
    let key = value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer "));
    key.map(str::trim)
        .ok_or_else(|| Problem::key("the header reads `Authorization: Bearer KEY`").field("Authorization"))
}

/// A parameter as it stands: keys and the ids of games need no encoding.
pub fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

fn in_query(key: &str) -> Result<&str, Problem> {
    if KeyKind::of(key) == Some(KeyKind::Secret) {
        let detail = "a secret key must not stand in a URL, which ends up in logs; send it as a header";
        return Err(Problem::key(detail).field("key"));
    }
    Ok(key)
}
