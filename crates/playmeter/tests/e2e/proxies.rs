//! Addresses that proxies report: which of them counts, and what is limited by it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::{Answer, Connection, Request};
use crate::origins::upgrade;
use crate::world::World;

/// The outcome of a handshake: `101`, or the problem.
fn outcome(answer: &Answer) -> String {
    if answer.status == 101 { "101".into() } else { answer.summary() }
}

/// Opens a WebSocket with these lines of `X-Forwarded-For`.
fn open(world: &World, forwarded: &[&str]) -> (Connection, String) {
    let headers: Vec<(&str, &str)> = forwarded.iter().map(|line| ("X-Forwarded-For", *line)).collect();
    let mut connection = world.connect();
    let answer = connection.send(&upgrade("/websocket", &headers)).expect("an answer");
    (connection, outcome(&answer))
}

const REFUSED: &str = "429 too_many (connections.per_address_max)";

#[test]
fn connections_behind_a_proxy_are_limited_by_the_forwarded_address() {
    let world = World::configured("[connections]\nper_address_max = 4\n", &["--behind-proxy"]);
    let mut open_now: Vec<Connection> = Vec::new();
    for address in ["203.0.113.1", "203.0.113.2", "2001:db8::1"] {
        for number in 0..4 {
            let (connection, outcome) = open(&world, &[address]);
            assert_eq!(outcome, "101", "connection {number} of {address}");
            open_now.push(connection);
        }
    }
    for forwarded in [
        &["203.0.113.1"][..],
        &["::ffff:203.0.113.1"],
        &["2001:db8::2"],
        &["198.51.100.1, 203.0.113.2"],
        &["198.51.100.1", "203.0.113.2"],
    ] {
        assert_eq!(open(&world, forwarded).1, REFUSED, "{forwarded:?}");
    }
    let mut stream = world.connect();
    let watch = |address: &str| {
        Request::get("/v1/watch?load=1").key(&world.secret_key).header("X-Forwarded-For", address)
    };
    assert_eq!(stream.send(&watch("203.0.113.1")).expect("an answer").summary(), REFUSED);
    assert_eq!(
        stream.send(&watch("203.0.113.3")).expect("an answer").status,
        200,
        "the connection of a proxy goes on with requests of other clients"
    );
    open_now.truncate(3);
    let freed = Instant::now();
    while open(&world, &["203.0.113.2"]).1 != "101" {
        assert!(freed.elapsed() < Duration::from_secs(10), "the place of a closed connection is free again");
    }
}

