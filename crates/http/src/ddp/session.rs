//! One DDP connection, from its first message to its last.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};
use tracing::debug;

use decode::ddp::ClientMessage;
use live::DocumentSubscription;
use pipeline::random;
use pipeline::shutdown::wait_for_stop;

use super::Credential;
use super::connection::Connection;
use super::messages::{self, DdpError};
use super::methods::{MethodCall, MethodResult, MethodRouter};
use super::publications::parse_subscription;
use super::subscriptions::{SUBSCRIPTIONS_MAX, Subscriptions};
use crate::AppState;
use crate::api::json::from_json;
use crate::api::query::rejected_problem;
use crate::api::watch::subscriber_key;
use crate::problem::Problem;
use crate::ws::{CloseCode, SocketClosed, SocketMessage};

/// The heartbeats without a sign of life after which a connection is closed. A new connection must send `connect` in the
/// same time.
const IDLE_HEARTBEATS_MAX: u32 = 2;
/// The methods of a connection that may run at once.
const METHODS_MAX: usize = 16;
/// The largest parameters of one subscription.
const PARAMS_BYTES_MAX: usize = 16 << 10;

/// A method that is running: its id and the future of its result.
type PendingMethod = (String, Pin<Box<dyn Future<Output = MethodResult> + Send>>);

/// A DDP connection.
pub(super) struct Session {
    shared: Arc<AppState>,
    /// The routes that methods call.
    routes: MethodRouter,
    credential: Credential,
    subscriptions: Subscriptions,
    methods: Vec<PendingMethod>,
    /// Received messages that are not handled yet.
    backlog: VecDeque<SocketMessage>,
    /// Notified when a subscription may have changes.
    wake: Arc<Notify>,
    /// The version of the catalog against which access was last checked.
    access_checked_at: u64,
    is_connected: bool,
    opened_at: Instant,
    pinged_at: Instant,
}

/// The reason why a session ends.
enum SessionEnd {
    /// The connection is closed already.
    Closed(SocketClosed),
    /// The server closes the connection.
    Close(CloseCode, &'static str),
}

impl From<SocketClosed> for SessionEnd {
    fn from(closed: SocketClosed) -> SessionEnd {
        SessionEnd::Closed(closed)
    }
}

impl Session {
    pub(super) fn new(shared: Arc<AppState>, routes: MethodRouter, credential: Credential) -> Session {
        let now = Instant::now();
        let access_checked_at = shared.catalog.revision();
        Session {
            shared,
            routes,
            credential,
            subscriptions: Subscriptions::default(),
            methods: Vec::new(),
            backlog: VecDeque::new(),
            wake: Arc::new(Notify::new()),
            access_checked_at,
            is_connected: false,
            opened_at: now,
            pinged_at: now,
        }
    }

    /// Serves the connection until either side closes it. Both arguments are boxed, because a future stores its arguments
    /// twice.
    pub(super) async fn serve(mut self: Box<Self>, mut socket: Box<Connection>) {
        let mut stopping = self.shared.stopping.clone();
        if self.credential.is_some() {
            socket.set_authorized();
        }
        loop {
            match self.exchange(&mut socket, &mut stopping).await {
                Ok(()) => {}
                Err(SessionEnd::Closed(closed)) => {
                    debug!(reason = %closed, "WebSocket closed");
                    break;
                }
                Err(SessionEnd::Close(code, reason)) => {
                    self.finish_methods(&mut socket).await;
                    socket.close(code, reason);
                    break;
                }
            }
        }
        drop(self);
        socket.finish().await;
    }

    /// Waits for all running methods and sends their results.
    async fn finish_methods(&mut self, socket: &mut Connection) {
        while !self.methods.is_empty() {
            let (id, result) = next_finished(&mut self.methods).await;
            self.send_result(socket, &id, result);
        }
    }

    /// Handles the backlog, sends new changes, then waits for messages, changes, results or a deadline.
    async fn exchange(
        &mut self,
        socket: &mut Connection,
        stopping: &mut watch::Receiver<bool>,
    ) -> Result<(), SessionEnd> {
        self.check_heartbeat(socket)?;
        while self.has_room(socket)
            && let Some(message) = self.backlog.pop_front()
        {
            // Boxed: there are many connections, and few of them are handling a message at any moment.
            Box::pin(self.handle_message(socket, &message)).await?;
        }
        self.push_changes(socket);
        socket.flush()?;
        let is_receiving = self.backlog.is_empty();
        let wake_at = self.wake_at(socket);
        tokio::select! {
            received = socket.exchange(is_receiving) => self.backlog.extend(received?),
            () = self.wake.notified() => {}
            (id, result) = next_finished(&mut self.methods) => self.send_result(socket, &id, result),
            () = tokio::time::sleep_until(wake_at.into()) => {}
            () = wait_for_stop(stopping) => return Err(SessionEnd::Close(CloseCode::Away, "the server is stopping")),
        }
        Ok(())
    }

