//! Values that a sender counted in buckets: read, taken apart from what was there before, and spread over what is known.

use model::Reject;

use super::point::extremes;
use super::wire::{double, fixed, last, number, varints, zigzag};
use crate::sample::Spread;

/// Buckets of one point that are not empty, and explicit bounds. Senders have 160 by default.
const BUCKETS_MAX: usize = 2_048;
/// Values of one point: up to here an `f64` counts without a gap.
const COUNT_MAX: u64 = 1 << 53;
/// The exponents that senders use: <https://opentelemetry.io/docs/specs/otel/metrics/sdk/#maxscale>.
const SCALES: std::ops::RangeInclusive<i64> = -10..=20;
/// The place of the bucket from 1 to the base, so that all places of positive values are above 0.
const ONE: i64 = 1 << 40;

/// How many values there were, and about where.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Distribution {
    count: u64,
    sum: Option<f64>,
    min: Extreme,
    max: Extreme,
    shape: Shape,
    /// Places, ascending, and how many values are in each: none is empty. If there are any they add up to the count.
    buckets: Vec<(i64, u64)>,
}

/// What is known of the smallest or the largest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Extreme {
    /// It is this one.
    Exact(f64),
    /// Not beyond this one.
    Within(f64),
    Unknown,
}

/// Which values the bucket at a place has.
#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// Place n: above the bound n - 1, up to the bound n.
    Bounds(Vec<f64>),
    /// Place [`ONE`] + n: above base^n, up to base^(n + 1), where base = 2^(2^-scale). The same below zero, mirrored;
    /// zeros at 0.
    Exponential { scale: i64 },
}

impl Distribution {
    /// Without buckets.
    pub fn new(count: u64, sum: Option<f64>, (min, max): (Extreme, Extreme)) -> Result<Distribution, Reject> {
        let are_finite = [min, max].into_iter().all(|extreme| extreme.value().is_none_or(f64::is_finite));
        if !are_finite || !sum.is_none_or(f64::is_finite) {
            return Err(Reject::ValueNotFinite);
        }
        let is_ordered = min.value().zip(max.value()).is_none_or(|(min, max)| min <= max);
        if count > COUNT_MAX || count > 0 && !is_ordered {
            return Err(Reject::MalformedLine);
        }
        Ok(Distribution { count, sum, min, max, shape: Shape::Bounds(Vec::new()), buckets: Vec::new() })
    }

    pub fn of_histogram(point: &[u8]) -> Result<Distribution, Reject> {
        let mut read = Distribution::new(number(point, 4), double(point, 5), extremes(point, 11, 12))?;
        let bounds: Vec<f64> = fixed(point, 7).map(f64::from_bits).take(BUCKETS_MAX + 1).collect();
        let places = fixed(point, 6).count();
        let is_ordered = bounds.is_sorted_by(|a, b| a < b) && bounds.iter().all(|bound| bound.is_finite());
        if bounds.len() > BUCKETS_MAX || !is_ordered || places > 0 && places != bounds.len() + 1 {
            return Err(Reject::MalformedLine);
        }
        read.put((0..).zip(fixed(point, 6)))?;
        read.shape = Shape::Bounds(bounds);
        read.checked()
    }

    pub fn of_exponential(point: &[u8]) -> Result<Distribution, Reject> {
        let mut read = Distribution::new(number(point, 4), double(point, 5), extremes(point, 12, 13))?;
        let scale = zigzag(number(point, 6));
        if !SCALES.contains(&scale) {
            return Err(Reject::MalformedLine);
        }
        read.shape = Shape::Exponential { scale };
        read.put(side(point, 9).map(|(place, count)| (-place, count)))?;
        read.buckets.reverse();
        read.put(std::iter::once((0, number(point, 7))))?;
        read.put(side(point, 8))?;
        read.checked()
    }

