//! Compares the tracker with a slow, obvious reference: a list that is searched, and sequence numbers kept one by
//! one.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use model::flows::{
    self, DirectionStats, EndReason, Flow, FlowEnd, FlowPacket, FlowQuota, FlowTime, FlowTracker,
    IDLE_TIMEOUT_MS, PacketKind, PacketOutcome, Pair, ReceptionReport, STRAGGLER_WINDOW_MS,
};
use proptest::prelude::*;

const WALL_MS: i64 = 1_800_000_000_000;
/// Less than the number of pairs.
const LIMIT: usize = 5;
const ENDS: [&str; 4] = ["ann", "bo", "cy", "dee"];
/// The last two pairs use 32-bit numbers.
const PAIRS: [(usize, usize); 6] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];

/// A packet's sequence number relative to the next expected one.
#[derive(Clone, Debug)]
enum Number {
    Next,
    Skip(u64),
    Back(u64),
    Elsewhere(u32),
    AfterTheLast,
}

#[derive(Clone, Debug)]
enum Step {
    Packet { pair: usize, swapped: bool, number: Number, delay_us: i64, clock: bool },
    Report { pair: usize, swapped: bool, highest: u32, lost: i32, sent: Option<u32> },
    Bye { pair: usize, swapped: bool },
    Wait { seconds: u64 },
    Sweep,
    Restart,
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        8 => Just(Number::Next),
        2 => (1u64..6).prop_map(Number::Skip),
        1 => (2_990u64..3_010).prop_map(Number::Skip),
        4 => (1u64..5).prop_map(Number::Back),
        2 => (120u64..136).prop_map(Number::Back),
        1 => any::<u32>().prop_map(Number::Elsewhere),
        2 => Just(Number::AfterTheLast),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let packet = (0..6usize, any::<bool>(), number(), 0i64..40_000, any::<bool>()).prop_map(
        |(pair, swapped, number, delay_us, clock)| Step::Packet { pair, swapped, number, delay_us, clock },
    );
    let report = (0..6usize, any::<bool>(), 0u32..5_000, -3i32..50, prop::option::of(1u32..9_000))
        .prop_map(|(pair, swapped, highest, lost, sent)| Step::Report { pair, swapped, highest, lost, sent });
    prop_oneof![
        40 => packet,
        2 => report,
        2 => (0..6usize, any::<bool>()).prop_map(|(pair, swapped)| Step::Bye { pair, swapped }),
        3 => (0u64..4).prop_map(|seconds| Step::Wait { seconds }),
        1 => (4u64..70).prop_map(|seconds| Step::Wait { seconds }),
        2 => Just(Step::Sweep),
        1 => Just(Step::Restart),
    ]
}

/// One direction, number by number.
#[derive(Clone, Default)]
struct ReferenceDirection {
    received_numbers: BTreeSet<i128>,
    earlier: (u64, u64),
    duplicated: u32,
    reordered: u32,
    strays: u32,
    last_stray: Option<u32>,
    transits: Vec<i64>,
    reports: Vec<(u32, i32, Option<u32>)>,
}

impl ReferenceDirection {
    fn highest(&self) -> Option<i128> {
        self.received_numbers.last().copied()
    }

    /// Extends the number to the candidate nearest to the highest; of two equally near ones, the one ahead.
    fn extended(&self, number: u32) -> i128 {
        let Some(highest) = self.highest() else { return i128::from(number) };
        let period: i128 = if number <= 65_535 { 1 << 16 } else { 1 << 32 };
        let around = highest.div_euclid(period);
        let candidates = (around - 2..=around + 2).map(|round| round * period + i128::from(number));
        candidates
            .min_by_key(|candidate| (2 * (candidate - highest).abs(), *candidate > highest))
            .expect("five")
    }

    fn packet(&mut self, number: u32, transit: Option<i64>) {
        let extended = self.extended(number);
        let Some(highest) = self.highest() else {
            self.received_numbers.insert(extended);
            self.transits.extend(transit);
            return;
        };
        if extended > highest + 3_000 || extended <= highest - 128 {
            if self.last_stray.is_none_or(|last| successor(last) != number) {
                self.strays += 1;
                self.last_stray = Some(number);
                return;
            }
            self.earlier = (self.received(), self.lost());
            self.received_numbers = BTreeSet::from([i128::from(number)]);
            self.last_stray = None;
        } else if self.received_numbers.contains(&extended) {
            self.duplicated += 1;
            return;
        } else {
            self.reordered += u32::from(extended < highest);
            self.received_numbers.insert(extended);
        }
        self.transits.extend(transit);
    }

