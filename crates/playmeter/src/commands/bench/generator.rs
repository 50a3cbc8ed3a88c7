//! The load generator: sends requests on schedule over non-blocking connections, on one thread.
//!
//! There is no async runtime between the schedule and the sockets: one write per request, one read per response, and a
//! wait only when nothing is due. The delay that the generator itself adds is measured as lag.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};

use super::cpu::{self, CpuSnapshot};
use super::ledger::{EventLedger, EventRecord, SendOutcome};
use super::requests::RequestPool;
use super::response::{HttpResponse, ReceiptCounts};
use super::schedule::Schedule;
use super::stats::LoadStats;

/// A connection that failed is not reopened before this.
const RECONNECT_DELAY_NS: u64 = 20_000_000;
/// A shorter sleep would end late, so that the generator polls instead.
const SLEEP_NS_MIN: u64 = 10_000;
/// The counters are read this long before the measurement starts, because reading them takes time.
const SNAPSHOT_AHEAD_NS: u64 = 5_000_000;
const READ_BYTES: usize = 16 << 10;
const READY_MAX: usize = 256;

/// The options of a load test.
#[derive(Clone, Debug)]
pub(crate) struct LoadOptions {
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    /// Limit of pending requests per connection.
    pub(crate) depth: usize,
    /// True if each request gets a new connection.
    pub(crate) close: bool,
    /// Requests per second.
    pub(crate) rate: f64,
    /// Seconds of load before the measurement.
    pub(crate) warmup: f64,
    /// Seconds of the measurement.
    pub(crate) seconds: f64,
    /// Seconds to wait for responses after the last request.
    pub(crate) grace: f64,
    /// Processes of the server, to measure their CPU time.
    pub(crate) pids: Vec<u32>,
}

/// The measurements of a load test.
#[derive(Debug)]
pub(crate) struct LoadMeasurements {
    pub(crate) stats: LoadStats,
    /// Duration from the end of the warm-up to the last response.
    pub(crate) window: Duration,
    /// Requests with a 2xx response in the window, and their accepted events.
    pub(crate) answered: u64,
    pub(crate) accepted: u64,
    /// CPU time of the server and of the generator in the window.
    pub(crate) server_cpu: Duration,
    pub(crate) generator_cpu: Duration,
    /// Time in the window in which at least one task waited for a CPU.
    pub(crate) pressure: Option<Duration>,
}

/// Runs a load test until the last response has arrived or the grace period is over.
pub(crate) fn run(
    options: &LoadOptions,
    requests: &mut RequestPool,
    ledger: Option<&mut EventLedger>,
) -> anyhow::Result<LoadMeasurements> {
    // With the default of 50 us, every sleep would be that much too long.
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))
        .context("setting the timer slack")?;
    let mut generator = LoadGenerator::new(options, requests, ledger)?;
    while !generator.is_over() {
        generator.start_measuring_if_due();
        generator.reactivate_failed();
        generator.send_due();
        generator.wait()?;
        generator.receive();
    }
    generator.give_up();
    Ok(generator.measurements())
}

struct LoadGenerator<'a> {
    options: &'a LoadOptions,
    requests: &'a mut RequestPool,
    ledger: Option<&'a mut EventLedger>,
    schedule: Schedule,
    clock: Clock,
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
    connections: Vec<LoadConnection>,
    /// Connections that can take a request, least recently used first.
    idle: VecDeque<usize>,
    /// Connections that failed, and the times when they may be reopened.
    failed: VecDeque<(u64, usize)>,
    pending: usize,
    stats: LoadStats,
    baseline: Option<LoadBaseline>,
    warm_ns: u64,
}

/// The counters at the start of the measurement.
struct LoadBaseline {
    at_ns: u64,
    answered: u64,
    accepted: u64,
    server: CpuSnapshot,
    generator: CpuSnapshot,
    pressure: Option<Duration>,
}

struct Clock {
    start: Instant,
    start_ms: u64,
}

#[derive(Default)]
struct LoadConnection {
    socket: Option<OwnedFd>,
    output: Vec<u8>,
    input: Vec<u8>,
    pending: VecDeque<PendingRequest>,
    is_write_blocked: bool,
    is_idle: bool,
}

/// A request without a response.
struct PendingRequest {
    due_ns: u64,
    records: Vec<EventRecord>,
}

