//! Time buckets of a query, and the stored slots that fill them.
//!
//! The store has UTC minutes and UTC hours. Days, weeks, months and local hours are computed here, at query time.
//! All numbers are minutes since 1970-01-01 UTC unless stated otherwise.

use std::ops::Range;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp};

use super::{BucketTimes, Step, WindowLength};
use crate::series::Resolution;

const HOUR: u32 = 60;
const DAY: u32 = 24 * HOUR;
/// Fewer points are too coarse for a chart; more can no longer be distinguished on it.
const CHART_POINTS: Range<u32> = 50..400;

/// The buckets of a window, adjacent and without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// The start of each bucket by the calendar. The first may lie before the window.
    pub starts: Vec<u32>,
    /// Bucket `i` counts the minutes `edges[i]..edges[i + 1]`: the calendar's bucket, clipped to the window.
    pub edges: Vec<u32>,
}

impl Buckets {
    /// Returns the buckets of width `step` in the zone's calendar that overlap the window, which must not be empty.
    pub fn cut(zone: &TimeZone, step: Step, window: Range<u32>) -> Buckets {
        let starts = match step {
            Step::Minute => window.clone().collect(),
            Step::Hour => hours(zone, &window),
            Step::Day | Step::Week | Step::Month => dates(zone, step, &window),
            Step::All => vec![window.start],
        };
        let mut edges = Vec::with_capacity(starts.len() + 1);
        edges.extend_from_slice(&starts);
        edges[0] = window.start;
        edges.push(window.end);
        Buckets { starts, edges }
    }

    /// Returns a single bucket from the first edge to the last.
    pub fn whole(&self) -> Buckets {
        let window = self.window();
        Buckets { starts: vec![window.start], edges: vec![window.start, window.end] }
    }

    /// Returns a range of the buckets.
    pub(crate) fn slice(&self, which: Range<usize>) -> Buckets {
        let edges = self.edges[which.start..=which.end].to_vec();
        Buckets { starts: self.starts[which].to_vec(), edges }
    }

    /// Returns the minutes from the first edge to the last.
    pub fn window(&self) -> Range<u32> {
        self.edges[0]..self.edges[self.len()]
    }

    /// Returns the number of buckets.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns true if there is no bucket, which [`Buckets::cut`] never returns.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Returns the start times of the buckets, as results show them.
    pub fn times(&self, zone: &TimeZone) -> BucketTimes {
        BucketTimes {
            offsets: offsets(zone, &self.starts),
            minutes: self.starts.clone(),
            utc: matches!(zone.iana_name(), Some("UTC" | "Etc/UTC")),
        }
    }

    /// Returns the bucket that counts this minute of the window.
    pub(crate) fn bucket_of(&self, minute: u32) -> usize {
        self.edges.partition_point(|&edge| edge <= minute) - 1
    }

    /// Returns true if one slot of this resolution fills the bucket.
    pub(crate) fn is_one_slot(&self, bucket: usize, resolution: Resolution) -> bool {
        self.edges[bucket + 1] - self.edges[bucket] == resolution.minutes()
    }

    /// Returns the same number of buckets before these. Days, weeks and months move by the calendar, so that a day
    /// until noon is compared with a day until noon; other steps move by the window's length. `None` if that is
    /// before 1970.
    pub fn previous(&self, zone: &TimeZone, step: Step) -> Option<Buckets> {
        let count = self.len() as i32;
        match step {
            Step::Minute | Step::Hour | Step::All => self.back_minutes(self.window().len() as u32),
            Step::Day => self.back_calendar(zone, Span::new().days(count)),
            Step::Week => self.back_calendar(zone, Span::new().weeks(count)),
            Step::Month => self.back_calendar(zone, Span::new().months(count)),
        }
    }

    /// Returns the same buckets one year earlier; weeks move by 52 weeks. `None` if that is before 1970.
    pub fn year_before(&self, zone: &TimeZone, step: Step) -> Option<Buckets> {
        let year = Span::new().years(1);
        match step {
            Step::Minute | Step::Hour | Step::All => {
                let first = self.edges[0];
                self.back_minutes(first - back(zone, first, year)?)
            }
            Step::Day | Step::Month => self.back_calendar(zone, year),
            Step::Week => self.back_calendar(zone, Span::new().weeks(52)),
        }
    }

    fn back_minutes(&self, minutes: u32) -> Option<Buckets> {
        self.map(|minute| minute.checked_sub(minutes))
    }

    fn back_calendar(&self, zone: &TimeZone, span: Span) -> Option<Buckets> {
        self.map(|minute| back(zone, minute, span))
    }

    /// In a shorter month, times after its end become times of its last day, which can be before the edge before.
    fn map(&self, to: impl Fn(u32) -> Option<u32>) -> Option<Buckets> {
        let mut edges: Vec<u32> = self.edges.iter().map(|&edge| to(edge)).collect::<Option<_>>()?;
        for at in 1..edges.len() {
            edges[at] = edges[at].max(edges[at - 1]);
        }
        // Only the start of the first bucket can lie before 1970.
        let starts = self.starts.iter().map(|&start| to(start).unwrap_or(0)).collect();
        Some(Buckets { starts, edges })
    }
}

