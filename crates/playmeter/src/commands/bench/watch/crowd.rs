//! Many subscribers on one thread.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::publisher::Timetable;
use super::subscriber::{Heard, Lost, Plan, Subscriber};

/// Connections that are being made at a time: a server's queue of them has an end.
const OPENING_MAX: usize = 128;
/// How long a look at the sockets lasts while nothing comes.
const WAIT: Duration = Duration::from_millis(2);
const READY_MAX: usize = 512;
const READ_BYTES: usize = 256 << 10;
/// Reasons for losses that are told.
const REASONS_MAX: usize = 5;
/// A minute is as slow as it gets.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// All subscribers and what they have seen together.
pub struct Crowd<'a> {
    plan: &'a Plan,
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
    buffer: Vec<u8>,
    /// By number; lost ones are `None`.
    subscribers: Vec<Option<Subscriber>>,
    opening: usize,
    /// When which number was due, to know how late it is.
    timetable: Option<Timetable>,
    pub totals: Totals,
    pub latency_ns: Histogram<u64>,
}

/// What has come so far.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub watching: usize,
    pub messages: u64,
    pub bytes: u64,
    pub pings: u64,
    pub lost: u64,
    /// Why the first were lost.
    pub reasons: Vec<String>,
}

/// What all subscribers that are there have seen.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Sight {
    /// Numbers that grew, one for each subscriber and step.
    pub deliveries: u64,
    /// Numbers that were leapt over, because states were merged or lost.
    pub merged: u64,
    pub disordered: u64,
    pub newest_min: u64,
    pub newest_max: u64,
}

impl<'a> Crowd<'a> {
    /// Nobody yet.
    pub fn new(plan: &'a Plan) -> anyhow::Result<Crowd<'a>> {
        Ok(Crowd {
            plan,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).context("creating an epoll")?,
            ready: Vec::with_capacity(READY_MAX),
            buffer: Vec::with_capacity(READ_BYTES),
            subscribers: Vec::with_capacity(plan.subscribers),
            opening: 0,
            timetable: None,
            totals: Totals::default(),
            latency_ns: Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are in order"),
        })
    }

    /// Connects all and waits until each of them watches.
    pub fn open(&mut self, patience: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + patience;
        while self.totals.watching < self.plan.subscribers {
            while self.opening < OPENING_MAX && self.subscribers.len() < self.plan.subscribers {
                self.add()?;
            }
            self.turn()?;
            let (watching, lost) = (self.totals.watching, self.totals.lost);
            let reasons = self.totals.reasons.join("; ");
            ensure!(
                lost == 0,
                "{lost} of {} subscribers were turned away: {reasons}",
                self.subscribers.len()
            );
            ensure!(
                Instant::now() < until,
                "only {watching} of {} watch after {patience:?}",
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

    /// From now on latencies are measured by this timetable, or not at all.
    pub fn measure_by(&mut self, timetable: Option<Timetable>) {
        self.timetable = timetable;
    }

    /// Takes what has come, or waits a moment for something to come.
    pub fn turn(&mut self) -> anyhow::Result<()> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: WAIT.subsec_nanos().into() };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.ready), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for messages"),
        }
        let mut ready = std::mem::take(&mut self.ready);
        for event in ready.drain(..) {
            self.serve(event.data.u64() as usize, event.flags);
        }
        self.ready = ready;
        Ok(())
    }

    fn serve(&mut self, number: usize, flags: epoll::EventFlags) {
        let Some(subscriber) = &mut self.subscribers[number] else { return };
        let reads = flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        let had_to_wait = flags.contains(epoll::EventFlags::OUT);
        let flushed = if had_to_wait { subscriber.flush() } else { Ok(()) };
        let heard = flushed.and_then(|()| match reads {
            true => subscriber.read(self.plan, &mut self.buffer),
            false => Ok(Default::default()),
        });
        if subscriber.waits_for_room() != had_to_wait {
            let room = if had_to_wait { epoll::EventFlags::empty() } else { epoll::EventFlags::OUT };
            let data = epoll::EventData::new_u64(number as u64);
            // A socket that cannot be watched any more tells so when it is read.
            let _ = epoll::modify(&self.epoll, &subscriber.socket, data, epoll::EventFlags::IN | room);
        }
        match heard {
            Ok((heard, bytes)) => self.count(heard, bytes),
            Err(lost) => self.lose(number, &lost),
        }
    }

    fn count(&mut self, heard: Heard, bytes: u64) {
        self.totals.bytes += bytes;
        self.totals.messages += heard.messages;
        self.totals.pings += heard.pings;
        if heard.watches {
            self.totals.watching += 1;
            self.opening -= 1;
        }
        if let (Some(timetable), Some((first, last))) = (&self.timetable, heard.grew) {
            let now = Instant::now();
            // What came together came at the same time.
            for due in [Some(first), (last > first).then_some(last)]
                .into_iter()
                .flatten()
                .filter_map(|n| timetable.due(n))
            {
                self.latency_ns.saturating_record(now.saturating_duration_since(due).as_nanos() as u64);
            }
        }
    }

    fn lose(&mut self, number: usize, lost: &Lost) {
        self.subscribers[number] = None;
        self.totals.lost += 1;
        if self.totals.reasons.len() < REASONS_MAX {
            self.totals.reasons.push(lost.to_string());
        }
    }

    /// Whether everybody who is there has seen this number.
    pub fn is_at(&self, number: u64) -> bool {
        self.subscribers.iter().flatten().all(|subscriber| subscriber.seen.newest >= number)
    }

    /// Everybody counts from the newest number on that anybody has seen. Returns it.
    pub fn begin(&mut self) -> u64 {
        let newest = self.sight().newest_max;
        self.subscribers.iter_mut().flatten().for_each(|subscriber| subscriber.seen.begin_at(newest));
        newest
    }

    pub fn sight(&self) -> Sight {
        let mut sight = Sight { newest_min: u64::MAX, ..Sight::default() };
        for subscriber in self.subscribers.iter().flatten() {
            let seen = subscriber.seen;
            sight.deliveries += seen.grew;
            sight.merged += seen.merged;
            sight.disordered += seen.disordered;
            sight.newest_min = sight.newest_min.min(seen.newest);
            sight.newest_max = sight.newest_max.max(seen.newest);
        }
        sight.newest_min = sight.newest_min.min(sight.newest_max);
        sight
    }
}
