//! One flow, from its first packet to its end.

use std::net::SocketAddr;

use super::bytes::{FlowReader, put_address};
use super::direction::{Direction, DirectionStats};
use super::pair::{FlowEnd, OwnedPair, Pair};
use super::quality::Quality;
use super::rtcp::ReceptionReport;
use super::{FlowTime, IDLE_TIMEOUT_MS};

/// Packets after which the current minute says more about the quality than the previous one: a second of a voice
/// stream.
const SIGNIFICANT_PACKETS: u64 = 50;

/// The reason why a flow ended. The numbers are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    /// One end sent a BYE.
    Bye = 1,
    /// 60 s without packets.
    Silence = 2,
}

impl EndReason {
    /// Returns the name used in events and responses.
    pub fn label(self) -> &'static str {
        match self {
            EndReason::Bye => "bye",
            EndReason::Silence => "silence",
        }
    }
}

/// One flow. Directions are numbered by their sender: 0 for the end with the lower id, 1 for the other.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Unique among all flows of the installation, including earlier flows of the same ends.
    pub id: u64,
    /// The tenant.
    pub game: u32,
    /// Time of the first packet, milliseconds since 1970.
    pub opened_ms: i64,
    /// Time of the last packet or report, milliseconds since 1970.
    pub last_ms: i64,
    /// Reason and time of the end, milliseconds since 1970; `None` while the flow runs.
    pub ended: Option<(EndReason, i64)>,
    /// Number of address changes of either end.
    pub address_changes: u16,
    pair: OwnedPair,
    /// The end that sent first.
    opener: u8,
    addresses: [Option<SocketAddr>; 2],
    directions: [Direction; 2],
    rtt_us: Option<u32>,
    last_minute: Option<Quality>,
    /// On the clock of [`FlowTime::monotonic_ms`]: when a running flow times out, or an ended one is evicted.
    pub(super) expires_ms: u64,
    pub(super) hash: u64,
}

impl Flow {
    pub(super) fn new(id: u64, hash: u64, game: u32, pair: &Pair<'_>, opener: &str, now: FlowTime) -> Flow {
        Flow {
            id,
            game,
            opened_ms: now.wall_ms,
            last_ms: now.wall_ms,
            ended: None,
            address_changes: 0,
            pair: OwnedPair::new(pair),
            opener: pair.side(opener) as u8,
            addresses: [None; 2],
            directions: [Direction::default(); 2],
            rtt_us: None,
            last_minute: None,
            expires_ms: now.monotonic_ms + IDLE_TIMEOUT_MS,
            hash,
        }
    }

    /// Returns the two ends.
    pub fn pair(&self) -> Pair<'_> {
        self.pair.pair()
    }

    /// Returns the end that sent first, with its address.
    pub fn from(&self) -> FlowEnd<'_> {
        self.end(usize::from(self.opener))
    }

    /// Returns the other end.
    pub fn to(&self) -> FlowEnd<'_> {
        self.end(1 - usize::from(self.opener))
    }

    fn end(&self, side: usize) -> FlowEnd<'_> {
        let pair = self.pair.pair();
        FlowEnd { id: if side == 0 { pair.low } else { pair.high }, address: self.addresses[side] }
    }

    /// Returns the statistics of both directions, first that of the end that sent first.
    pub fn stats(&self) -> [DirectionStats; 2] {
        let opener = usize::from(self.opener);
        [self.directions[opener].stats(), self.directions[1 - opener].stats()]
    }

    /// Returns the last round-trip time, milliseconds.
    pub fn rtt_ms(&self) -> Option<f64> {
        self.rtt_us.map(|rtt_us| f64::from(rtt_us) / 1000.0)
    }

    /// Returns the quality since the start of the flow.
    pub fn quality(&self) -> Quality {
        self.combine(|direction, rtt_ms| direction.quality(rtt_ms))
    }

    /// Returns the quality of the current minute, or of the previous one until the current has enough packets.
    pub fn recent_quality(&self) -> Quality {
        let current = self.minute_quality();
        match self.last_minute {
            Some(minute) if current.expected < SIGNIFICANT_PACKETS => minute,
            _ => current,
        }
    }

    fn minute_quality(&self) -> Quality {
        self.combine(|direction, rtt_ms| direction.minute_quality(rtt_ms))
    }

    /// Combines the two directions: packets are added, the other figures are those of the worse direction.
    fn combine(&self, of: impl Fn(&Direction, Option<f64>) -> Quality) -> Quality {
        let rtt_ms = self.rtt_ms();
        let known = self.directions.iter().filter(|direction| direction.is_known());
        let qualities = known.map(|direction| of(direction, rtt_ms));
        qualities.reduce(|one, other| one.merged_with(&other)).unwrap_or_default()
    }

    /// Finishes a minute and returns its quality, if packets were expected in it.
    pub(super) fn finish_minute(&mut self) -> Option<Quality> {
        let quality = self.minute_quality();
        self.directions.iter_mut().for_each(Direction::start_minute);
        self.last_minute = Some(quality).filter(|quality| quality.expected > 0);
        self.last_minute
    }

    pub(super) fn apply_packet(
        &mut self,
        from: FlowEnd<'_>,
        to: FlowEnd<'_>,
        seq: u32,
        times: (Option<i64>, i64),
        now: FlowTime,
    ) {
        let side = self.pair().side(from.id);
        self.update_end(side, from.address, now);
        self.update_end(1 - side, to.address, now);
        self.directions[side].apply_packet(seq, times.0, times.1);
    }

    pub(super) fn apply_report(&mut self, report: &ReceptionReport<'_>, now: FlowTime) {
        let side = self.pair().side(report.reporter.id);
        self.update_end(side, report.reporter.address, now);
        self.update_end(1 - side, report.source.address, now);
        self.directions[1 - side].apply_report(report);
        self.rtt_us = report.rtt_us.or(self.rtt_us);
    }

    fn update_end(&mut self, side: usize, address: Option<SocketAddr>, now: FlowTime) {
        self.last_ms = now.wall_ms;
        self.expires_ms = now.monotonic_ms + IDLE_TIMEOUT_MS;
        let Some(address) = address else { return };
        if self.addresses[side].replace(address).is_some_and(|before| before != address) {
            self.address_changes = self.address_changes.saturating_add(1);
        }
    }

    /// Returns true if the sequence number is near those sent by this end before.
    pub(super) fn is_near(&self, from: &str, seq: u32) -> bool {
        self.directions[self.pair().side(from)].is_near(seq)
    }
}