    fn received(&self) -> u64 {
        self.earlier.0 + self.received_numbers.len() as u64
    }

    fn lost(&self) -> u64 {
        let (Some(first), Some(last)) = (self.received_numbers.first(), self.received_numbers.last()) else {
            return self.earlier.1;
        };
        self.earlier.1 + (last - first + 1) as u64 - self.received_numbers.len() as u64
    }

    fn jitter_ms(&self) -> f64 {
        let mut jitter = 0.0;
        for two in self.transits.windows(2) {
            jitter += ((two[1] - two[0]).abs() as f64 - jitter) / 16.0;
        }
        jitter / 1000.0
    }

    fn stats(&self) -> DirectionStats {
        if self.received_numbers.is_empty() {
            return self.reported();
        }
        DirectionStats {
            highest: self.highest().expect("it is not empty") as u64,
            received: self.received(),
            lost: self.lost(),
            duplicated: self.duplicated,
            reordered: self.reordered,
            strays: self.strays,
            jitter_ms: self.jitter_ms(),
            is_reported: false,
        }
    }

    fn reported(&self) -> DirectionStats {
        let (Some(first), Some(last)) = (self.reports.first(), self.reports.last()) else {
            return DirectionStats::default();
        };
        let lost = |report: &(u32, i32, Option<u32>)| i64::from(report.1.max(0));
        let sent = self.reports.iter().rev().find_map(|report| report.2);
        let span = (i64::from(last.0) - i64::from(first.0)).max(0);
        let received = match sent {
            Some(sent) => i64::from(sent) - lost(last),
            None => span - (lost(last) - lost(first)).clamp(0, span),
        };
        DirectionStats {
            highest: u64::from(last.0),
            received: received.max(0) as u64,
            lost: lost(last) as u64,
            jitter_ms: 2.0,
            is_reported: true,
            ..DirectionStats::default()
        }
    }
}

fn successor(number: u32) -> u32 {
    if number == 65_535 { 0 } else { number.wrapping_add(1) }
}

/// One flow in the list of all.
#[derive(Clone)]
struct ReferenceFlow {
    pair: usize,
    opened_s: u64,
    last_s: u64,
    from: &'static str,
    ended: Option<(EndReason, u64)>,
    /// Sent by the lower and by the higher end.
    sent: [ReferenceDirection; 2],
}

impl ReferenceFlow {
    /// Returns true if a flow that has not ended timed out.
    fn is_idle(&self, now_s: u64) -> bool {
        self.ended.is_none() && now_s >= self.last_s + IDLE_TIMEOUT_MS / 1000
    }

    fn is_evicted(&self, now_s: u64) -> bool {
        match self.ended {
            Some((EndReason::Bye, at_s)) => now_s >= at_s + STRAGGLER_WINDOW_MS / 1000,
            Some((EndReason::Silence, _)) => true,
            None => false,
        }
    }

    fn describe(&self) -> String {
        let pair = Pair::of(ENDS[PAIRS[self.pair].0], ENDS[PAIRS[self.pair].1]).expect("two ends");
        let first = usize::from(self.from == pair.high);
        let stats = [self.sent[first].stats(), self.sent[1 - first].stats()];
        let ended = self.ended.map(|(cause, at_s)| (cause, WALL_MS + 1000 * at_s as i64));
        let (opened_ms, last_ms) =
            (WALL_MS + 1000 * self.opened_s as i64, WALL_MS + 1000 * self.last_s as i64);
        format!("{} {} {opened_ms} {last_ms} {ended:?} {stats:?} {}", pair.low, pair.high, self.from)
    }
}

fn describe(flow: &Flow) -> String {
    let pair = flow.pair();
    let (opened_ms, last_ms, ended, stats) = (flow.opened_ms, flow.last_ms, flow.ended, flow.stats());
    format!("{} {} {opened_ms} {last_ms} {ended:?} {stats:?} {}", pair.low, pair.high, flow.from().id)
}

#[derive(Default)]
struct ReferenceTracker {
    flows: Vec<ReferenceFlow>,
    ended: Vec<String>,
}

impl ReferenceTracker {
    fn end(&mut self, at: usize, cause: EndReason, now_s: u64) {
        let flow = &mut self.flows[at];
        flow.ended = Some((cause, if cause == EndReason::Bye { now_s } else { flow.last_s }));
        self.ended.push(flow.describe());
    }

