//! OpenTelemetry over HTTP, as protobuf or as JSON. Metrics, an `ExportMetricsServiceRequest`, are read here; traces and
//! logs in `records`.
//!
//! | sent | sample |
//! |---|---|
//! | gauge | [`Measured::Gauge`] |
//! | sum, monotonic, delta | [`Measured::Count`] |
//! | sum, monotonic, cumulative | [`Measured::Count`] of the increase of the total ([`CumulativeSeries`]) |
//! | sum, not monotonic, delta | [`Measured::Change`] |
//! | sum, not monotonic, cumulative | [`Measured::Gauge`] |
//! | histogram, exponential histogram | [`Measured::Histogram`]: count, sum, extremes and buckets |
//! | summary | [`Measured::Histogram`] of count and sum; quantiles cannot be merged and are left out |
//!
//! Attributes of the resource and of the point are tags; lists, maps, bytes and empty values are left out. A point
//! flagged as having no value is skipped.
//!
//! The relevant fields are read directly from the body: only one point is in memory at a time, whatever is sent. JSON is
//! first converted to the same bytes, so the meaning of a point is implemented once. (`opentelemetry-proto` 0.33 was
//! considered: 36 more crates, and objects for every field of a body before the first is read.)
//!
//! <https://opentelemetry.io/docs/specs/otlp/>, <https://opentelemetry.io/docs/specs/otel/metrics/data-model/>

mod buckets;
mod json;
pub(crate) mod point;
mod records;
mod response;
pub(crate) mod schema;
pub(crate) mod series;
pub(crate) mod wire;

pub use records::{RecordsRequest, TooManyRecords};
pub use response::{error_status, export_response};
pub use series::CumulativeSeries;

use model::Reject;
use model::limits::PROPS_KEYS_MAX;
use std::borrow::Cow;

use crate::sample::{Measured, RejectedInput, Sample, SampleResult, Tag, metric_name, push_tag};
use point::{MetricData, PointValue};
use wire::{last, messages, text};

/// Attributes read per point: one more than allowed, to detect the excess.
const ATTRIBUTES: usize = PROPS_KEYS_MAX + 1;

/// The encoding of a body and of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/x-protobuf`.
    Protobuf,
    /// `application/json`.
    Json,
}

impl Encoding {
    /// Returns the content type of requests and responses.
    pub fn content_type(self) -> &'static str {
        match self {
            Encoding::Protobuf => "application/x-protobuf",
            Encoding::Json => "application/json",
        }
    }
}

/// What an export carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Points of metrics.
    Metrics,
    /// Log records.
    Logs,
    /// Spans.
    Traces,
}

impl Signal {
    /// Returns the field of a response in JSON that counts rejections.
    fn rejected_field(self) -> &'static str {
        match self {
            Signal::Metrics => "rejectedDataPoints",
            Signal::Logs => "rejectedLogRecords",
            Signal::Traces => "rejectedSpans",
        }
    }
}

/// The error of a body that is rejected as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedRequest {
    /// It is not the message, or a field has another type.
    #[error("body is not an export request: `{field}` is truncated or has the wrong type")]
    Protobuf {
        /// The field, or the one that contains it.
        field: &'static str,
    },
    /// It is not JSON, or a field has another type.
    #[error("body is not an export request: {0}")]
    Json(String),
}

/// A request whose syntax has been checked completely.
#[derive(Clone, Copy, Debug)]
pub struct MetricsRequest<'a> {
    request: &'a [u8],
}

