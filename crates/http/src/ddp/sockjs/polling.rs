//! SockJS connections over requests: the session in memory between the requests of its client.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use pipeline::catalog::address_group;

use super::{HEARTBEAT, OPEN, close};
use crate::problem::Problem;
use crate::ws::{SocketClosed, SocketMessage};

/// Received bytes of a session that are not handled yet. No message of the client can be larger.
pub(super) const INBOX_BYTES_MAX: usize = 64 << 10;
/// The unsent bytes above which nothing new is handled.
const UNSENT_BYTES_MAX: usize = 64 << 10;
/// Sessions of all clients.
const SESSIONS_MAX: usize = 1_000;
/// Sessions of one address (IPv6: one /64).
const SESSIONS_PER_ADDRESS_MAX: usize = 32;
/// The interval of heartbeats while a request waits.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(25);
/// The time for which a closed session waits for the request that fetches the reason.
const LINGER: Duration = Duration::from_secs(5);

/// The sessions of all clients, by name.
#[derive(Default)]
pub struct SockJsSessions {
    table: Mutex<SessionTable>,
}

#[derive(Default)]
struct SessionTable {
    sessions: HashMap<String, Arc<PollingSession>>,
    by_address: HashMap<Option<IpAddr>, usize>,
}

impl SockJsSessions {
    /// Returns the session of this name and, if it is new, its connection. A name that another address uses is rejected.
    pub(super) fn open(
        self: &Arc<Self>,
        name: &str,
        address: Option<IpAddr>,
    ) -> Result<(Arc<PollingSession>, Option<PollingConnection>), Problem> {
        let address = address.map(address_group);
        let mut table = self.table.lock();
        if let Some(session) = table.sessions.get(name) {
            if session.address != address {
                return Err(Problem::forbidden("another address uses this session").field("session"));
            }
            return Ok((Arc::clone(session), None));
        }
        if table.sessions.len() >= SESSIONS_MAX {
            let detail = format!("the server has {SESSIONS_MAX} SockJS sessions without a WebSocket");
            return Err(Problem::overloaded(detail).retry_after_s(10));
        }
        let of_address = table.by_address.entry(address).or_default();
        if *of_address >= SESSIONS_PER_ADDRESS_MAX {
            let detail =
                format!("an address may have {SESSIONS_PER_ADDRESS_MAX} SockJS sessions without a WebSocket");
            return Err(Problem::quota_exceeded(detail).retry_after_s(10));
        }
        *of_address += 1;
        let session = Arc::new(PollingSession::new(address));
        table.sessions.insert(name.to_owned(), Arc::clone(&session));
        drop(table);
        let connection = PollingConnection {
            session: Arc::clone(&session),
            sessions: Arc::clone(self),
            name: name.to_owned(),
        };
        Ok((session, Some(connection)))
    }

    /// Returns the session of this name if this address opened it.
    pub(super) fn find(&self, name: &str, address: Option<IpAddr>) -> Option<Arc<PollingSession>> {
        let table = self.table.lock();
        let session = table.sessions.get(name)?;
        (session.address == address.map(address_group)).then(|| Arc::clone(session))
    }

    fn remove(&self, name: &str) {
        let mut table = self.table.lock();
        let Some(session) = table.sessions.remove(name) else { return };
        if let Some(count) = table.by_address.get_mut(&session.address) {
            *count -= 1;
            if *count == 0 {
                table.by_address.remove(&session.address);
            }
        }
    }
}

/// A session, shared by its connection and the requests of its client.
pub(super) struct PollingSession {
    address: Option<IpAddr>,
    state: Mutex<PollingState>,
    /// Notified when messages were received or sent.
    connection_wake: Notify,
    /// Notified when there is something to send.
    poll_wake: Notify,
}

struct PollingState {
    inbox: VecDeque<String>,
    inbox_bytes: usize,
    /// The messages to send, as JSON strings joined by commas.
    outbox: String,
    /// The frame that ends the session.
    end: Option<String>,
    is_open: bool,
    is_polled: bool,
    /// The client has fetched the end.
    is_ended: bool,
    last_seen: Instant,
}

impl PollingSession {
    fn new(address: Option<IpAddr>) -> PollingSession {
        let state = PollingState {
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            outbox: String::new(),
            end: None,
            is_open: false,
            is_polled: false,
            is_ended: false,
            last_seen: Instant::now(),
        };
        PollingSession {
            address,
            state: Mutex::new(state),
            connection_wake: Notify::new(),
            poll_wake: Notify::new(),
        }
    }

    /// Returns the frames for a request. Only one request at a time may wait for frames.
    pub(super) fn poll(self: &Arc<Self>) -> Poll {
        let mut state = self.state.lock();
        state.last_seen = Instant::now();
        let is_second = std::mem::replace(&mut state.is_polled, true);
        Poll { session: Arc::clone(self), is_second, is_over: false }
    }

