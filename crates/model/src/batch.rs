//! Encoding of an event batch: written once on admission, stored in the log, read by the applier.
//!
//! One log entry is one batch of one game. All numbers are little-endian.
//!
//! ```text
//! batch:  version u8 = 1 to 3 | endpoint u8 | key class u8 | tallies u8 | game u32 | received ms i64
//!         values u32         if version 2 or 3: values of a dimension that the game keeps per day
//!         bytes u32          if version 3: size of the batch when it was accepted
//!         then the events
//!         then per tally: reason u8 | count u32
//! event:  length of the rest u32 | flags u16 | time ms i64
//!         id u128            if flag 0
//!         value f64          if flag 1
//!         name               u8 length, bytes
//!         player             if flag 2: u8 length, bytes
//!         session            if flag 3: u8 length, bytes
//!         country..level     if flag 4..8: u8 length, bytes
//!         declared           if flag 13: u16 length, then for each: number u8, u8 length, bytes
//!         anonymous          if flag 14: u8 length, bytes
//!         samples            if flag 12: number received u32, length u32, encoded aggregate
//!         props              if flag 9: the rest, JSON text
//! ```
//! Flag 10: the user agent is a known bot. Flag 11: the client's time was implausible and was replaced by the time
//! of receipt. Flag 15: erased. In an erased event, player and anonymous are the u64 numbers under which rollups
//! know them, the id is masked as in the set of ids, and session and props are removed. A batch with such an event
//! has version 3.
//!
//! A declared value with number 255 comes first and is empty. It means that the event's name had no place among the names
//! of the game, so that it counts in `(other)`.
//!
//! Settings of the game that affect an event are stored with it: which properties are dimensions, and how many
//! values of each are kept. Replaying the log therefore gives the same result whatever the settings are by then.

use crate::event::Dimension;
use crate::limits::{DIMENSION_BYTES_MAX, VALUES_PER_DIMENSION};
use crate::reject::Reject;
use crate::rollup::{Aggregate, Corrupt, hash_player};
use crate::series::OTHER;

const VERSION: u8 = 1;
/// Adds the number of values after the header.
const VERSION_WITH_VALUES: u8 = 2;
/// Adds the number of values and the size before erasure.
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

/// The endpoint through which a batch entered. The numbers are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Endpoint {
    /// `POST /v1/events`.
    Events = 1,
    /// The simulated players of `serve --demo`.
    Demo = 2,
    /// Playtomic tracker clients.
    Playtomic = 3,
    /// StatsD lines.
    Statsd = 4,
    /// InfluxDB line protocol.
    Influx = 5,
    /// OpenTelemetry metrics, logs and traces.
    Otlp = 6,
    /// Ends and minutes of flows, sent by the server itself.
    Flows = 7,
    /// JSON lines, from a collector.
    Json = 8,
    /// CSV files.
    Csv = 9,
    /// PostHog clients.
    Posthog = 10,
    /// Segment clients.
    Segment = 11,
    /// GameAnalytics clients.
    Gameanalytics = 12,
    /// Files with past events, by `POST /v1/import`.
    Import = 13,
    /// `playmeter agent`.
    Agent = 14,
    /// Requests per minute, sent by the server itself.
    Monitor = 15,
    /// Plausible's tracker.
    Plausible = 20,
    /// Umami's tracker.
    Umami = 21,
    /// Prometheus remote write.
    Prometheus = 22,
}

impl Endpoint {
    /// All endpoints.
    pub const ALL: [Endpoint; 18] = [
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
        Endpoint::Plausible,
        Endpoint::Umami,
        Endpoint::Prometheus,
    ];

