//! The corpus of samples: each packet, body or file lies beside what is expected of it, `name.statsd` and
//! `name.statsd.txt`. `UPDATE_EXPECT=1` writes the expectations anew.

#[path = "support/samples.rs"]
mod samples;
mod support;

use decode::capture::{Translated, Untranslatable, gameanalytics, posthog, segment};
use decode::csv::{BadMapping, Mapping, Rows};
use decode::flow;
use decode::influx::{self, Precision};
use decode::otlp::{Encoding, Metrics, Series};
use decode::sample::Refused;
use decode::statsd;
use expect_test::expect_file;
use std::path::{Path, PathBuf};

#[track_caller]
fn check(ending: &str, at_least: usize, describe: impl Fn(&[u8]) -> String) {
    let files = files(ending);
    assert!(files.len() >= at_least, "the corpus is not where it was: {} files found", files.len());
    for path in files {
        let body = std::fs::read(&path).expect("the file is readable");
        expect_file![path.with_extension(format!("{ending}.txt"))].assert_eq(&(describe(&body) + "\n"));
    }
}

/// In the order of their names.
fn files(ending: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let files =
        std::fs::read_dir(folder).expect("the corpus is there").map(|file| file.expect("a file").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|own| own == ending)).collect();
    files.sort();
    files
}

#[test]
fn statsd_packets_say_what_they_always_said() {
    check("statsd", 10, |packet| samples::describe(|take| statsd::decode(packet, take)));
}

#[test]
fn influx_bodies_say_what_they_always_said() {
    check("influx", 8, |body| samples::describe(|take| influx::decode(body, Precision::Nanoseconds, take)));
}

#[test]
fn csv_files_say_what_they_always_said() {
    check("csv", 10, |file| {
        let mut rows = Rows::new(Mapping::default());
        let read = rows.read(file).and_then(|_| rows.finish());
        let events = rows.decoded().events;
        let said =
            rows.lines().zip(&events).map(|(number, event)| format!("{number}: {}", support::line(event)));
        let bad = read.err().map(|bad: BadMapping| format!("bad mapping: {bad}"));
        said.chain(bad).collect::<Vec<_>>().join("\n")
    });
}

#[test]
fn lines_of_packets_say_what_they_always_said() {
    let tell = |line: Result<flow::Line<'_>, Refused<'_>>| match line {
        Ok(line) => format!("{:?}", line.packet(5)),
        Err(refused) => refused.reject.label().to_owned(),
    };
    check("flow", 6, |body| flow::lines(body).map(tell).collect::<Vec<_>>().join("\n"));
}

/// In our words, and with which key; or why not.
fn describe_capture(told: Result<Translated, Untranslatable>) -> String {
    match told {
        Ok(told) => format!("key {:?}\n{}", told.key, String::from_utf8_lossy(&told.body)),
        Err(why) => format!("refused: {why}"),
    }
}

#[test]
fn bodies_of_other_services_clients_say_what_they_always_said() {
    check("posthog", 8, |body| {
        describe_capture(match posthog::beacon(body) {
            Some(inside) => inside.and_then(|inside| posthog::translate(&inside)),
            None => posthog::translate(body),
        })
    });
    check("segment", 6, |body| describe_capture(segment::translate(body)));
    check("gameanalytics", 6, |body| describe_capture(gameanalytics::translate(body)));
}

/// For a collector that began before the totals did.
fn describe_otlp(body: &[u8], encoding: Encoding) -> String {
    let (mut memory, mut series) = (Vec::new(), Series::new(1_600_000_000_000, 1 << 20));
    match Metrics::read(body, encoding, &mut memory) {
        Ok(metrics) => samples::describe(|take| metrics.samples(&mut series, 1_700_000_000_000, take)),
        Err(malformed) => format!("malformed: {malformed}"),
    }
}

#[test]
fn otlp_bodies_say_what_they_always_said() {
    check("otlp", 20, |body| describe_otlp(body, Encoding::Protobuf));
    check("otlpjson", 20, |body| describe_otlp(body, Encoding::Json));
}

#[test]
fn protobuf_and_json_of_the_same_request_say_the_same() {
    let mut pairs = 0;
    for path in files("otlp") {
        let json = path.with_extension("otlpjson");
        // `empty` is a request as protobuf and nothing as JSON.
        if !json.exists() || path.file_stem().is_some_and(|name| name == "empty" || name == "cut") {
            continue;
        }
        let read = |path: &Path| std::fs::read(path).expect("the file is readable");
        let said = describe_otlp(&read(&path), Encoding::Protobuf);
        assert_eq!(describe_otlp(&read(&json), Encoding::Json), said, "{}", path.display());
        pairs += 1;
    }
    assert!(pairs >= 12, "{pairs} pairs");
}
