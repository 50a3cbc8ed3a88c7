//! Achievements, follows and the feed over HTTP.

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::player::Session;
use crate::world::{World, now_ms};

const HOUR_MS: i64 = 3_600_000;

fn send(world: &World, method: &'static str, target: &str, body: Value) -> Answer {
    let request = Request::new(method, target).key(&world.secret_key);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    world.send(&request.body(body))
}

/// Sends a request that must succeed.
fn send_ok(world: &World, method: &'static str, target: &str, body: Value) -> Answer {
    let answer = send(world, method, target, body);
    assert!(answer.status < 300, "{method} {target}: {}", answer.text());
    answer
}

fn read(world: &World, target: &str) -> Value {
    let answer = world.send(&Request::get(target).key(&world.public_key));
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    answer.json()
}

fn send_summary(world: &World, method: &'static str, target: &str, body: Value) -> String {
    send(world, method, target, body).summary()
}

/// A page of the feed as text: `trade "hello" of bo,cy; achievement first of bo`.
fn items(page: &Value) -> String {
    let item = |item: &Value| {
        let text = |field: &str| item[field].as_str().map(str::to_owned);
        let what = text("achievement").or(text("text")).expect("an item has a text");
        let players = item["players"].as_array().expect("a list").iter();
        let players: Vec<&str> = players.map(|it| it["player"].as_str().expect("an id")).collect();
        assert_eq!(item["players_count"], players.len());
        format!("{} {what} of {}", text("kind").expect("a kind"), players.join(","))
    };
    page["items"].as_array().expect("a list").iter().map(item).collect::<Vec<_>>().join("; ")
}

fn post(world: &World, player: &str, text: &str, hours_ago: i64) {
    let at = now_ms() - hours_ago * HOUR_MS;
    let body = json!({ "player": player, "kind": "trade", "text": text, "at": at.to_string() });
    send_ok(world, "POST", "/v1/feed", body);
}

fn follow(world: &World, player: &str, others: &[&str]) {
    for other in others {
        send_ok(world, "PUT", &format!("/v1/players/{player}/follows/{other}"), Value::Null);
    }
}

#[test]
fn achievement_is_granted_once_and_listed_with_friends() {
    let mut world = World::new();
    let put = json!({ "name": "First win", "description": "Win.", "points": 10, "icon": "https://x/y.png" });
    let answer = send_ok(&world, "PUT", "/v1/achievements/first", put).json();
    assert_eq!((&answer["key"], &answer["points"]), (&json!("first"), &json!(10)));
    send_ok(&world, "PUT", "/v1/achievements/secret", json!({ "name": "Secret", "hidden": true }));
    let grant = |player: &str, key: &str| {
        let body = json!({ "player": player, "name": player.to_uppercase() });
        let answer = send_ok(&world, "POST", &format!("/v1/achievements/{key}/grants"), body);
        (answer.status, answer.json())
    };
    let (status, first) = grant("bo", "first");
    assert_eq!((status, &first["granted"]), (201, &json!(true)));
    let (status, again) = grant("bo", "first");
    assert_eq!((status, again), (200, json!({ "granted": false, "at": first["at"] })));
    grant("cy", "first");
    grant("cy", "secret");
    follow(&world, "ann", &["bo", "cy"]);
    world.kill9();
    world.start();
    let keys = |list: &Value| {
        let listed = list["achievements"].as_array().expect("a list").iter();
        listed.map(|it| it["key"].as_str().expect("a key").to_owned()).collect::<Vec<_>>().join(" ")
    };
    let list = read(&world, "/v1/achievements?player=bo&friends=cy,nobody");
    assert_eq!(keys(&list), "first");
    let listed = &list["achievements"][0];
    assert_eq!((&listed["granted_at"], &listed["friends_count"]), (&first["at"], &json!(1)));
    assert_eq!(
        (&listed["friends"][0]["player"], &listed["friends"][0]["name"]),
        (&json!("cy"), &json!("CY"))
    );
    assert_eq!(keys(&read(&world, "/v1/achievements?player=cy")), "first secret");
    assert_eq!(keys(&send(&world, "GET", "/v1/achievements", Value::Null).json()), "first secret");
    for friends in ["player=ann&friends=follows", "friends=follows:ann"] {
        let list = read(&world, &format!("/v1/achievements?{friends}"));
        assert_eq!(list["achievements"][0]["friends_count"], 2, "{friends}");
        assert_eq!(list["achievements"][0]["granted_at"], Value::Null, "{friends}");
    }
    send_ok(&world, "DELETE", "/v1/achievements/first", Value::Null);
    assert_eq!(keys(&read(&world, "/v1/achievements?player=bo")), "");
    send_ok(&world, "PUT", "/v1/achievements/first", json!({ "name": "First" }));
    assert_eq!(read(&world, "/v1/achievements?player=bo")["achievements"][0]["granted_at"], first["at"]);
}

