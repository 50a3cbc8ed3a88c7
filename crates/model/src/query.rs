//! Questions over rollups: how many, by minute or month, by country, compared with the week before.
//!
//! A [`Query`] says what is asked, in the caller's words. [`Query::plan`] checks it and fixes its window, its buckets and
//! the slots it needs. [`run`] reads them and answers. Nothing here touches a raw event, so an answer costs what its
//! slots cost, however many events there were.

mod fold;
mod formula;
mod measures;
mod plan;
mod rows;
mod standing;
mod time;

#[cfg(test)]
mod tests;

pub use fold::run;
pub use plan::{Plan, is_event};
pub use standing::Standing;
pub use time::Offset;

use std::sync::Arc;

use crate::Dimension;
use crate::series::{Cut, STAMPED};

/// What is asked. Equal questions compare equal, so that those who ask the same can share one computation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Query {
    /// What is counted; at least one, at most [`crate::limits::QUERY_METRICS_MAX`].
    pub metrics: Vec<MetricQuery>,
    /// Arithmetic over the metrics' names. With it, the answer is the formula alone.
    pub formula: Option<String>,
    /// Start of the window, in milliseconds since 1970-01-01 UTC; rounded down to the minute.
    /// Default: 24 hours before the end.
    pub from_ms: Option<i64>,
    /// End of the window, not included; rounded up to the minute. Default: the end of the minute of now.
    pub until_ms: Option<i64>,
    /// Instead of start and end: this long, up to now, the start moved back to the start of a bucket.
    pub last: Option<Last>,
    /// Width of a bucket. `None`: what gives a chart 50 to 400 points, or comes nearest.
    pub step: Option<Step>,
    /// One series for each value, or for each combination of values.
    pub by: Vec<By>,
    /// Only events that have one of the values, for each of these.
    pub filter: Vec<(By, Vec<String>)>,
    /// With `by`: as many series of their own, those with the highest totals; the rest is one series `(other)`.
    pub top: Option<usize>,
    /// The zone of hours, days, weeks and months, as an IANA name. Default: the game's.
    pub tz: Option<String>,
    /// A second window to compare with.
    pub compare: Option<Compare>,
}

/// One metric of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MetricQuery {
    /// What the formula and the answer call it; the metric's own name otherwise.
    pub as_name: Option<String>,
    /// An event's name, or one of the built-in metrics, which go before an event of the same name: `events`, `players`,
    /// `sessions`, `views`, `plays`, `play_time_s`, `online`.
    pub metric: String,
    /// What is told of it. `None`: count; `play_time_s` is a sum, `players` and `online` count players.
    pub measure: Option<Measure>,
}

/// What is told of a metric's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// How many events.
    Count,
    /// Sum of their values.
    Sum,
    /// Smallest value.
    Min,
    /// Largest value.
    Max,
    /// Mean of the values of those that have one.
    Avg,
    /// Distinct players.
    Uniques,
    /// One in ten values is not above it: how the worst do where more is better.
    P10,
    /// Median of the values.
    P50,
    /// Nine in ten values are not above it.
    P90,
    /// 99 in 100 values are not above it.
    P99,
    /// The newest value of those that are a state, such as a gauge's.
    Last,
}

impl Measure {
    /// All of them.
    pub const ALL: [Measure; 11] = [
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

    /// The word in queries.
    pub fn label(self) -> &'static str {
        ["count", "sum", "min", "max", "avg", "uniques", "p10", "p50", "p90", "p99", "last"][self as usize]
    }

    /// The measure of this word.
    pub fn from_label(label: &str) -> Option<Measure> {
        Measure::ALL.into_iter().find(|measure| measure.label() == label)
    }
}

/// Width of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Minutes.
    Minute,
    /// Hours of the zone's clocks; a clock change starts a new one.
    Hour,
    /// Days of the zone, of 23 or 25 hours where its clocks change.
    Day,
    /// Weeks from Monday.
    Week,
    /// Months of the calendar.
    Month,
    /// One bucket for the whole window.
    All,
}

impl Step {
    /// All of them, finest first.
    pub const ALL: [Step; 6] = [Step::Minute, Step::Hour, Step::Day, Step::Week, Step::Month, Step::All];

    /// The word in queries and answers.
    pub fn label(self) -> &'static str {
        ["minute", "hour", "day", "week", "month", "all"][self as usize]
    }

    /// The step of this word.
    pub fn from_label(label: &str) -> Option<Step> {
        Step::ALL.into_iter().find(|step| step.label() == label)
    }
}

