//! Every form and encoding in which events may arrive.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use crate::client::Request;
use crate::world::World;

/// Name, body and number of events of each form.
const FORMS: [(&str, &str, u32); 6] = [
    ("one event", r#"{"event":"win","player":"ann"}"#, 1),
    ("lines", "{\"event\":\"win\"}\n{\"event\":\"lose\"}\r\n\n{\"event\":\"draw\"}\n", 3),
    ("array", r#" [{"event":"win"}, {"event":"lose"}] "#, 2),
    ("envelope", r#"{"sent_at":"2026-01-02T03:04:05Z","events":[{"event":"win"}]}"#, 1),
    ("envelope, later field first", r#"{"events":[{"event":"win"}],"sent_at":1767323045000}"#, 1),
    ("no events at all", "[]", 0),
];

/// `{"event":"win","player":"ann","props":{"word":"sense sense sense sense"}}`
const BROTLI: &str = "1b4800202c0e781373d5400b0b38ddd38f9064b645dce0f656d85deab0f4559a5c8abccd39c6090c48036f4f76d321e8c\
                      62513a29317251942b5cd9582157dec01";

pub(crate) fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).and_then(|()| encoder.finish()).expect("memory can be written")
}

fn zlib(body: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).and_then(|()| encoder.finish()).expect("memory can be written")
}

fn deflate(body: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).and_then(|()| encoder.finish()).expect("memory can be written")
}

fn zstd(body: &[u8]) -> Vec<u8> {
    zstd::encode_all(body, 1).expect("memory can be written")
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16);
    digits.chunks(2).map(|pair| byte(pair).expect("digits")).collect()
}

/// The content encodings, by their name in the header.
type Encode = fn(&[u8]) -> Vec<u8>;
const ENCODINGS: [(&str, Encode); 7] = [
    ("", <[u8]>::to_vec),
    ("identity", <[u8]>::to_vec),
    ("gzip", gzip),
    ("x-gzip", gzip),
    ("deflate", zlib),
    ("deflate", deflate),
    ("zstd", zstd),
];

#[test]
fn every_form_is_accepted_in_every_encoding_and_content_type() {
    let world = World::new();
    let mut connection = world.connect();
    for (form, body, events) in FORMS {
        for content_type in
            ["", "application/json", "Application/JSON; charset=utf-8", "text/plain;charset=UTF-8"]
        {
            for (encoding, encode) in ENCODINGS {
                let mut request = Request::events(encode(body.as_bytes())).key(&world.public_key);
                if !content_type.is_empty() {
                    request = request.header("Content-Type", content_type);
                }
                if !encoding.is_empty() {
                    request = request.header("Content-Encoding", encoding);
                }
                let answer = connection.send(&request).expect("an answer");
                assert_eq!(
                    answer.summary(),
                    format!("{events} accepted"),
                    "{form} as `{content_type}` in `{encoding}`"
                );
            }
        }
    }
}

#[test]
fn only_the_malformed_line_of_ndjson_is_rejected() {
    let world = World::new();
    let check = |body: &[u8], expected: &str| {
        for kind in ["application/x-ndjson", "application/ndjson; charset=utf-8"] {
            let request = Request::events(body).key(&world.public_key).header("Content-Type", kind);
            assert_eq!(world.send(&request).summary(), expected, "{}", String::from_utf8_lossy(body));
        }
    };
    check(b"{\"event\":\"win\"}", "1 accepted");
    check(b"{\"event\":\"win\"}\n\r\n{\"event\":\"lose\"}\r\n", "2 accepted");
    check(b"{\"event\":\"win\"}\n{\"event\":\n{\"event\":\"lose\"}", "2 accepted; 1 invalid malformed_json");
    check(b"{\"event\":\"win\"}\n\xff\n", "1 accepted; 1 invalid malformed_json");
    check(b"[]\n7\n", "0 accepted; 0 invalid not_an_object; 1 invalid not_an_object");
    check(b"{\"events\":[]}", "0 accepted; 0 invalid unknown_field");
    check(b" \n ", "400 malformed");
}

#[test]
fn brotli_is_accepted() {
    let world = World::new();
    let request = Request::events(hex(BROTLI)).key(&world.public_key).header("Content-Encoding", "br");
    assert_eq!(world.send(&request).summary(), "1 accepted");
}

