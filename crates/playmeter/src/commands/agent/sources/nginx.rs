//! The nginx source: the status page of its module `stub_status`.

use std::time::Instant;

use anyhow::bail;

use super::{SourceError, TIMEOUT};
use crate::commands::agent::rate::CounterRate;
use crate::commands::agent::reading::Reading;

/// The page has four lines, so a larger one is something else.
const PAGE_BYTES_MAX: u64 = 4 << 10;

/// The URL of a status page, and the rates of its counters.
pub(super) struct Nginx {
    agent: ureq::Agent,
    url: String,
    requests: CounterRate,
    dropped: CounterRate,
}

/// The numbers on the status page.
#[derive(Debug, PartialEq)]
struct StubStatus {
    active: f64,
    accepted: f64,
    handled: f64,
    requests: f64,
    reading: f64,
    writing: f64,
    waiting: f64,
}

impl Nginx {
    /// Creates a source for the status page at this URL.
    pub(super) fn new(url: &str) -> anyhow::Result<Nginx> {
        let uri = url.parse::<ureq::http::Uri>();
        if !uri.is_ok_and(|uri| uri.scheme_str() == Some("http") && uri.host().is_some()) {
            bail!("--nginx: must be the URL of stub_status, for example http://127.0.0.1/nginx_status");
        }
        let config = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).proxy(None).max_redirects(0);
        let agent = config.build().new_agent();
        Ok(Nginx {
            agent,
            url: url.to_owned(),
            requests: CounterRate::default(),
            dropped: CounterRate::default(),
        })
    }

    pub(super) async fn read(&mut self, reading: &mut Reading, at: Instant) -> Result<(), SourceError> {
        let (agent, url) = (self.agent.clone(), self.url.clone());
        let page = tokio::task::spawn_blocking(move || page(&agent, &url)).await;
        let page = page.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let status = StubStatus::parse(&page).ok_or("the page is not one of stub_status")?;
        reading.add("nginx.active", status.active);
        reading.add("nginx.reading", status.reading);
        reading.add("nginx.writing", status.writing);
        reading.add("nginx.waiting", status.waiting);
        reading.add("nginx.requests", self.requests.per_second(status.requests, at));
        reading.add("nginx.dropped", self.dropped.per_second(status.accepted - status.handled, at));
        Ok(())
    }
}

fn page(agent: &ureq::Agent, url: &str) -> Result<String, ureq::Error> {
    agent.get(url).call()?.body_mut().with_config().limit(PAGE_BYTES_MAX).read_to_string()
}

impl StubStatus {
    fn parse(page: &str) -> Option<StubStatus> {
        let mut tokens = page.split_whitespace();
        let mut after = |label: &[&str]| {
            label
                .iter()
                .all(|token| tokens.next() == Some(token))
                .then(|| tokens.next()?.parse::<f64>().ok())
                .flatten()
        };
        let active = after(&["Active", "connections:"])?;
        let accepted = after(&["server", "accepts", "handled", "requests"])?;
        let (handled, requests) = (after(&[])?, after(&[])?);
        let (reading, writing) = (after(&["Reading:"])?, after(&["Writing:"])?);
        Some(StubStatus {
            active,
            accepted,
            handled,
            requests,
            reading,
            writing,
            waiting: after(&["Waiting:"])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_page_is_parsed() {
        let page = "Active connections: 291 \nserver accepts handled requests\n 16630948 16630940 31070465 \n\
                    Reading: 6 Writing: 179 Waiting: 106 \n";
        let expected = StubStatus {
            active: 291.0,
            accepted: 16_630_948.0,
            handled: 16_630_940.0,
            requests: 31_070_465.0,
            reading: 6.0,
            writing: 179.0,
            waiting: 106.0,
        };
        assert_eq!(StubStatus::parse(page), Some(expected));
        for cut in 0..page.trim_end().len() - 3 {
            assert_eq!(StubStatus::parse(&page[..cut]), None, "{}", &page[..cut]);
        }
        assert_eq!(StubStatus::parse("<html><body>Welcome to nginx!"), None);
    }

    #[test]
    fn invalid_urls_are_rejected() {
        for url in ["", "localhost", "https://a/status", "http://"] {
            assert!(Nginx::new(url).is_err(), "{url}");
        }
    }
}
