//! From a question to what has to be read: every check of a query is here.

use std::ops::Range;

use jiff::tz::TimeZone;

use super::formula::Formula;
use super::rows::{self, REST};
use super::time::{self, Buckets};
use super::{By, Compare, Measure, MetricQuery, Query, QueryError, Step};
use crate::limits::{NAME_BYTES_MAX, QUERY_METRICS_MAX, QUERY_POINTS_MAX, QUERY_TOP, QUERY_TOP_MAX};
use crate::series::{Cut, EVENTS};
use crate::sessions::{PLAY_TIME, SESSION};

/// 2200-01-01T00:00Z. Far enough for any window, near enough that calendars never end.
const MINUTE_MAX: i64 = 120_968_640;
const DEFAULT_WINDOW_MINUTES: i64 = 24 * 60;
/// A player is online in the minute of an event and in this many more.
pub(super) const ONLINE_MINUTES_BEFORE: u32 = 2;
/// Metrics that are stored beside the events, but are not events themselves.
const NO_EVENTS: [&str; 3] = [EVENTS, SESSION, PLAY_TIME];
/// Nor are the counts of what was received.
const LOAD_PREFIX: &str = "$load.";

/// A query that has been checked, with its window fixed to the `now` it was planned at.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) step: Step,
    pub(super) zone: TimeZone,
    pub(super) tz: String,
    pub(super) buckets: Buckets,
    pub(super) compared: Option<Buckets>,
    pub(super) metrics: Vec<Metric>,
    pub(super) formula: Option<Formula>,
    pub(super) by: Vec<By>,
    /// The values asked for, by their place in what a row tells.
    pub(super) filter: Vec<(usize, Vec<String>)>,
    pub(super) cut: Cut,
    pub(super) top: usize,
}

/// A metric of the query in the store's terms.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Metric {
    pub name: String,
    pub source: Source,
    pub measured: Measured,
}

/// Which stored metrics.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    One(String),
    /// Each event of these names by itself.
    Events(Vec<String>),
    /// Each event there is by itself.
    EveryEvent,
}

/// What is computed of their cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Measured {
    Count,
    Sum,
    Min,
    Max,
    Avg,
    Uniques,
    Quantile(f64),
    Last,
    Online,
}

impl Measured {
    /// Rows of several dimensions have counts and values, but no players.
    fn counts_players(self) -> bool {
        matches!(self, Measured::Uniques | Measured::Online)
    }
}

impl Query {
    /// Checks the query and fixes its window. `game_tz` is the zone of a query that names none.
    pub fn plan(&self, now_ms: i64, game_tz: &str) -> Result<Plan, QueryError> {
        let tz = self.tz.as_deref().unwrap_or(game_tz);
        let zone = TimeZone::get(tz)
            .map_err(|_| QueryError::new("tz", format!("no time zone is called \"{tz}\"")))?;
        let cut = self.cut()?;
        let metrics = self.plan_metrics(cut)?;
        let top = self.plan_top()?;
        let window = self.window(now_ms, &zone)?;
        let step = self.step.unwrap_or_else(|| time::step_for(window.end - window.start));
        self.check_points(&window, step, top)?;
        let buckets = Buckets::cut(&zone, step, self.aligned(window, &zone, step));
        self.check_online_points(&metrics, &buckets, top)?;
        Ok(Plan {
            compared: self.compared(&buckets, &zone, step)?,
            formula: self.plan_formula(&metrics)?,
            by: self.by.clone(),
            filter: self.dimension_filter(),
            tz: zone.iana_name().unwrap_or(tz).to_owned(),
            step,
            zone,
            buckets,
            metrics,
            cut,
            top,
        })
    }

    /// The narrowest cut that knows all dimensions the query speaks of.
    fn cut(&self) -> Result<Cut, QueryError> {
        for (index, by) in self.by.iter().enumerate() {
            if self.by[..index].contains(by) {
                return Err(QueryError::new("by", format!("{} is there twice", by.label())));
            }
        }
        for (index, (by, values)) in self.filter.iter().enumerate() {
            let field = || format!("where.{}", by.label());
            if self.filter[..index].iter().any(|(other, _)| other == by) {
                return Err(QueryError::new(field(), "is there twice"));
            }
            if values.is_empty() {
                return Err(QueryError::new(field(), "needs at least one value"));
            }
        }
        let filtered = self.filter.iter().map(|(by, _)| by);
        let mut cuts: Vec<Cut> = self.by.iter().chain(filtered).filter_map(By::cut).collect();
        cuts.sort_unstable();
        cuts.dedup();
        match cuts[..] {
            [] => Ok(Cut::Total),
            [cut] => Ok(cut),
            _ => self.refuse_declared().map_or(Ok(Cut::Tuple), Err),
        }
    }

