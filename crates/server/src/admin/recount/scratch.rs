//! The store of a recount, in a folder of its own that is removed afterwards.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use model::ports::counters::Counters;

use super::Admin;

const NAME: &str = "recount.unfinished";

/// Empty rollups. Fields are dropped in this order, so the folder is removed when nothing is open in it any more.
pub(super) struct Scratch {
    counters: Arc<dyn Counters>,
    _folder: ScratchFolder,
}

struct ScratchFolder(PathBuf);

impl Scratch {
    pub(super) fn create(admin: &Admin<'_>) -> anyhow::Result<Scratch> {
        let path = admin.folder.join(NAME);
        remove(&path)?;
        let folder = ScratchFolder(path);
        std::fs::create_dir(&folder.0).with_context(|| format!("creating {}", folder.0.display()))?;
        Ok(Scratch { counters: (admin.scratch)(&folder.0.join("views"))?, _folder: folder })
    }
}

impl Deref for Scratch {
    type Target = dyn Counters;

    fn deref(&self) -> &(dyn Counters + 'static) {
        &*self.counters
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            tracing::warn!("{error:#}");
        }
    }
}

/// Removes what a recount has left that was killed.
pub(crate) fn remove_leftover(data: &Path) -> anyhow::Result<()> {
    remove(&data.join(NAME))
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}
