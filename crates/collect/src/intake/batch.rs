//! What came since the last flush.

use std::sync::Arc;

use decode::sample::SampleResult;
use decode::{influx, statsd};
use model::Reject;
use model::limits::EVENTS_PER_REQUEST_MAX;

use crate::samples::{Dimensions, Table};
use crate::settings::Decoder;
use pipeline::catalog::GameSettings;
use pipeline::flows::Flows;
use pipeline::reject_tally::RejectTally;

/// Events after which they are written.
const LINES_LARGE: usize = EVENTS_PER_REQUEST_MAX / 8;
/// Bytes of events after which they are written, and of which no more are taken.
const LINES_BYTES_LARGE: usize = 1 << 20;
const LINES_BYTES_MAX: usize = 4 << 20;

/// Samples, or lines of events, and what was refused. Packets of flows are handed on at once, and only counted here.
pub struct Batch {
    game: u32,
    flows: Arc<Flows>,
    /// Packets of flows that were handed on.
    pub(crate) packets: u64,
    pub(super) samples: Table,
    /// Lines of events, each with its newline.
    pub(super) lines: Vec<u8>,
    lines_count: usize,
    pub(crate) refusals: RejectTally,
}

impl Batch {
    /// Nothing came.
    pub fn new(game: u32, samples: Table, flows: Arc<Flows>) -> Batch {
        let (lines, refusals) = (Vec::new(), RejectTally::default());
        Batch { game, flows, packets: 0, samples, lines, lines_count: 0, refusals }
    }

    /// Takes whole lines, or a packet of them.
    #[inline]
    pub fn take(&mut self, decoder: &Decoder, bytes: &[u8], now_ms: i64) {
        #[cfg(feature = "fault-injection")]
        inject_panic(bytes);
        match decoder {
            Decoder::Statsd => statsd::decode(bytes, |taken| self.sample(taken, now_ms)),
            Decoder::Influx(precision) => {
                influx::decode(bytes, *precision, |taken| self.sample(taken, now_ms));
            }
            Decoder::Json | Decoder::Csv(_) => {
                bytes.split(|byte| *byte == b'\n').for_each(|line| self.line(line));
            }
            Decoder::Flow => self.flow_lines(bytes),
            // It goes to the flows; only what was refused comes here.
            Decoder::Rtcp { .. } => {}
        }
    }

    #[inline]
    fn sample(&mut self, taken: SampleResult<'_>, now_ms: i64) {
        match taken {
            Ok(sample) => {
                if let Err(reject) = self.samples.take(&sample, now_ms) {
                    self.refuse(reject, sample.name.as_bytes());
                }
            }
            Err(refused) => self.refuse(refused.reject, refused.text),
        }
    }

    fn line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        if self.lines_count >= EVENTS_PER_REQUEST_MAX || self.lines.len() + line.len() > LINES_BYTES_MAX {
            return self.refuse(Reject::QueueFull, line);
        }
        if str::from_utf8(line).is_err() {
            return self.refuse(Reject::NotUtf8, line);
        }
        self.lines.extend_from_slice(line);
        self.lines.push(b'\n');
        self.lines_count += 1;
    }

    fn flow_lines(&mut self, bytes: &[u8]) {
        let taken = self.flows.apply_lines(self.game, bytes, &mut self.refusals);
        self.packets += taken.packets() - taken.rejected;
    }

    /// Counts a line that was refused, and remembers it for people to look at.
    #[cold]
    pub fn refuse(&mut self, reject: Reject, text: &[u8]) {
        self.refusals.add(reject, text);
    }

    /// Counts packets that the kernel had no room for.
    pub(super) fn lost(&mut self, packets: u32) {
        self.refusals.add_count(Reject::QueueFull, packets);
    }

    /// How many samples were taken, and how many refused.
    #[cfg(test)]
    pub(crate) fn counts(&mut self) -> (u32, u32) {
        let rows = self.samples.encode().into_iter().flatten();
        let taken = rows.map(|row| self.samples.taken(row)).sum();
        (taken, self.refusals.total() as u32)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.lines.is_empty() && self.packets == 0 && self.refusals.is_empty()
    }

    pub(super) fn is_large(&self) -> bool {
        self.samples.is_large() || self.lines_count >= LINES_LARGE || self.lines.len() >= LINES_BYTES_LARGE
    }

    pub(super) fn clear(&mut self, settings: &GameSettings) {
        self.samples.clear(Dimensions::of(settings));
        self.lines.clear();
        self.lines_count = 0;
        self.packets = 0;
        self.refusals.clear();
    }
}

/// A decoder that panics at some bytes, if that bug was chosen.
#[cfg(feature = "fault-injection")]
fn inject_panic(bytes: &[u8]) {
    let is_chosen = std::env::var_os("PLAYMETER_INJECTED_FAULT")
        .is_some_and(|injected_fault| injected_fault == "collector_panics");
    assert!(!is_chosen || bytes != b"panic!", "on purpose");
}