    /// Appends the buckets that are not empty.
    fn put(&mut self, buckets: impl Iterator<Item = (i64, u64)>) -> Result<(), Reject> {
        for bucket in buckets.filter(|(_, count)| *count > 0) {
            if self.buckets.len() == BUCKETS_MAX {
                return Err(Reject::MalformedLine);
            }
            self.buckets.push(bucket);
        }
        Ok(())
    }

    fn checked(self) -> Result<Distribution, Reject> {
        let sum = self.buckets.iter().try_fold(0u64, |sum, (_, count)| sum.checked_add(*count));
        let fits = self.buckets.is_empty() || sum == Some(self.count);
        if fits { Ok(self) } else { Err(Reject::MalformedLine) }
    }

    /// What came since `before`. A total with fewer values began anew.
    pub fn grown(&self, before: &Distribution) -> Distribution {
        if self.count < before.count {
            return self.clone();
        }
        let sum = self.sum.zip(before.sum).map(|(now, before)| now - before);
        let count = self.count - before.count;
        // Buckets that do not fit those before tell nothing of the difference; count and sum do.
        let fits = |buckets: &Vec<(i64, u64)>| buckets.iter().map(|(_, count)| count).sum::<u64>() == count;
        let buckets = self.buckets_since(before).filter(fits).unwrap_or_default();
        Distribution {
            count,
            sum: sum.filter(|sum| sum.is_finite()),
            min: self.min.since(before.min),
            max: self.max.since(before.max),
            shape: self.shape.clone(),
            buckets,
        }
    }

    fn buckets_since(&self, before: &Distribution) -> Option<Vec<(i64, u64)>> {
        let before = self.shape.adapted(before)?;
        let mut before = before.into_iter().peekable();
        let mut grown = Vec::with_capacity(self.buckets.len());
        for (place, count) in &self.buckets {
            let old = before.next_if(|(old, _)| old == place).map_or(0, |(_, count)| count);
            let new = count.checked_sub(old)?;
            if new > 0 {
                grown.push((*place, new));
            }
        }
        before.next().is_none().then_some(grown)
    }

    /// As a sample has it; `parts` holds its parts.
    pub fn spread<'a>(&self, parts: &'a mut Vec<(f64, u64)>) -> Result<Spread<'a>, Reject> {
        parts.clear();
        if self.count == 0 {
            return Ok(Spread { count: 0, sum: 0.0, min: 0.0, max: 0.0, parts });
        }
        let (min, max) = self.range();
        for (place, count) in &self.buckets {
            let (low, high) = self.shape.range(*place, min, max);
            parts.push(((low / 2.0 + high / 2.0).clamp(min, max), *count));
        }
        if self.buckets.is_empty() {
            parts.push((self.middle().clamp(min, max), self.count));
        }
        let sum = self.sum.unwrap_or_else(|| parts.iter().map(|(value, count)| value * *count as f64).sum());
        if sum.is_finite() {
            Ok(Spread { count: self.count, sum, min, max, parts })
        } else {
            Err(Reject::ValueNotFinite)
        }
    }

    /// The smallest and the largest value as far as they are known; the first is not above the second.
    fn range(&self) -> (f64, f64) {
        let (low, high) = match (self.buckets.first(), self.buckets.last()) {
            (Some((first, _)), Some((last, _))) => (self.shape.lowest(*first), self.shape.highest(*last)),
            _ => (None, None),
        };
        let min = self.min.or_bound(low.unwrap_or(self.middle()), f64::max);
        let max = self.max.or_bound(high.unwrap_or(self.middle()), f64::min);
        if min <= max { (min, max) } else { (min, min) }
    }

    fn middle(&self) -> f64 {
        self.sum.map_or(0.0, |sum| sum / self.count as f64)
    }

    /// What it keeps outside of itself.
    pub fn heap_bytes(&self) -> usize {
        let bounds = if let Shape::Bounds(bounds) = &self.shape { bounds.capacity() } else { 0 };
        size_of::<(i64, u64)>() * self.buckets.capacity() + size_of::<f64>() * bounds
    }
}

impl Extreme {
    fn value(self) -> Option<f64> {
        match self {
            Extreme::Exact(value) | Extreme::Within(value) => Some(value),
            Extreme::Unknown => None,
        }
    }