    /// Returns the name used in metrics, responses and the dashboard.
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
            Endpoint::Plausible => "plausible",
            Endpoint::Umami => "umami",
            Endpoint::Prometheus => "prometheus",
        }
    }

    /// Returns true if the endpoint receives samples, which are aggregated on the way in.
    pub fn accepts_samples(self) -> bool {
        use Endpoint::{Agent, Flows, Influx, Monitor, Otlp, Prometheus, Statsd};
        matches!(self, Statsd | Influx | Otlp | Flows | Agent | Monitor | Prometheus)
    }

    /// Returns true if only the server itself uses this endpoint and may therefore use internal names.
    pub fn is_internal(self) -> bool {
        matches!(self, Endpoint::Flows | Endpoint::Monitor)
    }

    /// Returns true if events of this endpoint count in the game's accounting and quotas. The server's measurements
    /// of itself do not.
    pub fn is_accounted(self) -> bool {
        self != Endpoint::Monitor
    }

    /// Returns the endpoint with this stored number.
    pub(crate) fn from_code(code: u8) -> Option<Endpoint> {
        Endpoint::ALL.into_iter().find(|endpoint| *endpoint as u8 == code)
    }
}

/// The class of the key a batch came with. Ids of one class never suppress ids of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum KeyClass {
    /// Shipped in every client, so not secret.
    Public = 0,
    /// Used by servers only.
    Secret = 1,
}

/// The number in the list of declared values which means that the event's name has no place.
const WITHOUT_PLACE: u8 = u8::MAX;

/// One event as stored in the log. Strings are UTF-8, checked by admission.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StoredEvent<'a> {
    /// The UUID set by the client.
    pub id: Option<u128>,
    /// Corrected time, milliseconds since 1970-01-01 UTC, never negative.
    pub ts_ms: i64,
    /// The event's name.
    pub name: &'a [u8],
    /// Empty if unknown.
    pub player: &'a [u8],
    /// Empty if unknown.
    pub session: &'a [u8],
    /// The measured value.
    pub value: Option<f64>,
    /// In the order of [`Dimension::ALL`]; empty if unknown.
    pub dimensions: [&'a [u8]; Dimension::COUNT],
    /// Values of the dimensions that the game had declared, and of those added by ingest.
    pub declared: DeclaredValues<'a>,
    /// For `$identify`: the anonymous id that belongs to the player. Empty if none.
    pub anonymous: &'a [u8],
    /// Aggregated samples.
    pub samples: Option<Samples<'a>>,
    /// JSON text of an object; empty if none.
    pub props: &'a [u8],
    /// True if sent by a known bot: not counted as a player.
    pub bot: bool,
    /// True if the client's time was implausible and was replaced by the time of receipt.
    pub time_replaced: bool,
    /// True if the player's data was erased: the ids here are numbers.
    pub erased: bool,
}

impl StoredEvent<'_> {
    /// Returns the metric in which the event counts: its name, or `(other)` if its name had no place when it arrived.
    #[inline]
    pub fn metric(&self) -> &[u8] {
        if self.declared.0.first() == Some(&WITHOUT_PLACE) { OTHER.as_bytes() } else { self.name }
    }

    /// Returns the number under which rollups know the player, in a game with this seed.
    #[inline]
    pub fn player_number(&self, seed: u64) -> u64 {
        self.number(seed, self.player)
    }

    /// Returns the number of the anonymous id.
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

/// Values of one metric, measured within one minute and aggregated on the way in. Samples are not events: they
/// belong to no player and do not count in the metric of all events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Samples<'a> {
    /// Number of samples received. Sampling can make it lower than the number of measurements they represent.
    pub received: u32,
    /// The encoded aggregate; see [`Aggregate::encode`].
    pub aggregate: &'a [u8],
}

impl Samples<'_> {
    /// Decodes the aggregate.
    pub fn aggregate(&self) -> Result<Aggregate, Corrupt> {
        Aggregate::decode(self.aggregate)
    }
}

/// The part of an event to erase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErasureScope {
    /// Nothing.
    None,
    /// Everything that identifies the player.
    Player,
    /// The anonymous id only, because the player is another person.
    Anonymous,
}

