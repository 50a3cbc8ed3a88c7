//! The accounting of a game over a range of minutes, as JSON.

use model::Outcome;
use model::batch::Endpoint;
use model::ports::counters::StoreError;
use model::series::OTHER;
use serde_json::{Value, json};

use super::metrics::SAMPLES_ACCEPTED;
use super::{AccountingMetrics, EndpointAccounting, endpoint_accounting, sum_metric};
use crate::catalog::Game;
use crate::time::rfc3339;
use crate::views::Views;

const DAY_MINUTES: i64 = 24 * 60;

/// The accounting of a game over a range of minutes.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountingTotals {
    since_ms: i64,
    samples: u64,
    other_events: u64,
    endpoints: Vec<(Endpoint, EndpointAccounting)>,
}

impl AccountingTotals {
    /// Reads the accounting since midnight UTC.
    pub fn today(views: &Views, game: &Game, now_ms: i64) -> Result<AccountingTotals, StoreError> {
        let minute = now_ms / 60_000;
        let midnight = minute - minute % DAY_MINUTES;
        AccountingTotals::read(views, game, midnight, midnight + DAY_MINUTES)
    }

    /// Reads the accounting from one minute since 1970 up to another, exclusive.
    pub fn read(views: &Views, game: &Game, from: i64, until: i64) -> Result<AccountingTotals, StoreError> {
        let minutes = from.max(0) as u32..until.max(0) as u32;
        let metrics = AccountingMetrics::get();
        let endpoints = endpoint_accounting(&*views.counters, metrics, game.number, minutes.clone())?;
        let sum = |metric| sum_metric(&*views.counters, game.number, metric, minutes.clone());
        let (samples, other_events) = (sum(SAMPLES_ACCEPTED)?, sum(OTHER)?);
        Ok(AccountingTotals { since_ms: from * 60_000, samples, other_events, endpoints })
    }

    /// Returns `{since, totals, samples, other_events, reasons, endpoints}`. Endpoints without events are omitted.
    pub fn json(&self) -> Value {
        let mut all = EndpointAccounting::default();
        self.endpoints.iter().for_each(|(_, accounting)| all.add(accounting));
        let used = self.endpoints.iter().filter(|(_, accounting)| accounting.received() > 0);
        let endpoint = |(endpoint, accounting): &(Endpoint, EndpointAccounting)| {
            let mut row = outcomes(accounting);
            row["endpoint"] = endpoint.label().into();
            row["reasons"] = json!(accounting.reasons);
            row
        };
        json!({
            "since": rfc3339(self.since_ms),
            "totals": outcomes(&all),
            "samples": self.samples,
            "other_events": self.other_events,
            "reasons": all.reasons,
            "endpoints": used.map(endpoint).collect::<Vec<_>>(),
        })
    }
}

fn outcomes(accounting: &EndpointAccounting) -> Value {
    let mut row = json!({ "received": accounting.received() });
    for outcome in Outcome::ALL {
        row[outcome.label()] = accounting.outcomes[outcome as usize].into();
    }
    row
}
