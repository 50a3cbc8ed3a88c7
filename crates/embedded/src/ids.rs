//! The event ids of the window, exact and on one disk.
//!
//! The newest ids are in a memtable. When it is full, or a minute old, it becomes a sorted file, a *run*, written by a
//! thread in the background; neighbouring runs are merged, up to a day of them, and a run is removed when its newest
//! id has left the window. A claim asks the memtable, then the filters of the runs, which are in memory up to a
//! budget, and only where a filter says "perhaps" the disk. Ids made from the time (UUIDv7) ask only runs with ids of
//! that time.
//!
//! Nothing is written before the log is: what is not in a run yet is claimed again from the log after a crash. How a
//! run looks on disk is written in `ids/run.rs`.

mod background;
mod batch;
mod filter;
mod folder;
pub(crate) mod memory;
mod memtable;
mod merge;
mod place;
mod run;
mod times;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use model::limits::ID_WINDOW_MS;
use model::ports::ids::{Claim, IdStats, Ids, IdsError};

use self::background::{Frozen, Shared};
use self::batch::{Batch, CHUNK};
use self::filter::bits_of;
use self::folder::Found;
pub use self::folder::OpenReport;
use self::memtable::Memtable;
use self::merge::SPAN_MS_MAX;
use self::place::{Kind, Probe, kind_of};
use self::run::Run;

/// Full memtables that may wait for the disk before a claim has to.
const FROZEN_MAX: usize = 2;

/// How a set of ids uses time, memory and disk.
#[derive(Clone, Debug)]
pub struct IdsOptions {
    /// How long an id is remembered, in milliseconds of receipt.
    pub window_ms: u64,
    /// A memtable of so many ids becomes a run.
    pub keys_per_run: usize,
    /// So does one that is this old: it bounds what is claimed again after a crash.
    pub run_age_ms: u64,
    /// Memory for the filters and directories of runs; the oldest runs' are read from their files beyond it.
    pub filter_bytes_max: u64,
    /// A bug to show that a harness finds it.
    #[cfg(feature = "fault-injection")]
    pub injected_fault: Option<crate::InjectedFault>,
}

impl Default for IdsOptions {
    fn default() -> IdsOptions {
        IdsOptions {
            window_ms: ID_WINDOW_MS.unsigned_abs(),
            keys_per_run: 512 << 10,
            run_age_ms: 60_000,
            filter_bytes_max: 64 << 20,
            #[cfg(feature = "fault-injection")]
            injected_fault: None,
        }
    }
}

/// The ids of the window in one folder. Dropping it is like a crash: what is not in a run is claimed again.
pub struct EmbeddedIds {
    options: IdsOptions,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Below this offset the log is replayed, not written.
    log_end: u64,
    /// Ranges that no run covers, to be filled by the replay.
    holes: VecDeque<Range<u64>>,
    /// Where the runs found at start end.
    covered_until: u64,
    active: Memtable,
    /// What the background held when we last looked.
    frozen: Vec<Arc<Frozen>>,
    runs: Arc<Vec<Run>>,
    runs_version: u64,
    /// Runs that have left the window but are not removed yet.
    runs_expired: usize,
    waits: u64,
    buffer: Vec<u8>,
}

impl EmbeddedIds {
    /// Opens the set in this folder. `log_end` is the end of the log as it was found, before anything is added to it.
    ///
    /// The log is to be claimed again from `registered_until` to `log_end` before the first new batch.
    pub fn open(
        folder: &Path,
        options: IdsOptions,
        log_end: u64,
    ) -> Result<(EmbeddedIds, OpenReport), IdsError> {
        let found = recover_and_load(folder, log_end, options.filter_bytes_max)?;
        let covered_until = found.runs.last().map_or(0, |run| run.header.to);
        let holes = VecDeque::from(found.report.holes.clone());
        let from = holes.front().map_or(covered_until, |hole| hole.start);
        let shared = Arc::new(Shared::new(folder.to_path_buf(), options.clone(), found.runs, found.damaged));
        let ids = EmbeddedIds {
            threads: start_threads(&shared)?,
            options,
            shared,
            log_end,
            holes,
            covered_until,
            active: Memtable::new(from),
            frozen: Vec::new(),
            runs: Arc::default(),
            runs_version: 0,
            runs_expired: 0,
            waits: 0,
            buffer: Vec::new(),
        };
        Ok((ids, found.report))
    }

    /// Brings every id below `offset`, the end of the log, to disk. Before an orderly stop, so that the next start has
    /// nothing to claim again.
    pub fn flush(&mut self, offset: u64, now_ms: u64) -> Result<(), IdsError> {
        self.keep_up(offset, now_ms)?;
        if offset > self.active.from {
            self.freeze(offset, now_ms);
        }
        self.shared.wait_for_room(0)?;
        self.look_again(now_ms);
        Ok(())
    }