/// Returns the step that gives a window of this length 50 to 400 points, or comes nearest.
pub fn step_for(minutes: u32) -> Step {
    let steps = [Step::Minute, Step::Hour, Step::Day, Step::Week, Step::Month];
    let distance = |step: &Step| {
        let points = f64::from(minutes) / f64::from(step.minutes_min());
        let (few, many) = (f64::from(CHART_POINTS.start), f64::from(CHART_POINTS.end));
        (points / many).max(few / points).max(1.0)
    };
    steps.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).expect("there are five steps")
}

/// Returns the minute `last` before `minute`. Days follow the calendar: 7 days before midnight is midnight.
pub fn minutes_before(zone: &TimeZone, minute: u32, last: WindowLength) -> Option<u32> {
    back(zone, minute, Span::new().days(last.days as i32))?.checked_sub(last.minutes)
}

/// A UTC offset of the time zone, and the first time to which it applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneOffset {
    /// Index of the first time to which it applies, up to the next offset.
    pub from: usize,
    /// Minutes that local clocks are ahead of UTC.
    pub minutes: i32,
}

/// Returns the UTC offsets of ascending minutes.
fn offsets(zone: &TimeZone, minutes: &[u32]) -> Vec<ZoneOffset> {
    let (Some(&first), Some(&last)) = (minutes.first(), minutes.last()) else {
        return Vec::new();
    };
    let mut found: Vec<ZoneOffset> = Vec::new();
    for span in spans(zone, first..last + 1) {
        let from = minutes.partition_point(|&minute| minute < span.minutes.start);
        found.retain(|earlier| earlier.from < from);
        found.push(ZoneOffset { from, minutes: span.offset });
    }
    found
}

/// Consecutive minutes with the same UTC offset.
struct OffsetSpan {
    minutes: Range<u32>,
    offset: i32,
}

/// Splits the window into spans of one UTC offset each.
fn spans(zone: &TimeZone, window: Range<u32>) -> Vec<OffsetSpan> {
    let mut pieces = vec![OffsetSpan { minutes: window.clone(), offset: offset_at(zone, window.start) }];
    for change in zone.following(timestamp(window.start)) {
        let at = minute_of(change.timestamp()).max(0) as u32;
        if at >= window.end {
            break;
        }
        let piece = pieces.last_mut().expect("the list starts with one span");
        let offset = change.offset().seconds().div_euclid(60);
        if offset != piece.offset {
            piece.minutes.end = at;
            pieces.push(OffsetSpan { minutes: at..window.end, offset });
        }
    }
    pieces
}

/// Returns the minutes at which local clocks show a whole hour. A clock change starts a new hour, even if it is by
/// half an hour.
fn hours(zone: &TimeZone, window: &Range<u32>) -> Vec<u32> {
    let from = window.start.saturating_sub(HOUR - 1);
    let mut starts = Vec::with_capacity((window.end - from) as usize / HOUR as usize + 2);
    for (index, span) in spans(zone, from..window.end).into_iter().enumerate() {
        let past =
            (i64::from(span.minutes.start) + i64::from(span.offset)).rem_euclid(i64::from(HOUR)) as u32;
        if index > 0 && past > 0 {
            starts.push(span.minutes.start);
        }
        let first = span.minutes.start + (HOUR - past) % HOUR;
        starts.extend((first..span.minutes.end).step_by(HOUR as usize));
    }
    drop_buckets_before(window.start, starts)
}

/// Returns the starts of local days, weeks or months.
fn dates(zone: &TimeZone, step: Step, window: &Range<u32>) -> Vec<u32> {
    let mut date = first_date(zone.to_datetime(timestamp(window.start)).date(), step);
    let mut starts: Vec<u32> = Vec::new();
    loop {
        let start = first_minute(zone, DateTime::from(date)).max(0) as u32;
        if start >= window.end {
            return drop_buckets_before(window.start, starts);
        }
        // A zone that crossed the date line has a day without minutes.
        if starts.last() != Some(&start) {
            starts.push(start);
        }
        date = next_date(date, step);
    }
}

/// Removes the starts of buckets that ended before `minute`.
fn drop_buckets_before(minute: u32, mut starts: Vec<u32>) -> Vec<u32> {
    match starts.partition_point(|&start| start <= minute) {
        // In the first hours of 1970, the start of the bucket is before the first minute that exists.
        0 => starts.insert(0, minute),
        after => drop(starts.drain(..after - 1)),
    }
    starts
}

/// Weeks start on Monday, as in ISO 8601.
fn first_date(date: Date, step: Step) -> Date {
    match step {
        Step::Week => date.saturating_sub(Span::new().days(date.weekday().to_monday_zero_offset())),
        Step::Month => date.first_of_month(),
        _ => date,
    }
}

