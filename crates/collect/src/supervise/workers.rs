//! The workers of one collector.

use anyhow::anyhow;
use pipeline::shutdown::wait_for_stop;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::panic_message;
use crate::runtimes::RuntimeHandle;

/// The workers of one collector. When one of them ends, all of them stop.
pub(crate) struct Workers {
    pub(super) tasks: JoinSet<anyhow::Result<()>>,
    pub(super) stop: watch::Sender<bool>,
}

impl Workers {
    pub(crate) fn new() -> Workers {
        Workers { tasks: JoinSet::new(), stop: watch::channel(false).0 }
    }

    /// Starts a worker on a runtime. It must stop when its receiver becomes true.
    pub(crate) fn start<F>(&mut self, runtime: &RuntimeHandle, work: impl FnOnce(watch::Receiver<bool>) -> F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.tasks.spawn_on(work(self.stop.subscribe()), &runtime.runtime);
    }

    /// Returns when all workers have stopped, because `stop` became true or because one of them ended. The error is the
    /// first failure.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) -> anyhow::Result<()> {
        let first = tokio::select! {
            first = self.tasks.join_next() => first,
            () = wait_for_stop(&mut stop) => None,
        };
        self.stop.send_replace(true);
        let mut result = first
            .map_or(Ok(()), |first| first.unwrap_or_else(|failure| Err(anyhow!(panic_message(failure)))));
        while let Some(next) = self.tasks.join_next().await {
            result = result.and(next.unwrap_or_else(|failure| Err(anyhow!(panic_message(failure)))));
        }
        result
    }
}
