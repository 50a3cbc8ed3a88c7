//! A tracker owns the flows of some pairs: it opens, finds and ends them.

use std::sync::Arc;

use hashbrown::HashTable;

use super::flow::{EndReason, Flow};
use super::pair::Pair;
use super::quality::Quality;
use super::quota::FlowQuota;
use super::rtcp::ReceptionReport;
use super::timer_wheel::{DueFlow, TimerWheel};
use super::{FlowPacket, FlowTime, PacketKind, STRAGGLER_WINDOW_MS};

/// Bits of a flow's id for the serial number within one millisecond and tracker.
const SERIAL_BITS: u32 = 16;
/// Bits of a flow's id for the number of the tracker.
const TRACKER_BITS: u32 = 6;

/// The outcome of a packet or report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOutcome {
    /// It opened a flow.
    Opened,
    /// It is counted in a flow.
    Counted,
    /// It ended a flow.
    Ended,
    /// It arrived after the end of its flow.
    Straggler,
    /// The limit of flows is reached.
    Rejected,
    /// The two ends are not valid, or it is a BYE for a flow that does not exist.
    Ignored,
}

/// Totals of everything since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackerTotals {
    /// Flows opened.
    pub opened: u64,
    /// Flows ended.
    pub ended: u64,
    /// Packets and reports counted in flows.
    pub counted: u64,
    /// Packets and reports that arrived after the end of their flow.
    pub stragglers: u64,
    /// Packets and reports that would have opened a flow beyond the limit.
    pub rejected: u64,
}

/// The flows of some pairs, each pair once.
pub struct FlowTracker {
    number: u16,
    limit: usize,
    quota: Arc<FlowQuota>,
    slots: Vec<Option<Box<Flow>>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    wheel: TimerWheel,
    ended: Vec<Flow>,
    totals: TrackerTotals,
    serial: u16,
}

impl FlowTracker {
    /// Creates a tracker with room for `limit` flows. The trackers of one installation have different numbers below
    /// 64 and share `quota`.
    pub fn new(number: u16, limit: usize, quota: Arc<FlowQuota>) -> FlowTracker {
        FlowTracker {
            number: number % (1 << TRACKER_BITS),
            limit,
            quota,
            slots: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            wheel: TimerWheel::new(),
            ended: Vec::new(),
            totals: TrackerTotals::default(),
            serial: 0,
        }
    }

    /// Returns the number of the tracker that opened the flow with this id.
    pub fn number_of(id: u64) -> u16 {
        (id >> SERIAL_BITS) as u16 % (1 << TRACKER_BITS)
    }

    /// Applies a packet. `hash` is a hash of the game and the pair, by the same function in all calls.
    pub fn apply_packet(
        &mut self,
        hash: u64,
        game: u32,
        packet: &FlowPacket<'_>,
        now: FlowTime,
    ) -> PacketOutcome {
        let FlowPacket { from, to, kind } = *packet;
        let Some(pair) = Pair::of(from.id, to.id) else { return PacketOutcome::Ignored };
        let PacketKind::Numbered { seq, sent_us, at_us } = kind else {
            return self.apply_bye(hash, game, &pair, now);
        };
        let continues = |flow: &Flow| flow.is_near(from.id, seq);
        let apply = |flow: &mut Flow| flow.apply_packet(from, to, seq, (sent_us, at_us), now);
        self.apply_to_flow(hash, game, &pair, from.id, now, continues, apply)
    }

    /// Applies a report.
    pub fn apply_report(
        &mut self,
        hash: u64,
        game: u32,
        report: &ReceptionReport<'_>,
        now: FlowTime,
    ) -> PacketOutcome {
        let Some(pair) = Pair::of(report.reporter.id, report.source.id) else {
            return PacketOutcome::Ignored;
        };
        // The reporter is not the sender: in a flow opened by a report, the source counts as the end that sent
        // first.
        let apply = |flow: &mut Flow| flow.apply_report(report, now);
        self.apply_to_flow(hash, game, &pair, report.source.id, now, |_| true, apply)
    }

