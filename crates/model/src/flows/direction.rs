//! One direction of a flow, from observed packets, from the receiver's reports, or from both.

use super::bytes::FlowReader;
use super::quality::{Quality, mos};
use super::rtcp::ReceptionReport;
use super::sequence::{Placement, Sequence};

/// A larger difference between two packets' transit times means that a clock was set; it is not jitter.
const TRANSIT_STEP_US: u64 = 10_000_000;

/// One direction of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Direction {
    sequence: Option<Sequence>,
    jitter_us: f64,
    transit_us: Option<i64>,
    reported: Option<ReportedStats>,
    /// Packets expected and lost up to the start of the current minute.
    at_minute_start: (u64, u64),
}

/// The last report of a direction's receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ReportedStats {
    highest: u32,
    lost: u32,
    /// `highest` and `lost` of the first report.
    first: (u32, u32),
    /// Packets sent, according to the sender; 0 if it has not reported.
    sent: u32,
    /// Share lost in the last interval, in 1/256.
    fraction: u8,
    jitter_us: f64,
}

/// Statistics of one direction. Observed packets take precedence over reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DirectionStats {
    /// The highest sequence number, extended over wrap-around.
    pub highest: u64,
    /// Packets received.
    pub received: u64,
    /// Packets lost.
    pub lost: u64,
    /// Packets received again; not in `received`.
    pub duplicated: u32,
    /// Packets received after one with a higher number; included in `received`.
    pub reordered: u32,
    /// Packets whose sequence number fits no numbering; not in `received`.
    pub strays: u32,
    /// Interarrival jitter, milliseconds.
    pub jitter_ms: f64,
    /// True if the statistics come from the receiver's reports.
    pub is_reported: bool,
}

impl Direction {
    /// Applies a packet received at `at_us`. `sent_us` is on the sender's clock, which may have any origin.
    pub(crate) fn apply_packet(&mut self, number: u32, sent_us: Option<i64>, at_us: i64) {
        let placement = match &mut self.sequence {
            Some(sequence) => sequence.observe(number),
            none => {
                *none = Some(Sequence::first(number));
                Placement::Ahead
            }
        };
        match (placement, sent_us) {
            (Placement::Stray | Placement::Duplicated, _) | (_, None) => {}
            (_, Some(sent_us)) => self.update_jitter(at_us.wrapping_sub(sent_us)),
        }
    }

    /// The interarrival jitter of RFC 3550, A.8.
    fn update_jitter(&mut self, transit_us: i64) {
        if let Some(before) = self.transit_us.replace(transit_us) {
            let difference = transit_us.wrapping_sub(before).unsigned_abs();
            if difference <= TRANSIT_STEP_US {
                self.jitter_us += (difference as f64 - self.jitter_us) / 16.0;
            }
        }
    }

    /// Applies a report of the direction's receiver.
    pub(crate) fn apply_report(&mut self, report: &ReceptionReport<'_>) {
        let lost = report.lost.max(0) as u32;
        let first = self.reported.map_or((report.highest, lost), |reported| reported.first);
        let sent = report.sent.or(self.reported.map(|reported| reported.sent)).unwrap_or(0);
        let (highest, fraction, jitter_us) = (report.highest, report.fraction, report.jitter_us);
        self.reported = Some(ReportedStats { highest, lost, first, sent, fraction, jitter_us });
    }

    /// Returns true if the number is near those received, or if none was received.
    pub(crate) fn is_near(&self, number: u32) -> bool {
        self.sequence.is_none_or(|sequence| sequence.is_near(number))
    }

    /// Returns true if there was a packet or a report.
    pub(crate) fn is_known(&self) -> bool {
        self.sequence.is_some() || self.reported.is_some()
    }

    /// Returns the statistics.
    pub(crate) fn stats(&self) -> DirectionStats {
        match (&self.sequence, &self.reported) {
            (Some(sequence), _) => DirectionStats {
                highest: sequence.highest(),
                received: sequence.received(),
                lost: sequence.lost(),
                duplicated: sequence.duplicated(),
                reordered: sequence.reordered(),
                strays: sequence.strays(),
                jitter_ms: self.jitter_us / 1000.0,
                is_reported: false,
            },
            (None, Some(reported)) => reported.stats(),
            (None, None) => DirectionStats::default(),
        }
    }

