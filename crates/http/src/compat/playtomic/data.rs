//! The data API: totals of a day, a month, a year or all time. Must be enabled per game.

use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use model::query::{Measure, MetricQuery, Query, QueryDimension, Step};
use pipeline::ingest::level_measure_label;

use super::code::ReplyCode;
use super::format;
use super::reply::Reply;
use super::request::{PlaytomicRequest, ReplyResult};
use crate::api::query::run_query;

/// Start and end in milliseconds since 1970.
type TimeRange = (i64, i64);

/// The distinct values of a ranged metric in one reply.
const VALUES_MAX: usize = 1_000;
/// The start of all time: earlier than the first Playtomic game.
const FIRST_YEAR: i16 = 2000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DataParams {
    /// SDKs repeat the action here.
    #[serde(rename = "type")]
    _kind: Option<String>,
    /// A custom metric of the game.
    metric: Option<String>,
    level: Option<String>,
    // 0 in `day`, `month` or `year` selects the longer period.
    #[serde(default)]
    day: i8,
    #[serde(default)]
    month: i8,
    #[serde(default)]
    year: i16,
}

/// Handles an action of the section `data`.
pub(super) async fn handle(request: &PlaytomicRequest<'_>, action: &str, params: DataParams) -> ReplyResult {
    if !request.access.game.playtomic.data_api {
        return Err(Reply::error(ReplyCode::DataDisabled));
    }
    let range = time_range(&params, &request.access.game.tz).ok_or_else(|| invalid("no such date"))?;
    let value = match action {
        "views" => request.total("views", None, range).await?,
        "plays" => request.total("plays", None, range).await?,
        "playtime" => request.play_time_s(range).await?,
        "custommetric" => {
            let metric = params.metric.filter(|metric| !metric.is_empty());
            let metric = metric.ok_or_else(|| invalid("`metric` is missing"))?;
            request.total(&metric, None, range).await?
        }
        "levelcountermetric" => {
            let measure = level_measure(&params)?;
            request.level_metric(&measure, Measure::Count, range).await?.unwrap_or(0.0)
        }
        "levelaveragemetric" => return request.average(&level_measure(&params)?, range).await,
        "levelrangedmetric" => return request.ranged(&level_measure(&params)?, range).await,
        _ => return Err(invalid(&format!("unknown action `data.{action}`"))),
    };
    Ok(Reply::ok(value_body(format::number(value))))
}

fn value_body(value: Value) -> Map<String, Value> {
    Map::from_iter([("value".to_owned(), value)])
}

/// Returns the value of the `measure` dimension that ingest adds to level metrics.
fn level_measure(params: &DataParams) -> Result<String, Reply> {
    let required = |text: &Option<String>, name: &str| {
        let text = text.clone().filter(|text| !text.is_empty());
        text.ok_or_else(|| invalid(&format!("`{name}` is missing")))
    };
    Ok(level_measure_label(&required(&params.metric, "metric")?, &required(&params.level, "level")?))
}

