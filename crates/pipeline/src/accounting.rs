//! What came in and what became of it: by the second for the eye, by the minute as ordinary rollups.
//!
//! `received = accepted + duplicate + invalid + late + limited` holds at every instant, because `received` is the sum.

mod totals;

pub use totals::Totals;

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use model::batch::{Endpoint, EventBatch};
use model::deltas::Deltas;
use model::ports::counters::{Counters, SlotSelector, StoreError};
use model::series::{Cut, Resolution};
use model::{Outcome, Reject};
use parking_lot::Mutex;

/// Seconds of history kept for the eye.
pub const SECONDS: usize = 120;

/// The counts of every game.
#[derive(Default)]
pub struct Meter {
    games: Mutex<HashMap<u32, Seconds>>,
    since_start: Mutex<BTreeMap<Counted, u64>>,
}

/// What is counted since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counted {
    /// The tenant.
    pub game: u32,
    /// The door.
    pub endpoint: Endpoint,
    /// Why; `None`: accepted.
    pub reject: Option<Reject>,
}

impl Counted {
    /// What became of these events.
    pub fn outcome(&self) -> Outcome {
        self.reject.map_or(Outcome::Accepted, Reject::outcome)
    }
}

struct Seconds {
    newest_s: u64,
    accepted: [u32; SECONDS],
    refused: [u32; SECONDS],
}

impl Default for Seconds {
    fn default() -> Seconds {
        Seconds { newest_s: 0, accepted: [0; SECONDS], refused: [0; SECONDS] }
    }
}

/// What one door took and refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// In the order of [`Outcome::ALL`].
    pub outcomes: [u64; 5],
    /// Refusals by reason, those that happened.
    pub reasons: BTreeMap<&'static str, u64>,
}

impl Account {
    /// Everything that came in.
    pub fn received(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// Adds another account.
    pub fn add(&mut self, other: &Account) {
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(own, other)| *own += other);
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
    }
}

impl Meter {
    /// Counts a batch of so many events: into the deltas of its minute, and for the eye. Samples count as they came in.
    pub fn count(&self, batch: &EventBatch<'_>, events: u32, deltas: &mut Deltas, names: &Names) {
        if !batch.endpoint.is_accounted() {
            return;
        }
        let accepted = batch.accepted(events);
        let minute = (batch.received_ms / 60_000).max(0) as u32;
        let mut refused = 0;
        let mut since_start = self.since_start.lock();
        let mut add = |reject, count| {
            let counted = Counted { game: batch.game, endpoint: batch.endpoint, reject };
            *since_start.entry(counted).or_default() += u64::from(count);
        };
        if accepted > 0 {
            add(None, accepted);
            deltas.add_count(batch.game, names.outcome(batch.endpoint, Outcome::Accepted), minute, accepted);
            deltas.add_count(batch.game, BYTES, minute, batch.bytes);
        }
        for (reject, count) in batch.tallies() {
            refused += count;
            add(Some(reject), count);
            deltas.add_count(batch.game, names.outcome(batch.endpoint, reject.outcome()), minute, count);
            deltas.add_count(batch.game, names.reason(batch.endpoint, reject), minute, count);
        }
        drop(since_start);
        let mut games = self.games.lock();
        games.entry(batch.game).or_default().add((batch.received_ms / 1000).max(0) as u64, accepted, refused);
    }

    /// What has been counted so far was read again from the log; whoever adds up these counts over restarts has it.
    pub fn begin(&self) {
        self.since_start.lock().clear();
    }

    /// All counts since the start of the process.
    pub fn since_start(&self) -> BTreeMap<Counted, u64> {
        self.since_start.lock().clone()
    }

    /// Accepted and refused events per second of the last `seconds` before `now_s`, oldest first.
    pub fn seconds(&self, game: u32, now_s: u64, seconds: usize) -> (Vec<u32>, Vec<u32>) {
        let games = self.games.lock();
        let at = |second: u64| games.get(&game).map_or((0, 0), |counts| counts.at(second));
        (0..seconds as u64).rev().map(|age| at(now_s.saturating_sub(age))).unzip()
    }
}

impl Seconds {
    fn add(&mut self, second: u64, accepted: u32, refused: u32) {
        if second > self.newest_s {
            let steps = (second - self.newest_s).min(SECONDS as u64);
            for new in second + 1 - steps..=second {
                self.accepted[new as usize % SECONDS] = 0;
                self.refused[new as usize % SECONDS] = 0;
            }
            self.newest_s = second;
        }
        if second + SECONDS as u64 > self.newest_s {
            self.accepted[second as usize % SECONDS] += accepted;
            self.refused[second as usize % SECONDS] += refused;
        }
    }

    fn at(&self, second: u64) -> (u32, u32) {
        let kept = second <= self.newest_s && second + SECONDS as u64 > self.newest_s;
        let slot = second as usize % SECONDS;
        if kept { (self.accepted[slot], self.refused[slot]) } else { (0, 0) }
    }
}

