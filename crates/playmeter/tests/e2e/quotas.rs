//! Quotas: per second for each address, key and player; per day for each game.

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::collectors::{packets, wait_until};
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

/// The number of limited events by reason: rate limit, daily quota.
fn limited(world: &World) -> (Value, Value) {
    let load = world.load();
    let outcomes = ["accepted", "duplicate", "invalid", "late", "limited"];
    let sum: u64 = outcomes.iter().filter_map(|outcome| load["totals"][outcome].as_u64()).sum();
    assert_eq!(load["totals"]["received"], sum, "{load}");
    (load["reasons"]["rate_limit"].clone(), load["reasons"]["daily_quota"].clone())
}

#[test]
fn key_over_its_limit_does_not_affect_other_keys() {
    let world = world("[quotas]\nkey_events_per_second = 10\n", &[]);
    let other = world.key("events:write");
    assert_eq!(world.post(hits(100, "ann")).summary(), "100 accepted");
    let rejected = world.post(hits(50, "ann"));
    assert_eq!(rejected.summary(), "429 too_many (key_events_per_second)");
    assert!(
        rejected.text().contains("this key exceeds the limit of 10 events per second"),
        "{}",
        rejected.text()
    );
    assert_eq!(world.post_as(&other, hits(100, "ann")).summary(), "100 accepted");
    assert_eq!(limited(&world), (json!(50), Value::Null));
}

#[test]
fn address_limit_uses_the_forwarded_address_and_ipv6_prefix() {
    let world = world("[quotas]\naddress_events_per_second = 10\n", &["--behind-proxy"]);
    let from = |address: &str| {
        let request = Request::events(hits(100, "ann")).key(&world.public_key);
        world.send(&request.header("X-Forwarded-For", address)).summary()
    };
    let rejected = "429 too_many (address_events_per_second)";
    assert_eq!((from("203.0.113.7"), from("203.0.113.8")), ("100 accepted".into(), "100 accepted".into()));
    assert_eq!((from("203.0.113.7"), from("::ffff:203.0.113.7")), (rejected.into(), rejected.into()));
    assert_eq!((from("2001:db8::1"), from("2001:db8::2:1")), ("100 accepted".into(), rejected.into()));
    assert_eq!(from("2001:db8:0:1::1"), "100 accepted");
}

/// The total of a metric today.
fn total(world: &World, metric: &str) -> Value {
    let query = json!({"metric": metric, "last": "24h", "step": "all"});
    world.query(&query).json()["series"][0]["total"].clone()
}

#[test]
fn one_client_cannot_use_up_the_places_of_event_names() {
    let statsd = "[quotas]\nevent_names_per_game = 200\n\
                  [collectors.one]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n";
    let mut world = world(statsd, &["--behind-proxy"]);
    let send = |world: &World, address: &str, names: &[String]| {
        let events: Vec<Value> = names.iter().map(|name| json!({"event": name})).collect();
        let request = Request::events(json!(events).to_string()).key(&world.public_key);
        let summary = world.send(&request.header("X-Forwarded-For", address)).summary();
        assert_eq!(summary, format!("{} accepted", names.len()));
    };
    let names =
        |of: &str, count: usize| (0..count).map(|number| format!("{of}-{number}")).collect::<Vec<_>>();
    send(&world, "203.0.113.6", &names("known", 20));
    for batch in names("junk", 5_000).chunks(1_000) {
        send(&world, "203.0.113.7", batch);
    }
    send(&world, "203.0.113.8", &names("honest", 5));
    packets(&world, "one").send(b"players.connected:7|g").expect("it listens");
    wait_until(&world, "one", |now| now["counters"]["accepted"] == 1);
    for _ in 0..2 {
        assert_eq!((total(&world, "known-19"), total(&world, "honest-4")), (json!(1), json!(1)));
        assert_eq!(total(&world, "players.connected"), json!(1));
        assert_eq!(total(&world, "events"), json!(5_025), "no event is lost");
        let dimensions = world.send(&Request::get("/v1/dimensions").key(&world.secret_key)).json();
        assert_eq!(dimensions["event_names"], json!({"names": 116, "names_max": 200, "other_events": 4_910}));
        assert_eq!(world.load()["other_events"], 4_910);
        world.restart();
    }
    send(&world, "203.0.113.7", &names("more", 100));
    let metrics = world.send(&Request::get("/metrics").key(&world.secret_key)).text();
    assert!(metrics.contains("playmeter_event_names_max{game=\"demo\"} 200"), "{metrics}");
    assert!(metrics.contains("playmeter_events_other_total{game=\"demo\"} 90"), "{metrics}");
}

