//! A client of a few lines, so that a test says what is on the wire and nothing is added or hidden.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// No answer of the server may take longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request that is yet to be sent.
#[derive(Clone)]
pub struct Request {
    method: &'static str,
    target: String,
    host: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub fn new(method: &'static str, target: impl Into<String>) -> Request {
        let host = "playmeter.test".to_owned();
        Request { method, target: target.into(), host, headers: Vec::new(), body: Vec::new() }
    }

    pub fn get(target: impl Into<String>) -> Request {
        Request::new("GET", target)
    }

    /// Events in whatever form.
    pub fn events(body: impl AsRef<[u8]>) -> Request {
        Request::new("POST", "/v1/events").body(body)
    }

    pub fn to(mut self, target: impl Into<String>) -> Request {
        self.target = target.into();
        self
    }

    pub fn host(mut self, host: &str) -> Request {
        self.host = host.to_owned();
        self
    }

    pub fn key(self, key: &str) -> Request {
        self.header("Authorization", &format!("Bearer {key}"))
    }

    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(mut self, body: impl AsRef<[u8]>) -> Request {
        self.body = body.as_ref().to_vec();
        self
    }

    /// The head alone, for those who send the body in a way of their own.
    pub fn head(&self, content_length: usize) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", self.method, self.target, self.host);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {content_length}\r\n\r\n");
        head.into_bytes()
    }

    /// The whole request.
    pub fn bytes(&self) -> Vec<u8> {
        [self.head(self.body.len()), self.body.clone()].concat()
    }

    /// The whole request with its body in chunks of this size, so that its length is not known beforehand.
    pub fn chunked(self, size: usize) -> Vec<u8> {
        let body = self.body.clone();
        let head =
            String::from_utf8(self.header("Transfer-Encoding", "chunked").head(0)).expect("it is text");
        let mut bytes = head.replace("Content-Length: 0\r\n", "").into_bytes();
        for chunk in body.chunks(size) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes
    }
}

/// A connection that is kept alive.
pub struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, unread: Vec::new() })
    }

    pub fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        self.send(&request.bytes())?;
        self.answer()
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next answer. That of a stream ends with its head.
    pub fn answer(&mut self) -> io::Result<Answer> {
        let head_len = loop {
            if let Some(at) = self.unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            self.more()?;
        };
        let head: Vec<u8> = self.unread.drain(..head_len).collect();
        let mut answer = Answer::of_head(&String::from_utf8_lossy(&head));
        let body_len = answer.header("content-length").map_or(0, |len| len.parse().expect("a length"));
        while self.unread.len() < body_len {
            self.more()?;
        }
        answer.body = self.unread.drain(..body_len).collect();
        Ok(answer)
    }

    fn more(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 << 10];
        match read(&mut self.stream, &mut bytes)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            len => {
                self.unread.extend_from_slice(&bytes[..len]);
                Ok(())
            }
        }
    }

    /// The same connection for a thread that writes, or to be shut.
    pub fn writer(&self) -> TcpStream {
        self.stream.try_clone().expect("a descriptor can be doubled")
    }

    /// Whether the server has closed this connection without a word; waits for it.
    pub fn is_closed_silently(&mut self) -> bool {
        let mut bytes = [0; 1];
        match read(&mut self.stream, &mut bytes) {
            Ok(len) => len == 0,
            Err(failure) => failure.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

/// With a time-out set, the kernel does not go on by itself after an interruption.
fn read(stream: &mut TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(bytes) {
            Err(failure) if failure.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// What the server said.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    fn of_head(head: &str) -> Answer {
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        Answer { status: status.expect("a status line"), headers: headers.collect(), body: Vec::new() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The log's end as the receipt tells it.
    pub fn position(&self) -> u64 {
        let receipt = self.json();
        let position = receipt["position"].as_str().and_then(|text| text.strip_prefix("0/"));
        position.and_then(|offset| offset.parse().ok()).expect("a receipt has a position")
    }

    /// The answer in words, everything else about it checked: `3 accepted`,
    /// `1 accepted; 0 invalid unknown_field`, `400 malformed`, `401 key (Authorization)`.
    pub fn told(&self) -> String {
        match self.status {
            202 => self.receipt(),
            200 | 204 | 303 => self.status.to_string(),
            _ => self.problem(),
        }
    }

    fn receipt(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/json"));
        let receipt = self.json();
        let mut told = format!("{} accepted", receipt["accepted"]);
        let mut counts: std::collections::BTreeMap<&str, u64> = Default::default();
        for result in receipt["results"].as_array().expect("results is a list") {
            let word = |field: &str| result[field].as_str().expect("a word");
            told += &format!("; {} {} {}", result["i"], word("outcome"), word("reason"));
            *counts.entry(word("outcome")).or_default() += 1;
        }
        for outcome in ["duplicate", "invalid", "late", "limited"] {
            let count = counts.get(outcome).copied().unwrap_or_default();
            assert_eq!(receipt[outcome], count, "{outcome} in {receipt}");
        }
        told
    }

    fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        let word = |field: &str| problem[field].as_str().unwrap_or_default();
        assert!(!word("title").is_empty() && !word("detail").is_empty(), "{problem}");
        let kind = word("type").strip_prefix("/problems/").expect("every problem has a type");
        let retry = self.header("retry-after").is_some();
        assert_eq!(retry, matches!(self.status, 429 | 503), "Retry-After of {problem}");
        match word("field") {
            "" => format!("{} {kind}", self.status),
            field => format!("{} {kind} ({field})", self.status),
        }
    }
}
