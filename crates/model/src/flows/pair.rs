//! The two ends of a flow, in an order that does not depend on who sends.

use std::net::SocketAddr;

use crate::limits::FLOW_END_BYTES_MAX;

/// One end of a packet's way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End<'a> {
    /// What makes it the same end whatever its address: 1 to [`FLOW_END_BYTES_MAX`] bytes of UTF-8. The source of an
    /// RTP stream is its SSRC, see [`ssrc`].
    pub id: &'a str,
    /// Where it is at the moment, if that is known.
    pub address: Option<SocketAddr>,
}

/// An SSRC as the id of an end: eight hexadecimal digits.
pub fn ssrc(ssrc: u32) -> [u8; 8] {
    let digit = |place: usize| b"0123456789abcdef"[(ssrc >> (28 - 4 * place)) as usize & 15];
    std::array::from_fn(digit)
}

/// The SSRC that this id is, if it is one.
pub fn as_ssrc(id: &str) -> Option<u32> {
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
    /// The pair of two ends; `None` if they are no two ends or an id is no id.
    pub fn of(one: &'a str, other: &'a str) -> Option<Pair<'a>> {
        let is_id = |id: &str| (1..=FLOW_END_BYTES_MAX).contains(&id.len());
        if one == other || !is_id(one) || !is_id(other) {
            return None;
        }
        Some(if one < other { Pair { low: one, high: other } } else { Pair { low: other, high: one } })
    }

    /// 0 for the lower end, 1 for the higher.
    pub(super) fn side(&self, id: &str) -> usize {
        usize::from(id == self.high)
    }
}

/// The ids of a pair in one piece of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnPair {
    both: Box<str>,
    split: u8,
}

impl OwnPair {
    pub fn new(pair: &Pair<'_>) -> OwnPair {
        OwnPair { both: [pair.low, pair.high].concat().into(), split: pair.low.len() as u8 }
    }

    pub fn pair(&self) -> Pair<'_> {
        let (low, high) = self.both.split_at(usize::from(self.split));
        Pair { low, high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_the_same_from_both_sides() {
        assert_eq!(Pair::of("ann", "bo"), Pair::of("bo", "ann"));
        assert_ne!(Pair::of("ab", "c"), Pair::of("a", "bc"));
        let pair = Pair::of("bo", "ann").expect("two ends");
        assert_eq!((pair.low, pair.side("ann"), pair.side("bo")), ("ann", 0, 1));
        assert_eq!(OwnPair::new(&pair).pair(), pair);
    }

    #[test]
    fn an_end_alone_or_without_an_id_is_no_pair() {
        let long = "x".repeat(129);
        let pairs = [Pair::of("ann", "ann"), Pair::of("", "ann"), Pair::of("ann", &long)];
        assert_eq!(pairs, [None; 3]);
        assert!(Pair::of("ann", &long[1..]).is_some());
    }

    #[test]
    fn a_source_is_called_by_its_eight_digits() {
        assert_eq!(&ssrc(0x00ab_cdef), b"00abcdef");
        assert_eq!(
            (as_ssrc("00abcdef"), as_ssrc("00ABCDEF"), as_ssrc("abcdef")),
            (Some(0xab_cdef), None, None)
        );
        assert_eq!(as_ssrc("+0abcdef"), None);
    }
}
