//! Sequence numbers of one direction: packets received, lost, duplicated and reordered.
//!
//! Follows RFC 3550, A.1 and A.3, with two differences. Duplicates are distinguished from late packets by keeping
//! which of the last [`WINDOW`] numbers arrived. A direction that restarts its numbering keeps its earlier counts.

/// A packet this far behind the highest number can still be placed. RFC 3550 uses 100 (`MAX_MISORDER`).
pub(crate) const WINDOW: u64 = 128;
/// A number further ahead belongs to another numbering (`MAX_DROPOUT` of RFC 3550).
pub(crate) const DROPOUT_MAX: u64 = 3_000;
/// The origin of extended numbers, so that there is room for numbers before the first packet.
const ORIGIN: u64 = 1 << 32;

/// The place of a packet among those received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// It has the highest number so far.
    Ahead,
    /// It arrived after a packet with a higher number.
    Reordered,
    /// It arrived before.
    Duplicated,
    /// Its number fits nowhere: too old to decide, or far from the others.
    Stray,
    /// It directly follows a stray: the numbering restarts here.
    Restarted,
}

/// The sequence numbers of one direction, from its first packet on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sequence {
    base: u64,
    highest: u64,
    /// Bit `i`: the number `highest - i` arrived.
    seen: u128,
    /// Packets received in the current numbering.
    received_here: u64,
    /// The number that would follow the last stray; `None` after any other packet.
    probe: Option<u32>,
    /// Counts of earlier numberings.
    previous: PreviousCounts,
    duplicated: u32,
    reordered: u32,
    strays: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PreviousCounts {
    received: u64,
    lost: u64,
}

impl Sequence {
    /// Starts with the first packet of a direction.
    pub(crate) fn first(number: u32) -> Sequence {
        let first = ORIGIN + u64::from(number);
        Sequence {
            base: first,
            highest: first,
            seen: 1,
            received_here: 1,
            probe: None,
            previous: PreviousCounts::default(),
            duplicated: 0,
            reordered: 0,
            strays: 0,
        }
    }

    /// Applies the sequence number of the next packet.
    pub(crate) fn observe(&mut self, number: u32) -> Placement {
        let extended = self.extend(number);
        if extended > self.highest && extended - self.highest <= DROPOUT_MAX {
            self.advance(extended)
        } else if extended <= self.highest && self.highest - extended < WINDOW {
            self.fill(extended)
        } else if self.probe == Some(number) {
            self.restart(number)
        } else {
            self.probe = Some(successor(number));
            self.strays = self.strays.saturating_add(1);
            Placement::Stray
        }
    }

    fn advance(&mut self, extended: u64) -> Placement {
        self.seen = self.seen.checked_shl((extended - self.highest) as u32).unwrap_or(0) | 1;
        self.highest = extended;
        self.received_here += 1;
        Placement::Ahead
    }

    fn fill(&mut self, extended: u64) -> Placement {
        let bit = 1 << (self.highest - extended);
        if self.seen & bit != 0 {
            self.duplicated = self.duplicated.saturating_add(1);
            return Placement::Duplicated;
        }
        self.seen |= bit;
        self.base = self.base.min(extended);
        self.received_here += 1;
        self.reordered = self.reordered.saturating_add(1);
        Placement::Reordered
    }

    fn restart(&mut self, number: u32) -> Placement {
        let previous = PreviousCounts { received: self.received(), lost: self.lost() };
        let Sequence { duplicated, reordered, strays, .. } = *self;
        *self = Sequence { previous, duplicated, reordered, strays, ..Sequence::first(number) };
        Placement::Restarted
    }

    /// Extends a number to the candidate nearest to the highest so far. Numbers up to 65,535 are 16-bit numbers, as
    /// in RTP; larger ones are 32-bit numbers.
    fn extend(&self, number: u32) -> u64 {
        let distance = match u16::try_from(number) {
            Ok(short) => i64::from(short.wrapping_sub(self.highest as u16) as i16),
            Err(_) => i64::from(number.wrapping_sub(self.highest as u32) as i32),
        };
        self.highest.saturating_add_signed(distance)
    }

    /// Returns true if the number is near those of the direction: a late packet rather than a new flow.
    pub(crate) fn is_near(&self, number: u32) -> bool {
        self.extend(number).abs_diff(self.highest) <= DROPOUT_MAX
    }

    /// Returns the highest number, extended over wrap-around: 65,536 follows 65,535.
    pub(crate) fn highest(&self) -> u64 {
        self.highest - ORIGIN
    }

    /// Returns the packets received, without duplicates and strays.
    pub(crate) fn received(&self) -> u64 {
        self.previous.received + self.received_here
    }

