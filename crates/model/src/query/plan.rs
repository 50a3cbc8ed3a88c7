//! Planning and validation of queries.

use std::ops::Range;

use jiff::tz::TimeZone;

use super::formula::Formula;
use super::series_index::{self, REST};
use super::time::{self, Buckets};
use super::{CompareWith, Measure, MetricQuery, Query, QueryDimension, QueryError, Step};
use crate::limits::{NAME_BYTES_MAX, QUERY_METRICS_MAX, QUERY_POINTS_MAX, QUERY_TOP, QUERY_TOP_MAX};
use crate::series::{Cut, EVENTS, SAMPLES};
use crate::sessions::{PLAY_TIME, SESSION};

/// 2200-01-01T00:00Z: late enough for any window, early enough to stay within the calendar's range.
const MINUTE_MAX: i64 = 120_968_640;
const DEFAULT_WINDOW_MINUTES: i64 = 24 * 60;
/// A player counts as online in the minute of an event and in this many minutes after it.
pub(super) const ONLINE_MINUTES_BEFORE: u32 = 2;
/// Metrics that are stored like events but are not events of the game.
const NON_EVENT_METRICS: [&str; 4] = [EVENTS, SESSION, PLAY_TIME, SAMPLES];
/// The prefix of the metrics of ingest accounting, which are not events either.
const LOAD_PREFIX: &str = "$load.";

/// A validated query, with its window fixed at the time of planning.
#[derive(Clone, Debug)]
pub struct QueryPlan {
    pub(super) step: Step,
    pub(super) zone: TimeZone,
    pub(super) tz: String,
    pub(super) buckets: Buckets,
    pub(super) compared: Option<Buckets>,
    pub(super) metrics: Vec<PlannedMetric>,
    pub(super) formula: Option<Formula>,
    pub(super) by: Vec<QueryDimension>,
    /// The requested values, by the index of the dimension in a row.
    pub(super) filter: Vec<(usize, Vec<String>)>,
    pub(super) cut: Cut,
    pub(super) top: usize,
}

/// A metric of the query, resolved to stored metrics.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlannedMetric {
    pub name: String,
    pub source: MetricSource,
    pub computation: Computation,
}

/// The stored metrics to read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MetricSource {
    One(String),
    /// Each of these events separately.
    Events(Vec<String>),
    /// Each event of the game separately.
    EveryEvent,
}

/// The computation on the aggregates of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Computation {
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

impl Computation {
    /// Returns true if the computation needs players, which rows of several dimensions do not have.
    fn needs_players(self) -> bool {
        matches!(self, Computation::Uniques | Computation::Online)
    }
}

