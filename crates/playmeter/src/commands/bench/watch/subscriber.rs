//! A subscriber: its socket, its place in the script and the numbers that it received.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::buffer::spare_capacity;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};

use super::frame::{Frame, FrameError, Opcode};
use super::script::Script;
use super::sequence::{NumberField, SequenceState};
use crate::commands::bench::response::HttpResponse;

/// DDP has pings of its own.
const DDP_PING: &[u8] = br#"{"msg":"ping""#;
/// A longer response to the handshake is an error.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;

/// The settings that all subscribers share.
#[derive(Clone, Debug)]
pub(crate) struct SubscriberPlan {
    pub(crate) address: SocketAddr,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) key: Option<String>,
    pub(crate) subscribers: usize,
    /// Number of loopback source addresses, used in turn.
    pub(crate) addresses: u8,
    pub(crate) script: Script,
    pub(crate) field: NumberField,
}

/// The content of some received bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceivedCounts {
    pub(crate) messages: u64,
    pub(crate) pings: u64,
    /// True if the subscription became ready.
    pub(crate) became_ready: bool,
    /// The first and the last number.
    pub(crate) numbers: Option<(u64, u64)>,
}

/// The reason why a subscriber was lost.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubscriberError {
    #[error("{0}")]
    Socket(#[from] Errno),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("the server closed the connection")]
    Ended,
    #[error("the server closed the connection: {0}")]
    Closed(String),
    #[error("the WebSocket handshake failed: {0}")]
    Handshake(String),
    #[error("the subscription was rejected: {0}")]
    Rejected(String),
}

#[derive(Debug, PartialEq)]
enum SubscriberStage {
    Handshake,
    /// Waits for the response to a step.
    Script(usize),
    Subscribed,
}

#[derive(Debug)]
pub(crate) struct Subscriber {
    number: usize,
    stage: SubscriberStage,
    /// Closed when dropped.
    pub(crate) socket: OwnedFd,
    /// The start of an incomplete frame.
    partial: Vec<u8>,
    /// Unsent bytes.
    output: Vec<u8>,
    pub(crate) state: SequenceState,
}

impl Subscriber {
    /// Starts to connect. The handshake is sent when the socket becomes writable.
    pub(crate) fn connect(plan: &SubscriberPlan, number: usize) -> rustix::io::Result<Subscriber> {
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
        let (partial, output, state) = (Vec::new(), plan.handshake(), SequenceState::default());
        Ok(Subscriber { number, stage: SubscriberStage::Handshake, socket, partial, output, state })
    }

    /// Returns true if there are unsent bytes.
    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Sends as much as the socket accepts.
    pub(crate) fn flush(&mut self) -> Result<(), SubscriberError> {
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

    /// Reads up to the capacity of `buffer`. Returns the content and the number of bytes.
    pub(crate) fn read(
        &mut self,
        plan: &SubscriberPlan,
        buffer: &mut Vec<u8>,
    ) -> Result<(ReceivedCounts, u64), SubscriberError> {
        buffer.clear();
        match rustix::io::read(&self.socket, spare_capacity(buffer)) {
            Ok(0) => Err(SubscriberError::Ended),
            Ok(bytes) => Ok((self.receive(plan, buffer)?, bytes as u64)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Default::default()),
            Err(error) => Err(error.into()),
        }
    }

    /// Handles received bytes. Usually they are complete frames, which are parsed without copying.
    fn receive(&mut self, plan: &SubscriberPlan, bytes: &[u8]) -> Result<ReceivedCounts, SubscriberError> {
        if self.partial.is_empty() {
            let (used, received) = self.handle_frames(plan, bytes)?;
            self.partial.extend_from_slice(&bytes[used..]);
            return Ok(received);
        }
        let mut bytes_so_far = std::mem::take(&mut self.partial);
        bytes_so_far.extend_from_slice(bytes);
        let (used, received) = self.handle_frames(plan, &bytes_so_far)?;
        if used < bytes_so_far.len() {
            bytes_so_far.drain(..used);
            self.partial = bytes_so_far;
        }
        Ok(received)
    }

    fn handle_frames(
        &mut self,
        plan: &SubscriberPlan,
        bytes: &[u8],
    ) -> Result<(usize, ReceivedCounts), SubscriberError> {
        let (mut used, mut received) = (0, ReceivedCounts::default());
        if self.stage == SubscriberStage::Handshake {
            let Some(length) = handshake_length(bytes)? else { return Ok((0, received)) };
            used = length;
            self.start_step(plan, 0, &mut received);
        }
        while let Some(frame) = Frame::parse(&bytes[used..])? {
            let payload = &bytes[used + frame.payload.start..used + frame.payload.end];
            match frame.opcode {
                Opcode::Text | Opcode::Binary => self.handle_message(plan, payload, &mut received)?,
                Opcode::Ping => self.reply(Opcode::Pong, payload, &mut received),
                Opcode::Close => return Err(SubscriberError::Closed(close_reason(payload))),
                Opcode::Pong => {}
            }
            used += frame.length;
        }
        self.flush()?;
        Ok((used, received))
    }

    fn handle_message(
        &mut self,
        plan: &SubscriberPlan,
        message: &[u8],
        received: &mut ReceivedCounts,
    ) -> Result<(), SubscriberError> {
        received.messages += 1;
        if message.starts_with(DDP_PING) {
            let pong = [br#"{"msg":"pong""#, &message[DDP_PING.len()..]].concat();
            self.reply(Opcode::Text, &pong, received);
        }
        if let Some(number) = plan.field.find(message) {
            self.state.add(number);
            let first = received.numbers.map_or(number, |(first, _)| first);
            received.numbers = Some((first, number));
        }
        match self.stage {
            SubscriberStage::Script(_) if Script::is_rejection(message) => {
                Err(SubscriberError::Rejected(excerpt(message)))
            }
            SubscriberStage::Script(step) if plan.script.is_response(step, message) => {
                self.start_step(plan, step + 1, received);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Sends the message of a step. After the last step, the subscriber is ready.
    fn start_step(&mut self, plan: &SubscriberPlan, step: usize, received: &mut ReceivedCounts) {
        match plan.script.message(step, self.number) {
            Some(message) => {
                Frame::write(Opcode::Text, message.as_bytes(), &mut self.output);
                self.stage = SubscriberStage::Script(step);
            }
            None => {
                self.stage = SubscriberStage::Subscribed;
                received.became_ready = true;
            }
        }
    }

    fn reply(&mut self, opcode: Opcode, payload: &[u8], received: &mut ReceivedCounts) {
        received.pings += 1;
        Frame::write(opcode, payload, &mut self.output);
    }
}

impl SubscriberPlan {
    fn handshake(&self) -> Vec<u8> {
        let authorization =
            self.key.as_ref().map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        // The example key of RFC 6455. A load generator does not need to verify the response to it.
        format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{authorization}\r\n",
            self.path, self.host
        )
        .into_bytes()
    }
}

/// Returns the length of a successful response to the handshake, or `None` if it is incomplete.
fn handshake_length(bytes: &[u8]) -> Result<Option<usize>, SubscriberError> {
    let failed = || SubscriberError::Handshake(excerpt(bytes));
    if let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n")
        && bytes.starts_with(b"HTTP/1.1 101 ")
    {
        return Ok(Some(end + 4));
    }
    match HttpResponse::parse(bytes, false) {
        Ok(None) if bytes.len() < HANDSHAKE_BYTES_MAX => Ok(None),
        Ok(_) | Err(_) => Err(failed()),
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

/// Returns the start of the bytes as printable text.
fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).trim().replace(['\r', '\n'], " ")
}
