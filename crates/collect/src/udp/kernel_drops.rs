//! Packets of a socket that the kernel dropped.

use std::fs;
use std::net::UdpSocket;

use anyhow::Context;

/// Reads the drop counter of one socket from `/proc/net/udp` or `udp6`. Drops are only known on Linux.
pub(super) struct KernelDrops {
    table: &'static str,
    inode: String,
    /// The counter at the last call. The kernel counts in 32 bits and wraps around.
    last: u32,
}

impl KernelDrops {
    /// Finds the counter of this socket.
    pub(super) fn of(socket: &UdpSocket) -> anyhow::Result<KernelDrops> {
        let inode = rustix::fs::fstat(socket).context("reading the socket's inode")?.st_ino.to_string();
        let table = if socket.local_addr()?.is_ipv4() { "/proc/net/udp" } else { "/proc/net/udp6" };
        Ok(KernelDrops { table, inode, last: 0 })
    }

    /// Returns the number of packets dropped since the last call.
    pub(super) fn since_last(&mut self) -> u32 {
        let rows = fs::read_to_string(self.table).unwrap_or_default();
        let Some(now) = drop_count(&rows, &self.inode) else { return 0 };
        now.wrapping_sub(std::mem::replace(&mut self.last, now))
    }
}

/// Returns the last column of the row with this inode, which is the tenth column.
fn drop_count(rows: &str, inode: &str) -> Option<u32> {
    let row = rows.lines().find(|row| row.split_ascii_whitespace().nth(9) == Some(inode))?;
    row.split_ascii_whitespace().nth(12)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_is_found_by_its_inode() {
        let rows = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
                    2157: 0100007F:1FBD 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 17\n\
                    2158: 0100007F:1FBE 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 17 2 0000000000000000 0\n";
        assert_eq!(drop_count(rows, "4711"), Some(17));
        assert_eq!(drop_count(rows, "17"), Some(0));
        assert_eq!(drop_count(rows, "1"), None);
    }
}
