//! `playmeter verify`: every number derived again from the log, and compared.

use anyhow::{Context, bail};
use clap::Args;
use pipeline::time::parse_time;
use serde_json::Value;
use server::admin::Command;

use crate::admin;
use crate::cli::FolderArgs;

/// Which hours.
#[derive(Args)]
pub struct RangeArgs {
    /// From this hour on (RFC 3339); from the beginning if left out.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Up to this hour (RFC 3339); to the end if left out.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    #[command(flatten)]
    pub folder: FolderArgs,
}

impl RangeArgs {
    /// Hours since 1970; `None`: all.
    pub fn hours(&self) -> anyhow::Result<Option<std::ops::Range<u32>>> {
        if self.from.is_none() && self.to.is_none() {
            return Ok(None);
        }
        let hour = |text: &Option<String>, name: &str, round_up: i64, none: u32| match text {
            None => Ok(none),
            Some(text) => {
                let ms = parse_time(text).with_context(|| format!("--{name}: `{text}` is not a time"))?;
                u32::try_from((ms + round_up).div_euclid(3_600_000))
                    .with_context(|| format!("--{name}: before 1970"))
            }
        };
        Ok(Some(hour(&self.from, "from", 0, 0)?..hour(&self.to, "to", 3_599_999, u32::MAX)?))
    }
}

/// Compares; an error if anything differs.
pub fn run(args: RangeArgs) -> anyhow::Result<()> {
    let done = admin::run(&args.folder.data, Command::Verify { hours: args.hours()? })?;
    if args.folder.json {
        println!("{done}");
    } else {
        print(&done);
    }
    if done["agrees"] != true {
        bail!("the rollups and the log do not agree; `playmeter rebuild` derives them again");
    }
    Ok(())
}

fn print(done: &Value) {
    let log = &done["log"];
    println!("log       {} bytes in {} segments, checksums right", log["bytes"], log["segments"]);
    println!("rollups   {} rows at position {}", done["rows"], done["position"].as_str().unwrap_or_default());
    println!("compared  {} rows, {} different", done["compared"], done["different"]);
    if done["before_the_log"] != 0 {
        println!("          {} rows have events that the log no longer keeps", done["before_the_log"]);
    }
    for damage in log["damage"].as_array().into_iter().flatten() {
        println!("damaged   {damage}");
    }
    for example in done["examples"].as_array().into_iter().flatten() {
        println!("differs   {}", example.as_str().unwrap_or_default());
    }
}
