//! DDP: what a client says, what it is told, and going on where it was.

use serde_json::{Value, json};
use tungstenite::protocol::Message;

use crate::client::Request;
use crate::socket::{Socket, Store};
use crate::world::World;

const SCORES: &str = "/v1/boards/high/scores";

fn submit(world: &World, player: &str, score: i64) {
    let body = json!({"player": player, "score": score}).to_string();
    let answer = world.ask(&Request::new("POST", SCORES).key(&world.secret_key).body(body));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn put_var(world: &World, name: &str, value: &Value) {
    let body = json!({ "value": value }).to_string();
    let answer =
        world.ask(&Request::new("PUT", format!("/v1/vars/{name}")).key(&world.secret_key).body(body));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_version_is_agreed_on_or_the_connection_ends() {
    let world = World::new();
    let mut socket = Socket::silent(&world);
    for (message, reason) in [
        (r#"{"msg":"ping"}"#, "send `connect` first"),
        (r#"{"msg":"sub","id":"a","name":"vars"}"#, "send `connect` first"),
        (r#"{"msg":"connect"}"#, "`version` is missing"),
    ] {
        socket.say_text(message);
        let told = socket.next();
        assert_eq!((told["msg"].as_str(), told["reason"].as_str()), (Some("error"), Some(reason)), "{told}");
        assert_eq!(told["offendingMessage"], serde_json::from_str::<Value>(message).expect("JSON"));
    }
    socket.say(json!({"msg": "connect", "version": "pre2", "support": ["pre2", "1"]}));
    assert_eq!(socket.next(), json!({"msg": "failed", "version": "1"}));
    assert_eq!(socket.next_or_closed(), Err(1000));
    let mut again = Socket::nobody(&world);
    again.say(json!({"msg": "connect", "version": "1", "support": ["1"]}));
    assert_eq!(again.next()["msg"], "error", "once is enough");
}

#[test]
fn what_cannot_be_understood_is_answered_and_the_connection_goes_on() {
    let world = World::new();
    let mut socket = Socket::nobody(&world);
    for text in ["", "{", "[]", "7", r#"{"msg":"sub","id":7,"name":"vars"}"#, r#"{"msg":"method","id":"1"}"#]
    {
        socket.say_text(text);
        assert_eq!(socket.next()["msg"], "error", "{text}");
    }
    socket.send(Message::binary(vec![1, 2, 3])).expect("the server reads");
    assert_eq!(socket.next()["msg"], "error");
    for ignored in [r#"{"msg":"later","id":"x"}"#, r#"{"server_id":"0"}"#, r#"{"msg":"pong"}"#] {
        socket.say_text(ignored);
    }
    socket.say(json!({"msg": "ping", "id": "z", "more": [1]}));
    assert_eq!(socket.next(), json!({"msg": "pong", "id": "z"}));
    socket.say(json!({"msg": "unsub", "id": "never"}));
    assert_eq!(socket.next(), json!({"msg": "nosub", "id": "never"}));
}

#[test]
fn a_subscription_that_cannot_be_is_refused_by_its_field() {
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
        assert_eq!(socket.subbed("s", name, params.clone()), expected, "{name} {params}");
    }
    assert_eq!(socket.subbed("s", "vars", json!([])), "ready");
}

#[test]
fn everything_that_can_be_watched_is_told_and_then_what_changes() {
    let world = World::new();
    let mut socket = Socket::open(&world, &world.secret_key);
    let mut store = Store::default();
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
        store.follow(&socket.sub(name, name, json!([what, now])));
    }
    let accepted = |store: &Store| store.column("events", "outcome") == [json!("accepted")];
    let counted = |store: &Store| {
        store.column("query", "total").contains(&json!(1.0))
            || store.column("query", "total").contains(&json!(1))
    };
    world.post(r#"{"event":"hit","player":"bo"}"#);
    while !(store.column("online", "online").contains(&json!(1)) && accepted(&store) && counted(&store)) {
        store.follow([&socket.next()]);
    }
    put_var(&world, "speed", &json!(3));
    while store.column("vars", "value") != [json!(3)] {
        store.follow([&socket.next()]);
    }
}

#[test]
fn a_ranked_list_is_told_in_its_order_unless_somebody_wants_none() {
    let world = World::new();
    submit(&world, "ann", 10);
    let mut socket = Socket::open(&world, &world.public_key);
    let now = json!({"min_interval": 0});
    let mut store = Store::default();
    store.follow(&socket.sub("a", "board", json!(["high", now])));
    for (player, score) in [("bo", 20), ("cy", 5), ("ann", 30), ("cy", 40)] {
        submit(&world, player, score);
    }
    let wanted =
        [("player", json!(["cy", "ann", "bo"])), ("score", json!([40, 30, 20])), ("rank", json!([1, 2, 3]))];
    while wanted.iter().any(|(field, expected)| json!(store.column("board", field)) != *expected) {
        store.follow([&socket.next()]);
    }
    let plain =
        socket.sub("b", "board", json!([{"table": "high"}, {"collection": "plain", "ordered": false}]));
    assert!(plain.iter().all(|message| message["msg"] != "addedBefore"), "{plain:?}");
    store.follow(&plain);
    let mut ranks: Vec<u64> = store.column("plain", "rank").iter().filter_map(Value::as_u64).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, [1, 2, 3]);
}

#[test]
fn the_same_in_the_same_collection_is_told_once_and_gone_with_the_last() {
    let world = World::new();
    put_var(&world, "speed", &json!(1));
    let mut socket = Socket::open(&world, &world.public_key);
    let mut store = Store::default();
    store.follow(&socket.sub("a", "vars", json!([])));
    assert_eq!(store.len(), 1);
    let again = socket.sub("b", "vars", json!([null, {"min_interval": 0}]));
    assert_eq!(again.len(), 1, "it is there already: {again:?}");
    assert_eq!(socket.subbed("c", "vars", json!([null, {"ordered": false}])), "409 (ordered)");
    store.follow(&socket.sub("d", "vars", json!([null, {"collection": "others"}])));
    assert_eq!(store.len(), 2);
    socket.say(json!({"msg": "unsub", "id": "a"}));
    assert_eq!(socket.next(), json!({"msg": "nosub", "id": "a"}));
    put_var(&world, "speed", &json!(2));
    while store.column("vars", "value") != [json!(2)] || store.column("others", "value") != [json!(2)] {
        store.follow([&socket.next()]);
    }
    for (id, left) in [("b", 1), ("d", 0)] {
        socket.say(json!({"msg": "unsub", "id": id}));
        store.follow(&socket.up_to("nosub"));
        assert_eq!(store.len(), left);
    }
    socket.say(json!({"msg": "sub", "id": "e", "name": "vars"}));
    socket.say(json!({"msg": "sub", "id": "e", "name": "vars"}));
    socket.say(json!({"msg": "ping"}));
    let told = socket.up_to("pong");
    assert_eq!(
        told.iter().filter(|message| message["msg"] == "added").count(),
        1,
        "asked twice under one id"
    );
}

/// Where a client goes on: what `ready` or the last message said.
fn resume(message: &Value, epoch: &Value) -> Value {
    json!({"epoch": epoch, "offset": message["offset"]})
}

#[test]
fn a_client_that_was_away_is_told_what_it_missed_and_nothing_else() {
    let world = World::new();
    submit(&world, "ann", 10);
    submit(&world, "bo", 20);
    let now = |resume: Value| json!(["high", {"min_interval": 0, "resume": resume}]);
    let mut socket = Socket::open(&world, &world.public_key);
    let mut store = Store::default();
    let first = socket.sub("a", "board", json!(["high", {"min_interval": 0}]));
    store.follow(&first);
    let ready = first.last().expect("ready").clone();
    drop(socket);
    submit(&world, "cy", 15);
    submit(&world, "ann", 17);
    let mut socket = Socket::open(&world, &world.public_key);
    let missed = socket.sub("a", "board", now(resume(&ready, &ready["epoch"])));
    store.follow(&missed);
    assert_eq!(store.column("board", "player"), ["bo", "ann", "cy"]);
    assert!(missed.iter().all(|message| message["id"] != "bo"), "{missed:?}");
    let at = missed.last().expect("ready").clone();
    drop(socket);
    let mut socket = Socket::open(&world, &world.public_key);
    let nothing = socket.sub("a", "board", now(resume(&at, &at["epoch"])));
    assert_eq!(nothing.len(), 1, "{nothing:?}");
    submit(&world, "cy", 99);
    let change = socket.next();
    store.follow([&change]);
    assert!(change["offset"].as_u64() > at["offset"].as_u64(), "{change}");
}

#[test]
fn after_a_crash_a_client_is_told_to_begin_again() {
    let mut world = World::new();
    put_var(&world, "speed", &json!(1));
    submit(&world, "ann", 10);
    let mut socket = Socket::open(&world, &world.public_key);
    let ready = socket.sub("a", "board", json!(["high"])).pop().expect("ready");
    world.kill9();
    assert_eq!(socket.next_or_closed(), Err(0));
    world.start();
    let mut socket = Socket::open(&world, &world.public_key);
    let old = json!(["high", {"resume": resume(&ready, &ready["epoch"])}]);
    assert_eq!(socket.subbed("a", "board", old), "reload");
    let mut store = Store::default();
    store.follow(&socket.sub("a", "board", json!(["high"])));
    assert_eq!(store.column("board", "score"), [10]);
    let unknown = json!({"epoch": ready["epoch"], "offset": u64::MAX});
    assert_eq!(socket.subbed("b", "board", json!(["other", {"resume": unknown}])), "reload");
}