/// Values of declared dimensions with the numbers of their dimensions, in their stored form.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeclaredValues<'a>(&'a [u8]);

impl<'a> DeclaredValues<'a> {
    /// Wraps bytes written by [`DeclaredValues::push`].
    pub fn from_bytes(bytes: &'a [u8]) -> DeclaredValues<'a> {
        DeclaredValues(bytes)
    }

    /// Marks the event of an empty list: its name has no place among the names of the game.
    pub fn push_without_place(list: &mut Vec<u8>) {
        debug_assert!(list.is_empty(), "the mark comes first");
        DeclaredValues::push(list, WITHOUT_PLACE, b"");
    }

    /// Returns the values without the mark of [`DeclaredValues::push_without_place`].
    #[inline]
    pub fn dimensions(self) -> DeclaredValues<'a> {
        DeclaredValues(self.0.strip_prefix(&[WITHOUT_PLACE, 0]).unwrap_or(self.0))
    }

    /// Appends a value of at most [`DIMENSION_BYTES_MAX`] bytes to a list. A list is limited to 64 KiB, about 500 of
    /// the longest values; a value that does not fit is dropped.
    pub fn push(list: &mut Vec<u8>, number: u8, value: &[u8]) {
        debug_assert!(value.len() <= DIMENSION_BYTES_MAX, "callers bound the value");
        if list.len() + 2 + value.len() > usize::from(u16::MAX) {
            return;
        }
        list.extend_from_slice(&[number, value.len() as u8]);
        list.extend_from_slice(value);
    }

    /// Returns true if there are no values.
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Iterator for DeclaredValues<'a> {
    type Item = (u8, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let ([number, length], rest) = self.0.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(usize::from(*length))?;
        self.0 = rest;
        Some((*number, value))
    }
}

/// Encodes one batch.
#[derive(Debug)]
pub struct BatchBuilder {
    bytes: Vec<u8>,
    events: u32,
}

impl BatchBuilder {
    /// Starts a batch without events. `capacity` is the expected size of the events in bytes.
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

    /// Sets the number of values of a dimension that the game keeps per day. Must be called before the first event.
    pub fn set_values_max(&mut self, values_max: u32) {
        debug_assert_eq!(self.bytes.len(), HEADER_BYTES, "must directly follow the header");
        if values_max != VALUES_PER_DIMENSION {
            self.bytes[0] = VERSION_WITH_VALUES;
            self.bytes.extend_from_slice(&values_max.to_le_bytes());
        }
    }

