//! SQL over the raw events of one game: the server's side.
//!
//! A query runs in a process of its own, `playmeter-sql`, which loads DuckDB's library, sees the files of one game and
//! nothing else, and is killed when it does not end in time. This library starts it, reads its answer and ends it.

mod answer;
mod error;
pub mod protocol;
mod workers;

pub use answer::SqlAnswer;
pub use error::SqlError;
pub use protocol::{Column, FileFormat, Isolation, SqlFormat, Summary, TableFile, Tables};
pub use workers::{AdmittedQuery, SqlQuery, SqlSettings, SqlWorkers};
