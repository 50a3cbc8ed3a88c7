//! Some claims on their way through tables and runs, so that each is shuffled once and misses overlap.

use model::ports::ids::Claim;

use super::filter::bits_of;
use super::memtable::Memtable;
use super::place::{Kind, Probe, kind_of};
use super::run::Run;

/// Claims looked up together; one bit each in a mask.
pub(super) const CHUNK: usize = 64;

/// Up to 64 claims.
pub(super) struct Batch {
    pub(super) probes: [Probe; CHUNK],
    count: usize,
    /// Which of them have a time.
    timed: u64,
    /// The first and the last step of those times.
    steps: (u32, u32),
    /// Which of them are still to be looked for.
    pub(super) wanted: u64,
}

impl Batch {
    pub(super) fn new(claims: &[Claim]) -> Batch {
        let mut batch = Batch {
            probes: [Probe::default(); CHUNK],
            count: claims.len(),
            timed: 0,
            steps: (u32::MAX, 0),
            wanted: 0,
        };
        for (n, claim) in claims.iter().enumerate() {
            let probe = Probe::new(claim);
            if kind_of(claim) == Kind::Timed {
                batch.timed |= 1 << n;
                batch.steps = (batch.steps.0.min(probe.step), batch.steps.1.max(probe.step));
            }
            batch.probes[n] = probe;
        }
        batch
    }

    pub(super) fn kind(&self, n: usize) -> Kind {
        if self.timed >> n & 1 == 1 { Kind::Timed } else { Kind::Other }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn probes(&self) -> impl Iterator<Item = (Kind, &Probe)> {
        (0..self.count).map(|n| (self.kind(n), &self.probes[n]))
    }

    pub(super) fn known_in(&self, table: &Memtable, wanted: u64) -> u64 {
        for n in bits_of(wanted) {
            table.table(self.kind(n)).prefetch(self.probes[n].place);
        }
        let found = |n: usize| table.table(self.kind(n)).contains(self.probes[n].place);
        bits_of(wanted).map(|n| u64::from(found(n)) << n).sum()
    }

    /// Those of one kind that the run could hold, by their times.
    pub(super) fn wanted_in(&self, run: &Run, kind: Kind) -> u64 {
        match kind {
            Kind::Other => self.wanted & !self.timed,
            Kind::Timed if run.header.times.touches(self.steps.0, self.steps.1) => self.wanted_at(run),
            Kind::Timed => 0,
        }
    }

    fn wanted_at(&self, run: &Run) -> u64 {
        let mut last = None;
        let mut touches = |step: u32| match last {
            Some((same, answer)) if same == step => answer,
            _ => {
                let answer = run.header.times.touches(step, step);
                last = Some((step, answer));
                answer
            }
        };
        let timed = bits_of(self.wanted & self.timed);
        timed.map(|n| u64::from(touches(self.probes[n].step)) << n).sum()
    }
}
