//! Bounds of a query: its time, its memory, and whether its result is still wanted.

use std::cell::Cell;

use crate::ports::counters::StoreError;

/// Memory may grow by this much between two checks.
const CHECK_BYTES: usize = 1 << 20;

/// Decides whether a query may go on. The model has no clock, so the caller of a query brings one.
pub trait QueryControl {
    /// Returns why the query must stop, if it must. `bytes` is the memory that the query uses, about. Called often.
    fn check(&self, bytes: usize) -> Result<(), QueryStopped>;
}

/// Lets a query take any time and memory: for tests and measurements.
pub struct Unbounded;

impl QueryControl for Unbounded {
    fn check(&self, _: usize) -> Result<(), QueryStopped> {
        Ok(())
    }
}

/// The reason why a query was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryStopped {
    /// It took too long.
    #[error("the query took longer than {seconds} s; use a shorter window, a wider step or fewer series")]
    Timeout {
        /// The limit.
        seconds: u64,
    },
    /// It needs too much memory.
    #[error(
        "the query needs more than {} MiB of memory; use a shorter window, a wider step or fewer series",
        bytes_max >> 20
    )]
    Memory {
        /// The limit.
        bytes_max: usize,
    },
    /// All queries together need too much memory.
    #[error("other queries use the memory of the server for queries; try again")]
    Overloaded,
    /// Its result is not wanted any more.
    #[error("the query was cancelled")]
    Cancelled,
}

/// The reason why a query has no result.
#[derive(Debug, thiserror::Error)]
pub enum QueryFailure {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The query was stopped.
    #[error(transparent)]
    Stopped(#[from] QueryStopped),
}

/// Counts the memory of one query.
pub(super) struct Meter<'a> {
    control: &'a dyn QueryControl,
    bytes: Cell<usize>,
    /// The memory at the last check.
    checked: Cell<usize>,
}

impl<'a> Meter<'a> {
    pub(super) fn new(control: &'a dyn QueryControl) -> Meter<'a> {
        Meter { control, bytes: Cell::new(0), checked: Cell::new(0) }
    }

    /// Adds memory and fails if it is too much.
    pub(super) fn reserve(&self, bytes: usize) -> Result<(), QueryStopped> {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        self.check()
    }

    /// Adds memory that is checked with the next megabyte.
    #[inline]
    pub(super) fn add(&self, bytes: usize) -> Result<(), QueryStopped> {
        if bytes == 0 {
            return Ok(());
        }
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        if self.bytes.get() < self.checked.get().saturating_add(CHECK_BYTES) {
            return Ok(());
        }
        self.check()
    }

    /// Subtracts memory that was freed.
    pub(super) fn release(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
        self.checked.set(self.checked.get().min(self.bytes.get()));
    }

    /// Returns the memory in use.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    pub(super) fn check(&self) -> Result<(), QueryStopped> {
        self.checked.set(self.bytes.get());
        self.control.check(self.bytes.get())
    }
}
