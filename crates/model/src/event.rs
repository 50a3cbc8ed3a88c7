//! An event as a decoder hands it over, and the words every later stage uses for it.

use std::borrow::Cow;

use crate::record::{Declared, Samples};

/// What a decoder made of the bytes. Its shape is right; nothing else has been checked.
///
/// A field of the wrong type is not here: the decoder answers with a [`crate::Reject`] instead.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawEvent<'a> {
    /// `event`; absent when the field was not there.
    pub name: Option<Cow<'a, str>>,
    /// `id` as the UUID's 128 bits, most significant first.
    pub id: Option<u128>,
    /// `ts` in milliseconds since 1970-01-01 UTC, as the client's clock had it.
    pub ts_ms: Option<i64>,
    /// `player`, a whole number written out.
    pub player: Option<Cow<'a, str>>,
    /// `session`, a whole number written out.
    pub session: Option<Cow<'a, str>>,
    /// `value`; finite.
    pub value: Option<f64>,
    /// The dimensions that an event may carry, in the order of [`Dimension::ALL`].
    pub dimensions: [Option<Cow<'a, str>>; Dimension::COUNT],
    /// `props` as the JSON text of an object, checked against the limits.
    pub props: Option<&'a str>,
    /// Values of dimensions that the game declared, beside those in `props`. No decoder of what clients send gives these.
    pub declared: Declared<'a>,
    /// Instead of one value: many that were added up. No decoder of what clients send gives these.
    pub samples: Option<Samples<'a>>,
}

/// An indexed property of an event. The numbers are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Dimension {
    /// ISO 3166 two-letter code, upper case.
    Country = 0,
    /// Where the player came from.
    Source = 1,
    /// web, ios, android, windows, macos, linux ...
    Platform = 2,
    /// The game's version.
    Version = 3,
    /// The level played.
    Level = 4,
}

impl Dimension {
    /// How many there are.
    pub const COUNT: usize = 5;
    /// All of them, in stored order.
    pub const ALL: [Dimension; Dimension::COUNT] =
        [Dimension::Country, Dimension::Source, Dimension::Platform, Dimension::Version, Dimension::Level];

    /// The name in events, queries and answers.
    pub fn label(self) -> &'static str {
        ["country", "source", "platform", "version", "level"][self as usize]
    }

    /// The dimension of this name.
    pub fn from_label(label: &str) -> Option<Dimension> {
        Dimension::ALL.into_iter().find(|dimension| dimension.label() == label)
    }
}
