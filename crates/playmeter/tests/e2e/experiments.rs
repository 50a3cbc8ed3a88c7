//! Experiments: events carry the version of the variables and the player's variants as dimensions.

use std::collections::BTreeMap;

use serde_json::json;

use crate::client::Request;
use crate::world::World;

fn put(world: &World, name: &str, body: &str) {
    let request = Request::new("PUT", format!("/v1/vars/{name}")).key(&world.secret_key).body(body);
    let answer = world.send(&request);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn play(world: &World, players: usize) {
    let event = |player: usize| format!(r#"{{"event":"win","player":"p{player}","value":{player}}}"#);
    let events: Vec<String> = (0..players).map(event).collect();
    assert_eq!(world.post(events.join("\n")).summary(), format!("{players} accepted"));
}

/// `value=count` of each row.
fn by(world: &World, dimension: &str) -> BTreeMap<String, i64> {
    let query = json!({ "metric": "win", "by": [dimension], "step": "all", "last": "60m" });
    let answer = world.query(&query).json();
    let series = answer["series"].as_array().expect("series").iter();
    series
        .map(|series| {
            let value = series["key"][dimension].as_str().expect("a value").to_owned();
            (value, series["total"].as_i64().expect("a count"))
        })
        .collect()
}

#[test]
fn events_are_counted_by_version_and_variant() {
    let world = World::new();
    play(&world, 5);
    assert_eq!(by(&world, "vars"), BTreeMap::new());
    put(&world, "speed", r#"{"value":1}"#);
    play(&world, 10);
    put(
        &world,
        "button",
        r#"{"value":"red","conditions":[{"name":"blue","value":"blue","percent":{"from":0,"to":50}}]}"#,
    );
    put(
        &world,
        "lives",
        r#"{"value":3,"conditions":[{"name":"many","value":9,"percent":{"from":0,"to":30}}]}"#,
    );
    play(&world, 400);
    let versions = BTreeMap::from([("1".to_owned(), 10), ("3".to_owned(), 400)]);
    assert_eq!(by(&world, "vars"), versions);
    let variants = by(&world, "variant");
    let names: Vec<&str> = variants.keys().map(String::as_str).collect();
    assert_eq!(names, ["button=(value)", "button=blue", "lives=(value)", "lives=many"]);
    assert_eq!(variants["button=(value)"] + variants["button=blue"], 400);
    assert_eq!(variants["lives=(value)"] + variants["lives=many"], 400);
    assert!((140..260).contains(&variants["button=blue"]), "{variants:?}");
    assert!((70..170).contains(&variants["lives=many"]), "{variants:?}");
    let verified = world.command(&["verify", "--json"]);
    assert_eq!(verified.code, 0, "{verified:?}");
}

#[test]
fn ingest_assigns_the_variant_the_client_gets() {
    let world = World::new();
    put(
        &world,
        "button",
        r#"{"value":"red","conditions":[{"name":"blue","value":"blue","percent":{"from":0,"to":50}}]}"#,
    );
    let mut expected = BTreeMap::new();
    for player in 0..20 {
        let vars =
            world.send(&Request::get(format!("/v1/vars?player=p{player}")).key(&world.public_key)).json();
        let variant = if vars["button"] == "blue" { "button=blue" } else { "button=(value)" };
        *expected.entry(variant.to_owned()).or_insert(0) += 1;
    }
    play(&world, 20);
    assert_eq!(by(&world, "variant"), expected);
}
