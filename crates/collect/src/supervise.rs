//! Supervision: a collector is started, watched, started again after a failure, and stopped.
//!
//! A failure or a panic affects only its own collector, which is started again after a [`Backoff`]. A port that another
//! program uses is such a failure, at the start of the server too; wrong settings prevent the start.

mod workers;

pub(crate) use workers::Workers;

use std::sync::Arc;
use std::time::Duration;

use pipeline::shutdown::wait_for_stop;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::collector::Collector;
use crate::status::CollectorState;

/// How long a stopping collector may take to write what it has received.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The state that the operator requested of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DesiredState {
    pub(crate) running: bool,
    /// Increases with each action. A running collector restarts when it changes.
    pub(crate) generation: u64,
}

/// Keeps a collector running until `stopping` becomes true. `attempt` runs it once, until the receiver it gets becomes
/// true.
pub(crate) async fn supervise<F>(
    collector: Arc<Collector>,
    mut backoff: Backoff,
    mut stopping: watch::Receiver<bool>,
    mut attempt: impl FnMut(watch::Receiver<bool>) -> F,
) where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let mut desired = collector.desired.subscribe();
    while !*stopping.borrow() {
        let now = *desired.borrow_and_update();
        if !now.running {
            collector.status.lock().set_state(CollectorState::Stopped);
            tokio::select! { _ = desired.changed() => {}, () = wait_for_stop(&mut stopping) => {} }
            continue;
        }
        collector.status.lock().set_state(CollectorState::Starting);
        let started = Instant::now();
        let (stop, stop_receiver) = watch::channel(false);
        let mut work = tokio::spawn(attempt(stop_receiver));
        let failure = tokio::select! {
            result = &mut work => failure_message(result),
            _ = desired.changed() => { finish(work, &stop).await; backoff.reset(); continue },
            () = wait_for_stop(&mut stopping) => { finish(work, &stop).await; break },
        };
        let wait = backoff.next_wait(started.elapsed());
        let (name, retry_s) = (&collector.settings.name, wait.as_secs_f64());
        warn!(collector = name, failure, retry_s, "collector failed");
        collector.status.lock().set_failed(failure, wait);
        tokio::select! {
            () = sleep(wait) => {}
            _ = desired.changed() => backoff.reset(),
            () = wait_for_stop(&mut stopping) => {}
        }
    }
    collector.status.lock().set_state(CollectorState::Stopped);
    info!(collector = collector.settings.name, "collector stopped");
}

/// Asks an attempt to stop, and aborts it if it takes too long to write what it has received.
async fn finish(mut work: JoinHandle<anyhow::Result<()>>, stop: &watch::Sender<bool>) {
    stop.send_replace(true);
    if timeout(STOP_TIMEOUT, &mut work).await.is_err() {
        warn!(timeout_s = STOP_TIMEOUT.as_secs(), "collector did not stop in time: aborted");
        work.abort();
    }
}

/// Returns why an attempt ended although it was not asked to.
fn failure_message(result: Result<anyhow::Result<()>, JoinError>) -> String {
    match result {
        Ok(Ok(())) => "stopped unexpectedly".into(),
        Ok(Err(failure)) => format!("{failure:#}"),
        Err(failure) => panic_message(failure),
    }
}

fn panic_message(failure: JoinError) -> String {
    let Ok(panic) = failure.try_into_panic() else { return "aborted".into() };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    format!("internal error: {text}")
}

#[cfg(test)]
mod tests;
