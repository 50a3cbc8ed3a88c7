//! `playmeter import`: events of the past from files into a running server, beside what happens now.
//!
//! Batch by batch: read, wait as long as the pace says, send, note what was acknowledged. Killed at any moment and started
//! again, it goes on from there; what had been acknowledged and not noted is told by its ids and counts once.

mod ledger;
mod progress;
mod sender;
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
use ledger::{Account, Ledger, Subject, hex};
use progress::Progress;
use sender::Sender;
use source::{Batch, Form, Source};

/// Rows of a batch that nothing holds back.
const UNPACED_ROWS: usize = 2_000;
/// So much of a file is read at once to tell it from others.
const CHUNK_BYTES: usize = 1 << 20;
/// What stands for standard input.
const STANDARD_INPUT: &str = "-";

/// `playmeter import ...`
#[derive(Args)]
pub struct ImportArgs {
    /// Files of events: lines of JSON, CSV or Parquet, the first two also compressed with gzip or zstd. `-` is standard
    /// input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
    /// The game that the key has to be of.
    #[arg(long)]
    game: Option<String>,
    /// How the files are written, where names and first bytes do not tell.
    #[arg(long, value_enum)]
    format: Option<Form>,
    /// Where a column goes: a field of an event, `props.NAME` or `ignore`. May be given several times.
    #[arg(long, value_name = "NAME=TARGET", value_parser = pair)]
    columns: Vec<(String, String)>,
    /// The text of a field in all rows, for instance `event=purchase`. May be given several times.
    #[arg(long, value_name = "FIELD=TEXT", value_parser = pair)]
    fixed: Vec<(String, String)>,
    /// What becomes of columns that nobody names.
    #[arg(long, value_enum, default_value_t = WrittenOthers::Props)]
    others: WrittenOthers,
    /// What stands between the fields of CSV.
    #[arg(long, default_value_t = ',')]
    delimiter: char,
    /// Where it is kept what was imported [default: ~/.local/state/playmeter/imports].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Take files that have changed since they were imported as new ones: events in them without an id count again.
    #[arg(long)]
    changed: bool,
    /// Go as fast as the server can, whatever that does to live traffic.
    #[arg(long)]
    unpaced: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// See [`OtherColumns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WrittenOthers {
    /// They are properties.
    Props,
    /// They are left out.
    Ignore,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "it is NAME=VALUE".to_owned())
}

/// Imports; an error if something was not taken.
pub fn run(args: ImportArgs) -> anyhow::Result<()> {
    let mapping = args.mapping()?;
    let sender = Sender::open(&args.server)?;
    let game = sender.target().game.clone();
    if let Some(wanted) = args.game.as_ref().filter(|wanted| **wanted != game) {
        bail!("--game {wanted}: the key is of the game {game}; give one of {wanted} with --key");
    }
    let mut import =
        Import { args: &args, mapping, sender, pace: (!args.unpaced).then(ApplyThrottle::default) };
    let mut files = Vec::new();
    let done = args.files.iter().try_for_each(|path| import.one(path, &mut files));
    if args.json {
        println!("{}", summary(&game, &files));
    }
    done?;
    let sum = |of: fn(&Account) -> u64| files.iter().map(|(_, account)| of(account)).sum();
    let (refused, received) = (sum(Account::refused_count), sum(|account| account.received));
    ensure!(refused == 0, "{} of {} events were refused; the others are in", Count(refused), Count(received));
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
        if self.others == WrittenOthers::Ignore {
            mapping = mapping.others(OtherColumns::Ignore);
        }
        mapping.delimiter(self.delimiter).context("--delimiter")
    }

    /// What decides about how a file of this form is read: read otherwise it is another import, not so when the same is
    /// written otherwise.
    fn reading(&self, form: Form) -> String {
        let ImportArgs { others, delimiter, .. } = self;
        let [mut columns, mut fixed] = [self.columns.clone(), self.fixed.clone()];
        for pairs in [&mut columns, &mut fixed] {
            // Those of one name keep their order, which may say something.
            pairs.sort_by(|one, other| one.0.cmp(&other.0));
        }
        format!("{:?}", (form, columns, fixed, others, delimiter))
    }
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// Files on their way to one game.
struct Import<'a> {
    args: &'a ImportArgs,
    mapping: Mapping,
    sender: Sender,
    pace: Option<ApplyThrottle>,
}

