//! The command line, as it is typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::agent::AgentArgs;
use crate::commands::bench::BenchArgs;
use crate::commands::collectors::CollectorsArgs;
use crate::commands::games::GamesArgs;
use crate::commands::import::ImportArgs;
use crate::commands::keys::KeysArgs;
use crate::commands::top::TopArgs;
use crate::commands::verify::RangeArgs;

/// Realtime analytics and live-ops for games, in one program.
#[derive(Parser)]
#[command(name = "playmeter", version, about)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Subcommand)]
pub enum Command {
    /// Run the server on a data folder.
    Serve(ServeArgs),
    /// Read this host, and send what is read to a server every few seconds.
    Agent(AgentArgs),
    /// Offer load to a server on a timetable and report what it cost.
    Bench(BenchArgs),
    /// Print the settings in force and where each comes from.
    Config(ServeArgs),
    /// Watch what the running server does.
    Top(TopArgs),
    /// Show collectors, stop and start them.
    Collectors(CollectorsArgs),
    /// Make, list and set up games.
    Games(GamesArgs),
    /// Make, list, rotate and revoke keys.
    Keys(KeysArgs),
    /// Derive rollups again from the log and compare.
    Verify(RangeArgs),
    /// Derive rollups again from the log and put them in place.
    Rebuild(RangeArgs),
    /// Import events of the past from files.
    Import(ImportArgs),
}

/// Settings that a flag can give. Flags win over the environment, which wins over the file.
#[derive(Args, Clone, Default)]
pub struct ServeArgs {
    /// The data folder; made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one, and bootstrap.json says which.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// A TOML file with settings.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Let simulated players play the demo game.
    #[arg(long)]
    pub demo: bool,
    /// Threads that answer requests; one per core by default.
    #[arg(long, value_name = "N")]
    pub runtimes: Option<usize>,
    /// A proxy in front speaks TLS and sets X-Forwarded-For.
    #[arg(long)]
    pub behind_proxy: bool,
    /// Origins whose pages may open sockets, with commas between them; all may by default.
    #[arg(long, value_name = "ORIGINS")]
    pub origins: Option<String>,
    /// Take StatsD's lines in packets here, for the first game.
    #[arg(long, value_name = "ADDR")]
    pub statsd: Option<SocketAddr>,
    /// Take RTCP in packets here, for the first game.
    #[arg(long, value_name = "ADDR")]
    pub rtcp: Option<SocketAddr>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The data folder that a command works on.
#[derive(Args, Clone)]
pub struct FolderArgs {
    /// The data folder.
    #[arg(long, value_name = "DIR", default_value = crate::settings::DATA, env = "PLAYMETER_DATA")]
    pub data: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
