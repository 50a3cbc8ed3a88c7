//! The quality of a game's flows, and the worst of them.

use std::sync::Arc;

use bytes::Bytes;
use pipeline::flows::flow_json;
use serde_json::{Value, json};

use crate::dirty_minutes::DirtyMinutes;
use crate::document_builder::DocumentBuilder;
use crate::documents::Document;
use crate::source::{ComputeContext, ComputeMoment, TopicSource, Update, object_fields};

/// Flows listed.
const WORST_MAX: usize = 50;
/// The shortest time between two computations. Each reads all flows of the game.
const INTERVAL_MS: i64 = 1_000;

/// Computes the topic `flows`. Holds the state that was last published.
pub(crate) struct FlowsSource {
    builder: DocumentBuilder,
    moment: ComputeMoment,
    running: u64,
    /// The current quality of all flows together.
    now: Value,
    /// The worst flows, worst first.
    worst: Vec<Value>,
}

impl FlowsSource {
    pub(crate) fn new(builder: DocumentBuilder) -> FlowsSource {
        let (now, worst) = (Value::Null, Vec::new());
        FlowsSource { builder, moment: ComputeMoment::default(), running: 0, now, worst }
    }

    fn message(&self) -> Value {
        json!({ "as_of": self.moment.as_of(), "running": self.running, "now": self.now, "flows": self.worst })
    }
}

impl TopicSource for FlowsSource {
    fn update(&mut self, context: &ComputeContext<'_>, _: &DirtyMinutes) -> Update {
        if (context.now_ms - self.moment.ms).unsigned_abs() < INTERVAL_MS as u64 {
            return Update::Unchanged;
        }
        let is_first = self.moment == ComputeMoment::default();
        self.moment = context.moment();
        let (census, worst) = context.flows.statistics(context.game.number, WORST_MAX);
        let (running, now) = (census.running, census.json());
        let worst: Vec<Value> = worst.iter().map(flow_json).collect();
        if !is_first && running == self.running && now == self.now && worst == self.worst {
            return Update::Unchanged;
        }
        (self.running, self.now, self.worst) = (running, now, worst);
        Update::Replaced(object_fields(&self.message()))
    }

    fn due_ms(&self) -> Option<i64> {
        Some(self.moment.ms + INTERVAL_MS)
    }

    fn full_state(&self) -> Bytes {
        object_fields(&self.message())
    }

    fn documents(&mut self) -> Vec<Arc<Document>> {
        let totals = json!({ "as_of": self.moment.as_of(), "running": self.running, "now": self.now });
        let totals = self.builder.document_of_object("all", &totals);
        let flow =
            |flow: &Value| self.builder.document_of_object(flow["id"].as_str().unwrap_or_default(), flow);
        std::iter::once(totals).chain(self.worst.iter().map(flow)).collect()
    }
}
