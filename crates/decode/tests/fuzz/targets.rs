//! The decoders, each with its dictionary.

use super::samples;
use decode::capture::{TranslateError, TranslatedBody, gameanalytics, plausible, posthog, segment, umami};
use decode::csv::{CsvReader, Mapping};
use decode::ddp::ClientMessage;
use decode::influx::Precision;
use decode::json::{BodyFormat, MalformedBody, decode};
use decode::lines::{LineChunk, LineSplitter};
use decode::otlp::{CumulativeSeries, Encoding, MetricsRequest};
use decode::sample::{Measured, RejectedInput, SampleResult};
use decode::{flow, rtcp};
use decode::{influx, playtomic, statsd};
use model::{RawBatch, RawEvent, Reject};
use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// One decoder.
pub(crate) struct Target {
    pub name: &'static str,
    /// The extensions of its seeds in the corpus.
    pub endings: &'static [&'static str],
    /// The dictionary of its inputs.
    pub words: &'static [&'static str],
    /// Decodes, checks the guarantees, and returns the behaviour as a number.
    pub run: fn(&[u8]) -> u64,
}

impl Target {
    pub(crate) fn seeds(&self) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let files =
            std::fs::read_dir(folder).expect("the corpus exists").map(|file| file.expect("a file").path());
        let mut files: Vec<_> = files
            .filter(|path| {
                path.extension().is_some_and(|ending| self.endings.iter().any(|own| ending == *own))
            })
            .collect();
        files.sort();
        let seeds = files.iter().map(|path| std::fs::read(path).expect("the file is readable"));
        seeds.chain(self.words.iter().map(|word| word.as_bytes().to_vec())).collect()
    }
}

pub(crate) fn ddp() -> Target {
    const WORDS: &[&str] = &[
        "{\"msg\":\"connect\",\"version\":\"1\",\"support\":[\"1\"]}",
        "{\"msg\":\"ping\"}",
        "{\"msg\":\"sub\",\"id\":\"a\",\"name\":\"online\",\"params\":[]}",
        "{\"msg\":\"unsub\",\"id\":\"a\"}",
        "{\"msg\":\"method\",\"id\":\"a\",\"method\":\"login\",\"params\":[]}",
        "\"params\":[{},{}]",
        "\"support\":[]",
        ",\"id\":\"b\"",
        "null",
        "[",
        "{",
        "\\ud800",
        "\"",
    ];
    Target { name: "ddp", endings: &["ddp"], words: WORDS, run: ddp_behaviour }
}

/// The behaviour: the kind of message and its size, or the length of its error.
fn ddp_behaviour(text: &[u8]) -> u64 {
    let Ok(text) = str::from_utf8(text) else { return 0 };
    let bounded = |name: &str| assert!((1..=128).contains(&name.len()), "{name}");
    match ClientMessage::read(text) {
        Ok(message) => {
            if let ClientMessage::Sub { id, name, params }
            | ClientMessage::Method { id, method: name, params } = &message
            {
                [id, name].into_iter().for_each(|name| bounded(name));
                return hash((std::mem::discriminant(&message), params.len()));
            }
            hash(std::mem::discriminant(&message))
        }
        Err(malformed) => hash(malformed.to_string().split(' ').count()),
    }
}

const JSON_WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    "\"event\":",
    "\"id\":",
    "\"ts\":",
    "\"props\":{",
    "\"value\":",
    "\"events\":[",
    "\"sent_at\":",
    "\"player\":\"bo\"",
    "null",
    "true",
    "\\u00e9",
    "\\ud83d\\ude00",
    "\\ud800",
    "1970-01-01T00:00:00Z",
    "{\"event\":\"a\"}",
];

pub(crate) fn json() -> Target {
    Target {
        name: "json",
        endings: &["json", "ndjson"],
        words: JSON_WORDS,
        run: |body| events(body, BodyFormat::Json),
    }
}

pub(crate) fn lines() -> Target {
    Target {
        name: "lines",
        endings: &["ndjson", "json"],
        words: JSON_WORDS,
        run: |body| events(body, BodyFormat::Lines),
    }
}

