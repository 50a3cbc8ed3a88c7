//! The owner of some pairs: finds or opens their flows, and ends them.

use std::sync::Arc;

use hashbrown::HashTable;

use super::flow::{Cause, Flow};
use super::pair::Pair;
use super::quality::Quality;
use super::report::Report;
use super::shares::Shares;
use super::wheel::{Due, Wheel};
use super::{FlowPacket, Moment, STRAGGLERS_MS, What};

/// Bits of a flow's id that number the flows of one millisecond in one tracker.
const SERIAL_BITS: u32 = 16;
/// Bits of a flow's id that name the tracker.
const TRACKER_BITS: u32 = 6;

/// What became of a packet or report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// It opened a flow.
    Opened,
    /// It is counted in a flow.
    Counted,
    /// It ended a flow.
    Ended,
    /// It came after the end of its flow.
    Straggler,
    /// There are as many flows as there may be.
    Refused,
    /// The ends are no two ends, or it says goodbye for a flow that is not there.
    Nothing,
}

/// What became of everything so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Flows opened.
    pub opened: u64,
    /// Flows ended.
    pub ended: u64,
    /// Packets and reports counted in flows.
    pub counted: u64,
    /// Those that came after the end.
    pub stragglers: u64,
    /// Those that would have opened one flow too many.
    pub refused: u64,
}

/// The flows of some pairs, each pair once.
pub struct Tracker {
    number: u16,
    limit: usize,
    shares: Arc<Shares>,
    places: Vec<Option<Box<Flow>>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    wheel: Wheel,
    ended: Vec<Flow>,
    totals: Totals,
    serial: u16,
}

impl Tracker {
    /// A tracker that opens a flow while it has fewer than `limit`. Those of one installation have different numbers, below 64, and the same
    /// `shares`.
    pub fn new(number: u16, limit: usize, shares: Arc<Shares>) -> Tracker {
        Tracker {
            number: number % (1 << TRACKER_BITS),
            limit,
            shares,
            places: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            wheel: Wheel::new(),
            ended: Vec::new(),
            totals: Totals::default(),
            serial: 0,
        }
    }

    /// The number of the tracker that opened the flow of this id.
    pub fn number_of(id: u64) -> u16 {
        (id >> SERIAL_BITS) as u16 % (1 << TRACKER_BITS)
    }

    /// Takes a packet. `hash` is of the game and the pair, by one function for all calls.
    pub fn packet(&mut self, hash: u64, game: u32, packet: &FlowPacket<'_>, now: Moment) -> Took {
        let FlowPacket { from, to, what } = *packet;
        let Some(pair) = Pair::of(from.id, to.id) else { return Took::Nothing };
        let What::Numbered { seq, sent_us, at_us } = what else { return self.bye(hash, game, &pair, now) };
        let goes_on = |flow: &Flow| flow.is_near(from.id, seq);
        let took = |flow: &mut Flow| flow.packet(from, to, seq, (sent_us, at_us), now);
        self.take(hash, game, &pair, from.id, now, goes_on, took)
    }

    /// Takes a report.
    pub fn report(&mut self, hash: u64, game: u32, report: &Report<'_>, now: Moment) -> Took {
        let Some(pair) = Pair::of(report.by.id, report.about.id) else { return Took::Nothing };
        // Who reports is not who sends: of a flow that a report opens, the sender counts as the first.
        let took = |flow: &mut Flow| flow.report(report, now);
        self.take(hash, game, &pair, report.about.id, now, |_| true, took)
    }

    /// Ends the flow of a pair.
    pub fn bye(&mut self, hash: u64, game: u32, pair: &Pair<'_>, now: Moment) -> Took {
        let Some(place) = self.find(hash, game, pair) else { return Took::Nothing };
        if self.is_over(place, now) {
            return Took::Straggler;
        }
        self.end(place, Cause::Bye, now);
        Took::Ended
    }

    /// Finds the flow or opens it. `goes_on` tells, of a flow that has ended, whether this belongs to it.
    fn take(
        &mut self,
        hash: u64,
        game: u32,
        pair: &Pair<'_>,
        opener: &str,
        now: Moment,
        goes_on: impl Fn(&Flow) -> bool,
        took: impl Fn(&mut Flow),
    ) -> Took {
        if let Some(place) = self.find(hash, game, pair) {
            if !self.is_over(place, now) {
                took(self.flow(place));
                self.totals.counted += 1;
                return Took::Counted;
            }
            let flow = self.flow(place);
            if flow.expires_ms > now.tick_ms && goes_on(flow) {
                self.totals.stragglers += 1;
                return Took::Straggler;
            }
            self.remove(place);
        }
        if !self.has_room(game) {
            return Took::Refused;
        }
        let id = self.next_id(now);
        let mut flow = Flow::new(id, hash, game, pair, opener, now);
        took(&mut flow);
        self.insert(flow);
        self.totals.opened += 1;
        self.totals.counted += 1;
        Took::Opened
    }

    /// Whether the flow has ended; a silent one ends here if it has not been looked at.
    fn is_over(&mut self, place: u32, now: Moment) -> bool {
        let flow = self.flow(place);
        if flow.ended.is_none() && flow.expires_ms <= now.tick_ms {
            self.end(place, Cause::Silence, now);
        }
        self.flow(place).ended.is_some()
    }

