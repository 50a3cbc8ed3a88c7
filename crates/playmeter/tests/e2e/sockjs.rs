//! SockJS over requests: frames, limits and the end of a session. `compat/ddp` runs published clients.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Answer, Request};
use crate::world::World;

fn post(world: &World, path: &str, body: &str) -> Answer {
    world.send(&Request::new("POST", format!("/sockjs/000/{path}")).body(body))
}

/// Sends DDP messages.
fn send(world: &World, session: &str, messages: &[serde_json::Value]) {
    let texts: Vec<String> = messages.iter().map(ToString::to_string).collect();
    let answer = post(world, &format!("{session}/xhr_send"), &json!(texts).to_string());
    assert_eq!(answer.status, 204, "{}", answer.text());
}

/// Sends a request on a connection of its own and returns the whole stream of the response.
fn stream(address: SocketAddr, request: Request) -> String {
    let mut connection = TcpStream::connect(address).expect("it listens");
    connection.write_all(&request.header("Connection", "close").bytes()).expect("the server reads");
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).expect("the server answers");
    let text = String::from_utf8(bytes).expect("frames are text");
    let (head, mut body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.to_lowercase().contains("chunked"), "{text}");
    let mut frames = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a length");
        frames += &rest[..length];
        body = &rest[length + 2..];
    }
    frames
}

/// A streaming request that waits for frames.
struct OpenStream {
    connection: TcpStream,
    text: String,
}

impl OpenStream {
    /// Sends the request and waits for the beginning of the response.
    fn new(world: &World, session: &str) -> OpenStream {
        let mut connection = TcpStream::connect(world.address).expect("it listens");
        connection.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        let request = Request::new("POST", format!("/sockjs/000/{session}/xhr_streaming")).body("");
        connection.write_all(&request.bytes()).expect("the server reads");
        let mut open = OpenStream { connection, text: String::new() };
        open.read_until(&"h".repeat(2048));
        open
    }

    fn read_until(&mut self, part: &str) {
        let mut bytes = [0; 4096];
        while !self.text.contains(part) {
            let count = self.connection.read(&mut bytes).expect("the server answers");
            assert!(count > 0, "no {part} in {}", self.text);
            self.text += &String::from_utf8_lossy(&bytes[..count]);
        }
    }
}

/// Returns the next frame.
fn poll(world: &World, session: &str) -> String {
    stream(world.address, Request::new("POST", format!("/sockjs/000/{session}/xhr")).body(""))
}

fn connected(world: &World, session: &str) {
    assert_eq!(poll(world, session), "o\n");
    send(world, session, &[json!({"msg": "connect", "version": "1", "support": ["1"]})]);
    let frame = poll(world, session);
    assert!(frame.starts_with(r#"a["{\"msg\":\"connected\""#), "{frame}");
}

#[test]
fn messages_of_a_session_are_exchanged_by_requests() {
    let world = World::new();
    connected(&world, "one");
    let key = &world.secret_key;
    send(&world, "one", &[json!({"msg": "method", "id": "1", "method": "login", "params": [{"key": key}]})]);
    let mut frames = String::new();
    while !frames.contains("updated") {
        frames += &poll(&world, "one");
    }
    assert!(frames.contains(r#"\"game\":\"demo\""#), "{frames}");
    let mut waiting = OpenStream::new(&world, "one");
    assert_eq!(poll(&world, "one"), "c[2010,\"Another connection still open\"]\n");
    send(&world, "one", &[json!({"msg": "ping", "id": "7"})]);
    waiting.read_until("pong");
}

#[test]
fn invalid_request_is_rejected_and_keeps_the_session() {
    let world = World::new();
    connected(&world, "one");
    assert_eq!(post(&world, "none/xhr_send", "[]").summary(), "404 not_found");
    assert_eq!(post(&world, "a.b/xhr", "").summary(), "404 not_found (session)");
    assert_eq!(post(&world, &format!("{}/xhr", "x".repeat(65)), "").summary(), "404 not_found (session)");
    assert_eq!(post(&world, "one/xhr_send", "").summary(), "400 malformed");
    assert_eq!(post(&world, "one/xhr_send", "[1]").summary(), "400 malformed");
    let large = json!([" ".repeat(70_000)]).to_string();
    assert_eq!(post(&world, "one/xhr_send", &large).summary(), "413 too_large");
    assert_eq!(world.send(&Request::get("/sockjs/000/one/xhr")).summary(), "405 method");
    assert_eq!(world.send(&Request::get("/sockjs/000/one/jsonp")).summary(), "404 not_found");
    send(&world, "one", &[json!({"msg": "ping", "id": "7"})]);
    assert!(poll(&world, "one").contains("pong"));
}

#[test]
fn sessions_of_one_address_are_limited() {
    let world = World::with(&["--behind-proxy"]);
    let from = |address: &str, path: &str| {
        Request::new("POST", format!("/sockjs/000/{path}")).header("X-Forwarded-For", address).body("")
    };
    let open = |address: &str, path: &str| stream(world.address, from(address, path));
    for number in 0..32 {
        assert_eq!(open("203.0.113.7", &format!("s{number}/xhr")), "o\n");
    }
    let refused = world.send(&from("203.0.113.7", "more/xhr"));
    assert_eq!((refused.summary().as_str(), refused.header("retry-after")), ("429 too_many", Some("10")));
    assert_eq!(open("203.0.113.8", "more/xhr"), "o\n", "another address has its own limit");
    assert_eq!(
        world.send(&from("203.0.113.8", "s0/xhr")).summary(),
        "403 scope (session)",
        "a session belongs to its address"
    );
    assert_eq!(world.send(&from("203.0.113.8", "s0/xhr_send")).summary(), "404 not_found");
}

#[test]
fn idle_session_ends_and_makes_room() {
    let world = World::configured("[connections]\nheartbeat_s = 1\n", &[]);
    connected(&world, "one");
    assert_eq!(poll(&world, "mute"), "o\n");
    // Pings of the server keep a session open while its client fetches them.
    let end = loop {
        let frame = poll(&world, "mute");
        if frame.starts_with('c') {
            break frame;
        }
        assert!(frame.contains("ping"), "{frame}");
    };
    assert!(end.contains("no `connect` message"), "{end}");
    let deadline = Instant::now() + Duration::from_secs(60);
    // The other session was idle meanwhile. After its end its name is free.
    while poll(&world, "one") != "o\n" {
        assert!(Instant::now() < deadline, "the idle session ends");
        thread::sleep(Duration::from_secs(4));
    }
}

#[test]
fn stopping_server_ends_waiting_requests() {
    let mut world = World::new();
    connected(&world, "one");
    let mut waiting = OpenStream::new(&world, "one");
    world.stop();
    waiting.read_until("c[1001,");
}
