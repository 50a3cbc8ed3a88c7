//! `playmeter export`: copies the raw events of a game from a server into a folder, and resumes after any interruption.
//!
//! Each page becomes one file, which gets its name when it is durable; then the state is replaced, which names the next
//! page. An export that was killed in between receives the last page again and replaces its file.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::client::{Client, ClientError, ServerArgs};
use crate::count::Count;

/// The file with the state.
const STATE: &str = "export.json";
/// The end of the name of a file that is being written.
const UNFINISHED: &str = ".unfinished";
const VERSION: u32 = 1;
/// If the server is unreachable for longer, the export stops. The user can resume it later.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// The server cuts a page that takes longer.
const PAGE_TIMEOUT: Duration = Duration::from_secs(330);

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// URL of the server, for example https://play.example.com [default: from bootstrap.json in the data folder]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Secret key with the scope `export`; prefer the environment variable, which other users of this machine cannot see
    #[arg(long, value_name = "KEY", env = "PLAYMETER_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Data folder on this machine whose bootstrap.json has the key and the URL [default: data, unless --url is given]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Events at or after this time, RFC 3339 or milliseconds since 1970 [default: all]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Events before this time, RFC 3339 or milliseconds since 1970 [default: all]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Format of the files
    #[arg(long, value_enum, default_value_t = ExportFormat::Ndjson)]
    format: ExportFormat,
    /// Folder for the files; an interrupted export in it is resumed
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Events of a file, at most
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    rows: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The format of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ExportFormat {
    /// One JSON object per line
    Ndjson,
    /// CSV, each file with a header
    Csv,
    /// Parquet, each file with events of one day
    Parquet,
}

impl ExportFormat {
    fn label(self) -> &'static str {
        match self {
            ExportFormat::Ndjson => "ndjson",
            ExportFormat::Csv => "csv",
            ExportFormat::Parquet => "parquet",
        }
    }
}

/// What an export copies. A resumed one must copy the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportSource {
    url: String,
    /// The game of the key; empty before the first page.
    game: String,
    from: Option<String>,
    to: Option<String>,
    format: ExportFormat,
}

/// How far an export is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportState {
    version: u32,
    source: ExportSource,
    /// The next page; none before the first and after the last.
    cursor: Option<String>,
    files: u64,
    events: u64,
    is_done: bool,
}

pub(crate) fn run(args: ExportArgs) -> anyhow::Result<()> {
    let server = ServerArgs::new(args.url.clone(), args.key.clone(), args.data.clone());
    let client = server.client().map_err(|error| anyhow!(error.to_string().replacen("--to", "--url", 1)))?;
    let folder = &args.out;
    fs::create_dir_all(folder).with_context(|| format!("--out {}", folder.display()))?;
    let lock = File::open(folder).with_context(|| format!("--out {}", folder.display()))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .with_context(|| format!("--out {}: another export writes to this folder", folder.display()))?;
    let source = ExportSource {
        url: client.url().to_owned(),
        game: String::new(),
        from: args.from.clone(),
        to: args.to.clone(),
        format: args.format,
    };
    let mut state = open(folder, source)?;
    while !state.is_done {
        next_page(&client, folder, &mut state, args.rows)?;
        if !args.json {
            eprintln!("{} events in {} files", Count(state.events), Count(state.files));
        }
    }
    if args.json {
        println!("{}", json!({ "events": state.events, "files": state.files, "game": state.source.game }));
    } else {
        println!("exported {} events in {} files", Count(state.events), Count(state.files));
    }
    Ok(())
}

/// Reads the state of a folder, or begins an export in an empty one.
fn open(folder: &Path, source: ExportSource) -> anyhow::Result<ExportState> {
    let path = folder.join(STATE);
    match fs::read(&path) {
        Ok(bytes) => {
            let state: ExportState = serde_json::from_slice(&bytes)
                .with_context(|| format!("{} is not the state of an export", path.display()))?;
            let same = ExportSource { game: state.source.game.clone(), ..source };
            ensure!(
                state.version == VERSION && state.source == same,
                "--out {}: holds an export with another server, range or format; choose another folder",
                folder.display()
            );
            Ok(state)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let is_empty = fs::read_dir(folder)?.next().is_none();
            ensure!(is_empty, "--out {}: is not empty; choose another folder", folder.display());
            let state =
                ExportState { version: VERSION, source, cursor: None, files: 0, events: 0, is_done: false };
            save(folder, &state)?;
            Ok(state)
        }
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

fn save(folder: &Path, state: &ExportState) -> anyhow::Result<()> {
    let unfinished = folder.join(format!("{STATE}{UNFINISHED}"));
    let replace = || -> std::io::Result<()> {
        let mut file = File::create(&unfinished)?;
        file.write_all(&serde_json::to_vec_pretty(state)?)?;
        file.sync_all()?;
        fs::rename(&unfinished, folder.join(STATE))?;
        File::open(folder)?.sync_all()
    };
    replace().with_context(|| format!("writing {}", folder.join(STATE).display()))
}

/// Receives a page as a file, and records it.
fn next_page(client: &Client, folder: &Path, state: &mut ExportState, rows: u64) -> anyhow::Result<()> {
    let format = state.source.format.label();
    let mut path = format!("/v1/export/events?format={format}&limit={rows}");
    let parameters = [("from", &state.source.from), ("to", &state.source.to), ("cursor", &state.cursor)];
    for (name, value) in parameters {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", encode(value)));
        }
    }
    let name = folder.join(format!("{:06}.{format}", state.files + 1));
    let unfinished = folder.join(format!("{:06}.{format}{UNFINISHED}", state.files + 1));
    let started = Instant::now();
    let mut backoff = BACKOFF_MIN;
    let headers = loop {
        let mut file = File::create(&unfinished).with_context(|| unfinished.display().to_string())?;
        match client.download(&path, PAGE_TIMEOUT, &mut file) {
            Ok(headers) => {
                file.sync_all().with_context(|| unfinished.display().to_string())?;
                break headers;
            }
            Err(error) => {
                let error = match error.downcast::<ClientError>() {
                    Ok(error) if error.is_temporary() && started.elapsed() < RETRY_TIMEOUT => error,
                    Ok(error) => bail!("{error}; run the same command again to resume"),
                    Err(error) => return Err(error),
                };
                std::thread::sleep(error.retry_after().unwrap_or(backoff).min(BACKOFF_MAX));
                backoff = (backoff * 2).min(BACKOFF_MAX);
            }
        }
    };
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let game = header("playmeter-game").context("the server is no Playmeter, or too old for exports")?;
    let events: u64 = header("playmeter-rows").and_then(|rows| rows.parse().ok()).unwrap_or(0);
    if state.source.game.is_empty() {
        state.source.game = game.clone();
    }
    ensure!(
        state.source.game == game,
        "--key: belongs to the game {game}, but the folder holds an export of {}",
        state.source.game
    );
    state.cursor = header("playmeter-next-cursor");
    state.is_done = state.cursor.is_none();
    if events > 0 {
        fs::rename(&unfinished, &name).with_context(|| name.display().to_string())?;
        state.files += 1;
        state.events += events;
    } else {
        fs::remove_file(&unfinished).with_context(|| unfinished.display().to_string())?;
    }
    save(folder, state)
}

/// Encodes a value for a query string.
fn encode(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_for_a_url() {
        assert_eq!(encode("2026-11-01T10:00:00+01:00"), "2026-11-01T10%3A00%3A00%2B01%3A00");
        assert_eq!(encode("a b&é"), "a%20b%26%C3%A9");
    }
}
