//! The answer to a question.

mod rows;

use std::sync::Arc;

use bytes::Bytes;
use model::query::{IncrementalQuery, Query, QueryResult, Series, run};
use serde_json::{Value, json};

use crate::docs::Doc;
use crate::topic::{At, List, Mode, Moment, Source, Update, failed, fields, inner};
use crate::touches::Touches;
use pipeline::catalog::Game;
use pipeline::interest::Interest;
use pipeline::query::answer;
use pipeline::time::now_ms;

use rows::Rows;

/// More changed points than this are sent as the whole answer.
const POINTS_MAX: usize = 500;

/// What was last published.
pub(crate) struct Asked {
    query: Query,
    moment: Moment,
    standing: Result<IncrementalQuery, String>,
    mode: Mode,
    rows: Rows,
}

impl Asked {
    /// A query that names its time zone.
    pub fn new(query: &Query, list: List) -> Asked {
        let standing = Err("there is no answer yet".to_owned());
        let (query, moment) = (query.clone(), Moment::default());
        Asked { query, moment, standing, mode: Mode::Poll, rows: Rows::new(list) }
    }

    /// A new answer, over the window of now.
    fn anew(&self, at: &At<'_>) -> Result<IncrementalQuery, String> {
        let plan = self.query.plan(at.ms, &at.game.tz).map_err(|error| error.to_string())?;
        let links = at.views.identities.game(at.game.number);
        let standing = IncrementalQuery::run(plan, at.game.number, &*at.views.counters, links.as_deref());
        standing.map_err(|error| error.to_string())
    }

    /// Brings the answer up to date, as cheaply as that can be done.
    fn bring_up_to_date(&mut self, at: &At<'_>, touched: &Touches) {
        let has_moved = self.due_ms().is_some_and(|due_ms| due_ms <= at.ms);
        match (&mut self.standing, touched) {
            (Ok(standing), Touches::Minutes(minutes)) if !has_moved => {
                let links = at.views.identities.game(at.game.number);
                let (game, counters) = (at.game.number, &*at.views.counters);
                if let Err(error) = standing.refresh(minutes, game, counters, links.as_deref()) {
                    self.standing = Err(error.to_string());
                }
            }
            _ => self.standing = self.anew(at),
        }
        let is_patchable = |standing: &IncrementalQuery| standing.plan().is_refreshable();
        self.mode = match &self.standing {
            Ok(standing) if is_patchable(standing) => Mode::Incremental,
            _ => Mode::Poll,
        };
    }

    /// What is new since the answer before.
    fn compare(&mut self, before: Result<QueryResult, String>) -> Update {
        let after = match (&before, &self.standing) {
            (Err(before), Err(after)) if before == after => return Update::Same,
            (_, Err(_)) => {
                self.rows.forget();
                return Update::Reset;
            }
            (_, Ok(standing)) => standing.result(),
        };
        let difference = before.ok().as_ref().and_then(|before| Difference::of(before, after));
        let Some(difference) = difference.filter(|difference| difference.points.len() <= POINTS_MAX) else {
            self.rows.forget();
            return Update::Reset;
        };
        if difference.points.is_empty() && difference.totals.is_empty() {
            return Update::Same;
        }
        self.rows.patch(after, &difference);
        Update::Change(fields(&difference.message(after, &self.moment)))
    }
}

/// What the query reads, which does not change with time.
pub(crate) fn routes(query: &Query, game: &Game) -> Vec<Interest> {
    let plan = query.plan(now_ms(), &game.tz);
    plan.map(|plan| plan.sources().into_iter().map(Interest::in_metric).collect()).unwrap_or_default()
}

/// The answer as of now.
pub(crate) fn ask(query: &Query, at: &At<'_>) -> Result<QueryResult, String> {
    let plan = query.plan(at.ms, &at.game.tz).map_err(|error| error.to_string())?;
    let links = at.views.identities.game(at.game.number);
    run(&plan, at.game.number, &*at.views.counters, links.as_deref()).map_err(|error| error.to_string())
}

impl Source for Asked {
    fn advance(&mut self, at: &At<'_>, touched: &Touches) -> Update {
        let before = self.standing.as_ref().map(|standing| standing.result().clone());
        let before = before.map_err(String::clone);
        self.bring_up_to_date(at, touched);
        self.moment = at.moment();
        self.compare(before)
    }

    /// A window that ends now moves with the minutes.
    fn due_ms(&self) -> Option<i64> {
        self.query.until_ms.is_none().then(|| self.moment.next_minute_ms())
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn whole(&self) -> Bytes {
        match &self.standing {
            Ok(standing) => inner(&answer::json(standing.result(), self.moment.ms)),
            Err(failure) => failed(&self.moment, failure),
        }
    }

    fn documents(&mut self) -> Vec<Arc<Doc>> {
        match &self.standing {
            Ok(standing) => self.rows.of(standing.result()),
            Err(failure) => self.rows.failed(failure),
        }
    }
}

/// The points in which two answers to the same question differ: series and bucket, and series by their totals.
struct Difference {
    points: Vec<(usize, usize)>,
    totals: Vec<usize>,
}

impl Difference {
    /// `None`: they differ in more than that.
    fn of(before: &QueryResult, after: &QueryResult) -> Option<Difference> {
        let named =
            |series: &'_ Series, other: &'_ Series| series.name == other.name && series.key == other.key;
        let pairs = || before.series.iter().zip(&after.series).enumerate();
        let is_same = before.times == after.times
            && before.compare == after.compare
            && before.series.len() == after.series.len()
            && pairs().all(|(_, (old, new))| named(old, new));
        if !is_same {
            return None;
        }
        let mut difference = Difference { points: Vec::new(), totals: Vec::new() };
        for (series, (old, new)) in pairs() {
            let values = old.values.iter().zip(&new.values).enumerate();
            let moved = values.filter(|(_, (old, new))| old != new);
            difference.points.extend(moved.map(|(bucket, _)| (series, bucket)));
            if old.total != new.total {
                difference.totals.push(series);
            }
        }
        Some(difference)
    }

    fn message(&self, answer: &QueryResult, moment: &Moment) -> Value {
        let point = |(series, bucket): &(usize, usize)| {
            let series = &answer.series[*series];
            let mut point = named(series);
            point["time"] = answer::time(&answer.times, *bucket).into();
            point["value"] = answer::number(series.values[*bucket]);
            point
        };
        let total = |series: &usize| {
            let series = &answer.series[*series];
            let mut total = named(series);
            total["total"] = answer::number(series.total);
            total
        };
        let points: Vec<Value> = self.points.iter().map(point).collect();
        let totals: Vec<Value> = self.totals.iter().map(total).collect();
        json!({ "as_of": moment.as_of(), "points": points, "totals": totals })
    }
}

fn named(series: &Series) -> Value {
    let mut named = json!({ "key": rows::key(series) });
    if let Some(name) = &series.name {
        named["name"] = name.as_str().into();
    }
    named
}