/// The rollup in which the bytes of accepted events are counted.
const BYTES: &str = "$load.bytes";

/// The names of the rollups in which the accounting is kept, made once.
pub struct Names {
    outcomes: Vec<String>,
    reasons: Vec<String>,
}

impl Default for Names {
    fn default() -> Names {
        let codes = Endpoint::ALL.map(|endpoint| endpoint as usize).into_iter().max().unwrap_or(0) + 1;
        let mut outcomes = vec![String::new(); codes * Outcome::ALL.len()];
        let mut reasons = vec![String::new(); codes * 256];
        for endpoint in Endpoint::ALL {
            for outcome in Outcome::ALL {
                let name = format!("$load.{}.{}", endpoint.label(), outcome.label());
                outcomes[endpoint as usize * Outcome::ALL.len() + outcome as usize] = name;
            }
            for reject in Reject::ALL {
                let name =
                    format!("$load.{}.{}.{}", endpoint.label(), reject.outcome().label(), reject.label());
                reasons[endpoint as usize * 256 + reject.code() as usize] = name;
            }
        }
        Names { outcomes, reasons }
    }
}

impl Names {
    /// The one table of this process.
    pub fn get() -> &'static Names {
        static NAMES: LazyLock<Names> = LazyLock::new(Names::default);
        &NAMES
    }

    fn outcome(&self, endpoint: Endpoint, outcome: Outcome) -> &str {
        &self.outcomes[endpoint as usize * Outcome::ALL.len() + outcome as usize]
    }

    fn reason(&self, endpoint: Endpoint, reject: Reject) -> &str {
        &self.reasons[endpoint as usize * 256 + reject.code() as usize]
    }
}

/// The accounts of a game by door, over minutes since 1970.
pub fn accounts(
    counters: &dyn Counters,
    names: &Names,
    game: u32,
    minutes: std::ops::Range<u32>,
) -> Result<Vec<(Endpoint, Account)>, StoreError> {
    let sum = |metric: &str| sum(counters, game, metric, minutes.clone());
    let mut accounts = Vec::new();
    for endpoint in Endpoint::ALL.into_iter().filter(|endpoint| endpoint.is_accounted()) {
        let mut account = Account::default();
        for outcome in Outcome::ALL {
            account.outcomes[outcome as usize] = sum(names.outcome(endpoint, outcome))?;
        }
        let refused = account.received() - account.outcomes[Outcome::Accepted as usize];
        if refused > 0 {
            for reject in Reject::ALL {
                match sum(names.reason(endpoint, *reject))? {
                    0 => {}
                    count => drop(account.reasons.insert(reject.label(), count)),
                }
            }
        }
        accounts.push((endpoint, account));
    }
    Ok(accounts)
}

/// Events accepted today, and their bytes in the log. A store that does not answer knows of none.
pub fn spent(counters: &dyn Counters, game: u32, now_ms: i64) -> [u64; 2] {
    let midnight = (now_ms.div_euclid(24 * 3_600_000) * 24 * 60).max(0) as u32;
    let sum = |metric: &str| sum(counters, game, metric, midnight..midnight + 24 * 60).unwrap_or(0);
    let names = Names::get();
    let accepted = Endpoint::ALL.map(|endpoint| sum(names.outcome(endpoint, Outcome::Accepted)));
    [accepted.iter().sum(), sum(BYTES)]
}

/// How many a metric counted in some minutes.
pub fn sum(
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
    use super::*;

    #[test]
    fn seconds_are_counted_where_they_belong_and_forgotten_after_two_minutes() {
        let mut seconds = Seconds::default();
        seconds.add(1000, 5, 1);
        seconds.add(1002, 7, 0);
        seconds.add(1001, 2, 0);
        let at = |second| seconds.at(second);
        assert_eq!([at(1000), at(1001), at(1002), at(1003)], [(5, 1), (2, 0), (7, 0), (0, 0)]);
        seconds.add(1121, 1, 0);
        assert_eq!([seconds.at(1001), seconds.at(1002), seconds.at(1121)], [(0, 0), (7, 0), (1, 0)]);
    }

    #[test]
    fn samples_count_as_they_came_in_whoever_counts() {
        use model::batch::{BatchBuilder, KeyClass, Samples, StoredEvent};
        let mut batch = BatchBuilder::new(Endpoint::Flows, KeyClass::Secret, 1, 60_000, 64);
        for taken in [5, 7] {
            let samples = Some(Samples { received: taken, aggregate: b"cell" });
            batch.push(&StoredEvent { name: b"$flow.mos", samples, ..StoredEvent::default() });
        }
        let (bytes, events) = batch.finish(&[]);
        let (meter, mut deltas) = (Meter::default(), Deltas::default());
        let batch = EventBatch::read(&bytes).expect("it was built");
        meter.count(&batch, events, &mut deltas, Names::get());
        let counts: Vec<u64> = meter.since_start().into_values().collect();
        assert_eq!(counts, [12]);
    }
}
