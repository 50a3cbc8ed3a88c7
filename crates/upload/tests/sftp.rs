//! Uploads by published clients, OpenSSH's `sftp` and `lftp`, to a running server.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use upload::{Inbox, SftpServer, SftpSettings};

const PASSWORD: &str = "correct horse";
const FILE_BYTES_MAX: u64 = 8 << 20;

/// A running server and the keys of its client.
struct World {
    root: tempfile::TempDir,
    address: SocketAddr,
    /// Connections that are open.
    open: Arc<AtomicUsize>,
    runtime: Option<Runtime>,
}

/// Counts a connection until it is dropped.
struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns false, and reports the test as skipped, if a program is missing.
fn installed(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| Command::new(program).arg("-V").output().is_err());
    match missing {
        Some(program) => {
            testkit::skip::skip(program, "it is not installed; `make test-deps` installs it");
            false
        }
        None => true,
    }
}

fn keygen(file: &Path) {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file);
    assert!(command.status().expect("ssh-keygen is installed").success());
}

impl World {
    fn start() -> Option<World> {
        World::with(Duration::from_secs(30))
    }

    fn with(login_timeout: Duration) -> Option<World> {
        if !installed(&["ssh-keygen", "sftp"]) {
            return None;
        }
        let root = tempfile::tempdir().expect("a folder");
        for name in ["host", "client", "stranger"] {
            keygen(&root.path().join(name));
        }
        std::fs::create_dir(root.path().join("inbox")).expect("a folder");
        let settings = SftpSettings {
            host_key: root.path().join("host"),
            authorized_keys: Some(root.path().join("client.pub")),
            check_password: Box::new(|password, _| password == PASSWORD),
            login_timeout,
            idle_timeout: Duration::from_secs(60),
        };
        let inbox = Arc::new(Inbox::open(&root.path().join("inbox"), FILE_BYTES_MAX).expect("a folder"));
        let server = Arc::new(SftpServer::new(settings, inbox).expect("the keys are valid"));
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let open = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&open);
        runtime.spawn(server.serve(listener, move |_: IpAddr| {
            counted.fetch_add(1, Ordering::SeqCst);
            Some(Permit(Arc::clone(&counted)))
        }));
        let host = std::fs::read_to_string(root.path().join("host.pub")).expect("a key");
        let known = format!("[127.0.0.1]:{} {host}", address.port());
        std::fs::write(root.path().join("known_hosts"), known).expect("a file");
        Some(World { root, address, open, runtime: Some(runtime) })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Options of OpenSSH clients, for one key and the known host.
    fn ssh_options(&self, key: &str) -> Vec<String> {
        let option = |text: String| ["-o".to_owned(), text];
        let known = option(format!("UserKnownHostsFile={}", self.path("known_hosts").display()));
        let strict = option("StrictHostKeyChecking=yes".into());
        let key = ["-i".to_owned(), self.path(key).display().to_string()];
        let only = option("IdentitiesOnly=yes".into());
        let config = ["-F".to_owned(), "none".to_owned()];
        [config, known, strict, key, only].concat()
    }

    /// Starts `sftp` with commands, each on a line.
    fn start_sftp(&self, key: &str, options: &[&str], commands: &str) -> Child {
        let batch = self.path(&format!("batch-{key}"));
        std::fs::write(&batch, commands).expect("a file");
        let mut command = Command::new("sftp");
        command.args(self.ssh_options(key)).args(options).arg("-b").arg(batch);
        command.arg("-P").arg(self.address.port().to_string()).arg("game@127.0.0.1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.current_dir(self.root.path()).spawn().expect("sftp is installed")
    }

    fn sftp(&self, key: &str, commands: &str) -> (bool, String) {
        result(self.start_sftp(key, &[], commands).wait_with_output().expect("it ends"))
    }

    /// Returns the files in the folder, with those that are hidden.
    fn received(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path("inbox")).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < Duration::from_secs(60), "{what}: {:?}", self.received());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn result(output: Output) -> (bool, String) {
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 + index / 251) as u8).collect()
}

#[test]
fn sftp_uploads_lists_renames_and_removes_files() {
    let Some(world) = World::start() else { return };
    let large = bytes(5 << 20);
    std::fs::write(world.path("large"), &large).expect("a file");
    std::fs::write(world.path("small"), "{}\n").expect("a file");
    let commands = "put large events.json.part\nrename events.json.part events.json\nput small one.json\nls -l\npwd\n\
                    put small two.json\nrm two.json\nput -p small one.json\n";
    let (done, text) = world.sftp("client", commands);
    assert!(done, "{text}");
    assert!(text.contains("5242880") && text.contains("one.json"), "{text}");
    assert_eq!(world.received(), ["events.json", "one.json"]);
    assert!(std::fs::read(world.path("inbox/events.json")).expect("a file") == large);
    world.wait_until("the connection is closed", || world.open.load(Ordering::SeqCst) == 0);
}

