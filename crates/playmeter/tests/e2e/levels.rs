//! Player levels end to end: saving, reading, rating, flagging, moderation, and invalid requests.

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::player::Session;
use crate::world::World;

fn cave(player: &str) -> Value {
    json!({ "name": "cave", "data": "###..#", "player": player })
}

impl World {
    fn post_level(&self, body: &Value) -> Answer {
        self.send(&Request::new("POST", "/v1/levels").key(&self.public_key).body(body.to_string()))
    }

    /// Saves a level that must be accepted and returns its id.
    fn level(&self, body: &Value) -> String {
        let answer = self.post_level(body);
        assert_eq!(answer.status, 201, "{}", answer.text());
        id(&answer.json())
    }

    fn with_public(&self, method: &'static str, target: &str, body: Value) -> Answer {
        self.send(&Request::new(method, target).key(&self.public_key).body(body.to_string()))
    }

    fn with_secret(&self, method: &'static str, target: &str, body: Value) -> Answer {
        self.send(&Request::new(method, target).key(&self.secret_key).body(body.to_string()))
    }

    fn get_public(&self, target: &str) -> Answer {
        self.send(&Request::get(target).key(&self.public_key))
    }

    /// The ids of a list and the total.
    fn listed(&self, query: &str) -> (Vec<String>, u64) {
        listed(&self.get_public(&format!("/v1/levels?{query}")))
    }
}

fn listed(answer: &Answer) -> (Vec<String>, u64) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let page = answer.json();
    let levels = page["levels"].as_array().expect("levels").iter();
    (levels.map(id).collect(), page["total"].as_u64().expect("a total"))
}

fn id(level: &Value) -> String {
    level["id"].as_str().unwrap_or_else(|| panic!("no id in {level}")).to_owned()
}

/// Saves a level with these changes and checks the outcome.
fn check(world: &World, change: Value, expected: &str) {
    let mut body = cave("bo");
    for (field, value) in change.as_object().expect("fields") {
        body[field] = value.clone();
    }
    let answer = world.post_level(&body);
    let summary = if answer.status == 201 { "201".to_owned() } else { answer.summary() };
    assert_eq!(summary, expected, "{change}");
}

#[test]
fn level_is_saved_loaded_and_listed() {
    let mut world = World::new();
    let thumb = "data:image/png;base64,AAAA";
    let body = json!({
        "name": "The cave", "data": "###\n#.#", "player": "bo", "player_name": "Bo", "thumb": thumb, "source": "web",
        "fields": {"size": "small"}
    });
    let saved = world.post_level(&body).json();
    let id = id(&saved);
    assert_eq!(id.len(), 12);
    assert_eq!((&saved["duplicate"], &saved["state"]), (&json!(false), &json!("published")));
    for kill in [None, Some(true), Some(false)] {
        match kill {
            Some(true) => world.kill9(),
            Some(false) => world.stop(),
            None => {}
        }
        if kill.is_some() {
            world.start();
        }
        let level = world.get_public(&format!("/v1/levels/{id}")).json();
        for (field, value) in body.as_object().expect("fields") {
            assert_eq!(&level[field], value, "{field}");
        }
        let created_at = level["created_at"].as_str().expect("a time");
        assert!(created_at.len() == 24 && created_at.ends_with('Z'), "{created_at}");
        for (field, value) in
            [("votes", json!(0)), ("rating", Value::Null), ("score", json!(5.5)), ("starts", json!(0))]
        {
            assert_eq!(level[field], value, "{field}");
        }
        let row = world.get_public("/v1/levels").json()["levels"][0].clone();
        assert_eq!((&row["id"], &row["thumb"], &row["data"]), (&json!(id), &json!(thumb), &Value::Null));
        let row = world.get_public("/v1/levels?data=1&thumbs=0").json()["levels"][0].clone();
        assert_eq!((&row["thumb"], &row["data"]), (&Value::Null, &body["data"]));
    }
}

#[test]
fn identical_level_is_a_duplicate() {
    let world = World::new();
    let first = world.level(&cave("bo"));
    let again = world.post_level(&cave("bo"));
    assert_eq!((again.status, again.json()["duplicate"].clone()), (200, json!(true)));
    assert_eq!(id(&again.json()), first);
    assert_ne!(world.level(&cave("cy")), first);
    assert_eq!(world.listed("").1, 2);
}