pub(crate) fn tracker() -> Target {
    const WORDS: &[&str] = &[
        "q=v/1~p/2",
        "q=t/y/1~t/n/2",
        "q=c/a/b~f/a/b/1",
        "q=lc/a/1~la/a/1/2.5~lr/a/1/2",
        "q=h/a/b/1/2~l/a/b/http:\\\\x/1/1/0",
        "q=pls/1~plw/1~plq/1~plr/1~plf/1",
        "&url=http://a.b/",
        "/",
        "~",
        "%2F",
        "%7E",
        "%u20ac",
        "%",
    ];
    Target { name: "tracker", endings: &[], words: WORDS, run: tracker_behaviour }
}

pub(crate) fn form() -> Target {
    const WORDS: &[&str] = &[
        "data=",
        "&hash=",
        "eyJhIjoxfQ==",
        "data=eyJhIjoxfQ==&hash=00000000000000000000000000000000",
        "%3D",
        "+",
        "-",
        "&",
        "=",
    ];
    let run = |body: &[u8]| hash(playtomic::parse_form(body).map(|form| form.is_signed_with("key")).is_ok());
    Target { name: "form", endings: &[], words: WORDS, run }
}

pub(crate) fn statsd() -> Target {
    const WORDS: &[&str] = &[
        "a:1|c",
        "|c",
        "|g",
        "|ms",
        "|h",
        "|d",
        "|s",
        "|@0.1",
        "|#k:v,w",
        "|T1656581400",
        "|c:ci",
        "|e:x",
        "|card:low",
        ":+1",
        ":1:2:3",
        "1|c:2|ms",
        "_e{1,1}:a|b",
        "_sc|a|0",
        "\n",
    ];
    Target {
        name: "statsd",
        endings: &["statsd"],
        words: WORDS,
        run: |packet| samples_behaviour(|emit| statsd::decode(packet, emit)),
    }
}

pub(crate) fn influx() -> Target {
    const WORDS: &[&str] = &[
        "a b=1",
        "a,b=c d=1i",
        "cpu,host=a value=t",
        "=\"x\"",
        "\"",
        ",k=v",
        " ",
        "1u",
        "FALSE",
        " 1556813561098000000",
        "\\ ",
        "\\,",
        "\\\"",
        "# ",
        "\n",
    ];
    let run = |body: &[u8]| samples_behaviour(|emit| influx::decode(body, Precision::Nanoseconds, emit));
    Target { name: "influx", endings: &["influx"], words: WORDS, run }
}

pub(crate) fn csv() -> Target {
    const WORDS: &[&str] = &[
        "event,id,ts,player,session,value,country,platform,level,a,props.b\n",
        "event\n",
        "\"",
        "\"\"",
        ",",
        "\n",
        "\r\n",
        "\r",
        "x,y",
        "0190b6a1-7c2e-7def-8a9b-0123456789ab",
        "1970-01-01T00:00:00Z",
        "true",
    ];
    Target { name: "csv", endings: &["csv"], words: WORDS, run: csv_behaviour }
}

pub(crate) fn otlp() -> Target {
    const WORDS: &[&str] = &["\x0a\x02\x12\0", "\x12\x02\x12\0", "\x0a\x01a", "\x10\x02", "\x18\x01"];
    Target {
        name: "otlp",
        endings: &["otlp"],
        words: WORDS,
        run: |body| otlp_behaviour(body, Encoding::Protobuf),
    }
}

pub(crate) fn otlp_json() -> Target {
    const WORDS: &[&str] = &[
        "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[",
        "{\"name\":\"a\",\"gauge\":{\"dataPoints\":[{\"asInt\":\"1\"}]}}",
        "\"sum\":{\"aggregationTemporality\":2,\"isMonotonic\":true,\"dataPoints\":[",
        "\"histogram\":{",
        "\"summary\":{",
        "\"exponentialHistogram\":{",
        "\"startTimeUnixNano\":\"1\"",
        "\"timeUnixNano\":2",
        "\"asDouble\":\"NaN\"",
        "\"count\":\"2\"",
        "\"bucketCounts\":[\"1\",1]",
        "\"explicitBounds\":[1.5]",
        "\"scale\":-1",
        "\"offset\":3",
        "\"flags\":1",
        "null",
        "{",
        "}",
        "[",
        "]",
        "\"attributes\":[{\"key\":\"k\",\"value\":{\"stringValue\":\"v\"}}]",
        "]}]}]}",
    ];
    Target {
        name: "otlp_json",
        endings: &["otlpjson"],
        words: WORDS,
        run: |body| otlp_behaviour(body, Encoding::Json),
    }
}

