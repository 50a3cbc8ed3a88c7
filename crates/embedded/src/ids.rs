//! Deduplication: the event ids of the window, exact and on one disk.
//!
//! The newest ids are in a memtable. When it is full or a minute old, a background thread writes it as a sorted file, a
//! *run*. Neighbouring runs are merged up to a day of ids, and a run is removed when its newest id has left the window.
//! A claim looks in the memtable, then in the filters of the runs, which are kept in memory up to a budget, and reads the
//! disk only where a filter says "maybe". Ids with a time (UUIDv7) are looked up only in runs with ids of that time.
//!
//! Nothing is written before the log is: ids that are in no run yet are replayed from the log after a crash. The file
//! format of a run is documented in `ids/run.rs`.

mod background;
mod batch;
mod filter;
mod folder;
mod hash;
mod memtable;
mod merge;
mod run;
mod table_memory;
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

use self::background::{SealedMemtable, Shared};
use self::batch::{CHUNK, ClaimBatch};
use self::filter::bits_of;
pub use self::folder::OpenReport;
use self::folder::RecoveredFolder;
use self::hash::{IdKind, Probe, kind_of};
use self::memtable::Memtable;
use self::merge::SPAN_MS_MAX;
use self::run::Run;

/// Sealed memtables that may wait for the disk before a claim has to wait.
const SEALED_MAX: usize = 2;

/// Settings for the use of time, memory and disk.
#[derive(Clone)]
pub struct IdsOptions {
    /// Time for which an id stays registered, in milliseconds of receipt time.
    pub window_ms: u64,
    /// The time by which ids are old enough to be removed, in milliseconds since 1970; `None` while it is not known.
    /// Without this clock it is the time of each claim.
    pub deletion_clock: Option<fn() -> Option<u64>>,
    /// Number of ids at which a memtable becomes a run.
    pub keys_per_run: usize,
    /// Age at which a memtable becomes a run, in milliseconds: it bounds what is replayed after a crash.
    pub run_age_ms: u64,
    /// Memory for the filters and directories of runs, in bytes. If they need more, filters are halved, the oldest first;
    /// beyond that they are read from disk.
    pub filter_bytes_max: u64,
    /// A deliberate bug that a crash test has to detect.
    #[cfg(feature = "fault-injection")]
    pub injected_fault: Option<crate::InjectedFault>,
}

impl Default for IdsOptions {
    fn default() -> IdsOptions {
        IdsOptions {
            window_ms: ID_WINDOW_MS.unsigned_abs(),
            deletion_clock: None,
            keys_per_run: 512 << 10,
            run_age_ms: 60_000,
            filter_bytes_max: 64 << 20,
            #[cfg(feature = "fault-injection")]
            injected_fault: None,
        }
    }
}

impl IdsOptions {
    /// Returns the time by which ids are old enough to be removed: 0 while it is not known.
    fn deletion_now_ms(&self, now_ms: u64) -> u64 {
        self.deletion_clock.map_or(now_ms, |clock| clock().unwrap_or(0).min(now_ms))
    }
}

/// The registered ids of the window, in one folder. Dropping it is like a crash: ids that are in no run are replayed.
pub struct EmbeddedIds {
    options: IdsOptions,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Below this offset the log is replayed.
    log_end: u64,
    /// Ranges that no run covers, to be filled by the replay.
    holes: VecDeque<Range<u64>>,
    /// The end of the runs found at start.
    covered_until: u64,
    active: Memtable,
    /// The sealed memtables at the last refresh.
    sealed: Vec<Arc<SealedMemtable>>,
    runs: Arc<Vec<Run>>,
    runs_version: u64,
    /// Runs that have left the window and are not removed yet.
    runs_expired: usize,
    waits: u64,
    buffer: Vec<u8>,
    /// The offset and the time of the last claim. More claims with both belong to the same commit.
    commit: Option<(u64, u64)>,
}