/// The pacer and its clock.
struct ApplyThrottle {
    start: Instant,
    pacer: Pacer,
}

impl Default for ApplyThrottle {
    fn default() -> ApplyThrottle {
        ApplyThrottle { start: Instant::now(), pacer: Pacer::default() }
    }
}

impl Import<'_> {
    /// Imports one file and adds it to those that are done.
    fn one(&mut self, path: &Path, files: &mut Vec<(String, Account)>) -> anyhow::Result<()> {
        let name = match is_standard_input(path) {
            true => "standard input".to_owned(),
            false => path.display().to_string(),
        };
        let (before, account) = self.file(path, &name).with_context(|| name.clone())?;
        if !self.args.json {
            print(&name, before, &account);
        }
        files.push((name, account));
        Ok(())
    }

    /// Imports one file. The answer is how much of it had been taken before, and its account.
    fn file(&mut self, path: &Path, name: &str) -> anyhow::Result<(u64, Account)> {
        if is_standard_input(path) {
            return self.standard_input(name);
        }
        let path = path.canonicalize().context("finding it")?;
        let (sha256, seen) = sha256(&path)?;
        let text = path.to_string_lossy();
        let form = self.args.format.map_or_else(|| Form::of(&path), Ok)?;
        let subject = Subject { path: &text, sha256: &sha256, reading: &self.args.reading(form) };
        let folder = match &self.args.state {
            Some(folder) => folder.clone(),
            None => ledger::default_folder()?,
        };
        let folder = folder.join(&self.sender.target().target);
        if !self.args.changed {
            refuse_changed(&folder, &subject)?;
        }
        let (mut ledger, mut account) = Ledger::open(&folder, &subject)?;
        let before = account.received;
        if account.is_done {
            return Ok((before, account));
        }
        let mut source = Source::open(&path, form, &self.mapping, before)?;
        self.rest(name, &hex(&sha256), &mut source, &mut account, |account| ledger.keep(account))?;
        let now = path.metadata().context("looking at it")?;
        with_so_far(ensure_same(&seen, &now), &account)?;
        account.is_done = true;
        ledger.keep(&account)?;
        Ok((before, account))
    }

    /// Nobody knows whether what comes there came before: each time it is something new.
    fn standard_input(&mut self, name: &str) -> anyhow::Result<(u64, Account)> {
        let mut identity = [0; 32];
        getrandom::fill(&mut identity).context("asking the system for random bytes")?;
        let mut account = Account::new(STANDARD_INPUT, &identity);
        let mut source = Source::standard_input(self.args.format, &self.mapping)?;
        self.rest(name, &hex(&identity), &mut source, &mut account, |_| Ok(()))?;
        account.is_done = true;
        Ok((0, account))
    }

    /// Imports what is left of a source.
    fn rest(
        &mut self,
        name: &str,
        identity: &str,
        source: &mut Source,
        account: &mut Account,
        mut keep: impl FnMut(&Account) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (mut batch, mut progress) = (Batch::default(), Progress::new(name, account.received));
        loop {
            batch.clear();
            let rows_max = self.pace.as_ref().map_or(UNPACED_ROWS, |pace| pace.pacer.events());
            let filled = source.fill(rows_max, &mut batch);
            if batch.rows() > 0 {
                self.take(identity, &batch, account)?;
                keep(account)?;
                progress.tell(account.received, source.part());
            }
            if filled.is_err() || batch.rows() == 0 {
                progress.end();
                return with_so_far(filled, account);
            }
        }
    }

    /// Sends a batch when its time has come.
    fn take(&mut self, identity: &str, batch: &Batch, account: &mut Account) -> anyhow::Result<()> {
        if let Some(pace) = &mut self.pace {
            std::thread::sleep(pace.pacer.wait(pace.start.elapsed(), batch.rows()));
        }
        let receipt = with_so_far(self.sender.send(identity, account.sent, batch), account)?;
        if let Some(pace) = &mut self.pace {
            let commit = receipt.commit_ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok());
            pace.pacer.hear(pace.start.elapsed(), commit);
        }
        account.add(batch, &receipt);
        Ok(())
    }
}

