//! Games: managed by the owner, archived, restored.

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::collectors;
use crate::keys::{cookie, sign_in};
use crate::world::World;

/// A signed-in owner.
struct Owner<'a> {
    world: &'a World,
    cookie: String,
    csrf: String,
}

impl Owner<'_> {
    fn of(world: &World) -> Owner<'_> {
        let cookie = cookie(&sign_in(world));
        let me = world.send(&Request::get("/v1/me").header("Cookie", &cookie)).json();
        let csrf = me["csrf"].as_str().expect("a token").to_owned();
        Owner { world, cookie, csrf }
    }

    fn request(&self, method: &'static str, target: &str) -> Request {
        Request::new(method, target).header("Cookie", &self.cookie).header("Origin", "http://localhost")
    }

    fn send(&self, method: &'static str, target: &str, body: &Value) -> Answer {
        let request = self.request(method, target).header("X-CSRF-Token", &self.csrf);
        self.world.send(&request.body(if body.is_null() { String::new() } else { body.to_string() }))
    }
}

#[test]
fn owner_lists_creates_renames_archives_and_restores_games() {
    let world = World::new();
    let owner = Owner::of(&world);
    let created = owner.send("POST", "/v1/games", &json!({"id": "words", "tz": "Europe/Paris"}));
    assert_eq!(created.status, 201, "{}", created.text());
    let created = created.json();
    assert_eq!((&created["name"], &created["archived_at"]), (&json!("words"), &Value::Null));
    let key = created["public_key"].as_str().expect("a key").to_owned();
    assert_eq!(world.post_as(&key, r#"{"event":"hit"}"#).summary(), "1 accepted");
    let renamed = owner.send("PATCH", "/v1/games/words", &json!({"name": "Words!"})).json();
    assert_eq!((&renamed["name"], &renamed["tz"]), (&json!("Words!"), &json!("Europe/Paris")));
    let archived = owner.send("PATCH", "/v1/games/words", &json!({"archived": true})).json();
    assert!(archived["archived_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{archived}");
    assert_eq!(world.post_as(&key, r#"{"event":"hit"}"#).summary(), "403 archived");
    let listed = owner.send("GET", "/v1/games", &Value::Null).json();
    let ids: Vec<&Value> =
        listed["games"].as_array().expect("a list").iter().map(|game| &game["id"]).collect();
    assert_eq!(ids, ["demo", "words"]);
    assert_eq!(listed["games"][1], archived, "again does not change since when");
    assert_eq!(world.send(&owner.request("GET", "/v1/me")).json()["games"][1]["archived"], true);
    let restored = owner.send("PATCH", "/v1/games/words", &json!({"archived": false})).json();
    assert_eq!(restored["archived_at"], Value::Null);
    assert_eq!(world.post_as(&key, r#"{"event":"hit"}"#).summary(), "1 accepted");
}

#[test]
fn wrong_requests_about_games_are_rejected_with_the_field() {
    let world = World::new();
    let owner = Owner::of(&world);
    for (body, expected) in [
        (json!({}), "400 invalid_field (id)"),
        (json!({"id": "Words"}), "400 invalid_field (id)"),
        (json!({"id": "demo"}), "400 invalid_field (id)"),
        (json!({"id": "words", "tz": "Mars/Base"}), "400 invalid_field (tz)"),
        (json!({"id": "words", "name": " "}), "400 invalid_field (name)"),
        (json!({"id": "words", "number": 7}), "400 invalid_field (number)"),
    ] {
        let answer = owner.send("POST", "/v1/games", &body);
        assert_eq!(answer.summary(), expected, "{body}: {}", answer.text());
    }
    assert_eq!(
        owner.send("PATCH", "/v1/games/none", &json!({"name": "x"})).summary(),
        "404 not_found (game)"
    );
    let name = owner.send("PATCH", "/v1/games/demo", &json!({"name": "a\nb", "archived": true}));
    assert_eq!(name.summary(), "400 invalid_field (name)");
    assert_eq!(world.post(r#"{"event":"hit"}"#).summary(), "1 accepted", "nothing of it was changed");
}

#[test]
fn only_a_signed_in_person_manages_games() {
    let world = World::new();
    let owner = Owner::of(&world);
    let body = r#"{"id":"words"}"#;
    for key in [&world.secret_key, &world.public_key] {
        let get = world.send(&Request::get("/v1/games").key(key));
        assert_eq!(get.summary(), "403 scope (Authorization)");
        let post = world.send(&Request::new("POST", "/v1/games").key(key).body(body));
        assert_eq!(post.summary(), "403 scope (Authorization)");
    }
    assert_eq!(world.send(&Request::get("/v1/games")).summary(), "401 key");
    let without_token = world.send(&owner.request("POST", "/v1/games").body(body));
    assert_eq!(without_token.summary(), "403 scope (X-CSRF-Token)");
    let elsewhere = Request::new("POST", "/v1/games").header("Cookie", &owner.cookie).body(body);
    let elsewhere = elsewhere.header("X-CSRF-Token", &owner.csrf);
    assert_eq!(world.send(&elsewhere).summary(), "403 scope (Origin)");
    assert_eq!(
        world.send(&elsewhere.header("Origin", "https://game.example")).summary(),
        "403 scope (Origin)"
    );
    let get = owner.request("GET", "/v1/games");
    assert_eq!(world.send(&get).header("access-control-allow-origin"), None);
    assert_eq!(world.command(&["games", "list", "--json"]).json().as_array().map(Vec::len), Some(1));
}

/// Writes with the public and the secret key, each by its method, target and body.
const WRITES: [(&str, &str, &str); 12] = [
    ("POST", "/v1/events", r#"{"event":"hit"}"#),
    ("POST", "/v1/import", r#"{"event":"hit","ts":1}"#),
    ("POST", "/write", "cpu value=1"),
    ("POST", "/capture/", r#"{"api_key":"KEY","event":"hit","distinct_id":"ann"}"#),
    ("POST", "/v1/flows/packets", r#"{"from":"cy","to":"dee","seq":1}"#),
    ("POST", "/v1/session", r#"{"player":"ann"}"#),
    ("PUT", "/v1/vars/speed", r#"{"value":5}"#),
    ("PUT", "/v1/boards/high", r#"{"mode":"open"}"#),
    ("POST", "/v1/boards/high/scores", r#"{"player":"ann","score":3}"#),
    ("PUT", "/v1/achievements/first", r#"{"name":"First"}"#),
    ("POST", "/v1/feed", r#"{"player":"ann","text":"hello"}"#),
    ("PUT", "/v1/players/ann/follows/bo", ""),
];

#[test]
fn archived_game_rejects_every_write_and_stays_readable() {
    let mut world = World::new();
    let send = |world: &World, (method, target, body): (&'static str, &str, &str)| {
        let body = body.replace("KEY", &world.public_key);
        world.send(&Request::new(method, target).key(&world.secret_key).body(body))
    };
    for write in WRITES {
        let answer = send(&world, write);
        assert!((200..300).contains(&answer.status), "{write:?}: {} {}", answer.status, answer.text());
    }
    let reads =
        ["/v1/vars", "/v1/boards/high/scores", "/v1/achievements?player=ann", "/v1/players/ann/follows"];
    let read = |world: &World| {
        let rows = reads.map(|target| world.send(&Request::get(target).key(&world.secret_key)).text());
        let hits = world.query(&json!({"metric": "hit", "last": "24h", "step": "all"})).json();
        (rows, hits["series"][0]["total"].clone())
    };
    let before = read(&world);
    let archived = world.command(&["games", "archive", "demo", "--json"]).json();
    assert!(archived["archived_at"].is_string(), "{archived}");
    assert!(world.command(&["games", "list"]).out.contains("archived since"));
    for round in ["at once", "after a restart"] {
        for write in WRITES {
            let answer = send(&world, write);
            assert_eq!(answer.summary(), "403 archived", "{round}: {write:?}");
            assert!(answer.text().contains("`demo` is archived"), "{}", answer.text());
        }
        assert_eq!(world.post(r#"{"event":"hit"}"#).summary(), "403 archived", "{round}: the public key");
        assert_eq!(read(&world), before, "{round}");
        world.restart();
    }
    let erased = world.send(&Request::new("DELETE", "/v1/players/ann").key(&world.secret_key));
    assert_eq!(erased.status, 202, "a player can still be erased: {}", erased.text());
    assert_eq!(world.command(&["games", "restore", "demo"]).code, 0);
    assert_eq!(world.post(r#"{"event":"hit"}"#).summary(), "1 accepted");
    assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true);
    let unknown = world.command(&["games", "archive", "none"]);
    assert!(unknown.code == 1 && unknown.err.contains("no game `none`"), "{unknown:?}");
}

#[test]
fn collector_of_an_archived_game_fails_until_the_game_is_restored() {
    let world =
        collectors::world("[collectors.one]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n");
    collectors::packets(&world, "one").send(b"hits:1|c").expect("it listens");
    collectors::wait_received(&world, "one", 1);
    assert_eq!(world.command(&["games", "archive", "demo"]).code, 0);
    let failed = collectors::wait_until(&world, "one", |now| now["state"] == "failed");
    assert!(failed["error"].as_str().is_some_and(|error| error.contains("`demo` is archived")), "{failed}");
    assert_eq!(world.command(&["games", "restore", "demo"]).code, 0);
    assert_eq!(world.command(&["collectors", "start", "one"]).code, 0);
    collectors::wait_until(&world, "one", |now| now["state"] == "running");
    collectors::packets(&world, "one").send(b"hits:1|c").expect("it listens");
    collectors::wait_received(&world, "one", 2);
}