/// Points inside a request with valid lengths, so that more of them are read.
pub(crate) fn otlp_point() -> Target {
    const WORDS: &[&str] = &[
        "\x1a\x11\x01\0\0\0\0\0\0\0\x19\x02\0\0\0\0\0\0\0\x31\x05\0\0\0\0\0\0\0~\x11\x01\0\0\0\0\0\0\0\x19\x03\0\0\0\0\0\0\0\x31\x07\0\0\0\0\0\0\0",
        "\x0c\x11\x01\0\0\0\0\0\0\0\x19\x02\0\0\0\0\0\0\0\x21\x02\0\0\0\0\0\0\0\x29\0\0\0\0\0\0\0\x40\x31\x01\0\0\0\0\0\0\0\x31\x01\0\0\0\0\0\0\0\x39\0\0\0\0\0\0\0\x40~\x11\x01\0\0\0\0\0\0\0\x19\x03\0\0\0\0\0\0\0\x21\x03\0\0\0\0\0\0\0\x29\0\0\0\0\0\0\0\x40\x31\x01\0\0\0\0\0\0\0\x31\x02\0\0\0\0\0\0\0\x39\0\0\0\0\0\0\0\x40",
        "\x08\x11\x01\0\0\0\0\0\0\0\x19\x02\0\0\0\0\0\0\0\x21\x03\0\0\0\0\0\0\0\x29\0\0\0\0\0\0\0\x40\x30\x02\x39\x01\0\0\0\0\0\0\0\x42\x06\x08\x02\x12\x02\x01\x01~\x11\x01\0\0\0\0\0\0\0\x19\x03\0\0\0\0\0\0\0\x21\x06\0\0\0\0\0\0\0\x29\0\0\0\0\0\0\0\x40\x30\x02\x39\x01\0\0\0\0\0\0\0\x42\x06\x08\x02\x12\x02\x02\x01\x4a\x05\x12\x03\x01\0\x01",
        "\x04\x11\x01\0\0\0\0\0\0\0\x19\x02\0\0\0\0\0\0\0\x21\x02\0\0\0\0\0\0\0\x29\0\0\0\0\0\0\0\x40~\x11\x01\0\0\0\0\0\0\0\x19\x03\0\0\0\0\0\0\0\x21\x03\0\0\0\0\0\0\0\x29\0\0\0\0\0\0\0\x40",
        "\x11\x01\0\0\0\0\0\0\0",
        "\x19\x04\0\0\0\0\0\0\0",
        "\x21\x02\0\0\0\0\0\0\0",
        "\x21\x03\0\0\0\0\0\0\0",
        "\x29\0\0\0\0\0\0\0\x40",
        "\x31\x01\0\0\0\0\0\0\0",
        "\x39\0\0\0\0\0\0\0\x40",
        "\x39\x01\0\0\0\0\0\0\0",
        "\x30\x02",
        "\x30\x01",
        "\x42\x06\x08\x02\x12\x02\x01\x01",
        "\x4a\x04\x12\x02\x01\x01",
        "\x59\0\0\0\0\0\0\0\x40",
        "\x61\0\0\0\0\0\0\0\x40",
        "\x3a\x08\x0a\x01k\x12\x03\x0a\x01v",
        "\x40\x01",
        "\x50\x01",
        "~",
    ];
    Target { name: "otlp_point", endings: &[], words: WORDS, run: points_behaviour }
}

pub(crate) fn stream() -> Target {
    Target {
        name: "stream",
        endings: &["statsd", "influx"],
        words: &["\n", "\n\n", "aaaaaaaaaaaaaaaaaaaa"],
        run: stream_behaviour,
    }
}

pub(crate) fn rtcp() -> Target {
    const WORDS: &[&str] = &["\0\0\0\u{1}", "\u{1}", "\u{7}\0\0\u{8}", "\0\0\0\u{8}", "\0\u{1}", "name"];
    Target { name: "rtcp", endings: &["rtcp"], words: WORDS, run: rtcp_behaviour }
}

