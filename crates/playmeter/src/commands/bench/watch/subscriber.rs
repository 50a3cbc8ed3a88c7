//! One subscriber: a socket, what it said, and what it has seen.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::buffer::spare_capacity;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};

use super::frame::{BadFrame, Frame, Opcode};
use super::script::Script;
use super::state::{Field, Seen};
use crate::commands::bench::answer::Answer;

/// DDP asks in messages of its own whether a client is there.
const DDP_PING: &[u8] = br#"{"msg":"ping""#;
/// An answer to the handshake beyond this is none.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;

/// What all subscribers have in common.
#[derive(Clone, Debug)]
pub struct Plan {
    pub address: SocketAddr,
    pub host: String,
    pub path: String,
    pub key: Option<String>,
    pub subscribers: usize,
    /// Loopback addresses to come from, in turn.
    pub addresses: u8,
    pub script: Script,
    pub field: Field,
}

/// What came of some bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    pub messages: u64,
    pub pings: u64,
    /// It began to watch.
    pub watches: bool,
    /// The first and the last of the numbers that grew.
    pub grew: Option<(u64, u64)>,
}

/// Why a subscriber is no more.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    #[error("{0}")]
    Socket(#[from] Errno),
    #[error("{0}")]
    Frame(#[from] BadFrame),
    #[error("the server closed the connection")]
    Ended,
    #[error("the server closed the connection: {0}")]
    Closed(String),
    #[error("no WebSocket: {0}")]
    Handshake(String),
    #[error("refused: {0}")]
    Refused(String),
}

#[derive(Debug, PartialEq)]
enum Stage {
    Handshake,
    /// Waits for the answer of a step.
    Script(usize),
    Watching,
}

#[derive(Debug)]
pub struct Subscriber {
    number: usize,
    stage: Stage,
    /// Closed when dropped.
    pub socket: OwnedFd,
    /// What has come of a message that is not complete.
    rest: Vec<u8>,
    /// What the socket has not taken yet.
    output: Vec<u8>,
    pub seen: Seen,
}

impl Subscriber {
    /// Begins to connect; the handshake is sent when the socket takes it.
    pub fn connect(plan: &Plan, number: usize) -> rustix::io::Result<Subscriber> {
        let family = if plan.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        if plan.addresses > 1 {
            let last = 1 + (number % plan.addresses as usize) as u8;
            let source = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 0);
            rustix::net::bind(&socket, &source)?;
        }
        match rustix::net::connect(&socket, &plan.address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        let (rest, output, seen) = (Vec::new(), plan.handshake(), Seen::default());
        Ok(Subscriber { number, stage: Stage::Handshake, socket, rest, output, seen })
    }

    /// Whether there is something that waits for the socket to take it.
    pub fn waits_for_room(&self) -> bool {
        !self.output.is_empty()
    }

    /// Sends what waits, as far as the socket takes it.
    pub fn flush(&mut self) -> Result<(), Lost> {
        while !self.output.is_empty() {
            match rustix::net::send(&self.socket, &self.output, SendFlags::NOSIGNAL) {
                Ok(bytes) if bytes == self.output.len() => self.output = Vec::new(),
                Ok(bytes) => drop(self.output.drain(..bytes)),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads what is there, at most as much as `buffer` has room for. Returns the bytes read, too.
    pub fn read(&mut self, plan: &Plan, buffer: &mut Vec<u8>) -> Result<(Heard, u64), Lost> {
        buffer.clear();
        match rustix::io::read(&self.socket, spare_capacity(buffer)) {
            Ok(0) => Err(Lost::Ended),
            Ok(bytes) => Ok((self.hear(plan, buffer)?, bytes as u64)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Default::default()),
            Err(error) => Err(error.into()),
        }
    }

    /// Most of the time a message comes whole, and is read where it is.
    fn hear(&mut self, plan: &Plan, bytes: &[u8]) -> Result<Heard, Lost> {
        if self.rest.is_empty() {
            let (used, heard) = self.understand(plan, bytes)?;
            self.rest.extend_from_slice(&bytes[used..]);
            return Ok(heard);
        }
        let mut whole = std::mem::take(&mut self.rest);
        whole.extend_from_slice(bytes);
        let (used, heard) = self.understand(plan, &whole)?;
        if used < whole.len() {
            whole.drain(..used);
            self.rest = whole;
        }
        Ok(heard)
    }

    fn understand(&mut self, plan: &Plan, bytes: &[u8]) -> Result<(usize, Heard), Lost> {
        let (mut used, mut heard) = (0, Heard::default());
        if self.stage == Stage::Handshake {
            let Some(length) = handshake_length(bytes)? else { return Ok((0, heard)) };
            used = length;
            self.go_on(plan, 0, &mut heard);
        }
        while let Some(frame) = Frame::read(&bytes[used..])? {
            let payload = &bytes[used + frame.payload.start..used + frame.payload.end];
            match frame.opcode {
                Opcode::Text | Opcode::Binary => self.take(plan, payload, &mut heard)?,
                Opcode::Ping => self.answer(Opcode::Pong, payload, &mut heard),
                Opcode::Close => return Err(Lost::Closed(close_reason(payload))),
                Opcode::Pong => {}
            }
            used += frame.length;
        }
        self.flush()?;
        Ok((used, heard))
    }

    fn take(&mut self, plan: &Plan, message: &[u8], heard: &mut Heard) -> Result<(), Lost> {
        heard.messages += 1;
        if message.starts_with(DDP_PING) {
            let pong = [br#"{"msg":"pong""#, &message[DDP_PING.len()..]].concat();
            self.answer(Opcode::Text, &pong, heard);
        }
        if let Some(number) = plan.field.find(message) {
            self.seen.take(number);
            let first = heard.grew.map_or(number, |(first, _)| first);
            heard.grew = Some((first, number));
        }
        match self.stage {
            Stage::Script(_) if Script::is_refusal(message) => Err(Lost::Refused(excerpt(message))),
            Stage::Script(step) if plan.script.is_answered(step, message) => {
                self.go_on(plan, step + 1, heard);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Says the next of the script; at its end it watches.
    fn go_on(&mut self, plan: &Plan, step: usize, heard: &mut Heard) {
        match plan.script.say(step, self.number) {
            Some(message) => {
                Frame::write(Opcode::Text, message.as_bytes(), &mut self.output);
                self.stage = Stage::Script(step);
            }
            None => {
                self.stage = Stage::Watching;
                heard.watches = true;
            }
        }
    }

    fn answer(&mut self, opcode: Opcode, payload: &[u8], heard: &mut Heard) {
        heard.pings += 1;
        Frame::write(opcode, payload, &mut self.output);
    }
}

impl Plan {
    fn handshake(&self) -> Vec<u8> {
        let authorization =
            self.key.as_ref().map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        // The key is the one of RFC 6455; a measuring tool has no use for the proof that goes with it.
        format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{authorization}\r\n",
            self.path, self.host
        )
        .into_bytes()
    }
}

/// How long the answer to the handshake is, when it is there and it is yes.
fn handshake_length(bytes: &[u8]) -> Result<Option<usize>, Lost> {
    let not_http = || Lost::Handshake(excerpt(bytes));
    if let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n")
        && bytes.starts_with(b"HTTP/1.1 101 ")
    {
        return Ok(Some(end + 4));
    }
    match Answer::read(bytes, false) {
        Ok(None) if bytes.len() < HANDSHAKE_BYTES_MAX => Ok(None),
        Ok(_) | Err(_) => Err(not_http()),
    }
}

fn close_reason(payload: &[u8]) -> String {
    match payload {
        [high, low, reason @ ..] => {
            format!("{} {}", u16::from_be_bytes([*high, *low]), excerpt(reason)).trim_end().to_owned()
        }
        _ => "without a reason".to_owned(),
    }
}

/// The beginning of what came, to be shown.
fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).trim().replace(['\r', '\n'], " ")
}
