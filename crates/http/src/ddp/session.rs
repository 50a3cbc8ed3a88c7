//! One connection, from its first message to its last.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use decode::ddp::ClientMessage;
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};
use tracing::debug;

use super::Credential;
use super::messages::{self, Refusal};
use super::methods::{Answer, Call, Routes};
use super::publications::wanted;
use super::subscriptions::{SUBSCRIPTIONS_MAX, Subscriptions};
use crate::AppState;
use crate::api::commands::from_json;
use crate::api::watch::holder;
use crate::problem::Problem;
use crate::ws::{CloseCode, Gone, Incoming, Socket};
use live::DocumentSubscription;
use pipeline::random;
use pipeline::shutdown::wait_for_stop;

/// Without a sign of life for so many heartbeats, the other side is not there any more. A connection must have said
/// `connect` after so many.
const SILENT_HEARTBEATS: u32 = 2;
/// Methods of a connection that are under way at once.
const METHODS_MAX: usize = 16;
/// What one subscription may say of what it wants.
const PARAMS_BYTES_MAX: usize = 16 << 10;

/// A method that is under way: its id, and what it comes to.
type UnderWay = (String, Pin<Box<dyn Future<Output = Answer> + Send>>);

/// A connection that speaks DDP.
pub struct Session {
    shared: Arc<AppState>,
    /// What methods are requests to.
    routes: Routes,
    credential: Credential,
    subscriptions: Subscriptions,
    methods: Vec<UnderWay>,
    /// What came and waits its turn.
    backlog: VecDeque<Incoming>,
    /// Rung when there may be something new to tell.
    bell: Arc<Notify>,
    /// The catalog's change up to which the credential was looked at.
    reviewed: u64,
    is_connected: bool,
    began: Instant,
    pinged: Instant,
}

/// Why a session ends.
enum End {
    Gone(Gone),
    Over(CloseCode, &'static str),
}

impl From<Gone> for End {
    fn from(gone: Gone) -> End {
        End::Gone(gone)
    }
}

impl Session {
    /// A session for somebody. Its methods are requests to `routes`.
    pub fn new(shared: Arc<AppState>, routes: Routes, credential: Credential) -> Session {
        let now = Instant::now();
        let reviewed = shared.catalog.revision();
        Session {
            shared,
            routes,
            credential,
            subscriptions: Subscriptions::default(),
            methods: Vec::new(),
            backlog: VecDeque::new(),
            bell: Arc::new(Notify::new()),
            reviewed,
            is_connected: false,
            began: now,
            pinged: now,
        }
    }

    /// Speaks until one of the two ends it. Boxed, both, because a future holds twice what it is given.
    pub async fn serve(mut self: Box<Self>, mut socket: Box<Socket>) {
        let mut stopping = self.shared.stopping.clone();
        loop {
            match self.turn(&mut socket, &mut stopping).await {
                Ok(()) => {}
                Err(End::Gone(gone)) => {
                    debug!(%gone, "a socket has ended");
                    break;
                }
                Err(End::Over(code, reason)) => {
                    self.finish_methods(&mut socket).await;
                    socket.close(code, reason);
                    break;
                }
            }
        }
        drop(self);
        socket.finish().await;
    }

    /// What was begun is done, and its caller is told.
    async fn finish_methods(&mut self, socket: &mut Socket) {
        while !self.methods.is_empty() {
            let (id, answer) = first_done(&mut self.methods).await;
            self.done(socket, &id, answer);
        }
    }

    /// Answers what came, tells what is new, then waits for more of either.
    async fn turn(&mut self, socket: &mut Socket, stopping: &mut watch::Receiver<bool>) -> Result<(), End> {
        self.check_heartbeat(socket)?;
        while self.has_room(socket)
            && let Some(message) = self.backlog.pop_front()
        {
            // Boxed: there are many connections, and few of them say something at the moment.
            Box::pin(self.hear(socket, &message)).await?;
        }
        self.tell(socket);
        socket.flush()?;
        let listens = self.backlog.is_empty();
        let wake = self.wake_at(socket);
        tokio::select! {
            came = socket.exchange(listens) => self.backlog.extend(came?),
            () = self.bell.notified() => {}
            (id, answer) = first_done(&mut self.methods) => self.done(socket, &id, answer),
            () = tokio::time::sleep_until(wake.into()) => {}
            () = wait_for_stop(stopping) => return Err(End::Over(CloseCode::Away, "the server is stopping")),
        }
        Ok(())
    }

