//! The decoders, each with what its inputs are made of.

use super::samples;
use decode::capture::{Translated, Untranslatable, gameanalytics, posthog, segment};
use decode::csv::{Mapping, Rows};
use decode::ddp::Inbound;
use decode::influx::Precision;
use decode::json::{Form, Malformed, decode};
use decode::lines::{Lines, Piece};
use decode::otlp::{Encoding, Metrics, Series};
use decode::sample::{Measured, Refused, Taken};
use decode::{flow, rtcp};
use decode::{influx, playtomic, statsd};
use model::{RawBatch, RawEvent, Reject};
use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// One decoder.
pub struct Target {
    pub name: &'static str,
    /// Files of the corpus with these endings are where it begins.
    pub endings: &'static [&'static str],
    /// What its inputs are made of.
    pub words: &'static [&'static str],
    /// Decodes, checks what was promised, and says what happened as a number.
    pub run: fn(&[u8]) -> u64,
}

impl Target {
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let files =
            std::fs::read_dir(folder).expect("the corpus is there").map(|file| file.expect("a file").path());
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

pub fn ddp() -> Target {
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
    Target { name: "ddp", endings: &["ddp"], words: WORDS, run: message }
}

/// Which message it was, with how much, or in how many words it was refused.
fn message(text: &[u8]) -> u64 {
    let Ok(text) = str::from_utf8(text) else { return 0 };
    let bounded = |name: &str| assert!((1..=128).contains(&name.len()), "{name}");
    match Inbound::read(text) {
        Ok(Some(message)) => {
            if let Inbound::Sub { id, name, params } | Inbound::Method { id, method: name, params } = &message
            {
                [id, name].into_iter().for_each(|name| bounded(name));
                return hash((std::mem::discriminant(&message), params.len()));
            }
            hash(std::mem::discriminant(&message))
        }
        Ok(None) => 1,
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

pub fn json() -> Target {
    Target {
        name: "json",
        endings: &["json", "ndjson"],
        words: JSON_WORDS,
        run: |body| events(body, Form::Json),
    }
}

pub fn lines() -> Target {
    Target {
        name: "lines",
        endings: &["ndjson", "json"],
        words: JSON_WORDS,
        run: |body| events(body, Form::Lines),
    }
}

pub fn tracker() -> Target {
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
    Target { name: "tracker", endings: &[], words: WORDS, run: tracked }
}

pub fn form() -> Target {
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
    let run = |body: &[u8]| hash(playtomic::form(body).map(|form| form.is_signed_with("key")).is_ok());
    Target { name: "form", endings: &[], words: WORDS, run }
}

pub fn statsd() -> Target {
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
        run: |packet| sampled(|take| statsd::decode(packet, take)),
    }
}

pub fn influx() -> Target {
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
    let run = |body: &[u8]| sampled(|take| influx::decode(body, Precision::Nanoseconds, take));
    Target { name: "influx", endings: &["influx"], words: WORDS, run }
}

pub fn csv() -> Target {
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
    Target { name: "csv", endings: &["csv"], words: WORDS, run: rows }
}

pub fn otlp() -> Target {
    const WORDS: &[&str] = &["\x0a\x02\x12\0", "\x12\x02\x12\0", "\x0a\x01a", "\x10\x02", "\x18\x01"];
    Target { name: "otlp", endings: &["otlp"], words: WORDS, run: |body| otlp_said(body, Encoding::Protobuf) }
}

pub fn otlp_json() -> Target {
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
        run: |body| otlp_said(body, Encoding::Json),
    }
}

/// Points inside a request whose lengths are always right, so that more of them are read.
pub fn otlp_point() -> Target {
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
    Target { name: "otlp_point", endings: &[], words: WORDS, run: points_said }
}

pub fn stream() -> Target {
    Target {
        name: "stream",
        endings: &["statsd", "influx"],
        words: &["\n", "\n\n", "aaaaaaaaaaaaaaaaaaaa"],
        run: stream_cut,
    }
}

pub fn rtcp() -> Target {
    const WORDS: &[&str] = &["\0\0\0\u{1}", "\u{1}", "\u{7}\0\0\u{8}", "\0\0\0\u{8}", "\0\u{1}", "name"];
    Target { name: "rtcp", endings: &["rtcp"], words: WORDS, run: compounds }
}

pub fn flow() -> Target {
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
    Target { name: "flow", endings: &["flow"], words: WORDS, run: packets }
}

/// Bodies of all three services, each read as one of each.
pub fn capture() -> Target {
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
    Target { name: "capture", endings: &["posthog", "segment", "gameanalytics"], words: WORDS, run: captured }
}

/// What each of the translators made of it.
fn captured(body: &[u8]) -> u64 {
    let inside = posthog::beacon(body);
    let of_form = inside.as_ref().map(Result::is_ok);
    let beacon = inside.and_then(Result::ok);
    let told = [
        posthog::translate(beacon.as_deref().unwrap_or(body)),
        segment::translate(body),
        segment::translate_as(body, Some("track")),
        gameanalytics::translate(body),
    ];
    hash((of_form, told.map(told_in_our_words)))
}

/// As many events come out of our words as came in the others.
fn told_in_our_words(told: Result<Translated, Untranslatable>) -> (u8, usize, (u128, u64)) {
    let told = match told {
        Ok(told) => told,
        Err(Untranslatable::NotJson(_)) => return (1, 0, (0, 0)),
        Err(Untranslatable::Shape(_)) => return (2, 0, (0, 0)),
        Err(Untranslatable::TooMany) => return (3, 0, (0, 0)),
    };
    let mut decoded = RawBatch::default();
    match decode(&told.body, Form::Json, &mut decoded) {
        Ok(()) => assert_eq!(decoded.events.len(), told.events),
        Err(why) => assert!(matches!(why, Malformed::TooDeep { .. }), "{why}"),
    }
    (0, decoded.events.len().min(3), events_said(&decoded))
}

/// Everything in a datagram is read; which kinds of packets there were.
fn compounds(datagram: &[u8]) -> u64 {
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
            xr.blocks.map(|block| usize::from(matches!(block, rtcp::Block::Voip(_))) + 1).sum()
        }
        rtcp::Packet::Unknown(_) => 0,
    };
    let behaviour = |packet| (std::mem::discriminant(&packet), inner(packet).min(3));
    hash(compound.map(behaviour).take(4).collect::<Vec<_>>())
}

