//! Where frames end in what comes in, to know when the protocol holds nothing of them.

use std::io::Cursor;

use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Data, OpCode};

/// The longest head of a frame.
const HEAD_BYTES_MAX: usize = 14;

/// Follows the frames of one direction.
#[derive(Debug, Default)]
pub(super) struct Boundary {
    /// A head that has come in part.
    head: [u8; HEAD_BYTES_MAX],
    head_len: u8,
    /// What is still to come of the frame whose head was read.
    rest: u64,
    /// A message has begun and its last frame has not come.
    in_message: bool,
    largest: u64,
}

impl Boundary {
    /// Follows these bytes. Of what breaks the protocol it makes what it can: the connection ends anyway.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let payload = self.rest.min(bytes.len() as u64);
            self.rest -= payload;
            bytes = &bytes[payload as usize..];
            let Some((byte, others)) = bytes.split_first() else { return };
            bytes = others;
            self.pass_head(*byte);
        }
    }

    fn pass_head(&mut self, byte: u8) {
        let at = usize::from(self.head_len) % HEAD_BYTES_MAX;
        self.head[at] = byte;
        self.head_len = at as u8 + 1;
        let mut head = Cursor::new(&self.head[..=at]);
        let Ok(Some((header, length))) = FrameHeader::parse(&mut head) else { return };
        if let OpCode::Data(Data::Text | Data::Binary | Data::Continue) = header.opcode {
            self.in_message = !header.is_final;
        }
        (self.head_len, self.rest, self.largest) = (0, length, self.largest.max(length));
    }

    /// Whether everything that began has ended, and a frame larger than this was among it.
    pub(super) fn leaves_more_than(&self, bytes: u64) -> bool {
        self.largest > bytes && self.head_len == 0 && self.rest == 0 && !self.in_message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame of a client: `(opcode, is last, length)`.
    fn frame((opcode, is_final, length): (u8, bool, usize)) -> Vec<u8> {
        let header =
            FrameHeader { is_final, opcode: opcode.into(), mask: Some([1; 4]), ..FrameHeader::default() };
        let mut bytes = Vec::new();
        header.format(length as u64, &mut bytes).expect("memory takes every byte");
        bytes.resize(bytes.len() + length, b'x');
        bytes
    }

    /// At the ends of which frames, counted from the first, nothing is left of more than 100 bytes.
    fn check(frames: &[(u8, bool, usize)], expected: &[usize]) {
        let mut boundary = Boundary::default();
        let mut empty = Vec::new();
        for (number, about) in frames.iter().enumerate() {
            let bytes = frame(*about);
            boundary.pass(&bytes[..bytes.len() - 1]);
            assert!(!boundary.leaves_more_than(100), "in the middle of frame {number}");
            boundary.pass(&bytes[bytes.len() - 1..]);
            if boundary.leaves_more_than(100) {
                empty.push(number);
            }
        }
        assert_eq!(empty, expected, "{frames:?}");
    }

    #[test]
    fn a_message_has_ended_when_its_last_frame_has() {
        check(&[(1, true, 5), (2, true, 100)], &[]);
        check(&[(1, true, 5), (2, true, 101), (1, true, 5)], &[1, 2]);
        check(&[(1, true, 70_000)], &[0]);
        check(&[(1, false, 200), (9, true, 3), (0, false, 1), (0, true, 1), (10, true, 1)], &[3, 4]);
    }

    proptest! {
        #[test]
        fn how_the_bytes_arrive_does_not_matter(
            frames in prop::collection::vec((prop::sample::select(vec![0u8, 1, 2, 9, 10]), any::<bool>(), 0usize..300), 0..8),
            cuts in prop::collection::vec(1usize..50, 1..9),
        ) {
            let bytes: Vec<u8> = frames.into_iter().flat_map(frame).collect();
            let mut whole = Boundary::default();
            whole.pass(&bytes);
            let mut cut = Boundary::default();
            let (mut rest, mut cuts) = (bytes.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (piece, others) = rest.split_at((*cuts.next().expect("a cycle")).min(rest.len()));
                cut.pass(piece);
                rest = others;
            }
            prop_assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
        }

        #[test]
        fn any_bytes_are_followed(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            Boundary::default().pass(&bytes);
        }
    }
}