    /// Of what came since it was `before`: an extreme that moved came with it.
    fn since(self, before: Extreme) -> Extreme {
        match (self, before) {
            (Extreme::Exact(now), Extreme::Exact(before)) if now != before => Extreme::Exact(now),
            (now, _) => now.value().map_or(Extreme::Unknown, Extreme::Within),
        }
    }

    /// Itself, or the bound of a bucket if that is narrower.
    fn or_bound(self, bound: f64, narrower: fn(f64, f64) -> f64) -> f64 {
        match self {
            Extreme::Exact(value) => value,
            Extreme::Within(value) => narrower(value, bound),
            Extreme::Unknown => bound,
        }
    }
}

impl Shape {
    /// The bounds of the bucket at this place, where it has any.
    fn bounds(&self, place: i64) -> (Option<f64>, Option<f64>) {
        match self {
            Shape::Bounds(bounds) => {
                let bound =
                    |place: i64| usize::try_from(place).ok().and_then(|place| bounds.get(place)).copied();
                (bound(place - 1), bound(place))
            }
            Shape::Exponential { scale } => {
                let (low, high) = exponential_bounds(place.abs(), *scale);
                if place < 0 { (Some(-high), Some(-low)) } else { (Some(low), Some(high)) }
            }
        }
    }

    /// The lower bound; of the bucket without one it is zero, or the upper one if that is lower.
    fn lowest(&self, place: i64) -> Option<f64> {
        let (low, high) = self.bounds(place);
        low.or_else(|| high.map(|high| high.min(0.0)))
    }

    /// The upper bound; of the bucket without one the lower one, which is all that is known.
    fn highest(&self, place: i64) -> Option<f64> {
        let (low, high) = self.bounds(place);
        high.or(low)
    }

    /// The same, with the extremes where there is no bound.
    fn range(&self, place: i64, min: f64, max: f64) -> (f64, f64) {
        let (low, high) = self.bounds(place);
        (low.unwrap_or(min).max(min), high.unwrap_or(max).min(max))
    }

    /// The buckets of `before` as they would be in this shape.
    fn adapted(&self, before: &Distribution) -> Option<Vec<(i64, u64)>> {
        match (self, &before.shape) {
            (Shape::Bounds(own), Shape::Bounds(theirs)) if own == theirs => Some(before.buckets.clone()),
            (Shape::Exponential { scale }, Shape::Exponential { scale: theirs }) if theirs >= scale => {
                Some(coarser(&before.buckets, theirs - scale))
            }
            _ => None,
        }
    }
}

/// Of a place that is not negative; zeros are no range.
fn exponential_bounds(place: i64, scale: i64) -> (f64, f64) {
    let bound = |exponent: i64| (exponent as f64 * (-scale as f64).exp2()).exp2().clamp(0.0, f64::MAX);
    if place == 0 { (0.0, 0.0) } else { (bound(place - ONE), bound(place - ONE + 1)) }
}

/// Each scale less makes one bucket of two.
fn coarser(buckets: &[(i64, u64)], scales: i64) -> Vec<(i64, u64)> {
    let mut merged: Vec<(i64, u64)> = Vec::with_capacity(buckets.len());
    for (place, count) in buckets {
        let place = if *place == 0 { 0 } else { place.signum() * (ONE + ((place.abs() - ONE) >> scales)) };
        match merged.last_mut() {
            Some((last, sum)) if *last == place => *sum += count,
            _ => merged.push((place, *count)),
        }
    }
    merged
}

/// The places and counts of `positive` or `negative`.
fn side(point: &[u8], field: u32) -> impl Iterator<Item = (i64, u64)> {
    let side = last(point, field).map_or(&[][..], |value| value.bytes());
    // An `sint32` is not longer; a place beyond it would be no number's.
    let offset = zigzag(number(side, 1)).clamp(i32::MIN.into(), i32::MAX.into());
    (ONE + offset..).zip(varints(side, 2))
}
