//! Playmeter: realtime analytics and live-ops for games, in one program.

mod admin;
mod cli;
mod client;
mod commands;
mod count;
mod files;
mod open;
mod settings;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Serve(args) => commands::serve::run(args),
        Command::Agent(args) => commands::agent::run(args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Config(args) => commands::config::run(args),
        Command::Top(args) => commands::top::run(args),
        Command::Collectors(args) => commands::collectors::run(args),
        Command::Games(args) => commands::games::run(args),
        Command::Keys(args) => commands::keys::run(args),
        Command::Verify(args) => commands::verify::run(args),
        Command::Rebuild(args) => commands::rebuild::run(args),
        Command::Import(args) => commands::import::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("playmeter: {failure:#}");
            ExitCode::FAILURE
        }
    }
}
