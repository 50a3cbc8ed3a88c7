//! A disk that is full, and one that fails.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::client::Request;
use crate::world::{World, new_id};

/// A small file system in memory; unmounted at the end.
struct Tmpfs(PathBuf);

impl Tmpfs {
    /// `None` where this process may not mount.
    fn mount(at: &Path, mib: u32) -> Option<Tmpfs> {
        let size = format!("size={mib}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "playmeter-test"]).arg(at).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Tmpfs(at.to_owned())),
            refused => {
                eprintln!("SKIPPED: a tmpfs cannot be mounted here: {refused:?}");
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

/// Sends one large event and says what came of it.
fn send(world: &World, acknowledged: &mut Vec<String>) -> String {
    let id = new_id();
    let told = world.post(large_event(&id)).told();
    if told == "1 accepted" {
        acknowledged.push(id);
    }
    told
}

fn check_stored(world: &World, acknowledged: &[String]) {
    for id in acknowledged {
        let told = world.post(format!(r#"{{"event":"win","id":"{id}"}}"#)).told();
        assert_eq!(told, "0 accepted; 0 duplicate seen_before", "{id} was acknowledged");
    }
    assert_eq!(world.load()["totals"]["accepted"], acknowledged.len());
}

#[test]
fn a_full_disk_refuses_events_answers_questions_and_recovers_by_itself() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let data = root.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    let Some(tmpfs) = Tmpfs::mount(&data, 96) else { return };
    let ballast = data.join("ballast");
    std::fs::write(&ballast, vec![1; 40 << 20]).expect("there is room for it");
    let settings = "[log]\nsegment_bytes = 8388608\nfree_bytes_min = 8388608\n";
    std::fs::write(root.path().join("playmeter.toml"), settings).expect("a file");
    // What comes later goes earlier: the folder can be removed when nothing is mounted in it.
    let (mut world, _tmpfs) = (World::on(root, &[]), tmpfs);
    let mut acknowledged = Vec::new();
    let refused = loop {
        let told = send(&world, &mut acknowledged);
        if told != "1 accepted" {
            break told;
        }
        assert!(acknowledged.len() < 2_000, "the disk has an end");
    };
    assert_eq!(refused, "503 disk_full");
    assert!(acknowledged.len() > 10, "{} were taken", acknowledged.len());
    for _ in 0..20 {
        assert_eq!(send(&world, &mut acknowledged), "503 disk_full");
    }
    assert_eq!(world.load()["totals"]["accepted"], acknowledged.len(), "reads go on");
    assert_eq!(world.ask(&Request::get("/healthz")).status, 200);
    assert_eq!(world.ask(&Request::get("/readyz")).told(), "503 disk_full");
    assert!(world.ask(&Request::get("/metrics")).text().contains("\nplaymeter_log_full 1\n"));
    let packets = "{\"from\":\"ann\",\"to\":\"bo\",\"seq\":1}\nbad\n";
    let packets = Request::new("POST", "/v1/flows/packets").key(&world.secret_key).body(packets);
    assert_eq!(world.ask(&packets).status, 202, "a packet that was counted is not asked for again");
    std::fs::remove_file(&ballast).expect("it can be removed");
    let freed = Instant::now();
    while send(&world, &mut acknowledged) != "1 accepted" {
        assert!(freed.elapsed() < Duration::from_secs(5), "it resumes by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(world.ask(&Request::get("/readyz")).status, 200);
    check_stored(&world, &acknowledged);
    world.kill9();
    world.start();
    check_stored_again(&world, &acknowledged);
}

/// The books after a restart, in which the repeats of the first check are counted too.
fn check_stored_again(world: &World, acknowledged: &[String]) {
    let totals = world.load()["totals"].clone();
    assert_eq!(
        (&totals["accepted"], &totals["duplicate"]),
        (&acknowledged.len().into(), &acknowledged.len().into())
    );
    check_stored(world, acknowledged);
}

/// Whether processes can be traced here.
pub fn strace_works() -> bool {
    let works = Command::new("strace").args(["-D", "-f", "-qq", "-o", "/dev/null", "true"]).status();
    works.is_ok_and(|status| status.success())
}

/// The world's server with something done to its syncs, as `strace` is told. It traces from aside, so that the child is
/// the server itself.
pub fn with_syncs(world: &World, injected: &str) -> Command {
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
fn a_failed_sync_ends_the_server_and_everything_acknowledged_is_there() {
    if !strace_works() {
        eprintln!("SKIPPED: strace does not work here");
        return;
    }
    let mut world = World::new();
    let mut acknowledged: Vec<String> = Vec::new();
    for nth in [3, 4, 9] {
        world.stop();
        // Of each thread that one call fails.
        let command = with_syncs(&world, &format!("error=EIO:when={nth}"));
        world.start_as(command);
        let refused = loop {
            let id = new_id();
            let event = Request::events(format!(r#"{{"event":"win","id":"{id}"}}"#)).key(&world.public_key);
            match world.connect().ask(&event) {
                Ok(answer) if answer.status == 202 => acknowledged.push(id),
                Ok(answer) => break answer.told(),
                Err(failure) => break failure.to_string(),
            }
            assert!(acknowledged.len() < 1_000, "a sync fails");
        };
        assert_ne!(refused, "1 accepted");
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
        let told = world.post(format!(r#"{{"event":"win","id":"{id}"}}"#)).told();
        assert_eq!(told, "0 accepted; 0 duplicate seen_before", "{id} was acknowledged");
    }
    assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true);
}
