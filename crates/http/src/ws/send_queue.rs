//! Encoded frames, and the queue of bytes that a socket has yet to send.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Data, OpCode};

/// The buffers that one vectored write sends.
const SLICES_MAX: usize = 16;

/// Encodes messages as frames. A server's frames are not masked, so they are the same for all receivers.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    bytes: BytesMut,
}

impl FrameBuffer {
    /// Appends a text message.
    pub(crate) fn text(&mut self, text: &str) {
        self.data(Data::Text, text.as_bytes());
    }

    pub(super) fn data(&mut self, kind: Data, payload: &[u8]) {
        let header = FrameHeader { opcode: OpCode::Data(kind), ..FrameHeader::default() };
        let length = payload.len() as u64;
        self.bytes.reserve(header.len(length) + payload.len());
        header.format(length, &mut (&mut self.bytes).writer()).expect("writing to memory never fails");
        self.bytes.extend_from_slice(payload);
    }

    /// Returns the encoded frames, which many sockets can share.
    pub(crate) fn freeze(self) -> Bytes {
        self.bytes.freeze()
    }
}

/// Returns the texts of encoded text messages.
pub(crate) fn frame_texts(frames: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = std::io::Cursor::new(frames);
    std::iter::from_fn(move || {
        let (_, length) = FrameHeader::parse(&mut rest).ok()??;
        let start = usize::try_from(rest.position()).ok()?;
        let payload = frames.get(start..start + usize::try_from(length).ok()?)?;
        rest.set_position((start + payload.len()) as u64);
        std::str::from_utf8(payload).ok()
    })
}

/// The bytes that a socket has yet to send, in order. An empty queue holds no heap memory.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    buffers: VecDeque<Bytes>,
    bytes: usize,
}

impl SendQueue {
    /// Returns the number of queued bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.bytes += bytes.len();
            self.buffers.push_back(bytes);
        }
    }

    /// Returns the first buffers for one vectored write, and how many they are.
    pub(super) fn slices(&self) -> ([IoSlice<'_>; SLICES_MAX], usize) {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        for (slice, bytes) in slices.iter_mut().zip(&self.buffers) {
            *slice = IoSlice::new(bytes);
        }
        (slices, self.buffers.len().min(SLICES_MAX))
    }

    /// Removes the first `count` bytes, which were sent.
    pub(super) fn advance(&mut self, mut count: usize) {
        self.bytes -= count;
        while count > 0 {
            let first = self.buffers.front_mut().expect("sent bytes were in the queue");
            let here = first.len().min(count);
            first.advance(here);
            count -= here;
            if first.is_empty() {
                self.buffers.pop_front();
            }
        }
        if self.bytes == 0 {
            self.buffers = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(text: &str) -> Vec<u8> {
        let mut frames = FrameBuffer::default();
        frames.text(text);
        frames.freeze().to_vec()
    }

    /// RFC 6455, sections 5.2 and 5.7.
    #[test]
    fn frame_length_is_encoded_as_in_the_rfc() {
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
        fn texts_of_frames_are_read_back(texts in prop::collection::vec("\\PC{0,200}", 0..9), long in 0..70_000usize) {
            let texts: Vec<String> = texts.into_iter().chain(["x".repeat(long)]).collect();
            let mut frames = FrameBuffer::default();
            texts.iter().for_each(|text| frames.text(text));
            let frames = frames.freeze();
            prop_assert_eq!(frame_texts(&frames).collect::<Vec<_>>(), texts);
        }

        #[test]
        fn partial_writes_keep_the_order_of_the_bytes(
            buffers in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..200),
            write_sizes in prop::collection::vec(1usize..40, 1..20),
        ) {
            let mut queue = SendQueue::default();
            buffers.iter().for_each(|buffer| queue.push(Bytes::from(buffer.clone())));
            prop_assert_eq!(queue.len(), buffers.concat().len());
            let mut sent = Vec::new();
            let mut write_sizes = write_sizes.iter().cycle();
            while !queue.is_empty() {
                let (slices, count) = queue.slices();
                let offered: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                let count = offered.len().min(*write_sizes.next().expect("cycle never ends"));
                sent.extend_from_slice(&offered[..count]);
                queue.advance(count);
            }
            prop_assert_eq!(sent, buffers.concat());
            prop_assert_eq!(queue.buffers.capacity(), 0);
        }
    }
}