    /// Rows by all dimensions together know the built-in ones only.
    fn refuse_declared(&self) -> Option<QueryError> {
        let by = self.by.iter().map(|by| ("by".to_owned(), by));
        let filter = self.filter.iter().map(|(by, _)| (format!("where.{}", by.label()), by));
        let mut declared = by.chain(filter).filter(|(_, by)| matches!(by, By::Declared(_)));
        declared.next().map(|(field, by)| {
            let message = format!("{} goes with no other dimension; ask for it alone", by.label());
            QueryError::new(field, message)
        })
    }

    fn plan_metrics(&self, cut: Cut) -> Result<Vec<Metric>, QueryError> {
        if self.metrics.is_empty() {
            return Err(QueryError::new(
                "metric",
                "name one: an event, or events, players, sessions, views, plays, play_time_s, online",
            ));
        }
        if self.metrics.len() > QUERY_METRICS_MAX {
            return Err(QueryError::new(
                "metrics",
                format!("at most {QUERY_METRICS_MAX} metrics in one query"),
            ));
        }
        let mut metrics: Vec<Metric> = Vec::with_capacity(self.metrics.len());
        for (index, asked) in self.metrics.iter().enumerate() {
            let metric = self.plan_metric(asked, cut).map_err(|error| self.at_metric(index, error))?;
            if metrics.iter().any(|other| other.name == metric.name) {
                let message =
                    format!("two metrics are called \"{}\"; give them names of their own", metric.name);
                return Err(self.at_metric(index, QueryError::new("as", message)));
            }
            metrics.push(metric);
        }
        Ok(metrics)
    }

    /// The field as the request has it: `measure`, or `metrics[1].measure` if there are several.
    fn at_metric(&self, index: usize, error: QueryError) -> QueryError {
        let own = matches!(&error.field[..], "metric" | "measure" | "as");
        if self.metrics.len() == 1 || !own {
            return error;
        }
        QueryError { field: format!("metrics[{index}].{}", error.field), ..error }
    }

    fn plan_metric(&self, asked: &MetricQuery, cut: Cut) -> Result<Metric, QueryError> {
        if asked.metric.is_empty() || asked.metric.len() > NAME_BYTES_MAX {
            let message = format!("a metric's name has 1 to {NAME_BYTES_MAX} bytes");
            return Err(QueryError::new("metric", message));
        }
        let measured = measured(&asked.metric, asked.measure)?;
        if cut == Cut::Tuple && measured.counts_players() {
            let message = "players are not counted for several dimensions at a time; \
                           use one dimension in `by` and `where` together";
            return Err(QueryError::new("measure", message));
        }
        let name = asked.as_name.clone().unwrap_or_else(|| asked.metric.clone());
        Ok(Metric { name, source: self.source(&asked.metric, cut)?, measured })
    }

    fn source(&self, metric: &str, cut: Cut) -> Result<Source, QueryError> {
        let named = self.filter.iter().find(|(by, _)| *by == By::Event);
        let by_event = self.by.contains(&By::Event);
        if !by_event && named.is_none() {
            // All events together have no rows by several dimensions: they are the sum of those of each event.
            if cut == Cut::Tuple && stored_name(metric) == EVENTS {
                return Ok(Source::EveryEvent);
            }
            return Ok(Source::One(stored_name(metric).to_owned()));
        }
        if !matches!(metric, "events" | "players") {
            let field = if by_event { "by" } else { "where.event" };
            return Err(QueryError::new(field, "event goes with the metrics events and players only"));
        }
        Ok(match named {
            Some((_, events)) => {
                let mut events = without_repeats(events);
                events.retain(|event| is_event(event));
                Source::Events(events)
            }
            None => Source::EveryEvent,
        })
    }

    fn plan_top(&self) -> Result<usize, QueryError> {
        match self.top {
            None => Ok(QUERY_TOP),
            Some(top) if (1..=QUERY_TOP_MAX).contains(&top) => Ok(top),
            Some(_) => Err(QueryError::new("top", format!("has to be 1 to {QUERY_TOP_MAX}"))),
        }
    }

