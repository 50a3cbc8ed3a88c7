//! `playmeter rebuild`: rollups derived again from the log, in the place of what was there.

use server::admin::Command;

use super::verify::RangeArgs;
use crate::admin;

/// Replaces.
pub fn run(args: RangeArgs) -> anyhow::Result<()> {
    let done = admin::run(&args.folder.data, Command::Rebuild { hours: args.hours()? })?;
    if args.folder.json {
        println!("{done}");
    } else {
        println!(
            "{} rows derived again at position {}",
            done["rows"],
            done["position"].as_str().unwrap_or_default()
        );
    }
    Ok(())
}
