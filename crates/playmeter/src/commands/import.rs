//! `playmeter import`: imports past events from files into a running server, next to live traffic.
//!
//! For each batch: read it, wait as the pacer says, send it, record the receipt in the ledger. An import that was killed
//! at any moment resumes from the ledger. A batch that was acknowledged but not recorded is sent again; its events are
//! recognised as duplicates by their ids.

mod batch_sender;
mod ledger;
mod progress;
mod source;
#[cfg(test)]
mod tests;

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use decode::csv::{Field, Mapping, OtherColumns, Target};
use pipeline::pacer::Pacer;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::client::ServerArgs;
use crate::count::Count;
use batch_sender::BatchSender;
use ledger::{ImportIdentity, ImportLedger, LedgerEntry, hex};
use progress::Progress;
use source::{EventBatch, FileFormat, ImportSource};

/// Rows per batch without a pacer.
const UNPACED_ROWS: usize = 2_000;
/// Chunk size for hashing a file.
const CHUNK_BYTES: usize = 1 << 20;
/// The argument that means standard input.
const STANDARD_INPUT: &str = "-";

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// Files of events: NDJSON, CSV or Parquet, the first two also compressed with gzip or zstd; `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
    /// Id of the game that the key must belong to, as a safeguard
    #[arg(long)]
    game: Option<String>,
    /// Format of the files [default: detected from the file name and the first bytes]
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// Target of a column: a field of an event, `props.NAME` or `ignore`; repeatable
    #[arg(long, value_name = "NAME=TARGET", value_parser = name_and_value)]
    columns: Vec<(String, String)>,
    /// Value of a field in all rows, for example `event=purchase`; repeatable
    #[arg(long, value_name = "FIELD=TEXT", value_parser = name_and_value)]
    fixed: Vec<(String, String)>,
    /// Treatment of columns that are not mapped
    #[arg(long, value_enum, default_value_t = UnmappedColumns::Props)]
    others: UnmappedColumns,
    /// Field separator of CSV files
    #[arg(long, default_value_t = ',')]
    delimiter: char,
    /// Folder for the import ledger, which records what was imported [default: ~/.local/state/playmeter/imports]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Import files again that have changed since they were imported; events without an id then count again
    #[arg(long)]
    changed: bool,
    /// Import as fast as the server can, even if that slows live traffic down
    #[arg(long)]
    unpaced: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The argument for [`OtherColumns`]. The ledger contains the names of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum UnmappedColumns {
    /// Import them as properties
    Props,
    /// Ignore them
    Ignore,
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "must be NAME=VALUE".to_owned())
}

/// Imports the files. Fails if any event was rejected.
pub(crate) fn run(args: ImportArgs) -> anyhow::Result<()> {
    let mapping = args.mapping()?;
    let sender = BatchSender::open(&args.server)?;
    let game = sender.target().game.clone();
    if let Some(wanted) = args.game.as_ref().filter(|wanted| **wanted != game) {
        bail!("--game {wanted}: the key belongs to the game {game}; pass a key of {wanted} with --key");
    }
    let mut importer =
        Importer { args: &args, mapping, sender, pace: (!args.unpaced).then(ImportPace::default) };
    let mut files = Vec::new();
    let result = args.files.iter().try_for_each(|path| importer.import(path, &mut files));
    if args.json {
        println!("{}", summary(&game, &files));
    }
    result?;
    let sum = |count: fn(&LedgerEntry) -> u64| files.iter().map(|(_, entry)| count(entry)).sum();
    let (rejected, received) = (sum(LedgerEntry::rejected_count), sum(|entry| entry.received));
    ensure!(
        rejected == 0,
        "{} of {} events were rejected; the others were imported",
        Count(rejected),
        Count(received)
    );
    Ok(())
}

impl ImportArgs {
    fn mapping(&self) -> anyhow::Result<Mapping> {
        let mut mapping = Mapping::default();
        for (column, target) in &self.columns {
            mapping =
                mapping.column(column, Target::parse(target).with_context(|| format!("--columns {column}"))?);
        }
        for (field, text) in &self.fixed {
            mapping = mapping.fixed(Field::parse(field).with_context(|| format!("--fixed {field}"))?, text);
        }
        if self.others == UnmappedColumns::Ignore {
            mapping = mapping.others(OtherColumns::Ignore);
        }
        mapping.delimiter(self.delimiter).context("--delimiter")
    }