    fn get_or_open(
        &mut self,
        pair: usize,
        opener: &'static str,
        now_s: u64,
        is_straggler: impl Fn(&ReferenceFlow) -> bool,
    ) -> Result<(&mut ReferenceFlow, PacketOutcome), PacketOutcome> {
        let mut outcome = PacketOutcome::Counted;
        if let Some(at) = self.flows.iter().position(|flow| flow.pair == pair) {
            if self.flows[at].is_idle(now_s) {
                self.end(at, EndReason::Silence, now_s);
            }
            let flow = &self.flows[at];
            if flow.ended.is_some() {
                if !flow.is_evicted(now_s) && is_straggler(flow) {
                    return Err(PacketOutcome::Straggler);
                }
                self.flows.remove(at);
            }
        }
        if !self.flows.iter().any(|flow| flow.pair == pair) {
            if self.flows.len() >= LIMIT {
                return Err(PacketOutcome::Rejected);
            }
            let (opened_s, last_s, sent) = (now_s, now_s, Default::default());
            self.flows.push(ReferenceFlow { pair, opened_s, last_s, from: opener, ended: None, sent });
            outcome = PacketOutcome::Opened;
        }
        let flow = self.flows.iter_mut().find(|flow| flow.pair == pair).expect("the flow was just added");
        flow.last_s = now_s;
        Ok((flow, outcome))
    }

    fn bye(&mut self, pair: usize, now_s: u64) -> PacketOutcome {
        let Some(at) = self.flows.iter().position(|flow| flow.pair == pair) else {
            return PacketOutcome::Ignored;
        };
        if self.flows[at].is_idle(now_s) {
            self.end(at, EndReason::Silence, now_s);
        }
        if self.flows[at].ended.is_some() {
            return PacketOutcome::Straggler;
        }
        self.end(at, EndReason::Bye, now_s);
        PacketOutcome::Ended
    }

    fn sweep(&mut self, now_s: u64) {
        for at in 0..self.flows.len() {
            if self.flows[at].is_idle(now_s) {
                self.end(at, EndReason::Silence, now_s);
            }
        }
        self.flows.retain(|flow| !flow.is_evicted(now_s));
    }
}

/// A quota that rejects nothing.
fn unlimited_quota() -> Arc<FlowQuota> {
    Arc::new(FlowQuota::new(u32::MAX))
}

/// Both trackers, and the numbers that the senders would send next.
struct Comparison {
    tracker: FlowTracker,
    reference: ReferenceTracker,
    next: [[u64; 2]; 6],
    last: [[u32; 2]; 6],
    now_s: u64,
}

impl Comparison {
    fn new() -> Comparison {
        // Some start just before their numbers wrap to zero.
        let next = std::array::from_fn(|pair| [65_530 + 7 * pair as u64, (1 << 32) - 3 - pair as u64]);
        let (tracker, reference) =
            (FlowTracker::new(0, LIMIT, unlimited_quota()), ReferenceTracker::default());
        Comparison { tracker, reference, next, last: [[0; 2]; 6], now_s: 0 }
    }

    fn now(&self) -> FlowTime {
        FlowTime { wall_ms: WALL_MS + 1000 * self.now_s as i64, monotonic_ms: 1000 * self.now_s }
    }