impl EmbeddedIds {
    /// Opens the ids in this folder. `log_end` is the end of the log at start, before anything is appended.
    ///
    /// The log must be claimed again from `registered_until` to `log_end` before the first new batch.
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
            sealed: Vec::new(),
            runs: Arc::default(),
            runs_version: 0,
            runs_expired: 0,
            waits: 0,
            buffer: Vec::new(),
            commit: None,
        };
        Ok((ids, found.report))
    }

    /// Writes every id below `offset`, the end of the log, to disk. Called before an orderly stop, so that the next start
    /// has nothing to replay.
    pub fn flush(&mut self, offset: u64, now_ms: u64) -> Result<(), IdsError> {
        self.catch_up(offset, now_ms)?;
        if offset > self.active.from {
            self.rotate(offset, now_ms);
        }
        self.shared.wait_for_sealed(0)?;
        self.refresh(now_ms);
        Ok(())
    }

    /// Does the pending work before a batch at this offset is claimed.
    fn catch_up(&mut self, offset: u64, now_ms: u64) -> Result<(), IdsError> {
        self.refresh(now_ms);
        while let Some(hole) = self.holes.front().filter(|hole| hole.end <= offset).cloned() {
            self.wait_for_sealed(now_ms)?;
            self.rotate(hole.end, now_ms);
            self.holes.pop_front();
            self.active.from = self.holes.front().map_or(self.covered_until.max(hole.end), |next| next.start);
        }
        // Between two claims of one commit the memtable already contains ids of that commit, which may still be released.
        let is_new_commit = self.commit != Some((offset, now_ms));
        if is_new_commit && offset > self.active.from && self.is_due(offset, now_ms) {
            self.rotate_if_possible(offset, now_ms)?;
        }
        self.commit = Some((offset, now_ms));
        Ok(())
    }

    fn is_due(&self, offset: u64, now_ms: u64) -> bool {
        // Replayed receipts may be far apart in time; one run for each minute of them would be too many.
        let age_max = if offset < self.log_end { SPAN_MS_MAX } else { self.options.run_age_ms };
        self.age_ms(now_ms) >= age_max || self.is_full(now_ms)
    }

    fn age_ms(&self, now_ms: u64) -> u64 {
        self.active.received_ms.map_or(0, |(oldest, _)| now_ms.abs_diff(oldest))
    }

    /// Returns true if the memtable is full or spans a day: a run that spans more would keep its first ids too long.
    fn is_full(&self, now_ms: u64) -> bool {
        self.active.len() >= self.options.keys_per_run || self.age_ms(now_ms) >= SPAN_MS_MAX
    }

    /// Rotates the memtable. If it is merely old, it keeps growing while the disk is busy.
    fn rotate_if_possible(&mut self, to: u64, now_ms: u64) -> Result<(), IdsError> {
        if self.is_full(now_ms) {
            self.wait_for_sealed(now_ms)?;
        }
        if self.sealed.len() < SEALED_MAX {
            self.rotate(to, now_ms);
        }
        Ok(())
    }

    fn wait_for_sealed(&mut self, now_ms: u64) -> Result<(), IdsError> {
        if self.sealed.len() >= SEALED_MAX {
            self.waits += 1;
            self.shared.wait_for_sealed(SEALED_MAX - 1)?;
            self.refresh(now_ms);
        }
        Ok(())
    }

    fn rotate(&mut self, to: u64, now_ms: u64) {
        let next = self.active.next(to);
        let table = std::mem::replace(&mut self.active, next);
        let received_ms = table.received_ms.unwrap_or((now_ms, now_ms));
        let sealed = Arc::new(SealedMemtable { table, to, received_ms });
        self.sealed.push(sealed.clone());
        self.shared.enqueue(sealed);
    }

    /// Picks up the results of the background threads and skips expired runs.
    fn refresh(&mut self, now_ms: u64) {
        if self.shared.version.load(Ordering::Acquire) != self.runs_version {
            let state = self.shared.state();
            self.runs_version = self.shared.version.load(Ordering::Acquire);
            self.runs = state.runs.clone();
            self.runs_expired = 0;
            self.sealed.clear();
            self.sealed.extend(state.sealed.iter().cloned());
        }
        let deletion_now_ms = self.options.deletion_now_ms(now_ms);
        let expired = background::expired(&self.runs, deletion_now_ms, self.options.window_ms);
        if expired > self.runs_expired {
            self.runs_expired = expired;
            self.shared.expire(deletion_now_ms);
        }
    }

    /// Claims in chunks of 64: while one chunk is looked up, the memory for the next is prefetched.
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

    fn prepare(&self, claims: &[Claim]) -> ClaimBatch {
        let batch = ClaimBatch::new(claims);
        batch.probes().for_each(|(kind, probe)| self.active.table(kind).prefetch(probe.hash));
        batch
    }

    /// Returns a mask of the batch's new ids. On an error none of them is registered.
    fn claim_batch(&mut self, offset: u64, now_ms: u64, batch: &mut ClaimBatch) -> Result<u64, IdsError> {
        let mut wanted = 0;
        for (n, (kind, probe)) in batch.probes().enumerate() {
            wanted |= u64::from(self.active.insert(kind, probe)) << n;
        }
        batch.wanted = wanted;
        let known = if self.replays_uncovered(offset) { Ok(0) } else { self.find_known(batch, now_ms) };
        for n in bits_of(*known.as_ref().unwrap_or(&wanted)) {
            self.active.remove(batch.kind(n), batch.probes[n].hash);
        }
        Ok(wanted & !known?)
    }

    /// Returns true for a replayed batch that no run contains. Its events were accepted once, so its ids are registered from
    /// its receipt on, even where an older run, about to expire, contains the same id.
    fn replays_uncovered(&self, offset: u64) -> bool {
        offset < self.log_end && offset >= self.active.from
    }

    /// Returns a mask of the wanted probes that are in a sealed memtable or a run.
    fn find_known(&mut self, batch: &ClaimBatch, now_ms: u64) -> Result<u64, IdsError> {
        let (mut known, deletion_now_ms) = (0, self.options.deletion_now_ms(now_ms));
        for sealed in &self.sealed {
            if sealed.received_ms.1.saturating_add(self.options.window_ms) >= deletion_now_ms {
                known |= batch.known_in(&sealed.table, batch.wanted & !known);
            }
        }
        for run in self.runs[self.runs_expired..].iter().rev() {
            for kind in IdKind::ALL {
                let wanted = batch.wanted_in(run, kind) & !known;
                if wanted != 0 {
                    known |= find_in_run(run, kind, &batch.probes, wanted, &mut self.buffer)?;
                }
            }
        }
        Ok(known)
    }
}