#[test]
fn invalid_level_field_is_named() {
    let world = World::new();
    check(&world, json!({"name": ""}), "400 invalid_field (name)");
    check(&world, json!({"name": "n".repeat(101)}), "400 invalid_field (name)");
    check(&world, json!({"name": "a\u{0}b"}), "400 invalid_field (name)");
    check(&world, json!({"name": null}), "400 invalid_field (name)");
    check(&world, json!({"data": ""}), "400 invalid_field (data)");
    check(&world, json!({"data": ["#"]}), "400 invalid_field (data)");
    check(&world, json!({"player": ""}), "400 invalid_field (player)");
    check(&world, json!({"player": "undefined"}), "400 invalid_field (player)");
    check(&world, json!({"player": "p".repeat(129)}), "400 invalid_field (player)");
    check(&world, json!({"player_name": "p".repeat(65)}), "400 invalid_field (player_name)");
    check(&world, json!({"source": "s".repeat(101)}), "400 invalid_field (source)");
    check(&world, json!({"thumb": "https://game.example/a.png"}), "400 invalid_field (thumb)");
    check(&world, json!({"thumb": "data:image/svg+xml;base64,AAAA"}), "400 invalid_field (thumb)");
    check(&world, json!({"fields": {"a b": "c"}}), "400 invalid_field (fields)");
    check(&world, json!({"fields": {"a": 1}}), "400 invalid_field (fields.a)");
    check(&world, json!({"fields": {"a": "v".repeat(1001)}}), "400 invalid_field (fields.a)");
    check(&world, json!({"state": "removed"}), "400 invalid_field (state)");
    for field in
        ["id", "votes", "rating", "score", "created_at", "flags", "verified", "data_sha256", "levels"]
    {
        check(&world, json!({field: "forged"}), &format!("400 invalid_field ({field})"));
    }
    assert_eq!(world.listed("").1, 0);
    check(&world, json!({}), "201");
}

#[test]
fn level_data_has_at_most_3_mib_after_decoding() {
    let world = World::new();
    let data = "\u{1}".repeat(3 << 20);
    check(&world, json!({"data": "d".repeat((3 << 20) + 1)}), "400 invalid_field (data)");
    let id = world.level(&json!({"name": "controls", "data": data, "player": "bo"}));
    assert_eq!(world.get_public(&format!("/v1/levels/{id}")).json()["data"], data);
    let png = |bytes: usize| format!("data:image/png;base64,{}", "A".repeat(bytes - 22));
    check(&world, json!({"thumb": png((64 << 10) + 1)}), "400 invalid_field (thumb)");
    check(&world, json!({"thumb": png(64 << 10)}), "201");
    check(&world, json!({"data": "\u{1}".repeat(4 << 20)}), "413 too_large");
    for number in 0..2 {
        check(&world, json!({"name": format!("big {number}"), "data": "d".repeat(3 << 20)}), "201");
    }
    assert_eq!(world.get_public("/v1/levels?data=1").summary(), "400 invalid_field (per_page)");
    assert_eq!(world.listed("data=1&per_page=2").0.len(), 2);
}

