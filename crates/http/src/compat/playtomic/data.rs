//! The data API: totals of a day, a month, a year or all time, for games whose clients may ask for them.

use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use model::query::{Measure, MetricQuery, Query, QueryDimension, Step, run};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::asked::{Answered, Asked};
use super::code::{Code, Reply};
use super::words;
use pipeline::ingest::level_measure_label;

/// Start and end, milliseconds since 1970.
type Window = (i64, i64);

/// Different measures, levels and values of one answer.
const VALUES_MAX: usize = 1_000;
/// Before the first of these games was made.
const FIRST_YEAR: i16 = 2000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Totals {
    /// SDKs repeat the action here.
    #[serde(rename = "type")]
    _kind: Option<String>,
    /// Which metric of the game's own.
    metric: Option<String>,
    /// Of which level.
    level: Option<String>,
    /// 0 in each of these: not that fine.
    #[serde(default)]
    day: i8,
    #[serde(default)]
    month: i8,
    #[serde(default)]
    year: i16,
}

/// Answers an action of the section `data`.
pub(super) async fn answer(asked: &Asked<'_>, action: &str, totals: Totals) -> Answered {
    if !asked.access.game.playtomic.data_api {
        return Err(Reply::fails(Code::DataDisabled));
    }
    let window = window(&totals, &asked.access.game.tz).ok_or_else(|| invalid("there is no such day"))?;
    let value = match action {
        "views" => asked.total("views", None, window).await?,
        "plays" => asked.total("plays", None, window).await?,
        "playtime" => asked.play_time_s(window).await?,
        "custommetric" => {
            let metric = totals.metric.filter(|metric| !metric.is_empty());
            let metric = metric.ok_or_else(|| invalid("`metric` is missing"))?;
            asked.total(&metric, None, window).await?
        }
        "levelcountermetric" => {
            let measure = measure_of(&totals)?;
            asked.measured(&measure, Measure::Count, window).await?.unwrap_or(0.0)
        }
        "levelaveragemetric" => return asked.average(&measure_of(&totals)?, window).await,
        "levelrangedmetric" => return asked.ranged(&measure_of(&totals)?, window).await,
        _ => return Err(invalid(&format!("there is no `data.{action}`"))),
    };
    Ok(Reply::ok(valued(words::number(value))))
}

fn valued(value: Value) -> Map<String, Value> {
    Map::from_iter([("value".to_owned(), value)])
}

/// The measure of a level as the line stamps it.
fn measure_of(totals: &Totals) -> Result<String, Reply> {
    let given = |text: &Option<String>, name: &str| {
        let text = text.clone().filter(|text| !text.is_empty());
        text.ok_or_else(|| invalid(&format!("`{name}` is missing")))
    };
    Ok(level_measure_label(&given(&totals.metric, "metric")?, &given(&totals.level, "level")?))
}

