//! The JavaScript client, served by the server.

use serde_json::Value;

use crate::client::{Answer, Request};
use crate::world::World;

fn get(world: &World, target: &str, headers: &[(&str, &str)]) -> Answer {
    let request =
        headers.iter().fold(Request::get(target), |request, (name, value)| request.header(name, value));
    world.send(&request)
}

/// The URL and the hash of a file.
fn listed(world: &World, name: &str) -> (String, String) {
    let listed = get(world, "/sdk/integrity.json", &[]).json();
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{listed}")).to_owned();
    (text(&listed["files"][name]["url"]), text(&listed["files"][name]["integrity"]))
}

#[test]
fn client_has_a_current_url_and_one_to_cache_for_good() {
    let world = World::new();
    for name in ["playmeter.js", "playmeter.mjs", "sha256.js", "sha256.mjs"] {
        let (versioned, _) = listed(&world, name);
        let current = get(&world, &format!("/sdk/{name}"), &[]);
        let pinned = get(&world, &versioned, &[]);
        assert_eq!((current.status, pinned.status), (200, 200), "{name}");
        assert_eq!(current.text(), pinned.text(), "{name}");
        assert_eq!(current.header("cache-control"), Some("no-cache"));
        assert_eq!(pinned.header("cache-control"), Some("public, max-age=31536000, immutable"));
        for answer in [&current, &pinned] {
            assert_eq!(answer.header("content-type"), Some("text/javascript; charset=utf-8"));
            assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
            assert_eq!(answer.header("cross-origin-resource-policy"), Some("cross-origin"));
        }
        let etag = current.header("etag").expect("an ETag").to_owned();
        let again = get(&world, &format!("/sdk/{name}"), &[("If-None-Match", &etag)]);
        assert_eq!((again.status, again.text()), (304, String::new()), "{name}");
        let gzipped = get(&world, &format!("/sdk/{name}"), &[("Accept-Encoding", "gzip")]);
        assert_eq!(gzipped.header("content-encoding"), Some("gzip"));
        let length: usize = gzipped.header("content-length").expect("a length").parse().expect("a number");
        assert!(length < current.text().len() * 2 / 3, "{name}: {length} bytes gzipped");
    }
    assert!(get(&world, "/sdk/playmeter.js", &[]).text().starts_with("var Playmeter="));
    assert!(get(&world, "/sdk/playmeter.mjs", &[]).text().contains("export{"));
}

#[test]
fn hash_of_the_client_is_that_of_its_content() {
    let world = World::new();
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["playmeter.js", "playmeter.mjs", "sha256.js", "sha256.mjs"] {
        let (versioned, integrity) = listed(&world, name);
        let file = folder.path().join(name);
        std::fs::write(&file, get(&world, &versioned, &[]).text()).expect("writing");
        let script = "openssl dgst -sha384 -binary \"$0\" | openssl base64 -A";
        let output =
            std::process::Command::new("sh").args(["-c", script]).arg(&file).output().expect("openssl");
        assert_eq!(integrity, format!("sha384-{}", String::from_utf8_lossy(&output.stdout)), "{name}");
    }
}

#[test]
fn unknown_version_of_the_client_redirects_and_unknown_file_is_not_found() {
    let world = World::new();
    let answer = get(&world, "/sdk/0.0.1-00000000/playmeter.mjs", &[]);
    assert_eq!((answer.status, answer.header("location")), (307, Some("/sdk/playmeter.mjs")));
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    for target in
        ["/sdk/none.js", "/sdk/0.0.1-00000000/none.js", "/sdk/playmeter.iife.js", "/sdk/types/index.d.ts"]
    {
        let answer = get(&world, target, &[]);
        assert_eq!(answer.status, 404, "{target}");
        assert!(answer.text().contains("playmeter.mjs"), "{}", answer.text());
    }
}
