//! Batches to the server, each until it is acknowledged.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use ureq::http::Method;

use super::source::Batch;
use crate::client::{Client, Failure, Request, ServerArgs};

/// A server that is away for longer has the import end; it goes on when it is started again.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries.
const WAIT_FIRST: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);
const ROUTE: &str = "/v1/import";

/// Where events go.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Target {
    /// The game's id.
    pub game: String,
    /// Tells this game's log from all others.
    pub target: String,
}

/// What became of a batch.
#[derive(Debug, Deserialize)]
pub struct Receipt {
    /// Are new and durable.
    pub accepted: u64,
    /// Were there before.
    pub duplicate: u64,
    /// Those that were not accepted.
    pub results: Vec<NotAccepted>,
    /// How long live commits take, milliseconds.
    pub commit_ms: Option<f64>,
}

/// One event that was not accepted.
#[derive(Debug, Deserialize)]
pub struct NotAccepted {
    /// Its place in the batch.
    pub i: usize,
    /// `duplicate` and others.
    pub outcome: String,
    /// Why.
    pub reason: String,
}

/// Sends to one game.
pub struct Sender {
    args: ServerArgs,
    client: Client,
    target: Target,
}

impl Sender {
    /// Asks the server which game the key is of.
    pub fn open(args: &ServerArgs) -> anyhow::Result<Sender> {
        let client = args.client()?;
        let target = target(&client).map_err(|failure| match failure {
            Failure::NoAnswer { .. } => anyhow::Error::from(failure)
                .context("is a server running? `playmeter serve --data DIR` starts one"),
            Failure::Refused { .. } => failure.into(),
        })?;
        Ok(Sender { args: args.clone(), client, target: target? })
    }

    /// Where it sends to.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sends a batch whose first event has this number in its file. Returns when it is durable. What comes in between
    /// (a restart, a full disk, a quota) is waited for; a batch that may have been taken is sent again, and its events
    /// have the same ids.
    pub fn send(&mut self, file: &str, from: u64, batch: &Batch) -> anyhow::Result<Receipt> {
        let path = format!("{ROUTE}?file={file}&from={from}{}", refused(batch));
        let (mut wait, mut away_since) = (WAIT_FIRST, None);
        loop {
            let failure = match self.ask(&path, &batch.body) {
                Ok(answer) => {
                    return serde_json::from_slice(&answer).context("the server answered something else");
                }
                Err(failure) if failure.is_temporary() => failure,
                Err(failure) => return Err(failure.into()),
            };
            let pause = failure.retry_after().unwrap_or(wait);
            let since = *away_since.get_or_insert_with(Instant::now);
            if since.elapsed() + pause > PATIENCE {
                bail!("{failure}; the same command goes on from here later");
            }
            std::thread::sleep(pause);
            wait = (2 * wait).min(WAIT_MAX);
            if matches!(failure, Failure::NoAnswer { .. }) {
                self.find_again()?;
            }
        }
    }

    fn ask(&self, path: &str, body: &str) -> Result<Vec<u8>, Failure> {
        let headers = [("Content-Type", "application/x-ndjson")];
        let request = Request { method: Method::POST, path, headers: &headers, body: body.as_bytes() };
        Ok(self.client.ask(&request)?.body)
    }

    /// A server may be somewhere else after a restart, and something else may be where it was.
    fn find_again(&mut self) -> anyhow::Result<()> {
        let Ok(client) = self.args.client() else { return Ok(()) };
        if let Ok(found) = target(&client) {
            ensure!(found? == self.target, "{} is another server now", client.url());
            self.client = client;
        }
        Ok(())
    }
}

fn target(client: &Client) -> Result<anyhow::Result<Target>, Failure> {
    let answer = client.ask(&Request { method: Method::GET, path: ROUTE, headers: &[], body: &[] })?;
    Ok(serde_json::from_slice(&answer.body).context("the server answered something else"))
}

/// What of the batch could not be read, as a parameter.
fn refused(batch: &Batch) -> String {
    let mut counts = std::collections::BTreeMap::new();
    batch.refused.iter().for_each(|(_, reject)| *counts.entry(reject.label()).or_insert(0u32) += 1);
    let all: Vec<String> = counts.iter().map(|(label, count)| format!("{label}:{count}")).collect();
    if all.is_empty() { String::new() } else { format!("&refused={}", all.join(",")) }
}