#[test]
fn level_lists_have_modes_filters_and_pages() {
    let world = World::new();
    let save = |name: &str, player: &str, size: &str, source: &str| {
        world.level(&json!({
            "name": name, "data": name, "player": player, "fields": {"size": size, "a": "b"}, "source": source
        }))
    };
    let (one, two) = (save("one", "ann", "big", "web"), save("two", "bob", "big", "app"));
    let three = save("three", "cid", "small", "web");
    let rate = |id: &str, player: &str, rating: u8| {
        let answer = world.with_public(
            "POST",
            &format!("/v1/levels/{id}/rating"),
            json!({"player": player, "rating": rating}),
        );
        assert!(answer.status < 300, "{}", answer.text());
    };
    rate(&one, "x", 10);
    (0..20).for_each(|player| rate(&two, &format!("player {player}"), 9));
    let all = [&two, &one, &three].map(String::clone).to_vec();
    assert_eq!(world.listed(""), (all.clone(), 3));
    assert_eq!(world.listed("mode=popular"), (all.clone(), 3));
    assert_eq!(world.listed("mode=recent"), (all.clone(), 3));
    for mode in ["today", "7d", "30d", "90d"] {
        assert_eq!(world.listed(&format!("mode={mode}")), (all[..2].to_vec(), 2), "{mode}");
    }
    assert_eq!(world.listed("mode=yesterday"), (vec![], 0));
    assert_eq!(world.listed("mode=newest"), (vec![three.clone(), two.clone(), one.clone()], 3));
    assert_eq!(world.listed("mode=newest&per_page=2&page=2"), (vec![one.clone()], 3));
    assert_eq!(world.listed("filter.size=big"), (all[..2].to_vec(), 2));
    assert_eq!(world.listed("filter.size=big&filter.a=b&source=web"), (vec![one.clone()], 1));
    assert_eq!(world.listed("filter.size=huge"), (vec![], 0));
    assert_eq!(world.listed("player=cid"), (vec![three.clone()], 1));
    assert_eq!(world.listed("friends=ann,cid,nobody"), (vec![one.clone(), three.clone()], 2));
    assert_eq!(world.listed("friends=follows:nobody"), (vec![], 0));
    assert_eq!(world.listed("from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z").1, 3);
    assert_eq!(world.listed("to=2020-01-01T00:00:00Z").1, 0);
    let row = world.get_public("/v1/levels?mode=today").json()["levels"][0].clone();
    assert_eq!(row["window"], json!({"votes": 20, "rating": 9.0, "score": 235.0 / 30.0}));
    for wrong in ["mode=best", "page=0", "per_page=0", "per_page=1001", "votes=1", "from=noon", "filter.=1"] {
        let field = wrong.split('=').next().expect("a name");
        let summary = world.get_public(&format!("/v1/levels?{wrong}")).summary();
        assert_eq!(summary, format!("400 invalid_field ({field})"));
    }
}

#[test]
fn player_has_one_vote_per_level() {
    let world = World::new();
    let target = format!("/v1/levels/{}/rating", world.level(&cave("bo")));
    let rate = |body: Value| world.with_public("POST", &target, body);
    let describe = |answer: Answer| {
        let vote = answer.json();
        format!("{} {} {} {}", answer.status, vote["rating"], vote["votes"], vote["changed"])
    };
    assert_eq!(describe(rate(json!({"player": "ann", "rating": 4}))), "201 4.0 1 false");
    assert_eq!(describe(rate(json!({"player": "ann", "rating": 4}))), "200 4.0 1 false");
    assert_eq!(describe(rate(json!({"player": "ann", "rating": 8}))), "200 8.0 1 true");
    assert_eq!(describe(rate(json!({"player": "cy", "rating": 9}))), "201 8.5 2 false");
    for (body, field) in [
        (json!({"player": "ann", "rating": 0}), "rating"),
        (json!({"player": "ann", "rating": 11}), "rating"),
        (json!({"player": "ann", "rating": 300}), "rating"),
        (json!({"player": "ann", "rating": 7.5}), "rating"),
        (json!({"player": "ann", "rating": "7"}), "rating"),
        (json!({"player": "ann"}), "rating"),
        (json!({"player": "", "rating": 7}), "player"),
        (json!({"rating": 7}), "player"),
        (json!({"player": "ann", "rating": 7, "votes": 99}), "votes"),
    ] {
        assert_eq!(rate(body).summary(), format!("400 invalid_field ({field})"));
    }
    let nowhere =
        world.with_public("POST", "/v1/levels/nowhere00000/rating", json!({"player": "ann", "rating": 7}));
    assert_eq!(nowhere.summary(), "404 not_found");
}

