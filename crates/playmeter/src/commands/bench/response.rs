//! A minimal parser of HTTP/1.1 responses and receipts, fast enough for a load generator.

use std::ops::Range;

/// A complete response at the start of the received bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    /// The range of the body. Chunked bodies still contain their chunk sizes.
    pub(crate) body: Range<usize>,
    /// Length of the whole response in bytes.
    pub(crate) length: usize,
    /// True if the server closes the connection after this response.
    pub(crate) closes: bool,
}

/// The received bytes are not HTTP.
#[derive(Debug, PartialEq)]
pub(crate) struct InvalidHttp;

/// The rule that determines the end of a body.
#[derive(Clone, Copy, PartialEq)]
enum BodyFraming {
    Length(usize),
    Chunked,
    UntilClose,
}

impl HttpResponse {
    /// Parses the first response in `bytes`. Returns `None` if it is incomplete. `is_closed` says whether the server has
    /// closed the connection, which completes a body without a length.
    pub(crate) fn parse(bytes: &[u8], is_closed: bool) -> Result<Option<Self>, InvalidHttp> {
        let Some(head_length) = head_length(bytes) else { return Ok(None) };
        let (head, rest) = bytes.split_at(head_length);
        let status = status(head).ok_or(InvalidHttp)?;
        let (framing, closes) = framing(head, status)?;
        let body_length = match framing {
            BodyFraming::Length(length) => (rest.len() >= length).then_some(length),
            BodyFraming::Chunked => chunks_length(rest)?,
            BodyFraming::UntilClose => is_closed.then_some(rest.len()),
        };
        Ok(body_length.map(|length| Self {
            status,
            body: head_length..head_length + length,
            length: head_length + length,
            closes,
        }))
    }
}

/// Returns the length of a chunked body including its last, empty chunk. Trailers are not supported.
fn chunks_length(bytes: &[u8]) -> Result<Option<usize>, InvalidHttp> {
    let mut at = 0;
    while let Some(line) = bytes.get(at..).and_then(|rest| find(rest, b"\r\n")) {
        let digits = std::str::from_utf8(&bytes[at..at + line]).map_err(|_| InvalidHttp)?;
        let size = u32::from_str_radix(digits, 16).map_err(|_| InvalidHttp)? as usize;
        at += line + size + 4;
        if size == 0 {
            return Ok((at <= bytes.len()).then_some(at));
        }
    }
    Ok(None)
}

/// Returns the length of the head including its empty line.
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

fn framing(head: &[u8], status: u16) -> Result<(BodyFraming, bool), InvalidHttp> {
    let bodiless = matches!(status, 204 | 304);
    let mut framing = if bodiless { BodyFraming::Length(0) } else { BodyFraming::UntilClose };
    let mut closes = head.starts_with(b"HTTP/1.0");
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        if let Some(value) = header(line, b"content-length") {
            framing = BodyFraming::Length(number(value).ok_or(InvalidHttp)? as usize);
        } else if header(line, b"transfer-encoding").is_some() {
            framing = BodyFraming::Chunked;
        } else if let Some(value) = header(line, b"connection") {
            closes = value.eq_ignore_ascii_case(b"close");
        }
    }
    Ok((framing, closes || framing == BodyFraming::UntilClose))
}

fn header<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, value) = line.split_at_checked(name.len())?;
    let value = value.strip_prefix(b":").filter(|_| found.eq_ignore_ascii_case(name))?;
    Some(value.trim_ascii())
}

/// Parses the number at the start of `text`.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

/// The counts of a receipt.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ReceiptCounts {
    pub(crate) accepted: u64,
    pub(crate) duplicate: u64,
    pub(crate) late: u64,
    pub(crate) limited: u64,
    pub(crate) invalid: u64,
}

impl ReceiptCounts {
    /// Parses the counts in a body. Returns `None` if it is not a receipt.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let accepted = count(body, b"\"accepted\":")?;
        let count_or_zero = |key| count(body, key).unwrap_or(0);
        Some(Self {
            accepted,
            duplicate: count_or_zero(b"\"duplicate\":"),
            late: count_or_zero(b"\"late\":"),
            limited: count_or_zero(b"\"limited\":"),
            invalid: count_or_zero(b"\"invalid\":"),
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
    fn check(bytes: &str, expected: Result<Option<(u16, &str)>, InvalidHttp>) {
        check_with_close(bytes, false, expected);
    }

    #[track_caller]
    fn check_with_close(bytes: &str, is_closed: bool, expected: Result<Option<(u16, &str)>, InvalidHttp>) {
        let parsed = HttpResponse::parse(bytes.as_bytes(), is_closed);
        let parsed = parsed.map(|response| response.map(|response| (response.status, &bytes[response.body])));
        assert_eq!(parsed, expected);
    }

    #[test]
    fn body_has_the_announced_length() {
        check("HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\nokHTTP/1.1", Ok(Some((202, "ok"))));
    }

    #[test]
    fn response_without_body_needs_no_length() {
        check("HTTP/1.1 204 No Content\r\n\r\n", Ok(Some((204, ""))));
    }

    #[test]
    fn partial_response_is_incomplete() {
        check("HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\no", Ok(None));
        check("HTTP/1.1 202 Acc", Ok(None));
    }

    #[test]
    fn chunked_body_ends_with_its_empty_chunk() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(&format!("{head}2\r\nok\r\n"), Ok(None));
        check(&format!("{head}5\r\n0\r\n\r\n\r\n"), Ok(None));
        check(&format!("{head}2\r\nok\r\n0\r\n\r\n"), Ok(Some((200, "2\r\nok\r\n0\r\n\r\n"))));
    }

    #[test]
    fn body_without_length_ends_when_the_connection_closes() {
        check_with_close("HTTP/1.1 200 OK\r\n\r\nok", false, Ok(None));
        check_with_close("HTTP/1.1 200 OK\r\n\r\nok", true, Ok(Some((200, "ok"))));
    }

    #[test]
    fn other_protocols_are_invalid() {
        check("SSH-2.0-OpenSSH\r\n\r\n", Err(InvalidHttp));
        check("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", Err(InvalidHttp));
    }

    #[test]
    fn connection_close_header_is_parsed() {
        let closes = |bytes: &[u8]| {
            HttpResponse::parse(bytes, false).map(|response| response.map(|response| response.closes))
        };
        assert_eq!(closes(b"HTTP/1.1 204 No Content\r\nConnection: Close\r\n\r\n"), Ok(Some(true)));
        assert_eq!(closes(b"HTTP/1.1 204 No Content\r\n\r\n"), Ok(Some(false)));
    }

    #[test]
    fn receipt_is_parsed_with_or_without_spaces() {
        let receipt = ReceiptCounts { accepted: 97, duplicate: 1, invalid: 2, ..ReceiptCounts::default() };
        let spaced = br#"{"accepted": 97, "duplicate": 1, "late": 0, "limited": 0, "invalid": 2,
            "results": [{"i": 3, "outcome": "duplicate"}]}"#;
        let tight = br#"{"accepted":97,"duplicate":1,"late":0,"limited":0,"invalid":2,"results":[]}"#;
        assert_eq!(ReceiptCounts::parse(spaced), Some(receipt));
        assert_eq!(ReceiptCounts::parse(tight), Some(receipt));
        assert_eq!(ReceiptCounts::parse(b"ok"), None);
    }
}
