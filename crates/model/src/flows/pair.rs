//! The two ends of a flow, in an order that does not depend on the direction.

use std::net::SocketAddr;

use crate::limits::FLOW_END_BYTES_MAX;

/// One end of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowEnd<'a> {
    /// The identity of the end, independent of its address: 1 to [`FLOW_END_BYTES_MAX`] bytes of UTF-8. For the
    /// source of an RTP stream it is the SSRC; see [`format_ssrc`].
    pub id: &'a str,
    /// The current address, if known.
    pub address: Option<SocketAddr>,
}

/// Formats an SSRC as the id of an end: eight hexadecimal digits.
pub fn format_ssrc(ssrc: u32) -> [u8; 8] {
    let digit = |position: usize| b"0123456789abcdef"[(ssrc >> (28 - 4 * position)) as usize & 15];
    std::array::from_fn(digit)
}

/// Parses an id formatted by [`format_ssrc`]; `None` for any other id.
pub fn parse_ssrc(id: &str) -> Option<u32> {
    let is_plain = id.len() == 8 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_plain { u32::from_str_radix(id, 16).ok() } else { None }
}

/// Two different ends, the lower id first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair<'a> {
    /// The lower id.
    pub low: &'a str,
    /// The higher id.
    pub high: &'a str,
}

impl<'a> Pair<'a> {
    /// Orders two ends; `None` if they are equal or an id is empty or too long.
    pub fn of(one: &'a str, other: &'a str) -> Option<Pair<'a>> {
        let is_id = |id: &str| (1..=FLOW_END_BYTES_MAX).contains(&id.len());
        if one == other || !is_id(one) || !is_id(other) {
            return None;
        }
        Some(if one < other { Pair { low: one, high: other } } else { Pair { low: other, high: one } })
    }

    /// Returns 0 for the lower end, 1 for the higher.
    pub(super) fn side(&self, id: &str) -> usize {
        usize::from(id == self.high)
    }
}

/// The ids of a pair in one allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnedPair {
    both: Box<str>,
    split: u8,
}

impl OwnedPair {
    pub(crate) fn new(pair: &Pair<'_>) -> OwnedPair {
        OwnedPair { both: [pair.low, pair.high].concat().into(), split: pair.low.len() as u8 }
    }

    pub(crate) fn pair(&self) -> Pair<'_> {
        let (low, high) = self.both.split_at(usize::from(self.split));
        Pair { low, high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_does_not_depend_on_direction() {
        assert_eq!(Pair::of("ann", "bo"), Pair::of("bo", "ann"));
        assert_ne!(Pair::of("ab", "c"), Pair::of("a", "bc"));
        let pair = Pair::of("bo", "ann").expect("two ends");
        assert_eq!((pair.low, pair.side("ann"), pair.side("bo")), ("ann", 0, 1));
        assert_eq!(OwnedPair::new(&pair).pair(), pair);
    }

    #[test]
    fn pair_needs_two_different_valid_ids() {
        let long = "x".repeat(129);
        let pairs = [Pair::of("ann", "ann"), Pair::of("", "ann"), Pair::of("ann", &long)];
        assert_eq!(pairs, [None; 3]);
        assert!(Pair::of("ann", &long[1..]).is_some());
    }

    #[test]
    fn ssrc_is_formatted_as_eight_hex_digits() {
        assert_eq!(&format_ssrc(0x00ab_cdef), b"00abcdef");
        assert_eq!(
            (parse_ssrc("00abcdef"), parse_ssrc("00ABCDEF"), parse_ssrc("abcdef")),
            (Some(0xab_cdef), None, None)
        );
        assert_eq!(parse_ssrc("+0abcdef"), None);
    }
}
