//! The names under which the server is reached: the `Host` of a request, and the public URL in the settings.

use std::net::{Ipv4Addr, Ipv6Addr};

use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Uri, Version};

use crate::problem::Problem;

/// The URL under which browsers and games reach the server: a scheme, a name and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    scheme: &'static str,
    /// In lower case, without a dot at the end.
    name: String,
    /// `None` for the port of the scheme.
    port: Option<u16>,
}

impl PublicUrl {
    /// Parses `https://stats.example` or `https://stats.example:8443/`. Returns `None` for text with another scheme or a
    /// path.
    pub fn parse(text: &str) -> Option<PublicUrl> {
        let (scheme, rest) = [("https", 443), ("http", 80)].into_iter().find_map(|(scheme, port)| {
            Some(((scheme, port), text.strip_prefix(scheme)?.strip_prefix("://")?))
        })?;
        let host = Host::parse(rest.strip_suffix('/').unwrap_or(rest))?;
        let port = host.port.filter(|port| *port != scheme.1);
        Some(PublicUrl { scheme: scheme.0, name: host.name.to_ascii_lowercase(), port })
    }

    /// Returns the URL of a name or an address and a port, with TLS. An IPv6 address is in brackets.
    pub fn https(name: &str, port: u16) -> PublicUrl {
        PublicUrl {
            scheme: "https",
            name: name.to_ascii_lowercase(),
            port: Some(port).filter(|port| *port != 443),
        }
    }

    /// Returns true if browsers reach the server with TLS.
    pub fn is_https(&self) -> bool {
        self.scheme == "https"
    }

    /// Returns true if a request for this host may be served: for the name or a name below it, with its port or none.
    fn serves(&self, host: &Host<'_>) -> bool {
        let default = if self.scheme == "https" { 443 } else { 80 };
        let is_port = host.port.is_none_or(|port| port == self.port.unwrap_or(default));
        let name = host.name.to_ascii_lowercase();
        let above = name.strip_suffix(&self.name);
        is_port && above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    }
}

impl std::fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", self.scheme, self.name)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// A valid value of `Host`.
#[derive(Debug, PartialEq)]
struct Host<'a> {
    /// Without a dot at the end; an IPv6 address is in brackets.
    name: &'a str,
    port: Option<u16>,
}

impl<'a> Host<'a> {
    /// Parses a name or an address, with or without a port (RFC 3986, 3.2.2).
    fn parse(text: &'a str) -> Option<Host<'a>> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                address.parse::<Ipv6Addr>().ok()?;
                (&text[..address.len() + 2], port)
            }
            None => {
                let (name, _) = text.split_once(':').unwrap_or((text, ""));
                let name_without_dot = name.strip_suffix('.').unwrap_or(name);
                let is_allowed =
                    |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=".contains(&byte);
                if name_without_dot.is_empty() || !name.bytes().all(is_allowed) {
                    return None;
                }
                (name_without_dot, &text[name.len()..])
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            None => return None,
            Some("") => None,
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => Some(digits.parse().ok()?),
            Some(_) => return None,
        };
        Some(Host { name, port })
    }

    fn of(headers: &'a HeaderMap) -> Option<Host<'a>> {
        headers.get(HOST).and_then(|host| host.to_str().ok()).and_then(Host::parse)
    }

    /// Returns true for a name or an address that is this machine wherever it is resolved.
    fn is_local(&self) -> bool {
        let in_brackets = || self.name.strip_prefix('[')?.strip_suffix(']');
        let is_local_v6 = || in_brackets()?.parse().ok().map(|address: Ipv6Addr| address.is_loopback());
        self.name.eq_ignore_ascii_case("localhost")
            || self.name.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
            || is_local_v6().unwrap_or(false)
    }
}

/// Returns true if the request names this machine as its host. A page of another site that has pointed its own name at
/// this machine sends that name.
pub(crate) fn is_local(headers: &HeaderMap) -> bool {
    Host::of(headers).is_some_and(|host| host.is_local())
}

/// Returns true if the target of the request names this machine, as over HTTP/2, where there may be no header `Host`.
pub(crate) fn is_local_authority(target: &Uri) -> bool {
    target.authority().and_then(|name| Host::parse(name.as_str())).is_some_and(|host| host.is_local())
}

fn is_same_host(authority: &str, host: &HeaderValue) -> bool {
    host.as_bytes().eq_ignore_ascii_case(authority.as_bytes())
}

