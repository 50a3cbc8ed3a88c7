//! Histograms of a sender: decoding, the difference from the previous total, and the estimate of values.

use model::Reject;

use super::point::extremes;
use super::wire::{double, fixed, last, number, varints, zigzag};
use crate::sample::Histogram;

/// Maximum number of non-empty buckets and of explicit bounds of one point. Senders have 160 buckets by default.
const BUCKETS_MAX: usize = 2_048;
/// Maximum number of values of one point: up to here an `f64` counts without gaps.
const COUNT_MAX: u64 = 1 << 53;
/// The valid scales: <https://opentelemetry.io/docs/specs/otel/metrics/sdk/#maxscale>.
const SCALES: std::ops::RangeInclusive<i64> = -10..=20;
/// The index of the bucket from 1 to the base, so that all indices of positive values are above 0.
const ONE: i64 = 1 << 40;

/// The number of values and their distribution.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Distribution {
    count: u64,
    sum: Option<f64>,
    min: Extreme,
    max: Extreme,
    layout: BucketLayout,
    /// Bucket indices, ascending, and their counts, none of them zero. If there are any, they add up to the count.
    buckets: Vec<(i64, u64)>,
}

/// The smallest or the largest value, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Extreme {
    /// Exactly this value.
    Exact(f64),
    /// Not beyond this value.
    Within(f64),
    Unknown,
}

/// The values of the bucket at an index.
#[derive(Clone, Debug, PartialEq)]
enum BucketLayout {
    /// Index n: above the bound n - 1, up to the bound n.
    Bounds(Vec<f64>),
    /// Index [`ONE`] + n: above base^n, up to base^(n + 1), where base = 2^(2^-scale). Negative values are mirrored; zeros
    /// are at 0.
    Exponential { scale: i64 },
}

impl Distribution {
    /// Creates a distribution without buckets.
    pub(crate) fn new(
        count: u64,
        sum: Option<f64>,
        (min, max): (Extreme, Extreme),
    ) -> Result<Distribution, Reject> {
        let are_finite = [min, max].into_iter().all(|extreme| extreme.value().is_none_or(f64::is_finite));
        if !are_finite || !sum.is_none_or(f64::is_finite) {
            return Err(Reject::ValueNotFinite);
        }
        let is_ordered = min.value().zip(max.value()).is_none_or(|(min, max)| min <= max);
        if count > COUNT_MAX || count > 0 && !is_ordered {
            return Err(Reject::MalformedLine);
        }
        Ok(Distribution {
            count,
            sum,
            min,
            max,
            layout: BucketLayout::Bounds(Vec::new()),
            buckets: Vec::new(),
        })
    }

    pub(crate) fn of_histogram(point: &[u8]) -> Result<Distribution, Reject> {
        let mut read = Distribution::new(number(point, 4), double(point, 5), extremes(point, 11, 12))?;
        let bounds: Vec<f64> = fixed(point, 7).map(f64::from_bits).take(BUCKETS_MAX + 1).collect();
        let indices = fixed(point, 6).count();
        let is_ordered = bounds.is_sorted_by(|a, b| a < b) && bounds.iter().all(|bound| bound.is_finite());
        if bounds.len() > BUCKETS_MAX || !is_ordered || indices > 0 && indices != bounds.len() + 1 {
            return Err(Reject::MalformedLine);
        }
        read.put((0..).zip(fixed(point, 6)))?;
        read.layout = BucketLayout::Bounds(bounds);
        read.validate()
    }

    pub(crate) fn of_exponential(point: &[u8]) -> Result<Distribution, Reject> {
        let mut read = Distribution::new(number(point, 4), double(point, 5), extremes(point, 12, 13))?;
        let scale = zigzag(number(point, 6));
        if !SCALES.contains(&scale) {
            return Err(Reject::MalformedLine);
        }
        read.layout = BucketLayout::Exponential { scale };
        read.put(side(point, 9).map(|(index, count)| (-index, count)))?;
        read.buckets.reverse();
        read.put(std::iter::once((0, number(point, 7))))?;
        read.put(side(point, 8))?;
        read.validate()
    }

