//! The computation behind a channel.

use std::sync::Arc;

use bytes::Bytes;
use model::query::QueryControl;
use pipeline::catalog::Game;
use pipeline::flows::Flows;
use pipeline::time::rfc3339;
use pipeline::views::Views;
use serde_json::{Value, json};

use crate::dirty_minutes::DirtyMinutes;
use crate::documents::Document;

/// Computes the state of one topic, as messages and as documents.
pub(crate) trait TopicSource: Send {
    /// Computes the state again, given the data that changed since the last call.
    fn update(&mut self, context: &ComputeContext<'_>, dirty: &DirtyMinutes) -> Update;

    /// Returns when the state changes without new data, in milliseconds since 1970; `None`: never.
    fn due_ms(&self) -> Option<i64> {
        None
    }

    /// Returns how the last update was computed.
    fn mode(&self) -> ComputeMode {
        ComputeMode::Poll
    }

    /// Returns the full state that was last computed, as the fields of an object.
    fn full_state(&self) -> Bytes;

    /// Returns the state that was last computed, as documents. Unchanged documents are the same `Arc` as before.
    fn documents(&mut self) -> Vec<Arc<Document>>;

    /// Returns true if the order of the documents is part of the state.
    fn is_ranked(&self) -> bool {
        false
    }
}

/// The result of a computation.
pub(crate) enum Update {
    /// The state did not change.
    Unchanged,
    /// These fields of an object changed.
    Changed(Bytes),
    /// These fields of an object replace the previous state.
    Replaced(Bytes),
    /// The structure of the state changed: every subscriber needs the full state.
    Reset,
}

/// How changes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComputeMode {
    /// Only changed data is read again.
    Incremental,
    /// All data is read again and compared.
    Poll,
}

impl ComputeMode {
    /// Returns the mode's name in JSON.
    pub(crate) fn label(self) -> &'static str {
        match self {
            ComputeMode::Incremental => "incremental",
            ComputeMode::Poll => "poll",
        }
    }
}

/// The data that a computation reads, and its time.
pub(crate) struct ComputeContext<'a> {
    pub(crate) views: &'a Views,
    pub(crate) flows: &'a Flows,
    pub(crate) game: &'a Game,
    pub(crate) now_ms: i64,
    /// Bounds the queries of the computation.
    pub(crate) control: &'a dyn QueryControl,
    /// The views contain at least the log up to this position.
    position: u64,
}

impl<'a> ComputeContext<'a> {
    pub(crate) fn new(
        views: &'a Views,
        flows: &'a Flows,
        game: &'a Game,
        now_ms: i64,
        control: &'a dyn QueryControl,
    ) -> ComputeContext<'a> {
        ComputeContext { views, flows, game, now_ms, control, position: views.counters.applied_until() }
    }

    /// Returns the moment of the computation, to be kept with its result.
    pub(crate) fn moment(&self) -> ComputeMoment {
        ComputeMoment { ms: self.now_ms, position: self.position }
    }
}

/// The moment at which something was computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ComputeMoment {
    /// Milliseconds since 1970.
    pub(crate) ms: i64,
    position: u64,
}

impl ComputeMoment {
    pub(crate) fn is_in_minute_of(&self, context: &ComputeContext<'_>) -> bool {
        self.ms / 60_000 == context.now_ms / 60_000
    }

    /// Returns the end of the minute.
    pub(crate) fn next_minute_ms(&self) -> i64 {
        (self.ms / 60_000 + 1) * 60_000
    }

    /// Returns the end of the second.
    pub(crate) fn next_second_ms(&self) -> i64 {
        (self.ms / 1000 + 1) * 1000
    }

    pub(crate) fn as_of(&self) -> Value {
        json!({ "time": rfc3339(self.ms), "position": format!("0/{}", self.position) })
    }
}

/// Returns an object as JSON without its outer braces.
pub(crate) fn object_fields(object: &Value) -> Bytes {
    without_braces(object.to_string().as_bytes())
}

/// Returns the JSON text of an object without its outer braces.
pub(crate) fn without_braces(object: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&object[1..object.len() - 1])
}

/// Returns the fields of a message that says why there is no result.
pub(crate) fn error_fields(moment: &ComputeMoment, message: &str) -> Bytes {
    object_fields(&json!({ "as_of": moment.as_of(), "error": message }))
}
