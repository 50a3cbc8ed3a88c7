//! An admitted batch as the log stores it: encoded once at the door, read by everything behind the log.
//!
//! One entry of the log is one batch of one game. All numbers are little-endian.
//!
//! ```text
//! batch:  version u8 = 1 to 3 | endpoint u8 | key class u8 | tallies u8 | game u32 | received ms i64
//!         values u32         if version 2 or 3: values of a dimension that the game keeps per day
//!         bytes u32          if version 3: what the batch was when it was accepted
//!         then the events
//!         then per tally: reason u8 | count u32
//! event:  length of what follows u32 | flags u16 | time ms i64
//!         id u128            if flag 0
//!         value f64          if flag 1
//!         name               u8 length, bytes
//!         player             if flag 2: u8 length, bytes
//!         session            if flag 3: u8 length, bytes
//!         country..level     if flag 4..8: u8 length, bytes
//!         declared           if flag 13: u16 length, then for each: number u8, u8 length, bytes
//!         anonymous          if flag 14: u8 length, bytes
//!         samples            if flag 12: how many came in u32, length u32, the cell that they add
//!         props              if flag 9: the rest, JSON text
//! ```
//! Flag 10: the user agent is a known bot. Flag 11: the client's time was not believed, the time is that of receipt.
//! Flag 15: erased. Player and anonymous are the numbers, u64, under which rollups know them; the id is masked, as in
//! the set of ids; session and props are gone. A batch with such an event has version 3.
//!
//! What a game's settings mean for an event stands in the event: which properties are dimensions, and how many values
//! of each are kept. So the log says the same whatever the settings are when it is read again.

use crate::event::Dimension;
use crate::limits::{DIMENSION_BYTES_MAX, VALUES_PER_DIMENSION};
use crate::reject::{Outcome, Reject};
use crate::rollup::{Cell, Corrupt, hash_player};

const VERSION: u8 = 1;
/// With the number of values after the header.
const VERSION_WITH_VALUES: u8 = 2;
/// With that and its size before something was erased.
const VERSION_ERASED: u8 = 3;
const HEADER_BYTES: usize = 16;
const TALLY_BYTES: usize = 5;

const HAS_ID: u16 = 1;
const HAS_VALUE: u16 = 1 << 1;
const HAS_PLAYER: u16 = 1 << 2;
const HAS_SESSION: u16 = 1 << 3;
const HAS_COUNTRY: u16 = 1 << 4;
const HAS_PROPS: u16 = 1 << 9;
const IS_BOT: u16 = 1 << 10;
const TIME_REPLACED: u16 = 1 << 11;
const HAS_SAMPLES: u16 = 1 << 12;
const HAS_DECLARED: u16 = 1 << 13;
const HAS_ANONYMOUS: u16 = 1 << 14;
const IS_ERASED: u16 = 1 << 15;

/// Through which door a batch came. The numbers are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Endpoint {
    /// `POST /v1/events`.
    Events = 1,
    /// The simulated players of `serve --demo`.
    Demo = 2,
    /// Playtomic's tracker.
    Playtomic = 3,
    /// Lines of StatsD.
    Statsd = 4,
    /// InfluxDB's line protocol.
    Influx = 5,
    /// Metrics of OpenTelemetry.
    Otlp = 6,
    /// Ends and minutes of flows, from the server itself.
    Flows = 7,
    /// Lines of JSON that a collector takes.
    Json = 8,
    /// Files of CSV.
    Csv = 9,
    /// Clients of PostHog.
    Posthog = 10,
    /// Clients of Segment.
    Segment = 11,
    /// Clients of GameAnalytics.
    Gameanalytics = 12,
    /// Files of the past, by `POST /v1/import`.
    Import = 13,
    /// `playmeter agent`.
    Agent = 14,
    /// Minutes of requests, from the server itself.
    Monitor = 15,
}

impl Endpoint {
    /// All of them.
    pub const ALL: [Endpoint; 15] = [
        Endpoint::Events,
        Endpoint::Demo,
        Endpoint::Playtomic,
        Endpoint::Statsd,
        Endpoint::Influx,
        Endpoint::Otlp,
        Endpoint::Flows,
        Endpoint::Json,
        Endpoint::Csv,
        Endpoint::Posthog,
        Endpoint::Segment,
        Endpoint::Gameanalytics,
        Endpoint::Import,
        Endpoint::Agent,
        Endpoint::Monitor,
    ];