impl<'a> LoadGenerator<'a> {
    fn new(
        options: &'a LoadOptions,
        requests: &'a mut RequestPool,
        ledger: Option<&'a mut EventLedger>,
    ) -> anyhow::Result<Self> {
        let mut connections = Vec::new();
        connections.resize_with(options.connections, || LoadConnection {
            is_idle: true,
            ..LoadConnection::default()
        });
        Ok(Self {
            options,
            requests,
            ledger,
            schedule: Schedule::new(options.rate, options.warmup + options.seconds),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).context("creating an epoll")?,
            ready: Vec::with_capacity(READY_MAX),
            idle: (0..options.connections).collect(),
            connections,
            failed: VecDeque::new(),
            pending: 0,
            stats: LoadStats::new(),
            baseline: None,
            warm_ns: (options.warmup * 1e9) as u64,
            clock: Clock::start(),
        })
    }

    fn deadline_ns(&self) -> u64 {
        self.warm_ns + ((self.options.seconds + self.options.grace) * 1e9) as u64
    }

    fn is_over(&self) -> bool {
        let all_answered = self.schedule.next_due_ns().is_none() && self.pending == 0;
        all_answered || self.clock.now_ns() > self.deadline_ns()
    }

    fn start_measuring_if_due(&mut self) {
        let now_ns = self.clock.now_ns();
        if self.baseline.is_none() && now_ns + SNAPSHOT_AHEAD_NS >= self.warm_ns {
            self.baseline = Some(LoadBaseline {
                at_ns: now_ns,
                answered: self.stats.answered,
                accepted: self.stats.receipts.accepted,
                server: CpuSnapshot::of(&self.options.pids),
                generator: CpuSnapshot::of(&[std::process::id()]),
                pressure: cpu::pressure(),
            });
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.sync_if_due(now_ns);
        }
    }

    fn reactivate_failed(&mut self) {
        while let Some((at_ns, index)) = self.failed.front().copied() {
            if at_ns > self.clock.now_ns() {
                return;
            }
            self.failed.pop_front();
            self.make_idle(index);
        }
    }

    /// Sends the requests that are due, as long as a connection is idle.
    fn send_due(&mut self) {
        while self.schedule.next_due_ns().is_some_and(|due_ns| due_ns <= self.clock.now_ns()) {
            let Some(index) = self.idle.pop_front() else { return };
            self.connections[index].is_idle = false;
            self.fill(index);
        }
    }

    /// Sends due requests on a connection up to its depth.
    fn fill(&mut self, index: usize) {
        while self.connections[index].pending.len() < self.options.depth {
            let now_ns = self.clock.now_ns();
            let Some(due_ns) = self.schedule.pop_due(now_ns) else { break };
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
        if !connection.is_idle && connection.pending.len() < self.options.depth {
            connection.is_idle = true;
            self.idle.push_back(index);
        }
    }

    fn queue(&mut self, index: usize, now_ns: u64, due_ns: u64) {
        let request = self.requests.next(self.clock.wall_ms(now_ns));
        let mut records = Vec::new();
        if self.ledger.is_some() {
            records.extend(request.events().map(|(id, text)| EventRecord::new(id, text)));
        }
        let connection = &mut self.connections[index];
        connection.output.extend_from_slice(request.bytes());
        connection.pending.push_back(PendingRequest { due_ns, records });
        self.pending += 1;
        self.stats.sent += 1;
        self.stats.repeats += request.repeats;
        if due_ns >= self.warm_ns {
            self.stats.lag_ns.saturating_record(now_ns - due_ns);
        }
    }

    fn open(&mut self, index: usize) -> rustix::io::Result<()> {
        let family = if self.options.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        match rustix::net::connect(&socket, &self.options.address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        let connection = &mut self.connections[index];
        connection.socket = Some(socket);
        connection.is_write_blocked = false;
        Ok(())
    }

    fn flush(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.flush().and_then(|()| connection.update_write_interest(&self.epoll, index)).is_err() {
            self.fail(index);
        }
    }

    /// Waits for responses until shortly before the next request is due.
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
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = epoll::wait(&self.epoll, spare_capacity(&mut self.ready), Some(&no_wait));
        ignore_interruption(ready)
    }

    fn next_work_ns(&self) -> u64 {
        let due_ns = self.schedule.next_due_ns().filter(|_| !self.idle.is_empty());
        let reconnect_ns = self.failed.front().map(|(at_ns, _)| *at_ns);
        let baseline_ns = self.baseline.is_none().then(|| self.warm_ns.saturating_sub(SNAPSHOT_AHEAD_NS));
        let deadline_ns = self.deadline_ns() + SLEEP_NS_MIN;
        [due_ns, reconnect_ns, baseline_ns].into_iter().flatten().fold(deadline_ns, u64::min)
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
            Ok(bytes) => self.handle_responses(index, bytes == 0),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.fail(index),
        }
    }

    fn handle_responses(&mut self, index: usize, ended: bool) {
        let now_ns = self.clock.now_ns();
        let mut used = 0;
        let mut closes = ended;
        loop {
            let input = &self.connections[index].input[used..];
            match HttpResponse::parse(input, ended) {
                Ok(Some(response)) => {
                    let Some(request) = self.connections[index].pending.pop_front() else { break };
                    let body = used + response.body.start..used + response.body.end;
                    used += response.length;
                    closes |= response.closes || self.options.close;
                    self.count_response(index, now_ns, request, response.status, body);
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

    /// Counts a response.
    fn count_response(
        &mut self,
        index: usize,
        now_ns: u64,
        request: PendingRequest,
        status: u16,
        body: std::ops::Range<usize>,
    ) {
        self.pending -= 1;
        let body = &self.connections[index].input[body];
        if (200..300).contains(&status) {
            self.stats.add_success(self.requests.batch(), ReceiptCounts::parse(body));
            if request.due_ns >= self.warm_ns {
                self.stats.latency_ns.saturating_record(now_ns - request.due_ns);
            }
        } else {
            *self.stats.rejected.entry(status).or_default() += 1;
        }
        if let Some(ledger) = &mut self.ledger {
            record_outcomes(ledger, &request.records, status, body);
        }
    }

    /// Closes a connection. Its pending requests are lost.
    fn close(&mut self, index: usize) {
        if !self.connections[index].pending.is_empty() {
            return self.fail(index);
        }
        self.connections[index].reset();
        self.make_idle(index);
    }

    /// Drops a failed connection. Its pending requests may or may not have been processed.
    fn fail(&mut self, index: usize) {
        self.connections[index].reset();
        for request in std::mem::take(&mut self.connections[index].pending) {
            self.pending -= 1;
            self.stats.lost += 1;
            self.record_unknown(&request);
        }
        if self.connections[index].is_idle {
            self.idle.retain(|idle| *idle != index);
        }
        self.connections[index].is_idle = false;
        self.failed.push_back((self.clock.now_ns() + RECONNECT_DELAY_NS, index));
    }

    /// Counts the requests without a response, with the time that has passed as their latency.
    fn give_up(&mut self) {
        let now_ns = self.clock.now_ns();
        for index in 0..self.connections.len() {
            for request in std::mem::take(&mut self.connections[index].pending) {
                self.record_unknown(&request);
                self.count_unanswered(now_ns, request.due_ns);
            }
        }
        while let Some(due_ns) = self.schedule.pop_due(now_ns) {
            self.count_unanswered(now_ns, due_ns);
        }
    }

    fn count_unanswered(&mut self, now_ns: u64, due_ns: u64) {
        self.stats.unanswered += 1;
        if due_ns >= self.warm_ns {
            self.stats.latency_ns.saturating_record(now_ns - due_ns);
        }
    }

    fn record_unknown(&mut self, request: &PendingRequest) {
        if let Some(ledger) = &mut self.ledger {
            request.records.iter().for_each(|record| ledger.add(record, SendOutcome::Unknown));
        }
    }

    fn measurements(self) -> LoadMeasurements {
        let Self { options, clock, stats, baseline, .. } = self;
        let baseline = baseline.expect("the measurement starts before the last request is due");
        let generator = CpuSnapshot::of(&[std::process::id()]);
        LoadMeasurements {
            window: Duration::from_nanos(clock.now_ns() - baseline.at_ns),
            answered: stats.answered - baseline.answered,
            accepted: stats.receipts.accepted - baseline.accepted,
            server_cpu: CpuSnapshot::of(&cpu::tree(&options.pids)).since(&baseline.server),
            generator_cpu: generator.since(&baseline.generator),
            pressure: cpu::pressure().zip(baseline.pressure).map(|(now, before)| now.saturating_sub(before)),
            stats,
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

impl LoadConnection {
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

    /// Polls the socket for writability while there is unsent output.
    fn update_write_interest(&mut self, epoll: &OwnedFd, index: usize) -> rustix::io::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let is_blocked = !self.output.is_empty();
        if is_blocked != self.is_write_blocked {
            let out = if is_blocked { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(index as u64);
            epoll::modify(epoll, socket, data, epoll::EventFlags::IN | out)?;
            self.is_write_blocked = is_blocked;
        }
        Ok(())
    }

    /// Closes the socket, which also removes it from the epoll, and clears the buffers.
    fn reset(&mut self) {
        self.socket = None;
        self.output.clear();
        self.input.clear();
    }
}

/// Records the outcome of each event of a request with a response.
fn record_outcomes(ledger: &mut EventLedger, records: &[EventRecord], status: u16, body: &[u8]) {
    let outcomes = outcomes(records.len(), status, body);
    records.iter().zip(outcomes).for_each(|(record, outcome)| ledger.add(record, outcome));
}

/// Returns the outcome of each of `events` events.
fn outcomes(events: usize, status: u16, body: &[u8]) -> Vec<SendOutcome> {
    match status {
        200..300 => {}
        408 | 500.. => return vec![SendOutcome::Unknown; events],
        _ => return vec![SendOutcome::Rejected; events],
    }
    let mut outcomes = vec![SendOutcome::Acked; events];
    if ReceiptCounts::parse(body).is_some_and(|receipt| receipt.accepted == events as u64) {
        return outcomes;
    }
    let results = serde_json::from_slice::<ReceiptBody>(body).unwrap_or_default().results;
    for result in results {
        if let Some(outcome) = outcomes.get_mut(result.i) {
            *outcome =
                if result.outcome == "duplicate" { SendOutcome::Duplicate } else { SendOutcome::Rejected };
        }
    }
    outcomes
}

#[derive(Default, serde::Deserialize)]
struct ReceiptBody {
    #[serde(default)]
    results: Vec<ReceiptItem>,
}

#[derive(serde::Deserialize)]
struct ReceiptItem {
    i: usize,
    outcome: String,
}

fn ignore_interruption<T>(result: rustix::io::Result<T>) -> anyhow::Result<()> {
    match result {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("waiting for responses"),
    }
}
