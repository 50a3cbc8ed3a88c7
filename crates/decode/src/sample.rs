//! One measured value, as every decoder of metrics hands it on.
//!
//! A sample borrows from the bytes it was read from and from the decoder's own memory, and lives as long as the call it
//! is given to: nothing is allocated for one.

use model::Reject;
use model::limits::{NAME_BYTES_MAX, PROP_KEY_BYTES_MAX, PROP_STRING_BYTES_MAX, PROPS_KEYS_MAX};

/// One value of one metric, checked against the limits. [`Sample::weight`] times the value is finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The metric: 1 to 200 bytes, without a `$` in front.
    pub name: &'a str,
    /// What was measured.
    pub measured: Measured<'a>,
    /// How many measurements it stands for: 1 / sampling rate, at least 1.
    pub weight: f64,
    /// At most 64, in the order in which they were sent. A key may come twice.
    pub tags: &'a [Tag<'a>],
    /// When, in milliseconds since 1970-01-01 UTC by the sender's clock; absent: now.
    pub ts_ms: Option<i64>,
}

/// What a sample says of its metric. All numbers are finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured<'a> {
    /// So much is added to a counter.
    Count(f64),
    /// A gauge shows this from now on.
    Gauge(f64),
    /// A gauge shows so much more than before.
    Change(f64),
    /// Something took so many milliseconds.
    Timer(f64),
    /// One value of a distribution.
    Value(f64),
    /// This was seen; how many different ones there are is counted. 1 to 1,024 bytes.
    Member(&'a str),
    /// Many values of a distribution at once.
    Spread(Spread<'a>),
}

/// Many values of which a sender kept count, sum and extremes, and how many lay about where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread<'a> {
    /// How many values. With none all other numbers are 0, and there are no parts.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The smallest; an estimate from the lowest bucket if the sender does not tell.
    pub min: f64,
    /// The largest; an estimate from the highest bucket if the sender does not tell.
    pub max: f64,
    /// Values between `min` and `max`, and how many lay about there. The numbers add up to `count`.
    pub parts: &'a [(f64, u64)],
}

/// A word about where a sample comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag<'a> {
    /// 1 to 128 bytes.
    pub key: &'a str,
    /// At most 1,024 bytes; empty for a tag that is only a word.
    pub value: &'a str,
}

/// What a decoder calls its taker with: a sample, or what was refused.
pub type Taken<'a> = Result<Sample<'a>, Refused<'a>>;

/// A line or a point that was not taken. It says nothing about those beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<'a> {
    /// Why.
    pub reject: Reject,
    /// What it was, for people to look at: the whole line, or the metric's name.
    pub text: &'a [u8],
}

/// The rules for names, the same as for events: but no metric from outside has a name of the product's own.
#[inline]
pub(crate) fn metric_name(name: &str) -> Result<&str, Reject> {
    match name.as_bytes() {
        [] => Err(Reject::EventNameEmpty),
        [b'$', ..] => Err(Reject::EventNameReserved),
        name if name.len() > NAME_BYTES_MAX => Err(Reject::EventNameTooLong),
        _ => Ok(name),
    }
}

/// Adds a tag, if the limits allow.
#[inline]
pub(crate) fn push_tag<'a>(tags: &mut Vec<Tag<'a>>, key: &'a str, value: &'a str) -> Result<(), Reject> {
    if key.is_empty() {
        return Err(Reject::MalformedLine);
    }
    if key.len() > PROP_KEY_BYTES_MAX {
        return Err(Reject::PropKeyTooLong);
    }
    if value.len() > PROP_STRING_BYTES_MAX {
        return Err(Reject::PropStringTooLong);
    }
    if tags.len() == PROPS_KEYS_MAX {
        return Err(Reject::PropsTooManyKeys);
    }
    tags.push(Tag { key, value });
    Ok(())
}
