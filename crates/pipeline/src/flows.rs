//! The flows of all games: one owner for each pair of ends, whatever thread a packet comes to.
//!
//! A pair belongs to one of [`SHARDS`] trackers by a hash of its two ends, in no order. Finding a flow and opening it is
//! one step under that tracker's lock, so two threads that see the first packets of one flow make one flow.
//!
//! Collectors call [`Flows::packets`] and [`Flows::rtcp`] with as many packets as they have; nothing waits and nothing
//! is written there. What has ended, and each minute's quality, goes into the log as events (`reporter`), and what runs is
//! kept in a file (`file`).

mod census;
mod file;
mod lines;
mod minutes;
mod recent;
mod reporter;
mod rtcp;
mod summary;
#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use hashbrown::DefaultHashBuilder;
use model::flows::{
    Flow, FlowPacket, FlowQuota, FlowTime, FlowTracker, PacketOutcome, Pair, RtcpSources, TrackerTotals,
    parse_ssrc,
};
use model::limits::FLOWS_MAX;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::distribute::{By, distribute};
use crate::time::now_ms;
use recent::RecentlyEnded;

pub use census::Census;
pub use recent::RECENT_MAX;
pub use reporter::{ReporterContext, start};
pub use rtcp::{Datagram, Reported};
pub use summary::describe;

/// Trackers, each with a lock of its own.
pub const SHARDS: usize = 64;
/// Sources of RTCP that are remembered by one shard.
const SENDERS_MAX: usize = 2 * FLOWS_MAX / SHARDS;

/// The flows of all games.
pub struct Flows {
    trackers: Box<[Mutex<FlowTracker>]>,
    /// Sources of RTCP, by their own hash.
    senders: Box<[Mutex<RtcpSources>]>,
    recent: RecentlyEnded,
    hasher: DefaultHashBuilder,
    since: Instant,
    /// Whether somebody looks after what is here; if not, the bell is rung.
    is_watched: AtomicBool,
    bell: Notify,
    malformed: AtomicU64,
    unknown: AtomicU64,
    untold: AtomicU64,
}

/// What became of packets: how many of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Flows that were opened; the packet that opened one is among the counted.
    pub opened: u64,
    /// Counted in a flow.
    pub counted: u64,
    /// Flows that were ended by a BYE.
    pub ended: u64,
    /// Came after the end of their flow.
    pub stragglers: u64,
    /// Would have opened a flow too many.
    pub refused: u64,
    /// Said goodbye for a flow that was not there, or named no two ends.
    pub nothing: u64,
}

impl std::ops::Add for Taken {
    type Output = Taken;

    fn add(self, other: Taken) -> Taken {
        Taken {
            opened: self.opened + other.opened,
            counted: self.counted + other.counted,
            ended: self.ended + other.ended,
            stragglers: self.stragglers + other.stragglers,
            refused: self.refused + other.refused,
            nothing: self.nothing + other.nothing,
        }
    }
}

impl Taken {
    /// All packets and reports, whatever became of them.
    pub fn packets(&self) -> u64 {
        self.counted + self.ended + self.stragglers + self.refused + self.nothing
    }

    fn note(&mut self, took: PacketOutcome) {
        match took {
            PacketOutcome::Opened => {
                self.opened += 1;
                self.counted += 1;
            }
            PacketOutcome::Counted => self.counted += 1,
            PacketOutcome::Ended => self.ended += 1,
            PacketOutcome::Straggler => self.stragglers += 1,
            PacketOutcome::Rejected => self.refused += 1,
            PacketOutcome::Ignored => self.nothing += 1,
        }
    }
}

/// Figures for the operator, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// What became of packets and reports.
    pub totals: TrackerTotals,
    /// Flows in memory.
    pub flows: u64,
    /// Datagrams that were no RTCP.
    pub malformed: u64,
    /// Packets of RTCP of a type that is not known.
    pub unknown: u64,
    /// Ends of flows of which no event could be made.
    pub untold: u64,
}

impl Default for Flows {
    /// Of which a game may have as many as there may be.
    fn default() -> Flows {
        Flows::new(FLOWS_MAX as u32)
    }
}

impl Flows {
    /// At most so many at the same time of each game.
    pub fn new(per_game_max: u32) -> Flows {
        let (each, shares) = (|| 0..SHARDS, Arc::new(FlowQuota::new(per_game_max)));
        let tracker = |number| FlowTracker::new(number as u16, FLOWS_MAX / SHARDS, Arc::clone(&shares));
        Flows {
            trackers: each().map(|number| Mutex::new(tracker(number))).collect(),
            senders: each().map(|_| Mutex::new(RtcpSources::new(SENDERS_MAX))).collect(),
            recent: RecentlyEnded::default(),
            hasher: DefaultHashBuilder::default(),
            since: Instant::now(),
            is_watched: AtomicBool::new(false),
            bell: Notify::new(),
            malformed: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            untold: AtomicU64::new(0),
        }
    }

