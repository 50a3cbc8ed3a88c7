//! A full disk and a failing one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::client::Request;
use crate::world::{World, new_id};

/// A small file system in memory; unmounted at the end.
struct Tmpfs(PathBuf);

impl Tmpfs {
    /// Returns `None` if this process may not mount.
    fn mount(at: &Path, mib: u32) -> Option<Tmpfs> {
        let size = format!("size={mib}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "playmeter-test"]).arg(at).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Tmpfs(at.to_owned())),
            rejected => {
                testkit::skip::skip("tmpfs", &format!("cannot be mounted: {rejected:?}"));
                None
            }
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

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
    std::fs::write(&ballast, vec![1; 40 << 20]).expect("there is room for it");
    let settings = "[log]\nsegment_bytes = 8388608\nfree_bytes_min = 8388608\n";
    std::fs::write(root.path().join("playmeter.toml"), settings).expect("a file");
    // Dropped in this order: the server stops first, then the file system is unmounted, then the folder is removed.
    let (mut world, _tmpfs) = (World::on(root, &[]), tmpfs);
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

/// The server's command with faults injected into its syncs by `strace`. `strace` runs as a detached process, so that
/// the child is the server itself.
pub(crate) fn with_sync_faults(world: &World, injected: &str) -> Command {
    let server = world.serve();
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync"]);
    command.arg("-e").arg(format!("inject=fdatasync:{injected}"));
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