impl Query {
    /// Validates the query and fixes its window. `game_tz` is the time zone of queries that set none.
    pub fn plan(&self, now_ms: i64, game_tz: &str) -> Result<QueryPlan, QueryError> {
        let tz = self.tz.as_deref().unwrap_or(game_tz);
        let zone = TimeZone::get(tz).map_err(|_| {
            QueryError::new(
                "tz",
                format!("unknown time zone \"{tz}\"; use an IANA name such as Europe/Paris"),
            )
        })?;
        let cut = self.cut()?;
        let metrics = self.plan_metrics(cut)?;
        let top = self.plan_top()?;
        let window = self.window(now_ms, &zone)?;
        let step = self.step.unwrap_or_else(|| time::step_for(window.end - window.start));
        self.check_points(&window, step, top)?;
        let buckets = Buckets::cut(&zone, step, self.aligned(window, &zone, step));
        self.check_online_points(&metrics, &buckets, top)?;
        Ok(QueryPlan {
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

    /// Returns the narrowest cut that contains all dimensions of the query.
    fn cut(&self) -> Result<Cut, QueryError> {
        for (index, by) in self.by.iter().enumerate() {
            if self.by[..index].contains(by) {
                return Err(QueryError::new("by", format!("{} is listed twice", by.label())));
            }
        }
        for (index, (by, values)) in self.filter.iter().enumerate() {
            let field = || format!("where.{}", by.label());
            if self.filter[..index].iter().any(|(other, _)| other == by) {
                return Err(QueryError::new(field(), "is set twice; list all values in one filter"));
            }
            if values.is_empty() {
                return Err(QueryError::new(field(), "must have at least one value"));
            }
        }
        let filtered = self.filter.iter().map(|(by, _)| by);
        let mut cuts: Vec<Cut> = self.by.iter().chain(filtered).filter_map(QueryDimension::cut).collect();
        cuts.sort_unstable();
        cuts.dedup();
        match cuts[..] {
            [] => Ok(Cut::Total),
            [cut] => Ok(cut),
            _ => self.declared_combination_error().map_or(Ok(Cut::Tuple), Err),
        }
    }

    /// Returns an error if the query combines a declared dimension with another: only built-in dimensions are in the
    /// rows of combinations.
    fn declared_combination_error(&self) -> Option<QueryError> {
        let by = self.by.iter().map(|by| ("by".to_owned(), by));
        let filter = self.filter.iter().map(|(by, _)| (format!("where.{}", by.label()), by));
        let mut declared = by.chain(filter).filter(|(_, by)| matches!(by, QueryDimension::Declared(_)));
        declared.next().map(|(field, by)| {
            let message = format!("{} cannot be combined with another dimension; query it alone", by.label());
            QueryError::new(field, message)
        })
    }

    fn plan_metrics(&self, cut: Cut) -> Result<Vec<PlannedMetric>, QueryError> {
        if self.metrics.is_empty() {
            return Err(QueryError::new(
                "metric",
                "is required; use an event name or one of events, players, sessions, views, plays, play_time_s, online",
            ));
        }
        if self.metrics.len() > QUERY_METRICS_MAX {
            return Err(QueryError::new("metrics", format!("must have at most {QUERY_METRICS_MAX} entries")));
        }
        let mut metrics: Vec<PlannedMetric> = Vec::with_capacity(self.metrics.len());
        for (index, requested) in self.metrics.iter().enumerate() {
            let metric =
                self.plan_metric(requested, cut).map_err(|error| self.with_metric_index(index, error))?;
            if metrics.iter().any(|other| other.name == metric.name) {
                let message =
                    format!("two metrics are named \"{}\"; set a different `as` for each", metric.name);
                return Err(self.with_metric_index(index, QueryError::new("as", message)));
            }
            metrics.push(metric);
        }
        Ok(metrics)
    }

    /// Adds the index of the metric to the field, such as `metrics[1].measure`, if the query has several metrics.
    fn with_metric_index(&self, index: usize, error: QueryError) -> QueryError {
        let own = matches!(&error.field[..], "metric" | "measure" | "as");
        if self.metrics.len() == 1 || !own {
            return error;
        }
        QueryError { field: format!("metrics[{index}].{}", error.field), ..error }
    }

    fn plan_metric(&self, requested: &MetricQuery, cut: Cut) -> Result<PlannedMetric, QueryError> {
        if requested.metric.is_empty() || requested.metric.len() > NAME_BYTES_MAX {
            let message = format!("must be between 1 and {NAME_BYTES_MAX} bytes long");
            return Err(QueryError::new("metric", message));
        }
        let computation = computation(&requested.metric, requested.measure)?;
        if cut == Cut::Tuple && computation.needs_players() {
            let message = "players cannot be counted over several dimensions; \
                           use a single dimension in `by` and `where`";
            return Err(QueryError::new("measure", message));
        }
        let name = requested.as_name.clone().unwrap_or_else(|| requested.metric.clone());
        Ok(PlannedMetric { name, source: self.source(&requested.metric, cut)?, computation })
    }

    fn source(&self, metric: &str, cut: Cut) -> Result<MetricSource, QueryError> {
        let named = self.filter.iter().find(|(by, _)| *by == QueryDimension::Event);
        let by_event = self.by.contains(&QueryDimension::Event);
        if !by_event && named.is_none() {
            // All events together have no rows by combination: those would be the sum of the rows of each event.
            if cut == Cut::Tuple && stored_name(metric) == EVENTS {
                return Ok(MetricSource::EveryEvent);
            }
            return Ok(MetricSource::One(stored_name(metric).to_owned()));
        }
        if !matches!(metric, "events" | "players") {
            let field = if by_event { "by" } else { "where.event" };
            return Err(QueryError::new(field, "event is supported only for the metrics events and players"));
        }
        Ok(match named {
            Some((_, events)) => {
                let mut events = deduplicated(events);
                events.retain(|event| is_event(event));
                MetricSource::Events(events)
            }
            None => MetricSource::EveryEvent,
        })
    }

    fn plan_top(&self) -> Result<usize, QueryError> {
        match self.top {
            None => Ok(QUERY_TOP),
            Some(top) if (1..=QUERY_TOP_MAX).contains(&top) => Ok(top),
            Some(_) => Err(QueryError::new("top", format!("must be between 1 and {QUERY_TOP_MAX}"))),
        }
    }

    /// Returns the requested minutes, before the start is aligned to a bucket.
    fn window(&self, now_ms: i64, zone: &TimeZone) -> Result<Range<u32>, QueryError> {
        let now = now_ms.div_euclid(60_000).saturating_add(1);
        if let Some(last) = self.last {
            if self.from_ms.is_some() || self.until_ms.is_some() {
                return Err(QueryError::new(
                    "last",
                    "cannot be combined with `from` or `to`; remove `last` or both of them",
                ));
            }
            let now = minute(now, "last")?;
            let from = time::minutes_before(zone, now, last).ok_or_else(|| out_of_range("last"))?;
            return Ok(from..now);
        }
        let until =
            self.until_ms.map_or(now, |until| until.div_euclid(60_000) + i64::from(until % 60_000 != 0));
        let from = self.from_ms.map_or(until - DEFAULT_WINDOW_MINUTES, |from| from.div_euclid(60_000));
        let (until, from) = (minute(until, "to")?, minute(from, "from")?);
        if from >= until {
            return Err(QueryError::new("from", "must be before `to`"));
        }
        Ok(from..until)
    }

    /// Moves the start of a window that ends now to the start of a bucket, so that the first point is complete.
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
            "{times} buckets in up to {series} series exceed {QUERY_POINTS_MAX} points; \
             use a wider step, a shorter window or a smaller `top`"
        );
        Err(QueryError::new("step", message))
    }

    /// Online players are counted minute by minute, whatever the step.
    fn check_online_points(
        &self,
        metrics: &[PlannedMetric],
        buckets: &Buckets,
        top: usize,
    ) -> Result<(), QueryError> {
        let online = metrics.iter().filter(|metric| metric.computation == Computation::Online).count();
        let minutes = buckets.window().len();
        if minutes * self.series_max(top) * online <= QUERY_POINTS_MAX {
            return Ok(());
        }
        let field = if self.last.is_some() { "last" } else { "from" };
        let message = format!(
            "online is counted per minute and {minutes} minutes exceed the limit; use a shorter window"
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
            Some(CompareWith::Previous) => buckets.previous(zone, step),
            Some(CompareWith::Year) => buckets.year_before(zone, step),
        };
        let too_early = || QueryError::new("compare", "the compared window would start before 1970");
        compared.map(Some).ok_or_else(too_early)
    }

    fn plan_formula(&self, metrics: &[PlannedMetric]) -> Result<Option<Formula>, QueryError> {
        let Some(text) = &self.formula else { return Ok(None) };
        let names: Vec<&str> = metrics.iter().map(|metric| &metric.name[..]).collect();
        Formula::parse(text, &names).map(Some)
    }

    fn dimension_filter(&self) -> Vec<(usize, Vec<String>)> {
        let of_dimension = |(by, values): &(QueryDimension, Vec<String>)| {
            Some((series_index::position(by)?, deduplicated(values)))
        };
        self.filter.iter().filter_map(of_dimension).collect()
    }
}

impl QueryPlan {
    /// Returns the stored metrics that the plan reads; `None` stands for every event of the game.
    pub fn sources(&self) -> Vec<Option<&str>> {
        let mut sources = Vec::new();
        for metric in &self.metrics {
            match &metric.source {
                MetricSource::One(name) => sources.push(Some(&name[..])),
                MetricSource::Events(names) => sources.extend(names.iter().map(|name| Some(&name[..]))),
                MetricSource::EveryEvent => sources.push(None),
            }
        }
        sources
    }