pub(crate) fn flow() -> Target {
    const WORDS: &[&str] = &[
        "{\"from\":\"a\",\"to\":\"b\",\"seq\":1}",
        "\"from\":",
        "\"to\":",
        "\"seq\":",
        "\"ts\":",
        "\"at\":",
        "\"bye\":true",
        "\"from_address\":\"192.0.2.1:5\"",
        "\"to_address\":",
        "[::1]:5",
        "1970-01-01T00:00:00Z",
        "4294967295",
        "\\u0061",
        "null",
        "{",
        "}",
    ];
    Target { name: "flow", endings: &["flow"], words: WORDS, run: flow_behaviour }
}

/// Bodies of all three services, each read as one of each.
pub(crate) fn capture() -> Target {
    const WORDS: &[&str] = &[
        "{\"api_key\":\"k\",\"batch\":[{\"event\":\"a\"}]}",
        "\"properties\":{\"distinct_id\":\"bo\"}",
        "\"event\":\"$identify\"",
        "\"$anon_distinct_id\":\"an\"",
        "\"$exception_list\":[{\"value\":\"x\"}]",
        "\"uuid\":\"0190b6a1-7c2e-7def-8a9b-0123456789ab\"",
        "\"timestamp\":\"2026-11-20T12:00:00Z\"",
        "\"type\":\"track\"",
        "\"type\":\"alias\",\"previousId\":1",
        "\"context\":{\"os\":{\"name\":\"iOS\"}}",
        "\"sentAt\":1795176000000",
        "\"batch\":[",
        "\"category\":\"design\",\"event_id\":\"a:b\"",
        "\"category\":\"progression\",\"event_id\":\"Fail:w\"",
        "\"category\":\"resource\",\"event_id\":\"Sink:a:b\",\"amount\":5",
        "\"client_ts\":1795199052",
        "\"n\":\"pageview\",\"u\":\"http://a/?ref=b\",\"d\":\"a\"",
        "\"type\":\"identify\",\"payload\":{\"website\":\"w\",\"data\":{}}",
        "data=eyJldmVudCI6ImEifQ==",
        "%3D",
        "&",
        "null",
        "{",
        "}",
        "[",
        "]",
        ":",
    ];
    Target {
        name: "capture",
        endings: &["posthog", "segment", "gameanalytics", "plausible", "umami"],
        words: WORDS,
        run: capture_behaviour,
    }
}

/// The behaviour of each translator.
fn capture_behaviour(body: &[u8]) -> u64 {
    let inside = posthog::beacon(body);
    let of_form = inside.as_ref().map(Result::is_ok);
    let beacon = inside.and_then(Result::ok);
    let translated = [
        posthog::translate(beacon.as_deref().unwrap_or(body)),
        segment::translate(body),
        segment::translate_as(body, Some("track")),
        gameanalytics::translate(body),
        plausible::translate(body, str::to_owned),
        umami::translate(body, str::to_owned),
    ];
    hash((of_form, translated.map(translation_behaviour)))
}

/// Checks that as many events come out as went in.
fn translation_behaviour(translated: Result<TranslatedBody, TranslateError>) -> (u8, usize, (u128, u64)) {
    let translated = match translated {
        Ok(translated) => translated,
        Err(TranslateError::NotJson(_)) => return (1, 0, (0, 0)),
        Err(TranslateError::Shape(_)) => return (2, 0, (0, 0)),
        Err(TranslateError::TooMany) => return (3, 0, (0, 0)),
    };
    let mut decoded = RawBatch::default();
    match decode(&translated.body, BodyFormat::Json, &mut decoded) {
        Ok(()) => assert_eq!(decoded.events.len(), translated.events),
        Err(why) => assert!(matches!(why, MalformedBody::TooDeep { .. }), "{why}"),
    }
    (0, decoded.events.len().min(3), events_behaviour(&decoded))
}

/// Reads everything in a datagram; the behaviour is the kinds of packets.
fn rtcp_behaviour(datagram: &[u8]) -> u64 {
    let compound = match rtcp::Compound::read(datagram) {
        Ok(compound) => compound,
        Err(malformed) => return hash(std::mem::discriminant(&malformed)),
    };
    let inner = |packet: rtcp::Packet<'_>| match packet {
        rtcp::Packet::SenderReport(report) => report.blocks.count(),
        rtcp::Packet::ReceiverReport(report) => report.blocks.count(),
        rtcp::Packet::Sdes(sdes) => sdes.chunks.map(|chunk| 1 + chunk.items.count()).sum(),
        rtcp::Packet::Bye(bye) => bye.sources.count() + bye.reason.len().min(1),
        rtcp::Packet::App(app) => app.data.len().min(1),
        rtcp::Packet::Xr(xr) => {
            xr.blocks.map(|block| usize::from(matches!(block, rtcp::XrBlock::Voip(_))) + 1).sum()
        }
        rtcp::Packet::Unknown(_) => 0,
    };
    let behaviour = |packet| (std::mem::discriminant(&packet), inner(packet).min(3));
    hash(compound.map(behaviour).take(4).collect::<Vec<_>>())
}

