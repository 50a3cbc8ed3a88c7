//! A small file system in memory, for tests that fill it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted file system; unmounted when dropped.
pub struct Tmpfs(PathBuf);

impl Tmpfs {
    /// Mounts a file system of this size in a folder. Returns `None`, and reports that the test is skipped, if this
    /// process may not mount.
    pub fn mount(at: &Path, mib: u32) -> Option<Tmpfs> {
        let size = format!("size={mib}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "playmeter-test"]).arg(at).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Tmpfs(at.to_owned())),
            rejected => {
                crate::skip::skip("tmpfs", &format!("cannot be mounted: {rejected:?}"));
                None
            }
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Fills the file system of a folder to the last byte. Returns the file, to be removed.
///
/// # Panics
///
/// If no file can be created there.
pub fn fill(folder: &Path) -> PathBuf {
    let ballast = folder.join("ballast");
    let mut file = std::fs::File::create(&ballast).expect("a file");
    while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
    ballast
}