impl Quality {
    fn merged_with(&self, other: &Quality) -> Quality {
        Quality {
            expected: self.expected + other.expected,
            lost: self.lost + other.lost,
            jitter_ms: self.jitter_ms.max(other.jitter_ms),
            rtt_ms: self.rtt_ms,
            mos: self.mos.min(other.mos),
        }
    }
}

/// The stored form, described in `docs/data_files.md`.
impl Flow {
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        let cause = self.ended.map_or(0, |(cause, _)| cause as u8);
        bytes.extend_from_slice(&self.game.to_le_bytes());
        bytes.extend_from_slice(&self.id.to_le_bytes());
        bytes.extend_from_slice(&self.opened_ms.to_le_bytes());
        bytes.extend_from_slice(&self.last_ms.to_le_bytes());
        bytes.extend_from_slice(&[cause, self.opener]);
        bytes.extend_from_slice(&self.ended.map_or(0, |(_, ended_ms)| ended_ms).to_le_bytes());
        bytes.extend_from_slice(&self.address_changes.to_le_bytes());
        bytes.extend_from_slice(&self.rtt_us.unwrap_or(u32::MAX).to_le_bytes());
        let pair = self.pair();
        for (side, id) in [pair.low, pair.high].into_iter().enumerate() {
            bytes.push(id.len() as u8);
            bytes.extend_from_slice(id.as_bytes());
            put_address(bytes, self.addresses[side]);
            self.directions[side].write(bytes);
        }
    }

    /// Decodes a flow written by [`Flow::write`]; the caller sets hash and timeout.
    pub(super) fn read(reader: &mut FlowReader<'_>) -> Option<Flow> {
        let (game, id, opened_ms, last_ms) = (reader.u32()?, reader.u64()?, reader.i64()?, reader.i64()?);
        let (cause, opener, ended_ms) = (reader.u8()?, reader.u8()?, reader.i64()?);
        let address_changes = u16::from_le_bytes(reader.array()?);
        let rtt_us = Some(reader.u32()?).filter(|rtt_us| *rtt_us != u32::MAX);
        let mut side = || Some((reader.text()?, reader.address()?, Direction::read(reader)?));
        let (one, other) = (side()?, side()?);
        let (low, high) = (str::from_utf8(one.0).ok()?, str::from_utf8(other.0).ok()?);
        let ended = match cause {
            0 => None,
            1 => Some((EndReason::Bye, ended_ms)),
            2 => Some((EndReason::Silence, ended_ms)),
            _ => return None,
        };
        let pair = Pair::of(low, high).filter(|pair| pair.low == low && opener < 2)?;
        Some(Flow {
            id,
            game,
            opened_ms,
            last_ms,
            ended,
            address_changes,
            pair: OwnedPair::new(&pair),
            opener,
            addresses: [one.1, other.1],
            directions: [one.2, other.2],
            rtt_us,
            last_minute: None,
            expires_ms: 0,
            hash: 0,
        })
    }
}