    /// The word in metrics, answers and the dashboard.
    pub fn label(self) -> &'static str {
        match self {
            Endpoint::Events => "events",
            Endpoint::Demo => "demo",
            Endpoint::Playtomic => "playtomic",
            Endpoint::Statsd => "statsd",
            Endpoint::Influx => "influx",
            Endpoint::Otlp => "otlp",
            Endpoint::Flows => "flows",
            Endpoint::Json => "json",
            Endpoint::Csv => "csv",
            Endpoint::Posthog => "posthog",
            Endpoint::Segment => "segment",
            Endpoint::Gameanalytics => "gameanalytics",
            Endpoint::Import => "import",
            Endpoint::Agent => "agent",
            Endpoint::Monitor => "monitor",
        }
    }

    /// Whether what comes through it are values of metrics, which are added up on the way in.
    pub fn takes_samples(self) -> bool {
        use Endpoint::{Agent, Flows, Influx, Monitor, Otlp, Statsd};
        matches!(self, Statsd | Influx | Otlp | Flows | Agent | Monitor)
    }

    /// Whether nobody but the server itself sends through it, and so may use its own names.
    pub fn is_own(self) -> bool {
        matches!(self, Endpoint::Flows | Endpoint::Monitor)
    }

    /// Whether what comes through it is received by the game, counts in its accounting and takes of its quotas. What the
    /// server measures of itself is nobody's doing.
    pub fn is_accounted(self) -> bool {
        self != Endpoint::Monitor
    }

    /// The endpoint with this stored number.
    pub fn from_code(code: u8) -> Option<Endpoint> {
        Endpoint::ALL.into_iter().find(|endpoint| *endpoint as u8 == code)
    }
}

/// What kind of key a batch came with. Ids of one class never suppress those of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum KeyClass {
    /// In every client: anybody may have it.
    Public = 0,
    /// Servers only.
    Secret = 1,
}

/// One event as the log has it. Strings are UTF-8 as admission checked them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stored<'a> {
    /// The client's UUID.
    pub id: Option<u128>,
    /// Corrected time, milliseconds since 1970-01-01 UTC, never negative.
    pub ts_ms: i64,
    /// The event's name.
    pub name: &'a [u8],
    /// Empty: not known.
    pub player: &'a [u8],
    /// Empty: not known.
    pub session: &'a [u8],
    /// The measured value.
    pub value: Option<f64>,
    /// In the order of [`Dimension::ALL`]; empty: not known.
    pub dimensions: [&'a [u8]; Dimension::COUNT],
    /// The values of the dimensions that the game had declared, and what the line stamped.
    pub declared: Declared<'a>,
    /// Of `$identify`: the id that is the player's as well. Empty: none.
    pub anonymous: &'a [u8],
    /// Many measured values that were added up before they came here.
    pub samples: Option<Samples<'a>>,
    /// JSON text of an object; empty: none.
    pub props: &'a [u8],
    /// Sent by a known bot: not counted as a player.
    pub bot: bool,
    /// The client's time was not believed.
    pub time_replaced: bool,
    /// Its player has been forgotten: what stands for ids here are numbers.
    pub erased: bool,
}

impl Stored<'_> {
    /// The number under which rollups know the player, in a game of this seed.
    #[inline]
    pub fn player_number(&self, seed: u64) -> u64 {
        self.number(seed, self.player)
    }

    /// The number of the anonymous id.
    pub fn anonymous_number(&self, seed: u64) -> u64 {
        self.number(seed, self.anonymous)
    }

    #[inline]
    fn number(&self, seed: u64, id: &[u8]) -> u64 {
        match id.try_into() {
            Ok(number) if self.erased => u64::from_le_bytes(number),
            _ => hash_player(seed, id),
        }
    }
}

/// Values of one metric, measured within one minute and added up on the way in: what the metric gets is this cell. They
/// are no event: nobody plays by them, and they do not count among all events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Samples<'a> {
    /// How many came in, which is not how many they stand for.
    pub taken: u32,
    /// What [`Cell::encode`] wrote.
    pub cell: &'a [u8],
}

