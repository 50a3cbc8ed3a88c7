//! `playmeter rebuild`: recomputes rollups from the log and replaces the stored ones.

use server::admin::Command;

use super::verify::RangeArgs;
use crate::admin;

pub(crate) fn run(args: RangeArgs) -> anyhow::Result<()> {
    let result = admin::run(&args.folder.data, Command::Rebuild { hours: args.hours()? })?;
    if args.folder.json {
        println!("{result}");
    } else {
        println!(
            "{} rows rebuilt at position {}",
            result["rows"],
            result["position"].as_str().unwrap_or_default()
        );
    }
    Ok(())
}