/// Checks that the request names one host, as RFC 9112, 3.2 and RFC 9113, 8.3.1 require. The name in the target, if it has one, replaces the
/// one in the header.
pub(crate) fn check_host<B>(request: &mut Request<B>) -> Result<(), Problem> {
    let invalid = |detail: &str| Err(Problem::malformed(detail).field("Host"));
    let uri = request.uri();
    let is_path = uri.path().starts_with('/') || (request.method() == Method::OPTIONS && uri.path() == "*");
    if !is_path && request.method() != Method::CONNECT {
        return Err(Problem::malformed("the target of a request must be a path or a whole URL"));
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    let authority = request.uri().authority().filter(|_| request.version() == Version::HTTP_2);
    match (hosts.next(), hosts.next()) {
        (None, _) if request.version() < Version::HTTP_11 || authority.is_some() => {}
        (None, _) => return invalid("a request must have the header `Host`"),
        (Some(_), Some(_)) => return invalid("a request must have one header `Host`"),
        (Some(_), None) if Host::of(request.headers()).is_none() => {
            return invalid("must be a name or an address, with or without a port");
        }
        // RFC 9113, 8.3.1: a proxy in front may have decided by either of the two.
        (Some(host), None) if authority.is_some_and(|name| !is_same_host(name.as_str(), host)) => {
            return invalid("must be the same as `:authority`");
        }
        (Some(_), None) => {}
    }
    if let Some(authority) = request.uri().authority() {
        if Host::parse(authority.as_str()).is_none() {
            return Err(Problem::malformed("the host in the target is not a name or an address"));
        }
        let host = HeaderValue::from_str(authority.as_str());
        let host = host.map_err(|_| Problem::malformed("the host in the target is not valid"))?;
        request.headers_mut().insert(HOST, host);
    }
    Ok(())
}

/// Rejects a request for a host other than the public one and this machine. Health checks may name any host.
pub(crate) fn check_public_host<B>(public_url: &PublicUrl, request: &Request<B>) -> Result<(), Problem> {
    let host = Host::of(request.headers());
    let is_served = host.is_some_and(|host| public_url.serves(&host) || host.is_local());
    if is_served || matches!(request.uri().path(), "/healthz" | "/readyz") {
        return Ok(());
    }
    let detail = format!("this server is {public_url}; set `public_url` to serve another name");
    Err(Problem::misdirected(detail).field("Host"))
}

/// Returns the URL with HTTPS, without a path, for the host that a request names: with this port, or, if the host is not
/// served, the public URL. Returns `None` if the request names no host.
pub(crate) fn https_url<B>(
    request: &Request<B>,
    public_url: Option<&PublicUrl>,
    port: u16,
) -> Option<String> {
    let host = Host::of(request.headers())?;
    let plain = Host { name: host.name, port: None };
    if let Some(public_url) = public_url.filter(|public_url| !public_url.serves(&plain) && !host.is_local()) {
        return Some(public_url.to_string());
    }
    let port = match public_url.filter(|_| !host.is_local()) {
        Some(public_url) => public_url.port.unwrap_or(443),
        None => port,
    };
    Some(PublicUrl::https(host.name, port).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_a_name_or_an_address_with_or_without_a_port() {
        let shown = |text| Host::parse(text).map(|host| format!("{} {:?}", host.name, host.port));
        for (text, expected) in [
            ("a", "a None"),
            ("A-b_c.example:80", "A-b_c.example Some(80)"),
            ("a.example.", "a.example None"),
            ("a:", "a None"),
            ("192.0.2.1:1", "192.0.2.1 Some(1)"),
            ("[::1]", "[::1] None"),
            ("[2001:db8::1]:443", "[2001:db8::1] Some(443)"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "", ".", ":80", "a b", "a/b", "a@b", "a,b", "a:b", "a:80:80", "a:65536", "a:+1", "::1", "[::1",
            "[::1]x", "[a]", "ä", "a\\b", "a?", "a#",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_local() {
        for (text, expected) in [
            ("localhost", true),
            ("LocalHost.:80", true),
            ("127.9.9.9", true),
            ("[::1]:80", true),
            ("localhost.example", false),
            ("127.0.0.1.example", false),
            ("0.0.0.0", false),
            ("192.0.2.1", false),
            ("[::2]", false),
        ] {
            assert_eq!(Host::parse(text).expect(text).is_local(), expected, "{text}");
        }
    }

    #[test]
    fn public_url_has_a_scheme_and_a_name() {
        let shown = |text| PublicUrl::parse(text).map(|url| url.to_string());
        for (text, expected) in [
            ("https://stats.example", "https://stats.example"),
            ("https://Stats.example:443/", "https://stats.example"),
            ("http://stats.example:8080", "http://stats.example:8080"),
            ("http://[::1]:80", "http://[::1]"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "stats.example", "ftp://a", "https://", "https://a/b", "https://a//", "https://u@a"]
        {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn plain_request_is_redirected_to_the_public_name() {
        for (public_url, host, expected) in [
            (None, "stats.example", Some("https://stats.example:8443")),
            (None, "stats.example:80", Some("https://stats.example:8443")),
            (None, "[::1]:80", Some("https://[::1]:8443")),
            (None, "a b", None),
            (Some("https://stats.example"), "Stats.example:80", Some("https://stats.example")),
            (Some("https://stats.example"), "g1.stats.example", Some("https://g1.stats.example")),
            (Some("https://stats.example"), "evil.example", Some("https://stats.example")),
            (Some("https://stats.example:444"), "stats.example", Some("https://stats.example:444")),
            (Some("https://stats.example"), "localhost:80", Some("https://localhost:8443")),
        ] {
            let request = Request::builder().header(HOST, host).body(()).expect(host);
            let public_url = public_url.map(|url| PublicUrl::parse(url).expect(url));
            let url = https_url(&request, public_url.as_ref(), 8443);
            assert_eq!(url.as_deref(), expected, "{public_url:?} {host}");
        }
    }

    #[test]
    fn public_url_serves_its_name_and_names_below() {
        for (url, host, expected) in [
            ("https://stats.example", "stats.example", true),
            ("https://stats.example", "STATS.example.:443", true),
            ("https://stats.example", "g1.api.stats.example", true),
            ("https://stats.example", "stats.example:80", false),
            ("https://stats.example", "notstats.example", false),
            ("https://stats.example", "stats.example.org", false),
            ("https://stats.example", "example", false),
            ("https://stats.example:8443", "stats.example:8443", true),
            ("https://stats.example:8443", "stats.example", true),
            ("https://stats.example:8443", "stats.example:443", false),
        ] {
            let host = Host::parse(host).expect(host);
            assert_eq!(PublicUrl::parse(url).expect(url).serves(&host), expected, "{url} {host:?}");
        }
    }
}