    /// Returns the cut of the rows that the plan reads.
    pub fn cut(&self) -> Cut {
        self.cut
    }

    /// Returns the window, in minutes since 1970-01-01 UTC.
    pub fn window(&self) -> Range<u32> {
        self.buckets.window()
    }
}

impl QueryPlan {
    /// Returns the rows that the store should visit; `None` for all.
    pub(super) fn row_values(&self) -> Option<Vec<&str>> {
        match self.cut {
            Cut::By(_) | Cut::Declared(_) => {
                self.filter.first().map(|(_, values)| values.iter().map(|value| &value[..]).collect())
            }
            Cut::Total | Cut::Tuple => None,
        }
    }

    /// Returns true if a series consists of at most one stored row.
    pub(super) fn is_one_row(&self, metric: &PlannedMetric, series: usize) -> bool {
        let one_metric =
            matches!(metric.source, MetricSource::One(_)) || self.by.contains(&QueryDimension::Event);
        let one_value = match self.cut {
            Cut::Total => true,
            Cut::By(_) | Cut::Declared(_) => {
                let filter = self.filter.first().is_some_and(|(_, values)| values.len() == 1);
                filter || self.by.iter().any(|by| *by != QueryDimension::Event)
            }
            Cut::Tuple => false,
        };
        one_metric && one_value && (series != REST || self.by.is_empty())
    }
}

/// Returns true if a stored metric is an event of the game.
pub fn is_event(metric: &str) -> bool {
    !NON_EVENT_METRICS.contains(&metric) && !metric.starts_with(LOAD_PREFIX)
}

fn computation(metric: &str, measure: Option<Measure>) -> Result<Computation, QueryError> {
    let computation = match (metric, measure) {
        ("players", None | Some(Measure::Uniques | Measure::Count)) => Computation::Uniques,
        ("online", None | Some(Measure::Uniques | Measure::Count)) => Computation::Online,
        ("events", None | Some(Measure::Count)) => Computation::Count,
        ("events", Some(Measure::Uniques)) => Computation::Uniques,
        ("players" | "online", _) => return Err(no_values(metric, "remove `measure`")),
        ("events", _) => return Err(no_values(metric, "use count or uniques, or name an event")),
        ("play_time_s", None) => Computation::Sum,
        (_, measure) => value_computation(measure.unwrap_or(Measure::Count)),
    };
    Ok(computation)
}

fn value_computation(measure: Measure) -> Computation {
    match measure {
        Measure::Count => Computation::Count,
        Measure::Sum => Computation::Sum,
        Measure::Min => Computation::Min,
        Measure::Max => Computation::Max,
        Measure::Avg => Computation::Avg,
        Measure::Uniques => Computation::Uniques,
        Measure::P10 => Computation::Quantile(0.1),
        Measure::P50 => Computation::Quantile(0.5),
        Measure::P90 => Computation::Quantile(0.9),
        Measure::P99 => Computation::Quantile(0.99),
        Measure::Last => Computation::Last,
    }
}

/// Returns the name under which the store keeps a metric.
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

/// Removes repeated values, which must not count twice.
fn deduplicated(values: &[String]) -> Vec<String> {
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
    QueryError::new(field, "must be between the years 1970 and 2200")
}

fn no_values(metric: &str, instead: &str) -> QueryError {
    QueryError::new("measure", format!("{metric} has no values to measure; {instead}"))
}
