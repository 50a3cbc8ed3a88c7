//! Invalid HTTP is refused as RFC 9112 says, and the names under which the server is reached.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Connection, Request};
use crate::world::World;

/// Ends the connection, so that the answers can be read to the end.
const LAST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Sends the bytes and then [`LAST`] on one connection, and returns the statuses of all answers.
fn statuses(world: &World, bytes: &[u8]) -> Vec<String> {
    let mut stream = TcpStream::connect(world.address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
    let _ = stream.write_all(&[bytes, LAST].concat());
    let mut answers = Vec::new();
    if let Err(failure) = stream.read_to_end(&mut answers) {
        assert_eq!(failure.kind(), std::io::ErrorKind::ConnectionReset, "{}", shown(bytes));
    }
    // The head of an answer may follow a body without a line end.
    let text = String::from_utf8_lossy(&answers).into_owned();
    text.split("HTTP/1.").skip(1).map(|answer| answer.chars().skip(2).take(3).collect()).collect()
}

/// A head with these lines after `Host`.
fn head(lines: &str) -> Vec<u8> {
    format!("GET /healthz HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes()
}

/// An event whose body is framed by these lines of the head.
fn event(world: &World, lines: &str, body: &str) -> Vec<u8> {
    let key = &world.public_key;
    format!("POST /v1/events?key={key} HTTP/1.1\r\nHost: a\r\n{lines}\r\n{body}").into_bytes()
}

fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[test]
fn invalid_request_heads_are_refused() {
    let world = World::new();
    let start = |line: &str| format!("{line}\r\nHost: a\r\n\r\n").into_bytes();
    let host = |line: &str| format!("GET /healthz HTTP/1.1\r\n{line}\r\n").into_bytes();
    let mut rows: Vec<Vec<u8>> = Vec::new();
    rows.extend(["", "Host: a\r\nHost: a\r\n", "Host: a\r\nHost: b\r\n"].map(host));
    for invalid in ["", "a b/c", "a b", "a/b", "a@b", "a,b", "a:b", "a:80:80", "[::1", "::1", "[a]b", "a\\b"]
    {
        rows.push(host(&format!("Host: {invalid}\r\n")));
    }
    rows.extend(
        [
            "GET /healthz x HTTP/1.1",
            "GET /a b/c HTTP/1.1",
            "GET  /healthz HTTP/1.1",
            "GET /healthz  HTTP/1.1",
            "GET /healthz HTTP/1.1 ",
            "GET\t/healthz\tHTTP/1.1",
            " GET /healthz HTTP/1.1",
            "GET /healthz",
            "GET healthz HTTP/1.1",
            "GET /health\0z HTTP/1.1",
            "GET http://user@a/healthz HTTP/1.1",
            "G@T /healthz HTTP/1.1",
            "GET /healthz HTTP/5.6",
            "GET /healthz http/1.1",
            "GET /healthz HTTP/1.1x",
            "GET /healthz ICE/1.0",
            "GET /healthz IHTTP/1.0",
            "GET /healthz RTSP/1.0",
        ]
        .map(start),
    );
    rows.extend(
        [
            "Foo: 1\rBar: 2\r\n",
            "Foo:\rBar: 2\r\n",
            "\rZGET /healthz HTTP/1.1\r\n",
            "Fo@: Failure\r\n",
            "Foo\x01test: Bar\r\n",
            ": Bar\r\n",
            "no colon\r\n",
            "Foo : bar\r\n",
            "Foo\t: bar\r\n",
            "name\r\n : value\r\n",
            "Foo: bar\r\n folded\r\n",
            "Foo: bar\r\n\tfolded\r\n",
            "Foo: b\0r\r\n",
            "Foo: b\x7fr\r\n",
            "Connection\r\x1b5\u{ff}eep-Alive\r\n",
        ]
        .map(head),
    );
    rows.push(b"GET /healthz HTTP/1.1\r\n Host: a\r\n\r\n".to_vec());
    rows.push(b"GET /healthz HTTP/1.1\nHost: a\r\n\r\n".to_vec());
    rows.push(b"GET /healthz HTTP/1.1\nHost: a\n\n".to_vec());
    rows.push(b"GET /healthz HTTP/1.1\r\nHost: a\n\r\n".to_vec());
    rows.push(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\n".to_vec());
    rows.push(b"\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".to_vec());
    rows.push(head("x:x\nTransfer-Encoding: chunked\r\n"));
    rows.push(head("x:\nTransfer-Encoding: chunked\r\n"));
    let wrong: Vec<(String, Vec<String>)> = rows
        .iter()
        .map(|row| (shown(row), statuses(&world, row)))
        .filter(|(_, found)| *found != ["400"])
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn refused_framing_is_explained_by_a_problem_document() {
    let world = World::new();
    let before = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
    for bytes in [
        b"GET /healthz HTTP/1.1\nHost: a\n\n".to_vec(),
        event(&world, "Content-Length: 15\r\nContent-Length: 16\r\n", "{}"),
        event(&world, "Transfer-Encoding: chunked\r\nContent-Length: 15\r\n", "0\r\n\r\n"),
    ] {
        let mut stream = TcpStream::connect(world.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
        // The first request is answered before the second one is read.
        stream.write_all(&before).expect("it can be sent");
        let mut first = [0; 12];
        stream.read_exact(&mut first).expect("an answer");
        assert_eq!(&first, b"HTTP/1.1 200");
        std::thread::sleep(Duration::from_millis(50));
        stream.write_all(&bytes).expect("it can be sent");
        let mut answer = Vec::new();
        if let Err(failure) = stream.read_to_end(&mut answer) {
            assert_eq!(failure.kind(), std::io::ErrorKind::ConnectionReset, "{}", shown(&bytes));
        }
        let text = String::from_utf8(answer).expect("it is text");
        let (_, refusal) = text.split_once("HTTP/1.1 400 ").unwrap_or_else(|| panic!("{text}"));
        let (head, body) = refusal.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains("content-type: application/problem+json"), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        let problem: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
        assert_eq!((&problem["type"], &problem["status"]), (&json!("/problems/malformed"), &json!(400)));
    }
}

#[test]
fn ambiguous_bodies_are_refused() {
    let world = World::new();
    let body = r#"{"event":"hit"}"#;
    let chunked = format!("f\r\n{body}\r\n0\r\n\r\n");
    let mut rows = Vec::new();
    for lengths in [
        "Content-Length: 15\r\nContent-Length: 15\r\n",
        "Content-Length: 15\r\nContent-Length: 16\r\n",
        "Content-Length: 15, 15\r\n",
        "Content-Length: 1 5\r\n",
        "Content-Length: +15\r\n",
        "Content-Length: -15\r\n",
        "Content-Length: 0xf\r\n",
        "Content-Length:\r\n",
        "Content-Length: 1000000000000000000000\r\n",
    ] {
        rows.push(event(&world, lengths, body));
    }
    for encodings in [
        "Transfer-Encoding: chunked,chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: identity, chunked\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: \x0bchunked\r\n",
        "Transfer-Encoding: pigeons\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: ,chunked\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 15\r\n",
        "Content-Length: 15\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding:\r\nContent-Length: 15\r\n",
        "Transfer-Encoding: identity\r\nContent-Length: 15\r\n",
    ] {
        rows.push(event(&world, encodings, &chunked));
    }
    for chunks in [
        format!("f \r\n{body}\r\n0\r\n\r\n"),
        format!("f\t\r\n{body}\r\n0\r\n\r\n"),
        format!("f\n{body}\r\n0\r\n\r\n"),
        format!("f;a\n{body}\r\n0\r\n\r\n"),
        format!("f;a\n\r\n{body}\r\n0\r\n\r\n"),
        format!("f;a=\"\n\"\r\n{body}\r\n0\r\n\r\n"),
        format!("f\r\n{body}\n0\r\n\r\n"),
        format!("f\r\n{body}\r\n0\n\r\n"),
        format!("f\r\n{body}\r\n0\r\n\n"),
        format!("0xf\r\n{body}\r\n0\r\n\r\n"),
        format!("-f\r\n{body}\r\n0\r\n\r\n"),
        format!("g\r\n{body}\r\n0\r\n\r\n"),
        format!("\r\n{body}\r\n0\r\n\r\n"),
        format!("f erfr\r\n{body}\r\n0\r\n\r\n"),
        format!("f;\r\n{body}\r\n0\r\n\r\n"),
        format!("f;;a\r\n{body}\r\n0\r\n\r\n"),
        format!("f;a=\r\n{body}\r\n0\r\n\r\n"),
        format!("f;a b\r\n{body}\r\n0\r\n\r\n"),
        format!("f;a=\"b\r\n{body}\r\n0\r\n\r\n"),
        format!("f;a=\"b\"c\r\n{body}\r\n0\r\n\r\n"),
        format!("f;a\rb\r\n{body}\r\n0\r\n\r\n"),
        format!("1000000000000000f\r\n{body}\r\n0\r\n\r\n"),
        format!("e\r\n{body}\r\n0\r\n\r\n"),
        format!("f\r\n{body}\r\n0 rrrr\r\n\r\n"),
        format!("f\r\n{body}\r\n0\r\nVary: *\n\r\n"),
        format!("f\r\n{body}\r\n0\r\nVary: *\r\n\n"),
        format!("f\r\n{body}\r\n0\r\nVa ry: *\r\n\r\n"),
    ] {
        rows.push(event(&world, "Transfer-Encoding: chunked\r\n", &chunks));
    }
    rows.push(
        format!(
            "POST /v1/events?key={} HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}",
            world.public_key
        )
        .into_bytes(),
    );
    let wrong: Vec<(String, Vec<String>)> = rows
        .iter()
        .map(|row| (shown(row), statuses(&world, row)))
        .filter(|(_, found)| *found != ["400"])
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(world.load()["totals"]["received"], 0, "no event of a refused request counts");
}

#[test]
fn valid_but_unusual_http_is_accepted() {
    let world = World::new();
    let body = r#"{"event":"hit"}"#;
    let host = |host: &str| format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
    let mut rows: Vec<(Vec<u8>, &str)> = Vec::new();
    for name in
        ["a", "A.b-c_d.example:8080", "[::1]:80", "[::1]", "127.0.0.1:1", "a.", "a:", "%41.example", " a\t"]
    {
        rows.push((host(name), "200"));
    }
    rows.push((b"\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), "200"));
    rows.push((b"GET http://b.example/healthz HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), "200"));
    rows.push((b"GET /healthz HTTP/1.1\r\nhOST:a\r\nX:\r\nY:\t \r\nZ: \xff\r\n\r\n".to_vec(), "200"));
    rows.push((head("Upgrade: h2c\r\nConnection: Upgrade\r\n"), "200"));
    for lengths in ["Content-Length: 15\r\n", "conTENT-Length: \t015 \r\n"] {
        rows.push((event(&world, lengths, body), "202"));
    }
    for (encoding, chunks) in [
        ("chunked", format!("f\r\n{body}\r\n0\r\n\r\n")),
        ("Chunked", format!("00000F\r\n{body}\r\n000\r\n\r\n")),
        ("chunked ", format!("8\r\n{}\r\n7\r\n{}\r\n0\r\n\r\n", &body[..8], &body[8..])),
        ("chunked", format!("f;a;b=c;d=\"e \\\"f\\\"; \\\\g\" ; h = i\r\n{body}\r\n0;z\r\n\r\n")),
        ("chunked", format!("f\r\n{body}\r\n0\r\nVary: *\r\nContent-Type: text/plain\r\n\r\n")),
        ("chunked", format!("f\r\n{body}\r\n0\r\nVary: *\r\nContent-Length: 7\r\n\r\n")),
    ] {
        rows.push((event(&world, &format!("Transfer-Encoding: {encoding}\r\n"), &chunks), "202"));
    }
    let events = rows.iter().filter(|(_, status)| *status == "202").count();
    let wrong: Vec<(String, Vec<String>)> = rows
        .iter()
        .map(|(row, status)| (shown(row), statuses(&world, row), *status))
        .filter(|(_, found, status)| *found != [*status, "200"])
        .map(|(row, found, _)| (row, found))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(world.load()["totals"]["accepted"], events);
}

#[test]
fn requests_are_checked_however_they_arrive() {
    let world = World::new();
    let good = event(&world, "Transfer-Encoding: chunked\r\n", "f\r\n{\"event\":\"hit\"}\r\n0\r\n\r\n");
    for (bad, expected) in [
        (&b"GET /healthz HTTP/1.1\r\nHost: a\n\r\n"[..], &["202", "202", "400"][..]),
        (b"", &["202", "202", "200"]),
    ] {
        let mut connection = Connection::open(world.address).expect("a connection");
        let mut writer = connection.writer();
        let bytes = [&good[..], &good, bad, LAST].concat();
        let sender = std::thread::spawn(move || {
            for byte in bytes {
                if writer.write_all(&[byte]).is_err() {
                    return;
                }
            }
        });
        let found: Vec<String> =
            std::iter::from_fn(|| connection.answer().ok()).map(|answer| answer.status.to_string()).collect();
        assert_eq!(found, expected);
        let _ = connection.writer().shutdown(Shutdown::Both);
        sender.join().expect("the sender ends");
    }
}

#[test]
fn refused_host_is_named() {
    let world = World::new();
    assert_eq!(world.send(&Request::get("/healthz").host("a b/c")).summary(), "400 malformed (Host)");
    let twice = Request::get("/healthz").header("Host", "localhost");
    assert_eq!(world.send(&twice).summary(), "400 malformed (Host)");
}

#[test]
fn only_the_public_name_and_this_machine_are_served_once_it_is_set() {
    let any = World::new();
    assert_eq!(any.send(&Request::get("/").host("any.example")).status, 200);
    for (public_url, own) in [
        ("https://stats.example", &["stats.example", "STATS.example:443", "stats.example."][..]),
        ("https://stats.example:8443/", &["stats.example:8443", "stats.example"]),
        ("http://stats.example", &["stats.example", "stats.example:80"]),
    ] {
        let world = World::configured(&format!("public_url = \"{public_url}\"\n"), &[]);
        let status = |host: &str, target: &str| {
            let answer = world.send(&Request::get(target).host(host));
            if answer.status == 421 { answer.summary() } else { answer.status.to_string() }
        };
        let address = world.address.to_string();
        let local =
            ["localhost", "localhost:1", "127.0.0.1", "127.0.0.1:8080", "[::1]:8080", address.as_str()];
        for host in own.iter().chain(&local).chain(&["g1234.stats.example"]) {
            assert_eq!(status(host, "/"), "200", "{public_url}: {host}");
        }
        for host in [
            "stats.example:1",
            "example",
            "stats.example.evil.example",
            "evilstats.example",
            "192.0.2.1",
            "10.0.0.1",
        ] {
            assert_eq!(status(host, "/"), "421 host (Host)", "{public_url}: {host}");
            let event = Request::events(r#"{"event":"hit"}"#).key(&world.public_key).host(host);
            assert_eq!(world.send(&event).summary(), "421 host (Host)", "{public_url}: {host}");
            assert_eq!(status(host, "/healthz"), "200", "health checks may use any name");
            assert_eq!(status(host, "/readyz"), "200", "health checks may use any name");
        }
        let absolute = Request::get("http://evil.example/").host("localhost");
        assert_eq!(world.send(&absolute).summary(), "421 host (Host)", "the name in the target counts");
        assert_eq!(world.load()["totals"]["received"], 0);
    }
}
