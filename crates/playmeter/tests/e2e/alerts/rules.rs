//! Rules: conditions over real events and imported history.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{get, mean_rule, put, send_values, wait_for_evaluation, wait_for_state, world};
use crate::client::Request;
use crate::socket::Socket;
use crate::world::{World, now_ms};

const HOUR_MS: i64 = 3_600_000;
const WEEK_MS: i64 = 7 * 24 * HOUR_MS;

/// Imports events with their values, each as (milliseconds before now, value).
fn import(world: &World, name: &str, events: &[(i64, i64)]) {
    let now = now_ms();
    let line = |(before_ms, value): &(i64, i64)| {
        json!({ "event": name, "value": value, "ts": now - before_ms }).to_string() + "\n"
    };
    let body: String = events.iter().map(line).collect();
    let answer = world.send(&Request::new("POST", "/v1/import").key(&world.secret_key).body(body));
    assert_eq!(answer.status, 202, "{}", answer.text());
}

#[test]
fn rule_without_data_fires_when_events_stop() {
    let world = world();
    send_values(&world, "beat", 1, 3);
    let rule = |metric: &str| json!({ "query": { "metric": metric, "last": "5m" }, "compare": { "no_data_s": 600 } });
    put(&world, "beating", &rule("beat"));
    put(&world, "silent", &rule("none"));
    wait_for_state(&world, "silent", "firing");
    let beating = wait_for_evaluation(&world, "beating");
    assert_eq!((&beating["state"], &beating["last_evaluation"]["value"]), (&json!("ok"), &json!(3.0)));
    send_values(&world, "none", 1, 1);
    wait_for_state(&world, "silent", "resolved");
}

#[test]
fn band_of_the_last_weeks_tells_usual_from_unusual() {
    let world = world();
    let minutes_ago = 120_000;
    let mut history = vec![(4 * WEEK_MS + 4 * HOUR_MS, 1)];
    for (week, value) in [(1, 90), (2, 100), (3, 100), (4, 110)] {
        history.push((week * WEEK_MS + minutes_ago, value));
    }
    import(&world, "buy", &history);
    let rule = json!({
        "query": { "metric": "buy", "measure": "sum", "last": "15m" },
        "compare": { "band": { "weeks": 4, "width": 3 } },
    });
    send_values(&world, "buy", 100, 1);
    put(&world, "sales", &rule);
    let usual = wait_for_evaluation(&world, "sales");
    let found = &usual["last_evaluation"];
    assert_eq!(
        (&usual["state"], &found["low"], &found["high"]),
        (&json!("ok"), &json!(70.0), &json!(130.0)),
        "{usual}"
    );
    send_values(&world, "buy", 100, 1);
    let unusual = wait_for_state(&world, "sales", "firing");
    assert_eq!((&unusual["value"], &unusual["high"]), (&json!(200.0), &json!(130.0)));
}

#[test]
fn band_without_history_does_not_fire() {
    let world = world();
    send_values(&world, "buy", 1, 50);
    let rule = json!({
        "query": { "metric": "buy", "last": "15m" }, "compare": { "band": { "weeks": 4, "width": 3 } },
    });
    put(&world, "sales", &rule);
    let alert = wait_for_evaluation(&world, "sales");
    assert_eq!((&alert["state"], &alert["last_evaluation"]["value"]), (&json!("ok"), &json!(50.0)));
}

#[test]
fn value_that_doubles_fires_with_its_series() {
    let world = world();
    let event = |platform: &str, before_ms: i64| json!({ "event": "error", "platform": platform, "ts": now_ms() - before_ms });
    let mut events = vec![event("ios", 20 * 60_000), event("web", 20 * 60_000)];
    events.extend([event("web", 120_000), event("ios", 120_000), event("ios", 120_000)]);
    assert_eq!(world.post(json!(events).to_string()).summary(), "5 accepted");
    let rule = json!({
        "query": { "metric": "error", "last": "15m", "by": ["platform"] },
        "compare": { "previous": { "op": ">=", "factor": 2, "min": 2 } },
    });
    put(&world, "errors", &rule);
    let alert = wait_for_state(&world, "errors", "firing");
    assert_eq!(alert["series"], json!([{ "key": { "platform": "ios" }, "value": 2.0 }]));
}

