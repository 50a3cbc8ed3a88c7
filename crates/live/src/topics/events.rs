//! The most recent events with their outcomes.

use std::sync::Arc;

use bytes::Bytes;
use pipeline::recent_events::{RecentEvent, RecentEventsView};
use pipeline::time::rfc3339;
use serde_json::{Value, json};

use crate::dirty_minutes::DirtyMinutes;
use crate::document_builder::DocumentBuilder;
use crate::documents::Document;
use crate::source::{ComputeContext, ComputeMode, ComputeMoment, TopicSource, Update, object_fields};

/// Computes the topic `events`. Holds the events that were last published.
pub(crate) struct EventsSource {
    builder: DocumentBuilder,
    moment: ComputeMoment,
    view: RecentEventsView,
}

impl EventsSource {
    pub(crate) fn new(builder: DocumentBuilder) -> EventsSource {
        EventsSource { builder, moment: ComputeMoment::default(), view: RecentEventsView::default() }
    }
}

impl TopicSource for EventsSource {
    fn update(&mut self, context: &ComputeContext<'_>, _: &DirtyMinutes) -> Update {
        let before = self.view.until;
        let view = context.views.recent_events.view(context.game.number, 0);
        let is_erased = view.erasures != self.view.erasures;
        if view.until == before && !is_erased {
            return Update::Unchanged;
        }
        self.moment = context.moment();
        let skipped = view.skipped - self.view.skipped;
        self.view = view;
        if is_erased {
            return Update::Reset;
        }
        let added: Vec<Value> =
            self.view.shown.iter().take_while(|shown| shown.n > before).map(event).collect();
        let change = json!({ "as_of": self.moment.as_of(), "added": added, "skipped": skipped });
        Update::Changed(object_fields(&change))
    }

    fn mode(&self) -> ComputeMode {
        ComputeMode::Incremental
    }

    fn full_state(&self) -> Bytes {
        let events: Vec<Value> = self.view.shown.iter().map(event).collect();
        object_fields(&json!({ "as_of": self.moment.as_of(), "events": events }))
    }

    fn documents(&mut self) -> Vec<Arc<Document>> {
        let document = |shown: &RecentEvent| self.builder.document_of_object(shown.n, &event(shown));
        self.view.shown.iter().map(document).collect()
    }
}

fn event(shown: &RecentEvent) -> Value {
    let text_or_null = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    json!({
        "n": shown.n,
        "time": rfc3339(shown.at_ms),
        "event": text_or_null(&shown.name),
        "player": text_or_null(&shown.player),
        "country": text_or_null(&shown.country),
        "platform": text_or_null(&shown.platform),
        "value": shown.value,
        "outcome": shown.outcome().label(),
        "reason": shown.reject.map(|reject| reject.label()),
        "endpoint": shown.endpoint.label(),
    })
}
