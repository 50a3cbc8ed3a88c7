//! The server of one test: the shipped program on a new folder and a free port, killed at the end of the test.
//! The folder is kept if the test fails.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::client::{Answer, Connection, Request};

/// Longer than any start or stop with a small data folder takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A data folder and the server on it.
pub(crate) struct World {
    root: tempfile::TempDir,
    args: Vec<String>,
    server: Option<Child>,
    /// The address it listens on.
    pub address: SocketAddr,
    /// The demo game's public key.
    pub public_key: String,
    /// The demo game's secret key, which has every scope.
    pub secret_key: String,
}

/// Exit code and output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl CommandOutput {
    /// Standard output as JSON; the command must have succeeded.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The program, without the settings of this process's environment.
pub(crate) fn playmeter(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_playmeter"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PLAYMETER_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// DuckDB's library where `make sql-library` installs it.
fn sql_library() -> PathBuf {
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sql/node_modules/@duckdb");
    packages.join(format!("node-bindings-linux-{arch}/libduckdb.so"))
}

/// Runs a command to its end. It must not write more than a pipe buffers.
pub(crate) fn run(command: &mut Command) -> CommandOutput {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program can be started");
    let code = wait(&mut child).and_then(|status| status.code());
    if code.is_none() {
        let _ = child.kill();
    }
    let output = child.wait_with_output().expect("a child can be waited for");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    CommandOutput { code: code.unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}

/// Waits for a child to exit. Returns `None` if it does not within the timeout.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

impl World {
    /// Starts a server on a new folder.
    pub(crate) fn new() -> World {
        World::with(&[])
    }

    /// Starts a server on a new folder with these flags, which also apply to every restart.
    pub(crate) fn with(args: &[&str]) -> World {
        World::on(tempfile::tempdir().expect("a temporary folder"), args)
    }

    /// Starts a server with these flags in a prepared folder.
    pub(crate) fn on(root: tempfile::TempDir, args: &[&str]) -> World {
        let mut world = World {
            root,
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            server: None,
            address: ([127, 0, 0, 1], 0).into(),
            public_key: String::new(),
            secret_key: String::new(),
        };
        world.start();
        world
    }

    /// Starts a server on a new folder with these settings, as in `playmeter.toml`, and these flags.
    pub(crate) fn configured(settings: &str, args: &[&str]) -> World {
        let root = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(root.path().join("playmeter.toml"), settings).expect("a file");
        World::on(root, args)
    }

    /// The data folder.
    pub(crate) fn folder(&self) -> PathBuf {
        self.root.path().join("data")
    }

    /// The folder of the test, which contains the data folder.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// The standard error of the server, of all starts.
    pub(crate) fn log_lines(&self) -> String {
        std::fs::read_to_string(self.root.path().join("stderr")).unwrap_or_default()
    }

    pub(crate) fn bootstrap(&self) -> Value {
        let text = std::fs::read(self.folder().join("bootstrap.json")).expect("there is a bootstrap.json");
        serde_json::from_slice(&text).expect("it is JSON")
    }

    /// The command that serves this folder.
    pub(crate) fn serve(&self) -> Command {
        let mut command = playmeter(self.root.path());
        command.arg("serve").arg("--data").arg(self.folder()).args(&self.args);
        command.env("PLAYMETER_SQL__LIBRARY", sql_library());
        if !self.args.iter().any(|arg| arg == "--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command
    }

    /// Starts the server; returns when it is ready.
    pub(crate) fn start(&mut self) {
        let command = self.serve();
        self.start_as(command);
    }

    /// Starts the server with this command; returns when it is ready.
    pub(crate) fn start_as(&mut self, mut command: Command) {
        assert!(self.server.is_none(), "one server per test folder");
        let stderr = File::options().create(true).append(true).open(self.root.path().join("stderr"));
        command.stdout(Stdio::piped()).stderr(stderr.expect("a file for standard error"));
        let server = self.server.insert(command.spawn().expect("the program can be started"));
        let mut line = String::new();
        let stdout = server.stdout.take().expect("standard output is piped");
        BufReader::new(stdout).read_line(&mut line).expect("standard output can be read");
        assert!(line.starts_with("Playmeter is ready"), "{line}{}", self.log_lines());
        let bootstrap = self.bootstrap();
        let text = |field: &str| bootstrap[field].as_str().expect("it is in bootstrap.json").to_owned();
        // They are gone after the game of the first start was deleted.
        if bootstrap["secret_key"].is_string() {
            (self.public_key, self.secret_key) = (text("public_key"), text("secret_key"));
        }
        let (_, host) = text("url")
            .split_once("://")
            .map(|(scheme, host)| (scheme.len(), host.to_owned()))
            .expect("a URL");
        let addresses = host.to_socket_addrs().unwrap_or_else(|failure| panic!("{host}: {failure}"));
        self.address = addresses.into_iter().find(SocketAddr::is_ipv4).expect("an address");
    }

    /// Sets the address to listen on from the next start on.
    pub(crate) fn listen(&mut self, address: SocketAddr) {
        self.args.extend(["--listen".to_owned(), address.to_string()]);
    }

    fn server(&mut self) -> &mut Child {
        self.server.as_mut().expect("the server was started")
    }

    pub(crate) fn pid(&mut self) -> Pid {
        Pid::from_child(self.server())
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the server can be signalled");
    }

    /// Waits for the server to exit and returns its status.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let status = wait(self.server());
        let status = status.unwrap_or_else(|| panic!("the server does not exit:\n{}", self.log_lines()));
        self.server = None;
        status
    }

    /// Stops the server with SIGTERM; it must exit with code 0.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::TERM);
        let status = self.ended();
        assert_eq!(status.code(), Some(0), "{}", self.log_lines());
    }

    /// Kills the server with SIGKILL.
    pub(crate) fn kill9(&mut self) {
        self.signal(Signal::KILL);
        self.ended();
    }

    pub(crate) fn restart(&mut self) {
        self.stop();
        self.start();
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address).expect("the server accepts connections")
    }

    /// Sends a request on a new connection.
    pub(crate) fn send(&self, request: &Request) -> Answer {
        self.connect().send(request).unwrap_or_else(|failure| panic!("{failure}\n{}", self.log_lines()))
    }

    /// Sends events with the public key.
    pub(crate) fn post(&self, body: impl AsRef<[u8]>) -> Answer {
        self.send(&Request::events(body).key(&self.public_key))
    }

    /// Sends events with this key.
    pub(crate) fn post_as(&self, key: &str, body: impl AsRef<[u8]>) -> Answer {
        self.send(&Request::events(body).key(key))
    }

    /// The accounting of the demo game for a day before and after now, because midnight may pass during a test.
    pub(crate) fn load(&self) -> Value {
        let from = now_ms() - 24 * 3_600_000;
        let until = now_ms() + 24 * 3_600_000;
        self.send(&Request::get(format!("/v1/load?from={from}&to={until}")).key(&self.secret_key)).json()
    }

    /// Runs a query of the demo game.
    pub(crate) fn query(&self, query: &Value) -> Answer {
        let request = Request::new("POST", "/v1/query").header("Content-Type", "application/json");
        self.send(&request.key(&self.secret_key).body(query.to_string()))
    }

    /// Runs `playmeter ARGS --data FOLDER`.
    pub(crate) fn command(&self, args: &[&str]) -> CommandOutput {
        run(playmeter(self.root.path()).args(args).arg("--data").arg(self.folder()))
    }

    /// Creates a secret key with these scopes.
    pub(crate) fn key(&self, scopes: &str) -> String {
        let created = self.command(&["keys", "create", "--scopes", scopes, "--json"]).json();
        created["secret_key"].as_str().expect("a secret key").to_owned()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
        if std::thread::panicking() {
            self.root.disable_cleanup(true);
            eprintln!("kept {}: data folder and stderr of the server", self.root.path().display());
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("it is after 1970").as_millis() as i64
}

/// A new event id.
pub(crate) fn new_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
