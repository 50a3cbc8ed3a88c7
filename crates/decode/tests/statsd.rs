//! The StatsD decoder: accepted and rejected input, and properties of every packet.

#[path = "support/samples.rs"]
mod samples;

use decode::sample::Measured;
use decode::statsd::decode;
use expect_test::{Expect, expect};
use proptest::prelude::*;

fn describe(packet: &[u8]) -> String {
    samples::describe(|emit| decode(packet, emit))
}

#[track_caller]
fn check(packet: impl AsRef<[u8]>, expected: Expect) {
    expected.assert_eq(&describe(packet.as_ref()));
}

#[test]
fn every_metric_kind_is_accepted() {
    check("hits:3|c", expect!["hits count 3"]);
    check("hits:-1|c", expect!["hits count -1"]);
    check("players:320|g", expect!["players gauge 320"]);
    check("players:+5|g", expect!["players change 5"]);
    check("players:-5|g", expect!["players change -5"]);
    check("load:12.75|ms", expect!["load timer 12.75"]);
    check("size:1e3|h", expect!["size value 1000"]);
    check("size:.5|d", expect!["size value 0.5"]);
    check("users:bo|s", expect!["users member bo"]);
}

#[test]
fn sampling_rate_becomes_a_weight_except_for_gauges_and_sets() {
    check("a:1|c|@0.1", expect!["a count 1 x10"]);
    check("a:1|ms|@0.25", expect!["a timer 1 x4"]);
    check("a:1|g|@0.1", expect!["a gauge 1"]);
    check("a:b|s|@0.1", expect!["a member b"]);
    check("a:1|c|@1", expect!["a count 1"]);
}

