//! RTCP as written by another program, a corpus of difficult datagrams, and arbitrary bytes.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use decode::rtcp::{Compound, MalformedDatagram, Packet};
use proptest::prelude::*;
use rtcp_types::prelude::*;
use rtcp_types::{App, Bye, ReceiverReport, ReportBlock, Sdes, SdesChunk, SdesItem, SenderReport, Xr};

/// Describes everything in a datagram.
fn described(datagram: &[u8]) -> String {
    let compound = match Compound::read(datagram) {
        Ok(compound) => compound,
        Err(malformed) => return format!("rejected: {malformed}\n"),
    };
    let mut text = String::new();
    for packet in compound {
        describe_packet(&mut text, packet).expect("writing to a string does not fail");
    }
    text
}

fn describe_packet(text: &mut String, packet: Packet<'_>) -> std::fmt::Result {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match packet {
        Packet::SenderReport(report) => {
            let (ssrc, ntp, rtp) = (report.ssrc, report.ntp, report.rtp);
            writeln!(
                text,
                "SR {ssrc:08x} ntp {ntp:016x} rtp {rtp} sent {} {}",
                report.packets, report.octets
            )?;
            report.blocks.into_iter().try_for_each(|block| writeln!(text, "  {block:?}"))
        }
        Packet::ReceiverReport(report) => {
            writeln!(text, "RR {:08x}", report.ssrc)?;
            report.blocks.into_iter().try_for_each(|block| writeln!(text, "  {block:?}"))
        }
        Packet::Sdes(sdes) => sdes.chunks.into_iter().try_for_each(|chunk| {
            writeln!(text, "SDES {:08x}", chunk.ssrc)?;
            chunk
                .items
                .into_iter()
                .try_for_each(|item| writeln!(text, "  {} {:?}", item.kind, lossy(item.text)))
        }),
        Packet::Bye(bye) => {
            let sources: Vec<String> = bye.sources.map(|ssrc| format!("{ssrc:08x}")).collect();
            writeln!(text, "BYE {} {:?}", sources.join(" "), lossy(bye.reason))
        }
        Packet::App(app) => {
            writeln!(text, "APP {:08x} {} {:?} {:02x?}", app.ssrc, app.subtype, lossy(&app.name), app.data)
        }
        Packet::Xr(xr) => {
            writeln!(text, "XR {:08x}", xr.ssrc)?;
            xr.blocks.into_iter().try_for_each(|block| writeln!(text, "  {block:02x?}"))
        }
        Packet::Unknown(kind) => writeln!(text, "unknown {kind}"),
    }
}

/// Encodes a packet with the crate `rtcp-types`.
fn written(packet: impl RtcpPacketWriter) -> Vec<u8> {
    let mut bytes = vec![0; packet.calculate_size().expect("a size")];
    packet.write_into(&mut bytes).expect("the buffer is large enough");
    bytes
}

fn check(packets: &[Vec<u8>], expected: &str) {
    let expected: String = expected.lines().map(str::trim_start).filter(|line| !line.is_empty()).collect();
    let described: String = described(&packets.concat()).lines().map(str::trim_start).collect();
    assert_eq!(described, expected);
}

fn block() -> rtcp_types::ReportBlockBuilder {
    ReportBlock::builder(0x0102_0304)
        .fraction_lost(64)
        .cumulative_lost(0x1_0203)
        .extended_sequence_number(0x0001_fffe)
        .interarrival_jitter(160)
        .last_sender_report_timestamp(0xb705_2000)
        .delay_since_last_sender_report_timestamp(0x5_4000)
}

const BLOCK: &str = "ReportBlock { ssrc: 16909060, fraction: 64, lost: 66051, highest: 131070, jitter: 160, \
                     lsr: 3070566400, dlsr: 344064 }";

#[test]
fn compound_of_another_program_is_read() {
    let sender = SenderReport::builder(0x0a0b_0c0d)
        .ntp_timestamp(0xb44d_b705_2000_0000)
        .rtp_timestamp(90_000)
        .packet_count(1_000)
        .octet_count(160_000)
        .add_report_block(block());
    let cname = SdesItem::builder(SdesItem::CNAME, "ann@example.org");
    let tool = SdesItem::builder(SdesItem::TOOL, "a tool");
    let names = SdesChunk::builder(0x0a0b_0c0d).add_item(cname).add_item(tool);
    let more = SdesChunk::builder(7).add_item(SdesItem::builder(SdesItem::CNAME, ""));
    let sdes = Sdes::builder().add_chunk(names).add_chunk(more);
    let bye = Bye::builder().add_source(0x0a0b_0c0d).add_source(9).reason("done");
    check(
        &[written(sender), written(sdes), written(bye)],
        &format!(
            "SR 0a0b0c0d ntp b44db70520000000 rtp 90000 sent 1000 160000
               {BLOCK}
             SDES 0a0b0c0d
               1 \"ann@example.org\"
               6 \"a tool\"
             SDES 00000007
               1 \"\"
             BYE 0a0b0c0d 00000009 \"done\""
        ),
    );
}

