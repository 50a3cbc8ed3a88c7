//! Monitoring: requests, events, stores, the process.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Request;
use crate::socket::Socket;
use crate::watch::Watch;
use crate::world::{World, new_id};

/// The row of a list with these fields.
fn row<'a>(snapshot: &'a Value, list: &str, fields: &[(&str, &str)]) -> &'a Value {
    let rows = snapshot[list].as_array().expect("it is a list");
    let is = |row: &&Value| fields.iter().all(|(field, value)| row[*field] == *value);
    rows.iter().find(is).unwrap_or_else(|| panic!("no {fields:?} in {rows:?}"))
}

fn snapshot(world: &World) -> Value {
    world.command(&["top", "--json"]).json()
}

#[test]
fn requests_are_counted_by_route_pattern_and_outcome() {
    let world = World::new();
    world.post(r#"[{"event": "win"}, {"event": ""}, {"event": "win"}]"#);
    world.send(&Request::get("/v1/query?metric=win").key(&world.secret_key));
    world.send(&Request::get("/v1/query?metric=win"));
    world.send(&Request::get("/v1/boards/my-secret-board"));
    world.send(&Request::get("/nobody/knows/this"));
    world.send(&Request::get("/websocket"));
    let snapshot = snapshot(&world);
    let outcomes = |method, path| {
        let row = row(&snapshot, "requests", &[("method", method), ("path", path)]);
        ["ok", "refused", "failed"].map(|outcome| row[outcome].as_u64().expect("a number"))
    };
    assert_eq!(outcomes("POST", "/v1/events"), [1, 0, 0]);
    assert_eq!(outcomes("GET", "/v1/query"), [1, 1, 0]);
    assert_eq!(outcomes("GET", "/v1/boards/{table}"), [0, 1, 0]);
    assert_eq!(outcomes("GET", "/websocket"), [0, 1, 0]);
    assert_eq!(outcomes("GET", "(none)"), [0, 1, 0]);
    assert!(!snapshot.to_string().contains("my-secret-board"));
    let events = row(&snapshot, "requests", &[("path", "/v1/events")]);
    let (p50, p99) = (events["p50_us"].as_u64().unwrap(), events["p99_us"].as_u64().unwrap());
    assert!(0 < p50 && p50 <= p99);
}

#[test]
fn socket_method_counts_as_a_request_of_its_route() {
    let world = World::new();
    let mut socket = Socket::open(&world, &world.secret_key);
    socket.call("m", "put_variable", json!([{"name": "speed", "value": 1}]));
    socket.call("n", "put_variable", json!([{"name": "speed"}]));
    let snapshot = snapshot(&world);
    let counts = row(&snapshot, "requests", &[("method", "PUT"), ("path", "/v1/vars/{name}")]);
    assert_eq!((&counts["ok"], &counts["refused"]), (&json!(1), &json!(1)), "{counts}");
}

/// The requests of a game as `GET /v1/load` reports them: `METHOD path ok/refused/failed`.
fn request_counts(world: &World, key: &str) -> Vec<String> {
    let load = world.send(&Request::get("/v1/load").key(key)).json();
    let describe = |row: &Value| {
        let count = |outcome: &str| row[outcome].as_u64().unwrap_or(0);
        let (method, path) = (row["method"].as_str().expect("a word"), row["path"].as_str().expect("a path"));
        format!("{method} {path} {}/{}/{}", count("ok"), count("refused"), count("failed"))
    };
    load["requests"].as_array().expect("a list").iter().map(describe).collect()
}

/// A measure of the latency of accepted event requests, in milliseconds.
fn accept_latency(world: &World, measure: &str) -> f64 {
    let metric = "$load.http.POST /v1/events.ok";
    let query = json!({"metric": metric, "measure": measure, "last": "24h", "step": "all"});
    world.query(&query).json()["series"][0]["total"].as_f64().expect("a number")
}

#[test]
#[ignore = "waits for the end of a minute; `make torture` runs it"]
fn requests_of_a_minute_are_stored_per_game() {
    let mut world = World::new();
    world.command(&["games", "create", "other", "--json"]).json();
    let created =
        world.command(&["keys", "create", "--game", "other", "--scopes", "query,events:write", "--json"]);
    let other = created.json()["secret_key"].as_str().expect("it is shown once").to_owned();
    world.post(r#"{"event": "win"}"#);
    world.post(r#"{"event": "win"}"#);
    world.post_as("pm_pk_nobody", r#"{"event": "win"}"#);
    world.post_as(&other, r#"{"event": "loss"}"#);
    world.send(&Request::get("/v1/boards/none").key(&other));
    let keys = ["--key", "7bf0867af8a64758", "--private-key", "0123456789abcdef", "--json"];
    world.command(&[&["games", "playtomic", "other"], &keys[..]].concat()).json();
    world.send(&Request::get("/tracker/q.aspx?guid=7bf0867af8a64758&q=v/1"));
    let deadline = Instant::now() + Duration::from_secs(150);
    while request_counts(&world, &other).is_empty() {
        assert!(Instant::now() < deadline, "{}", world.log_lines());
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(request_counts(&world, &world.secret_key).contains(&"POST /v1/events 2/1/0".to_owned()));
    let counts = request_counts(&world, &other);
    assert!(counts.contains(&"POST /v1/events 1/0/0".to_owned()), "{counts:?}");
    assert!(counts.contains(&"GET /v1/boards/{table} 0/1/0".to_owned()), "{counts:?}");
    assert!(counts.contains(&"GET /tracker/q.aspx 1/0/0".to_owned()), "{counts:?}");
    assert_eq!(accept_latency(&world, "count"), 2.0);
    assert!(
        0.0 < accept_latency(&world, "min") && accept_latency(&world, "min") <= accept_latency(&world, "p99")
    );
    let load = world.load();
    assert_eq!(load["totals"]["received"], 2, "the server's own samples are not received events: {load}");
    assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true);
    world.restart();
    assert_eq!(accept_latency(&world, "count"), 2.0);
}

#[test]
fn events_and_stores_are_counted() {
    let world = World::new();
    let id = new_id();
    world.post(format!(r#"[{{"event": "win", "id": "{id}"}}, {{"event": ""}}, {{"event": "win"}}]"#));
    world.query(&serde_json::json!({"metric": "win"}));
    let snapshot = snapshot(&world);
    let event = |fields: &[(&str, &str)]| row(&snapshot, "events", fields)["count"].as_u64();
    assert_eq!(event(&[("endpoint", "events"), ("outcome", "accepted")]), Some(2));
    assert_eq!(event(&[("endpoint", "events"), ("outcome", "invalid")]), Some(1));
    let store = |name| row(&snapshot, "stores", &[("store", name)]);
    assert!(store("log")["count"].as_u64() >= Some(2));
    assert!(store("log")["writes"].as_u64() >= Some(1), "the log was synced");
    assert_eq!(store("event ids")["count"].as_u64(), Some(1));
    assert!(store("rollups")["reads"].as_u64() >= Some(1));
    assert!(store("rollups")["writes"].as_u64() >= Some(1));
    assert!(snapshot["process"]["memory_bytes"].as_u64() > Some(1 << 20));
}

#[test]
fn subscriptions_show_mode_and_cost() {
    let world = World::new();
    let query = "query=%7B%22metric%22%3A%22win%22%2C%22last%22%3A%2260m%22%7D";
    let mut watch = Watch::open_as(&world, &world.secret_key, query, None);
    assert_eq!(watch.next().name, "snapshot");
    let snapshot = snapshot(&world);
    let subscription = row(&snapshot, "subscriptions", &[("topic", "query"), ("game", "demo")]);
    assert_eq!(
        (subscription["mode"].as_str(), subscription["watchers"].as_u64()),
        (Some("incremental"), Some(1)),
        "{subscription}"
    );
    assert!(subscription["cost_us"]["total"].is_u64());
}

#[test]
fn key_sees_only_events_of_its_own_game() {
    let world = World::new();
    world.command(&["games", "create", "other", "--json"]).json();
    let created =
        world.command(&["keys", "create", "--game", "other", "--scopes", "admin,events:write", "--json"]);
    let key = created.json()["secret_key"].as_str().expect("it is shown once").to_owned();
    world.post(r#"{"event": "win"}"#);
    world.post_as(&key, r#"[{"event": "loss"}, {"event": "loss"}]"#);
    world.query(&serde_json::json!({"metric": "win"}));
    let snapshot = world.send(&Request::get("/v1/monitor").key(&key)).json();
    let games: Vec<&Value> = snapshot["events"].as_array().unwrap().iter().map(|row| &row["game"]).collect();
    assert_eq!(games, ["other"]);
}

#[test]
fn top_prints_once_without_a_terminal() {
    let world = World::new();
    world.post(r#"{"event": "win"}"#);
    // Only applied events are shown; a query waits until they are applied.
    world.query(&serde_json::json!({"metric": "win"}));
    let done = world.command(&["top", "--every", "0.1"]);
    assert_eq!(done.code, 0);
    for text in ["Server", "Events since the start", "events.accepted", "POST /v1/events", "Stores", "log"] {
        assert!(done.out.contains(text), "{text} in {}", done.out);
    }
}

#[test]
fn top_without_a_server_fails() {
    let mut world = World::new();
    world.stop();
    let done = world.command(&["top", "--once"]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("no server is running on"), "{}", done.err);
}
