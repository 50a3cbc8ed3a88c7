//! A tar archive (POSIX ustar) of files that are written one after the other.

use pipeline::game_export::ExportTarget;

use crate::api::export_stream::ChunkWriter;

const BLOCK_BYTES: usize = 512;

/// Writes the files of an export as a tar archive.
pub(super) struct TarWriter<'a> {
    pub(super) out: &'a mut ChunkWriter,
    /// The folder of all files.
    pub(super) folder: String,
    /// Seconds since 1970.
    pub(super) time_s: u64,
}

impl TarWriter<'_> {
    /// Writes the end of the archive: two empty blocks.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.out.put(&[0; 2 * BLOCK_BYTES])
    }
}

impl ExportTarget for TarWriter<'_> {
    fn add_file(&mut self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        self.out.put(&header(&format!("{}/{name}", self.folder), content.len() as u64, self.time_s))?;
        self.out.put(content)?;
        let rest = content.len() % BLOCK_BYTES;
        self.out.put(&[0; BLOCK_BYTES][..(BLOCK_BYTES - rest) % BLOCK_BYTES])
    }
}

/// Returns the header of a regular file. A name has at most 100 bytes: a game's id has 40, and the longest name of a file
/// 30.
fn header(name: &str, size: u64, time_s: u64) -> [u8; BLOCK_BYTES] {
    let mut header = [0; BLOCK_BYTES];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000600\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{size:011o}\0"));
    put(136, &format!("{time_s:011o}\0"));
    // The checksum counts its own field as spaces.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}
