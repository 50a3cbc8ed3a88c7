//! Edge cases of WebSockets: invalid handshakes, limits, slow and idle clients, shutdown.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::json;
use tungstenite::protocol::Message;

use crate::client::{Connection, Request};
use crate::origins::upgrade;
use crate::socket::{Socket, handshake};
use crate::world::World;

/// A server with these settings.
fn world_with(settings: &str) -> World {
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(root.path().join("playmeter.toml"), settings).expect("a file");
    World::on(root, &[])
}

#[test]
fn invalid_handshake_is_rejected_with_the_requirement() {
    let world = World::new();
    let plain = world.send(&Request::get("/websocket"));
    assert_eq!(
        (plain.summary().as_str(), plain.header("upgrade")),
        ("426 upgrade (Upgrade)", Some("websocket"))
    );
    let head = |version: &str, key: &str| {
        let request = Request::get("/ddp").header("Connection", "Upgrade").header("Upgrade", "websocket");
        world.send(&request.header("Sec-WebSocket-Version", version).header("Sec-WebSocket-Key", key))
    };
    let old = head("8", "dGhlIHNhbXBsZSBub25jZQ==");
    assert_eq!((old.status, old.header("sec-websocket-version")), (426, Some("13")));
    for key in ["", "short", "dGhlIHNhbXBsZSBub25jZQ==dGhlIHNhbXBsZSBub25jZQ=="] {
        assert_eq!(head("13", key).summary(), "400 invalid_field (Sec-WebSocket-Key)");
    }
    // RFC 6455, section 1.3.
    let right = world.send(&upgrade("/websocket", &[("Sec-WebSocket-Protocol", "chat")]));
    assert_eq!(
        (right.status, right.header("sec-websocket-accept")),
        (101, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
    );
    assert_eq!(right.header("sec-websocket-protocol"), None);
    let other_method = world.send(&Request::new("POST", "/websocket"));
    assert_eq!((other_method.status, other_method.header("allow")), (405, Some("GET,HEAD")));
    assert_eq!(other_method.header("content-type"), Some("application/problem+json"));
}

#[test]
fn frame_sent_with_the_handshake_is_read() {
    let world = World::new();
    let mut connection = world.connect();
    let mut bytes = upgrade("/websocket", &[]).bytes();
    // A masked text frame, its mask all zero.
    let connect = br#"{"msg":"connect","version":"1"}"#;
    bytes.extend_from_slice(&[0x81, 0x80 | connect.len() as u8, 0, 0, 0, 0]);
    bytes.extend_from_slice(connect);
    connection.write(&bytes).expect("the server reads");
    let (mut stream, mut received) = (connection.writer(), Vec::new());
    while !received.windows(18).any(|part| part == br#"{"msg":"connected""#) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&received)));
        received.extend_from_slice(&byte);
    }
    assert!(received.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&received));
}

#[test]
fn sockets_count_towards_the_connection_limit() {
    let world = world_with("[connections]\nper_address_max = 3\n");
    let mut sockets: Vec<Socket> = (0..3).map(|_| Socket::anonymous(&world)).collect();
    assert!(Connection::open(world.address).expect("it is accepted").is_closed_silently());
    sockets.pop();
    let deadline = Instant::now() + Duration::from_secs(10);
    while Connection::open(world.address).and_then(|mut it| it.send(&Request::get("/healthz"))).is_err() {
        assert!(Instant::now() < deadline, "the place of a closed connection is free again");
    }
}

