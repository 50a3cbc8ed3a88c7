//! The file of running flows, from which they are restored after a restart. It is replaced as a whole every few seconds
//! and at shutdown.
//!
//! ```text
//! magic "PLAYFLOW" | version u32 = 1 | CRC-32C u32 of what follows | written ms i64 | flows u32 | the flows
//! ```
//! All numbers are little-endian. The format of a flow belongs to `model::flows`; `docs/data_files.md` describes it.
//!
//! An ended flow that has been reported may still be in the file. The next start reports it again with the same event
//! id, and the log removes the duplicate. So each end is reported exactly once, even after a power cut. A flow that is
//! newer than the file is lost in a power cut, and its next packet opens it again.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use model::flows::{self, Flow};
use tracing::{error, info};

use super::Flows;
use crate::catalog::{read_private, replace_private};

const NAME: &str = "flows";
const MAGIC: &[u8; 8] = b"PLAYFLOW";
const VERSION: u32 = 1;
/// Magic, version and checksum.
const HEADER_BYTES: usize = 16;

impl Flows {
    /// Restores the flows from the file in the folder, if there is one, even above the game's current limit. Flows that
    /// timed out meanwhile have ended. A damaged file is renamed: its content is outdated within seconds, and new
    /// packets open the flows again.
    pub fn open(folder: &Path, per_game_max: u32) -> anyhow::Result<Flows> {
        let flows = Flows::new(per_game_max);
        let path = folder.join(NAME);
        let Some(bytes) = read_private(&path)? else { return Ok(flows) };
        let saved = match parse(&bytes) {
            Ok(saved) => saved.with_context(|| format!("reading {}", path.display()))?,
            Err(Damaged) => {
                let renamed = folder.join(format!("{NAME}.damaged"));
                error!(renamed = %renamed.display(), "the file of running flows is damaged; starting without it");
                std::fs::rename(&path, renamed).context("renaming the damaged file of flows")?;
                return Ok(flows);
            }
        };
        let now = flows.now();
        let restored = saved.into_iter().map(|flow| u64::from(flows.restore(flow, now))).sum();
        info!(flows = restored, "running flows were restored");
        flows.wake_reporter(restored);
        Ok(flows)
    }

    /// Saves the running flows. Returns their number.
    pub fn save(&self, folder: &Path) -> anyhow::Result<u32> {
        let _saving = self.saving.lock();
        let (bytes, count) = self.encode();
        replace_private(folder, NAME, &bytes).context("saving the running flows")?;
        Ok(count)
    }

    fn encode(&self) -> (Vec<u8>, u32) {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.now().wall_ms.to_le_bytes());
        let place = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        let count = self.trackers.iter().map(|tracker| tracker.lock().write(&mut bytes)).sum::<u32>();
        bytes[place..place + 4].copy_from_slice(&count.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[HEADER_BYTES..]);
        bytes[12..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        (bytes, count)
    }
}

/// The bytes differ from those that were written.
#[derive(Debug, PartialEq)]
struct Damaged;

/// Parses a file. The inner error means that the file is intact, but of an unknown version.
fn parse(bytes: &[u8]) -> Result<anyhow::Result<Vec<Flow>>, Damaged> {
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or(Damaged)?;
    let (version, rest) = rest.split_first_chunk().ok_or(Damaged)?;
    let (checksum, content) = rest.split_first_chunk().ok_or(Damaged)?;
    if magic != MAGIC || crc32c::crc32c(content) != u32::from_le_bytes(*checksum) {
        return Err(Damaged);
    }
    Ok(parse_content(u32::from_le_bytes(*version), content))
}

fn parse_content(version: u32, content: &[u8]) -> anyhow::Result<Vec<Flow>> {
    ensure!(
        version <= VERSION,
        "the file has version {version}; this program reads versions up to {VERSION}"
    );
    let counted = content.split_first_chunk::<8>().and_then(|(_, rest)| rest.split_first_chunk());
    let flows = counted.and_then(|(count, rest)| flows::read_flows(rest, u32::from_le_bytes(*count)));
    match flows {
        Some(flows) => Ok(flows),
        None => bail!("the file has a valid checksum, but its content is not a list of flows"),
    }
}

