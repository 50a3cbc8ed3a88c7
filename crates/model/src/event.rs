//! Events and batches as decoders produce them, and the built-in dimensions.

use std::borrow::Cow;

use crate::Reject;
use crate::batch::{DeclaredValues, Samples};

/// An event as a decoder read it: well-formed, not yet validated.
///
/// A field of the wrong type never gets here: the decoder returns a [`crate::Reject`] instead.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawEvent<'a> {
    /// `event`; `None` if the field is absent.
    pub name: Option<Cow<'a, str>>,
    /// `id` as the UUID's 128 bits, most significant first.
    pub id: Option<u128>,
    /// `ts` in milliseconds since 1970-01-01 UTC, by the client's clock.
    pub ts_ms: Option<i64>,
    /// `player`; a whole number is written out as text.
    pub player: Option<Cow<'a, str>>,
    /// `session`; a whole number is written out as text.
    pub session: Option<Cow<'a, str>>,
    /// `value`; always finite.
    pub value: Option<f64>,
    /// The built-in dimensions, in the order of [`Dimension::ALL`].
    pub dimensions: [Option<Cow<'a, str>>; Dimension::COUNT],
    /// `props` as the JSON text of an object within the limits.
    pub props: Option<&'a str>,
    /// Values of declared dimensions in addition to those in `props`. Set by the server only, never decoded from
    /// a client.
    pub declared: DeclaredValues<'a>,
    /// Aggregated samples, instead of a single value. Set by the server only, never decoded from a client.
    pub samples: Option<Samples<'a>>,
}

/// The events of one request, as a decoder read them.
#[derive(Debug, Default, PartialEq)]
pub struct RawBatch<'a> {
    /// Send time by the client's clock, milliseconds since 1970-01-01 UTC, if the client reported it.
    pub sent_at_ms: Option<i64>,
    /// The events, or the reasons why they were rejected, in the order of the request.
    pub events: Vec<Result<RawEvent<'a>, Reject>>,
}

impl RawBatch<'_> {
    /// Returns an empty batch that reuses the allocated memory for another request.
    pub fn recycle<'b>(mut self) -> RawBatch<'b> {
        self.events.clear();
        // Collecting an emptied vector into one of the same layout reuses its allocation.
        RawBatch { sent_at_ms: None, events: self.events.into_iter().map(change_lifetime).collect() }
    }
}

/// Never called: the vector is empty.
fn change_lifetime<'b>(_: Result<RawEvent<'_>, Reject>) -> Result<RawEvent<'b>, Reject> {
    Err(Reject::MalformedJson)
}

/// A built-in dimension: an indexed property of an event. The numbers are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Dimension {
    /// ISO 3166 two-letter code, upper case.
    Country = 0,
    /// The referrer or campaign that brought the player.
    Source = 1,
    /// web, ios, android, windows, macos, linux, ...
    Platform = 2,
    /// Version of the game.
    Version = 3,
    /// Level that was played.
    Level = 4,
}

impl Dimension {
    /// Number of built-in dimensions.
    pub const COUNT: usize = 5;
    /// All built-in dimensions, in stored order.
    pub const ALL: [Dimension; Dimension::COUNT] =
        [Dimension::Country, Dimension::Source, Dimension::Platform, Dimension::Version, Dimension::Level];

    /// Returns the name used in events, queries and responses.
    pub fn label(self) -> &'static str {
        ["country", "source", "platform", "version", "level"][self as usize]
    }

    /// Returns the dimension with this name.
    pub fn from_label(label: &str) -> Option<Dimension> {
        Dimension::ALL.into_iter().find(|dimension| dimension.label() == label)
    }
}
