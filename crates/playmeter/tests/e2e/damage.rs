//! Lost and damaged files of the data folder: a start is refused with the way out, and the way out works.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Request;
use crate::world::{CommandOutput, World, run};

/// Segments so small that a few requests fill several.
const SMALL_SEGMENTS: &str = "[log]\nsegment_bytes = 1048576\n";

/// A server whose log has small segments.
fn small_segments() -> World {
    let root = tempfile::tempdir().expect("a temporary folder");
    fs::write(root.path().join("playmeter.toml"), SMALL_SEGMENTS).expect("a file");
    World::on(root, &[])
}

/// Sends `count` events of a name.
fn send(world: &World, name: &str, count: usize) {
    for part in vec![name; count].chunks(1_000) {
        let events: Vec<Value> = part
            .iter()
            .map(|name| json!({"event": name, "player": "p", "props": {"text": "x".repeat(400)}}))
            .collect();
        assert_eq!(world.post(json!(events).to_string()).summary(), format!("{} accepted", part.len()));
    }
}

/// The number of events of a name in the last hours.
fn count(world: &World, name: &str) -> u64 {
    let answer = world.query(&json!({"metric": name, "last": "24h", "step": "all"})).json();
    answer["series"][0]["total"].as_u64().unwrap_or_else(|| panic!("{answer}"))
}

/// Starts the server, which must refuse, and returns what it prints.
fn refused(world: &World) -> String {
    let CommandOutput { code, out, err } = run(&mut world.serve());
    assert_eq!(code, 1, "the start is refused: {out}{err}");
    assert!(!out.contains("ready"), "{out}");
    let message = err.lines().find(|line| line.starts_with("playmeter: ")).unwrap_or_else(|| panic!("{err}"));
    assert!(!message.contains("Error"), "it is in plain words: {message}");
    message.to_owned()
}

/// The segments of the log, oldest first.
fn segments(world: &World) -> Vec<PathBuf> {
    let files =
        fs::read_dir(world.folder().join("log")).expect("a log").map(|file| file.expect("a file").path());
    let mut segments: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|kind| kind == "log")).collect();
    segments.sort();
    segments
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(done.success());
}

/// The end of the last position that an event was assigned.
fn next_offset(world: &World) -> u64 {
    let position = world.command(&["verify", "--json"]);
    let position: Value = serde_json::from_str(&position.out).unwrap_or_else(|_| panic!("{position:?}"));
    let position = position["position"].as_str().expect("a position").to_owned();
    position.trim_start_matches("0/").parse().expect("an offset")
}

/// Runs the command that the message recommends.
fn follow(world: &World, message: &str) -> CommandOutput {
    let command = message.split('`').nth(1).unwrap_or_else(|| panic!("no command in {message}"));
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!((words[0], words[words.len() - 2]), ("playmeter", "--data"), "{command}");
    assert_eq!(Path::new(words[words.len() - 1]), world.folder());
    world.command(&words[1..words.len() - 2])
}

#[test]
fn lost_log_beside_views_is_refused_until_it_is_back_or_given_up() {
    let mut world = World::new();
    send(&world, "hit", 500);
    world.stop();
    let (log, moved) = (world.folder().join("log"), world.root().join("moved"));
    fs::rename(&log, &moved).expect("it can be moved");
    let message = refused(&world);
    assert!(message.contains("are missing, or older than"), "{message}");
    assert!(!log.exists(), "nothing was created, so that the folder can be put back");
    let listed = world.command(&["keys", "list"]);
    assert_eq!(listed.code, 1, "{listed:?}");
    fs::rename(&moved, &log).expect("it can be put back");
    world.start();
    assert_eq!(count(&world, "hit"), 500);
    world.stop();
    fs::remove_dir_all(&log).expect("it can be removed");
    let message = refused(&world);
    let looked = world.command(&["repair"]);
    assert_eq!((looked.code, log.exists()), (1, false), "without the flag nothing changes: {looked:?}");
    assert_eq!(follow(&world, &message).code, 0);
    world.start();
    send(&world, "hit", 7);
    assert_eq!(count(&world, "hit"), 507);
    world.restart();
    assert_eq!(count(&world, "hit"), 507);
    assert!(next_offset(&world) > 1 << 32, "no offset is used again");
    world.kill9();
    world.start();
    assert_eq!(count(&world, "hit"), 507);
}