    /// Appends an event. Names and ids must be within their limits.
    pub fn push(&mut self, event: &StoredEvent<'_>) {
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
        self.put_text(event.name);
        flags |= self.put_optional(event.player, HAS_PLAYER) | self.put_optional(event.session, HAS_SESSION);
        for (index, value) in event.dimensions.iter().enumerate() {
            flags |= self.put_optional(value, HAS_COUNTRY << index);
        }
        if !event.declared.is_empty() {
            flags |= HAS_DECLARED;
            self.bytes.extend_from_slice(&(event.declared.0.len() as u16).to_le_bytes());
            self.bytes.extend_from_slice(event.declared.0);
        }
        flags |= self.put_optional(event.anonymous, HAS_ANONYMOUS);
        if let Some(samples) = event.samples {
            flags |= HAS_SAMPLES;
            self.bytes.extend_from_slice(&samples.received.to_le_bytes());
            self.bytes.extend_from_slice(&(samples.aggregate.len() as u32).to_le_bytes());
            self.bytes.extend_from_slice(samples.aggregate);
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

    /// Returns the encoded batch and its number of events. `tallies` contains the number of rejected events of the
    /// request by reason, each reason once.
    pub fn finish(mut self, tallies: &[(Reject, u32)]) -> (Vec<u8>, u32) {
        self.bytes[3] = u8::try_from(tallies.len()).expect("there are fewer reasons than a byte can count");
        for (reject, count) in tallies {
            self.bytes.push(reject.code());
            self.bytes.extend_from_slice(&count.to_le_bytes());
        }
        (self.bytes, self.events)
    }

    fn put_optional(&mut self, text: &[u8], flag: u16) -> u16 {
        if text.is_empty() {
            return 0;
        }
        self.put_text(text);
        flag
    }

    fn put_text(&mut self, text: &[u8]) {
        debug_assert!(text.len() <= u8::MAX as usize, "admission bounds every name and id");
        self.bytes.push(text.len() as u8);
        self.bytes.extend_from_slice(text);
    }
}

/// The bytes are not a batch of a version that this program knows.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("log entry is not a valid batch: {0}")]
pub struct InvalidBatch(&'static str);

/// A batch decoded from the log.
#[derive(Clone, Copy, Debug)]
pub struct EventBatch<'a> {
    /// The endpoint through which it entered.
    pub endpoint: Endpoint,
    /// The class of its key.
    pub class: KeyClass,
    /// The tenant.
    pub game: u32,
    /// Time of receipt, milliseconds since 1970-01-01 UTC.
    pub received_ms: i64,
    /// Number of values of a dimension that the game keeps per day.
    pub values_max: u32,
    /// Size in bytes when the batch was accepted.
    pub bytes: u32,
    tallies: &'a [u8],
    events: &'a [u8],
}

/// What a batch contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedCounts {
    /// Number of events.
    pub events: u32,
    /// Number of samples before aggregation.
    pub samples: u32,
}

impl AcceptedCounts {
    /// Returns the sum of both.
    pub fn all(self) -> u32 {
        self.events.saturating_add(self.samples)
    }
}

impl<'a> EventBatch<'a> {
    /// Decodes the header. Events are decoded during iteration.
    pub fn read(bytes: &'a [u8]) -> Result<EventBatch<'a>, InvalidBatch> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(InvalidBatch("too short"))?;
        let mut rest = &bytes[HEADER_BYTES..];
        let (mut values_max, mut size) = (VALUES_PER_DIMENSION, bytes.len() as u32);
        if !(VERSION..=VERSION_ERASED).contains(&header[0]) {
            return Err(InvalidBatch("unknown version"));
        }
        for (since, number) in [(VERSION_WITH_VALUES, &mut values_max), (VERSION_ERASED, &mut size)] {
            if header[0] >= since {
                let (head, after) = rest.split_first_chunk().ok_or(InvalidBatch("too short"))?;
                (*number, rest) = (u32::from_le_bytes(*head), after);
            }
        }
        let events = rest.len().checked_sub(header[3] as usize * TALLY_BYTES);
        let (events, tallies) = rest.split_at(events.ok_or(InvalidBatch("truncated tallies"))?);
        Ok(EventBatch {
            endpoint: Endpoint::from_code(header[1]).ok_or(InvalidBatch("unknown endpoint"))?,
            class: if header[2] == 0 { KeyClass::Public } else { KeyClass::Secret },
            game: u32::from_le_bytes([header[4], header[5], header[6], header[7]]),
            received_ms: i64::from_le_bytes(*header.last_chunk().expect("a header has 16 bytes")),
            values_max,
            bytes: size,
            tallies,
            events,
        })
    }

    /// Returns the number of rejected events of the request by reason.
    pub fn tallies(&self) -> impl Iterator<Item = (Reject, u32)> + 'a {
        self.tallies.chunks_exact(TALLY_BYTES).filter_map(|tally| {
            let count = u32::from_le_bytes([tally[1], tally[2], tally[3], tally[4]]);
            Some((Reject::from_code(tally[0])?, count))
        })
    }

