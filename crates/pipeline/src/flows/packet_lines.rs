//! Packets of flows as JSON lines.

use decode::flow::{PacketLine, lines};
use model::Reject;
use model::flows::FlowPacket;

use super::{Flows, PacketCounts};
use crate::reject_tally::RejectTally;
use crate::time::now_us;

/// Packets that are applied at a time.
const BATCH: usize = 1_000;

impl Flows {
    /// Applies lines of packets of a game. An invalid line, or a packet that would open a flow above the game's limit,
    /// is rejected alone and added to `rejects`.
    pub fn apply_lines(&self, game: u32, bytes: &[u8], rejects: &mut RejectTally) -> PacketCounts {
        let (at_us, mut counts) = (now_us(), PacketCounts::default());
        let mut batch: Vec<PacketLine<'_>> = Vec::new();
        for line in lines(bytes) {
            match line {
                Ok(line) => batch.push(line),
                Err(rejected) => rejects.add(rejected.reject, rejected.text),
            }
            if batch.len() == BATCH {
                counts = counts + self.apply_batch(game, at_us, &mut batch);
            }
        }
        counts = counts + self.apply_batch(game, at_us, &mut batch);
        rejects.add_count(Reject::FlowsFull, counts.rejected as u32);
        counts
    }

    fn apply_batch(&self, game: u32, at_us: i64, batch: &mut Vec<PacketLine<'_>>) -> PacketCounts {
        let packets: Vec<FlowPacket<'_>> = batch.iter().map(|line| line.packet(at_us)).collect();
        let counts = self.apply_packets(game, &packets);
        drop(packets);
        batch.clear();
        counts
    }
}
