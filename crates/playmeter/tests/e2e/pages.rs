//! Streams of boards and feeds: a page is published when it changes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Request;
use crate::watch::Watch;
use crate::world::World;

fn send(world: &World, method: &'static str, target: &str, body: &Value) {
    let request = Request::new(method, target).key(&world.secret_key);
    let answer = world.send(&if body.is_null() { request } else { request.body(body.to_string()) });
    assert!(answer.status < 300, "{method} {target}: {}", answer.text());
}

fn submit(world: &World, player: &str, score: i64) {
    send(world, "POST", "/v1/boards/main/scores", &json!({ "player": player, "score": score }));
}

fn players(data: &Value) -> String {
    let rows = data["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let lines = rows.iter().map(|row| format!("{} {}", row["player"].as_str().unwrap_or("?"), row["score"]));
    lines.collect::<Vec<_>>().join(", ")
}

#[test]
fn board_change_is_published_within_1s() {
    let world = World::new();
    let mut watch = Watch::open_as(&world, &world.public_key, "board=main&window=day", None);
    assert!(watch.next().data["error"].is_string(), "the board does not exist yet");
    submit(&world, "al", 10);
    let mut event = watch.next();
    assert_eq!((event.name.as_str(), players(&event.data)), ("change", "al 10".to_owned()));
    let started = Instant::now();
    submit(&world, "bo", 20);
    while players(&event.data) != "bo 20, al 10" {
        event = watch.next();
    }
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!((event.data["topic"].clone(), event.data["window"].clone()), (json!("board"), json!("day")));
    let id = event.id;
    drop(watch);
    submit(&world, "cy", 15);
    let again = Watch::open_as(&world, &world.public_key, "board=main&window=day", Some(&id)).next();
    assert_eq!(players(&again.data), "bo 20, cy 15, al 10");
}

#[test]
fn private_board_stream_requires_its_code() {
    let world = World::new();
    send(&world, "PUT", "/v1/boards/ours", &json!({ "private": "sesame-opens" }));
    send(&world, "POST", "/v1/boards/ours/scores", &json!({ "player": "al", "score": 1 }));
    let first = |key: &str, what: &str| Watch::open_as(&world, key, what, None).next().data;
    assert!(first(&world.public_key, "board=ours")["error"].is_string());
    assert!(first(&world.public_key, "board=ours&code=wrong-words")["error"].is_string());
    assert_eq!(players(&first(&world.public_key, "board=ours&code=sesame-opens")), "al 1");
    assert_eq!(players(&first(&world.secret_key, "board=ours")), "al 1");
}

#[test]
fn feed_stream_shows_only_followed_players() {
    let world = World::new();
    send(&world, "PUT", "/v1/players/cy/follows/al", &Value::Null);
    let mut watch = Watch::open_as(&world, &world.public_key, "feed=cy", None);
    assert_eq!(watch.next().data["items"], json!([]));
    send(&world, "POST", "/v1/feed", &json!({ "player": "stranger", "text": "not for cy" }));
    let started = Instant::now();
    send(&world, "POST", "/v1/feed", &json!({ "player": "al", "text": "found a key" }));
    let event = watch.next();
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(event.data["items"].as_array().map(Vec::len), Some(1), "{}", event.data);
    assert_eq!(event.data["items"][0]["text"], "found a key");
}

#[test]
fn invalid_stream_parameter_is_named() {
    let world = World::new();
    let summary = |what: &str| {
        let request = Request::get(format!("/v1/watch?{what}")).key(&world.public_key);
        world.send(&request).summary()
    };
    assert_eq!(summary("board=main&window=year"), "400 invalid_field (window)");
    assert_eq!(summary("board=main&per_page=0"), "400 invalid_field (per_page)");
    assert_eq!(summary("board=main&per_page=101"), "400 invalid_field (per_page)");
    assert_eq!(summary("board=main&load=1"), "403 scope");
}
