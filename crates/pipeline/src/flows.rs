//! The flows of all games: one tracker owns each pair of ends, on whatever thread a packet arrives.
//!
//! A pair belongs to one of [`SHARDS`] trackers by a hash of its unordered ends. Finding a flow and opening it is one
//! step under that tracker's lock, so two threads that receive the first packets of one flow open one flow.
//!
//! Collectors call [`Flows::apply_packets`] and [`Flows::apply_rtcp`] with as many packets as they have; these neither
//! wait nor write. Ended flows and the quality of each minute go into the log as events (`reporter`), and running flows
//! are saved in a file (`saved_flows`).

mod minute_quality;
mod packet_lines;
mod recently_ended;
mod reporter;
mod rtcp;
mod saved_flows;
mod statistics;
mod summary;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
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

use crate::distribute::{DistributeBy, distribute};
use crate::time::now_ms;
use recently_ended::RecentlyEnded;

pub use recently_ended::RECENTLY_ENDED_MAX;
pub use reporter::{ReporterContext, start_reporter};
pub use rtcp::{Datagram, RtcpCounts};
pub use statistics::FlowStatistics;
pub use summary::flow_json;

/// The number of trackers, each with a lock of its own.
const SHARDS: usize = 64;
/// Sources of RTCP that one shard keeps.
const SENDERS_MAX: usize = 2 * FLOWS_MAX / SHARDS;

/// The flows of all games.
pub struct Flows {
    trackers: Box<[Mutex<FlowTracker>]>,
    /// Sources of RTCP, sharded by their own hash.
    senders: Box<[Mutex<RtcpSources>]>,
    recent: RecentlyEnded,
    /// Held while the file is written.
    saving: Mutex<()>,
    hasher: DefaultHashBuilder,
    since: Instant,
    /// The reporter is awake. If it is not, it is notified when a flow opens.
    is_reporter_awake: AtomicBool,
    reporter_wanted: Notify,
    malformed: AtomicU64,
    unknown: AtomicU64,
    unreported: AtomicU64,
}

/// The number of packets and reports by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Flows that were opened. The packet that opened a flow is also in `counted`.
    pub opened: u64,
    /// Packets that were counted in a flow.
    pub counted: u64,
    /// Flows that were ended by a BYE.
    pub ended: u64,
    /// Packets that arrived after the end of their flow.
    pub stragglers: u64,
    /// Packets that would have opened a flow above the game's limit.
    pub rejected: u64,
    /// A BYE of an unknown flow, or a packet without two different ends.
    pub ignored: u64,
}

impl std::ops::Add for PacketCounts {
    type Output = PacketCounts;

    fn add(self, other: PacketCounts) -> PacketCounts {
        PacketCounts {
            opened: self.opened + other.opened,
            counted: self.counted + other.counted,
            ended: self.ended + other.ended,
            stragglers: self.stragglers + other.stragglers,
            rejected: self.rejected + other.rejected,
            ignored: self.ignored + other.ignored,
        }
    }
}

impl PacketCounts {
    /// Returns the number of all packets and reports.
    pub fn packets(&self) -> u64 {
        self.counted + self.ended + self.stragglers + self.rejected + self.ignored
    }

    fn add_outcome(&mut self, outcome: PacketOutcome) {
        match outcome {
            PacketOutcome::Opened => {
                self.opened += 1;
                self.counted += 1;
            }
            PacketOutcome::Counted => self.counted += 1,
            PacketOutcome::Ended => self.ended += 1,
            PacketOutcome::Straggler => self.stragglers += 1,
            PacketOutcome::Rejected => self.rejected += 1,
            PacketOutcome::Ignored => self.ignored += 1,
        }
    }
}

/// Metrics for the operator, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowMetrics {
    /// Packets and reports by outcome.
    pub totals: TrackerTotals,
    /// Running flows.
    pub flows: u64,
    /// Datagrams that were not valid RTCP.
    pub malformed: u64,
    /// RTCP packets of an unknown type.
    pub unknown: u64,
    /// Ended flows for which no event was written.
    pub unreported: u64,
}

impl Default for Flows {
    /// Creates flows without a limit per game below the total limit.
    fn default() -> Flows {
        Flows::new(FLOWS_MAX as u32)
    }
}

impl Flows {
    /// Creates an empty set of flows with a limit of concurrent flows per game.
    pub fn new(per_game_max: u32) -> Flows {
        let (each, shares) = (|| 0..SHARDS, Arc::new(FlowQuota::new(per_game_max)));
        let tracker = |number| FlowTracker::new(number as u16, FLOWS_MAX / SHARDS, Arc::clone(&shares));
        Flows {
            trackers: each().map(|number| Mutex::new(tracker(number))).collect(),
            senders: each().map(|_| Mutex::new(RtcpSources::new(SENDERS_MAX))).collect(),
            recent: RecentlyEnded::default(),
            saving: Mutex::default(),
            hasher: DefaultHashBuilder::default(),
            since: Instant::now(),
            is_reporter_awake: AtomicBool::new(false),
            reporter_wanted: Notify::new(),
            malformed: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            unreported: AtomicU64::new(0),
        }
    }

