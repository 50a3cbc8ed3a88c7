//! One flow, from its first packet to its end.

use std::net::SocketAddr;

use super::bytes::{Reader, put_address};
use super::direction::{Direction, Figures};
use super::pair::{End, OwnPair, Pair};
use super::quality::Quality;
use super::report::Report;
use super::{Moment, SILENCE_MS};

/// Packets over which a minute that has only begun tells more than the one before: a second of a voice stream.
const TELLING: u64 = 50;

/// Why a flow ended. The numbers are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// One end said goodbye.
    Bye = 1,
    /// 60 s of silence.
    Silence = 2,
}

impl Cause {
    /// The word in events and answers.
    pub fn label(self) -> &'static str {
        match self {
            Cause::Bye => "bye",
            Cause::Silence => "silence",
        }
    }
}

/// One flow. Directions are numbered by who sends: 0 the end with the lower id, 1 the other.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Tells it from every other flow of the installation, earlier ones of the same ends included.
    pub id: u64,
    /// The tenant.
    pub game: u32,
    /// When its first packet came, milliseconds since 1970.
    pub opened_ms: i64,
    /// When its last packet or report came.
    pub last_ms: i64,
    /// How it ended and when, if it has.
    pub ended: Option<(Cause, i64)>,
    /// How often an end's address changed.
    pub moves: u16,
    pair: OwnPair,
    /// Which end sent first.
    opener: u8,
    addresses: [Option<SocketAddr>; 2],
    directions: [Direction; 2],
    rtt_us: Option<u32>,
    minute: Option<Quality>,
    /// On the clock of [`Moment::tick_ms`]: when it times out, or, ended, is forgotten.
    pub(super) expires_ms: u64,
    pub(super) hash: u64,
}

impl Flow {
    pub(super) fn new(id: u64, hash: u64, game: u32, pair: &Pair<'_>, opener: &str, now: Moment) -> Flow {
        Flow {
            id,
            game,
            opened_ms: now.wall_ms,
            last_ms: now.wall_ms,
            ended: None,
            moves: 0,
            pair: OwnPair::new(pair),
            opener: pair.side(opener) as u8,
            addresses: [None; 2],
            directions: [Direction::default(); 2],
            rtt_us: None,
            minute: None,
            expires_ms: now.tick_ms + SILENCE_MS,
            hash,
        }
    }

