//! Panics, unreadable segments, and stops that do not end: the process ends or continues, and never does half of its work.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::client::Request;
use crate::disk::{strace_works, with_faults};
use crate::world::{World, run};

/// The server's command with an injected fault.
fn with_injected_fault(world: &World, fault: &str) -> Command {
    let mut command = world.serve();
    command.env("PLAYMETER_INJECTED_FAULT", fault);
    command
}

/// The value of a metric without labels.
fn metric(world: &World, name: &str) -> u64 {
    let text = world.send(&Request::get("/metrics")).text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in\n{text}"))
}

#[test]
fn an_entry_on_which_the_applier_panics_is_skipped_after_the_second_start() {
    let mut world = World::new();
    world.stop();
    world.start_as(with_injected_fault(&world, "panic_on_apply"));
    assert_eq!(world.post(r#"{"event":"win"}"#).summary(), "1 accepted");
    assert_eq!(world.load()["totals"]["accepted"], 1);
    // The event is durable, whether the response arrives before the process ends or not.
    let event = Request::events(r#"{"event":"panic"}"#).key(&world.public_key);
    let _ = world.connect().send(&event);
    assert_eq!(world.ended().code(), Some(1), "{}", world.log_lines());
    assert!(
        world.log_lines().contains("a log entry that causes a panic twice is skipped"),
        "{}",
        world.log_lines()
    );

    let second = run(&mut with_injected_fault(&world, "panic_on_apply"));
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.err.contains("a log entry that causes a panic twice is skipped"), "{second:?}");

    world.start_as(with_injected_fault(&world, "panic_on_apply"));
    assert!(world.log_lines().contains("a log entry is skipped because applying it panicked twice"));
    assert_eq!(world.load()["totals"]["accepted"], 1, "all but the skipped entry was applied");
    assert_eq!(world.post(r#"{"event":"win"}"#).summary(), "1 accepted");
    assert_eq!(world.load()["totals"]["accepted"], 2);
    assert_eq!(metric(&world, "playmeter_log_quarantined_entries"), 1);
    let verified = world.command(&["verify", "--json"]);
    assert_eq!(verified.code, 1, "{verified:?}");
    let verified: serde_json::Value = serde_json::from_str(&verified.out).expect("it is JSON");
    assert_eq!((&verified["agrees"], &verified["different"]), (&false.into(), &0.into()), "{verified}");
    assert_eq!(verified["quarantined"][0]["offset"], 1, "{verified}");
    assert_eq!(verified["quarantined"][0]["message"], "an injected fault", "{verified}");
    world.restart();
    assert_eq!(metric(&world, "playmeter_log_quarantined_entries"), 1, "it stays skipped");
}

/// The threads on which a panic ends the process. `checkpoint` runs only while one is written.
const VITAL_THREADS: [&str; 9] =
    ["log-writer", "log-keeper", "ids-write", "ids-tidy", "live", "flows", "load", "erasure", "fjall:worker"];

/// The names of the threads of a process.
fn thread_names(pid: Pid) -> BTreeSet<String> {
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    let tasks = std::fs::read_dir(tasks).expect("the server runs");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

#[test]
fn a_panic_on_a_vital_thread_ends_the_process_with_an_error() {
    let mut world = World::new();
    let pid = world.pid();
    let started = Instant::now();
    loop {
        let names = thread_names(pid);
        let missing: Vec<_> = VITAL_THREADS.iter().filter(|name| !names.contains(**name)).collect();
        if missing.is_empty() {
            break;
        }
        // A new thread has its name a moment after it was started.
        assert!(started.elapsed() < Duration::from_secs(10), "there are no threads {missing:?}: {names:?}");
    }
    world.stop();
    for name in VITAL_THREADS.into_iter().chain(["checkpoint"]) {
        let ended = run(&mut with_injected_fault(&world, &format!("panic_on:{name}")));
        assert_eq!(ended.code, 1, "{name}: {ended:?}");
        assert!(ended.err.contains(&format!("playmeter: the thread {name} panicked")), "{name}: {ended:?}");
    }
}

#[test]
fn a_closed_segment_that_cannot_be_read_is_skipped_and_the_server_serves_the_rest() {
    if !strace_works() {
        testkit::skip::skip("strace", "it does not run on this machine");
        return;
    }
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(root.path().join("playmeter.toml"), "[log]\nsegment_bytes = 1048576\n").expect("a file");
    let mut world = World::on(root, &[]);
    let props: Vec<String> = (0..50).map(|key| format!(r#""k{key}":"{}""#, "x".repeat(1_000))).collect();
    let event = format!(r#"{{"event":"win","props":{{{}}}}}"#, props.join(","));
    let mut sent = 0;
    let first = world.folder().join(format!("log/{:020}.log", 0));
    while metric(&world, "playmeter_log_durable_offset") < 100 {
        assert_eq!(world.post(&event).summary(), "1 accepted");
        sent += 1;
    }
    assert!(std::fs::read_dir(world.folder().join("log")).expect("a folder").count() > 2);
    world.kill9();
    let command = with_faults(&world, &[&first], "pread64:error=EIO:when=2+");
    world.start_as(command);
    assert!(world.log_lines().contains("a damaged part of the log was skipped"), "{}", world.log_lines());
    let counted = world.load()["totals"]["accepted"].as_u64().expect("a count");
    assert!(counted > 0 && counted < sent, "{counted} of {sent}");
    assert_eq!(world.send(&Request::get("/readyz")).status, 200);
    assert!(metric(&world, "playmeter_log_damaged") > 0);
    assert_eq!(world.post(&event).summary(), "1 accepted");
    assert_eq!(world.load()["totals"]["accepted"], counted + 1, "new events are applied");
    world.stop();
}

/// An event with a random id made of a number.
fn numbered(number: usize) -> String {
    format!(r#"{{"event":"win","id":"00000000-0000-4000-8000-{number:012x}"}}"#)
}

/// Sends numbered events up to and including the one after which the first file of ids is written.
fn fill_table_of_ids(world: &World) -> usize {
    const BATCH: usize = 10_000;
    for batch in 0..54 {
        let events: Vec<String> = (batch * BATCH..(batch + 1) * BATCH).map(numbered).collect();
        assert_eq!(world.post(format!("[{}]", events.join(","))).summary(), "10000 accepted");
    }
    54 * BATCH
}

/// The finished files of event ids.
fn files_of_ids(world: &World) -> Vec<PathBuf> {
    let files = std::fs::read_dir(world.folder().join("ids")).expect("the folder of ids");
    let files = files.map(|file| file.expect("it is readable").path());
    files.filter(|path| path.extension().is_some_and(|kind| kind == "ids")).collect()
}

fn wait_for_file_of_ids(world: &World) -> PathBuf {
    let started = Instant::now();
    loop {
        if let Some(file) = files_of_ids(world).pop() {
            return file;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "no file of ids: {}", world.log_lines());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn event_ids_that_cannot_be_read_reject_only_events_that_need_them() {
    if !strace_works() {
        testkit::skip::skip("strace", "it does not run on this machine");
        return;
    }
    let mut world = World::new();
    let sent = fill_table_of_ids(&world);
    let file = wait_for_file_of_ids(&world);
    world.kill9();
    // A start reads the file four times, and each lookup of an id in it is a read by another thread.
    let command = with_faults(&world, &[&file], "pread64:error=EIO:when=5+");
    world.start_as(command);
    for _ in 0..4 {
        assert_eq!(world.post(numbered(0)).summary(), "0 accepted; 0 duplicate seen_before");
    }
    for number in sent..sent + 2 {
        let again = world.post(numbered(0)).summary();
        assert!(again.starts_with("503 "), "an event that may have been counted is not accepted: {again}");
        assert_eq!(world.post(numbered(number)).summary(), "1 accepted");
    }
    assert_eq!(world.load()["totals"]["accepted"], sent + 2);
    world.kill9();
    world.start();
    assert_eq!(world.post(numbered(0)).summary(), "0 accepted; 0 duplicate seen_before");
}

#[test]
fn event_ids_that_cannot_be_written_are_kept_and_written_later() {
    if !strace_works() {
        testkit::skip::skip("strace", "it does not run on this machine");
        return;
    }
    let mut world = World::new();
    world.kill9();
    // The log may have entries of the server's own, so the end of the file's range is one of these.
    let unfinished: Vec<PathBuf> = (0..10)
        .map(|more| world.folder().join(format!("ids/{:020}-{:020}.tmp", 0, 530_000 + more)))
        .collect();
    let unfinished: Vec<&Path> = unfinished.iter().map(PathBuf::as_path).collect();
    let command = with_faults(&world, &unfinished, "pwrite64:error=EIO:when=1..3");
    world.start_as(command);
    let sent = fill_table_of_ids(&world);
    let file = wait_for_file_of_ids(&world);
    let log = world.log_lines();
    assert!(log.contains("cannot write event ids, retrying"), "{}: {log}", file.display());
    assert_eq!(world.post(numbered(0)).summary(), "0 accepted; 0 duplicate seen_before");
    assert_eq!(world.post(numbered(sent)).summary(), "1 accepted");
    world.kill9();
    world.start();
    for number in [0, sent - 1, sent] {
        assert_eq!(world.post(numbered(number)).summary(), "0 accepted; 0 duplicate seen_before");
    }
    assert_eq!(world.load()["totals"]["accepted"], sent + 1);
}

#[test]
fn a_stop_ends_after_its_timeout_even_if_the_disk_responds_late() {
    if !strace_works() {
        testkit::skip::skip("strace", "it does not run on this machine");
        return;
    }
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(root.path().join("playmeter.toml"), "stop_timeout_s = 2\n").expect("a file");
    let mut world = World::on(root, &[]);
    world.stop();
    let journal = crate::disk::journal(&world);
    let command = with_faults(&world, &[&journal], "write:delay_enter=8s");
    world.start_as(command);
    assert_eq!(world.post(r#"{"event":"win"}"#).summary(), "1 accepted");
    assert_eq!(world.load()["totals"]["accepted"], 1);
    world.signal(Signal::TERM);
    assert_eq!(world.ended().code(), Some(1), "{}", world.log_lines());
    assert!(world.log_lines().contains("the stop took longer than 2 s"), "{}", world.log_lines());
    world.start();
    assert_eq!(world.load()["totals"]["accepted"], 1, "nothing acknowledged is lost");
}
