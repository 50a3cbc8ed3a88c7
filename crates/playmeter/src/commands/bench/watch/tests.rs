//! Complete runs against a small server in this process.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;

use clap::Parser;

use super::*;

#[derive(clap::Parser)]
struct WatchCommandLine {
    #[command(flatten)]
    args: WatchArgs,
}

/// Returns the messages that a server sends to each subscriber for update `n`.
type Messages = fn(u64) -> Vec<String>;

struct TestServer {
    messages: Messages,
    /// The response to a subscription.
    subscribe_response: &'static str,
    updates: Mutex<u64>,
    sockets: Mutex<Vec<TcpStream>>,
}

/// Starts a server that accepts updates at any path and sends messages to all subscribers.
fn server(subscribe_response: &'static str, messages: Messages) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let server = Arc::new(TestServer {
        messages,
        subscribe_response,
        updates: Mutex::default(),
        sockets: Mutex::default(),
    });
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = Arc::clone(&server);
            std::thread::spawn(move || server.serve(stream));
        }
    });
    format!("http://{address}")
}

impl TestServer {
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
        let mut updates = self.updates.lock().expect("no thread panics while it holds the lock");
        *updates += 1;
        let sockets = self.sockets.lock().expect("no thread panics while it holds the lock");
        for (message, mut socket) in
            (self.messages)(*updates).iter().flat_map(|message| sockets.iter().map(move |s| (message, s)))
        {
            let _ = socket.write_all(&framed(message));
        }
    }

    fn subscribe(&self, mut stream: TcpStream, mut reader: BufReader<TcpStream>) -> Option<()> {
        stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n").ok()?;
        assert!(next_message(&mut reader)?.contains(r#""msg":"connect""#));
        // In two parts, as on a network.
        let connected = framed(r#"{"msg":"connected","session":"s"}"#);
        stream.write_all(&connected[..7]).ok()?;
        std::thread::sleep(Duration::from_millis(2));
        stream.write_all(&connected[7..]).ok()?;
        assert!(next_message(&mut reader)?.contains(r#""msg":"sub""#));
        stream.write_all(&framed(r#"{"msg":"ping","id":"p"}"#)).ok()?;
        assert_eq!(next_message(&mut reader)?, r#"{"msg":"pong","id":"p"}"#);
        self.sockets.lock().expect("no thread panics while it holds the lock").push(stream.try_clone().ok()?);
        stream.write_all(&framed(self.subscribe_response)).ok()?;
        while next_message(&mut reader).is_some() {}
        None
    }
}

/// A message that stands for the close frame.
const END: &str = "end";

fn framed(text: &str) -> Vec<u8> {
    if text == END {
        return vec![0x88, 2, 0x03, 0xe9];
    }
    let length = u8::try_from(text.len()).expect("tests send short messages");
    assert!(length < 126, "tests send short messages");
    [&[0x81, length], text.as_bytes()].concat()
}

/// Returns the next message of a client.
fn next_message(reader: &mut BufReader<TcpStream>) -> Option<String> {
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

fn prepare(line: &str) -> anyhow::Result<WatchBench> {
    let words = ["watch"].into_iter().chain(line.split_whitespace());
    WatchBench::prepare(&WatchCommandLine::try_parse_from(words).expect("arguments").args)
}

fn measure(url: &str) -> anyhow::Result<WatchReport> {
    let options = "--subscribers 20 --rate 100 --warmup 0.05 --seconds 0.2 --grace 1.5";
    prepare(&format!("--url {url} {options}"))?.run()
}

/// Checks deliveries, merged numbers and errors.
#[track_caller]
fn check(messages: Messages, expected: (u64, u64, &str)) {
    let report = measure(&server(READY, messages)).expect("the run ends");
    let errors = report.errors().join("; ");
    assert_eq!((report.delivered.deliveries, report.delivered.merged), (expected.0, expected.1), "{errors}");
    assert!(errors.contains(expected.2) && errors.is_empty() == expected.2.is_empty(), "{errors}");
}

#[test]
fn all_subscribers_receive_all_updates_in_order() {
    check(|n| vec![changed(n)], (400, 0, ""));
}

#[test]
fn merged_states_are_counted_and_are_not_an_error() {
    check(|n| if n % 5 == 0 { vec![changed(n)] } else { vec![] }, (80, 320, ""));
}

#[test]
fn subscriber_that_fell_behind_fails_the_run() {
    check(
        |n| if n < 25 { vec![changed(n)] } else { vec![] },
        (380, 0, "not all subscribers have the newest state"),
    );
}

#[test]
fn repeated_number_fails_the_run() {
    check(|n| vec![changed(n), changed(n)], (400, 0, "were repeated or out of order"));
}

#[test]
fn lost_subscriber_fails_the_run() {
    check(
        |n| if n == 20 { vec![END.into()] } else { vec![changed(n)] },
        (0, 0, "the server closed the connection: 1001"),
    );
}

#[test]
fn rejected_subscription_is_an_error_with_the_reason() {
    let nosub = r#"{"msg":"nosub","id":"1","error":{"error":403,"reason":"no scope"}}"#;
    let error = measure(&server(nosub, |_| vec![])).expect_err("the subscription is rejected").to_string();
    assert!(error.contains("were rejected") && error.contains("\"reason\":\"no scope\""), "{error}");
}

#[track_caller]
fn check_error(line: &str, expected: &str) {
    let error = prepare(line).expect_err("it is an error").to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn invalid_arguments_are_errors_with_a_hint() {
    let url = server(READY, |_| vec![]);
    check_error("--url http://127.0.0.1:1", "start the server first");
    check_error("--subscribers 0", "--subscribers must be between 1");
    check_error("--rate NaN", "must be 0 or greater");
    check_error("--path websocket", "--path must be a path");
    check_error(&format!("--url {url} --what {{"), "--what is not valid JSON");
    check_error(&format!("--url {url} --post updates"), "--post must be a path, or tcp://HOST:PORT");
    check_error(&format!("--url {url} --script /nowhere"), "reading /nowhere");
}
