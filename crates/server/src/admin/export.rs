//! The export of a game into a folder.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use pipeline::game_export::{ExportTarget, GameExport};
use pipeline::time::now_ms;
use serde_json::Value;

use super::Admin;

/// Exports a game to a folder that is empty or does not exist. Returns the summary.
pub(super) fn run(admin: &Admin<'_>, game: &str, to: &Path) -> anyhow::Result<Value> {
    let game = admin.catalog.game(game).with_context(|| format!("game: there is no game `{game}`"))?;
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    let is_empty = fs::read_dir(to).with_context(|| format!("reading {}", to.display()))?.next().is_none();
    ensure!(is_empty, "to: {} is not empty; name a new folder", to.display());
    let until = admin.log.durable_until();
    admin.views.wait_caught_up(until)?;
    let is_stopping = admin.backups.is_stopping;
    let (views, log, requested_ms) = (&**admin.views, admin.log, now_ms());
    let export = GameExport { game: &game, views, log, until, requested_ms, is_stopping };
    let summary = export.write(&mut FolderTarget { folder: to })?;
    sync(to)?;
    Ok(summary)
}

/// Writes files that are durable, with their names, when the export is complete.
struct FolderTarget<'a> {
    folder: &'a Path,
}

impl ExportTarget for FolderTarget<'_> {
    fn add_file(&mut self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        let parent = path.parent().unwrap_or(self.folder);
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        let written = File::create_new(&path).and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        });
        written.with_context(|| format!("writing {}", path.display()))?;
        sync(parent)
    }
}

fn sync(folder: &Path) -> anyhow::Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.with_context(|| format!("syncing {}", folder.display()))
}
