//! Backups: taken online and offline, incremental, consistent, encrypted; restored and verified; whole after crashes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::tmpfs::Tmpfs;

use crate::client::Request;
use crate::world::{CommandOutput, World, new_id, now_ms, playmeter, run};

const SMALL_SEGMENTS: &str = "[log]\nsegment_bytes = 1048576\n";

/// Text that cannot be compressed well.
fn random() -> String {
    (0..10).map(|_| new_id()).collect()
}

/// The target of a test's backups, as a flag.
fn target(world: &World) -> String {
    world.root().join("backups").display().to_string()
}

fn back_up(world: &World, flags: &[&str]) -> Value {
    let to = target(world);
    world.command(&[&["backup", "--to", to.as_str(), "--json"], flags].concat()).json()
}

/// Runs `playmeter restore` to a new folder.
fn restore(world: &World, folder: &Path, flags: &[&str]) -> CommandOutput {
    let mut command = playmeter(world.root());
    command.args(["restore", "--json", "--from", &target(world), "--data"]).arg(folder).args(flags);
    run(&mut command)
}

/// A server on a restored folder.
fn serve_restored(world: &World, flags: &[&str]) -> World {
    let root = tempfile::tempdir().expect("a temporary folder");
    let restored = restore(world, &root.path().join("data"), flags).json();
    assert_eq!(restored["verified"]["agrees"], true, "{restored}");
    World::on(root, &[])
}

fn send(world: &World, name: &str, count: usize) {
    for part in vec![name; count].chunks(1_000) {
        let events: Vec<Value> = part
            .iter()
            .map(|name| json!({"event": name, "player": "p", "id": new_id(), "props": {"text": random()}}))
            .collect();
        assert_eq!(world.post(json!(events).to_string()).summary(), format!("{} accepted", part.len()));
    }
}

fn count(world: &World, name: &str) -> u64 {
    let answer = world.query(&json!({"metric": name, "last": "24h", "step": "all"})).json();
    answer["series"][0]["total"].as_u64().unwrap_or_else(|| panic!("{answer}"))
}

fn set_variable(world: &World, value: u64) {
    let request = Request::new("PUT", "/v1/vars/speed").header("Content-Type", "application/json");
    let put = world.send(&request.key(&world.secret_key).body(json!({ "value": value }).to_string()));
    assert!(put.status < 300, "{}", put.text());
}

fn variable(world: &World) -> Value {
    let variables = world.send(&Request::get("/v1/vars").key(&world.secret_key)).json();
    variables["speed"].clone()
}

fn files_below(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.expect("an entry");
        match entry.file_type().expect("a type").is_dir() {
            true => found.extend(files_below(&entry.path())),
            // It may be gone again while a backup runs.
            false => drop(entry.metadata().map(|file| found.insert(entry.path(), file.len()))),
        }
    }
    found
}

