//! The data and points of a metric, independent of the field numbers of each kind.

use model::Reject;

use super::buckets::{Distribution, Extreme};
use super::wire::{double, fields, last, messages, number};
use crate::sample::Measured;

/// The flag of a point without a value, which only shows that its series still exists.
const NO_RECORDED_VALUE: u64 = 1;

/// `AggregationTemporality`.
const DELTA: u64 = 1;
const CUMULATIVE: u64 = 2;

/// The data of a metric: its points and their common properties.
#[derive(Clone, Copy)]
pub(crate) struct MetricData<'a> {
    kind: DataKind,
    message: &'a [u8],
    temporality: u64,
    is_monotonic: bool,
}

/// The kind of data, as the number of its field in `Metric`.
#[derive(Clone, Copy, PartialEq)]
enum DataKind {
    Gauge = 5,
    Sum = 7,
    Histogram = 9,
    Exponential = 10,
    Summary = 11,
}

/// The value of a point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PointValue {
    Number(PointNumber),
    Distribution(Distribution),
}

/// Whole numbers keep all their digits until a difference has been computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PointNumber {
    Whole(i64),
    Double(f64),
}

impl PointNumber {
    pub(crate) fn as_f64(self) -> Result<f64, Reject> {
        match self {
            PointNumber::Whole(whole) => Ok(whole as f64),
            PointNumber::Double(double) if double.is_finite() => Ok(double),
            PointNumber::Double(_) => Err(Reject::ValueNotFinite),
        }
    }

    /// Returns the increase of a total since it was `before`. A smaller total was restarted.
    pub(crate) fn delta_since(self, before: PointNumber) -> PointNumber {
        match (self, before) {
            (PointNumber::Whole(now), PointNumber::Whole(before)) if now >= before => {
                match now.checked_sub(before) {
                    Some(delta) => PointNumber::Whole(delta),
                    None => PointNumber::Double(now as f64 - before as f64),
                }
            }
            (PointNumber::Double(now), PointNumber::Double(before)) if now >= before => {
                PointNumber::Double(now - before)
            }
            _ => self,
        }
    }
}

impl<'a> MetricData<'a> {
    /// Returns the data of a metric. If there are several kinds, the last one counts.
    pub(crate) fn of(metric: &'a [u8]) -> Option<MetricData<'a>> {
        let data = fields(metric).filter_map(|(number, value)| {
            let kind = match number {
                5 => DataKind::Gauge,
                7 => DataKind::Sum,
                9 => DataKind::Histogram,
                10 => DataKind::Exponential,
                11 => DataKind::Summary,
                _ => return None,
            };
            Some((kind, value.bytes()))
        });
        let (kind, message) = data.last()?;
        let (temporality, is_monotonic) = match kind {
            DataKind::Gauge => (0, false),
            DataKind::Summary => (CUMULATIVE, true),
            DataKind::Sum => (number(message, 2), number(message, 3) != 0),
            DataKind::Histogram | DataKind::Exponential => (number(message, 2), true),
        };
        Some(MetricData { kind, message, temporality, is_monotonic })
    }

    /// Iterates over the points, each with its data.
    pub(crate) fn points(self) -> impl Iterator<Item = (MetricData<'a>, &'a [u8])> {
        messages(self.message, 1).map(move |point| (self, point))
    }

    /// Distinguishes series of the same name.
    pub(crate) fn kind_number(self) -> u8 {
        self.kind as u8
    }

    /// Returns true if its values are cumulative totals, of which only the difference is new.
    pub(crate) fn is_total(self) -> bool {
        self.temporality == CUMULATIVE && self.is_monotonic
    }

    pub(crate) fn attributes(self, point: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let field = match self.kind {
            DataKind::Gauge | DataKind::Sum | DataKind::Summary => 7,
            DataKind::Histogram => 9,
            DataKind::Exponential => 1,
        };
        messages(point, field)
    }

    /// Returns the start of a total in nanoseconds since 1970-01-01 UTC; 0 if unknown.
    pub(crate) fn start_ns(self, point: &[u8]) -> u64 {
        number(point, 2)
    }

    /// Returns the time of the measurement, likewise.
    pub(crate) fn time_ns(self, point: &[u8]) -> u64 {
        number(point, 3)
    }

    pub(crate) fn has_no_value(self, point: &[u8]) -> bool {
        let field = if matches!(self.kind, DataKind::Histogram | DataKind::Exponential) { 10 } else { 8 };
        number(point, field) & NO_RECORDED_VALUE != 0
    }

    /// Returns a number as a measurement of this kind of data.
    pub(crate) fn measured(self, value: f64) -> Measured<'static> {
        match (self.kind, self.temporality, self.is_monotonic) {
            (DataKind::Sum, _, true) => Measured::Count(value),
            (DataKind::Sum, DELTA, false) => Measured::Change(value),
            _ => Measured::Gauge(value),
        }
    }

    pub(crate) fn value(self, point: &[u8]) -> Result<PointValue, Reject> {
        let is_supported = self.kind == DataKind::Gauge || matches!(self.temporality, DELTA | CUMULATIVE);
        if !is_supported {
            return Err(Reject::KindUnsupported);
        }
        match self.kind {
            DataKind::Gauge | DataKind::Sum => number_of(point).map(PointValue::Number),
            DataKind::Histogram => Distribution::of_histogram(point).map(PointValue::Distribution),
            DataKind::Exponential => Distribution::of_exponential(point).map(PointValue::Distribution),
            DataKind::Summary => {
                let sum = double(point, 5).unwrap_or(0.0);
                let extremes = (Extreme::Unknown, Extreme::Unknown);
                Distribution::new(number(point, 4), Some(sum), extremes).map(PointValue::Distribution)
            }
        }
    }
}

fn number_of(point: &[u8]) -> Result<PointNumber, Reject> {
    let value = fields(point).filter(|(number, _)| matches!(number, 4 | 6)).last();
    match value.ok_or(Reject::ValueNotANumber)? {
        (4, double) => {
            let double = f64::from_bits(double.number());
            if double.is_finite() { Ok(PointNumber::Double(double)) } else { Err(Reject::ValueNotFinite) }
        }
        (_, whole) => Ok(PointNumber::Whole(whole.number() as i64)),
    }
}

/// Returns the smallest and the largest value, if the sender reports them. `min` and `max` are field numbers.
pub(crate) fn extremes(point: &[u8], min: u32, max: u32) -> (Extreme, Extreme) {
    let extreme = |field| last(point, field).map(|value| Extreme::Exact(f64::from_bits(value.number())));
    (extreme(min).unwrap_or(Extreme::Unknown), extreme(max).unwrap_or(Extreme::Unknown))
}
