//! Imports: every event of a file is stored exactly once, even if the import or the server is killed meanwhile.

mod formats;
mod killed;
mod rejected;

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::Request;
use crate::collectors::account;
use crate::world::{CommandOutput, World, playmeter, run};

/// 2024-01-01T00:00:00Z: older than the lateness bound of any game.
const LONG_AGO_MS: i64 = 1_704_067_200_000;

/// Lines of JSON: event `n` has the value `n % 7` and happened `n` seconds after the first.
fn lines(event: &str, count: u64) -> String {
    let line = |n: u64| {
        let ts = LONG_AGO_MS + n as i64 * 1_000;
        format!("{{\"event\":\"{event}\",\"player\":\"p{}\",\"value\":{},\"ts\":{ts}}}\n", n % 50, n % 7)
    };
    (0..count).map(line).collect()
}

/// The expected count and sum of [`lines`].
fn expected_totals(count: u64) -> (f64, f64) {
    (count as f64, (0..count).map(|n| n % 7).sum::<u64>() as f64)
}

/// Creates a file next to the data folder.
fn file(world: &World, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = world.root().join(name);
    std::fs::write(&path, bytes).expect("a file");
    path
}

/// `playmeter import ARGS` into the world's server.
fn command(world: &World, args: &[&str]) -> Command {
    let mut command = playmeter(world.root());
    command.arg("import").arg("--data").arg(world.folder()).arg("--state").arg(world.root().join("state"));
    command.args(args);
    command
}

fn import(world: &World, args: &[&str]) -> CommandOutput {
    run(&mut command(world, args))
}

/// Imports files that must be accepted completely and returns the summary.
fn import_json(world: &World, args: &[&str]) -> Value {
    run(command(world, args).arg("--json")).json()
}

/// The count and sum of an event since [`LONG_AGO_MS`].
fn stored(world: &World, event: &str) -> (f64, f64) {
    let of = |measure: &str| {
        let query = json!({"metric": event, "measure": measure, "from": LONG_AGO_MS, "to": crate::world::now_ms() + 1, "step": "all"});
        let outcome = world.query(&query);
        assert_eq!(outcome.status, 200, "{}", outcome.text());
        outcome.json()["series"][0]["total"].as_f64().unwrap_or_default()
    };
    (of("count"), of("sum"))
}

/// The number of successful requests of a route.
fn requests(world: &World, method: &str, path: &str) -> u64 {
    requests_with_outcome(world, method, path, "ok")
}

/// The number of requests of a route with this outcome.
fn requests_with_outcome(world: &World, method: &str, path: &str, outcome: &str) -> u64 {
    let monitor = world.send(&Request::get("/v1/monitor").key(&world.secret_key)).json();
    let rows = monitor["requests"].as_array().expect("a list").iter();
    let mut rows = rows.filter(|row| row["method"] == method && row["path"] == path);
    rows.next().and_then(|row| row[outcome].as_u64()).unwrap_or_default()
}
