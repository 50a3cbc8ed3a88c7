//! WebSockets at their edges: handshakes that are none, limits, slow and silent ones, the end of the server.

use std::io::Read;
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
fn a_handshake_that_is_none_is_told_what_would_be_one() {
    let world = World::new();
    let plain = world.ask(&Request::get("/websocket"));
    assert_eq!(
        (plain.told().as_str(), plain.header("upgrade")),
        ("426 upgrade (Upgrade)", Some("websocket"))
    );
    let head = |version: &str, key: &str| {
        let request = Request::get("/ddp").header("Connection", "Upgrade").header("Upgrade", "websocket");
        world.ask(&request.header("Sec-WebSocket-Version", version).header("Sec-WebSocket-Key", key))
    };
    let old = head("8", "dGhlIHNhbXBsZSBub25jZQ==");
    assert_eq!((old.status, old.header("sec-websocket-version")), (426, Some("13")));
    for key in ["", "short", "dGhlIHNhbXBsZSBub25jZQ==dGhlIHNhbXBsZSBub25jZQ=="] {
        assert_eq!(head("13", key).told(), "400 invalid_field (Sec-WebSocket-Key)");
    }
    // RFC 6455, section 1.3.
    let right = world.ask(&upgrade("/websocket", &[("Sec-WebSocket-Protocol", "chat")]));
    assert_eq!(
        (right.status, right.header("sec-websocket-accept")),
        (101, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
    );
    assert_eq!(right.header("sec-websocket-protocol"), None);
    assert_eq!(world.ask(&Request::new("POST", "/websocket")).status, 405);
}

#[test]
fn what_comes_with_the_handshake_is_not_lost() {
    let world = World::new();
    let mut connection = world.connect();
    let mut bytes = upgrade("/websocket", &[]).bytes();
    // A masked text frame, its mask all zero.
    let connect = br#"{"msg":"connect","version":"1"}"#;
    bytes.extend_from_slice(&[0x81, 0x80 | connect.len() as u8, 0, 0, 0, 0]);
    bytes.extend_from_slice(connect);
    connection.send(&bytes).expect("the server reads");
    let (mut stream, mut told) = (connection.writer(), Vec::new());
    while !told.windows(18).any(|part| part == br#"{"msg":"connected""#) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&told)));
        told.extend_from_slice(&byte);
    }
    assert!(told.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&told));
}

#[test]
fn sockets_are_connections_and_there_are_as_many_as_of_those() {
    let world = world_with("[connections]\nper_address_max = 3\n");
    let mut sockets: Vec<Socket> = (0..3).map(|_| Socket::nobody(&world)).collect();
    assert!(Connection::open(world.address).expect("it is accepted").is_closed_silently());
    sockets.pop();
    let deadline = Instant::now() + Duration::from_secs(10);
    while Connection::open(world.address).and_then(|mut it| it.ask(&Request::get("/healthz"))).is_err() {
        assert!(Instant::now() < deadline, "the place of one that left is free");
    }
}

#[test]
fn subscriptions_are_counted_by_connection_and_by_key() {
    let world = world_with("[connections]\nsubscriptions_each_max = 150\n");
    let collection = |number: usize| json!([null, {"collection": number.to_string()}]);
    let fill = |socket: &mut Socket| {
        (0..=100).position(|number| socket.subbed(&number.to_string(), "vars", collection(number)) != "ready")
    };
    let mut first = Socket::open(&world, &world.public_key);
    assert_eq!(fill(&mut first), Some(100));
    let mut second = Socket::open(&world, &world.public_key);
    assert_eq!(fill(&mut second), Some(50));
    assert_eq!(second.subbed("x", "vars", json!([])), "429");
    let mut other = Socket::open(&world, &world.secret_key);
    assert_eq!(fill(&mut other), Some(100), "another key has its own");
    first.say(json!({"msg": "unsub", "id": "7"}));
    first.until("nosub");
    assert_eq!(second.subbed("x", "vars", json!([])), "ready");
    drop(first);
    let deadline = Instant::now() + Duration::from_secs(10);
    while second.subbed("y", "vars", json!([null, {"collection": "y"}])) != "ready" {
        assert!(Instant::now() < deadline, "what a connection held is free when it is gone");
    }
}

