//! What RTCP says about flows whose packets do not pass here.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use decode::rtcp::{
    Bye, Compound, MalformedDatagram, Packet, ReportBlock, ReportBlocks, SenderReport, XrBlock,
};
use model::flows::{FlowEnd, FlowTime, PacketOutcome, Pair, ReceptionReport, format_ssrc};

use super::{Flows, Taken, shard_of};

/// A datagram as it came.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// All of it.
    pub bytes: &'a [u8],
    /// From where.
    pub from: SocketAddr,
    /// When, microseconds since 1970.
    pub at_us: i64,
}

/// What became of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// What became of the reports and goodbyes in them.
    pub taken: Taken,
    /// Datagrams that were refused as a whole.
    pub malformed: u64,
    /// Why the last of these was.
    pub last: Option<MalformedDatagram>,
    /// Datagrams of which a report would have opened a flow too many.
    pub full: u64,
    /// Packets of types that are not known.
    pub unknown: u64,
}

/// Where a report comes from, and what its units mean.
struct Context {
    game: u32,
    clock_hz: u32,
    from: SocketAddr,
    at_us: i64,
    now: FlowTime,
}

impl Flows {
    /// Takes datagrams of RTCP for a game. `clock_hz` is the rate of the streams' timestamps, in which jitter is told:
    /// 8,000 for G.711, 48,000 for Opus. It is not 0.
    ///
    /// A sender's report about nobody is remembered for the round trip, but makes no flow: only a report of one end
    /// about another says who the two are.
    pub fn rtcp(&self, game: u32, clock_hz: u32, datagrams: &[Datagram<'_>]) -> Reported {
        let (now, mut reported) = (self.now(), Reported::default());
        for datagram in datagrams {
            let context = Context { game, clock_hz, from: datagram.from, at_us: datagram.at_us, now };
            match Compound::read(datagram.bytes) {
                Ok(compound) => {
                    let refused = reported.taken.refused;
                    self.compound(&context, compound, &mut reported);
                    reported.full += u64::from(reported.taken.refused > refused);
                }
                Err(malformed) => {
                    reported.malformed += 1;
                    reported.last = Some(malformed);
                }
            }
        }
        self.malformed.fetch_add(reported.malformed, Ordering::Relaxed);
        self.unknown.fetch_add(reported.unknown, Ordering::Relaxed);
        self.wake(reported.taken.opened + reported.taken.ended);
        reported
    }

    fn compound(&self, context: &Context, compound: Compound<'_>, reported: &mut Reported) {
        for packet in compound {
            match packet {
                Packet::SenderReport(report) => {
                    self.sender_report(context, &report);
                    self.blocks(context, report.ssrc, report.blocks, compound, &mut reported.taken);
                }
                Packet::ReceiverReport(report) => {
                    self.blocks(context, report.ssrc, report.blocks, compound, &mut reported.taken);
                }
                Packet::Bye(bye) => self.bye(context, bye, &mut reported.taken),
                Packet::Sdes(_) | Packet::App(_) | Packet::Xr(_) => {}
                Packet::Unknown(_) => reported.unknown += 1,
            }
        }
    }

    fn sender_report(&self, context: &Context, report: &SenderReport<'_>) {
        let Context { game, at_us, now, .. } = *context;
        let mut senders = self.senders(game, report.ssrc);
        senders.apply_sender_report(game, report.ssrc, report.ntp, report.packets, at_us, now);
    }

    fn blocks(
        &self,
        context: &Context,
        by: u32,
        blocks: ReportBlocks<'_>,
        all: Compound<'_>,
        taken: &mut Taken,
    ) {
        for block in blocks {
            let extended = voip_round_trip_us(all, block.ssrc);
            taken.note(self.block(context, by, &block, extended));
        }
    }

    fn block(&self, context: &Context, by: u32, block: &ReportBlock, extended: Option<u32>) -> PacketOutcome {
        let Context { game, clock_hz, from, at_us, now } = *context;
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
        let took = self.trackers[shard_of(hash)].lock().apply_report(hash, game, &report, now);
        if matches!(took, PacketOutcome::Opened | PacketOutcome::Counted) {
            self.meet(game, by, block.ssrc, now);
        }
        if took == PacketOutcome::Opened {
            self.meet(game, block.ssrc, by, now);
        }
        took
    }

    /// Ends every flow of the sources that leave.
    fn bye(&self, context: &Context, bye: Bye<'_>, taken: &mut Taken) {
        for source in bye.sources {
            let peers = self.senders(context.game, source).remove(context.game, source);
            for peer in peers {
                let ids = [format_ssrc(source), format_ssrc(peer)];
                let [one, other] = ids.each_ref().map(|id| str::from_utf8(id).expect("digits are UTF-8"));
                let Some(pair) = Pair::of(one, other) else { continue };
                let hash = self.hash(context.game, &pair);
                let mut tracker = self.trackers[shard_of(hash)].lock();
                taken.note(tracker.apply_bye(hash, context.game, &pair, context.now));
            }
        }
    }
}

/// The round trip that an end measured itself, if the datagram has an extended report about the source.
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