#[test]
fn rate_is_between_a_billionth_and_one() {
    for rate in ["0", "-0.5", "1.1", "NaN", "inf", "1e-10", "", "x"] {
        let packet = format!("a:1|c|@{rate}");
        assert_eq!(describe(packet.as_bytes()), format!("rejected: sample_rate_invalid in {packet:?}"));
    }
    check("a:1e308|c|@1e-9", expect![[r#"rejected: value_not_finite in "a:1e308|c|@1e-9""#]]);
}

#[test]
fn sections_are_accepted_in_any_order_but_once() {
    check(
        "a:1|c|#country:de,vip,url:http://x|@0.5|c:ci-4f|T1656581400|e:it-false|card:low",
        expect!["a count 1 x2 country=de vip= url=http://x at 1656581400000"],
    );
    check("a:1|c|T1656581400|#x", expect!["a count 1 x= at 1656581400000"]);
    check("a:1|c|#", expect!["a count 1"]);
    check("a:1|c|#a:1,,b:2,", expect!["a count 1 a=1 b=2"]);
    check("a:1|c|#a|#b", expect![[r#"rejected: malformed_line in "a:1|c|#a|#b""#]]);
    check("a:1|c|@1|@1", expect![[r#"rejected: malformed_line in "a:1|c|@1|@1""#]]);
    check("a:1|c|", expect![[r#"rejected: malformed_line in "a:1|c|""#]]);
    check("a:1|c|?", expect![[r#"rejected: malformed_line in "a:1|c|?""#]]);
    check("a:1|c|#:x", expect![[r#"rejected: malformed_line in "a:1|c|#:x""#]]);
    check("a:1|c|T-5", expect![[r#"rejected: ts_invalid in "a:1|c|T-5""#]]);
    check("a:1|c|T", expect![[r#"rejected: ts_invalid in "a:1|c|T""#]]);
    check("a:1|c|T253402300800", expect![[r#"rejected: ts_invalid in "a:1|c|T253402300800""#]]);
}

#[test]
fn line_may_have_several_values() {
    check(
        "a:1:2.5:-3|ms|@0.5|#x:y",
        expect![[r#"
            a timer 1 x2 x=y
            a timer 2.5 x2 x=y
            a timer -3 x2 x=y"#]],
    );
    check("a:1:b:3|c", expect![[r#"rejected: value_not_a_number in "a:1:b:3|c""#]]);
    check("a:1:|c", expect![[r#"rejected: value_not_a_number in "a:1:|c""#]]);
    check("users:b:c|s", expect!["users member b:c"]);
}

#[test]
fn line_may_have_several_kinds_in_the_old_syntax() {
    check(
        "a:1|c:2|ms|@0.5:+3|g",
        expect![[r#"
            a count 1
            a timer 2 x2
            a change 3"#]],
    );
    check(
        "a:1|c|@0.1:2|c",
        expect![[r#"
            a count 1 x10
            a count 2"#]],
    );
    check("a:1|c:2", expect![[r#"rejected: malformed_line in "a:1|c:2""#]]);
    check("a:1|c:2|c|#x", expect![[r#"rejected: malformed_line in "a:1|c:2|c|#x""#]]);
}

#[test]
fn invalid_line_does_not_affect_its_neighbours() {
    check(
        b"a:1|c\n\r\n\nbad\n\xff:1|c\nb:2|c\r\n_e{1,1}:a|b\n_sc|a|0\nc:NaN|g\n:1|c\nd:1|x\ne:1\nf:4|c",
        expect![[r#"
            a count 1
            rejected: malformed_line in "bad"
            rejected: not_utf8 in "�:1|c"
            b count 2
            rejected: kind_unsupported in "_e{1,1}:a|b"
            rejected: kind_unsupported in "_sc|a|0"
            rejected: value_not_finite in "c:NaN|g"
            rejected: event_name_empty in ":1|c"
            rejected: kind_unsupported in "d:1|x"
            rejected: malformed_line in "e:1"
            f count 4"#]],
    );
}

#[test]
fn names_and_tags_have_limits() {
    let reason = |line: String| describe(line.as_bytes()).split(' ').nth(1).map(str::to_string);
    let long = |len: usize| "x".repeat(len);
    assert_eq!(reason(format!("{}:1|c", long(200))).as_deref(), Some("count"));
    assert_eq!(reason(format!("{}:1|c", long(201))).as_deref(), Some("event_name_too_long"));
    assert_eq!(reason("$play:1|c".to_string()).as_deref(), Some("event_name_reserved"));
    assert_eq!(reason(format!("a:1|c|#{}", long(128))).as_deref(), Some("count"));
    assert_eq!(reason(format!("a:1|c|#{}", long(129))).as_deref(), Some("prop_key_too_long"));
    assert_eq!(reason(format!("a:1|c|#k:{}", long(1_024))).as_deref(), Some("count"));
    assert_eq!(reason(format!("a:1|c|#k:{}", long(1_025))).as_deref(), Some("prop_string_too_long"));
    assert_eq!(reason(format!("a:1|c|#{}", vec!["k"; 64].join(","))).as_deref(), Some("count"));
    assert_eq!(reason(format!("a:1|c|#{}", vec!["k"; 65].join(","))).as_deref(), Some("props_too_many_keys"));
    assert_eq!(reason(format!("a:{}|s", long(1_025))).as_deref(), Some("prop_string_too_long"));
}

const PIECES: &[&str] = &[
    "a", "hits.x", ":", ":", "1", "-2.5", "+3", "1e400", "nan", "|", "|", "|c", "|g", "|ms", "|h", "|s",
    "|x", "|@0.5", "|@0", "@", "|#", "#", "k:v", ",", "\n", "\n", "\r\n", "é", "_e{1,2}", "_sc|", "|T16",
    "|c:x", "$", " ",
];

fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn random_bytes_never_panic(packet: Vec<u8>) {
        samples::count(|emit| decode(&packet, emit));
    }

    #[test]
    fn every_line_is_accepted_or_rejected(packet in pieces()) {
        let count_line = |line: &str| samples::count(|emit| decode(line.as_bytes(), emit));
        let (mut accepted, mut rejected) = (0, 0);
        for line in packet.split('\n').filter(|line| !matches!(*line, "" | "\r")) {
            let (of_line, bad) = count_line(line);
            prop_assert!(bad == 0 && of_line >= 1 || bad == 1 && of_line == 0, "{:?}", line);
            accepted += of_line;
            rejected += bad;
        }
        prop_assert_eq!(samples::count(|emit| decode(packet.as_bytes(), emit)), (accepted, rejected));
    }

    #[test]
    fn written_input_is_read_back(
        name in r"[^$:|\n\r_][^:|\n\r]{0,30}",
        value in -1e15..1e15f64,
        rate in 1e-9..=1.0f64,
        tags in prop::collection::vec((r"[^:|,\n\r]{1,10}", r"[^|,\n\r]{0,10}"), 0..5),
        seconds in 0..253_402_300_800i64,
    ) {
        let sent = tags.iter().map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>().join(",");
        let line = format!("{name}:{value}|c|@{rate}|#{sent}|T{seconds}");
        let mut samples = 0;
        decode(line.as_bytes(), |result| {
            let sample = result.expect("the input is valid");
            assert_eq!((sample.name, sample.measured), (&*name, Measured::Count(value)));
            assert_eq!((sample.weight, sample.ts_ms), (1.0 / rate, Some(seconds * 1_000)));
            let read: Vec<_> = sample.tags.iter().map(|tag| (tag.key.to_string(), tag.value.to_string())).collect();
            assert_eq!(read, tags);
            samples += 1;
        });
        prop_assert_eq!(samples, 1);
    }
}