    /// Returns the packets lost.
    pub(crate) fn lost(&self) -> u64 {
        self.previous.lost + (self.highest - self.base + 1 - self.received_here)
    }

    /// Returns the packets that arrived again.
    pub(crate) fn duplicated(&self) -> u32 {
        self.duplicated
    }

    /// Returns the packets that arrived after one with a higher number.
    pub(crate) fn reordered(&self) -> u32 {
        self.reordered
    }

    /// Returns the packets whose number fits nowhere.
    pub(crate) fn strays(&self) -> u32 {
        self.strays
    }
}

/// Returns the next sequence number.
fn successor(number: u32) -> u32 {
    if number == u32::from(u16::MAX) { 0 } else { number.wrapping_add(1) }
}

/// The stored form: 81 bytes.
impl Sequence {
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        for number in
            [self.base, self.highest, self.received_here, self.previous.received, self.previous.lost]
        {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.seen.to_le_bytes());
        for number in [self.duplicated, self.reordered, self.strays, self.probe.unwrap_or(0)] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.push(self.probe.is_some() as u8);
    }

    pub(super) fn read(reader: &mut super::bytes::FlowReader<'_>) -> Option<Sequence> {
        let (base, highest, received_here) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let previous = PreviousCounts { received: reader.u64()?, lost: reader.u64()? };
        let seen = u128::from_le_bytes(reader.array()?);
        let (duplicated, reordered, strays) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (probe, has_probe) = (reader.u32()?, reader.u8()?);
        let is_valid = base <= highest
            && highest - base < 1 << 48
            && (ORIGIN >> 1..1 << 60).contains(&base)
            && highest >= ORIGIN
            && (1..=highest - base + 1).contains(&received_here)
            && seen & 1 == 1
            && previous.received.max(previous.lost) < 1 << 60;
        let probe = (has_probe != 0).then_some(probe);
        let sequence =
            Sequence { base, highest, seen, received_here, probe, previous, duplicated, reordered, strays };
        is_valid.then_some(sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Placement::*;

    /// Applies packets with these numbers and checks their placement, then highest, received and lost.
    fn check(numbers: &[u32], expected_placements: &[Placement], expected: [u64; 3]) {
        let mut sequence = Sequence::first(numbers[0]);
        let placements: Vec<Placement> =
            numbers[1..].iter().map(|number| sequence.observe(*number)).collect();
        assert_eq!(placements, expected_placements, "{numbers:?}");
        assert_eq!([sequence.highest(), sequence.received(), sequence.lost()], expected, "{numbers:?}");
    }

    #[test]
    fn gap_counts_as_loss_until_filled() {
        check(&[7, 8, 10], &[Ahead, Ahead], [10, 3, 1]);
        check(&[7, 8, 10, 9], &[Ahead, Ahead, Reordered], [10, 4, 0]);
        check(&[7, 8, 10, 9, 9], &[Ahead, Ahead, Reordered, Duplicated], [10, 4, 0]);
    }

    #[test]
    fn packet_before_the_first_is_reordered_not_lost() {
        check(&[2, 1], &[Reordered], [2, 2, 0]);
        check(&[5, 3], &[Reordered], [5, 2, 1]);
        check(&[0, 65_535], &[Reordered], [0, 2, 0]);
    }

    #[test]
    fn repeated_first_packet_is_a_duplicate() {
        check(&[9, 9, 9], &[Duplicated, Duplicated], [9, 1, 0]);
    }

    #[test]
    fn sequence_numbers_wrap_around() {
        check(&[65_534, 65_535, 0, 1], &[Ahead; 3], [65_537, 4, 0]);
        check(&[65_534, 0, 65_535], &[Ahead, Reordered], [65_536, 3, 0]);
        check(&[u32::MAX, 0, 1], &[Ahead; 2], [1 << 32 | 1, 3, 0]);
        check(&[65_534, 65_535, 65_536, 65_537], &[Ahead; 3], [65_537, 4, 0]);
    }

    #[test]
    fn sequence_number_outside_the_window_is_a_stray() {
        check(&[1_000, 1_001, 1_001 - 127], &[Ahead, Reordered], [1_001, 3, 125]);
        check(&[1_000, 1_001, 1_001 - 128], &[Ahead, Stray], [1_001, 2, 0]);
        check(&[1_000, 4_000], &[Ahead], [4_000, 2, 2_999]);
        check(&[1_000, 4_001], &[Stray], [1_000, 1, 0]);
    }

    #[test]
    fn two_consecutive_strays_restart_the_numbering() {
        check(&[1_000, 1_002, 30_000, 30_001, 30_003], &[Ahead, Stray, Restarted, Ahead], [30_003, 4, 2]);
        check(&[1_000, 30_000, 1_001, 50_000], &[Stray, Ahead, Stray], [1_001, 2, 0]);
    }
}
