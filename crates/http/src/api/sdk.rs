//! `GET /sdk/...`: the JavaScript client, for pages of any origin.
//!
//! Each file has two URLs: `/sdk/playmeter.js` is always the client that fits this server; `/sdk/VERSION/playmeter.js`
//! never changes, so that a page can state its hash. The version contains a hash of all files.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Router, routing};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use pipeline::random;
use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha384};

use super::assets::{Asset, IMMUTABLE};
use crate::RuntimeState;
use crate::problem::Problem;

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/sdk/integrity.json", routing::get(integrity))
        .route("/sdk/{file}", routing::get(current))
        .route("/sdk/{version}/{file}", routing::get(versioned))
}

/// The names under which the files are served and were built.
const FILES: [(&str, &str); 4] = [
    ("playmeter.js", "sdk/playmeter.iife.js"),
    ("playmeter.mjs", "sdk/playmeter.js"),
    ("sha256.js", "sdk/sha256.iife.js"),
    ("sha256.mjs", "sdk/sha256.js"),
];

/// Lets pages that isolate themselves from other origins load the files.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

struct SdkFile {
    name: &'static str,
    asset: &'static Asset,
    /// The value of the attribute `integrity`.
    integrity: String,
}

struct SdkFiles {
    version: String,
    /// Empty in a build without the client.
    files: Vec<SdkFile>,
}

static SDK: LazyLock<SdkFiles> = LazyLock::new(|| {
    let mut all = Sha256::new();
    let found = FILES.iter().filter_map(|(name, built)| {
        let asset = Asset::find(built)?;
        let content = asset.content();
        all.update(&content);
        // 48 bytes need no padding.
        let hash = random::base64url(&Sha384::digest(&content)).replace('-', "+").replace('_', "/");
        Some(SdkFile { name, asset, integrity: format!("sha384-{hash}") })
    });
    let files = found.collect();
    let mut version = format!("{}-", env!("CARGO_PKG_VERSION"));
    for byte in &all.finalize()[..4] {
        let _ = write!(version, "{byte:02x}");
    }
    SdkFiles { version, files }
});

impl SdkFiles {
    fn find(&self, name: &str) -> Result<&SdkFile, Problem> {
        if self.files.is_empty() {
            return Err(Problem::not_found(
                "this build has no JavaScript client: run `make sdk` and build again",
            ));
        }
        self.files.iter().find(|file| file.name == name).ok_or_else(|| {
            let names: Vec<_> = self.files.iter().map(|file| file.name).collect();
            Problem::not_found(format!("no such file; there are: {}, integrity.json", names.join(", ")))
        })
    }

    fn integrity(&self) -> Value {
        let files = self.files.iter().map(|file| {
            let url = format!("/sdk/{}/{}", self.version, file.name);
            (file.name.to_owned(), json!({ "url": url, "integrity": file.integrity }))
        });
        json!({ "version": self.version, "files": files.collect::<serde_json::Map<_, _>>() })
    }
}

/// `GET /sdk/integrity.json`: the current version, with the URL and the hash of each file.
pub(crate) async fn integrity() -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")];
    for_any_origin((headers, SDK.integrity().to_string()).into_response())
}

/// `GET /sdk/FILE`: the client that fits this server.
pub(crate) async fn current(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Problem> {
    let file = SDK.find(&name)?;
    Ok(for_any_origin(file.asset.respond(&headers, "no-cache")))
}

/// `GET /sdk/VERSION/FILE`: the same for good. Other versions than this server's redirect to the current file: a page that
/// states no hash keeps working after an upgrade.
pub(crate) async fn versioned(
    Path((version, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let file = SDK.find(&name)?;
    if version != SDK.version {
        let redirect = [(CACHE_CONTROL, "no-store")];
        return Ok(for_any_origin((redirect, Redirect::temporary(&format!("/sdk/{name}"))).into_response()));
    }
    Ok(for_any_origin(file.asset.respond(&headers, IMMUTABLE)))
}

/// Allows any page to load the response, also in the browser of a person who is signed in here: the files are public.
fn for_any_origin(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("cross-origin"));
    response
}
