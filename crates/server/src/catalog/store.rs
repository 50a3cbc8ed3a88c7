//! The catalog's file: read whole, replaced whole.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, ensure};

use super::{Document, FORMAT};

const NAME: &str = "catalog.json";

pub(super) fn load(folder: &Path) -> anyhow::Result<Option<Document>> {
    let path = folder.join(NAME);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    let document: Document =
        serde_json::from_slice(&text).with_context(|| format!("{} is not a catalog", path.display()))?;
    let format = document.format;
    ensure!(format <= FORMAT, "{} has format {format}; this program knows up to {FORMAT}", path.display());
    Ok(Some(document))
}

pub(super) fn save(folder: &Path, document: &Document) -> anyhow::Result<()> {
    let text = serde_json::to_vec_pretty(document).context("encoding the catalog")?;
    replace(folder, NAME, &text)
}

/// Replaces a small private file: afterwards it is the old one or the new one, whatever happens.
pub(crate) fn replace(folder: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let (path, temporary) = (folder.join(name), folder.join(format!("{name}.new")));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .with_context(|| format!("creating {}", temporary.display()))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).context("writing it to disk")?;
    fs::rename(&temporary, &path).with_context(|| format!("replacing {}", path.display()))?;
    File::open(folder).and_then(|folder| folder.sync_all()).context("syncing the folder")
}
