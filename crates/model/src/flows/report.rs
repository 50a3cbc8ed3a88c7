//! Reports of RTCP: what one end says about what it receives from the other, and how long a round trip takes.

use hashbrown::{DefaultHashBuilder, HashMap};

use super::{End, Moment, SILENCE_MS};

/// A report block of RTCP (RFC 3550, 6.4.1) and what its receiver and its sender are called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report<'a> {
    /// Who reports.
    pub by: End<'a>,
    /// Whose packets it is about.
    pub about: End<'a>,
    /// The highest number received, extended.
    pub highest: u32,
    /// Packets lost since the beginning; negative if some came twice.
    pub lost: i32,
    /// The lost share of the last interval, of 256.
    pub fraction: u8,
    /// Interarrival jitter, microseconds.
    pub jitter_us: f64,
    /// How many packets the sender says it has sent.
    pub sent: Option<u32>,
    /// The round trip that follows from the report, microseconds.
    pub rtt_us: Option<u32>,
}

/// Sender reports of one source that are remembered, for reports that come late.
const REMEMBERED: usize = 4;
/// Peers of one source that its BYE can find.
const PEERS_MAX: usize = 1_000;
/// A longer round trip is a clock that was set.
const RTT_US_MAX: i64 = 10_000_000;
/// Rounding and different ways through the network may make a very short round trip negative.
const RTT_US_MIN: i64 = -50_000;
/// Seconds from 1900, when NTP's time begins, to 1970.
const NTP_1970_S: u64 = 2_208_988_800;

/// What is remembered of the sources of RTCP: enough to find the round trip in a report, and whom a BYE concerns.
pub struct Senders {
    known: HashMap<(u32, u32), Sender, DefaultHashBuilder>,
    limit: usize,
}

/// One source, by its SSRC.
#[derive(Default)]
struct Sender {
    /// The middle of the NTP time of its last sender reports, and when they came; newest first, zero for none.
    reports: [(u32, i64); REMEMBERED],
    sent: Option<u32>,
    peers: Vec<u32>,
    last_ms: u64,
}

impl Senders {
    /// Remembers at most so many.
    pub fn new(limit: usize) -> Senders {
        Senders { known: HashMap::default(), limit }
    }

    /// A source says that it has sent so many packets, at this time of its clock, in NTP's 64 bits.
    pub fn sent(&mut self, game: u32, ssrc: u32, ntp: u64, packets: u32, at_us: i64, now: Moment) {
        let Some(sender) = self.get_or_create(game, ssrc, now) else { return };
        sender.sent = Some(packets);
        let middle = (ntp >> 16) as u32;
        if sender.reports[0].0 != middle {
            sender.reports.rotate_right(1);
            sender.reports[0] = (middle, at_us);
        }
    }

    /// Two sources exchange packets: the BYE of one will concern the other.
    pub fn meet(&mut self, game: u32, ssrc: u32, peer: u32, now: Moment) {
        let Some(sender) = self.get_or_create(game, ssrc, now) else { return };
        if !sender.peers.contains(&peer) && sender.peers.len() < PEERS_MAX {
            sender.peers.push(peer);
        }
    }

    /// How many packets the source says it has sent.
    pub fn packets(&self, game: u32, ssrc: u32) -> Option<u32> {
        self.known.get(&(game, ssrc))?.sent
    }

    /// The round trip between the source and somebody whose report about it came at `at_us`: A - LSR - DLSR (RFC 3550,
    /// 6.4.1), microseconds. `lsr` names the sender report that was answered, `dlsr` is how long the answer took, in
    /// units of 1/65536 s.
    ///
    /// When that sender report passed here, A and LSR are read from one clock, ours. Of a source that sends none through
    /// here the clock is believed, if the result is a round trip at all.
    pub fn round_trip_us(&self, game: u32, ssrc: u32, lsr: u32, dlsr: u32, at_us: i64) -> Option<u32> {
        if lsr == 0 {
            return None;
        }
        let since_us = match self.known.get(&(game, ssrc)).filter(|sender| sender.sent.is_some()) {
            Some(sender) => at_us.saturating_sub(sender.passed_at(lsr)?),
            None => units_to_us(i64::from(middle_of_ntp(at_us).wrapping_sub(lsr) as i32)),
        };
        let trip_us = since_us.saturating_sub(units_to_us(i64::from(dlsr)));
        (RTT_US_MIN..=RTT_US_MAX).contains(&trip_us).then_some(trip_us.max(0) as u32)
    }

    /// The source says goodbye: those it exchanged packets with.
    pub fn leave(&mut self, game: u32, ssrc: u32) -> Vec<u32> {
        self.known.remove(&(game, ssrc)).map_or(Vec::new(), |sender| sender.peers)
    }

