//! What can be watched, and how each of them changes.

use bytes::Bytes;
use liveops::vars::Who;
use liveops::{LiveOps, Touched};
use model::query::{Answer, Last, MetricQuery, Plan, Query, Series, Step, run};
use serde_json::{Value, json};

use super::inspector::{Shown, View};
use super::meter::SECONDS;
use super::pages::Page;
use super::vars::{Seen, Viewer};
use crate::api::load::Totals;
use crate::catalog::Game;
use crate::time::{now_ms, rfc3339};
use crate::views::Views;
use crate::wire::answer;

/// More changed points than this are sent as the whole answer.
const POINTS_MAX: usize = 500;
/// Seconds sent again with each change: what came late is counted in its own second.
const SECONDS_AGAIN: u64 = 3;

/// A subscription. Equal ones share a channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Players online.
    Online,
    /// The last events with their outcomes.
    Events,
    /// The accounting.
    Load,
    /// The answer to a question.
    Query(Box<Query>),
    /// The variables, as this one gets them.
    Vars(Box<Who>),
    /// A page of a board or of a feed.
    Page(Box<Page>),
}

/// What a computation found.
pub(super) enum Update {
    /// Nothing new.
    Same,
    /// These fields of an object.
    Change(Bytes),
    /// Something structural: everyone needs the whole.
    Reset,
}

/// What was last published.
#[derive(Default)]
pub(super) struct State {
    at_ms: i64,
    position: u64,
    online: Option<u32>,
    view: View,
    totals: Option<Totals>,
    answer: Option<Answer>,
    failure: Option<String>,
    vars: Seen,
    page: Bytes,
}

impl Topic {
    /// Whether events of this metric can change it.
    pub(super) fn reads(&self, metric: &str, plan: Option<&Plan>) -> bool {
        match self {
            Topic::Query(_) => plan.is_some_and(|plan| plan.touches(metric)),
            Topic::Online | Topic::Events | Topic::Load => true,
            Topic::Vars(_) | Topic::Page(_) => false,
        }
    }

    /// Whether what a command changed can change it.
    pub(super) fn follows(&self, liveops: &LiveOps, game: u32, touched: &Touched) -> bool {
        match self {
            Topic::Vars(_) => *touched == Touched::Vars,
            Topic::Page(page) => page.follows(liveops, game, touched),
            _ => false,
        }
    }

    /// What the channel computes for all, and who it is then made out for.
    pub(super) fn shared(self, game: &Game) -> (Topic, Option<Viewer>) {
        match self {
            Topic::Vars(who) => (Topic::Vars(Box::default()), Some(Viewer::new(game.number, *who))),
            topic => (topic, None),
        }
    }

    /// What the topic reads; it does not change while a channel lives.
    pub(super) fn plan(&self, game: &Game) -> Option<Plan> {
        match self {
            Topic::Query(query) => query.plan(now_ms(), &game.tz).ok(),
            Topic::Online | Topic::Events | Topic::Load | Topic::Vars(_) | Topic::Page(_) => None,
        }
    }
}

impl State {
    /// Computes again. `touched`: something that the topic reads has changed since the last time.
    pub(super) fn advance(&mut self, topic: &Topic, game: &Game, views: &Views, touched: bool) -> Update {
        let now = Now { ms: now_ms(), position: views.counters.applied_until(), before_ms: self.at_ms };
        let update = match topic {
            Topic::Online => self.advance_online(game, views, &now),
            Topic::Events => self.advance_events(game, views, &now),
            Topic::Load => self.advance_load(game, views, &now),
            Topic::Query(query) if touched || now.is_new_minute() => {
                self.advance_query(query, game, views, &now)
            }
            Topic::Query(_) => Update::Same,
            Topic::Vars(_) if self.vars.advance(&views.liveops, game.number, now.ms, touched) => {
                Update::Change(Bytes::new())
            }
            Topic::Vars(_) => Update::Same,
            // Rolling windows and days move with the clock.
            Topic::Page(page) if touched || now.is_new_minute() => self.advance_page(page, game, views, &now),
            Topic::Page(_) => Update::Same,
        };
        if !matches!(update, Update::Same) {
            (self.at_ms, self.position) = (now.ms, now.position);
        }
        update
    }

    /// The whole of what was last published.
    pub(super) fn snapshot(&self, topic: &Topic, game: &Game, views: &Views) -> Bytes {
        let now = Now { ms: self.at_ms, position: self.position, before_ms: self.at_ms };
        match topic {
            Topic::Online => fields(json!({
                "as_of": now.as_of(), "online": self.online, "minutes": minutes(game, views, now.ms),
            })),
            Topic::Events => {
                let view = views.inspector.view(game.number, 0);
                let shown = view.shown.iter().filter(|shown| shown.n <= self.view.until);
                fields(json!({ "as_of": now.as_of(), "events": shown.map(event).collect::<Vec<_>>() }))
            }
            Topic::Load => match &self.totals {
                Some(totals) => load(game, views, &now, totals, SECONDS as u64),
                None => failed(&now, "the accounting cannot be read at the moment"),
            },
            Topic::Query(_) => match (&self.answer, &self.failure) {
                (Some(answer), _) => inner(&answer::json(answer, now.ms)),
                (None, Some(failure)) => failed(&now, failure),
                (None, None) => failed(&now, "there is no answer yet"),
            },
            // Each viewer's own stands in its place.
            Topic::Vars(_) => Bytes::new(),
            Topic::Page(_) => self.page.clone(),
        }
    }

    fn advance_page(&mut self, page: &Page, game: &Game, views: &Views, now: &Now) -> Update {
        let fields = page.fields(&views.liveops, game.number, now.ms);
        if fields == self.page {
            return Update::Same;
        }
        self.page = fields.clone();
        Update::Change(fields)
    }

