//! The last events with their outcomes.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::docs::Doc;
use crate::topic::{At, List, Mode, Moment, Source, Update, fields};
use crate::touches::Touches;
use pipeline::recent_events::{RecentEvent, RecentEventsView};
use pipeline::time::rfc3339;

/// What was last published.
pub(crate) struct Events {
    list: List,
    moment: Moment,
    view: RecentEventsView,
}

impl Events {
    pub fn new(list: List) -> Events {
        Events { list, moment: Moment::default(), view: RecentEventsView::default() }
    }
}

impl Source for Events {
    fn advance(&mut self, at: &At<'_>, _: &Touches) -> Update {
        let before = self.view.until;
        let view = at.views.recent_events.view(at.game.number, 0);
        let has_forgotten = view.erasures != self.view.erasures;
        if view.until == before && !has_forgotten {
            return Update::Same;
        }
        self.moment = at.moment();
        let skipped = view.skipped - self.view.skipped;
        self.view = view;
        if has_forgotten {
            return Update::Reset;
        }
        let added: Vec<Value> =
            self.view.shown.iter().take_while(|shown| shown.n > before).map(event).collect();
        Update::Change(fields(&json!({ "as_of": self.moment.as_of(), "added": added, "skipped": skipped })))
    }

    fn mode(&self) -> Mode {
        Mode::Incremental
    }

    fn whole(&self) -> Bytes {
        let events: Vec<Value> = self.view.shown.iter().map(event).collect();
        fields(&json!({ "as_of": self.moment.as_of(), "events": events }))
    }

    fn documents(&mut self) -> Vec<Arc<Doc>> {
        self.view.shown.iter().map(|shown| self.list.object(shown.n, &event(shown))).collect()
    }
}

fn event(shown: &RecentEvent) -> Value {
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
