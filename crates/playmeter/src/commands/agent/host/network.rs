//! Network interfaces, by the second.

use std::path::Path;
use std::time::Instant;

use procfs_core::net::{DeviceStatus, InterfaceDeviceStatus};

use super::file;
use crate::commands::agent::rate::Meters;
use crate::commands::agent::reading::{Parts, Reading};

/// Interfaces inside the host, of which nothing is told.
const INSIDE: [&str; 13] = [
    "lo", "veth", "docker", "br-", "virbr", "cni", "cali", "flannel", "ifb", "dummy", "sit", "ip6tnl", "tunl",
];

/// Remembers the totals of the last reading.
#[derive(Default)]
pub(super) struct Network {
    meters: Meters,
    interfaces: Parts,
}

impl Network {
    pub(super) fn read(&mut self, proc: &Path, sys: &Path, reading: &mut Reading, at: Instant) {
        let Ok(InterfaceDeviceStatus(all)) = file(proc, "self/net/dev") else { return };
        let mut all: Vec<DeviceStatus> = all.into_values().filter(is_outside).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        let counts = counted(&all, sys);
        let mut sum: Option<[f64; 3]> = None;
        for (interface, counts) in all.iter().zip(counts) {
            let rates = self.rates(interface, at);
            if counts && let [Some(received), Some(sent), Some(errors)] = rates {
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
        self.meters.keep(at);
    }

    /// Bytes received and sent, and packets that were damaged or dropped.
    fn rates(&mut self, interface: &DeviceStatus, at: Instant) -> [Option<f64>; 3] {
        let DeviceStatus { recv_errs, recv_drop, sent_errs, sent_drop, .. } = interface;
        [
            ("received", interface.recv_bytes),
            ("sent", interface.sent_bytes),
            ("errors", recv_errs + recv_drop + sent_errs + sent_drop),
        ]
        .map(|(what, total)| self.meters.per_second(&format!("{} {what}", interface.name), total as f64, at))
    }
}

/// Which of them count in the sum: those of hardware. What goes through a bond, a bridge, a VLAN or a tunnel goes through
/// one of these as well. A container has none, and all count.
fn counted(all: &[DeviceStatus], sys: &Path) -> Vec<bool> {
    let class = sys.join("class/net");
    let counts: Vec<bool> =
        all.iter().map(|interface| class.join(&interface.name).join("device").exists()).collect();
    let is_any = counts.contains(&true);
    counts.into_iter().map(|counts| counts || !is_any).collect()
}

fn is_outside(interface: &DeviceStatus) -> bool {
    let was_used = interface.recv_bytes + interface.sent_bytes > 0;
    was_used && !INSIDE.iter().any(|prefix| interface.name.starts_with(prefix))
}