    /// Applies packets of a game, in their order of arrival.
    pub fn apply_packets(&self, game: u32, packets: &[FlowPacket<'_>]) -> PacketCounts {
        let (now, mut counts) = (self.now(), PacketCounts::default());
        // Packets of one flow often arrive together: then its tracker is locked once.
        let mut locked: Option<(usize, MutexGuard<'_, FlowTracker>)> = None;
        for packet in packets {
            let Some(pair) = Pair::of(packet.from.id, packet.to.id) else {
                counts.add_outcome(PacketOutcome::Ignored);
                continue;
            };
            let hash = self.hash(game, &pair);
            let shard = shard_of(hash);
            let tracker = match &mut locked {
                Some((number, tracker)) if *number == shard => tracker,
                other => {
                    // The previous lock is released first: no thread ever holds two.
                    *other = None;
                    &mut other.insert((shard, self.trackers[shard].lock())).1
                }
            };
            counts.add_outcome(tracker.apply_packet(hash, game, packet, now));
        }
        drop(locked);
        self.wake_reporter(counts.opened + counts.ended);
        counts
    }

    /// Visits the running flows of a game. Only one shard is locked at a time.
    pub fn visit(&self, game: u32, mut visit: impl FnMut(&Flow)) {
        for tracker in &self.trackers {
            tracker.lock().running_flows().filter(|flow| flow.game == game).for_each(&mut visit);
        }
    }

    /// Returns the statistics of a game's running flows and the `count` flows with the lowest MOS, lowest first.
    pub fn statistics(&self, game: u32, count: usize) -> (FlowStatistics, Vec<Flow>) {
        let (mut statistics, mut ranked) = (FlowStatistics::new(now_ms()), Vec::new());
        self.visit(game, |flow| {
            let recent = flow.recent_quality();
            statistics.add(flow, &recent);
            ranked.push((recent.mos, flow.id));
        });
        let order =
            |one: &(f64, u64), other: &(f64, u64)| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1));
        if count < ranked.len() {
            ranked.select_nth_unstable_by(count, order);
            ranked.truncate(count);
        }
        ranked.sort_unstable_by(order);
        (statistics, ranked.into_iter().filter_map(|(_, id)| self.find(game, id)).collect())
    }

    /// Returns true if a flow of this game is in memory: one that is running or has ended recently.
    pub(crate) fn has_any(&self, game: u32) -> bool {
        self.trackers.iter().any(|tracker| tracker.lock().has_any(game))
    }

    /// Removes the recently ended flows of some games.
    pub(crate) fn remove_ended(&self, games: &BTreeSet<u32>) {
        self.recent.remove(games);
    }

    /// Returns the running flow with this id.
    pub fn find(&self, game: u32, id: u64) -> Option<Flow> {
        self.trackers_of(id).find_map(|tracker| {
            tracker.lock().running_flows().find(|flow| flow.id == id && flow.game == game).cloned()
        })
    }

    /// Returns the recently ended flow with this id.
    pub fn find_ended(&self, game: u32, id: u64) -> Option<Flow> {
        // For a moment after its end the flow is still in its tracker.
        let unreported = self.trackers_of(id).find_map(|tracker| {
            tracker.lock().ended().iter().find(|flow| flow.id == id && flow.game == game).cloned()
        });
        unreported.or_else(|| self.recent.find(game, id))
    }

    /// Returns the last [`RECENTLY_ENDED_MAX`] ended flows of a game, newest first. An ended flow appears within two
    /// seconds.
    pub fn recently_ended(&self, game: u32) -> Vec<Flow> {
        self.recent.of(game)
    }

    /// Returns all trackers, the likeliest for this id first. The id contains the number of the tracker that opened the
    /// flow, but after a restart the pair may belong to another one.
    fn trackers_of(&self, id: u64) -> impl Iterator<Item = &Mutex<FlowTracker>> {
        let first = usize::from(FlowTracker::number_of(id));
        let others = (0..SHARDS).filter(move |shard| *shard != first);
        std::iter::once(first).chain(others).filter_map(|shard| self.trackers.get(shard))
    }

    /// Returns metrics for the operator.
    pub fn metrics(&self) -> FlowMetrics {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (malformed, unknown) = (load(&self.malformed), load(&self.unknown));
        let unreported = load(&self.unreported);
        let mut metrics = FlowMetrics { malformed, unknown, unreported, ..FlowMetrics::default() };
        for tracker in &self.trackers {
            let tracker = tracker.lock();
            metrics.flows += tracker.flow_count() as u64;
            let (all, its) = (&mut metrics.totals, tracker.totals());
            all.opened += its.opened;
            all.ended += its.ended;
            all.counted += its.counted;
            all.stragglers += its.stragglers;
            all.rejected += its.rejected;
        }
        metrics
    }

    /// Restores a flow from the file. Returns false if its pair has a flow already.
    fn restore(&self, flow: Flow, now: FlowTime) -> bool {
        let (game, pair) = (flow.game, flow.pair());
        let hash = self.hash(game, &pair);
        if let (Some(low), Some(high)) = (parse_ssrc(pair.low), parse_ssrc(pair.high)) {
            self.meet(game, low, high, now);
            self.meet(game, high, low, now);
        }
        self.trackers[shard_of(hash)].lock().restore(hash, flow, now)
    }

    /// Wakes the reporter if it sleeps and there are changes.
    fn wake_reporter(&self, changes: u64) {
        if changes > 0 && !self.is_reporter_awake.swap(true, Ordering::Relaxed) {
            self.reporter_wanted.notify_one();
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
    distribute(DistributeBy::Hash(hash), SHARDS)
}