#[test]
fn feed_groups_equal_items_and_fair_mode_limits_busy_players() {
    let mut world = World::new();
    send_ok(&world, "PUT", "/v1/achievements/first", json!({ "name": "First win" }));
    follow(&world, "ann", &["bo", "cy", "di"]);
    for hours in (2..=6).rev() {
        post(&world, "bo", &format!("busy {hours}"), hours);
    }
    post(&world, "cy", "rare", 50);
    post(&world, "di", "hello", 8);
    post(&world, "cy", "hello", 7);
    post(&world, "stranger", "unseen", 1);
    send_ok(&world, "POST", "/v1/achievements/first/grants", json!({ "player": "di", "name": "Di" }));
    send_ok(&world, "POST", "/v1/achievements/first/grants", json!({ "player": "bo" }));
    let page = read(&world, "/v1/feed/ann?n=3");
    assert_eq!(items(&page), "achievement first of bo,di; trade busy 2 of bo; trade busy 3 of bo");
    let first = &page["items"][0];
    assert_eq!((&first["text"], &first["players"][1]["name"]), (&json!("First win"), &json!("Di")));
    // Later items do not appear on the following pages, and a restart does not change the pages.
    post(&world, "bo", "hello", 0);
    world.kill9();
    world.start();
    let next = page["next"].as_str().expect("there is more");
    let rest = read(&world, &format!("/v1/feed/ann?n=5&before={next}"));
    let older =
        "trade busy 4 of bo; trade busy 5 of bo; trade busy 6 of bo; trade hello of cy,di; trade rare of cy";
    assert_eq!((items(&rest), &rest["next"]), (older.to_owned(), &Value::Null));
    assert_eq!(items(&read(&world, "/v1/feed/ann?n=1")), "trade hello of bo,cy,di");
    let fair = items(&read(&world, "/v1/feed/ann?mode=fair&n=4"));
    let expected =
        "trade hello of bo,cy,di; achievement first of bo,di; trade rare of cy; trade busy 2 of bo";
    assert_eq!(fair, expected);
    send_ok(&world, "DELETE", "/v1/players/ann/follows/bo", Value::Null);
    let without = "achievement first of di; trade hello of cy,di; trade rare of cy";
    assert_eq!(items(&read(&world, "/v1/feed/ann")), without);
}