#[cfg(test)]
mod tests {
    use model::flows::{FlowEnd, FlowPacket, PacketKind};

    use super::*;

    fn packet<'a>(from: &'a str, to: &'a str, seq: u32) -> FlowPacket<'a> {
        let end = |id| FlowEnd { id, address: None };
        FlowPacket {
            from: end(from),
            to: end(to),
            kind: PacketKind::Numbered { seq, sent_us: None, at_us: 0 },
        }
    }

    fn flows_of(flows: &Flows) -> Vec<(String, u64)> {
        let mut found = Vec::new();
        flows.visit(1, |flow| found.push((flow.from().id.to_owned(), flow.stats()[0].received)));
        found.sort();
        found
    }

    #[test]
    fn running_flows_are_restored_and_continue() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let flows = Flows::open(folder.path(), 100).expect("an empty folder");
        flows.apply_packets(1, &[packet("ann", "bo", 1), packet("cy", "dee", 1), packet("bo", "ann", 7)]);
        assert_eq!(flows.save(folder.path()).expect("written"), 2);
        let again = Flows::open(folder.path(), 100).expect("restored");
        assert_eq!(flows_of(&again), flows_of(&flows));
        let counts = again.apply_packets(1, &[packet("ann", "bo", 2), packet("cy", "dee", 1)]);
        assert_eq!((counts.opened, counts.counted), (0, 2));
    }

    #[test]
    fn flows_above_a_lowered_limit_continue_and_new_ones_are_rejected() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let flows = Flows::new(3);
        flows.apply_packets(1, &[packet("a", "b", 1), packet("c", "d", 1), packet("e", "f", 1)]);
        flows.save(folder.path()).expect("written");
        let again = Flows::open(folder.path(), 1).expect("restored");
        assert_eq!(flows_of(&again), flows_of(&flows));
        let counts = again.apply_packets(1, &[packet("c", "d", 2), packet("g", "h", 1)]);
        assert_eq!((counts.counted, counts.rejected), (1, 1));
    }

    #[test]
    fn a_damaged_file_is_renamed_and_a_newer_version_is_rejected() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let flows = Flows::default();
        flows.apply_packets(1, &[packet("ann", "bo", 1)]);
        flows.save(folder.path()).expect("written");
        let path = folder.path().join(NAME);
        let bytes = std::fs::read(&path).expect("it is there");
        let with = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            replace_private(folder.path(), NAME, &bytes).expect("written");
            Flows::open(folder.path(), 100)
        };
        let newer = with(8, 2).err().expect("rejected");
        assert!(
            format!("{newer:#}").contains("the file has version 2; this program reads versions up to 1"),
            "{newer:#}"
        );
        for at in [0, 12, 20, bytes.len() - 1] {
            assert!(flows_of(&with(at, bytes[at] ^ 1).expect("it starts")).is_empty());
            assert!(!path.exists() && folder.path().join("flows.damaged").exists());
        }
    }

    /// Covers the header; the encoding of flows is tested in `model::flows`.
    #[test]
    fn the_header_of_the_file_is_stable() {
        let (mut bytes, count) = Flows::default().encode();
        assert_eq!((count, bytes.len()), (0, 28));
        bytes[16..24].copy_from_slice(&1_800_000_000_000i64.to_le_bytes());
        assert!(parse(&bytes).is_err(), "the checksum covers the time");
        let checksum = crc32c::crc32c(&bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        expect_test::expect!["504c4159464c4f5701000000724f6d9700505c18a301000000000000"].assert_eq(&hex);
        assert!(parse(&bytes).expect("whole").expect("known").is_empty());
    }
}
