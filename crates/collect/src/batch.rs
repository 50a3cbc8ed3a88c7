//! The input that a worker received since its last write.

use std::sync::Arc;

use decode::sample::SampleResult;
use decode::{influx, statsd};
use model::Reject;
use model::limits::EVENTS_PER_REQUEST_MAX;
use pipeline::catalog::GameSettings;
use pipeline::flows::Flows;
use pipeline::reject_tally::RejectTally;

use crate::samples::{Dimensions, SampleTable};
use crate::settings::Decoder;

/// A batch with this many lines of events is large.
const LINES_LARGE: usize = EVENTS_PER_REQUEST_MAX / 8;
/// A batch with this many bytes of events is large.
const LINES_BYTES_LARGE: usize = 1 << 20;
/// A line that would exceed this is rejected.
const LINES_BYTES_MAX: usize = 4 << 20;

/// Samples or lines of events, with counts of rejected input. Packets of flows go to the flows at once and are only
/// counted here.
pub(crate) struct CollectorBatch {
    game: u32,
    flows: Arc<Flows>,
    /// Accepted packets of flows.
    pub(crate) packets: u64,
    pub(crate) samples: SampleTable,
    /// Lines of events, each with its newline.
    pub(crate) lines: Vec<u8>,
    lines_count: usize,
    pub(crate) rejects: RejectTally,
}

impl CollectorBatch {
    /// Returns an empty batch for a game.
    pub(crate) fn new(game: u32, samples: SampleTable, flows: Arc<Flows>) -> CollectorBatch {
        let (lines, rejects) = (Vec::new(), RejectTally::default());
        CollectorBatch { game, flows, packets: 0, samples, lines, lines_count: 0, rejects }
    }

    /// Decodes complete lines, or a packet of them, and adds what they contain.
    #[inline]
    pub(crate) fn decode(&mut self, decoder: &Decoder, bytes: &[u8], now_ms: i64) {
        #[cfg(feature = "fault-injection")]
        inject_panic(bytes);
        match decoder {
            Decoder::Statsd => statsd::decode(bytes, |result| self.add_sample(result, now_ms)),
            Decoder::Influx(precision) => {
                influx::decode(bytes, *precision, |result| self.add_sample(result, now_ms));
            }
            Decoder::Json | Decoder::Csv(_) => {
                bytes.split(|byte| *byte == b'\n').for_each(|line| self.add_line(line));
            }
            Decoder::Flow => self.apply_flow_lines(bytes),
            // RTCP goes to the flows directly; only rejected datagrams are added here.
            Decoder::Rtcp { .. } => {}
        }
    }

    #[inline]
    fn add_sample(&mut self, result: SampleResult<'_>, now_ms: i64) {
        match result {
            Ok(sample) => {
                if let Err(reject) = self.samples.add(&sample, now_ms) {
                    self.reject(reject, sample.name.as_bytes());
                }
            }
            Err(rejected) => self.reject(rejected.reject, rejected.text),
        }
    }

    fn add_line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        if self.lines_count >= EVENTS_PER_REQUEST_MAX || self.lines.len() + line.len() > LINES_BYTES_MAX {
            return self.reject(Reject::QueueFull, line);
        }
        if str::from_utf8(line).is_err() {
            return self.reject(Reject::NotUtf8, line);
        }
        self.lines.extend_from_slice(line);
        self.lines.push(b'\n');
        self.lines_count += 1;
    }

    fn apply_flow_lines(&mut self, bytes: &[u8]) {
        let counts = self.flows.apply_lines(self.game, bytes, &mut self.rejects);
        self.packets += counts.packets() - counts.rejected;
    }

    /// Counts a rejected line and keeps its text for the Live page.
    #[cold]
    pub(crate) fn reject(&mut self, reject: Reject, text: &[u8]) {
        self.rejects.add(reject, text);
    }

    /// Counts packets that the kernel dropped.
    pub(crate) fn add_lost(&mut self, packets: u32) {
        self.rejects.add_count(Reject::QueueFull, packets);
    }

    /// Returns the number of accepted samples and the number of rejected ones.
    #[cfg(test)]
    pub(crate) fn counts(&mut self) -> (u32, u32) {
        let rows = self.samples.encode().into_iter().flatten();
        let accepted = rows.map(|row| self.samples.sample_count(row)).sum();
        (accepted, self.rejects.total() as u32)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.lines.is_empty() && self.packets == 0 && self.rejects.is_empty()
    }

    /// Returns true if the batch should be written without waiting for more.
    pub(crate) fn is_large(&self) -> bool {
        self.samples.is_large() || self.lines_count >= LINES_LARGE || self.lines.len() >= LINES_BYTES_LARGE
    }

    /// Empties the batch. From now on it is for a game with these settings.
    pub(crate) fn clear(&mut self, settings: &GameSettings) {
        self.samples.clear(Dimensions::of(settings));
        self.lines.clear();
        self.lines_count = 0;
        self.packets = 0;
        self.rejects.clear();
    }
}

/// Panics on certain bytes if that fault is enabled.
#[cfg(feature = "fault-injection")]
fn inject_panic(bytes: &[u8]) {
    let is_enabled = std::env::var_os("PLAYMETER_INJECTED_FAULT")
        .is_some_and(|injected_fault| injected_fault == "collector_panics");
    assert!(!is_enabled || bytes != b"panic!", "injected fault");
}