/// The behaviour: the reasons of rejection and the kinds of packets.
fn flow_behaviour(body: &[u8]) -> u64 {
    let line_behaviour = |line: Result<flow::PacketLine<'_>, RejectedInput<'_>>| match line {
        Ok(line) => {
            let packet = line.packet(0);
            let addresses = [packet.from.address, packet.to.address].map(|address| address.is_some());
            hash((std::mem::discriminant(&packet.kind), addresses))
        }
        Err(rejected) => hash(rejected.reject),
    };
    let behaviour: std::collections::BTreeSet<u64> = flow::lines(body).map(line_behaviour).collect();
    hash(behaviour)
}

fn hash(behaviour: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    behaviour.hash(&mut hasher);
    hasher.finish()
}

fn events(body: &[u8], form: BodyFormat) -> u64 {
    let mut decoded = RawBatch::default();
    let result = decode(body, form, &mut decoded);
    let malformed = result.err().map(|malformed| std::mem::discriminant(&malformed));
    hash((malformed, decoded.sent_at_ms.is_some(), events_behaviour(&decoded)))
}

fn tracker_behaviour(query: &[u8]) -> u64 {
    let Ok(query) = str::from_utf8(query) else { return 0 };
    match playtomic::parse_tracker(query) {
        Ok(events) => hash(events_behaviour(&events.decoded())),
        Err(error) => hash(std::mem::discriminant(&error)),
    }
}

/// Reads the file in one chunk and in small ones, with the same result.
fn csv_behaviour(file: &[u8]) -> u64 {
    let behaviour = rows_behaviour(file, usize::MAX);
    assert_eq!(rows_behaviour(file, 1 + file.len() % 7), behaviour, "in chunks");
    hash(behaviour)
}

fn rows_behaviour(file: &[u8], chunk_bytes: usize) -> (String, usize, (u128, u64)) {
    thread_local!(static ROWS: RefCell<CsvReader> = RefCell::new(CsvReader::new(Mapping::default())));
    ROWS.with_borrow_mut(|rows| {
        rows.restart();
        rows_behaviour_with(rows, file, chunk_bytes)
    })
}

fn rows_behaviour_with(
    rows: &mut CsvReader,
    file: &[u8],
    chunk_bytes: usize,
) -> (String, usize, (u128, u64)) {
    let read = file
        .chunks(chunk_bytes)
        .try_for_each(|chunk| rows.read(chunk).map(|read| assert_eq!(read, chunk.len())));
    let bad =
        read.and_then(|()| rows.finish()).err().map(|bad| format!("{:?}", std::mem::discriminant(&bad)));
    let decoded = rows.decoded();
    assert!(rows.lines().is_sorted());
    for props in decoded.events.iter().flatten().filter_map(|event| event.props) {
        assert!(serde_json::from_str::<serde::de::IgnoredAny>(props).is_ok(), "{props}");
    }
    (bad.unwrap_or_default(), decoded.events.len().min(4), events_behaviour(&decoded))
}

fn otlp_behaviour(body: &[u8], encoding: Encoding) -> u64 {
    let (mut memory, mut series) = (Vec::new(), CumulativeSeries::new(0, 2_000));
    let Ok(metrics) = MetricsRequest::read(body, encoding, &mut memory) else { return 0 };
    let behaviour = samples_behaviour(|emit| metrics.samples(&mut series, 0, emit));
    assert!(series.bytes() <= 2_000, "{} bytes", series.bytes());
    assert!(memory.len() <= 5 * body.len(), "{} bytes of {}", memory.len(), body.len());
    hash((behaviour, series.len().min(8)))
}

