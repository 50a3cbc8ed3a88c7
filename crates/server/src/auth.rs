//! From a request's credential to what it may do. The tenant comes from here and from nowhere else.

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, ORIGIN};

use crate::catalog::{Access, Catalog, Refused, Scope, Scopes, SecretKind};
use crate::problem::Problem;

/// The cookie of a signed-in browser. Over TLS the prefix binds it to this host; without TLS browsers refuse the prefix.
pub fn cookie_name(tls: bool) -> &'static str {
    if tls { "__Host-playmeter" } else { "playmeter" }
}

/// The access of a key in the `Authorization` header or, for public keys, in the query string.
pub fn by_key(
    catalog: &Catalog,
    headers: &HeaderMap,
    query: Option<&str>,
    now_s: u64,
) -> Result<Option<Access>, Problem> {
    let key = match headers.get(AUTHORIZATION) {
        Some(value) => bearer(value.to_str().unwrap_or_default())?,
        None => match query.and_then(|query| parameter(query, "key")) {
            Some(key) => in_query(key)?,
            None => return Ok(None),
        },
    };
    if SecretKind::of(key) == Some(SecretKind::Secret) && headers.contains_key(ORIGIN) {
        return Err(Problem::key("a secret key must not be used in a browser; use the game's public key"));
    }
    let access = catalog.access(key, now_s).map_err(|refused: Refused| Problem::key(refused.to_string()))?;
    Ok(Some(access))
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
    if !is_signed_in(catalog, headers, now_s) {
        return Err(Problem::key("send `Authorization: Bearer KEY` with a secret key, or sign in"));
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
    Ok(Access { game, class: model::record::KeyClass::Secret, scopes: Scopes::ALL, person: true })
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

fn bearer(value: &str) -> Result<&str, Problem> {
    let key = value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer "));
    key.map(str::trim)
        .ok_or_else(|| Problem::key("the header reads `Authorization: Bearer KEY`").field("Authorization"))
}

/// A parameter as it stands: keys and the ids of games need no encoding.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

fn in_query(key: &str) -> Result<&str, Problem> {
    if SecretKind::of(key) == Some(SecretKind::Secret) {
        let detail = "a secret key must not stand in a URL, which ends up in logs; send it as a header";
        return Err(Problem::key(detail).field("key"));
    }
    Ok(key)
}
