//! Files of the past: what is in them is in the answers, exactly, whatever is killed meanwhile.

mod forms;
mod killed;
mod refused;

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::Request;
use crate::collectors::account;
use crate::world::{Done, World, playmeter, run};

/// 2024-01-01T00:00:00Z: older than any game takes events without an import.
const LONG_AGO_MS: i64 = 1_704_067_200_000;

/// Lines of JSON: event `n` is worth `n % 7` and happened `n` seconds after the first.
fn lines(event: &str, count: u64) -> String {
    let line = |n: u64| {
        let ts = LONG_AGO_MS + n as i64 * 1_000;
        format!("{{\"event\":\"{event}\",\"player\":\"p{}\",\"value\":{},\"ts\":{ts}}}\n", n % 50, n % 7)
    };
    (0..count).map(line).collect()
}

/// What [`lines`] add up to.
fn worth(count: u64) -> (f64, f64) {
    (count as f64, (0..count).map(|n| n % 7).sum::<u64>() as f64)
}

/// Puts a file beside the data folder.
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

fn import(world: &World, args: &[&str]) -> Done {
    run(&mut command(world, args))
}

/// The same where everything has to be taken; the summary.
fn imported(world: &World, args: &[&str]) -> Value {
    run(command(world, args).arg("--json")).json()
}

/// The count and the sum of an event since the first of the past.
fn stored(world: &World, event: &str) -> (f64, f64) {
    let of = |measure: &str| {
        let query = json!({"metric": event, "measure": measure, "from": LONG_AGO_MS, "to": crate::world::now_ms() + 1, "step": "all"});
        let answer = world.query(&query);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["series"][0]["total"].as_f64().unwrap_or_default()
    };
    (of("count"), of("sum"))
}

/// How many requests a route has answered.
fn requests(world: &World, method: &str, path: &str) -> u64 {
    answered(world, method, path, "ok")
}

/// How many it has answered so.
fn answered(world: &World, method: &str, path: &str, answer: &str) -> u64 {
    let look = world.ask(&Request::get("/v1/monitor").key(&world.secret_key)).json();
    let rows = look["requests"].as_array().expect("a list").iter();
    let mut rows = rows.filter(|row| row["method"] == method && row["path"] == path);
    rows.next().and_then(|row| row[answer].as_u64()).unwrap_or_default()
}
