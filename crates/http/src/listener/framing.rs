//! Checks where requests begin and end, as RFC 9112 says, before hyper parses them.
//!
//! hyper accepts a lone LF as the end of a line, several equal lengths, a length beside `Transfer-Encoding`, encodings
//! before `chunked`, and anything as a chunk extension. A proxy that reads such bytes in another way sees other requests
//! than the server, so they are refused. Everything else about a request is left to hyper.

use memchr::memchr;

/// The largest line whose content matters: one with a length, an encoding or the size of a chunk.
const LINE_BYTES_MAX: usize = 1024;

/// Follows the requests of one connection.
#[derive(Debug, Default)]
pub(super) struct FramingCheck {
    state: State,
    head: Head,
    /// The first bytes of an incomplete line.
    partial: Vec<u8>,
    /// The last byte of an incomplete line.
    last: Option<u8>,
}

#[derive(Debug, Default, PartialEq)]
enum State {
    /// Before the line with the method, which empty lines may precede.
    #[default]
    RequestLine,
    HeaderLine,
    /// In a body of a known length, of which so much is missing.
    Body(u64),
    ChunkSize,
    /// In a chunk, of which so much is missing.
    Chunk(u64),
    /// After the bytes of a chunk.
    ChunkEnd,
    Trailer,
    /// No longer HTTP.
    Upgraded,
}

/// The fields of a head that decide where the request ends.
#[derive(Debug, Default)]
struct Head {
    length: Option<u64>,
    is_chunked: bool,
    upgrades: bool,
}

/// A line without its end.
struct Line<'a> {
    bytes: &'a [u8],
    /// The line is longer than [`LINE_BYTES_MAX`]; these are its first bytes.
    is_cut: bool,
}

/// The bytes violate the protocol.
#[derive(Debug, PartialEq)]
struct Violation;

impl FramingCheck {
    /// Checks the next bytes of a connection. Fails with the position of the LF that ends the first invalid line; nothing
    /// may be read from the connection after it.
    pub(super) fn check(&mut self, bytes: &[u8]) -> Result<(), usize> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match &mut self.state {
                State::Upgraded => return Ok(()),
                State::Body(missing) => {
                    let here = skip(missing, rest);
                    if *missing == 0 {
                        self.state = State::RequestLine;
                    }
                    here
                }
                State::Chunk(missing) => {
                    let here = skip(missing, rest);
                    if *missing == 0 {
                        self.state = State::ChunkEnd;
                    }
                    here
                }
                _ => {
                    let Some(end) = memchr(b'\n', rest) else {
                        self.keep(rest);
                        return Ok(());
                    };
                    self.end_line(&rest[..end]).map_err(|Violation| at + end)?;
                    end + 1
                }
            };
        }
        Ok(())
    }

    /// Keeps the bytes of an incomplete line, as far as they matter.
    fn keep(&mut self, bytes: &[u8]) {
        // One more than the maximum, and a CR: the line is then recognized as cut.
        let room = (LINE_BYTES_MAX + 2).saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.last = bytes.last().copied().or(self.last);
    }

    /// Handles a line that these bytes, which an LF follows, complete.
    fn end_line(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        if self.partial.is_empty() {
            let Some((b'\r', line)) = bytes.split_last() else { return Err(Violation) };
            return self.line(Line::new(line));
        }
        self.keep(bytes);
        if self.last.take() != Some(b'\r') {
            return Err(Violation);
        }
        let partial = std::mem::take(&mut self.partial);
        let is_whole = partial.len() < LINE_BYTES_MAX + 2;
        self.line(Line::new(if is_whole { &partial[..partial.len() - 1] } else { &partial }))
    }

    fn line(&mut self, line: Line<'_>) -> Result<(), Violation> {
        let is_empty = line.bytes.is_empty();
        self.state = match self.state {
            State::RequestLine if is_empty => State::RequestLine,
            State::RequestLine => State::HeaderLine,
            State::HeaderLine if is_empty => std::mem::take(&mut self.head).body()?,
            State::HeaderLine => {
                self.head.field(&line)?;
                State::HeaderLine
            }
            State::ChunkSize => match chunk_size(&line).ok_or(Violation)? {
                0 => State::Trailer,
                size => State::Chunk(size),
            },
            State::ChunkEnd if is_empty => State::ChunkSize,
            State::ChunkEnd => return Err(Violation),
            State::Trailer if is_empty => State::RequestLine,
            State::Trailer => State::Trailer,
            State::Body(_) | State::Chunk(_) | State::Upgraded => unreachable!("these have no lines"),
        };
        Ok(())
    }
}

/// Skips bytes of a body and returns how many.
fn skip(missing: &mut u64, bytes: &[u8]) -> usize {
    let here = usize::try_from(*missing).map_or(bytes.len(), |missing| missing.min(bytes.len()));
    *missing -= here as u64;
    here
}

