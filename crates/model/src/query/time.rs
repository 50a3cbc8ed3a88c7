//! Where the buckets of an answer begin and end, and which stored slots fill them.
//!
//! The store knows UTC minutes and UTC hours. Days, weeks, months and the hours of a zone are cut here, at query time.
//! All numbers are minutes since 1970-01-01 UTC unless they say otherwise.

use std::ops::Range;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp};

use super::{Last, Step};
use crate::series::Level;

const HOUR: u32 = 60;
const DAY: u32 = 24 * HOUR;
/// Fewer points than this are too coarse for a chart, more than the end cannot be told apart on one.
const CHART_POINTS: Range<u32> = 50..400;

/// The buckets of a window. They lie one after another without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Buckets {
    /// Where each bucket starts by the calendar. The first may start before the window.
    pub starts: Vec<u32>,
    /// Bucket `i` counts the minutes `edges[i]..edges[i + 1]`: the calendar's bucket as far as the window has it.
    pub edges: Vec<u32>,
}

impl Buckets {
    /// The buckets of `step` in the zone's calendar that meet the window. The window is not empty.
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

    /// One bucket from the first edge to the last.
    pub fn whole(&self) -> Buckets {
        let window = self.window();
        Buckets { starts: vec![window.start], edges: vec![window.start, window.end] }
    }

    /// Only these buckets.
    pub fn slice(&self, which: Range<usize>) -> Buckets {
        let edges = self.edges[which.start..=which.end].to_vec();
        Buckets { starts: self.starts[which].to_vec(), edges }
    }

    pub fn window(&self) -> Range<u32> {
        self.edges[0]..self.edges[self.len()]
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// The bucket that counts this minute of the window.
    pub fn holds(&self, minute: u32) -> usize {
        self.edges.partition_point(|&edge| edge <= minute) - 1
    }

    /// A slot of this level fills the whole bucket.
    pub fn is_one_slot(&self, bucket: usize, level: Level) -> bool {
        self.edges[bucket + 1] - self.edges[bucket] == level.minutes()
    }

    /// As many buckets before these. Days, weeks and months go back by the calendar, so that a day until noon is
    /// compared with a day until noon; other steps go back by the window's length. `None`: that is before 1970.
    pub fn previous(&self, zone: &TimeZone, step: Step) -> Option<Buckets> {
        let count = self.len() as i32;
        match step {
            Step::Minute | Step::Hour | Step::All => self.back_minutes(self.window().len() as u32),
            Step::Day => self.back_calendar(zone, Span::new().days(count)),
            Step::Week => self.back_calendar(zone, Span::new().weeks(count)),
            Step::Month => self.back_calendar(zone, Span::new().months(count)),
        }
    }

    /// The same buckets a year earlier; weeks go back by 52 weeks, to stay weeks. `None`: that is before 1970.
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

    /// A shorter month can make two edges meet, but never cross.
    fn map(&self, to: impl Fn(u32) -> Option<u32>) -> Option<Buckets> {
        let edges: Option<Vec<u32>> = self.edges.iter().map(|&edge| to(edge)).collect();
        // Only the start of the first bucket can lie before what has been counted since 1970.
        let starts = self.starts.iter().map(|&start| to(start).unwrap_or(0)).collect();
        Some(Buckets { starts, edges: edges? })
    }
}

/// The step that gives a window of this length 50 to 400 points, or comes nearest to that.
pub(super) fn step_for(minutes: u32) -> Step {
    let steps = [Step::Minute, Step::Hour, Step::Day, Step::Week, Step::Month];
    let far = |step: &Step| {
        let points = f64::from(minutes) / f64::from(step.minutes_min());
        let (few, many) = (f64::from(CHART_POINTS.start), f64::from(CHART_POINTS.end));
        (points / many).max(few / points).max(1.0)
    };
    steps.into_iter().min_by(|a, b| far(a).total_cmp(&far(b))).expect("there are five steps")
}

/// The minute `last` before `minute`: days by the calendar, so that 7 days before midnight is midnight.
pub(super) fn before(zone: &TimeZone, minute: u32, last: Last) -> Option<u32> {
    back(zone, minute, Span::new().days(last.days as i32))?.checked_sub(last.minutes)
}

/// From when on the zone's clocks differ from UTC by how many minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The index of the first time for which it holds; it holds until the next offset's.
    pub from: usize,
    /// Minutes that local clocks are ahead of UTC.
    pub minutes: i32,
}

/// The offsets of ascending minutes.
pub(super) fn offsets(zone: &TimeZone, minutes: &[u32]) -> Vec<Offset> {
    let (Some(&first), Some(&last)) = (minutes.first(), minutes.last()) else {
        return Vec::new();
    };
    let mut found: Vec<Offset> = Vec::new();
    for span in spans(zone, first..last + 1) {
        let from = minutes.partition_point(|&minute| minute < span.minutes.start);
        found.retain(|earlier| earlier.from < from);
        found.push(Offset { from, minutes: span.offset });
    }
    found
}

/// Minutes in a row with the same offset.
struct OffsetSpan {
    minutes: Range<u32>,
    offset: i32,
}

