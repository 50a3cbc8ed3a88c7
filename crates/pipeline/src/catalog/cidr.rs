//! Ranges of addresses, as `203.0.113.0/24` or `2001:db8::/32`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A range of addresses with the same leading bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr {
    address: IpAddr,
    bits: u32,
}

/// The text is not a range of addresses.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address range; write for example 203.0.113.0/24, 2001:db8::/32 or a single address")]
pub struct InvalidCidr(String);

impl Cidr {
    /// Returns true if the range contains the address. An IPv4 address mapped to IPv6 counts as IPv4.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                same_bits(own.to_bits().into(), other.to_bits().into(), 32 - self.bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                same_bits(own.to_bits(), other.to_bits(), 128 - self.bits)
            }
            _ => false,
        }
    }
}

/// Returns true if two addresses differ in the last bits only.
fn same_bits(one: u128, other: u128, last: u32) -> bool {
    (one ^ other).checked_shr(last).unwrap_or(0) == 0
}

fn bits_max(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Cidr, InvalidCidr> {
        let invalid = || InvalidCidr(text.chars().take(60).collect());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let bits = bits.map_or(Ok(bits_max(address)), |bits| bits.parse().map_err(|_| invalid()))?;
        if bits > bits_max(address) { Err(invalid()) } else { Ok(Cidr { address, bits }) }
    }
}

impl TryFrom<String> for Cidr {
    type Error = InvalidCidr;

    fn try_from(text: String) -> Result<Cidr, InvalidCidr> {
        text.parse()
    }
}

impl From<Cidr> for String {
    fn from(cidr: Cidr) -> String {
        cidr.to_string()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cidr: &str, inside: &[&str], outside: &[&str]) {
        let range: Cidr = cidr.parse().expect("a range");
        let contains = |address: &&str| range.contains(address.parse().expect("an address"));
        assert!(inside.iter().all(contains), "{cidr}");
        assert!(!outside.iter().any(contains), "{cidr}");
        assert_eq!(range.to_string().parse(), Ok(range));
    }

    #[test]
    fn a_range_contains_the_addresses_with_its_leading_bits() {
        check(
            "203.0.113.0/24",
            &["203.0.113.0", "203.0.113.255", "::ffff:203.0.113.9"],
            &["203.0.112.255", "::1"],
        );
        check("203.0.113.7", &["203.0.113.7"], &["203.0.113.6"]);
        check("0.0.0.0/0", &["203.0.113.7", "255.255.255.255"], &["2001:db8::1"]);
        check("2001:db8::/33", &["2001:db8::1", "2001:db8:7fff::"], &["2001:db8:8000::", "203.0.113.7"]);
        check("::/0", &["2001:db8::1"], &["203.0.113.7"]);
    }

    #[test]
    fn invalid_ranges_are_rejected() {
        for text in [
            "",
            "/",
            "203.0.113.0/",
            "203.0.113.0/33",
            "2001:db8::/129",
            "203.0.113/24",
            "host/8",
            "1.2.3.4/-1",
        ] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }
}
