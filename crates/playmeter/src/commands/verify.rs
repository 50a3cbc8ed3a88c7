//! `playmeter verify`: recomputes every number from the log and compares it with the stored one, and reads the archive.

use anyhow::{Context, bail};
use clap::Args;
use pipeline::time::parse_time;
use serde_json::Value;
use server::admin::Command;

use crate::admin;
use crate::cli::FolderArgs;

/// A range of hours.
#[derive(Args)]
pub(crate) struct RangeArgs {
    /// First hour of the range (RFC 3339) [default: the oldest]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End of the range, exclusive, rounded up to the hour (RFC 3339) [default: the newest]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    #[command(flatten)]
    pub(crate) folder: FolderArgs,
}

impl RangeArgs {
    /// Returns the range in hours since 1970, or `None` for all hours.
    pub(crate) fn hours(&self) -> anyhow::Result<Option<std::ops::Range<u32>>> {
        if self.from.is_none() && self.to.is_none() {
            return Ok(None);
        }
        let hour = |text: &Option<String>, name: &str, round_up: i64, default: u32| match text {
            None => Ok(default),
            Some(text) => {
                let ms = parse_time(text)
                    .with_context(|| format!("--{name}: `{text}` is not a time in RFC 3339 format"))?;
                u32::try_from((ms + round_up).div_euclid(3_600_000))
                    .with_context(|| format!("--{name}: must not be before 1970"))
            }
        };
        Ok(Some(hour(&self.from, "from", 0, 0)?..hour(&self.to, "to", 3_599_999, u32::MAX)?))
    }
}

/// Prints the comparison. Fails if anything differs.
pub(crate) fn run(args: RangeArgs) -> anyhow::Result<()> {
    let result = admin::run(&args.folder.data, Command::Verify { hours: args.hours()? })?;
    if args.folder.json {
        println!("{result}");
    } else {
        print(&result);
    }
    check(&result)
}

/// Returns an error that says what to do if anything differs.
pub(crate) fn check(result: &Value) -> anyhow::Result<()> {
    if result["agrees"] == true {
        return Ok(());
    }
    bail!("{}", advice(result).join("; "))
}

/// Says what is wrong and what to do about it.
fn advice(result: &Value) -> Vec<String> {
    let mut advice = Vec::new();
    let damage = result["log"]["damage"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !damage.is_empty() {
        let mut files: Vec<&str> = damage.iter().filter_map(|damage| damage["file"].as_str()).collect();
        files.dedup();
        advice.push(format!(
            "the log is damaged: restore {} from a backup. The stored rollups with these events cannot be derived again; \
             `playmeter rebuild` keeps them as they are",
            files.join(", ")
        ));
    }
    let quarantined = result["quarantined"].as_array().map_or(0, Vec::len);
    if quarantined > 0 {
        advice.push(format!(
            "{quarantined} log entries are skipped because applying them panicked twice; please report this"
        ));
    }
    if result["different"] != 0 {
        advice.push(format!(
            "{} rows differ from the log: run `playmeter rebuild` to replace them",
            result["different"]
        ));
    }
    let archive = &result["archive"];
    if let Some(problems) = archive["problems"].as_array().filter(|problems| !problems.is_empty()) {
        let problems: Vec<&str> = problems.iter().filter_map(Value::as_str).collect();
        advice.push(format!(
            "files of the archive are damaged: restore them from a backup: {}",
            problems.join("; ")
        ));
    }
    if archive["different"] != 0 {
        advice.push(format!(
            "the archive has other numbers of events than log and rollups on {} days: restore `archive/` from a backup, or, if \
             the log has its first segment, stop the server and move `archive/` away",
            archive["different"]
        ));
    }
    if let Some(records) = result["records"]["advice"].as_str() {
        advice.push(format!("the records of live-ops are not those that were written. {records}"));
    }
    advice
}

/// Prints the comparison for people.
pub(crate) fn print(result: &Value) {
    let log = &result["log"];
    let damage = log["damage"].as_array().map(Vec::as_slice).unwrap_or_default();
    let state = if damage.is_empty() { "checksums valid" } else { "damaged" };
    println!("log       {} bytes in {} segments, {state}", log["bytes"], log["segments"]);
    println!(
        "rollups   {} rows at position {}",
        result["rows"],
        result["position"].as_str().unwrap_or_default()
    );
    println!("compared  {} rows, {} differ", result["compared"], result["different"]);
    if let Some([from, until]) = result["not_derivable_hours"].as_array().map(Vec::as_slice) {
        let rows = &result["not_derivable"];
        println!("          {rows} rows from {from} to {until} include events that the log does not have");
    }
    let records = &result["records"];
    println!("records   {} of live-ops, {} expected", records["count"], records["expected"]);
    let archive = &result["archive"];
    println!(
        "archive   {} events in {} files; {} days compared, {} differ",
        archive["events"], archive["files"], archive["days"], archive["different"]
    );
    for problem in archive["problems"].as_array().into_iter().flatten() {
        println!("damaged   {}", problem.as_str().unwrap_or_default());
    }
    for day in archive["examples"].as_array().into_iter().flatten() {
        println!("differs   {day}");
    }
    for damage in damage {
        println!("damaged   {damage}");
    }
    for entry in result["quarantined"].as_array().into_iter().flatten() {
        println!("skipped   the entry at offset {}: {}", entry["offset"], entry["message"]);
    }
    for example in result["examples"].as_array().into_iter().flatten() {
        println!("differs   {}", example.as_str().unwrap_or_default());
    }
}
