//! What waits to be sent, in order: frames of one's own, and frames that many sockets share.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Data, OpCode};

/// What goes into one call of the operating system.
const SLICES_MAX: usize = 16;

/// Messages as frames, ready to be sent. A server's frames are not masked, so they are the same for everybody.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: BytesMut,
}

impl Frames {
    /// Adds a text message.
    pub fn text(&mut self, text: &str) {
        self.data(Data::Text, text.as_bytes());
    }

    pub(super) fn data(&mut self, kind: Data, payload: &[u8]) {
        let header = FrameHeader { opcode: OpCode::Data(kind), ..FrameHeader::default() };
        let length = payload.len() as u64;
        self.bytes.reserve(header.len(length) + payload.len());
        header.format(length, &mut (&mut self.bytes).writer()).expect("memory takes every byte");
        self.bytes.extend_from_slice(payload);
    }

    /// To be sent, to one or to many.
    pub fn freeze(self) -> Bytes {
        self.bytes.freeze()
    }
}

/// A queue of bytes. Empty, it holds no memory but its own.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<Bytes>,
    bytes: usize,
}

impl Outbox {
    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.bytes += bytes.len();
            self.queue.push_back(bytes);
        }
    }

    /// What comes first, as the operating system takes it in one call.
    pub(super) fn slices(&self) -> ([IoSlice<'_>; SLICES_MAX], usize) {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        for (slice, bytes) in slices.iter_mut().zip(&self.queue) {
            *slice = IoSlice::new(bytes);
        }
        (slices, self.queue.len().min(SLICES_MAX))
    }

    /// So many bytes are on their way.
    pub(super) fn sent(&mut self, mut count: usize) {
        self.bytes -= count;
        while count > 0 {
            let first = self.queue.front_mut().expect("what was sent was in the queue");
            let here = first.len().min(count);
            first.advance(here);
            count -= here;
            if first.is_empty() {
                self.queue.pop_front();
            }
        }
        if self.bytes == 0 {
            self.queue = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(text: &str) -> Vec<u8> {
        let mut frames = Frames::default();
        frames.text(text);
        frames.freeze().to_vec()
    }

    /// RFC 6455, sections 5.2 and 5.7.
    #[test]
    fn a_frame_tells_its_length_as_the_rfc_says() {
        assert_eq!(frame("Hello"), [0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f]);
        for (length, head) in [
            (0, &[0x81, 0][..]),
            (125, &[0x81, 125]),
            (126, &[0x81, 126, 0, 126]),
            (65535, &[0x81, 126, 255, 255]),
            (65536, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let frame = frame(&"x".repeat(length));
            assert_eq!((&frame[..head.len()], frame.len()), (head, head.len() + length));
        }
    }

    proptest! {
        #[test]
        fn whatever_the_network_takes_at_a_time_the_bytes_come_in_order(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..200),
            takes in prop::collection::vec(1usize..40, 1..20),
        ) {
            let mut outbox = Outbox::default();
            pieces.iter().for_each(|piece| outbox.push(Bytes::from(piece.clone())));
            prop_assert_eq!(outbox.len(), pieces.concat().len());
            let mut sent = Vec::new();
            let mut takes = takes.iter().cycle();
            while !outbox.is_empty() {
                let (slices, count) = outbox.slices();
                let offered: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                let taken = offered.len().min(*takes.next().expect("a cycle"));
                sent.extend_from_slice(&offered[..taken]);
                outbox.sent(taken);
            }
            prop_assert_eq!(sent, pieces.concat());
            prop_assert_eq!(outbox.queue.capacity(), 0);
        }
    }
}
