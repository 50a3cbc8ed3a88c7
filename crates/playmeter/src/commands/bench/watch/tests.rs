//! Whole runs against a small server in this process.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;

use clap::Parser;

use super::*;

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    args: WatchArgs,
}

/// What a server tells its subscribers of update `n`, one message each; it sends them all.
type Tell = fn(u64) -> Vec<String>;

struct Served {
    tell: Tell,
    /// What it answers to a subscription.
    to_sub: &'static str,
    updates: Mutex<u64>,
    sockets: Mutex<Vec<TcpStream>>,
}

/// A server that takes updates at any path and tells whoever subscribed.
fn server(to_sub: &'static str, tell: Tell) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let served = Arc::new(Served { tell, to_sub, updates: Mutex::default(), sockets: Mutex::default() });
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let served = Arc::clone(&served);
            std::thread::spawn(move || served.serve(stream));
        }
    });
    format!("http://{address}")
}

impl Served {
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        loop {
            let (mut line, mut length) = (String::new(), 0);
            reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
            let is_update = line.starts_with("POST");
            while line != "\r\n" {
                line.clear();
                reader.read_line(&mut line).ok()?;
                length = line
                    .strip_prefix("Content-Length: ")
                    .map_or(length, |text| text.trim().parse().unwrap_or(0));
            }
            if !is_update {
                return self.subscribe(stream, reader);
            }
            reader.read_exact(&mut vec![0; length]).ok()?;
            self.publish();
            stream.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").ok()?;
        }
    }

    fn publish(&self) {
        let mut updates = self.updates.lock().expect("nobody panics with it");
        *updates += 1;
        let sockets = self.sockets.lock().expect("nobody panics with it");
        for (message, mut socket) in
            (self.tell)(*updates).iter().flat_map(|message| sockets.iter().map(move |s| (message, s)))
        {
            let _ = socket.write_all(&framed(message));
        }
    }

    fn subscribe(&self, mut stream: TcpStream, mut reader: BufReader<TcpStream>) -> Option<()> {
        stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n").ok()?;
        assert!(heard(&mut reader)?.contains(r#""msg":"connect""#));
        // In two parts, as a network may bring it.
        let connected = framed(r#"{"msg":"connected","session":"s"}"#);
        stream.write_all(&connected[..7]).ok()?;
        std::thread::sleep(Duration::from_millis(2));
        stream.write_all(&connected[7..]).ok()?;
        assert!(heard(&mut reader)?.contains(r#""msg":"sub""#));
        stream.write_all(&framed(r#"{"msg":"ping","id":"p"}"#)).ok()?;
        assert_eq!(heard(&mut reader)?, r#"{"msg":"pong","id":"p"}"#);
        self.sockets.lock().expect("nobody panics with it").push(stream.try_clone().ok()?);
        stream.write_all(&framed(self.to_sub)).ok()?;
        while heard(&mut reader).is_some() {}
        None
    }
}

/// Stands for the frame that ends a connection.
const END: &str = "end";

fn framed(text: &str) -> Vec<u8> {
    if text == END {
        return vec![0x88, 2, 0x03, 0xe9];
    }
    let length = u8::try_from(text.len()).expect("tests send short messages");
    assert!(length < 126, "tests send short messages");
    [&[0x81, length], text.as_bytes()].concat()
}

/// The next message of a client.
fn heard(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = [0; 2];
    reader.read_exact(&mut head).ok()?;
    let length = match head[1] & 0x7f {
        126 => {
            let mut length = [0; 2];
            reader.read_exact(&mut length).ok()?;
            u16::from_be_bytes(length).into()
        }
        short => usize::from(short),
    };
    let (mut mask, mut payload) = ([0; 4], vec![0; length]);
    reader.read_exact(&mut mask).ok()?;
    reader.read_exact(&mut payload).ok()?;
    let plain = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
    String::from_utf8(plain.collect()).ok()
}

const READY: &str = r#"{"msg":"ready","subs":["1"]}"#;

fn changed(total: u64) -> String {
    format!(r#"{{"msg":"changed","fields":{{"total":{total}}}}}"#)
}

fn prepare(words: &str) -> anyhow::Result<Watch> {
    let words = ["watch"].into_iter().chain(words.split_whitespace());
    Watch::prepare(&Command::try_parse_from(words).expect("arguments").args)
}

fn measure(url: &str) -> anyhow::Result<Report> {
    let often = "--subscribers 20 --rate 100 --warmup 0.05 --seconds 0.2 --grace 1.5";
    prepare(&format!("--url {url} {often}"))?.run()
}

/// Deliveries, numbers merged, and what was wrong.
#[track_caller]
fn check(tell: Tell, expected: (u64, u64, &str)) {
    let report = measure(&server(READY, tell)).expect("the run ends");
    let wrong = report.wrong().join("; ");
    assert_eq!((report.seen.deliveries, report.seen.merged), (expected.0, expected.1), "{wrong}");
    assert!(wrong.contains(expected.2) && wrong.is_empty() == expected.2.is_empty(), "{wrong}");
}

#[test]
fn everybody_gets_every_update_in_order() {
    check(|n| vec![changed(n)], (400, 0, ""));
}

#[test]
fn merged_states_are_counted_and_no_mistake() {
    check(|n| if n % 5 == 0 { vec![changed(n)] } else { vec![] }, (80, 320, ""));
}

#[test]
fn a_subscriber_that_is_behind_fails_the_run() {
    check(|n| if n < 25 { vec![changed(n)] } else { vec![] }, (380, 0, "not everybody has the newest state"));
}

#[test]
fn a_number_that_comes_twice_fails_the_run() {
    check(|n| vec![changed(n), changed(n)], (400, 0, "came twice or out of order"));
}

#[test]
fn a_lost_subscriber_fails_the_run() {
    check(
        |n| if n == 20 { vec![END.into()] } else { vec![changed(n)] },
        (0, 0, "the server closed the connection: 1001"),
    );
}

#[test]
fn a_subscription_that_is_refused_says_why() {
    let nosub = r#"{"msg":"nosub","id":"1","error":{"error":403,"reason":"no scope"}}"#;
    let error = measure(&server(nosub, |_| vec![])).expect_err("nobody may watch").to_string();
    assert!(error.contains("were turned away") && error.contains("\"reason\":\"no scope\""), "{error}");
}

#[track_caller]
fn check_refused(words: &str, expected: &str) {
    let error = prepare(words).expect_err("it is refused").to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_do() {
    let url = server(READY, |_| vec![]);
    check_refused("--url http://127.0.0.1:1", "start the server first");
    check_refused("--subscribers 0", "--subscribers is from 1");
    check_refused("--rate NaN", "numbers from 0 on");
    check_refused("--path websocket", "--path is a path");
    check_refused(&format!("--url {url} --what {{"), "--what is no JSON");
    check_refused(&format!("--url {url} --post updates"), "--post is a path, or tcp://HOST:PORT");
    check_refused(&format!("--url {url} --script /nowhere"), "reading /nowhere");
}
