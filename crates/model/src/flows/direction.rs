//! One direction of a flow: from packets that passed here, or from what their receiver reported, or both.

use super::bytes::Reader;
use super::quality::{Quality, mos};
use super::report::Report;
use super::sequence::{Place, Sequence};

/// More than this between two packets' transit times is a clock that was set, not jitter.
const TRANSIT_STEP_US: u64 = 10_000_000;

/// One direction of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Direction {
    sequence: Option<Sequence>,
    jitter_us: f64,
    transit_us: Option<i64>,
    told: Option<Told>,
    /// What had been expected and lost when the minute began.
    mark: (u64, u64),
}

/// What the receiver of a direction reported last.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Told {
    highest: u32,
    lost: u32,
    /// The same in the first report.
    first: (u32, u32),
    /// Packets that the sender says it has sent; 0: it has not said.
    sent: u32,
    /// Of the last interval, of 256.
    fraction: u8,
    jitter_us: f64,
}

/// What is known of a direction. What was counted here is preferred to what was reported.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// The highest number, extended over wrap-around.
    pub highest: u64,
    /// Packets that came.
    pub received: u64,
    /// Packets that did not.
    pub lost: u64,
    /// Packets that came again; not in `received`.
    pub duplicated: u32,
    /// Packets that came after a higher one; in `received`.
    pub reordered: u32,
    /// Packets whose numbers fitted nowhere; not in `received`.
    pub strays: u32,
    /// Interarrival jitter, milliseconds.
    pub jitter_ms: f64,
    /// The figures are those of the receiver's reports.
    pub is_reported: bool,
}

impl Direction {
    /// Takes a packet that came at `at_us`. `sent_us` is by the sender's clock, which may be any.
    pub fn packet(&mut self, number: u32, sent_us: Option<i64>, at_us: i64) {
        let place = match &mut self.sequence {
            Some(sequence) => sequence.observe(number),
            none => {
                *none = Some(Sequence::first(number));
                Place::Ahead
            }
        };
        match (place, sent_us) {
            (Place::Stray | Place::Duplicated, _) | (_, None) => {}
            (_, Some(sent_us)) => self.transit(at_us.wrapping_sub(sent_us)),
        }
    }

    /// RFC 3550, A.8.
    fn transit(&mut self, transit_us: i64) {
        if let Some(before) = self.transit_us.replace(transit_us) {
            let difference = transit_us.wrapping_sub(before).unsigned_abs();
            if difference <= TRANSIT_STEP_US {
                self.jitter_us += (difference as f64 - self.jitter_us) / 16.0;
            }
        }
    }

    /// Takes what the direction's receiver reports.
    pub fn report(&mut self, report: &Report<'_>) {
        let lost = report.lost.max(0) as u32;
        let first = self.told.map_or((report.highest, lost), |told| told.first);
        let sent = report.sent.or(self.told.map(|told| told.sent)).unwrap_or(0);
        let (highest, fraction, jitter_us) = (report.highest, report.fraction, report.jitter_us);
        self.told = Some(Told { highest, lost, first, sent, fraction, jitter_us });
    }

    /// Whether the number is near those that came; yes, if none came.
    pub fn is_near(&self, number: u32) -> bool {
        self.sequence.is_none_or(|sequence| sequence.is_near(number))
    }

    /// Whether anything is known.
    pub fn is_known(&self) -> bool {
        self.sequence.is_some() || self.told.is_some()
    }

    /// What is known.
    pub fn figures(&self) -> Figures {
        match (&self.sequence, &self.told) {
            (Some(sequence), _) => Figures {
                highest: sequence.highest(),
                received: sequence.received(),
                lost: sequence.lost(),
                duplicated: sequence.duplicated(),
                reordered: sequence.reordered(),
                strays: sequence.strays(),
                jitter_ms: self.jitter_us / 1000.0,
                is_reported: false,
            },
            (None, Some(told)) => told.figures(),
            (None, None) => Figures::default(),
        }
    }

