//! The accounting of a game over a range of minutes, as JSON.

use model::Outcome;
use model::batch::Endpoint;
use model::ports::counters::StoreError;
use serde_json::{Value, json};

use crate::accounting::{Account, Names, accounts};
use crate::catalog::Game;
use crate::time::rfc3339;
use crate::views::Views;

const DAY_MINUTES: i64 = 24 * 60;

/// The accounts of a game over a range of minutes.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    since_ms: i64,
    accounts: Vec<(Endpoint, Account)>,
}

impl Totals {
    /// Since midnight UTC.
    pub fn today(views: &Views, game: &Game, now_ms: i64) -> Result<Totals, StoreError> {
        let minute = now_ms / 60_000;
        let midnight = minute - minute % DAY_MINUTES;
        Totals::of(views, game, midnight, midnight + DAY_MINUTES)
    }

    /// Over minutes since 1970.
    pub fn of(views: &Views, game: &Game, from: i64, until: i64) -> Result<Totals, StoreError> {
        let minutes = from.max(0) as u32..until.max(0) as u32;
        let accounts = accounts(&*views.counters, Names::get(), game.number, minutes)?;
        Ok(Totals { since_ms: from * 60_000, accounts })
    }

    /// `{since, totals, reasons, endpoints}`.
    pub fn json(&self) -> Value {
        let mut all = Account::default();
        self.accounts.iter().for_each(|(_, account)| all.add(account));
        let used = self.accounts.iter().filter(|(_, account)| account.received() > 0);
        let endpoint = |(endpoint, account): &(Endpoint, Account)| {
            let mut row = outcomes(account);
            row["endpoint"] = endpoint.label().into();
            row["reasons"] = json!(account.reasons);
            row
        };
        json!({
            "since": rfc3339(self.since_ms),
            "totals": outcomes(&all),
            "reasons": all.reasons,
            "endpoints": used.map(endpoint).collect::<Vec<_>>(),
        })
    }
}

fn outcomes(account: &Account) -> Value {
    let mut row = json!({ "received": account.received() });
    for outcome in Outcome::ALL {
        row[outcome.label()] = account.outcomes[outcome as usize].into();
    }
    row
}
