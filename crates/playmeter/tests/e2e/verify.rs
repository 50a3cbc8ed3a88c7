//! `playmeter verify` compares the archive with the log and the rollups, and names what differs.

use std::sync::Arc;

use archive::{Archive, ArchiveOptions};
use serde_json::{Value, json};
use wal::RealDisk;

use crate::retention::{files, start_ahead, wait_until};
use crate::world::{World, now_ms};

/// A server with events of two days in files, and events of two games that are in no file yet.
fn world() -> World {
    let mut world = World::new();
    let other = world.command(&["games", "create", "other", "--json"]).json();
    let other = other["public_key"].as_str().expect("a key").to_owned();
    let play = |world: &World| {
        let late = now_ms() - 86_400_000;
        let events = json!([
            {"event": "hit", "player": "ann"}, {"event": "hit"}, {"event": "late", "ts": late},
            {"event": "$identify", "player": "ann", "props": {"anonymous": "anon-1"}},
        ]);
        for key in [&world.public_key, &other] {
            assert_eq!(world.post_as(key, events.to_string()).summary(), "4 accepted");
        }
    };
    play(&world);
    world.stop();
    start_ahead(&mut world, 2);
    wait_until("files are written", &world, || [1, 2].iter().all(|game| files(&world, *game).len() == 2));
    play(&world);
    world
}

fn verify(world: &World) -> Value {
    let output = world.command(&["verify", "--json"]);
    let report: Value = serde_json::from_str(&output.out).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(report["agrees"] == true, output.code == 0, "{output:?}");
    report
}

#[test]
fn archive_agrees_with_log_and_rollups_with_and_without_a_server() {
    let mut world = world();
    let report = verify(&world);
    assert_eq!(report["agrees"], true, "{report}");
    let archive = &report["archive"];
    assert_eq!((&archive["files"], &archive["events"]), (&json!(4), &json!(8)), "{archive}");
    assert!(archive["days"].as_u64() >= Some(4), "{archive}");
    assert!(world.command(&["verify"]).out.contains("archive   8 events in 4 files"));
    world.stop();
    let offline = verify(&world);
    assert_eq!((&offline["agrees"], &offline["archive"]), (&json!(true), archive), "{offline}");
    start_ahead(&mut world, 2);
    let before = [("--to", now_ms() - 5 * 86_400_000)]
        .map(|(flag, ms)| [flag.to_owned(), pipeline::time::rfc3339(ms)]);
    let [flag, time] = &before[0];
    let earlier = world.command(&["verify", flag, time, "--json"]).json();
    assert_eq!(earlier["archive"]["days"], 0, "{earlier}");
}

#[test]
fn damaged_page_of_the_archive_is_named() {
    let mut world = world();
    world.stop();
    let file = files(&world, 1).pop().expect("a file");
    let whole = std::fs::read(&file).expect("it is readable");
    let mut damaged = whole.clone();
    damaged[20] ^= 1;
    std::fs::write(&file, &damaged).expect("it is writable");
    let name = file.strip_prefix(world.folder().join("archive")).expect("it is in the archive");
    let name = name.to_str().expect("text");
    for is_running in [false, true] {
        let report = verify(&world);
        let problems = report["archive"]["problems"].as_array().expect("a list");
        assert_eq!(problems.len(), 1, "{report}");
        assert!(problems[0].as_str().is_some_and(|problem| problem.contains(name)), "{report}");
        let shown = world.command(&["verify"]);
        assert!(
            shown.code == 1 && shown.err.contains("from a backup") && shown.err.contains(name),
            "{shown:?}"
        );
        if !is_running {
            start_ahead(&mut world, 2);
        }
    }
    world.stop();
    std::fs::write(&file, &whole).expect("it is writable");
    assert_eq!(verify(&world)["agrees"], true);
}

#[test]
fn events_that_the_archive_has_lost_are_counted_by_game_and_day() {
    let mut world = world();
    world.stop();
    let folder = world.folder().join("archive");
    let (archive, _) =
        Archive::open(Arc::new(RealDisk), &folder, ArchiveOptions::default()).expect("it opens");
    archive.remove_game(2).expect("the disk works");
    drop(archive);
    start_ahead(&mut world, 2);
    let report = verify(&world);
    assert_eq!((&report["agrees"], &report["different"]), (&json!(false), &json!(0)), "{report}");
    let archive = &report["archive"];
    assert_eq!((&archive["different"], &archive["problems"]), (&json!(2), &json!([])), "{archive}");
    let mut lost = 0;
    for day in archive["examples"].as_array().expect("a list") {
        assert_eq!((&day["game"], &day["archive"]), (&json!("other"), &json!(0)), "{day}");
        assert!(day["log"].as_u64() >= Some(1) && day["rollups"].as_u64() >= day["log"].as_u64(), "{day}");
        lost += day["log"].as_u64().expect("a number");
    }
    assert_eq!(lost, 4);
    let advice = world.command(&["verify"]);
    assert!(advice.code == 1 && advice.err.contains("restore `archive/`"), "{advice:?}");
}