    /// Returns the options that change how a file is read, as a text that is part of the identity of the import. Equal
    /// options give the same text, whatever their order on the command line.
    fn read_options(&self, format: FileFormat) -> String {
        let ImportArgs { others, delimiter, .. } = self;
        let [mut columns, mut fixed] = [self.columns.clone(), self.fixed.clone()];
        for pairs in [&mut columns, &mut fixed] {
            // The sort is stable: pairs with the same name keep their order, which may matter.
            pairs.sort_by(|one, other| one.0.cmp(&other.0));
        }
        format!("{:?}", (format, columns, fixed, others, delimiter))
    }
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// Imports files into one game.
struct Importer<'a> {
    args: &'a ImportArgs,
    mapping: Mapping,
    sender: BatchSender,
    pace: Option<ImportPace>,
}

/// A pacer with its clock.
struct ImportPace {
    start: Instant,
    pacer: Pacer,
}

impl Default for ImportPace {
    fn default() -> ImportPace {
        ImportPace { start: Instant::now(), pacer: Pacer::default() }
    }
}

impl Importer<'_> {
    /// Imports one file, prints its result and adds it to `files`.
    fn import(&mut self, path: &Path, files: &mut Vec<(String, LedgerEntry)>) -> anyhow::Result<()> {
        let name = match is_standard_input(path) {
            true => "standard input".to_owned(),
            false => path.display().to_string(),
        };
        let (earlier, entry) = self.import_path(path, &name).with_context(|| name.clone())?;
        if !self.args.json {
            print(&name, earlier, &entry);
        }
        files.push((name, entry));
        Ok(())
    }

    /// Imports one file. Returns the number of events that an earlier run had imported, and the ledger entry.
    fn import_path(&mut self, path: &Path, name: &str) -> anyhow::Result<(u64, LedgerEntry)> {
        if is_standard_input(path) {
            return self.import_standard_input(name);
        }
        let path = path.canonicalize().context("opening the file")?;
        let (sha256, metadata) = sha256(&path)?;
        let text = path.to_string_lossy();
        let format = self.args.format.map_or_else(|| FileFormat::detect(&path), Ok)?;
        let identity =
            ImportIdentity { path: &text, sha256: &sha256, options: &self.args.read_options(format) };
        let folder = match &self.args.state {
            Some(folder) => folder.clone(),
            None => ledger::default_folder()?,
        };
        let folder = folder.join(&self.sender.target().target);
        if !self.args.changed {
            reject_changed(&folder, &identity)?;
        }
        let (mut ledger, mut entry) = ImportLedger::open(&folder, &identity)?;
        let earlier = entry.received;
        if entry.is_done {
            return Ok((earlier, entry));
        }
        let mut source = ImportSource::open(&path, format, &self.mapping, earlier)?;
        self.import_rest(name, &hex(&sha256), &mut source, &mut entry, |entry| ledger.write(entry))?;
        let now = path.metadata().context("reading its metadata")?;
        with_imported_count(ensure_unchanged(&metadata, &now), &entry)?;
        entry.is_done = true;
        ledger.write(&entry)?;
        Ok((earlier, entry))
    }

    /// Imports standard input, which always counts as a new import, because its content is not known in advance.
    fn import_standard_input(&mut self, name: &str) -> anyhow::Result<(u64, LedgerEntry)> {
        let mut identity = [0; 32];
        getrandom::fill(&mut identity).context("getting random bytes from the operating system")?;
        let mut entry = LedgerEntry::new(STANDARD_INPUT, &identity);
        let mut source = ImportSource::standard_input(self.args.format, &self.mapping)?;
        self.import_rest(name, &hex(&identity), &mut source, &mut entry, |_| Ok(()))?;
        entry.is_done = true;
        Ok((0, entry))
    }

    /// Imports the remaining rows of a source.
    fn import_rest(
        &mut self,
        name: &str,
        file_id: &str,
        source: &mut ImportSource,
        entry: &mut LedgerEntry,
        mut write: impl FnMut(&LedgerEntry) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (mut batch, mut progress) = (EventBatch::default(), Progress::new(name, entry.received));
        loop {
            batch.clear();
            let rows_max = self.pace.as_ref().map_or(UNPACED_ROWS, |pace| pace.pacer.batch_size());
            let result = source.fill(rows_max, &mut batch);
            if batch.rows() > 0 {
                self.send(file_id, &batch, entry)?;
                write(entry)?;
                progress.update(entry.received, source.fraction());
            }
            if result.is_err() || batch.rows() == 0 {
                progress.clear();
                return with_imported_count(result, entry);
            }
        }
    }

    /// Waits as the pacer says, then sends a batch and adds its receipt to the entry.
    fn send(&mut self, file_id: &str, batch: &EventBatch, entry: &mut LedgerEntry) -> anyhow::Result<()> {
        if let Some(pace) = &mut self.pace {
            std::thread::sleep(pace.pacer.wait(pace.start.elapsed(), batch.rows()));
        }
        let receipt = with_imported_count(self.sender.send(file_id, entry.sent, batch), entry)?;
        if let Some(pace) = &mut self.pace {
            let commit = receipt.commit_ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok());
            pace.pacer.update(pace.start.elapsed(), commit);
        }
        entry.add(batch, &receipt);
        Ok(())
    }
}

