//! One open WebSocket with non-blocking reads and writes.
//!
//! An idle socket holds a few hundred bytes: reads go through a buffer of the thread, and buffers that grew for a large
//! message are freed after it.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::Interest;
use tungstenite::Utf8Bytes;
use tungstenite::error::{CapacityError, Error};
use tungstenite::protocol::frame::coding::{CloseCode, Data};
use tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig, WebSocketContext};

use super::frame_tracker::FrameTracker;
use super::send_queue::{FrameBuffer, SendQueue};
use super::transport::Transport;
use super::{ANONYMOUS_MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::body::Pace;
use crate::body_memory::{BodyMemory, ReservedMemory};

/// The bytes that one system call reads.
const READ_BYTES: usize = 16 << 10;
/// The read buffer of an idle connection.
const IDLE_BYTES: usize = 256;
/// The largest message after which the buffers are kept.
const KEPT_BYTES: u64 = 4096;
/// The unsent bytes above which no new message is handled.
const UNSENT_BYTES_MAX: usize = 64 << 10;
/// The time to wait for the peer when a connection is closed.
const LINGER: Duration = Duration::from_secs(2);

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// A message from the peer.
#[derive(Debug, PartialEq)]
pub enum SocketMessage {
    /// A text message, which is valid UTF-8.
    Text(Utf8Bytes),
    /// A binary message.
    Binary(Bytes),
}

/// The peer has closed the connection, or it violated the protocol and was sent a close frame.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SocketClosed(String);

impl SocketClosed {
    pub(crate) fn new(reason: &str) -> SocketClosed {
        SocketClosed(reason.to_owned())
    }
}

/// An open WebSocket.
pub struct Socket {
    transport: Transport,
    context: WebSocketContext,
    queue: SendQueue,
    tracker: FrameTracker,
    /// The memory of a message that is larger than [`KEPT_BYTES`], until the next one is received.
    reserved: ReservedMemory,
    /// The speed of an incomplete message.
    pace: Option<Pace>,
    /// True once the connection has a credential.
    is_authorized: bool,
    /// Received together with the handshake.
    early: Bytes,
    last_seen: Instant,
    /// The send buffer of the operating system is full.
    is_full: bool,
    closed: Option<SocketClosed>,
}

impl Socket {
    /// Returns the socket of a connection; `early` are the bytes that followed the handshake.
    pub(super) fn new(transport: Transport, early: Bytes, memory: &BodyMemory) -> Socket {
        Socket {
            transport,
            context: context(),
            queue: SendQueue::default(),
            tracker: FrameTracker::default(),
            reserved: ReservedMemory::new(memory),
            pace: None,
            is_authorized: false,
            early,
            last_seen: Instant::now(),
            is_full: false,
            closed: None,
        }
    }

    /// Accepts larger messages from now on: the connection has a credential.
    pub(crate) fn set_authorized(&mut self) {
        self.is_authorized = true;
    }

    /// Returns the time at which the rest of an incomplete message is too late.
    pub(crate) fn message_deadline(&self) -> Option<Instant> {
        self.pace.as_ref().map(|pace| pace.deadline().into_std())
    }

    /// Returns the time at which the peer last sent or received something.
    pub(crate) fn last_seen(&self) -> Instant {
        self.last_seen
    }

    /// Returns the number of bytes in the send queue.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.queue.len()
    }

    /// Returns true if more frames may be queued. Messages of a peer that does not read are not read either.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.len() <= UNSENT_BYTES_MAX
    }

    /// Queues encoded frames.
    pub(crate) fn push(&mut self, frames: Bytes) {
        self.queue.push(frames);
    }

    /// Queues a text message.
    pub(crate) fn send_text(&mut self, text: &str) {
        let mut frames = FrameBuffer::default();
        frames.text(text);
        self.push(frames.freeze());
    }

    /// Queues a message of either kind.
    pub fn send(&mut self, message: &SocketMessage) {
        let mut frames = FrameBuffer::default();
        match message {
            SocketMessage::Text(text) => frames.text(text),
            SocketMessage::Binary(bytes) => frames.data(Data::Binary, bytes),
        }
        self.push(frames.freeze());
    }

    /// Sends as much as the network accepts and returns the received messages; waits while it can do neither. Messages are
    /// received only if `is_receiving`; those received before must have been handled then. Cancel-safe.
    ///
    /// # Errors
    /// The connection is closed or the peer violated the protocol.
    pub async fn exchange(&mut self, is_receiving: bool) -> Result<Vec<SocketMessage>, SocketClosed> {
        self.flush()?;
        if let Some(closed) = self.closed.take() {
            return Err(closed);
        }
        if is_receiving && self.tracker.is_idle() {
            self.reserved.release();
        }
        let is_receiving = is_receiving && self.has_room();
        if is_receiving && !self.early.is_empty() {
            let early = std::mem::take(&mut self.early);
            return Ok(self.parse(&early));
        }
        if is_receiving && self.transport.has_received() {
            let messages = self.read()?;
            if !messages.is_empty() {
                return Ok(messages);
            }
        }
        let is_sent = self.queue.is_empty() && !self.transport.has_unsent();
        let interest = match (is_receiving, is_sent) {
            (true, true) => Interest::READABLE,
            (true, false) => Interest::READABLE | Interest::WRITABLE,
            (false, false) => Interest::WRITABLE,
            (false, true) => return std::future::pending().await,
        };
        let ready = self.transport.ready(interest).await.map_err(io_failure)?;
        self.flush()?;
        if is_receiving && ready.is_readable() { self.read() } else { Ok(Vec::new()) }
    }

    /// Sends queued bytes until the queue is empty or the network accepts no more.
    pub(crate) fn flush(&mut self) -> Result<(), SocketClosed> {
        while !self.queue.is_empty() {
            let (slices, count) = self.queue.slices();
            match self.transport.try_write_vectored(&slices[..count]) {
                Ok(count) => self.queue.advance(count),
                Err(failure) if failure.kind() == ErrorKind::WouldBlock => {
                    self.is_full = true;
                    return Ok(());
                }
                Err(failure) => return Err(io_failure(failure)),
            }
            // A full send buffer has room again, so the peer has received something.
            if std::mem::take(&mut self.is_full) {
                self.last_seen = Instant::now();
            }
        }
        match self.transport.try_flush() {
            Err(failure) if failure.kind() == ErrorKind::WouldBlock => self.is_full = true,
            flushed => flushed.map_err(io_failure)?,
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<SocketMessage>, SocketClosed> {
        SCRATCH.with_borrow_mut(|scratch| match self.transport.try_read(scratch) {
            Ok(0) => Err(SocketClosed("the peer closed the connection".into())),
            Ok(count) => Ok(self.parse(&scratch[..count])),
            Err(failure) if failure.kind() == ErrorKind::WouldBlock => Ok(Vec::new()),
            Err(failure) => Err(io_failure(failure)),
        })
    }

    /// Returns the messages that these bytes complete. The next exchange reports a close.
    fn parse(&mut self, bytes: &[u8]) -> Vec<SocketMessage> {
        self.last_seen = Instant::now();
        self.tracker.advance(bytes);
        if let Err((code, reason)) = self.admit_incomplete_message(bytes.len()) {
            self.closed = Some(SocketClosed(reason.to_owned()));
            self.close(code, reason);
            return Vec::new();
        }
        let mut messages = Vec::new();
        let mut pipe = Pipe { bytes, queue: &mut self.queue };
        loop {
            match self.context.read(&mut pipe) {
                Ok(Message::Text(text)) => messages.push(SocketMessage::Text(text)),
                Ok(Message::Binary(bytes)) => messages.push(SocketMessage::Binary(bytes)),
                // `tungstenite` answers control frames itself.
                Ok(_) => {}
                Err(Error::Io(failure)) if failure.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.closed = Some(SocketClosed(error.to_string()));
                    if let Some(code) = close_code(&error) {
                        self.close(code, "");
                    }
                    break;
                }
            }
        }
        if self.closed.is_none() && self.tracker.is_idle_after_message_over(KEPT_BYTES) {
            (self.context, self.tracker) = (context(), FrameTracker::default());
        }
        messages
    }

    /// Checks the size of an incomplete message of which these bytes have arrived, and reserves its memory before it is
    /// allocated.
    fn admit_incomplete_message(&mut self, bytes: usize) -> Result<(), (CloseCode, &'static str)> {
        if self.tracker.is_idle() {
            self.pace = None;
            return Ok(());
        }
        self.pace.get_or_insert_with(Pace::start).add(bytes);
        let received = self.tracker.received_bytes();
        if !self.is_authorized && received > ANONYMOUS_MESSAGE_BYTES_MAX {
            return Err((CloseCode::Size, "a message before a credential must be 65536 bytes or smaller"));
        }
        if received <= KEPT_BYTES {
            return Ok(());
        }
        // `tungstenite` rejects larger ones.
        let received = usize::try_from(received).unwrap_or(usize::MAX).min(MESSAGE_BYTES_MAX);
        let busy = (CloseCode::Again, "other requests use the memory for messages; connect again later");
        self.reserved.grow_ahead(received).map_err(|_| busy)
    }

    /// Queues a close frame.
    pub(crate) fn close(&mut self, code: CloseCode, reason: &'static str) {
        let mut pipe = Pipe { bytes: &[], queue: &mut self.queue };
        let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
        // Fails if a close frame was queued before.
        let _ = self.context.close(&mut pipe, Some(frame));
    }

    /// Sends the queued bytes, closes the sending side and waits up to 2 s for the peer to close. Dropping a connection
    /// with unread input would reset it, and the last frames would be lost.
    pub async fn finish(&mut self) {
        let ending = async {
            while !self.queue.is_empty() {
                self.transport.ready(Interest::WRITABLE).await.map_err(io_failure)?;
                self.flush()?;
            }
            self.transport.shutdown().await.map_err(io_failure)?;
            self.transport.discard().await.map_err(io_failure)
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

/// Returns the close code for an error of the peer (RFC 6455, section 7.4.1), or `None` for other errors.
fn close_code(error: &Error) -> Option<CloseCode> {
    match error {
        Error::Protocol(_) => Some(CloseCode::Protocol),
        Error::Utf8(_) => Some(CloseCode::Invalid),
        Error::Capacity(CapacityError::MessageTooLong { .. }) => Some(CloseCode::Size),
        _ => None,
    }
}

fn io_failure(failure: io::Error) -> SocketClosed {
    SocketClosed(failure.to_string())
}

/// The stream that `tungstenite` reads received bytes from and writes frames to.
struct Pipe<'a> {
    bytes: &'a [u8],
    queue: &'a mut SendQueue,
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
        self.queue.push(Bytes::copy_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