impl Samples<'_> {
    /// What they add.
    pub fn cell(&self) -> Result<Cell, Corrupt> {
        Cell::decode(self.cell)
    }
}

/// What of an event has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Nothing.
    Nothing,
    /// All that says who it was.
    Player,
    /// The anonymous id, which is not the player's.
    Anonymous,
}

/// Values of declared dimensions, each with the number of its dimension, as they are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Declared<'a>(&'a [u8]);

impl<'a> Declared<'a> {
    /// What [`Declared::put`] wrote.
    pub fn of(list: &'a [u8]) -> Declared<'a> {
        Declared(list)
    }

    /// Adds a value of at most [`DIMENSION_BYTES_MAX`] bytes to a list. A list holds 64 KiB, which is some 500 of the
    /// longest values; what has no room is left out.
    pub fn put(list: &mut Vec<u8>, number: u8, value: &[u8]) {
        debug_assert!(value.len() <= DIMENSION_BYTES_MAX, "whoever puts it has bounded it");
        if list.len() + 2 + value.len() > usize::from(u16::MAX) {
            return;
        }
        list.extend_from_slice(&[number, value.len() as u8]);
        list.extend_from_slice(value);
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Iterator for Declared<'a> {
    type Item = (u8, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let ([number, length], rest) = self.0.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(usize::from(*length))?;
        self.0 = rest;
        Some((*number, value))
    }
}

/// Builds the bytes of one batch.
#[derive(Debug)]
pub struct BatchBuilder {
    bytes: Vec<u8>,
    events: u32,
}

impl BatchBuilder {
    /// A batch without events.
    pub fn new(
        endpoint: Endpoint,
        class: KeyClass,
        game: u32,
        received_ms: i64,
        capacity: usize,
    ) -> BatchBuilder {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + capacity);
        bytes.extend_from_slice(&[VERSION, endpoint as u8, class as u8, 0]);
        bytes.extend_from_slice(&game.to_le_bytes());
        bytes.extend_from_slice(&received_ms.to_le_bytes());
        BatchBuilder { bytes, events: 0 }
    }

    /// Says how many values of a dimension the game keeps per day. Called before the first event.
    pub fn values_max(&mut self, values_max: u32) {
        debug_assert_eq!(self.bytes.len(), HEADER_BYTES, "it stands after the header");
        if values_max != VALUES_PER_DIMENSION {
            self.bytes[0] = VERSION_WITH_VALUES;
            self.bytes.extend_from_slice(&values_max.to_le_bytes());
        }
    }

    /// Adds an event. Names and ids must already be within their limits.
    pub fn push(&mut self, event: &Stored<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 6]);
        self.bytes.extend_from_slice(&event.ts_ms.to_le_bytes());
        let mut flags = (event.bot as u16 * IS_BOT)
            | (event.time_replaced as u16 * TIME_REPLACED)
            | (event.erased as u16 * IS_ERASED);
        if let Some(id) = event.id {
            flags |= HAS_ID;
            self.bytes.extend_from_slice(&id.to_le_bytes());
        }
        if let Some(value) = event.value {
            flags |= HAS_VALUE;
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
        self.text(event.name);
        flags |= self.optional(event.player, HAS_PLAYER) | self.optional(event.session, HAS_SESSION);
        for (index, value) in event.dimensions.iter().enumerate() {
            flags |= self.optional(value, HAS_COUNTRY << index);
        }
        if !event.declared.is_empty() {
            flags |= HAS_DECLARED;
            self.bytes.extend_from_slice(&(event.declared.0.len() as u16).to_le_bytes());
            self.bytes.extend_from_slice(event.declared.0);
        }
        flags |= self.optional(event.anonymous, HAS_ANONYMOUS);
        if let Some(samples) = event.samples {
            flags |= HAS_SAMPLES;
            self.bytes.extend_from_slice(&samples.taken.to_le_bytes());
            self.bytes.extend_from_slice(&(samples.cell.len() as u32).to_le_bytes());
            self.bytes.extend_from_slice(samples.cell);
        }
        if !event.props.is_empty() {
            flags |= HAS_PROPS;
            self.bytes.extend_from_slice(event.props);
        }
        let length = (self.bytes.len() - start - 4) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
        self.bytes[start + 4..start + 6].copy_from_slice(&flags.to_le_bytes());
        self.events += 1;
    }