impl<'a> Line<'a> {
    fn new(bytes: &'a [u8]) -> Line<'a> {
        match bytes.get(..LINE_BYTES_MAX) {
            Some(first) if bytes.len() > LINE_BYTES_MAX => Line { bytes: first, is_cut: true },
            _ => Line { bytes, is_cut: false },
        }
    }
}

impl Head {
    /// Reads a header line, if it is about the body.
    fn field(&mut self, line: &Line<'_>) -> Result<(), Violation> {
        // Few names begin with these letters, so most lines end here.
        if !matches!(line.bytes[0] | 0x20, b'c' | b't' | b'u') {
            return Ok(());
        }
        let Some(colon) = memchr(b':', line.bytes) else { return Ok(()) };
        let (name, value) = (&line.bytes[..colon], trim(&line.bytes[colon + 1..]));
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = digits(value).filter(|_| !line.is_cut).ok_or(Violation)?;
            if self.length.replace(length).is_some() {
                return Err(Violation);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let is_chunked = value.eq_ignore_ascii_case(b"chunked") && !line.is_cut;
            if !is_chunked || std::mem::replace(&mut self.is_chunked, true) {
                return Err(Violation);
            }
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            self.upgrades |= is_websocket(value);
        }
        Ok(())
    }

    /// Returns the state after the head.
    fn body(self) -> Result<State, Violation> {
        Ok(match self {
            Head { length: Some(_), is_chunked: true, .. } => return Err(Violation),
            Head { upgrades: true, .. } => State::Upgraded,
            Head { is_chunked: true, .. } => State::ChunkSize,
            Head { length: None | Some(0), .. } => State::RequestLine,
            Head { length: Some(length), .. } => State::Body(length),
        })
    }
}

/// Returns true if the value of an `Upgrade` line asks for a WebSocket.
pub(super) fn is_websocket(value: &[u8]) -> bool {
    trim(value).eq_ignore_ascii_case(b"websocket")
}

/// Removes spaces and tabs around a value.
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

fn digits(value: &[u8]) -> Option<u64> {
    let digit = |length: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    };
    (!value.is_empty()).then(|| value.iter().try_fold(0, digit))?
}

/// Parses `1f`, or `1f;name;name=value`.
fn chunk_size(line: &Line<'_>) -> Option<u64> {
    let digits = line.bytes.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (size, extensions) = line.bytes.split_at(digits);
    let size = u64::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()?;
    (!line.is_cut && are_extensions(extensions)).then_some(size)
}

/// Returns true for `*( BWS ";" BWS token [ BWS "=" BWS ( token / quoted-string ) ] )`.
fn are_extensions(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let Some(rest) = after_sign(bytes, b';').and_then(after_token) else { return false };
        bytes = match after_sign(rest, b'=') {
            None => rest,
            Some(value) => match after_quoted(value).or_else(|| after_token(value)) {
                Some(rest) => rest,
                None => return false,
            },
        };
    }
    true
}

/// Skips a sign and the spaces around it.
fn after_sign(bytes: &[u8], sign: u8) -> Option<&[u8]> {
    let rest = trim_start(bytes).strip_prefix(&[sign])?;
    Some(trim_start(rest))
}

fn trim_start(bytes: &[u8]) -> &[u8] {
    let spaces = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &bytes[spaces..]
}

fn after_token(bytes: &[u8]) -> Option<&[u8]> {
    let is_token = |byte: &&u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let length = bytes.iter().take_while(is_token).count();
    (length > 0).then(|| &bytes[length..])
}

