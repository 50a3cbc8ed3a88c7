//! `playmeter completions` and `playmeter manual`: the command line for shells and for `man`.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;

/// Arguments of `playmeter completions`.
#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Arguments of `playmeter manual`.
#[derive(Args)]
pub(crate) struct ManualArgs {
    /// Folder for the pages; created if it does not exist
    folder: PathBuf,
}

/// Prints the completions of a shell.
pub(crate) fn print_completions(args: CompletionsArgs) -> anyhow::Result<()> {
    clap_complete::generate(args.shell, &mut Cli::command(), "playmeter", &mut std::io::stdout());
    Ok(())
}

/// Writes one page for the program and one for each command.
pub(crate) fn write_manual(args: ManualArgs) -> anyhow::Result<()> {
    let folder = &args.folder;
    let write =
        || std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    write().with_context(|| format!("writing the manual to {}", folder.display()))
}
