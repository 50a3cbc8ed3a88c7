//! OpenTelemetry's metrics over HTTP: an `ExportMetricsServiceRequest`, as protobuf or as JSON.
//!
//! | sent | sample |
//! |---|---|
//! | gauge | [`Measured::Gauge`] |
//! | sum, monotonic, of differences | [`Measured::Count`] |
//! | sum, monotonic, of totals | [`Measured::Count`] of what the total grew by ([`Series`]) |
//! | sum, not monotonic, of differences | [`Measured::Change`] |
//! | sum, not monotonic, of totals | [`Measured::Gauge`] |
//! | histogram, exponential histogram | [`Measured::Spread`]: count, sum, extremes and buckets |
//! | summary | [`Measured::Spread`] of count and sum; quantiles cannot be added up and are left out |
//!
//! Attributes of the resource and of the point are tags; those that are lists, maps, bytes or nothing are left out. A
//! point that says it has no value is nothing.
//!
//! The fields that matter are read straight from the body: one point is held at a time, whatever is sent. JSON becomes
//! the same bytes first, so what a point means is written down once. (`opentelemetry-proto` 0.33 was weighed: 36 crates
//! more, and objects for every field of a body before the first is looked at.)
//!
//! <https://opentelemetry.io/docs/specs/otlp/>, <https://opentelemetry.io/docs/specs/otel/metrics/data-model/>

mod answer;
mod buckets;
mod json;
mod point;
mod schema;
mod series;
mod wire;

pub use answer::{answer, problem};
pub use series::Series;

use model::Reject;
use model::limits::PROPS_KEYS_MAX;
use std::borrow::Cow;

use crate::sample::{Measured, Refused, Sample, Tag, Taken, metric_name, push_tag};
use point::{Data, Value};
use wire::{last, messages, text};

/// More are not looked at: it is one too many already.
const ATTRIBUTES: usize = PROPS_KEYS_MAX + 1;

/// How a body is written, and so its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/x-protobuf`.
    Protobuf,
    /// `application/json`.
    Json,
}

impl Encoding {
    /// The content type of bodies and answers.
    pub fn content_type(self) -> &'static str {
        match self {
            Encoding::Protobuf => "application/x-protobuf",
            Encoding::Json => "application/json",
        }
    }
}

/// Why nothing of a body was taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Not the bytes of the message, or a field is of another type.
    #[error("body is no export request: `{field}` is cut off or of another type")]
    Protobuf {
        /// The field, or the one around it.
        field: &'static str,
    },
    /// Not JSON, or a field is of another type.
    #[error("body is no export request: {0}")]
    Json(String),
}

/// A request whose form has been checked from end to end.
#[derive(Clone, Copy, Debug)]
pub struct Metrics<'a> {
    request: &'a [u8],
}

impl<'a> Metrics<'a> {
    /// Checks a body. `memory` holds what JSON becomes, at most five times its size.
    pub fn read(
        body: &'a [u8],
        encoding: Encoding,
        memory: &'a mut Vec<u8>,
    ) -> Result<Metrics<'a>, Malformed> {
        match encoding {
            Encoding::Protobuf => {
                schema::check(body, &schema::REQUEST)?;
                Ok(Metrics { request: body })
            }
            Encoding::Json => {
                json::encode(body, memory)?;
                Ok(Metrics { request: memory })
            }
        }
    }

    /// Hands on a sample, or a refusal with the metric's name, for each point. `now_ms` is the time of receipt.
    pub fn samples(&self, series: &mut Series, now_ms: i64, mut take: impl FnMut(Taken<'_>)) {
        for resource_metrics in messages(self.request, 1) {
            let resource = last(resource_metrics, 1).map_or(&[][..], wire::Value::bytes);
            let attributes: Vec<_> = messages(resource, 1).filter_map(attribute).take(ATTRIBUTES).collect();
            for metric in messages(resource_metrics, 2).flat_map(|scope| messages(scope, 2)) {
                Metric { name: text(metric, 1), attributes: &attributes, series, now_ms }
                    .samples(metric, &mut take);
            }
        }
    }
}

/// One metric, and what is known around it.
struct Metric<'a, 'b> {
    name: &'a str,
    /// Of the resource.
    attributes: &'b [(&'a str, Cow<'a, str>)],
    series: &'b mut Series,
    now_ms: i64,
}

impl<'a> Metric<'a, '_> {
    fn samples(&mut self, metric: &'a [u8], take: &mut impl FnMut(Taken<'_>)) {
        let mut parts = Vec::new();
        for (data, point) in Data::of(metric).into_iter().flat_map(Data::points) {
            match self.sample(data, point, &mut parts, take) {
                Ok(()) => {}
                Err(reject) => take(Err(Refused { reject, text: self.name.as_bytes() })),
            }
        }
    }

    fn sample(
        &mut self,
        data: Data<'a>,
        point: &'a [u8],
        parts: &mut Vec<(f64, u64)>,
        take: &mut impl FnMut(Taken<'_>),
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
        let value = if data.is_total() { self.grown(data, point, value, &tags)? } else { value };
        let measured = match value {
            Value::Number(number) => data.measured(number.as_f64()?),
            Value::Distribution(distribution) => Measured::Spread(distribution.spread(parts)?),
        };
        let ts_ms = (time_ns != 0).then_some((time_ns / 1_000_000) as i64);
        take(Ok(Sample { name, measured, weight: 1.0, tags: &tags, ts_ms }));
        Ok(())
    }

    /// What a total grew by since the point before.
    fn grown(
        &mut self,
        data: Data<'a>,
        point: &'a [u8],
        value: Value,
        tags: &[Tag<'_>],
    ) -> Result<Value, Reject> {
        let time_ns = match data.time_ns(point) {
            0 => self.now_ms.unsigned_abs().saturating_mul(1_000_000),
            time_ns => time_ns,
        };
        let key = series::key(self.name, data.kind(), data.start_ns(point), tags);
        self.series.grown(key, data.start_ns(point), time_ns, self.now_ms, value)
    }
}

/// A key and its value as text, if it is text, a number or a truth.
fn attribute(attribute: &[u8]) -> Option<(&str, Cow<'_, str>)> {
    let value = last(attribute, 2)?.bytes();
    let value = match wire::fields(value).last()? {
        (1, text) => Cow::Borrowed(text.text()),
        (2, truth) => Cow::Borrowed(if truth.number() != 0 { "true" } else { "false" }),
        (3, whole) => Cow::Owned((whole.number() as i64).to_string()),
        (4, double) => Cow::Owned(f64::from_bits(double.number()).to_string()),
        _ => return None,
    };
    Some((text(attribute, 1), value))
}