    /// The bytes and how many events they hold. `tallies` says how many events of the request were refused, and why:
    /// each reason once.
    pub fn finish(mut self, tallies: &[(Reject, u32)]) -> (Vec<u8>, u32) {
        self.bytes[3] = u8::try_from(tallies.len()).expect("there are fewer reasons than a byte can count");
        for (reject, count) in tallies {
            self.bytes.push(reject.code());
            self.bytes.extend_from_slice(&count.to_le_bytes());
        }
        (self.bytes, self.events)
    }

    fn optional(&mut self, text: &[u8], flag: u16) -> u16 {
        if text.is_empty() {
            return 0;
        }
        self.text(text);
        flag
    }

    fn text(&mut self, text: &[u8]) {
        debug_assert!(text.len() <= u8::MAX as usize, "admission bounds every name and id");
        self.bytes.push(text.len() as u8);
        self.bytes.extend_from_slice(text);
    }
}

/// The bytes are not a batch of a version this program knows.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("log entry is not a batch: {0}")]
pub struct NotABatch(&'static str);

/// A batch read back.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The door it came through.
    pub endpoint: Endpoint,
    /// The class of its key.
    pub class: KeyClass,
    /// The tenant.
    pub game: u32,
    /// When the server received it.
    pub received_ms: i64,
    /// Values of a dimension that the game keeps per day.
    pub values_max: u32,
    /// Its size when it was accepted.
    pub bytes: u32,
    tallies: &'a [u8],
    events: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Reads the header. The events are read as they are iterated.
    pub fn read(bytes: &'a [u8]) -> Result<Batch<'a>, NotABatch> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(NotABatch("it is too short"))?;
        let mut rest = &bytes[HEADER_BYTES..];
        let (mut values_max, mut size) = (VALUES_PER_DIMENSION, bytes.len() as u32);
        if !(VERSION..=VERSION_ERASED).contains(&header[0]) {
            return Err(NotABatch("its version is not known"));
        }
        for (since, number) in [(VERSION_WITH_VALUES, &mut values_max), (VERSION_ERASED, &mut size)] {
            if header[0] >= since {
                let (head, after) = rest.split_first_chunk().ok_or(NotABatch("it is too short"))?;
                (*number, rest) = (u32::from_le_bytes(*head), after);
            }
        }
        let events = rest.len().checked_sub(header[3] as usize * TALLY_BYTES);
        let (events, tallies) = rest.split_at(events.ok_or(NotABatch("its tallies are cut off"))?);
        Ok(Batch {
            endpoint: Endpoint::from_code(header[1]).ok_or(NotABatch("its endpoint is not known"))?,
            class: if header[2] == 0 { KeyClass::Public } else { KeyClass::Secret },
            game: u32::from_le_bytes([header[4], header[5], header[6], header[7]]),
            received_ms: i64::from_le_bytes(*header.last_chunk().expect("a header has 16 bytes")),
            values_max,
            bytes: size,
            tallies,
            events,
        })
    }

    /// How many events of the request were refused, by reason.
    pub fn tallies(&self) -> impl Iterator<Item = (Reject, u32)> + 'a {
        self.tallies.chunks_exact(TALLY_BYTES).filter_map(|tally| {
            let count = u32::from_le_bytes([tally[1], tally[2], tally[3], tally[4]]);
            Some((Reject::from_code(tally[0])?, count))
        })
    }

    /// How much came in and was accepted, of `events` that are here: of samples, what they were before they were added up.
    pub fn taken(&self, events: u32) -> u32 {
        if !self.endpoint.takes_samples() {
            return events;
        }
        let taken = self.events().map(|event| event.samples.map_or(1, |samples| samples.taken));
        taken.fold(0, u32::saturating_add)
    }

    /// The events in order.
    pub fn events(&self) -> Events<'a> {
        Events { rest: self.events }
    }

    /// The same batch without the events at `removed` (ascending), which are counted as duplicates instead.
    pub fn without(&self, removed: &[u32]) -> (Vec<u8>, u32) {
        let mut tallies: Vec<(Reject, u32)> = self.tallies().collect();
        tallies.push((Reject::SeenBefore, removed.len() as u32));
        let capacity = self.events.len() + tallies.len() * TALLY_BYTES;
        let mut batch = BatchBuilder::new(self.endpoint, self.class, self.game, self.received_ms, capacity);
        batch.values_max(self.values_max);
        let mut removed = removed.iter().copied().peekable();
        let mut events = self.events();
        let mut index = 0;
        while let Some(raw) = events.next_raw() {
            if removed.next_if_eq(&index).is_none() {
                batch.bytes.extend_from_slice(raw);
                batch.events += 1;
            }
            index += 1;
        }
        batch.finish(&tallies)
    }

    /// The same batch without what has to go: as many events, which rollups count as before. `masked` gives what is kept
    /// of an id, if anything. What was erased before stays so.
    pub fn erased(
        &self,
        seed: u64,
        mut gone: impl FnMut(&Stored<'a>) -> Gone,
        masked: impl Fn(u128) -> Option<u128>,
    ) -> Vec<u8> {
        let capacity = self.events.len() + HEADER_BYTES;
        let mut batch = BatchBuilder::new(self.endpoint, self.class, self.game, self.received_ms, capacity);
        batch.bytes[0] = VERSION_ERASED;
        batch.bytes.extend_from_slice(&self.values_max.to_le_bytes());
        batch.bytes.extend_from_slice(&self.bytes.to_le_bytes());
        for event in self.events() {
            let number = |id: &[u8], number: u64| {
                if id.is_empty() { Vec::new() } else { number.to_le_bytes().to_vec() }
            };
            match gone(&event) {
                Gone::Player if !event.erased => {
                    let player = number(event.player, event.player_number(seed));
                    let anonymous = number(event.anonymous, event.anonymous_number(seed));
                    let id = event.id.and_then(&masked);
                    let (player, anonymous) = (player.as_slice(), anonymous.as_slice());
                    batch.push(&Stored {
                        id,
                        player,
                        anonymous,
                        session: &[],
                        props: &[],
                        erased: true,
                        ..event
                    });
                }
                Gone::Anonymous => batch.push(&Stored { anonymous: &[], ..event }),
                Gone::Player | Gone::Nothing => batch.push(&event),
            }
        }
        batch.finish(&self.tallies().collect::<Vec<_>>()).0
    }

    /// The sum over one outcome of the refused.
    pub fn refused(&self, outcome: Outcome) -> u32 {
        self.tallies().filter(|(reject, _)| reject.outcome() == outcome).map(|(_, count)| count).sum()
    }
}