#[test]
fn older_log_beside_newer_views_is_refused() {
    let mut world = World::new();
    send(&world, "hit", 100);
    world.stop();
    let (log, backup) = (world.folder().join("log"), world.root().join("backup"));
    copy(&log, &backup);
    world.start();
    send(&world, "hit", 300);
    let before = next_offset(&world);
    world.stop();
    fs::remove_dir_all(&log).expect("it can be removed");
    copy(&backup, &log);
    let message = refused(&world);
    assert_eq!(follow(&world, &message).code, 0);
    world.start();
    assert_eq!(count(&world, "hit"), 400, "the views keep what they contain");
    let variable = Request::new("PUT", "/v1/vars/speed").header("Content-Type", "application/json");
    let put = world.send(&variable.key(&world.secret_key).body(r#"{"value":1}"#));
    assert!(put.status < 300, "commands are answered: {}", put.text());
    send(&world, "hit", 1);
    assert_eq!(count(&world, "hit"), 401);
    assert!(next_offset(&world) > before + (1 << 31), "no offset is used again");
    let again = world.command(&["repair"]);
    assert_eq!(again.code, 1, "a server runs on the folder: {again:?}");
    world.stop();
    let again = world.command(&["repair", "--accept-loss", "--json"]).json();
    assert_eq!(again["lost"], Value::Null, "{again}");
}

#[test]
fn log_without_its_newest_segment_is_refused() {
    let mut world = small_segments();
    send(&world, "hit", 6_000);
    world.stop();
    let newest = segments(&world).pop().expect("a segment");
    let moved = world.root().join("moved.log");
    fs::rename(&newest, &moved).expect("it can be moved");
    let message = refused(&world);
    fs::rename(&moved, &newest).expect("it can be put back");
    world.start();
    assert_eq!(count(&world, "hit"), 6_000);
    world.stop();
    fs::remove_file(&newest).expect("it can be removed");
    assert_eq!(refused(&world), message);
    assert_eq!(follow(&world, &message).code, 0);
    world.start();
    send(&world, "hit", 3);
    assert_eq!(count(&world, "hit"), 6_003);
}

/// The first offset of the newest segment, as the log has noted it.
fn noted_newest(world: &World) -> Option<u64> {
    let bytes = fs::read(world.folder().join("log/newest")).ok()?;
    bytes.first_chunk().map(|first| u64::from_le_bytes(*first))
}

#[test]
fn newest_segment_that_no_checkpoint_reached_is_missed() {
    let mut world = small_segments();
    send(&world, "hit", 6_000);
    let newest = segments(&world).pop().expect("a segment");
    let first = newest.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
    let deadline = Instant::now() + Duration::from_secs(30);
    while noted_newest(&world) != first {
        assert!(Instant::now() < deadline, "{first:?} is not noted");
        std::thread::sleep(Duration::from_millis(5));
    }
    world.kill9();
    // As if no checkpoint had been written.
    fs::remove_dir_all(world.folder().join("views")).expect("it can be removed");
    let moved = world.root().join("moved.log");
    fs::rename(&newest, &moved).expect("it can be moved");
    let message = refused(&world);
    assert!(message.contains(newest.to_str().expect("text")), "it names the file: {message}");
    fs::rename(&moved, &newest).expect("it can be put back");
    world.start();
    assert_eq!(count(&world, "hit"), 6_000);
    world.kill9();
    fs::remove_dir_all(world.folder().join("views")).expect("it can be removed");
    fs::remove_file(&newest).expect("it can be removed");
    assert_eq!(refused(&world), message);
    assert_eq!(follow(&world, &message).code, 0);
    world.start();
    let left = count(&world, "hit");
    assert!((1..6_000).contains(&left), "{left} are left");
    send(&world, "hit", 3);
    assert_eq!(count(&world, "hit"), left + 3);
    assert!(next_offset(&world) > 1 << 32, "no offset is used again");
    world.restart();
    assert_eq!(count(&world, "hit"), left + 3);
}

#[test]
fn segment_with_a_damaged_header_is_given_up_as_the_message_says() {
    let mut world = small_segments();
    send(&world, "hit", 6_000);
    world.stop();
    let newest = segments(&world).pop().expect("a segment");
    let bytes = fs::read(&newest).expect("it is readable");
    let mut damaged = bytes.clone();
    damaged[..4096].fill(0x5a);
    fs::write(&newest, &damaged).expect("it is writable");
    let message = refused(&world);
    assert!(message.contains(newest.to_str().expect("text")), "it names the file: {message}");
    fs::write(&newest, &bytes).expect("it is writable");
    world.start();
    world.stop();
    fs::write(&newest, &damaged).expect("it is writable");
    assert_eq!(follow(&world, &message).code, 0);
    world.start();
    send(&world, "hit", 3);
    assert_eq!(count(&world, "hit"), 6_003);
}

#[test]
fn lost_tail_of_the_log_is_refused() {
    let mut world = World::new();
    send(&world, "hit", 2_000);
    world.stop();
    let newest = segments(&world).pop().expect("a segment");
    let bytes = fs::read(&newest).expect("it is readable");
    fs::write(&newest, &bytes[..bytes.len() / 3]).expect("it is writable");
    let message = refused(&world);
    assert_eq!(fs::read(&newest).expect("it is readable").len(), bytes.len() / 3, "nothing was changed");
    assert_eq!(follow(&world, &message).code, 0);
    world.start();
    send(&world, "hit", 1);
    assert_eq!(count(&world, "hit"), 2_001);
}

#[test]
fn missing_catalog_beside_a_log_is_refused() {
    let mut world = World::new();
    send(&world, "hit", 20);
    let key = world.secret_key.clone();
    world.stop();
    let (catalog, moved) = (world.folder().join("catalog.json"), world.root().join("moved.json"));
    fs::rename(&catalog, &moved).expect("it can be moved");
    let message = refused(&world);
    assert!(message.contains("catalog.json is missing") && message.contains("backup"), "{message}");
    assert!(!catalog.exists(), "no new keys are created");
    assert_eq!(world.bootstrap()["secret_key"], key, "the old keys are still there");
    let listed = world.command(&["keys", "list"]);
    assert!(listed.code == 1 && listed.err.contains("is missing; restore it"), "{listed:?}");
    fs::rename(&moved, &catalog).expect("it can be put back");
    world.start();
    assert_eq!((count(&world, "hit"), &world.secret_key), (20, &key));
    world.stop();
    fs::remove_file(&catalog).expect("it can be removed");
    for name in ["log", "views", "ids"] {
        fs::rename(world.folder().join(name), world.root().join(name)).expect("it can be moved");
    }
    world.start();
    assert_eq!(count(&world, "hit"), 0, "the last way out starts anew");
}

#[test]
fn missing_views_are_derived_again_from_a_complete_log() {
    let mut world = World::new();
    send(&world, "hit", 300);
    world.stop();
    fs::remove_dir_all(world.folder().join("views")).expect("it can be removed");
    world.start();
    assert_eq!(count(&world, "hit"), 300);
    assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true);
}

#[test]
fn missing_views_beside_a_trimmed_log_are_refused() {
    let mut world = small_segments();
    let views = world.folder().join("views");
    send(&world, "hit", 6_000);
    world.stop();
    // What retention does; it would have to wait until the event ids are a minute old.
    let segments = segments(&world);
    segments[..segments.len() - 2].iter().for_each(|path| fs::remove_file(path).expect("it can be removed"));
    world.start();
    assert_eq!(count(&world, "hit"), 6_000);
    world.stop();
    let moved = world.root().join("moved");
    fs::rename(&views, &moved).expect("it can be moved");
    let message = refused(&world);
    assert!(message.contains("is missing, or older than the log"), "{message}");
    assert!(!views.exists(), "nothing was created, so that the folder can be put back");
    fs::rename(&moved, &views).expect("it can be put back");
    world.start();
    assert_eq!(count(&world, "hit"), 6_000);
    world.stop();
    fs::remove_dir_all(&views).expect("it can be removed");
    assert_eq!(follow(&world, &message).code, 0);
    world.start();
    let rest = count(&world, "hit");
    assert!(rest > 0 && rest < 6_000, "{rest} of 6,000");
    send(&world, "hit", 2);
    assert_eq!(count(&world, "hit"), rest + 2);
}

/// Sets a variable, which becomes a record of live-ops.
fn put_variable(world: &World) {
    let request = Request::new("PUT", "/v1/vars/speed").header("Content-Type", "application/json");
    let put = world.send(&request.key(&world.secret_key).body(r#"{"value":1}"#));
    assert!(put.status < 300, "{}", put.text());
}

/// The value of that variable.
fn variable(world: &World) -> Value {
    world.send(&Request::get("/v1/vars").key(&world.public_key)).json()["speed"].clone()
}

#[test]
fn lost_keyspace_of_the_views_is_named_and_derived_again() {
    let mut world = World::new();
    send(&world, "hit", 100);
    put_variable(&world);
    let records = world.command(&["verify", "--json"]).json()["records"].clone();
    assert!(records["agrees"] == true && records["count"].as_u64() > Some(0), "{records}");
    assert_eq!(variable(&world), 1);
    let views = world.folder().join("views");
    for (number, keyspace) in ["0", "1", "2", "3"].into_iter().enumerate() {
        world.stop();
        fs::remove_file(views.join("keyspaces").join(keyspace).join("current")).expect("it can be removed");
        let message = refused(&world);
        assert!(message.contains(&format!("views/keyspaces/{keyspace}")), "{message}");
        assert!(message.contains("The log has its first segment: move"), "{message}");
        fs::rename(&views, world.root().join(format!("moved-{number}"))).expect("it can be moved");
        world.start();
        assert_eq!((count(&world, "hit"), variable(&world)), (100, 1.into()));
    }
}

#[test]
fn damaged_views_beside_a_trimmed_log_can_be_given_up() {
    let mut world = small_segments();
    send(&world, "hit", 6_000);
    world.stop();
    let segments = segments(&world);
    segments[..segments.len() - 2].iter().for_each(|path| fs::remove_file(path).expect("it can be removed"));
    let views = world.folder().join("views");
    fs::remove_dir_all(views.join("keyspaces/1")).expect("it can be removed");
    let message = refused(&world);
    assert!(message.contains("views/keyspaces/1") && message.contains("from a backup"), "{message}");
    fs::rename(&views, world.root().join("moved")).expect("it can be moved");
    assert_eq!(follow(&world, &message).code, 0);
    world.start();
    let rest = count(&world, "hit");
    assert!(rest > 0 && rest < 6_000, "{rest} of 6,000");
}

#[test]
fn flipped_byte_in_an_old_frame_costs_no_stored_number() {
    let mut world = small_segments();
    send(&world, "hit", 3_000);
    world.stop();
    let oldest = &segments(&world)[0];
    let mut bytes = fs::read(oldest).expect("it is readable");
    bytes[60_000] ^= 1;
    fs::write(oldest, bytes).expect("it is writable");
    world.start();
    for _ in 0..2 {
        let verified = world.command(&["verify"]);
        assert_eq!(verified.code, 1, "{verified:?}");
        assert!(verified.err.contains("restore log/00000000000000000000.log from a backup"), "{verified:?}");
        assert!(!verified.err.contains("to replace them"), "a rebuild would not help: {verified:?}");
        let rebuilt = world.command(&["rebuild"]);
        assert_eq!(rebuilt.code, 1, "{rebuilt:?}");
        assert!(rebuilt.err.contains("cannot be derived and were kept"), "{rebuilt:?}");
        assert!(rebuilt.err.contains("does not have offsets [["), "{rebuilt:?}");
        assert_eq!(count(&world, "hit"), 3_000, "the numbers were right and still are");
        world.restart();
    }
    let verified: Value = serde_json::from_str(&world.command(&["verify", "--json"]).out).expect("JSON");
    assert_eq!((&verified["different"], &verified["agrees"]), (&json!(0), &json!(false)), "{verified}");
    assert!(verified["not_derivable"].as_u64() > Some(0), "{verified}");
}

#[test]
fn rebuild_of_a_trimmed_log_keeps_what_it_cannot_derive() {
    let mut world = small_segments();
    send(&world, "hit", 6_000);
    world.stop();
    let segments = segments(&world);
    segments[..segments.len() - 2].iter().for_each(|path| fs::remove_file(path).expect("it can be removed"));
    world.start();
    let verified = world.command(&["verify", "--json"]).json();
    assert_eq!((&verified["different"], &verified["agrees"]), (&json!(0), &json!(true)), "{verified}");
    let now = crate::world::now_ms();
    let hour = (now - now.rem_euclid(3_600_000) - 3_600_000).to_string();
    for args in [&["rebuild", "--json"][..], &["rebuild", "--json", "--from", &hour]] {
        let rebuilt = world.command(args);
        assert_eq!(rebuilt.code, 1, "{rebuilt:?}");
        assert!(rebuilt.err.contains("were kept"), "{rebuilt:?}");
        assert_eq!(count(&world, "hit"), 6_000);
    }
    assert!(!world.folder().join("recount.unfinished").exists());
}