#[test]
fn player_limit_applies_per_event() {
    let world = world("[quotas]\nplayer_events_per_second = 1\n", &[]);
    let mut events: Vec<Value> = vec![json!({"event": "hit", "player": "ann"}); 12];
    events.insert(0, json!({"event": "hit", "player": "bo"}));
    events.push(json!({"event": "hit"}));
    let summary = world.post(json!(events).to_string()).summary();
    assert_eq!(summary, "12 accepted; 11 limited rate_limit; 12 limited rate_limit");
    assert_eq!(limited(&world), (json!(2), Value::Null));
}

#[test]
fn daily_quota_is_reported_from_80_percent_and_survives_a_crash() {
    let mut world = world("[quotas]\nevents_per_day = 100\n", &[]);
    let used = |answer: &crate::client::Answer| answer.header("playmeter-quota-used").map(str::to_owned);
    let first = world.post(hits(79, "ann"));
    assert_eq!((first.summary(), used(&first)), ("79 accepted".into(), None));
    let second = world.post(hits(1, "ann"));
    assert_eq!((second.summary(), used(&second)), ("1 accepted".into(), Some("events_per_day=80%".into())));
    world.kill9();
    world.start();
    let third = world.post(hits(15, "ann"));
    assert_eq!((third.summary(), used(&third)), ("15 accepted".into(), Some("events_per_day=95%".into())));
    let over = world.post(hits(6, "ann"));
    assert_eq!(over.summary(), "429 too_many (events_per_day)");
    let retry_s: u64 = over.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1..=24 * 3600).contains(&retry_s), "{retry_s}");
    assert_eq!(world.post(hits(5, "ann")).summary(), "5 accepted");
    assert_eq!(limited(&world), (Value::Null, json!(6)));
    let metrics = world.send(&Request::get("/metrics")).text();
    let ratio = "playmeter_quota_used_ratio{game=\"demo\",quota=\"events_per_day\"} 1\n";
    assert!(metrics.contains(ratio), "{metrics}");
}

#[test]
fn duplicates_do_not_use_up_the_daily_quota() {
    let world = world("[quotas]\nevents_per_day = 10\n", &[]);
    let events: Vec<Value> = (0..6).map(|_| json!({"event": "hit", "id": crate::world::new_id()})).collect();
    let events = json!(events).to_string();
    assert!(world.post(&events).summary().starts_with("6 accepted"));
    // Admission rejects six more events before deduplication can recognize them.
    assert_eq!(world.post(&events).summary(), "429 too_many (events_per_day)");
    let four: Vec<Value> = serde_json::from_str(&events).expect("a list");
    for event in four.chunks(3) {
        assert!(world.post(json!(event).to_string()).summary().starts_with("0 accepted; 0 duplicate"));
    }
    assert_eq!(world.post(hits(4, "ann")).summary(), "4 accepted");
}

#[test]
fn counted_packets_are_acknowledged_over_the_key_limit() {
    let world = world("[quotas]\nkey_events_per_second = 1\n", &[]);
    assert_eq!(world.post_as(&world.secret_key, hits(1_000, "ann")).summary(), "1000 accepted");
    assert!(
        world.post_as(&world.secret_key, hits(1, "ann")).summary().starts_with("429"),
        "the key is over its limit"
    );
    let lines = "{\"from\":\"ann\",\"to\":\"bo\",\"seq\":1}\nbad\n";
    let answer = world.send(&Request::new("POST", "/v1/flows/packets").key(&world.secret_key).body(lines));
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert_eq!((&answer.json()["counted"], &answer.json()["invalid"]), (&json!(1), &json!(1)));
    assert_eq!(crate::collectors::account(&world, "flows"), (0, json!({"malformed_json": 1})));
}