#[test]
fn question_over_raw_events_is_evaluated() {
    let world = world();
    let players = [("ann", "start"), ("ann", "win"), ("bo", "start"), ("cy", "start"), ("di", "start")];
    let events: Vec<Value> = players
        .iter()
        .map(|(player, event)| json!({ "event": event, "player": player, "ts": now_ms() - 120_000 }))
        .collect();
    assert_eq!(world.post(json!(events).to_string()).summary(), "5 accepted");
    let steps = json!([{ "event": "start" }, { "event": "win" }]);
    let funnel = json!({
        "query": { "kind": "funnel", "steps": steps, "last": "1h", "value": "/steps/1/players" },
        "compare": { "op": "<", "value": 2 },
    });
    let explore = json!({
        "query": { "kind": "explore", "event": "start", "last": "1h" }, "compare": { "op": ">=", "value": 4 },
    });
    assert_eq!(put(&world, "conversion", &funnel).status, 201);
    assert_eq!(put(&world, "starts", &explore).status, 201);
    assert_eq!(wait_for_state(&world, "conversion", "firing")["value"], 1.0);
    assert_eq!(wait_for_state(&world, "starts", "firing")["value"], 4.0);
}

#[test]
fn rule_waits_for_its_duration() {
    let world = world();
    let mut rule = mean_rule(json!([]));
    rule["for_s"] = 5.into();
    put(&world, "fails", &rule);
    let begun = Instant::now();
    send_values(&world, "fail", 100, 1);
    let pending = wait_for_state(&world, "fails", "pending");
    let firing = wait_for_state(&world, "fails", "firing");
    assert_ne!(pending["since"], firing["since"]);
    assert!(begun.elapsed() >= Duration::from_secs(4), "{pending} {firing}");
}

