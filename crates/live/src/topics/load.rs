//! The accounting: what came in today and what became of it, and each of the last seconds.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::docs::Doc;
use crate::topic::{At, List, Moment, Source, Update, failed, fields};
use crate::touches::Touches;
use pipeline::accounting::AccountingTotals;
use pipeline::accounting::SECONDS_KEPT;
use pipeline::time::rfc3339;

/// Seconds sent again with each change: what came late is counted in its own second.
const SECONDS_AGAIN: usize = 3;

/// What was last published.
pub(crate) struct Load {
    list: List,
    /// When it was looked at last; without an answer of the store nothing is told.
    looked: Moment,
    moment: Moment,
    totals: Option<AccountingTotals>,
    accepted: Vec<u32>,
    refused: Vec<u32>,
}

impl Load {
    pub fn new(list: List) -> Load {
        let (accepted, refused) = (Vec::new(), Vec::new());
        let (looked, moment) = Default::default();
        Load { list, looked, moment, totals: None, accepted, refused }
    }

    /// The last of the seconds.
    fn seconds(&self, count: usize) -> Value {
        let last = |seconds: &[u32]| Value::from(&seconds[seconds.len().saturating_sub(count)..]);
        let from = rfc3339((self.moment.ms / 1000 - count as i64 + 1) * 1000);
        json!({ "from": from, "accepted": last(&self.accepted), "refused": last(&self.refused) })
    }

    fn message(&self, totals: &AccountingTotals, seconds: usize) -> Bytes {
        let mut message = totals.json();
        message["as_of"] = self.moment.as_of();
        message["second"] = self.seconds(seconds);
        fields(&message)
    }
}

impl Source for Load {
    fn advance(&mut self, at: &At<'_>, _: &Touches) -> Update {
        let passed = (at.ms / 1000 - self.moment.ms / 1000) as usize;
        if passed == 0 {
            return Update::Same;
        }
        self.looked = at.moment();
        let Ok(totals) = AccountingTotals::today(at.views, at.game, at.ms) else { return Update::Same };
        let now_s = (at.ms / 1000).max(0) as u64;
        (self.accepted, self.refused) = at.views.accounting.per_second(at.game.number, now_s, SECONDS_KEPT);
        self.moment = at.moment();
        let message = self.message(&totals, (passed + SECONDS_AGAIN).min(SECONDS_KEPT));
        self.totals = Some(totals);
        Update::Change(message)
    }

    fn due_ms(&self) -> Option<i64> {
        Some(self.looked.next_second_ms())
    }

    fn whole(&self) -> Bytes {
        match &self.totals {
            Some(totals) => self.message(totals, SECONDS_KEPT),
            None => failed(&self.moment, "the accounting cannot be read at the moment"),
        }
    }

    fn documents(&mut self) -> Vec<Arc<Doc>> {
        let Some(totals) = &self.totals else {
            return self.list.failed("the accounting cannot be read at the moment");
        };
        let mut seconds = self.seconds(SECONDS_KEPT);
        seconds["as_of"] = self.moment.as_of();
        let rows = totals.json();
        let rows = rows["endpoints"].as_array().into_iter().flatten();
        let rows = rows.map(|row| self.list.object(row["endpoint"].as_str().unwrap_or_default(), row));
        rows.chain([self.list.object("seconds", &seconds)]).collect()
    }
}
