//! Framing: divides a stream into lines or packets.

use anyhow::bail;
use decode::lines::{LineChunk, LineSplitter};
use model::Reject;
use pipeline::time::now_ms;

use crate::batch::CollectorBatch;
use crate::settings::{Decoder, Framing, StreamSettings};

/// Lines decoded at once.
const LINES_AT_ONCE: usize = 1_000;
/// Bytes of the length that precedes each packet.
const LENGTH_BYTES: usize = 4;

/// Bytes of one stream that are not decoded yet.
pub(super) enum FrameSplitter {
    Lines(LineSplitter),
    Lengths { bytes: Vec<u8>, frame_bytes_max: usize },
}

impl FrameSplitter {
    pub(super) fn new(settings: StreamSettings) -> FrameSplitter {
        let frame_bytes_max = settings.frame_bytes_max;
        match settings.framing {
            Framing::Newline => FrameSplitter::Lines(LineSplitter::new(frame_bytes_max)),
            Framing::Length => FrameSplitter::Lengths { bytes: Vec::new(), frame_bytes_max },
        }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        match self {
            FrameSplitter::Lines(lines) => lines.push(chunk),
            FrameSplitter::Lengths { bytes, .. } => bytes.extend_from_slice(chunk),
        }
    }

    /// Marks the end of the stream. A last line is complete without its newline; a packet cut short is not.
    pub(super) fn finish(&mut self) {
        if let FrameSplitter::Lines(lines) = self {
            lines.finish();
        }
    }

    /// Decodes everything that is complete into the batch, and returns the number of packets. A line that is too long is
    /// rejected, and the next line is read. A packet that is too long is an error: its length cannot be trusted.
    pub(super) fn decode_into(
        &mut self,
        decoder: &Decoder,
        batch: &mut CollectorBatch,
    ) -> anyhow::Result<u64> {
        let now = now_ms();
        match self {
            FrameSplitter::Lines(lines) => {
                let mut pieces = 0;
                while let Some(piece) = lines.next_chunk(LINES_AT_ONCE) {
                    match piece {
                        LineChunk::Lines { bytes, .. } => batch.decode(decoder, bytes, now),
                        LineChunk::TooLong { .. } => batch.reject(Reject::EventTooLarge, b""),
                    }
                    pieces += 1;
                }
                Ok(pieces)
            }
            FrameSplitter::Lengths { bytes, frame_bytes_max } => {
                let mut frames = 0;
                let mut rest = bytes.as_slice();
                while let Some((frame, remaining)) = first_frame(rest, *frame_bytes_max, batch)? {
                    batch.decode(decoder, frame, now);
                    (rest, frames) = (remaining, frames + 1);
                }
                let decoded = bytes.len() - rest.len();
                bytes.drain(..decoded);
                Ok(frames)
            }
        }
    }
}

/// Splits off the first packet and returns it with the remaining bytes. Returns `None` if it is not complete yet.
fn first_frame<'a>(
    bytes: &'a [u8],
    frame_bytes_max: usize,
    batch: &mut CollectorBatch,
) -> anyhow::Result<Option<(&'a [u8], &'a [u8])>> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > frame_bytes_max {
        batch.reject(Reject::EventTooLarge, b"");
        bail!("a packet has {length} bytes, more than frame_bytes_max = {frame_bytes_max}");
    }
    Ok(rest.split_at_checked(length))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::samples::{Dimensions, SampleTable};

    /// Decodes a stream in chunks of several sizes. Expected are the accepted samples, the rejected ones, and whether there
    /// was no error.
    fn check(framing: Framing, stream: &[u8], expected: (u32, u32, bool)) {
        for size in [1, 2, 3, 7, stream.len().max(1)] {
            let idle_timeout = Duration::from_secs(1);
            let mut frames =
                FrameSplitter::new(StreamSettings { framing, frame_bytes_max: 12, idle_timeout });
            let mut batch = CollectorBatch::new(
                1,
                SampleTable::new(Dimensions::default(), 1, Arc::default()),
                Arc::default(),
            );
            let mut result = stream.chunks(size).try_for_each(|chunk| {
                frames.push(chunk);
                frames.decode_into(&Decoder::Statsd, &mut batch).map(drop)
            });
            frames.finish();
            result = result.and_then(|()| frames.decode_into(&Decoder::Statsd, &mut batch).map(drop));
            let (samples, rejected) = batch.counts();
            assert_eq!((samples, rejected, result.is_ok()), expected, "in chunks of {size}");
        }
    }

    #[test]
    fn newline_or_end_of_stream_ends_a_line() {
        check(Framing::Newline, b"", (0, 0, true));
        check(Framing::Newline, b"a:1|c\nb:2|c\n\nc:3|c", (3, 0, true));
        check(Framing::Newline, b"a:1|c\nmuch too long:2|c\nbad\nc:3|c\n", (2, 2, true));
    }

    #[test]
    fn packets_are_preceded_by_their_length() {
        let frame = |text: &[u8]| [&(text.len() as u32).to_be_bytes()[..], text].concat();
        let two = [frame(b"a:1|c\nb:2|c"), frame(b""), frame(b"c:3|c")].concat();
        check(Framing::Length, &two, (3, 0, true));
        check(Framing::Length, &two[..two.len() - 1], (2, 0, true));
        check(Framing::Length, &[frame(b"a:1|c"), frame(b"0123456789abc")].concat(), (1, 1, false));
    }
}