    /// Returns true if another message may be handled: running methods and unsent responses are bounded.
    fn has_room(&self, socket: &Connection) -> bool {
        self.methods.len() < METHODS_MAX && socket.has_room()
    }

    fn check_heartbeat(&mut self, socket: &mut Connection) -> Result<(), SessionEnd> {
        let now = Instant::now();
        if socket.message_deadline().is_some_and(|deadline| now >= deadline) {
            return Err(SessionEnd::Close(CloseCode::Policy, "the message arrives too slowly"));
        }
        if now >= self.timeout_at(socket) {
            let reason = if self.is_connected { "heartbeat timeout" } else { "no `connect` message" };
            return Err(SessionEnd::Close(CloseCode::Policy, reason));
        }
        if now >= self.pinged_at + self.heartbeat() {
            self.pinged_at = now;
            if self.is_connected {
                socket.send_text(messages::ping());
            }
            // A key may have expired since the last check.
            self.check_access(socket);
        }
        Ok(())
    }

    /// Returns the time at which the connection is closed if the peer stays silent.
    fn timeout_at(&self, socket: &Connection) -> Instant {
        let alive = if self.is_connected { socket.last_seen() } else { self.opened_at };
        alive + IDLE_HEARTBEATS_MAX * self.heartbeat()
    }

    fn heartbeat(&self) -> Duration {
        self.shared.settings.heartbeat
    }

    /// Returns the next deadline: a timeout, a ping or a due change.
    fn wake_at(&self, socket: &Connection) -> Instant {
        let wake_at = self.timeout_at(socket).min(self.pinged_at + self.heartbeat());
        // Changes are not sent while the connection is blocked, so they set no deadline then.
        let due = if socket.unsent_bytes() == 0 { self.subscriptions.due() } else { None };
        due.into_iter().chain(socket.message_deadline()).fold(wake_at, Instant::min)
    }

    /// Queues new changes once all earlier frames have been sent.
    fn push_changes(&mut self, socket: &mut Connection) {
        if self.shared.catalog.revision() != self.access_checked_at {
            self.check_access(socket);
        }
        if socket.unsent_bytes() > 0 {
            return;
        }
        let epoch = self.shared.live.epoch();
        while socket.has_room()
            && let Some(frames) = self.subscriptions.take_next(epoch)
        {
            frames.into_iter().for_each(|frames| socket.push(frames));
        }
    }

    /// Ends the subscriptions that the credential no longer has access to: a key was revoked, expired or replaced.
    fn check_access(&mut self, socket: &mut Connection) {
        self.access_checked_at = self.shared.catalog.revision();
        if self.subscriptions.len() > 0 {
            let access = self.credential.access(&self.shared.catalog);
            self.subscriptions.close_denied(&access).into_iter().for_each(|frames| socket.push(frames));
        }
    }

    async fn handle_message(
        &mut self,
        socket: &mut Connection,
        message: &SocketMessage,
    ) -> Result<(), SessionEnd> {
        let SocketMessage::Text(text) = message else {
            socket.send_text(&messages::error("binary messages are not supported: send text", ""));
            return Ok(());
        };
        match ClientMessage::read(text) {
            Err(malformed) => socket.send_text(&messages::error(&malformed.to_string(), text)),
            Ok(ClientMessage::Connect { version, support }) => {
                return self.connect(socket, &version, &support);
            }
            Ok(_) if !self.is_connected => socket.send_text(&messages::error("send `connect` first", text)),
            Ok(ClientMessage::Ping { id }) => socket.send_text(&messages::pong(id.as_deref())),
            Ok(ClientMessage::Pong) => {}
            Ok(ClientMessage::Sub { id, name, params }) => self.subscribe(socket, &id, &name, &params).await,
            Ok(ClientMessage::Unsub { id }) => socket.push(self.subscriptions.close(&id)),
            Ok(ClientMessage::Method { id, method, params }) => {
                self.call_method(socket, id, &method, &params).await
            }
        }
        Ok(())
    }

    fn connect(
        &mut self,
        socket: &mut Connection,
        version: &str,
        support: &[String],
    ) -> Result<(), SessionEnd> {
        if self.is_connected {
            socket.send_text(&messages::error("already connected", ""));
            return Ok(());
        }
        // A client that also supports version 1 reconnects and proposes it.
        if version != messages::VERSION || !(support.is_empty() || support.iter().any(|it| it == version)) {
            socket.send_text(&messages::failed());
            return Err(SessionEnd::Close(CloseCode::Normal, "only DDP version 1 is supported"));
        }
        self.is_connected = true;
        self.pinged_at = Instant::now();
        socket.send_text(&messages::connected(&random::token(12)));
        Ok(())
    }

    async fn subscribe(&mut self, socket: &mut Connection, id: &str, name: &str, params: &[&RawValue]) {
        // A repeated `sub` with the id of an open subscription is ignored.
        if self.subscriptions.has(id) {
            return;
        }
        if let Err(error) = self.try_subscribe(id, name, params).await {
            socket.send_text(&messages::nosub(id, Some(&error)));
        }
    }