    /// Appends the non-empty buckets.
    fn put(&mut self, buckets: impl Iterator<Item = (i64, u64)>) -> Result<(), Reject> {
        for bucket in buckets.filter(|(_, count)| *count > 0) {
            if self.buckets.len() == BUCKETS_MAX {
                return Err(Reject::MalformedLine);
            }
            self.buckets.push(bucket);
        }
        Ok(())
    }

    fn validate(self) -> Result<Distribution, Reject> {
        let sum = self.buckets.iter().try_fold(0u64, |sum, (_, count)| sum.checked_add(*count));
        let fits = self.buckets.is_empty() || sum == Some(self.count);
        if fits { Ok(self) } else { Err(Reject::MalformedLine) }
    }

    /// Returns the values added since `before`. A total with fewer values was restarted.
    pub(crate) fn delta_since(&self, before: &Distribution) -> Distribution {
        if self.count < before.count {
            return self.clone();
        }
        let sum = self.sum.zip(before.sum).map(|(now, before)| now - before);
        let count = self.count - before.count;
        // Incompatible buckets give no difference; count and sum do.
        let fits = |buckets: &Vec<(i64, u64)>| buckets.iter().map(|(_, count)| count).sum::<u64>() == count;
        let buckets = self.buckets_since(before).filter(fits).unwrap_or_default();
        Distribution {
            count,
            sum: sum.filter(|sum| sum.is_finite()),
            min: self.min.since(before.min),
            max: self.max.since(before.max),
            layout: self.layout.clone(),
            buckets,
        }
    }

    fn buckets_since(&self, before: &Distribution) -> Option<Vec<(i64, u64)>> {
        let before = self.layout.convert(before)?;
        let mut before = before.into_iter().peekable();
        let mut added = Vec::with_capacity(self.buckets.len());
        for (index, count) in &self.buckets {
            let old = before.next_if(|(old, _)| old == index).map_or(0, |(_, count)| count);
            let new = count.checked_sub(old)?;
            if new > 0 {
                added.push((*index, new));
            }
        }
        before.next().is_none().then_some(added)
    }

    /// Returns the histogram of a sample, whose buckets are stored in `buckets`.
    pub(crate) fn histogram<'a>(&self, buckets: &'a mut Vec<(f64, u64)>) -> Result<Histogram<'a>, Reject> {
        buckets.clear();
        if self.count == 0 {
            return Ok(Histogram { count: 0, sum: 0.0, min: 0.0, max: 0.0, buckets });
        }
        let (min, max) = self.range();
        for (index, count) in &self.buckets {
            let (low, high) = self.layout.range(*index, min, max);
            buckets.push(((low / 2.0 + high / 2.0).clamp(min, max), *count));
        }
        if self.buckets.is_empty() {
            buckets.push((self.mean().clamp(min, max), self.count));
        }
        let sum =
            self.sum.unwrap_or_else(|| buckets.iter().map(|(value, count)| value * *count as f64).sum());
        if sum.is_finite() {
            Ok(Histogram { count: self.count, sum, min, max, buckets })
        } else {
            Err(Reject::ValueNotFinite)
        }
    }

    /// Returns the smallest and the largest value as far as they are known, in this order.
    fn range(&self) -> (f64, f64) {
        let (low, high) = match (self.buckets.first(), self.buckets.last()) {
            (Some((first, _)), Some((last, _))) => (self.layout.lowest(*first), self.layout.highest(*last)),
            _ => (None, None),
        };
        let min = self.min.or_bound(low.unwrap_or(self.mean()), f64::max);
        let max = self.max.or_bound(high.unwrap_or(self.mean()), f64::min);
        if min <= max { (min, max) } else { (min, min) }
    }

    fn mean(&self) -> f64 {
        self.sum.map_or(0.0, |sum| sum / self.count as f64)
    }

    /// Returns the bytes of its heap allocations.
    pub(crate) fn heap_bytes(&self) -> usize {
        let bounds = if let BucketLayout::Bounds(bounds) = &self.layout { bounds.capacity() } else { 0 };
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

    /// Returns the extreme of the values added since `before`: an extreme that moved was added.
    fn since(self, before: Extreme) -> Extreme {
        match (self, before) {
            (Extreme::Exact(now), Extreme::Exact(before)) if now != before => Extreme::Exact(now),
            (now, _) => now.value().map_or(Extreme::Unknown, Extreme::Within),
        }
    }

    /// Returns the value, or the bound of a bucket if that is narrower.
    fn or_bound(self, bound: f64, narrower: fn(f64, f64) -> f64) -> f64 {
        match self {
            Extreme::Exact(value) => value,
            Extreme::Within(value) => narrower(value, bound),
            Extreme::Unknown => bound,
        }
    }
}

