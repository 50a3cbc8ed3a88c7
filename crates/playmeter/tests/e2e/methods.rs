//! DDP methods: every live-ops write, with the authorization and the results of its route.

use std::collections::BTreeMap;

use serde_json::json;

use crate::client::Request;
use crate::openapi::{self, Operation};
use crate::player::Session;
use crate::socket::{ClientStore, Socket};
use crate::world::World;

#[test]
fn method_changes_arrive_before_updated() {
    let world = World::new();
    let mut socket = Socket::open(&world, &world.secret_key);
    socket.subscribe("v", "vars", json!([null, {"min_interval": 3_600_000}]));
    socket.subscribe("b", "board", json!(["high", {"min_interval": 3_600_000}]));
    for round in 1..20 {
        let messages = socket.call("m", "put_variable", json!([{"name": "speed", "value": round}]));
        let kinds: Vec<&str> = messages.iter().filter_map(|message| message["msg"].as_str()).collect();
        assert_eq!(
            kinds,
            ["result", if round == 1 { "added" } else { "changed" }, "updated"],
            "{messages:?}"
        );
        assert_eq!(messages[1]["fields"]["value"], round);
        let score = json!([{"table": "high", "player": "bo", "score": round}]);
        let mut store = ClientStore::default();
        let messages = socket.call("m", "submit_score", score);
        let matching = messages.iter().filter(|message| message["fields"]["score"] == round).count();
        assert_eq!(matching, 1, "{messages:?}");
        store.apply(messages.iter().filter(|message| message["msg"] == "result"));
    }
}

#[test]
fn every_live_ops_write_works_with_its_openapi_example() {
    let world = World::new();
    let description = openapi::description(&world);
    let mut created = BTreeMap::new();
    let mut failed = Vec::new();
    let mut called = 0;
    let mut socket = Socket::open(&world, &world.secret_key);
    let not_liveops = [
        "query",
        "explore",
        "funnel",
        "retention",
        "paths",
        "level_outcomes",
        "heatmap",
        "sql",
        "experiment_results",
        "preview_cohort",
        "send_events",
        "send_flow_packets",
        "put_alert",
        "mute_alert",
        "test_alert",
        "delete_alert",
        "preview_alert",
        "export_otlp_logs",
        "export_otlp_metrics",
        "export_otlp_traces",
        "remote_write",
        "write_influx",
        "write_influx_1",
        "write_readings",
        "import_events",
    ];
    let operations = Operation::all(&description);
    let writes = operations
        .iter()
        .filter(|operation| operation.method != "get" && !operation.requires_sign_in())
        .filter(|operation| !not_liveops.contains(&operation.id()));
    for operation in writes {
        let fields = operation.example_fields(&created);
        let outcome = socket.try_call(operation.id(), operation.id(), json!([fields]));
        called += 1;
        match outcome {
            Ok(answer) => {
                if let Some(id) = answer["id"].as_str() {
                    created.insert(format!("{}/", operation.path), id.to_owned());
                }
            }
            // No score is in quarantine.
            Err(rejection) if operation.id() == "decide_score" && rejection == "404" => {}
            Err(rejection) => failed.push(format!("{} {fields}: {rejection}", operation.id())),
        }
    }
    assert!(failed.is_empty() && called > 25, "{called}: {failed:?}");
}

#[test]
fn method_errors_match_the_route() {
    let world = World::new();
    let mut socket = Socket::open(&world, &world.secret_key);
    for (method, params, expected) in [
        ("fly", json!([]), "404 (method)"),
        ("boards", json!([]), "404 (method)"),
        ("send_events", json!([{"event": "win"}]), "404 (method)"),
        ("submit_score", json!([]), "400 (table)"),
        ("submit_score", json!([7]), "400"),
        ("submit_score", json!([{"table": "high", "player": "bo"}]), "400 (score)"),
        ("submit_score", json!([{"table": "high", "player": "bo", "score": 1, "rank": 1}]), "400 (rank)"),
        ("submit_score", json!([{"table": "high", "player": "bo", "score": 1}, {"more": 1}]), "400 (more)"),
        ("submit_score", json!([{}, {}, {}]), "400 (params)"),
        ("rate_level", json!([{"id": "nowhere00000", "player": "bo", "rating": 9}]), "404"),
        ("put_variable", json!([{"name": "a", "value": 1, "expected_version": 9}]), "409"),
        (
            "submit_score",
            json!([{"table": "a", "player": "a", "score": 1}, {"signature": "v1"}]),
            "401 (X-Playmeter-Signature)",
        ),
        ("login", json!([]), "400 (key)"),
        ("login", json!([{"user": "x"}]), "400 (user)"),
        ("login", json!([{"resume": "x"}]), "401"),
    ] {
        let outcome = socket.try_call("m", method, params.clone());
        let outcome = outcome.expect_err(method);
        assert!(outcome.starts_with(expected), "{method} {params}: {outcome}");
    }
    socket.send_json(json!({"msg": "ping"}));
    assert_eq!(socket.next()["msg"], "pong", "the connection stays open");
}