#[cfg(feature = "fault-injection")]
impl EmbeddedIds {
    fn drop_if_injected(&mut self, claims: &[Claim], fresh: &[bool]) {
        if self.options.injected_fault == Some(crate::InjectedFault::DropIdInsert) {
            let new = claims.iter().zip(fresh).filter(|(_, new)| **new);
            new.for_each(|(claim, _)| unregister(&mut self.active, claim));
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
        self.catch_up(offset, now_ms)?;
        if !claims.is_empty() || offset > self.active.from {
            self.active.observe_time(now_ms);
        }
        let before = fresh.len();
        let result = self.claim_all(offset, now_ms, claims, fresh);
        if let Err(error) = &result {
            let claimed = claims.iter().zip(fresh.drain(before..)).filter(|(_, new)| *new);
            claimed.for_each(|(claim, _)| unregister(&mut self.active, claim));
            folder::quarantine_if_corrupt(error, &self.runs);
        }
        #[cfg(feature = "fault-injection")]
        self.drop_if_injected(claims, &fresh[before..]);
        result
    }

    fn release(&mut self, claims: &[Claim]) {
        #[cfg(feature = "fault-injection")]
        if self.options.injected_fault == Some(crate::InjectedFault::DropIdInsert) {
            return;
        }
        claims.iter().for_each(|claim| unregister(&mut self.active, claim));
    }

    fn registered_until(&self) -> u64 {
        self.sealed.first().map_or(self.active.from, |sealed| sealed.table.from)
    }

    fn stats(&self) -> IdStats {
        let runs = &self.runs[self.runs_expired..];
        let tables = || self.sealed.iter().map(|sealed| &sealed.table).chain([&self.active]);
        let filters = runs.iter().flat_map(|run| IdKind::ALL.map(|kind| run.resident_bytes(kind)));
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
            // A thread that panicked has printed its message already.
            let _ = thread.join();
        }
    }
}

fn unregister(active: &mut Memtable, claim: &Claim) {
    let was_registered = active.remove(kind_of(claim), hash::hash_of(claim.key));
    debug_assert!(was_registered, "only ids reported as new are released, and before the next claim");
}

/// Returns a mask of the wanted probes that are in the run.
fn find_in_run(
    run: &Run,
    kind: IdKind,
    probes: &[Probe],
    wanted: u64,
    buffer: &mut Vec<u8>,
) -> Result<u64, IdsError> {
    let mut known = 0;
    for n in bits_of(run.may_contain(kind, probes, wanted)?) {
        known |= u64::from(run.contains(kind, probes[n].hash, buffer)?) << n;
    }
    Ok(known)
}

/// Recovers the folder and loads filters. A run whose filter is damaged is quarantined, and recovery starts again.
fn recover_and_load(folder: &Path, log_end: u64, filter_bytes_max: u64) -> Result<RecoveredFolder, IdsError> {
    loop {
        let mut found = folder::recover(folder, log_end)?;
        match background::load_filters(&mut found.runs, filter_bytes_max) {
            Ok(()) => return Ok(found),
            Err(error) if folder::quarantine_if_corrupt(&error, &found.runs) => {}
            Err(error) => return Err(error),
        }
    }
}

fn start_threads(shared: &Arc<Shared>) -> Result<Vec<JoinHandle<()>>, IdsError> {
    let start = |name: &str, body: fn(&Shared)| {
        let shared = shared.clone();
        let thread = thread::Builder::new().name(name.into()).spawn(move || body(&shared));
        thread.map_err(|error| IdsError::Unavailable(format!("starting a thread: {error}")))
    };
    Ok(vec![start("ids-write", Shared::write_runs)?, start("ids-tidy", Shared::maintain_runs)?])
}
