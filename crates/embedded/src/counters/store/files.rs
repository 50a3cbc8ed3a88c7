//! Checks the files of the key-value store before it is opened.
//!
//! When it is opened, the key-value store takes a keyspace whose file `current` is missing for one that was never
//! finished, and deletes its folder; and it does not compare the list of a keyspace's files with its checksum. So both
//! are checked before, against a list of the keyspaces that is written when they are created.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use fjall::Keyspace;
use model::ports::counters::StoreError;
use xxhash_rust::xxh3::xxh3_128;

/// The list of the keyspaces, one name of a folder per line.
const LIST: &str = "keyspaces.list";
const LIST_UNFINISHED: &str = "keyspaces.list.unfinished";
const KEYSPACES: &str = "keyspaces";
const CURRENT: &str = "current";
/// The size of a file `current`: number of the list of files, its checksum, and the kind of the checksum.
const CURRENT_BYTES: usize = 8 + 16 + 1;
const XXH3: u8 = 0;

/// Writes the list, if there is none.
pub(super) fn write_list(folder: &Path, keyspaces: &[&Keyspace]) -> io::Result<()> {
    if folder.join(LIST).exists() {
        return Ok(());
    }
    // The keyspace 0 belongs to the key-value store itself.
    let names = keyspaces.iter().filter_map(|keyspace| keyspace.path().file_name()?.to_str());
    let lines: String = ["0"].into_iter().chain(names).map(|name| format!("{name}\n")).collect();
    let unfinished = folder.join(LIST_UNFINISHED);
    let mut file = File::create(&unfinished)?;
    file.write_all(lines.as_bytes())?;
    file.sync_all()?;
    fs::rename(unfinished, folder.join(LIST))?;
    File::open(folder)?.sync_all()
}

/// Checks that nothing is missing; an empty folder is a new store. Changes nothing.
pub(super) fn check(folder: &Path) -> Result<(), StoreError> {
    let reading = |error| StoreError(format!("{} cannot be read: {error}", folder.display()));
    if fs::read_dir(folder).map_err(reading)?.next().is_none() {
        return Ok(());
    }
    if !folder.join("version").exists() {
        return Err(StoreError(format!("{} is missing", folder.join("version").display())));
    }
    for keyspace in listed(folder).map_err(reading)? {
        let path = folder.join(KEYSPACES).join(keyspace);
        check_keyspace(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => StoreError(format!("{} is missing or incomplete", path.display())),
            _ => StoreError(format!("{} is damaged: {error}", path.display())),
        })?;
    }
    Ok(())
}

/// Returns the folders of the keyspaces that must be there. A store of an earlier version has no list: then those that
/// have files.
fn listed(folder: &Path) -> io::Result<Vec<String>> {
    match fs::read_to_string(folder.join(LIST)) {
        Ok(text) => return Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let mut found = vec!["0".to_owned()];
    for entry in fs::read_dir(folder.join(KEYSPACES))? {
        let entry = entry?;
        let has_files =
            fs::read_dir(entry.path().join("tables")).is_ok_and(|mut files| files.next().is_some());
        if has_files {
            found.extend(entry.file_name().into_string());
        }
    }
    Ok(found)
}

/// Checks the list of a keyspace's files against its checksum.
fn check_keyspace(path: &Path) -> io::Result<()> {
    let current = fs::read(path.join(CURRENT))?;
    let Some((number, rest)) = current.split_first_chunk() else {
        return Err(io::Error::other("the file `current` is incomplete"));
    };
    let version = fs::read(path.join(format!("v{}", u64::from_le_bytes(*number))))?;
    let Some((checksum, [XXH3])) = rest.split_first_chunk().filter(|_| current.len() == CURRENT_BYTES) else {
        return Err(io::Error::other("the file `current` is not valid"));
    };
    if u128::from_le_bytes(*checksum) != xxh3_128(&version) {
        return Err(io::Error::other("the list of its files differs from its checksum"));
    }
    Ok(())
}
