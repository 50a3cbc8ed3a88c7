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
    /// From one address (IPv6: one /64). Behind a proxy: requests in progress, streams and sockets of one client.
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
    /// Counts for this address; `None` for the connection of a proxy.
    address: Option<IpAddr>,
    /// Counts in the total; false for what a client does over the connection of a proxy.
    in_total: bool,
}

impl Connections {
    /// Returns counts of zero with these limits.
    pub fn new(limits: ConnectionLimits) -> Arc<Connections> {
        Arc::new(Connections { limits, open: Mutex::default() })
    }

    /// Returns the limits.
    pub fn limits(&self) -> &ConnectionLimits {
        &self.limits
    }

    /// Counts a new connection of the client at this address. Returns `None` if a limit is reached.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Option<OpenConnection> {
        self.count(Some(address), true)
    }

    /// Counts a new connection of a proxy, in the total only. Its clients are counted with
    /// [`Connections::admit_client`].
    pub fn admit_proxy(self: &Arc<Self>) -> Option<OpenConnection> {
        self.count(None, true)
    }

    /// Counts a request, stream or socket of the client at this address over the connection of a proxy, which is in the
    /// total already. Returns `None` if the limit per address is reached.
    pub fn admit_client(self: &Arc<Self>, address: IpAddr) -> Option<OpenConnection> {
        self.count(Some(address), false)
    }

    fn count(self: &Arc<Self>, address: Option<IpAddr>, in_total: bool) -> Option<OpenConnection> {
        let address = address.map(address_group);
        let mut open = self.open.lock();
        if in_total && open.total >= self.limits.total {
            return None;
        }
        if let Some(address) = address {
            let from_address = open.by_address.get(&address).copied().unwrap_or(0);
            if from_address >= self.limits.per_address {
                return None;
            }
            open.by_address.insert(address, from_address + 1);
        }
        open.total += usize::from(in_total);
        Some(OpenConnection { connections: Arc::clone(self), address, in_total })
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.total -= usize::from(self.in_total);
        let Some(address) = self.address else { return };
        if let Some(from_address) = open.by_address.get_mut(&address) {
            *from_address -= 1;
            if *from_address == 0 {
                open.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_behind_a_proxy_are_counted_by_address_and_the_proxy_in_total() {
        let limits = ConnectionLimits { total: 2, per_address: 3, subscriptions_per_credential_max: 1 };
        let connections = Connections::new(limits);
        let [one, two] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        let proxies: Vec<_> = (0..2).filter_map(|_| connections.admit_proxy()).collect();
        assert!(connections.admit_proxy().is_none() && connections.admit(two).is_none());
        let clients: Vec<_> = (0..4).filter_map(|_| connections.admit_client(one)).collect();
        assert_eq!((proxies.len(), clients.len()), (2, 3));
        assert!(connections.admit_client(two).is_some());
        drop((proxies, clients));
        let open = connections.open.lock();
        assert_eq!((open.total, open.by_address.len()), (0, 0));
    }
}
