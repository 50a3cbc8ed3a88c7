//! The command line as the user types it.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::agent::AgentArgs;
use crate::commands::alerts::AlertsArgs;
use crate::commands::backup::{BackupArgs, BackupsArgs, RestoreArgs};
use crate::commands::bench::BenchArgs;
use crate::commands::collectors::CollectorsArgs;
use crate::commands::export::ExportArgs;
use crate::commands::games::GamesArgs;
use crate::commands::import::ImportArgs;
use crate::commands::keys::KeysArgs;
use crate::commands::repair::RepairArgs;
use crate::commands::shell::{CompletionsArgs, ManualArgs};
use crate::commands::top::TopArgs;
use crate::commands::verify::RangeArgs;
use crate::commands::version::{self, VersionArgs};
use crate::settings::listen::ListenAddress;

/// Realtime analytics and live-ops for games, in one program
#[derive(Parser)]
#[command(name = "playmeter", version = version::VERSION, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Subcommand)]
pub(crate) enum CliCommand {
    /// Run the server on a data folder
    Serve(ServeArgs),
    /// Report the metrics of this host to a server
    Agent(AgentArgs),
    /// Run a load test against a server
    Bench(BenchArgs),
    /// Print the effective settings and the source of each
    Config(ServeArgs),
    /// Show live statistics of the running server
    Top(TopArgs),
    /// List, start, stop and restart collectors
    Collectors(CollectorsArgs),
    /// Create, list, rename and configure games
    Games(GamesArgs),
    /// Create, list, rotate and revoke keys
    Keys(KeysArgs),
    /// List alert rules and test their targets
    Alerts(AlertsArgs),
    /// Take a backup of the data folder
    Backup(BackupArgs),
    /// List, check and remove backups
    Backups(BackupsArgs),
    /// Restore a backup to a new folder and verify it
    Restore(RestoreArgs),
    /// Recompute the rollups from the log and compare them, and the archive
    Verify(RangeArgs),
    /// Recompute the rollups from the log and replace those that differ
    Rebuild(RangeArgs),
    /// Continue after a part of the log or of the views was lost for good
    Repair(RepairArgs),
    /// Import past events from files
    Import(ImportArgs),
    /// Export the raw events of a game to files
    Export(ExportArgs),
    /// Print the version and the commit of this program
    Version(VersionArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Write the manual pages to a folder
    Manual(ManualArgs),
}

/// Settings that have a flag. Flags override the environment, which overrides the file.
#[derive(Args, Clone, Default)]
pub(crate) struct ServeArgs {
    /// Data folder; created if it does not exist
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Name or address to listen on, with a port; with port 0, a free port is chosen and written to bootstrap.json
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<ListenAddress>,
    /// PEM file with the certificate for HTTPS; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// TOML file with settings
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Run simulated players in the demo game
    #[arg(long)]
    pub(crate) demo: bool,
    /// Number of threads that handle requests [default: one per core]
    #[arg(long, value_name = "N")]
    pub(crate) runtimes: Option<usize>,
    /// Run behind a reverse proxy that appends to X-Forwarded-For and, without --tls-cert, terminates TLS
    #[arg(long)]
    pub(crate) behind_proxy: bool,
    /// Origins whose pages may open WebSockets, separated by commas [default: all]
    #[arg(long, value_name = "ORIGINS")]
    pub(crate) origins: Option<String>,
    /// Receive StatsD over UDP on this address, for the first game
    #[arg(long, value_name = "ADDR")]
    pub(crate) statsd: Option<SocketAddr>,
    /// Receive RTCP over UDP on this address, for the first game
    #[arg(long, value_name = "ADDR")]
    pub(crate) rtcp: Option<SocketAddr>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The data folder that a command works on.
#[derive(Args, Clone)]
pub(crate) struct FolderArgs {
    /// Data folder
    #[arg(long, value_name = "DIR", default_value = crate::settings::DATA, env = "PLAYMETER_DATA")]
    pub(crate) data: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
