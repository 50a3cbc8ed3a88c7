//! Ingest accounting: the outcomes of today, and the rate of each of the last seconds. Samples are counted apart from
//! events in the seconds.

use std::sync::Arc;

use bytes::Bytes;
use pipeline::accounting::{AccountingTotals, SECONDS_KEPT, SecondCount};
use pipeline::time::rfc3339;
use serde_json::{Value, json};

use crate::dirty_minutes::DirtyMinutes;
use crate::document_builder::DocumentBuilder;
use crate::documents::Document;
use crate::source::{ComputeContext, ComputeMoment, TopicSource, Update, error_fields, object_fields};

/// Past seconds sent again with each change, because events that arrive late are counted in their own second.
const SECONDS_RESENT: usize = 3;

const UNAVAILABLE: &str = "ingest accounting is not available at the moment";

/// Computes the topic `load`. Holds the state that was last published.
pub(crate) struct LoadSource {
    builder: DocumentBuilder,
    /// The moment of the last computation. If the store fails, nothing is published.
    computed: ComputeMoment,
    /// The moment of the published state.
    moment: ComputeMoment,
    totals: Option<AccountingTotals>,
    seconds: Vec<SecondCount>,
}

impl LoadSource {
    pub(crate) fn new(builder: DocumentBuilder) -> LoadSource {
        let (computed, moment) = Default::default();
        LoadSource { builder, computed, moment, totals: None, seconds: Vec::new() }
    }

    /// Returns the rates of the last `count` seconds.
    fn seconds(&self, count: usize) -> Value {
        let last = &self.seconds[self.seconds.len().saturating_sub(count)..];
        let field = |count: fn(&SecondCount) -> u32| last.iter().map(count).collect::<Value>();
        let from = rfc3339((self.moment.ms / 1000 - count as i64 + 1) * 1000);
        json!({
            "from": from,
            "accepted": field(|count| count.accepted),
            "refused": field(|count| count.rejected),
            "samples": field(|count| count.samples),
        })
    }

    fn message(&self, totals: &AccountingTotals, seconds: usize) -> Bytes {
        let mut message = totals.json();
        message["as_of"] = self.moment.as_of();
        message["second"] = self.seconds(seconds);
        object_fields(&message)
    }
}

impl TopicSource for LoadSource {
    fn update(&mut self, context: &ComputeContext<'_>, _: &DirtyMinutes) -> Update {
        let passed_s = (context.now_ms / 1000 - self.moment.ms / 1000) as usize;
        if passed_s == 0 {
            return Update::Unchanged;
        }
        self.computed = context.moment();
        let Ok(totals) = AccountingTotals::today(context.views, context.game, context.now_ms) else {
            return Update::Unchanged;
        };
        let now_s = (context.now_ms / 1000).max(0) as u64;
        self.seconds = context.views.accounting.per_second(context.game.number, now_s, SECONDS_KEPT);
        self.moment = context.moment();
        let message = self.message(&totals, (passed_s + SECONDS_RESENT).min(SECONDS_KEPT));
        self.totals = Some(totals);
        Update::Changed(message)
    }

    fn due_ms(&self) -> Option<i64> {
        Some(self.computed.next_second_ms())
    }

    fn full_state(&self) -> Bytes {
        match &self.totals {
            Some(totals) => self.message(totals, SECONDS_KEPT),
            None => error_fields(&self.moment, UNAVAILABLE),
        }
    }

    fn documents(&mut self) -> Vec<Arc<Document>> {
        let Some(totals) = &self.totals else { return self.builder.error(UNAVAILABLE) };
        let mut seconds = self.seconds(SECONDS_KEPT);
        seconds["as_of"] = self.moment.as_of();
        let rows = totals.json();
        let rows = rows["endpoints"].as_array().into_iter().flatten();
        let rows = rows
            .map(|row| self.builder.document_of_object(row["endpoint"].as_str().unwrap_or_default(), row));
        rows.chain([self.builder.document_of_object("seconds", &seconds)]).collect()
    }
}
