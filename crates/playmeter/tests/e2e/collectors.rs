//! Collectors: every transport with every decoder through real sockets and files, their life, and what they lose.

mod files;
mod flows;
mod http;
mod life;
mod settings;
mod tls;
mod transports;

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Request;
use crate::world::World;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server with these collectors.
pub fn world(collectors: &str) -> World {
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(root.path().join("playmeter.toml"), collectors).expect("a file");
    World::on(root, &[])
}

/// How a collector is doing.
pub fn collector(world: &World, name: &str) -> Value {
    let answer = world.ask(&Request::get("/v1/collectors").key(&world.secret_key)).json();
    let all = answer["collectors"].as_array().expect("a list");
    let found = all.iter().find(|collector| collector["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {answer}")).clone()
}

/// Waits until a collector is as it should be.
pub fn wait_until(world: &World, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = collector(world, name);
        if is_so(&now) {
            return now;
        }
        assert!(Instant::now() < deadline, "{now}\n{}", world.log_lines());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until it has received so many lines, lost ones included.
pub fn received(world: &World, name: &str, count: u64) -> Value {
    wait_until(world, name, |now| now["counters"]["received"].as_u64() >= Some(count))
}

pub fn address(world: &World, name: &str) -> SocketAddr {
    let address = wait_until(world, name, |now| now["address"].is_string())["address"].clone();
    address.as_str().expect("a text").parse().expect("an address")
}

/// A socket whose packets go to a collector.
pub fn packets(world: &World, name: &str) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.connect(address(world, name)).expect("an address of this machine");
    socket
}

pub fn connect(world: &World, name: &str) -> TcpStream {
    let stream = TcpStream::connect(address(world, name)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

/// A measure of a metric since yesterday.
pub fn measured(world: &World, metric: &str, measure: &str) -> f64 {
    let query = json!({"metric": metric, "measure": measure, "last": "24h", "step": "all"});
    let answer = world.query(&query);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["series"][0]["total"].as_f64().unwrap_or_default()
}

/// What the accounting says of a door: how many were accepted, and how many refused by reason.
pub fn account(world: &World, endpoint: &str) -> (u64, Value) {
    let load = world.load();
    let all = load["endpoints"].as_array().expect("a list");
    let found = all.iter().find(|row| row["endpoint"] == endpoint).cloned().unwrap_or_default();
    (found["accepted"].as_u64().unwrap_or_default(), found["reasons"].clone())
}

/// The answer to `playmeter collectors ORDER NAME`.
pub fn order(world: &World, order: &str, name: &str) -> Value {
    world.command(&["collectors", order, name, "--json"]).json()
}
