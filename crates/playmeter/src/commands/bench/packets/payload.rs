//! The content of the packets. It only depends on the number of a packet, so that it is the same for every server.

/// A packet with this many lines still fits into an Ethernet frame.
pub(crate) const LINES_MAX: usize = 100;
pub(crate) const NAMES_MAX: usize = 100_000;
pub(crate) const FLOWS_MAX: usize = 1_000_000;

/// Number of different prepared packets of lines.
const PACKETS: usize = 1_024;
/// A prime, so that consecutive packets belong to distant flows.
const FLOW_STRIDE: u64 = 48_271;
const COMPOUND_BYTES: usize = 76;

/// A generator of numbered packets.
#[derive(Debug)]
pub(crate) enum PacketPayload {
    /// Packets of lines, used in turn.
    Lines { packets: Vec<Vec<u8>>, lines: usize },
    /// Reports about flows, each flow once per round.
    Reports { flows: u64, compound: [u8; COMPOUND_BYTES] },
}

impl PacketPayload {
    /// Creates StatsD counters with this many lines per packet and different names.
    pub(crate) fn statsd(names: usize, lines: usize) -> Self {
        let packet = |first: usize| {
            let lines: Vec<String> = (0..lines).map(|line| name((first * lines + line) % names)).collect();
            lines.join("\n").into_bytes()
        };
        Self::Lines { packets: (0..PACKETS.max(names)).map(packet).collect(), lines }
    }

    /// Creates RTCP reports as the two ends of calls send them every five seconds.
    pub(crate) fn rtcp(flows: usize) -> Self {
        Self::Reports { flows: flows as u64, compound: [0; COMPOUND_BYTES] }
    }

    /// Returns the packet with this number and its number of lines.
    pub(crate) fn packet(&mut self, number: u64) -> (&[u8], u64) {
        match self {
            Self::Lines { packets, lines } => (&packets[number as usize % packets.len()], *lines as u64),
            Self::Reports { flows, compound } => {
                let flow = (number % *flows * FLOW_STRIDE % *flows) as u32;
                let round = (number / *flows) as u32;
                let (first, second) = (2 * flow + 1, 2 * flow + 2);
                let (sender, subject) =
                    if round.is_multiple_of(2) { (first, second) } else { (second, first) };
                *compound = report(sender, subject, round);
                (compound, 0)
            }
        }
    }
}

fn name(number: usize) -> String {
    format!("bench.{}.{}:1|c", number / 10, number % 10)
}

/// Returns a sender report with one block and the name of the sender: RFC 3550, 6.4.1 and 6.5.
fn report(sender: u32, subject: u32, round: u32) -> [u8; COMPOUND_BYTES] {
    // Seconds since 1900. Only the increase matters.
    let ntp_s = 3_900_000_000 + 5 * round;
    let sent = 250 * round;
    let words: [u32; COMPOUND_BYTES / 4] = [
        0x81c8_000c, // sender report, one block, 13 words
        sender,
        ntp_s,
        0,
        40_000 * round,
        sent,
        40_000 * round,
        subject,
        0,
        sent, // highest received sequence number
        80,   // jitter
        ntp_s << 16,
        2 << 16,     // two seconds since that report
        0x81ca_0005, // one name, 6 words
        sender,
        0x010d_616e,
        0x6f6e_796d,
        0x6f75_7340,
        0x6f6e_6500,
    ];
    let mut bytes = [0; COMPOUND_BYTES];
    for (chunk, word) in bytes.chunks_exact_mut(4).zip(words) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(payload: &mut PacketPayload, number: u64) -> String {
        String::from_utf8(payload.packet(number).0.to_vec()).expect("is text")
    }

    #[test]
    fn all_names_are_equally_frequent() {
        let (mut payload, mut counts) = (PacketPayload::statsd(30, 4), std::collections::BTreeMap::new());
        for number in 0..PACKETS as u64 {
            for line in text(&mut payload, number).lines() {
                *counts.entry(line.to_owned()).or_insert(0) += 1;
            }
        }
        let (least, most) = (counts.values().min(), counts.values().max());
        assert_eq!(counts.len(), 30);
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{counts:?}");
    }

    #[test]
    fn ends_of_each_flow_report_in_turn() {
        let mut payload = PacketPayload::rtcp(10);
        let mut ends = |round: u64| {
            let mut pairs: Vec<[u8; 8]> = (0..10)
                .map(|number| {
                    let (packet, _) = payload.packet(round * 10 + number);
                    let mut pair = [0; 8];
                    pair[..4].copy_from_slice(&packet[4..8]);
                    pair[4..].copy_from_slice(&packet[28..32]);
                    pair
                })
                .collect();
            pairs.sort_unstable();
            pairs
        };
        let (first, second) = (ends(0), ends(1));
        let swapped = |pair: &[u8; 8]| [&pair[4..], &pair[..4]].concat();
        let mut expected: Vec<Vec<u8>> = first.iter().map(swapped).collect();
        expected.sort_unstable();
        assert_eq!(second.concat(), expected.concat());
    }
}