    /// Returns the quality since the start of the flow.
    pub(crate) fn quality(&self, rtt_ms: Option<f64>) -> Quality {
        let (expected, lost) = self.counts();
        self.quality_of(expected, lost, rtt_ms)
    }

    /// Returns the quality since the start of the current minute.
    pub(crate) fn minute_quality(&self, rtt_ms: Option<f64>) -> Quality {
        let (expected, lost) = self.counts();
        let expected = expected.saturating_sub(self.at_minute_start.0);
        self.quality_of(expected, lost.saturating_sub(self.at_minute_start.1).min(expected), rtt_ms)
    }

    fn quality_of(&self, expected: u64, lost: u64, rtt_ms: Option<f64>) -> Quality {
        let jitter_ms = self.stats().jitter_ms;
        let quality = Quality { expected, lost, jitter_ms, rtt_ms, mos: 0.0 };
        Quality { mos: mos(quality.loss(), jitter_ms, rtt_ms.unwrap_or(0.0)), ..quality }
    }

    /// Returns the numbers of packets expected and lost.
    fn counts(&self) -> (u64, u64) {
        match (&self.sequence, &self.reported) {
            (Some(sequence), _) => (sequence.received() + sequence.lost(), sequence.lost()),
            (None, Some(reported)) => reported.counts(),
            (None, None) => (0, 0),
        }
    }

    /// Starts a new minute.
    pub(crate) fn start_minute(&mut self) {
        self.at_minute_start = self.counts();
    }
}

impl ReportedStats {
    /// Returns the number of packets since the first report.
    fn span(&self) -> u64 {
        (self.highest.wrapping_sub(self.first.0) as i32).max(0) as u64
    }

    fn lost_in_span(&self) -> u64 {
        u64::from(self.lost.saturating_sub(self.first.1)).min(self.span())
    }

    fn stats(&self) -> DirectionStats {
        let (sent, lost) = (u64::from(self.sent), u64::from(self.lost));
        let received = match sent {
            0 => self.span() - self.lost_in_span(),
            sent => sent.saturating_sub(lost),
        };
        DirectionStats {
            highest: u64::from(self.highest),
            received,
            lost,
            jitter_ms: self.jitter_us / 1000.0,
            is_reported: true,
            ..DirectionStats::default()
        }
    }

    /// Returns packets expected and lost: of those sent, if the sender reported it; else since the first report;
    /// else of 256, from the fraction of the only report.
    fn counts(&self) -> (u64, u64) {
        match (u64::from(self.sent), self.span()) {
            (0, 0) => (256, u64::from(self.fraction)),
            (0, span) => (span, self.lost_in_span()),
            (sent, _) => (sent, u64::from(self.lost).min(sent)),
        }
    }
}

/// The stored form: flags, then the fields that exist.
impl Direction {
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        let has = [self.sequence.is_some(), self.transit_us.is_some(), self.reported.is_some()];
        bytes.push(has.iter().rev().fold(0, |flags, has| flags << 1 | *has as u8));
        bytes.extend_from_slice(&self.jitter_us.to_le_bytes());
        if let Some(sequence) = &self.sequence {
            sequence.write(bytes);
        }
        if let Some(transit_us) = self.transit_us {
            bytes.extend_from_slice(&transit_us.to_le_bytes());
        }
        let Some(reported) = &self.reported else { return };
        for number in [reported.highest, reported.lost, reported.first.0, reported.first.1, reported.sent] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.push(reported.fraction);
        bytes.extend_from_slice(&reported.jitter_us.to_le_bytes());
    }

    /// Decodes a direction written by [`Direction::write`] and starts a new minute.
    pub(super) fn read(reader: &mut FlowReader<'_>) -> Option<Direction> {
        let (flags, jitter_us) = (reader.u8()?, reader.amount()?);
        let mut direction = Direction { jitter_us, ..Direction::default() };
        if flags & 1 != 0 {
            direction.sequence = Some(Sequence::read(reader)?);
        }
        if flags & 2 != 0 {
            direction.transit_us = Some(reader.i64()?);
        }
        if flags & 4 != 0 {
            direction.reported = Some(ReportedStats {
                highest: reader.u32()?,
                lost: reader.u32()?,
                first: (reader.u32()?, reader.u32()?),
                sent: reader.u32()?,
                fraction: reader.u8()?,
                jitter_us: reader.amount()?,
            });
        }
        direction.start_minute();
        (flags < 8).then_some(direction)
    }
}
