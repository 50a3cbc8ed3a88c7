//! One open WebSocket that never waits: what came in is taken, what is to be sent is handed over as far as it goes.
//!
//! An idle socket holds a few hundred bytes: what is read goes through a buffer of the thread, and large messages leave
//! nothing behind.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tungstenite::Utf8Bytes;
use tungstenite::error::{CapacityError, Error};
use tungstenite::protocol::frame::coding::{CloseCode, Data};
use tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig, WebSocketContext};

use super::MESSAGE_BYTES_MAX;
use super::boundary::Boundary;
use super::outbox::{Frames, Outbox};

/// What one call of the operating system reads.
const READ_BYTES: usize = 16 << 10;
/// What the protocol holds of its own while nothing comes.
const IDLE_BYTES: usize = 256;
/// A frame larger than this leaves no buffer of its size behind.
const KEPT_BYTES: u64 = 4096;
/// With more than this waiting to be sent, nothing more is begun.
const UNSENT_BYTES_MAX: usize = 64 << 10;
/// The end of a connection waits so long for the other side.
const LINGER: Duration = Duration::from_secs(2);

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// A message of the peer.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    /// Text, which is UTF-8.
    Text(Utf8Bytes),
    /// Anything else.
    Binary(Bytes),
}

/// The peer has left, or broke the protocol and was told so.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Gone(String);

/// An open WebSocket.
pub struct Socket {
    stream: TcpStream,
    context: WebSocketContext,
    outbox: Outbox,
    boundary: Boundary,
    /// Came with the handshake.
    early: Bytes,
    heard: Instant,
    /// The network takes no more at the moment.
    is_full: bool,
    ended: Option<Gone>,
}

impl Socket {
    /// The socket of a connection on which these bytes followed the handshake.
    pub(super) fn new(stream: TcpStream, early: Bytes) -> Socket {
        Socket {
            stream,
            context: context(),
            outbox: Outbox::default(),
            boundary: Boundary::default(),
            early,
            heard: Instant::now(),
            is_full: false,
            ended: None,
        }
    }

    /// When there was the last sign of life.
    pub fn heard(&self) -> Instant {
        self.heard
    }

    /// Bytes that wait to be sent.
    pub fn unsent(&self) -> usize {
        self.outbox.len()
    }

    /// Whether more may be put in line. Who does not read gets no answers, and is not listened to.
    pub fn has_room(&self) -> bool {
        self.outbox.len() <= UNSENT_BYTES_MAX
    }

    /// Puts frames in line.
    pub fn push(&mut self, frames: Bytes) {
        self.outbox.push(frames);
    }

    /// Puts a text message in line.
    pub fn text(&mut self, text: &str) {
        let mut frames = Frames::default();
        frames.text(text);
        self.push(frames.freeze());
    }

    /// Puts a message in line as it came.
    pub fn send(&mut self, message: &Incoming) {
        let mut frames = Frames::default();
        match message {
            Incoming::Text(text) => frames.text(text),
            Incoming::Binary(bytes) => frames.data(Data::Binary, bytes),
        }
        self.push(frames.freeze());
    }

    /// Sends as much as the network takes, and returns what has come in; waits while it can do neither. Dropped half
    /// way, it loses nothing. `listens`: whether anything is to come in.
    pub async fn exchange(&mut self, listens: bool) -> Result<Vec<Incoming>, Gone> {
        self.flush()?;
        if let Some(gone) = self.ended.take() {
            return Err(gone);
        }
        let listens = listens && self.has_room();
        if listens && !self.early.is_empty() {
            let early = std::mem::take(&mut self.early);
            return Ok(self.understand(&early));
        }
        let interest = match (listens, self.outbox.is_empty()) {
            (true, true) => Interest::READABLE,
            (true, false) => Interest::READABLE | Interest::WRITABLE,
            (false, false) => Interest::WRITABLE,
            (false, true) => return std::future::pending().await,
        };
        let ready = self.stream.ready(interest).await.map_err(gone)?;
        self.flush()?;
        if listens && ready.is_readable() { self.read() } else { Ok(Vec::new()) }
    }