    /// What is due before a batch at this offset is claimed.
    fn keep_up(&mut self, offset: u64, now_ms: u64) -> Result<(), IdsError> {
        self.look_again(now_ms);
        while let Some(hole) = self.holes.front().filter(|hole| hole.end <= offset).cloned() {
            self.wait_for_room(now_ms)?;
            self.freeze(hole.end, now_ms);
            self.holes.pop_front();
            self.active.from = self.holes.front().map_or(self.covered_until.max(hole.end), |next| next.start);
        }
        if offset > self.active.from && self.is_due(offset, now_ms) {
            self.freeze_when_possible(offset, now_ms)?;
        }
        Ok(())
    }

    fn is_due(&self, offset: u64, now_ms: u64) -> bool {
        // Replayed receipts may lie far apart; a run for each minute of them would be a great many.
        let age_max = if offset < self.log_end { SPAN_MS_MAX } else { self.options.run_age_ms };
        self.age_ms(now_ms) >= age_max || self.cannot_grow(now_ms)
    }

    fn age_ms(&self, now_ms: u64) -> u64 {
        self.active.received_ms.map_or(0, |(oldest, _)| now_ms.abs_diff(oldest))
    }

    /// Full of ids, or of a day: a run that spans more would keep its first ids for too long.
    fn cannot_grow(&self, now_ms: u64) -> bool {
        self.active.len() >= self.options.keys_per_run || self.age_ms(now_ms) >= SPAN_MS_MAX
    }

    /// A memtable that is only old can grow on while the disk is busy.
    fn freeze_when_possible(&mut self, to: u64, now_ms: u64) -> Result<(), IdsError> {
        if self.cannot_grow(now_ms) {
            self.wait_for_room(now_ms)?;
        }
        if self.frozen.len() < FROZEN_MAX {
            self.freeze(to, now_ms);
        }
        Ok(())
    }

    fn wait_for_room(&mut self, now_ms: u64) -> Result<(), IdsError> {
        if self.frozen.len() >= FROZEN_MAX {
            self.waits += 1;
            self.shared.wait_for_room(FROZEN_MAX - 1)?;
            self.look_again(now_ms);
        }
        Ok(())
    }

    fn freeze(&mut self, to: u64, now_ms: u64) {
        let next = self.active.next(to);
        let table = std::mem::replace(&mut self.active, next);
        let received_ms = table.received_ms.unwrap_or((now_ms, now_ms));
        let frozen = Arc::new(Frozen { table, to, received_ms });
        self.frozen.push(frozen.clone());
        self.shared.freeze(frozen);
    }

    /// Takes over what the background has done, and leaves behind what has expired.
    fn look_again(&mut self, now_ms: u64) {
        if self.shared.version.load(Ordering::Acquire) != self.runs_version {
            let state = self.shared.state();
            self.runs_version = self.shared.version.load(Ordering::Acquire);
            self.runs = state.runs.clone();
            self.runs_expired = 0;
            self.frozen.clear();
            self.frozen.extend(state.frozen.iter().cloned());
        }
        let expired = background::expired(&self.runs, now_ms, self.options.window_ms);
        if expired > self.runs_expired {
            self.runs_expired = expired;
            self.shared.expire(now_ms);
        }
    }

    /// Claims in steps of 64: while one is looked up, the memory for the next is on its way.
    fn claim_all(
        &mut self,
        offset: u64,
        now_ms: u64,
        claims: &[Claim],
        fresh: &mut Vec<bool>,
    ) -> Result<(), IdsError> {
        let mut chunks = claims.chunks(CHUNK);
        let mut next = chunks.next().map(|chunk| self.prepare(chunk));
        while let Some(mut batch) = next {
            next = chunks.next().map(|chunk| self.prepare(chunk));
            let new = self.claim_batch(offset, now_ms, &mut batch)?;
            fresh.extend((0..batch.len()).map(|n| new >> n & 1 == 1));
        }
        Ok(())
    }

    fn prepare(&self, claims: &[Claim]) -> Batch {
        let batch = Batch::new(claims);
        batch.probes().for_each(|(kind, probe)| self.active.table(kind).prefetch(probe.place));
        batch
    }

    /// Which of the batch are new; on an error none of them is claimed.
    fn claim_batch(&mut self, offset: u64, now_ms: u64, batch: &mut Batch) -> Result<u64, IdsError> {
        let mut wanted = 0;
        for (n, (kind, probe)) in batch.probes().enumerate() {
            wanted |= u64::from(self.active.insert(kind, probe)) << n;
        }
        batch.wanted = wanted;
        let known = if self.replays_uncovered(offset) { Ok(0) } else { self.known_before(batch, now_ms) };
        for n in bits_of(*known.as_ref().unwrap_or(&wanted)) {
            self.active.remove(batch.kind(n), batch.probes[n].place);
        }
        Ok(wanted & !known?)
    }

    /// A replayed batch that no run holds. Its events were accepted once, so its ids are remembered from its receipt
    /// on, also where an older run, about to expire, holds the same id.
    fn replays_uncovered(&self, offset: u64) -> bool {
        offset < self.log_end && offset >= self.active.from
    }

