//! Queries over rollups: counts and measures by time and dimension, compared with another window.
//!
//! [`Query::plan`] validates a [`Query`] and fixes its window, its buckets and the slots it needs. [`run`] reads
//! those slots and computes the result. No query reads raw events, so its cost depends on the number of slots, not
//! on the number of events.

mod aggregation;
mod control;
mod formula;
mod incremental;
mod plan;
mod run;
mod series_index;
mod time;

#[cfg(test)]
mod tests;

pub use control::{QueryControl, QueryFailure, QueryStopped, Unbounded};
pub use incremental::{ChangedValues, IncrementalQuery, Refreshed};
pub use plan::{QueryPlan, is_event};
pub use run::run;
pub use time::{Buckets, ZoneOffset, minutes_before, step_for};

use std::sync::Arc;

use crate::Dimension;
use crate::series::{Cut, SERVER_DIMENSIONS};

/// A query. Equal queries compare equal, so that subscriptions to the same query can share one computation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Query {
    /// The metrics; at least one, at most `QUERY_METRICS_MAX`.
    pub metrics: Vec<MetricQuery>,
    /// Arithmetic over the names of the metrics. If set, the result contains only the formula.
    pub formula: Option<String>,
    /// Start of the window, in milliseconds since 1970-01-01 UTC, rounded down to the minute. Default: 24 hours
    /// before the end.
    pub from_ms: Option<i64>,
    /// End of the window (exclusive), rounded up to the minute. Default: the end of the current minute.
    pub until_ms: Option<i64>,
    /// Replaces start and end: a window of this length that ends now and starts at the start of a bucket.
    pub last: Option<WindowLength>,
    /// Width of a bucket. `None` selects the step that gives a chart 50 to 400 points, or comes nearest.
    pub step: Option<Step>,
    /// Splits the result into one series per value, or per combination of values.
    pub by: Vec<QueryDimension>,
    /// Restricts the query to events that have one of the values, for each of these dimensions.
    pub filter: Vec<(QueryDimension, Vec<String>)>,
    /// With `by`: the number of series with the highest totals; all others are combined in one series `(other)`.
    pub top: Option<usize>,
    /// The time zone of hours, days, weeks and months, as an IANA name. Default: that of the game.
    pub tz: Option<String>,
    /// A second window to compare with.
    pub compare: Option<CompareWith>,
}

/// One metric of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MetricQuery {
    /// The name used in the formula and the result. Default: the name of the metric.
    pub as_name: Option<String>,
    /// An event name or a built-in metric. Built-in metrics take precedence: `events`, `players`, `sessions`,
    /// `views`, `plays`, `play_time_s`, `online`.
    pub metric: String,
    /// The measure. `None`: the sum for `play_time_s`, the number of players for `players` and `online`, else the
    /// count.
    pub measure: Option<Measure>,
}

/// A measure of the events of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Number of events.
    Count,
    /// Sum of the values.
    Sum,
    /// Smallest value.
    Min,
    /// Largest value.
    Max,
    /// Mean of the values.
    Avg,
    /// Distinct players.
    Uniques,
    /// 10th percentile of the values: the low end, where higher is better.
    P10,
    /// Median of the values.
    P50,
    /// 90th percentile of the values.
    P90,
    /// 99th percentile of the values.
    P99,
    /// The newest value, if values are states such as those of a gauge.
    Last,
}

impl Measure {
    /// All measures.
    pub(crate) const ALL: [Measure; 11] = [
        Measure::Count,
        Measure::Sum,
        Measure::Min,
        Measure::Max,
        Measure::Avg,
        Measure::Uniques,
        Measure::P10,
        Measure::P50,
        Measure::P90,
        Measure::P99,
        Measure::Last,
    ];

    /// Returns the name used in queries.
    pub fn label(self) -> &'static str {
        ["count", "sum", "min", "max", "avg", "uniques", "p10", "p50", "p90", "p99", "last"][self as usize]
    }

    /// Returns the measure with this name.
    pub fn from_label(label: &str) -> Option<Measure> {
        Measure::ALL.into_iter().find(|measure| measure.label() == label)
    }
}

/// Width of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Minutes.
    Minute,
    /// Hours of local clocks; a clock change starts a new hour.
    Hour,
    /// Local days, of 23 or 25 hours at clock changes.
    Day,
    /// Weeks, starting on Monday.
    Week,
    /// Calendar months.
    Month,
    /// One bucket for the whole window.
    All,
}

impl Step {
    /// All steps, finest first.
    pub(crate) const ALL: [Step; 6] =
        [Step::Minute, Step::Hour, Step::Day, Step::Week, Step::Month, Step::All];

    /// Returns the name used in queries and responses.
    pub fn label(self) -> &'static str {
        ["minute", "hour", "day", "week", "month", "all"][self as usize]
    }

    /// Returns the step with this name.
    pub fn from_label(label: &str) -> Option<Step> {
        Step::ALL.into_iter().find(|step| step.label() == label)
    }
}

/// A dimension that queries can split or filter by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueryDimension {
    /// The event name; for the metrics `events` and `players` only.
    Event,
    /// A built-in dimension.
    BuiltIn(Dimension),
    /// A dimension declared by the game or added by ingest.
    Declared(NumberedDimension),
}

