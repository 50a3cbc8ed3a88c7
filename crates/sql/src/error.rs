//! Why there is no answer.

use std::io;
use std::path::PathBuf;

use crate::protocol::{Failure, FailureKind};

/// Why a query has no answer, or no whole one.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// There is no library at this path.
    #[error(
        "SQL needs DuckDB's library, which is not part of the server. Put libduckdb.so of DuckDB 1.5 at {}, or set \
         sql.library to where it is",
        path.display()
    )]
    LibraryMissing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The library cannot be loaded or is of another version.
    #[error("the library {} cannot be used: {reason}", path.display())]
    LibraryUnsuitable {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no worker program at this path.
    #[error("the program {} cannot be started: {source}", path.display())]
    WorkerMissing {
        /// Where it was looked for.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The machine offers none of what isolates a worker.
    #[error(
        "this machine cannot isolate a query: {0}. Set sql.isolation to \"optional\" to run queries all the same"
    )]
    NotIsolated(String),
    /// Too many queries wait for a worker.
    #[error("too many queries are waiting; try again later")]
    Busy,
    /// Too many queries of the game wait for a worker.
    #[error("{waiting_max} queries of the game are waiting already, the maximum; try again later")]
    GameBusy {
        /// The limit.
        waiting_max: usize,
    },
    /// The statement is wrong.
    #[error("{message}")]
    Statement {
        /// What is wrong.
        message: String,
        /// The place in the statement: bytes before the mistake.
        position: Option<usize>,
    },
    /// The statement does more than read the tables of the game.
    #[error("{0}")]
    NotAllowed(String),
    /// The time limit is reached.
    #[error("the query did not end within {ms} ms")]
    Timeout {
        /// The time limit.
        ms: u64,
    },
    /// The memory limit is reached.
    #[error("the query needs more than the {bytes} bytes of memory that it may use")]
    Memory {
        /// The memory limit.
        bytes: u64,
    },
    /// The query was cancelled.
    #[error("the query was cancelled")]
    Cancelled,
    /// A file of the game cannot be read.
    #[error("the files of the game cannot be read: {0}")]
    Files(String),
    /// The worker ended without an answer. A text for the operator; it may name paths.
    #[error("the worker died: {0}")]
    WorkerDied(String),
}

impl SqlError {
    pub(crate) fn of(failure: Failure, limits: &Limits) -> SqlError {
        let Failure { kind, message, position } = failure;
        match kind {
            FailureKind::Library => {
                SqlError::LibraryUnsuitable { path: limits.library.clone(), reason: message }
            }
            FailureKind::Isolation => SqlError::NotIsolated(message),
            FailureKind::Files => SqlError::Files(message),
            FailureKind::Statement => SqlError::Statement { message, position },
            FailureKind::NotAllowed => SqlError::NotAllowed(message),
            FailureKind::Timeout => SqlError::Timeout { ms: limits.timeout_ms },
            FailureKind::Memory => SqlError::Memory { bytes: limits.memory_bytes },
            FailureKind::Cancelled => SqlError::Cancelled,
            FailureKind::Internal => SqlError::WorkerDied(message),
        }
    }
}

/// What an error names of a query's limits.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) library: PathBuf,
    pub(crate) timeout_ms: u64,
    pub(crate) memory_bytes: u64,
}