    fn advance_online(&mut self, game: &Game, views: &Views, now: &Now) -> Update {
        let online = views.sessions.lock().online(game.number, (now.ms / 1000) as u32);
        let moved = self.online.replace(online) != Some(online);
        let mut message = json!({ "as_of": now.as_of(), "online": online });
        if now.is_new_minute() {
            message["minutes"] = minutes(game, views, now.ms);
        } else if !moved {
            return Update::Same;
        }
        Update::Change(fields(message))
    }

    fn advance_events(&mut self, game: &Game, views: &Views, now: &Now) -> Update {
        let view = views.inspector.view(game.number, self.view.until);
        if view.until == self.view.until {
            return Update::Same;
        }
        let skipped = view.skipped - self.view.skipped;
        let added: Vec<Value> = view.shown.iter().map(event).collect();
        self.view = View { shown: Vec::new(), ..view };
        Update::Change(fields(json!({ "as_of": now.as_of(), "added": added, "skipped": skipped })))
    }

    fn advance_load(&mut self, game: &Game, views: &Views, now: &Now) -> Update {
        if !now.is_new_second() {
            return Update::Same;
        }
        let Ok(totals) = Totals::today(views, game, now.ms) else { return Update::Same };
        let seconds = (now.ms / 1000 - now.before_ms / 1000) as u64 + SECONDS_AGAIN;
        let message = load(game, views, now, &totals, seconds.min(SECONDS as u64));
        self.totals = Some(totals);
        Update::Change(message)
    }

    fn advance_query(&mut self, query: &Query, game: &Game, views: &Views, now: &Now) -> Update {
        match ask(query, game, views, now.ms) {
            Ok(answer) => {
                let update = match &self.answer {
                    Some(before) => difference(before, &answer, now),
                    None => Update::Reset,
                };
                (self.answer, self.failure) = (Some(answer), None);
                update
            }
            Err(failure) => {
                let same = self.failure.as_ref() == Some(&failure);
                (self.answer, self.failure) = (None, Some(failure));
                if same { Update::Same } else { Update::Reset }
            }
        }
    }
}

/// The moment of a computation.
struct Now {
    ms: i64,
    position: u64,
    /// The moment of the one before.
    before_ms: i64,
}

impl Now {
    fn is_new_minute(&self) -> bool {
        self.ms / 60_000 != self.before_ms / 60_000
    }

    fn is_new_second(&self) -> bool {
        self.ms / 1000 != self.before_ms / 1000
    }

    fn as_of(&self) -> Value {
        json!({ "time": rfc3339(self.ms), "position": format!("0/{}", self.position) })
    }
}

fn ask(query: &Query, game: &Game, views: &Views, now_ms: i64) -> Result<Answer, String> {
    let plan = query.plan(now_ms, &game.tz).map_err(|error| error.to_string())?;
    let links = views.identities.game(game.number);
    run(&plan, game.number, &*views.counters, links.as_deref()).map_err(|error| error.to_string())
}

/// Players in each of the last 60 minutes.
fn minutes(game: &Game, views: &Views, now_ms: i64) -> Value {
    let players = MetricQuery { metric: "players".into(), ..MetricQuery::default() };
    let query = Query {
        metrics: vec![players],
        last: Last::parse("60m"),
        step: Some(Step::Minute),
        ..Query::default()
    };
    let Ok(answer) = ask(&query, game, views, now_ms) else { return Value::Null };
    let values = answer.series.first().map(|series| series.values.as_slice()).unwrap_or_default();
    let minute = |(minute, players): (&u32, &Option<f64>)| json!({ "time": rfc3339(i64::from(*minute) * 60_000), "players": players.unwrap_or(0.0) as u64 });
    answer.times.minutes.iter().zip(values).map(minute).collect()
}

fn event(shown: &Shown) -> Value {
    let known = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    json!({
        "n": shown.n,
        "time": rfc3339(shown.at_ms),
        "event": known(&shown.name),
        "player": known(&shown.player),
        "country": known(&shown.country),
        "platform": known(&shown.platform),
        "value": shown.value,
        "outcome": shown.outcome().label(),
        "reason": shown.reject.map(|reject| reject.label()),
        "endpoint": shown.endpoint.label(),
    })
}

fn load(game: &Game, views: &Views, now: &Now, totals: &Totals, seconds: u64) -> Bytes {
    let now_s = (now.ms / 1000).max(0) as u64;
    let (accepted, refused) = views.meter.seconds(game.number, now_s, seconds as usize);
    let from = rfc3339((now_s as i64 - seconds as i64 + 1) * 1000);
    let mut message = totals.json();
    message["as_of"] = now.as_of();
    message["second"] = json!({ "from": from, "accepted": accepted, "refused": refused });
    fields(message)
}

/// The points in which two answers to the same question differ.
fn difference(before: &Answer, after: &Answer, now: &Now) -> Update {
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
    Update::Change(fields(json!({ "as_of": now.as_of(), "points": points, "totals": totals })))
}

fn named(series: &Series) -> Value {
    let key: serde_json::Map<String, Value> =
        series.key.iter().map(|(by, value)| (by.label().to_owned(), value.as_str().into())).collect();
    let mut named = json!({ "key": key });
    if let Some(name) = &series.name {
        named["name"] = name.as_str().into();
    }
    named
}

fn failed(now: &Now, message: &str) -> Bytes {
    fields(json!({ "as_of": now.as_of(), "error": message }))
}

fn fields(object: Value) -> Bytes {
    inner(object.to_string().as_bytes())
}

/// The text of an object without its braces.
fn inner(object: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&object[1..object.len() - 1])
}