impl<'a> MetricsRequest<'a> {
    /// Checks a body. `memory` receives the converted JSON, at most five times its size.
    pub fn read(
        body: &'a [u8],
        encoding: Encoding,
        memory: &'a mut Vec<u8>,
    ) -> Result<MetricsRequest<'a>, MalformedRequest> {
        match encoding {
            Encoding::Protobuf => {
                schema::check(body, &schema::REQUEST, "resourceMetrics")?;
                Ok(MetricsRequest { request: body })
            }
            Encoding::Json => {
                json::encode(body, &schema::REQUEST, memory)?;
                Ok(MetricsRequest { request: memory })
            }
        }
    }

    /// Calls `emit` with a sample, or a rejection with the metric's name, for each point. `now_ms` is the time of receipt.
    pub fn samples(
        &self,
        series: &mut CumulativeSeries,
        now_ms: i64,
        mut emit: impl FnMut(SampleResult<'_>),
    ) {
        for resource_metrics in messages(self.request, 1) {
            let resource = last(resource_metrics, 1).map_or(&[][..], wire::WireValue::bytes);
            let attributes: Vec<_> = messages(resource, 1).filter_map(attribute).take(ATTRIBUTES).collect();
            for metric in messages(resource_metrics, 2).flat_map(|scope| messages(scope, 2)) {
                MetricContext { name: text(metric, 1), attributes: &attributes, series, now_ms }
                    .samples(metric, &mut emit);
            }
        }
    }
}

/// One metric and its context.
struct MetricContext<'a, 'b> {
    name: &'a str,
    /// The attributes of the resource.
    attributes: &'b [(&'a str, Cow<'a, str>)],
    series: &'b mut CumulativeSeries,
    now_ms: i64,
}

impl<'a> MetricContext<'a, '_> {
    fn samples(&mut self, metric: &'a [u8], emit: &mut impl FnMut(SampleResult<'_>)) {
        let mut parts = Vec::new();
        for (data, point) in MetricData::of(metric).into_iter().flat_map(MetricData::points) {
            match self.sample(data, point, &mut parts, emit) {
                Ok(()) => {}
                Err(reject) => emit(Err(RejectedInput { reject, text: self.name.as_bytes() })),
            }
        }
    }

    fn sample(
        &mut self,
        data: MetricData<'a>,
        point: &'a [u8],
        parts: &mut Vec<(f64, u64)>,
        emit: &mut impl FnMut(SampleResult<'_>),
    ) -> Result<(), Reject> {
        if data.has_no_value(point) {
            return Ok(());
        }
        let name = metric_name(self.name)?;
        let own: Vec<_> = data.attributes(point).filter_map(attribute).take(ATTRIBUTES).collect();
        let mut tags = Vec::with_capacity(self.attributes.len() + own.len());
        for (key, value) in self.attributes.iter().chain(&own) {
            push_tag(&mut tags, key, value)?;
        }
        let time_ns = data.time_ns(point);
        let value = data.value(point)?;
        let value = if data.is_total() { self.delta(data, point, value, &tags)? } else { value };
        let measured = match value {
            PointValue::Number(number) => data.measured(number.as_f64()?),
            PointValue::Distribution(distribution) => Measured::Histogram(distribution.histogram(parts)?),
        };
        let ts_ms = (time_ns != 0).then_some((time_ns / 1_000_000) as i64);
        emit(Ok(Sample { name, measured, weight: 1.0, tags: &tags, ts_ms }));
        Ok(())
    }

    /// Returns the increase of a total since the previous point.
    fn delta(
        &mut self,
        data: MetricData<'a>,
        point: &'a [u8],
        value: PointValue,
        tags: &[Tag<'_>],
    ) -> Result<PointValue, Reject> {
        let time_ns = match data.time_ns(point) {
            0 => self.now_ms.unsigned_abs().saturating_mul(1_000_000),
            time_ns => time_ns,
        };
        let key = series::key(self.name, data.kind_number(), data.start_ns(point), tags);
        self.series.update(key, data.start_ns(point), time_ns, self.now_ms, value)
    }
}

/// Returns a key and its value as text, if it is a text, a number or a boolean.
fn attribute(attribute: &[u8]) -> Option<(&str, Cow<'_, str>)> {
    let value = plain(wire::fields(last(attribute, 2)?.bytes()).last()?)?;
    Some((text(attribute, 1), value))
}

/// Returns the field of an `AnyValue` as text, if it is a text, a number or a boolean.
fn plain((field, value): (u32, wire::WireValue<'_>)) -> Option<Cow<'_, str>> {
    Some(match field {
        1 => Cow::Borrowed(value.text()),
        2 => Cow::Borrowed(if value.number() != 0 { "true" } else { "false" }),
        3 => Cow::Owned((value.number() as i64).to_string()),
        4 => Cow::Owned(f64::from_bits(value.number()).to_string()),
        _ => return None,
    })
}