/// The events of a batch, in order. Ends early at bytes that are no event, which a checksum makes impossible.
#[derive(Clone, Copy, Debug)]
pub struct Events<'a> {
    rest: &'a [u8],
}

impl<'a> Events<'a> {
    fn next_raw(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(*self.rest.first_chunk()?) as usize;
        let (raw, rest) = self.rest.split_at_checked(4 + length)?;
        self.rest = rest;
        Some(raw)
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Stored<'a>;

    fn next(&mut self) -> Option<Stored<'a>> {
        Fields { rest: &self.next_raw()?[4..] }.event()
    }
}

struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    #[inline]
    fn event(mut self) -> Option<Stored<'a>> {
        let flags = u16::from_le_bytes(self.take()?);
        let ts_ms = i64::from_le_bytes(self.take()?);
        let id = if flags & HAS_ID != 0 { Some(u128::from_le_bytes(self.take()?)) } else { None };
        let value = if flags & HAS_VALUE != 0 { Some(f64::from_le_bytes(self.take()?)) } else { None };
        let name = self.text()?;
        let player = self.optional(flags & HAS_PLAYER)?;
        let session = self.optional(flags & HAS_SESSION)?;
        let mut dimensions: [&[u8]; Dimension::COUNT] = [&[]; Dimension::COUNT];
        for (index, dimension) in dimensions.iter_mut().enumerate() {
            *dimension = self.optional(flags & (HAS_COUNTRY << index))?;
        }
        let declared = if flags & HAS_DECLARED != 0 { self.declared()? } else { Declared::default() };
        let anonymous = self.optional(flags & HAS_ANONYMOUS)?;
        let samples = if flags & HAS_SAMPLES != 0 { Some(self.samples()?) } else { None };
        Some(Stored {
            id,
            ts_ms,
            name,
            player,
            session,
            value,
            dimensions,
            declared,
            anonymous,
            samples,
            props: if flags & HAS_PROPS != 0 { self.rest } else { &[] },
            bot: flags & IS_BOT != 0,
            time_replaced: flags & TIME_REPLACED != 0,
            erased: flags & IS_ERASED != 0,
        })
    }

    fn declared(&mut self) -> Option<Declared<'a>> {
        let length = u16::from_le_bytes(self.take()?);
        let (list, rest) = self.rest.split_at_checked(usize::from(length))?;
        self.rest = rest;
        Some(Declared(list))
    }

    fn samples(&mut self) -> Option<Samples<'a>> {
        let taken = u32::from_le_bytes(self.take()?);
        let length = u32::from_le_bytes(self.take()?);
        let (cell, rest) = self.rest.split_at_checked(length as usize)?;
        self.rest = rest;
        Some(Samples { taken, cell })
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*head)
    }

    #[inline]
    fn optional(&mut self, flag: u16) -> Option<&'a [u8]> {
        if flag == 0 { Some(&[]) } else { self.text() }
    }

    #[inline]
    fn text(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first()?;
        let (text, rest) = rest.split_at_checked(*length as usize)?;
        self.rest = rest;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    struct Owned {
        id: Option<u128>,
        ts_ms: i64,
        texts: Vec<String>,
        declared: Vec<u8>,
        samples: Option<(u32, Vec<u8>)>,
        value: Option<f64>,
        bot: bool,
        time_replaced: bool,
    }

    impl Owned {
        fn stored(&self) -> Stored<'_> {
            let text = |index: usize| self.texts[index].as_bytes();
            Stored {
                id: self.id,
                ts_ms: self.ts_ms,
                name: text(0),
                player: text(1),
                session: text(2),
                value: self.value,
                dimensions: [text(3), text(4), text(5), text(6), text(7)],
                declared: Declared::of(&self.declared),
                anonymous: text(9),
                samples: self.samples.as_ref().map(|(taken, cell)| Samples { taken: *taken, cell }),
                props: text(8),
                bot: self.bot,
                time_replaced: self.time_replaced,
                erased: false,
            }
        }
    }

    fn event() -> impl Strategy<Value = Owned> {
        let texts = prop::collection::vec(".{0,20}", 10..=10);
        let number = prop::option::of(-1e9..1e9f64);
        let samples = prop::option::of((any::<u32>(), prop::collection::vec(any::<u8>(), 0..40)));
        let lists = (texts, declared(), samples);
        (any::<Option<u128>>(), any::<i64>(), lists, number, any::<(bool, bool)>()).prop_map(
            |(id, ts_ms, (texts, declared, samples), value, (bot, time_replaced))| Owned {
                id,
                ts_ms,
                texts,
                declared,
                samples,
                value,
                bot,
                time_replaced,
            },
        )
    }

    fn declared() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec((any::<u8>(), ".{0,20}"), 0..4).prop_map(|values| {
            let mut list = Vec::new();
            values.iter().for_each(|(number, value)| Declared::put(&mut list, *number, value.as_bytes()));
            list
        })
    }

    fn build(events: &[Owned]) -> (Vec<u8>, u32) {
        let mut batch = BatchBuilder::new(Endpoint::Events, KeyClass::Secret, 7, 1234, 0);
        batch.values_max(1_000 + events.len() as u32 / 2);
        events.iter().for_each(|event| batch.push(&event.stored()));
        batch.finish(&[(Reject::UnknownField, 2)])
    }

    #[test]
    fn an_event_with_too_many_values_keeps_the_first() {
        let mut list = Vec::new();
        (0..1_000).for_each(|number| Declared::put(&mut list, (number % 200) as u8, &[b'x'; 128]));
        let event = Stored { name: b"hit", declared: Declared::of(&list), props: b"{}", ..Stored::default() };
        let mut batch = BatchBuilder::new(Endpoint::Events, KeyClass::Public, 1, 0, 0);
        batch.push(&event);
        let (bytes, _) = batch.finish(&[]);
        let read = Batch::read(&bytes).unwrap().events().next().unwrap();
        assert_eq!((read, read.declared.count()), (event, 504));
    }

    proptest! {
        #[test]
        fn a_batch_reads_back_as_it_was_built(events in prop::collection::vec(event(), 0..8)) {
            let (bytes, count) = build(&events);
            let batch = Batch::read(&bytes).unwrap();
            prop_assert_eq!((batch.game, batch.received_ms, batch.class), (7, 1234, KeyClass::Secret));
            prop_assert_eq!(batch.tallies().collect::<Vec<_>>(), vec![(Reject::UnknownField, 2)]);
            prop_assert_eq!(count as usize, events.len());
            prop_assert_eq!(batch.values_max, 1_000 + count / 2);
            let expected: Vec<Stored> = events.iter().map(Owned::stored).collect();
            prop_assert_eq!(batch.events().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn removed_events_become_duplicates(
            events in prop::collection::vec(event(), 0..8),
            keep in prop::collection::vec(any::<bool>(), 8..=8),
        ) {
            let (bytes, _) = build(&events);
            let removed: Vec<u32> = (0..events.len() as u32).filter(|index| !keep[*index as usize]).collect();
            let (bytes, count) = Batch::read(&bytes).unwrap().without(&removed);
            let batch = Batch::read(&bytes).unwrap();
            prop_assert_eq!(batch.refused(Outcome::Duplicate) as usize, removed.len());
            prop_assert_eq!(batch.values_max, 1_000 + events.len() as u32 / 2);
            prop_assert_eq!(count as usize, events.len() - removed.len());
            let kept = events.iter().enumerate().filter(|(index, _)| keep[*index]);
            let expected: Vec<Stored> = kept.map(|(_, event)| event.stored()).collect();
            prop_assert_eq!(batch.events().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn of_an_erased_player_the_number_is_left_and_what_is_counted(
            events in prop::collection::vec(event(), 0..8),
            gone in prop::collection::vec(0..3u8, 8..=8),
            seed: u64, mask: Option<u128>,
        ) {
            let (bytes, _) = build(&events);
            let batch = Batch::read(&bytes).unwrap();
            let whole: Vec<Stored> = batch.events().collect();
            let what = |event: &Stored| {
                let at = whole.iter().position(|it| it == event).unwrap();
                [Gone::Nothing, Gone::Player, Gone::Anonymous][usize::from(gone[at])]
            };
            let masked = |id| Some(id ^ mask?);
            let erased = batch.erased(seed, what, masked);
            let again = Batch::read(&erased).unwrap();
            prop_assert_eq!((again.bytes, again.values_max), (bytes.len() as u32, batch.values_max));
            prop_assert_eq!(again.tallies().collect::<Vec<_>>(), batch.tallies().collect::<Vec<_>>());
            prop_assert_eq!(again.events().count(), whole.len());
            for (event, before) in again.events().zip(&whole) {
                prop_assert_eq!(event.player_number(seed), before.player_number(seed));
                prop_assert_eq!(event.player.is_empty(), before.player.is_empty());
                match what(before) {
                    Gone::Nothing => prop_assert_eq!(&event, before),
                    Gone::Anonymous => prop_assert_eq!(event, Stored { anonymous: &[], ..*before }),
                    Gone::Player => {
                        prop_assert_eq!(event.anonymous_number(seed), before.anonymous_number(seed));
                        let Stored { player, anonymous, .. } = event;
                        let id = before.id.and_then(masked);
                        let left = Stored {
                            id, player, anonymous, session: &[], props: &[], erased: true, ..*before
                        };
                        prop_assert_eq!(event, left);
                    }
                }
            }
            let twice = again.erased(seed, |_| Gone::Player, |_| None);
            let once_and_all = batch.erased(seed, |_| Gone::Player, |_| None);
            let (twice, all) = (Batch::read(&twice).unwrap(), Batch::read(&once_and_all).unwrap());
            for (twice, all) in twice.events().zip(all.events()) {
                prop_assert_eq!((twice.player, twice.session, twice.props), (all.player, all.session, all.props));
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(batch) = Batch::read(&bytes) {
                let declared = batch.events().map(|event| event.declared.count());
                let _ = (batch.tallies().count(), declared.sum::<usize>());
            }
        }
    }
}
