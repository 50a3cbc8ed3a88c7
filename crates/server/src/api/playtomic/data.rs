//! The data API: totals of a day, a month, a year or all time, for games whose clients may ask for them.

use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use model::query::{Measure, MetricQuery, Query, Step, run};
use serde::Deserialize;
use serde_json::Map;

use super::asked::{Answered, Asked};
use super::code::{Code, Reply};
use super::words;

/// Start and end, milliseconds since 1970.
type Window = (i64, i64);

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
        _ => return Err(invalid(&format!("there is no `data.{action}`"))),
    };
    let mut body = Map::new();
    body.insert("value".into(), words::number(value));
    Ok(Reply::ok(body))
}

impl Asked<'_> {
    /// Seconds of play: what sessions of players came to, and what the heartbeats of the old SDKs prove.
    async fn play_time_s(&self, window: Window) -> Result<f64, Reply> {
        let sessions = self.total("play_time_s", None, window).await?;
        let first = self.total("$session_start", Some(Measure::Sum), window).await?;
        Ok(sessions + first + self.total("$ping", Some(Measure::Sum), window).await?)
    }

    /// One number over a window. It includes everything that was acknowledged before.
    async fn total(&self, metric: &str, measure: Option<Measure>, window: Window) -> Result<f64, Reply> {
        let shared = &self.local.shared;
        let metric = MetricQuery { as_name: None, metric: metric.to_owned(), measure };
        let query = Query {
            metrics: vec![metric],
            from_ms: Some(window.0),
            until_ms: Some(window.1),
            step: Some(Step::All),
            ..Query::default()
        };
        let acknowledged = shared.log.durable_until();
        let plan = query.plan(self.received_ms, &self.access.game.tz);
        let plan = plan.map_err(|error| invalid(&error.to_string()))?;
        shared.views.caught_up(acknowledged).await;
        let links = shared.views.identities.game(self.access.game.number);
        let answer = run(&plan, self.access.game.number, &*shared.views.counters, links.as_deref());
        let answer = answer.map_err(|failure| Reply::fails_because(Code::General, &failure.to_string()))?;
        Ok(answer.series.first().and_then(|series| series.total).unwrap_or(0.0))
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
        let totals = Totals { _kind: None, metric: None, day, month, year };
        let text = |ms: i64| crate::time::rfc3339(ms);
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
