//! An address to listen on: a name or an IP address, with a port.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// Text of the form `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct ListenAddress(String);

impl ListenAddress {
    /// Looks the name up. Of several addresses, the first IPv4 address is used.
    pub(crate) fn resolve(&self) -> anyhow::Result<SocketAddr> {
        if let Ok(address) = self.0.parse() {
            return Ok(address);
        }
        let found: Vec<SocketAddr> =
            self.0.to_socket_addrs().with_context(|| format!("looking up `{self}`"))?.collect();
        let first = found.iter().find(|address| address.is_ipv4()).or_else(|| found.first());
        first.copied().with_context(|| format!("`{self}` has no address"))
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ListenAddress, String> {
        let is_name = |name: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            !name.is_empty() && name.bytes().all(is_allowed)
        };
        let named = text.rsplit_once(':').filter(|(name, port)| is_name(name) && port.parse::<u16>().is_ok());
        match text.parse::<SocketAddr>().is_ok() || named.is_some() {
            true => Ok(ListenAddress(text.to_owned())),
            false => Err(format!(
                "`{text}` is not an address with a port, such as 127.0.0.1:8080 or localhost:8080"
            )),
        }
    }
}

impl TryFrom<String> for ListenAddress {
    type Error = String;

    fn try_from(text: String) -> Result<ListenAddress, String> {
        text.parse()
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> ListenAddress {
        ListenAddress(address.to_string())
    }
}

impl From<ListenAddress> for String {
    fn from(address: ListenAddress) -> String {
        address.0
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_address_is_a_name_or_an_address_with_a_port() {
        for text in ["127.0.0.1:8080", "[::1]:0", "localhost:8080", "my-host.example:443"] {
            assert_eq!(text.parse::<ListenAddress>().map(String::from), Ok(text.to_owned()));
        }
        for text in [
            "",
            "8080",
            ":8080",
            "localhost",
            "localhost:",
            "localhost:http",
            "a:70000",
            "a b:1",
            "::1:80",
            "http://a:80",
        ] {
            let failure = text.parse::<ListenAddress>().expect_err(text);
            assert!(failure.contains(text), "{failure}");
        }
    }

    #[test]
    fn name_of_this_machine_is_looked_up() {
        let address = "localhost:8080".parse::<ListenAddress>().expect("it is valid").resolve();
        let address = address.expect("every machine knows it");
        assert!(address.ip().is_loopback() && address.port() == 8080, "{address}");
        let failure = "name.invalid:1".parse::<ListenAddress>().expect("it is valid").resolve();
        assert!(failure.expect_err("it is reserved").to_string().contains("name.invalid"));
    }
}