    fn number(&mut self, pair: usize, side: usize, number: &Number) -> u32 {
        let next = &mut self.next[pair][side];
        let sent = match number {
            Number::Next => *next,
            Number::Skip(count) => *next + count,
            Number::Back(count) => next.saturating_sub(*count),
            Number::Elsewhere(anywhere) => u64::from(*anywhere),
            Number::AfterTheLast => u64::from(successor(self.last[pair][side])),
        };
        if !matches!(number, Number::Back(_)) {
            *next = sent + 1;
        }
        let sent = if pair < 4 { sent as u32 & 0xffff } else { sent as u32 };
        self.last[pair][side] = sent;
        sent
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Packet { pair, swapped, number, delay_us, clock } => {
                self.packet(*pair, *swapped, number, *delay_us, *clock);
            }
            Step::Report { pair, swapped, highest, lost, sent } => {
                self.report(*pair, *swapped, (*highest, *lost, *sent));
            }
            Step::Bye { pair, swapped } => {
                let (from, to) = ends(*pair, *swapped);
                let packet = FlowPacket { from: end(from), to: end(to), kind: PacketKind::Bye };
                let outcome = self.tracker.apply_packet(hash(*pair), 1, &packet, self.now());
                assert_eq!(outcome, self.reference.bye(*pair, self.now_s), "{step:?}");
            }
            Step::Wait { seconds } => self.now_s += seconds,
            Step::Sweep => {
                self.tracker.expire(self.now());
                self.reference.sweep(self.now_s);
            }
            Step::Restart => self.restart(),
        }
        self.compare(step);
    }

    fn packet(&mut self, pair: usize, swapped: bool, number: &Number, delay_us: i64, clock: bool) {
        let (from, to) = ends(pair, swapped);
        let side = usize::from(from > to);
        let seq = self.number(pair, side, number);
        let at_us = self.now().wall_ms * 1000;
        let sent_us = clock.then_some(at_us - delay_us);
        let kind = PacketKind::Numbered { seq, sent_us, at_us };
        let packet = FlowPacket { from: end(from), to: end(to), kind };
        let outcome = self.tracker.apply_packet(hash(pair), 1, &packet, self.now());
        let near = |flow: &ReferenceFlow| {
            let sent = &flow.sent[side];
            sent.highest().is_none_or(|highest| (sent.extended(seq) - highest).abs() <= 3_000)
        };
        let expected = self.reference.get_or_open(pair, from, self.now_s, near).map(|(flow, outcome)| {
            flow.sent[side].packet(seq, clock.then_some(delay_us));
            outcome
        });
        assert_eq!(outcome, expected.unwrap_or_else(|outcome| outcome), "{seq} {from}>{to}");
    }

    fn report(&mut self, pair: usize, swapped: bool, (highest, lost, sent): (u32, i32, Option<u32>)) {
        let (reporter, source) = ends(pair, swapped);
        let report = ReceptionReport {
            reporter: end(reporter),
            source: end(source),
            highest,
            lost,
            fraction: 0,
            jitter_us: 2_000.0,
            sent,
            rtt_us: None,
        };
        let outcome = self.tracker.apply_report(hash(pair), 1, &report, self.now());
        let expected =
            self.reference.get_or_open(pair, source, self.now_s, |_| true).map(|(flow, outcome)| {
                flow.sent[usize::from(source > reporter)].reports.push((highest, lost, sent));
                outcome
            });
        assert_eq!(outcome, expected.unwrap_or_else(|outcome| outcome), "{reporter} about {source}");
    }

    /// Writes and restores the tracker; ended flows are reported once more.
    fn restart(&mut self) {
        let mut bytes = Vec::new();
        let count = self.tracker.write(&mut bytes);
        self.compare(&Step::Restart);
        self.tracker = FlowTracker::new(0, LIMIT, unlimited_quota());
        for flow in flows::read_flows(&bytes, count).expect("the bytes were just written") {
            let low = flow.pair().low.to_owned();
            let high = flow.pair().high.to_owned();
            let pair = (0..6).find(|pair| ends(*pair, false) == (&*low, &*high)).expect("one of the six");
            self.tracker.restore(hash(pair), flow, self.now());
        }
        let again =
            self.reference.flows.iter().filter(|flow| flow.ended.is_some()).map(ReferenceFlow::describe);
        self.reference.ended.extend(again);
    }

    fn compare(&mut self, step: &Step) {
        let sorted = |mut flows: Vec<String>| {
            flows.sort();
            flows
        };
        let running = sorted(self.tracker.running_flows().map(describe).collect());
        let reference = self.reference.flows.iter().filter(|flow| flow.ended.is_none());
        assert_eq!(
            running,
            sorted(reference.map(ReferenceFlow::describe).collect()),
            "running after {step:?}"
        );
        let ended = sorted(self.tracker.drain_ended().iter().map(describe).collect());
        let expected = sorted(std::mem::take(&mut self.reference.ended));
        assert_eq!(ended, expected, "ended by {step:?}");
    }
}

fn end(id: &str) -> FlowEnd<'_> {
    FlowEnd { id, address: None }
}

fn ends(pair: usize, swapped: bool) -> (&'static str, &'static str) {
    let (one, other) = (ENDS[PAIRS[pair].0], ENDS[PAIRS[pair].1]);
    if swapped { (other, one) } else { (one, other) }
}

fn hash(pair: usize) -> u64 {
    // Two pairs share each hash.
    rustc_hash::FxBuildHasher.hash_one(pair / 2)
}

fn check(steps: &[Step]) {
    let mut comparison = Comparison::new();
    steps.iter().for_each(|step| comparison.step(step));
}

proptest! {
    /// Ten thousand steps.
    #[test]
    fn tracker_matches_the_reference(steps in prop::collection::vec(step(), 250)) {
        check(&steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "a million steps take minutes; `make torture` runs them"]
    fn tracker_matches_the_reference_for_a_million_steps(
        steps in prop::collection::vec(step(), 500),
    ) {
        check(&steps);
    }
}
