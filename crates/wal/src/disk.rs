//! The disk as a trait of a few blocking calls, so that tests can replace it with one that fails.

mod real;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use real::RealDisk;

/// Folders and file names. As on a real disk, a power cut may undo every change of names that was not followed
/// by `sync_folder`.
pub trait Disk: Send + Sync + 'static {
    /// Creates the folder and its parents; an existing folder is not an error.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;
    /// Creates a new, empty file; an existing file is an error.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file, replacing a file that already has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Lists the names of the files in a folder, in any order.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Makes creations, renames and removals in the folder durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// Returns the bytes that can still be written to the folder's file system.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;
    /// Returns a number that outsiders cannot guess; it becomes the salt of a new segment.
    fn random(&self) -> u64;
}

/// An open file. Any part of what was written may be lost in a power cut until `sync` has returned.
pub trait DiskFile: Send + Sync {
    /// Reads some bytes at a position and returns their number; 0 means the end of the file.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes some of the bytes at a position and returns their number.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;
    /// Reserves space up to `bytes`. `Unsupported` if the file system cannot; then only writing reserves it.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Makes everything written durable, like `fdatasync`.
    fn sync(&self) -> io::Result<()>;
    /// Returns the size of the file.
    fn bytes(&self) -> io::Result<u64>;
}

/// Writes all bytes, in as many calls as the system needs.
pub(crate) fn write_all(file: &dyn DiskFile, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until `into` is full or the file ends; returns the number of bytes read.
pub(crate) fn read_full(file: &dyn DiskFile, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match file.read_at(&mut into[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Large enough that the cost of a call does not matter, small enough to stay in the cache.
static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// Writes zeros from `from` up to `to`.
pub(crate) fn write_zeros(file: &dyn DiskFile, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let part = (to - at).min(ZEROS.len() as u64);
        write_all(file, &ZEROS[..part as usize], at)?;
        at += part;
    }
    Ok(())
}
