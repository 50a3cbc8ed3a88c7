//! WebSocket frames as a client sends and reads them: RFC 6455, section 5.

use std::ops::Range;

/// A load generator's memory ends before a server's mistake does.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// A client has to mask. Nothing stands between it and the server that the mask would protect, so it is a fixed one.
const MASK: [u8; 4] = [0x5a, 0x17, 0xc3, 0x99];
const MASKED: u8 = 0x80;
const FINAL: u8 = 0x80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

/// One frame found at the front of what has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub opcode: Opcode,
    /// Where the payload is.
    pub payload: Range<usize>,
    /// How many bytes the whole frame takes.
    pub length: usize,
}

/// What came is no frame that a server may send here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    #[error("a frame with reserved bits or an unknown opcode")]
    Unknown,
    #[error("a message in several frames, which is not supported here")]
    Fragmented,
    #[error("a masked frame from a server")]
    Masked,
    #[error("a message of more than {PAYLOAD_BYTES_MAX} bytes")]
    TooLarge,
}

impl Frame {
    /// Finds the first frame in `bytes`; `None` when it is not complete.
    pub fn read(bytes: &[u8]) -> Result<Option<Frame>, BadFrame> {
        let [first, second, ..] = *bytes else { return Ok(None) };
        let opcode = Opcode::read(first)?;
        if second & MASKED != 0 {
            return Err(BadFrame::Masked);
        }
        let Some((payload_bytes, head)) = payload_bytes(second, bytes) else { return Ok(None) };
        if payload_bytes > PAYLOAD_BYTES_MAX as u64 {
            return Err(BadFrame::TooLarge);
        }
        let length = head + payload_bytes as usize;
        Ok((bytes.len() >= length).then_some(Frame { opcode, payload: head..length, length }))
    }

    /// Appends a frame with this payload.
    pub fn write(opcode: Opcode, payload: &[u8], out: &mut Vec<u8>) {
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

/// How long the payload is and where it begins.
fn payload_bytes(second: u8, bytes: &[u8]) -> Option<(u64, usize)> {
    match second {
        126 => Some((u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?).into(), 4)),
        127 => Some((u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?), 10)),
        short => Some((short.into(), 2)),
    }
}

impl Opcode {
    fn read(first: u8) -> Result<Opcode, BadFrame> {
        match first {
            0x81 => Ok(Opcode::Text),
            0x82 => Ok(Opcode::Binary),
            0x88 => Ok(Opcode::Close),
            0x89 => Ok(Opcode::Ping),
            0x8a => Ok(Opcode::Pong),
            0x00..=0x02 | 0x80 => Err(BadFrame::Fragmented),
            _ => Err(BadFrame::Unknown),
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
    fn check(bytes: &[u8], expected: Result<Option<(Opcode, &[u8])>, BadFrame>) {
        let found = Frame::read(bytes).map(|frame| frame.map(|frame| (frame.opcode, &bytes[frame.payload])));
        assert_eq!(found, expected);
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
    fn payloads_of_every_form_of_length_are_found() {
        for length in [0, 1, 125, 126, 65_535, 65_536] {
            check(&framed(length), Ok(Some((Opcode::Text, &vec![b'x'; length]))));
        }
    }

    #[test]
    fn a_frame_that_is_not_complete_is_waited_for() {
        for length in [5, 300, 70_000] {
            let bytes = framed(length);
            for cut in [0, 1, 2, 3, 9, bytes.len() - 1] {
                check(&bytes[..cut.min(bytes.len() - 1)], Ok(None));
            }
        }
    }

    #[test]
    fn what_follows_a_frame_is_left() {
        let frame = Frame::read(b"\x89\x02hi\x81").expect("it is a frame").expect("it is complete");
        assert_eq!((frame.opcode, frame.length), (Opcode::Ping, 4));
    }

    #[test]
    fn frames_that_no_server_may_send_are_refused() {
        check(b"\x81\x80....", Err(BadFrame::Masked));
        check(b"\xc1\x00", Err(BadFrame::Unknown));
        check(b"\x01\x00", Err(BadFrame::Fragmented));
        check(b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", Err(BadFrame::TooLarge));
    }

    #[test]
    fn what_is_sent_can_be_unmasked() {
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
