//! The disk as the log sees it: a few blocking calls, so that a test can bring one that fails.

mod real;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use real::RealDisk;

/// Folders and names. Like a real disk it may forget, at a power cut, every change of names that
/// was not followed by `sync_folder`.
pub trait Disk: Send + Sync + 'static {
    /// Makes the folder and those above it; an existing one is fine.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;
    /// Makes a new, empty file; an existing one is an error.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name; a file that had it before is gone.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names of the files in a folder, in any order.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Makes creations, renames and removals in the folder durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// Bytes that may still be written to the folder's file system.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;
    /// A number that nobody outside can guess; it marks a new segment.
    fn random(&self) -> u64;
}

/// An open file. What was written may be lost at a power cut, in any part, until `sync` returned.
pub trait DiskFile: Send + Sync {
    /// Reads some bytes at a place; 0 is the end of the file.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes some of the bytes at a place and says how many.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;
    /// Reserves room up to `bytes`. `Unsupported` where the file system cannot; then only writing does.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// Makes everything written durable, as `fdatasync` does.
    fn sync(&self) -> io::Result<()>;
    /// Size of the file.
    fn bytes(&self) -> io::Result<u64>;
}

/// Writes all of it, whatever the pieces the system takes.
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

/// Reads until `into` is full or the file ends; says how much it got.
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

/// Large enough that the call does not matter, small enough to stay in the cache.
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
