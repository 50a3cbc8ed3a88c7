//! Limits of what may be sent: by the second for each address, key and player, by the day for each game.

use serde_json::{Value, json};

use crate::client::Request;
use crate::world::World;

fn world(settings: &str, args: &[&str]) -> World {
    let root = tempfile::tempdir().expect("a folder");
    let config = root.path().join("settings.toml");
    std::fs::write(&config, settings).expect("a file");
    let config = config.to_str().expect("a path").to_owned();
    World::on(root, &[&["--config", config.as_str()], args].concat())
}

fn hits(count: usize, player: &str) -> String {
    json!(vec![json!({"event": "hit", "player": player}); count]).to_string()
}

/// Who was limited, by reason.
fn limited(world: &World) -> (Value, Value) {
    let load = world.load();
    let outcomes = ["accepted", "duplicate", "invalid", "late", "limited"];
    let sum: u64 = outcomes.iter().filter_map(|outcome| load["totals"][outcome].as_u64()).sum();
    assert_eq!(load["totals"]["received"], sum, "{load}");
    (load["reasons"]["rate_limit"].clone(), load["reasons"]["daily_quota"].clone())
}

#[test]
fn a_key_that_sends_too_much_leaves_room_for_others() {
    let world = world("[quotas]\nkey_events_per_second = 10\n", &[]);
    let other = world.key("events:write");
    assert_eq!(world.post(hits(100, "ann")).told(), "100 accepted");
    let refused = world.post(hits(50, "ann"));
    assert_eq!(refused.told(), "429 too_many (key_events_per_second)");
    assert!(
        refused.text().contains("this key exceeds the limit of 10 events per second"),
        "{}",
        refused.text()
    );
    assert_eq!(world.post_as(&other, hits(100, "ann")).told(), "100 accepted");
    assert_eq!(limited(&world), (json!(50), Value::Null));
}

#[test]
fn an_address_is_the_clients_also_behind_a_proxy_and_half_an_ipv6() {
    let world = world("[quotas]\naddress_events_per_second = 10\n", &["--behind-proxy"]);
    let from = |address: &str| {
        let request = Request::events(hits(100, "ann")).key(&world.public_key);
        world.ask(&request.header("X-Forwarded-For", address)).told()
    };
    let refused = "429 too_many (address_events_per_second)";
    assert_eq!((from("203.0.113.7"), from("203.0.113.8")), ("100 accepted".into(), "100 accepted".into()));
    assert_eq!((from("203.0.113.7"), from("::ffff:203.0.113.7")), (refused.into(), refused.into()));
    assert_eq!((from("2001:db8::1"), from("2001:db8::2:1")), ("100 accepted".into(), refused.into()));
    assert_eq!(from("2001:db8:0:1::1"), "100 accepted");
}

#[test]
fn a_player_who_sends_too_much_is_limited_event_by_event() {
    let world = world("[quotas]\nplayer_events_per_second = 1\n", &[]);
    let mut events: Vec<Value> = vec![json!({"event": "hit", "player": "ann"}); 12];
    events.insert(0, json!({"event": "hit", "player": "bo"}));
    events.push(json!({"event": "hit"}));
    let told = world.post(json!(events).to_string()).told();
    assert_eq!(told, "12 accepted; 11 limited rate_limit; 12 limited rate_limit");
    assert_eq!(limited(&world), (json!(2), Value::Null));
}

#[test]
fn a_day_is_told_from_four_fifths_on_and_ends_with_429_also_after_a_restart() {
    let mut world = world("[quotas]\nevents_per_day = 100\n", &[]);
    let used = |answer: &crate::client::Answer| answer.header("playmeter-quota-used").map(str::to_owned);
    let first = world.post(hits(79, "ann"));
    assert_eq!((first.told(), used(&first)), ("79 accepted".into(), None));
    let second = world.post(hits(1, "ann"));
    assert_eq!((second.told(), used(&second)), ("1 accepted".into(), Some("events_per_day=80%".into())));
    world.kill9();
    world.start();
    let third = world.post(hits(15, "ann"));
    assert_eq!((third.told(), used(&third)), ("15 accepted".into(), Some("events_per_day=95%".into())));
    let over = world.post(hits(6, "ann"));
    assert_eq!(over.told(), "429 too_many (events_per_day)");
    let retry_s: u64 = over.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1..=24 * 3600).contains(&retry_s), "{retry_s}");
    assert_eq!(world.post(hits(5, "ann")).told(), "5 accepted");
    assert_eq!(limited(&world), (Value::Null, json!(6)));
    let metrics = world.ask(&Request::get("/metrics")).text();
    let ratio = "playmeter_quota_used_ratio{game=\"demo\",quota=\"events_per_day\"} 1\n";
    assert!(metrics.contains(ratio), "{metrics}");
}

