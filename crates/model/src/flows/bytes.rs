//! Decoding of numbers and addresses in stored flows.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The rest of the bytes. Malformed input gives `None`, never a panic.
pub(super) struct FlowReader<'a>(pub &'a [u8]);

impl<'a> FlowReader<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// Reads a number that is finite and not negative.
    pub(crate) fn amount(&mut self) -> Option<f64> {
        self.array().map(f64::from_le_bytes).filter(|amount| amount.is_finite() && *amount >= 0.0)
    }

    /// Reads bytes that are preceded by their length in one byte.
    pub(crate) fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.u8()?);
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    /// Reads an address; see [`put_address`].
    pub(crate) fn address(&mut self) -> Option<Option<SocketAddr>> {
        let (octets, port) = (self.array::<16>()?, u16::from_le_bytes(self.array()?));
        let ip = Ipv6Addr::from(octets);
        Some((!ip.is_unspecified()).then(|| SocketAddr::new(IpAddr::V6(ip).to_canonical(), port)))
    }
}

/// Appends an address in 18 bytes: an IPv6 or IPv4-mapped address and the port; all zeros for none.
pub(super) fn put_address(bytes: &mut Vec<u8>, address: Option<SocketAddr>) {
    let (octets, port) = address.map_or(([0; 16], 0), |address| {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        (ip.octets(), address.port())
    });
    bytes.extend_from_slice(&octets);
    bytes.extend_from_slice(&port.to_le_bytes());
}
