//! Imports next to live traffic, and kills of the import and of the server.

use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::disk;

const LINES: u64 = 40_000;

fn start(world: &World, args: &[&str]) -> Child {
    let mut command = command(world, args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program can be started")
}

/// Pauses of 20 to 500 ms, the same each time.
fn pauses() -> impl Iterator<Item = Duration> {
    (1u64..).map(|n| Duration::from_millis(20 + n * n * 7_919 % 480))
}

fn check_all_imported(world: &World, report: &Value) {
    let number = |name: &str| report[name].as_u64().expect("a number");
    assert_eq!(number("accepted") + number("duplicate"), LINES, "{report}");
    assert_eq!((number("received"), number("refused")), (LINES, 0), "{report}");
    assert_eq!(stored(world, "win"), expected_totals(LINES));
    assert_eq!(account(world, "import").0, LINES, "each event was accepted once");
}

#[test]
fn repeatedly_killed_import_counts_each_event_once() {
    let world = World::new();
    file(&world, "a.ndjson", lines("win", LINES));
    let mut kills = 0;
    for pause in pauses() {
        let mut child = start(&world, &["a.ndjson", "--json"]);
        std::thread::sleep(pause);
        if child.try_wait().expect("a child can be waited for").is_some() {
            break;
        }
        child.kill().expect("it runs");
        child.wait().expect("a child can be waited for");
        kills += 1;
        assert!(kills < 1_000, "it resumes where it stopped");
    }
    assert!(kills >= 3, "it was killed {kills} times");
    check_all_imported(&world, &import_json(&world, &["a.ndjson"]));
}

#[test]
fn repeatedly_killed_server_neither_loses_nor_doubles_events() {
    let mut world = World::new();
    file(&world, "a.ndjson", lines("win", LINES));
    let mut child = start(&world, &["a.ndjson", "--json"]);
    let mut kills = 0;
    for pause in pauses() {
        std::thread::sleep(pause);
        if child.try_wait().expect("a child can be waited for").is_some() {
            break;
        }
        world.kill9();
        world.start();
        kills += 1;
        assert!(kills < 1_000, "it resumes where it stopped");
    }
    assert!(kills >= 2, "it was killed {kills} times");
    let output = child.wait_with_output().expect("a child can be waited for");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check_all_imported(&world, &serde_json::from_slice(&output.stdout).expect("JSON"));
    assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true);
}

/// Sends live events one after the other until `stop` is set; returns how many were acknowledged.
fn live(world: &World, stop: &AtomicBool) -> u64 {
    let mut connection = world.connect();
    let event = Request::events(r#"{"event":"live"}"#).key(&world.public_key);
    let mut acknowledged = 0;
    while !stop.load(Ordering::Relaxed) {
        let answer = connection.send(&event).expect("the server answers");
        assert_eq!(answer.summary(), "1 accepted");
        acknowledged += 1;
    }
    acknowledged
}

/// Imports next to live traffic; returns how many live events were acknowledged.
fn import_beside_live(world: &World, args: &[&str], accepted: u64) -> u64 {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let live = scope.spawn(|| live(world, &stop));
        let output = run(command(world, args).arg("--json"));
        stop.store(true, Ordering::Relaxed);
        let live = live.join().expect("the server answers");
        assert_eq!(output.json()["accepted"], accepted, "{output:?}");
        live
    })
}

#[test]
fn no_live_event_is_lost_during_an_import() {
    let world = World::new();
    file(&world, "a.ndjson", lines("win", 20_000));
    let acknowledged = import_beside_live(&world, &["a.ndjson"], 20_000);
    assert!(acknowledged > 0);
    assert_eq!(stored(&world, "live").0, acknowledged as f64);
    assert_eq!(stored(&world, "win"), expected_totals(20_000));
}

#[test]
fn import_slows_down_on_a_slow_disk_with_live_traffic() {
    if !disk::strace_works() {
        testkit::skip::skip("strace", "it does not run on this machine");
        return;
    }
    let mut world = World::new();
    file(&world, "a.ndjson", lines("win", 6_000));
    file(&world, "b.ndjson", lines("lose", 6_000));
    world.stop();
    let slow = disk::with_sync_faults(&world, "delay_exit=20000");
    world.start_as(slow);
    import_beside_live(&world, &["b.ndjson", "--unpaced"], 6_000);
    let unpaced = requests(&world, "POST", "/v1/import");
    assert_eq!(unpaced, 3, "2,000 events at a time");
    import_beside_live(&world, &["a.ndjson"], 6_000);
    let paced = requests(&world, "POST", "/v1/import") - unpaced;
    assert!(paced > 6_000 / 200, "{paced} requests: the batches become smaller");
    let target = world.send(&Request::get("/v1/import").key(&world.secret_key)).json();
    assert!(target["commit_ms"].as_f64().is_none_or(|ms| ms > 10.0), "{target}");
}