/// Rejects a file that has changed since it was imported, because its events without ids would count again.
fn reject_changed(folder: &Path, identity: &ImportIdentity<'_>) -> anyhow::Result<()> {
    let Some(entry) = ledger::find_changed(folder, identity)? else { return Ok(()) };
    bail!(
        "the file has changed since {} of its events were imported; put the new events into a separate file, or import \
         the whole file with --changed, which counts events without an id again",
        Count(entry.received)
    )
}

/// Adds the number of imported events to an error.
fn with_imported_count<T>(result: anyhow::Result<T>, entry: &LedgerEntry) -> anyhow::Result<T> {
    match entry.accepted + entry.duplicate {
        0 => result,
        events => {
            result.map_err(|error| anyhow!("{error:#}; {} events were imported before that", Count(events)))
        }
    }
}

/// Returns the hash of a file and its metadata before it was read.
fn sha256(path: &Path) -> anyhow::Result<([u8; 32], Metadata)> {
    let mut file = File::open(path).context("opening the file")?;
    let metadata = file.metadata().context("reading its metadata")?;
    ensure!(metadata.is_file(), "not a regular file; use `-` to read standard input");
    let (mut hash, mut chunk) = (Sha256::new(), vec![0; CHUNK_BYTES]);
    loop {
        match file.read(&mut chunk).context("reading the file")? {
            0 => return Ok((hash.finalize().into(), metadata)),
            read => hash.update(&chunk[..read]),
        }
    }
}

fn ensure_unchanged(before: &Metadata, now: &Metadata) -> anyhow::Result<()> {
    let is_same = (before.len(), before.modified().ok()) == (now.len(), now.modified().ok());
    ensure!(is_same, "the file changed while it was imported");
    Ok(())
}

fn print(name: &str, earlier: u64, entry: &LedgerEntry) {
    let LedgerEntry { received, accepted, duplicate, rejected, examples, .. } = entry;
    let note = match earlier {
        0 => String::new(),
        earlier if earlier == *received => ", all imported earlier".to_owned(),
        earlier => format!(", {} imported earlier", Count(earlier)),
    };
    println!("{name}: {} events{note}", Count(*received));
    println!(
        "  {} accepted, {} duplicate, {} rejected",
        Count(*accepted),
        Count(*duplicate),
        Count(entry.rejected_count())
    );
    for (reason, count) in rejected {
        println!("  {} {reason}", Count(*count));
    }
    for example in examples {
        println!("  line {}: {}", example.line, example.reason);
    }
}

fn summary(game: &str, files: &[(String, LedgerEntry)]) -> Value {
    let file = |(name, entry): &(String, LedgerEntry)| {
        let LedgerEntry { received, accepted, duplicate, rejected, examples, .. } = entry;
        json!({
            "file": name, "received": received, "accepted": accepted, "duplicate": duplicate,
            "refused": rejected, "examples": examples,
        })
    };
    let sum = |count: fn(&LedgerEntry) -> u64| files.iter().map(|(_, entry)| count(entry)).sum::<u64>();
    json!({
        "game": game,
        "received": sum(|entry| entry.received),
        "accepted": sum(|entry| entry.accepted),
        "duplicate": sum(|entry| entry.duplicate),
        "refused": sum(LedgerEntry::rejected_count),
        "files": files.iter().map(file).collect::<Vec<_>>(),
    })
}
