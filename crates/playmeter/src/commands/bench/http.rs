//! Offers requests on time over non-blocking connections, from one thread.
//!
//! No runtime between the timetable and the sockets: a write per request, a read per answer, and
//! a wait only when nothing is due. What the generator itself adds is measured as lag.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};

use super::answer::{Answer, Receipt};
use super::cpu::{self, Snapshot};
use super::ledger::{Entry, Fate, Ledger};
use super::requests::Requests;
use super::schedule::Schedule;
use super::tally::Tally;

/// A connection that failed is not tried again before this.
const REST_NS: u64 = 20_000_000;
/// A sleep shorter than this would end late; the generator asks again instead.
const SLEEP_NS_MIN: u64 = 10_000;
/// The counters are read this long before measuring begins: reading them takes a moment.
const SNAPSHOT_AHEAD_NS: u64 = 5_000_000;
const READ_BYTES: usize = 16 << 10;
const READY_MAX: usize = 256;

/// How load is offered.
#[derive(Clone, Debug)]
pub struct Offer {
    pub address: SocketAddr,
    pub connections: usize,
    /// Requests that may wait for their answer on one connection.
    pub depth: usize,
    /// A new connection for each request.
    pub close: bool,
    /// Requests a second.
    pub rate: f64,
    /// Seconds of load before anything is measured.
    pub warmup: f64,
    /// Seconds measured.
    pub seconds: f64,
    /// Seconds that answers are waited for after the end.
    pub grace: f64,
    /// The processes of the server, whose CPU time is measured.
    pub pids: Vec<u32>,
}

/// What came of an offer.
#[derive(Debug)]
pub struct Outcome {
    pub tally: Tally,
    /// From the end of the warm-up to the last answer.
    pub window: Duration,
    /// Requests answered with 2xx in the window, and events accepted by them.
    pub answered: u64,
    pub accepted: u64,
    /// CPU time used in the window, by the server's processes and by the generator.
    pub server_cpu: Duration,
    pub generator_cpu: Duration,
    /// How long in the window at least one task waited for a CPU.
    pub pressure: Option<Duration>,
}

/// Offers the load and returns when the last answer is there, or when the grace is over.
pub fn offer(offer: &Offer, requests: &mut Requests, ledger: Option<&mut Ledger>) -> anyhow::Result<Outcome> {
    // The default of 50 us would make every sleep that much too long.
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))
        .context("setting the timer slack")?;
    let mut load = Load::new(offer, requests, ledger)?;
    while !load.is_over() {
        load.mark_if_due();
        load.wake_rested();
        load.send_due();
        load.wait()?;
        load.receive();
    }
    load.give_up();
    Ok(load.outcome())
}

struct Load<'a> {
    offer: &'a Offer,
    requests: &'a mut Requests,
    ledger: Option<&'a mut Ledger>,
    schedule: Schedule,
    clock: Clock,
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
    connections: Vec<Connection>,
    /// Connections with room for a request, the one used longest ago first.
    idle: VecDeque<usize>,
    /// Connections that failed, and when they may be used again.
    resting: VecDeque<(u64, usize)>,
    waiting: usize,
    tally: Tally,
    mark: Option<Mark>,
    warm_ns: u64,
}

/// The counters when measuring began.
struct Mark {
    at_ns: u64,
    answered: u64,
    accepted: u64,
    server: Snapshot,
    generator: Snapshot,
    pressure: Option<Duration>,
}

struct Clock {
    start: Instant,
    start_ms: u64,
}

#[derive(Default)]
struct Connection {
    socket: Option<OwnedFd>,
    output: Vec<u8>,
    input: Vec<u8>,
    waiting: VecDeque<Waiting>,
    waits_for_room: bool,
    is_idle: bool,
}

/// A request without its answer yet.
struct Waiting {
    due_ns: u64,
    entries: Vec<Entry>,
}