    /// Whether another message may be answered: answers and methods do not pile up.
    fn has_room(&self, socket: &Socket) -> bool {
        self.methods.len() < METHODS_MAX && socket.has_room()
    }

    fn check_heartbeat(&mut self, socket: &mut Socket) -> Result<(), End> {
        let now = Instant::now();
        if now >= self.given_up_at(socket) {
            let reason = if self.is_connected { "no sign of life" } else { "no `connect`" };
            return Err(End::Over(CloseCode::Policy, reason));
        }
        if now >= self.pinged + self.heartbeat() {
            self.pinged = now;
            if self.is_connected {
                socket.text(messages::ping());
            }
            // Keys expire, too.
            self.review(socket);
        }
        Ok(())
    }

    /// When the other side counts as gone, if it says nothing until then.
    fn given_up_at(&self, socket: &Socket) -> Instant {
        let alive = if self.is_connected { socket.heard() } else { self.began };
        alive + SILENT_HEARTBEATS * self.heartbeat()
    }

    fn heartbeat(&self) -> Duration {
        self.shared.settings.heartbeat
    }

    /// When something is to be done without anybody having said anything.
    fn wake_at(&self, socket: &Socket) -> Instant {
        let wake = self.given_up_at(socket).min(self.pinged + self.heartbeat());
        // While nothing can be told it does not matter what is due.
        let due = if socket.unsent() == 0 { self.subscriptions.due() } else { None };
        due.map_or(wake, |due| due.min(wake))
    }

    /// Puts in line what is new, once everything before has been sent.
    fn tell(&mut self, socket: &mut Socket) {
        if self.shared.catalog.revision() != self.reviewed {
            self.review(socket);
        }
        if socket.unsent() > 0 {
            return;
        }
        let epoch = self.shared.live.epoch();
        while socket.has_room()
            && let Some(said) = self.subscriptions.next(epoch)
        {
            said.into_iter().for_each(|frames| socket.push(frames));
        }
    }

    /// Ends what may no longer be seen: a key was revoked, has expired, or another one is used.
    fn review(&mut self, socket: &mut Socket) {
        self.reviewed = self.shared.catalog.revision();
        if self.subscriptions.len() > 0 {
            let access = self.credential.access(&self.shared.catalog);
            self.subscriptions.review(&access).into_iter().for_each(|frames| socket.push(frames));
        }
    }

    async fn hear(&mut self, socket: &mut Socket, message: &Incoming) -> Result<(), End> {
        let Incoming::Text(text) = message else {
            socket.text(&messages::error("messages are text", ""));
            return Ok(());
        };
        match ClientMessage::read(text) {
            Ok(None) => {}
            Err(malformed) => socket.text(&messages::error(&malformed.to_string(), text)),
            Ok(Some(ClientMessage::Connect { version, support })) => {
                return self.connect(socket, &version, &support);
            }
            Ok(Some(_)) if !self.is_connected => socket.text(&messages::error("say `connect` first", text)),
            Ok(Some(ClientMessage::Ping { id })) => socket.text(&messages::pong(id.as_deref())),
            Ok(Some(ClientMessage::Pong)) => {}
            Ok(Some(ClientMessage::Sub { id, name, params })) => {
                self.subscribe(socket, &id, &name, &params).await
            }
            Ok(Some(ClientMessage::Unsub { id })) => socket.push(self.subscriptions.close(&id)),
            Ok(Some(ClientMessage::Method { id, method, params })) => {
                self.call(socket, id, &method, &params).await
            }
        }
        Ok(())
    }

    fn connect(&mut self, socket: &mut Socket, version: &str, support: &[String]) -> Result<(), End> {
        if self.is_connected {
            socket.text(&messages::error("the connection is open already", ""));
            return Ok(());
        }
        // A client that speaks it as well comes back and proposes it.
        if version != messages::VERSION || !(support.is_empty() || support.iter().any(|it| it == version)) {
            socket.text(&messages::failed());
            return Err(End::Over(CloseCode::Normal, "version 1 is spoken here"));
        }
        self.is_connected = true;
        self.pinged = Instant::now();
        socket.text(&messages::connected(&random::token(12)));
        Ok(())
    }

