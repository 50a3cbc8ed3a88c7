//! Players online now, and in each of the last 60 minutes.

use std::sync::Arc;

use bytes::Bytes;
use model::query::{MetricQuery, Query, Step, WindowLength};
use pipeline::time::rfc3339;
use serde_json::{Value, json};

use super::query::run_query;
use crate::dirty_minutes::DirtyMinutes;
use crate::document_builder::DocumentBuilder;
use crate::documents::{Document, JsonText};
use crate::source::{ComputeContext, ComputeMoment, TopicSource, Update, object_fields};

/// Computes the topic `online`. Holds the state that was last published.
pub(crate) struct OnlineSource {
    builder: DocumentBuilder,
    query: Query,
    /// The moment of the last computation.
    computed: ComputeMoment,
    /// The moment of the published state.
    moment: ComputeMoment,
    online: Option<u32>,
    /// Players by the minute since 1970.
    minutes: Vec<(u32, u64)>,
    documents: Vec<Arc<Document>>,
}

impl OnlineSource {
    pub(crate) fn new(builder: DocumentBuilder) -> OnlineSource {
        let players = MetricQuery { metric: "players".into(), ..MetricQuery::default() };
        let query = Query {
            metrics: vec![players],
            last: WindowLength::parse("60m"),
            step: Some(Step::Minute),
            ..Query::default()
        };
        let (computed, moment) = Default::default();
        let (minutes, documents) = (Vec::new(), Vec::new());
        OnlineSource { builder, query, computed, moment, online: None, minutes, documents }
    }

    /// Reads the players in each of the last 60 minutes. Returns true if they changed. If the store fails, nothing
    /// changes.
    fn read_minutes(&mut self, context: &ComputeContext<'_>) -> bool {
        let Ok(result) = run_query(&self.query, context) else { return false };
        let values = result.series.first().map(|series| series.values.as_slice()).unwrap_or_default();
        let players = values.iter().map(|players| players.unwrap_or(0.0) as u64);
        let minutes: Vec<(u32, u64)> = result.times.minutes.iter().copied().zip(players).collect();
        let is_new = self.minutes != minutes;
        self.minutes = minutes;
        is_new
    }

    fn message(&self) -> Value {
        json!({ "as_of": self.moment.as_of(), "online": self.online })
    }

    fn minutes_json(&self) -> Value {
        let minute = |(minute, players): &(u32, u64)| json!({ "time": time(*minute), "players": players });
        self.minutes.iter().map(minute).collect()
    }

    /// Returns the document of a minute: the previous one if it did not change.
    fn minute_document(&self, minute: u32, players: u64) -> Arc<Document> {
        let (id, players) = (self.builder.id(minute), JsonText::of(&players));
        let is_same =
            |document: &&Arc<Document>| document.id == id && document.fields.get("players") == Some(&players);
        let previous = self.documents.iter().find(is_same);
        let create = || {
            let fields = [("time", JsonText::of(&time(minute))), ("players", players.clone())];
            self.builder.document(minute, fields)
        };
        previous.cloned().unwrap_or_else(create)
    }
}

fn time(minute: u32) -> String {
    rfc3339(i64::from(minute) * 60_000)
}

impl TopicSource for OnlineSource {
    fn update(&mut self, context: &ComputeContext<'_>, dirty: &DirtyMinutes) -> Update {
        let online =
            context.views.sessions.lock().online(context.game.number, (context.now_ms / 1000) as u32);
        let is_new_minute = !std::mem::replace(&mut self.computed, context.moment()).is_in_minute_of(context);
        let is_new_count = self.online.replace(online) != Some(online);
        let has_new_minutes = (!dirty.is_empty() || is_new_minute) && self.read_minutes(context);
        if !is_new_count && !has_new_minutes && !is_new_minute {
            return Update::Unchanged;
        }
        self.moment = context.moment();
        let mut message = self.message();
        if is_new_minute {
            message["minutes"] = self.minutes_json();
        }
        Update::Changed(object_fields(&message))
    }

    /// Players go offline without an event, so the count is read each second. With no player online, only the minutes
    /// change.
    fn due_ms(&self) -> Option<i64> {
        let is_empty = self.online == Some(0);
        Some(if is_empty { self.computed.next_minute_ms() } else { self.computed.next_second_ms() })
    }

    fn full_state(&self) -> Bytes {
        let mut message = self.message();
        message["minutes"] = self.minutes_json();
        object_fields(&message)
    }

    fn documents(&mut self) -> Vec<Arc<Document>> {
        let now = self.builder.document_of_object("now", &self.message());
        let minutes = self.minutes.iter().map(|(minute, players)| self.minute_document(*minute, *players));
        self.documents = std::iter::once(now).chain(minutes).collect();
        self.documents.clone()
    }
}
