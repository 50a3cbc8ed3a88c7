//! The dashboard, the demo game and the JavaScript client: compressed files inside the binary.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::StatusCode;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
    IF_NONE_MATCH, VARY,
};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/", routing::get(index))
        .route("/assets/{*path}", routing::get(file))
        .route("/play", routing::get(async || axum::response::Redirect::permanent("/play/")))
        .route("/play/", routing::get(play_index))
        .route("/play/config.json", routing::get(play_config))
        .route("/play/{*path}", routing::get(play))
        .route("/{file}", routing::get(top))
}

pub(super) struct Asset {
    path: &'static str,
    etag: Cow<'static, str>,
    gzip: Cow<'static, [u8]>,
}

static ASSETS: &[Asset] = &include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// `GET /`.
pub(crate) async fn index(headers: HeaderMap) -> Response {
    if ASSETS.is_empty() {
        return "This build has no dashboard: run `make web` and build again. The API works.\n"
            .into_response();
    }
    serve("index.html", &headers)
}

/// `GET /assets/...`: file names contain a hash, so browsers may cache them for good.
pub(crate) async fn file(Path(path): Path<String>, headers: HeaderMap) -> Response {
    serve(&format!("assets/{path}"), &headers)
}

/// The paths of the dashboard's pages besides `/`, which the build of the dashboard lists; the app selects the page by
/// the URL. Empty if the dashboard is not embedded.
static PAGES: LazyLock<Vec<String>> = LazyLock::new(|| {
    Asset::find("pages.json")
        .map(|asset| serde_json::from_slice(&asset.content()).expect("the build wrote a list of names"))
        .unwrap_or_default()
});

/// `GET /favicon.svg` and the like, and the dashboard's pages.
pub(crate) async fn top(Path(path): Path<String>, headers: HeaderMap) -> Response {
    if PAGES.contains(&path) {
        return index(headers).await;
    }
    let is_browser = headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"));
    if is_browser && Asset::find(&path).is_none() {
        let mut not_found = index(headers).await;
        *not_found.status_mut() = StatusCode::NOT_FOUND;
        return not_found;
    }
    serve(&path, &headers)
}

/// `GET /play/...`: the demo game.
pub(crate) async fn play(Path(path): Path<String>, headers: HeaderMap) -> Response {
    serve(&format!("play/{path}"), &headers)
}

/// `GET /play/`.
pub(crate) async fn play_index(headers: HeaderMap) -> Response {
    serve("play/index.html", &headers)
}

/// `GET /play/config.json`: the public key for the demo game.
pub(crate) async fn play_config(State(shared): State<Arc<AppState>>) -> Response {
    let Some(game) = shared.catalog.game("demo") else {
        return Problem::not_found("no such game: `demo`").into_response();
    };
    let config = json!({ "url": "", "game": game.id, "public_key": game.public_key });
    ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], config.to_string()).into_response()
}

fn serve(path: &str, headers: &HeaderMap) -> Response {
    let Some(asset) = Asset::find(path) else {
        return Problem::not_found("No such route.").into_response();
    };
    let cache_control = if path.contains("assets/") { IMMUTABLE } else { "no-cache" };
    asset.respond(headers, cache_control)
}

/// For files whose URL changes with their content: browsers may cache them for good.
pub(super) const IMMUTABLE: &str = "public, max-age=31536000, immutable";

impl Asset {
    const fn embedded(path: &'static str, etag: &'static str, gzip: &'static [u8]) -> Asset {
        Asset { path, etag: Cow::Borrowed(etag), gzip: Cow::Borrowed(gzip) }
    }

    /// Compresses content that the server generates once. The path gives the content type.
    pub(super) fn generated(path: &'static str, content: &[u8]) -> Asset {
        let hash = Sha256::digest(content);
        let etag =
            format!("\"{:016x}\"", u64::from_be_bytes(*hash.first_chunk().expect("a hash has 32 bytes")));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let gzip = encoder.write_all(content).and_then(|()| encoder.finish());
        Asset { path, etag: Cow::Owned(etag), gzip: Cow::Owned(gzip.expect("writing to memory never fails")) }
    }

    pub(super) fn find(path: &str) -> Option<&'static Asset> {
        ASSETS.iter().find(|asset| asset.path == path)
    }

    pub(super) fn content(&self) -> Vec<u8> {
        let mut content = Vec::new();
        flate2::read::GzDecoder::new(&*self.gzip).read_to_end(&mut content).expect("the build compressed it");
        content
    }

    /// Responds with the file, or with 304 if the client has it.
    pub(super) fn respond(&'static self, headers: &HeaderMap, cache_control: &'static str) -> Response {
        let text =
            |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
        let mut response = if text(IF_NONE_MATCH) == self.etag {
            StatusCode::NOT_MODIFIED.into_response()
        } else if text(ACCEPT_ENCODING).contains("gzip") {
            ([(CONTENT_ENCODING, "gzip")], Bytes::from_static(&self.gzip)).into_response()
        } else {
            self.content().into_response()
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(self.path)));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache_control));
        headers.insert(ETAG, HeaderValue::from_static(&self.etag));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        response
    }
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" | "webmanifest" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
