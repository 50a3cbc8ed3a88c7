//! Throughput and errors of network interfaces.

use std::path::Path;
use std::time::Instant;

use procfs_core::net::{DeviceStatus, InterfaceDeviceStatus};

use super::parse_file;
use crate::commands::agent::rate::CounterRates;
use crate::commands::agent::reading::{PartLimit, Reading};

/// Prefixes of virtual interfaces inside the host, which are not reported.
const INTERNAL: [&str; 13] = [
    "lo", "veth", "docker", "br-", "virbr", "cni", "cali", "flannel", "ifb", "dummy", "sit", "ip6tnl", "tunl",
];

/// Reads network metrics.
#[derive(Default)]
pub(super) struct NetworkReader {
    rates: CounterRates,
    interfaces: PartLimit,
}

impl NetworkReader {
    pub(super) fn read(&mut self, proc: &Path, sys: &Path, reading: &mut Reading, at: Instant) {
        let Ok(InterfaceDeviceStatus(all)) = parse_file(proc, "self/net/dev") else { return };
        let mut all: Vec<DeviceStatus> = all.into_values().filter(is_reported).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        let is_counted = counted_in_total(&all, sys);
        let mut sum: Option<[f64; 3]> = None;
        for (interface, is_counted) in all.iter().zip(is_counted) {
            let rates = self.rates(interface, at);
            if is_counted && let [Some(received), Some(sent), Some(errors)] = rates {
                let sum = sum.get_or_insert_default();
                *sum = [sum[0] + received, sum[1] + sent, sum[2] + errors];
            }
            if self.interfaces.admit(&interface.name, reading.at_ms) {
                reading.add_part("interface.received", &interface.name, rates[0]);
                reading.add_part("interface.sent", &interface.name, rates[1]);
                reading.add_part("interface.errors", &interface.name, rates[2]);
            }
        }
        reading.add("host.network_received", sum.map(|sum| sum[0]));
        reading.add("host.network_sent", sum.map(|sum| sum[1]));
        reading.add("host.network_errors", sum.map(|sum| sum[2]));
        self.rates.retain_read_at(at);
    }

    /// Returns bytes received, bytes sent, and damaged or dropped packets, each per second.
    fn rates(&mut self, interface: &DeviceStatus, at: Instant) -> [Option<f64>; 3] {
        let DeviceStatus { recv_errs, recv_drop, sent_errs, sent_drop, .. } = interface;
        [
            ("received", interface.recv_bytes),
            ("sent", interface.sent_bytes),
            ("errors", recv_errs + recv_drop + sent_errs + sent_drop),
        ]
        .map(|(counter, total)| {
            self.rates.per_second(&format!("{} {counter}", interface.name), total as f64, at)
        })
    }
}

/// Returns for each interface whether it counts in the total of the host. Only hardware interfaces do, because traffic of
/// a bond, a bridge, a VLAN or a tunnel also goes through one of them. In a container without any, all count.
fn counted_in_total(all: &[DeviceStatus], sys: &Path) -> Vec<bool> {
    let class = sys.join("class/net");
    let is_hardware: Vec<bool> =
        all.iter().map(|interface| class.join(&interface.name).join("device").exists()).collect();
    let has_hardware = is_hardware.contains(&true);
    is_hardware.into_iter().map(|is_hardware| is_hardware || !has_hardware).collect()
}

fn is_reported(interface: &DeviceStatus) -> bool {
    let was_used = interface.recv_bytes + interface.sent_bytes > 0;
    was_used && !INTERNAL.iter().any(|prefix| interface.name.starts_with(prefix))
}
