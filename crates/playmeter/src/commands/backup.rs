//! `playmeter backup`, `backups` and `restore`.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use backup::{BackupRetention, Repository, Secret, TargetSettings};
use clap::Args;
use pipeline::time::rfc3339;
use serde_json::{Value, json};
use server::admin::{BackupRequest, Command};

use crate::admin;
use crate::cli::FolderArgs;
use crate::count::Count;

/// What encrypts the backups of a target.
#[derive(Args, Clone, Default)]
pub(crate) struct SecretArgs {
    /// File with the passphrase of encrypted backups
    #[arg(long, value_name = "FILE", conflicts_with = "key_file")]
    passphrase_file: Option<PathBuf>,
    /// File with the key of encrypted backups: 64 hexadecimal digits
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl SecretArgs {
    fn read(&self) -> anyhow::Result<Option<Secret>> {
        read_secret(self.passphrase_file.as_deref(), self.key_file.as_deref())
    }
}

/// Reads the passphrase or the key of encrypted backups, if a file is named.
pub(crate) fn read_secret(
    passphrase_file: Option<&Path>,
    key_file: Option<&Path>,
) -> anyhow::Result<Option<Secret>> {
    let read =
        |file: &Path| std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()));
    let secret = match (passphrase_file, key_file) {
        (None, None) => return Ok(None),
        (Some(file), _) => Secret::passphrase(&read(file)?).with_context(|| file.display().to_string()),
        (None, Some(file)) => Secret::key(&read(file)?).with_context(|| file.display().to_string()),
    };
    secret.map(Some)
}

/// Reads a target; credentials of buckets come from the environment.
pub(crate) fn parse_target(text: &str) -> anyhow::Result<TargetSettings> {
    TargetSettings::parse(text, |name| std::env::var(name).ok())
}

#[derive(Args)]
pub(crate) struct BackupArgs {
    /// Folder, or s3://BUCKET/PREFIX with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment
    #[arg(long, value_name = "TARGET")]
    to: String,
    /// Number of backups to keep, including the new one [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Days after which a backup is removed; the newest one is always kept [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep_days: Option<u32>,
    /// File with the settings of the server, to be stored with the data; a running server adds its own
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    secret: SecretArgs,
    #[command(flatten)]
    folder: FolderArgs,
}

/// Takes a backup.
pub(crate) fn run(args: BackupArgs) -> anyhow::Result<()> {
    let config = args.config.map(|file| std::path::absolute(&file).context("--config")).transpose()?;
    if let Some(file) = &config {
        ensure!(file.exists(), "--config {}: no such file", file.display());
    }
    let request = BackupRequest {
        to: parse_target(&args.to).context("--to")?,
        secret: args.secret.read()?,
        retention: BackupRetention { count_max: args.keep, days_max: args.keep_days },
        settings_file: config,
    };
    check_not_inside(&request.to, &args.folder.data)?;
    admin::run_and_print(&args.folder, Command::Backup(request), |created| {
        let text = |field: &str| created[field].as_str().unwrap_or_default().to_owned();
        let count = |field: &str| Count(created[field].as_u64().unwrap_or_default());
        println!(
            "backup    {} of {} files, {} bytes, up to position 0/{}",
            text("name"),
            count("files"),
            count("bytes"),
            created["position"]
        );
        println!("written   {} new objects, {} bytes", count("new_objects"), count("new_bytes"));
    })
}

/// A target in the data folder would be a part of its own backup.
pub(crate) fn check_not_inside(to: &TargetSettings, data: &Path) -> anyhow::Result<()> {
    let TargetSettings::Folder(to) = to else { return Ok(()) };
    let data = std::path::absolute(data).context("--data")?;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_inside = to.starts_with(&data) || real(to).starts_with(real(&data));
    ensure!(!is_inside, "the target {} is in the data folder; choose a folder on another disk", to.display());
    Ok(())
}

