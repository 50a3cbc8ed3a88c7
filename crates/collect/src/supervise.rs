//! The life of a collector: started, watched, started again after it has failed, stopped.
//!
//! What fails, or panics, in one collector ends only that one, and is tried again by [`Backoff`].

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::backoff::Backoff;
use super::{Collector, Order, Place};
use pipeline::shutdown::wait_for_stop;
use pipeline::time::{now_ms, rfc3339};

/// A collector that is to stop gets so long to write what it has.
const LAST_WORK: Duration = Duration::from_secs(10);

/// What a collector does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It takes its port, connects, opens its folder.
    Starting,
    /// It takes what comes.
    Running,
    /// It has failed and will be tried again.
    Waiting,
    /// Nobody wants it to run.
    Stopped,
}

impl State {
    /// The word in answers.
    pub fn label(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Running => "running",
            State::Waiting => "waiting",
            State::Stopped => "stopped",
        }
    }
}

/// How a collector is doing.
#[derive(Debug)]
pub struct Status {
    /// What it does.
    pub state: State,
    since_ms: i64,
    starts: u64,
    failures: u64,
    error: Option<String>,
    next_try_ms: Option<i64>,
}

/// Whether somebody wants it to run; another number means: from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// It is to run.
    pub running: bool,
    /// Counts what was wanted.
    pub number: u64,
}

impl Default for Status {
    fn default() -> Status {
        let state = State::Starting;
        Status { state, since_ms: now_ms(), starts: 0, failures: 0, error: None, next_try_ms: None }
    }
}

impl Status {
    pub(super) fn turn(&mut self, state: State) {
        if self.state != state {
            (self.state, self.since_ms) = (state, now_ms());
        }
        if state == State::Starting {
            self.starts += 1;
        }
        if state != State::Waiting {
            self.next_try_ms = None;
        }
    }

    /// How often it was started.
    pub(super) fn starts(&self) -> u64 {
        self.starts
    }

    /// Whether it did what it was told when it had been started so often.
    pub(super) fn has_followed(&self, order: Order, starts: u64) -> bool {
        let is_up = matches!(self.state, State::Running | State::Waiting);
        match order {
            Order::Stop => self.state == State::Stopped,
            Order::Start => is_up,
            Order::Restart => is_up && self.starts > starts,
        }
    }

    fn failed(&mut self, error: String, wait: Duration) {
        self.turn(State::Waiting);
        self.failures += 1;
        self.error = Some(error);
        self.next_try_ms = Some(now_ms() + wait.as_millis() as i64);
    }

    pub(super) fn json(&self) -> Value {
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

/// Keeps a collector running until `stopping` says so. `attempt` runs it once, until its receiver says that it is to end.
pub(super) async fn supervise<F>(
    collector: Arc<Collector>,
    mut backoff: Backoff,
    mut stopping: watch::Receiver<bool>,
    mut attempt: impl FnMut(watch::Receiver<bool>) -> F,
) where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let mut wanted = collector.wanted.subscribe();
    while !*stopping.borrow() {
        let now = *wanted.borrow_and_update();
        if !now.running {
            collector.status.lock().turn(State::Stopped);
            tokio::select! { _ = wanted.changed() => {}, () = wait_for_stop(&mut stopping) => {} }
            continue;
        }
        collector.status.lock().turn(State::Starting);
        let started = Instant::now();
        let (end, ended) = watch::channel(false);
        let mut work = tokio::spawn(attempt(ended));
        let failure = tokio::select! {
            done = &mut work => failure(done),
            _ = wanted.changed() => { finish(work, &end).await; backoff.reset(); continue },
            () = wait_for_stop(&mut stopping) => { finish(work, &end).await; break },
        };
        let wait = backoff.failed_after(started.elapsed());
        let (name, again_s) = (&collector.settings.name, wait.as_secs_f64());
        warn!(collector = name, failure, again_s, "a collector has failed");
        collector.status.lock().failed(failure, wait);
        tokio::select! {
            () = sleep(wait) => {}
            _ = wanted.changed() => backoff.reset(),
            () = wait_for_stop(&mut stopping) => {}
        }
    }
    collector.status.lock().turn(State::Stopped);
    info!(collector = collector.settings.name, "a collector has ended");
}

/// Lets it write what it has.
async fn finish(mut work: JoinHandle<anyhow::Result<()>>, end: &watch::Sender<bool>) {
    end.send_replace(true);
    if timeout(LAST_WORK, &mut work).await.is_err() {
        warn!("a collector did not end in time");
        work.abort();
    }
}

/// Why it ended, though nobody wanted it to.
fn failure(done: Result<anyhow::Result<()>, JoinError>) -> String {
    match done {
        Ok(Ok(())) => "it has ended".into(),
        Ok(Err(failure)) => format!("{failure:#}"),
        Err(failure) => panicked(failure),
    }
}

fn panicked(failure: JoinError) -> String {
    let Ok(panic) = failure.try_into_panic() else { return "it was ended".into() };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    format!("it failed inside: {text}")
}

/// The workers of one collector, which end together.
pub(super) struct Crew {
    workers: JoinSet<anyhow::Result<()>>,
    end: watch::Sender<bool>,
}

impl Crew {
    pub(super) fn new() -> Crew {
        Crew { workers: JoinSet::new(), end: watch::channel(false).0 }
    }

    /// Starts one on a runtime. It ends itself when its receiver says so.
    pub(super) fn start<F>(&mut self, place: &Place, work: impl FnOnce(watch::Receiver<bool>) -> F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.workers.spawn_on(work(self.end.subscribe()), &place.runtime);
    }

    /// Returns when all have ended: because they are to, or because one has failed.
    pub(super) async fn work(mut self, mut stop: watch::Receiver<bool>) -> anyhow::Result<()> {
        let first = tokio::select! {
            first = self.workers.join_next() => first,
            () = wait_for_stop(&mut stop) => None,
        };
        self.end.send_replace(true);
        let mut ended =
            first.map_or(Ok(()), |first| first.unwrap_or_else(|failure| Err(anyhow!(panicked(failure)))));
        while let Some(next) = self.workers.join_next().await {
            ended = ended.and(next.unwrap_or_else(|failure| Err(anyhow!(panicked(failure)))));
        }
        ended
    }
}

#[cfg(test)]
mod tests;