#[test]
fn signed_player_cannot_act_for_another() {
    let world = World::new();
    send_ok(&world, "PUT", "/v1/achievements/first", json!({ "name": "First win" }));
    let bo = Session::open(&world, "bo");
    let rows = [
        ("PUT", "/v1/players/bo/follows/cy", "", "204"),
        ("PUT", "/v1/players/cy/follows/bo", "", "403 scope (player)"),
        ("DELETE", "/v1/players/cy/follows/bo", "", "403 scope (player)"),
        ("DELETE", "/v1/players/bo/follows/cy", "", "204"),
        ("POST", "/v1/feed", r#"{"player":"cy","text":"I"}"#, "403 scope (player)"),
        ("POST", "/v1/achievements/first/grants", r#"{"player":"cy"}"#, "403 scope (player)"),
        ("PUT", "/v1/achievements/first", r#"{"name":"Mine"}"#, "403 scope"),
        ("DELETE", "/v1/achievements/first", "", "403 scope"),
    ];
    for (method, target, body, expected) in rows {
        assert_eq!(world.send(&bo.signed(method, target, body)).summary(), expected, "{method} {target}");
    }
    let posted = world.send(&bo.signed("POST", "/v1/feed", r#"{"player":"bo","text":"I"}"#));
    assert_eq!(posted.status, 201, "{}", posted.text());
    let granted = world.send(&bo.signed("POST", "/v1/achievements/first/grants", r#"{"player":"bo"}"#));
    assert_eq!(granted.status, 201, "{}", granted.text());
    follow(&world, "ann", &["bo"]);
    assert_eq!(items(&read(&world, "/v1/feed/ann")), "achievement first of bo; post I of bo");
}

#[test]
fn follows_are_listed_in_order_without_duplicates() {
    let mut world = World::new();
    follow(&world, "ann", &["di", "bo", "cy", "bo"]);
    send_ok(&world, "DELETE", "/v1/players/ann/follows/cy", Value::Null);
    send_ok(&world, "DELETE", "/v1/players/ann/follows/nobody", Value::Null);
    for _ in 0..2 {
        let follows = read(&world, "/v1/players/ann/follows");
        assert_eq!(follows, json!({ "count": 2, "follows": ["bo", "di"] }));
        world.restart();
    }
    assert_eq!(read(&world, "/v1/players/nobody/follows"), json!({ "count": 0, "follows": [] }));
}

#[test]
fn invalid_write_field_is_named() {
    let world = World::new();
    let long = |length: usize| "x".repeat(length);
    let many: Value =
        (0..33).map(|number| (format!("p{number}"), json!(1))).collect::<serde_json::Map<_, _>>().into();
    let post = |field: &str, value: Value| {
        let mut body = json!({ "player": "bo", "text": "hello" });
        body[field] = value;
        send_summary(&world, "POST", "/v1/feed", body)
    };
    for (field, value) in [
        ("player", json!("")),
        ("player", json!(long(129))),
        ("player", json!("undefined")),
        ("name", json!(long(65))),
        ("kind", json!("score")),
        ("kind", json!("a b")),
        ("text", json!("")),
        ("text", json!(long(2_001))),
        ("text", json!("a\u{7}")),
        ("props", many),
        ("props", json!({ "a b": 1 })),
        ("props", json!({ "a": long(4_001) })),
        ("at", json!("yesterday")),
        ("at", json!((now_ms() + 2 * HOUR_MS).to_string())),
        ("id", json!("7")),
        ("players", json!([])),
    ] {
        assert_eq!(post(field, value.clone()), format!("400 invalid_field ({field})"), "{value}");
    }
    assert_eq!(post("props", json!({ "a": [1] })), "400 invalid_field (props.a)");
    let put = |key: &str, field: &str, value: Value| {
        let mut body = json!({ "name": "First" });
        body[field] = value;
        send_summary(&world, "PUT", &format!("/v1/achievements/{key}"), body)
    };
    for (field, value) in [
        ("name", json!("")),
        ("name", json!(long(201))),
        ("description", json!(long(2_001))),
        ("icon", json!(long(2_001))),
        ("points", json!(1_000_001)),
        ("points", json!(-1)),
        ("granted_at", json!("2026-01-01T00:00:00Z")),
    ] {
        assert_eq!(put("first", field, value.clone()), format!("400 invalid_field ({field})"), "{value}");
    }
    assert_eq!(put("a%20b", "points", json!(1)), "400 invalid_field (key)");
    let grants = "/v1/achievements/none/grants";
    assert_eq!(send_summary(&world, "POST", grants, json!({ "player": "bo" })), "404 not_found");
    assert_eq!(send_summary(&world, "POST", grants, json!({ "player": "" })), "400 invalid_field (player)");
    assert_eq!(
        send_summary(&world, "POST", grants, json!({ "player": "bo", "at": 1 })),
        "400 invalid_field (at)"
    );
    assert_eq!(send_summary(&world, "DELETE", "/v1/achievements/none", Value::Null), "404 not_found");
    for (target, field) in [
        ("/v1/players/bo/follows/bo", "other"),
        ("/v1/players/bo/follows/null", "other"),
        ("/v1/players/null/follows/bo", "player"),
    ] {
        assert_eq!(
            send_summary(&world, "PUT", target, Value::Null),
            format!("400 invalid_field ({field})"),
            "{target}"
        );
    }
}

#[test]
fn invalid_query_parameter_is_named() {
    let world = World::new();
    let too_many = vec!["x"; 1_001].join(",");
    for (target, field) in [
        ("/v1/feed/bo?mode=best", "mode"),
        ("/v1/feed/bo?n=0", "n"),
        ("/v1/feed/bo?n=101", "n"),
        ("/v1/feed/bo?n=x", "n"),
        ("/v1/feed/bo?before=yesterday", "before"),
        ("/v1/feed/bo?before=0-1-2", "before"),
        ("/v1/feed/bo?mode=fair&before=0-1-2-3", "before"),
        ("/v1/feed/bo?before=1-1-2-3", "before"),
        ("/v1/feed/bo?before=0-99999999999999-2-3", "before"),
        ("/v1/feed/bo?sort=1", "sort"),
        ("/v1/players/bo/follows?n=1", "n"),
        ("/v1/achievements?players=bo", "players"),
        ("/v1/achievements?friends=follows", "friends"),
        (&format!("/v1/achievements?friends={too_many}"), "friends"),
    ] {
        let answer = world.send(&Request::get(target).key(&world.public_key));
        assert_eq!(answer.summary(), format!("400 invalid_field ({field})"), "{target}");
    }
    assert_eq!(read(&world, "/v1/feed/nobody"), json!({ "items": [] }));
    assert_eq!(read(&world, "/v1/feed/nobody?mode=fair&before=100-1-2-3"), json!({ "items": [] }));
}

#[test]
fn game_sees_only_its_own_players() {
    let world = World::new();
    follow(&world, "ann", &["bo"]);
    post(&world, "bo", "hello", 1);
    world.command(&["games", "create", "other", "--json"]).json();
    let created = world.command(&["keys", "create", "--game", "other", "--scopes", "query", "--json"]).json();
    let key = created["secret_key"].as_str().expect("a secret key");
    for target in ["/v1/feed/ann", "/v1/feed/ann?game=demo"] {
        assert_eq!(world.send(&Request::get(target).key(key)).json(), json!({ "items": [] }), "{target}");
    }
}
