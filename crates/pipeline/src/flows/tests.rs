//! Many threads, many flows, random orders: a pair never has two flows.

use std::collections::HashMap;
use std::sync::Barrier;

use model::flows::{FlowEnd, FlowPacket, FlowTime, PacketKind};

use super::*;

const GAME: u32 = 1;
const FLOWS: u64 = 10_000;
const THREADS: u64 = 4;
/// Packets of each flow: both directions, the first ones twice.
const PACKETS: u64 = 8;

/// SplitMix64, Steele, Lea and Flood 2014.
fn mixed(seed: u64) -> u64 {
    let seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}

/// Returns packet `number` of a flow: sequence numbers 1 to 3 in both directions, the first of each repeated.
fn sent(flow: u64, number: u64) -> (String, String, u32) {
    let (one, other) = (format!("caller-{flow}"), format!("callee-{flow}"));
    let seq = [1, 2, 3, 1][(number / 2) as usize];
    if number.is_multiple_of(2) { (one, other, seq) } else { (other, one, seq) }
}

fn packet<'a>((from, to, seq): &'a (String, String, u32), address: Option<&str>) -> FlowPacket<'a> {
    let end = |id| FlowEnd { id, address: address.map(|address| address.parse().expect("an address")) };
    FlowPacket {
        from: end(from),
        to: end(to),
        kind: PacketKind::Numbered { seq: *seq, sent_us: None, at_us: 0 },
    }
}

/// Distributes all packets over the threads, in an order that depends on the seed.
fn shuffled(seed: u64) -> Vec<Vec<(String, String, u32)>> {
    let mut all: Vec<u64> = (0..FLOWS * PACKETS).collect();
    all.sort_by_key(|which| {
        // Packets of one flow stay close together, so that threads race for its first packet.
        let flow = which / PACKETS;
        (mixed(seed ^ flow) % FLOWS + mixed(seed ^ (which << 20)) % 16, mixed(seed ^ which))
    });
    let mut queues = vec![Vec::new(); THREADS as usize];
    for (place, which) in all.into_iter().enumerate() {
        queues[place % THREADS as usize].push(sent(which / PACKETS, which % PACKETS));
    }
    queues
}

