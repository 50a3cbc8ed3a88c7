//! The dimension `source`: the page or the device on which a game was played, as the SDK names it.

/// Returns the host of a page's address without `www.`, or the name of a device; `None` for a file.
pub fn source(url: &str) -> Option<String> {
    let url = url.trim();
    let host = match url.split_once("://") {
        Some((_, rest)) => host(rest).to_ascii_lowercase(),
        None => url.to_owned(),
    };
    (!host.is_empty()).then_some(host)
}

fn host(rest: &str) -> &str {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = host.rfind(':').filter(|colon| host[colon + 1..].bytes().all(|byte| byte.is_ascii_digit()));
    let host = &host[..port.unwrap_or(host.len())];
    let www = host.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("www."));
    if www { &host[4..] } else { host }
}
