//! Packets that the kernel had no room for, by socket.

use std::fs;
use std::net::UdpSocket;

use anyhow::Context;

/// Reads the counter of one socket in `/proc/net/udp` or `udp6`. Elsewhere than on Linux nothing is known of them.
pub(super) struct Drops {
    table: &'static str,
    inode: String,
    /// The kernel counts in 32 bits and begins anew.
    known: u32,
}

impl Drops {
    /// The counter of this socket.
    pub(super) fn of(socket: &UdpSocket) -> anyhow::Result<Drops> {
        let inode = rustix::fs::fstat(socket).context("asking for the socket's number")?.st_ino.to_string();
        let table = if socket.local_addr()?.is_ipv4() { "/proc/net/udp" } else { "/proc/net/udp6" };
        Ok(Drops { table, inode, known: 0 })
    }

    /// How many there were since the last call.
    pub(super) fn since_last(&mut self) -> u32 {
        let rows = fs::read_to_string(self.table).unwrap_or_default();
        let Some(now) = dropped(&rows, &self.inode) else { return 0 };
        now.wrapping_sub(std::mem::replace(&mut self.known, now))
    }
}

/// The last column of the row with this inode, which is the tenth.
fn dropped(rows: &str, inode: &str) -> Option<u32> {
    let row = rows.lines().find(|row| row.split_ascii_whitespace().nth(9) == Some(inode))?;
    row.split_ascii_whitespace().nth(12)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_found_by_its_inode() {
        let rows = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
                    2157: 0100007F:1FBD 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 17\n\
                    2158: 0100007F:1FBE 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 17 2 0000000000000000 0\n";
        assert_eq!(dropped(rows, "4711"), Some(17));
        assert_eq!(dropped(rows, "17"), Some(0));
        assert_eq!(dropped(rows, "1"), None);
    }
}