#[test]
fn subscriptions_are_limited_per_connection_and_per_key() {
    let world = world_with("[connections]\nsubscriptions_each_max = 150\n");
    let collection = |number: usize| json!([null, {"collection": number.to_string()}]);
    let fill = |socket: &mut Socket| {
        (0..=100).position(|number| {
            socket.try_subscribe(&number.to_string(), "vars", collection(number)) != "ready"
        })
    };
    let mut first = Socket::open(&world, &world.public_key);
    assert_eq!(fill(&mut first), Some(100));
    let mut second = Socket::open(&world, &world.public_key);
    assert_eq!(fill(&mut second), Some(50));
    assert_eq!(second.try_subscribe("x", "vars", json!([])), "429");
    let mut other = Socket::open(&world, &world.secret_key);
    assert_eq!(fill(&mut other), Some(100), "another key has its own limit");
    first.send_json(json!({"msg": "unsub", "id": "7"}));
    first.until("nosub");
    assert_eq!(second.try_subscribe("x", "vars", json!([])), "ready");
    drop(first);
    let deadline = Instant::now() + Duration::from_secs(10);
    while second.try_subscribe("y", "vars", json!([null, {"collection": "y"}])) != "ready" {
        assert!(Instant::now() < deadline, "the subscriptions of a closed connection are free again");
    }
}

#[test]
fn oversized_message_closes_the_connection_with_1009() {
    let world = World::new();
    let mut socket = Socket::open(&world, &world.public_key);
    let text = |len: usize| Message::text(json!({"msg": "later", "text": "x".repeat(len)}).to_string());
    socket.send(text(4 << 20 >> 1)).expect("the server reads");
    socket.send_json(json!({"msg": "ping"}));
    assert_eq!(socket.next()["msg"], "error", "two MiB are read");
    assert_eq!(socket.next()["msg"], "pong");
    let _ = socket.send(text(4 << 20));
    assert_eq!(socket.next_or_closed(), Err(1009));
}

#[test]
fn message_before_a_credential_has_at_most_64_kib() {
    let world = World::new();
    let text = |len: usize| Message::text(json!({"msg": "later", "text": "x".repeat(len)}).to_string());
    let mut socket = Socket::anonymous(&world);
    socket.send(text(60 << 10)).expect("the server reads");
    assert!(socket.try_call("1", "login", json!([{"key": world.public_key}])).is_ok());
    socket.send(text(100 << 10)).expect("the server reads");
    assert_eq!(socket.next()["msg"], "error", "it was read, and its kind is unknown");
    socket.send_json(json!({"msg": "ping"}));
    assert_eq!(socket.next()["msg"], "pong", "larger messages are accepted after `login`");
    let mut other = Socket::anonymous(&world);
    let _ = other.send(text(100 << 10));
    assert_eq!(other.next_or_closed(), Err(1009));
}

/// The head of a text frame of 4 MiB whose mask is all zero, and the start of its payload.
fn incomplete_message(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x81, 0xff, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0];
    frame.resize(frame.len() + bytes, b'a');
    frame
}

#[test]
fn incomplete_messages_share_a_bounded_memory() {
    const SOCKETS: usize = 40;
    let world = world_with("[bodies]\naddress_bytes_max = 77594624\n");
    let frame = incomplete_message(3_600 << 10);
    let mut sockets: Vec<Socket> = (0..SOCKETS).map(|_| Socket::open(&world, &world.public_key)).collect();
    let rejected = sockets.iter_mut().filter_map(|socket| {
        // The server stops reading when it rejects the message.
        let _ = socket.stream().write_all(&frame);
        let _ = socket.stream().set_read_timeout(Some(Duration::from_millis(250)));
        socket.try_next_closed()
    });
    let rejected: Vec<u16> = rejected.collect();
    assert!((SOCKETS / 4..SOCKETS - 10).contains(&rejected.len()), "{rejected:?}");
    assert!(rejected.iter().all(|code| *code == 1013), "{rejected:?}");
    drop(sockets);
    let text = Message::text(json!({"msg": "later", "text": "x".repeat(3 << 20)}).to_string());
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let mut socket = Socket::open(&world, &world.public_key);
        let _ = socket.send(text.clone());
        // It was read, and its kind is unknown.
        if socket.next_or_closed().is_ok_and(|answer| answer["msg"] == "error") {
            break;
        }
        assert!(Instant::now() < deadline, "the memory of closed connections is free again");
    }
}

