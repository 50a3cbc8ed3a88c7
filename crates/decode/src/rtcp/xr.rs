//! XR: extended reports (RFC 3611).

use super::read_u32;

/// The block with VoIP quality metrics (4.7), and its length in words after the header.
const VOIP_METRICS: u8 = 7;
const VOIP_METRICS_WORDS: usize = 8;
/// The value of a metric that the reporter does not have.
const UNKNOWN: u8 = 127;

/// Extended reports of one source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Xr<'a> {
    /// The reporting source.
    pub ssrc: u32,
    /// The reports.
    pub blocks: XrBlocks<'a>,
}

impl<'a> Xr<'a> {
    pub(super) fn read(content: &'a [u8]) -> Option<Xr<'a>> {
        let (ssrc, blocks) = read_u32(content)?;
        let mut rest = blocks;
        while !rest.is_empty() {
            (_, rest) = block(rest)?;
        }
        Some(Xr { ssrc, blocks: XrBlocks(blocks) })
    }
}

/// Iterates over the blocks of an XR packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct XrBlocks<'a>(&'a [u8]);

impl<'a> Iterator for XrBlocks<'a> {
    type Item = XrBlock<'a>;

    fn next(&mut self) -> Option<XrBlock<'a>> {
        let (block, rest) = block(self.0)?;
        self.0 = rest;
        Some(block)
    }
}

/// One block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum XrBlock<'a> {
    /// VoIP quality as measured by one end.
    Voip(VoipMetrics),
    /// Any other block: its type and its content.
    Other(u8, &'a [u8]),
}

/// Reads one block; returns it and the rest.
fn block(bytes: &[u8]) -> Option<(XrBlock<'_>, &[u8])> {
    let (&[kind, _, high, low], rest) = bytes.split_first_chunk()?;
    let words = usize::from(u16::from_be_bytes([high, low]));
    let (content, rest) = rest.split_at_checked(4 * words)?;
    let block = match <&[u8; 4 * VOIP_METRICS_WORDS]>::try_from(content) {
        Ok(metrics) if kind == VOIP_METRICS => XrBlock::Voip(VoipMetrics::of(metrics)),
        _ => XrBlock::Other(kind, content),
    };
    Some((block, rest))
}

/// VoIP quality as measured by one end (RFC 3611, 4.7): the metrics that a flow stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoipMetrics {
    /// The received source.
    pub ssrc: u32,
    /// Fraction of packets lost in the network, in 1/256.
    pub loss: u8,
    /// Fraction of packets discarded because they came too late or too early, in 1/256.
    pub discarded: u8,
    /// Round-trip time in milliseconds; 0 if unknown.
    pub round_trip_ms: u16,
    /// Delay added by this end, in milliseconds.
    pub end_delay_ms: u16,
    /// R factor of the E-model, 0 to 100.
    pub r: Option<u8>,
    /// Mean opinion score for listening quality, times ten: 10 to 50.
    pub mos_lq: Option<u8>,
    /// Mean opinion score for conversational quality, times ten: 10 to 50.
    pub mos_cq: Option<u8>,
}

impl VoipMetrics {
    fn of(block: &[u8; 4 * VOIP_METRICS_WORDS]) -> VoipMetrics {
        let short = |at: usize| u16::from_be_bytes([block[at], block[at + 1]]);
        let known = |at: usize| Some(block[at]).filter(|figure| *figure != UNKNOWN);
        VoipMetrics {
            ssrc: u32::from_be_bytes([block[0], block[1], block[2], block[3]]),
            loss: block[4],
            discarded: block[5],
            round_trip_ms: short(12),
            end_delay_ms: short(14),
            r: known(20),
            mos_lq: known(22),
            mos_cq: known(23),
        }
    }
}