    /// Its two ends.
    pub fn pair(&self) -> Pair<'_> {
        self.pair.pair()
    }

    /// The end that sent first, and its address.
    pub fn from(&self) -> End<'_> {
        self.end(usize::from(self.opener))
    }

    /// The other end.
    pub fn to(&self) -> End<'_> {
        self.end(1 - usize::from(self.opener))
    }

    fn end(&self, side: usize) -> End<'_> {
        let pair = self.pair.pair();
        End { id: if side == 0 { pair.low } else { pair.high }, address: self.addresses[side] }
    }

    /// What the end that sent first sent, and what the other did.
    pub fn figures(&self) -> [Figures; 2] {
        let opener = usize::from(self.opener);
        [self.directions[opener].figures(), self.directions[1 - opener].figures()]
    }

    /// The last round trip, milliseconds.
    pub fn rtt_ms(&self) -> Option<f64> {
        self.rtt_us.map(|rtt_us| f64::from(rtt_us) / 1000.0)
    }

    /// The quality over its whole life.
    pub fn quality(&self) -> Quality {
        self.both(|direction, rtt_ms| direction.quality(rtt_ms))
    }

    /// The quality of the minute that has begun, or of the one before as long as the new one tells nothing.
    pub fn recent_quality(&self) -> Quality {
        let since = self.quality_since_mark();
        match self.minute {
            Some(minute) if since.expected < TELLING => minute,
            _ => since,
        }
    }

    fn quality_since_mark(&self) -> Quality {
        self.both(|direction, rtt_ms| direction.quality_since_mark(rtt_ms))
    }

    /// The two directions as one: packets together, the rest of the worse one.
    fn both(&self, of: impl Fn(&Direction, Option<f64>) -> Quality) -> Quality {
        let rtt_ms = self.rtt_ms();
        let known = self.directions.iter().filter(|direction| direction.is_known());
        let qualities = known.map(|direction| of(direction, rtt_ms));
        qualities.reduce(|one, other| one.with(&other)).unwrap_or_default()
    }

    /// A minute is over: its quality, if packets were expected in it.
    pub(super) fn turn_minute(&mut self) -> Option<Quality> {
        let quality = self.quality_since_mark();
        self.directions.iter_mut().for_each(Direction::mark);
        self.minute = Some(quality).filter(|quality| quality.expected > 0);
        self.minute
    }

    pub(super) fn packet(
        &mut self,
        from: End<'_>,
        to: End<'_>,
        seq: u32,
        times: (Option<i64>, i64),
        now: Moment,
    ) {
        let side = self.pair().side(from.id);
        self.seen(side, from.address, now);
        self.seen(1 - side, to.address, now);
        self.directions[side].packet(seq, times.0, times.1);
    }

    pub(super) fn report(&mut self, report: &Report<'_>, now: Moment) {
        let side = self.pair().side(report.by.id);
        self.seen(side, report.by.address, now);
        self.seen(1 - side, report.about.address, now);
        self.directions[1 - side].report(report);
        self.rtt_us = report.rtt_us.or(self.rtt_us);
    }

    fn seen(&mut self, side: usize, address: Option<SocketAddr>, now: Moment) {
        self.last_ms = now.wall_ms;
        self.expires_ms = now.tick_ms + SILENCE_MS;
        let Some(address) = address else { return };
        if self.addresses[side].replace(address).is_some_and(|before| before != address) {
            self.moves = self.moves.saturating_add(1);
        }
    }

    /// Whether a number that this end sends is near those it sent before.
    pub(super) fn is_near(&self, from: &str, seq: u32) -> bool {
        self.directions[self.pair().side(from)].is_near(seq)
    }
}

impl Quality {
    fn with(&self, other: &Quality) -> Quality {
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
        bytes.extend_from_slice(&self.moves.to_le_bytes());
        bytes.extend_from_slice(&self.rtt_us.unwrap_or(u32::MAX).to_le_bytes());
        let pair = self.pair();
        for (side, id) in [pair.low, pair.high].into_iter().enumerate() {
            bytes.push(id.len() as u8);
            bytes.extend_from_slice(id.as_bytes());
            put_address(bytes, self.addresses[side]);
            self.directions[side].write(bytes);
        }
    }

    /// What [`Flow::write`] wrote; hash and time-out are still to be set.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Flow> {
        let (game, id, opened_ms, last_ms) = (reader.u32()?, reader.u64()?, reader.i64()?, reader.i64()?);
        let (cause, opener, ended_ms) = (reader.u8()?, reader.u8()?, reader.i64()?);
        let moves = u16::from_le_bytes(reader.take()?);
        let rtt_us = Some(reader.u32()?).filter(|rtt_us| *rtt_us != u32::MAX);
        let mut side = || Some((reader.text()?, reader.address()?, Direction::read(reader)?));
        let (one, other) = (side()?, side()?);
        let (low, high) = (str::from_utf8(one.0).ok()?, str::from_utf8(other.0).ok()?);
        let ended = match cause {
            0 => None,
            1 => Some((Cause::Bye, ended_ms)),
            2 => Some((Cause::Silence, ended_ms)),
            _ => return None,
        };
        let pair = Pair::of(low, high).filter(|pair| pair.low == low && opener < 2)?;
        Some(Flow {
            id,
            game,
            opened_ms,
            last_ms,
            ended,
            moves,
            pair: OwnPair::new(&pair),
            opener,
            addresses: [one.1, other.1],
            directions: [one.2, other.2],
            rtt_us,
            minute: None,
            expires_ms: 0,
            hash: 0,
        })
    }
}
