//! RTCP: reports of the two ends of an RTP stream (RFC 3550, section 6; extended reports, RFC 3611).
//!
//! A datagram is a compound of packets and is accepted or rejected as a whole: [`Compound::read`] checks every length and
//! count in it, so that later reads cannot fail. Nothing is copied. Packets of other types (feedback, for example) are
//! skipped and counted. Reports without the report that RFC 3550 requires first are accepted as well (reduced size, RFC
//! 5506). Encrypted RTCP (SRTCP) looks like RTCP with invalid content and is rejected or unknown.

mod reports;
mod sources;
mod xr;

pub use reports::{ReceiverReport, ReportBlock, ReportBlocks, SenderReport};
pub use sources::{App, Bye, Sdes, SdesChunk, SdesChunks, SdesItem, SdesItems, Ssrcs};
pub use xr::{VoipMetrics, Xr, XrBlock, XrBlocks};

/// The two highest bits of the first byte.
const VERSION: u8 = 2;
const HEADER_BYTES: usize = 4;

/// The error of a datagram that is rejected. `at` is the first byte of the invalid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedDatagram {
    /// The datagram has no packet.
    #[error("datagram is empty")]
    Empty,
    /// A packet is longer than the rest of the datagram.
    #[error("packet at byte {at} is truncated")]
    Truncated {
        /// Position of the packet in the datagram.
        at: usize,
    },
    /// The version is not 2.
    #[error("packet at byte {at} is not RTCP: its version is not 2")]
    Version {
        /// Position of the packet in the datagram.
        at: usize,
    },
    /// The type is not one of RTCP.
    #[error("packet at byte {at} is not RTCP: its type is not between 192 and 223")]
    Type {
        /// Position of the packet in the datagram.
        at: usize,
    },
    /// The padding is longer than the packet, or not at the end of the datagram.
    #[error("packet at byte {at} has invalid padding")]
    Padding {
        /// Position of the packet in the datagram.
        at: usize,
    },
    /// The packet contains less than it declares.
    #[error("packet at byte {at} contains less than it declares")]
    Content {
        /// Position of the packet in the datagram.
        at: usize,
    },
}

/// One packet of a compound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Packet<'a> {
    /// SR: statistics of a source that sends and receives.
    SenderReport(SenderReport<'a>),
    /// RR: statistics of a source that only receives.
    ReceiverReport(ReceiverReport<'a>),
    /// SDES: names of sources.
    Sdes(Sdes<'a>),
    /// BYE: sources leave.
    Bye(Bye<'a>),
    /// APP: data defined by an application.
    App(App<'a>),
    /// XR: extended reports.
    Xr(Xr<'a>),
    /// A packet of another type, with its number.
    Unknown(u8),
}

/// Iterates over the packets of a checked datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compound<'a> {
    rest: &'a [u8],
}

impl<'a> Compound<'a> {
    /// Checks a datagram.
    pub fn read(datagram: &'a [u8]) -> Result<Compound<'a>, MalformedDatagram> {
        if datagram.is_empty() {
            return Err(MalformedDatagram::Empty);
        }
        let mut at = 0;
        while at < datagram.len() {
            let raw = RawPacket::read(datagram, at)?;
            raw.packet().ok_or(MalformedDatagram::Content { at })?;
            at += raw.len;
        }
        Ok(Compound { rest: datagram })
    }
}

impl<'a> Iterator for Compound<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        let raw = RawPacket::read(self.rest, 0).ok()?;
        self.rest = &self.rest[raw.len..];
        raw.packet()
    }
}

/// A packet whose header has been read.
struct RawPacket<'a> {
    kind: u8,
    /// Number of reports, chunks or sources; the subtype of an APP packet.
    count: u8,
    /// The content without header and padding.
    content: &'a [u8],
    len: usize,
}

impl<'a> RawPacket<'a> {
    fn read(datagram: &'a [u8], at: usize) -> Result<RawPacket<'a>, MalformedDatagram> {
        let rest = &datagram[at..];
        let Some(&[first, kind, high, low]) = rest.first_chunk() else {
            return Err(MalformedDatagram::Truncated { at });
        };
        if first >> 6 != VERSION {
            return Err(MalformedDatagram::Version { at });
        }
        // RFC 5761, section 4, reserves these types, which are not RTP payload types.
        if !(192..=223).contains(&kind) {
            return Err(MalformedDatagram::Type { at });
        }
        let len = HEADER_BYTES * (usize::from(u16::from_be_bytes([high, low])) + 1);
        let packet = rest.get(..len).ok_or(MalformedDatagram::Truncated { at })?;
        let content = without_padding(packet, first & 0x20 != 0, rest.len() == len);
        let content = content.ok_or(MalformedDatagram::Padding { at })?;
        Ok(RawPacket { kind, count: first & 0x1f, content, len })
    }

    /// Returns the packet, or `None` if it contains less than it declares.
    fn packet(&self) -> Option<Packet<'a>> {
        let (count, content) = (usize::from(self.count), self.content);
        Some(match self.kind {
            200 => Packet::SenderReport(SenderReport::read(count, content)?),
            201 => Packet::ReceiverReport(ReceiverReport::read(count, content)?),
            202 => Packet::Sdes(Sdes::read(count, content)?),
            203 => Packet::Bye(Bye::read(count, content)?),
            204 => Packet::App(App::read(self.count, content)?),
            207 => Packet::Xr(Xr::read(content)?),
            kind => Packet::Unknown(kind),
        })
    }
}

/// Returns the content of a packet. Only the last packet of a datagram may be padded; the last byte of the padding is its
/// length.
fn without_padding(packet: &[u8], is_padded: bool, is_last: bool) -> Option<&[u8]> {
    let content = &packet[HEADER_BYTES..];
    if !is_padded {
        return Some(content);
    }
    let padding = usize::from(*content.last()?);
    let is_valid = is_last && padding > 0 && padding.is_multiple_of(4);
    content.get(..content.len().checked_sub(padding)?).filter(|_| is_valid)
}

/// Reads the next four bytes as a number; returns it and the rest.
fn read_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*word), rest))
}
