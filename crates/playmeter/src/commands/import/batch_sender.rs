//! Sends batches to the server and retries until they are acknowledged.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use ureq::http::Method;

use super::source::EventBatch;
use crate::client::{ApiRequest, Client, ClientError, ServerArgs};

/// If the server is unreachable for longer, the import stops. The user can resume it later.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// The first backoff.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
const ROUTE: &str = "/v1/import";

/// The destination of the events.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct ImportTarget {
    /// Id of the game.
    pub(crate) game: String,
    /// Identifies the log of the game among all servers.
    pub(crate) target: String,
}

/// The receipt of a batch.
#[derive(Debug, Deserialize)]
pub(crate) struct ImportReceipt {
    pub(crate) accepted: u64,
    pub(crate) duplicate: u64,
    /// The events that were not accepted.
    pub(crate) results: Vec<ReceiptResult>,
    /// Latency of live commits in milliseconds.
    pub(crate) commit_ms: Option<f64>,
}

/// One event that was not accepted.
#[derive(Debug, Deserialize)]
pub(crate) struct ReceiptResult {
    /// Index of the event in the batch.
    pub(crate) i: usize,
    /// `duplicate`, `invalid` and so on.
    pub(crate) outcome: String,
    pub(crate) reason: String,
}

/// Sends batches to one game.
pub(crate) struct BatchSender {
    args: ServerArgs,
    client: Client,
    target: ImportTarget,
}

impl BatchSender {
    /// Connects to the server and finds out to which game the key belongs.
    pub(crate) fn open(args: &ServerArgs) -> anyhow::Result<BatchSender> {
        let client = args.client()?;
        let target = fetch_target(&client).map_err(|error| match error {
            ClientError::NoResponse { .. } => anyhow::Error::from(error)
                .context("no server is running; start one with `playmeter serve --data DIR`"),
            ClientError::Rejected { .. } => error.into(),
        })?;
        Ok(BatchSender { args: args.clone(), client, target: target? })
    }

    /// Returns the destination of the events.
    pub(crate) fn target(&self) -> &ImportTarget {
        &self.target
    }

    /// Sends a batch and returns its receipt when the events are durable. `first` is the number of its first event in the
    /// file.
    ///
    /// Retries temporary errors such as a restart, a full disk or a quota. A batch without a response is sent again with
    /// the same ids.
    pub(crate) fn send(
        &mut self,
        file: &str,
        first: u64,
        batch: &EventBatch,
    ) -> anyhow::Result<ImportReceipt> {
        let path = format!("{ROUTE}?file={file}&from={first}{}", rejected_parameter(batch));
        let (mut backoff, mut first_failure) = (BACKOFF_MIN, None);
        loop {
            let error = match self.post(&path, &batch.body) {
                Ok(body) => {
                    return serde_json::from_slice(&body).context("the response of the server is not valid");
                }
                Err(error) if error.is_temporary() => error,
                Err(error) => return Err(error.into()),
            };
            let pause = error.retry_after().unwrap_or(backoff);
            let since = *first_failure.get_or_insert_with(Instant::now);
            if since.elapsed() + pause > RETRY_TIMEOUT {
                bail!("{error}; run the same command again later to resume");
            }
            std::thread::sleep(pause);
            backoff = (2 * backoff).min(BACKOFF_MAX);
            if matches!(error, ClientError::NoResponse { .. }) {
                self.reconnect()?;
            }
        }
    }

    fn post(&self, path: &str, body: &str) -> Result<Vec<u8>, ClientError> {
        let headers = [("Content-Type", "application/x-ndjson")];
        let request = ApiRequest { method: Method::POST, path, headers: &headers, body: body.as_bytes() };
        Ok(self.client.send(&request)?.body)
    }

    /// Reads the address again: after a restart, the server may have another one, or another server may have this one.
    fn reconnect(&mut self) -> anyhow::Result<()> {
        let Ok(client) = self.args.client() else { return Ok(()) };
        if let Ok(target) = fetch_target(&client) {
            ensure!(target? == self.target, "{} is a different server now", client.url());
            self.client = client;
        }
        Ok(())
    }
}

fn fetch_target(client: &Client) -> Result<anyhow::Result<ImportTarget>, ClientError> {
    let response = client.send(&ApiRequest { method: Method::GET, path: ROUTE, headers: &[], body: &[] })?;
    Ok(serde_json::from_slice(&response.body).context("the response of the server is not valid"))
}

/// Returns the query parameter with the counts of events that could not be parsed, by reason.
fn rejected_parameter(batch: &EventBatch) -> String {
    let mut counts = std::collections::BTreeMap::new();
    batch.rejected.iter().for_each(|(_, reject)| *counts.entry(reject.label()).or_insert(0u32) += 1);
    let counts: Vec<String> = counts.iter().map(|(label, count)| format!("{label}:{count}")).collect();
    if counts.is_empty() { String::new() } else { format!("&refused={}", counts.join(",")) }
}
