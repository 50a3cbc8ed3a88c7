//! What a flow is: told in packets.

use std::sync::Arc;

use super::*;

const WALL_MS: i64 = 1_800_000_000_000;

fn hash(game: u32, one: &str, other: &str) -> u64 {
    use std::hash::BuildHasher;
    rustc_hash::FxBuildHasher.hash_one((game, Pair::of(one, other)))
}

/// Shares of which nobody is refused one.
fn alone() -> Arc<Shares> {
    Arc::new(Shares::new(u32::MAX))
}

/// A tracker at a certain time, which takes packets by word.
struct World {
    tracker: Tracker,
    ms: u64,
}

impl World {
    fn new() -> World {
        World { tracker: Tracker::new(3, 100, alone()), ms: 0 }
    }

    fn now(&self) -> Moment {
        Moment { wall_ms: WALL_MS + self.ms as i64, tick_ms: self.ms }
    }

    fn at_us(&self) -> i64 {
        self.now().wall_ms * 1000
    }

    /// `ann>bo 7` is packet 7 from ann to bo, `ann>bo 7 192.0.2.1:5000` the same from that address, `ann>bo bye` the
    /// end, `+300` waits milliseconds, `sweep` looks at what is due.
    fn say(&mut self, words: &str) -> Option<Took> {
        if let Some(ms) = words.strip_prefix('+') {
            self.ms += ms.parse::<u64>().expect("milliseconds");
            return None;
        }
        if words == "sweep" {
            self.tracker.advance(self.now());
            return None;
        }
        let words: Vec<&str> = words.split(' ').collect();
        let (from, to) = words[0].split_once('>').expect("two ends");
        let what = match words[1] {
            "bye" => What::Bye,
            seq => {
                let seq = seq.parse().expect("a number");
                What::Numbered { seq, sent_us: Some(i64::from(seq) * 20_000), at_us: self.at_us() }
            }
        };
        let address = words.get(2).map(|address| address.parse().expect("an address"));
        let packet = FlowPacket { from: End { id: from, address }, to: End { id: to, address: None }, what };
        Some(self.tracker.packet(hash(1, from, to), 1, &packet, self.now()))
    }

    fn told(&self) -> Vec<String> {
        self.tracker.flows().map(told).collect()
    }
}

fn told(flow: &Flow) -> String {
    let [there, back] = flow.figures().map(|figures| {
        let Figures { highest, received, lost, duplicated, reordered, strays, .. } = figures;
        format!("{highest}: {received} lost {lost} dup {duplicated} late {reordered} stray {strays}")
    });
    let ended = flow.ended.map_or("", |(cause, _)| cause.label());
    format!("{}>{} [{there}] [{back}]{ended}", flow.from().id, flow.to().id)
}

/// The script, and then the flows that run and those that have ended.
fn check(script: &str, running: &[&str], ended: &[&str]) -> World {
    let mut world = World::new();
    script.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(|line| {
        world.say(line);
    });
    assert_eq!(world.told(), running, "running: {script}");
    let told: Vec<String> = world.tracker.take_ended().iter().map(told).collect();
    assert_eq!(told, ended, "ended: {script}");
    world
}

const NONE: &str = "0: 0 lost 0 dup 0 late 0 stray 0";