impl<'a> Load<'a> {
    fn new(
        offer: &'a Offer,
        requests: &'a mut Requests,
        ledger: Option<&'a mut Ledger>,
    ) -> anyhow::Result<Self> {
        let mut connections = Vec::new();
        connections.resize_with(offer.connections, || Connection { is_idle: true, ..Connection::default() });
        Ok(Self {
            offer,
            requests,
            ledger,
            schedule: Schedule::new(offer.rate, offer.warmup + offer.seconds),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).context("creating an epoll")?,
            ready: Vec::with_capacity(READY_MAX),
            idle: (0..offer.connections).collect(),
            connections,
            resting: VecDeque::new(),
            waiting: 0,
            tally: Tally::new(),
            mark: None,
            warm_ns: (offer.warmup * 1e9) as u64,
            clock: Clock::start(),
        })
    }

    fn over_ns(&self) -> u64 {
        self.warm_ns + ((self.offer.seconds + self.offer.grace) * 1e9) as u64
    }

    fn is_over(&self) -> bool {
        let all_answered = self.schedule.next_due_ns().is_none() && self.waiting == 0;
        all_answered || self.clock.now_ns() > self.over_ns()
    }

    fn mark_if_due(&mut self) {
        let now_ns = self.clock.now_ns();
        if self.mark.is_none() && now_ns + SNAPSHOT_AHEAD_NS >= self.warm_ns {
            self.mark = Some(Mark {
                at_ns: now_ns,
                answered: self.tally.answered,
                accepted: self.tally.receipts.accepted,
                server: Snapshot::of(&self.offer.pids),
                generator: Snapshot::of(&[std::process::id()]),
                pressure: cpu::pressure(),
            });
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.sync_if_due(now_ns);
        }
    }

    fn wake_rested(&mut self) {
        while let Some((at_ns, index)) = self.resting.front().copied() {
            if at_ns > self.clock.now_ns() {
                return;
            }
            self.resting.pop_front();
            self.make_idle(index);
        }
    }

    /// Sends what is due, as long as there is a connection with room.
    fn send_due(&mut self) {
        while self.schedule.next_due_ns().is_some_and(|due_ns| due_ns <= self.clock.now_ns()) {
            let Some(index) = self.idle.pop_front() else { return };
            self.connections[index].is_idle = false;
            self.fill(index);
        }
    }

    fn fill(&mut self, index: usize) {
        while self.connections[index].waiting.len() < self.offer.depth {
            let now_ns = self.clock.now_ns();
            let Some(due_ns) = self.schedule.take(now_ns) else { break };
            self.queue(index, now_ns, due_ns);
        }
        if self.connections[index].socket.is_none() && self.open(index).is_err() {
            return self.fail(index);
        }
        self.flush(index);
        if self.connections[index].socket.is_some() {
            self.make_idle(index);
        }
    }

    fn make_idle(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.is_idle && connection.waiting.len() < self.offer.depth {
            connection.is_idle = true;
            self.idle.push_back(index);
        }
    }

    fn queue(&mut self, index: usize, now_ns: u64, due_ns: u64) {
        let request = self.requests.next(self.clock.wall_ms(now_ns));
        let mut entries = Vec::new();
        if self.ledger.is_some() {
            entries.extend(request.events().map(|(id, text)| Entry::new(id, text)));
        }
        let connection = &mut self.connections[index];
        connection.output.extend_from_slice(request.bytes());
        connection.waiting.push_back(Waiting { due_ns, entries });
        self.waiting += 1;
        self.tally.sent += 1;
        self.tally.repeats += request.repeats;
        if due_ns >= self.warm_ns {
            self.tally.lag_ns.saturating_record(now_ns - due_ns);
        }
    }

    fn open(&mut self, index: usize) -> rustix::io::Result<()> {
        let family = if self.offer.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        match rustix::net::connect(&socket, &self.offer.address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        let connection = &mut self.connections[index];
        connection.socket = Some(socket);
        connection.waits_for_room = false;
        Ok(())
    }

    fn flush(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.flush().and_then(|()| connection.watch_for_room(&self.epoll, index)).is_err() {
            self.fail(index);
        }
    }

    /// Waits for answers until the next request is due, or a little shorter.
    fn wait(&mut self) -> anyhow::Result<()> {
        let sleep_ns = self.next_work_ns().saturating_sub(self.clock.now_ns());
        if sleep_ns >= SLEEP_NS_MIN {
            // `poll` sleeps to the nanosecond, `epoll_wait` in whole milliseconds.
            let timeout = Timespec {
                tv_sec: (sleep_ns / 1_000_000_000) as i64,
                tv_nsec: (sleep_ns % 1_000_000_000) as i64,
            };
            let mut fds = [PollFd::new(&self.epoll, PollFlags::IN)];
            ignore_interruption(rustix::event::poll(&mut fds, Some(&timeout)))?;
        }
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = epoll::wait(&self.epoll, spare_capacity(&mut self.ready), Some(&at_once));
        ignore_interruption(ready)
    }

    fn next_work_ns(&self) -> u64 {
        let due_ns = self.schedule.next_due_ns().filter(|_| !self.idle.is_empty());
        let rested_ns = self.resting.front().map(|(at_ns, _)| *at_ns);
        let mark_ns = self.mark.is_none().then(|| self.warm_ns.saturating_sub(SNAPSHOT_AHEAD_NS));
        let over_ns = self.over_ns() + SLEEP_NS_MIN;
        [due_ns, rested_ns, mark_ns].into_iter().flatten().fold(over_ns, u64::min)
    }

    fn receive(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        for event in ready.drain(..) {
            let (index, flags) = (event.data.u64() as usize, event.flags);
            if flags.contains(epoll::EventFlags::OUT) {
                self.flush(index);
            }
            if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
                self.read(index);
            }
        }
        self.ready = ready;
    }

    fn read(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(socket) = &connection.socket else { return };
        connection.input.reserve(READ_BYTES);
        match rustix::io::read(socket, spare_capacity(&mut connection.input)) {
            Ok(bytes) => self.take_answers(index, bytes == 0),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.fail(index),
        }
    }

    fn take_answers(&mut self, index: usize, ended: bool) {
        let now_ns = self.clock.now_ns();
        let mut used = 0;
        let mut closes = ended;
        loop {
            let input = &self.connections[index].input[used..];
            match Answer::read(input, ended) {
                Ok(Some(answer)) => {
                    let Some(waiting) = self.connections[index].waiting.pop_front() else { break };
                    let body = used + answer.body.start..used + answer.body.end;
                    used += answer.length;
                    closes |= answer.closes || self.offer.close;
                    self.settle(index, now_ns, waiting, answer.status, body);
                }
                Ok(None) => break,
                Err(_) => return self.fail(index),
            }
        }
        self.connections[index].input.drain(..used);
        if closes {
            self.close(index);
        } else {
            self.make_idle(index);
        }
    }

    /// Counts one answer.
    fn settle(
        &mut self,
        index: usize,
        now_ns: u64,
        waiting: Waiting,
        status: u16,
        body: std::ops::Range<usize>,
    ) {
        self.waiting -= 1;
        let body = &self.connections[index].input[body];
        if (200..300).contains(&status) {
            self.tally.add_answer(self.requests.batch(), Receipt::read(body));
            if waiting.due_ns >= self.warm_ns {
                self.tally.latency_ns.saturating_record(now_ns - waiting.due_ns);
            }
        } else {
            *self.tally.refused.entry(status).or_default() += 1;
        }
        if let Some(ledger) = &mut self.ledger {
            note(ledger, &waiting.entries, status, body);
        }
    }

    /// Closes a connection whose answers are all there; what is not there is lost.
    fn close(&mut self, index: usize) {
        if !self.connections[index].waiting.is_empty() {
            return self.fail(index);
        }
        self.connections[index].reset();
        self.make_idle(index);
    }

    /// Gives up a connection; whatever waits on it may or may not have been taken.
    fn fail(&mut self, index: usize) {
        self.connections[index].reset();
        for waiting in std::mem::take(&mut self.connections[index].waiting) {
            self.waiting -= 1;
            self.tally.lost += 1;
            self.note_unknown(&waiting);
        }
        if self.connections[index].is_idle {
            self.idle.retain(|idle| *idle != index);
        }
        self.connections[index].is_idle = false;
        self.resting.push_back((self.clock.now_ns() + REST_NS, index));
    }

    /// Time is up: requests without an answer count as slow as they are known to be.
    fn give_up(&mut self) {
        let now_ns = self.clock.now_ns();
        for index in 0..self.connections.len() {
            for waiting in std::mem::take(&mut self.connections[index].waiting) {
                self.note_unknown(&waiting);
                self.count_unanswered(now_ns, waiting.due_ns);
            }
        }
        while let Some(due_ns) = self.schedule.take(now_ns) {
            self.count_unanswered(now_ns, due_ns);
        }
    }

    fn count_unanswered(&mut self, now_ns: u64, due_ns: u64) {
        self.tally.unanswered += 1;
        if due_ns >= self.warm_ns {
            self.tally.latency_ns.saturating_record(now_ns - due_ns);
        }
    }

    fn note_unknown(&mut self, waiting: &Waiting) {
        if let Some(ledger) = &mut self.ledger {
            waiting.entries.iter().for_each(|entry| ledger.note(entry, Fate::Unknown));
        }
    }

    fn outcome(self) -> Outcome {
        let Self { offer, clock, tally, mark, .. } = self;
        let mark = mark.expect("measuring begins before the last request is due");
        let generator = Snapshot::of(&[std::process::id()]);
        Outcome {
            window: Duration::from_nanos(clock.now_ns() - mark.at_ns),
            answered: tally.answered - mark.answered,
            accepted: tally.receipts.accepted - mark.accepted,
            server_cpu: Snapshot::of(&cpu::tree(&offer.pids)).since(&mark.server),
            generator_cpu: generator.since(&mark.generator),
            pressure: cpu::pressure().zip(mark.pressure).map(|(now, before)| now.saturating_sub(before)),
            tally,
        }
    }
}