#[test]
fn receiver_reports_and_app_packets_are_read() {
    let receiver = ReceiverReport::builder(3).add_report_block(block()).add_report_block(block());
    let app = App::builder(4, "name").subtype(5).data(&[1, 2, 3, 4]);
    let expected = format!("RR 00000003\n{BLOCK}\n{BLOCK}\nAPP 00000004 5 \"name\" [01, 02, 03, 04]");
    check(&[written(receiver), written(app)], &expected);
    check(&[written(Bye::builder())], "BYE  \"\"");
}

#[test]
fn extended_reports_are_read() {
    let time = rtcp_types::ReceiverReferenceTime::builder().ntp_timestamp(0x0102_0304_0506_0708);
    let xr = Xr::builder().sender_ssrc(9).add_block(time);
    check(&[written(xr)], "XR 00000009\nOther(04, [01, 02, 03, 04, 05, 06, 07, 08])");
}

/// Each datagram is next to its expected result, `name.rtcp` and `name.rtcp.txt`. `UPDATE_EXPECT=1` rewrites the expected
/// results.
#[test]
fn corpus_decodes_as_expected() {
    let datagrams = corpus();
    assert!(datagrams.len() >= 40, "the corpus is incomplete: {} datagrams found", datagrams.len());
    for (path, datagram) in datagrams {
        expect_test::expect_file![path.with_extension("rtcp.txt")].assert_eq(&described(&datagram));
    }
}

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let entries = std::fs::read_dir(folder).expect("the folder is readable");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "rtcp"));
    paths.sort();
    let read = |path: PathBuf| (path.clone(), std::fs::read(path).expect("the file is readable"));
    paths.into_iter().map(read).collect()
}

/// Plausible headers with arbitrary content.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let packet = (0u8..4, 0u8..32, prop::sample::select(vec![200u8, 201, 202, 203, 204, 205, 207]), 0u16..14)
        .prop_flat_map(|(padded, count, kind, words)| {
            let content =
                prop::collection::vec(prop_oneof![Just(0u8), 0u8..9, any::<u8>()], 4 * words as usize);
            content.prop_map(move |content| {
                let first = 0x80 | if padded == 0 { 0x20 } else { 0 } | count.min(4);
                [&[first, kind, 0, words as u8][..], &content].concat()
            })
        });
    prop::collection::vec(packet, 1..4).prop_map(|packets| packets.concat())
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        described(&bytes);
    }

    #[test]
    fn no_plausible_bytes_panic(bytes in plausible()) {
        described(&bytes);
    }

    /// Both readers must agree where packets start and end.
    #[test]
    fn packet_boundaries_agree_with_another_reader(bytes in plausible()) {
        let theirs = rtcp_types::Compound::parse(&bytes).map(|packets| packets.collect::<Vec<_>>());
        let Ok(theirs) = theirs else { return Ok(()) };
        let is_taken = theirs.iter().all(|packet| packet.is_ok());
        if let (true, Ok(ours)) = (is_taken, Compound::read(&bytes)) {
            prop_assert_eq!(ours.count(), theirs.len());
        }
        let is_cut = matches!(Compound::read(&bytes), Err(MalformedDatagram::Truncated { .. } | MalformedDatagram::Version { .. }));
        prop_assert!(!(is_taken && is_cut));
    }

    #[test]
    fn no_corrupted_datagram_panics(
        which: prop::sample::Index,
        corruptions in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 1..4),
    ) {
        let corpus = corpus();
        let (_, mut bytes) = corpus[which.index(corpus.len())].clone();
        for (place, byte, kind) in corruptions {
            let at = place.index(bytes.len() + 1);
            match kind {
                0 if at < bytes.len() => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
        }
        described(&bytes);
    }

    /// No packet is lost after the check.
    #[test]
    fn every_header_yields_a_packet(bytes in plausible()) {
        if let Ok(compound) = Compound::read(&bytes) {
            let (mut headers, mut at) = (0, 0);
            while at < bytes.len() {
                at += 4 * (usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]])) + 1);
                headers += 1;
            }
            prop_assert_eq!(compound.count(), headers);
        }
    }
}