#[test]
fn the_second_packet_never_makes_a_second_flow() {
    let one = format!("ann>bo [8: 2 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    check("ann>bo 7\n ann>bo 8", &[&one], &[]);
    let reordered = format!("ann>bo [8: 2 lost 0 dup 0 late 1 stray 0] [{NONE}]");
    check("ann>bo 8\n ann>bo 7", &[&reordered], &[]);
    let duplicated = format!("ann>bo [7: 1 lost 0 dup 2 late 0 stray 0] [{NONE}]");
    check("ann>bo 7\n ann>bo 7\n ann>bo 7", &[&duplicated], &[]);
}

#[test]
fn both_directions_are_one_flow_whoever_begins() {
    let one = "ann>bo [7: 1 lost 0 dup 0 late 0 stray 0] [90: 1 lost 0 dup 0 late 0 stray 0]";
    check("ann>bo 7\n bo>ann 90", &[one], &[]);
    let other = "bo>ann [90: 1 lost 0 dup 0 late 0 stray 0] [7: 1 lost 0 dup 0 late 0 stray 0]";
    check("bo>ann 90\n ann>bo 7", &[other], &[]);
}

#[test]
fn an_address_that_changes_moves_the_flow_and_opens_none() {
    let one = format!("ann>bo [3: 3 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    let script = "ann>bo 1 192.0.2.1:5000\n ann>bo 2 192.0.2.9:6000\n ann>bo 3 192.0.2.9:6000";
    let world = check(script, &[&one], &[]);
    let flow = world.tracker.flows().next().expect("a flow");
    assert_eq!((flow.moves, flow.from().address), (1, "192.0.2.9:6000".parse().ok()));
}

#[test]
fn silence_of_a_minute_ends_a_flow_with_its_last_figures() {
    let one = format!("ann>bo [7: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    check("ann>bo 7\n +59999\n sweep", &[&one], &[]);
    let mut world = check("ann>bo 7\n +60000\n sweep", &[], &[&format!("{one}silence")]);
    assert_eq!(world.tracker.running(), 0);
    world.say("ann>bo 8");
    let again = world.tracker.flows().next().expect("a flow");
    assert_eq!(again.opened_ms, WALL_MS + 60_000);
}

#[test]
fn an_id_used_again_after_silence_is_a_new_flow_even_before_anybody_looked() {
    let one = format!("ann>bo [7: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    let other = format!("bo>ann [8: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    let mut world = check("ann>bo 7\n +60000\n bo>ann 8", &[&other], &[&format!("{one}silence")]);
    assert_eq!(world.say("ann>bo 8"), Some(Took::Counted));
}

#[test]
fn late_packets_after_a_bye_open_nothing_for_ten_seconds() {
    let one = format!("ann>bo [8: 2 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    let bye = "ann>bo 7\n ann>bo 8\n bo>ann bye";
    let late = format!("{bye}\n ann>bo 9\n ann>bo 6\n bo>ann 1\n +9999\n sweep\n ann>bo 10");
    let world = check(&late, &[], &[&format!("{one}bye")]);
    assert_eq!(world.tracker.totals().stragglers, 4);
    let again = format!("ann>bo [10: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    check(&format!("{bye}\n +10000\n ann>bo 10"), &[&again], &[&format!("{one}bye")]);
    check(&format!("{bye}\n +10000\n sweep\n ann>bo 10"), &[&again], &[&format!("{one}bye")]);
}

#[test]
fn a_number_from_elsewhere_after_a_bye_opens_a_new_flow_at_once() {
    let one = format!("ann>bo [7: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    let again = format!("ann>bo [30000: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    let world = check("ann>bo 7\n ann>bo bye\n ann>bo 30000", &[&again], &[&format!("{one}bye")]);
    assert_eq!(world.tracker.totals(), Totals { opened: 2, ended: 1, counted: 2, ..Totals::default() });
}

#[test]
fn a_bye_ends_once_and_opens_nothing() {
    let one = format!("ann>bo [7: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]");
    check("ann>bo bye", &[], &[]);
    check("ann>bo 7\n ann>bo bye\n bo>ann bye\n ann>bo bye", &[], &[&format!("{one}bye")]);
}

#[test]
fn one_end_alone_is_no_flow() {
    let mut world = World::new();
    assert_eq!(world.say("ann>ann 7"), Some(Took::Nothing));
    assert_eq!(world.tracker.running(), 0);
}

#[test]
fn games_do_not_share_flows() {
    let mut world = World::new();
    world.say("ann>bo 7");
    let end = |id| End { id, address: None };
    let what = What::Numbered { seq: 8, sent_us: None, at_us: 0 };
    let packet = FlowPacket { from: end("ann"), to: end("bo"), what };
    // Even if two games' pairs had one hash.
    let took = world.tracker.packet(hash(1, "ann", "bo"), 2, &packet, world.now());
    assert_eq!((took, world.tracker.running()), (Took::Opened, 2));
}

#[test]
fn beyond_the_limit_new_flows_are_refused_and_running_ones_go_on() {
    let mut world = World { tracker: Tracker::new(0, 2, alone()), ms: 0 };
    let took = ["ann>bo 1", "ann>cy 1", "ann>dee 1", "ann>bo 2", "ann>dee 2"].map(|words| world.say(words));
    let expected = [Took::Opened, Took::Opened, Took::Refused, Took::Counted, Took::Refused];
    assert_eq!(took, expected.map(Some));
    assert_eq!(world.tracker.totals().refused, 2);
    world.say("ann>cy bye");
    assert_eq!(world.say("ann>dee 3"), Some(Took::Refused), "its late packets are still waited for");
    world.say("+10000");
    world.say("sweep");
    assert_eq!(world.say("ann>dee 4"), Some(Took::Opened));
}

#[test]
fn a_game_has_no_more_flows_than_its_share_over_all_trackers() {
    let shares = Arc::new(Shares::new(2));
    let [mut one, mut other] =
        [0, 1].map(|number| World { tracker: Tracker::new(number, 100, Arc::clone(&shares)), ms: 0 });
    assert_eq!(one.say("ann>bo 1"), Some(Took::Opened));
    assert_eq!(other.say("ann>cy 1"), Some(Took::Opened));
    assert_eq!(one.say("ann>dee 1"), Some(Took::Refused));
    let what = What::Numbered { seq: 1, sent_us: None, at_us: 0 };
    let end = |id| End { id, address: None };
    let packet = FlowPacket { from: end("ann"), to: end("dee"), what };
    let took = one.tracker.packet(hash(2, "ann", "dee"), 2, &packet, one.now());
    assert_eq!(took, Took::Opened, "another game has a share of its own");
    other.say("ann>cy bye");
    other.say("+10000");
    other.say("sweep");
    assert_eq!((shares.of(1), shares.of(2)), (1, 1));
    assert_eq!(one.say("ann>dee 2"), Some(Took::Opened));
}

/// RFC 3550, A.8, step by step: transit times 0, 16, 16 ms.
#[test]
fn jitter_is_that_of_the_rfc() {
    let mut world = World::new();
    for words in ["ann>bo 0", "+36", "ann>bo 1", "+20", "ann>bo 2"] {
        world.say(words);
    }
    let flow = world.tracker.flows().next().expect("a flow");
    assert_eq!(flow.figures()[0].jitter_ms, (16.0 / 16.0) * (15.0 / 16.0));
}

#[test]
fn a_clock_that_is_set_is_no_jitter() {
    let mut direction = direction::Direction::default();
    direction.packet(0, Some(0), 1_000);
    direction.packet(1, Some(-3_600_000_000), 21_000);
    direction.packet(2, Some(-3_599_980_000), 41_000);
    assert_eq!(direction.figures().jitter_ms, 0.0);
}

fn report(by: &'static str, about: &'static str, highest: u32, lost: i32) -> Report<'static> {
    let end = |id| End { id, address: None };
    let (by, about) = (end(by), end(about));
    Report { by, about, highest, lost, fraction: 64, jitter_us: 3_000.0, sent: None, rtt_us: Some(40_000) }
}

#[test]
fn reports_give_the_figures_of_a_flow_whose_packets_do_not_pass_here() {
    let mut world = World::new();
    let hash = hash(1, "ann", "bo");
    let mut take = |report: Report<'_>| world.tracker.report(hash, 1, &report, world.now());
    assert_eq!(take(report("bo", "ann", 1_000, 5)), Took::Opened);
    let flow = |world: &World| world.tracker.flows().next().expect("a flow").clone();
    assert_eq!((flow(&world).from().id, flow(&world).rtt_ms()), ("ann", Some(40.0)));
    assert_eq!(flow(&world).quality().loss(), 0.25, "of the last interval");
    let mut take = |report: Report<'_>| world.tracker.report(hash, 1, &report, world.now());
    assert_eq!(take(report("bo", "ann", 1_100, 6)), Took::Counted);
    assert_eq!(flow(&world).quality().loss(), 0.01, "since the first report");
    let mut take = |report: Report<'_>| world.tracker.report(hash, 1, &report, world.now());
    take(Report { sent: Some(2_000), ..report("bo", "ann", 1_200, 20) });
    let figures = flow(&world).figures()[0];
    assert_eq!((figures.received, figures.lost, figures.highest), (1_980, 20, 1_200));
    assert_eq!((figures.jitter_ms, figures.is_reported), (3.0, true));
    assert_eq!(flow(&world).quality().loss(), 0.01, "of what was sent");
}

#[test]
fn a_minute_has_the_quality_of_its_own_packets() {
    let mut world = World::new();
    (0..100).step_by(2).for_each(|seq| {
        world.say(&format!("ann>bo {seq}"));
    });
    let mut told = Vec::new();
    world.tracker.turn_minute(|_, quality| told.push((quality.expected, quality.lost)));
    (99..159).for_each(|seq| {
        world.say(&format!("ann>bo {seq}"));
    });
    world.tracker.turn_minute(|_, quality| told.push((quality.expected, quality.lost)));
    world.tracker.turn_minute(|_, quality| told.push((quality.expected, quality.lost)));
    assert_eq!(told, [(99, 49), (60, 0)]);
}

#[test]
fn a_minute_that_has_only_begun_tells_less_than_the_one_before() {
    let mut world = World::new();
    (0..100).step_by(2).for_each(|seq| {
        world.say(&format!("ann>bo {seq}"));
    });
    world.tracker.turn_minute(|_, _| {});
    let loss = |world: &World| world.tracker.flows().next().expect("a flow").recent_quality().loss();
    (99..130).for_each(|seq| {
        world.say(&format!("ann>bo {seq}"));
    });
    assert_eq!(loss(&world), 49.0 / 99.0);
    (130..150).for_each(|seq| {
        world.say(&format!("ann>bo {seq}"));
    });
    assert_eq!(loss(&world), 0.0);
}

#[test]
fn ids_differ_and_name_their_tracker() {
    let mut world = World::new();
    for other in 0..50 {
        world.say(&format!("ann>bo{other} 1"));
    }
    let ids: std::collections::BTreeSet<u64> = world.tracker.flows().map(|flow| flow.id).collect();
    assert_eq!(ids.len(), 50);
    assert!(ids.iter().all(|id| Tracker::number_of(*id) == 3));
}

mod kept {
    use super::*;
    use proptest::prelude::*;

    fn restored(bytes: &[u8], count: u32, now: Moment) -> Tracker {
        let mut tracker = Tracker::new(3, 100, alone());
        for flow in read(bytes, count).expect("they were written") {
            let pair = flow.pair();
            let hash = hash(flow.game, pair.low, pair.high);
            tracker.restore(hash, flow, now);
        }
        tracker
    }

    fn world() -> World {
        let script = "ann>bo 65534 192.0.2.1:5000\n +20\n ann>bo 0 [2001:db8::1]:9\n +20\n bo>ann 7\n cy>dee 1\n dee>cy bye";
        let mut world = World::new();
        script.lines().map(str::trim).for_each(|line| {
            world.say(line);
        });
        world.tracker.report(hash(1, "e", "f"), 1, &report("e", "f", 9, 1), world.now());
        world
    }

    #[test]
    fn flows_go_on_after_a_restart_and_what_timed_out_meanwhile_ends() {
        let mut world = world();
        world.tracker.take_ended();
        let before = world.told();
        let mut bytes = Vec::new();
        let count = world.tracker.write(&mut bytes);
        world.ms += 5_000;
        world.tracker = restored(&bytes, count, Moment { tick_ms: 77, ..world.now() });
        assert_eq!(world.told(), before);
        let again: Vec<String> = world.tracker.take_ended().iter().map(told).collect();
        assert_eq!(again, [format!("cy>dee [1: 1 lost 0 dup 0 late 0 stray 0] [{NONE}]bye")]);
        world.ms = 77;
        assert_eq!(world.say("dee>cy 2"), Some(Took::Straggler));
        assert_eq!(world.say("bo>ann 8"), Some(Took::Counted));
        world.ms += 56_000;
        world.say("sweep");
        assert_eq!(world.tracker.take_ended().len(), 1, "e and f have been silent since before the restart");
        assert_eq!(world.tracker.flows().count(), 1);
    }

    #[test]
    fn the_stored_form_is_what_it_always_was() {
        let mut bytes = Vec::new();
        assert_eq!(world().tracker.write(&mut bytes), 3);
        let hex: Vec<String> =
            bytes.chunks(32).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
        expect_test::expect_file!["tests/stored.txt"].assert_eq(&(hex.join("\n") + "\n"));
        let again = read(&bytes, 3).expect("they were written");
        let mut written = Vec::new();
        again.iter().for_each(|flow| flow.write(&mut written));
        assert_eq!(written, bytes);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, count in 0u32..4) {
            let _ = read(&bytes, count);
        }

        #[test]
        fn damaged_bytes_are_read_or_refused_and_what_is_read_goes_on(
            spoils in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        ) {
            let mut bytes = Vec::new();
            let count = world().tracker.write(&mut bytes);
            for (place, byte) in spoils {
                let at = place.index(bytes.len());
                bytes[at] = byte;
            }
            if read(&bytes, count).is_some() {
                let mut world = World { tracker: restored(&bytes, count, World::new().now()), ms: 0 };
                for words in ["ann>bo 1", "ann>bo 40000", "ann>bo 40001", "bo>ann 8", "sweep", "+60000", "sweep"] {
                    world.say(words);
                }
                world.told();
            }
        }
    }
}
