//! A system clock that jumps 40 days ahead and back, under a running server and across restarts.

use serde_json::{Value, json};

use crate::client::Request;
use crate::world::{World, new_id, now_ms};

const DAYS_S: i64 = 40 * 86_400;

/// Sets the error of the server's system clock.
fn set_clock_error(world: &World, seconds: i64) {
    let file = world.root().join("clock");
    std::fs::write(file.with_extension("new"), seconds.to_string()).expect("a file in the test's folder");
    std::fs::rename(file.with_extension("new"), file).expect("it replaces the old one");
}

/// Starts the stopped server with a system clock that is wrong by this many seconds.
fn start_with_clock_error(world: &mut World, seconds: i64) {
    set_clock_error(world, seconds);
    let mut command = world.serve();
    command.env("PLAYMETER_INJECTED_CLOCK_ERROR", world.root().join("clock"));
    world.start_as(command);
}

fn world() -> World {
    let mut world = World::new();
    world.stop();
    start_with_clock_error(&mut world, 0);
    world
}

fn event(player: &str) -> String {
    format!(r#"{{"event":"round","player":"{player}"}}"#)
}

fn submit(world: &World, player: &str, score: u32) {
    let request = Request::new("POST", "/v1/boards/points/scores").key(&world.secret_key);
    let answer = world.send(&request.body(json!({"player": player, "score": score}).to_string()));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// The rows of a window of the board.
fn rows(world: &World, window: &str) -> String {
    let request = Request::get(format!("/v1/boards/points/scores?window={window}")).key(&world.public_key);
    let page = world.send(&request).json();
    let row = |row: &Value| format!("{} {}", row["player"].as_str().expect("a player"), row["score"]);
    page["rows"].as_array().expect("rows").iter().map(row).collect::<Vec<_>>().join(", ")
}

/// The total of a metric over the hour up to the real time.
fn total(world: &World, metric: &str) -> Value {
    let (from, to) = (now_ms() - 3_600_000, now_ms() + 60_000);
    let query = json!({"metric": metric, "step": "all", "from": from, "to": to});
    world.query(&query).json()["series"][0]["total"].clone()
}

#[test]
fn jump_of_a_running_server_changes_nothing() {
    let mut world = world();
    let id = new_id();
    let with_id = format!(r#"{{"event":"once","id":"{id}"}}"#);
    assert_eq!(world.post(&with_id).summary(), "1 accepted");
    // Writes the event ids to disk.
    world.stop();
    start_with_clock_error(&mut world, 0);
    for (error_s, player, score) in [(0, "ann", 10), (DAYS_S, "bo", 20), (0, "cy", 30), (-DAYS_S, "di", 40)] {
        set_clock_error(&world, error_s);
        assert_eq!(world.post(event(player)).summary(), "1 accepted");
        assert_eq!(world.post(event("ann")).summary(), "1 accepted");
        assert_eq!(world.post(&with_id).summary(), "0 accepted; 0 duplicate seen_before", "{player}");
        submit(&world, player, score);
    }
    set_clock_error(&world, 0);
    assert_eq!(total(&world, "round"), 8);
    assert_eq!(total(&world, "sessions"), 4, "no session has ended");
    assert_eq!(total(&world, "online"), 4);
    for window in ["all", "month", "week", "day", "30d", "7d", "24h"] {
        assert_eq!(rows(&world, window), "di 40, cy 30, bo 20, ann 10", "{window}");
    }
}

#[test]
fn server_recovers_from_a_start_with_a_clock_that_is_ahead() {
    let mut world = world();
    assert_eq!(world.post(event("ann")).summary(), "1 accepted");
    submit(&world, "ann", 10);
    world.stop();
    start_with_clock_error(&mut world, DAYS_S);
    assert_eq!(world.post(event("bo")).summary(), "1 accepted");
    submit(&world, "bo", 20);
    world.stop();
    start_with_clock_error(&mut world, 0);
    assert_eq!(world.post(event("cy")).summary(), "1 accepted");
    submit(&world, "cy", 30);
    assert_eq!(world.post(event("cy")).summary(), "1 accepted");
    assert_eq!(total(&world, "sessions"), 2, "of ann and cy; that of bo was in the future");
    assert_eq!(total(&world, "online"), 2);
    for window in ["all", "month", "week", "day", "24h"] {
        let found = rows(&world, window);
        assert!(found.starts_with("cy 30, bo 20"), "{window}: {found}");
    }
}
