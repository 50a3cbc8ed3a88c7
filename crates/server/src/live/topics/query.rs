//! The answer to a question.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use model::query::{Answer, Query, Series, Times, run};
use serde_json::{Map, Value, json};

use crate::catalog::Game;
use crate::live::docs::{Doc, Fields, Json, Name};
use crate::live::routes::Route;
use crate::live::topic::{At, List, Moment, Source, Update, failed, fields, inner};
use crate::live::touches::Touches;
use crate::time::now_ms;
use crate::wire::answer;

/// More changed points than this are sent as the whole answer.
const POINTS_MAX: usize = 500;

/// What was last published.
pub(crate) struct Asked {
    list: List,
    query: Query,
    moment: Moment,
    answer: Result<Answer, String>,
}

impl Asked {
    /// A query that names its time zone.
    pub fn new(query: &Query, list: List) -> Asked {
        let answer = Err("there is no answer yet".to_owned());
        Asked { list, query: query.clone(), moment: Moment::default(), answer }
    }
}

/// What the query reads, which does not change with time.
pub(crate) fn routes(query: &Query, game: &Game) -> Vec<Route> {
    let plan = query.plan(now_ms(), &game.tz);
    plan.map(|plan| plan.sources().into_iter().map(Route::to).collect()).unwrap_or_default()
}

/// The answer as of now.
pub(crate) fn ask(query: &Query, at: &At<'_>) -> Result<Answer, String> {
    let plan = query.plan(at.ms, &at.game.tz).map_err(|error| error.to_string())?;
    let links = at.views.identities.game(at.game.number);
    run(&plan, at.game.number, &*at.views.counters, links.as_deref()).map_err(|error| error.to_string())
}

impl Source for Asked {
    fn advance(&mut self, at: &At<'_>, touched: &Touches) -> Update {
        if touched.is_empty() && self.moment.is_in_minute_of(at) {
            return Update::Same;
        }
        let answer = ask(&self.query, at);
        let moment = at.moment();
        let update = match (&self.answer, &answer) {
            (Ok(before), Ok(after)) => difference(before, after, &moment),
            (Err(before), Err(after)) if before == after => Update::Same,
            _ => Update::Reset,
        };
        (self.answer, self.moment) = (answer, moment);
        update
    }

    /// A window that ends now moves with the minutes.
    fn due_ms(&self) -> Option<i64> {
        self.query.until_ms.is_none().then(|| self.moment.next_minute_ms())
    }

    fn whole(&self) -> Bytes {
        match &self.answer {
            Ok(answer) => inner(&answer::json(answer, self.moment.ms)),
            Err(failure) => failed(&self.moment, failure),
        }
    }

    fn documents(&mut self) -> Vec<Arc<Doc>> {
        let answer = match &self.answer {
            Ok(answer) => answer,
            Err(failure) => return self.list.failed(failure),
        };
        let mut docs = Vec::new();
        documents(&self.list, &answer.times, &answer.series, None, &mut docs);
        if let Some(compared) = &answer.compare {
            documents(&self.list, &compared.times, &compared.series, Some("previous"), &mut docs);
        }
        docs
    }
}

/// A document for each point and one for each total. Those of the window compared with say so.
fn documents(
    list: &List,
    times: &Times,
    series: &[Series],
    window: Option<&'static str>,
    docs: &mut Vec<Arc<Doc>>,
) {
    let clock: Vec<Json> =
        (0..times.minutes.len()).map(|index| Json::of(&answer::time(times, index))).collect();
    for series in series {
        let (row, mut head) = (row_of(series, window), head_of(series));
        head.extend(window.map(|window| (Name::from("window"), Json::of(window))));
        let value = |name: &'static str, value| (Name::from(name), Json::of(&answer::number(value)));
        for (index, point) in series.values.iter().enumerate() {
            let time = (Name::from("time"), clock[index].clone());
            let fields: Fields = head.iter().cloned().chain([time, value("value", *point)]).collect();
            docs.push(list.doc(format_args!("{row}{}", times.minutes[index]), fields));
        }
        let total: Fields = head.into_iter().chain([value("total", series.total)]).collect();
        docs.push(list.doc(format_args!("{row}total"), total));
    }
}

/// Tells the documents of a series from those of others. There is mostly only one, which needs no more.
fn row_of(series: &Series, window: Option<&str>) -> String {
    if series.name.is_none() && series.key.is_empty() && window.is_none() {
        return String::new();
    }
    let mut hasher = DefaultHasher::new();
    (&series.name, &series.key, window).hash(&mut hasher);
    format!("{:x}/", hasher.finish())
}

fn head_of(series: &Series) -> Vec<(Name, Json)> {
    let name = series.name.as_ref().map(|name| (Name::from("name"), Json::of(name)));
    name.into_iter().chain([(Name::from("key"), Json::of(&key(series)))]).collect()
}

/// The points in which two answers to the same question differ.
fn difference(before: &Answer, after: &Answer, moment: &Moment) -> Update {
    let keys = |answer: &Answer| -> Vec<_> {
        answer.series.iter().map(|series| (series.name.clone(), series.key.clone())).collect()
    };
    if before.times != after.times || before.compare != after.compare || keys(before) != keys(after) {
        return Update::Reset;
    }
    let mut points = Vec::new();
    let mut totals = Vec::new();
    for (old, new) in before.series.iter().zip(&after.series) {
        for (index, value) in
            new.values.iter().enumerate().filter(|(index, value)| old.values[*index] != **value)
        {
            let mut point = named(new);
            point["time"] = answer::time(&after.times, index).into();
            point["value"] = answer::number(*value);
            points.push(point);
        }
        if old.total != new.total {
            let mut total = named(new);
            total["total"] = answer::number(new.total);
            totals.push(total);
        }
    }
    if points.len() > POINTS_MAX {
        return Update::Reset;
    }
    if points.is_empty() && totals.is_empty() {
        return Update::Same;
    }
    Update::Change(fields(&json!({ "as_of": moment.as_of(), "points": points, "totals": totals })))
}

fn named(series: &Series) -> Value {
    let mut named = json!({ "key": key(series) });
    if let Some(name) = &series.name {
        named["name"] = name.as_str().into();
    }
    named
}

fn key(series: &Series) -> Map<String, Value> {
    series.key.iter().map(|(by, value)| (by.label().to_owned(), value.as_str().into())).collect()
}
