//! What is in the packets: the same for every server, and known from a packet's number alone.

/// A packet of so many lines still fits into a datagram of an Ethernet.
pub const LINES_MAX: usize = 100;
pub const NAMES_MAX: usize = 100_000;
pub const FLOWS_MAX: usize = 1_000_000;

/// Different packets of lines that are kept ready.
const PACKETS: usize = 1_024;
/// A prime, so that neighbours in time are far apart among the flows.
const SCATTER: u64 = 48_271;
const COMPOUND_BYTES: usize = 76;

/// Makes the packet of each number.
#[derive(Debug)]
pub enum Content {
    /// Packets of lines, in turn.
    Lines { packets: Vec<Vec<u8>>, lines: usize },
    /// Reports about flows, each flow once a round.
    Reports { flows: u64, compound: [u8; COMPOUND_BYTES] },
}

impl Content {
    /// Counters that go up by one: so many lines a packet, over so many names.
    pub fn statsd(names: usize, lines: usize) -> Self {
        let packet = |first: usize| {
            let lines: Vec<String> = (0..lines).map(|line| name((first * lines + line) % names)).collect();
            lines.join("\n").into_bytes()
        };
        Self::Lines { packets: (0..PACKETS.max(names)).map(packet).collect(), lines }
    }

    /// Reports as the two ends of calls send them every five seconds.
    pub fn rtcp(flows: usize) -> Self {
        Self::Reports { flows: flows as u64, compound: [0; COMPOUND_BYTES] }
    }

    /// The packet and how many lines it has.
    pub fn packet(&mut self, number: u64) -> (&[u8], u64) {
        match self {
            Self::Lines { packets, lines } => (&packets[number as usize % packets.len()], *lines as u64),
            Self::Reports { flows, compound } => {
                let flow = (number % *flows * SCATTER % *flows) as u32;
                let round = (number / *flows) as u32;
                let (one, other) = (2 * flow + 1, 2 * flow + 2);
                let (by, about) = if round.is_multiple_of(2) { (one, other) } else { (other, one) };
                *compound = report(by, about, round);
                (compound, 0)
            }
        }
    }
}

fn name(number: usize) -> String {
    format!("bench.{}.{}:1|c", number / 10, number % 10)
}

/// A sender report with one block and the sender's name: RFC 3550, 6.4.1 and 6.5.
fn report(by: u32, about: u32, round: u32) -> [u8; COMPOUND_BYTES] {
    // Seconds since 1900; any will do that go up.
    let ntp_s = 3_900_000_000 + 5 * round;
    let sent = 250 * round;
    let words: [u32; COMPOUND_BYTES / 4] = [
        0x81c8_000c, // sender report, one block, 13 words
        by,
        ntp_s,
        0,
        40_000 * round,
        sent,
        40_000 * round,
        about,
        0,
        sent, // highest number that came
        80,   // jitter
        ntp_s << 16,
        2 << 16,     // two seconds since that report
        0x81ca_0005, // one name, 6 words
        by,
        0x010d_616e,
        0x6f6e_796d,
        0x6f75_7340,
        0x6f6e_6500,
    ];
    let mut bytes = [0; COMPOUND_BYTES];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(content: &mut Content, number: u64) -> String {
        String::from_utf8(content.packet(number).0.to_vec()).expect("is text")
    }

    #[test]
    fn every_name_comes_equally_often() {
        let (mut content, mut counts) = (Content::statsd(30, 4), std::collections::BTreeMap::new());
        for number in 0..PACKETS as u64 {
            for line in text(&mut content, number).lines() {
                *counts.entry(line.to_owned()).or_insert(0) += 1;
            }
        }
        let (least, most) = (counts.values().min(), counts.values().max());
        assert_eq!(counts.len(), 30);
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{counts:?}");
    }

    #[test]
    fn each_flow_reports_once_a_round_from_one_end_and_then_the_other() {
        let mut content = Content::rtcp(10);
        let mut ends = |round: u64| {
            let mut pairs: Vec<[u8; 8]> = (0..10)
                .map(|number| {
                    let (packet, _) = content.packet(round * 10 + number);
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
