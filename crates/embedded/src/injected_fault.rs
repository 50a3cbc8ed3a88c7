//! Faults injected on purpose, to show that the harnesses find them. In no build of the product.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// A checkpoint writes rows, but not the position of the log that they contain.
    DropCheckpointPosition,
    /// An id is answered as new and then forgotten.
    ForgetIdInsert,
}
