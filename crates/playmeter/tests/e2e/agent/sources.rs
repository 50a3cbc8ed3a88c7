//! Redis, PostgreSQL and nginx as installed on this machine. A test is skipped if its program is missing.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::*;

/// A server process that is stopped at the end of the test.
struct ServerProcess(Child);

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // PostgreSQL and nginx stop their own child processes only on a signal they can handle.
        let _ = kill_process(Pid::from_child(&self.0), Signal::QUIT);
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn installed(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    folders.push("/usr/sbin".into());
    folders.extend(
        fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|it| it.path().join("bin")),
    );
    let found = folders.into_iter().map(|folder| folder.join(program)).find(|path| path.exists());
    if found.is_none() {
        testkit::skip::skip(program, "it is not installed; `make test-deps` installs it");
    }
    found
}

/// Starts a server and waits until it accepts connections.
fn start(command: &mut Command, address: SocketAddr) -> ServerProcess {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it can be started");
    let server = ServerProcess(child);
    let deadline = Instant::now() + TIMEOUT;
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < deadline, "{command:?} does not accept connections");
        std::thread::sleep(Duration::from_millis(50));
    }
    server
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// One reading with this source.
fn read(folder: &Path, option: &str, url: &str) -> Value {
    let args = ["agent", "--print", "--once", "--json", option, url];
    run(playmeter(folder).args(args)).json()
}

fn value(reading: &Value, name: &str) -> Option<f64> {
    let values = reading["values"].as_array().expect("a list");
    values.iter().find(|value| value["name"] == name)?["value"].as_f64()
}

#[test]
fn redis_is_read() {
    let Some(program) = installed("redis-server") else { return };
    let (folder, address) = (tempfile::tempdir().expect("a folder"), free_address());
    let port = address.port().to_string();
    let mut command = Command::new(program);
    command.current_dir(folder.path()).args(["--bind", "127.0.0.1", "--port", &port, "--save", ""]);
    let _redis = start(command.args(["--requirepass", "p@ss"]), address);
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(b"AUTH p@ss\r\nMSET a 1 b 2 c 3\r\n").expect("it reads");
    let mut answers = BufReader::new(stream.try_clone().expect("a descriptor can be duplicated"));
    for _ in 0..2 {
        let mut line = String::new();
        answers.read_line(&mut line).expect("it answers");
        assert_eq!(line, "+OK\r\n");
    }
    let reading = read(folder.path(), "--redis", &format!("redis://:p%40ss@{address}"));
    assert_eq!(value(&reading, "agent.source_up"), Some(1.0));
    assert_eq!((value(&reading, "redis.keys"), value(&reading, "redis.clients")), (Some(3.0), Some(2.0)));
    assert!(value(&reading, "redis.memory_used") > Some(100_000.0), "{reading}");
    assert!(value(&reading, "redis.commands") > Some(0.0), "{reading}");
    let reading = read(folder.path(), "--redis", &address.to_string());
    assert_eq!((value(&reading, "agent.source_up"), value(&reading, "redis.keys")), (Some(0.0), None));
    assert!(value(&reading, "host.memory_total").is_some(), "the other sources are still read: {reading}");
}

#[test]
fn nginx_is_read() {
    let Some(program) = installed("nginx") else { return };
    let (folder, address) = (tempfile::tempdir().expect("a folder"), free_address());
    let config = format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr; events {{}} http {{ access_log off; \
         server {{ listen {address}; location /status {{ stub_status; }} }} }}"
    );
    fs::write(folder.path().join("nginx.conf"), config).expect("files can be written");
    let mut command = Command::new(program);
    let _nginx = start(command.arg("-p").arg(folder.path()).args(["-c", "nginx.conf"]), address);
    let reading = read(folder.path(), "--nginx", &format!("http://{address}/status"));
    assert_eq!(value(&reading, "agent.source_up"), Some(1.0));
    assert_eq!((value(&reading, "nginx.writing"), value(&reading, "nginx.dropped")), (Some(1.0), Some(0.0)));
    assert!(value(&reading, "nginx.requests") > Some(0.0), "{reading}");
    let reading = read(folder.path(), "--nginx", &format!("http://{address}/other"));
    assert_eq!(value(&reading, "agent.source_up"), Some(0.0));
}

/// A PostgreSQL command. As root it runs as the user `postgres`, because PostgreSQL does not run as root; that user
/// needs access to the folder.
fn postgres(program: PathBuf, folder: &Path) -> Command {
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(folder);
    command
}

#[test]
fn postgresql_is_read() {
    let (Some(initdb), Some(server)) = (installed("initdb"), installed("postgres")) else { return };
    let (folder, address) = (tempfile::tempdir().expect("a folder"), free_address());
    if rustix::process::geteuid().is_root() {
        let chown = run(Command::new("chown").arg("postgres").arg(folder.path()));
        assert_eq!(chown.code, 0, "{chown:?}");
    }
    let data = folder.path().join("pg");
    let mut command = postgres(initdb, folder.path());
    let created = run(command.args(["--no-sync", "--auth=trust", "--username=playmeter", "-D"]).arg(&data));
    assert_eq!(created.code, 0, "{created:?}");
    let port = address.port().to_string();
    let mut command = postgres(server, folder.path());
    command.args(["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
    let _postgres = start(command.args(["-p", &port, "-D"]).arg(&data), address);
    // PostgreSQL publishes its statistics some time after a transaction, so the first reading may have no rate yet.
    let reading = (0..10)
        .map(|_| read(folder.path(), "--postgres", &format!("postgres://playmeter@{address}/postgres")))
        .find(|reading| value(reading, "postgres.commits").is_some())
        .expect("a reading has the rate of commits");
    assert_eq!(value(&reading, "agent.source_up"), Some(1.0), "{reading}");
    assert_eq!(value(&reading, "postgres.connections_max"), Some(100.0));
    assert_eq!(
        value(&reading, "postgres.connections"),
        Some(0.0),
        "the agent's own connection is not counted: {reading}"
    );
    assert_eq!(value(&reading, "postgres.replication_lag"), None);
    assert!(
        value(&reading, "postgres.size") > Some(1e6) && value(&reading, "postgres.commits").is_some(),
        "{reading}"
    );
    let reading = read(folder.path(), "--postgres", &format!("postgres://nobody@{address}/none"));
    assert_eq!(value(&reading, "agent.source_up"), Some(0.0));
}
