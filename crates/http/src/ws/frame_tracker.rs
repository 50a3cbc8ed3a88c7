//! Tracks frame boundaries in received bytes, to know when the protocol has no partial frame or message buffered.

use std::io::Cursor;

use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Data, OpCode};

/// The longest frame header.
const HEAD_BYTES_MAX: usize = 14;

/// Tracks the frames of one direction.
#[derive(Debug, Default)]
pub(super) struct FrameTracker {
    /// The received part of an incomplete header.
    head: [u8; HEAD_BYTES_MAX],
    head_len: u8,
    /// The payload bytes of the current frame that are still missing.
    missing: u64,
    /// The last frame of a message has not arrived yet.
    in_message: bool,
    /// The payload bytes of the frames of the current message, up to the end of the current frame.
    message: u64,
    /// The largest message.
    largest: u64,
}

impl FrameTracker {
    /// Tracks these bytes. The result for bytes that violate the protocol does not matter: the connection is closed.
    pub(super) fn advance(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let payload = self.missing.min(bytes.len() as u64);
            self.missing -= payload;
            bytes = &bytes[payload as usize..];
            let Some((byte, others)) = bytes.split_first() else { return };
            bytes = others;
            self.advance_head(*byte);
        }
    }

    fn advance_head(&mut self, byte: u8) {
        let at = usize::from(self.head_len) % HEAD_BYTES_MAX;
        self.head[at] = byte;
        self.head_len = at as u8 + 1;
        let mut head = Cursor::new(&self.head[..=at]);
        let Ok(Some((header, length))) = FrameHeader::parse(&mut head) else { return };
        if let OpCode::Data(Data::Text | Data::Binary | Data::Continue) = header.opcode {
            // The first frame of a message has another code than the others.
            let before = if header.opcode == OpCode::Data(Data::Continue) { self.message } else { 0 };
            self.message = before.saturating_add(length);
            self.in_message = !header.is_final;
        }
        (self.head_len, self.missing, self.largest) = (0, length, self.largest.max(self.message));
    }

    /// Returns true if every frame and message is complete and one message was larger than `bytes`.
    pub(super) fn is_idle_after_message_over(&self, bytes: u64) -> bool {
        self.largest > bytes && self.is_idle()
    }

    /// Returns true if every frame and message is complete.
    pub(super) fn is_idle(&self) -> bool {
        self.head_len == 0 && self.missing == 0 && !self.in_message
    }

    /// Returns the payload bytes of an incomplete message that have arrived.
    pub(super) fn received_bytes(&self) -> u64 {
        if self.missing == 0 && !self.in_message { 0 } else { self.message.saturating_sub(self.missing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Encodes a frame of a client: `(opcode, is final, length)`.
    fn frame((opcode, is_final, length): (u8, bool, usize)) -> Vec<u8> {
        let header =
            FrameHeader { is_final, opcode: opcode.into(), mask: Some([1; 4]), ..FrameHeader::default() };
        let mut bytes = Vec::new();
        header.format(length as u64, &mut bytes).expect("writing to memory never fails");
        bytes.resize(bytes.len() + length, b'x');
        bytes
    }

    /// Checks after which frames, counted from 0, the tracker is idle after a frame of more than 100 bytes.
    fn check(frames: &[(u8, bool, usize)], expected: &[usize]) {
        let mut tracker = FrameTracker::default();
        let mut idle_after = Vec::new();
        for (number, spec) in frames.iter().enumerate() {
            let bytes = frame(*spec);
            tracker.advance(&bytes[..bytes.len() - 1]);
            assert!(!tracker.is_idle_after_message_over(100), "in the middle of frame {number}");
            tracker.advance(&bytes[bytes.len() - 1..]);
            if tracker.is_idle_after_message_over(100) {
                idle_after.push(number);
            }
        }
        assert_eq!(idle_after, expected, "{frames:?}");
    }

    #[test]
    fn message_is_complete_after_its_final_frame() {
        check(&[(1, true, 5), (2, true, 100)], &[]);
        check(&[(1, true, 5), (2, true, 101), (1, true, 5)], &[1, 2]);
        check(&[(1, true, 70_000)], &[0]);
        check(&[(1, false, 200), (9, true, 3), (0, false, 1), (0, true, 1), (10, true, 1)], &[3, 4]);
    }

    #[test]
    fn bytes_of_an_incomplete_message_are_counted_over_its_frames() {
        let mut tracker = FrameTracker::default();
        let mut check = |spec, cut: usize, expected: u64| {
            let bytes = frame(spec);
            tracker.advance(&bytes[..bytes.len() - cut]);
            assert_eq!(tracker.received_bytes(), expected, "{spec:?} without {cut} bytes");
            tracker.advance(&bytes[bytes.len() - cut..]);
        };
        check((1, true, 5_000), 1_000, 4_000);
        check((1, false, 70_000), 1, 69_999);
        check((9, true, 100), 0, 70_000);
        check((0, false, 300), 0, 70_300);
        check((0, true, 100), 40, 70_360);
        check((2, true, 7), 0, 0);
    }

    proptest! {
        #[test]
        fn chunking_of_the_bytes_does_not_matter(
            frames in prop::collection::vec((prop::sample::select(vec![0u8, 1, 2, 9, 10]), any::<bool>(), 0usize..300), 0..8),
            cuts in prop::collection::vec(1usize..50, 1..9),
        ) {
            let bytes: Vec<u8> = frames.into_iter().flat_map(frame).collect();
            let mut whole = FrameTracker::default();
            whole.advance(&bytes);
            let mut cut = FrameTracker::default();
            let (mut rest, mut cuts) = (bytes.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (chunk, others) = rest.split_at((*cuts.next().expect("cycle never ends")).min(rest.len()));
                cut.advance(chunk);
                rest = others;
            }
            prop_assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            FrameTracker::default().advance(&bytes);
        }
    }
}
