//! The sending thread: sends the readings of the outbox.
//!
//! A request without a response may have been accepted, and is sent again with the same timestamps. Samples have no ids,
//! so its readings then count twice in their minute. That does not change the mean, the extremes and the last value of a
//! gauge, except that the mean of a minute that was repeated in part gives more weight to that part.

use std::time::Duration;

use tracing::{info, warn};
use ureq::http::Method;

use super::outbox::Outbox;
use crate::client::{ApiRequest, Client, ClientError};

/// The first backoff after a failure; each further one is twice as long.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// The longest backoff.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The longest `Retry-After` that is followed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Sends until the outbox is closed and empty. Fails if the server rejects a request for good, or if it is unreachable
/// after the outbox was closed.
pub(crate) fn run(client: &Client, outbox: &Outbox) -> Result<(), ClientError> {
    let mut failures = 0;
    while let Some(batch) = outbox.oldest() {
        match send(client, &batch.lines) {
            Ok(()) => {
                outbox.remove(&batch);
                if failures > 0 {
                    info!(lost = outbox.lost(), "the server is reachable again");
                }
                failures = 0;
            }
            Err(error) if error.is_temporary() && !outbox.is_closed() => {
                if failures == 0 {
                    warn!(%error, "sending failed; keeping the readings and retrying");
                }
                failures += 1;
                let jitter = getrandom::u32().unwrap_or_default();
                outbox.wait_until_closed(backoff(failures, error.retry_after(), jitter));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends lines in one request, without retries.
pub(crate) fn send(client: &Client, lines: &str) -> Result<(), ClientError> {
    let request = ApiRequest {
        method: Method::POST,
        path: "/v1/agent/readings?precision=ms",
        headers: &[("Content-Type", "text/plain; charset=utf-8")],
        body: lines.as_bytes(),
    };
    client.send(&request).map(drop)
}

/// Returns the time to wait after consecutive failures: exponential backoff with jitter between 50% and 100%, so that
/// many agents do not retry at the same moment.
fn backoff(failures: u32, retry_after: Option<Duration>, jitter: u32) -> Duration {
    let step = WAIT_MIN.saturating_mul(1 << (failures - 1).min(10)).min(WAIT_MAX);
    let wait = step.mul_f64(0.5 + 0.5 * f64::from(jitter) / f64::from(u32::MAX));
    wait.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_a_minute_with_jitter() {
        let check = |failures, retry_after: Option<u64>, from: f64, to: f64| {
            let retry_after = retry_after.map(Duration::from_secs);
            let waits = [0, u32::MAX].map(|jitter| backoff(failures, retry_after, jitter).as_secs_f64());
            assert_eq!(waits, [from, to], "after {failures} failures");
        };
        check(1, None, 0.5, 1.0);
        check(2, None, 1.0, 2.0);
        check(6, None, 16.0, 32.0);
        check(7, None, 30.0, 60.0);
        check(u32::MAX, None, 30.0, 60.0);
        check(1, Some(7), 7.0, 7.0);
        check(1, Some(86_400), 300.0, 300.0);
    }
}
