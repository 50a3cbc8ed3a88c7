//! Faults injected on purpose, to show that the crash tests find them. Off in `make build`.

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// A checkpoint writes rows without the log position that they contain.
    DropCheckpointPosition,
    /// An id is reported as new and not registered.
    DropIdInsert,
}
