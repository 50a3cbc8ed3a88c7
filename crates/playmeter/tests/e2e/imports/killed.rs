//! Imports beside live traffic, and what remains of them when somebody is killed.

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

fn check_all_is_in(world: &World, told: &Value) {
    let number = |name: &str| told[name].as_u64().expect("a number");
    assert_eq!(number("accepted") + number("duplicate"), LINES, "{told}");
    assert_eq!((number("received"), number("refused")), (LINES, 0), "{told}");
    assert_eq!(stored(world, "win"), worth(LINES));
    assert_eq!(account(world, "import").0, LINES, "each was accepted once");
}

#[test]
fn an_import_that_is_killed_again_and_again_counts_each_event_once() {
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
        assert!(kills < 1_000, "it goes on from where it was");
    }
    assert!(kills >= 3, "it was killed {kills} times");
    check_all_is_in(&world, &imported(&world, &["a.ndjson"]));
}

#[test]
fn a_server_that_is_killed_again_and_again_loses_and_doubles_nothing() {
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
        assert!(kills < 1_000, "it goes on from where it was");
    }
    assert!(kills >= 2, "it was killed {kills} times");
    let output = child.wait_with_output().expect("a child can be waited for");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check_all_is_in(&world, &serde_json::from_slice(&output.stdout).expect("JSON"));
    assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true);
}

/// Sends live events one after the other until it is told to stop; how many were acknowledged.
fn live(world: &World, stop: &AtomicBool) -> u64 {
    let mut connection = world.connect();
    let event = Request::events(r#"{"event":"live"}"#).key(&world.public_key);
    let mut acknowledged = 0;
    while !stop.load(Ordering::Relaxed) {
        let answer = connection.ask(&event).expect("the server answers");
        assert_eq!(answer.told(), "1 accepted");
        acknowledged += 1;
    }
    acknowledged
}

/// Imports beside live traffic; how many live events were acknowledged.
fn import_beside_live(world: &World, args: &[&str], accepted: u64) -> u64 {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let live = scope.spawn(|| live(world, &stop));
        let told = run(command(world, args).arg("--json"));
        stop.store(true, Ordering::Relaxed);
        let live = live.join().expect("the server answers");
        assert_eq!(told.json()["accepted"], accepted, "{told:?}");
        live
    })
}

#[test]
fn live_events_go_on_beside_an_import_and_none_is_lost() {
    let world = World::new();
    file(&world, "a.ndjson", lines("win", 20_000));
    let acknowledged = import_beside_live(&world, &["a.ndjson"], 20_000);
    assert!(acknowledged > 0);
    assert_eq!(stored(&world, "live").0, acknowledged as f64);
    assert_eq!(stored(&world, "win"), worth(20_000));
}

#[test]
fn beside_a_slow_disk_with_live_traffic_an_import_slows_down() {
    if !disk::strace_works() {
        eprintln!("SKIPPED: strace does not work here");
        return;
    }
    let mut world = World::new();
    file(&world, "a.ndjson", lines("win", 6_000));
    file(&world, "b.ndjson", lines("lose", 6_000));
    world.stop();
    let slow = disk::with_syncs(&world, "delay_exit=20000");
    world.start_as(slow);
    import_beside_live(&world, &["b.ndjson", "--unpaced"], 6_000);
    let unpaced = requests(&world, "POST", "/v1/import");
    assert_eq!(unpaced, 3, "2,000 events at a time");
    import_beside_live(&world, &["a.ndjson"], 6_000);
    let paced = requests(&world, "POST", "/v1/import") - unpaced;
    assert!(paced > 6_000 / 200, "{paced} requests: fewer events each than it began with");
    let told = world.ask(&Request::get("/v1/import").key(&world.secret_key)).json();
    assert!(told["commit_ms"].as_f64().is_none_or(|ms| ms > 10.0), "{told}");
}