    /// Forgets who has been silent for twice as long as a flow may be. Looks at all.
    pub fn forget_silent(&mut self, now: Moment) {
        self.known.retain(|_, sender| sender.last_ms + 2 * SILENCE_MS > now.tick_ms);
    }

    fn get_or_create(&mut self, game: u32, ssrc: u32, now: Moment) -> Option<&mut Sender> {
        if self.known.len() >= self.limit && !self.known.contains_key(&(game, ssrc)) {
            return None;
        }
        let sender = self.known.entry((game, ssrc)).or_default();
        sender.last_ms = now.tick_ms;
        Some(sender)
    }
}

impl Sender {
    fn passed_at(&self, middle: u32) -> Option<i64> {
        self.reports.iter().find(|(known, _)| *known == middle).map(|(_, at_us)| *at_us)
    }
}

/// The middle 32 bits of NTP's time, in which LSR is given.
fn middle_of_ntp(at_us: i64) -> u32 {
    let us = at_us.max(0) as u64;
    let (seconds, fraction) = (us / 1_000_000 + NTP_1970_S, ((us % 1_000_000) << 16) / 1_000_000);
    (seconds << 16 | fraction) as u32
}

fn units_to_us(units: i64) -> i64 {
    units * 1_000_000 / 65_536
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment { wall_ms: 1_800_000_000_000, tick_ms: 5 };
    const AT_US: i64 = 1_800_000_000_000_000;
    const SECOND: u32 = 1 << 16;

    /// The example of RFC 3550, 6.4.1, figure 2: A is 0xb710:8000, LSR 0xb705:2000, DLSR 0x0005:4000; the round trip is
    /// 0x0006:2000, which is 6.125 s.
    #[test]
    fn the_example_of_the_rfc_comes_out() {
        let mut senders = Senders::new(9);
        senders.sent(1, 7, 0xb44d_b705_2000_0000, 10, AT_US, NOW);
        let at_us = AT_US + units_to_us(0xb710_8000 - 0xb705_2000);
        assert_eq!(senders.round_trip_us(1, 7, 0xb705_2000, 0x0005_4000, at_us), Some(6_125_000));
    }

    #[test]
    fn a_round_trip_is_read_from_one_clock_where_that_is_possible() {
        let mut senders = Senders::new(9);
        let trip = |senders: &Senders, lsr, at_us| senders.round_trip_us(1, 7, lsr, SECOND, at_us);
        let lsr = middle_of_ntp(AT_US);
        let believed = trip(&senders, lsr, AT_US + 1_040_000).expect("its clock is believed");
        assert!(believed.abs_diff(40_000) < 16, "to a unit of 1/65536 s: {believed}");
        senders.sent(1, 7, 5 << 32, 10, AT_US, NOW);
        assert_eq!(trip(&senders, lsr, AT_US + 1_040_000), None, "that report never passed");
        assert_eq!(trip(&senders, 5 << 16, AT_US + 1_040_000), Some(40_000));
        assert_eq!(trip(&senders, 5 << 16, AT_US + 12_000_000), None, "too long");
        assert_eq!(trip(&senders, 5 << 16, AT_US + 990_000), Some(0), "rounded");
        assert_eq!(trip(&senders, 5 << 16, AT_US), None, "before it was sent");
        assert_eq!(trip(&senders, 0, AT_US), None, "no report was answered");
        assert_eq!(senders.packets(1, 7), Some(10));
    }

    #[test]
    fn the_last_sender_reports_are_remembered() {
        let mut senders = Senders::new(9);
        for report in 1..=5 {
            senders.sent(1, 7, report << 16, 10, AT_US + report as i64, NOW);
        }
        let known: Vec<bool> =
            (1..=5).map(|lsr| senders.round_trip_us(1, 7, lsr, 0, AT_US + 9).is_some()).collect();
        assert_eq!(known, [false, true, true, true, true]);
    }

    #[test]
    fn who_leaves_or_is_silent_is_forgotten_and_no_more_are_known_than_may_be() {
        let mut senders = Senders::new(2);
        senders.meet(1, 7, 8, NOW);
        senders.meet(1, 7, 8, NOW);
        senders.meet(1, 8, 7, NOW);
        senders.meet(1, 9, 7, NOW);
        assert_eq!(senders.leave(1, 7), [8]);
        assert_eq!((senders.leave(1, 7), senders.leave(1, 9)), (vec![], vec![]));
        senders.forget_silent(Moment { tick_ms: NOW.tick_ms + 2 * SILENCE_MS, ..NOW });
        assert!(senders.leave(1, 8).is_empty());
    }
}
