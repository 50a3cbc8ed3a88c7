//! The corpus: each packet, body or file is next to its expected result, `name.statsd` and `name.statsd.txt`.
//! `UPDATE_EXPECT=1` rewrites the expected results.

#[path = "support/samples.rs"]
mod samples;
mod support;

use decode::capture::{TranslateError, TranslatedBody, gameanalytics, plausible, posthog, segment, umami};
use decode::csv::{CsvReader, Mapping, MappingError};
use decode::flow;
use decode::influx::{self, Precision};
use decode::otlp::{CumulativeSeries, Encoding, MetricsRequest};
use decode::sample::RejectedInput;
use decode::statsd;
use expect_test::expect_file;
use std::path::{Path, PathBuf};

#[track_caller]
fn check(ending: &str, at_least: usize, describe: impl Fn(&[u8]) -> String) {
    let files = files(ending);
    assert!(files.len() >= at_least, "the corpus is incomplete: {} files found", files.len());
    for path in files {
        let body = std::fs::read(&path).expect("the file is readable");
        expect_file![path.with_extension(format!("{ending}.txt"))].assert_eq(&(describe(&body) + "\n"));
    }
}

/// Returns the files with this ending, sorted by name.
fn files(ending: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let files =
        std::fs::read_dir(folder).expect("the corpus exists").map(|file| file.expect("a file").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|own| own == ending)).collect();
    files.sort();
    files
}

#[test]
fn statsd_packets_decode_as_expected() {
    check("statsd", 10, |packet| samples::describe(|emit| statsd::decode(packet, emit)));
}

#[test]
fn influx_bodies_decode_as_expected() {
    check("influx", 8, |body| samples::describe(|emit| influx::decode(body, Precision::Nanoseconds, emit)));
}

#[test]
fn csv_files_decode_as_expected() {
    check("csv", 10, |file| {
        let mut rows = CsvReader::new(Mapping::default());
        let read = rows.read(file).and_then(|_| rows.finish());
        let events = rows.decoded().events;
        let described =
            rows.lines().zip(&events).map(|(number, event)| format!("{number}: {}", support::line(event)));
        let bad = read.err().map(|bad: MappingError| format!("bad mapping: {bad}"));
        described.chain(bad).collect::<Vec<_>>().join("\n")
    });
}

#[test]
fn flow_lines_decode_as_expected() {
    let describe = |line: Result<flow::PacketLine<'_>, RejectedInput<'_>>| match line {
        Ok(line) => format!("{:?}", line.packet(5)),
        Err(rejected) => rejected.reject.label().to_owned(),
    };
    check("flow", 6, |body| flow::lines(body).map(describe).collect::<Vec<_>>().join("\n"));
}

/// Describes a translated body and its key, or the error.
fn describe_capture(translated: Result<TranslatedBody, TranslateError>) -> String {
    match translated {
        Ok(translated) => format!("key {:?}\n{}", translated.key, String::from_utf8_lossy(&translated.body)),
        Err(why) => format!("rejected: {why}"),
    }
}

#[test]
fn capture_bodies_translate_as_expected() {
    check("posthog", 8, |body| {
        describe_capture(match posthog::beacon(body) {
            Some(inside) => inside.and_then(|inside| posthog::translate(&inside)),
            None => posthog::translate(body),
        })
    });
    check("segment", 6, |body| describe_capture(segment::translate(body)));
    check("gameanalytics", 6, |body| describe_capture(gameanalytics::translate(body)));
    check("plausible", 4, |body| describe_capture(plausible::translate(body, str::to_owned)));
    check("umami", 4, |body| describe_capture(umami::translate(body, str::to_owned)));
}

/// Describes a body for a collector that was started before the totals.
fn describe_otlp(body: &[u8], encoding: Encoding) -> String {
    let (mut memory, mut series) = (Vec::new(), CumulativeSeries::new(1_600_000_000_000, 1 << 20));
    match MetricsRequest::read(body, encoding, &mut memory) {
        Ok(metrics) => samples::describe(|emit| metrics.samples(&mut series, 1_700_000_000_000, emit)),
        Err(malformed) => format!("malformed: {malformed}"),
    }
}

#[test]
fn otlp_bodies_decode_as_expected() {
    check("otlp", 20, |body| describe_otlp(body, Encoding::Protobuf));
    check("otlpjson", 20, |body| describe_otlp(body, Encoding::Json));
}

#[test]
fn protobuf_and_json_of_the_same_request_decode_equally() {
    let mut pairs = 0;
    for path in files("otlp") {
        let json = path.with_extension("otlpjson");
        // `empty` is a valid request as protobuf and not valid JSON.
        if !json.exists() || path.file_stem().is_some_and(|name| name == "empty" || name == "cut") {
            continue;
        }
        let read = |path: &Path| std::fs::read(path).expect("the file is readable");
        let described = describe_otlp(&read(&path), Encoding::Protobuf);
        assert_eq!(describe_otlp(&read(&json), Encoding::Json), described, "{}", path.display());
        pairs += 1;
    }
    assert!(pairs >= 12, "{pairs} pairs");
}
