//! `playmeter version`: what this program is.

use clap::Args;
use serde_json::json;

/// The commit that the program was built from; empty if the build was not given one.
const COMMIT: &str = match option_env!("PLAYMETER_COMMIT") {
    Some(commit) => commit,
    None => "",
};
/// The version as `--version` prints it.
pub(crate) const VERSION: &str = match option_env!("PLAYMETER_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Arguments of `playmeter version`.
#[derive(Args)]
pub(crate) struct VersionArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the version and the commit.
pub(crate) fn run(args: VersionArgs) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    if args.json {
        println!("{}", json!({ "version": version, "commit": COMMIT }));
    } else {
        println!("playmeter {VERSION}");
    }
    Ok(())
}
