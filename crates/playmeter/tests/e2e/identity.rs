//! Identity links: an anonymous id and its player count as one player, before and after the link.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::client::Request;
use crate::world::{World, now_ms};

/// `$identify` as SDKs send it.
fn identify(anonymous: &str, player: &str) -> String {
    json!({"event": "$identify", "player": player, "props": {"anonymous": anonymous}}).to_string()
}

fn hit(player: &str) -> String {
    json!({"event": "hit", "player": player, "country": "FR"}).to_string()
}

/// The number of players in each kind of query: all, of one event, by country, by minute, online.
fn player_counts(world: &World) -> [Value; 5] {
    let total = |query: Value| {
        let mut full_query = json!({"last": "24h", "step": "all"});
        query
            .as_object()
            .expect("an object")
            .iter()
            .for_each(|(name, value)| full_query[name] = value.clone());
        world.query(&full_query).json()["series"][0]["total"].clone()
    };
    [
        total(json!({"metric": "players"})),
        total(json!({"metric": "hit", "measure": "uniques"})),
        total(json!({"metric": "players", "by": ["country"], "where": {"country": "FR"}})),
        total(json!({"metric": "players", "step": "minute"})),
        total(json!({"metric": "online"})),
    ]
}

/// The players online as the dashboard shows them.
fn online(world: &World) -> u64 {
    let request = Request::get("/v1/watch?online=1").key(&world.secret_key);
    let mut connection = world.connect();
    connection.write(&request.bytes()).expect("the server reads");
    let lines = BufReader::new(connection.writer()).lines().map_while(Result::ok);
    let data = lines.filter_map(|line| line.strip_prefix("data: ").map(str::to_owned)).next();
    let snapshot: Value = serde_json::from_str(&data.expect("a snapshot")).expect("it is JSON");
    snapshot["online"].as_u64().expect("a number")
}

fn check_verified(world: &World) {
    let done = world.command(&["verify", "--json"]).json();
    assert_eq!(done["agrees"], true, "{done}");
}

#[test]
fn identified_anonymous_id_counts_as_one_player() {
    let mut world = World::new();
    assert_eq!(world.post(format!("[{},{}]", hit("anon-1"), hit("ann"))).summary(), "2 accepted");
    assert_eq!((player_counts(&world), online(&world)), ([2, 2, 2, 2, 2].map(Value::from), 2));
    assert_eq!(world.post(identify("anon-1", "ann")).summary(), "1 accepted");
    let one = ([1, 1, 1, 1, 1].map(Value::from), 1);
    assert_eq!((player_counts(&world), online(&world)), one);
    world.post(hit("anon-1"));
    world.post(hit("ann"));
    assert_eq!((player_counts(&world), online(&world)), one);
    check_verified(&world);
    world.restart();
    assert_eq!((player_counts(&world), online(&world)), one);
    world.post(hit("anon-1"));
    world.kill9();
    world.start();
    assert_eq!((player_counts(&world), online(&world)), one);
    check_verified(&world);
    world.command(&["rebuild", "--json"]).json();
    assert_eq!((player_counts(&world), online(&world)), one);
    check_verified(&world);
}

#[test]
fn anonymous_id_is_linked_to_one_player_only() {
    let mut world = World::new();
    let already_linked = "0 accepted; 0 invalid identity_taken";
    let check = |world: &World| {
        assert_eq!(
            world.post(identify("anon-1", "ann")).summary(),
            "1 accepted",
            "a repeated link is accepted"
        );
        assert_eq!(world.post(identify("anon-1", "bo")).summary(), already_linked);
        assert_eq!(world.post(identify("ann", "bo")).summary(), already_linked, "a player is not anonymous");
        assert_eq!(
            world.post(identify("anon-2", "anon-1")).summary(),
            "1 accepted",
            "anon-1 is linked to ann"
        );
        assert_eq!(world.post(identify("anon-2", "ann")).summary(), "1 accepted");
        assert_eq!(world.post(identify("anon-2", "bo")).summary(), already_linked);
    };
    check(&world);
    world.restart();
    check(&world);
    world.kill9();
    world.start();
    check(&world);
    let reasons = world.load()["reasons"].clone();
    assert_eq!(reasons["identity_taken"], 9, "{reasons}");
    check_verified(&world);
}

#[test]
fn links_in_one_request_see_each_other() {
    let world = World::new();
    let both = format!("[{},{},{}]", identify("a", "ann"), identify("a", "bo"), identify("ann", "bo"));
    assert_eq!(world.post(both).summary(), "1 accepted; 1 invalid identity_taken; 2 invalid identity_taken");
}

#[test]
fn first_of_concurrent_links_in_the_log_wins() {
    let world = World::new();
    std::thread::scope(|threads| {
        for player in 0..8 {
            let world = &world;
            threads.spawn(move || {
                let summary = world.post(identify("guest-1", &format!("p{player}"))).summary();
                assert!(
                    ["1 accepted", "0 accepted; 0 invalid identity_taken"].contains(&&summary[..]),
                    "{summary}"
                );
            });
        }
    });
    let names: Vec<String> =
        (0..8).map(|player| hit(&format!("p{player}"))).chain([hit("guest-1")]).collect();
    world.post(format!("[{}]", names.join(",")));
    assert_eq!(player_counts(&world)[1], 8);
    check_verified(&world);
}

#[test]
fn ids_may_be_in_props_and_placeholder_ids_are_rejected() {
    let world = World::new();
    let invalid = "0 accepted; 0 invalid reserved_props_invalid";
    for (event, expected) in [
        (r#"{"event":"$identify","props":{"player":"ann","anonymous":"a1"}}"#, "1 accepted"),
        (r#"{"event":"$identify","player":"a2","props":{"player":"ann","anonymous":"a2"}}"#, "1 accepted"),
        (r#"{"event":"$identify","player":"ann","props":{"anonymous":"ann"}}"#, "1 accepted"),
        (
            r#"{"event":"$identify","player":"ann","props":{"anonymous":"a3","plan":{"paid":true}}}"#,
            "1 accepted",
        ),
        (r#"{"event":"$identify","player":"ann"}"#, invalid),
        (r#"{"event":"$identify","props":{"anonymous":"a1"}}"#, invalid),
        (r#"{"event":"$identify","player":"ann","props":{"anonymous":"undefined"}}"#, invalid),
        (r#"{"event":"$identify","player":"ann","props":{"anonymous":["a1"]}}"#, invalid),
        (r#"{"event":"$identify","player":"null","props":{"anonymous":"a1"}}"#, invalid),
    ] {
        assert_eq!(world.post(event).summary(), expected, "{event}");
    }
    world.post(format!("[{},{},{},{}]", hit("a1"), hit("a2"), hit("a3"), hit("ann")));
    assert_eq!(player_counts(&world), [1, 1, 1, 1, 1].map(Value::from));
}

#[test]
fn session_continues_when_its_player_is_identified() {
    let world = World::new();
    let at = now_ms() - 120_000;
    let event = |name: &str, player: &str, after_ms: i64| json!({"event": name, "player": player, "ts": at + after_ms, "props": {"anonymous": "guest-1"}});
    let events = json!([
        event("$session_start", "guest-1", 0),
        event("hit", "guest-1", 10_000),
        event("$identify", "ann", 20_000),
        event("hit", "ann", 60_000),
    ]);
    world.post(events.to_string());
    let total = |metric: &str| {
        world.query(&json!({"metric": metric, "last": "24h", "step": "all"})).json()["series"][0]["total"]
            .clone()
    };
    assert_eq!((total("sessions"), total("play_time_s")), (json!(1), json!(60)));
    check_verified(&world);
}