#[test]
fn method_with_same_idempotency_key_runs_once() {
    let world = World::new();
    let mut socket = Socket::open(&world, &world.secret_key);
    let params = |text: &str| json!([{"player": "bo", "text": text}, {"idempotency_key": "once"}]);
    let first = socket.try_call("1", "post_to_feed", params("hello")).expect("it is posted");
    assert_eq!(socket.try_call("2", "post_to_feed", params("hello")), Ok(first));
    assert!(
        socket.try_call("3", "post_to_feed", params("other")).expect_err("another body").starts_with("409")
    );
}

#[test]
fn player_signature_is_checked_on_methods() {
    let world = World::new();
    let session = Session::open(&world, "bo");
    let mut socket = Socket::open(&world, &world.public_key);
    let score = |score: &str, signature: Option<&str>| {
        let fields = format!(r#"{{"table":"high","player":"bo","score":{score}}}"#);
        let options = json!({ "signature": signature });
        format!(r#"{{"msg":"method","id":"{score}","method":"submit_score","params":[{fields},{options}]}}"#)
    };
    let signature = |score: &str| {
        let body = format!(r#"{{"player":"bo","score":{score}}}"#);
        session.signature("POST", "/v1/boards/high/scores", &body)
    };
    let mut call_text = |text: &str| {
        socket.send_text(text);
        let result = socket.until("result");
        socket.until("updated");
        result
    };
    assert_eq!(call_text(&score("7.0", None))["error"]["error"], 401);
    assert_eq!(call_text(&score("7.0", Some(&signature("9"))))["error"]["error"], 401);
    assert_eq!(call_text(&score("7.0", Some(&signature("7.0"))))["result"]["best"], 7);
}

#[test]
fn ejson_dates_and_bytes_are_decoded() {
    let world = World::new();
    let mut socket = Socket::open(&world, &world.secret_key);
    socket.subscribe("v", "vars", json!([]));
    let looks = json!({"$escape": {"$date": 5}});
    for (value, published, stored) in [
        (json!({"$date": 0}), json!("1970-01-01T00:00:00Z"), json!("1970-01-01T00:00:00Z")),
        (json!({"$binary": "AAE="}), json!("AAE="), json!("AAE=")),
        (looks.clone(), looks, json!({"$date": 5})),
    ] {
        let messages = socket.call("m", "put_variable", json!([{"name": "a", "value": value}]));
        let change = messages.iter().find(|message| !message["fields"].is_null()).expect("a change");
        assert_eq!(change["fields"]["value"], published);
        assert_eq!(world.send(&Request::get("/v1/vars/a").key(&world.secret_key)).json()["value"], stored);
    }
    let level = json!([{"name": "cave", "player": "bo", "data": {"$binary": "AAECAw=="}}]);
    let level = socket.try_call("l", "save_level", level).expect("it is saved");
    let saved = world.send(
        &Request::get(format!("/v1/levels/{}", level["id"].as_str().expect("an id"))).key(&world.public_key),
    );
    assert_eq!(saved.json()["data"], "AAECAw==");
}

#[test]
fn pipelined_methods_run_in_order() {
    let world = World::new();
    let mut socket = Socket::open(&world, &world.secret_key);
    for number in 0..200 {
        let params = json!([{"name": "last", "value": number}]);
        socket.send_json(
            json!({"msg": "method", "id": number.to_string(), "method": "put_variable", "params": params}),
        );
    }
    let mut versions = BTreeMap::new();
    while versions.len() < 200 {
        let result = socket.until("result");
        let id: u64 = result["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        versions.insert(id, result["result"]["version"].as_u64().expect("a version"));
    }
    assert!(versions.values().is_sorted(), "{versions:?}");
    let last = world.send(&Request::get("/v1/vars/last").key(&world.public_key)).json();
    assert_eq!(last["value"], 199);
}