#[test]
fn restored_backup_of_a_running_server_has_everything_and_goes_on() {
    let mut world = World::configured(SMALL_SEGMENTS, &[]);
    send(&world, "hit", 3_000);
    set_variable(&world, 5);
    let known = new_id();
    assert_eq!(world.post(format!(r#"{{"event":"once","id":"{known}"}}"#)).summary(), "1 accepted");
    fs::create_dir(world.folder().join("acme")).expect("a folder");
    fs::write(world.folder().join("acme/account.json"), "{}").expect("a file of another part of the server");
    std::os::unix::fs::symlink("..", world.folder().join("acme/above")).expect("a link to a folder above");
    let foreign = fs::File::create(world.folder().join("movie")).expect("a file");
    foreign.set_len(2 << 30).expect("a file with a hole");
    let failed = world.command(&["backup", "--to", &target(&world)]);
    assert!(failed.code == 1 && failed.err.contains("movie does not fit"), "{failed:?}");
    fs::remove_file(world.folder().join("movie")).expect("a file");
    let created = back_up(&world, &[]);
    send(&world, "hit", 10);
    set_variable(&world, 6);
    let restored = serve_restored(&world, &[]);
    assert_eq!((count(&restored, "hit"), variable(&restored)), (3_000, json!(5)));
    let again = restored.post(format!(r#"{{"event":"once","id":"{known}"}}"#)).summary();
    assert_eq!(again, "0 accepted; 0 duplicate seen_before", "the event ids are restored");
    assert_eq!((&restored.public_key, &restored.secret_key), (&world.public_key, &world.secret_key));
    send(&restored, "hit", 7);
    assert_eq!(count(&restored, "hit"), 3_007);
    let text = |name: &str| fs::read_to_string(restored.folder().join(name)).expect("it is restored");
    assert_eq!(
        (text("acme/account.json"), text("restored-settings.toml")),
        ("{}".into(), SMALL_SEGMENTS.into())
    );
    let mode = fs::metadata(restored.folder().join("catalog.json")).expect("a catalog").mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(created["position"].as_u64() > Some(3_000), "{created}");
    // The server is as it was, and leaves no links behind.
    assert_eq!((count(&world, "hit"), variable(&world)), (3_010, json!(6)));
    let left: Vec<PathBuf> = files_below(&world.folder())
        .into_keys()
        .filter(|path| path.to_string_lossy().contains("backup.unfinished"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let metrics = world.send(&Request::get("/metrics")).text();
    assert!(metrics.contains("playmeter_backups_completed_total 1"), "{metrics}");
    world.stop();
}

#[test]
fn second_backup_copies_only_what_is_new_and_each_restores_its_own_time() {
    let mut world = World::configured(SMALL_SEGMENTS, &[]);
    send(&world, "hit", 8_000);
    let first = back_up(&world, &[]);
    let second = back_up(&world, &[]);
    let bytes = |backup: &Value, field: &str| backup[field].as_u64().expect("a number");
    assert!(bytes(&first, "new_bytes") > 1 << 20, "{first}");
    assert!(bytes(&second, "new_bytes") < bytes(&first, "new_bytes") / 4, "{first} {second}");
    send(&world, "hit", 100);
    world.stop();
    let third = back_up(&world, &[]);
    assert!(bytes(&third, "new_bytes") < bytes(&first, "new_bytes") / 2, "{first} {third}");
    for (backup, hits) in [(&first, 8_000), (&second, 8_000), (&third, 8_100)] {
        let name = backup["name"].as_str().expect("a name");
        assert_eq!(count(&serve_restored(&world, &["--at", name]), "hit"), hits, "{name}");
    }
    // Only the newest is kept; what the others alone needed is removed.
    let before = files_below(&world.root().join("backups"));
    world.start();
    send(&world, "other", 10);
    back_up(&world, &["--keep", "1"]);
    let listed =
        run(playmeter(world.root()).args(["backups", "--json", "--check", "--from", &target(&world)]));
    let checked = listed.json();
    assert_eq!(checked["damaged"], json!([]), "{checked}");
    assert!(files_below(&world.root().join("backups")).len() < before.len() + 3);
    assert_eq!(count(&serve_restored(&world, &[]), "hit"), 8_100);
}

#[test]
fn backup_under_load_is_one_position_of_the_log() {
    let world = Arc::new(World::configured(SMALL_SEGMENTS, &[]));
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let sender = std::thread::spawn({
        let (world, stop, sent) = (Arc::clone(&world), Arc::clone(&stop), Arc::clone(&sent));
        move || {
            while !stop.load(Ordering::Relaxed) {
                send(&world, "hit", 50);
                set_variable(&world, sent.fetch_add(50, Ordering::Relaxed) + 50);
            }
        }
    });
    for number in 1..=4 {
        let until = sent.load(Ordering::Relaxed) + 300;
        while sent.load(Ordering::Relaxed) < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let before = sent.load(Ordering::Relaxed);
        back_up(&world, &[]);
        let restored = serve_restored(&world, &[]);
        let hits = count(&restored, "hit");
        assert!(hits >= before, "backup {number}: everything acknowledged before it is in it");
        let variable = variable(&restored).as_u64().expect("a number");
        assert!(
            hits == variable || hits == variable + 50,
            "one position: {hits} events, variable {variable}"
        );
    }
    stop.store(true, Ordering::Relaxed);
    sender.join().expect("the events are accepted");
}

#[test]
fn killed_backups_leave_the_earlier_one_and_the_next_one_finishes() {
    let mut world = World::configured(SMALL_SEGMENTS, &[]);
    send(&world, "hit", 4_000);
    let first = back_up(&world, &[]);
    for round in 1..=5_u64 {
        send(&world, "hit", 2_000);
        let to = target(&world);
        let mut command = playmeter(world.root());
        command.args(["backup", "--to", &to, "--data"]).arg(world.folder());
        let mut backup = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let objects = files_below(&world.root().join("backups")).len();
        let deadline = Instant::now() + Duration::from_secs(20);
        // Killed before, while and after objects are written.
        let wanted = objects + round as usize - 1;
        while files_below(&world.root().join("backups")).len() < wanted
            && Instant::now() < deadline
            && backup.try_wait().expect("a child").is_none()
        {
            std::thread::yield_now();
        }
        world.kill9();
        let _ = backup.wait();
        let name = first["name"].as_str().expect("a name");
        assert_eq!(count(&serve_restored(&world, &["--at", name]), "hit"), 4_000, "round {round}");
        world.start();
        assert_eq!(count(&world, "hit"), 4_000 + 2_000 * round);
    }
    back_up(&world, &["--keep", "1"]);
    assert_eq!(count(&serve_restored(&world, &[]), "hit"), 14_000);
    let checked =
        run(playmeter(world.root()).args(["backups", "--check", "--json", "--from", &target(&world)]));
    assert_eq!(checked.json()["damaged"], json!([]));
}

#[test]
fn killed_offline_backup_and_killed_restore_are_not_taken_for_complete() {
    let mut world = World::configured(SMALL_SEGMENTS, &[]);
    send(&world, "hit", 6_000);
    world.stop();
    let to = target(&world);
    for _ in 0..3 {
        let mut command = playmeter(world.root());
        command.args(["backup", "--to", &to, "--data"]).arg(world.folder());
        let mut backup = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let before = files_below(&world.root().join("backups")).len();
        while files_below(&world.root().join("backups")).len() < before + 2
            && backup.try_wait().expect("a child").is_none()
        {
            std::thread::yield_now();
        }
        let _ = kill_process(Pid::from_child(&backup), Signal::KILL);
        let _ = backup.wait();
    }
    back_up(&world, &[]);
    let half = world.root().join("half");
    let mut command = playmeter(world.root());
    command.args(["restore", "--from", &to, "--data"]).arg(&half);
    let mut restoring = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    while files_below(&half).len() < 2 && restoring.try_wait().expect("a child").is_none() {
        std::thread::yield_now();
    }
    let _ = kill_process(Pid::from_child(&restoring), Signal::KILL);
    let _ = restoring.wait();
    if half.join("restore.unfinished").exists() {
        let mut serve = playmeter(world.root());
        let served = run(serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&half));
        assert!(served.code == 1 && served.err.contains("unfinished restore"), "{served:?}");
        let again = restore(&world, &half, &[]);
        assert!(again.code == 1 && again.err.contains("unfinished restore"), "{again:?}");
    }
    assert_eq!(count(&serve_restored(&world, &[]), "hit"), 6_000);
}

#[test]
fn damaged_object_is_named_and_the_restore_fails() {
    let mut world = World::configured(SMALL_SEGMENTS, &[]);
    send(&world, "hit", 1_000);
    world.stop();
    back_up(&world, &[]);
    let objects: Vec<PathBuf> = files_below(&world.root().join("backups/objects")).into_keys().collect();
    for (number, object) in objects.iter().enumerate() {
        let name = object.file_name().and_then(|name| name.to_str()).expect("a name");
        let good = fs::read(object).expect("an object");
        let mut bad = good.clone();
        let at = bad.len() / 2;
        bad[at] ^= 1;
        if number % 2 == 0 { fs::remove_file(object) } else { fs::write(object, &bad) }.expect("a file");
        let failed = restore(&world, &world.root().join(format!("restored-{number}")), &[]);
        assert!(failed.code == 1 && failed.err.contains(name), "{name}: {failed:?}");
        let checked = run(playmeter(world.root()).args(["backups", "--check", "--from", &target(&world)]));
        assert!(checked.code == 1 && checked.out.contains(name), "{name}: {checked:?}");
        fs::write(object, &good).expect("a file");
    }
    assert_eq!(count(&serve_restored(&world, &[]), "hit"), 1_000);
    // The next backup notices that an object is missing and stores it again.
    fs::remove_file(&objects[0]).expect("an object");
    back_up(&world, &[]);
    assert_eq!(count(&serve_restored(&world, &[]), "hit"), 1_000);
}

#[test]
fn encrypted_backup_needs_its_secret_and_shows_nothing() {
    let world = World::new();
    send(&world, "a-secret-event-name", 100);
    let (key, passphrase) = (world.root().join("key"), world.root().join("passphrase"));
    fs::write(&key, "0f".repeat(32)).expect("a file");
    fs::write(&passphrase, "correct horse battery staple\n").expect("a file");
    let key = ["--key-file", key.to_str().expect("a path")];
    let passphrase = ["--passphrase-file", passphrase.to_str().expect("a path")];
    back_up(&world, &passphrase);
    let second = back_up(&world, &passphrase);
    assert!(second["new_objects"].as_u64() < Some(20), "equal content is recognised: {second}");
    for file in files_below(&world.root().join("backups")).keys() {
        let bytes = fs::read(file).expect("a file");
        let shows = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(!shows("a-secret-event-name") && !shows(&world.secret_key), "{}", file.display());
    }
    let folder = world.root().join("restored");
    let to = target(&world);
    for flags in [&[][..], &key] {
        let failed = restore(&world, &folder, flags);
        assert!(failed.code == 1 && failed.err.contains("encrypted"), "{failed:?}");
        let failed = world.command(&[&["backup", "--to", to.as_str()], flags].concat());
        assert!(failed.code == 1 && failed.err.contains("encrypted"), "{failed:?}");
    }
    assert!(!folder.exists());
    assert_eq!(count(&serve_restored(&world, &passphrase), "a-secret-event-name"), 100);
    let plain = world.root().join("plain").display().to_string();
    world.command(&["backup", "--to", &plain, "--json"]).json();
    let failed = world.command(&[&["backup", "--to", plain.as_str()], &key[..]].concat());
    assert!(failed.code == 1 && failed.err.contains("not encrypted"), "{failed:?}");
}

#[test]
fn unsuitable_targets_and_folders_are_refused() {
    let mut world = World::new();
    send(&world, "hit", 10);
    back_up(&world, &[]);
    let failed = |args: &[&str], expected: &str| {
        let output = world.command(args);
        assert!(output.code == 1 && output.err.contains(expected), "{args:?}: {output:?}");
    };
    let inside = world.folder().join("backups").display().to_string();
    failed(&["backup", "--to", &inside], "is in the data folder");
    let foreign = world.root().join("foreign");
    fs::create_dir(&foreign).expect("a folder");
    fs::write(foreign.join("letter.txt"), "dear").expect("a file");
    failed(&["backup", "--to", &foreign.display().to_string()], "is not empty and has no backups");
    failed(&["backup", "--to", "s3://bucket/prefix"], "AWS_ACCESS_KEY_ID");
    failed(&["backup", "--to", "ftp://host/prefix"], "--to");
    let own = restore(&world, &world.folder(), &[]);
    assert!(own.code == 1 && own.err.contains("is not empty"), "{own:?}");
    let unknown = restore(&world, &world.root().join("new"), &["--at", "2001-01-01T00:00:00Z"]);
    assert!(
        unknown.code == 1 && unknown.err.contains("no such (2001-01-01T00:00:00Z) backup"),
        "{unknown:?}"
    );
    let other = World::new();
    let to = target(&world);
    let mixed = other.command(&["backup", "--to", &to]);
    assert!(mixed.code == 1 && mixed.err.contains("another installation"), "{mixed:?}");
    assert_eq!(fs::read_to_string(foreign.join("letter.txt")).expect("a file"), "dear");
    world.stop();
}

#[test]
fn full_target_is_reported_and_the_next_backup_succeeds() {
    let world = World::configured(SMALL_SEGMENTS, &[]);
    send(&world, "hit", 1_000);
    let to = world.root().join("backups");
    fs::create_dir(&to).expect("a folder");
    let Some(_tmpfs) = Tmpfs::mount(&to, 8) else { return };
    back_up(&world, &[]);
    let ballast = testkit::tmpfs::fill(&to.join("objects"));
    send(&world, "hit", 4_000);
    let failed = world.command(&["backup", "--to", &to.display().to_string()]);
    assert!(failed.code == 1 && failed.err.contains("No space left"), "{failed:?}");
    assert_eq!(world.send(&Request::get("/readyz")).text().lines().count(), 2, "readiness shows it");
    let metrics = world.send(&Request::get("/metrics")).text();
    assert!(metrics.contains("playmeter_backup_failed 1"), "{metrics}");
    assert_eq!(count(&serve_restored(&world, &[]), "hit"), 1_000, "the earlier backup is whole");
    fs::remove_file(ballast).expect("the ballast");
    back_up(&world, &["--keep", "1"]);
    assert_eq!(world.send(&Request::get("/readyz")).text(), "ready\n");
    assert_eq!(count(&serve_restored(&world, &[]), "hit"), 5_000);
}

#[test]
fn scheduled_backups_are_taken_and_a_failure_is_loud() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let to = root.path().join("backups");
    let settings = format!("[backup]\nto = \"{}\"\nevery_hours = 1\nkeep = 2\n", to.display());
    fs::write(root.path().join("playmeter.toml"), settings).expect("a file");
    let mut world = World::on(root, &[]);
    let taken = |world: &World| files_below(&world.root().join("backups/backups")).len();
    let wait = |world: &World, count: usize| {
        let deadline = Instant::now() + Duration::from_secs(30);
        while taken(world) < count {
            assert!(Instant::now() < deadline, "{}", world.log_lines());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait(&world, 1);
    world.restart();
    send(&world, "hit", 1);
    assert_eq!(taken(&world), 1, "the next one is due in an hour");
    let metrics = world.send(&Request::get("/metrics")).text();
    let last = metrics.lines().find_map(|line| {
        line.strip_prefix("playmeter_backup_last_success_timestamp_seconds ")?.parse::<i64>().ok()
    });
    assert!(last.is_some_and(|last_s| (now_ms() / 1_000 - last_s).abs() < 600), "{metrics}");
    world.stop();
    // Old enough to be due, and then a target that is gone.
    for file in files_below(&to).into_keys().filter(|file| file.starts_with(to.join("backups"))) {
        fs::rename(&file, to.join("backups/20200101T000000000Z-0000")).expect("a backup");
    }
    fs::remove_dir_all(&to).expect("a folder");
    fs::write(&to, "not a folder").expect("a file");
    world.start();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !world.send(&Request::get("/readyz")).text().contains("backup failed") {
        assert!(Instant::now() < deadline, "{}", world.log_lines());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(
        world.log_lines().contains("scheduled backups cannot reach their target"),
        "{}",
        world.log_lines()
    );
    assert_eq!(world.post(r#"{"event":"hit"}"#).summary(), "1 accepted", "the server works all the same");
}

#[test]
fn backup_after_an_erasure_has_no_trace_of_the_player() {
    let mut world = World::configured(SMALL_SEGMENTS, &[]);
    let events = r#"[{"event":"hit","player":"to-be-erased"},{"event":"hit","player":"stays"}]"#;
    assert_eq!(world.post(events).summary(), "2 accepted");
    send(&world, "hit", 500);
    back_up(&world, &[]);
    let erase = Request::new("DELETE", "/v1/players/to-be-erased").key(&world.secret_key);
    let erased = world.send(&erase);
    assert!(erased.status < 300, "{}", erased.text());
    let deadline = Instant::now() + Duration::from_secs(30);
    while !world.log_lines().contains("players were erased") {
        assert!(Instant::now() < deadline, "{}", world.log_lines());
        std::thread::sleep(Duration::from_millis(20));
    }
    back_up(&world, &["--keep", "1"]);
    let folder = world.root().join("restored");
    assert_eq!(restore(&world, &folder, &[]).code, 0);
    for file in files_below(&folder).keys() {
        let bytes = fs::read(file).expect("a file");
        let name = b"to-be-erased";
        assert!(!bytes.windows(name.len()).any(|part| part == name), "{}", file.display());
    }
    world.stop();
}