    /// Which of the wanted probes are in a frozen memtable or a run.
    fn known_before(&mut self, batch: &Batch, now_ms: u64) -> Result<u64, IdsError> {
        let mut known = 0;
        for frozen in &self.frozen {
            if frozen.received_ms.1.saturating_add(self.options.window_ms) >= now_ms {
                known |= batch.known_in(&frozen.table, batch.wanted & !known);
            }
        }
        for run in self.runs[self.runs_expired..].iter().rev() {
            for kind in Kind::ALL {
                let wanted = batch.wanted_in(run, kind) & !known;
                if wanted != 0 {
                    known |= look_up(run, kind, &batch.probes, wanted, &mut self.buffer)?;
                }
            }
        }
        Ok(known)
    }
}

#[cfg(feature = "fault-injection")]
impl EmbeddedIds {
    fn forget_if_injected(&mut self, claims: &[Claim], fresh: &[bool]) {
        if self.options.injected_fault == Some(crate::InjectedFault::ForgetIdInsert) {
            let new = claims.iter().zip(fresh).filter(|(_, new)| **new);
            new.for_each(|(claim, _)| take_back(&mut self.active, claim));
        }
    }
}

impl Ids for EmbeddedIds {
    fn claim(
        &mut self,
        offset: u64,
        now_ms: u64,
        claims: &[Claim],
        fresh: &mut Vec<bool>,
    ) -> Result<(), IdsError> {
        self.keep_up(offset, now_ms)?;
        if !claims.is_empty() || offset > self.active.from {
            self.active.saw(now_ms);
        }
        let before = fresh.len();
        let answer = self.claim_all(offset, now_ms, claims, fresh);
        if let Err(error) = &answer {
            let claimed = claims.iter().zip(fresh.drain(before..)).filter(|(_, new)| *new);
            claimed.for_each(|(claim, _)| take_back(&mut self.active, claim));
            folder::set_aside_if_corrupt(error, &self.runs);
        }
        #[cfg(feature = "fault-injection")]
        self.forget_if_injected(claims, &fresh[before..]);
        answer
    }

    fn release(&mut self, claims: &[Claim]) {
        #[cfg(feature = "fault-injection")]
        if self.options.injected_fault == Some(crate::InjectedFault::ForgetIdInsert) {
            return;
        }
        claims.iter().for_each(|claim| take_back(&mut self.active, claim));
    }

    fn registered_until(&self) -> u64 {
        self.frozen.first().map_or(self.active.from, |frozen| frozen.table.from)
    }

    fn stats(&self) -> IdStats {
        let runs = &self.runs[self.runs_expired..];
        let tables = || self.frozen.iter().map(|frozen| &frozen.table).chain([&self.active]);
        let filters = runs.iter().flat_map(|run| Kind::ALL.map(|kind| run.resident_bytes(kind)));
        IdStats {
            keys: runs.iter().map(Run::keys).sum::<u64>()
                + tables().map(|table| table.len() as u64).sum::<u64>(),
            runs: runs.len(),
            memory_bytes: filters.sum::<u64>() + tables().map(|table| table.bytes() as u64).sum::<u64>(),
            disk_bytes: runs.iter().map(Run::file_bytes).sum(),
            waits: self.waits,
        }
    }
}

impl Drop for EmbeddedIds {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

fn take_back(active: &mut Memtable, claim: &Claim) {
    let was_there = active.remove(kind_of(claim), place::place_of(claim.key));
    debug_assert!(was_there, "only ids answered as new are taken back, and before the next claim");
}

/// Which of the wanted probes are in the run.
fn look_up(
    run: &Run,
    kind: Kind,
    probes: &[Probe],
    wanted: u64,
    buffer: &mut Vec<u8>,
) -> Result<u64, IdsError> {
    let mut known = 0;
    for n in bits_of(run.pass(kind, probes, wanted)?) {
        known |= u64::from(run.holds(kind, probes[n].place, buffer)?) << n;
    }
    Ok(known)
}

/// A run whose filter is damaged is set aside; what remains is sorted out anew.
fn recover_and_load(folder: &Path, log_end: u64, filter_bytes_max: u64) -> Result<Found, IdsError> {
    loop {
        let mut found = folder::recover(folder, log_end)?;
        match load_newest(&mut found.runs, filter_bytes_max) {
            Ok(()) => return Ok(found),
            Err(error) if folder::set_aside_if_corrupt(&error, &found.runs) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Loads the newest runs' filters, as far as the budget goes.
fn load_newest(runs: &mut [Run], bytes_max: u64) -> Result<(), IdsError> {
    let mut used = 0;
    for run in runs.iter_mut().rev() {
        for kind in Kind::ALL {
            used += run.section(kind).resident_bytes();
            if used > bytes_max {
                return Ok(());
            }
            run.load(kind)?;
        }
    }
    Ok(())
}

fn start_threads(shared: &Arc<Shared>) -> Result<Vec<JoinHandle<()>>, IdsError> {
    let start = |name: &str, body: fn(&Shared)| {
        let shared = shared.clone();
        let thread = thread::Builder::new().name(name.into()).spawn(move || body(&shared));
        thread.map_err(|error| IdsError::Unavailable(format!("starting a thread: {error}")))
    };
    Ok(vec![start("ids-write", Shared::write_runs)?, start("ids-tidy", Shared::tidy_runs)?])
}
