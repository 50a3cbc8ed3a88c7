//! A pool of subscribers on one thread.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::subscriber::{ReceivedCounts, Subscriber, SubscriberError, SubscriberPlan};
use super::updates::UpdateSchedule;

/// Limit of connections that are being opened at a time, because the backlog of a server is limited.
const OPENING_MAX: usize = 128;
/// Timeout of a poll of the sockets.
const POLL_TIMEOUT: Duration = Duration::from_millis(2);
const READY_MAX: usize = 512;
const READ_BYTES: usize = 256 << 10;
/// Limit of the reasons for lost subscribers that are reported.
const REASONS_MAX: usize = 5;
/// Latencies of more than a minute are recorded as a minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// All subscribers and their totals.
pub(crate) struct SubscriberPool<'a> {
    plan: &'a SubscriberPlan,
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
    buffer: Vec<u8>,
    /// By number; lost ones are `None`.
    subscribers: Vec<Option<Subscriber>>,
    opening: usize,
    /// The due times of the numbers, to measure latencies.
    schedule: Option<UpdateSchedule>,
    pub(crate) totals: SubscriberTotals,
    pub(crate) latency_ns: Histogram<u64>,
}

/// The totals of all subscribers since the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubscriberTotals {
    /// Subscribers that became ready.
    pub(crate) subscribed: usize,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) pings: u64,
    pub(crate) lost: u64,
    /// The reasons of the first losses.
    pub(crate) reasons: Vec<String>,
}

/// The numbers that the connected subscribers received. The JSON report has these field names.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct DeliveryCounts {
    /// Increases of the number, per subscriber.
    pub(crate) deliveries: u64,
    /// Numbers that were skipped because states were merged or lost.
    pub(crate) merged: u64,
    pub(crate) disordered: u64,
    pub(crate) newest_min: u64,
    pub(crate) newest_max: u64,
}

impl<'a> SubscriberPool<'a> {
    /// Creates an empty pool.
    pub(crate) fn new(plan: &'a SubscriberPlan) -> anyhow::Result<SubscriberPool<'a>> {
        Ok(SubscriberPool {
            plan,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).context("creating an epoll")?,
            ready: Vec::with_capacity(READY_MAX),
            buffer: Vec::with_capacity(READ_BYTES),
            subscribers: Vec::with_capacity(plan.subscribers),
            opening: 0,
            schedule: None,
            totals: SubscriberTotals::default(),
            latency_ns: Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are valid"),
        })
    }

    /// Connects all subscribers and waits until all subscriptions are ready.
    pub(crate) fn connect(&mut self, timeout: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + timeout;
        while self.totals.subscribed < self.plan.subscribers {
            while self.opening < OPENING_MAX && self.subscribers.len() < self.plan.subscribers {
                self.add()?;
            }
            self.poll()?;
            let (subscribed, lost) = (self.totals.subscribed, self.totals.lost);
            let reasons = self.totals.reasons.join("; ");
            ensure!(lost == 0, "{lost} of {} subscribers were rejected: {reasons}", self.subscribers.len());
            ensure!(
                Instant::now() < until,
                "only {subscribed} of {} subscribers are ready after {timeout:?}",
                self.plan.subscribers
            );
        }
        Ok(())
    }

    fn add(&mut self) -> anyhow::Result<()> {
        let number = self.subscribers.len();
        let subscriber =
            Subscriber::connect(self.plan, number).with_context(|| format!("subscriber {number}"))?;
        let data = epoll::EventData::new_u64(number as u64);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT;
        epoll::add(&self.epoll, &subscriber.socket, data, flags).context("watching a socket")?;
        self.subscribers.push(Some(subscriber));
        self.opening += 1;
        Ok(())
    }

    /// Sets the schedule to measure latencies with; `None` to measure none.
    pub(crate) fn set_schedule(&mut self, schedule: Option<UpdateSchedule>) {
        self.schedule = schedule;
    }

    /// Handles received messages. Waits for some until a short timeout.
    pub(crate) fn poll(&mut self) -> anyhow::Result<()> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: POLL_TIMEOUT.subsec_nanos().into() };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.ready), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for messages"),
        }
        let mut ready = std::mem::take(&mut self.ready);
        for event in ready.drain(..) {
            self.handle_event(event.data.u64() as usize, event.flags);
        }
        self.ready = ready;
        Ok(())
    }

    fn handle_event(&mut self, number: usize, flags: epoll::EventFlags) {
        let Some(subscriber) = &mut self.subscribers[number] else { return };
        let is_readable =
            flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        let was_blocked = flags.contains(epoll::EventFlags::OUT);
        let flushed = if was_blocked { subscriber.flush() } else { Ok(()) };
        let received = flushed.and_then(|()| match is_readable {
            true => subscriber.read(self.plan, &mut self.buffer),
            false => Ok(Default::default()),
        });
        if subscriber.has_output() != was_blocked {
            let out = if was_blocked { epoll::EventFlags::empty() } else { epoll::EventFlags::OUT };
            let data = epoll::EventData::new_u64(number as u64);
            // If this fails, the next read returns the error of the socket.
            let _ = epoll::modify(&self.epoll, &subscriber.socket, data, epoll::EventFlags::IN | out);
        }
        match received {
            Ok((received, bytes)) => self.count(received, bytes),
            Err(error) => self.remove(number, &error),
        }
    }

    fn count(&mut self, received: ReceivedCounts, bytes: u64) {
        self.totals.bytes += bytes;
        self.totals.messages += received.messages;
        self.totals.pings += received.pings;
        if received.became_ready {
            self.totals.subscribed += 1;
            self.opening -= 1;
        }
        if let (Some(schedule), Some((first, last))) = (&self.schedule, received.numbers) {
            let now = Instant::now();
            // Numbers that were received together have the same time.
            for due in [Some(first), (last > first).then_some(last)]
                .into_iter()
                .flatten()
                .filter_map(|n| schedule.due(n))
            {
                self.latency_ns.saturating_record(now.saturating_duration_since(due).as_nanos() as u64);
            }
        }
    }

    fn remove(&mut self, number: usize, error: &SubscriberError) {
        self.subscribers[number] = None;
        self.totals.lost += 1;
        if self.totals.reasons.len() < REASONS_MAX {
            self.totals.reasons.push(error.to_string());
        }
    }

    /// Returns true if all connected subscribers have received this number.
    pub(crate) fn has_reached(&self, number: u64) -> bool {
        self.subscribers.iter().flatten().all(|subscriber| subscriber.state.newest >= number)
    }

    /// Resets the counts of all subscribers to start at the newest number of all, and returns it.
    pub(crate) fn start_counting(&mut self) -> u64 {
        let newest = self.delivery_counts().newest_max;
        self.subscribers.iter_mut().flatten().for_each(|subscriber| subscriber.state.start_at(newest));
        newest
    }

    pub(crate) fn delivery_counts(&self) -> DeliveryCounts {
        let mut counts = DeliveryCounts { newest_min: u64::MAX, ..DeliveryCounts::default() };
        for subscriber in self.subscribers.iter().flatten() {
            let state = subscriber.state;
            counts.deliveries += state.increases;
            counts.merged += state.merged;
            counts.disordered += state.disordered;
            counts.newest_min = counts.newest_min.min(state.newest);
            counts.newest_max = counts.newest_max.max(state.newest);
        }
        counts.newest_min = counts.newest_min.min(counts.newest_max);
        counts
    }
}
