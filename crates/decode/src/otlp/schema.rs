//! The fields that are read: their numbers, names in JSON, and types. Others are skipped.
//!
//! <https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/metrics/v1/metrics.proto>

use super::Malformed;
use super::wire::{Reader, Value};

/// A message, by the fields that are read.
pub(super) struct Message(pub &'static [Field]);

pub(super) struct Field {
    pub number: u32,
    pub name: &'static str,
    pub kind: Kind,
    pub is_repeated: bool,
}

/// The types there are.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Bool,
    /// `uint32`, `uint64`, `int64` and enumerations.
    Varint,
    /// `sint32`.
    Zigzag,
    /// `fixed64`.
    Fixed,
    /// `sfixed64`.
    SignedFixed,
    Double,
    Message(&'static Message),
}

const fn one(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, is_repeated: false }
}

const fn many(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, is_repeated: true }
}

/// What comes in a body.
pub(super) static REQUEST: Message = Message(&[many(1, "resourceMetrics", Kind::Message(&RESOURCE_METRICS))]);
static RESOURCE_METRICS: Message = Message(&[
    one(1, "resource", Kind::Message(&RESOURCE)),
    many(2, "scopeMetrics", Kind::Message(&SCOPE_METRICS)),
]);
static RESOURCE: Message = Message(&[many(1, "attributes", Kind::Message(&KEY_VALUE))]);
static SCOPE_METRICS: Message = Message(&[many(2, "metrics", Kind::Message(&METRIC))]);
static KEY_VALUE: Message = Message(&[one(1, "key", Kind::Text), one(2, "value", Kind::Message(&ANY_VALUE))]);
static ANY_VALUE: Message = Message(&[
    one(1, "stringValue", Kind::Text),
    one(2, "boolValue", Kind::Bool),
    one(3, "intValue", Kind::Varint),
    one(4, "doubleValue", Kind::Double),
    one(5, "arrayValue", Kind::Message(&LEFT_OUT)),
    one(6, "kvlistValue", Kind::Message(&LEFT_OUT)),
]);
/// That it is there counts, not what it says.
static LEFT_OUT: Message = Message(&[]);
static METRIC: Message = Message(&[
    one(1, "name", Kind::Text),
    one(5, "gauge", Kind::Message(&GAUGE)),
    one(7, "sum", Kind::Message(&SUM)),
    one(9, "histogram", Kind::Message(&HISTOGRAM)),
    one(10, "exponentialHistogram", Kind::Message(&EXPONENTIAL_HISTOGRAM)),
    one(11, "summary", Kind::Message(&SUMMARY)),
]);
static GAUGE: Message = Message(&[many(1, "dataPoints", Kind::Message(&NUMBER_POINT))]);
static SUM: Message = Message(&[
    many(1, "dataPoints", Kind::Message(&NUMBER_POINT)),
    one(2, "aggregationTemporality", Kind::Varint),
    one(3, "isMonotonic", Kind::Bool),
]);
static HISTOGRAM: Message = Message(&[
    many(1, "dataPoints", Kind::Message(&HISTOGRAM_POINT)),
    one(2, "aggregationTemporality", Kind::Varint),
]);
static EXPONENTIAL_HISTOGRAM: Message = Message(&[
    many(1, "dataPoints", Kind::Message(&EXPONENTIAL_POINT)),
    one(2, "aggregationTemporality", Kind::Varint),
]);
static SUMMARY: Message = Message(&[many(1, "dataPoints", Kind::Message(&SUMMARY_POINT))]);
static NUMBER_POINT: Message = Message(&[
    one(2, "startTimeUnixNano", Kind::Fixed),
    one(3, "timeUnixNano", Kind::Fixed),
    one(4, "asDouble", Kind::Double),
    one(6, "asInt", Kind::SignedFixed),
    many(7, "attributes", Kind::Message(&KEY_VALUE)),
    one(8, "flags", Kind::Varint),
]);
static HISTOGRAM_POINT: Message = Message(&[
    one(2, "startTimeUnixNano", Kind::Fixed),
    one(3, "timeUnixNano", Kind::Fixed),
    one(4, "count", Kind::Fixed),
    one(5, "sum", Kind::Double),
    many(6, "bucketCounts", Kind::Fixed),
    many(7, "explicitBounds", Kind::Double),
    many(9, "attributes", Kind::Message(&KEY_VALUE)),
    one(10, "flags", Kind::Varint),
    one(11, "min", Kind::Double),
    one(12, "max", Kind::Double),
]);
static EXPONENTIAL_POINT: Message = Message(&[
    many(1, "attributes", Kind::Message(&KEY_VALUE)),
    one(2, "startTimeUnixNano", Kind::Fixed),
    one(3, "timeUnixNano", Kind::Fixed),
    one(4, "count", Kind::Fixed),
    one(5, "sum", Kind::Double),
    one(6, "scale", Kind::Zigzag),
    one(7, "zeroCount", Kind::Fixed),
    one(8, "positive", Kind::Message(&BUCKETS)),
    one(9, "negative", Kind::Message(&BUCKETS)),
    one(10, "flags", Kind::Varint),
    one(12, "min", Kind::Double),
    one(13, "max", Kind::Double),
]);
static BUCKETS: Message = Message(&[one(1, "offset", Kind::Zigzag), many(2, "bucketCounts", Kind::Varint)]);
static SUMMARY_POINT: Message = Message(&[
    one(2, "startTimeUnixNano", Kind::Fixed),
    one(3, "timeUnixNano", Kind::Fixed),
    one(4, "count", Kind::Fixed),
    one(5, "sum", Kind::Double),
    many(7, "attributes", Kind::Message(&KEY_VALUE)),
    one(8, "flags", Kind::Varint),
]);

/// Checks that the bytes are such a message, down to the last one. How deep it goes is bounded by the messages above.
pub(super) fn check(bytes: &[u8], message: &Message) -> Result<(), Malformed> {
    check_in(bytes, message, "resourceMetrics")
}

fn check_in(bytes: &[u8], message: &Message, around: &'static str) -> Result<(), Malformed> {
    for read in Reader::new(bytes) {
        let (number, value) = read.map_err(|_| Malformed::Protobuf { field: around })?;
        let Some(field) = message.0.iter().find(|field| field.number == number) else { continue };
        match (field.kind, value) {
            (Kind::Message(inner), Value::Bytes(bytes)) => check_in(bytes, inner, field.name)?,
            _ if field.accepts(value) => {}
            _ => return Err(Malformed::Protobuf { field: field.name }),
        }
    }
    Ok(())
}

impl Field {
    fn accepts(&self, value: Value<'_>) -> bool {
        match (self.kind, value) {
            (Kind::Text, Value::Bytes(bytes)) => str::from_utf8(bytes).is_ok(),
            (Kind::Bool | Kind::Varint | Kind::Zigzag, Value::Varint(_)) => true,
            (Kind::Fixed | Kind::SignedFixed | Kind::Double, Value::Fixed64(_)) => true,
            (Kind::Varint, Value::Bytes(packed)) => self.is_repeated && are_varints(packed),
            (Kind::Fixed | Kind::Double, Value::Bytes(packed)) => self.is_repeated && packed.len() % 8 == 0,
            _ => false,
        }
    }
}

fn are_varints(packed: &[u8]) -> bool {
    // Every varint ends with a byte that has no highest bit, so that broken ones leave a byte over or read short.
    let mut reader = Reader::new(packed);
    let count = std::iter::from_fn(|| reader.varint()).count();
    count == packed.iter().filter(|byte| **byte & 0x80 == 0).count()
        && packed.last().is_none_or(|byte| byte & 0x80 == 0)
}