    /// Returns how many events and how many samples were accepted, given that the batch has `events` entries. Samples
    /// count as received, before aggregation.
    pub fn accepted(&self, events: u32) -> AcceptedCounts {
        if !self.endpoint.accepts_samples() {
            return AcceptedCounts { events, samples: 0 };
        }
        let mut accepted = AcceptedCounts::default();
        for event in self.events() {
            match event.samples {
                Some(samples) => accepted.samples = accepted.samples.saturating_add(samples.received),
                None => accepted.events += 1,
            }
        }
        accepted
    }

    /// Returns the events in order.
    pub fn events(&self) -> EventIter<'a> {
        EventIter { rest: self.events }
    }

    /// Encodes the batch without the events at the indices `removed` (ascending), which are counted as duplicates
    /// instead.
    pub fn without(&self, removed: &[u32]) -> (Vec<u8>, u32) {
        let mut tallies: Vec<(Reject, u32)> = self.tallies().collect();
        tallies.push((Reject::SeenBefore, removed.len() as u32));
        let capacity = self.events.len() + tallies.len() * TALLY_BYTES;
        let mut batch = BatchBuilder::new(self.endpoint, self.class, self.game, self.received_ms, capacity);
        batch.set_values_max(self.values_max);
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

    /// Encodes the batch without the erased data. It keeps the same number of events, and rollups count them as
    /// before. `mask` returns the masked form of an event id, or `None` to remove it. Data erased earlier stays
    /// erased.
    pub fn erase(
        &self,
        seed: u64,
        mut scope: impl FnMut(&StoredEvent<'a>) -> ErasureScope,
        mask: impl Fn(u128) -> Option<u128>,
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
            match scope(&event) {
                ErasureScope::Player if !event.erased => {
                    let player = number(event.player, event.player_number(seed));
                    let anonymous = number(event.anonymous, event.anonymous_number(seed));
                    let id = event.id.and_then(&mask);
                    let (player, anonymous) = (player.as_slice(), anonymous.as_slice());
                    batch.push(&StoredEvent {
                        id,
                        player,
                        anonymous,
                        session: &[],
                        props: &[],
                        erased: true,
                        ..event
                    });
                }
                ErasureScope::Anonymous => batch.push(&StoredEvent { anonymous: &[], ..event }),
                ErasureScope::Player | ErasureScope::None => batch.push(&event),
            }
        }
        batch.finish(&self.tallies().collect::<Vec<_>>()).0
    }
}

/// Iterates over the events of a batch. Stops at bytes that are not an event, which the checksum of the log rules
/// out.
#[derive(Clone, Copy, Debug)]
pub struct EventIter<'a> {
    rest: &'a [u8],
}

impl<'a> EventIter<'a> {
    fn next_raw(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(*self.rest.first_chunk()?) as usize;
        let (raw, rest) = self.rest.split_at_checked(4 + length)?;
        self.rest = rest;
        Some(raw)
    }
}

impl<'a> Iterator for EventIter<'a> {
    type Item = StoredEvent<'a>;

    fn next(&mut self) -> Option<StoredEvent<'a>> {
        EventReader { rest: &self.next_raw()?[4..] }.event()
    }
}

struct EventReader<'a> {
    rest: &'a [u8],
}

