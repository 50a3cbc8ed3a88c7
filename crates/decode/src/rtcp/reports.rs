//! SR and RR (RFC 3550, 6.4).

use super::read_u32;

const BLOCK_BYTES: usize = 24;

/// Statistics of a source that sends and receives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderReport<'a> {
    /// The reporting source.
    pub ssrc: u32,
    /// Time of sending in NTP format: seconds since 1900 and their fraction.
    pub ntp: u64,
    /// The same time in the stream's own timestamps.
    pub rtp: u32,
    /// Packets sent since the beginning.
    pub packets: u32,
    /// Octets of payload sent since the beginning.
    pub octets: u32,
    /// Reception statistics.
    pub blocks: ReportBlocks<'a>,
}

impl<'a> SenderReport<'a> {
    pub(super) fn read(count: usize, content: &'a [u8]) -> Option<SenderReport<'a>> {
        let (ssrc, rest) = read_u32(content)?;
        let (high, rest) = read_u32(rest)?;
        let (low, rest) = read_u32(rest)?;
        let (rtp, rest) = read_u32(rest)?;
        let (packets, rest) = read_u32(rest)?;
        let (octets, rest) = read_u32(rest)?;
        let ntp = u64::from(high) << 32 | u64::from(low);
        Some(SenderReport { ssrc, ntp, rtp, packets, octets, blocks: ReportBlocks::read(count, rest)? })
    }
}

/// Statistics of a source that only receives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiverReport<'a> {
    /// The reporting source.
    pub ssrc: u32,
    /// Reception statistics.
    pub blocks: ReportBlocks<'a>,
}

impl<'a> ReceiverReport<'a> {
    pub(super) fn read(count: usize, content: &'a [u8]) -> Option<ReceiverReport<'a>> {
        let (ssrc, rest) = read_u32(content)?;
        Some(ReceiverReport { ssrc, blocks: ReportBlocks::read(count, rest)? })
    }
}

/// Iterates over the blocks, one for each received source. A profile-specific extension after them is skipped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReportBlocks<'a>(&'a [u8]);

impl<'a> ReportBlocks<'a> {
    fn read(count: usize, rest: &'a [u8]) -> Option<ReportBlocks<'a>> {
        rest.get(..count * BLOCK_BYTES).map(ReportBlocks)
    }
}

impl Iterator for ReportBlocks<'_> {
    type Item = ReportBlock;

    fn next(&mut self) -> Option<ReportBlock> {
        let (block, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(ReportBlock::of(block))
    }
}

/// Reception statistics for one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportBlock {
    /// The received source.
    pub ssrc: u32,
    /// Fraction of packets lost since the previous report, in 1/256.
    pub fraction: u8,
    /// Packets lost since the beginning, 24 bits; negative if duplicates outnumber losses.
    pub lost: i32,
    /// The highest sequence number received, extended by the number of wrap-arounds.
    pub highest: u32,
    /// Interarrival jitter, in units of the stream's timestamps.
    pub jitter: u32,
    /// The middle 32 bits of the NTP time of the last sender report from that source; 0 if there was none.
    pub lsr: u32,
    /// The delay since that report arrived, in 1/65536 s.
    pub dlsr: u32,
}

impl ReportBlock {
    fn of(block: &[u8; BLOCK_BYTES]) -> ReportBlock {
        let u32_at = |at: usize| u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        ReportBlock {
            ssrc: u32_at(0),
            fraction: block[4],
            // The upper byte is the fraction; shifting left and right extends the sign.
            lost: (u32_at(4) << 8) as i32 >> 8,
            highest: u32_at(8),
            jitter: u32_at(12),
            lsr: u32_at(16),
            dlsr: u32_at(20),
        }
    }
}
