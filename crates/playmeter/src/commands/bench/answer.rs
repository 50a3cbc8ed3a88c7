//! Reading HTTP/1.1 answers and receipts, as cheaply as the generator has to be.

use std::ops::Range;

/// One answer found at the front of what a connection has received.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Where the body is; chunked bodies are given as they came, with their chunk sizes.
    pub body: Range<usize>,
    /// How many bytes the whole answer takes.
    pub length: usize,
    /// The server will close the connection after it.
    pub closes: bool,
}

/// What came is not HTTP.
#[derive(Debug, PartialEq)]
pub struct NotHttp;

/// How the end of a body is known.
#[derive(Clone, Copy, PartialEq)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

impl Answer {
    /// Finds the first answer in `bytes`; `None` when it is not complete. `ended`: the server has
    /// closed, which completes a body that gave no length.
    pub fn read(bytes: &[u8], ended: bool) -> Result<Option<Self>, NotHttp> {
        let Some(head_length) = head_length(bytes) else { return Ok(None) };
        let (head, rest) = bytes.split_at(head_length);
        let status = status(head).ok_or(NotHttp)?;
        let (framing, closes) = framing(head, status)?;
        let body_length = match framing {
            Framing::Length(length) => (rest.len() >= length).then_some(length),
            Framing::Chunked => chunks_length(rest)?,
            Framing::UntilClose => ended.then_some(rest.len()),
        };
        Ok(body_length.map(|length| Self {
            status,
            body: head_length..head_length + length,
            length: head_length + length,
            closes,
        }))
    }
}

/// Bytes of a chunked body up to and with its empty chunk; trailers are not expected.
fn chunks_length(bytes: &[u8]) -> Result<Option<usize>, NotHttp> {
    let mut at = 0;
    while let Some(line) = bytes.get(at..).and_then(|rest| find(rest, b"\r\n")) {
        let digits = std::str::from_utf8(&bytes[at..at + line]).map_err(|_| NotHttp)?;
        let size = u32::from_str_radix(digits, 16).map_err(|_| NotHttp)? as usize;
        at += line + size + 4;
        if size == 0 {
            return Ok((at <= bytes.len()).then_some(at));
        }
    }
    Ok(None)
}

/// Bytes of the head with its empty line.
fn head_length(bytes: &[u8]) -> Option<usize> {
    find(bytes, b"\r\n\r\n").map(|at| at + 4)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == wanted[0]) {
        from += at;
        if bytes[from..].starts_with(wanted) {
            return Some(from);
        }
        from += 1;
    }
    None
}

fn status(head: &[u8]) -> Option<u16> {
    let digits = head.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn framing(head: &[u8], status: u16) -> Result<(Framing, bool), NotHttp> {
    let bodiless = matches!(status, 204 | 304);
    let mut framing = if bodiless { Framing::Length(0) } else { Framing::UntilClose };
    let mut closes = head.starts_with(b"HTTP/1.0");
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        if let Some(value) = header(line, b"content-length") {
            framing = Framing::Length(number(value).ok_or(NotHttp)? as usize);
        } else if header(line, b"transfer-encoding").is_some() {
            framing = Framing::Chunked;
        } else if let Some(value) = header(line, b"connection") {
            closes = value.eq_ignore_ascii_case(b"close");
        }
    }
    Ok((framing, closes || framing == Framing::UntilClose))
}

fn header<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, value) = line.split_at_checked(name.len())?;
    let value = value.strip_prefix(b":").filter(|_| found.eq_ignore_ascii_case(name))?;
    Some(value.trim_ascii())
}

/// The number at the front of `text`.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

/// The counts of a receipt.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Receipt {
    pub accepted: u64,
    pub duplicate: u64,
    pub late: u64,
    pub limited: u64,
    pub invalid: u64,
}

impl Receipt {
    /// Reads the counts from an answer's body; `None` when it is no receipt.
    pub fn read(body: &[u8]) -> Option<Self> {
        let accepted = count(body, b"\"accepted\":")?;
        let of = |key| count(body, key).unwrap_or(0);
        Some(Self {
            accepted,
            duplicate: of(b"\"duplicate\":"),
            late: of(b"\"late\":"),
            limited: of(b"\"limited\":"),
            invalid: of(b"\"invalid\":"),
        })
    }
}

fn count(body: &[u8], key: &[u8]) -> Option<u64> {
    number(body[find(body, key)? + key.len()..].trim_ascii_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &str, expected: Result<Option<(u16, &str)>, NotHttp>) {
        check_ended(bytes, false, expected);
    }

    #[track_caller]
    fn check_ended(bytes: &str, ended: bool, expected: Result<Option<(u16, &str)>, NotHttp>) {
        let read = Answer::read(bytes.as_bytes(), ended);
        let read = read.map(|answer| answer.map(|answer| (answer.status, &bytes[answer.body])));
        assert_eq!(read, expected);
    }

    #[test]
    fn a_body_ends_where_its_length_says() {
        check("HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\nokHTTP/1.1", Ok(Some((202, "ok"))));
    }

    #[test]
    fn an_answer_without_body_needs_no_length() {
        check("HTTP/1.1 204 No Content\r\n\r\n", Ok(Some((204, ""))));
    }

    #[test]
    fn a_part_of_an_answer_is_none_yet() {
        check("HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\no", Ok(None));
        check("HTTP/1.1 202 Acc", Ok(None));
    }

    #[test]
    fn a_chunked_body_ends_with_its_empty_chunk() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(&format!("{head}2\r\nok\r\n"), Ok(None));
        check(&format!("{head}5\r\n0\r\n\r\n\r\n"), Ok(None));
        check(&format!("{head}2\r\nok\r\n0\r\n\r\n"), Ok(Some((200, "2\r\nok\r\n0\r\n\r\n"))));
    }

    #[test]
    fn a_body_without_length_ends_with_the_connection() {
        check_ended("HTTP/1.1 200 OK\r\n\r\nok", false, Ok(None));
        check_ended("HTTP/1.1 200 OK\r\n\r\nok", true, Ok(Some((200, "ok"))));
    }

    #[test]
    fn something_else_is_not_http() {
        check("SSH-2.0-OpenSSH\r\n\r\n", Err(NotHttp));
        check("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", Err(NotHttp));
    }

    #[test]
    fn an_announced_close_is_seen() {
        let closes =
            |bytes: &[u8]| Answer::read(bytes, false).map(|answer| answer.map(|answer| answer.closes));
        assert_eq!(closes(b"HTTP/1.1 204 No Content\r\nConnection: Close\r\n\r\n"), Ok(Some(true)));
        assert_eq!(closes(b"HTTP/1.1 204 No Content\r\n\r\n"), Ok(Some(false)));
    }

    #[test]
    fn a_receipt_is_read_with_or_without_spaces() {
        let receipt = Receipt { accepted: 97, duplicate: 1, invalid: 2, ..Receipt::default() };
        let spaced = br#"{"accepted": 97, "duplicate": 1, "late": 0, "limited": 0, "invalid": 2,
            "results": [{"i": 3, "outcome": "duplicate"}]}"#;
        let tight = br#"{"accepted":97,"duplicate":1,"late":0,"limited":0,"invalid":2,"results":[]}"#;
        assert_eq!(Receipt::read(spaced), Some(receipt));
        assert_eq!(Receipt::read(tight), Some(receipt));
        assert_eq!(Receipt::read(b"ok"), None);
    }
}
