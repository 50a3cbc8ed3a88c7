//! A full disk and a failing one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::tmpfs::{Tmpfs, fill};

use crate::client::Request;
use crate::world::{World, new_id};

/// An event of about 60 KB with an id.
fn large_event(id: &str) -> String {
    let props: Vec<String> = (0..58).map(|key| format!(r#""k{key}":"{}""#, "x".repeat(1_000))).collect();
    format!(r#"{{"event":"win","id":"{id}","props":{{{}}}}}"#, props.join(","))
}

/// Sends one large event and returns the outcome.
fn send(world: &World, acknowledged: &mut Vec<String>) -> String {
    let id = new_id();
    let summary = world.post(large_event(&id)).summary();
    if summary == "1 accepted" {
        acknowledged.push(id);
    }
    summary
}

fn check_stored(world: &World, acknowledged: &[String]) {
    for id in acknowledged {
        let summary = world.post(format!(r#"{{"event":"win","id":"{id}"}}"#)).summary();
        assert_eq!(summary, "0 accepted; 0 duplicate seen_before", "{id} was acknowledged");
    }
    assert_eq!(world.load()["totals"]["accepted"], acknowledged.len());
}

#[test]
fn full_disk_rejects_events_serves_reads_and_recovers() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let data = root.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    let Some(tmpfs) = Tmpfs::mount(&data, 96) else { return };
    let ballast = data.join("ballast");
    let settings = "[log]\nsegment_bytes = 8388608\nfree_bytes_min = 8388608\n";
    std::fs::write(root.path().join("playmeter.toml"), settings).expect("a file");
    // Dropped in this order: the server stops first, then the file system is unmounted, then the folder is removed.
    let (mut world, _tmpfs) = (World::on(root, &[]), tmpfs);
    std::fs::write(&ballast, vec![1; 40 << 20]).expect("there is room for it");
    let mut acknowledged = Vec::new();
    let rejected = loop {
        let summary = send(&world, &mut acknowledged);
        if summary != "1 accepted" {
            break summary;
        }
        assert!(acknowledged.len() < 2_000, "the disk does not fill up");
    };
    assert_eq!(rejected, "503 disk_full");
    assert!(acknowledged.len() > 10, "{} were accepted", acknowledged.len());
    for _ in 0..20 {
        assert_eq!(send(&world, &mut acknowledged), "503 disk_full");
    }
    assert_eq!(world.load()["totals"]["accepted"], acknowledged.len(), "reads still work");
    assert_eq!(world.send(&Request::get("/healthz")).status, 200);
    assert_eq!(world.send(&Request::get("/readyz")).summary(), "503 disk_full");
    assert!(world.send(&Request::get("/metrics")).text().contains("\nplaymeter_log_full 1\n"));
    let packets = "{\"from\":\"ann\",\"to\":\"bo\",\"seq\":1}\nbad\n";
    let packets = Request::new("POST", "/v1/flows/packets").key(&world.secret_key).body(packets);
    assert_eq!(world.send(&packets).status, 202, "a counted packet is acknowledged");
    std::fs::remove_file(&ballast).expect("it can be removed");
    let freed = Instant::now();
    while send(&world, &mut acknowledged) != "1 accepted" {
        assert!(freed.elapsed() < Duration::from_secs(5), "the server does not recover without a restart");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(world.send(&Request::get("/readyz")).status, 200);
    check_stored(&world, &acknowledged);
    world.kill9();
    world.start();
    check_stored_again(&world, &acknowledged);
}

/// Checks the totals after a restart; the retries of the first check are counted as duplicates.
fn check_stored_again(world: &World, acknowledged: &[String]) {
    let totals = world.load()["totals"].clone();
    assert_eq!(
        (&totals["accepted"], &totals["duplicate"]),
        (&acknowledged.len().into(), &acknowledged.len().into())
    );
    check_stored(world, acknowledged);
}

/// Returns true if processes can be traced on this machine.
pub(crate) fn strace_works() -> bool {
    let works = Command::new("strace").args(["-D", "-f", "-qq", "-o", "/dev/null", "true"]).status();
    works.is_ok_and(|status| status.success())
}

/// The server's command with faults injected into its syncs by `strace`.
pub(crate) fn with_sync_faults(world: &World, injected: &str) -> Command {
    with_faults(world, &[], &format!("fdatasync:{injected}"))
}

/// The server's command with faults injected by `strace` into calls on these files, or on all files. `strace` runs as a
/// detached process, so that the child is the server itself.
pub(crate) fn with_faults(world: &World, paths: &[&Path], injected: &str) -> Command {
    let server = world.serve();
    let mut command = Command::new("strace");
    let calls = injected.split(':').next().unwrap_or_default();
    command.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
    command.arg("-e").arg(format!("inject={injected}"));
    paths.iter().for_each(|path| {
        command.arg("-P").arg(path);
    });
    command.arg(server.get_program()).args(server.get_args());
    for (name, value) in server.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(world.root());
    command
}

/// The journal of the views.
pub(crate) fn journal(world: &World) -> PathBuf {
    let files = std::fs::read_dir(world.folder().join("views")).expect("the views exist");
    let mut journals: Vec<PathBuf> = files.map(|file| file.expect("it is readable").path()).collect();
    journals.retain(|path| path.extension().is_some_and(|extension| extension == "jnl"));
    assert_eq!(journals.len(), 1, "{journals:?}");
    journals.remove(0)
}

/// Sends events until one is rejected, and returns the rejection.
fn send_until_rejected(world: &World, acknowledged: &mut Vec<String>) -> String {
    let started = Instant::now();
    loop {
        let summary = send(world, acknowledged);
        if summary != "1 accepted" {
            return summary;
        }
        assert!(started.elapsed() < Duration::from_secs(10), "no event is rejected");
    }
}

/// Sends events until one is accepted.
fn send_until_accepted(world: &World, acknowledged: &mut Vec<String>) {
    let started = Instant::now();
    while send(world, acknowledged) != "1 accepted" {
        assert!(started.elapsed() < Duration::from_secs(10), "the server does not recover");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The position of the last checkpoint.
fn checkpoint(world: &World) -> u64 {
    let text = world.send(&Request::get("/metrics")).text();
    let value = text.lines().find_map(|line| line.strip_prefix("playmeter_checkpoint_offset "));
    value.and_then(|value| value.parse().ok()).expect("the metric exists")
}

#[test]
fn a_stop_on_a_full_disk_writes_its_checkpoint_from_the_reserve() {
    for reserve_bytes in [16 << 20, 0_u64] {
        let root = tempfile::tempdir().expect("a temporary folder");
        let data = root.path().join("data");
        std::fs::create_dir(&data).expect("a folder");
        let Some(tmpfs) = Tmpfs::mount(&data, 96) else { return };
        let settings = format!(
            "reserve_bytes = {reserve_bytes}\n[log]\nsegment_bytes = 8388608\nfree_bytes_min = 8388608\n"
        );
        std::fs::write(root.path().join("playmeter.toml"), settings).expect("a file");
        let (mut world, _tmpfs) = (World::on(root, &[]), tmpfs);
        let reserve = data.join("reserve");
        assert_eq!(reserve.exists(), reserve_bytes > 0);
        let mut acknowledged = Vec::new();
        send_until_accepted(&world, &mut acknowledged);
        let ballast = fill(&data);
        assert_eq!(send_until_rejected(&world, &mut acknowledged), "503 disk_full");
        assert_eq!(world.load()["totals"]["accepted"], acknowledged.len(), "reads still work");
        assert_eq!(world.send(&Request::get("/readyz")).summary(), "503 disk_full");
        // Without a reserve, the server gives up after a few attempts.
        world.stop();
        assert!(!reserve.exists());
        std::fs::remove_file(&ballast).expect("it can be removed");
        world.start();
        let expected = if reserve_bytes > 0 { acknowledged.len() as u64 } else { 0 };
        assert_eq!(checkpoint(&world), expected, "with a reserve of {reserve_bytes} bytes");
        assert_eq!(reserve.exists(), reserve_bytes > 0, "it is restored when there is room");
        check_stored(&world, &acknowledged);
    }
}

#[test]
fn views_or_ids_on_a_full_disk_reject_events_serve_reads_and_recover() {
    for name in ["views", "ids"] {
        let root = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(root.path().join("playmeter.toml"), "[log]\nfree_bytes_min = 8388608\n")
            .expect("a file");
        let mut world = World::on(root, &[]);
        let mut acknowledged = Vec::new();
        send_until_accepted(&world, &mut acknowledged);
        world.stop();
        // Moves the folder to a file system of its own.
        let (folder, moved) = (world.folder().join(name), world.root().join("moved"));
        std::fs::rename(&folder, &moved).expect("it can be renamed");
        std::fs::create_dir(&folder).expect("a folder");
        let Some(tmpfs) = Tmpfs::mount(&folder, 48) else { return };
        let copied =
            Command::new("cp").args(["-a", "--sparse=always"]).arg(moved.join(".")).arg(&folder).status();
        assert!(copied.is_ok_and(|status| status.success()));
        world.start();
        send_until_accepted(&world, &mut acknowledged);
        let ballast = fill(&folder);
        assert_eq!(send_until_rejected(&world, &mut acknowledged), "503 disk_full", "{name}");
        let vars = Request::new("PUT", "/v1/vars/speed").header("Content-Type", "application/json");
        let vars = vars.key(&world.secret_key).body(r#"{"value":1}"#);
        assert_eq!(world.send(&vars).summary(), "503 disk_full", "commands are rejected, too");
        assert_eq!(world.load()["totals"]["accepted"], acknowledged.len(), "reads still work");
        assert_eq!(world.send(&Request::get("/readyz")).summary(), "503 disk_full", "{name}");
        std::fs::remove_file(&ballast).expect("it can be removed");
        send_until_accepted(&world, &mut acknowledged);
        assert_eq!(world.send(&Request::get("/readyz")).status, 200);
        world.restart();
        check_stored(&world, &acknowledged);
        world.stop();
        drop(tmpfs);
    }
}

/// Erases a player, for which the server writes a checkpoint. Returns the receipt.
fn erase(world: &World) -> String {
    let request = Request::new("DELETE", "/v1/players/ann").key(&world.secret_key);
    let answer = world.send(&request);
    assert_eq!(answer.status, 202, "{}", answer.text());
    answer.json()["receipt"].as_str().expect("a receipt").to_owned()
}

#[test]
fn a_checkpoint_that_finds_the_disk_full_is_written_later_without_a_restart() {
    if !strace_works() {
        testkit::skip::skip("strace", "it does not run on this machine");
        return;
    }
    let mut world = World::new();
    world.stop();
    // The first write of each thread fails. The store accepts nothing afterwards until it is opened again.
    let journal = journal(&world);
    let command = with_faults(&world, &[&journal], "write:error=ENOSPC:when=1");
    world.start_as(command);
    let mut acknowledged = Vec::new();
    send_until_accepted(&world, &mut acknowledged);
    let receipt = erase(&world);
    let started = Instant::now();
    let state = || {
        let request = Request::get(format!("/v1/erasures/{receipt}")).key(&world.secret_key);
        world.send(&request).json()["state"].clone()
    };
    while state() != "done" {
        assert!(started.elapsed() < Duration::from_secs(30), "{}: {}", state(), world.log_lines());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(world.log_lines().contains("the store of the views was opened again"), "{}", world.log_lines());
    send_until_accepted(&world, &mut acknowledged);
    world.stop();
    world.start();
    assert!(checkpoint(&world) > 0);
    check_stored(&world, &acknowledged);
}

#[test]
fn a_checkpoint_that_the_disk_does_not_store_ends_the_process_with_advice() {
    if !strace_works() {
        testkit::skip::skip("strace", "it does not run on this machine");
        return;
    }
    let mut world = World::new();
    world.stop();
    let journal = journal(&world);
    let command = with_faults(&world, &[&journal], "write:error=EIO:when=1");
    world.start_as(command);
    let mut acknowledged = Vec::new();
    send_until_accepted(&world, &mut acknowledged);
    erase(&world);
    assert_eq!(world.ended().code(), Some(1), "{}", world.log_lines());
    assert!(world.log_lines().contains("the views cannot be stored"), "{}", world.log_lines());
    assert!(world.log_lines().contains("check the disk, then start the server again"));
    world.start();
    check_stored(&world, &acknowledged);
}

#[test]
fn failed_sync_stops_the_server_and_loses_no_acknowledged_event() {
    if !strace_works() {
        testkit::skip::skip("strace", "it does not run on this machine");
        return;
    }
    let mut world = World::new();
    let mut acknowledged: Vec<String> = Vec::new();
    for nth in [3, 4, 9] {
        world.stop();
        // This call fails in each thread.
        let command = with_sync_faults(&world, &format!("error=EIO:when={nth}"));
        world.start_as(command);
        let rejected = loop {
            let id = new_id();
            let event = Request::events(format!(r#"{{"event":"win","id":"{id}"}}"#)).key(&world.public_key);
            match world.connect().send(&event) {
                Ok(answer) if answer.status == 202 => acknowledged.push(id),
                Ok(answer) => break answer.summary(),
                Err(failure) => break failure.to_string(),
            }
            assert!(acknowledged.len() < 1_000, "a sync fails");
        };
        assert_ne!(rejected, "1 accepted");
        assert_eq!(world.ended().code(), Some(1), "{}", world.log_lines());
        assert!(world.log_lines().contains("the disk failed"), "{}", world.log_lines());
        world.start();
        let stored = world.load()["totals"]["accepted"].as_u64().expect("a count");
        assert!(
            stored >= acknowledged.len() as u64,
            "{stored} of {} after failure {nth}",
            acknowledged.len()
        );
    }
    for id in &acknowledged {
        let summary = world.post(format!(r#"{{"event":"win","id":"{id}"}}"#)).summary();
        assert_eq!(summary, "0 accepted; 0 duplicate seen_before", "{id} was acknowledged");
    }
    assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true);
}
