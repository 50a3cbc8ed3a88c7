//! RTCP reports: reception statistics of one end about the other, and round-trip times.

use hashbrown::{DefaultHashBuilder, HashMap};

use super::{FlowEnd, FlowTime, IDLE_TIMEOUT_MS};

/// A reception report block of RTCP (RFC 3550, 6.4.1) with the ids of its reporter and its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceptionReport<'a> {
    /// The end that reports.
    pub reporter: FlowEnd<'a>,
    /// The end whose packets are reported.
    pub source: FlowEnd<'a>,
    /// The highest sequence number received, extended.
    pub highest: u32,
    /// Packets lost since the start; negative if some arrived twice.
    pub lost: i32,
    /// Share lost in the last interval, in 1/256.
    pub fraction: u8,
    /// Interarrival jitter, microseconds.
    pub jitter_us: f64,
    /// Packets sent, according to the source.
    pub sent: Option<u32>,
    /// The round-trip time derived from the report, microseconds.
    pub rtt_us: Option<u32>,
}

/// Sender reports kept per source, for reception reports that arrive late.
const SENDER_REPORTS_KEPT: usize = 4;
/// Peers of one source that its BYE can end.
const PEERS_MAX: usize = 1_000;
/// A longer round trip means that a clock was set.
const RTT_US_MAX: i64 = 10_000_000;
/// Rounding and asymmetric routes can make a very short round trip slightly negative.
const RTT_US_MIN: i64 = -50_000;
/// Seconds from 1900, the origin of NTP time, to 1970.
const NTP_1970_S: u64 = 2_208_988_800;

/// The RTCP sources seen recently: enough to compute round trips and to find the peers of a BYE.
pub struct RtcpSources {
    sources: HashMap<(u32, u32), RtcpSource, DefaultHashBuilder>,
    limit: usize,
}

/// One source, identified by its SSRC.
#[derive(Default)]
struct RtcpSource {
    /// The middle 32 bits of the NTP time of the last sender reports, and their time of receipt in microseconds;
    /// newest first, zero for none.
    reports: [(u32, i64); SENDER_REPORTS_KEPT],
    sent: Option<u32>,
    peers: Vec<u32>,
    last_ms: u64,
}

impl RtcpSources {
    /// Creates a set that keeps at most `limit` sources.
    pub fn new(limit: usize) -> RtcpSources {
        RtcpSources { sources: HashMap::default(), limit }
    }

    /// Applies a sender report: the number of packets sent so far, and the time of the source's clock as a 64-bit
    /// NTP timestamp.
    pub fn apply_sender_report(
        &mut self,
        game: u32,
        ssrc: u32,
        ntp: u64,
        packets_sent: u32,
        at_us: i64,
        now: FlowTime,
    ) {
        let Some(source) = self.get_or_create(game, ssrc, now) else { return };
        source.sent = Some(packets_sent);
        let ntp_middle = (ntp >> 16) as u32;
        if source.reports[0].0 != ntp_middle {
            source.reports.rotate_right(1);
            source.reports[0] = (ntp_middle, at_us);
        }
    }

    /// Records that two sources exchange packets, so that the BYE of one ends the flow with the other.
    pub fn add_peer(&mut self, game: u32, ssrc: u32, peer: u32, now: FlowTime) {
        let Some(source) = self.get_or_create(game, ssrc, now) else { return };
        if !source.peers.contains(&peer) && source.peers.len() < PEERS_MAX {
            source.peers.push(peer);
        }
    }

    /// Returns the number of packets sent, according to the source.
    pub fn packets_sent(&self, game: u32, ssrc: u32) -> Option<u32> {
        self.sources.get(&(game, ssrc))?.sent
    }

    /// Returns the round-trip time in microseconds between the source and a reporter whose report about it arrived
    /// at `at_us`: A - LSR - DLSR (RFC 3550, 6.4.1). `lsr` identifies the sender report that was answered; `dlsr` is
    /// the delay of the answer in units of 1/65536 s.
    ///
    /// If that sender report was observed here, A and LSR are read from the local clock. For a source whose sender
    /// reports are not observed here, its own clock is used, if the result is plausible.
    pub fn round_trip_us(&self, game: u32, ssrc: u32, lsr: u32, dlsr: u32, at_us: i64) -> Option<u32> {
        if lsr == 0 {
            return None;
        }
        let since_us = match self.sources.get(&(game, ssrc)).filter(|source| source.sent.is_some()) {
            Some(source) => at_us.saturating_sub(source.seen_at_us(lsr)?),
            None => units_to_us(i64::from(ntp_middle_at(at_us).wrapping_sub(lsr) as i32)),
        };
        let trip_us = since_us.saturating_sub(units_to_us(i64::from(dlsr)));
        (RTT_US_MIN..=RTT_US_MAX).contains(&trip_us).then_some(trip_us.max(0) as u32)
    }

