//! Tests of flows, written as scripts of packets.

use std::sync::Arc;

use super::*;

const WALL_MS: i64 = 1_800_000_000_000;

fn hash(game: u32, one: &str, other: &str) -> u64 {
    use std::hash::BuildHasher;
    rustc_hash::FxBuildHasher.hash_one((game, Pair::of(one, other)))
}

/// A quota that rejects nothing.
fn unlimited_quota() -> Arc<FlowQuota> {
    Arc::new(FlowQuota::new(u32::MAX))
}

/// A tracker with a clock, driven by scripts.
struct TestTracker {
    tracker: FlowTracker,
    ms: u64,
}

impl TestTracker {
    fn new() -> TestTracker {
        TestTracker { tracker: FlowTracker::new(3, 100, unlimited_quota()), ms: 0 }
    }

    fn now(&self) -> FlowTime {
        FlowTime { wall_ms: WALL_MS + self.ms as i64, monotonic_ms: self.ms }
    }

    fn at_us(&self) -> i64 {
        self.now().wall_ms * 1000
    }

    /// Runs one step: `ann>bo 7` is packet 7 from ann to bo, `ann>bo 7 192.0.2.1:5000` the same from that address,
    /// `ann>bo bye` a BYE, `+300` waits 300 ms, `sweep` expires flows.
    fn step(&mut self, step: &str) -> Option<PacketOutcome> {
        if let Some(ms) = step.strip_prefix('+') {
            self.ms += ms.parse::<u64>().expect("milliseconds");
            return None;
        }
        if step == "sweep" {
            self.tracker.expire(self.now());
            return None;
        }
        let step: Vec<&str> = step.split(' ').collect();
        let (from, to) = step[0].split_once('>').expect("two ends");
        let kind = match step[1] {
            "bye" => PacketKind::Bye,
            seq => {
                let seq = seq.parse().expect("a number");
                PacketKind::Numbered { seq, sent_us: Some(i64::from(seq) * 20_000), at_us: self.at_us() }
            }
        };
        let address = step.get(2).map(|address| address.parse().expect("an address"));
        let packet =
            FlowPacket { from: FlowEnd { id: from, address }, to: FlowEnd { id: to, address: None }, kind };
        Some(self.tracker.apply_packet(hash(1, from, to), 1, &packet, self.now()))
    }

    fn running(&self) -> Vec<String> {
        self.tracker.running_flows().map(describe).collect()
    }
}

fn describe(flow: &Flow) -> String {
    let [there, back] = flow.stats().map(|stats| {
        let DirectionStats { highest, received, lost, duplicated, reordered, strays, .. } = stats;
        format!("{highest}: {received} lost {lost} dup {duplicated} late {reordered} stray {strays}")
    });
    let ended = flow.ended.map_or("", |(cause, _)| cause.label());
    format!("{}>{} [{there}] [{back}]{ended}", flow.from().id, flow.to().id)
}

/// Runs the script, then checks the running and the ended flows.
fn check(script: &str, running: &[&str], ended: &[&str]) -> TestTracker {
    let mut harness = TestTracker::new();
    script.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(|line| {
        harness.step(line);
    });
    assert_eq!(harness.running(), running, "running: {script}");
    let flows: Vec<String> = harness.tracker.drain_ended().iter().map(describe).collect();
    assert_eq!(flows, ended, "ended: {script}");
    harness
}

const NONE: &str = "0: 0 lost 0 dup 0 late 0 stray 0";

