//! Prometheus remote write 1.0: a `WriteRequest` as protobuf, compressed with snappy.
//!
//! | sent | sample |
//! |---|---|
//! | series whose name ends with `_total`, `_count`, `_sum` or `_bucket` | [`Measured::Count`] of the increase of the total ([`CumulativeSeries`]) |
//! | any other series | [`Measured::Gauge`] |
//!
//! The label `__name__` is the metric, the others are tags. Prometheus sends the type of a metric apart from its values,
//! if at all, so the name decides by the convention of its exporters. A stale marker is skipped; native histograms are
//! rejected; exemplars and metadata are ignored.
//!
//! <https://prometheus.io/docs/specs/prw/remote_write_spec/>

use model::Reject;

use crate::otlp::point::{PointNumber, PointValue};
use crate::otlp::schema::{self, WRITE_REQUEST};
use crate::otlp::wire::{double, messages, number, text};
use crate::otlp::{CumulativeSeries, MalformedRequest, series};
use crate::sample::{Measured, RejectedInput, Sample, SampleResult, Tag, metric_name, push_tag};

/// The value with which Prometheus marks the end of a series.
const STALE: u64 = 0x7ff0_0000_0000_0002;
/// Distinguishes the series of this protocol from those of others.
const KIND: u8 = 1;
/// Snappy's shortest element that repeats 64 bytes has three, so nothing grows more than this.
const GROWTH_MAX: usize = 22;

/// The error of a body that is not snappy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSnappy {
    /// It would be larger than allowed when unpacked.
    #[error("the decompressed body is too large")]
    TooLarge,
    /// It is damaged or not snappy.
    #[error("the body is not compressed with snappy")]
    Malformed,
}

/// Returns the size of a body when unpacked, before it is unpacked, if that is at most `bytes_max`.
pub fn unpacked_len(body: &[u8], bytes_max: usize) -> Result<usize, InvalidSnappy> {
    let len = snap::raw::decompress_len(body).map_err(|_| InvalidSnappy::Malformed)?;
    match len {
        len if len > body.len().saturating_mul(GROWTH_MAX) => Err(InvalidSnappy::Malformed),
        len if len > bytes_max => Err(InvalidSnappy::TooLarge),
        len => Ok(len),
    }
}

/// Unpacks a body into a buffer of its unpacked size.
pub fn unpack(body: &[u8], unpacked: &mut [u8]) -> Result<(), InvalidSnappy> {
    let read = snap::raw::Decoder::new().decompress(body, unpacked);
    read.ok().filter(|read| *read == unpacked.len()).map(drop).ok_or(InvalidSnappy::Malformed)
}

/// A request whose syntax has been checked completely.
#[derive(Clone, Copy, Debug)]
pub struct WriteRequest<'a> {
    request: &'a [u8],
}

impl<'a> WriteRequest<'a> {
    /// Checks an unpacked body.
    pub fn read(body: &'a [u8]) -> Result<WriteRequest<'a>, MalformedRequest> {
        schema::check(body, &WRITE_REQUEST, "timeseries")?;
        Ok(WriteRequest { request: body })
    }

    /// Calls `emit` with a sample, or a rejection with the metric's name, for each value. `now_ms` is the time of receipt.
    pub fn samples(
        &self,
        series: &mut CumulativeSeries,
        now_ms: i64,
        mut emit: impl FnMut(SampleResult<'_>),
    ) {
        for time_series in messages(self.request, 1) {
            let mut tags = Vec::new();
            let name = labels(time_series, &mut tags);
            let rejected = |reject| RejectedInput { reject, text: name_of(time_series).as_bytes() };
            for point in messages(time_series, 2) {
                let value = double(point, 1).unwrap_or_default();
                if value.to_bits() == STALE {
                    continue;
                }
                let ts_ms = number(point, 2) as i64;
                let measured = name.and_then(|name| measured(name, &tags, value, (ts_ms, now_ms), series));
                emit(match (name, measured) {
                    (Ok(name), Ok(measured)) => {
                        Ok(Sample { name, measured, weight: 1.0, tags: &tags, ts_ms: Some(ts_ms) })
                    }
                    (Err(reject), _) | (_, Err(reject)) => Err(rejected(reject)),
                });
            }
            messages(time_series, 4).for_each(|_| emit(Err(rejected(Reject::KindUnsupported))));
        }
    }
}

fn name_of(time_series: &[u8]) -> &str {
    let mut labels = messages(time_series, 1);
    labels.find(|label| text(label, 1) == "__name__").map_or("", |label| text(label, 2))
}

/// Returns the metric and adds the other labels to `tags`.
fn labels<'a>(time_series: &'a [u8], tags: &mut Vec<Tag<'a>>) -> Result<&'a str, Reject> {
    for label in messages(time_series, 1).filter(|label| text(label, 1) != "__name__") {
        push_tag(tags, text(label, 1), text(label, 2))?;
    }
    metric_name(name_of(time_series))
}

fn measured<'a>(
    name: &str,
    tags: &[Tag<'_>],
    value: f64,
    (ts_ms, now_ms): (i64, i64),
    series: &mut CumulativeSeries,
) -> Result<Measured<'a>, Reject> {
    let total = PointNumber::Double(value);
    total.as_f64()?;
    if !["_total", "_count", "_sum", "_bucket"].iter().any(|suffix| name.ends_with(suffix)) {
        return Ok(Measured::Gauge(value));
    }
    let time_ns = u64::try_from(ts_ms).map_err(|_| Reject::TimestampInvalid)?.saturating_mul(1_000_000);
    let key = series::key(name, KIND, 0, tags);
    match series.update(key, 0, time_ns, now_ms, PointValue::Number(total))? {
        PointValue::Number(increase) => Ok(Measured::Count(increase.as_f64()?)),
        PointValue::Distribution(_) => Err(Reject::KindUnsupported),
    }
}
