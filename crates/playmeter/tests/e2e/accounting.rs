//! `received = accepted + duplicate + invalid + late + limited`, as the client counted it, whatever happens.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::world::{World, new_id};

const OUTCOMES: [&str; 5] = ["accepted", "duplicate", "invalid", "late", "limited"];

/// Events a client has sent, with their outcomes.
#[derive(Default)]
struct ClientTotals {
    received: u64,
    outcomes: BTreeMap<String, u64>,
    reasons: BTreeMap<String, u64>,
}

impl ClientTotals {
    fn add(&mut self, sent: usize, answer: &Answer) {
        let receipt = answer.json();
        let count = |outcome: &str| receipt[outcome].as_u64().expect("a count");
        assert_eq!(OUTCOMES.map(count).iter().sum::<u64>(), sent as u64, "{receipt}");
        self.received += sent as u64;
        for outcome in OUTCOMES {
            *self.outcomes.entry(outcome.to_owned()).or_default() += count(outcome);
        }
        for result in receipt["results"].as_array().expect("a list") {
            let reason = result["reason"].as_str().expect("a reason").to_owned();
            *self.reasons.entry(reason).or_default() += 1;
        }
    }

    /// Checks that the server's accounting agrees.
    fn check(&self, world: &World, when: &str) {
        let load = world.load();
        let mut totals = json!({ "received": self.received });
        self.outcomes.iter().for_each(|(outcome, count)| totals[outcome] = (*count).into());
        assert_eq!(load["totals"], totals, "{when}");
        assert_eq!(load["reasons"], json!(self.reasons), "{when}");
        let sum = |field: &str| -> u64 {
            let endpoints = load["endpoints"].as_array().expect("a list").iter();
            endpoints.map(|endpoint| endpoint[field].as_u64().expect("a count")).sum()
        };
        for (field, total) in load["totals"].as_object().expect("an object") {
            assert_eq!(sum(field), *total, "{field} by endpoint {when}");
        }
    }
}

/// A generator of valid and invalid events, the same in every run.
struct TrafficGenerator {
    state: u64,
    ids: Vec<String>,
}

impl TrafficGenerator {
    fn new() -> TrafficGenerator {
        let ids = (0..100).map(|_| new_id()).collect();
        TrafficGenerator { state: 1, ids }
    }

    fn below(&mut self, end: usize) -> usize {
        // Knuth's generator: random enough to mix the rows, and the same on every machine.
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % end
    }

    fn event(&mut self) -> String {
        let id = self.below(self.ids.len());
        let kind = self.below(10);
        let id = &self.ids[id];
        match kind {
            0..3 => format!(r#"{{"event":"win","id":"{id}","player":"ann","value":1}}"#),
            3 => format!(r#"{{"event":"win","id":"{}"}}"#, new_id()),
            4 => r#"{"event":"lose","props":{"map":"hill"}}"#.to_owned(),
            5 => format!(r#"{{"event":"win","id":"{id}","ts":1}}"#),
            6 => r#"{"event":""}"#.to_owned(),
            7 => format!(r#"{{"event":"win","id":"{id}","rank":1}}"#),
            8 => r#"{"event":"$nothing"}"#.to_owned(),
            _ => "17".to_owned(),
        }
    }

    fn send(&mut self, world: &World, counted: &mut ClientTotals, requests: usize) {
        let mut connection = world.connect();
        for _ in 0..requests {
            let count = self.below(40);
            let events: Vec<String> = (0..count).map(|_| self.event()).collect();
            let ack = ["disk", "disk", "os"][self.below(3)];
            let key = [&world.public_key, &world.secret_key][self.below(2)].clone();
            let request = Request::events(format!("[{}]", events.join(",")));
            let answer = connection.send(&request.to(format!("/v1/events?ack={ack}")).key(&key));
            counted.add(count, &answer.expect("an answer"));
            if self.below(10) == 0 {
                let broken = Request::events(r#"[{"event":"win"},"#).key(&key);
                assert_eq!(connection.send(&broken).expect("an answer").status, 400);
            }
        }
        // Once this event is durable, so are those acknowledged before they were durable: all are counted.
        let last = Request::events(r#"{"event":"win"}"#).key(&world.public_key);
        counted.add(1, &connection.send(&last).expect("an answer"));
    }
}

#[test]
fn totals_match_the_client_after_load_restart_and_crash() {
    let mut world = World::new();
    let (mut traffic, mut counted) = (TrafficGenerator::new(), ClientTotals::default());
    traffic.send(&world, &mut counted, 60);
    counted.check(&world, "after a storm");
    world.restart();
    counted.check(&world, "after a restart");
    for crash in 0..3 {
        traffic.send(&world, &mut counted, 30);
        world.kill9();
        world.start();
        counted.check(&world, &format!("after crash {crash}"));
    }
    let verified = world.command(&["verify", "--json"]).json();
    assert_eq!((&verified["agrees"], &verified["different"]), (&json!(true), &json!(0)), "{verified}");
}

#[test]
fn each_game_has_its_own_totals() {
    let world = World::new();
    let other = world.command(&["games", "create", "other", "--json"]).json();
    let created = world.command(&["keys", "create", "--game", "other", "--scopes", "query", "--json"]).json();
    let text = |value: &Value| value.as_str().expect("a key").to_owned();
    let (public, secret) = (text(&other["public_key"]), text(&created["secret_key"]));
    world.post(r#"[{"event":"win"},{"event":""}]"#);
    world.post_as(&public, r#"{"event":"win"}"#);
    let theirs = world.send(&Request::get("/v1/load").key(&secret)).json();
    assert_eq!((&theirs["totals"]["received"], &world.load()["totals"]["received"]), (&json!(1), &json!(2)));
}

#[test]
fn metrics_count_events_by_reason_and_requests_by_status_since_start() {
    let mut world = World::new();
    world.post(r#"[{"event":"win"},{"event":"win"},{"event":""}]"#);
    world.post("{");
    world.post_as("pm_pk_wrong", "{}");
    world.load();
    let metrics = world.send(&Request::get("/metrics"));
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4"));
    let metrics = metrics.text();
    for line in [
        r#"playmeter_events_total{game="demo",endpoint="events",outcome="accepted",reason=""} 2"#,
        r#"playmeter_events_total{game="demo",endpoint="events",outcome="invalid",reason="event_name_empty"} 1"#,
        r#"playmeter_requests_refused_total{status="400"} 1"#,
        r#"playmeter_requests_refused_total{status="401"} 1"#,
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line}\n{metrics}");
    }
    world.kill9();
    world.start();
    world.load();
    let metrics = world.send(&Request::get("/metrics")).text();
    let counted: Vec<&str> =
        metrics.lines().filter(|line| line.starts_with("playmeter_events_total")).collect();
    assert!(counted.is_empty(), "events replayed from the log are not counted again: {counted:?}");
}

#[test]
fn load_can_be_read_for_a_year_but_not_for_all_time() {
    let world = World::new();
    world.post(r#"[{"event":"win"},{"event":""}]"#);
    let now = crate::world::now_ms();
    let day = 24 * 3_600_000;
    let load = |from: i64, to: i64| {
        world.send(&Request::get(format!("/v1/load?from={from}&to={to}")).key(&world.secret_key))
    };
    assert_eq!(load(now - 365 * day, now + day).json()["totals"]["received"], 2);
    assert_eq!(load(0, now).summary(), "400 invalid_field (from)");
    assert_eq!(load(now, 253_402_300_799_000).summary(), "400 invalid_field (from)");
    assert_eq!(load(now, now - day).json()["totals"]["received"], 0);
}
