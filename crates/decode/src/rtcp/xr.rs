//! XR: extended reports (RFC 3611).

use super::word;

/// The block that tells how a call sounds (4.7), and its length in words after the header.
const VOIP_METRICS: u8 = 7;
const VOIP_METRICS_WORDS: usize = 8;
/// A figure that the reporter does not have.
const UNKNOWN: u8 = 127;

/// Extended reports of one source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Xr<'a> {
    /// Who reports.
    pub ssrc: u32,
    /// What it reports.
    pub blocks: Blocks<'a>,
}

impl<'a> Xr<'a> {
    pub(super) fn read(content: &'a [u8]) -> Option<Xr<'a>> {
        let (ssrc, blocks) = word(content)?;
        let mut rest = blocks;
        while !rest.is_empty() {
            (_, rest) = block(rest)?;
        }
        Some(Xr { ssrc, blocks: Blocks(blocks) })
    }
}

/// The blocks of an XR packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blocks<'a>(&'a [u8]);

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        let (block, rest) = block(self.0)?;
        self.0 = rest;
        Some(block)
    }
}

/// One block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Block<'a> {
    /// How a call sounds, as one end measured it.
    Voip(VoipMetrics),
    /// Any other: its type and its content.
    Other(u8, &'a [u8]),
}

/// One block, and what follows it.
fn block(bytes: &[u8]) -> Option<(Block<'_>, &[u8])> {
    let (&[kind, _, high, low], rest) = bytes.split_first_chunk()?;
    let words = usize::from(u16::from_be_bytes([high, low]));
    let (content, rest) = rest.split_at_checked(4 * words)?;
    let block = match <&[u8; 4 * VOIP_METRICS_WORDS]>::try_from(content) {
        Ok(metrics) if kind == VOIP_METRICS => Block::Voip(VoipMetrics::of(metrics)),
        _ => Block::Other(kind, content),
    };
    Some((block, rest))
}

/// How a call sounds, as one end measured it (RFC 3611, 4.7): the figures that a flow has a place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoipMetrics {
    /// Whose packets it is about.
    pub ssrc: u32,
    /// The share of packets lost in the network, of 256.
    pub loss: u8,
    /// The share of packets thrown away because they came too late or too early, of 256.
    pub discarded: u8,
    /// The round trip, milliseconds; 0: not known.
    pub round_trip_ms: u16,
    /// What this end adds to the delay, milliseconds.
    pub end_delay_ms: u16,
    /// R of the E-model, 0 to 100.
    pub r: Option<u8>,
    /// The mean opinion score for listening, ten times: 10 to 50.
    pub mos_lq: Option<u8>,
    /// The mean opinion score for a conversation, ten times: 10 to 50.
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
