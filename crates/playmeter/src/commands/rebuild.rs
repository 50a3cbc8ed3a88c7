//! `playmeter rebuild`: recomputes rollups from the log and replaces the stored ones that differ. Fails if some cannot be
//! derived; those are kept.

use anyhow::bail;
use server::admin::Command;

use super::verify::RangeArgs;
use crate::admin;

pub(crate) fn run(args: RangeArgs) -> anyhow::Result<()> {
    let result = admin::run(&args.folder.data, Command::Rebuild { hours: args.hours()? })?;
    if args.folder.json {
        println!("{result}");
    } else {
        println!(
            "{} rows derived at position {}, {} replaced",
            result["rows"],
            result["position"].as_str().unwrap_or_default(),
            result["replaced"]
        );
    }
    if result["kept"] != 0 {
        let hours = &result["kept_hours"];
        bail!(
            "{} rows from {} to {} cannot be derived and were kept: the log does not have offsets {}",
            result["kept"],
            hours[0].as_str().unwrap_or_default(),
            hours[1].as_str().unwrap_or_default(),
            result["lost"]
        );
    }
    Ok(())
}
