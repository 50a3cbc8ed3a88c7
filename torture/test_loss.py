"""Tests of the wait for the server's receive buffers."""

import unittest

from loss import unread_bytes

# Port 35 (0x23) has two sockets, one of them with unread packets; port 36 has none unread.
TABLE = """\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  101: 0100007F:0023 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0000000000000000 0
  102: 0100007F:0023 00000000:0000 07 00000000:00000300 00:00000000 00000000     0        0 2 2 0000000000000000 0
  103: 0100007F:0024 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 3 2 0000000000000000 0
"""


class UnreadBytesTests(unittest.TestCase):
    def test_every_socket_of_the_port_is_read_from_the_table(self):
        self.assertEqual(list(unread_bytes(TABLE, 0x23)), [0, 0x300])
        self.assertEqual(list(unread_bytes(TABLE, 0x24)), [0])
        self.assertEqual(list(unread_bytes(TABLE, 0x25)), [])


if __name__ == "__main__":
    unittest.main()