/// What series can be told apart by, and events chosen by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum By {
    /// The event's name; for the metrics `events` and `players`.
    Event,
    /// The value of a dimension.
    Dimension(Dimension),
    /// The value of a dimension that the game declared, or that the line stamps.
    Declared(Declared),
}

/// A dimension that a game declared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Declared {
    /// Under which its rows are stored.
    pub number: u8,
    /// The property's name.
    pub name: Arc<str>,
}

impl By {
    /// The word in queries and answers.
    pub fn label(&self) -> &str {
        match self {
            By::Event => "event",
            By::Dimension(dimension) => dimension.label(),
            By::Declared(declared) => &declared.name,
        }
    }

    /// What this word stands for in a game that declared these dimensions.
    pub fn from_label(label: &str, declared: &[Declared]) -> Option<By> {
        if let Some(dimension) = Dimension::from_label(label) {
            return Some(By::Dimension(dimension));
        }
        if label == "event" {
            return Some(By::Event);
        }
        if let Some((number, _)) = STAMPED.iter().find(|(_, name)| *name == label) {
            return Some(By::Declared(Declared { number: *number, name: label.into() }));
        }
        declared.iter().find(|declared| &*declared.name == label).cloned().map(By::Declared)
    }

    /// The cut that tells its values; that of an event's name is told by the metric.
    fn cut(&self) -> Option<Cut> {
        match self {
            By::Event => None,
            By::Dimension(dimension) => Some(Cut::By(*dimension)),
            By::Declared(declared) => Some(Cut::Declared(declared.number)),
        }
    }
}

/// Which window an answer is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// As many buckets before: by the calendar for days, weeks and months, the same length for other steps.
    Previous,
    /// The same window a year (for weeks: 52 weeks) earlier.
    Year,
}

impl Compare {
    /// The word in queries.
    pub fn label(self) -> &'static str {
        match self {
            Compare::Previous => "previous",
            Compare::Year => "year",
        }
    }

    /// What this word stands for.
    pub fn from_label(label: &str) -> Option<Compare> {
        match label {
            "previous" => Some(Compare::Previous),
            "year" => Some(Compare::Year),
            _ => None,
        }
    }
}

/// The length of a window that ends now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Last {
    /// Days of the calendar, of 23 or 25 hours where clocks change.
    pub days: u32,
    /// Minutes.
    pub minutes: u32,
}

impl Last {
    /// Reads `60m`, `24h`, `7d` or `4w`. `None`: anything else, nothing at all, or more than 100 years.
    pub fn parse(text: &str) -> Option<Last> {
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
        (days <= 36_525 && minutes <= 36_525 * 1_440).then_some(Last { days, minutes })
    }
}

/// As it is written in queries, without weeks and hours.
impl std::fmt::Display for Last {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.days {
            0 => write!(f, "{}m", self.minutes),
            days => write!(f, "{days}d"),
        }
    }
}

/// Why a query cannot be answered as it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct QueryError {
    /// The field of the request, by its name there: `step`, `metrics[1].measure`, `where.country`.
    pub field: String,
    /// What is wrong with it and what to do, as a phrase.
    pub message: String,
}

impl QueryError {
    /// An error about this field.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> QueryError {
        QueryError { field: field.into(), message: message.into() }
    }
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Width of a bucket, also when the query left it open.
    pub step: Step,
    /// The zone's IANA name.
    pub tz: String,
    /// When the buckets start.
    pub times: Times,
    /// One per value of `by`, highest total first, `(other)` last; without `by` one per metric.
    pub series: Vec<Series>,
    /// The window compared with.
    pub compare: Option<Compared>,
    /// The end of the log that is included at least.
    pub as_of: u64,
}

/// The second window of an answer: as many buckets, and the same values of `by` in the same order.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// When its buckets start.
    pub times: Times,
    /// Its series, then `(other)` if there is one.
    pub series: Vec<Series>,
}

/// When buckets start. The first starts before the window if the window cuts it; what it counts is in the window alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// Minutes since 1970-01-01 UTC, ascending.
    pub minutes: Vec<u32>,
    /// What the zone's clocks were ahead of UTC, from which time on.
    pub offsets: Vec<Offset>,
    /// The zone is UTC itself, written `Z` rather than `+00:00`.
    pub utc: bool,
}

/// One line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Which metric, if the query has several and no formula.
    pub name: Option<String>,
    /// The value of each of `by`, in the query's order; empty where events did not carry it.
    pub key: Vec<(By, String)>,
    /// One per bucket. `None`: nothing happened that has such a value, or it cannot be computed.
    pub values: Vec<Option<f64>>,
    /// The measure over the whole window, not a sum of the buckets.
    pub total: Option<f64>,
}
