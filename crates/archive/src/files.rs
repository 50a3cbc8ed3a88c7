//! Small files that are replaced as a whole, and their checks.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wal::Disk;
use xxhash_rust::xxh3::xxh3_64;

/// The end of the name of a file that is being written.
pub(crate) const UNFINISHED: &str = ".unfinished";

/// Why a file was not replaced.
#[derive(Debug)]
pub(crate) enum ReplaceError {
    /// The old file is still there.
    Unchanged(io::Error),
    /// The old or the new file is there, and after a power cut it may be the other one.
    Unknown(io::Error),
}

/// Replaces a file durably by a value as JSON with a checksum on a second line.
pub(crate) fn replace(disk: &dyn Disk, path: &Path, value: &impl Serialize) -> Result<(), ReplaceError> {
    let mut text =
        serde_json::to_string(value).map_err(|error| ReplaceError::Unchanged(io::Error::other(error)))?;
    let checksum = xxh3_64(text.as_bytes());
    text.push_str(&format!("\n{checksum:016x}\n"));
    let unfinished = unfinished(path);
    let written = (|| {
        remove_if_there(disk, &unfinished)?;
        let file = disk.create(&unfinished)?;
        let (mut rest, mut at) = (text.as_bytes(), 0);
        while !rest.is_empty() {
            match file.write_at(rest, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => (rest, at) = (&rest[written..], at + written as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        file.sync()
    })();
    written.map_err(ReplaceError::Unchanged)?;
    disk.rename(&unfinished, path).map_err(ReplaceError::Unknown)?;
    disk.sync_folder(path.parent().unwrap_or(Path::new("."))).map_err(ReplaceError::Unknown)
}

/// Reads a file that [`replace`] wrote; `None` if there is none.
pub(crate) fn read<T: DeserializeOwned>(disk: &dyn Disk, path: &Path) -> Result<Option<T>, String> {
    let bytes = (|| {
        let file = disk.open(path)?;
        let mut bytes = vec![0; file.bytes()? as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], filled as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    })();
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| "is not text".to_owned())?;
    let (json, checksum) = text.trim_end().rsplit_once('\n').ok_or("is cut off")?;
    if checksum != format!("{:016x}", xxh3_64(json.as_bytes())) {
        return Err("differs from what was written".to_owned());
    }
    serde_json::from_str(json).map(Some).map_err(|error| error.to_string())
}

/// Returns the name under which a file is written.
pub(crate) fn unfinished(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}

pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