/// Which refusals and kinds of packets there were.
fn packets(body: &[u8]) -> u64 {
    let told = |line: Result<flow::Line<'_>, Refused<'_>>| match line {
        Ok(line) => {
            let packet = line.packet(0);
            let addresses = [packet.from.address, packet.to.address].map(|address| address.is_some());
            hash((std::mem::discriminant(&packet.kind), addresses))
        }
        Err(refused) => hash(refused.reject),
    };
    let told: std::collections::BTreeSet<u64> = flow::lines(body).map(told).collect();
    hash(told)
}

fn hash(behaviour: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    behaviour.hash(&mut hasher);
    hasher.finish()
}

fn events(body: &[u8], form: Form) -> u64 {
    let mut decoded = RawBatch::default();
    let result = decode(body, form, &mut decoded);
    let malformed = result.err().map(|malformed| std::mem::discriminant(&malformed));
    hash((malformed, decoded.sent_at_ms.is_some(), events_said(&decoded)))
}

fn tracked(query: &[u8]) -> u64 {
    let Ok(query) = str::from_utf8(query) else { return 0 };
    match playtomic::tracker(query) {
        Ok(tracked) => hash(events_said(&tracked.decoded())),
        Err(error) => hash(std::mem::discriminant(&error)),
    }
}

/// In one chunk and in small ones, which must come to the same.
fn rows(file: &[u8]) -> u64 {
    let said = rows_said(file, usize::MAX);
    assert_eq!(rows_said(file, 1 + file.len() % 7), said, "in chunks");
    hash(said)
}