    async fn try_subscribe(&mut self, id: &str, name: &str, params: &[&RawValue]) -> Result<(), DdpError> {
        let access = self.credential.access(&self.shared.catalog)?;
        if params.iter().map(|param| param.get().len()).sum::<usize>() > PARAMS_BYTES_MAX {
            return Err(Problem::too_large(format!("must be {PARAMS_BYTES_MAX} bytes or smaller"))
                .field("params")
                .into());
        }
        let request = parse_subscription(&self.shared, &self.credential, &access, name, params)?;
        if self.subscriptions.len() >= SUBSCRIPTIONS_MAX {
            let detail = format!("a connection may have at most {SUBSCRIPTIONS_MAX} subscriptions");
            return Err(Problem::quota_exceeded(detail).into());
        }
        let holder = subscriber_key(&access, self.credential.address());
        let permit = self
            .shared
            .live
            .admit(holder, 1)
            .map_err(|refused| Problem::quota_exceeded(refused.to_string()))?;
        let mut permit = Some(permit);
        if self.subscriptions.join(id, &request, &access, &mut permit)? {
            return Ok(());
        }
        let Some(permit) = permit else { return Ok(()) };
        let shared = &self.shared;
        shared.views.caught_up(shared.log.durable_until()).await.map_err(Problem::from)?;
        let (live, game, wake) = (Arc::clone(&shared.live), Arc::clone(&access.game), Arc::clone(&self.wake));
        let (topic, options, resume) = (request.topic.clone(), request.options, request.resume.clone());
        let (number, is_slow) = (game.number, live.is_slow_to_open(&game, &topic));
        let open = move || DocumentSubscription::open(&live, &game, topic, options, resume.as_ref(), &wake);
        let watch = match is_slow {
            true => shared.queries.run(number, |_| open()).await.map_err(rejected_problem)?,
            false => open(),
        };
        let watch = watch.map_err(|refused| Problem::overloaded(refused.to_string()))?;
        if request.resume.is_some() && !watch.is_resumed() {
            return Err(DdpError::resume_expired());
        }
        self.subscriptions.open(id, request, &access, watch, permit);
        Ok(())
    }

    /// Starts a method. Methods start in the order in which they arrive; they may finish in another order.
    async fn call_method(&mut self, socket: &mut Connection, id: String, name: &str, params: &[&RawValue]) {
        if name == "login" {
            let result = self.login(params);
            if result.is_ok() {
                socket.set_authorized();
            }
            self.check_access(socket);
            return self.send_result(socket, &id, result);
        }
        match MethodCall::parse(&self.credential, name, params) {
            Err(problem) => self.send_result(socket, &id, Err(problem.into())),
            Ok(call) => {
                let mut running: Pin<Box<dyn Future<Output = _> + Send>> =
                    Box::pin(call.run(Arc::clone(&self.shared), self.routes.clone()));
                // Polled once: a write then is in the queue of the log, before the writes of later methods.
                match poll_fn(|context| Poll::Ready(running.as_mut().poll(context))).await {
                    Poll::Ready(result) => self.send_result(socket, &id, result),
                    Poll::Pending => self.methods.push((id, running)),
                }
            }
        }
    }

    fn login(&mut self, params: &[&RawValue]) -> MethodResult {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Login {
            /// Meteor's clients repeat a login after they reconnect, with the `token` of the first one as `resume`.
            #[serde(alias = "resume")]
            key: String,
        }
        let Login { key } = from_json(params.first().map_or("{}", |it| it.get()).as_bytes())?;
        let credential = self.credential.with_key(&key);
        let access = credential.access(&self.shared.catalog)?;
        self.credential = credential;
        let result = serde_json::json!({
            "game": access.game.id, "scopes": access.scopes, "id": access.game.id, "token": key,
        });
        Ok(result.to_string())
    }

    /// Sends the result of a method. The changes it made are sent before `updated`, as DDP requires.
    fn send_result(&mut self, socket: &mut Connection, id: &str, result: MethodResult) {
        socket.send_text(&messages::result(id, result.as_deref()));
        if result.is_ok() {
            let changes = self.subscriptions.take_all(self.shared.live.epoch());
            changes.into_iter().for_each(|frames: Bytes| socket.push(frames));
        }
        socket.send_text(&messages::updated(id));
    }
}

/// Removes and returns the first method that finishes. Never completes while there are no methods.
async fn next_finished(methods: &mut Vec<PendingMethod>) -> (String, MethodResult) {
    poll_fn(|context| {
        for index in 0..methods.len() {
            if let Poll::Ready(result) = methods[index].1.as_mut().poll(context) {
                return Poll::Ready((methods.remove(index).0, result));
            }
        }
        Poll::Pending
    })
    .await
}
