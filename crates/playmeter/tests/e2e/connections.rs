//! Connections that are slow, many, rude or broken, beside one that is not.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::client::{Connection, Request};
use crate::world::World;

/// A connection may be silent for so long before its first request, and a body so slow.
const GRACE: Duration = Duration::from_secs(5);

fn event() -> &'static [u8] {
    br#"{"event":"win"}"#
}

/// Asks every 20 ms for this long and says how long the slowest answer took.
fn slowest(world: &World, time: Duration) -> Duration {
    let mut connection = world.connect();
    let request = Request::events(event()).key(&world.public_key);
    let (started, mut slowest) = (Instant::now(), Duration::ZERO);
    while started.elapsed() < time {
        let asked = Instant::now();
        assert_eq!(connection.ask(&request).expect("an answer").told(), "1 accepted");
        slowest = slowest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    slowest
}

#[test]
fn silent_connections_are_closed_and_hinder_nobody() {
    let world = World::new();
    let opened = Instant::now();
    let mut silent: Vec<Connection> = (0..200).map(|_| world.connect()).collect();
    for (index, connection) in silent.iter_mut().enumerate() {
        // Half of them begin a request and never end it.
        if index % 2 == 0 {
            connection.send(b"POST /v1/events HTTP/1.1\r\nHost: ").expect("it can be sent");
        }
    }
    std::thread::scope(|scope| {
        let normal = scope.spawn(|| slowest(&world, GRACE + Duration::from_secs(1)));
        for connection in &mut silent {
            assert!(connection.is_closed_silently());
        }
        let closed = opened.elapsed();
        assert!(
            closed > GRACE - Duration::from_secs(1) && closed < GRACE + Duration::from_secs(4),
            "{closed:?}"
        );
        let slowest = normal.join().expect("the normal client ends");
        assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    });
}

#[test]
fn a_header_that_drips_is_not_waited_for() {
    let world = World::new();
    let mut connection = world.connect();
    connection.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n").expect("it can be sent");
    let started = Instant::now();
    while started.elapsed() < GRACE + Duration::from_secs(3) {
        if connection.send(b"X-Drip: drop\r\n").is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    assert!(started.elapsed() < GRACE + Duration::from_secs(2), "{:?}", started.elapsed());
}

/// A body sent in this manner: so many bytes each 250 ms for as long as it takes.
fn drip(world: &World, length: usize, bytes_each: usize, target: &str) -> (String, Duration) {
    let mut body = event().to_vec();
    body.resize(length, b' ');
    let mut connection = world.connect();
    connection
        .send(&Request::events("").to(target).key(&world.secret_key).head(length))
        .expect("it can be sent");
    let mut stream = connection.writer();
    let writer = std::thread::spawn(move || {
        for piece in body.chunks(bytes_each.max(1)) {
            if bytes_each == 0 || stream.write_all(piece).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(250));
        }
    });
    let started = Instant::now();
    let told = connection.answer().map(|answer| answer.told()).unwrap_or_else(|failure| failure.to_string());
    let took = started.elapsed();
    writer.join().expect("the writer ends");
    (told, took)
}

#[test]
fn a_body_may_be_slow_but_not_for_ever() {
    let world = World::new();
    let rows = [
        ("/v1/events", 1_000, 0, "408 body_stalled"),
        ("/v1/events", 1_000, 10, "408 body_stalled"),
        ("/v1/events", 100_000, 50, "408 body_stalled"),
        ("/v1/events", 12_000, 500, "1 accepted"),
        ("/v1/query", 1_000, 10, "408 body_stalled"),
    ];
    std::thread::scope(|scope| {
        for (target, length, bytes_each, told) in rows {
            let world = &world;
            scope.spawn(move || {
                let (found, took) = drip(world, length, bytes_each, target);
                assert_eq!(found, told, "{target}: {bytes_each} of {length} bytes each 250 ms took {took:?}");
                assert!(
                    took > GRACE - Duration::from_secs(1) && took < GRACE + Duration::from_secs(5),
                    "{took:?}"
                );
            });
        }
    });
    assert_eq!(world.load()["totals"]["received"], 1);
    let metrics = world.ask(&Request::get("/metrics")).text();
    assert!(metrics.contains("playmeter_requests_refused_total{status=\"408\"} 3"), "{metrics}");
}

#[test]
fn one_address_has_256_connections_and_the_next_is_refused() {
    let world = World::new();
    let request = Request::get("/healthz");
    let mut open: Vec<Connection> = Vec::new();
    for _ in 0..256 {
        let mut connection = world.connect();
        assert_eq!(connection.ask(&request).expect("an answer").status, 200, "connection {}", open.len());
        open.push(connection);
    }
    for _ in 0..3 {
        let mut refused = world.connect();
        assert!(refused.is_closed_silently());
    }
    for connection in &mut open {
        assert_eq!(connection.ask(&request).expect("an answer").status, 200, "the others go on");
    }
    open.truncate(200);
    let freed = Instant::now();
    while world.connect().ask(&request).is_err() {
        assert!(freed.elapsed() < Duration::from_secs(5), "room is given back");
    }
}

#[test]
fn connections_in_all_are_bounded_by_the_settings() {
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(root.path().join("playmeter.toml"), "[connections]\ntotal_max = 3\n").expect("a file");
    let world = World::on(root, &[]);
    let mut open: Vec<Connection> = (0..3).map(|_| world.connect()).collect();
    for connection in &mut open {
        assert_eq!(connection.ask(&Request::get("/healthz")).expect("an answer").status, 200);
    }
    assert!(world.connect().is_closed_silently());
}

#[test]
fn requests_that_come_at_once_are_answered_in_their_order() {
    let world = World::new();
    let events = |body: &str| Request::events(body).key(&world.public_key).bytes();
    let mut connection = world.connect();
    let mut expected = Vec::new();
    let mut bytes = Vec::new();
    for _ in 0..50 {
        bytes.extend(events(r#"{"event":"win"}"#));
        bytes.extend(events(r#"[{"event":"win"},{"event":""}]"#));
        bytes.extend(events("{"));
        bytes.extend(Request::get("/healthz").bytes());
        expected.extend(["1 accepted", "1 accepted; 1 invalid event_name_empty", "400 malformed", "200"]);
    }
    let mut writer = connection.writer();
    let sender = std::thread::spawn(move || writer.write_all(&bytes).expect("it can be sent"));
    for (index, told) in expected.iter().enumerate() {
        assert_eq!(connection.answer().expect("an answer").told(), *told, "answer {index}");
    }
    sender.join().expect("the sender ends");
    assert_eq!(world.load()["totals"]["accepted"], 100);
}

#[test]
fn a_body_that_ends_midway_harms_nothing() {
    let world = World::new();
    let head = Request::events("").key(&world.public_key).head(event().len() + 1);
    for how in [Some(Shutdown::Both), Some(Shutdown::Write), None] {
        for _ in 0..10 {
            let mut connection = world.connect();
            connection.send(&head).and_then(|()| connection.send(event())).expect("it can be sent");
            if let Some(how) = how {
                connection.writer().shutdown(how).expect("it can be shut");
            }
        }
    }
    assert_eq!(world.post(event()).told(), "1 accepted");
    assert_eq!(world.load()["totals"]["received"], 1, "half a body is no event");
}

#[test]
fn events_of_a_client_that_goes_at_once_count() {
    let world = World::new();
    for _ in 0..200 {
        let mut connection = world.connect();
        connection.send(&Request::events(event()).key(&world.public_key).bytes()).expect("it can be sent");
    }
    let sent = Instant::now();
    while world.load()["totals"]["accepted"] != 200 {
        assert!(sent.elapsed() < Duration::from_secs(5), "{}", world.load());
    }
}

#[test]
fn a_client_that_has_said_all_still_hears_the_answer() {
    let world = World::new();
    for _ in 0..50 {
        let mut connection = world.connect();
        connection.send(&Request::events(event()).key(&world.public_key).bytes()).expect("it can be sent");
        connection.writer().shutdown(Shutdown::Write).expect("it can be shut");
        assert_eq!(connection.answer().expect("an answer").told(), "1 accepted");
        assert!(connection.is_closed_silently());
    }
}

/// The first line of whatever comes back, or how it ended.
fn first_line(world: &World, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(world.address).expect("a connection");
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).lines().next().unwrap_or("closed").to_owned()
}

#[test]
fn what_is_not_http_is_refused_and_the_server_goes_on() {
    let world = World::new();
    let long =
        |len: usize| format!("GET /healthz HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n", "x".repeat(len));
    for (bytes, starts) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], "HTTP/1.1 400"),
        (b"\0\0\0\0\r\n\r\n", "HTTP/1.1 400"),
        (b"GET / HTTP/9.9\r\n\r\n", "HTTP/1.1 400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""),
        (b"GET /healthz HTTP/1.0\r\n\r\n", "HTTP/1.0 200"),
        (b"GET http://other.example/healthz HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200"),
        (
            b"POST /v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
            "HTTP/1.1 400",
        ),
        (b"POST /v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n{}", "HTTP/1.1 400"),
        (
            b"POST /v1/events HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n{}",
            "HTTP/1.1 400",
        ),
        (long(15_000).as_bytes(), "HTTP/1.1 200"),
        (long(17_000).as_bytes(), "HTTP/1.1 431"),
        (b"\r\n", "closed"),
        (b"", "closed"),
    ] {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        let line = first_line(&world, bytes);
        assert!(line.starts_with(starts), "{shown:?}: {line}");
    }
    assert_eq!(world.post(event()).told(), "1 accepted");
    assert!(!world.log_lines().contains("panicked"), "{}", world.log_lines());
}
