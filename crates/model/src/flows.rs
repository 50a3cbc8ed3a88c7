//! Two-way exchanges of numbered packets between two ends, and how well they go.
//!
//! A flow is known by its unordered pair of ends: whoever sends first, and whatever comes first, the second packet never
//! makes a second flow. An end is an id; its address may change while the flow goes on.
//!
//! - A flow begins with its first packet or report, whatever its number, and ends with a BYE or after 60 s of silence.
//! - For 10 s after a BYE, packets whose numbers are near the flow's (within [`sequence::DROPOUT_MAX`]) and all reports
//!   are stragglers: they are counted and change nothing. A packet from elsewhere in the numbers, or after these 10 s,
//!   begins a new flow; so does any packet after 60 s of silence. The old flow's figures stay as they were.
//! - A packet beyond the limit of flows is refused and counted; flows that run go on.
//!
//! Everything here follows from the calls and the times in them. There is no lock: whoever has several threads gives
//! each pair to one [`Tracker`].

mod bytes;
pub mod direction;
mod flow;
mod pair;
pub mod quality;
mod report;
pub mod sequence;
mod shares;
#[cfg(test)]
mod tests;
mod tracker;
mod wheel;

pub use direction::Figures;
pub use flow::{Cause, Flow};
pub use pair::{End, Pair, as_ssrc, ssrc};
pub use quality::Quality;
pub use report::{Report, Senders};
pub use shares::Shares;
pub use tracker::{Took, Totals, Tracker};

use bytes::Reader;

/// A flow without packets ends after this long.
pub const SILENCE_MS: u64 = 60_000;
/// So long after a BYE late packets begin no new flow.
pub const STRAGGLERS_MS: u64 = 10_000;

/// Now, on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// What is told: milliseconds since 1970.
    pub wall_ms: i64,
    /// What is waited by: milliseconds on a clock that is never set and never goes back.
    pub tick_ms: u64,
}

/// One packet that passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowPacket<'a> {
    /// Who sent it.
    pub from: End<'a>,
    /// To whom.
    pub to: End<'a>,
    /// What it was.
    pub what: What,
}

/// What a packet was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// One in a sequence.
    Numbered {
        /// Its number; up to 65,535 it is one of 16 bits, which go on at 0, as in RTP; else one of 32 bits.
        seq: u32,
        /// When it was sent by the sender's clock, microseconds from any beginning.
        sent_us: Option<i64>,
        /// When it came, microseconds since 1970.
        at_us: i64,
    },
    /// The sender has left.
    Bye,
}

/// Reads flows back that [`Tracker::write`] wrote, one after the other; `None`: these bytes are none.
pub fn read(bytes: &[u8], flows: u32) -> Option<Vec<Flow>> {
    let mut reader = Reader(bytes);
    let read: Option<Vec<Flow>> = (0..flows).map(|_| Flow::read(&mut reader)).collect();
    read.filter(|_| reader.0.is_empty())
}
