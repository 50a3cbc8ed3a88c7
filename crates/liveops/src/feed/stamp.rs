//! A place in the feed, with one number beside it, in 16 bytes.

/// Bits of the time: milliseconds until the year 2527.
const TIME_BITS: u32 = 44;
const TIME_MAX: i64 = (1 << TIME_BITS) - 1;
/// The upper part of the number shares a word with the time.
const HIGH_BITS: u32 = u64::BITS - TIME_BITS;

/// When something was done and, within the same millisecond, in which order it came; greater is newer.
///
/// `tail` is who or what, depending on where the stamp is kept. No two items of a game have the same number, so it
/// never decides an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(u64, u64);

impl Stamp {
    /// Older than any item.
    pub(super) const OLDEST: Stamp = Stamp(0, 0);

    pub(super) fn new(at_ms: i64, number: u64, tail: u32) -> Stamp {
        let time = at_ms.clamp(0, TIME_MAX) as u64;
        Stamp(time << HIGH_BITS | number >> 32, number << 32 | u64::from(tail))
    }

    /// Milliseconds since 1970.
    pub(super) fn at_ms(self) -> i64 {
        (self.0 >> HIGH_BITS) as i64
    }

    /// The item's number: later ones came later, whenever they happened.
    pub(super) fn number(self) -> u64 {
        (self.0 & ((1 << HIGH_BITS) - 1)) << 32 | self.1 >> 32
    }

    pub(super) fn tail(self) -> u32 {
        self.1 as u32
    }

    /// The same place with another number beside it.
    pub(super) fn with(self, tail: u32) -> Stamp {
        Stamp(self.0, self.1 & !u64::from(u32::MAX) | u64::from(tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_stamp_gives_back_its_parts_and_is_ordered_by_time_then_number(
            (at, number, tail) in (0..=TIME_MAX, 0..1u64 << 52, any::<u32>()),
            (at2, number2, tail2) in (0..=TIME_MAX, 0..1u64 << 52, any::<u32>()),
        ) {
            let stamp = Stamp::new(at, number, tail);
            prop_assert_eq!((stamp.at_ms(), stamp.number(), stamp.tail()), (at, number, tail));
            prop_assert_eq!(stamp.with(tail2), Stamp::new(at, number, tail2));
            let other = Stamp::new(at2, number2, tail2);
            prop_assert_eq!(stamp.cmp(&other), (at, number, tail).cmp(&(at2, number2, tail2)));
        }
    }
}