    /// The quality over its whole life.
    pub fn quality(&self, rtt_ms: Option<f64>) -> Quality {
        let (expected, lost) = self.counts();
        self.rated(expected, lost, rtt_ms)
    }

    /// The quality since the minute began.
    pub fn quality_since_mark(&self, rtt_ms: Option<f64>) -> Quality {
        let (expected, lost) = self.counts();
        let expected = expected.saturating_sub(self.mark.0);
        self.rated(expected, lost.saturating_sub(self.mark.1).min(expected), rtt_ms)
    }

    fn rated(&self, expected: u64, lost: u64, rtt_ms: Option<f64>) -> Quality {
        let jitter_ms = self.figures().jitter_ms;
        let quality = Quality { expected, lost, jitter_ms, rtt_ms, mos: 0.0 };
        Quality { mos: mos(quality.loss(), jitter_ms, rtt_ms.unwrap_or(0.0)), ..quality }
    }

    /// Packets that should have come, and those of them that did not.
    fn counts(&self) -> (u64, u64) {
        match (&self.sequence, &self.told) {
            (Some(sequence), _) => (sequence.received() + sequence.lost(), sequence.lost()),
            (None, Some(told)) => told.counts(),
            (None, None) => (0, 0),
        }
    }

    /// A minute begins.
    pub fn mark(&mut self) {
        self.mark = self.counts();
    }
}

impl Told {
    /// Packets since the first report.
    fn span(&self) -> u64 {
        (self.highest.wrapping_sub(self.first.0) as i32).max(0) as u64
    }

    fn lost_in_span(&self) -> u64 {
        u64::from(self.lost.saturating_sub(self.first.1)).min(self.span())
    }

    fn figures(&self) -> Figures {
        let (sent, lost) = (u64::from(self.sent), u64::from(self.lost));
        let received = match sent {
            0 => self.span() - self.lost_in_span(),
            sent => sent.saturating_sub(lost),
        };
        Figures {
            highest: u64::from(self.highest),
            received,
            lost,
            jitter_ms: self.jitter_us / 1000.0,
            is_reported: true,
            ..Figures::default()
        }
    }

    /// Of what the sender says it sent, else since the first report, else of 256, as the only report says.
    fn counts(&self) -> (u64, u64) {
        match (u64::from(self.sent), self.span()) {
            (0, 0) => (256, u64::from(self.fraction)),
            (0, span) => (span, self.lost_in_span()),
            (sent, _) => (sent, u64::from(self.lost).min(sent)),
        }
    }
}

/// The stored form: flags, then what there is.
impl Direction {
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        let has = [self.sequence.is_some(), self.transit_us.is_some(), self.told.is_some()];
        bytes.push(has.iter().rev().fold(0, |flags, has| flags << 1 | *has as u8));
        bytes.extend_from_slice(&self.jitter_us.to_le_bytes());
        if let Some(sequence) = &self.sequence {
            sequence.write(bytes);
        }
        if let Some(transit_us) = self.transit_us {
            bytes.extend_from_slice(&transit_us.to_le_bytes());
        }
        let Some(told) = &self.told else { return };
        for number in [told.highest, told.lost, told.first.0, told.first.1, told.sent] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.push(told.fraction);
        bytes.extend_from_slice(&told.jitter_us.to_le_bytes());
    }

    /// What [`Direction::write`] wrote; its minute begins now.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Direction> {
        let (flags, jitter_us) = (reader.u8()?, reader.amount()?);
        let mut direction = Direction { jitter_us, ..Direction::default() };
        if flags & 1 != 0 {
            direction.sequence = Some(Sequence::read(reader)?);
        }
        if flags & 2 != 0 {
            direction.transit_us = Some(reader.i64()?);
        }
        if flags & 4 != 0 {
            direction.told = Some(Told {
                highest: reader.u32()?,
                lost: reader.u32()?,
                first: (reader.u32()?, reader.u32()?),
                sent: reader.u32()?,
                fraction: reader.u8()?,
                jitter_us: reader.amount()?,
            });
        }
        direction.mark();
        (flags < 8).then_some(direction)
    }
}