#[test]
fn repeated_events_use_up_nothing() {
    let world = world("[quotas]\nevents_per_day = 10\n", &[]);
    let events: Vec<Value> = (0..6).map(|_| json!({"event": "hit", "id": crate::world::new_id()})).collect();
    let events = json!(events).to_string();
    assert!(world.post(&events).told().starts_with("6 accepted"));
    // In the first moment six more would be too many; that they are the same is found out later.
    assert_eq!(world.post(&events).told(), "429 too_many (events_per_day)");
    let four: Vec<Value> = serde_json::from_str(&events).expect("a list");
    for event in four.chunks(3) {
        assert!(world.post(json!(event).to_string()).told().starts_with("0 accepted; 0 duplicate"));
    }
    assert_eq!(world.post(hits(4, "ann")).told(), "4 accepted");
}

#[test]
fn packets_that_were_counted_are_not_asked_for_again_by_one_who_owes() {
    let world = world("[quotas]\nkey_events_per_second = 1\n", &[]);
    assert_eq!(world.post_as(&world.secret_key, hits(1_000, "ann")).told(), "1000 accepted");
    assert!(world.post_as(&world.secret_key, hits(1, "ann")).told().starts_with("429"), "it owes");
    let lines = "{\"from\":\"ann\",\"to\":\"bo\",\"seq\":1}\nbad\n";
    let answer = world.ask(&Request::new("POST", "/v1/flows/packets").key(&world.secret_key).body(lines));
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert_eq!((&answer.json()["counted"], &answer.json()["invalid"]), (&json!(1), &json!(1)));
    assert_eq!(crate::collectors::account(&world, "flows"), (0, json!({"malformed_json": 1})));
}

#[test]
fn bytes_of_a_day_are_those_of_the_log() {
    let mut world = world("[quotas]\nbytes_per_day = 20000\n", &[]);
    let large = |bytes: usize| json!({"event": "hit", "props": {"a": "x".repeat(1000), "b": vec!["x".repeat(1000); bytes / 1000 - 1]}});
    assert_eq!(world.post(large(9_000).to_string()).told(), "1 accepted");
    world.kill9();
    world.start();
    let half = world.post(large(9_000).to_string());
    assert!(
        half.header("playmeter-quota-used").is_some_and(|used| used.starts_with("bytes_per_day=9")),
        "{half:?}"
    );
    assert_eq!(world.post(large(9_000).to_string()).told(), "429 too_many (bytes_per_day)");
    assert_eq!(world.post(r#"{"event":"hit"}"#).told(), "1 accepted");
}

#[test]
fn a_key_for_some_addresses_works_from_there_alone() {
    let world = World::with(&["--behind-proxy"]);
    let make = |args: &[&str]| {
        let made =
            world.command(&[&["keys", "create", "--json", "--scopes", "events:write,query"], args].concat());
        made.json()
    };
    let made = make(&["--cidr", "203.0.113.0/24,2001:db8::/32"]);
    assert_eq!(made["cidrs"], json!(["203.0.113.0/24", "2001:db8::/32"]));
    let key = made["secret_key"].as_str().expect("a secret key");
    let from = |request: Request, address: &str| {
        world.ask(&request.key(key).header("X-Forwarded-For", address)).told()
    };
    let event = || Request::events(r#"{"event":"hit"}"#);
    let query = || Request::get("/v1/query?metric=hit");
    for address in ["203.0.113.9", "2001:db8::9"] {
        assert_eq!(
            (from(event(), address), from(query(), address)),
            ("1 accepted".into(), "200".into()),
            "{address}"
        );
    }
    for address in ["203.0.114.9", "2001:db9::9", "nowhere"] {
        let forged =
            |request: Request| from(request.header("Playmeter-Client-Address", "203.0.113.9"), address);
        assert_eq!((forged(event()), forged(query())), ("403 scope".into(), "403 scope".into()), "{address}");
    }
    let wrong = world.command(&["keys", "create", "--scopes", "query", "--cidr", "office"]);
    assert!(wrong.code != 0 && wrong.err.contains("`office` is not an address range"), "{wrong:?}");
}

#[test]
fn the_last_use_of_a_key_is_listed_also_after_a_restart() {
    let mut world = World::new();
    let made =
        world.command(&["keys", "create", "--scopes", "events:write", "--label", "job", "--json"]).json();
    let (id, key) = (made["id"].clone(), made["secret_key"].as_str().expect("a secret key").to_owned());
    let last = |world: &World| {
        let keys = world.command(&["keys", "list", "--json"]).json();
        let keys = keys.as_array().expect("a list").clone();
        keys.into_iter().find(|key| key["id"] == id).expect("it is listed")["last_used_s"].clone()
    };
    assert_eq!(last(&world), Value::Null);
    assert!(world.command(&["keys", "list"]).out.contains("never used  job"));
    world.post_as(&key, r#"{"event":"hit"}"#);
    let used = last(&world);
    let age_s = crate::world::now_ms() / 1000 - used.as_i64().expect("it was used");
    assert!((0..60).contains(&age_s), "{age_s}");
    world.restart();
    assert_eq!(last(&world), used);
    world.stop();
    assert_eq!(last(&world), used);
}
