//! Running flows survive a restart: a file that is replaced as a whole every few seconds and at the stop.
//!
//! ```text
//! magic "PLAYFLOW" | version u32 = 1 | CRC-32C u32 of what follows | written ms i64 | flows u32 | the flows
//! ```
//! All numbers are little-endian. The form of a flow is `model::flows`' own; `docs/data_files.md` describes it.
//!
//! A flow whose end has been told may still be in the file. At the next start it is told again, with the same event id,
//! and the log takes an id once. So each end is told exactly once, whenever the power goes; a flow that is younger than
//! the last file is not known after that, and its next packet opens it again.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use model::flows::{self, Flow};
use tracing::{error, info};

use super::Flows;
use crate::catalog::{read_private, replace};

const NAME: &str = "flows";
const MAGIC: &[u8; 8] = b"PLAYFLOW";
const VERSION: u32 = 1;
/// Magic, version and checksum.
const HEADER_BYTES: usize = 16;

impl Flows {
    /// Takes back what the folder has, if it has, be it more than a game may open now. What timed out meanwhile has ended. A damaged file is set aside: what
    /// it knew is seconds old, and new packets open the flows again.
    pub fn open(folder: &Path, per_game_max: u32) -> anyhow::Result<Flows> {
        let flows = Flows::new(per_game_max);
        let path = folder.join(NAME);
        let Some(bytes) = read_private(&path)? else { return Ok(flows) };
        let kept = match parse(&bytes) {
            Ok(kept) => kept.with_context(|| format!("reading {}", path.display()))?,
            Err(Damaged) => {
                error!(
                    "the file of running flows is damaged; it is set aside, and flows open again as they go on"
                );
                std::fs::rename(&path, folder.join(format!("{NAME}.damaged"))).context("setting it aside")?;
                return Ok(flows);
            }
        };
        let now = flows.now();
        let restored = kept.into_iter().map(|flow| u64::from(flows.restore(flow, now))).sum();
        info!(flows = restored, "running flows were taken back");
        flows.wake(restored);
        Ok(flows)
    }

    /// Writes what runs. Returns how many flows that were.
    pub fn keep(&self, folder: &Path) -> anyhow::Result<u32> {
        let (bytes, count) = self.encode();
        replace(folder, NAME, &bytes).context("keeping the running flows")?;
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

/// The bytes are not those that were written.
#[derive(Debug, PartialEq)]
struct Damaged;

/// The flows of a file; an error inside: it is whole, but of a version that is not known.
fn parse(bytes: &[u8]) -> Result<anyhow::Result<Vec<Flow>>, Damaged> {
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or(Damaged)?;
    let (version, rest) = rest.split_first_chunk().ok_or(Damaged)?;
    let (checksum, content) = rest.split_first_chunk().ok_or(Damaged)?;
    if magic != MAGIC || crc32c::crc32c(content) != u32::from_le_bytes(*checksum) {
        return Err(Damaged);
    }
    Ok(content_of(u32::from_le_bytes(*version), content))
}

fn content_of(version: u32, content: &[u8]) -> anyhow::Result<Vec<Flow>> {
    ensure!(version <= VERSION, "it has version {version}; this program knows up to {VERSION}");
    let counted = content.split_first_chunk::<8>().and_then(|(_, rest)| rest.split_first_chunk());
    let flows = counted.and_then(|(count, rest)| flows::read_flows(rest, u32::from_le_bytes(*count)));
    match flows {
        Some(flows) => Ok(flows),
        None => bail!("its checksum is right, but it holds no flows"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::flows::{FlowEnd, FlowPacket, PacketKind};

    fn packet<'a>(from: &'a str, to: &'a str, seq: u32) -> FlowPacket<'a> {
        let end = |id| FlowEnd { id, address: None };
        FlowPacket {
            from: end(from),
            to: end(to),
            kind: PacketKind::Numbered { seq, sent_us: None, at_us: 0 },
        }
    }

    fn flows_of(flows: &Flows) -> Vec<(String, u64)> {
        let mut told = Vec::new();
        flows.visit(1, |flow| told.push((flow.from().id.to_owned(), flow.stats()[0].received)));
        told.sort();
        told
    }

    #[test]
    fn running_flows_are_taken_back_and_go_on() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let flows = Flows::open(folder.path(), 100).expect("an empty folder");
        flows.packets(1, &[packet("ann", "bo", 1), packet("cy", "dee", 1), packet("bo", "ann", 7)]);
        assert_eq!(flows.keep(folder.path()).expect("written"), 2);
        let again = Flows::open(folder.path(), 100).expect("kept");
        assert_eq!(flows_of(&again), flows_of(&flows));
        let taken = again.packets(1, &[packet("ann", "bo", 2), packet("cy", "dee", 1)]);
        assert_eq!((taken.opened, taken.counted), (0, 2));
    }

    #[test]
    fn flows_above_a_limit_that_was_lowered_go_on_and_new_ones_wait_for_room() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let flows = Flows::new(3);
        flows.packets(1, &[packet("a", "b", 1), packet("c", "d", 1), packet("e", "f", 1)]);
        flows.keep(folder.path()).expect("written");
        let again = Flows::open(folder.path(), 1).expect("kept");
        assert_eq!(flows_of(&again), flows_of(&flows));
        let taken = again.packets(1, &[packet("c", "d", 2), packet("g", "h", 1)]);
        assert_eq!((taken.counted, taken.refused), (1, 1));
    }

    #[test]
    fn a_damaged_file_is_set_aside_and_a_newer_one_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let flows = Flows::default();
        flows.packets(1, &[packet("ann", "bo", 1)]);
        flows.keep(folder.path()).expect("written");
        let path = folder.path().join(NAME);
        let bytes = std::fs::read(&path).expect("it is there");
        let with = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            replace(folder.path(), NAME, &bytes).expect("written");
            Flows::open(folder.path(), 100)
        };
        let newer = with(8, 2).err().expect("refused");
        assert!(format!("{newer:#}").contains("it has version 2; this program knows up to 1"), "{newer:#}");
        for at in [0, 12, 20, bytes.len() - 1] {
            assert!(flows_of(&with(at, bytes[at] ^ 1).expect("it starts")).is_empty());
            assert!(!path.exists() && folder.path().join("flows.damaged").exists());
        }
    }

    /// Before the flows; what they look like is told where they are written.
    #[test]
    fn the_file_begins_as_it_always_did() {
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
