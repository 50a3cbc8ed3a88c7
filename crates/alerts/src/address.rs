//! Which addresses notifications may be sent to.
//!
//! A rule is written by someone who may change one game, and the server may stand in a network that trusts it. So a
//! request goes to public addresses only, unless the operator allows others. The name in a URL is resolved once, and the
//! address that was checked is the one that is connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::AlertSettings;

impl AlertSettings {
    /// Returns true if requests may be sent to this address.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.allow_private_addresses
            || is_public(address)
            || self.allowed_addresses.iter().any(|range| range.contains(address))
    }

    /// Returns the host of a URL if it is an address that is not allowed, or the name of this machine, so that a rule
    /// with it can be refused before anything is sent.
    pub fn refused_host<'a>(&self, url: &'a str) -> Option<&'a str> {
        let (_, rest) = url.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let host = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next()?,
            None => authority.split(':').next()?,
        };
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let is_local = name == "localhost" || name.ends_with(".localhost");
        let address = if is_local { Some(Ipv4Addr::LOCALHOST.into()) } else { host.parse().ok() };
        address.filter(|address| !self.allows(*address)).map(|_: IpAddr| host)
    }
}

/// Returns true if the address is reachable over the internet (RFC 6890 and the registries of IANA).
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18..=19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

/// Only 2000::/3 is assigned for the internet. Of it, some ranges are special, and some contain an IPv4 address.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    (0x2000..=0x3fff).contains(&a)
        && !(a == 0x2001 && b < 0x200)
        && !(a == 0x2001 && b == 0x0db8)
        && a != 0x2002
        && !(a == 0x3fff && b < 0x1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_allowed() {
        let settings = AlertSettings::default();
        let check = |address: &str, expected: bool| {
            assert_eq!(settings.allows(address.parse().expect("an address")), expected, "{address}");
        };
        for address in
            ["1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "2001:4860::8888", "100.128.0.1"]
        {
            check(address, true);
        }
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fec0::1",
        ] {
            check(address, false);
        }
    }

    #[test]
    fn operator_can_allow_ranges_or_every_address() {
        let range = AlertSettings {
            allowed_addresses: vec!["10.1.0.0/16".parse().expect("a range")],
            ..AlertSettings::default()
        };
        let allows =
            |settings: &AlertSettings, address: &str| settings.allows(address.parse().expect("an address"));
        assert!(
            allows(&range, "10.1.2.3") && allows(&range, "::ffff:10.1.2.3") && !allows(&range, "10.2.0.1")
        );
        let all = AlertSettings { allow_private_addresses: true, ..AlertSettings::default() };
        assert!(allows(&all, "127.0.0.1"));
    }

    #[test]
    fn host_of_a_url_is_refused_if_it_is_a_private_address() {
        let settings = AlertSettings::default();
        for (url, expected) in [
            ("http://127.0.0.1/", Some("127.0.0.1")),
            ("http://[::1]:80/x", Some("::1")),
            ("https://169.254.169.254/latest?x", Some("169.254.169.254")),
            ("https://LocalHost:8080", Some("LocalHost")),
            ("https://db.localhost./", Some("db.localhost.")),
            ("https://1.1.1.1/", None),
            ("https://hooks.example.com/127.0.0.1", None),
        ] {
            assert_eq!(settings.refused_host(url), expected, "{url}");
        }
    }
}
