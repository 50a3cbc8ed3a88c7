//! Slow, excess, abusive and broken connections next to a normal one.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::client::{Connection, Request};
use crate::world::World;

/// How long a connection may be idle before its first request, and how long a body may stall.
const GRACE: Duration = Duration::from_secs(5);

fn event() -> &'static [u8] {
    br#"{"event":"win"}"#
}

/// Sends a request every 20 ms for this long and returns the latency of the slowest answer.
fn slowest(world: &World, time: Duration) -> Duration {
    let mut connection = world.connect();
    let request = Request::events(event()).key(&world.public_key);
    let (started, mut slowest) = (Instant::now(), Duration::ZERO);
    while started.elapsed() < time {
        let sent = Instant::now();
        assert_eq!(connection.send(&request).expect("an answer").summary(), "1 accepted");
        slowest = slowest.max(sent.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    slowest
}

#[test]
fn idle_connections_are_closed_without_slowing_others() {
    let world = World::new();
    let opened = Instant::now();
    let mut silent: Vec<Connection> = (0..200).map(|_| world.connect()).collect();
    for (index, connection) in silent.iter_mut().enumerate() {
        // Half of them start a request and never finish it.
        if index % 2 == 0 {
            connection.write(b"POST /v1/events HTTP/1.1\r\nHost: ").expect("it can be sent");
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
fn slow_header_times_out() {
    let world = World::new();
    let mut connection = world.connect();
    connection.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n").expect("it can be sent");
    let started = Instant::now();
    while started.elapsed() < GRACE + Duration::from_secs(3) {
        if connection.write(b"X-Drip: drop\r\n").is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    assert!(started.elapsed() < GRACE + Duration::from_secs(2), "{:?}", started.elapsed());
}

/// Sends a body at this many bytes every 250 ms and returns the outcome and how long it took.
fn drip(world: &World, length: usize, bytes_each: usize, target: &str) -> (String, Duration) {
    let mut body = event().to_vec();
    body.resize(length, b' ');
    let mut connection = world.connect();
    connection
        .write(&Request::events("").to(target).key(&world.secret_key).head(length))
        .expect("it can be sent");
    let mut stream = connection.writer();
    stream.set_read_timeout(Some(Duration::from_secs(300))).expect("it has a socket");
    let writer = std::thread::spawn(move || {
        for piece in body.chunks(bytes_each.max(1)) {
            if bytes_each == 0 || stream.write_all(piece).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(250));
        }
    });
    let started = Instant::now();
    let summary =
        connection.answer().map(|answer| answer.summary()).unwrap_or_else(|failure| failure.to_string());
    let took = started.elapsed();
    writer.join().expect("the writer ends");
    (summary, took)
}

#[test]
fn slow_body_times_out() {
    let world = World::new();
    let rows = [
        ("/v1/events", 1_000, 0, "408 body_stalled"),
        ("/v1/events", 1_000, 10, "408 body_stalled"),
        ("/v1/events", 100_000, 50, "408 body_stalled"),
        ("/v1/events", 12_000, 500, "1 accepted"),
        ("/v1/query", 1_000, 10, "408 body_stalled"),
    ];
    std::thread::scope(|scope| {
        for (target, length, bytes_each, expected) in rows {
            let world = &world;
            scope.spawn(move || {
                let (found, took) = drip(world, length, bytes_each, target);
                assert_eq!(
                    found, expected,
                    "{target}: {bytes_each} of {length} bytes each 250 ms took {took:?}"
                );
                assert!(
                    took > GRACE - Duration::from_secs(1) && took < GRACE + Duration::from_secs(5),
                    "{took:?}"
                );
            });
        }
    });
    assert_eq!(world.load()["totals"]["received"], 1);
    let metrics = world.send(&Request::get("/metrics")).text();
    assert!(metrics.contains("playmeter_requests_refused_total{status=\"408\"} 3"), "{metrics}");
}

#[test]
fn body_below_64_kib_per_second_is_cut_off_after_30_s() {
    const MIN: Duration = Duration::from_secs(30);
    let world = World::new();
    // Both are fast enough not to count as stalled, and neither is complete after 30 s.
    let rows = [(1 << 20, 2 << 10, "408 body_stalled"), (10 << 20, 64 << 10, "1 accepted")];
    std::thread::scope(|scope| {
        for (length, bytes_each, expected) in rows {
            let world = &world;
            scope.spawn(move || {
                let (found, took) = drip(world, length, bytes_each, "/v1/events");
                assert_eq!(found, expected, "{bytes_each} of {length} bytes each 250 ms took {took:?}");
                assert!(took >= MIN, "{expected} after {took:?}");
            });
        }
    });
    assert_eq!(world.load()["totals"]["received"], 1);
}

#[test]
fn body_that_arrives_fast_and_then_stalls_times_out() {
    let world = World::new();
    let mut body = event().to_vec();
    body.resize(9 << 20, b' ');
    let mut connection = world.connect();
    connection
        .write(&Request::events("").key(&world.public_key).head(body.len() + 1))
        .expect("it can be sent");
    connection.write(&body).expect("it can be sent");
    assert_eq!(connection.answer().expect("an answer").summary(), "408 body_stalled");
}

#[test]
fn address_may_open_256_connections() {
    let world = World::new();
    let request = Request::get("/healthz");
    let mut open: Vec<Connection> = Vec::new();
    for _ in 0..256 {
        let mut connection = world.connect();
        assert_eq!(connection.send(&request).expect("an answer").status, 200, "connection {}", open.len());
        open.push(connection);
    }
    for _ in 0..3 {
        let mut rejected = world.connect();
        assert!(rejected.is_closed_silently());
    }
    for connection in &mut open {
        assert_eq!(
            connection.send(&request).expect("an answer").status,
            200,
            "the other connections still work"
        );
    }
    open.truncate(200);
    let freed = Instant::now();
    while world.connect().send(&request).is_err() {
        assert!(freed.elapsed() < Duration::from_secs(5), "the place of a closed connection is free again");
    }
}

#[test]
fn total_connections_are_limited_by_the_settings() {
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(root.path().join("playmeter.toml"), "[connections]\ntotal_max = 3\n").expect("a file");
    let world = World::on(root, &[]);
    let mut open: Vec<Connection> = (0..3).map(|_| world.connect()).collect();
    for connection in &mut open {
        assert_eq!(connection.send(&Request::get("/healthz")).expect("an answer").status, 200);
    }
    assert!(world.connect().is_closed_silently());
}

#[test]
fn pipelined_requests_are_answered_in_order() {
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
    for (index, summary) in expected.iter().enumerate() {
        assert_eq!(connection.answer().expect("an answer").summary(), *summary, "answer {index}");
    }
    sender.join().expect("the sender ends");
    assert_eq!(world.load()["totals"]["accepted"], 100);
}

#[test]
fn truncated_body_is_ignored() {
    let world = World::new();
    let head = Request::events("").key(&world.public_key).head(event().len() + 1);
    for how in [Some(Shutdown::Both), Some(Shutdown::Write), None] {
        for _ in 0..10 {
            let mut connection = world.connect();
            connection.write(&head).and_then(|()| connection.write(event())).expect("it can be sent");
            if let Some(how) = how {
                connection.writer().shutdown(how).expect("it can be shut down");
            }
        }
    }
    assert_eq!(world.post(event()).summary(), "1 accepted");
    assert_eq!(world.load()["totals"]["received"], 1, "an incomplete body is not an event");
}

#[test]
fn events_count_when_the_client_disconnects_at_once() {
    let world = World::new();
    for _ in 0..200 {
        let mut connection = world.connect();
        connection.write(&Request::events(event()).key(&world.public_key).bytes()).expect("it can be sent");
    }
    let sent = Instant::now();
    while world.load()["totals"]["accepted"] != 200 {
        assert!(sent.elapsed() < Duration::from_secs(5), "{}", world.load());
    }
}

#[test]
fn half_closed_connection_still_gets_its_response() {
    let world = World::new();
    for _ in 0..50 {
        let mut connection = world.connect();
        connection.write(&Request::events(event()).key(&world.public_key).bytes()).expect("it can be sent");
        connection.writer().shutdown(Shutdown::Write).expect("it can be shut down");
        assert_eq!(connection.answer().expect("an answer").summary(), "1 accepted");
        assert!(connection.is_closed_silently());
    }
}

/// The first line of the answer, or `closed`.
pub(crate) fn first_line(world: &World, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(world.address).expect("a connection");
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).lines().next().unwrap_or("closed").to_owned()
}

#[test]
fn invalid_http_is_rejected() {
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
    assert_eq!(world.post(event()).summary(), "1 accepted");
    assert!(!world.log_lines().contains("panicked"), "{}", world.log_lines());
}
