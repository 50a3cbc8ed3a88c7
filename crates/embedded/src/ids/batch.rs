//! A batch of claims during lookup, so that each id is hashed once and cache misses overlap.

use model::ports::ids::Claim;

use super::filter::bits_of;
use super::hash::{IdKind, Probe, kind_of};
use super::memtable::Memtable;
use super::run::Run;

/// Claims looked up together; one bit each in a mask.
pub(super) const CHUNK: usize = 64;

/// Up to 64 claims.
pub(super) struct ClaimBatch {
    pub(super) probes: [Probe; CHUNK],
    count: usize,
    /// Mask of the ids with a time.
    timed: u64,
    /// The first and the last step of those times.
    steps: (u32, u32),
    /// Mask of the ids still to be looked up.
    pub(super) wanted: u64,
}

impl ClaimBatch {
    pub(super) fn new(claims: &[Claim]) -> ClaimBatch {
        let mut batch = ClaimBatch {
            probes: [Probe::default(); CHUNK],
            count: claims.len(),
            timed: 0,
            steps: (u32::MAX, 0),
            wanted: 0,
        };
        for (n, claim) in claims.iter().enumerate() {
            let probe = Probe::new(claim);
            if kind_of(claim) == IdKind::Timed {
                batch.timed |= 1 << n;
                batch.steps = (batch.steps.0.min(probe.step), batch.steps.1.max(probe.step));
            }
            batch.probes[n] = probe;
        }
        batch
    }

    pub(super) fn kind(&self, n: usize) -> IdKind {
        if self.timed >> n & 1 == 1 { IdKind::Timed } else { IdKind::Other }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn probes(&self) -> impl Iterator<Item = (IdKind, &Probe)> {
        (0..self.count).map(|n| (self.kind(n), &self.probes[n]))
    }

    pub(super) fn known_in(&self, table: &Memtable, wanted: u64) -> u64 {
        for n in bits_of(wanted) {
            table.table(self.kind(n)).prefetch(self.probes[n].hash);
        }
        let found = |n: usize| table.table(self.kind(n)).contains(self.probes[n].hash);
        bits_of(wanted).map(|n| u64::from(found(n)) << n).sum()
    }

    /// Returns a mask of the wanted ids of one kind that the run may contain, by their times.
    pub(super) fn wanted_in(&self, run: &Run, kind: IdKind) -> u64 {
        match kind {
            IdKind::Other => self.wanted & !self.timed,
            IdKind::Timed if run.header.times.overlaps(self.steps.0, self.steps.1) => self.wanted_at(run),
            IdKind::Timed => 0,
        }
    }

    fn wanted_at(&self, run: &Run) -> u64 {
        let mut last = None;
        let mut overlaps = |step: u32| match last {
            Some((same, result)) if same == step => result,
            _ => {
                let result = run.header.times.overlaps(step, step);
                last = Some((step, result));
                result
            }
        };
        let timed = bits_of(self.wanted & self.timed);
        timed.map(|n| u64::from(overlaps(self.probes[n].step)) << n).sum()
    }
}