#[test]
fn lftp_uploads_with_a_password() {
    let Some(world) = World::start() else { return };
    if !installed(&["lftp"]) {
        return;
    }
    std::fs::write(world.path("large"), bytes(3 << 20)).expect("a file");
    let run = |password: &str, temporary: &str, name: &str| {
        let ssh = format!("ssh -a -x {}", world.ssh_options("stranger").join(" "));
        let script = format!(
            "set sftp:connect-program '{ssh}'; set net:max-retries 1; set xfer:use-temp-file {temporary}; \
             open -u 'game,{password}' -p {} sftp://127.0.0.1; put large -o {name}; bye",
            world.address.port()
        );
        let mut command = Command::new("lftp");
        command.args(["--norc", "-c", &script]).env("HOME", world.root.path()).current_dir(world.root.path());
        result(command.stdin(Stdio::null()).output().expect("lftp is installed"))
    };
    for (temporary, name) in [("no", "one.json"), ("yes", "two.json")] {
        let (done, text) = run(PASSWORD, temporary, name);
        assert!(done, "{text}");
    }
    assert!(!run("wrong", "no", "three.json").0);
    assert_eq!(world.received(), ["one.json", "two.json"]);
    assert!(std::fs::read(world.path("inbox/two.json")).expect("a file") == bytes(3 << 20));
}

#[test]
fn unknown_key_and_commands_are_refused() {
    let Some(world) = World::start() else { return };
    std::fs::write(world.path("small"), "{}\n").expect("a file");
    let (done, text) = world.sftp("stranger", "put small one.json\n");
    assert!(!done && text.contains("Permission denied"), "{text}");
    let mut command = Command::new("ssh");
    command.args(world.ssh_options("client")).arg("-p").arg(world.address.port().to_string());
    let (done, text) = result(
        command.args(["game@127.0.0.1", "id"]).stdin(Stdio::null()).output().expect("ssh is installed"),
    );
    assert!(!done && !text.contains("uid="), "{text}");
    assert_eq!(world.received(), [""; 0]);
}

#[test]
fn nothing_can_be_read_or_reached_outside_of_the_folder() {
    let Some(world) = World::start() else { return };
    std::fs::write(world.path("small"), "secret\n").expect("a file");
    std::fs::write(world.path("inbox/waiting.json"), "secret\n").expect("a file");
    std::os::unix::fs::symlink(world.path("host"), world.path("inbox/link")).expect("a link");
    for command in [
        "put small ../host",
        "put small /etc/passwd",
        "put small sub/one.json",
        "put small .upload-1",
        "put small archive",
        "get waiting.json copy",
        "get ../host copy",
        "get link copy",
        "mkdir sub",
        "symlink host other",
        "rename waiting.json ../waiting.json",
        "rename ../host host",
        "rm ../host",
        "cd ..\nput small one.json\nrename one.json ../one.json",
    ] {
        let (done, text) = world.sftp("client", &format!("{command}\n"));
        assert!(!done, "{command}: {text}");
        assert!(!world.path("copy").exists() && world.path("host").exists(), "{command}");
        std::fs::remove_file(world.path("inbox/one.json")).unwrap_or_default();
        assert_eq!(world.received(), ["link", "waiting.json"], "{command}: {text}");
    }
}

#[test]
fn interrupted_and_too_large_files_leave_nothing() {
    let Some(mut world) = World::start() else { return };
    std::fs::write(world.path("large"), bytes(6 << 20)).expect("a file");
    std::fs::write(world.path("huge"), bytes(FILE_BYTES_MAX as usize + 1)).expect("a file");
    let (done, text) = world.sftp("client", "put huge one.json\n");
    assert!(!done, "{text}");
    world.wait_until("the file is discarded", || world.received().is_empty());
    let begin = |world: &World| {
        let client = world.start_sftp("client", &["-l", "2000"], "put large one.json\n");
        world
            .wait_until("the upload has begun", || world.received().iter().any(|name| name.starts_with('.')));
        client
    };
    let mut client = begin(&world);
    client.kill().and_then(|()| client.wait()).expect("it runs");
    world.wait_until("the file is discarded", || world.received().is_empty());
    let mut client = begin(&world);
    drop(world.runtime.take());
    client.wait().expect("the connection is closed");
    assert_eq!(world.received(), [""; 0], "the server was stopped");
}

#[test]
fn connection_that_does_not_sign_in_is_closed() {
    use std::io::Read;
    let Some(world) = World::with(Duration::from_millis(300)) else { return };
    for greeting in [&b""[..], b"SSH-2.0-silent\r\n"] {
        let mut stream = std::net::TcpStream::connect(world.address).expect("the server accepts");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout can be set");
        std::io::Write::write_all(&mut stream, greeting).expect("it can be sent");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("it is closed");
        assert!(received.starts_with(b"SSH-2.0-Playmeter\r\n"), "{received:?}");
    }
    world.wait_until("the connections are closed", || world.open.load(Ordering::SeqCst) == 0);
}