/// The window in pieces of one offset each.
fn spans(zone: &TimeZone, window: Range<u32>) -> Vec<OffsetSpan> {
    let mut pieces = vec![OffsetSpan { minutes: window.clone(), offset: offset_at(zone, window.start) }];
    for change in zone.following(timestamp(window.start)) {
        let at = minute_of(change.timestamp()).max(0) as u32;
        if at >= window.end {
            break;
        }
        let piece = pieces.last_mut().expect("it starts with one piece");
        let offset = change.offset().seconds().div_euclid(60);
        if offset != piece.offset {
            piece.minutes.end = at;
            pieces.push(OffsetSpan { minutes: at..window.end, offset });
        }
    }
    pieces
}

/// Where the zone's clocks show a whole hour. A clock change starts a new hour, also where it moves by half an hour.
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
    from_the_one_that_holds(window.start, starts)
}

/// Where days, weeks or months of the zone start.
fn dates(zone: &TimeZone, step: Step, window: &Range<u32>) -> Vec<u32> {
    let mut date = first_date(zone.to_datetime(timestamp(window.start)).date(), step);
    let mut starts: Vec<u32> = Vec::new();
    loop {
        let start = first_minute(zone, DateTime::from(date)).max(0) as u32;
        if start >= window.end {
            return from_the_one_that_holds(window.start, starts);
        }
        // A zone that moved over the date line has a day without minutes.
        if starts.last() != Some(&start) {
            starts.push(start);
        }
        date = next_date(date, step);
    }
}

/// Leaves out the starts of buckets that ended before `minute`.
fn from_the_one_that_holds(minute: u32, mut starts: Vec<u32>) -> Vec<u32> {
    match starts.partition_point(|&start| start <= minute) {
        // In the first hours of 1970 the bucket's start is not a minute that can be counted.
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

/// The first minute at which the zone's clocks show `local` or, where they jump over it, something later.
fn first_minute(zone: &TimeZone, local: DateTime) -> i64 {
    let found = match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
        AmbiguousOffset::Gap { after, .. } => after.to_timestamp(local).ok().and_then(|earlier| {
            // Read with the later offset, a time that does not exist lies just before the clocks jump.
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

/// The minute at or after the moment: clocks that changed within a minute count from the next.
fn minute_of(timestamp: Timestamp) -> i64 {
    -(-timestamp.as_second()).div_euclid(60)
}

/// Slots of one level in a row, and the bucket each belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub level: Level,
    pub minutes: Range<u32>,
    pub buckets: Lookup,
}

/// The bucket of a slot, by its place in the read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// Each slot is a bucket of its own.
    Each,
    /// The bucket of each slot.
    Table(Vec<u32>),
}

impl Read {
    /// Minutes that are a bucket each.
    pub fn of_minutes(minutes: Range<u32>) -> Read {
        Read { level: Level::Minute, minutes, buckets: Lookup::Each }
    }

    /// The bucket of the slot that starts at `minute`, which lies in the read.
    #[inline]
    pub fn bucket(&self, minute: u32) -> usize {
        let place = minute - self.minutes.start;
        // Two divisions by a constant are cheaper than one by a variable.
        let place = if self.level == Level::Minute { place } else { place / HOUR };
        match &self.buckets {
            Lookup::Each => place as usize,
            Lookup::Table(buckets) => buckets[place as usize] as usize,
        }
    }
}

/// What to read to fill the buckets: hours where whole UTC hours lie inside one bucket, minutes at the uneven edges.
pub(super) fn reads(buckets: &Buckets) -> Vec<Read> {
    if buckets.edges.windows(2).all(|edge| edge[1] - edge[0] == 1) {
        return vec![Read::of_minutes(buckets.window())];
    }
    let mut reads = Reads::default();
    for (bucket, edge) in buckets.edges.windows(2).enumerate() {
        let (from, until) = (edge[0], edge[1]);
        let whole = from.next_multiple_of(HOUR)..until - until % HOUR;
        if whole.is_empty() {
            reads.add(Level::Minute, from..until, bucket as u32);
        } else {
            reads.add(Level::Minute, from..whole.start, bucket as u32);
            reads.add(Level::Hour, whole.clone(), bucket as u32);
            reads.add(Level::Minute, whole.end..until, bucket as u32);
        }
    }
    reads.done
}

#[derive(Default)]
struct Reads {
    done: Vec<Read>,
}

impl Reads {
    /// Joins with what was added before if the one goes on where the other ends.
    fn add(&mut self, level: Level, minutes: Range<u32>, bucket: u32) {
        if minutes.is_empty() {
            return;
        }
        let slots = (minutes.end - minutes.start) / level.minutes();
        let joined =
            self.done.last_mut().filter(|last| last.level == level && last.minutes.end == minutes.start);
        let Some(read) = joined else {
            let buckets = Lookup::Table(vec![bucket; slots as usize]);
            return self.done.push(Read { level, minutes, buckets });
        };
        read.minutes.end = minutes.end;
        if let Lookup::Table(buckets) = &mut read.buckets {
            buckets.extend(std::iter::repeat_n(bucket, slots as usize));
        }
    }
}

impl Step {
    /// The fewest minutes a bucket has; at most this decides how many points an answer has.
    pub(super) fn minutes_min(self) -> u32 {
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
