//! The state of a collector, its starts and its failures.

use std::time::Duration;

use pipeline::time::{now_ms, rfc3339};
use serde_json::{Value, json};

use crate::collectors::CollectorAction;

/// The current phase of a collector's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CollectorState {
    /// It binds its port, connects or opens its folder.
    Starting,
    /// It receives data.
    Running,
    /// It failed and will be started again.
    Failed,
    /// It was stopped.
    Stopped,
}

impl CollectorState {
    fn label(self) -> &'static str {
        match self {
            CollectorState::Starting => "starting",
            CollectorState::Running => "running",
            CollectorState::Failed => "failed",
            CollectorState::Stopped => "stopped",
        }
    }
}

/// The state of a collector and the history of its failures.
#[derive(Debug)]
pub(crate) struct CollectorStatus {
    pub(crate) state: CollectorState,
    since_ms: i64,
    starts: u64,
    failures: u64,
    error: Option<String>,
    next_try_ms: Option<i64>,
}

impl Default for CollectorStatus {
    fn default() -> CollectorStatus {
        let state = CollectorState::Starting;
        CollectorStatus { state, since_ms: now_ms(), starts: 0, failures: 0, error: None, next_try_ms: None }
    }
}

impl CollectorStatus {
    pub(crate) fn set_state(&mut self, state: CollectorState) {
        if self.state != state {
            (self.state, self.since_ms) = (state, now_ms());
        }
        if state == CollectorState::Starting {
            self.starts += 1;
        }
        if state != CollectorState::Failed {
            self.next_try_ms = None;
        }
    }

    /// Returns how often it was started.
    pub(crate) fn starts(&self) -> u64 {
        self.starts
    }

    /// Returns how often it failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }

    /// Returns true if the collector has followed an action that was requested after `starts` starts.
    pub(crate) fn has_followed(&self, action: CollectorAction, starts: u64) -> bool {
        let is_up = matches!(self.state, CollectorState::Running | CollectorState::Failed);
        match action {
            CollectorAction::Stop => self.state == CollectorState::Stopped,
            CollectorAction::Start => is_up,
            CollectorAction::Restart => is_up && self.starts > starts,
        }
    }

    /// Records a failure. The collector is started again after `wait`.
    pub(crate) fn set_failed(&mut self, error: String, wait: Duration) {
        self.set_state(CollectorState::Failed);
        self.failures += 1;
        self.error = Some(error);
        self.next_try_ms = Some(now_ms() + wait.as_millis() as i64);
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "state": self.state.label(),
            "since": rfc3339(self.since_ms),
            "starts": self.starts,
            "failures": self.failures,
            "error": self.error,
            "next_try": self.next_try_ms.map(rfc3339),
        })
    }
}