#[test]
fn streams_count_for_the_forwarded_address_until_they_end() {
    let world = World::configured("[connections]\nper_address_max = 3\n", &["--behind-proxy"]);
    let watch =
        Request::get("/v1/watch?load=1").key(&world.secret_key).header("X-Forwarded-For", "203.0.113.1");
    let mut streams: Vec<Connection> = (0..3).map(|_| world.connect()).collect();
    for stream in &mut streams {
        assert_eq!(stream.send(&watch).expect("an answer").status, 200);
    }
    assert_eq!(world.send(&watch).summary(), REFUSED);
    drop(streams);
    let freed = Instant::now();
    while world.send(&watch).status != 200 {
        assert!(freed.elapsed() < Duration::from_secs(30), "the place of an ended stream is free again");
        world.post(r#"{"event":"hit"}"#);
    }
}

#[test]
fn proxy_may_send_many_requests_over_few_connections() {
    let world = World::configured("[connections]\nper_address_max = 2\n", &["--behind-proxy"]);
    let mut connection = world.connect();
    for number in 0..50 {
        let request = Request::events(r#"{"event":"hit"}"#).key(&world.public_key);
        let request = request.header("X-Forwarded-For", &format!("203.0.113.{}", number % 5));
        assert_eq!(connection.send(&request).expect("an answer").summary(), "1 accepted");
    }
}

/// Returns whether a key that is limited to 203.0.113.0/24 works with these lines of `X-Forwarded-For`.
fn is_inside(world: &World, key: &str, lines: &[&str]) -> bool {
    let request = Request::events(r#"{"event":"hit"}"#).key(key);
    let request = lines.iter().fold(request, |request, line| request.header("X-Forwarded-For", line));
    match world.send(&request).summary().as_str() {
        "1 accepted" => true,
        "403 scope" => false,
        other => panic!("{lines:?}: {other}"),
    }
}

#[test]
fn client_address_is_the_one_that_the_outermost_trusted_proxy_reports() {
    for (hops, rows) in [
        (
            1,
            &[
                (&["203.0.113.1"][..], true),
                (&["198.51.100.1, 203.0.113.1"], true),
                (&["203.0.113.1, 198.51.100.1"], false),
                (&["203.0.113.1", "198.51.100.1"], false),
                (&["198.51.100.1", "203.0.113.1"], true),
                (&["203.0.113.1", "198.51.100.1, 203.0.113.9"], true),
                (&["203.0.113.1", ""], false),
                (&["203.0.113.1:4711"], true),
                (&["[2001:db8::1]:4711"], false),
                (&["unknown"], false),
                (&[], false),
            ][..],
        ),
        (
            2,
            &[
                (&["203.0.113.1, 10.0.0.1"], true),
                (&["203.0.113.1", "10.0.0.1"], true),
                (&["198.51.100.1, 203.0.113.1, 10.0.0.1"], true),
                (&["203.0.113.1, 198.51.100.1, 10.0.0.1"], false),
                (&["203.0.113.1", "198.51.100.1", "10.0.0.1"], false),
                (&["203.0.113.1"], true),
                (&["unknown, 203.0.113.1"], false),
            ],
        ),
    ] {
        let world = World::configured(&format!("behind_proxy = true\nproxy_hops = {hops}\n"), &[]);
        let created = world
            .command(&["keys", "create", "--scopes", "events:write", "--cidr", "203.0.113.0/24", "--json"])
            .json();
        let key = created["secret_key"].as_str().expect("a secret key");
        for (lines, expected) in rows {
            assert_eq!(is_inside(&world, key, lines), *expected, "{hops} hops: {lines:?}");
        }
    }
}

/// An nginx in front of a server, stopped at the end of the test.
struct Nginx {
    process: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Nginx {
    /// Starts nginx in front of the server. Returns `None` if it is not installed.
    fn start(world: &World) -> Option<Nginx> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().display();
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let (address, server) = (free.expect("a free port"), world.address);
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {path}/{name};"))
            .join("\n");
        let config = format!(
            "daemon off; master_process off; pid {path}/pid; error_log {path}/errors;
            events {{ worker_connections 2048; }}
            http {{
                access_log off;
                {temporary}
                server {{
                    listen {address};
                    location / {{
                        proxy_pass http://{server};
                        proxy_http_version 1.1;
                        proxy_set_header Host $host;
                        proxy_set_header Upgrade $http_upgrade;
                        proxy_set_header Connection upgrade;
                        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                    }}
                }}
            }}"
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, config).expect("a file");
        let mut command = Command::new("nginx");
        command.arg("-p").arg(folder.path()).arg("-c").arg(&file);
        let process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let nginx = Nginx { process, address, _folder: folder };
        let started = Instant::now();
        while std::net::TcpStream::connect(nginx.address).is_err() {
            assert!(started.elapsed() < Duration::from_secs(30), "nginx does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(nginx)
    }

    /// Opens a WebSocket through nginx from this address of the machine, with a forged forwarded address.
    fn open(&self, source: Ipv4Addr) -> (Connection, String) {
        let mut connection = Connection::open_from(source, self.address).expect("nginx accepts connections");
        let forged = upgrade("/websocket", &[("X-Forwarded-For", "198.51.100.1")]);
        let answer = connection.send(&forged).expect("an answer");
        (connection, outcome(&answer))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn sockets_behind_nginx_are_limited_for_each_client() {
    let world = World::with(&["--behind-proxy"]);
    let Some(nginx) = Nginx::start(&world) else {
        testkit::skip::skip("nginx", "install nginx");
        return;
    };
    let [first, second] = [2, 3].map(|last| Ipv4Addr::new(127, 0, 0, last));
    let mut open = Vec::new();
    for (number, source) in [vec![first; 200], vec![second; 60]].concat().into_iter().enumerate() {
        let (connection, outcome) = nginx.open(source);
        assert_eq!(outcome, "101", "socket {number}, from {source}");
        open.push(connection);
    }
    for number in 200..256 {
        let (connection, outcome) = nginx.open(first);
        assert_eq!(outcome, "101", "socket {number} from {first}");
        open.push(connection);
    }
    assert_eq!(nginx.open(first).1, REFUSED, "one client is limited behind a proxy, too");
    assert_eq!(nginx.open(second).1, "101");
}
