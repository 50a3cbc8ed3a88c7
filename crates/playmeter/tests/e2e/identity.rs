//! Who is who: an anonymous id that turns out to be a player is counted once with it, before and after.

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

/// Players as each question counts them: all, of one event, by country, by the minute, online.
fn counted(world: &World) -> [Value; 5] {
    let ask = |query: Value| {
        let mut asked = json!({"last": "24h", "step": "all"});
        query.as_object().expect("an object").iter().for_each(|(name, value)| asked[name] = value.clone());
        world.query(&asked).json()["series"][0]["total"].clone()
    };
    [
        ask(json!({"metric": "players"})),
        ask(json!({"metric": "hit", "measure": "uniques"})),
        ask(json!({"metric": "players", "by": ["country"], "where": {"country": "FR"}})),
        ask(json!({"metric": "players", "step": "minute"})),
        ask(json!({"metric": "online"})),
    ]
}

/// Players online as the dashboard sees them.
fn online(world: &World) -> u64 {
    let request = Request::get("/v1/watch?online=1").key(&world.secret_key);
    let mut connection = world.connect();
    connection.send(&request.bytes()).expect("the server reads");
    let lines = BufReader::new(connection.writer()).lines().map_while(Result::ok);
    let data = lines.filter_map(|line| line.strip_prefix("data: ").map(str::to_owned)).next();
    let told: Value = serde_json::from_str(&data.expect("a snapshot")).expect("it is JSON");
    told["online"].as_u64().expect("a number")
}

fn agrees(world: &World) {
    let done = world.command(&["verify", "--json"]).json();
    assert_eq!(done["agrees"], true, "{done}");
}

#[test]
fn an_id_that_turns_out_to_be_a_player_is_one_player_before_and_after() {
    let mut world = World::new();
    assert_eq!(world.post(format!("[{},{}]", hit("anon-1"), hit("ann"))).told(), "2 accepted");
    assert_eq!((counted(&world), online(&world)), ([2, 2, 2, 2, 2].map(Value::from), 2));
    assert_eq!(world.post(identify("anon-1", "ann")).told(), "1 accepted");
    let one = ([1, 1, 1, 1, 1].map(Value::from), 1);
    assert_eq!((counted(&world), online(&world)), one);
    world.post(hit("anon-1"));
    world.post(hit("ann"));
    assert_eq!((counted(&world), online(&world)), one);
    agrees(&world);
    world.restart();
    assert_eq!((counted(&world), online(&world)), one);
    world.post(hit("anon-1"));
    world.kill9();
    world.start();
    assert_eq!((counted(&world), online(&world)), one);
    agrees(&world);
    world.command(&["rebuild", "--json"]).json();
    assert_eq!((counted(&world), online(&world)), one);
    agrees(&world);
}

#[test]
fn an_id_is_linked_to_one_player_only() {
    let mut world = World::new();
    let taken = "0 accepted; 0 invalid identity_taken";
    let check = |world: &World| {
        assert_eq!(world.post(identify("anon-1", "ann")).told(), "1 accepted", "the same again");
        assert_eq!(world.post(identify("anon-1", "bo")).told(), taken);
        assert_eq!(world.post(identify("ann", "bo")).told(), taken, "a player is not anonymous");
        assert_eq!(world.post(identify("anon-2", "anon-1")).told(), "1 accepted", "it leads to ann");
        assert_eq!(world.post(identify("anon-2", "ann")).told(), "1 accepted");
        assert_eq!(world.post(identify("anon-2", "bo")).told(), taken);
    };
    check(&world);
    world.restart();
    check(&world);
    world.kill9();
    world.start();
    check(&world);
    let reasons = world.load()["reasons"].clone();
    assert_eq!(reasons["identity_taken"], 9, "{reasons}");
    agrees(&world);
}

#[test]
fn links_of_one_request_know_of_each_other() {
    let world = World::new();
    let both = format!("[{},{},{}]", identify("a", "ann"), identify("a", "bo"), identify("ann", "bo"));
    assert_eq!(world.post(both).told(), "1 accepted; 1 invalid identity_taken; 2 invalid identity_taken");
}

#[test]
fn of_links_that_come_at_the_same_time_the_first_in_the_log_counts() {
    let world = World::new();
    std::thread::scope(|threads| {
        for player in 0..8 {
            let world = &world;
            threads.spawn(move || {
                let told = world.post(identify("guest-1", &format!("p{player}"))).told();
                assert!(
                    ["1 accepted", "0 accepted; 0 invalid identity_taken"].contains(&&told[..]),
                    "{told}"
                );
            });
        }
    });
    let names: Vec<String> =
        (0..8).map(|player| hit(&format!("p{player}"))).chain([hit("guest-1")]).collect();
    world.post(format!("[{}]", names.join(",")));
    assert_eq!(counted(&world)[1], 8);
    agrees(&world);
}

#[test]
fn both_ids_may_stand_in_the_properties_and_worthless_ones_are_refused() {
    let world = World::new();
    let invalid = "0 accepted; 0 invalid reserved_props_invalid";
    for (event, told) in [
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
        assert_eq!(world.post(event).told(), told, "{event}");
    }
    world.post(format!("[{},{},{},{}]", hit("a1"), hit("a2"), hit("a3"), hit("ann")));
    assert_eq!(counted(&world), [1, 1, 1, 1, 1].map(Value::from));
}

#[test]
fn a_session_goes_on_when_its_player_becomes_known() {
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
    let ask = |metric: &str| {
        world.query(&json!({"metric": metric, "last": "24h", "step": "all"})).json()["series"][0]["total"]
            .clone()
    };
    assert_eq!((ask("sessions"), ask("play_time_s")), (json!(1), json!(60)));
    agrees(&world);
}
