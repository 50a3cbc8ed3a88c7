//! Reading numbers back from the stored form of a flow.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// What is left of the bytes. Whatever they are, an answer of `None` is the worst.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    /// A number that is finite and not negative.
    pub fn amount(&mut self) -> Option<f64> {
        self.take().map(f64::from_le_bytes).filter(|amount| amount.is_finite() && *amount >= 0.0)
    }

    /// Bytes behind their length, which is one byte.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.u8()?);
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    /// See [`put_address`].
    pub fn address(&mut self) -> Option<Option<SocketAddr>> {
        let (octets, port) = (self.take::<16>()?, u16::from_le_bytes(self.take()?));
        let ip = Ipv6Addr::from(octets);
        Some((!ip.is_unspecified()).then(|| SocketAddr::new(IpAddr::V6(ip).to_canonical(), port)))
    }
}

/// 18 bytes: an IPv6 address, or an IPv4 address as one, and the port; all zeros for none.
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
