//! DDP: messages of clients and of the server, and resuming a subscription.

use serde_json::{Value, json};
use tungstenite::protocol::Message;

use crate::client::Request;
use crate::socket::{ClientStore, Socket};
use crate::world::World;

const SCORES: &str = "/v1/boards/high/scores";

fn submit(world: &World, player: &str, score: i64) {
    let body = json!({"player": player, "score": score}).to_string();
    let answer = world.send(&Request::new("POST", SCORES).key(&world.secret_key).body(body));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn put_var(world: &World, name: &str, value: &Value) {
    let body = json!({ "value": value }).to_string();
    let answer =
        world.send(&Request::new("PUT", format!("/v1/vars/{name}")).key(&world.secret_key).body(body));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn unsupported_version_closes_the_connection() {
    let world = World::new();
    let mut socket = Socket::unconnected(&world);
    for (message, reason) in [
        (r#"{"msg":"ping"}"#, "send `connect` first"),
        (r#"{"msg":"sub","id":"a","name":"vars"}"#, "send `connect` first"),
        (r#"{"msg":"connect"}"#, "`version` is missing"),
    ] {
        socket.send_text(message);
        let response = socket.next();
        assert_eq!(
            (response["msg"].as_str(), response["reason"].as_str()),
            (Some("error"), Some(reason)),
            "{response}"
        );
        assert_eq!(response["offendingMessage"], serde_json::from_str::<Value>(message).expect("JSON"));
    }
    socket.send_json(json!({"msg": "connect", "version": "pre2", "support": ["pre2", "1"]}));
    assert_eq!(socket.next(), json!({"msg": "failed", "version": "1"}));
    assert_eq!(socket.next_or_closed(), Err(1000));
    let mut again = Socket::anonymous(&world);
    again.send_json(json!({"msg": "connect", "version": "1", "support": ["1"]}));
    assert_eq!(again.next()["msg"], "error", "a second `connect` is an error");
}

#[test]
fn malformed_message_gets_an_error_and_keeps_the_connection() {
    let world = World::new();
    let mut socket = Socket::anonymous(&world);
    for text in ["", "{", "[]", "7", r#"{"msg":"sub","id":7,"name":"vars"}"#, r#"{"msg":"method","id":"1"}"#]
    {
        socket.send_text(text);
        assert_eq!(socket.next()["msg"], "error", "{text}");
    }
    socket.send(Message::binary(vec![1, 2, 3])).expect("the server reads");
    assert_eq!(socket.next()["msg"], "error");
    for unknown in [json!({"msg": "later", "id": "x"}), json!({"server_id": "0"})] {
        socket.send_json(unknown.clone());
        let error = socket.next();
        assert_eq!((&error["msg"], &error["offendingMessage"]), (&json!("error"), &unknown), "{error}");
        assert!(error["reason"].as_str().is_some_and(|reason| reason.contains("`msg`")), "{error}");
    }
    socket.send_text(r#"{"msg":"pong"}"#);
    socket.send_json(json!({"msg": "ping", "id": "z", "more": [1]}));
    assert_eq!(socket.next(), json!({"msg": "pong", "id": "z"}));
    socket.send_json(json!({"msg": "unsub", "id": "never"}));
    assert_eq!(socket.next(), json!({"msg": "nosub", "id": "never"}));
}

#[test]
fn invalid_subscription_names_its_field() {
    let world = World::new();
    let mut socket = Socket::open(&world, &world.secret_key);
    for (name, params, expected) in [
        ("weather", json!([]), "404 (name)"),
        ("flow", json!([]), "404 (name)"),
        ("query", json!([]), "400 (params)"),
        ("query", json!([{"metric": "hit", "step": "eon"}]), "400 (step)"),
        ("query", json!([{"metric": "hit", "owner": 1}]), "400 (owner)"),
        ("query", json!([{"last": "60m"}, {}, {}]), "400 (params)"),
        ("online", json!([{"now": 1}]), "400 (now)"),
        ("board", json!([]), "400 (table)"),
        ("board", json!([{"table": "a", "window": "eon"}]), "400 (window)"),
        ("board", json!([{"table": "a", "per_page": 101}]), "400 (per_page)"),
        ("board", json!([{"table": "a", "sql": ""}]), "400 (sql)"),
        ("feed", json!([{}]), "400 (player)"),
        ("vars", json!([{"planet": "mars"}]), "400 (planet)"),
        ("vars", json!([{"platform": "x".repeat(300)}]), "400 (platform)"),
        ("vars", json!([null, {"min_interval": -1}]), "400 (min_interval)"),
        ("vars", json!([null, {"min_interval": 3_600_001}]), "400 (min_interval)"),
        ("vars", json!([null, {"collection": ""}]), "400 (collection)"),
        ("vars", json!([null, {"ordered": "yes"}]), "400 (ordered)"),
        ("vars", json!([null, {"more": 1}]), "400 (more)"),
        ("vars", json!([null, {"resume": {"epoch": "a"}}]), "400 (resume.offset)"),
        ("vars", json!([null, {"resume": {"epoch": "a", "offset": 1}}]), "reload"),
        ("feed", json!(["x".repeat(20_000)]), "413 (params)"),
    ] {
        assert_eq!(socket.try_subscribe("s", name, params.clone()), expected, "{name} {params}");
    }
    assert_eq!(socket.try_subscribe("s", "vars", json!([])), "ready");
}

#[test]
fn every_publication_sends_a_snapshot_then_changes() {
    let world = World::new();
    let mut socket = Socket::open(&world, &world.secret_key);
    let mut store = ClientStore::default();
    let now = json!({"min_interval": 0});
    let hits = json!({"metric": "hit", "last": "60m", "step": "all"});
    for (name, what) in [
        ("online", Value::Null),
        ("events", Value::Null),
        ("load", Value::Null),
        ("query", hits),
        ("vars", json!({"player": "bo"})),
        ("feed", json!("bo")),
    ] {
        store.apply(&socket.subscribe(name, name, json!([what, now])));
    }
    let accepted = |store: &ClientStore| store.column("events", "outcome") == [json!("accepted")];
    let counted = |store: &ClientStore| {
        store.column("query", "total").contains(&json!(1.0))
            || store.column("query", "total").contains(&json!(1))
    };
    world.post(r#"{"event":"hit","player":"bo"}"#);
    while !(store.column("online", "online").contains(&json!(1)) && accepted(&store) && counted(&store)) {
        store.apply([&socket.next()]);
    }
    put_var(&world, "speed", &json!(3));
    while store.column("vars", "value") != [json!(3)] {
        store.apply([&socket.next()]);
    }
}

#[test]
fn ranked_documents_are_ordered_unless_disabled() {
    let world = World::new();
    submit(&world, "ann", 10);
    let mut socket = Socket::open(&world, &world.public_key);
    let now = json!({"min_interval": 0});
    let mut store = ClientStore::default();
    store.apply(&socket.subscribe("a", "board", json!(["high", now])));
    for (player, score) in [("bo", 20), ("cy", 5), ("ann", 30), ("cy", 40)] {
        submit(&world, player, score);
    }
    let wanted =
        [("player", json!(["cy", "ann", "bo"])), ("score", json!([40, 30, 20])), ("rank", json!([1, 2, 3]))];
    while wanted.iter().any(|(field, expected)| json!(store.column("board", field)) != *expected) {
        store.apply([&socket.next()]);
    }
    let plain =
        socket.subscribe("b", "board", json!([{"table": "high"}, {"collection": "plain", "ordered": false}]));
    assert!(plain.iter().all(|message| message["msg"] != "addedBefore"), "{plain:?}");
    store.apply(&plain);
    let mut ranks: Vec<u64> = store.column("plain", "rank").iter().filter_map(Value::as_u64).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, [1, 2, 3]);
}

#[test]
fn equal_subscriptions_share_documents_until_the_last_one_ends() {
    let world = World::new();
    put_var(&world, "speed", &json!(1));
    let mut socket = Socket::open(&world, &world.public_key);
    let mut store = ClientStore::default();
    store.apply(&socket.subscribe("a", "vars", json!([])));
    assert_eq!(store.len(), 1);
    let again = socket.subscribe("b", "vars", json!([null, {"min_interval": 0}]));
    assert_eq!(again.len(), 1, "the documents are shared: {again:?}");
    assert_eq!(socket.try_subscribe("c", "vars", json!([null, {"ordered": false}])), "409 (ordered)");
    store.apply(&socket.subscribe("d", "vars", json!([null, {"collection": "others"}])));
    assert_eq!(store.len(), 2);
    socket.send_json(json!({"msg": "unsub", "id": "a"}));
    assert_eq!(socket.next(), json!({"msg": "nosub", "id": "a"}));
    put_var(&world, "speed", &json!(2));
    while store.column("vars", "value") != [json!(2)] || store.column("others", "value") != [json!(2)] {
        store.apply([&socket.next()]);
    }
    for (id, left) in [("b", 1), ("d", 0)] {
        socket.send_json(json!({"msg": "unsub", "id": id}));
        store.apply(&socket.read_until("nosub"));
        assert_eq!(store.len(), left);
    }
    socket.send_json(json!({"msg": "sub", "id": "e", "name": "vars"}));
    socket.send_json(json!({"msg": "sub", "id": "e", "name": "vars"}));
    socket.send_json(json!({"msg": "ping"}));
    let messages = socket.read_until("pong");
    assert_eq!(
        messages.iter().filter(|message| message["msg"] == "added").count(),
        1,
        "two subscriptions with one id count once"
    );
}

/// The resume position of a client, from `ready` or its last message.
fn resume(message: &Value, epoch: &Value) -> Value {
    json!({"epoch": epoch, "offset": message["offset"]})
}

#[test]
fn resumed_subscription_gets_only_missed_changes() {
    let world = World::new();
    submit(&world, "ann", 10);
    submit(&world, "bo", 20);
    let now = |resume: Value| json!(["high", {"min_interval": 0, "resume": resume}]);
    let mut socket = Socket::open(&world, &world.public_key);
    let mut store = ClientStore::default();
    let first = socket.subscribe("a", "board", json!(["high", {"min_interval": 0}]));
    store.apply(&first);
    let ready = first.last().expect("ready").clone();
    drop(socket);
    submit(&world, "cy", 15);
    submit(&world, "ann", 17);
    let mut socket = Socket::open(&world, &world.public_key);
    let missed = socket.subscribe("a", "board", now(resume(&ready, &ready["epoch"])));
    store.apply(&missed);
    assert_eq!(store.column("board", "player"), ["bo", "ann", "cy"]);
    assert!(missed.iter().all(|message| message["id"] != "bo"), "{missed:?}");
    let at = missed.last().expect("ready").clone();
    drop(socket);
    let mut socket = Socket::open(&world, &world.public_key);
    let nothing = socket.subscribe("a", "board", now(resume(&at, &at["epoch"])));
    assert_eq!(nothing.len(), 1, "{nothing:?}");
    submit(&world, "cy", 99);
    let change = socket.next();
    store.apply([&change]);
    assert!(change["offset"].as_u64() > at["offset"].as_u64(), "{change}");
}

#[test]
fn resume_after_a_crash_requires_a_reload() {
    let mut world = World::new();
    put_var(&world, "speed", &json!(1));
    submit(&world, "ann", 10);
    let mut socket = Socket::open(&world, &world.public_key);
    let ready = socket.subscribe("a", "board", json!(["high"])).pop().expect("ready");
    world.kill9();
    assert_eq!(socket.next_or_closed(), Err(0));
    world.start();
    let mut socket = Socket::open(&world, &world.public_key);
    let old = json!(["high", {"resume": resume(&ready, &ready["epoch"])}]);
    assert_eq!(socket.try_subscribe("a", "board", old), "reload");
    let mut store = ClientStore::default();
    store.apply(&socket.subscribe("a", "board", json!(["high"])));
    assert_eq!(store.column("board", "score"), [10]);
    let unknown = json!({"epoch": ready["epoch"], "offset": u64::MAX});
    assert_eq!(socket.try_subscribe("b", "board", json!(["other", {"resume": unknown}])), "reload");
}