    /// Ends the flow of a pair.
    pub fn apply_bye(&mut self, hash: u64, game: u32, pair: &Pair<'_>, now: FlowTime) -> PacketOutcome {
        let Some(slot) = self.find(hash, game, pair) else { return PacketOutcome::Ignored };
        if self.has_ended(slot, now) {
            return PacketOutcome::Straggler;
        }
        self.end(slot, EndReason::Bye, now);
        PacketOutcome::Ended
    }

    /// Finds or opens the flow. `continues` decides for an ended flow whether the packet belongs to it.
    fn apply_to_flow(
        &mut self,
        hash: u64,
        game: u32,
        pair: &Pair<'_>,
        opener: &str,
        now: FlowTime,
        continues: impl Fn(&Flow) -> bool,
        apply: impl Fn(&mut Flow),
    ) -> PacketOutcome {
        if let Some(slot) = self.find(hash, game, pair) {
            if !self.has_ended(slot, now) {
                apply(self.flow(slot));
                self.totals.counted += 1;
                return PacketOutcome::Counted;
            }
            let flow = self.flow(slot);
            if flow.expires_ms > now.monotonic_ms && continues(flow) {
                self.totals.stragglers += 1;
                return PacketOutcome::Straggler;
            }
            self.remove(slot);
        }
        if !self.acquire_room(game) {
            return PacketOutcome::Rejected;
        }
        let id = self.next_id(now);
        let mut flow = Flow::new(id, hash, game, pair, opener, now);
        apply(&mut flow);
        self.insert(flow);
        self.totals.opened += 1;
        self.totals.counted += 1;
        PacketOutcome::Opened
    }

    /// Returns true if the flow has ended; ends it now if it has timed out.
    fn has_ended(&mut self, slot: u32, now: FlowTime) -> bool {
        let flow = self.flow(slot);
        if flow.ended.is_none() && flow.expires_ms <= now.monotonic_ms {
            self.end(slot, EndReason::Silence, now);
        }
        self.flow(slot).ended.is_some()
    }

    fn end(&mut self, slot: u32, cause: EndReason, now: FlowTime) {
        let flow = self.flow(slot);
        let at_ms = if cause == EndReason::Bye { now.wall_ms } else { flow.last_ms };
        flow.ended = Some((cause, at_ms));
        flow.expires_ms = now.monotonic_ms + if cause == EndReason::Bye { STRAGGLER_WINDOW_MS } else { 0 };
        let (due, summary) = (DueFlow { slot, id: flow.id }, flow.clone());
        self.ended.push(summary);
        self.wheel.schedule(due, now.monotonic_ms + STRAGGLER_WINDOW_MS);
        self.totals.ended += 1;
    }

    /// Ends flows that timed out, and evicts ended flows once stragglers no longer matter.
    pub fn expire(&mut self, now: FlowTime) {
        for due in self.wheel.take_due(now.monotonic_ms) {
            let flow = self.slots[due.slot as usize].as_deref();
            let Some(flow) = flow.filter(|flow| flow.id == due.id) else { continue };
            let expires_ms = flow.expires_ms;
            if expires_ms > now.monotonic_ms {
                self.wheel.schedule(due, expires_ms);
            } else {
                self.has_ended(due.slot, now);
                self.remove(due.slot);
            }
        }
    }

    /// Returns the ended flows that were not drained yet, with their last statistics.
    pub fn ended(&self) -> &[Flow] {
        &self.ended
    }

    /// Removes and returns the ended flows, with their last statistics.
    pub fn drain_ended(&mut self) -> Vec<Flow> {
        std::mem::take(&mut self.ended)
    }

    /// Finishes a minute: passes each running flow with its quality in that minute to `visit`.
    pub fn finish_minute(&mut self, mut visit: impl FnMut(&Flow, &Quality)) {
        for flow in self.slots.iter_mut().flatten().filter(|flow| flow.ended.is_none()) {
            if let Some(quality) = flow.finish_minute() {
                visit(flow, &quality);
            }
        }
    }