    /// The minutes asked for, before their start is moved to the start of a bucket.
    fn window(&self, now_ms: i64, zone: &TimeZone) -> Result<Range<u32>, QueryError> {
        let now = now_ms.div_euclid(60_000).saturating_add(1);
        if let Some(last) = self.last {
            if self.from_ms.is_some() || self.until_ms.is_some() {
                return Err(QueryError::new(
                    "last",
                    "ends now; leave out `from` and `to`, or leave out `last`",
                ));
            }
            let now = minute(now, "last")?;
            let from = time::before(zone, now, last).ok_or_else(|| out_of_range("last"))?;
            return Ok(from..now);
        }
        let until =
            self.until_ms.map_or(now, |until| until.div_euclid(60_000) + i64::from(until % 60_000 != 0));
        let from = self.from_ms.map_or(until - DEFAULT_WINDOW_MINUTES, |from| from.div_euclid(60_000));
        let (until, from) = (minute(until, "to")?, minute(from, "from")?);
        if from >= until {
            return Err(QueryError::new("from", "has to lie before `to`"));
        }
        Ok(from..until)
    }

    /// A window that ends now starts with a whole bucket, so that its first point is as good as the others.
    fn aligned(&self, window: Range<u32>, zone: &TimeZone, step: Step) -> Range<u32> {
        if self.last.is_none() || step == Step::All {
            return window;
        }
        let first = Buckets::cut(zone, step, window.start..window.start + 1);
        first.starts[0]..window.end
    }

    fn check_points(&self, window: &Range<u32>, step: Step, top: usize) -> Result<(), QueryError> {
        let times = (window.end - window.start).div_ceil(step.minutes_min()) as usize;
        let series = self.series_max(top) * self.metrics.len();
        if times * series <= QUERY_POINTS_MAX {
            return Ok(());
        }
        let message = format!(
            "{times} times in up to {series} series are more than {QUERY_POINTS_MAX} points; \
             take a wider step, a shorter window or a smaller top"
        );
        Err(QueryError::new("step", message))
    }

    /// Players online are counted minute by minute, whatever the step.
    fn check_online_points(
        &self,
        metrics: &[Metric],
        buckets: &Buckets,
        top: usize,
    ) -> Result<(), QueryError> {
        let online = metrics.iter().filter(|metric| metric.measured == Measured::Online).count();
        let minutes = buckets.window().len();
        if minutes * self.series_max(top) * online <= QUERY_POINTS_MAX {
            return Ok(());
        }
        let field = if self.last.is_some() { "last" } else { "from" };
        let message = format!(
            "online is counted by the minute, and {minutes} minutes are too many; take a shorter window"
        );
        Err(QueryError::new(field, message))
    }

    fn series_max(&self, top: usize) -> usize {
        if self.by.is_empty() { 1 } else { top + 1 }
    }

    fn compared(
        &self,
        buckets: &Buckets,
        zone: &TimeZone,
        step: Step,
    ) -> Result<Option<Buckets>, QueryError> {
        let compared = match self.compare {
            None => return Ok(None),
            Some(Compare::Previous) => buckets.previous(zone, step),
            Some(Compare::Year) => buckets.year_before(zone, step),
        };
        let too_early = || QueryError::new("compare", "the other window would begin before 1970");
        compared.map(Some).ok_or_else(too_early)
    }

    fn plan_formula(&self, metrics: &[Metric]) -> Result<Option<Formula>, QueryError> {
        let Some(text) = &self.formula else { return Ok(None) };
        let names: Vec<&str> = metrics.iter().map(|metric| &metric.name[..]).collect();
        Formula::parse(text, &names).map(Some)
    }

    fn dimension_filter(&self) -> Vec<(usize, Vec<String>)> {
        let of_dimension =
            |(by, values): &(By, Vec<String>)| Some((rows::place(by)?, without_repeats(values)));
        self.filter.iter().filter_map(of_dimension).collect()
    }
}

impl Plan {
    /// Whether a change of this stored metric can change the answer.
    pub fn touches(&self, metric: &str) -> bool {
        self.metrics.iter().any(|own| match &own.source {
            Source::One(name) => name == metric,
            Source::Events(names) => names.iter().any(|name| name == metric),
            Source::EveryEvent => is_event(metric),
        })
    }

    /// The stored metrics that it reads; `None` stands for every event of the game.
    pub fn sources(&self) -> Vec<Option<&str>> {
        let mut sources = Vec::new();
        for metric in &self.metrics {
            match &metric.source {
                Source::One(name) => sources.push(Some(&name[..])),
                Source::Events(names) => sources.extend(names.iter().map(|name| Some(&name[..]))),
                Source::EveryEvent => sources.push(None),
            }
        }
        sources
    }