#[test]
fn second_packet_opens_no_second_flow() {
    let one = format!("ann>bo [8: 2 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    check("ann>bo 7\n ann>bo 8", &[&one], &[]);
    let reordered = format!("ann>bo [8: 2 lost 0 dup 0 late 1 stray 0] [{NONE}]");
    check("ann>bo 8\n ann>bo 7", &[&reordered], &[]);
    let duplicated = format!("ann>bo [7: 1 lost 0 dup 2 late 0 stray 0] [{NONE}]");
    check("ann>bo 7\n ann>bo 7\n ann>bo 7", &[&duplicated], &[]);
}

#[test]
fn both_directions_are_one_flow() {
    let one = "ann>bo [7: 1 lost 0 dup 0 late 0 stray 0] [90: 1 lost 0 dup 0 late 0 stray 0]";
    check("ann>bo 7\n bo>ann 90", &[one], &[]);
    let other = "bo>ann [90: 1 lost 0 dup 0 late 0 stray 0] [7: 1 lost 0 dup 0 late 0 stray 0]";
    check("bo>ann 90\n ann>bo 7", &[other], &[]);
}

#[test]
fn address_change_keeps_the_flow() {
    let one = format!("ann>bo [3: 3 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    let script = "ann>bo 1 192.0.2.1:5000\n ann>bo 2 192.0.2.9:6000\n ann>bo 3 192.0.2.9:6000";
    let harness = check(script, &[&one], &[]);
    let flow = harness.tracker.running_flows().next().expect("a flow");
    assert_eq!((flow.address_changes, flow.from().address), (1, "192.0.2.9:6000".parse().ok()));
}

#[test]
fn flow_ends_after_60s_of_silence_with_its_last_stats() {
    let one = format!("ann>bo [7: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    check("ann>bo 7\n +59999\n sweep", &[&one], &[]);
    let mut harness = check("ann>bo 7\n +60000\n sweep", &[], &[&format!("{one}silence")]);
    assert_eq!(harness.tracker.flow_count(), 0);
    harness.step("ann>bo 8");
    let again = harness.tracker.running_flows().next().expect("a flow");
    assert_eq!(again.opened_ms, WALL_MS + 60_000);
}

#[test]
fn packet_after_idle_timeout_opens_a_new_flow_before_any_sweep() {
    let one = format!("ann>bo [7: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    let other = format!("bo>ann [8: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    let mut harness = check("ann>bo 7\n +60000\n bo>ann 8", &[&other], &[&format!("{one}silence")]);
    assert_eq!(harness.step("ann>bo 8"), Some(PacketOutcome::Counted));
}

#[test]
fn late_packets_within_ten_seconds_of_a_bye_open_no_flow() {
    let one = format!("ann>bo [8: 2 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    let bye = "ann>bo 7\n ann>bo 8\n bo>ann bye";
    let late = format!("{bye}\n ann>bo 9\n ann>bo 6\n bo>ann 1\n +9999\n sweep\n ann>bo 10");
    let harness = check(&late, &[], &[&format!("{one}bye")]);
    assert_eq!(harness.tracker.totals().stragglers, 4);
    let again = format!("ann>bo [10: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    check(&format!("{bye}\n +10000\n ann>bo 10"), &[&again], &[&format!("{one}bye")]);
    check(&format!("{bye}\n +10000\n sweep\n ann>bo 10"), &[&again], &[&format!("{one}bye")]);
}

#[test]
fn distant_sequence_number_after_bye_opens_a_new_flow() {
    let one = format!("ann>bo [7: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    let again = format!("ann>bo [30000: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    let harness = check("ann>bo 7\n ann>bo bye\n ann>bo 30000", &[&again], &[&format!("{one}bye")]);
    assert_eq!(
        harness.tracker.totals(),
        TrackerTotals { opened: 2, ended: 1, counted: 2, ..TrackerTotals::default() }
    );
}

#[test]
fn bye_ends_a_flow_once_and_opens_none() {
    let one = format!("ann>bo [7: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    check("ann>bo bye", &[], &[]);
    check("ann>bo 7\n ann>bo bye\n bo>ann bye\n ann>bo bye", &[], &[&format!("{one}bye")]);
}

#[test]
fn packet_to_itself_opens_no_flow() {
    let mut harness = TestTracker::new();
    assert_eq!(harness.step("ann>ann 7"), Some(PacketOutcome::Ignored));
    assert_eq!(harness.tracker.flow_count(), 0);
}

#[test]
fn games_do_not_share_flows() {
    let mut harness = TestTracker::new();
    harness.step("ann>bo 7");
    let end = |id| FlowEnd { id, address: None };
    let kind = PacketKind::Numbered { seq: 8, sent_us: None, at_us: 0 };
    let packet = FlowPacket { from: end("ann"), to: end("bo"), kind };
    // Works even if the pairs of two games have the same hash.
    let outcome = harness.tracker.apply_packet(hash(1, "ann", "bo"), 2, &packet, harness.now());
    assert_eq!((outcome, harness.tracker.flow_count()), (PacketOutcome::Opened, 2));
}

#[test]
fn new_flows_beyond_the_limit_are_rejected_and_running_ones_continue() {
    let mut harness = TestTracker { tracker: FlowTracker::new(0, 2, unlimited_quota()), ms: 0 };
    let outcome =
        ["ann>bo 1", "ann>cy 1", "ann>dee 1", "ann>bo 2", "ann>dee 2"].map(|step| harness.step(step));
    let expected = [
        PacketOutcome::Opened,
        PacketOutcome::Opened,
        PacketOutcome::Rejected,
        PacketOutcome::Counted,
        PacketOutcome::Rejected,
    ];
    assert_eq!(outcome, expected.map(Some));
    assert_eq!(harness.tracker.totals().rejected, 2);
    harness.step("ann>cy bye");
    assert_eq!(harness.step("ann>dee 3"), Some(PacketOutcome::Rejected), "stragglers are still expected");
    harness.step("+10000");
    harness.step("sweep");
    assert_eq!(harness.step("ann>dee 4"), Some(PacketOutcome::Opened));
}

#[test]
fn flow_quota_of_a_game_spans_all_trackers() {
    let quota = Arc::new(FlowQuota::new(2));
    let [mut one, mut other] = [0, 1]
        .map(|number| TestTracker { tracker: FlowTracker::new(number, 100, Arc::clone(&quota)), ms: 0 });
    assert_eq!(one.step("ann>bo 1"), Some(PacketOutcome::Opened));
    assert_eq!(other.step("ann>cy 1"), Some(PacketOutcome::Opened));
    assert_eq!(one.step("ann>dee 1"), Some(PacketOutcome::Rejected));
    let kind = PacketKind::Numbered { seq: 1, sent_us: None, at_us: 0 };
    let end = |id| FlowEnd { id, address: None };
    let packet = FlowPacket { from: end("ann"), to: end("dee"), kind };
    let outcome = one.tracker.apply_packet(hash(2, "ann", "dee"), 2, &packet, one.now());
    assert_eq!(outcome, PacketOutcome::Opened, "another game has a quota of its own");
    other.step("ann>cy bye");
    other.step("+10000");
    other.step("sweep");
    assert_eq!((quota.used(1), quota.used(2)), (1, 1));
    assert_eq!(one.step("ann>dee 2"), Some(PacketOutcome::Opened));
}

/// RFC 3550, A.8, step by step: transit times 0, 16, 16 ms.
#[test]
fn jitter_matches_rfc_3550() {
    let mut harness = TestTracker::new();
    for step in ["ann>bo 0", "+36", "ann>bo 1", "+20", "ann>bo 2"] {
        harness.step(step);
    }
    let flow = harness.tracker.running_flows().next().expect("a flow");
    assert_eq!(flow.stats()[0].jitter_ms, (16.0 / 16.0) * (15.0 / 16.0));
}

#[test]
fn clock_change_is_not_counted_as_jitter() {
    let mut direction = direction::Direction::default();
    direction.apply_packet(0, Some(0), 1_000);
    direction.apply_packet(1, Some(-3_600_000_000), 21_000);
    direction.apply_packet(2, Some(-3_599_980_000), 41_000);
    assert_eq!(direction.stats().jitter_ms, 0.0);
}

fn report(by: &'static str, about: &'static str, highest: u32, lost: i32) -> ReceptionReport<'static> {
    let end = |id| FlowEnd { id, address: None };
    let (reporter, source) = (end(by), end(about));
    ReceptionReport {
        reporter,
        source,
        highest,
        lost,
        fraction: 64,
        jitter_us: 3_000.0,
        sent: None,
        rtt_us: Some(40_000),
    }
}

#[test]
fn flow_without_packets_takes_its_stats_from_reports() {
    let mut harness = TestTracker::new();
    let hash = hash(1, "ann", "bo");
    let mut apply =
        |report: ReceptionReport<'_>| harness.tracker.apply_report(hash, 1, &report, harness.now());
    assert_eq!(apply(report("bo", "ann", 1_000, 5)), PacketOutcome::Opened);
    let flow = |harness: &TestTracker| harness.tracker.running_flows().next().expect("a flow").clone();
    assert_eq!((flow(&harness).from().id, flow(&harness).rtt_ms()), ("ann", Some(40.0)));
    assert_eq!(flow(&harness).quality().loss(), 0.25, "of the last interval");
    let mut apply =
        |report: ReceptionReport<'_>| harness.tracker.apply_report(hash, 1, &report, harness.now());
    assert_eq!(apply(report("bo", "ann", 1_100, 6)), PacketOutcome::Counted);
    assert_eq!(flow(&harness).quality().loss(), 0.01, "since the first report");
    let mut apply =
        |report: ReceptionReport<'_>| harness.tracker.apply_report(hash, 1, &report, harness.now());
    apply(ReceptionReport { sent: Some(2_000), ..report("bo", "ann", 1_200, 20) });
    let stats = flow(&harness).stats()[0];
    assert_eq!((stats.received, stats.lost, stats.highest), (1_980, 20, 1_200));
    assert_eq!((stats.jitter_ms, stats.is_reported), (3.0, true));
    assert_eq!(flow(&harness).quality().loss(), 0.01, "of what was sent");
}

#[test]
fn minute_quality_covers_only_the_packets_of_that_minute() {
    let mut harness = TestTracker::new();
    (0..100).step_by(2).for_each(|seq| {
        harness.step(&format!("ann>bo {seq}"));
    });
    let mut qualities = Vec::new();
    harness.tracker.finish_minute(|_, quality| qualities.push((quality.expected, quality.lost)));
    (99..159).for_each(|seq| {
        harness.step(&format!("ann>bo {seq}"));
    });
    harness.tracker.finish_minute(|_, quality| qualities.push((quality.expected, quality.lost)));
    harness.tracker.finish_minute(|_, quality| qualities.push((quality.expected, quality.lost)));
    assert_eq!(qualities, [(99, 49), (60, 0)]);
}

#[test]
fn recent_quality_is_the_previous_minute_until_50_packets() {
    let mut harness = TestTracker::new();
    (0..100).step_by(2).for_each(|seq| {
        harness.step(&format!("ann>bo {seq}"));
    });
    harness.tracker.finish_minute(|_, _| {});
    let loss = |harness: &TestTracker| {
        harness.tracker.running_flows().next().expect("a flow").recent_quality().loss()
    };
    (99..130).for_each(|seq| {
        harness.step(&format!("ann>bo {seq}"));
    });
    assert_eq!(loss(&harness), 49.0 / 99.0);
    (130..150).for_each(|seq| {
        harness.step(&format!("ann>bo {seq}"));
    });
    assert_eq!(loss(&harness), 0.0);
}

#[test]
fn flow_ids_are_unique_and_contain_the_tracker_number() {
    let mut harness = TestTracker::new();
    for other in 0..50 {
        harness.step(&format!("ann>bo{other} 1"));
    }
    let ids: std::collections::BTreeSet<u64> = harness.tracker.running_flows().map(|flow| flow.id).collect();
    assert_eq!(ids.len(), 50);
    assert!(ids.iter().all(|id| FlowTracker::number_of(*id) == 3));
}

mod restart {
    use super::*;
    use proptest::prelude::*;

    fn restored(bytes: &[u8], count: u32, now: FlowTime) -> FlowTracker {
        let mut tracker = FlowTracker::new(3, 100, unlimited_quota());
        for flow in read_flows(bytes, count).expect("the bytes were just written") {
            let pair = flow.pair();
            let hash = hash(flow.game, pair.low, pair.high);
            tracker.restore(hash, flow, now);
        }
        tracker
    }

    fn harness() -> TestTracker {
        let script = "ann>bo 65534 192.0.2.1:5000\n +20\n ann>bo 0 [2001:db8::1]:9\n +20\n bo>ann 7\n cy>dee 1\n dee>cy bye";
        let mut harness = TestTracker::new();
        script.lines().map(str::trim).for_each(|line| {
            harness.step(line);
        });
        harness.tracker.apply_report(hash(1, "e", "f"), 1, &report("e", "f", 9, 1), harness.now());
        harness
    }

    #[test]
    fn flows_continue_after_a_restart_and_expired_ones_end() {
        let mut harness = harness();
        harness.tracker.drain_ended();
        let before = harness.running();
        let mut bytes = Vec::new();
        let count = harness.tracker.write(&mut bytes);
        harness.ms += 5_000;
        harness.tracker = restored(&bytes, count, FlowTime { monotonic_ms: 77, ..harness.now() });
        assert_eq!(harness.running(), before);
        let again: Vec<String> = harness.tracker.drain_ended().iter().map(describe).collect();
        assert_eq!(again, [format!("cy>dee [1: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]bye")]);
        harness.ms = 77;
        assert_eq!(harness.step("dee>cy 2"), Some(PacketOutcome::Straggler));
        assert_eq!(harness.step("bo>ann 8"), Some(PacketOutcome::Counted));
        harness.ms += 56_000;
        harness.step("sweep");
        assert_eq!(
            harness.tracker.drain_ended().len(),
            1,
            "e and f have been silent since before the restart"
        );
        assert_eq!(harness.tracker.running_flows().count(), 1);
    }

    #[test]
    fn stored_format_is_stable() {
        let mut bytes = Vec::new();
        assert_eq!(harness().tracker.write(&mut bytes), 3);
        let hex: Vec<String> =
            bytes.chunks(32).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
        expect_test::expect_file!["tests/stored.txt"].assert_eq(&(hex.join("\n") + "\n"));
        let again = read_flows(&bytes, 3).expect("the bytes were just written");
        let mut written = Vec::new();
        again.iter().for_each(|flow| flow.write(&mut written));
        assert_eq!(written, bytes);
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_rejected(bytes: Vec<u8>, count in 0u32..4) {
            let _ = read_flows(&bytes, count);
        }

        #[test]
        fn damaged_bytes_are_rejected_or_give_working_flows(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        ) {
            let mut bytes = Vec::new();
            let count = harness().tracker.write(&mut bytes);
            for (index, byte) in damage {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
            if read_flows(&bytes, count).is_some() {
                let mut harness = TestTracker { tracker: restored(&bytes, count, TestTracker::new().now()), ms: 0 };
                for step in ["ann>bo 1", "ann>bo 40000", "ann>bo 40001", "bo>ann 8", "sweep", "+60000", "sweep"] {
                    harness.step(step);
                }
                harness.running();
            }
        }
    }
}