impl PlaytomicRequest<'_> {
    /// Returns `{min, max, average, total}` of a measure.
    async fn average(&self, measure: &str, range: TimeRange) -> ReplyResult {
        let mut body = Map::new();
        let measures = [
            ("min", Measure::Min),
            ("max", Measure::Max),
            ("average", Measure::Avg),
            ("total", Measure::Sum),
        ];
        for (name, statistic) in measures {
            let value = self.level_metric(measure, statistic, range).await?.unwrap_or(0.0);
            body.insert(name.to_owned(), format::number(value));
        }
        Ok(Reply::ok(body))
    }

    /// Returns the count of each value of a ranged measure, in the order of the values.
    async fn ranged(&self, measure: &str, range: TimeRange) -> ReplyResult {
        let (by, prefix) = (by_measure(), format!("{measure}="));
        let query =
            Query { by: vec![by], top: Some(VALUES_MAX), ..level_metric_query(Measure::Count, range) };
        let result = self.query(query).await?;
        let rows = result.series.iter().filter_map(|series| {
            let value: f64 = series.key.first()?.1.strip_prefix(&prefix)?.parse().ok()?;
            Some((value, series.total.unwrap_or(0.0)))
        });
        let mut rows: Vec<(f64, f64)> = rows.collect();
        rows.sort_by(|one, other| one.0.total_cmp(&other.0));
        let row =
            |(value, count)| json!({ "trackvalue": format::number(value), "value": format::number(count) });
        Ok(Reply::ok(value_body(rows.into_iter().map(row).collect())))
    }

    async fn level_metric(
        &self,
        measure: &str,
        statistic: Measure,
        range: TimeRange,
    ) -> Result<Option<f64>, Reply> {
        let filter = vec![(by_measure(), vec![measure.to_owned()])];
        let result = self.query(Query { filter, ..level_metric_query(statistic, range) }).await?;
        Ok(result.series.first().and_then(|series| series.total))
    }

    /// Returns the play time in seconds: that of player sessions plus that of the pings of old SDKs.
    async fn play_time_s(&self, range: TimeRange) -> Result<f64, Reply> {
        let sessions = self.total("play_time_s", None, range).await?;
        let first = self.total("$session_start", Some(Measure::Sum), range).await?;
        Ok(sessions + first + self.total("$ping", Some(Measure::Sum), range).await?)
    }

    /// Returns one number over a time range.
    async fn total(&self, metric: &str, measure: Option<Measure>, range: TimeRange) -> Result<f64, Reply> {
        let metric = MetricQuery { as_name: None, metric: metric.to_owned(), measure };
        let query = Query {
            metrics: vec![metric],
            from_ms: Some(range.0),
            until_ms: Some(range.1),
            step: Some(Step::All),
            ..Query::default()
        };
        let result = self.query(query).await?;
        Ok(result.series.first().and_then(|series| series.total).unwrap_or(0.0))
    }

    /// Runs a query. The result includes everything that was acknowledged before.
    async fn query(&self, query: Query) -> Result<model::query::QueryResult, Reply> {
        let result =
            run_query(&self.runtime.shared, &self.access, query, self.received_ms, |result, _| result).await;
        result.map_err(|problem| match problem.status() {
            400 => invalid(problem.detail()),
            _ => Reply::error_with(ReplyCode::General, problem.detail()),
        })
    }
}

fn by_measure() -> QueryDimension {
    QueryDimension::from_label("measure", &[]).expect("every game has this dimension")
}

fn level_metric_query(measure: Measure, range: TimeRange) -> Query {
    let metric = MetricQuery { as_name: None, metric: "$level_metric".to_owned(), measure: Some(measure) };
    Query {
        metrics: vec![metric],
        from_ms: Some(range.0),
        until_ms: Some(range.1),
        step: Some(Step::All),
        ..Query::default()
    }
}

/// Returns the requested days in the time zone of the game, or `None` if there is no such date.
fn time_range(params: &DataParams, tz: &str) -> Option<TimeRange> {
    let DataParams { day, month, year, .. } = *params;
    let (first, span) = match (year, month, day) {
        (0, 0, 0) => (Date::new(FIRST_YEAR, 1, 1).ok()?, 100.years()),
        (year, 0, 0) => (Date::new(year, 1, 1).ok()?, 1.year()),
        (year, month, 0) => (Date::new(year, month, 1).ok()?, 1.month()),
        (year, month, day) => (Date::new(year, month, day).ok()?, 1.day()),
    };
    let zone = TimeZone::get(tz).ok()?;
    let ms = |date: Date| Some(date.to_zoned(zone.clone()).ok()?.timestamp().as_millisecond());
    Some((ms(first)?, ms(first.checked_add(span).ok()?)?))
}

fn invalid(detail: &str) -> Reply {
    Reply::error_with(ReplyCode::InvalidRequest, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(day: i8, month: i8, year: i16, expected: Option<(&str, &str)>) {
        let params = DataParams { _kind: None, metric: None, level: None, day, month, year };
        let text = |ms: i64| pipeline::time::rfc3339(ms);
        let range = time_range(&params, "Europe/Paris").map(|(from, until)| (text(from), text(until)));
        assert_eq!(range, expected.map(|(from, until)| (from.to_owned(), until.to_owned())));
    }

    #[test]
    fn range_is_in_the_time_zone_of_the_game() {
        check(29, 3, 2026, Some(("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z")));
        check(0, 2, 2024, Some(("2024-01-31T23:00:00Z", "2024-02-29T23:00:00Z")));
        check(0, 0, 2026, Some(("2025-12-31T23:00:00Z", "2026-12-31T23:00:00Z")));
        check(0, 0, 0, Some(("1999-12-31T23:00:00Z", "2099-12-31T23:00:00Z")));
        check(30, 2, 2026, None);
        check(1, 0, 2026, None);
    }
}
