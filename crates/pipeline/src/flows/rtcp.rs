//! RTCP reports about flows whose packets do not pass through this server.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use decode::rtcp::{
    Bye, Compound, MalformedDatagram, Packet, ReportBlock, ReportBlocks, SenderReport, XrBlock,
};
use model::flows::{FlowEnd, FlowTime, PacketOutcome, Pair, ReceptionReport, format_ssrc};

use super::{Flows, PacketCounts, shard_of};

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The whole payload.
    pub bytes: &'a [u8],
    /// The address of the sender.
    pub from: SocketAddr,
    /// The time of receipt, in microseconds since 1970.
    pub at_us: i64,
}

/// The number of datagrams by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtcpCounts {
    /// The reports and BYEs in the datagrams, by outcome.
    pub packets: PacketCounts,
    /// Datagrams that were rejected as a whole.
    pub malformed: u64,
    /// The reason why the last of them was rejected.
    pub last_malformed: Option<MalformedDatagram>,
    /// Datagrams with a report that would have opened a flow above the game's limit.
    pub full: u64,
    /// Packets of unknown types.
    pub unknown: u64,
}

/// The origin of a report and the unit of its timestamps.
struct ReportContext {
    game: u32,
    clock_hz: u32,
    from: SocketAddr,
    at_us: i64,
    now: FlowTime,
}

impl Flows {
    /// Applies RTCP datagrams of a game. `clock_hz` is the rate of the streams' timestamps, the unit of jitter: 8,000
    /// for G.711, 48,000 for Opus. It is not 0.
    ///
    /// A sender report without blocks is kept to compute round trips, but opens no flow: only a report of one end about
    /// another identifies both.
    pub fn apply_rtcp(&self, game: u32, clock_hz: u32, datagrams: &[Datagram<'_>]) -> RtcpCounts {
        let (now, mut counts) = (self.now(), RtcpCounts::default());
        for datagram in datagrams {
            let context = ReportContext { game, clock_hz, from: datagram.from, at_us: datagram.at_us, now };
            match Compound::read(datagram.bytes) {
                Ok(compound) => {
                    let rejected = counts.packets.rejected;
                    self.compound(&context, compound, &mut counts);
                    counts.full += u64::from(counts.packets.rejected > rejected);
                }
                Err(malformed) => {
                    counts.malformed += 1;
                    counts.last_malformed = Some(malformed);
                }
            }
        }
        self.malformed.fetch_add(counts.malformed, Ordering::Relaxed);
        self.unknown.fetch_add(counts.unknown, Ordering::Relaxed);
        self.wake_reporter(counts.packets.opened + counts.packets.ended);
        counts
    }

    fn compound(&self, context: &ReportContext, compound: Compound<'_>, counts: &mut RtcpCounts) {
        for packet in compound {
            match packet {
                Packet::SenderReport(report) => {
                    self.sender_report(context, &report);
                    self.blocks(context, report.ssrc, report.blocks, compound, &mut counts.packets);
                }
                Packet::ReceiverReport(report) => {
                    self.blocks(context, report.ssrc, report.blocks, compound, &mut counts.packets);
                }
                Packet::Bye(bye) => self.bye(context, bye, &mut counts.packets),
                Packet::Sdes(_) | Packet::App(_) | Packet::Xr(_) => {}
                Packet::Unknown(_) => counts.unknown += 1,
            }
        }
    }

    fn sender_report(&self, context: &ReportContext, report: &SenderReport<'_>) {
        let ReportContext { game, at_us, now, .. } = *context;
        let mut senders = self.senders(game, report.ssrc);
        senders.apply_sender_report(game, report.ssrc, report.ntp, report.packets, at_us, now);
    }

    fn blocks(
        &self,
        context: &ReportContext,
        by: u32,
        blocks: ReportBlocks<'_>,
        all: Compound<'_>,
        counts: &mut PacketCounts,
    ) {
        for block in blocks {
            let extended = voip_round_trip_us(all, block.ssrc);
            counts.add_outcome(self.block(context, by, &block, extended));
        }
    }

    fn block(
        &self,
        context: &ReportContext,
        by: u32,
        block: &ReportBlock,
        extended: Option<u32>,
    ) -> PacketOutcome {
        let ReportContext { game, clock_hz, from, at_us, now } = *context;
        let senders = self.senders(game, block.ssrc);
        let round_trip = senders.round_trip_us(game, block.ssrc, block.lsr, block.dlsr, at_us);
        let sent = senders.packets_sent(game, block.ssrc);
        drop(senders);
        let (by_id, about_id) = (format_ssrc(by), format_ssrc(block.ssrc));
        let end = |id, address| FlowEnd { id: str::from_utf8(id).expect("digits are UTF-8"), address };
        let report = ReceptionReport {
            reporter: end(&by_id, Some(from)),
            source: end(&about_id, None),
            highest: block.highest,
            lost: block.lost,
            fraction: block.fraction,
            jitter_us: f64::from(block.jitter) * 1e6 / f64::from(clock_hz.max(1)),
            sent,
            rtt_us: round_trip.or(extended),
        };
        let Some(pair) = Pair::of(report.reporter.id, report.source.id) else {
            return PacketOutcome::Ignored;
        };
        let hash = self.hash(game, &pair);
        let outcome = self.trackers[shard_of(hash)].lock().apply_report(hash, game, &report, now);
        if matches!(outcome, PacketOutcome::Opened | PacketOutcome::Counted) {
            self.meet(game, by, block.ssrc, now);
        }
        if outcome == PacketOutcome::Opened {
            self.meet(game, block.ssrc, by, now);
        }
        outcome
    }

    /// Ends every flow of the sources that leave.
    fn bye(&self, context: &ReportContext, bye: Bye<'_>, counts: &mut PacketCounts) {
        for source in bye.sources {
            let peers = self.senders(context.game, source).remove(context.game, source);
            for peer in peers {
                let ids = [format_ssrc(source), format_ssrc(peer)];
                let [one, other] = ids.each_ref().map(|id| str::from_utf8(id).expect("digits are UTF-8"));
                let Some(pair) = Pair::of(one, other) else { continue };
                let hash = self.hash(context.game, &pair);
                let mut tracker = self.trackers[shard_of(hash)].lock();
                counts.add_outcome(tracker.apply_bye(hash, context.game, &pair, context.now));
            }
        }
    }
}

/// Returns the round trip that an end measured itself, if the datagram has an extended report about the source.
fn voip_round_trip_us(compound: Compound<'_>, about: u32) -> Option<u32> {
    let reports = compound.filter_map(|packet| match packet {
        Packet::Xr(xr) => Some(xr.blocks),
        _ => None,
    });
    let metrics = reports.flatten().filter_map(|block| match block {
        XrBlock::Voip(metrics) if metrics.ssrc == about => Some(metrics.round_trip_ms),
        _ => None,
    });
    metrics.filter(|ms| *ms > 0).map(|ms| u32::from(ms) * 1000).next()
}
