//! Methods of DDP: every write of live-ops, with the rights and the answers of its route.

use std::collections::BTreeMap;

use serde_json::json;

use crate::client::Request;
use crate::openapi::{self, Operation};
use crate::player::Session;
use crate::socket::{Socket, Store};
use crate::world::World;

#[test]
fn what_a_method_changed_is_told_before_it_is_said_that_it_was() {
    let world = World::new();
    let mut socket = Socket::open(&world, &world.secret_key);
    socket.sub("v", "vars", json!([null, {"min_interval": 3_600_000}]));
    socket.sub("b", "board", json!(["high", {"min_interval": 3_600_000}]));
    for round in 1..20 {
        let told = socket.call("m", "put_variable", json!([{"name": "speed", "value": round}]));
        let kinds: Vec<&str> = told.iter().filter_map(|message| message["msg"].as_str()).collect();
        assert_eq!(kinds, ["result", if round == 1 { "added" } else { "changed" }, "updated"], "{told:?}");
        assert_eq!(told[1]["fields"]["value"], round);
        let score = json!([{"table": "high", "player": "bo", "score": round}]);
        let mut store = Store::default();
        let told = socket.call("m", "submit_score", score);
        let said = told.iter().filter(|message| message["fields"]["score"] == round).count();
        assert_eq!(said, 1, "{told:?}");
        store.follow(told.iter().filter(|message| message["msg"] == "result"));
    }
}

#[test]
fn every_write_of_live_ops_works_with_the_example_of_its_description() {
    let world = World::new();
    let description = openapi::description(&world);
    let mut made = BTreeMap::new();
    let mut failed = Vec::new();
    let mut called = 0;
    let mut socket = Socket::open(&world, &world.secret_key);
    let not_liveops = [
        "query",
        "send_events",
        "send_flow_packets",
        "export_otlp_metrics",
        "write_influx",
        "write_influx_1",
        "write_readings",
        "import_events",
        "sign_out",
    ];
    let operations = Operation::all(&description);
    let writes = operations
        .iter()
        .filter(|operation| operation.method != "get" && !not_liveops.contains(&operation.id()));
    for operation in writes {
        let fields = operation.fields_of_example(&made);
        let came = socket.called(operation.id(), operation.id(), json!([fields]));
        called += 1;
        match came {
            Ok(answer) => {
                if let Some(id) = answer["id"].as_str() {
                    made.insert(format!("{}/", operation.path), id.to_owned());
                }
            }
            // There is no score that waits.
            Err(refusal) if operation.id() == "decide_score" && refusal == "404" => {}
            Err(refusal) => failed.push(format!("{} {fields}: {refusal}", operation.id())),
        }
    }
    assert!(failed.is_empty() && called > 25, "{called}: {failed:?}");
}

#[test]
fn a_refusal_says_what_the_route_says() {
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
        ("login", json!([{"resume": "x"}]), "400 (resume)"),
    ] {
        let came = socket.called("m", method, params.clone());
        let came = came.expect_err(method);
        assert!(came.starts_with(expected), "{method} {params}: {came}");
    }
    socket.say(json!({"msg": "ping"}));
    assert_eq!(socket.next()["msg"], "pong", "and the connection goes on");
}

#[test]
fn a_method_that_is_repeated_with_its_key_is_done_once() {
    let world = World::new();
    let mut socket = Socket::open(&world, &world.secret_key);
    let params = |text: &str| json!([{"player": "bo", "text": text}, {"idempotency_key": "once"}]);
    let first = socket.called("1", "post_to_feed", params("hello")).expect("it is posted");
    assert_eq!(socket.called("2", "post_to_feed", params("hello")), Ok(first));
    assert!(
        socket.called("3", "post_to_feed", params("other")).expect_err("another body").starts_with("409")
    );
}

#[test]
fn a_player_signs_a_method_as_a_request() {
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
    let mut tell = |text: &str| {
        socket.say_text(text);
        let result = socket.until("result");
        socket.until("updated");
        result
    };
    assert_eq!(tell(&score("7.0", None))["error"]["error"], 401);
    assert_eq!(tell(&score("7.0", Some(&signature("9"))))["error"]["error"], 401);
    assert_eq!(tell(&score("7.0", Some(&signature("7.0"))))["result"]["best"], 7);
}

#[test]
fn dates_and_bytes_are_taken_as_ejson_writes_them() {
    let world = World::new();
    let mut socket = Socket::open(&world, &world.secret_key);
    socket.sub("v", "vars", json!([]));
    let looks = json!({"$escape": {"$date": 5}});
    for (value, told, kept) in [
        (json!({"$date": 0}), json!("1970-01-01T00:00:00Z"), json!("1970-01-01T00:00:00Z")),
        (json!({"$binary": "AAE="}), json!("AAE="), json!("AAE=")),
        (looks.clone(), looks, json!({"$date": 5})),
    ] {
        let messages = socket.call("m", "put_variable", json!([{"name": "a", "value": value}]));
        let change = messages.iter().find(|message| !message["fields"].is_null()).expect("a change");
        assert_eq!(change["fields"]["value"], told);
        assert_eq!(world.ask(&Request::get("/v1/vars/a").key(&world.secret_key)).json()["value"], kept);
    }
    let level = json!([{"name": "cave", "player": "bo", "data": {"$binary": "AAECAw=="}}]);
    let level = socket.called("l", "save_level", level).expect("it is saved");
    let saved = world.ask(
        &Request::get(format!("/v1/levels/{}", level["id"].as_str().expect("an id"))).key(&world.public_key),
    );
    assert_eq!(saved.json()["data"], "AAECAw==");
}

#[test]
fn many_methods_at_once_are_all_answered_and_done_in_their_order() {
    let world = World::new();
    let mut socket = Socket::open(&world, &world.secret_key);
    for number in 0..200 {
        let params = json!([{"name": "last", "value": number}]);
        socket.say(
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
    let last = world.ask(&Request::get("/v1/vars/last").key(&world.public_key)).json();
    assert_eq!(last["value"], 199);
}
