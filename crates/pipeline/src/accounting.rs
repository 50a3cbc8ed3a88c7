//! Ingest accounting: received events by outcome, per second in memory and per minute as ordinary rollups.
//!
//! `received = accepted + duplicate + invalid + late + limited` holds at every instant, because `received` is the sum.

mod metrics;
mod totals;

use std::collections::{BTreeMap, HashMap};

use model::batch::{AcceptedCounts, Endpoint, EventBatch};
use model::deltas::Deltas;
use model::limits::CLOCK_BACK_MS;
use model::ports::counters::{Counters, SlotSelector, StoreError};
use model::series::{Cut, Resolution};
use model::{Outcome, Reject};
use parking_lot::Mutex;

use metrics::{BYTES, SAMPLES_ACCEPTED};

pub use metrics::AccountingMetrics;
pub use totals::AccountingTotals;

/// Seconds of history per game that are kept in memory.
pub const SECONDS_KEPT: usize = 120;

/// The accounting of every game.
#[derive(Default)]
pub struct IngestAccounting {
    games: Mutex<HashMap<u32, SecondCounts>>,
    since_start: Mutex<BTreeMap<AccountingKey, u64>>,
}

/// The key of a count since the start of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountingKey {
    /// The game's number.
    pub game: u32,
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The reason of a rejected event; `None` for accepted ones.
    pub reject: Option<Reject>,
}

impl AccountingKey {
    /// Returns the outcome of the counted events.
    pub fn outcome(&self) -> Outcome {
        self.reject.map_or(Outcome::Accepted, Reject::outcome)
    }
}

/// The events of one game in each of the last seconds.
struct SecondCounts {
    newest_s: u64,
    counts: [SecondCount; SECONDS_KEPT],
}

/// What arrived in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondCount {
    /// Accepted events.
    pub accepted: u32,
    /// Rejected events and samples.
    pub rejected: u32,
    /// Accepted samples, which are not events.
    pub samples: u32,
}

impl Default for SecondCounts {
    fn default() -> SecondCounts {
        SecondCounts { newest_s: 0, counts: [SecondCount::default(); SECONDS_KEPT] }
    }
}

/// The accounting of one endpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointAccounting {
    /// The number of events by outcome, in the order of [`Outcome::ALL`].
    outcomes: [u64; 5],
    /// The number of rejected events by reason, without the reasons that did not occur.
    reasons: BTreeMap<&'static str, u64>,
}

impl EndpointAccounting {
    /// Returns the number of all received events.
    fn received(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// Adds the counts of another endpoint.
    fn add(&mut self, other: &EndpointAccounting) {
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(own, other)| *own += other);
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
    }
}

impl IngestAccounting {
    /// Counts a batch: in the deltas of its minute and in memory. `events` is the number of its entries; an entry of
    /// samples counts as the samples that it aggregates. `committed_ms` is the time of its commit.
    pub fn count(
        &self,
        batch: &EventBatch<'_>,
        events: u32,
        committed_ms: u64,
        deltas: &mut Deltas,
        metrics: &AccountingMetrics,
    ) {
        if !batch.endpoint.is_accounted() {
            return;
        }
        let AcceptedCounts { events, samples } = batch.accepted(events);
        let accepted = events.saturating_add(samples);
        let minute = (batch.received_ms / 60_000).max(0) as u32;
        let mut rejected = 0;
        let mut since_start = self.since_start.lock();
        let mut add = |reject, count| {
            let key = AccountingKey { game: batch.game, endpoint: batch.endpoint, reject };
            *since_start.entry(key).or_default() += u64::from(count);
        };
        if accepted > 0 {
            add(None, accepted);
            deltas.add_count(
                batch.game,
                metrics.outcome(batch.endpoint, Outcome::Accepted),
                minute,
                accepted,
            );
            deltas.add_count(batch.game, BYTES, minute, batch.bytes);
        }
        if samples > 0 {
            deltas.add_count(batch.game, SAMPLES_ACCEPTED, minute, samples);
        }
        for (reject, count) in batch.tallies() {
            rejected += count;
            add(Some(reject), count);
            deltas.add_count(batch.game, metrics.outcome(batch.endpoint, reject.outcome()), minute, count);
            deltas.add_count(batch.game, metrics.reason(batch.endpoint, reject), minute, count);
        }
        drop(since_start);
        let mut games = self.games.lock();
        games
            .entry(batch.game)
            .or_default()
            .add(committed_ms / 1000, SecondCount { accepted: events, rejected, samples });
    }

    /// Clears the counts since the start. They then contain events that were applied again from the log, which a
    /// scraper that adds up counters over restarts has counted already.
    pub(crate) fn reset_since_start(&self) {
        self.since_start.lock().clear();
    }

    /// Returns all counts since the start of the process.
    pub fn since_start(&self) -> BTreeMap<AccountingKey, u64> {
        self.since_start.lock().clone()
    }

    /// Returns what arrived in each of the last `seconds` up to `now_s`, oldest first.
    pub fn per_second(&self, game: u32, now_s: u64, seconds: usize) -> Vec<SecondCount> {
        let games = self.games.lock();
        let at = |second: u64| games.get(&game).map_or_else(SecondCount::default, |counts| counts.at(second));
        (0..seconds as u64).rev().map(|age| at(now_s.saturating_sub(age))).collect()
    }
}

