//! Sends what waits in the outbox, in a thread of its own.
//!
//! A request that failed on the way may have been taken, and is sent again with the same times. Samples have no ids: the
//! readings then count twice in their minute, which leaves a gauge's mean, extremes and last value where they were
//! (but for a minute of which only a part came twice, whose mean leans to that part).

use std::time::Duration;

use tracing::{info, warn};
use ureq::http::Method;

use super::outbox::Outbox;
use crate::client::{Client, Failure, Request};

/// The first wait after a failure; each is twice the one before.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// However long the server wants to be left alone.
const WAIT_ASKED_MAX: Duration = Duration::from_secs(300);

/// Sends until the outbox is closed and empty. An error: the server will not take them, or it is away at the end.
pub fn run(client: &Client, outbox: &Outbox) -> Result<(), Failure> {
    let mut failures = 0;
    while let Some(batch) = outbox.oldest() {
        match send(client, &batch.lines) {
            Ok(()) => {
                outbox.done(&batch);
                if failures > 0 {
                    info!(lost = outbox.lost(), "the server answers again");
                }
                failures = 0;
            }
            Err(failure) if failure.is_temporary() && !outbox.is_closed() => {
                if failures == 0 {
                    warn!(%failure, "readings are kept and sent later");
                }
                failures += 1;
                outbox.pause(wait(failures, failure.retry_after(), getrandom::u32().unwrap_or_default()));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Sends lines once.
pub fn send(client: &Client, lines: &str) -> Result<(), Failure> {
    let request = Request {
        method: Method::POST,
        path: "/v1/agent/readings?precision=ms",
        headers: &[("Content-Type", "text/plain; charset=utf-8")],
        body: lines.as_bytes(),
    };
    client.ask(&request).map(drop)
}

/// How long to wait after so many failures in a row: between half of the step and all of it, by chance, so that many
/// agents do not come back in the same moment.
fn wait(failures: u32, asked: Option<Duration>, chance: u32) -> Duration {
    let step = WAIT_MIN.saturating_mul(1 << (failures - 1).min(10)).min(WAIT_MAX);
    let wait = step.mul_f64(0.5 + 0.5 * f64::from(chance) / f64::from(u32::MAX));
    wait.max(asked.unwrap_or_default().min(WAIT_ASKED_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute_and_are_spread() {
        let check = |failures, asked: Option<u64>, from: f64, to: f64| {
            let asked = asked.map(Duration::from_secs);
            let waits = [0, u32::MAX].map(|chance| wait(failures, asked, chance).as_secs_f64());
            assert_eq!(waits, [from, to], "after {failures}");
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