impl Asked<'_> {
    /// `{min, max, average, total}` of a measure.
    async fn average(&self, measure: &str, window: Window) -> Answered {
        let mut body = Map::new();
        let measures = [
            ("min", Measure::Min),
            ("max", Measure::Max),
            ("average", Measure::Avg),
            ("total", Measure::Sum),
        ];
        for (name, of) in measures {
            let value = self.measured(measure, of, window).await?.unwrap_or(0.0);
            body.insert(name.to_owned(), words::number(value));
        }
        Ok(Reply::ok(body))
    }

    /// How often each value of a ranged measure came, in the order of the values.
    async fn ranged(&self, measure: &str, window: Window) -> Answered {
        let (by, prefix) = (by_measure(), format!("{measure}="));
        let query = Query { by: vec![by], top: Some(VALUES_MAX), ..of_measures(Measure::Count, window) };
        let answer = self.ask(query).await?;
        let rows = answer.series.iter().filter_map(|series| {
            let value: f64 = series.key.first()?.1.strip_prefix(&prefix)?.parse().ok()?;
            Some((value, series.total.unwrap_or(0.0)))
        });
        let mut rows: Vec<(f64, f64)> = rows.collect();
        rows.sort_by(|one, other| one.0.total_cmp(&other.0));
        let row =
            |(value, count)| json!({ "trackvalue": words::number(value), "value": words::number(count) });
        Ok(Reply::ok(valued(rows.into_iter().map(row).collect())))
    }

    async fn measured(&self, measure: &str, of: Measure, window: Window) -> Result<Option<f64>, Reply> {
        let filter = vec![(by_measure(), vec![measure.to_owned()])];
        let answer = self.ask(Query { filter, ..of_measures(of, window) }).await?;
        Ok(answer.series.first().and_then(|series| series.total))
    }

    /// Seconds of play: what sessions of players came to, and what the heartbeats of the old SDKs prove.
    async fn play_time_s(&self, window: Window) -> Result<f64, Reply> {
        let sessions = self.total("play_time_s", None, window).await?;
        let first = self.total("$session_start", Some(Measure::Sum), window).await?;
        Ok(sessions + first + self.total("$ping", Some(Measure::Sum), window).await?)
    }

    /// One number over a window.
    async fn total(&self, metric: &str, measure: Option<Measure>, window: Window) -> Result<f64, Reply> {
        let metric = MetricQuery { as_name: None, metric: metric.to_owned(), measure };
        let query = Query {
            metrics: vec![metric],
            from_ms: Some(window.0),
            until_ms: Some(window.1),
            step: Some(Step::All),
            ..Query::default()
        };
        let answer = self.ask(query).await?;
        Ok(answer.series.first().and_then(|series| series.total).unwrap_or(0.0))
    }

    /// Asks. The answer includes everything that was acknowledged before.
    async fn ask(&self, query: Query) -> Result<model::query::QueryResult, Reply> {
        let shared = &self.local.shared;
        let acknowledged = shared.log.durable_until();
        let plan = query.plan(self.received_ms, &self.access.game.tz);
        let plan = plan.map_err(|error| invalid(&error.to_string()))?;
        shared.views.caught_up(acknowledged).await;
        let links = shared.views.identities.game(self.access.game.number);
        let answer = run(&plan, self.access.game.number, &*shared.views.counters, links.as_deref());
        answer.map_err(|failure| Reply::fails_because(Code::General, &failure.to_string()))
    }
}

fn by_measure() -> QueryDimension {
    QueryDimension::from_label("measure", &[]).expect("every game has this dimension")
}

fn of_measures(measure: Measure, window: Window) -> Query {
    let metric = MetricQuery { as_name: None, metric: "$level_metric".to_owned(), measure: Some(measure) };
    Query {
        metrics: vec![metric],
        from_ms: Some(window.0),
        until_ms: Some(window.1),
        step: Some(Step::All),
        ..Query::default()
    }
}

/// The days that are asked for, in the game's zone.
fn window(totals: &Totals, tz: &str) -> Option<Window> {
    let Totals { day, month, year, .. } = *totals;
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
    Reply::fails_because(Code::InvalidRequest, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(day: i8, month: i8, year: i16, expected: Option<(&str, &str)>) {
        let totals = Totals { _kind: None, metric: None, level: None, day, month, year };
        let text = |ms: i64| pipeline::time::rfc3339(ms);
        let window = window(&totals, "Europe/Paris").map(|(from, until)| (text(from), text(until)));
        assert_eq!(window, expected.map(|(from, until)| (from.to_owned(), until.to_owned())));
    }

    #[test]
    fn totals_are_of_days_in_the_games_zone() {
        check(29, 3, 2026, Some(("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z")));
        check(0, 2, 2024, Some(("2024-01-31T23:00:00Z", "2024-02-29T23:00:00Z")));
        check(0, 0, 2026, Some(("2025-12-31T23:00:00Z", "2026-12-31T23:00:00Z")));
        check(0, 0, 0, Some(("1999-12-31T23:00:00Z", "2099-12-31T23:00:00Z")));
        check(30, 2, 2026, None);
        check(1, 0, 2026, None);
    }
}
