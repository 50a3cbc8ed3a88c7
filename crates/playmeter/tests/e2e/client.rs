//! A minimal HTTP client: tests control every byte on the wire, and nothing is added or hidden.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// The longest time that the server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A request to send.
#[derive(Clone)]
pub(crate) struct Request {
    method: &'static str,
    target: String,
    host: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &'static str, target: impl Into<String>) -> Request {
        let host = "localhost".to_owned();
        Request { method, target: target.into(), host, headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn get(target: impl Into<String>) -> Request {
        Request::new("GET", target)
    }

    /// A request that sends events in any form.
    pub(crate) fn events(body: impl AsRef<[u8]>) -> Request {
        Request::new("POST", "/v1/events").body(body)
    }

    pub(crate) fn to(mut self, target: impl Into<String>) -> Request {
        self.target = target.into();
        self
    }

    pub(crate) fn host(mut self, host: &str) -> Request {
        self.host = host.to_owned();
        self
    }

    pub(crate) fn key(self, key: &str) -> Request {
        self.header("Authorization", &format!("Bearer {key}"))
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn body(mut self, body: impl AsRef<[u8]>) -> Request {
        self.body = body.as_ref().to_vec();
        self
    }

    /// The head alone, for tests that send the body themselves.
    pub(crate) fn head(&self, content_length: usize) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", self.method, self.target, self.host);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {content_length}\r\n\r\n");
        head.into_bytes()
    }

    /// The whole request.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.head(self.body.len()), self.body.clone()].concat()
    }

    /// The whole request with its body in chunks of this size and without a length.
    pub(crate) fn chunked(self, size: usize) -> Vec<u8> {
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

/// A keep-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Connection> {
        Connection::over(TcpStream::connect_timeout(&address, TIMEOUT)?)
    }

    /// Connects to this address from an address of this machine.
    pub(crate) fn open_from(source: Ipv4Addr, address: SocketAddr) -> io::Result<Connection> {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddr::from((source, 0)))?;
        connect(&socket, &address)?;
        Connection::over(TcpStream::from(socket))
    }

    fn over(stream: TcpStream) -> io::Result<Connection> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, unread: Vec::new() })
    }

    pub(crate) fn send(&mut self, request: &Request) -> io::Result<Answer> {
        self.write(&request.bytes())?;
        self.answer()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads the next answer; of a stream, only its head.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let head_len = loop {
            if let Some(at) = self.unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            self.read_more()?;
        };
        let head: Vec<u8> = self.unread.drain(..head_len).collect();
        let mut answer = Answer::from_head(&String::from_utf8_lossy(&head));
        let body_len = answer.header("content-length").map_or(0, |len| len.parse().expect("a length"));
        while self.unread.len() < body_len {
            self.read_more()?;
        }
        answer.body = self.unread.drain(..body_len).collect();
        Ok(answer)
    }

    /// Reads a body that is sent in chunks, behind its head. Fails if it ends early.
    pub(crate) fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = loop {
                if let Some(at) = self.unread.windows(2).position(|bytes| bytes == b"\r\n") {
                    break self.unread.drain(..at + 2).collect::<Vec<u8>>();
                }
                self.read_more()?;
            };
            let size = std::str::from_utf8(&line[..line.len() - 2]).ok();
            let size =
                size.and_then(|size| usize::from_str_radix(size, 16).ok()).expect("the size of a chunk");
            while self.unread.len() < size + 2 {
                self.read_more()?;
            }
            body.extend(self.unread.drain(..size));
            self.unread.drain(..2);
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn read_more(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 << 10];
        match read(&mut self.stream, &mut bytes)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            len => {
                self.unread.extend_from_slice(&bytes[..len]);
                Ok(())
            }
        }
    }

    /// The same connection, for a thread that writes or to shut it down.
    pub(crate) fn writer(&self) -> TcpStream {
        self.stream.try_clone().expect("a descriptor can be duplicated")
    }

    /// Waits for the end of the connection and returns true if the server closed it without sending anything.
    pub(crate) fn is_closed_silently(&mut self) -> bool {
        let mut bytes = [0; 1];
        match read(&mut self.stream, &mut bytes) {
            Ok(len) => len == 0,
            Err(failure) => failure.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

/// With a timeout set, the kernel does not restart an interrupted read.
fn read(stream: &mut TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(bytes) {
            Err(failure) if failure.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// An answer of the server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    fn from_head(head: &str) -> Answer {
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        Answer { status: status.expect("a status line"), headers: headers.collect(), body: Vec::new() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The log position of the receipt.
    pub(crate) fn position(&self) -> u64 {
        let receipt = self.json();
        let position = receipt["position"].as_str().and_then(|text| text.strip_prefix("0/"));
        position.and_then(|offset| offset.parse().ok()).expect("a receipt has a position")
    }

    /// Checks the answer and summarizes it: `3 accepted`, `1 accepted; 0 invalid unknown_field`,
    /// `400 malformed`, `401 key (Authorization)`.
    pub(crate) fn summary(&self) -> String {
        match self.status {
            202 => self.receipt(),
            200 | 204 | 303 => self.status.to_string(),
            _ => self.problem(),
        }
    }

    fn receipt(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/json"));
        let receipt = self.json();
        let mut summary = format!("{} accepted", receipt["accepted"]);
        let mut counts: std::collections::BTreeMap<&str, u64> = Default::default();
        for result in receipt["results"].as_array().expect("results is a list") {
            let text = |field: &str| result[field].as_str().expect("a word");
            summary += &format!("; {} {} {}", result["i"], text("outcome"), text("reason"));
            *counts.entry(text("outcome")).or_default() += 1;
        }
        for outcome in ["duplicate", "invalid", "late", "limited"] {
            let count = counts.get(outcome).copied().unwrap_or_default();
            assert_eq!(receipt[outcome], count, "{outcome} in {receipt}");
        }
        summary
    }

    fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        let text = |field: &str| problem[field].as_str().unwrap_or_default();
        assert!(!text("title").is_empty() && !text("detail").is_empty(), "{problem}");
        let kind = text("type").strip_prefix("/problems/").expect("every problem has a type");
        let retry = self.header("retry-after").is_some();
        assert_eq!(retry, matches!(self.status, 429 | 503), "Retry-After of {problem}");
        match text("field") {
            "" => format!("{} {kind}", self.status),
            field => format!("{} {kind} ({field})", self.status),
        }
    }
}