impl<'a> EventReader<'a> {
    #[inline]
    fn event(mut self) -> Option<StoredEvent<'a>> {
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
        let declared = if flags & HAS_DECLARED != 0 { self.declared()? } else { DeclaredValues::default() };
        let anonymous = self.optional(flags & HAS_ANONYMOUS)?;
        let samples = if flags & HAS_SAMPLES != 0 { Some(self.samples()?) } else { None };
        Some(StoredEvent {
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

    fn declared(&mut self) -> Option<DeclaredValues<'a>> {
        let length = u16::from_le_bytes(self.take()?);
        let (list, rest) = self.rest.split_at_checked(usize::from(length))?;
        self.rest = rest;
        Some(DeclaredValues(list))
    }

    fn samples(&mut self) -> Option<Samples<'a>> {
        let received = u32::from_le_bytes(self.take()?);
        let length = u32::from_le_bytes(self.take()?);
        let (aggregate, rest) = self.rest.split_at_checked(length as usize)?;
        self.rest = rest;
        Some(Samples { received, aggregate })
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
    use crate::reject::Outcome;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    struct OwnedEvent {
        id: Option<u128>,
        ts_ms: i64,
        texts: Vec<String>,
        declared: Vec<u8>,
        samples: Option<(u32, Vec<u8>)>,
        value: Option<f64>,
        bot: bool,
        time_replaced: bool,
    }

    impl OwnedEvent {
        fn stored(&self) -> StoredEvent<'_> {
            let text = |index: usize| self.texts[index].as_bytes();
            StoredEvent {
                id: self.id,
                ts_ms: self.ts_ms,
                name: text(0),
                player: text(1),
                session: text(2),
                value: self.value,
                dimensions: [text(3), text(4), text(5), text(6), text(7)],
                declared: DeclaredValues::from_bytes(&self.declared),
                anonymous: text(9),
                samples: self
                    .samples
                    .as_ref()
                    .map(|(received, aggregate)| Samples { received: *received, aggregate }),
                props: text(8),
                bot: self.bot,
                time_replaced: self.time_replaced,
                erased: false,
            }
        }
    }

    fn event() -> impl Strategy<Value = OwnedEvent> {
        let texts = prop::collection::vec(".{0,20}", 10..=10);
        let number = prop::option::of(-1e9..1e9f64);
        let samples = prop::option::of((any::<u32>(), prop::collection::vec(any::<u8>(), 0..40)));
        let lists = (texts, declared(), samples);
        (any::<Option<u128>>(), any::<i64>(), lists, number, any::<(bool, bool)>()).prop_map(
            |(id, ts_ms, (texts, declared, samples), value, (bot, time_replaced))| OwnedEvent {
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
            values
                .iter()
                .for_each(|(number, value)| DeclaredValues::push(&mut list, *number, value.as_bytes()));
            list
        })
    }

    fn rejected(batch: &EventBatch<'_>, outcome: Outcome) -> u32 {
        batch.tallies().filter(|(reject, _)| reject.outcome() == outcome).map(|(_, count)| count).sum()
    }

    fn build(events: &[OwnedEvent]) -> (Vec<u8>, u32) {
        let mut batch = BatchBuilder::new(Endpoint::Events, KeyClass::Secret, 7, 1234, 0);
        batch.set_values_max(1_000 + events.len() as u32 / 2);
        events.iter().for_each(|event| batch.push(&event.stored()));
        batch.finish(&[(Reject::UnknownField, 2)])
    }

    #[test]
    fn event_with_too_many_declared_values_keeps_the_first() {
        let mut list = Vec::new();
        (0..1_000).for_each(|number| DeclaredValues::push(&mut list, (number % 200) as u8, &[b'x'; 128]));
        let event = StoredEvent {
            name: b"hit",
            declared: DeclaredValues::from_bytes(&list),
            props: b"{}",
            ..StoredEvent::default()
        };
        let mut batch = BatchBuilder::new(Endpoint::Events, KeyClass::Public, 1, 0, 0);
        batch.push(&event);
        let (bytes, _) = batch.finish(&[]);
        let read = EventBatch::read(&bytes).unwrap().events().next().unwrap();
        assert_eq!((read, read.declared.count()), (event, 504));
    }