#[derive(Args)]
pub(crate) struct BackupsArgs {
    /// Folder or s3://BUCKET/PREFIX with the backups
    #[arg(long, value_name = "TARGET")]
    from: String,
    /// Read every object of every backup and report what is damaged
    #[arg(long, conflicts_with = "remove")]
    check: bool,
    /// Remove the backup with this name
    #[arg(long, value_name = "NAME")]
    remove: Option<String>,
    #[command(flatten)]
    secret: SecretArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists, checks or removes the backups of a target.
pub(crate) fn run_list(args: BackupsArgs) -> anyhow::Result<()> {
    let target = parse_target(&args.from).context("--from")?.open()?;
    let secret = args.secret.read()?;
    if let Some(name) = &args.remove {
        let repository = Repository::open_existing_to_write(target, secret.as_ref())?;
        let names = repository.backups()?;
        let found = names.into_iter().find(|known| known.to_string() == *name);
        let Some(found) = found else { bail!("--remove: there is no backup {name}") };
        backup::remove(&repository, &found)?;
        print_one(args.json, &json!({ "removed": found }), |_| println!("removed   {found}"));
        return Ok(());
    }
    let repository = Repository::open(target, secret.as_ref())?;
    let mut damaged = 0;
    for name in repository.backups()? {
        if args.check {
            let checked = backup::check(&repository, &name)?;
            damaged += checked.damaged.len();
            print_one(args.json, &json!(checked), |_| {
                let state = if checked.damaged.is_empty() { "complete" } else { "DAMAGED" };
                println!("{name}  {} objects, {state}", Count(checked.objects as u64));
                checked.damaged.iter().for_each(|damage| println!("          {damage}"));
            });
            continue;
        }
        let manifest = repository.manifest(&name)?;
        let listed = json!({
            "name": name, "created": rfc3339(manifest.created_ms), "position": manifest.position,
            "files": manifest.files(), "bytes": manifest.bytes(), "program": manifest.program,
        });
        print_one(args.json, &listed, |_| {
            let (created, bytes) = (rfc3339(manifest.created_ms), Count(manifest.bytes()));
            println!("{name}  {created}  {bytes} bytes, up to position 0/{}", manifest.position);
        });
    }
    ensure!(damaged == 0, "{damaged} objects or manifests are damaged");
    Ok(())
}

fn print_one(as_json: bool, value: &Value, print: impl FnOnce(&Value)) {
    if as_json { println!("{value}") } else { print(value) }
}

#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// Folder or s3://BUCKET/PREFIX with the backups
    #[arg(long, value_name = "TARGET")]
    from: String,
    /// Name of the backup, or a time (RFC 3339): the newest backup that is not later [default: the newest]
    #[arg(long, value_name = "NAME|TIME")]
    at: Option<String>,
    #[command(flatten)]
    secret: SecretArgs,
    #[command(flatten)]
    folder: FolderArgs,
}

/// Restores a backup to a new folder and verifies it.
pub(crate) fn run_restore(args: RestoreArgs) -> anyhow::Result<()> {
    let target = parse_target(&args.from).context("--from")?;
    let repository = Repository::open(target.open()?, args.secret.read()?.as_ref())?;
    let name = repository.find(args.at.as_deref())?;
    let restored = backup::restore(&repository, &name, &args.folder.data)?;
    drop(repository);
    let verified = admin::run(&args.folder.data, Command::Verify { hours: None });
    let verified = verified.context("the files are restored, but cannot be verified")?;
    if args.folder.json {
        println!("{}", json!({ "restored": restored, "verified": verified }));
    } else {
        println!(
            "restored  {name} of {}: {} files, {} bytes, up to position 0/{}",
            rfc3339(restored.created_ms),
            Count(restored.files as u64),
            Count(restored.bytes),
            restored.position
        );
        super::verify::print(&verified);
    }
    super::verify::check(&verified).context("the restored data does not agree with itself")
}
