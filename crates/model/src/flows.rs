//! Flows: two-way exchanges of numbered packets between two ends, and their quality.
//!
//! A flow is identified by its unordered pair of ends, so neither the direction nor the order of the first packets
//! can open a second flow. An end is an id; its address may change during the flow.
//!
//! - A flow starts with its first packet or report, whatever the sequence number, and ends with a BYE or after 60 s
//!   without packets.
//! - For 10 s after a BYE, all reports and all packets with a sequence number near the flow's (within 3,000)
//!   are stragglers: they are counted and change nothing. A packet with a distant number,
//!   or after these 10 s, opens a new flow; so does any packet after 60 s of silence. The statistics of the old flow
//!   do not change.
//! - A packet that would exceed the limit of flows is rejected and counted; running flows continue.
//!
//! The results depend only on the calls and the times passed to them. There is no lock: a caller with several
//! threads assigns each pair to one [`FlowTracker`].

mod bytes;
mod direction;
mod flow;
mod pair;
mod quality;
mod quota;
mod rtcp;
mod sequence;
#[cfg(test)]
mod tests;
mod timer_wheel;
mod tracker;

pub use direction::DirectionStats;
pub use flow::{EndReason, Flow};
pub use pair::{FlowEnd, Pair, format_ssrc, parse_ssrc};
pub use quality::Quality;
pub use quota::FlowQuota;
pub use rtcp::{ReceptionReport, RtcpSources};
pub use tracker::{FlowTracker, PacketOutcome, TrackerTotals};

use bytes::FlowReader;

/// A flow ends after this time without packets.
pub const IDLE_TIMEOUT_MS: u64 = 60_000;
/// Packets within this time after a BYE do not open a new flow.
pub const STRAGGLER_WINDOW_MS: u64 = 10_000;

/// The current time on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowTime {
    /// Milliseconds since 1970, for reporting.
    pub wall_ms: i64,
    /// Milliseconds on a monotonic clock, for timeouts.
    pub monotonic_ms: u64,
}

/// One observed packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowPacket<'a> {
    /// The sender.
    pub from: FlowEnd<'a>,
    /// The receiver.
    pub to: FlowEnd<'a>,
    /// The kind of packet.
    pub kind: PacketKind,
}

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PacketKind {
    /// A packet with a sequence number.
    Numbered {
        /// The sequence number. Numbers up to 65,535 are 16-bit numbers that wrap to 0, as in RTP; larger ones are
        /// 32-bit numbers.
        seq: u32,
        /// Send time by the sender's clock, microseconds from an arbitrary origin.
        sent_us: Option<i64>,
        /// Time of receipt, microseconds since 1970.
        at_us: i64,
    },
    /// The sender leaves the flow.
    Bye,
}

/// Decodes flows written by [`FlowTracker::write`]; `None` if the bytes are malformed.
pub fn read_flows(bytes: &[u8], flows: u32) -> Option<Vec<Flow>> {
    let mut reader = FlowReader(bytes);
    let restored: Option<Vec<Flow>> = (0..flows).map(|_| Flow::read(&mut reader)).collect();
    restored.filter(|_| reader.0.is_empty())
}