impl BucketLayout {
    /// Returns the bounds of the bucket at this index, if it has any.
    fn bounds(&self, index: i64) -> (Option<f64>, Option<f64>) {
        match self {
            BucketLayout::Bounds(bounds) => {
                let bound =
                    |index: i64| usize::try_from(index).ok().and_then(|index| bounds.get(index)).copied();
                (bound(index - 1), bound(index))
            }
            BucketLayout::Exponential { scale } => {
                let (low, high) = exponential_bounds(index.abs(), *scale);
                if index < 0 { (Some(-high), Some(-low)) } else { (Some(low), Some(high)) }
            }
        }
    }

    /// Returns the lower bound; for the bucket without one zero, or the upper bound if that is lower.
    fn lowest(&self, index: i64) -> Option<f64> {
        let (low, high) = self.bounds(index);
        low.or_else(|| high.map(|high| high.min(0.0)))
    }

    /// Returns the upper bound; for the bucket without one the lower bound, which is all that is known.
    fn highest(&self, index: i64) -> Option<f64> {
        let (low, high) = self.bounds(index);
        high.or(low)
    }

    /// Returns the bounds, with the extremes in index of missing bounds.
    fn range(&self, index: i64, min: f64, max: f64) -> (f64, f64) {
        let (low, high) = self.bounds(index);
        (low.unwrap_or(min).max(min), high.unwrap_or(max).min(max))
    }

    /// Converts the buckets of `before` to this layout, if possible.
    fn convert(&self, before: &Distribution) -> Option<Vec<(i64, u64)>> {
        match (self, &before.layout) {
            (BucketLayout::Bounds(own), BucketLayout::Bounds(theirs)) if own == theirs => {
                Some(before.buckets.clone())
            }
            (BucketLayout::Exponential { scale }, BucketLayout::Exponential { scale: theirs })
                if theirs >= scale =>
            {
                Some(merge_to_scale(&before.buckets, theirs - scale))
            }
            _ => None,
        }
    }
}

/// Returns the bounds of a non-negative index; zeros have no range.
fn exponential_bounds(index: i64, scale: i64) -> (f64, f64) {
    let bound = |exponent: i64| (exponent as f64 * (-scale as f64).exp2()).exp2().clamp(0.0, f64::MAX);
    if index == 0 { (0.0, 0.0) } else { (bound(index - ONE), bound(index - ONE + 1)) }
}

/// Merges buckets to a lower scale: each step merges two buckets into one.
fn merge_to_scale(buckets: &[(i64, u64)], scales: i64) -> Vec<(i64, u64)> {
    let mut merged: Vec<(i64, u64)> = Vec::with_capacity(buckets.len());
    for (index, count) in buckets {
        let index = if *index == 0 { 0 } else { index.signum() * (ONE + ((index.abs() - ONE) >> scales)) };
        match merged.last_mut() {
            Some((last, sum)) if *last == index => *sum += count,
            _ => merged.push((index, *count)),
        }
    }
    merged
}

/// Returns the indices and counts of `positive` or `negative`.
fn side(point: &[u8], field: u32) -> impl Iterator<Item = (i64, u64)> {
    let side = last(point, field).map_or(&[][..], |value| value.bytes());
    // An `sint32` is not longer; an index beyond it would belong to no number.
    let offset = zigzag(number(side, 1)).clamp(i32::MIN.into(), i32::MAX.into());
    (ONE + offset..).zip(varints(side, 2))
}