    /// Removes a source that sent a BYE and returns its peers.
    pub fn remove(&mut self, game: u32, ssrc: u32) -> Vec<u32> {
        self.sources.remove(&(game, ssrc)).map_or(Vec::new(), |source| source.peers)
    }

    /// Evicts sources that have been idle for twice the idle timeout of a flow. Scans all sources.
    pub fn evict_idle(&mut self, now: FlowTime) {
        self.sources.retain(|_, source| source.last_ms + 2 * IDLE_TIMEOUT_MS > now.monotonic_ms);
    }

    fn get_or_create(&mut self, game: u32, ssrc: u32, now: FlowTime) -> Option<&mut RtcpSource> {
        if self.sources.len() >= self.limit && !self.sources.contains_key(&(game, ssrc)) {
            return None;
        }
        let source = self.sources.entry((game, ssrc)).or_default();
        source.last_ms = now.monotonic_ms;
        Some(source)
    }
}

impl RtcpSource {
    fn seen_at_us(&self, ntp_middle: u32) -> Option<i64> {
        self.reports.iter().find(|(ntp, _)| *ntp == ntp_middle).map(|(_, at_us)| *at_us)
    }
}

/// Returns the middle 32 bits of the NTP timestamp, the unit of LSR.
fn ntp_middle_at(at_us: i64) -> u32 {
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

    const NOW: FlowTime = FlowTime { wall_ms: 1_800_000_000_000, monotonic_ms: 5 };
    const AT_US: i64 = 1_800_000_000_000_000;
    const SECOND: u32 = 1 << 16;

    /// The example of RFC 3550, 6.4.1, figure 2: A is 0xb710:8000, LSR 0xb705:2000, DLSR 0x0005:4000; the round trip is
    /// 0x0006:2000, which is 6.125 s.
    #[test]
    fn round_trip_matches_the_rfc_3550_example() {
        let mut sources = RtcpSources::new(9);
        sources.apply_sender_report(1, 7, 0xb44d_b705_2000_0000, 10, AT_US, NOW);
        let at_us = AT_US + units_to_us(0xb710_8000 - 0xb705_2000);
        assert_eq!(sources.round_trip_us(1, 7, 0xb705_2000, 0x0005_4000, at_us), Some(6_125_000));
    }

    #[test]
    fn round_trip_uses_the_local_clock_when_the_sender_report_was_seen() {
        let mut sources = RtcpSources::new(9);
        let trip = |sources: &RtcpSources, lsr, at_us| sources.round_trip_us(1, 7, lsr, SECOND, at_us);
        let lsr = ntp_middle_at(AT_US);
        let from_its_clock =
            trip(&sources, lsr, AT_US + 1_040_000).expect("the clock of the source is plausible");
        assert!(from_its_clock.abs_diff(40_000) < 16, "to a unit of 1/65536 s: {from_its_clock}");
        sources.apply_sender_report(1, 7, 5 << 32, 10, AT_US, NOW);
        assert_eq!(trip(&sources, lsr, AT_US + 1_040_000), None, "that sender report was not observed");
        assert_eq!(trip(&sources, 5 << 16, AT_US + 1_040_000), Some(40_000));
        assert_eq!(trip(&sources, 5 << 16, AT_US + 12_000_000), None, "too long");
        assert_eq!(trip(&sources, 5 << 16, AT_US + 990_000), Some(0), "rounded");
        assert_eq!(trip(&sources, 5 << 16, AT_US), None, "earlier than the sender report");
        assert_eq!(trip(&sources, 0, AT_US), None, "no report was answered");
        assert_eq!(sources.packets_sent(1, 7), Some(10));
    }

    #[test]
    fn last_four_sender_reports_are_kept() {
        let mut sources = RtcpSources::new(9);
        for report in 1..=5 {
            sources.apply_sender_report(1, 7, report << 16, 10, AT_US + report as i64, NOW);
        }
        let sources: Vec<bool> =
            (1..=5).map(|lsr| sources.round_trip_us(1, 7, lsr, 0, AT_US + 9).is_some()).collect();
        assert_eq!(sources, [false, true, true, true, true]);
    }

    #[test]
    fn removed_and_idle_sources_are_evicted_and_the_limit_holds() {
        let mut sources = RtcpSources::new(2);
        sources.add_peer(1, 7, 8, NOW);
        sources.add_peer(1, 7, 8, NOW);
        sources.add_peer(1, 8, 7, NOW);
        sources.add_peer(1, 9, 7, NOW);
        assert_eq!(sources.remove(1, 7), [8]);
        assert_eq!((sources.remove(1, 7), sources.remove(1, 9)), (vec![], vec![]));
        sources.evict_idle(FlowTime { monotonic_ms: NOW.monotonic_ms + 2 * IDLE_TIMEOUT_MS, ..NOW });
        assert!(sources.remove(1, 8).is_empty());
    }
}
