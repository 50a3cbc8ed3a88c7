//! RTCP: what the two ends of an RTP stream report about it (RFC 3550, section 6; extended reports, RFC 3611).
//!
//! A datagram is a compound of packets. It is taken or refused as a whole: [`Compound::read`] looks at every length and
//! count in it, so that nothing that is read afterwards can fail. Nothing is copied. Packets of other types (feedback,
//! for example) are passed over and counted. Reports alone, without the report that RFC 3550 wants first, are taken as
//! well (reduced size, RFC 5506). Encrypted RTCP (SRTCP) looks like RTCP with a wrong inside and is refused or unknown.

mod reports;
mod sources;
mod xr;

pub use reports::{ReceiverReport, ReportBlock, ReportBlocks, SenderReport};
pub use sources::{App, Bye, Chunk, Chunks, Item, Items, Sdes, Ssrcs};
pub use xr::{Block, Blocks, VoipMetrics, Xr};

/// The first byte's two highest bits.
const VERSION: u8 = 2;
const HEADER_BYTES: usize = 4;

/// Why nothing of a datagram was taken. `at` is the first byte of the packet that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// There is no packet in it.
    #[error("datagram is empty")]
    Empty,
    /// A packet is longer than what is left of the datagram.
    #[error("packet at byte {at} is cut off")]
    CutOff {
        /// Where the packet begins.
        at: usize,
    },
    /// The version is not 2.
    #[error("packet at byte {at} is not RTCP: its version is not 2")]
    Version {
        /// Where the packet begins.
        at: usize,
    },
    /// The type is none of RTCP's.
    #[error("packet at byte {at} is not RTCP: its type is none of 192 to 223")]
    Type {
        /// Where the packet begins.
        at: usize,
    },
    /// The padding is longer than the packet, or not at the end of the datagram.
    #[error("packet at byte {at} has a padding that cannot be")]
    Padding {
        /// Where the packet begins.
        at: usize,
    },
    /// What the packet says it holds is more than what it holds.
    #[error("packet at byte {at} holds less than it says")]
    Content {
        /// Where the packet begins.
        at: usize,
    },
}

/// One packet of a compound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Packet<'a> {
    /// SR: what a source has sent and what it receives.
    SenderReport(SenderReport<'a>),
    /// RR: what a source receives.
    ReceiverReport(ReceiverReport<'a>),
    /// SDES: what sources are called.
    Sdes(Sdes<'a>),
    /// BYE: sources leave.
    Bye(Bye<'a>),
    /// APP: something of an application's own.
    App(App<'a>),
    /// XR: extended reports.
    Xr(Xr<'a>),
    /// Of another type.
    Unknown(u8),
}

/// The packets of a datagram that has been checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compound<'a> {
    rest: &'a [u8],
}

impl<'a> Compound<'a> {
    /// Checks a datagram.
    pub fn read(datagram: &'a [u8]) -> Result<Compound<'a>, Malformed> {
        if datagram.is_empty() {
            return Err(Malformed::Empty);
        }
        let mut at = 0;
        while at < datagram.len() {
            let raw = Raw::read(datagram, at)?;
            raw.packet().ok_or(Malformed::Content { at })?;
            at += raw.len;
        }
        Ok(Compound { rest: datagram })
    }
}

impl<'a> Iterator for Compound<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        let raw = Raw::read(self.rest, 0).ok()?;
        self.rest = &self.rest[raw.len..];
        raw.packet()
    }
}

/// A packet of which the header has been read.
struct Raw<'a> {
    kind: u8,
    /// Reports, chunks or sources; of an APP packet its subtype.
    count: u8,
    /// Without header and padding.
    content: &'a [u8],
    len: usize,
}

impl<'a> Raw<'a> {
    fn read(datagram: &'a [u8], at: usize) -> Result<Raw<'a>, Malformed> {
        let rest = &datagram[at..];
        let Some(&[first, kind, high, low]) = rest.first_chunk() else {
            return Err(Malformed::CutOff { at });
        };
        if first >> 6 != VERSION {
            return Err(Malformed::Version { at });
        }
        // RFC 5761, 4, keeps these types free of payload types of RTP.
        if !(192..=223).contains(&kind) {
            return Err(Malformed::Type { at });
        }
        let len = HEADER_BYTES * (usize::from(u16::from_be_bytes([high, low])) + 1);
        let packet = rest.get(..len).ok_or(Malformed::CutOff { at })?;
        let content = without_padding(packet, first & 0x20 != 0, rest.len() == len);
        let content = content.ok_or(Malformed::Padding { at })?;
        Ok(Raw { kind, count: first & 0x1f, content, len })
    }

    /// `None`: it holds less than it says.
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

/// The content of a packet. Only the last one of a datagram may be padded; the padding's last byte is its length.
fn without_padding(packet: &[u8], is_padded: bool, is_last: bool) -> Option<&[u8]> {
    let content = &packet[HEADER_BYTES..];
    if !is_padded {
        return Some(content);
    }
    let padding = usize::from(*content.last()?);
    let is_right = is_last && padding > 0 && padding.is_multiple_of(4);
    content.get(..content.len().checked_sub(padding)?).filter(|_| is_right)
}

/// The next four bytes as a number, and what follows.
fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*word), rest))
}