    /// Accepts messages of the client.
    pub(super) fn receive(&self, messages: Vec<String>) -> Result<(), Problem> {
        let mut state = self.state.lock();
        let bytes: usize = messages.iter().map(String::len).sum();
        if state.inbox_bytes + bytes > INBOX_BYTES_MAX {
            let detail = format!("{INBOX_BYTES_MAX} bytes of this session's messages are not handled yet");
            return Err(Problem::overloaded(detail).retry_after_s(1));
        }
        state.inbox_bytes += bytes;
        state.inbox.extend(messages);
        state.last_seen = Instant::now();
        drop(state);
        self.connection_wake.notify_one();
        Ok(())
    }
}

impl PollingState {
    /// Returns the next frame and true if it ends the session.
    fn next_frame(&mut self) -> Option<(String, bool)> {
        if !std::mem::replace(&mut self.is_open, true) {
            return Some((OPEN.to_owned(), false));
        }
        if !self.outbox.is_empty() {
            return Some((format!("a[{}]", std::mem::take(&mut self.outbox)), false));
        }
        let end = self.end.clone()?;
        self.is_ended = true;
        Some((end, true))
    }
}

/// The frames of a session for one request.
pub(super) struct Poll {
    session: Arc<PollingSession>,
    /// Another request waits already.
    is_second: bool,
    is_over: bool,
}

impl Poll {
    /// Waits for the next frame and returns it with its line end.
    pub(super) async fn next_frame(&mut self) -> String {
        format!("{}\n", self.wait().await)
    }

    /// Returns true after the last frame of the session.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    async fn wait(&mut self) -> String {
        if self.is_second {
            self.is_over = true;
            return close(2010, "Another connection still open");
        }
        let heartbeat = tokio::time::sleep(HEARTBEAT_INTERVAL);
        tokio::pin!(heartbeat);
        loop {
            let next = {
                let mut state = self.session.state.lock();
                state.last_seen = Instant::now();
                state.next_frame()
            };
            if let Some((frame, is_over)) = next {
                self.is_over = is_over;
                self.session.connection_wake.notify_one();
                return frame;
            }
            tokio::select! {
                () = self.session.poll_wake.notified() => {}
                () = &mut heartbeat => return HEARTBEAT.to_owned(),
            }
        }
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        if !self.is_second {
            let mut state = self.session.state.lock();
            (state.is_polled, state.last_seen) = (false, Instant::now());
        }
    }
}

/// The server's side of a session. Dropping it removes the session.
pub(in crate::ddp) struct PollingConnection {
    session: Arc<PollingSession>,
    sessions: Arc<SockJsSessions>,
    name: String,
}

impl PollingConnection {
    pub(in crate::ddp) fn last_seen(&self) -> Instant {
        self.session.state.lock().last_seen
    }

    pub(in crate::ddp) fn unsent_bytes(&self) -> usize {
        self.session.state.lock().outbox.len()
    }

    pub(in crate::ddp) fn has_room(&self) -> bool {
        self.unsent_bytes() <= UNSENT_BYTES_MAX
    }

    pub(in crate::ddp) fn send_text(&mut self, text: &str) {
        let mut state = self.session.state.lock();
        if !state.outbox.is_empty() {
            state.outbox.push(',');
        }
        state.outbox.push_str(&serde_json::Value::from(text).to_string());
        drop(state);
        self.session.poll_wake.notify_one();
    }

    /// Returns the received messages, or nothing after messages were sent. Cancel-safe.
    pub(in crate::ddp) async fn exchange(
        &mut self,
        is_receiving: bool,
    ) -> Result<Vec<SocketMessage>, SocketClosed> {
        let had_unsent = self.unsent_bytes() > 0;
        loop {
            {
                let mut state = self.session.state.lock();
                if is_receiving && !state.inbox.is_empty() {
                    state.inbox_bytes = 0;
                    let received = std::mem::take(&mut state.inbox);
                    return Ok(received.into_iter().map(|text| SocketMessage::Text(text.into())).collect());
                }
                if had_unsent && state.outbox.is_empty() {
                    return Ok(Vec::new());
                }
            }
            self.session.connection_wake.notified().await;
        }
    }

    /// Ends the session, unless it has ended already.
    pub(in crate::ddp) fn close(&mut self, code: u16, reason: &str) {
        self.session.state.lock().end.get_or_insert_with(|| close(code, reason));
        self.session.poll_wake.notify_one();
    }

    /// Waits until the client has fetched the end, for a limited time.
    pub(in crate::ddp) async fn finish(&mut self) {
        self.close(1000, "the session has ended");
        let fetched = async {
            while !self.session.state.lock().is_ended {
                self.session.connection_wake.notified().await;
            }
        };
        let _ = tokio::time::timeout(LINGER, fetched).await;
    }
}

impl Drop for PollingConnection {
    fn drop(&mut self) {
        // A runtime that stops drops its sessions; requests on other runtimes may still wait for them.
        self.close(1001, "the server is stopping");
        self.sessions.remove(&self.name);
    }
}
