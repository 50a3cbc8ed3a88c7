//! The fields that are read: their numbers, JSON names and types. Others are skipped.
//!
//! <https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/metrics/v1/metrics.proto>

use super::MalformedRequest;
use super::wire::{FieldReader, WireValue};

/// A message, as the fields that are read.
pub(crate) struct MessageSchema(pub &'static [FieldSchema]);

pub(crate) struct FieldSchema {
    pub number: u32,
    pub name: &'static str,
    pub field_type: FieldType,
    pub is_repeated: bool,
}

/// The type of a field.
#[derive(Clone, Copy)]
pub(crate) enum FieldType {
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
    /// Bytes, which JSON writes in hexadecimal digits.
    Hex,
    Message(&'static MessageSchema),
}

const fn one(number: u32, name: &'static str, field_type: FieldType) -> FieldSchema {
    FieldSchema { number, name, field_type, is_repeated: false }
}

const fn many(number: u32, name: &'static str, field_type: FieldType) -> FieldSchema {
    FieldSchema { number, name, field_type, is_repeated: true }
}

/// The message of a request.
pub(crate) static REQUEST: MessageSchema =
    MessageSchema(&[many(1, "resourceMetrics", FieldType::Message(&RESOURCE_METRICS))]);
static RESOURCE_METRICS: MessageSchema = MessageSchema(&[
    one(1, "resource", FieldType::Message(&RESOURCE)),
    many(2, "scopeMetrics", FieldType::Message(&SCOPE_METRICS)),
]);
static RESOURCE: MessageSchema = MessageSchema(&[many(1, "attributes", FieldType::Message(&KEY_VALUE))]);
static SCOPE_METRICS: MessageSchema = MessageSchema(&[many(2, "metrics", FieldType::Message(&METRIC))]);
static KEY_VALUE: MessageSchema =
    MessageSchema(&[one(1, "key", FieldType::Text), one(2, "value", FieldType::Message(&ANY_VALUE))]);
static ANY_VALUE: MessageSchema = MessageSchema(&[
    one(1, "stringValue", FieldType::Text),
    one(2, "boolValue", FieldType::Bool),
    one(3, "intValue", FieldType::Varint),
    one(4, "doubleValue", FieldType::Double),
    one(5, "arrayValue", FieldType::Message(&IGNORED_CONTENT)),
    one(6, "kvlistValue", FieldType::Message(&IGNORED_CONTENT)),
]);
/// A message whose presence counts, but not its content.
static IGNORED_CONTENT: MessageSchema = MessageSchema(&[]);
static METRIC: MessageSchema = MessageSchema(&[
    one(1, "name", FieldType::Text),
    one(5, "gauge", FieldType::Message(&GAUGE)),
    one(7, "sum", FieldType::Message(&SUM)),
    one(9, "histogram", FieldType::Message(&HISTOGRAM)),
    one(10, "exponentialHistogram", FieldType::Message(&EXPONENTIAL_HISTOGRAM)),
    one(11, "summary", FieldType::Message(&SUMMARY)),
]);
static GAUGE: MessageSchema = MessageSchema(&[many(1, "dataPoints", FieldType::Message(&NUMBER_POINT))]);
static SUM: MessageSchema = MessageSchema(&[
    many(1, "dataPoints", FieldType::Message(&NUMBER_POINT)),
    one(2, "aggregationTemporality", FieldType::Varint),
    one(3, "isMonotonic", FieldType::Bool),
]);
static HISTOGRAM: MessageSchema = MessageSchema(&[
    many(1, "dataPoints", FieldType::Message(&HISTOGRAM_POINT)),
    one(2, "aggregationTemporality", FieldType::Varint),
]);
static EXPONENTIAL_HISTOGRAM: MessageSchema = MessageSchema(&[
    many(1, "dataPoints", FieldType::Message(&EXPONENTIAL_POINT)),
    one(2, "aggregationTemporality", FieldType::Varint),
]);
static SUMMARY: MessageSchema = MessageSchema(&[many(1, "dataPoints", FieldType::Message(&SUMMARY_POINT))]);
static NUMBER_POINT: MessageSchema = MessageSchema(&[
    one(2, "startTimeUnixNano", FieldType::Fixed),
    one(3, "timeUnixNano", FieldType::Fixed),
    one(4, "asDouble", FieldType::Double),
    one(6, "asInt", FieldType::SignedFixed),
    many(7, "attributes", FieldType::Message(&KEY_VALUE)),
    one(8, "flags", FieldType::Varint),
]);
static HISTOGRAM_POINT: MessageSchema = MessageSchema(&[
    one(2, "startTimeUnixNano", FieldType::Fixed),
    one(3, "timeUnixNano", FieldType::Fixed),
    one(4, "count", FieldType::Fixed),
    one(5, "sum", FieldType::Double),
    many(6, "bucketCounts", FieldType::Fixed),
    many(7, "explicitBounds", FieldType::Double),
    many(9, "attributes", FieldType::Message(&KEY_VALUE)),
    one(10, "flags", FieldType::Varint),
    one(11, "min", FieldType::Double),
    one(12, "max", FieldType::Double),
]);
static EXPONENTIAL_POINT: MessageSchema = MessageSchema(&[
    many(1, "attributes", FieldType::Message(&KEY_VALUE)),
    one(2, "startTimeUnixNano", FieldType::Fixed),
    one(3, "timeUnixNano", FieldType::Fixed),
    one(4, "count", FieldType::Fixed),
    one(5, "sum", FieldType::Double),
    one(6, "scale", FieldType::Zigzag),
    one(7, "zeroCount", FieldType::Fixed),
    one(8, "positive", FieldType::Message(&BUCKETS)),
    one(9, "negative", FieldType::Message(&BUCKETS)),
    one(10, "flags", FieldType::Varint),
    one(12, "min", FieldType::Double),
    one(13, "max", FieldType::Double),
]);
static BUCKETS: MessageSchema =
    MessageSchema(&[one(1, "offset", FieldType::Zigzag), many(2, "bucketCounts", FieldType::Varint)]);
static SUMMARY_POINT: MessageSchema = MessageSchema(&[
    one(2, "startTimeUnixNano", FieldType::Fixed),
    one(3, "timeUnixNano", FieldType::Fixed),
    one(4, "count", FieldType::Fixed),
    one(5, "sum", FieldType::Double),
    many(7, "attributes", FieldType::Message(&KEY_VALUE)),
    one(8, "flags", FieldType::Varint),
]);

/// The message of a request with spans.
pub(crate) static TRACE_REQUEST: MessageSchema =
    MessageSchema(&[many(1, "resourceSpans", FieldType::Message(&RESOURCE_SPANS))]);
static RESOURCE_SPANS: MessageSchema = MessageSchema(&[
    one(1, "resource", FieldType::Message(&RESOURCE)),
    many(2, "scopeSpans", FieldType::Message(&SCOPE_SPANS)),
]);
static SCOPE_SPANS: MessageSchema = MessageSchema(&[many(2, "spans", FieldType::Message(&SPAN))]);
static SPAN: MessageSchema = MessageSchema(&[
    one(1, "traceId", FieldType::Hex),
    one(2, "spanId", FieldType::Hex),
    one(5, "name", FieldType::Text),
    one(6, "kind", FieldType::Varint),
    one(7, "startTimeUnixNano", FieldType::Fixed),
    one(8, "endTimeUnixNano", FieldType::Fixed),
    many(9, "attributes", FieldType::Message(&KEY_VALUE)),
    one(15, "status", FieldType::Message(&STATUS)),
]);
static STATUS: MessageSchema =
    MessageSchema(&[one(2, "message", FieldType::Text), one(3, "code", FieldType::Varint)]);

/// The message of a request with log records.
pub(crate) static LOGS_REQUEST: MessageSchema =
    MessageSchema(&[many(1, "resourceLogs", FieldType::Message(&RESOURCE_LOGS))]);
static RESOURCE_LOGS: MessageSchema = MessageSchema(&[
    one(1, "resource", FieldType::Message(&RESOURCE)),
    many(2, "scopeLogs", FieldType::Message(&SCOPE_LOGS)),
]);
static SCOPE_LOGS: MessageSchema = MessageSchema(&[many(2, "logRecords", FieldType::Message(&LOG_RECORD))]);
static LOG_RECORD: MessageSchema = MessageSchema(&[
    one(1, "timeUnixNano", FieldType::Fixed),
    one(2, "severityNumber", FieldType::Varint),
    one(3, "severityText", FieldType::Text),
    one(5, "body", FieldType::Message(&ANY_VALUE)),
    many(6, "attributes", FieldType::Message(&KEY_VALUE)),
    one(11, "observedTimeUnixNano", FieldType::Fixed),
    one(12, "eventName", FieldType::Text),
]);

/// The message of Prometheus remote write 1.0.
pub(crate) static WRITE_REQUEST: MessageSchema =
    MessageSchema(&[many(1, "timeseries", FieldType::Message(&TIME_SERIES))]);
static TIME_SERIES: MessageSchema = MessageSchema(&[
    many(1, "labels", FieldType::Message(&LABEL)),
    many(2, "samples", FieldType::Message(&WRITE_SAMPLE)),
    many(4, "histograms", FieldType::Message(&IGNORED_CONTENT)),
]);
static LABEL: MessageSchema =
    MessageSchema(&[one(1, "name", FieldType::Text), one(2, "value", FieldType::Text)]);
static WRITE_SAMPLE: MessageSchema =
    MessageSchema(&[one(1, "value", FieldType::Double), one(2, "timestamp", FieldType::Varint)]);

/// Checks that all bytes are such a message. The depth is bounded by the messages above.
/// `name` is the repeated field of the request.
pub(crate) fn check(
    bytes: &[u8],
    message: &MessageSchema,
    name: &'static str,
) -> Result<(), MalformedRequest> {
    check_in(bytes, message, name)
}

fn check_in(bytes: &[u8], message: &MessageSchema, around: &'static str) -> Result<(), MalformedRequest> {
    for read in FieldReader::new(bytes) {
        let (number, value) = read.map_err(|_| MalformedRequest::Protobuf { field: around })?;
        let Some(field) = message.0.iter().find(|field| field.number == number) else { continue };
        match (field.field_type, value) {
            (FieldType::Message(inner), WireValue::Bytes(bytes)) => check_in(bytes, inner, field.name)?,
            _ if field.accepts(value) => {}
            _ => return Err(MalformedRequest::Protobuf { field: field.name }),
        }
    }
    Ok(())
}

impl FieldSchema {
    fn accepts(&self, value: WireValue<'_>) -> bool {
        match (self.field_type, value) {
            (FieldType::Text, WireValue::Bytes(bytes)) => str::from_utf8(bytes).is_ok(),
            (FieldType::Hex, WireValue::Bytes(_)) => true,
            (FieldType::Bool | FieldType::Varint | FieldType::Zigzag, WireValue::Varint(_)) => true,
            (FieldType::Fixed | FieldType::SignedFixed | FieldType::Double, WireValue::Fixed64(_)) => true,
            (FieldType::Varint, WireValue::Bytes(packed)) => self.is_repeated && are_varints(packed),
            (FieldType::Fixed | FieldType::Double, WireValue::Bytes(packed)) => {
                self.is_repeated && packed.len() % 8 == 0
            }
            _ => false,
        }
    }
}

fn are_varints(packed: &[u8]) -> bool {
    // Every varint ends with a byte without the highest bit, so malformed ones leave a byte over or are cut short.
    let mut reader = FieldReader::new(packed);
    let count = std::iter::from_fn(|| reader.varint()).count();
    count == packed.iter().filter(|byte| **byte & 0x80 == 0).count()
        && packed.last().is_none_or(|byte| byte & 0x80 == 0)
}