    /// How the rows it reads are cut.
    pub fn cut(&self) -> Cut {
        self.cut
    }

    /// Whether it reads slots of these minutes, in its window or in the one it is compared with.
    pub fn touches_minutes(&self, minutes: &Range<u32>) -> bool {
        let online = self.metrics.iter().any(|metric| metric.measured == Measured::Online);
        let before = if online { ONLINE_MINUTES_BEFORE } else { 0 };
        let meets = |buckets: &Buckets| {
            let window = buckets.window();
            minutes.start < window.end && window.start.saturating_sub(before) < minutes.end
        };
        meets(&self.buckets) || self.compared.as_ref().is_some_and(meets)
    }

    /// Width of a bucket, chosen if the query left it open.
    pub fn step(&self) -> Step {
        self.step
    }

    /// The minutes since 1970-01-01 UTC that the series count.
    pub fn window(&self) -> Range<u32> {
        self.buckets.window()
    }
}

impl Plan {
    /// The rows that the store should visit; `None`: all.
    pub(super) fn row_values(&self) -> Option<Vec<&str>> {
        match self.cut {
            Cut::By(_) | Cut::Declared(_) => {
                self.filter.first().map(|(_, values)| values.iter().map(|value| &value[..]).collect())
            }
            Cut::Total | Cut::Tuple => None,
        }
    }

    /// A series that is never more than one stored row.
    pub(super) fn is_one_row(&self, metric: &Metric, series: usize) -> bool {
        let one_metric = matches!(metric.source, Source::One(_)) || self.by.contains(&By::Event);
        let one_value = match self.cut {
            Cut::Total => true,
            Cut::By(_) | Cut::Declared(_) => {
                let filter = self.filter.first().is_some_and(|(_, values)| values.len() == 1);
                filter || self.by.iter().any(|by| *by != By::Event)
            }
            Cut::Tuple => false,
        };
        one_metric && one_value && (series != REST || self.by.is_empty())
    }
}

/// Whether a stored metric is an event of the game.
pub fn is_event(metric: &str) -> bool {
    !NO_EVENTS.contains(&metric) && !metric.starts_with(LOAD_PREFIX)
}

fn measured(metric: &str, measure: Option<Measure>) -> Result<Measured, QueryError> {
    let measured = match (metric, measure) {
        ("players", None | Some(Measure::Uniques | Measure::Count)) => Measured::Uniques,
        ("online", None | Some(Measure::Uniques | Measure::Count)) => Measured::Online,
        ("events", None | Some(Measure::Count)) => Measured::Count,
        ("events", Some(Measure::Uniques)) => Measured::Uniques,
        ("players" | "online", _) => return Err(no_values(metric, "leave `measure` out")),
        ("events", _) => return Err(no_values(metric, "ask for count or uniques, or name an event")),
        ("play_time_s", None) => Measured::Sum,
        (_, measure) => of_values(measure.unwrap_or(Measure::Count)),
    };
    Ok(measured)
}

fn of_values(measure: Measure) -> Measured {
    match measure {
        Measure::Count => Measured::Count,
        Measure::Sum => Measured::Sum,
        Measure::Min => Measured::Min,
        Measure::Max => Measured::Max,
        Measure::Avg => Measured::Avg,
        Measure::Uniques => Measured::Uniques,
        Measure::P10 => Measured::Quantile(0.1),
        Measure::P50 => Measured::Quantile(0.5),
        Measure::P90 => Measured::Quantile(0.9),
        Measure::P99 => Measured::Quantile(0.99),
        Measure::Last => Measured::Last,
    }
}

/// Where the store keeps a metric of this name.
fn stored_name(metric: &str) -> &str {
    match metric {
        "events" | "players" | "online" => EVENTS,
        "sessions" => SESSION,
        "views" => "$view",
        "plays" => "$play",
        "play_time_s" => PLAY_TIME,
        event => event,
    }
}

/// A value asked for twice must not count twice.
fn without_repeats(values: &[String]) -> Vec<String> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.dedup();
    values
}

fn minute(minute: i64, field: &str) -> Result<u32, QueryError> {
    let minute = Some(minute).filter(|minute| (0..=MINUTE_MAX).contains(minute));
    minute.map(|minute| minute as u32).ok_or_else(|| out_of_range(field))
}

fn out_of_range(field: &str) -> QueryError {
    QueryError::new(field, "has to lie between the years 1970 and 2200")
}

fn no_values(metric: &str, instead: &str) -> QueryError {
    QueryError::new("measure", format!("{metric} has no values to measure; {instead}"))
}
