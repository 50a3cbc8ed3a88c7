//! Packets that are told as JSON lines.

use decode::flow::{PacketLine, lines};
use model::Reject;
use model::flows::FlowPacket;

use super::{Flows, Taken};
use crate::reject_tally::Refusals;
use crate::time::now_us;

/// Packets that are taken at a time.
const BATCH: usize = 1_000;

impl Flows {
    /// Takes lines of packets for a game. A line that breaks a rule is refused alone, and so is a packet that would open
    /// a flow too many.
    pub fn lines(&self, game: u32, bytes: &[u8], refusals: &mut Refusals) -> Taken {
        let (at_us, mut taken) = (now_us(), Taken::default());
        let mut read: Vec<PacketLine<'_>> = Vec::new();
        for line in lines(bytes) {
            match line {
                Ok(line) => read.push(line),
                Err(refused) => refusals.one(refused.reject, refused.text),
            }
            if read.len() == BATCH {
                taken = taken + self.told(game, at_us, &mut read);
            }
        }
        taken = taken + self.told(game, at_us, &mut read);
        refusals.many(Reject::FlowsFull, taken.refused as u32);
        taken
    }

    fn told(&self, game: u32, at_us: i64, read: &mut Vec<PacketLine<'_>>) -> Taken {
        let packets: Vec<FlowPacket<'_>> = read.iter().map(|line| line.packet(at_us)).collect();
        let taken = self.packets(game, &packets);
        drop(packets);
        read.clear();
        taken
    }
}