#[test]
fn message_that_arrives_too_slowly_closes_the_connection_with_1008() {
    let world = World::new();
    let mut socket = Socket::anonymous(&world);
    socket.stream().write_all(&incomplete_message(1)).expect("the server reads");
    let mut bytes = 0;
    // A byte now and then is a sign of life, but not a speed.
    while bytes < 120 && socket.stream().write_all(b"a").is_ok() {
        bytes += 1;
        std::thread::sleep(Duration::from_millis(250));
        let _ = socket.stream().set_read_timeout(Some(Duration::from_millis(1)));
        if let Some(code) = socket.try_next_closed() {
            return assert_eq!(code, 1008);
        }
    }
    panic!("the connection is still open after {bytes} bytes");
}

#[test]
fn idle_connection_is_closed_unless_it_answers_pings() {
    let world = world_with("[connections]\nheartbeat_s = 1\n");
    let (mut mute, mut dead) = (Socket::unconnected(&world), Socket::anonymous(&world));
    assert_eq!(mute.next_of_any(), Err(1008), "no ping is sent before `connect`");
    let mut pings = 0;
    while let Ok(message) = dead.next_of_any() {
        assert_eq!(message["msg"], "ping");
        pings += 1;
    }
    assert!((1..=2).contains(&pings), "{pings}");
    let mut alive = Socket::anonymous(&world);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(3_500) {
        if alive.next_of_any().expect("the connection stays open")["msg"] == "ping" {
            alive.send_json(json!({"msg": "pong"}));
        }
    }
}

#[test]
fn slow_reader_skips_to_the_newest_value() {
    let world = World::new();
    let mut slow = Socket::open(&world, &world.public_key);
    assert_eq!(slow.try_subscribe("v", "vars", json!([null, {"min_interval": 0}])), "ready");
    let mut writer = Socket::open(&world, &world.secret_key);
    const WRITES: usize = 300;
    for number in 0..WRITES {
        let value = json!({"number": number, "text": "x".repeat(60_000)});
        assert!(writer.try_call("m", "put_variable", json!([{"name": "big", "value": value}])).is_ok());
    }
    let (mut updates, mut last) = (0, 0);
    while last != WRITES as u64 - 1 {
        let message = slow.next();
        if let Some(number) = message["fields"]["value"]["number"].as_u64() {
            assert!(number >= last, "values never go backwards");
            (updates, last) = (updates + 1, number);
        }
    }
    assert!(updates < WRITES * 3 / 4, "{updates} of {WRITES} were sent: the server queues old values");
}

#[test]
fn client_that_never_reads_is_throttled() {
    let world = World::new();
    let mut socket = Socket::anonymous(&world);
    let stream = socket.stream();
    stream.set_write_timeout(Some(Duration::from_secs(2))).expect("a timeout can be set");
    let ping = Message::text(json!({"msg": "ping", "id": "x".repeat(128)}).to_string());
    let mut pings = 0;
    while socket.send(ping.clone()).is_ok() {
        pings += 1;
        assert!(pings < 1_000_000, "the server reads from a client that does not read");
    }
    assert_eq!(world.send(&Request::get("/healthz")).status, 200, "other clients are served");
}

#[test]
fn shutdown_closes_sockets_with_1001() {
    let mut world = World::new();
    let mut idle = Socket::anonymous(&world);
    let mut busy = Socket::open(&world, &world.secret_key);
    busy.subscribe("v", "vars", json!([]));
    for number in 0..10 {
        let params = json!([{"name": "a", "value": number}]);
        busy.send_json(
            json!({"msg": "method", "id": number.to_string(), "method": "put_variable", "params": params}),
        );
    }
    busy.until("result");
    let begin = Instant::now();
    world.stop();
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    assert_eq!(idle.next_or_closed(), Err(1001));
    let code = loop {
        match busy.next_or_closed() {
            Ok(_) => {}
            Err(code) => break code,
        }
    };
    assert_eq!(code, 1001);
    world.start();
    let kept = world.send(&Request::get("/v1/vars/a").key(&world.public_key)).json();
    assert!(kept["value"].is_u64(), "{kept}");
}

#[test]
fn ddp_path_is_an_alias_of_websocket() {
    let world = World::new();
    let mut socket =
        Socket::with_request(&world, handshake(&world, &format!("/ddp?key={}", world.public_key)))
            .connected();
    assert_eq!(socket.try_subscribe("a", "vars", json!([])), "ready");
}