/// The first byte selects the kind of data; `~` separates points, because no field starts with it.
fn points_behaviour(input: &[u8]) -> u64 {
    let Some((kind, points)) = input.split_first() else { return 0 };
    let mut data = vec![2 << 3, 1 + (kind >> 3) % 2, 3 << 3, kind >> 4 & 1];
    points.split(|byte| *byte == b'~').for_each(|point| put(&mut data, 1, point));
    let mut metric = vec![1 << 3 | 2, 1, b'a'];
    put(&mut metric, [5, 7, 9, 10, 11][usize::from(kind % 5)], &data);
    let body = [2, 2, 1].into_iter().fold(metric, |inner, number| {
        let mut outer = Vec::new();
        put(&mut outer, number, &inner);
        outer
    });
    otlp_behaviour(&body, Encoding::Protobuf)
}

/// Appends a field of bytes, with a length of three bytes.
fn put(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    let len = bytes.len();
    out.extend([number << 3 | 2, len as u8 | 0x80, (len >> 7) as u8 | 0x80, (len >> 14) as u8]);
    out.extend_from_slice(bytes);
}

/// Checks that every byte is returned once or is in a line that is too long.
fn stream_behaviour(bytes: &[u8]) -> u64 {
    let (mut lines, mut out, mut too_long) = (LineSplitter::new(16), 0, 0);
    for chunk in bytes.chunks(1 + bytes.len() % 31) {
        lines.push(chunk);
        while let Some(piece) = lines.next_chunk(3) {
            match piece {
                LineChunk::Lines { bytes, .. } => out += bytes.len(),
                LineChunk::TooLong { .. } => too_long += 1,
            }
        }
    }
    lines.finish();
    if let Some(LineChunk::Lines { bytes, .. }) = lines.next_chunk(3) {
        out += bytes.len();
    }
    let is_long = |line: &&[u8]| line.len() - usize::from(line.ends_with(b"\n")) > 16;
    let skipped = bytes.split_inclusive(|byte| *byte == b'\n').filter(is_long);
    let (count, skipped) = skipped.fold((0, 0), |(count, bytes), line| (count + 1, bytes + line.len()));
    assert_eq!((out + skipped, too_long), (bytes.len(), count));
    hash((out.min(64), too_long))
}

/// The behaviour: the reasons and fields.
fn events_behaviour(decoded: &RawBatch<'_>) -> (u128, u64) {
    decoded.events.iter().fold((0, 0), |(reasons, fields), event| match event {
        Ok(event) => (reasons, fields | fields_of(event)),
        Err(reject) => (reasons | reason(*reject), fields),
    })
}

fn reason(reject: Reject) -> u128 {
    1 << (reject.code() % 128)
}

fn fields_of(event: &RawEvent<'_>) -> u64 {
    let has = [
        event.name.is_some(),
        event.id.is_some(),
        event.ts_ms.is_some(),
        event.player.is_some(),
        event.session.is_some(),
        event.value.is_some(),
        event.props.is_some(),
    ];
    let dimensions = event.dimensions.iter().map(Option::is_some);
    assert!(event.value.is_none_or(f64::is_finite), "{event:?}");
    has.into_iter().chain(dimensions).fold(1, |bits, has| bits << 1 | u64::from(has))
}

/// The behaviour of checked samples: their reasons and kinds.
fn samples_behaviour(decode: impl FnOnce(&mut dyn FnMut(SampleResult<'_>))) -> u64 {
    let (mut reasons, mut kinds, mut histograms) = (0, 0u64, 0u64);
    samples::each(decode, |result| match result {
        Ok(sample) => {
            let tags = sample.tags.len().min(3) * 8 + usize::from(sample.weight != 1.0) * 32;
            kinds |= 1 << ((tags + kind(sample.measured)) % 64);
            if let Measured::Histogram(histogram) = sample.measured {
                let range = usize::from(histogram.min < histogram.max) + 2 * usize::from(histogram.min < 0.0);
                histograms |= 1 << (histogram.buckets.len().min(15) + 16 * range);
            }
        }
        Err(rejected) => reasons |= reason(rejected.reject),
    });
    hash((reasons, kinds, histograms))
}

fn kind(measured: Measured<'_>) -> usize {
    match measured {
        Measured::Count(_) => 0,
        Measured::Gauge(_) => 1,
        Measured::Change(_) => 2,
        Measured::Timer(_) => 3,
        Measured::Value(_) => 4,
        Measured::Member(_) => 5,
        Measured::Histogram(_) => 6,
    }
}
