//! The dashboard: its paths, and the API description that it loads.

use std::io::Read;

use serde_json::Value;

use crate::client::{Answer, Request};
use crate::world::World;

/// The registry of pages, the only place that lists them.
const REGISTRY: &str = include_str!("../../../../web/src/pages.ts");

/// The ids of the pages, which are also their paths.
fn pages() -> Vec<&'static str> {
    let entries = REGISTRY.lines().filter(|line| line.contains("{ name: '"));
    entries.filter_map(|line| line.trim().split_once(':')).map(|(id, _)| id).collect()
}

fn open(world: &World, path: &str) -> Answer {
    world.send(&Request::get(path).header("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"))
}

fn is_app(answer: &Answer) -> bool {
    answer.header("content-type") == Some("text/html; charset=utf-8")
        && answer.text().contains("<title>Playmeter</title>")
}

#[test]
fn every_page_of_the_dashboard_has_a_path() {
    let world = World::new();
    let pages = pages();
    assert!(pages.len() >= 8 && pages.contains(&"vars"), "{pages:?}");
    for page in pages {
        let path = if page == "live" { "/".to_owned() } else { format!("/{page}") };
        let answer = open(&world, &path);
        assert_eq!((answer.status, is_app(&answer)), (200, true), "{path}");
    }
}

#[test]
fn unknown_path_of_a_browser_is_the_dashboard_with_status_404() {
    let world = World::new();
    for path in ["/nosuch", "/live", "/index.htm", "/%3Cscript%3E"] {
        let answer = open(&world, path);
        assert_eq!((answer.status, is_app(&answer)), (404, true), "{path}");
        let other_client = world.send(&Request::get(path).header("Accept", "application/json"));
        assert_eq!(other_client.header("content-type"), Some("application/problem+json"), "{path}");
        assert_eq!(other_client.status, 404, "{path}");
    }
}

#[test]
fn api_description_is_compressed_and_has_an_etag() {
    let world = World::new();
    let get = |headers: &[(&str, &str)]| {
        let request = Request::get("/openapi.json");
        world.send(&headers.iter().fold(request, |request, (name, value)| request.header(name, value)))
    };
    let plain = get(&[]);
    let compressed = get(&[("Accept-Encoding", "gzip, br")]);
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(compressed.header("content-encoding"), Some("gzip"));
    assert_eq!(compressed.header("vary"), Some("Accept-Encoding"));
    assert!(compressed.body.len() * 5 < plain.body.len(), "{} bytes", compressed.body.len());
    let mut text = String::new();
    flate2::read::GzDecoder::new(&compressed.body[..]).read_to_string(&mut text).expect("gzip");
    assert_eq!(text, plain.text());
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON")["openapi"], "3.1.0");
    let etag = plain.header("etag").expect("an ETag");
    let again = get(&[("If-None-Match", etag)]);
    assert_eq!((again.status, again.body.len()), (304, 0));
}
