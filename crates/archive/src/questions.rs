//! Questions over raw events.
//!
//! Each question is a type that is read from JSON (`from_json`), run over a [`Source`] (`run`), and whose answer is
//! written as JSON or as flat rows ([`answer`]). A question asks its [`QueryControl`] for time and memory; it returns
//! either its whole answer or a failure.
//!
//! Questions about players read one range of players after another and keep at most a few dozen bytes of each
//! ([`walk`]). Events without a player count in [`explore`], and in nothing that is about players.

pub mod answer;
pub mod cohort;
pub mod experiment;
pub mod explore;
pub mod exposure;
pub mod funnel;
pub mod levels;
pub mod limits;
pub mod paths;
pub mod players;
pub mod question;
pub mod retention;
pub mod search;
pub mod timeline;
pub mod totals;

mod calendar;
mod filter;
mod groups;
mod measures;
mod request;
mod select;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::query::{QueryControl, QueryError, QueryStopped};

pub use groups::OTHER;
use players::{PlayerLinks, PlayerSet};

use crate::columns::Field;
use crate::scan::{ScanFailure, Source};

/// The players of saved cohorts, by name.
pub type Cohorts = HashMap<String, Arc<PlayerSet>>;

/// What a question is run with.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The events.
    pub source: &'a dyn Source,
    /// Bounds of time and memory.
    pub control: &'a dyn QueryControl,
    /// How much has been done, for other threads.
    pub progress: &'a Progress,
    /// Which ids belong to one player.
    pub links: &'a PlayerLinks,
    /// The players of the cohorts that the question names.
    pub cohorts: &'a Cohorts,
    /// The time, milliseconds since 1970.
    pub now_ms: i64,
    /// The time zone of the game, as an IANA name.
    pub tz: &'a str,
}

/// How much of a question has been done.
#[derive(Default)]
pub struct Progress {
    rows: AtomicU64,
    parts: AtomicU64,
    parts_done: AtomicU64,
}

impl Progress {
    /// Returns the number of events read so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Returns the share of the ranges of players that are done, from 0 to 1.
    pub fn share(&self) -> f64 {
        let parts = self.parts.load(Ordering::Relaxed).max(1);
        self.parts_done.load(Ordering::Relaxed) as f64 / parts as f64
    }

    fn start(&self, parts: usize) {
        self.parts.fetch_add(parts as u64, Ordering::Relaxed);
    }

    fn end_range(&self) {
        self.parts_done.fetch_add(1, Ordering::Relaxed);
    }

    fn add_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QuestionFailure {
    /// The request is invalid.
    #[error(transparent)]
    Invalid(#[from] QueryError),
    /// The events could not be read, or the question was stopped.
    #[error(transparent)]
    Scan(#[from] ScanFailure),
}

impl From<QueryStopped> for QuestionFailure {
    fn from(stopped: QueryStopped) -> QuestionFailure {
        QuestionFailure::Scan(stopped.into())
    }
}

/// The columns that a question reads, each once.
#[derive(Clone, Default)]
struct FieldList(Vec<Field>);

impl FieldList {
    /// Returns the place of a column in chunks.
    fn index(&mut self, field: &Field) -> usize {
        let found = self.0.iter().position(|other| other == field);
        found.unwrap_or_else(|| {
            self.0.push(field.clone());
            self.0.len() - 1
        })
    }

    fn fields(&self) -> &[Field] {
        &self.0
    }
}
