//! SR and RR (RFC 3550, 6.4).

use super::word;

const BLOCK_BYTES: usize = 24;

/// What a source has sent so far, and what it receives from others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderReport<'a> {
    /// Who reports.
    pub ssrc: u32,
    /// When the report was sent, in NTP's format: seconds since 1900 and their fraction.
    pub ntp: u64,
    /// The same time in the stream's own timestamps.
    pub rtp: u32,
    /// Packets sent since the beginning.
    pub packets: u32,
    /// Octets of payload sent since the beginning.
    pub octets: u32,
    /// What it receives.
    pub blocks: ReportBlocks<'a>,
}

impl<'a> SenderReport<'a> {
    pub(super) fn read(count: usize, content: &'a [u8]) -> Option<SenderReport<'a>> {
        let (ssrc, rest) = word(content)?;
        let (high, rest) = word(rest)?;
        let (low, rest) = word(rest)?;
        let (rtp, rest) = word(rest)?;
        let (packets, rest) = word(rest)?;
        let (octets, rest) = word(rest)?;
        let ntp = u64::from(high) << 32 | u64::from(low);
        Some(SenderReport { ssrc, ntp, rtp, packets, octets, blocks: ReportBlocks::read(count, rest)? })
    }
}

/// What a source receives from others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiverReport<'a> {
    /// Who reports.
    pub ssrc: u32,
    /// What it receives.
    pub blocks: ReportBlocks<'a>,
}

impl<'a> ReceiverReport<'a> {
    pub(super) fn read(count: usize, content: &'a [u8]) -> Option<ReceiverReport<'a>> {
        let (ssrc, rest) = word(content)?;
        Some(ReceiverReport { ssrc, blocks: ReportBlocks::read(count, rest)? })
    }
}

/// One block for each source that is received. What follows the blocks, of a profile's own, is passed over.
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

/// What is received from one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportBlock {
    /// Whose packets it is about.
    pub ssrc: u32,
    /// The lost share since the report before, of 256.
    pub fraction: u8,
    /// Packets lost since the beginning, 24 bits; negative if more came than were sent.
    pub lost: i32,
    /// The highest number received, extended by how often the numbers went round.
    pub highest: u32,
    /// Interarrival jitter, in units of the stream's timestamps.
    pub jitter: u32,
    /// The middle 32 bits of the NTP time of the last sender report from that source; 0: there was none.
    pub lsr: u32,
    /// How long ago that came, in units of 1/65536 s.
    pub dlsr: u32,
}

impl ReportBlock {
    fn of(block: &[u8; BLOCK_BYTES]) -> ReportBlock {
        let word = |at: usize| u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        ReportBlock {
            ssrc: word(0),
            fraction: block[4],
            // The upper byte is the fraction; shifting there and back extends the sign.
            lost: (word(4) << 8) as i32 >> 8,
            highest: word(8),
            jitter: word(12),
            lsr: word(16),
            dlsr: word(20),
        }
    }
}
