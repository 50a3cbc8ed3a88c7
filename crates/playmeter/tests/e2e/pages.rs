//! Boards and feeds, watched: a page is told when it is another than before.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Request;
use crate::watch::Watch;
use crate::world::World;

fn send(world: &World, method: &'static str, target: &str, body: &Value) {
    let request = Request::new(method, target).key(&world.secret_key);
    let answer = world.ask(&if body.is_null() { request } else { request.body(body.to_string()) });
    assert!(answer.status < 300, "{method} {target}: {}", answer.text());
}

fn submit(world: &World, player: &str, score: i64) {
    send(world, "POST", "/v1/boards/main/scores", &json!({ "player": player, "score": score }));
}

fn players(data: &Value) -> String {
    let rows = data["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let told = rows.iter().map(|row| format!("{} {}", row["player"].as_str().unwrap_or("?"), row["score"]));
    told.collect::<Vec<_>>().join(", ")
}

#[test]
fn a_board_is_told_within_a_second() {
    let world = World::new();
    let mut watch = Watch::open_as(&world, &world.public_key, "board=main&window=day", None);
    assert!(watch.next().data["error"].is_string(), "there is no such board yet");
    submit(&world, "al", 10);
    let mut told = watch.next();
    assert_eq!((told.name.as_str(), players(&told.data)), ("change", "al 10".to_owned()));
    let started = Instant::now();
    submit(&world, "bo", 20);
    while players(&told.data) != "bo 20, al 10" {
        told = watch.next();
    }
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!((told.data["topic"].clone(), told.data["window"].clone()), (json!("board"), json!("day")));
    let id = told.id;
    drop(watch);
    submit(&world, "cy", 15);
    let again = Watch::open_as(&world, &world.public_key, "board=main&window=day", Some(&id)).next();
    assert_eq!(players(&again.data), "bo 20, cy 15, al 10");
}

#[test]
fn a_private_board_is_watched_with_its_code_alone() {
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
fn a_feed_is_told_what_the_followed_do_and_nothing_else() {
    let world = World::new();
    send(&world, "PUT", "/v1/players/cy/follows/al", &Value::Null);
    let mut watch = Watch::open_as(&world, &world.public_key, "feed=cy", None);
    assert_eq!(watch.next().data["items"], json!([]));
    send(&world, "POST", "/v1/feed", &json!({ "player": "stranger", "text": "not for cy" }));
    let started = Instant::now();
    send(&world, "POST", "/v1/feed", &json!({ "player": "al", "text": "found a key" }));
    let told = watch.next();
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(told.data["items"].as_array().map(Vec::len), Some(1), "{}", told.data);
    assert_eq!(told.data["items"][0]["text"], "found a key");
}

#[test]
fn what_cannot_be_watched_is_named() {
    let world = World::new();
    let told = |what: &str| {
        let request = Request::get(format!("/v1/watch?{what}")).key(&world.public_key);
        world.ask(&request).told()
    };
    assert_eq!(told("board=main&window=year"), "400 invalid_field (window)");
    assert_eq!(told("board=main&per_page=0"), "400 invalid_field (per_page)");
    assert_eq!(told("board=main&per_page=101"), "400 invalid_field (per_page)");
    assert_eq!(told("board=main&load=1"), "403 scope");
}
