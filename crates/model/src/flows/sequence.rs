//! The numbers of one direction's packets: what was received, lost, repeated and out of order.
//!
//! After RFC 3550, A.1 and A.3, with two differences: a repeated packet is told from a late one, by remembering which of
//! the last [`WINDOW`] numbers came; and a direction that starts its numbers again keeps what was counted before.

/// How far behind the highest number a packet may come and still be placed. RFC 3550 has 100 (`MAX_MISORDER`).
pub const WINDOW: u64 = 128;
/// How far ahead a number may be without being taken for another numbering (`MAX_DROPOUT` of RFC 3550).
pub const DROPOUT_MAX: u64 = 3_000;
/// Extended numbers begin here, so that those before the first packet have room.
const ORIGIN: u64 = 1 << 32;

/// What a packet's number said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The highest so far.
    Ahead,
    /// It came after a higher one.
    Reordered,
    /// It had come before.
    Duplicated,
    /// It fits nowhere: too old to tell, or far from the others.
    Stray,
    /// It follows a stray: the numbers have started again here.
    Restarted,
}

/// The numbers of one direction, from its first packet on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sequence {
    base: u64,
    highest: u64,
    /// Bit `i`: the number `highest - i` came.
    seen: u128,
    /// Of this numbering.
    received_here: u64,
    /// The number after the last stray, as it would be sent; `None` after none.
    probe: Option<u32>,
    /// Of earlier numberings.
    before: Before,
    duplicated: u32,
    reordered: u32,
    strays: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Before {
    received: u64,
    lost: u64,
}

impl Sequence {
    /// The first packet of a direction.
    pub fn first(number: u32) -> Sequence {
        let first = ORIGIN + u64::from(number);
        Sequence {
            base: first,
            highest: first,
            seen: 1,
            received_here: 1,
            probe: None,
            before: Before::default(),
            duplicated: 0,
            reordered: 0,
            strays: 0,
        }
    }

    /// Takes the number of one more packet.
    pub fn observe(&mut self, number: u32) -> Place {
        let extended = self.extended(number);
        if extended > self.highest && extended - self.highest <= DROPOUT_MAX {
            self.ahead(extended)
        } else if extended <= self.highest && self.highest - extended < WINDOW {
            self.behind(extended)
        } else if self.probe == Some(number) {
            self.restart(number)
        } else {
            self.probe = Some(successor(number));
            self.strays = self.strays.saturating_add(1);
            Place::Stray
        }
    }

    fn ahead(&mut self, extended: u64) -> Place {
        self.seen = self.seen.checked_shl((extended - self.highest) as u32).unwrap_or(0) | 1;
        self.highest = extended;
        self.received_here += 1;
        Place::Ahead
    }

    fn behind(&mut self, extended: u64) -> Place {
        let bit = 1 << (self.highest - extended);
        if self.seen & bit != 0 {
            self.duplicated = self.duplicated.saturating_add(1);
            return Place::Duplicated;
        }
        self.seen |= bit;
        self.base = self.base.min(extended);
        self.received_here += 1;
        self.reordered = self.reordered.saturating_add(1);
        Place::Reordered
    }

    fn restart(&mut self, number: u32) -> Place {
        let before = Before { received: self.received(), lost: self.lost() };
        let Sequence { duplicated, reordered, strays, .. } = *self;
        *self = Sequence { before, duplicated, reordered, strays, ..Sequence::first(number) };
        Place::Restarted
    }

    /// The number nearest to the highest that is sent like this: up to 65,535 it is one of 16 bits, as in RTP, and else
    /// one of 32 bits.
    fn extended(&self, number: u32) -> u64 {
        let ahead = match u16::try_from(number) {
            Ok(short) => i64::from(short.wrapping_sub(self.highest as u16) as i16),
            Err(_) => i64::from(number.wrapping_sub(self.highest as u32) as i32),
        };
        self.highest.saturating_add_signed(ahead)
    }

    /// Whether the number is near those of the direction: what comes late after an end, and no new beginning.
    pub fn is_near(&self, number: u32) -> bool {
        self.extended(number).abs_diff(self.highest) <= DROPOUT_MAX
    }

    /// The highest number, extended over wrap-around: 65,536 follows 65,535.
    pub fn highest(&self) -> u64 {
        self.highest - ORIGIN
    }

    /// Packets that came, repeated ones and strays not counted.
    pub fn received(&self) -> u64 {
        self.before.received + self.received_here
    }

    /// Packets that did not come.
    pub fn lost(&self) -> u64 {
        self.before.lost + (self.highest - self.base + 1 - self.received_here)
    }

