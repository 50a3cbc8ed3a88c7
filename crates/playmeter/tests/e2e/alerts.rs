//! Alerts: rules over real events, and deliveries to real servers that fail, hang, redirect and come back.

mod delivery;
mod mail;
mod receiver;
mod rules;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::world::{World, now_ms};

/// Longer than any step of these tests takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Rules are evaluated each second, and receivers of the tests are on this machine.
const SETTINGS: &str = "[alerts]\ninterval_s = 1\nallow_private_addresses = true\n";

fn world() -> World {
    World::configured(SETTINGS, &[])
}

fn put(world: &World, key: &str, rule: &Value) -> Answer {
    let request = Request::new("PUT", format!("/v1/alerts/{key}")).key(&world.secret_key);
    world.send(&request.body(rule.to_string()))
}

fn get(world: &World, target: &str) -> Value {
    let answer = world.send(&Request::get(target).key(&world.secret_key));
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    answer.json()
}

/// A rule that fires while the mean of the values of `fail` is above 50.
fn mean_rule(targets: Value) -> Value {
    json!({
        "name": "Failures", "query": { "metric": "fail", "measure": "avg", "last": "15m" },
        "compare": { "op": ">", "value": 50 }, "targets": targets,
    })
}

/// Sends events of two minutes ago, in a minute that is complete.
fn send_values(world: &World, event: &str, value: i64, count: usize) {
    let event = json!({ "event": event, "value": value, "ts": now_ms() - 120_000 });
    let answer = world.post(json!(vec![event; count]).to_string());
    assert_eq!(answer.summary(), format!("{count} accepted"));
}

/// Waits until the condition yields something.
fn wait_for<T>(world: &World, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}\n{}", world.log_lines());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a rule is in this state.
fn wait_for_state(world: &World, key: &str, state: &str) -> Value {
    wait_for(world, &format!("{key} is {state}"), || {
        let alert = get(world, &format!("/v1/alerts/{key}"));
        (alert["state"] == state).then_some(alert)
    })
}

/// Waits until a rule was evaluated twice more, and returns it.
fn wait_for_evaluation(world: &World, key: &str) -> Value {
    let evaluated = || get(world, &format!("/v1/alerts/{key}"))["last_evaluation"]["at"].clone();
    for _ in 0..2 {
        let before = evaluated();
        wait_for(world, &format!("{key} is evaluated"), || (evaluated() != before).then_some(()));
    }
    get(world, &format!("/v1/alerts/{key}"))
}

/// The deliveries of the newest notification of a rule.
fn newest_deliveries(world: &World, key: &str) -> Value {
    get(world, &format!("/v1/alerts/{key}/deliveries"))["notifications"][0]["deliveries"].clone()
}