    fn end(&mut self, place: u32, cause: Cause, now: Moment) {
        let flow = self.flow(place);
        let at_ms = if cause == Cause::Bye { now.wall_ms } else { flow.last_ms };
        flow.ended = Some((cause, at_ms));
        flow.expires_ms = now.tick_ms + if cause == Cause::Bye { STRAGGLERS_MS } else { 0 };
        let (due, summary) = (Due { place, id: flow.id }, flow.clone());
        self.ended.push(summary);
        self.wheel.put(due, now.tick_ms + STRAGGLERS_MS);
        self.totals.ended += 1;
    }

    /// Ends what has been silent, and forgets what has ended long enough ago.
    pub fn advance(&mut self, now: Moment) {
        for due in self.wheel.take(now.tick_ms) {
            let flow = self.places[due.place as usize].as_deref();
            let Some(flow) = flow.filter(|flow| flow.id == due.id) else { continue };
            let expires_ms = flow.expires_ms;
            if expires_ms > now.tick_ms {
                self.wheel.put(due, expires_ms);
            } else {
                self.is_over(due.place, now);
                self.remove(due.place);
            }
        }
    }

    /// Flows that have ended and were not taken yet, with their last figures.
    pub fn ended(&self) -> &[Flow] {
        &self.ended
    }

    /// The same, which are taken with it.
    pub fn take_ended(&mut self) -> Vec<Flow> {
        std::mem::take(&mut self.ended)
    }

    /// A minute is over: the quality of each running flow in it.
    pub fn turn_minute(&mut self, mut tell: impl FnMut(&Flow, &Quality)) {
        for flow in self.places.iter_mut().flatten().filter(|flow| flow.ended.is_none()) {
            if let Some(quality) = flow.turn_minute() {
                tell(flow, &quality);
            }
        }
    }

    /// The flows that have not ended.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.places.iter().flatten().map(|flow| &**flow).filter(|flow| flow.ended.is_none())
    }

    /// How many flows are in memory: those that run and those that ended a moment ago.
    pub fn running(&self) -> usize {
        self.index.len()
    }

    /// What became of everything so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Adds all flows to the bytes, those that ended a moment ago included. Returns how many.
    pub fn write(&self, bytes: &mut Vec<u8>) -> u32 {
        self.places.iter().flatten().for_each(|flow| flow.write(bytes));
        self.index.len() as u32
    }

    /// Takes a flow back that was written. What timed out meanwhile ends now, with its last figures; what had ended
    /// is told as ended once more, since nobody knows whether it was. Limits are for new flows: it is taken whatever they
    /// are. `false`: its pair has a flow already.
    pub fn restore(&mut self, hash: u64, mut flow: Flow, now: Moment) -> bool {
        if self.find(hash, flow.game, &flow.pair()).is_some() {
            return false;
        }
        self.shares.take_back(flow.game);
        let (since_ms, patience_ms) = match flow.ended {
            Some((Cause::Bye, ended_ms)) => (ended_ms, STRAGGLERS_MS),
            Some((Cause::Silence, ended_ms)) => (ended_ms, 0),
            None => (flow.last_ms, super::SILENCE_MS),
        };
        let silent_ms = now.wall_ms.saturating_sub(since_ms).max(0) as u64;
        (flow.hash, flow.expires_ms) = (hash, now.tick_ms + patience_ms.saturating_sub(silent_ms));
        if flow.ended.is_some() {
            self.ended.push(flow.clone());
        }
        self.insert(flow);
        true
    }

    /// Takes room for a flow of this game, if there is some.
    fn has_room(&mut self, game: u32) -> bool {
        let has_room = self.running() < self.limit && self.shares.take(game);
        self.totals.refused += u64::from(!has_room);
        has_room
    }

    fn insert(&mut self, flow: Flow) {
        let (id, hash, expires_ms) = (flow.id, flow.hash, flow.expires_ms);
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.places[place as usize] = Some(Box::new(flow));
        let places = &self.places;
        let rehash = |place: &u32| places[*place as usize].as_ref().map_or(0, |flow| flow.hash);
        self.index.insert_unique(hash, place, rehash);
        self.wheel.put(Due { place, id }, expires_ms);
    }

    fn remove(&mut self, place: u32) {
        let Some(flow) = self.places[place as usize].take() else { return };
        self.shares.give_back(flow.game);
        if let Ok(entry) = self.index.find_entry(flow.hash, |other| *other == place) {
            entry.remove();
        }
        self.free.push(place);
    }

    fn find(&self, hash: u64, game: u32, pair: &Pair<'_>) -> Option<u32> {
        let places = &self.places;
        let is_it = |place: &u32| {
            let flow = places[*place as usize].as_deref();
            flow.is_some_and(|flow| flow.hash == hash && flow.game == game && flow.pair() == *pair)
        };
        self.index.find(hash, is_it).copied()
    }

    fn flow(&mut self, place: u32) -> &mut Flow {
        self.places[place as usize].as_deref_mut().expect("a place that was found has a flow")
    }

    /// The milliseconds, the tracker's number, and a serial number: not again, even after a restart.
    fn next_id(&mut self, now: Moment) -> u64 {
        self.serial = self.serial.wrapping_add(1);
        let high = (now.wall_ms as u64) << TRACKER_BITS | u64::from(self.number);
        high << SERIAL_BITS | u64::from(self.serial)
    }
}
