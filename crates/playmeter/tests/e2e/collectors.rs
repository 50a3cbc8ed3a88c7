//! Collectors: every transport and decoder over real sockets and files, supervision, and losses.

mod files;
mod flows;
mod http;
mod lifecycle;
mod settings;
#[cfg(feature = "sftp")]
mod sftp;
mod tls;
mod transports;

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Request;
use crate::world::World;

/// Longer than any step of these tests takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A server with these collectors.
pub(crate) fn world(collectors: &str) -> World {
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(root.path().join("playmeter.toml"), collectors).expect("a file");
    World::on(root, &[])
}

/// The state of a collector.
pub(crate) fn collector(world: &World, name: &str) -> Value {
    let answer = world.send(&Request::get("/v1/collectors").key(&world.secret_key)).json();
    let all = answer["collectors"].as_array().expect("a list");
    let found = all.iter().find(|collector| collector["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {answer}")).clone()
}

/// Waits until the state of a collector satisfies the condition.
pub(crate) fn wait_until(world: &World, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let now = collector(world, name);
        if is_so(&now) {
            return now;
        }
        assert!(Instant::now() < deadline, "{now}\n{}", world.log_lines());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a collector has received this many lines, lost ones included.
pub(crate) fn wait_received(world: &World, name: &str, count: u64) -> Value {
    wait_until(world, name, |now| now["counters"]["received"].as_u64() >= Some(count))
}

pub(crate) fn address(world: &World, name: &str) -> SocketAddr {
    let address = wait_until(world, name, |now| now["address"].is_string())["address"].clone();
    address.as_str().expect("a text").parse().expect("an address")
}

/// A socket whose packets go to a collector.
pub(crate) fn packets(world: &World, name: &str) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.connect(address(world, name)).expect("an address of this machine");
    socket
}

pub(crate) fn connect(world: &World, name: &str) -> TcpStream {
    let stream = TcpStream::connect(address(world, name)).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
    stream
}

/// A measure of a metric since yesterday.
pub(crate) fn measured(world: &World, metric: &str, measure: &str) -> f64 {
    let query = json!({"metric": metric, "measure": measure, "last": "24h", "step": "all"});
    let answer = world.query(&query);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["series"][0]["total"].as_f64().unwrap_or_default()
}

/// The accounting of an endpoint: how many were accepted, and the rejected ones by reason.
pub(crate) fn account(world: &World, endpoint: &str) -> (u64, Value) {
    let load = world.load();
    let all = load["endpoints"].as_array().expect("a list");
    let found = all.iter().find(|row| row["endpoint"] == endpoint).cloned().unwrap_or_default();
    (found["accepted"].as_u64().unwrap_or_default(), found["reasons"].clone())
}

/// The output of `playmeter collectors ACTION NAME`.
pub(crate) fn control(world: &World, control: &str, name: &str) -> Value {
    world.command(&["collectors", control, name, "--json"]).json()
}