#[test]
fn chunked_body_is_accepted() {
    let world = World::new();
    let mut connection = world.connect();
    for size in [1, 7, 10_000] {
        let request = Request::events(r#"[{"event":"win"},{"event":"lose"}]"#).key(&world.public_key);
        connection.write(&request.chunked(size)).expect("it can be sent");
        assert_eq!(connection.answer().expect("an answer").summary(), "2 accepted", "chunks of {size}");
    }
}

#[test]
fn expect_continue_gets_100_or_the_error() {
    let world = World::new();
    let body = br#"{"event":"win"}"#;
    let expecting = Request::events("").header("Expect", "100-continue");
    let mut connection = world.connect();
    connection.write(&expecting.clone().key(&world.public_key).head(body.len())).expect("it can be sent");
    assert_eq!(connection.answer().expect("100 Continue").status, 100);
    connection.write(body).expect("it can be sent");
    assert_eq!(connection.answer().expect("an answer").summary(), "1 accepted");
    let mut connection = world.connect();
    connection.write(&expecting.key("pm_pk_wrong").head(body.len())).expect("it can be sent");
    assert_eq!(connection.answer().expect("an answer").summary(), "401 key");
}

#[test]
fn body_that_contradicts_its_headers_is_rejected() {
    let world = World::new();
    let body = br#"{"event":"win"}"#;
    let mut short = gzip(body);
    short.truncate(short.len() - 9);
    let mut wrong = gzip(body);
    let crc = wrong.len() - 8;
    wrong[crc] ^= 1;
    let rows: [(&str, &str, Vec<u8>, &str); 9] = [
        ("Content-Encoding", "gzip", body.to_vec(), "400 malformed (Content-Encoding)"),
        ("Content-Encoding", "gzip", short, "400 malformed (Content-Encoding)"),
        ("Content-Encoding", "gzip", wrong, "400 malformed (Content-Encoding)"),
        ("Content-Encoding", "br", b"not brotli at all".to_vec(), "400 malformed (Content-Encoding)"),
        ("Content-Encoding", "zstd", gzip(body), "400 malformed (Content-Encoding)"),
        ("Content-Encoding", "compress", body.to_vec(), "415 unsupported (Content-Encoding)"),
        ("Content-Encoding", "gzip, br", gzip(body), "415 unsupported (Content-Encoding)"),
        ("Content-Type", "application/xml", body.to_vec(), "415 unsupported (Content-Type)"),
        ("Content-Type", "multipart/form-data; boundary=x", body.to_vec(), "415 unsupported (Content-Type)"),
    ];
    for (name, value, body, expected) in rows {
        let request = Request::events(body).key(&world.public_key).header(name, value);
        assert_eq!(world.send(&request).summary(), expected, "{name}: {value}");
    }
    assert_eq!(world.load()["totals"]["received"], 0);
}

/// Small on the wire, but one byte over the decompressed limit. The brotli body was made by the reference encoder.
#[test]
fn decompression_bomb_is_rejected() {
    const BROTLI_BOMB: &str = "cbffff3ff82540e2b14020f7fe8fffff7ff04b00c4611180eefd1fffffffe0970088c30200ddfb3ffeff\
                               ffc12f0110870500baf77ffcffff835f02200e0b0074effff8ffff07bf04401c1600e8defff1ffff0f7e\
                               0980382c00d0bdffe3ffff1ffc1200715800a07bff0700802003";
    let world = World::new();
    let spaces = vec![b' '; (64 << 20) + 1];
    let bombs = [
        ("gzip", gzip(&spaces)),
        ("deflate", zlib(&spaces)),
        ("deflate", deflate(&spaces)),
        ("zstd", zstd(&spaces)),
        ("br", hex(BROTLI_BOMB)),
    ];
    for (encoding, bomb) in bombs {
        assert!(bomb.len() < 1 << 20);
        let request = Request::events(bomb).key(&world.public_key).header("Content-Encoding", encoding);
        assert_eq!(world.send(&request).summary(), "413 too_large", "{encoding}");
    }
    let mut largest = spaces;
    largest.truncate(64 << 20);
    largest[..15].copy_from_slice(br#"{"event":"win"}"#);
    let request = Request::events(gzip(&largest)).key(&world.public_key).header("Content-Encoding", "gzip");
    assert_eq!(world.send(&request).summary(), "1 accepted");
}

#[test]
fn any_origin_may_send_events_with_the_public_key() {
    let world = World::new();
    let preflight = Request::new("OPTIONS", "/v1/events")
        .header("Origin", "https://game.example")
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "authorization,content-encoding,content-type");
    let answer = world.send(&preflight);
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, Some("*")));
    let allowed = answer.header("access-control-allow-headers").expect("headers are allowed").to_lowercase();
    for header in ["authorization", "content-type", "content-encoding"] {
        assert!(allowed.contains(header), "{allowed}");
    }
    assert!(answer.header("access-control-allow-methods").expect("methods are allowed").contains("POST"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
    for (body, status) in [(r#"{"event":"win"}"#, 202), ("{", 400)] {
        let beacon = Request::events(body)
            .to(format!("/v1/events?key={}", world.public_key))
            .header("Content-Type", "text/plain")
            .header("Origin", "https://game.example");
        let answer = world.send(&beacon);
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (status, Some("*")));
    }
}

/// Resident memory of the server in bytes, at its highest.
pub(crate) fn peak_bytes(world: &mut World) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", world.pid().as_raw_nonzero()));
    let status = status.expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

#[test]
fn bodies_that_decompress_to_white_space_share_a_bounded_memory() {
    const CLIENTS: usize = 24;
    let mut world = World::new();
    let mut body = br#"[{"event":"win"}"#.to_vec();
    body.resize(63 << 20, b' ');
    body.push(b']');
    let request = Request::events(gzip(&body)).header("Content-Encoding", "gzip").key(&world.public_key);
    drop(body);
    let summaries: Vec<String> = std::thread::scope(|threads| {
        let send = || world.send(&request);
        let clients: Vec<_> = (0..CLIENTS).map(|_| threads.spawn(send)).collect();
        let answers = clients.into_iter().map(|client| client.join().expect("it is answered"));
        answers
            .map(|answer| {
                assert!(answer.status == 202 || answer.header("retry-after").is_some(), "{}", answer.text());
                answer.summary()
            })
            .collect()
    });
    let accepted = summaries.iter().filter(|summary| *summary == "1 accepted").count();
    let rejected = summaries.iter().filter(|summary| *summary == "503 overloaded").count();
    assert!(accepted > 0 && accepted + rejected == CLIENTS, "{summaries:?}");
    let peak = peak_bytes(&mut world);
    assert!(peak < 512 << 20, "{peak} bytes");
    assert_eq!(world.send(&request).summary(), "1 accepted", "the memory was returned");
    let small = Request::events(r#"{"event":"win"}"#).key(&world.public_key);
    assert_eq!(world.send(&small).summary(), "1 accepted");
}
