//! How the flows of a game do, and those that do worst.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::docs::Doc;
use crate::topic::{At, List, Moment, Source, Update, fields};
use crate::touches::Touches;
use pipeline::flows::flow_json;

/// So many are shown.
const WORST: usize = 50;
/// All flows of a game are looked at, so it is not done more often.
const EVERY_MS: i64 = 1_000;

/// What was last published.
pub(crate) struct Flows {
    list: List,
    moment: Moment,
    running: u64,
    /// How all of them do.
    now: Value,
    /// Worst first.
    worst: Vec<Value>,
}

impl Flows {
    pub fn new(list: List) -> Flows {
        Flows { list, moment: Moment::default(), running: 0, now: Value::Null, worst: Vec::new() }
    }

    fn message(&self) -> Value {
        json!({ "as_of": self.moment.as_of(), "running": self.running, "now": self.now, "flows": self.worst })
    }
}

impl Source for Flows {
    fn advance(&mut self, at: &At<'_>, _: &Touches) -> Update {
        if (at.ms - self.moment.ms).unsigned_abs() < EVERY_MS as u64 {
            return Update::Same;
        }
        let is_first = self.moment == Moment::default();
        self.moment = at.moment();
        let (census, worst) = at.flows.statistics(at.game.number, WORST);
        let (running, now) = (census.running, census.json());
        let worst: Vec<Value> = worst.iter().map(flow_json).collect();
        if !is_first && running == self.running && now == self.now && worst == self.worst {
            return Update::Same;
        }
        (self.running, self.now, self.worst) = (running, now, worst);
        Update::Whole(fields(&self.message()))
    }

    fn due_ms(&self) -> Option<i64> {
        Some(self.moment.ms + EVERY_MS)
    }

    fn whole(&self) -> Bytes {
        fields(&self.message())
    }

    fn documents(&mut self) -> Vec<Arc<Doc>> {
        let totals = json!({ "as_of": self.moment.as_of(), "running": self.running, "now": self.now });
        let flow = |flow: &Value| self.list.object(flow["id"].as_str().unwrap_or_default(), flow);
        std::iter::once(self.list.object("all", &totals)).chain(self.worst.iter().map(flow)).collect()
    }
}
