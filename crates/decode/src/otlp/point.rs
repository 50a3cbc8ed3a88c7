//! What a metric's data and its points say, wherever each kind of point has its fields.

use model::Reject;

use super::buckets::{Distribution, Extreme};
use super::wire::{double, fields, last, messages, number};
use crate::sample::Measured;

/// A point's flag: it has no value, and says only that its series is still there.
const NO_RECORDED_VALUE: u64 = 1;

/// `AggregationTemporality`.
const DELTA: u64 = 1;
const CUMULATIVE: u64 = 2;

/// The data of a metric: its points, and what is said of all of them.
#[derive(Clone, Copy)]
pub(super) struct Data<'a> {
    form: Form,
    message: &'a [u8],
    temporality: u64,
    is_monotonic: bool,
}

/// The number of the field in `Metric` that the data stands in.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Gauge = 5,
    Sum = 7,
    Histogram = 9,
    Exponential = 10,
    Summary = 11,
}

/// The value of a point.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Number(Number),
    Distribution(Distribution),
}

/// Whole numbers keep all their digits until a difference has been taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Whole(i64),
    Double(f64),
}

impl Number {
    pub fn as_f64(self) -> Result<f64, Reject> {
        match self {
            Number::Whole(whole) => Ok(whole as f64),
            Number::Double(double) if double.is_finite() => Ok(double),
            Number::Double(_) => Err(Reject::ValueNotFinite),
        }
    }

    /// What a total grew by since it was `before`. One that is smaller began anew.
    pub fn grown(self, before: Number) -> Number {
        match (self, before) {
            (Number::Whole(now), Number::Whole(before)) if now >= before => match now.checked_sub(before) {
                Some(grown) => Number::Whole(grown),
                None => Number::Double(now as f64 - before as f64),
            },
            (Number::Double(now), Number::Double(before)) if now >= before => Number::Double(now - before),
            _ => self,
        }
    }
}

impl<'a> Data<'a> {
    /// Of several kinds of data in one metric the last one counts.
    pub fn of(metric: &'a [u8]) -> Option<Data<'a>> {
        let data = fields(metric).filter_map(|(number, value)| {
            let form = match number {
                5 => Form::Gauge,
                7 => Form::Sum,
                9 => Form::Histogram,
                10 => Form::Exponential,
                11 => Form::Summary,
                _ => return None,
            };
            Some((form, value.bytes()))
        });
        let (form, message) = data.last()?;
        let (temporality, is_monotonic) = match form {
            Form::Gauge => (0, false),
            Form::Summary => (CUMULATIVE, true),
            Form::Sum => (number(message, 2), number(message, 3) != 0),
            Form::Histogram | Form::Exponential => (number(message, 2), true),
        };
        Some(Data { form, message, temporality, is_monotonic })
    }

    /// The points, each with its data.
    pub fn points(self) -> impl Iterator<Item = (Data<'a>, &'a [u8])> {
        messages(self.message, 1).map(move |point| (self, point))
    }

    /// Tells series of the same name apart.
    pub fn kind(self) -> u8 {
        self.form as u8
    }

    /// Whether its values are totals since their start, of which only the difference is new.
    pub fn is_total(self) -> bool {
        self.temporality == CUMULATIVE && self.is_monotonic
    }

    pub fn attributes(self, point: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let field = match self.form {
            Form::Gauge | Form::Sum | Form::Summary => 7,
            Form::Histogram => 9,
            Form::Exponential => 1,
        };
        messages(point, field)
    }

    /// When a total began to be counted, in nanoseconds since 1970-01-01 UTC; 0 if that is not known.
    pub fn start_ns(self, point: &[u8]) -> u64 {
        number(point, 2)
    }

    /// When the point was measured, likewise.
    pub fn time_ns(self, point: &[u8]) -> u64 {
        number(point, 3)
    }

    pub fn has_no_value(self, point: &[u8]) -> bool {
        let field = if matches!(self.form, Form::Histogram | Form::Exponential) { 10 } else { 8 };
        number(point, field) & NO_RECORDED_VALUE != 0
    }

    /// What a number means.
    pub fn measured(self, value: f64) -> Measured<'static> {
        match (self.form, self.temporality, self.is_monotonic) {
            (Form::Sum, _, true) => Measured::Count(value),
            (Form::Sum, DELTA, false) => Measured::Change(value),
            _ => Measured::Gauge(value),
        }
    }

    pub fn value(self, point: &[u8]) -> Result<Value, Reject> {
        let has_meaning = self.form == Form::Gauge || matches!(self.temporality, DELTA | CUMULATIVE);
        if !has_meaning {
            return Err(Reject::KindUnsupported);
        }
        match self.form {
            Form::Gauge | Form::Sum => number_of(point).map(Value::Number),
            Form::Histogram => Distribution::of_histogram(point).map(Value::Distribution),
            Form::Exponential => Distribution::of_exponential(point).map(Value::Distribution),
            Form::Summary => {
                let sum = double(point, 5).unwrap_or(0.0);
                let extremes = (Extreme::Unknown, Extreme::Unknown);
                Distribution::new(number(point, 4), Some(sum), extremes).map(Value::Distribution)
            }
        }
    }
}

fn number_of(point: &[u8]) -> Result<Number, Reject> {
    let value = fields(point).filter(|(number, _)| matches!(number, 4 | 6)).last();
    match value.ok_or(Reject::ValueNotANumber)? {
        (4, double) => {
            let double = f64::from_bits(double.number());
            if double.is_finite() { Ok(Number::Double(double)) } else { Err(Reject::ValueNotFinite) }
        }
        (_, whole) => Ok(Number::Whole(whole.number() as i64)),
    }
}

/// The smallest and the largest value, if the sender tells them. `min` and `max` are the numbers of the fields.
pub(super) fn extremes(point: &[u8], min: u32, max: u32) -> (Extreme, Extreme) {
    let extreme = |field| last(point, field).map(|value| Extreme::Exact(f64::from_bits(value.number())));
    (extreme(min).unwrap_or(Extreme::Unknown), extreme(max).unwrap_or(Extreme::Unknown))
}
