//! A server of its own for each test: the shipped program on a new folder and a free port, gone when the test ends.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::client::{Answer, Connection, Request};

/// Longer than any start or stop of a small folder may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A data folder and the server on it.
pub struct World {
    root: tempfile::TempDir,
    args: Vec<String>,
    server: Option<Child>,
    /// Where it listens.
    pub address: SocketAddr,
    /// The demo game's public key.
    pub public_key: String,
    /// The demo game's secret key, which has every scope.
    pub secret_key: String,
}

/// What a command of the program came to.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    /// Standard output of a command that must have worked, as JSON.
    pub fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The program, with nothing of this process's settings.
pub fn playmeter(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_playmeter"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PLAYMETER_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs a command to its end. It may not write more than a pipe holds.
pub fn run(command: &mut Command) -> Done {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program can be started");
    let code = wait(&mut child).and_then(|status| status.code());
    if code.is_none() {
        let _ = child.kill();
    }
    let output = child.wait_with_output().expect("a child can be waited for");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Done { code: code.unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}

/// How a child ended; `None`: it does not.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

impl World {
    /// A new folder with a running server.
    pub fn new() -> World {
        World::with(&[])
    }

    /// The same with these flags, now and at every restart.
    pub fn with(args: &[&str]) -> World {
        World::on(tempfile::tempdir().expect("a temporary folder"), args)
    }

    /// The same in a folder that was made ready for it.
    pub fn on(root: tempfile::TempDir, args: &[&str]) -> World {
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

    /// The data folder.
    pub fn folder(&self) -> PathBuf {
        self.root.path().join("data")
    }

    /// Where everything of this world is, the data folder included.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// What the server wrote to standard error, all starts together.
    pub fn log_lines(&self) -> String {
        std::fs::read_to_string(self.root.path().join("stderr")).unwrap_or_default()
    }

    pub fn bootstrap(&self) -> Value {
        let text = std::fs::read(self.folder().join("bootstrap.json")).expect("there is a bootstrap.json");
        serde_json::from_slice(&text).expect("it is JSON")
    }

    /// The command that serves this folder.
    pub fn serve(&self) -> Command {
        let mut command = playmeter(self.root.path());
        command.arg("serve").arg("--data").arg(self.folder()).args(&self.args);
        if !self.args.iter().any(|arg| arg == "--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command
    }

    /// Starts the server; returns when it is ready.
    pub fn start(&mut self) {
        let command = self.serve();
        self.start_as(command);
    }

    /// The same by a command of the test's own.
    pub fn start_as(&mut self, mut command: Command) {
        assert!(self.server.is_none(), "one server a world");
        let stderr = File::options().create(true).append(true).open(self.root.path().join("stderr"));
        command.stdout(Stdio::piped()).stderr(stderr.expect("a file for standard error"));
        let server = self.server.insert(command.spawn().expect("the program can be started"));
        let mut line = String::new();
        let stdout = server.stdout.take().expect("it was asked for");
        BufReader::new(stdout).read_line(&mut line).expect("standard output can be read");
        assert!(line.starts_with("Playmeter is ready"), "{line}{}", self.log_lines());
        let bootstrap = self.bootstrap();
        let text = |field: &str| bootstrap[field].as_str().expect("it is in bootstrap.json").to_owned();
        (self.public_key, self.secret_key) = (text("public_key"), text("secret_key"));
        self.address = text("url").trim_start_matches("http://").parse().expect("an address");
    }

    /// Where the server listens from the next start on.
    pub fn listen(&mut self, address: SocketAddr) {
        self.args.extend(["--listen".to_owned(), address.to_string()]);
    }

    fn server(&mut self) -> &mut Child {
        self.server.as_mut().expect("the server was started")
    }

    pub fn pid(&mut self) -> Pid {
        Pid::from_child(self.server())
    }

    pub fn signal(&mut self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the server can be signalled");
    }

    /// How the server ended; waits for it.
    pub fn ended(&mut self) -> ExitStatus {
        let status = wait(self.server());
        let status = status.unwrap_or_else(|| panic!("the server does not end:\n{}", self.log_lines()));
        self.server = None;
        status
    }

    /// Asks the server to end; it must do so with code 0.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        let status = self.ended();
        assert_eq!(status.code(), Some(0), "{}", self.log_lines());
    }

    /// Takes the server away in the middle of whatever it does.
    pub fn kill9(&mut self) {
        self.signal(Signal::KILL);
        self.ended();
    }

    pub fn restart(&mut self) {
        self.stop();
        self.start();
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.address).expect("the server takes connections")
    }

    /// Asks on a connection of its own.
    pub fn ask(&self, request: &Request) -> Answer {
        self.connect().ask(request).unwrap_or_else(|failure| panic!("{failure}\n{}", self.log_lines()))
    }

    /// Sends events with the public key.
    pub fn post(&self, body: impl AsRef<[u8]>) -> Answer {
        self.ask(&Request::events(body).key(&self.public_key))
    }

    /// Sends events with a key of one's own.
    pub fn post_as(&self, key: &str, body: impl AsRef<[u8]>) -> Answer {
        self.ask(&Request::events(body).key(key))
    }

    /// Today's accounts of the demo game. (Of yesterday too: midnight may pass during a test.)
    pub fn load(&self) -> Value {
        let from = now_ms() - 24 * 3_600_000;
        let until = now_ms() + 24 * 3_600_000;
        self.ask(&Request::get(format!("/v1/load?from={from}&to={until}")).key(&self.secret_key)).json()
    }

    /// A query of the demo game.
    pub fn query(&self, query: &Value) -> Answer {
        let request = Request::new("POST", "/v1/query").header("Content-Type", "application/json");
        self.ask(&request.key(&self.secret_key).body(query.to_string()))
    }

    /// `playmeter ARGS --data FOLDER`.
    pub fn command(&self, args: &[&str]) -> Done {
        run(playmeter(self.root.path()).args(args).arg("--data").arg(self.folder()))
    }

    /// A new secret key with these scopes.
    pub fn key(&self, scopes: &str) -> String {
        let made = self.command(&["keys", "create", "--scopes", scopes, "--json"]).json();
        made["secret_key"].as_str().expect("a secret key").to_owned()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("it is after 1970").as_millis() as i64
}

/// A new event id.
pub fn new_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
