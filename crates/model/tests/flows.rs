//! Flows against a slow and obvious account of them: a list that is searched, numbers that are kept one by one.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use model::flows::{
    self, Cause, End, Figures, Flow, FlowPacket, Moment, Pair, Report, SILENCE_MS, STRAGGLERS_MS, Shares,
    Took, Tracker, What,
};
use proptest::prelude::*;

const WALL_MS: i64 = 1_800_000_000_000;
/// Fewer than there are pairs.
const LIMIT: usize = 5;
const ENDS: [&str; 4] = ["ann", "bo", "cy", "dee"];
/// The last two send numbers of 32 bits.
const PAIRS: [(usize, usize); 6] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];

/// How a packet's number stands to the one that would come next.
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
struct Numbers {
    came: BTreeSet<i128>,
    earlier: (u64, u64),
    duplicated: u32,
    reordered: u32,
    strays: u32,
    last_stray: Option<u32>,
    transits: Vec<i64>,
    reports: Vec<(u32, i32, Option<u32>)>,
}

impl Numbers {
    fn highest(&self) -> Option<i128> {
        self.came.last().copied()
    }

    /// Of all numbers that are sent like this, the one nearest to the highest; ahead, if two are as near.
    fn meant(&self, number: u32) -> i128 {
        let Some(highest) = self.highest() else { return i128::from(number) };
        let period: i128 = if number <= 65_535 { 1 << 16 } else { 1 << 32 };
        let around = highest.div_euclid(period);
        let candidates = (around - 2..=around + 2).map(|round| round * period + i128::from(number));
        candidates
            .min_by_key(|candidate| (2 * (candidate - highest).abs(), *candidate > highest))
            .expect("five")
    }

    fn packet(&mut self, number: u32, transit: Option<i64>) {
        let meant = self.meant(number);
        let Some(highest) = self.highest() else {
            self.came.insert(meant);
            self.transits.extend(transit);
            return;
        };
        if meant > highest + 3_000 || meant <= highest - 128 {
            if self.last_stray.is_none_or(|last| follower(last) != number) {
                self.strays += 1;
                self.last_stray = Some(number);
                return;
            }
            self.earlier = (self.received(), self.lost());
            self.came = BTreeSet::from([i128::from(number)]);
            self.last_stray = None;
        } else if self.came.contains(&meant) {
            self.duplicated += 1;
            return;
        } else {
            self.reordered += u32::from(meant < highest);
            self.came.insert(meant);
        }
        self.transits.extend(transit);
    }

    fn received(&self) -> u64 {
        self.earlier.0 + self.came.len() as u64
    }

    fn lost(&self) -> u64 {
        let (Some(first), Some(last)) = (self.came.first(), self.came.last()) else { return self.earlier.1 };
        self.earlier.1 + (last - first + 1) as u64 - self.came.len() as u64
    }

    fn jitter_ms(&self) -> f64 {
        let mut jitter = 0.0;
        for two in self.transits.windows(2) {
            jitter += ((two[1] - two[0]).abs() as f64 - jitter) / 16.0;
        }
        jitter / 1000.0
    }