    /// Returns the flows that have not ended.
    pub fn running_flows(&self) -> impl Iterator<Item = &Flow> {
        self.slots.iter().flatten().map(|flow| &**flow).filter(|flow| flow.ended.is_none())
    }

    /// Returns true if a flow of this game is in memory: one that is running or has ended recently.
    pub fn has_any(&self, game: u32) -> bool {
        self.slots.iter().flatten().any(|flow| flow.game == game)
    }

    /// Returns the number of flows in memory: those running and those ended recently.
    pub fn flow_count(&self) -> usize {
        self.index.len()
    }

    /// Returns the totals since start.
    pub fn totals(&self) -> TrackerTotals {
        self.totals
    }

    /// Appends all flows to `bytes`, including those ended recently. Returns their number.
    pub fn write(&self, bytes: &mut Vec<u8>) -> u32 {
        self.slots.iter().flatten().for_each(|flow| flow.write(bytes));
        self.index.len() as u32
    }

    /// Restores a flow that was written before. A flow that timed out meanwhile ends now, with its last statistics;
    /// one that had ended is reported as ended again, since the first report may have been lost. Limits do not apply
    /// to restored flows. Returns false if its pair already has a flow.
    pub fn restore(&mut self, hash: u64, mut flow: Flow, now: FlowTime) -> bool {
        if self.find(hash, flow.game, &flow.pair()).is_some() {
            return false;
        }
        self.quota.acquire_restored(flow.game);
        let (since_ms, grace_ms) = match flow.ended {
            Some((EndReason::Bye, ended_ms)) => (ended_ms, STRAGGLER_WINDOW_MS),
            Some((EndReason::Silence, ended_ms)) => (ended_ms, 0),
            None => (flow.last_ms, super::IDLE_TIMEOUT_MS),
        };
        let silent_ms = now.wall_ms.saturating_sub(since_ms).max(0) as u64;
        (flow.hash, flow.expires_ms) = (hash, now.monotonic_ms + grace_ms.saturating_sub(silent_ms));
        if flow.ended.is_some() {
            self.ended.push(flow.clone());
        }
        self.insert(flow);
        true
    }

    /// Reserves room for a flow of this game, if there is any.
    fn acquire_room(&mut self, game: u32) -> bool {
        let has_room = self.flow_count() < self.limit && self.quota.acquire(game);
        self.totals.rejected += u64::from(!has_room);
        has_room
    }

    fn insert(&mut self, flow: Flow) {
        let (id, hash, expires_ms) = (flow.id, flow.hash, flow.expires_ms);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(Box::new(flow));
        let slots = &self.slots;
        let rehash = |slot: &u32| slots[*slot as usize].as_ref().map_or(0, |flow| flow.hash);
        self.index.insert_unique(hash, slot, rehash);
        self.wheel.schedule(DueFlow { slot, id }, expires_ms);
    }

    fn remove(&mut self, slot: u32) {
        let Some(flow) = self.slots[slot as usize].take() else { return };
        self.quota.release(flow.game);
        if let Ok(entry) = self.index.find_entry(flow.hash, |other| *other == slot) {
            entry.remove();
        }
        self.free.push(slot);
    }

    fn find(&self, hash: u64, game: u32, pair: &Pair<'_>) -> Option<u32> {
        let slots = &self.slots;
        let matches = |slot: &u32| {
            let flow = slots[*slot as usize].as_deref();
            flow.is_some_and(|flow| flow.hash == hash && flow.game == game && flow.pair() == *pair)
        };
        self.index.find(hash, matches).copied()
    }

    fn flow(&mut self, slot: u32) -> &mut Flow {
        self.slots[slot as usize].as_deref_mut().expect("a slot that was found has a flow")
    }

    /// Combines milliseconds, tracker number and a serial number into an id that is unique even across restarts.
    fn next_id(&mut self, now: FlowTime) -> u64 {
        self.serial = self.serial.wrapping_add(1);
        let high = (now.wall_ms as u64) << TRACKER_BITS | u64::from(self.number);
        high << SERIAL_BITS | u64::from(self.serial)
    }
}
