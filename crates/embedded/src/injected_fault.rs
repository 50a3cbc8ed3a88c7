//! Faults injected on purpose, to show that the crash tests find them. Never in a build of the product.

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// A checkpoint writes rows without the log position that they contain.
    DropCheckpointPosition,
    /// An id is reported as new and not registered.
    DropIdInsert,
}