/// The declaration of a dimension by a game.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NumberedDimension {
    /// The number under which its rows are stored.
    pub number: u8,
    /// The property's name.
    pub name: Arc<str>,
}

impl QueryDimension {
    /// Returns the name used in queries and responses.
    pub fn label(&self) -> &str {
        match self {
            QueryDimension::Event => "event",
            QueryDimension::BuiltIn(dimension) => dimension.label(),
            QueryDimension::Declared(declared) => &declared.name,
        }
    }

    /// Returns the dimension with this name in a game with these declared dimensions.
    pub fn from_label(label: &str, declared: &[NumberedDimension]) -> Option<QueryDimension> {
        if let Some(dimension) = Dimension::from_label(label) {
            return Some(QueryDimension::BuiltIn(dimension));
        }
        if label == "event" {
            return Some(QueryDimension::Event);
        }
        if let Some((number, _)) = SERVER_DIMENSIONS.iter().find(|(_, name)| *name == label) {
            return Some(QueryDimension::Declared(NumberedDimension { number: *number, name: label.into() }));
        }
        declared.iter().find(|declared| &*declared.name == label).cloned().map(QueryDimension::Declared)
    }

    /// Returns the cut whose rows contain its values; `None` for the event name, which is the metric.
    fn cut(&self) -> Option<Cut> {
        match self {
            QueryDimension::Event => None,
            QueryDimension::BuiltIn(dimension) => Some(Cut::By(*dimension)),
            QueryDimension::Declared(declared) => Some(Cut::Declared(declared.number)),
        }
    }
}

/// The window to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareWith {
    /// The same number of buckets before: by the calendar for days, weeks and months, by length for other steps.
    Previous,
    /// The same window one year (for weeks: 52 weeks) earlier.
    Year,
}

impl CompareWith {
    /// Returns the name used in queries.
    pub fn label(self) -> &'static str {
        match self {
            CompareWith::Previous => "previous",
            CompareWith::Year => "year",
        }
    }

    /// Returns the comparison with this name.
    pub fn from_label(label: &str) -> Option<CompareWith> {
        match label {
            "previous" => Some(CompareWith::Previous),
            "year" => Some(CompareWith::Year),
            _ => None,
        }
    }
}

/// The length of a window that ends now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowLength {
    /// Calendar days, of 23 or 25 hours at clock changes.
    pub days: u32,
    /// Minutes.
    pub minutes: u32,
}

impl WindowLength {
    /// Parses `60m`, `24h`, `7d` or `4w`. `None` for anything else, for zero, and for more than 100 years.
    pub fn parse(text: &str) -> Option<WindowLength> {
        let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let digits = (1..=8).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|number| digits && *number > 0)?;
        let (days, minutes) = match unit {
            "m" => (0, number),
            "h" => (0, number * 60),
            "d" => (number, 0),
            "w" => (number * 7, 0),
            _ => return None,
        };
        (days <= 36_525 && minutes <= 36_525 * 1_440).then_some(WindowLength { days, minutes })
    }
}

/// As in queries, without weeks and hours.
impl std::fmt::Display for WindowLength {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.days {
            0 => write!(f, "{}m", self.minutes),
            days => write!(f, "{days}d"),
        }
    }
}

/// The reason why a query is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct QueryError {
    /// The field of the request, such as `step`, `metrics[1].measure` or `where.country`.
    pub field: String,
    /// The problem and how to fix it, as a phrase.
    pub message: String,
}

impl QueryError {
    /// Creates an error about this field.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> QueryError {
        QueryError { field: field.into(), message: message.into() }
    }
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryResult {
    /// Width of a bucket, set even if the query left it open.
    pub step: Step,
    /// IANA name of the time zone.
    pub tz: String,
    /// Start times of the buckets.
    pub times: BucketTimes,
    /// One series per value of `by`, highest total first, `(other)` last; without `by`, one per metric.
    pub series: Vec<Series>,
    /// The window that the query compares with.
    pub compare: Option<ComparedWindow>,
    /// The log offset up to which the result is complete. It may include later entries.
    pub as_of: u64,
}

/// The second window of a result: the same number of buckets, and the same series in the same order.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedWindow {
    /// Start times of its buckets.
    pub times: BucketTimes,
    /// Its series, with `(other)` last if it exists.
    pub series: Vec<Series>,
}

/// Start times of buckets. The first may lie before the window, but the bucket counts only the part within the
/// window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketTimes {
    /// Minutes since 1970-01-01 UTC, ascending.
    pub minutes: Vec<u32>,
    /// UTC offsets of the time zone, each with the first bucket to which it applies.
    pub offsets: Vec<ZoneOffset>,
    /// True if the time zone is UTC, written `Z` rather than `+00:00`.
    pub utc: bool,
}

/// One series of a result: a line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name of the metric, if the query has several and no formula.
    pub name: Option<String>,
    /// The value of each dimension of `by`, in the query's order; empty for events without the dimension.
    pub key: Vec<(QueryDimension, String)>,
    /// One value per bucket. `None` if there are no values to measure, or the formula has no result.
    pub values: Vec<Option<f64>>,
    /// The measure over the whole window, which is not always the sum of the buckets.
    pub total: Option<f64>,
}