impl SecondCounts {
    fn add(&mut self, second: u64, count: SecondCount) {
        if second + (CLOCK_BACK_MS / 1000) as u64 <= self.newest_s {
            // The clock was ahead.
            *self = SecondCounts::default();
        }
        if second > self.newest_s {
            let steps = (second - self.newest_s).min(SECONDS_KEPT as u64);
            for new in second + 1 - steps..=second {
                self.counts[new as usize % SECONDS_KEPT] = SecondCount::default();
            }
            self.newest_s = second;
        }
        if second + SECONDS_KEPT as u64 > self.newest_s {
            let sum = &mut self.counts[second as usize % SECONDS_KEPT];
            sum.accepted += count.accepted;
            sum.rejected += count.rejected;
            sum.samples += count.samples;
        }
    }

    fn at(&self, second: u64) -> SecondCount {
        let kept = second <= self.newest_s && second + SECONDS_KEPT as u64 > self.newest_s;
        if kept { self.counts[second as usize % SECONDS_KEPT] } else { SecondCount::default() }
    }
}

/// Returns the accounting of each endpoint of a game over minutes since 1970.
fn endpoint_accounting(
    counters: &dyn Counters,
    metrics: &AccountingMetrics,
    game: u32,
    minutes: std::ops::Range<u32>,
) -> Result<Vec<(Endpoint, EndpointAccounting)>, StoreError> {
    let sum = |metric: &str| sum_metric(counters, game, metric, minutes.clone());
    let mut endpoints = Vec::new();
    for endpoint in Endpoint::ALL.into_iter().filter(|endpoint| endpoint.is_accounted()) {
        let mut accounting = EndpointAccounting::default();
        for outcome in Outcome::ALL {
            accounting.outcomes[outcome as usize] = sum(metrics.outcome(endpoint, outcome))?;
        }
        let rejected = accounting.received() - accounting.outcomes[Outcome::Accepted as usize];
        if rejected > 0 {
            for reject in Reject::ALL {
                match sum(metrics.reason(endpoint, *reject))? {
                    0 => {}
                    count => drop(accounting.reasons.insert(reject.label(), count)),
                }
            }
        }
        endpoints.push((endpoint, accounting));
    }
    Ok(endpoints)
}

/// Returns the events accepted today and their bytes in the log. A store that fails counts as empty.
pub(crate) fn spent_today(counters: &dyn Counters, game: u32, now_ms: i64) -> [u64; 2] {
    let midnight = (now_ms.div_euclid(24 * 3_600_000) * 24 * 60).max(0) as u32;
    let sum = |metric: &str| sum_metric(counters, game, metric, midnight..midnight + 24 * 60).unwrap_or(0);
    let metrics = AccountingMetrics::get();
    let accepted = Endpoint::ALL.map(|endpoint| sum(metrics.outcome(endpoint, Outcome::Accepted)));
    [accepted.iter().sum(), sum(BYTES)]
}

/// Returns the total count of a metric over minutes since 1970.
pub fn sum_metric(
    counters: &dyn Counters,
    game: u32,
    metric: &str,
    minutes: std::ops::Range<u32>,
) -> Result<u64, StoreError> {
    let mut sum = 0;
    let whole_hours = minutes.start.is_multiple_of(60) && minutes.end.is_multiple_of(60);
    let level = if whole_hours { Resolution::Hour } else { Resolution::Minute };
    let select = SlotSelector { game, metric, cut: Cut::Total, values: None, resolution: level };
    counters.visit(select, minutes, &mut |_, _, cell| sum += cell.count.max(0) as u64)?;
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use model::batch::{BatchBuilder, KeyClass, Samples, StoredEvent};

    use super::*;

    #[test]
    fn events_count_in_their_second_for_two_minutes() {
        let mut seconds = SecondCounts::default();
        let count = |accepted, rejected, samples| SecondCount { accepted, rejected, samples };
        seconds.add(1000, count(5, 1, 0));
        seconds.add(1002, count(7, 0, 9));
        seconds.add(1001, count(2, 0, 0));
        let at = |seconds: &SecondCounts, second| {
            let SecondCount { accepted, rejected, samples } = seconds.at(second);
            (accepted, rejected, samples)
        };
        let found = [1000, 1001, 1002, 1003].map(|second| at(&seconds, second));
        assert_eq!(found, [(5, 1, 0), (2, 0, 0), (7, 0, 9), (0, 0, 0)]);
        seconds.add(1121, count(1, 0, 0));
        assert_eq!([1001, 1002, 1121].map(|second| at(&seconds, second)), [(0, 0, 0), (7, 0, 9), (1, 0, 0)]);
        seconds.add(1_000_000, count(3, 0, 0));
        seconds.add(1125, count(4, 0, 0));
        assert_eq!(
            [1125, 1_000_000].map(|second| at(&seconds, second)),
            [(4, 0, 0), (0, 0, 0)],
            "it was ahead"
        );
    }

    #[test]
    fn an_entry_counts_as_the_samples_that_it_aggregates() {
        let mut batch = BatchBuilder::new(Endpoint::Flows, KeyClass::Secret, 1, 60_000, 64);
        for taken in [5, 7] {
            let samples = Some(Samples { received: taken, aggregate: b"cell" });
            batch.push(&StoredEvent { name: b"$flow.mos", samples, ..StoredEvent::default() });
        }
        let (bytes, events) = batch.finish(&[]);
        let (accounting, mut deltas) = (IngestAccounting::default(), Deltas::default());
        let batch = EventBatch::read(&bytes).expect("it was built");
        accounting.count(&batch, events, 60_000, &mut deltas, AccountingMetrics::get());
        let counts: Vec<u64> = accounting.since_start().into_values().collect();
        assert_eq!(counts, [12]);
        let SecondCount { accepted, samples, .. } = accounting.per_second(1, 60, 1)[0];
        assert_eq!((accepted, samples), (0, 12), "samples are not events");
    }
}