#[test]
fn daily_byte_quota_counts_bytes_of_the_log() {
    let mut world = world("[quotas]\nbytes_per_day = 20000\n", &[]);
    let large = |bytes: usize| json!({"event": "hit", "props": {"a": "x".repeat(1000), "b": vec!["x".repeat(1000); bytes / 1000 - 1]}});
    assert_eq!(world.post(large(9_000).to_string()).summary(), "1 accepted");
    world.kill9();
    world.start();
    let half = world.post(large(9_000).to_string());
    assert!(
        half.header("playmeter-quota-used").is_some_and(|used| used.starts_with("bytes_per_day=9")),
        "{half:?}"
    );
    assert_eq!(world.post(large(9_000).to_string()).summary(), "429 too_many (bytes_per_day)");
    assert_eq!(world.post(r#"{"event":"hit"}"#).summary(), "1 accepted");
}

#[test]
fn key_with_address_ranges_works_only_from_them() {
    let world = World::with(&["--behind-proxy"]);
    let make = |args: &[&str]| {
        let created =
            world.command(&[&["keys", "create", "--json", "--scopes", "events:write,query"], args].concat());
        created.json()
    };
    let created = make(&["--cidr", "203.0.113.0/24,2001:db8::/32"]);
    assert_eq!(created["cidrs"], json!(["203.0.113.0/24", "2001:db8::/32"]));
    let key = created["secret_key"].as_str().expect("a secret key");
    let from = |request: Request, address: &str| {
        world.send(&request.key(key).header("X-Forwarded-For", address)).summary()
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
fn last_use_of_a_key_survives_a_restart() {
    let mut world = World::new();
    let created =
        world.command(&["keys", "create", "--scopes", "events:write", "--label", "job", "--json"]).json();
    let (id, key) = (created["id"].clone(), created["secret_key"].as_str().expect("a secret key").to_owned());
    let last = |world: &World| {
        let keys = world.command(&["keys", "list", "--json"]).json();
        let keys = keys.as_array().expect("a list").clone();
        keys.into_iter().find(|key| key["id"] == id).expect("it is listed")["last_used"].clone()
    };
    assert_eq!(last(&world), Value::Null);
    assert!(world.command(&["keys", "list"]).out.contains("never used  job"));
    world.post_as(&key, r#"{"event":"hit"}"#);
    let used = last(&world);
    let used_ms = pipeline::time::parse_time(used.as_str().expect("it was used")).expect("RFC 3339");
    let age_s = (crate::world::now_ms() - used_ms) / 1000;
    assert!((0..60).contains(&age_s), "{age_s}");
    world.restart();
    assert_eq!(last(&world), used);
    world.stop();
    assert_eq!(last(&world), used);
}

/// Sends a write again and again until it is rejected, and returns the rejection.
fn rejection(send: impl Fn(usize) -> Answer) -> Answer {
    let rejected = (0..200).map(send).find(|answer| answer.status == 429);
    rejected.expect("it is rejected in the end")
}

#[test]
fn writes_with_a_public_key_are_limited_by_player_and_address() {
    let world = world("[quotas]\nplayer_writes_per_second = 1\naddress_creations_per_minute = 2\n", &[]);
    let open = |key: &str, number: usize| {
        let request = Request::new("POST", "/v1/session").key(key);
        world.send(&request.body(format!(r#"{{"player":"p{number}"}}"#)))
    };
    let rejected = rejection(|number| open(&world.public_key, number));
    assert_eq!(rejected.summary(), "429 too_many (address_creations_per_minute)");
    let retry = rejected.header("retry-after").and_then(|seconds| seconds.parse::<u32>().ok());
    assert!(retry.is_some_and(|seconds| (1..=30).contains(&seconds)), "{retry:?}");
    let new_board = |table: &str| {
        let request = Request::new("POST", format!("/v1/boards/{table}/scores")).key(&world.public_key);
        world.send(&request.body(r#"{"player":"bo","score":1}"#))
    };
    assert_eq!(new_board("new").summary(), "429 too_many (address_creations_per_minute)");
    let define = Request::new("PUT", "/v1/boards/open").key(&world.secret_key).body(r#"{"mode":"open"}"#);
    assert_eq!(world.send(&define).status, 201);
    let submit = |player: &str| {
        let request = Request::new("POST", "/v1/boards/open/scores").key(&world.public_key);
        world.send(&request.body(format!(r#"{{"player":"{player}","score":1}}"#)))
    };
    let rejected = rejection(|_| submit("ann"));
    assert_eq!(rejected.summary(), "429 too_many (player_writes_per_second)");
    assert_eq!(submit("cy").status, 200, "another player");
    for number in 0..40 {
        assert_eq!(open(&world.secret_key, number).status, 201, "a secret key is not limited");
    }
}

#[test]
fn writes_under_the_name_of_a_player_do_not_limit_those_of_the_player() {
    let world = world("[quotas]\nplayer_writes_per_second = 1\n", &["--behind-proxy"]);
    let define = Request::new("PUT", "/v1/boards/open").key(&world.secret_key).body(r#"{"mode":"open"}"#);
    let define = define.header("X-Forwarded-For", "203.0.113.9");
    assert_eq!(world.send(&define).status, 201);
    let submit = |address: &str| {
        let request = Request::new("POST", "/v1/boards/open/scores").key(&world.public_key);
        let request = request.header("X-Forwarded-For", address);
        world.send(&request.body(r#"{"player":"ann","score":1}"#))
    };
    let rejected = rejection(|_| submit("203.0.113.7"));
    assert_eq!(rejected.summary(), "429 too_many (player_writes_per_second)");
    assert_eq!(submit("203.0.113.8").status, 200, "the player, from another address");
}
