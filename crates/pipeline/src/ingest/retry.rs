//! Retries while the log cannot accept entries.

use std::time::Duration;

use tokio::time::sleep;
use tracing::warn;

use super::IngestError;

/// The pause between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Calls `submit` until it succeeds or fails permanently. After a transient failure, `give_up` decides whether to
/// return the failure instead of waiting for the next attempt. The first transient failure is logged with `what`.
pub async fn retry_transient<T, F: Future<Output = Result<T, IngestError>>>(
    what: &str,
    mut submit: impl FnMut() -> F,
    mut give_up: impl FnMut() -> bool,
) -> Result<T, IngestError> {
    let mut warned = false;
    loop {
        let failure = match submit().await {
            Err(failure) if failure.is_transient() => failure,
            submitted => return submitted,
        };
        if give_up() {
            return Err(failure);
        }
        if !std::mem::replace(&mut warned, true) {
            warn!(what, %failure, "waiting for the log to accept entries");
        }
        sleep(RETRY_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use wal::WalError;

    use super::*;

    /// `failures` returns the failure of the n-th attempt. Returns the number of attempts and whether the last
    /// succeeded.
    async fn attempts(failures: fn(usize) -> Option<WalError>, give_up: bool) -> (usize, bool) {
        let mut attempts = 0;
        let submit = || {
            attempts += 1;
            std::future::ready(failures(attempts).map_or(Ok(()), |failure| Err(failure.into())))
        };
        let submitted = retry_transient("a test", submit, || give_up).await;
        (attempts, submitted.is_ok())
    }

    #[tokio::test]
    async fn transient_failures_are_retried_until_accepted() {
        assert_eq!(attempts(|_| None, false).await, (1, true));
        assert_eq!(attempts(|attempt| (attempt <= 2).then_some(WalError::Full), false).await, (3, true));
    }

    #[tokio::test]
    async fn permanent_failures_and_giving_up_end_the_retries() {
        assert_eq!(attempts(|_| Some(WalError::Stopped), false).await, (1, false));
        assert_eq!(attempts(|_| Some(WalError::Full), true).await, (1, false));
    }
}
