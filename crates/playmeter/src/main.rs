//! Playmeter: realtime analytics and live-ops for games, in one program.

mod admin;
mod cli;
mod client;
mod commands;
mod count;
mod engine;
mod open_files;
mod own_folder;
mod private_folder;
mod settings;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, CliCommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        CliCommand::Serve(args) => commands::serve::run(args),
        CliCommand::Agent(args) => commands::agent::run(args),
        CliCommand::Bench(args) => commands::bench::run(args),
        CliCommand::Config(args) => commands::config::run(args),
        CliCommand::Top(args) => commands::top::run(args),
        CliCommand::Collectors(args) => commands::collectors::run(args),
        CliCommand::Games(args) => commands::games::run(args),
        CliCommand::Keys(args) => commands::keys::run(args),
        CliCommand::Alerts(args) => commands::alerts::run(args),
        CliCommand::Backup(args) => commands::backup::run(args),
        CliCommand::Backups(args) => commands::backup::run_list(args),
        CliCommand::Restore(args) => commands::backup::run_restore(args),
        CliCommand::Verify(args) => commands::verify::run(args),
        CliCommand::Rebuild(args) => commands::rebuild::run(args),
        CliCommand::Repair(args) => commands::repair::run(args),
        CliCommand::Import(args) => commands::import::run(args),
        CliCommand::Export(args) => commands::export::run(args),
        CliCommand::Version(args) => commands::version::run(args),
        CliCommand::Completions(args) => commands::shell::print_completions(args),
        CliCommand::Manual(args) => commands::shell::write_manual(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("playmeter: {error:#}");
            ExitCode::FAILURE
        }
    }
}
