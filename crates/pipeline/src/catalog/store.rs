//! The catalog's file: read whole, replaced whole.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, ensure};

use super::{Document, FORMAT};

const NAME: &str = "catalog.json";
/// What those may who are neither the owner nor of the group. (Volumes of containers are often given to a group.)
const OTHERS: u32 = 0o007;

pub(super) fn load(folder: &Path) -> anyhow::Result<Option<Document>> {
    let path = folder.join(NAME);
    let Some(text) = read_private(&path)? else { return Ok(None) };
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

/// Reads a private file, if it is there. One that everybody on the machine can read is not private any more.
pub fn read_private(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let reading = || format!("reading {}", path.display());
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(reading),
    };
    let mode = file.metadata().with_context(reading)?.permissions().mode();
    ensure!(
        mode & OTHERS == 0,
        "{0} can be read by everybody on this machine: `chmod 600 {0}`, and rotate its keys if it matters",
        path.display()
    );
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(reading)?;
    Ok(Some(bytes))
}

/// Replaces a small private file: afterwards it is the old one or the new one, whatever happens.
pub fn replace(folder: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
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