#[test]
fn preview_replays_history_with_the_same_evaluator() {
    let world = world();
    // Two spikes: five minutes long, two hours and one hour ago.
    let spike = |hours: i64| (0..5).map(move |minute| (hours * HOUR_MS - minute * 60_000, 100));
    import(&world, "fail", &spike(2).chain(spike(1)).collect::<Vec<_>>());
    let preview = |body: Value| {
        let request = Request::new("POST", "/v1/alerts:preview").key(&world.secret_key);
        world.send(&request.body(body.to_string()))
    };
    let mut body = json!({
        "query": { "metric": "fail", "last": "5m" }, "compare": { "op": ">=", "value": 3 }, "last": "3h",
    });
    let replay = preview(body.clone()).json();
    assert_eq!((&replay["fired"], &replay["step_s"]), (&json!(2), &json!(60)), "{replay}");
    let states: Vec<&str> = replay["transitions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|transition| transition["state"].as_str().expect("a state"))
        .collect();
    assert_eq!(states, ["firing", "resolved", "firing", "resolved"]);
    assert_eq!(replay["values"].as_array().map(Vec::len), Some(180));
    body["cooldown_s"] = 7_200.into();
    assert_eq!(preview(body.clone()).json()["fired"], 1);
    body["last"] = "28d".into();
    let coarse = preview(body.clone()).json();
    assert!(coarse["times"].as_array().is_some_and(|times| times.len() <= 1_440), "{coarse}");
    for (name, value, field) in [
        ("last", json!("32d"), "last"),
        ("for_s", json!(100_000), "for_s"),
        ("query", json!({ "metric": "fail", "last": "soon" }), "query.last"),
        ("compare", json!({}), "compare"),
    ] {
        let mut body = body.clone();
        body[name] = value;
        assert_eq!(preview(body).summary(), format!("400 invalid_field ({field})"));
    }
}

#[test]
fn invalid_rule_is_refused_with_its_field() {
    let world = world();
    for (name, value, field) in [
        ("query", json!({ "metric": "fail" }), "query.last"),
        ("query", json!({ "metric": "fail", "last": "5m", "by": ["hat"] }), "query.by"),
        ("query", json!({ "kind": "players", "last": "5m" }), "query.kind"),
        ("query", json!([]), "query"),
        ("compare", json!({ "op": "~", "value": 1 }), "compare.op"),
        ("compare", json!({ "no_data_s": 1 }), "compare.no_data_s"),
        ("targets", json!([{ "kind": "pager" }]), "targets[0].kind"),
        ("targets", json!([{ "kind": "webhook", "url": "gopher://a/" }]), "targets[0].url"),
        ("no_data", json!("maybe"), "no_data"),
        ("id", json!(1), "id"),
    ] {
        let mut rule = mean_rule(json!([]));
        rule[name] = value;
        assert_eq!(put(&world, "rule", &rule).summary(), format!("400 invalid_field ({field})"), "{rule}");
    }
    assert_eq!(get(&world, "/v1/alerts"), json!({ "alerts": [] }));
    for method in ["GET", "DELETE"] {
        let answer = world.send(&Request::new(method, "/v1/alerts/none").key(&world.secret_key));
        assert_eq!(answer.summary(), "404 not_found (key)");
    }
}

#[test]
fn muted_rule_shows_its_state() {
    let world = world();
    put(&world, "fails", &mean_rule(json!([{ "kind": "email", "to": "ops@example.com" }])));
    let mute = Request::new("PUT", "/v1/alerts/fails/mute").key(&world.secret_key);
    let muted = world.send(&mute.body(r#"{"until": "2100-01-01T00:00:00Z"}"#));
    assert_eq!(muted.json()["muted_until"], "2100-01-01T00:00:00.000Z");
    send_values(&world, "fail", 100, 1);
    wait_for_state(&world, "fails", "firing");
    let sent = get(&world, "/v1/alerts/fails/deliveries");
    let first = &sent["notifications"][0];
    assert_eq!(
        (&first["kind"], &first["muted"], &first["deliveries"]),
        (&json!("firing"), &json!(true), &json!([]))
    );
}

#[test]
fn subscriber_is_sent_the_states() {
    let world = world();
    let mut socket = Socket::open(&world, &world.secret_key);
    socket.subscribe("a", "alerts", json!([]));
    put(&world, "fails", &mean_rule(json!([])));
    let added = socket.until("added");
    assert_eq!((&added["collection"], &added["fields"]["key"]), (&json!("alerts"), &json!("fails")));
    send_values(&world, "fail", 100, 1);
    let changed = loop {
        let changed = socket.until("changed");
        if changed["fields"]["state"] != Value::Null {
            break changed;
        }
    };
    assert_eq!(changed["fields"]["state"], "firing");
}

/// The clock of the machine jumps ahead and back while a rule fires.
#[cfg(feature = "fault-injection")]
#[test]
fn clock_jump_neither_fires_again_nor_stops_evaluation() {
    let mut world = world();
    world.stop();
    let set_error = |world: &World, seconds: i64| {
        let file = world.root().join("clock");
        std::fs::write(file.with_extension("new"), seconds.to_string()).expect("a file in the test's folder");
        std::fs::rename(file.with_extension("new"), file).expect("it replaces the old one");
    };
    set_error(&world, 0);
    let mut command = world.serve();
    command.env("PLAYMETER_INJECTED_CLOCK_ERROR", world.root().join("clock"));
    world.start_as(command);
    put(&world, "fails", &mean_rule(json!([])));
    send_values(&world, "fail", 100, 1);
    wait_for_state(&world, "fails", "firing");
    for error_s in [40 * 86_400, -40 * 86_400, 0] {
        set_error(&world, error_s);
        wait_for_evaluation(&world, "fails");
    }
    assert_eq!(get(&world, "/v1/alerts/fails")["fired"], 1);
    send_values(&world, "fail", 0, 9);
    wait_for_state(&world, "fails", "resolved");
}
