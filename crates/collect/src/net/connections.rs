//! Limits on open connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use pipeline::catalog::address_group;

/// How many connections may be open at the same time.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// In total.
    pub total: usize,
    /// From one address (IPv6: one /64).
    pub per_address: usize,
    /// Subscriptions with one credential. Every client has the public key, so with a public key the limit is per address.
    pub subscriptions_per_credential_max: usize,
}

/// Counts open connections by address.
pub struct Connections {
    limits: ConnectionLimits,
    open: Mutex<OpenCounts>,
}

#[derive(Default)]
struct OpenCounts {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// One counted connection. Dropping it reduces the counts.
pub struct OpenConnection {
    connections: Arc<Connections>,
    address: IpAddr,
}

impl Connections {
    /// Returns counts of zero with these limits.
    pub fn new(limits: ConnectionLimits) -> Arc<Connections> {
        Arc::new(Connections { limits, open: Mutex::default() })
    }

    /// Counts a new connection from this address. Returns `None` if a limit is reached.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Option<OpenConnection> {
        let address = address_group(address);
        let mut open = self.open.lock();
        let total = open.total;
        let from_address = open.by_address.entry(address).or_default();
        if total >= self.limits.total || *from_address >= self.limits.per_address {
            return None;
        }
        *from_address += 1;
        open.total += 1;
        Some(OpenConnection { connections: Arc::clone(self), address })
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.total -= 1;
        if let Some(from_address) = open.by_address.get_mut(&self.address) {
            *from_address -= 1;
            if *from_address == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}