impl Clock {
    fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), start_ms: wall.as_millis() as u64 }
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn wall_ms(&self, now_ns: u64) -> u64 {
        self.start_ms + now_ns / 1_000_000
    }
}

impl Connection {
    fn flush(&mut self) -> rustix::io::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        while !self.output.is_empty() {
            match rustix::net::send(socket, &self.output, SendFlags::NOSIGNAL) {
                Ok(bytes) if bytes == self.output.len() => self.output.clear(),
                Ok(bytes) => drop(self.output.drain(..bytes)),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Asks to be told when the socket takes more, while there is more.
    fn watch_for_room(&mut self, epoll: &OwnedFd, index: usize) -> rustix::io::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let wanted = !self.output.is_empty();
        if wanted != self.waits_for_room {
            let room = if wanted { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(index as u64);
            epoll::modify(epoll, socket, data, epoll::EventFlags::IN | room)?;
            self.waits_for_room = wanted;
        }
        Ok(())
    }

    /// Closes the socket and forgets what was on its way; closing also leaves the epoll.
    fn reset(&mut self) {
        self.socket = None;
        self.output.clear();
        self.input.clear();
    }
}

/// Notes the fate of each event of an answered request.
fn note(ledger: &mut Ledger, entries: &[Entry], status: u16, body: &[u8]) {
    let fates = fates(entries.len(), status, body);
    entries.iter().zip(fates).for_each(|(entry, fate)| ledger.note(entry, fate));
}

/// What an answer says about each of `events` events.
fn fates(events: usize, status: u16, body: &[u8]) -> Vec<Fate> {
    match status {
        200..300 => {}
        408 | 500.. => return vec![Fate::Unknown; events],
        _ => return vec![Fate::Refused; events],
    }
    let mut fates = vec![Fate::Acked; events];
    if Receipt::read(body).is_some_and(|receipt| receipt.accepted == events as u64) {
        return fates;
    }
    let results = serde_json::from_slice::<Results>(body).unwrap_or_default().results;
    for result in results {
        if let Some(fate) = fates.get_mut(result.i) {
            *fate = if result.outcome == "duplicate" { Fate::Duplicate } else { Fate::Refused };
        }
    }
    fates
}

#[derive(Default, serde::Deserialize)]
struct Results {
    #[serde(default)]
    results: Vec<NotAccepted>,
}

#[derive(serde::Deserialize)]
struct NotAccepted {
    i: usize,
    outcome: String,
}

fn ignore_interruption<T>(done: rustix::io::Result<T>) -> anyhow::Result<()> {
    match done {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("waiting for answers"),
    }
}