    async fn subscribe(&mut self, socket: &mut Socket, id: &str, name: &str, params: &[&RawValue]) {
        // A client that asks twice in one connection has it already.
        if self.subscriptions.has(id) {
            return;
        }
        if let Err(refusal) = self.try_subscribe(id, name, params).await {
            socket.text(&messages::nosub(id, Some(&refusal)));
        }
    }

    async fn try_subscribe(&mut self, id: &str, name: &str, params: &[&RawValue]) -> Result<(), Refusal> {
        let access = self.credential.access(&self.shared.catalog)?;
        if params.iter().map(|param| param.get().len()).sum::<usize>() > PARAMS_BYTES_MAX {
            return Err(Problem::too_large(format!("at most {PARAMS_BYTES_MAX} bytes"))
                .field("params")
                .into());
        }
        let wanted = wanted(&self.shared, &self.credential, &access, name, params)?;
        if self.subscriptions.len() >= SUBSCRIPTIONS_MAX {
            let detail = format!("a connection has at most {SUBSCRIPTIONS_MAX} subscriptions");
            return Err(Problem::too_many(detail).into());
        }
        let holder = holder(&access, self.credential.address());
        let permit =
            self.shared.live.admit(holder, 1).map_err(|refused| Problem::too_many(refused.to_string()))?;
        let mut permit = Some(permit);
        if self.subscriptions.join(id, &wanted, &access, &mut permit)? {
            return Ok(());
        }
        let Some(permit) = permit else { return Ok(()) };
        let shared = &self.shared;
        shared.views.caught_up(shared.log.durable_until()).await;
        let (topic, resume) = (wanted.topic.clone(), wanted.resume.as_ref());
        let watch =
            DocumentSubscription::open(&shared.live, &access.game, topic, wanted.options, resume, &self.bell);
        let watch = watch.map_err(|refused| Problem::overloaded(refused.to_string()))?;
        if resume.is_some() && !watch.is_resumed() {
            return Err(Refusal::reload());
        }
        self.subscriptions.open(id, wanted, &access, watch, permit);
        Ok(())
    }

    /// Begins a method. Methods are begun in the order in which they came; they may end in another.
    async fn call(&mut self, socket: &mut Socket, id: String, name: &str, params: &[&RawValue]) {
        if name == "login" {
            let answer = self.login(params);
            self.review(socket);
            return self.done(socket, &id, answer);
        }
        match Call::read(&self.shared, &self.credential, name, params) {
            Err(problem) => self.done(socket, &id, Err(problem.into())),
            Ok(call) => {
                let mut answer: Pin<Box<dyn Future<Output = _> + Send>> =
                    Box::pin(call.answer(Arc::clone(&self.shared), self.routes.clone()));
                // Up to where it waits: there it is in the log's queue, before those that come after.
                match poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await {
                    Poll::Ready(answer) => self.done(socket, &id, answer),
                    Poll::Pending => self.methods.push((id, answer)),
                }
            }
        }
    }

    fn login(&mut self, params: &[&RawValue]) -> Answer {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Login {
            key: String,
        }
        let Login { key } = from_json(params.first().map_or("{}", |it| it.get()).as_bytes())?;
        let credential = self.credential.with_key(&key);
        let access = credential.access(&self.shared.catalog)?;
        self.credential = credential;
        Ok(serde_json::json!({ "game": access.game.id, "scopes": access.scopes }).to_string())
    }

    /// Answers a method. What it changed is told before it is said that everything was told.
    fn done(&mut self, socket: &mut Socket, id: &str, answer: Answer) {
        socket.text(&messages::result(id, answer.as_deref()));
        if answer.is_ok() {
            let told = self.subscriptions.everything(self.shared.live.epoch());
            told.into_iter().for_each(|frames: Bytes| socket.push(frames));
        }
        socket.text(&messages::updated(id));
    }
}

/// The first that ends, taken out; waits while there is none.
async fn first_done(methods: &mut Vec<UnderWay>) -> (String, Answer) {
    poll_fn(|context| {
        for at in 0..methods.len() {
            if let Poll::Ready(answer) = methods[at].1.as_mut().poll(context) {
                return Poll::Ready((methods.remove(at).0, answer));
            }
        }
        Poll::Pending
    })
    .await
}
