//! Cohorts: sets of players that filter questions and select audiences, are found again by themselves, and contain no
//! erased players.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::world::{World, now_ms};

fn send(world: &World, method: &'static str, path: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    world.send(&Request::new(method, path).key(&world.secret_key).body(body))
}

fn put(world: &World, cohort: &Value) -> Answer {
    send(world, "POST", "/v1/cohorts", cohort)
}

fn get(world: &World, path: &str) -> Value {
    let answer = send(world, "GET", path, &Value::Null);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn wait_until(world: &World, what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}: {}", world.log_lines());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Three players: ann bought twice and was a guest before, bo bought once, cy never did.
fn play(world: &World) {
    let start = now_ms() - 3_600_000;
    let events = json!([
        {"event": "start", "player": "guest-1", "ts": start},
        {"event": "$identify", "player": "ann", "ts": start + 1_000, "props": {"anonymous": "guest-1"}},
        {"event": "start", "player": "bo", "ts": start},
        {"event": "start", "player": "cy", "ts": start},
        {"event": "buy", "player": "ann", "ts": start + 2_000, "props": {"price": 5}},
        {"event": "buy", "player": "ann", "ts": start + 3_000, "props": {"price": 7}},
        {"event": "buy", "player": "bo", "ts": start + 4_000, "props": {"price": 1}},
    ]);
    assert_eq!(world.post(events.to_string()).summary(), "7 accepted");
}

fn payers(at_least: u32) -> Value {
    json!({"name": "payers", "condition": {"event": "buy", "at_least": at_least, "within_days": 30}})
}

/// The number of players with an event `start` who belong to a cohort.
fn starters(world: &World, cohort: &str) -> Value {
    let question = json!({"event": "start", "measure": "uniques", "step": "all", "last": "24h",
                          "where": [{"cohort": cohort}]});
    let answer = send(world, "POST", "/v1/explore", &question);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["series"][0]["total"].clone()
}

#[test]
fn cohort_filters_questions_and_counts_linked_ids_as_one_player() {
    let mut world = World::new();
    play(&world);
    assert_eq!(put(&world, &payers(1)).status, 201);
    assert_eq!(starters(&world, "payers"), 2);
    let changed = put(&world, &payers(2));
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(starters(&world, "payers"), 1, "a changed definition is used at once");
    assert_eq!(put(&world, &json!({"name": "guests", "players": ["guest-1", "nowhere"]})).status, 201);
    assert_eq!(starters(&world, "guests"), 1, "the guest and ann are one player");
    let funnel = json!({"steps": [{"event": "start"}, {"event": "buy", "where": [{"cohort": "payers"}]}], "last": "24h"});
    let funnel = send(&world, "POST", "/v1/funnel", &funnel).json();
    assert_eq!(funnel["steps"][1]["players"], 1, "{funnel}");
    let negated =
        json!({"event": "start", "step": "all", "last": "24h", "where": [{"not": {"cohort": "payers"}}]});
    assert_eq!(send(&world, "POST", "/v1/explore", &negated).json()["series"][0]["total"], 2);
    let unknown = json!({"event": "start", "last": "24h", "where": [{"or": [{"cohort": "unknown"}]}]});
    let unknown = send(&world, "POST", "/v1/explore", &unknown);
    assert_eq!((unknown.status, &unknown.json()["field"]), (400, &json!("where[0].or[0].cohort")));
    world.kill9();
    world.start();
    assert_eq!((starters(&world, "payers"), starters(&world, "guests")), (json!(1), json!(1)));
    assert_eq!(get(&world, "/v1/players/guest-1")["cohorts"], json!(["guests", "payers"]));
}

#[test]
fn cohort_shows_its_size_and_is_found_again_for_a_question() {
    let world = World::new();
    play(&world);
    assert_eq!(put(&world, &payers(1)).status, 201);
    wait_until(&world, "the size is known", || get(&world, "/v1/cohorts/payers")["size"] == 2);
    let cohort = get(&world, "/v1/cohorts/payers");
    assert_eq!((&cohort["kind"], &cohort["failure"]), (&json!("condition"), &Value::Null), "{cohort}");
    assert_eq!((&cohort["changed_by"], &cohort["used_by"]), (&json!("server"), &json!([])), "{cohort}");
    assert!(cohort["evaluated_at"].is_string() && cohort["changed_at"].is_string(), "{cohort}");
    world.post(json!([{"event": "buy", "player": "cy"}]).to_string());
    wait_until(&world, "the question finds the new player", || starters(&world, "payers") == 3);
    assert_eq!(get(&world, "/v1/cohorts/payers")["size"], 3);
    let list = get(&world, "/v1/cohorts");
    assert_eq!(list["cohorts"][0]["size"], 3, "{list}");
    assert_eq!(send(&world, "GET", "/v1/cohorts/none", &Value::Null).status, 404);
}

#[test]
fn preview_counts_players_and_saves_nothing() {
    let world = World::new();
    play(&world);
    let condition = json!({"and": [{"event": "start"}, {"not": {"event": "buy"}}]});
    let size = send(&world, "POST", "/v1/cohorts:preview", &json!({"condition": condition}));
    assert_eq!(size.json()["size"], 1, "{}", size.text());
    let size = send(&world, "POST", "/v1/cohorts:preview", &json!({"players": ["guest-1", "ann", "bo"]}));
    assert_eq!(size.json()["size"], 2, "{}", size.text());
    assert_eq!(get(&world, "/v1/cohorts")["cohorts"], json!([]));
}

#[test]
fn invalid_cohort_names_its_field() {
    let world = World::new();
    for (cohort, field) in [
        (json!({"name": "a b", "players": ["x"]}), "name"),
        (json!({"players": ["x"]}), "name"),
        (json!({"name": "a"}), "condition"),
        (json!({"name": "a", "players": []}), "players"),
        (json!({"name": "a", "players": [""]}), "players[0]"),
        (json!({"name": "a", "players": ["x"], "condition": {"event": "a"}}), "players"),
        (json!({"name": "a", "condition": {"event": "a", "at_least": 0}}), "condition.at_least"),
        (json!({"name": "a", "condition": {"and": [{"nonsense": 1}]}}), "condition.and[0]"),
        (json!({"name": "a", "condition": {"event": "a", "where": [{"cohort": "b"}]}}), "condition.where"),
        (json!({"name": "a", "condition": {"event": "a"}, "size": 7}), "size"),
    ] {
        let answer = put(&world, &cohort);
        assert_eq!(
            (answer.status, &answer.json()["field"]),
            (400, &json!(field)),
            "{cohort}: {}",
            answer.text()
        );
    }
    assert_eq!(get(&world, "/v1/cohorts")["cohorts"], json!([]));
}

/// The value of the variable `price` for a player.
fn price(world: &World, player: &str) -> Value {
    let vars = world.send(&Request::get(format!("/v1/vars?player={player}")).key(&world.public_key));
    vars.json()["price"].clone()
}

#[test]
fn cohort_is_an_audience_of_variables_and_surveys() {
    let mut world = World::new();
    play(&world);
    let variable =
        json!({"value": 10, "conditions": [{"name": "discount", "value": 5, "cohort": ["payers"]}]});
    let unknown = send(&world, "PUT", "/v1/vars/price", &variable);
    assert_eq!((unknown.status, &unknown.json()["field"]), (400, &json!("conditions[0].cohort")));
    let survey = json!({"title": "Shop", "questions": [{"key": "fun", "kind": "scale", "text": "Fun?"}],
                        "audience": {"cohort": ["payers"]}});
    let unknown = send(&world, "PUT", "/v1/surveys/shop", &survey);
    assert_eq!((unknown.status, &unknown.json()["field"]), (400, &json!("audience.cohort")));
    assert_eq!(put(&world, &payers(1)).status, 201);
    assert_eq!(send(&world, "PUT", "/v1/vars/price", &variable).status, 200);
    assert_eq!(send(&world, "PUT", "/v1/surveys/shop", &survey).status, 201);
    let check = |world: &World| {
        wait_until(world, "ann pays less", || price(world, "ann") == 5);
        assert_eq!([price(world, "guest-1"), price(world, "bo"), price(world, "cy")], [5, 5, 10]);
        let due = |player: &str| {
            get(world, &format!("/v1/surveys?player={player}"))["surveys"].as_array().map(Vec::len)
        };
        assert_eq!((due("bo"), due("cy")), (Some(1), Some(0)));
        assert_eq!(price(world, ""), 10);
    };
    check(&world);
    let users = json!([{"kind": "variable", "name": "price"}, {"kind": "survey", "name": "shop"}]);
    assert_eq!(get(&world, "/v1/cohorts/payers")["used_by"], users);
    let refused = send(&world, "DELETE", "/v1/cohorts/payers", &Value::Null);
    assert_eq!((refused.status, &refused.json()["field"]), (409, &json!("name")), "{}", refused.text());
    world.restart();
    check(&world);
    assert_eq!(send(&world, "DELETE", "/v1/vars/price", &Value::Null).status, 200);
    assert_eq!(send(&world, "DELETE", "/v1/cohorts/payers", &Value::Null).status, 409);
    assert_eq!(send(&world, "DELETE", "/v1/surveys/shop", &Value::Null).status, 204);
    assert_eq!(send(&world, "DELETE", "/v1/cohorts/payers", &Value::Null).status, 204);
    let back = send(&world, "POST", "/v1/vars:rollback", &json!({"version": 1}));
    assert_eq!(
        (back.status, &back.json()["field"]),
        (400, &json!("version")),
        "the version names a deleted cohort"
    );
}

#[test]
fn events_of_members_carry_the_variant_of_their_cohort() {
    let world = World::new();
    play(&world);
    assert_eq!(put(&world, &payers(1)).status, 201);
    let variable = json!({"value": 10, "conditions": [{"name": "low", "value": 5, "cohort": ["payers"], "percent": {"to": 100}}]});
    assert_eq!(send(&world, "PUT", "/v1/vars/price", &variable).status, 200);
    wait_until(&world, "ann pays less", || price(&world, "ann") == 5);
    world.post(json!([{"event": "win", "player": "ann"}, {"event": "win", "player": "cy"}]).to_string());
    let query = json!({"metric": "win", "by": ["variant"], "step": "all", "last": "60m"});
    let series = world.query(&query).json()["series"].clone();
    let total = |variant: &str| {
        let found = series.as_array().and_then(|all| all.iter().find(|one| one["key"]["variant"] == variant));
        found.map(|one| one["total"].clone())
    };
    assert_eq!((total("price=low"), total("price=(value)")), (Some(json!(1)), Some(json!(1))), "{series}");
}

#[test]
fn erased_player_is_in_no_cohort() {
    let mut world = World::new();
    play(&world);
    assert_eq!(put(&world, &payers(1)).status, 201);
    assert_eq!(put(&world, &json!({"name": "list", "players": ["ann", "cy"]})).status, 201);
    let by_id = json!({"name": "by_id", "condition": {"property": "player", "op": "=", "value": "ann"}});
    assert_eq!(put(&world, &by_id).status, 201);
    let variable =
        json!({"value": 10, "conditions": [{"name": "low", "value": 5, "cohort": ["payers", "list"]}]});
    assert_eq!(send(&world, "PUT", "/v1/vars/price", &variable).status, 200);
    wait_until(&world, "ann pays less", || price(&world, "ann") == 5);
    let erased = send(&world, "DELETE", "/v1/players/ann", &Value::Null).json();
    let check = |world: &World| {
        assert_eq!([price(world, "ann"), price(world, "guest-1")], [10, 10]);
        assert_eq!(
            (starters(world, "payers"), starters(world, "list"), starters(world, "by_id")),
            (json!(1), json!(1), json!(0))
        );
        assert_eq!(get(world, "/v1/cohorts/list")["players"], json!(["cy"]));
        assert_eq!(get(world, "/v1/cohorts/payers")["size"], 1);
        assert!(!get(world, "/v1/cohorts").to_string().contains("\"ann\""));
    };
    check(&world);
    let receipt = format!("/v1/erasures/{}", erased["receipt"].as_str().expect("a receipt"));
    wait_until(&world, "the erasure is done", || get(&world, &receipt)["state"] == "done");
    check(&world);
    world.restart();
    wait_until(&world, "the players are known", || price(&world, "bo") == 5);
    check(&world);
}

#[test]
fn cohort_beyond_the_memory_bound_is_refused_by_questions_and_others_still_work() {
    let world = World::configured("[queries]\ncohorts_bytes_max = 65536\n", &[]);
    play(&world);
    let ids = |count: usize| -> Vec<String> { (0..count).map(|number| format!("p{number}")).collect() };
    assert_eq!(put(&world, &json!({"name": "large", "players": ids(5_000)})).status, 201);
    wait_until(&world, "the size is known", || get(&world, "/v1/cohorts/large")["size"] == 5_000);
    let state = get(&world, "/v1/cohorts/large");
    assert!(
        state["failure"].as_str().is_some_and(|failure| failure.contains("32768")),
        "{}",
        state["failure"]
    );
    let question = json!({"event": "start", "last": "24h", "where": [{"cohort": "large"}]});
    let refused = send(&world, "POST", "/v1/explore", &question);
    assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("cohort")), "{}", refused.text());
    assert_eq!(put(&world, &payers(1)).status, 201);
    assert_eq!(starters(&world, "payers"), 2);
    assert_eq!(put(&world, &json!({"name": "large", "players": ids(3_000)})).status, 200);
    assert_eq!(send(&world, "POST", "/v1/explore", &question).status, 200);
}

#[test]
fn subscriber_gets_the_value_of_a_cohort_once_the_player_belongs_to_it() {
    let world = World::new();
    play(&world);
    assert_eq!(put(&world, &payers(3)).status, 201);
    let variable = json!({"value": 10, "conditions": [{"name": "low", "value": 5, "cohort": ["payers"]}]});
    assert_eq!(send(&world, "PUT", "/v1/vars/price", &variable).status, 200);
    let mut socket = crate::socket::Socket::open(&world, &world.public_key);
    socket.subscribe("v", "vars", json!([{"player": "ann"}, {"min_interval": 0}]));
    assert_eq!(price(&world, "ann"), 10);
    assert_eq!(put(&world, &payers(1)).status, 200);
    wait_until(&world, "ann pays less", || price(&world, "ann") == 5);
    let changed = socket.next();
    assert_eq!((&changed["msg"], &changed["fields"]["value"]), (&json!("changed"), &json!(5)), "{changed}");
}