    /// Packets that came again.
    pub fn duplicated(&self) -> u32 {
        self.duplicated
    }

    /// Packets that came after a higher one.
    pub fn reordered(&self) -> u32 {
        self.reordered
    }

    /// Packets whose numbers fit nowhere.
    pub fn strays(&self) -> u32 {
        self.strays
    }
}

/// The number that is sent after this one.
fn successor(number: u32) -> u32 {
    if number == u32::from(u16::MAX) { 0 } else { number.wrapping_add(1) }
}

/// The stored form: 81 bytes.
impl Sequence {
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        for number in [self.base, self.highest, self.received_here, self.before.received, self.before.lost] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.seen.to_le_bytes());
        for number in [self.duplicated, self.reordered, self.strays, self.probe.unwrap_or(0)] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.push(self.probe.is_some() as u8);
    }

    pub(super) fn read(reader: &mut super::bytes::Reader<'_>) -> Option<Sequence> {
        let (base, highest, received_here) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let before = Before { received: reader.u64()?, lost: reader.u64()? };
        let seen = u128::from_le_bytes(reader.take()?);
        let (duplicated, reordered, strays) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (probe, has_probe) = (reader.u32()?, reader.u8()?);
        let holds = base <= highest
            && highest - base < 1 << 48
            && (ORIGIN >> 1..1 << 60).contains(&base)
            && highest >= ORIGIN
            && (1..=highest - base + 1).contains(&received_here)
            && seen & 1 == 1
            && before.received.max(before.lost) < 1 << 60;
        let probe = (has_probe != 0).then_some(probe);
        let sequence =
            Sequence { base, highest, seen, received_here, probe, before, duplicated, reordered, strays };
        holds.then_some(sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Place::*;

    /// Packets of these numbers, and what became of them: highest, received, lost.
    fn check(numbers: &[u32], places: &[Place], expected: [u64; 3]) {
        let mut sequence = Sequence::first(numbers[0]);
        let told: Vec<Place> = numbers[1..].iter().map(|number| sequence.observe(*number)).collect();
        assert_eq!(told, places, "{numbers:?}");
        assert_eq!([sequence.highest(), sequence.received(), sequence.lost()], expected, "{numbers:?}");
    }

    #[test]
    fn a_gap_is_a_loss_until_it_is_filled() {
        check(&[7, 8, 10], &[Ahead, Ahead], [10, 3, 1]);
        check(&[7, 8, 10, 9], &[Ahead, Ahead, Reordered], [10, 4, 0]);
        check(&[7, 8, 10, 9, 9], &[Ahead, Ahead, Reordered, Duplicated], [10, 4, 0]);
    }

    #[test]
    fn a_packet_from_before_the_first_is_reordered_and_no_loss() {
        check(&[2, 1], &[Reordered], [2, 2, 0]);
        check(&[5, 3], &[Reordered], [5, 2, 1]);
        check(&[0, 65_535], &[Reordered], [0, 2, 0]);
    }

    #[test]
    fn the_first_packet_again_is_a_duplicate() {
        check(&[9, 9, 9], &[Duplicated, Duplicated], [9, 1, 0]);
    }

    #[test]
    fn numbers_go_on_over_their_end() {
        check(&[65_534, 65_535, 0, 1], &[Ahead; 3], [65_537, 4, 0]);
        check(&[65_534, 0, 65_535], &[Ahead, Reordered], [65_536, 3, 0]);
        check(&[u32::MAX, 0, 1], &[Ahead; 2], [1 << 32 | 1, 3, 0]);
        check(&[65_534, 65_535, 65_536, 65_537], &[Ahead; 3], [65_537, 4, 0]);
    }

    #[test]
    fn a_number_is_placed_within_the_window_and_not_behind_it() {
        check(&[1_000, 1_001, 1_001 - 127], &[Ahead, Reordered], [1_001, 3, 125]);
        check(&[1_000, 1_001, 1_001 - 128], &[Ahead, Stray], [1_001, 2, 0]);
        check(&[1_000, 4_000], &[Ahead], [4_000, 2, 2_999]);
        check(&[1_000, 4_001], &[Stray], [1_000, 1, 0]);
    }

    #[test]
    fn two_in_a_row_from_elsewhere_are_a_new_numbering() {
        check(&[1_000, 1_002, 30_000, 30_001, 30_003], &[Ahead, Stray, Restarted, Ahead], [30_003, 4, 2]);
        check(&[1_000, 30_000, 1_001, 50_000], &[Stray, Ahead, Stray], [1_001, 2, 0]);
    }
}
