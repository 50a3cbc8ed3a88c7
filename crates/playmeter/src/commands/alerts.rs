//! `playmeter alerts`: lists the alert rules of a game, and tests their targets.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::Value;
use ureq::http::Method;

use crate::client::{ApiRequest, Client, ServerArgs};

/// The time in which the first attempt of each target ends.
const TEST_TIMEOUT: Duration = Duration::from_secs(45);
const TEST_POLL: Duration = Duration::from_millis(200);

#[derive(Args)]
pub(crate) struct AlertsArgs {
    #[command(subcommand)]
    command: AlertsCommand,
}

#[derive(Subcommand)]
enum AlertsCommand {
    /// List all rules with their state
    List {
        #[command(flatten)]
        server: ServerArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send a test notification to each target of a rule and wait until it arrived
    Test {
        /// Key of the rule
        rule: String,
        #[command(flatten)]
        server: ServerArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: AlertsArgs) -> anyhow::Result<()> {
    match args.command {
        AlertsCommand::List { server, json } => list(&server.client()?, json),
        AlertsCommand::Test { rule, server, json } => test(&server.client()?, &rule, json),
    }
}

fn list(client: &Client, json: bool) -> anyhow::Result<()> {
    let answer = send(client, Method::GET, "/v1/alerts")?;
    for alert in answer["alerts"].as_array().into_iter().flatten() {
        if json {
            println!("{alert}");
            continue;
        }
        let text = |name: &str| alert[name].as_str().unwrap_or("-").to_owned();
        println!(
            "{}  {} since {}  value {}  {}",
            text("key"),
            text("state"),
            text("since"),
            alert["last_evaluation"]["value"],
            alert["name"].as_str().unwrap_or_default(),
        );
        if let Some(error) = alert["last_evaluation"]["error"].as_str() {
            println!("    not evaluated: {error}");
        }
    }
    Ok(())
}

fn test(client: &Client, rule: &str, json: bool) -> anyhow::Result<()> {
    let is_key =
        !rule.is_empty() && rule.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !is_key {
        bail!("RULE: must have letters, digits, `.`, `_` or `-`");
    }
    let sent = send(client, Method::POST, &format!("/v1/alerts/{rule}/test"))?;
    let deliveries = wait_for_attempts(client, rule, &sent["notification"])?;
    let mut failed = 0;
    for delivery in &deliveries {
        failed += usize::from(delivery["status"] != "delivered");
        if json {
            println!("{delivery}");
            continue;
        }
        let text = |name: &str| delivery[name].as_str().unwrap_or_default().to_owned();
        println!("{}  {}  {}", text("target"), text("status"), text("error"));
    }
    if failed > 0 {
        bail!("{failed} of {} targets did not confirm the notification", deliveries.len());
    }
    Ok(())
}

/// Waits until each delivery of a notification was attempted.
fn wait_for_attempts(client: &Client, rule: &str, notification: &Value) -> anyhow::Result<Vec<Value>> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let answer = send(client, Method::GET, &format!("/v1/alerts/{rule}/deliveries"))?;
        let mut all = answer["notifications"].as_array().into_iter().flatten();
        let found = all.find(|found| found["id"] == *notification);
        let found = found.context("the notification was dropped: too many others followed it")?;
        let deliveries = found["deliveries"].as_array().cloned().unwrap_or_default();
        let is_waiting = |delivery: &Value| delivery["status"] == "waiting" && delivery["attempts"] == 0;
        if !deliveries.iter().any(is_waiting) || Instant::now() > deadline {
            return Ok(deliveries);
        }
        std::thread::sleep(TEST_POLL);
    }
}

fn send(client: &Client, method: Method, path: &str) -> anyhow::Result<Value> {
    let answer = client.send(&ApiRequest { method, path, headers: &[], body: &[] })?;
    serde_json::from_slice(&answer.body).context("the answer is not JSON")
}
