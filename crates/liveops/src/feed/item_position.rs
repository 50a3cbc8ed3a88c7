//! The position of an item in the feed, with a 32-bit tail, in 16 bytes.

/// Bits of the time: milliseconds until the year 2527.
const TIME_BITS: u32 = 44;
const TIME_MAX: i64 = (1 << TIME_BITS) - 1;
/// Bits of the number that share a word with the time.
const HIGH_BITS: u32 = u64::BITS - TIME_BITS;

/// The time of an item and, within the same millisecond, its number; greater is newer.
///
/// The tail is a player or an activity, depending on the collection. Numbers are unique within a game, so the tail
/// never decides the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ItemPosition(u64, u64);

impl ItemPosition {
    /// A position older than any item.
    pub(super) const OLDEST: ItemPosition = ItemPosition(0, 0);

    pub(super) fn new(at_ms: i64, number: u64, tail: u32) -> ItemPosition {
        let time = at_ms.clamp(0, TIME_MAX) as u64;
        ItemPosition(time << HIGH_BITS | number >> 32, number << 32 | u64::from(tail))
    }

    /// Returns the time in milliseconds since 1970.
    pub(super) fn at_ms(self) -> i64 {
        (self.0 >> HIGH_BITS) as i64
    }

    /// Returns the item's number: items that were added later have greater ones, whatever their time.
    pub(super) fn number(self) -> u64 {
        (self.0 & ((1 << HIGH_BITS) - 1)) << 32 | self.1 >> 32
    }

    pub(super) fn tail(self) -> u32 {
        self.1 as u32
    }

    /// Returns the same position with another tail.
    pub(super) fn with_tail(self, tail: u32) -> ItemPosition {
        ItemPosition(self.0, self.1 & !u64::from(u32::MAX) | u64::from(tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn position_keeps_its_parts_and_sorts_by_time_then_number(
            (at, number, tail) in (0..=TIME_MAX, 0..1u64 << 52, any::<u32>()),
            (at2, number2, tail2) in (0..=TIME_MAX, 0..1u64 << 52, any::<u32>()),
        ) {
            let position = ItemPosition::new(at, number, tail);
            prop_assert_eq!((position.at_ms(), position.number(), position.tail()), (at, number, tail));
            prop_assert_eq!(position.with_tail(tail2), ItemPosition::new(at, number, tail2));
            let other = ItemPosition::new(at2, number2, tail2);
            prop_assert_eq!(position.cmp(&other), (at, number, tail).cmp(&(at2, number2, tail2)));
        }
    }
}