#[test]
fn signed_request_acts_only_for_its_own_player() {
    let world = World::new();
    let bo = Session::open(&world, "bo");
    let send = |method, target: &str, body: Value| world.send(&bo.signed(method, target, &body.to_string()));
    assert_eq!(send("POST", "/v1/levels", cave("ann")).summary(), "403 scope");
    let saved = send("POST", "/v1/levels", cave("bo"));
    assert_eq!(saved.status, 201);
    let target = format!("/v1/levels/{}", id(&saved.json()));
    let (rating, flags) = (format!("{target}/rating"), format!("{target}/flags"));
    assert_eq!(send("POST", &rating, json!({"player": "ann", "rating": 9})).summary(), "403 scope");
    assert_eq!(send("POST", &rating, json!({"player": "bo", "rating": 9})).status, 201);
    assert_eq!(send("POST", &flags, json!({"player": "ann"})).summary(), "403 scope");
    assert_eq!(send("POST", &flags, json!({"player": "bo"})).status, 201);
    assert_eq!(send("PATCH", &target, json!({"state": "draft"})).status, 200);
    let ann = Session::open(&world, "ann").signed("PATCH", &target, r#"{"state":"published"}"#);
    assert_eq!(world.send(&ann).summary(), "403 scope");
    let unsigned = world.with_public("PATCH", &target, json!({"state": "published"}));
    assert_eq!(unsigned.summary(), "401 signature (X-Playmeter-Signature)");
}

#[test]
fn draft_is_visible_only_to_its_author_and_moderators() {
    let world = World::new();
    let mut body = cave("bo");
    body["state"] = json!("draft");
    let target = format!("/v1/levels/{}", world.level(&body));
    let (bo, ann) = (Session::open(&world, "bo"), Session::open(&world, "ann"));
    let all = "/v1/levels?player=bo&state=all";
    assert_eq!(world.get_public(&target).summary(), "404 not_found (id)");
    assert_eq!(world.send(&ann.signed("GET", &target, "")).summary(), "404 not_found (id)");
    assert_eq!(world.send(&bo.signed("GET", &target, "")).json()["state"], "draft");
    assert_eq!(world.with_secret("GET", &target, Value::Null).json()["state"], "draft");
    let reader = world.key("query");
    assert_eq!(world.send(&Request::get(&target).key(&reader)).summary(), "404 not_found (id)");
    assert_eq!(world.listed("player=bo").1, 0);
    assert_eq!(world.get_public(all).summary(), "403 scope");
    assert_eq!(world.send(&ann.signed("GET", all, "")).summary(), "403 scope");
    assert_eq!(listed(&world.send(&bo.signed("GET", all, ""))).1, 1);
    assert_eq!(listed(&world.with_secret("GET", all, Value::Null)).1, 1);
    assert_eq!(
        world.with_secret("GET", "/v1/levels?state=all", Value::Null).summary(),
        "400 invalid_field (state)"
    );
    let forged = bo.signed("GET", "/v1/levels", "").to(&*target);
    assert_eq!(world.send(&forged).summary(), "401 signature (X-Playmeter-Signature)");
    assert_eq!(world.with_secret("PATCH", &target, json!({"state": "published"})).status, 200);
    assert_eq!(world.get_public(&target).status, 200);
    for (body, field) in [
        (json!({"state": "best"}), "state"),
        (json!({}), "state"),
        (json!({"state": "draft", "votes": 9}), "votes"),
        (json!({"state": "draft", "player": "ann"}), "player"),
    ] {
        let summary = world.with_secret("PATCH", &target, body).summary();
        assert_eq!(summary, format!("400 invalid_field ({field})"));
    }
}

#[test]
fn flagged_levels_are_queued_and_removed_levels_are_hidden() {
    let world = World::new();
    let (one, two) = (world.level(&cave("bo")), world.level(&cave("cy")));
    let flag = |id: &str, body: Value| world.with_public("POST", &format!("/v1/levels/{id}/flags"), body);
    assert_eq!(flag(&one, json!({"player": "ann", "reason": "rude"})).status, 201);
    let again = flag(&one, json!({"player": "ann"}));
    assert_eq!((again.status, again.json()["already"].clone()), (200, json!(true)));
    assert_eq!(flag(&two, json!({"player": "ann"})).status, 201);
    assert_eq!(flag(&two, json!({"player": "dan"})).status, 201);
    assert_eq!(flag(&two, json!({"player": ""})).summary(), "400 invalid_field (player)");
    assert_eq!(
        flag(&two, json!({"player": "x", "reason": "r".repeat(201)})).summary(),
        "400 invalid_field (reason)"
    );
    assert_eq!(
        flag(&two, json!({"player": "x", "open_flags": 9})).summary(),
        "400 invalid_field (open_flags)"
    );
    let queue = |query: &str| {
        let queue = world.with_secret("GET", &format!("/v1/moderation{query}"), Value::Null).json();
        let items = queue["items"].as_array().expect("items").clone();
        (items.iter().map(id).collect::<Vec<_>>(), queue["total"].as_u64().expect("a total"), items)
    };
    let (ids, total, items) = queue("");
    assert_eq!((ids, total), (vec![two.clone(), one.clone()], 2));
    assert_eq!(items[1]["reasons"][0]["reason"], "rude");
    assert_eq!(queue("?per_page=1&page=2").0, std::slice::from_ref(&one));
    assert_eq!(
        world.with_secret("GET", "/v1/moderation?mode=all", Value::Null).summary(),
        "400 invalid_field (mode)"
    );
    let decide = |id: &str, body: Value| world.with_secret("POST", &format!("/v1/moderation/{id}"), body);
    assert_eq!(decide(&one, json!({"decision": "maybe"})).summary(), "400 invalid_field (decision)");
    assert_eq!(decide(&one, json!({"decision": "keep", "id": two})).summary(), "400 invalid_field (id)");
    assert_eq!(decide(&one, json!({"decision": "keep"})).status, 200);
    assert_eq!(decide(&two, json!({"decision": "remove"})).json()["state"], "removed");
    assert_eq!(decide(&two, json!({"decision": "keep"})).summary(), "409 conflict");
    assert_eq!(queue("").1, 0);
    assert_eq!(world.listed("").0, [one]);
    assert_eq!(world.get_public(&format!("/v1/levels/{two}")).summary(), "404 not_found (id)");
    let maker = Session::open(&world, "cy").signed("GET", &format!("/v1/levels/{two}"), "");
    let removed = world.send(&maker).json();
    assert_eq!((&removed["state"], &removed["data"]), (&json!("removed"), &Value::Null));
    assert_eq!(
        world.with_secret("PATCH", &format!("/v1/levels/{two}"), json!({"state": "published"})).status,
        409
    );
}

#[test]
fn replayed_level_events_count_once() {
    let mut world = World::new();
    let id = world.level(&cave("bo"));
    let event = |state: &str, number: u32| {
        let event = json!({
            "event": "$level", "level": id, "props": {"state": state},
            "id": format!("00000000-0000-4000-8000-{number:012}")
        });
        event.to_string()
    };
    let states = ["start", "start", "start", "win", "retry", "retry", "quit", "flag", "fly"];
    let events: Vec<String> = states.iter().zip(1..).map(|(state, number)| event(state, number)).collect();
    let batch = format!("[{}]", events.join(","));
    for _ in 0..2 {
        let answer = world.send(&Request::events(&batch).key(&world.public_key)).json();
        assert_eq!(answer["invalid"], 0, "{answer}");
        let level = world.get_public(&format!("/v1/levels/{id}")).json();
        let counts = ["starts", "wins", "retries", "quits", "flags"].map(|name| level[name].to_string());
        assert_eq!(counts.join(" "), "3 1 2 1 1");
        world.kill9();
        world.start();
    }
    let queue = world.with_secret("GET", "/v1/moderation", Value::Null).json();
    assert_eq!(queue["items"][0]["open_flags"], 1);
}

#[test]
fn levels_of_another_game_are_separate() {
    let world = World::new();
    let target = format!("/v1/levels/{}", world.level(&cave("bo")));
    let other = world.command(&["games", "create", "other", "--json"]).json();
    let other = other["public_key"].as_str().expect("a public key");
    let send = |method, target: &str, body: Value| {
        world.send(&Request::new(method, target).key(other).body(body.to_string()))
    };
    assert_eq!(send("GET", &target, Value::Null).summary(), "404 not_found (id)");
    let rated = send("POST", &format!("{target}/rating"), json!({"player": "ann", "rating": 1}));
    assert_eq!(rated.summary(), "404 not_found");
    assert_eq!(send("POST", &format!("{target}/flags"), json!({"player": "ann"})).summary(), "404 not_found");
    assert_eq!(listed(&send("GET", "/v1/levels", Value::Null)).1, 0);
    let session = Session { public_key: other.to_owned(), ..Session::open(&world, "bo") };
    let signed = session.signed("PATCH", &target, r#"{"state":"removed"}"#);
    assert_eq!(world.send(&signed).summary(), "401 signature (X-Playmeter-Signature)");
    assert_eq!(world.get_public(&target).status, 200);
}

#[test]
fn repeated_save_returns_the_same_response() {
    let world = World::new();
    let save = || {
        let request =
            Request::new("POST", "/v1/levels").key(&world.public_key).header("Idempotency-Key", "one");
        world.send(&request.body(cave("bo").to_string()))
    };
    let (first, second) = (save(), save());
    assert_eq!((first.status, second.status), (201, 201));
    assert_eq!(first.json(), second.json());
    assert_eq!(world.listed("").1, 1);
}