fn rows_said(file: &[u8], chunk_bytes: usize) -> (String, usize, (u128, u64)) {
    thread_local!(static ROWS: RefCell<Rows> = RefCell::new(Rows::new(Mapping::default())));
    ROWS.with_borrow_mut(|rows| {
        rows.restart();
        rows_said_by(rows, file, chunk_bytes)
    })
}

fn rows_said_by(rows: &mut Rows, file: &[u8], chunk_bytes: usize) -> (String, usize, (u128, u64)) {
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
    (bad.unwrap_or_default(), decoded.events.len().min(4), events_said(&decoded))
}

fn otlp_said(body: &[u8], encoding: Encoding) -> u64 {
    let (mut memory, mut series) = (Vec::new(), Series::new(0, 2_000));
    let Ok(metrics) = Metrics::read(body, encoding, &mut memory) else { return 0 };
    let said = sampled(|take| metrics.samples(&mut series, 0, take));
    assert!(series.bytes() <= 2_000, "{} bytes", series.bytes());
    assert!(memory.len() <= 5 * body.len(), "{} bytes of {}", memory.len(), body.len());
    hash((said, series.len().min(8)))
}

/// The first byte says of which kind, `~` stands between points: no field begins with it.
fn points_said(input: &[u8]) -> u64 {
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
    otlp_said(&body, Encoding::Protobuf)
}

/// Appends a field that holds bytes, with a length of three bytes.
fn put(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    let len = bytes.len();
    out.extend([number << 3 | 2, len as u8 | 0x80, (len >> 7) as u8 | 0x80, (len >> 14) as u8]);
    out.extend_from_slice(bytes);
}

/// Every byte comes out once, or is in a line that is too long.
fn stream_cut(bytes: &[u8]) -> u64 {
    let (mut lines, mut out, mut too_long) = (Lines::new(16), 0, 0);
    for chunk in bytes.chunks(1 + bytes.len() % 31) {
        lines.push(chunk);
        while let Some(piece) = lines.take(3) {
            match piece {
                Piece::Lines { bytes, .. } => out += bytes.len(),
                Piece::TooLong { .. } => too_long += 1,
            }
        }
    }
    lines.finish();
    if let Some(Piece::Lines { bytes, .. }) = lines.take(3) {
        out += bytes.len();
    }
    let is_long = |line: &&[u8]| line.len() - usize::from(line.ends_with(b"\n")) > 16;
    let left_out = bytes.split_inclusive(|byte| *byte == b'\n').filter(is_long);
    let (count, left_out) = left_out.fold((0, 0), |(count, bytes), line| (count + 1, bytes + line.len()));
    assert_eq!((out + left_out, too_long), (bytes.len(), count));
    hash((out.min(64), too_long))
}

/// Which reasons and fields there were.
fn events_said(decoded: &RawBatch<'_>) -> (u128, u64) {
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

/// Which reasons and kinds there were, of checked samples.
fn sampled(decode: impl FnOnce(&mut dyn FnMut(Taken<'_>))) -> u64 {
    let (mut reasons, mut kinds, mut spreads) = (0, 0u64, 0u64);
    samples::each(decode, |taken| match taken {
        Ok(sample) => {
            let tags = sample.tags.len().min(3) * 8 + usize::from(sample.weight != 1.0) * 32;
            kinds |= 1 << ((tags + kind(sample.measured)) % 64);
            if let Measured::Spread(spread) = sample.measured {
                let range = usize::from(spread.min < spread.max) + 2 * usize::from(spread.min < 0.0);
                spreads |= 1 << (spread.parts.len().min(15) + 16 * range);
            }
        }
        Err(refused) => reasons |= reason(refused.reject),
    });
    hash((reasons, kinds, spreads))
}

fn kind(measured: Measured<'_>) -> usize {
    match measured {
        Measured::Count(_) => 0,
        Measured::Gauge(_) => 1,
        Measured::Change(_) => 2,
        Measured::Timer(_) => 3,
        Measured::Value(_) => 4,
        Measured::Member(_) => 5,
        Measured::Spread(_) => 6,
    }
}