#[test]
fn a_message_that_is_too_large_ends_the_connection_with_its_code() {
    let world = World::new();
    let mut socket = Socket::nobody(&world);
    let text = |len: usize| Message::text(json!({"msg": "later", "text": "x".repeat(len)}).to_string());
    socket.send(text(4 << 20 >> 1)).expect("the server reads");
    socket.say(json!({"msg": "ping"}));
    assert_eq!(socket.next()["msg"], "pong", "two MiB are taken");
    let _ = socket.send(text(4 << 20));
    assert_eq!(socket.next_or_closed(), Err(1009));
}

#[test]
fn who_is_silent_is_dropped_and_who_answers_is_not() {
    let world = world_with("[connections]\nheartbeat_s = 1\n");
    let (mut mute, mut dead) = (Socket::silent(&world), Socket::nobody(&world));
    assert_eq!(mute.next_of_any(), Err(1008), "nothing is asked of who has not connected");
    let mut pings = 0;
    while let Ok(message) = dead.next_of_any() {
        assert_eq!(message["msg"], "ping");
        pings += 1;
    }
    assert!((1..=2).contains(&pings), "{pings}");
    let mut alive = Socket::nobody(&world);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(3_500) {
        if alive.next_of_any().expect("it is kept")["msg"] == "ping" {
            alive.say(json!({"msg": "pong"}));
        }
    }
}

#[test]
fn who_reads_slowly_gets_the_newest_and_costs_no_more_than_others() {
    let world = World::new();
    let mut slow = Socket::open(&world, &world.public_key);
    assert_eq!(slow.subbed("v", "vars", json!([null, {"min_interval": 0}])), "ready");
    let mut writer = Socket::open(&world, &world.secret_key);
    const WRITES: usize = 300;
    for number in 0..WRITES {
        let value = json!({"number": number, "text": "x".repeat(60_000)});
        assert!(writer.called("m", "put_variable", json!([{"name": "big", "value": value}])).is_ok());
    }
    let (mut told, mut last) = (0, 0);
    while last != WRITES as u64 - 1 {
        let message = slow.next();
        if let Some(number) = message["fields"]["value"]["number"].as_u64() {
            assert!(number >= last, "never backwards");
            (told, last) = (told + 1, number);
        }
    }
    assert!(told < WRITES * 3 / 4, "{told} of {WRITES} were told, so most waited somewhere");
}

#[test]
fn who_asks_without_reading_is_not_listened_to() {
    let world = World::new();
    let mut socket = Socket::nobody(&world);
    let stream = socket.stream();
    stream.set_write_timeout(Some(Duration::from_secs(2))).expect("a time-out can be set");
    let ping = Message::text(json!({"msg": "ping", "id": "x".repeat(128)}).to_string());
    let mut asked = 0;
    while socket.send(ping.clone()).is_ok() {
        asked += 1;
        assert!(asked < 1_000_000, "everything was taken in and nothing was taken out");
    }
    assert_eq!(world.ask(&Request::get("/healthz")).status, 200, "others are served");
}

#[test]
fn the_end_of_the_server_is_told_and_what_was_begun_is_done() {
    let mut world = World::new();
    let mut idle = Socket::nobody(&world);
    let mut busy = Socket::open(&world, &world.secret_key);
    busy.sub("v", "vars", json!([]));
    for number in 0..10 {
        let params = json!([{"name": "a", "value": number}]);
        busy.say(
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
    let kept = world.ask(&Request::get("/v1/vars/a").key(&world.public_key)).json();
    assert!(kept["value"].is_u64(), "{kept}");
}

#[test]
fn a_second_address_is_the_same_door() {
    let world = World::new();
    let mut socket =
        Socket::of(&world, handshake(&world, &format!("/ddp?key={}", world.public_key))).connected();
    assert_eq!(socket.subbed("a", "vars", json!([])), "ready");
}