    proptest! {
        #[test]
        fn batch_round_trips(events in prop::collection::vec(event(), 0..8)) {
            let (bytes, count) = build(&events);
            let batch = EventBatch::read(&bytes).unwrap();
            prop_assert_eq!((batch.game, batch.received_ms, batch.class), (7, 1234, KeyClass::Secret));
            prop_assert_eq!(batch.tallies().collect::<Vec<_>>(), vec![(Reject::UnknownField, 2)]);
            prop_assert_eq!(count as usize, events.len());
            prop_assert_eq!(batch.values_max, 1_000 + count / 2);
            let expected: Vec<StoredEvent> = events.iter().map(OwnedEvent::stored).collect();
            prop_assert_eq!(batch.events().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn removed_events_become_duplicates(
            events in prop::collection::vec(event(), 0..8),
            keep in prop::collection::vec(any::<bool>(), 8..=8),
        ) {
            let (bytes, _) = build(&events);
            let removed: Vec<u32> = (0..events.len() as u32).filter(|index| !keep[*index as usize]).collect();
            let (bytes, count) = EventBatch::read(&bytes).unwrap().without(&removed);
            let batch = EventBatch::read(&bytes).unwrap();
            prop_assert_eq!(rejected(&batch, Outcome::Duplicate) as usize, removed.len());
            prop_assert_eq!(batch.values_max, 1_000 + events.len() as u32 / 2);
            prop_assert_eq!(count as usize, events.len() - removed.len());
            let kept = events.iter().enumerate().filter(|(index, _)| keep[*index]);
            let expected: Vec<StoredEvent> = kept.map(|(_, event)| event.stored()).collect();
            prop_assert_eq!(batch.events().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn erasure_keeps_the_player_number_and_the_counted_fields(
            events in prop::collection::vec(event(), 0..8),
            scopes in prop::collection::vec(0..3u8, 8..=8),
            seed: u64, mask: Option<u128>,
        ) {
            let (bytes, _) = build(&events);
            let batch = EventBatch::read(&bytes).unwrap();
            let whole: Vec<StoredEvent> = batch.events().collect();
            let scope = |event: &StoredEvent| {
                let at = whole.iter().position(|it| it == event).unwrap();
                [ErasureScope::None, ErasureScope::Player, ErasureScope::Anonymous][usize::from(scopes[at])]
            };
            let masked = |id| Some(id ^ mask?);
            let erased = batch.erase(seed, scope, masked);
            let again = EventBatch::read(&erased).unwrap();
            prop_assert_eq!((again.bytes, again.values_max), (bytes.len() as u32, batch.values_max));
            prop_assert_eq!(again.tallies().collect::<Vec<_>>(), batch.tallies().collect::<Vec<_>>());
            prop_assert_eq!(again.events().count(), whole.len());
            for (event, before) in again.events().zip(&whole) {
                prop_assert_eq!(event.player_number(seed), before.player_number(seed));
                prop_assert_eq!(event.player.is_empty(), before.player.is_empty());
                match scope(before) {
                    ErasureScope::None => prop_assert_eq!(&event, before),
                    ErasureScope::Anonymous => prop_assert_eq!(event, StoredEvent { anonymous: &[], ..*before }),
                    ErasureScope::Player => {
                        prop_assert_eq!(event.anonymous_number(seed), before.anonymous_number(seed));
                        let StoredEvent { player, anonymous, .. } = event;
                        let id = before.id.and_then(masked);
                        let left = StoredEvent {
                            id, player, anonymous, session: &[], props: &[], erased: true, ..*before
                        };
                        prop_assert_eq!(event, left);
                    }
                }
            }
            let twice = again.erase(seed, |_| ErasureScope::Player, |_| None);
            let once_and_all = batch.erase(seed, |_| ErasureScope::Player, |_| None);
            let (twice, all) = (EventBatch::read(&twice).unwrap(), EventBatch::read(&once_and_all).unwrap());
            for (twice, all) in twice.events().zip(all.events()) {
                prop_assert_eq!((twice.player, twice.session, twice.props), (all.player, all.session, all.props));
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(batch) = EventBatch::read(&bytes) {
                let declared = batch.events().map(|event| event.declared.count());
                let _ = (batch.tallies().count(), declared.sum::<usize>());
            }
        }
    }
}