    /// Hands over what waits, as far as the network takes it.
    pub fn flush(&mut self) -> Result<(), Gone> {
        while !self.outbox.is_empty() {
            let (slices, count) = self.outbox.slices();
            match self.stream.try_write_vectored(&slices[..count]) {
                Ok(count) => self.outbox.sent(count),
                Err(failure) if failure.kind() == ErrorKind::WouldBlock => {
                    self.is_full = true;
                    return Ok(());
                }
                Err(failure) => return Err(gone(failure)),
            }
            // Room where there was none: the peer has taken something.
            if std::mem::take(&mut self.is_full) {
                self.heard = Instant::now();
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<Incoming>, Gone> {
        SCRATCH.with_borrow_mut(|scratch| match self.stream.try_read(scratch) {
            Ok(0) => Err(Gone("the peer has closed the connection".into())),
            Ok(count) => Ok(self.understand(&scratch[..count])),
            Err(failure) if failure.kind() == ErrorKind::WouldBlock => Ok(Vec::new()),
            Err(failure) => Err(gone(failure)),
        })
    }

    /// The messages that end in these bytes. An end is told with the next exchange.
    fn understand(&mut self, bytes: &[u8]) -> Vec<Incoming> {
        self.heard = Instant::now();
        self.boundary.pass(bytes);
        let mut messages = Vec::new();
        let mut pipe = Pipe { bytes, outbox: &mut self.outbox };
        loop {
            match self.context.read(&mut pipe) {
                Ok(Message::Text(text)) => messages.push(Incoming::Text(text)),
                Ok(Message::Binary(bytes)) => messages.push(Incoming::Binary(bytes)),
                // Answered by the protocol itself.
                Ok(_) => {}
                Err(Error::Io(failure)) if failure.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.ended = Some(Gone(error.to_string()));
                    if let Some(code) = fault(&error) {
                        self.close(code, "");
                    }
                    break;
                }
            }
        }
        if self.ended.is_none() && self.boundary.leaves_more_than(KEPT_BYTES) {
            (self.context, self.boundary) = (context(), Boundary::default());
        }
        messages
    }

    /// Puts a closing frame in line.
    pub fn close(&mut self, code: CloseCode, reason: &'static str) {
        let mut pipe = Pipe { bytes: &[], outbox: &mut self.outbox };
        let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
        // It fails if there was one before.
        let _ = self.context.close(&mut pipe, Some(frame));
    }

    /// Sends what waits, and gives the peer time to read it: a connection with something unread in it would be reset,
    /// and the last frames lost.
    pub async fn finish(&mut self) {
        let ending = async {
            while !self.outbox.is_empty() {
                self.stream.writable().await.map_err(gone)?;
                self.flush()?;
            }
            self.stream.shutdown().await.map_err(gone)?;
            let mut rest = vec![0; 512];
            while self.stream.read(&mut rest).await.map_err(gone)? > 0 {}
            Ok::<_, Gone>(())
        };
        let _ = tokio::time::timeout(LINGER, ending).await;
    }
}

fn context() -> WebSocketContext {
    let config = WebSocketConfig::default()
        .read_buffer_size(IDLE_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(usize::MAX)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    WebSocketContext::new(Role::Server, Some(config))
}

/// The code by which a peer is told what it did wrong (RFC 6455, section 7.4.1); none: it did nothing wrong.
fn fault(error: &Error) -> Option<CloseCode> {
    match error {
        Error::Protocol(_) => Some(CloseCode::Protocol),
        Error::Utf8(_) => Some(CloseCode::Invalid),
        Error::Capacity(CapacityError::MessageTooLong { .. }) => Some(CloseCode::Size),
        _ => None,
    }
}

fn gone(failure: io::Error) -> Gone {
    Gone(failure.to_string())
}

/// What the protocol reads from and writes to.
struct Pipe<'a> {
    bytes: &'a [u8],
    outbox: &'a mut Outbox,
}

impl Read for Pipe<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match Read::read(&mut self.bytes, into)? {
            0 => Err(ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outbox.push(Bytes::copy_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