fn next_date(date: Date, step: Step) -> Date {
    let span = match step {
        Step::Week => Span::new().weeks(1),
        Step::Month => Span::new().months(1),
        _ => Span::new().days(1),
    };
    date.saturating_add(span)
}

fn back(zone: &TimeZone, minute: u32, span: Span) -> Option<u32> {
    let local = zone.to_datetime(timestamp(minute)).checked_sub(span).ok()?;
    u32::try_from(first_minute(zone, local)).ok()
}

/// Returns the first minute at which local clocks show `local` or, if they skip it, a later time.
fn first_minute(zone: &TimeZone, local: DateTime) -> i64 {
    let found = match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
        AmbiguousOffset::Gap { after, .. } => after.to_timestamp(local).ok().and_then(|earlier| {
            // With the later offset, a local time that does not exist lies just before the clock change.
            zone.following(earlier).next().map(|change| change.timestamp())
        }),
    };
    minute_of(found.expect("queries end before the calendar does"))
}

fn offset_at(zone: &TimeZone, minute: u32) -> i32 {
    zone.to_offset(timestamp(minute)).seconds().div_euclid(60)
}

fn timestamp(minute: u32) -> Timestamp {
    Timestamp::from_second(i64::from(minute) * 60).expect("queries end before the calendar does")
}

/// Returns the minute at or after the timestamp: a clock change within a minute counts from the next minute.
fn minute_of(timestamp: Timestamp) -> i64 {
    -(-timestamp.as_second()).div_euclid(60)
}

/// Consecutive slots of one resolution, with the bucket of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotRead {
    pub resolution: Resolution,
    pub minutes: Range<u32>,
    pub buckets: BucketLookup,
}

/// The bucket of a slot, by its index in the read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BucketLookup {
    /// Each slot is a bucket of its own.
    Each,
    /// The bucket of each slot.
    Table(Vec<u32>),
}

impl SlotRead {
    /// Creates a read of minutes that are one bucket each.
    pub(crate) fn of_minutes(minutes: Range<u32>) -> SlotRead {
        SlotRead { resolution: Resolution::Minute, minutes, buckets: BucketLookup::Each }
    }

    /// Returns the bucket of the slot that starts at `minute`, which must be within the read.
    #[inline]
    pub(crate) fn bucket(&self, minute: u32) -> usize {
        let position = minute - self.minutes.start;
        // Two divisions by a constant are cheaper than one by a variable.
        let position = if self.resolution == Resolution::Minute { position } else { position / HOUR };
        match &self.buckets {
            BucketLookup::Each => position as usize,
            BucketLookup::Table(buckets) => buckets[position as usize] as usize,
        }
    }
}

/// Returns the reads that fill the buckets: hours where whole UTC hours lie within one bucket, minutes at uneven
/// edges.
pub(super) fn reads(buckets: &Buckets) -> Vec<SlotRead> {
    if buckets.edges.windows(2).all(|edge| edge[1] - edge[0] == 1) {
        return vec![SlotRead::of_minutes(buckets.window())];
    }
    let mut reads = SlotReads::default();
    for (bucket, edge) in buckets.edges.windows(2).enumerate() {
        let (from, until) = (edge[0], edge[1]);
        let whole = from.next_multiple_of(HOUR)..until - until % HOUR;
        if whole.is_empty() {
            reads.add(Resolution::Minute, from..until, bucket as u32);
        } else {
            reads.add(Resolution::Minute, from..whole.start, bucket as u32);
            reads.add(Resolution::Hour, whole.clone(), bucket as u32);
            reads.add(Resolution::Minute, whole.end..until, bucket as u32);
        }
    }
    reads.done
}

#[derive(Default)]
struct SlotReads {
    done: Vec<SlotRead>,
}

impl SlotReads {
    /// Appends slots, extending the last read if they directly follow it.
    fn add(&mut self, resolution: Resolution, minutes: Range<u32>, bucket: u32) {
        if minutes.is_empty() {
            return;
        }
        let slots = (minutes.end - minutes.start) / resolution.minutes();
        let joined = self
            .done
            .last_mut()
            .filter(|last| last.resolution == resolution && last.minutes.end == minutes.start);
        let Some(read) = joined else {
            let buckets = BucketLookup::Table(vec![bucket; slots as usize]);
            return self.done.push(SlotRead { resolution, minutes, buckets });
        };
        read.minutes.end = minutes.end;
        if let BucketLookup::Table(buckets) = &mut read.buckets {
            buckets.extend(std::iter::repeat_n(bucket, slots as usize));
        }
    }
}

impl Step {
    /// Returns the minimum length of a bucket in minutes, which bounds the number of points in a result.
    pub fn minutes_min(self) -> u32 {
        match self {
            Step::Minute => 1,
            Step::Hour => HOUR,
            Step::Day => DAY,
            Step::Week => 7 * DAY,
            Step::Month => 28 * DAY,
            Step::All => u32::MAX,
        }
    }
}
