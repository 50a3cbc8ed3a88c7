//! One measured value, the common output of all decoders of metrics.
//!
//! A sample borrows from the decoded bytes and from the decoder's memory and lives as long as the call that receives it:
//! no sample needs an allocation.

use model::Reject;
use model::limits::{NAME_BYTES_MAX, PROP_KEY_BYTES_MAX, PROP_STRING_BYTES_MAX, PROPS_KEYS_MAX};

/// One value of one metric, checked against the limits. [`Sample::weight`] times the value is finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The metric: 1 to 200 bytes, without a leading `$`.
    pub name: &'a str,
    /// The measurement.
    pub measured: Measured<'a>,
    /// Number of measurements that it represents: 1 / sampling rate, at least 1.
    pub weight: f64,
    /// At most 64, in the order in which they were sent. A key may occur twice.
    pub tags: &'a [Tag<'a>],
    /// Time in milliseconds since 1970-01-01 UTC by the sender's clock; `None` means now.
    pub ts_ms: Option<i64>,
}

/// The measurement of a sample. All numbers are finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured<'a> {
    /// An increment of a counter.
    Count(f64),
    /// The new value of a gauge.
    Gauge(f64),
    /// A change of a gauge.
    Change(f64),
    /// A duration in milliseconds.
    Timer(f64),
    /// One value of a distribution.
    Value(f64),
    /// A member of a set whose distinct members are counted. 1 to 1,024 bytes.
    Member(&'a str),
    /// Many values of a distribution, already aggregated.
    Histogram(Histogram<'a>),
}

/// Values that a sender has aggregated into count, sum, extremes and buckets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Histogram<'a> {
    /// Number of values. If it is 0, all other numbers are 0 and there are no buckets.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The smallest; estimated from the lowest bucket if the sender does not report it.
    pub min: f64,
    /// The largest; estimated from the highest bucket if the sender does not report it.
    pub max: f64,
    /// Representative values between `min` and `max` and their counts, which add up to `count`.
    pub buckets: &'a [(f64, u64)],
}

/// A key and a value attached to a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag<'a> {
    /// 1 to 128 bytes.
    pub key: &'a str,
    /// At most 1,024 bytes; empty for a tag without a value.
    pub value: &'a str,
}

/// The argument of a decoder's callback: a sample or a rejection.
pub type SampleResult<'a> = Result<Sample<'a>, RejectedInput<'a>>;

/// A line or a point that was rejected. Its neighbours are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectedInput<'a> {
    /// The reason.
    pub reject: Reject,
    /// The rejected input for display: the whole line, or the metric's name.
    pub text: &'a [u8],
}

/// Checks a name by the rules for events, except that reserved names are rejected.
#[inline]
pub(crate) fn metric_name(name: &str) -> Result<&str, Reject> {
    match name.as_bytes() {
        [] => Err(Reject::EventNameEmpty),
        [b'$', ..] => Err(Reject::EventNameReserved),
        name if name.len() > NAME_BYTES_MAX => Err(Reject::EventNameTooLong),
        _ => Ok(name),
    }
}

/// Adds a tag, if the limits allow it.
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
