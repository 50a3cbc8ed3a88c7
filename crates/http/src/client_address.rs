//! The address of a client, behind proxies or not.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HeaderMap, HeaderName};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Returns the address of the client that `hops` trusted proxies report in `X-Forwarded-For`.
///
/// Each proxy appends the address that it sees, in the last line or in a new one. The last `hops` entries are therefore
/// from the trusted proxies, and everything before them is from the client. A request that came through fewer proxies
/// has fewer entries, and the first is then the client's. Returns `None` if there is no entry, or if it is not an
/// address.
pub(crate) fn forwarded_address(headers: &HeaderMap, hops: usize) -> Option<IpAddr> {
    let mut trusted = None;
    let mut left = hops;
    for line in headers.get_all(FORWARDED_FOR).iter().rev() {
        for entry in line.as_bytes().rsplit(|byte| *byte == b',') {
            if left == 0 {
                return parse(trusted?);
            }
            (trusted, left) = (Some(entry), left - 1);
        }
    }
    parse(trusted?)
}

/// Parses an address with or without a port: `203.0.113.1`, `203.0.113.1:4711`, `2001:db8::1`, `[2001:db8::1]:4711`.
fn parse(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim();
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']');
    let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
    text.parse().ok().or_else(with_port).or_else(|| in_brackets()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(lines: &[&'static str], hops: usize) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, line.parse().unwrap());
        }
        forwarded_address(&headers, hops).map_or_else(|| "none".into(), |address| address.to_string())
    }

    #[test]
    fn last_entries_of_the_last_lines_are_trusted() {
        for (lines, hops, expected) in [
            (&["1.1.1.1"][..], 1, "1.1.1.1"),
            (&["9.9.9.9, 1.1.1.1"], 1, "1.1.1.1"),
            (&["9.9.9.9", "1.1.1.1"], 1, "1.1.1.1"),
            (&["9.9.9.9", "8.8.8.8,1.1.1.1"], 1, "1.1.1.1"),
            (&["1.1.1.1, 2.2.2.2"], 2, "1.1.1.1"),
            (&["1.1.1.1", "2.2.2.2"], 2, "1.1.1.1"),
            (&["9.9.9.9, 1.1.1.1", "2.2.2.2, 3.3.3.3"], 3, "1.1.1.1"),
            (&["1.1.1.1"], 3, "1.1.1.1"),
            (&["1.1.1.1", "2.2.2.2"], 3, "1.1.1.1"),
            (&["9.9.9.9", ""], 1, "none"),
            (&["9.9.9.9,"], 1, "none"),
            (&["unknown, 2.2.2.2"], 2, "none"),
            (&[], 1, "none"),
        ] {
            assert_eq!(address(lines, hops), expected, "{lines:?} with {hops} hops");
        }
    }

    #[test]
    fn address_may_have_a_port() {
        for (entry, expected) in [
            (" 203.0.113.1 ", "203.0.113.1"),
            ("203.0.113.1:4711", "203.0.113.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("[203.0.113.1", "none"),
            ("203.0.113.1:port", "none"),
            ("_hidden", "none"),
        ] {
            assert_eq!(address(&[entry], 1), expected, "{entry}");
        }
    }
}
