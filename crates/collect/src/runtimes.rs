//! The runtimes that collectors work on.

use pipeline::distribute::{DistributeBy, distribute};
use pipeline::ingest::Claims;
use tokio::runtime::Handle;
use wal::Lane;

/// A runtime on which collectors can start work.
pub struct RuntimeHandle {
    /// The runtime.
    pub runtime: Handle,
    /// Its lane into the log.
    pub lane: Lane<Claims>,
}

/// All runtimes of the server.
pub struct Runtimes(Vec<RuntimeHandle>);

impl Runtimes {
    /// Collects the runtimes, of which there must be at least one.
    pub fn new(runtimes: Vec<RuntimeHandle>) -> Runtimes {
        Runtimes(runtimes)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns each runtime.
    pub fn all(&self) -> impl Iterator<Item = &RuntimeHandle> {
        self.0.iter()
    }

    /// Returns the runtime for work that needs only one. Collectors get runtimes in turn, by their number: see
    /// [`distribute`].
    pub(crate) fn assign(&self, number: usize) -> &RuntimeHandle {
        &self.0[distribute(DistributeBy::Turn(number), self.0.len())]
    }
}