    /// Takes packets of a game, in the order in which they came.
    pub fn packets(&self, game: u32, packets: &[FlowPacket<'_>]) -> Taken {
        let (now, mut taken) = (self.now(), Taken::default());
        // Packets of one flow often come together: then its tracker is locked once.
        let mut held: Option<(usize, MutexGuard<'_, FlowTracker>)> = None;
        for packet in packets {
            let Some(pair) = Pair::of(packet.from.id, packet.to.id) else {
                taken.note(PacketOutcome::Ignored);
                continue;
            };
            let hash = self.hash(game, &pair);
            let shard = shard_of(hash);
            let tracker = match &mut held {
                Some((number, tracker)) if *number == shard => tracker,
                other => {
                    // The lock before is given back first: nobody ever holds two.
                    *other = None;
                    &mut other.insert((shard, self.trackers[shard].lock())).1
                }
            };
            taken.note(tracker.apply_packet(hash, game, packet, now));
        }
        drop(held);
        self.wake(taken.opened + taken.ended);
        taken
    }

    /// Shows the running flows of a game. Only a part of all flows is locked at a time.
    pub fn visit(&self, game: u32, mut visit: impl FnMut(&Flow)) {
        for tracker in &self.trackers {
            tracker.lock().running_flows().filter(|flow| flow.game == game).for_each(&mut visit);
        }
    }

    /// How all flows of a game do, and those of them that do worst now, the worst first.
    pub fn census(&self, game: u32, count: usize) -> (Census, Vec<Flow>) {
        let (mut census, mut ranked) = (Census::at(now_ms()), Vec::new());
        self.visit(game, |flow| {
            let recent = flow.recent_quality();
            census.add(flow, &recent);
            ranked.push((recent.mos, flow.id));
        });
        let order =
            |one: &(f64, u64), other: &(f64, u64)| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1));
        if count < ranked.len() {
            ranked.select_nth_unstable_by(count, order);
            ranked.truncate(count);
        }
        ranked.sort_unstable_by(order);
        (census, ranked.into_iter().filter_map(|(_, id)| self.find(game, id)).collect())
    }

    /// The running flow of this id.
    pub fn find(&self, game: u32, id: u64) -> Option<Flow> {
        self.trackers_of(id).find_map(|tracker| {
            tracker.lock().running_flows().find(|flow| flow.id == id && flow.game == game).cloned()
        })
    }

    /// The flow of this id that ended lately.
    pub fn find_ended(&self, game: u32, id: u64) -> Option<Flow> {
        // A moment after its end it is still with its tracker.
        let untold = self.trackers_of(id).find_map(|tracker| {
            tracker.lock().ended().iter().find(|flow| flow.id == id && flow.game == game).cloned()
        });
        untold.or_else(|| self.recent.find(game, id))
    }

    /// The last [`RECENT_MAX`] flows of a game that ended, the last first. An end is here within two seconds.
    pub fn ended(&self, game: u32) -> Vec<Flow> {
        self.recent.of(game)
    }

    /// All trackers, the likeliest for this id first: the one of its number opened it, but after a restart its pair may
    /// belong to another.
    fn trackers_of(&self, id: u64) -> impl Iterator<Item = &Mutex<FlowTracker>> {
        let first = usize::from(FlowTracker::number_of(id));
        let others = (0..SHARDS).filter(move |shard| *shard != first);
        std::iter::once(first).chain(others).filter_map(|shard| self.trackers.get(shard))
    }

    /// Figures for the operator.
    pub fn figures(&self) -> Figures {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (malformed, unknown) = (load(&self.malformed), load(&self.unknown));
        let mut figures = Figures { malformed, unknown, untold: load(&self.untold), ..Figures::default() };
        for tracker in &self.trackers {
            let tracker = tracker.lock();
            figures.flows += tracker.flow_count() as u64;
            let (all, its) = (&mut figures.totals, tracker.totals());
            all.opened += its.opened;
            all.ended += its.ended;
            all.counted += its.counted;
            all.stragglers += its.stragglers;
            all.rejected += its.rejected;
        }
        figures
    }

    /// Takes a flow back that was kept in the file. Whether it was not there yet.
    fn restore(&self, flow: Flow, now: FlowTime) -> bool {
        let (game, pair) = (flow.game, flow.pair());
        let hash = self.hash(game, &pair);
        if let (Some(low), Some(high)) = (parse_ssrc(pair.low), parse_ssrc(pair.high)) {
            self.meet(game, low, high, now);
            self.meet(game, high, low, now);
        }
        self.trackers[shard_of(hash)].lock().restore(hash, flow, now)
    }

    /// Has somebody look after the flows, if nobody does.
    fn wake(&self, news: u64) {
        if news > 0 && !self.is_watched.swap(true, Ordering::Relaxed) {
            self.bell.notify_one();
        }
    }

    fn now(&self) -> FlowTime {
        FlowTime { wall_ms: now_ms(), monotonic_ms: self.since.elapsed().as_millis() as u64 }
    }

    fn hash(&self, game: u32, pair: &Pair<'_>) -> u64 {
        self.hasher.hash_one((game, pair))
    }

    fn senders(&self, game: u32, ssrc: u32) -> MutexGuard<'_, RtcpSources> {
        self.senders[shard_of(self.hasher.hash_one((game, ssrc)))].lock()
    }

    fn meet(&self, game: u32, ssrc: u32, peer: u32, now: FlowTime) {
        self.senders(game, ssrc).add_peer(game, ssrc, peer, now);
    }
}

fn shard_of(hash: u64) -> usize {
    distribute(By::Key(hash), SHARDS)
}