    fn figures(&self) -> Figures {
        if self.came.is_empty() {
            return self.reported();
        }
        Figures {
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

    fn reported(&self) -> Figures {
        let (Some(first), Some(last)) = (self.reports.first(), self.reports.last()) else {
            return Figures::default();
        };
        let lost = |report: &(u32, i32, Option<u32>)| i64::from(report.1.max(0));
        let sent = self.reports.iter().rev().find_map(|report| report.2);
        let span = (i64::from(last.0) - i64::from(first.0)).max(0);
        let received = match sent {
            Some(sent) => i64::from(sent) - lost(last),
            None => span - (lost(last) - lost(first)).clamp(0, span),
        };
        Figures {
            highest: u64::from(last.0),
            received: received.max(0) as u64,
            lost: lost(last) as u64,
            jitter_ms: 2.0,
            is_reported: true,
            ..Figures::default()
        }
    }
}

fn follower(number: u32) -> u32 {
    if number == 65_535 { 0 } else { number.wrapping_add(1) }
}

/// One flow, and in the list of all its place is all that it has.
#[derive(Clone)]
struct Account {
    pair: usize,
    opened_s: u64,
    last_s: u64,
    from: &'static str,
    ended: Option<(Cause, u64)>,
    /// By the lower and by the higher end.
    sent: [Numbers; 2],
}

impl Account {
    /// Whether nothing has been heard for too long, said of a flow that nobody has ended.
    fn is_silent(&self, now_s: u64) -> bool {
        self.ended.is_none() && now_s >= self.last_s + SILENCE_MS / 1000
    }

    fn is_forgotten(&self, now_s: u64) -> bool {
        match self.ended {
            Some((Cause::Bye, at_s)) => now_s >= at_s + STRAGGLERS_MS / 1000,
            Some((Cause::Silence, _)) => true,
            None => false,
        }
    }

    fn told(&self) -> String {
        let pair = Pair::of(ENDS[PAIRS[self.pair].0], ENDS[PAIRS[self.pair].1]).expect("two ends");
        let first = usize::from(self.from == pair.high);
        let figures = [self.sent[first].figures(), self.sent[1 - first].figures()];
        let ended = self.ended.map(|(cause, at_s)| (cause, WALL_MS + 1000 * at_s as i64));
        let (opened_ms, last_ms) =
            (WALL_MS + 1000 * self.opened_s as i64, WALL_MS + 1000 * self.last_s as i64);
        format!("{} {} {opened_ms} {last_ms} {ended:?} {figures:?} {}", pair.low, pair.high, self.from)
    }
}

fn told(flow: &Flow) -> String {
    let pair = flow.pair();
    let (opened_ms, last_ms, ended, figures) = (flow.opened_ms, flow.last_ms, flow.ended, flow.figures());
    format!("{} {} {opened_ms} {last_ms} {ended:?} {figures:?} {}", pair.low, pair.high, flow.from().id)
}

#[derive(Default)]
struct Accounts {
    kept: Vec<Account>,
    ended: Vec<String>,
}

impl Accounts {
    fn end(&mut self, at: usize, cause: Cause, now_s: u64) {
        let account = &mut self.kept[at];
        account.ended = Some((cause, if cause == Cause::Bye { now_s } else { account.last_s }));
        self.ended.push(account.told());
    }

    fn take(
        &mut self,
        pair: usize,
        opener: &'static str,
        now_s: u64,
        is_straggler: impl Fn(&Account) -> bool,
    ) -> Result<(&mut Account, Took), Took> {
        let mut took = Took::Counted;
        if let Some(at) = self.kept.iter().position(|account| account.pair == pair) {
            if self.kept[at].is_silent(now_s) {
                self.end(at, Cause::Silence, now_s);
            }
            let account = &self.kept[at];
            if account.ended.is_some() {
                if !account.is_forgotten(now_s) && is_straggler(account) {
                    return Err(Took::Straggler);
                }
                self.kept.remove(at);
            }
        }
        if !self.kept.iter().any(|account| account.pair == pair) {
            if self.kept.len() >= LIMIT {
                return Err(Took::Refused);
            }
            let (opened_s, last_s, sent) = (now_s, now_s, Default::default());
            self.kept.push(Account { pair, opened_s, last_s, from: opener, ended: None, sent });
            took = Took::Opened;
        }
        let account = self.kept.iter_mut().find(|account| account.pair == pair).expect("it is there now");
        account.last_s = now_s;
        Ok((account, took))
    }

    fn bye(&mut self, pair: usize, now_s: u64) -> Took {
        let Some(at) = self.kept.iter().position(|account| account.pair == pair) else {
            return Took::Nothing;
        };
        if self.kept[at].is_silent(now_s) {
            self.end(at, Cause::Silence, now_s);
        }
        if self.kept[at].ended.is_some() {
            return Took::Straggler;
        }
        self.end(at, Cause::Bye, now_s);
        Took::Ended
    }

    fn sweep(&mut self, now_s: u64) {
        for at in 0..self.kept.len() {
            if self.kept[at].is_silent(now_s) {
                self.end(at, Cause::Silence, now_s);
            }
        }
        self.kept.retain(|account| !account.is_forgotten(now_s));
    }
}

/// Shares of which nobody is refused one.
fn alone() -> Arc<Shares> {
    Arc::new(Shares::new(u32::MAX))
}

/// Both, and what the senders would send next.
struct Both {
    tracker: Tracker,
    accounts: Accounts,
    next: [[u64; 2]; 6],
    last: [[u32; 2]; 6],
    now_s: u64,
}

impl Both {
    fn new() -> Both {
        // Some begin just before their numbers go on at zero.
        let next = std::array::from_fn(|pair| [65_530 + 7 * pair as u64, (1 << 32) - 3 - pair as u64]);
        let (tracker, accounts) = (Tracker::new(0, LIMIT, alone()), Accounts::default());
        Both { tracker, accounts, next, last: [[0; 2]; 6], now_s: 0 }
    }

    fn now(&self) -> Moment {
        Moment { wall_ms: WALL_MS + 1000 * self.now_s as i64, tick_ms: 1000 * self.now_s }
    }

    fn number(&mut self, pair: usize, side: usize, number: &Number) -> u32 {
        let next = &mut self.next[pair][side];
        let sent = match number {
            Number::Next => *next,
            Number::Skip(count) => *next + count,
            Number::Back(count) => next.saturating_sub(*count),
            Number::Elsewhere(anywhere) => u64::from(*anywhere),
            Number::AfterTheLast => u64::from(follower(self.last[pair][side])),
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
                let packet = FlowPacket { from: end(from), to: end(to), what: What::Bye };
                let took = self.tracker.packet(hash(*pair), 1, &packet, self.now());
                assert_eq!(took, self.accounts.bye(*pair, self.now_s), "{step:?}");
            }
            Step::Wait { seconds } => self.now_s += seconds,
            Step::Sweep => {
                self.tracker.advance(self.now());
                self.accounts.sweep(self.now_s);
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
        let what = What::Numbered { seq, sent_us, at_us };
        let packet = FlowPacket { from: end(from), to: end(to), what };
        let took = self.tracker.packet(hash(pair), 1, &packet, self.now());
        let near = |account: &Account| {
            let sent = &account.sent[side];
            sent.highest().is_none_or(|highest| (sent.meant(seq) - highest).abs() <= 3_000)
        };
        let expected = self.accounts.take(pair, from, self.now_s, near).map(|(account, took)| {
            account.sent[side].packet(seq, clock.then_some(delay_us));
            took
        });
        assert_eq!(took, expected.unwrap_or_else(|took| took), "{seq} {from}>{to}");
    }

    fn report(&mut self, pair: usize, swapped: bool, (highest, lost, sent): (u32, i32, Option<u32>)) {
        let (by, about) = ends(pair, swapped);
        let report = Report {
            by: end(by),
            about: end(about),
            highest,
            lost,
            fraction: 0,
            jitter_us: 2_000.0,
            sent,
            rtt_us: None,
        };
        let took = self.tracker.report(hash(pair), 1, &report, self.now());
        let expected = self.accounts.take(pair, about, self.now_s, |_| true).map(|(account, took)| {
            account.sent[usize::from(about > by)].reports.push((highest, lost, sent));
            took
        });
        assert_eq!(took, expected.unwrap_or_else(|took| took), "{by} about {about}");
    }

    /// Written and read back; what had ended is told once more.
    fn restart(&mut self) {
        let mut bytes = Vec::new();
        let count = self.tracker.write(&mut bytes);
        self.compare(&Step::Restart);
        self.tracker = Tracker::new(0, LIMIT, alone());
        for flow in flows::read(&bytes, count).expect("they were written") {
            let low = flow.pair().low.to_owned();
            let high = flow.pair().high.to_owned();
            let pair = (0..6).find(|pair| ends(*pair, false) == (&*low, &*high)).expect("one of the six");
            self.tracker.restore(hash(pair), flow, self.now());
        }
        let again = self.accounts.kept.iter().filter(|account| account.ended.is_some()).map(Account::told);
        self.accounts.ended.extend(again);
    }

    fn compare(&mut self, step: &Step) {
        let sorted = |mut told: Vec<String>| {
            told.sort();
            told
        };
        let running = sorted(self.tracker.flows().map(told).collect());
        let accounts = self.accounts.kept.iter().filter(|account| account.ended.is_none());
        assert_eq!(running, sorted(accounts.map(Account::told).collect()), "running after {step:?}");
        let ended = sorted(self.tracker.take_ended().iter().map(told).collect());
        let expected = sorted(std::mem::take(&mut self.accounts.ended));
        assert_eq!(ended, expected, "ended by {step:?}");
    }
}

fn end(id: &str) -> End<'_> {
    End { id, address: None }
}

fn ends(pair: usize, swapped: bool) -> (&'static str, &'static str) {
    let (one, other) = (ENDS[PAIRS[pair].0], ENDS[PAIRS[pair].1]);
    if swapped { (other, one) } else { (one, other) }
}

fn hash(pair: usize) -> u64 {
    // Two pairs share one hash.
    rustc_hash::FxBuildHasher.hash_one(pair / 2)
}

fn check(steps: &[Step]) {
    let mut both = Both::new();
    steps.iter().for_each(|step| both.step(step));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Ten thousand steps.
    #[test]
    fn flows_are_what_the_obvious_account_says(steps in prop::collection::vec(step(), 250)) {
        check(&steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "a million steps take minutes; `make torture` runs them"]
    fn flows_are_what_the_obvious_account_says_for_a_million_steps(
        steps in prop::collection::vec(step(), 500),
    ) {
        check(&steps);
    }
}
