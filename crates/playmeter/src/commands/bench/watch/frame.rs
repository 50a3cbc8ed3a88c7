//! WebSocket frames of a client: RFC 6455, section 5.

use std::ops::Range;

/// Bounds the memory of the load generator if a server announces a huge frame.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// A client has to mask its frames. The mask protects proxies, of which there are none here, so that a fixed one is enough.
const MASK: [u8; 4] = [0x5a, 0x17, 0xc3, 0x99];
const MASKED: u8 = 0x80;
const FINAL: u8 = 0x80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

/// A complete frame at the start of the received bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) opcode: Opcode,
    /// The range of the payload.
    pub(crate) payload: Range<usize>,
    /// Length of the whole frame in bytes.
    pub(crate) length: usize,
}

/// The received bytes are not a frame that a server may send, or one that is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("received a frame with reserved bits or an unknown opcode")]
    Unknown,
    #[error("received a fragmented message, which is not supported")]
    Fragmented,
    #[error("received a masked frame from the server")]
    Masked,
    #[error("received a message of more than {PAYLOAD_BYTES_MAX} bytes")]
    TooLarge,
}

impl Frame {
    /// Parses the first frame in `bytes`. Returns `None` if it is incomplete.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Frame>, FrameError> {
        let [first, second, ..] = *bytes else { return Ok(None) };
        let opcode = Opcode::parse(first)?;
        if second & MASKED != 0 {
            return Err(FrameError::Masked);
        }
        let Some((payload_bytes, head)) = payload_bytes(second, bytes) else { return Ok(None) };
        if payload_bytes > PAYLOAD_BYTES_MAX as u64 {
            return Err(FrameError::TooLarge);
        }
        let length = head + payload_bytes as usize;
        Ok((bytes.len() >= length).then_some(Frame { opcode, payload: head..length, length }))
    }

    /// Appends a frame with this payload.
    pub(crate) fn write(opcode: Opcode, payload: &[u8], out: &mut Vec<u8>) {
        out.push(FINAL | opcode.number());
        match payload.len() {
            length @ 0..126 => out.push(MASKED | length as u8),
            length @ 126..65_536 => {
                out.push(MASKED | 126);
                out.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                out.push(MASKED | 127);
                out.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        out.extend_from_slice(&MASK);
        out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    }
}

/// Returns the length of the payload and its start.
fn payload_bytes(second: u8, bytes: &[u8]) -> Option<(u64, usize)> {
    match second {
        126 => Some((u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?).into(), 4)),
        127 => Some((u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?), 10)),
        short => Some((short.into(), 2)),
    }
}

impl Opcode {
    fn parse(first: u8) -> Result<Opcode, FrameError> {
        match first {
            0x81 => Ok(Opcode::Text),
            0x82 => Ok(Opcode::Binary),
            0x88 => Ok(Opcode::Close),
            0x89 => Ok(Opcode::Ping),
            0x8a => Ok(Opcode::Pong),
            0x00..=0x02 | 0x80 => Err(FrameError::Fragmented),
            _ => Err(FrameError::Unknown),
        }
    }

    fn number(self) -> u8 {
        match self {
            Opcode::Text => 1,
            Opcode::Binary => 2,
            Opcode::Close => 8,
            Opcode::Ping => 9,
            Opcode::Pong => 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Result<Option<(Opcode, &[u8])>, FrameError>) {
        let parsed =
            Frame::parse(bytes).map(|frame| frame.map(|frame| (frame.opcode, &bytes[frame.payload])));
        assert_eq!(parsed, expected);
    }

    fn framed(length: usize) -> Vec<u8> {
        let mut bytes = match length {
            0..126 => vec![0x81, length as u8],
            126..65_536 => [&[0x81, 126][..], &(length as u16).to_be_bytes()].concat(),
            _ => [&[0x81, 127][..], &(length as u64).to_be_bytes()].concat(),
        };
        bytes.extend(std::iter::repeat_n(b'x', length));
        bytes
    }

    #[test]
    fn payloads_with_all_length_encodings_are_parsed() {
        for length in [0, 1, 125, 126, 65_535, 65_536] {
            check(&framed(length), Ok(Some((Opcode::Text, &vec![b'x'; length]))));
        }
    }

    #[test]
    fn partial_frame_is_incomplete() {
        for length in [5, 300, 70_000] {
            let bytes = framed(length);
            for cut in [0, 1, 2, 3, 9, bytes.len() - 1] {
                check(&bytes[..cut.min(bytes.len() - 1)], Ok(None));
            }
        }
    }

    #[test]
    fn bytes_after_a_frame_are_ignored() {
        let frame = Frame::parse(b"\x89\x02hi\x81").expect("it is a frame").expect("it is complete");
        assert_eq!((frame.opcode, frame.length), (Opcode::Ping, 4));
    }

    #[test]
    fn invalid_frames_are_errors() {
        check(b"\x81\x80....", Err(FrameError::Masked));
        check(b"\xc1\x00", Err(FrameError::Unknown));
        check(b"\x01\x00", Err(FrameError::Fragmented));
        check(b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", Err(FrameError::TooLarge));
    }

    #[test]
    fn sent_frames_are_masked() {
        for length in [0, 3, 125, 126, 65_535, 65_536] {
            let payload: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let mut bytes = Vec::new();
            Frame::write(Opcode::Text, &payload, &mut bytes);
            bytes[1] &= !MASKED;
            let (head, masked) = bytes.split_at(bytes.len() - length);
            let (head, mask) = head.split_at(head.len() - 4);
            let plain = masked.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
            let bytes: Vec<u8> = head.iter().copied().chain(plain).collect();
            check(&bytes, Ok(Some((Opcode::Text, &payload))));
        }
    }
}
