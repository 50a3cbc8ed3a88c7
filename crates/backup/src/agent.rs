//! The HTTP client of commands and backups: `ureq` with the certificates that the system trusts.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Returns a client for the server with this URL. It follows no redirects, which would send secrets to another server.
/// A server on this machine is reached directly, without the proxy of the environment.
pub fn agent(url: &str, connect_timeout: Duration, request_timeout: Duration) -> Agent {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(connect_timeout))
        .timeout_global(Some(request_timeout));
    let url = url.parse().unwrap_or_else(|_| Uri::default());
    if url.scheme_str() == Some("https") {
        config = config.tls_config(tls());
    }
    let config = if is_local(&url) { config.proxy(None) } else { config };
    config.build().new_agent()
}

/// Returns true if the URL names this machine: `localhost` or a loopback address.
fn is_local(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Trusts the certificates that the system trusts, except those that cannot be parsed.
fn tls() -> TlsConfig {
    let trusted = rustls_native_certs::load_native_certs().certs;
    let trusted: Vec<Certificate<'static>> =
        trusted.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&trusted));
    builder.unversioned_rustls_crypto_provider(provider).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: bool) {
        let is_found = url.parse().is_ok_and(|url: Uri| is_local(&url));
        assert_eq!(is_found, expected, "{url}");
    }

    #[test]
    fn only_names_and_addresses_of_this_machine_are_local() {
        for url in
            ["http://localhost:9000", "http://127.0.0.1", "https://127.8.8.8:1/x", "http://[::1]:9000/"]
        {
            check(url, true);
        }
        for url in [
            "http://127.0.0.1.example",
            "http://localhost.example:9000",
            "http://localhost@example",
            "http://127.example",
            "http://[2001:db8::1]",
            "https://s3.eu-west-1.amazonaws.com",
            "127.0.0.1 no url",
            "",
        ] {
            check(url, false);
        }
    }
}