/// A file that is not what it was would have its events counted again, if they have no ids.
fn refuse_changed(folder: &Path, subject: &Subject<'_>) -> anyhow::Result<()> {
    let Some(account) = ledger::changed(folder, subject)? else { return Ok(()) };
    bail!(
        "it has changed since {} of its events were imported. Put what is new into a file of its own, or say --changed \
         to import it all; events without an id count again then",
        Count(account.received)
    )
}

/// Has a failure say what is in already.
fn with_so_far<T>(done: anyhow::Result<T>, account: &Account) -> anyhow::Result<T> {
    match account.accepted + account.duplicate {
        0 => done,
        events => done.map_err(|failure| anyhow!("{failure:#}; {} events are in so far", Count(events))),
    }
}

/// What tells a file from all others, and how it looked when it was read.
fn sha256(path: &Path) -> anyhow::Result<([u8; 32], Metadata)> {
    let mut file = File::open(path).context("opening it")?;
    let seen = file.metadata().context("looking at it")?;
    ensure!(seen.is_file(), "it is no file; `-` reads what comes on standard input");
    let (mut hash, mut chunk) = (Sha256::new(), vec![0; CHUNK_BYTES]);
    loop {
        match file.read(&mut chunk).context("reading it")? {
            0 => return Ok((hash.finalize().into(), seen)),
            read => hash.update(&chunk[..read]),
        }
    }
}

fn ensure_same(seen: &Metadata, now: &Metadata) -> anyhow::Result<()> {
    let is_same = (seen.len(), seen.modified().ok()) == (now.len(), now.modified().ok());
    ensure!(is_same, "it has changed while it was imported");
    Ok(())
}

fn print(name: &str, before: u64, account: &Account) {
    let Account { received, accepted, duplicate, refused, examples, .. } = account;
    let was_there = match before {
        0 => String::new(),
        before if before == *received => ", all of them earlier".to_owned(),
        before => format!(", {} of them earlier", Count(before)),
    };
    println!("{name}: {} events{was_there}", Count(*received));
    println!(
        "  {} accepted, {} duplicate, {} refused",
        Count(*accepted),
        Count(*duplicate),
        Count(account.refused_count())
    );
    for (reason, count) in refused {
        println!("  {} {reason}", Count(*count));
    }
    for example in examples {
        println!("  line {}: {}", example.line, example.reason);
    }
}

fn summary(game: &str, files: &[(String, Account)]) -> Value {
    let file = |(name, account): &(String, Account)| {
        let Account { received, accepted, duplicate, refused, examples, .. } = account;
        json!({
            "file": name, "received": received, "accepted": accepted, "duplicate": duplicate,
            "refused": refused, "examples": examples,
        })
    };
    let sum = |of: fn(&Account) -> u64| files.iter().map(|(_, account)| of(account)).sum::<u64>();
    json!({
        "game": game,
        "received": sum(|account| account.received),
        "accepted": sum(|account| account.accepted),
        "duplicate": sum(|account| account.duplicate),
        "refused": sum(Account::refused_count),
        "files": files.iter().map(file).collect::<Vec<_>>(),
    })
}