/// Applies the packets on several threads at once and returns the sum of their counts.
fn race(
    apply: &(impl Fn(&[FlowPacket<'_>]) -> PacketCounts + Sync),
    queues: &[Vec<(String, String, u32)>],
) -> PacketCounts {
    let barrier = Barrier::new(queues.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = queues
            .iter()
            .map(|queue| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let packets: Vec<FlowPacket<'_>> = queue.iter().map(|sent| packet(sent, None)).collect();
                    barrier.wait();
                    let batches = packets.chunks(7).map(apply);
                    batches.fold(PacketCounts::default(), |all, counts| all + counts)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .fold(PacketCounts::default(), |a, b| a + b)
    })
}

/// Returns the number of flows of each pair.
fn pairs(flows: &Flows) -> HashMap<String, u32> {
    let mut pairs = HashMap::new();
    flows.visit(GAME, |flow| *pairs.entry(format!("{:?}", flow.pair())).or_default() += 1);
    pairs
}

fn check(seed: u64) {
    let flows = Flows::default();
    let counts = race(&|packets| flows.apply_packets(GAME, packets), &shuffled(seed));
    let expected = PacketCounts { opened: FLOWS, counted: FLOWS * PACKETS, ..PacketCounts::default() };
    assert_eq!(counts, expected, "seed {seed}");
    let pairs = pairs(&flows);
    assert_eq!(pairs.len() as u64, FLOWS);
    assert!(pairs.values().all(|flows| *flows == 1), "seed {seed}: a pair has two flows");
    flows.visit(GAME, |flow| {
        for figures in flow.stats() {
            let found = (figures.highest, figures.received, figures.lost, figures.duplicated, figures.strays);
            assert_eq!(found, (3, 3, 0, 1, 0), "seed {seed}: {:?}", flow.pair());
        }
    });
}

#[test]
fn concurrent_first_packets_open_each_flow_once() {
    check(0);
}

#[test]
#[ignore = "100 races take a while; `make torture` runs them"]
fn concurrent_first_packets_open_each_flow_once_in_100_races() {
    (1..=100).for_each(check);
}

/// Proves that the race detects the bug that it is there for: looking up and opening under two locks.
#[test]
fn the_race_detects_a_tracker_that_looks_up_and_opens_under_two_locks() {
    struct RacyTracker {
        known: Mutex<std::collections::HashSet<String>>,
        opened: AtomicU64,
    }
    let racy = RacyTracker { known: Mutex::default(), opened: AtomicU64::new(0) };
    let apply = |packets: &[FlowPacket<'_>]| {
        for packet in packets {
            let pair = format!("{:?}", Pair::of(packet.from.id, packet.to.id));
            let is_new = !racy.known.lock().contains(&pair);
            if is_new {
                std::thread::yield_now();
                racy.known.lock().insert(pair);
                racy.opened.fetch_add(1, Ordering::Relaxed);
            }
        }
        PacketCounts::default()
    };
    let is_found = (0..20).any(|seed| {
        racy.known.lock().clear();
        racy.opened.store(0, Ordering::Relaxed);
        race(&apply, &shuffled(seed));
        racy.opened.load(Ordering::Relaxed) > FLOWS
    });
    assert!(is_found, "no flow was opened twice in 20 races");
}

#[test]
fn a_flow_is_found_by_its_id_only_in_its_own_game() {
    let flows = Flows::default();
    let sent = [sent(1, 0), sent(2, 0)];
    flows.apply_packets(GAME, &[packet(&sent[0], Some("192.0.2.1:5000"))]);
    flows.apply_packets(2, &[packet(&sent[1], None)]);
    let mut ids = Vec::new();
    flows.visit(GAME, |flow| ids.push(flow.id));
    assert_eq!(ids.len(), 1);
    assert_eq!(flows.find(GAME, ids[0]).expect("it runs").from().id, "caller-1");
    assert!(flows.find(2, ids[0]).is_none() && flows.find(GAME, ids[0] ^ 1).is_none());
    let metrics = flows.metrics();
    assert_eq!((metrics.flows, metrics.totals.opened), (2, 2));
}

mod reports {
    use decode::rtcp::MalformedDatagram;

    use super::*;

    const HERE: &str = "192.0.2.1:5005";
    const THERE: &str = "192.0.2.9:5005";
    const SECOND_US: i64 = 1_000_000;
    const AT_US: i64 = 1_800_000_000 * SECOND_US;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// A sender report without blocks, sent at this second of the sender's clock.
    fn sender(ssrc: u32, second: u32, packets: u32) -> Vec<u8> {
        words(&[0x80c8_0006, ssrc, second, 0, 0, packets, 0])
    }

    /// A receiver report about one source, which answers that source's report of this second two seconds later.
    fn receiver(by: u32, about: u32, second: u32, lost: u32) -> Vec<u8> {
        let (lsr, dlsr) = (second << 16, 2 << 16);
        words(&[0x81c9_0007, by, about, lost, 70_000, 80, lsr, dlsr])
    }

    fn bye(ssrc: u32) -> Vec<u8> {
        words(&[0x81cb_0001, ssrc])
    }

    fn apply(flows: &Flows, from: &str, at_us: i64, bytes: &[u8]) -> RtcpCounts {
        let from = from.parse().expect("an address");
        flows.apply_rtcp(GAME, 8_000, &[Datagram { bytes, from, at_us }])
    }

    fn running(flows: &Flows) -> Vec<String> {
        let mut running = Vec::new();
        flows.visit(GAME, |flow| {
            let (from, to, [there, _]) = (flow.from(), flow.to(), flow.stats());
            let (received, lost, jitter_ms) = (there.received, there.lost, there.jitter_ms);
            let figures = format!("{received} lost {lost} jitter {jitter_ms} rtt {:?}", flow.rtt_ms());
            running.push(format!("{}>{} {:?} {figures}", from.id, to.id, to.address));
        });
        running.sort();
        running
    }

    #[test]
    fn reports_of_both_ends_are_one_flow_with_loss_jitter_and_round_trip() {
        let flows = Flows::default();
        assert_eq!(apply(&flows, HERE, AT_US, &sender(0xa, 500, 1_000)).packets, PacketCounts::default());
        // The answer comes after two seconds at the other end and 40 ms on the way.
        let answer = apply(&flows, THERE, AT_US + 2 * SECOND_US + 40_000, &receiver(0xb, 0xa, 500, 10));
        assert_eq!(answer.packets, PacketCounts { opened: 1, counted: 1, ..PacketCounts::default() });
        let other_way = apply(&flows, HERE, AT_US, &receiver(0xa, 0xb, 0, 0));
        assert_eq!(other_way.packets, PacketCounts { counted: 1, ..PacketCounts::default() });
        let expected = "0000000a>0000000b Some(192.0.2.9:5005) 990 lost 10 jitter 10 rtt Some(40.0)";
        assert_eq!(running(&flows), [expected]);
    }

    #[test]
    fn a_bye_ends_every_flow_of_its_source_and_late_reports_open_no_flow() {
        let flows = Flows::default();
        for peer in [0xb, 0xc] {
            apply(&flows, THERE, AT_US, &receiver(peer, 0xa, 0, 0));
        }
        apply(&flows, THERE, AT_US, &receiver(0xb, 0xc, 0, 0));
        let ended = apply(&flows, HERE, AT_US, &bye(0xa)).packets;
        assert_eq!((ended.ended, running(&flows).len()), (2, 1));
        let late = apply(&flows, THERE, AT_US, &receiver(0xb, 0xa, 0, 0)).packets;
        assert_eq!((late.stragglers, running(&flows).len()), (1, 1));
        assert_eq!(apply(&flows, HERE, AT_US, &bye(0xa)).packets.ended, 0);
    }

    #[test]
    fn numbered_packets_of_a_source_and_reports_about_it_are_one_flow() {
        let flows = Flows::default();
        let packet = ("0000000a".to_owned(), "0000000b".to_owned(), 7);
        flows.apply_packets(GAME, &[super::packet(&packet, None)]);
        let counts = apply(&flows, THERE, AT_US, &receiver(0xb, 0xa, 0, 0)).packets;
        assert_eq!((counts.opened, counts.counted), (0, 1));
    }

    #[test]
    fn a_round_trip_from_an_extended_report_counts_if_the_report_gives_none() {
        let flows = Flows::default();
        let metrics = words(&[0x80cf_000a, 0xb, 0x0700_0008, 0xa, 0, 0, 0x0078_0000, 0, 0x7f7f_7f7f, 0, 0]);
        let datagram = [words(&[0x81c9_0007, 0xb, 0xa, 0, 1, 0, 0, 0]), metrics].concat();
        apply(&flows, THERE, AT_US, &datagram);
        assert!(running(&flows)[0].ends_with("rtt Some(120.0)"), "{:?}", running(&flows));
    }

    #[test]
    fn malformed_rtcp_is_counted_and_changes_nothing() {
        let flows = Flows::default();
        let cut = [receiver(0xb, 0xa, 0, 0), vec![0x81, 0xc9, 0]].concat();
        let counts = apply(&flows, HERE, AT_US, &cut);
        assert_eq!(
            (counts.malformed, counts.last_malformed),
            (1, Some(MalformedDatagram::Truncated { at: 32 }))
        );
        assert_eq!((running(&flows).len(), flows.metrics().malformed), (0, 1));
        let feedback = words(&[0x81cd_0003, 1, 2, 3]);
        assert_eq!(apply(&flows, HERE, AT_US, &feedback).unknown, 1);
        let itself = receiver(0xa, 0xa, 0, 0);
        assert_eq!(
            apply(&flows, HERE, AT_US, &itself).packets,
            PacketCounts { ignored: 1, ..PacketCounts::default() }
        );
    }

    #[test]
    fn a_bye_finds_its_flows_after_a_restart() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let flows = Flows::default();
        apply(&flows, THERE, AT_US, &receiver(0xb, 0xa, 0, 0));
        flows.save(folder.path()).expect("written");
        let again = Flows::open(folder.path(), 100).expect("restored");
        assert_eq!(apply(&again, HERE, AT_US, &bye(0xa)).packets.ended, 1);
    }
}

#[test]
fn idle_time_is_measured_with_a_monotonic_clock() {
    let flows = Flows::default();
    let sent = sent(1, 0);
    flows.apply_packets(GAME, &[packet(&sent, None)]);
    let hash = flows.hash(GAME, &Pair::of(&sent.0, &sent.1).expect("two ends"));
    let mut tracker = flows.trackers[shard_of(hash)].lock();
    tracker.expire(FlowTime { wall_ms: i64::MAX, monotonic_ms: 1_000 });
    assert_eq!(tracker.drain_ended().len(), 0);
    tracker.expire(FlowTime { wall_ms: 0, monotonic_ms: 120_000 });
    assert_eq!(tracker.drain_ended().len(), 1);
}
