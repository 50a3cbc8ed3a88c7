//! Players online now, and in each of the last 60 minutes.

use std::sync::Arc;

use bytes::Bytes;
use model::query::{MetricQuery, Query, Step, WindowLength};
use serde_json::{Value, json};

use super::query::ask;
use crate::docs::{Doc, Json};
use crate::topic::{At, List, Moment, Source, Update, fields};
use crate::touches::Touches;
use pipeline::time::rfc3339;

/// What was last published.
pub(crate) struct Online {
    list: List,
    query: Query,
    /// When it was looked at last.
    looked: Moment,
    /// When what is told was found.
    moment: Moment,
    online: Option<u32>,
    /// Players by the minute since 1970.
    minutes: Vec<(u32, u64)>,
    docs: Vec<Arc<Doc>>,
}

impl Online {
    pub fn new(list: List) -> Online {
        let players = MetricQuery { metric: "players".into(), ..MetricQuery::default() };
        let query = Query {
            metrics: vec![players],
            last: WindowLength::parse("60m"),
            step: Some(Step::Minute),
            ..Query::default()
        };
        let (looked, moment) = Default::default();
        Online { list, query, looked, moment, online: None, minutes: Vec::new(), docs: Vec::new() }
    }

    /// Players in each of the last 60 minutes. A store that does not answer changes nothing.
    fn read_minutes(&mut self, at: &At<'_>) -> bool {
        let Ok(answer) = ask(&self.query, at) else { return false };
        let values = answer.series.first().map(|series| series.values.as_slice()).unwrap_or_default();
        let players = values.iter().map(|players| players.unwrap_or(0.0) as u64);
        let minutes: Vec<(u32, u64)> = answer.times.minutes.iter().copied().zip(players).collect();
        let is_new = self.minutes != minutes;
        self.minutes = minutes;
        is_new
    }

    fn message(&self) -> Value {
        json!({ "as_of": self.moment.as_of(), "online": self.online })
    }

    fn minutes(&self) -> Value {
        let minute = |(minute, players): &(u32, u64)| json!({ "time": time(*minute), "players": players });
        self.minutes.iter().map(minute).collect()
    }

    fn minute(&self, minute: u32, players: u64) -> Arc<Doc> {
        let (id, players) = (self.list.id(minute), Json::of(&players));
        let before = self.docs.iter().find(|doc| doc.id == id && doc.fields.get("players") == Some(&players));
        let doc = || self.list.doc(minute, [("time", Json::of(&time(minute))), ("players", players.clone())]);
        before.cloned().unwrap_or_else(doc)
    }
}

fn time(minute: u32) -> String {
    rfc3339(i64::from(minute) * 60_000)
}

impl Source for Online {
    fn advance(&mut self, at: &At<'_>, touched: &Touches) -> Update {
        let online = at.views.sessions.lock().online(at.game.number, (at.ms / 1000) as u32);
        let is_new_minute = !std::mem::replace(&mut self.looked, at.moment()).is_in_minute_of(at);
        let has_moved = self.online.replace(online) != Some(online);
        let has_other_minutes = (!touched.is_empty() || is_new_minute) && self.read_minutes(at);
        if !has_moved && !has_other_minutes && !is_new_minute {
            return Update::Same;
        }
        self.moment = at.moment();
        let mut message = self.message();
        if is_new_minute {
            message["minutes"] = self.minutes();
        }
        Update::Change(fields(&message))
    }

    /// Players go without saying so; once nobody is there, only minutes change.
    fn due_ms(&self) -> Option<i64> {
        let is_empty = self.online == Some(0);
        Some(if is_empty { self.looked.next_minute_ms() } else { self.looked.next_second_ms() })
    }

    fn whole(&self) -> Bytes {
        let mut message = self.message();
        message["minutes"] = self.minutes();
        fields(&message)
    }

    fn documents(&mut self) -> Vec<Arc<Doc>> {
        let now = self.list.object("now", &self.message());
        let minutes = self.minutes.iter().map(|(minute, players)| self.minute(*minute, *players));
        self.docs = std::iter::once(now).chain(minutes).collect();
        self.docs.clone()
    }
}
