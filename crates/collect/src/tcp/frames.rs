//! Where in a stream one line or packet ends and the next begins.

use anyhow::bail;
use decode::lines::{LineChunk, LineSplitter};
use model::Reject;

use crate::intake::Batch;
use crate::settings::{Decoder, Framing, StreamSettings};
use pipeline::time::now_ms;

/// Lines that are decoded at once.
const LINES_AT_ONCE: usize = 1_000;
/// The length before a frame.
const LENGTH_BYTES: usize = 4;

/// Bytes of one stream that have not been taken.
pub(super) enum Frames {
    Lines(LineSplitter),
    Lengths { bytes: Vec<u8>, frame_bytes_max: usize },
}

impl Frames {
    pub(super) fn new(settings: StreamSettings) -> Frames {
        let frame_bytes_max = settings.frame_bytes_max;
        match settings.framing {
            Framing::Newline => Frames::Lines(LineSplitter::new(frame_bytes_max)),
            Framing::Length => Frames::Lengths { bytes: Vec::new(), frame_bytes_max },
        }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        match self {
            Frames::Lines(lines) => lines.push(chunk),
            Frames::Lengths { bytes, .. } => bytes.extend_from_slice(chunk),
        }
    }

    /// Nothing more will come. A line is whole without its newline, a frame is not without its last byte.
    pub(super) fn finish(&mut self) {
        if let Frames::Lines(lines) = self {
            lines.finish();
        }
    }

    /// Takes everything that is whole, and says how many packets that were. A line that is too long is refused alone; of
    /// a frame that is too long it cannot be believed that its length is one.
    pub(super) fn take(&mut self, decoder: &Decoder, batch: &mut Batch) -> anyhow::Result<u64> {
        let now = now_ms();
        match self {
            Frames::Lines(lines) => {
                let mut pieces = 0;
                while let Some(piece) = lines.next_chunk(LINES_AT_ONCE) {
                    match piece {
                        LineChunk::Lines { bytes, .. } => batch.take(decoder, bytes, now),
                        LineChunk::TooLong { .. } => batch.refuse(Reject::EventTooLarge, b""),
                    }
                    pieces += 1;
                }
                Ok(pieces)
            }
            Frames::Lengths { bytes, frame_bytes_max } => {
                let mut frames = 0;
                let mut rest = bytes.as_slice();
                while let Some((frame, behind)) = first_frame(rest, *frame_bytes_max, batch)? {
                    batch.take(decoder, frame, now);
                    (rest, frames) = (behind, frames + 1);
                }
                let taken = bytes.len() - rest.len();
                bytes.drain(..taken);
                Ok(frames)
            }
        }
    }
}

/// The first frame and what stands behind it. Nothing: more bytes have to come first.
fn first_frame<'a>(
    bytes: &'a [u8],
    frame_bytes_max: usize,
    batch: &mut Batch,
) -> anyhow::Result<Option<(&'a [u8], &'a [u8])>> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > frame_bytes_max {
        batch.refuse(Reject::EventTooLarge, b"");
        bail!("a frame of {length} bytes is longer than {frame_bytes_max}");
    }
    Ok(rest.split_at_checked(length))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::samples::{Dimensions, Table};

    /// What a stream comes to, however it is cut: how many samples, how many refused, and whether it went well.
    fn check(framing: Framing, stream: &[u8], expected: (u32, u32, bool)) {
        for size in [1, 2, 3, 7, stream.len().max(1)] {
            let idle_timeout = Duration::from_secs(1);
            let mut frames = Frames::new(StreamSettings { framing, frame_bytes_max: 12, idle_timeout });
            let mut batch =
                Batch::new(1, Table::new(Dimensions::default(), 1, Arc::default()), Arc::default());
            let mut taken = stream.chunks(size).try_for_each(|chunk| {
                frames.push(chunk);
                frames.take(&Decoder::Statsd, &mut batch).map(drop)
            });
            frames.finish();
            taken = taken.and_then(|()| frames.take(&Decoder::Statsd, &mut batch).map(drop));
            let (samples, refused) = batch.counts();
            assert_eq!((samples, refused, taken.is_ok()), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn lines_end_with_a_newline_or_the_stream() {
        check(Framing::Newline, b"", (0, 0, true));
        check(Framing::Newline, b"a:1|c\nb:2|c\n\nc:3|c", (3, 0, true));
        check(Framing::Newline, b"a:1|c\nmuch too long:2|c\nbad\nc:3|c\n", (2, 2, true));
    }

    #[test]
    fn frames_say_their_length() {
        let frame = |text: &[u8]| [&(text.len() as u32).to_be_bytes()[..], text].concat();
        let two = [frame(b"a:1|c\nb:2|c"), frame(b""), frame(b"c:3|c")].concat();
        check(Framing::Length, &two, (3, 0, true));
        check(Framing::Length, &two[..two.len() - 1], (2, 0, true));
        check(Framing::Length, &[frame(b"a:1|c"), frame(b"0123456789abc")].concat(), (1, 1, false));
    }
}