fn after_quoted(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes.strip_prefix(b"\"")?;
    loop {
        rest = match rest {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', b'\t' | b' '..=b'~' | 0x80..=0xff, rest @ ..] => rest,
            [b'\\', ..] => return None,
            [b'\t' | b' '..=b'~' | 0x80..=0xff, rest @ ..] => rest,
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the position of the first violation in these bytes, given in one piece and in pieces of each size.
    fn violation(bytes: &[u8]) -> Option<usize> {
        let whole = FramingCheck::default().check(bytes).err();
        for size in 1..bytes.len().min(40) {
            assert_eq!(in_pieces(bytes, &[size]), whole, "{} in pieces of {size}", bytes.escape_ascii());
        }
        whole
    }

    fn in_pieces(bytes: &[u8], sizes: &[usize]) -> Option<usize> {
        let (mut check, mut at) = (FramingCheck::default(), 0);
        for size in sizes.iter().cycle() {
            let end = (at + size).min(bytes.len());
            if let Err(violation) = check.check(&bytes[at..end]) {
                return Some(at + violation);
            }
            at = end;
            if at == bytes.len() {
                break;
            }
        }
        None
    }

    /// Returns true if requests with these bytes after the host are valid, and a request that follows them is checked.
    fn is_valid(rest: &str) -> bool {
        let valid = format!("POST / HTTP/1.1\r\nHost: a\r\n{rest}");
        let invalid = format!("{valid}GET / HTTP/1.1\nHost: a\r\n\r\n");
        let is_valid = violation(valid.as_bytes()).is_none();
        if is_valid {
            let lf = valid.len() + "GET / HTTP/1.1".len();
            assert_eq!(violation(invalid.as_bytes()), Some(lf), "{rest:?} ends elsewhere");
        }
        is_valid
    }

    #[test]
    fn request_ends_where_its_head_says() {
        for rest in [
            "\r\n",
            "\r\n\r\n\r\n",
            "Content-Length: 0\r\n\r\n",
            "Content-Length: 5\r\n\r\na\nb\nc",
            "content-LENGTH:\t005 \r\nUpgrade: h2c\r\n\r\n\r\n\r\n\n",
            "X-Content-Length: x\r\nContent-Lengths: y\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "Transfer-Encoding:CHUNKED\r\n\r\n2\r\n\n\n\r\n00A\r\n0123456789\r\n000\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n1;a;b=c; d = \"\\\"e\\\" f\" ;g\r\nx\r\n0;h\r\nI: j\r\nk: l\r\n\r\n",
        ] {
            assert!(is_valid(rest), "{rest:?}");
        }
    }

    #[test]
    fn ambiguous_framing_is_a_violation() {
        for rest in [
            "\n",
            "A: b\n\r\n",
            "A: b\nTransfer-Encoding: chunked\r\n\r\n",
            "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "Content-Length: 5, 5\r\n\r\n",
            "Content-Length: 5 5\r\n\r\n",
            "Content-Length: +5\r\n\r\n",
            "Content-Length:\r\n\r\n",
            "Content-Length: 18446744073709551616\r\n\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "Transfer-Encoding: chunked, chunked\r\n\r\n",
            "Transfer-Encoding: gzip, chunked\r\n\r\n",
            "Transfer-Encoding: identity\r\n\r\n",
            "Transfer-Encoding:\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n1 \r\nx\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n1\r\nx\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\n",
            "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n",
            "Transfer-Encoding: chunked\r\n\r\n1;\r\nx\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n1;a=\"b\r\nx\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n1;a=\"b\"c\r\nx\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n1 a\r\nx\r\n0\r\n\r\n",
        ] {
            assert!(!is_valid(rest), "{rest:?}");
        }
        assert_eq!(violation(b"\nGET / HTTP/1.1\r\n"), Some(0));
    }

    #[test]
    fn only_lines_about_the_body_are_limited() {
        let long =
            |name: &str, value: &str| format!("{name}: {}{value}\r\n\r\n", " ".repeat(2 * LINE_BYTES_MAX));
        assert!(is_valid(&long("Cookie", "a")));
        assert!(!is_valid(&long("Content-Length", "0")));
        assert!(!is_valid(&long("Transfer-Encoding", "chunked")));
        let extension = "a".repeat(LINE_BYTES_MAX - 2);
        let chunk = |extension: &str| format!("Transfer-Encoding: chunked\r\n\r\n0;{extension}\r\n\r\n");
        assert!(is_valid(&chunk(&extension)) && !is_valid(&chunk(&format!("{extension}b"))));
    }

    #[test]
    fn bytes_of_a_socket_are_not_checked() {
        let socket = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\n\r\n\n\n\x81\n";
        assert_eq!(violation(socket), None);
    }

    #[test]
    fn nothing_is_kept_of_complete_lines() {
        let mut check = FramingCheck::default();
        for piece in [&b"GET / HT"[..], b"TP/1.1\r\nHost: a\r", b"\nX: y", &[b'z'; 5000], b"\r\n\r\n"] {
            check.check(piece).unwrap();
            assert!(check.partial.capacity() <= 4 * LINE_BYTES_MAX);
        }
        assert_eq!((check.partial.capacity(), check.state), (0, State::RequestLine));
    }

    proptest! {
        #[test]
        fn chunking_of_the_bytes_does_not_matter(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "GET / HTTP/1.1\r\n", "\r\n", "\r", "\n", "Host: a\r\n", "Content-Length: 3\r\n", "abc", " ",
                "Transfer-Encoding: chunked\r\n", "3\r\n", "0\r\n", ";", "a=\"", "Upgrade: websocket\r\n",
            ]), 0..20),
            sizes in prop::collection::vec(1usize..30, 1..9),
        ) {
            let bytes = pieces.concat().into_bytes();
            prop_assert_eq!(in_pieces(&bytes, &sizes), FramingCheck::default().check(&bytes).err());
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            let _ = FramingCheck::default().check(&bytes);
        }
    }
}
