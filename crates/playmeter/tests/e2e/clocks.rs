//! Wrong clocks, late events, and the minute in which each event counts.

use serde_json::{Value, json};

use crate::world::{World, now_ms};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The minutes around `near_ms` in which events of this name count, as offsets from it, with the counts.
fn minutes(world: &World, name: &str, near_ms: i64) -> Vec<(i64, u64)> {
    let near = near_ms - near_ms.rem_euclid(MINUTE);
    let query =
        json!({ "metric": name, "step": "minute", "from": near - 90 * MINUTE, "to": near + 90 * MINUTE });
    let answer = world.query(&query);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let series = answer.json()["series"][0]["values"].clone();
    let counts = series.as_array().map(Vec::as_slice).unwrap_or_default().iter().map(Value::as_u64);
    let differences = (-90..).zip(counts.map(Option::unwrap_or_default));
    differences.filter(|(_, count)| *count > 0).collect()
}

/// The current time, at least 5 s before the end of a minute, so that a test runs within one minute.
fn steady_now() -> i64 {
    loop {
        let now = now_ms();
        if now.rem_euclid(MINUTE) < MINUTE - 5_000 {
            return now;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn wrong_clock_is_corrected_by_sent_at() {
    let world = World::new();
    let now = steady_now();
    for (name, clock_is_ahead, happened, minute) in [
        ("right", 0, 3 * MINUTE, -3),
        ("behind", -2 * HOUR, 3 * MINUTE, -3),
        ("ahead", 30 * MINUTE, 4 * MINUTE, -4),
        ("years-ahead", 3_650 * DAY, 5 * MINUTE, -5),
        ("since-1970", -now + DAY, 6 * MINUTE, -6),
    ] {
        let theirs = now + clock_is_ahead;
        let ts = theirs - happened;
        let body = format!(r#"{{"sent_at":{theirs},"events":[{{"event":"{name}","ts":{ts}}}]}}"#);
        assert_eq!(world.post(body).summary(), "1 accepted", "{name}");
        assert_eq!(minutes(&world, name, now), [(minute, 1)], "{name}");
    }
}

#[test]
fn timestamp_without_sent_at_is_kept_up_to_a_day_ahead() {
    let world = World::new();
    let now = steady_now();
    let at = |name: &str, ts: i64| format!(r#"{{"event":"{name}","ts":{ts}}}"#);
    world.post(format!("[{},{}]", at("soon", now + DAY - HOUR), at("too-soon", now + DAY + HOUR)));
    assert_eq!(minutes(&world, "soon", now + DAY - HOUR), [(0, 1)]);
    assert_eq!(minutes(&world, "too-soon", now + DAY + HOUR), []);
    assert_eq!(minutes(&world, "too-soon", now), [(0, 1)], "it counts at the time of receipt");
}

#[test]
fn event_without_timestamp_counts_at_receipt() {
    let world = World::new();
    let now = steady_now();
    world.post(r#"{"sent_at":"1999-12-31T23:59:59Z","events":[{"event":"win"},{"event":"win","ts":null}]}"#);
    assert_eq!(minutes(&world, "win", now), [(0, 2)]);
}

#[test]
fn late_event_counts_in_its_own_minute_up_to_30_days() {
    let mut world = World::new();
    let now = steady_now();
    let at = |ts: i64| format!(r#"{{"event":"win","ts":{ts}}}"#);
    let ages = [10 * MINUTE, 25 * HOUR, 30 * DAY - MINUTE];
    for age in ages {
        assert_eq!(world.post(at(now - age)).summary(), "1 accepted");
    }
    assert_eq!(world.post(at(now - 30 * DAY - MINUTE)).summary(), "0 accepted; 0 late too_old");
    assert_eq!(world.post(at(0)).summary(), "0 accepted; 0 late too_old");
    for _ in 0..2 {
        for age in ages {
            let found = minutes(&world, "win", now - age);
            assert!(found.contains(&(0, 1)), "{age} ms ago: {found:?}");
        }
        world.restart();
    }
    let totals = world.load()["totals"].clone();
    assert_eq!((&totals["accepted"], &totals["late"]), (&json!(3), &json!(2)));
}

#[test]
fn import_key_sends_events_of_any_age() {
    let world = World::new();
    let importer = world.key("events:write,events:import");
    let writer = world.key("events:write");
    let old = now_ms() - 400 * DAY;
    let event = format!(r#"{{"event":"win","ts":{old}}}"#);
    for (key, expected) in [
        (&writer, "0 accepted; 0 late too_old"),
        (&world.public_key, "0 accepted; 0 late too_old"),
        (&importer, "1 accepted"),
    ] {
        assert_eq!(world.post_as(key, &event).summary(), expected);
    }
    assert_eq!(minutes(&world, "win", old), [(0, 1)]);
    let before_1970 = world.post_as(&importer, r#"{"event":"win","ts":"1969-12-31T23:59:59Z"}"#);
    assert_eq!(before_1970.summary(), "0 accepted; 0 invalid ts_invalid");
}
