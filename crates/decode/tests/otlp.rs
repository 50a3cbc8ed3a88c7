//! What the decoder of OpenTelemetry's metrics takes and refuses, rule by rule, and what holds for every body.

#[path = "support/samples.rs"]
mod samples;

use decode::otlp::{Encoding, Malformed, Metrics, Series, answer, problem};
use decode::sample::Measured;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

/// When the collector began.
const SINCE_MS: i64 = 1_000_000;
const SINCE_NS: u64 = SINCE_MS as u64 * 1_000_000;

fn describe(metrics: Value, series: &mut Series) -> String {
    let body = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}).to_string();
    let mut memory = Vec::new();
    match Metrics::read(body.as_bytes(), Encoding::Json, &mut memory) {
        Ok(metrics) => samples::describe(|take| metrics.samples(series, SINCE_MS, take)),
        Err(malformed) => malformed.to_string(),
    }
}

#[track_caller]
fn check(metrics: Value, expected: Expect) {
    expected.assert_eq(&describe(metrics, &mut Series::new(SINCE_MS, 1 << 20)));
}

/// A counter of which totals are sent; times are seconds since the collector began.
fn total(start_s: i64, time_s: i64, value: i64) -> Value {
    json!({"name": "hits", "sum": {"aggregationTemporality": 2, "isMonotonic": true, "dataPoints":
        [{"startTimeUnixNano": ns(start_s), "timeUnixNano": ns(time_s), "asInt": value.to_string()}]}})
}

fn ns(seconds: i64) -> String {
    (SINCE_NS as i64 + seconds * 1_000_000_000).to_string()
}

#[test]
fn sums_are_counters_or_gauges_by_what_their_numbers_mean() {
    let sum = |temporality: u8, is_monotonic: bool| {
        json!([{"name": "a", "sum": {"aggregationTemporality": temporality, "isMonotonic": is_monotonic,
            "dataPoints": [{"startTimeUnixNano": ns(0), "timeUnixNano": ns(1), "asDouble": 2.5}]}}])
    };
    check(sum(1, true), expect!["a count 2.5 at 1001000"]);
    check(sum(1, false), expect!["a change 2.5 at 1001000"]);
    check(sum(2, true), expect!["a count 2.5 at 1001000"]);
    check(sum(2, false), expect!["a gauge 2.5 at 1001000"]);
    check(sum(0, true), expect![[r#"refused: kind_unsupported in "a""#]]);
}

#[test]
fn of_a_total_what_it_grew_by_counts() {
    check(
        json!([total(0, 1, 5), total(0, 2, 9), total(0, 3, 9)]),
        expect![[r#"
        hits count 5 at 1001000
        hits count 4 at 1002000
        hits count 0 at 1003000"#]],
    );
}

#[test]
fn a_total_that_comes_twice_or_late_is_a_duplicate() {
    check(
        json!([total(0, 2, 9), total(0, 2, 9), total(0, 1, 5), total(0, 3, 10)]),
        expect![[r#"
        hits count 9 at 1002000
        refused: seen_before in "hits"
        refused: seen_before in "hits"
        hits count 1 at 1003000"#]],
    );
}

#[test]
fn a_sender_that_starts_again_counts_from_nothing() {
    check(
        json!([total(0, 1, 5), total(2, 3, 2), total(2, 4, 3)]),
        expect![[r#"
        hits count 5 at 1001000
        hits count 2 at 1003000
        hits count 1 at 1004000"#]],
    );
    // Without a new start the smaller number tells.
    check(
        json!([total(0, 1, 5), total(0, 2, 3)]),
        expect![[r#"
        hits count 5 at 1001000
        hits count 3 at 1002000"#]],
    );
}

#[test]
fn what_was_counted_before_the_collector_began_is_not_new() {
    check(
        json!([total(-9, 1, 100), total(-9, 2, 103)]),
        expect![[r#"
        hits count 0 at 1001000
        hits count 3 at 1002000"#]],
    );
}

#[test]
fn two_senders_that_look_the_same_are_both_followed() {
    check(
        json!([total(0, 1, 5), total(1, 2, 50), total(0, 3, 6), total(1, 4, 51)]),
        expect![[r#"
        hits count 5 at 1001000
        hits count 50 at 1002000
        hits count 1 at 1003000
        hits count 1 at 1004000"#]],
    );
}

#[test]
fn whole_numbers_keep_their_digits_until_the_difference_is_taken() {
    let large = 1 << 60;
    check(
        json!([total(0, 1, large), total(0, 2, large + 1)]),
        expect![[r#"
        hits count 1152921504606847000 at 1001000
        hits count 1 at 1002000"#]],
    );
}

#[test]
fn a_point_that_says_it_has_no_value_is_nothing() {
    check(
        json!([{"name": "a", "gauge": {"dataPoints": [{"flags": 1}, {"asInt": "1", "flags": 1}]}}]),
        expect![""],
    );
}

#[test]
fn series_take_no_more_memory_than_they_may() {
    let mut series = Series::new(SINCE_MS, 2_000);
    let point = |player: usize| {
        json!({"startTimeUnixNano": ns(0), "timeUnixNano": ns(1), "asInt": "1",
            "attributes": [{"key": "player", "value": {"intValue": player.to_string()}}]})
    };
    let points: Vec<_> = (1_000..1_100).map(point).collect();
    let hits = json!([{"name": "hits", "sum": {"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": points}}]);
    let said = describe(hits.clone(), &mut series);
    let full = said.matches("series_full").count();
    assert!((1..100).contains(&full) && series.len() == 100 - full && series.bytes() <= 2_000);
    let body = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": hits}]}]}).to_string();
    let mut memory = Vec::new();
    let metrics = Metrics::read(body.as_bytes(), Encoding::Json, &mut memory).expect("it is right");
    let an_hour_later = SINCE_MS + 3_600_000;
    let (taken, _) = samples::count(|take| metrics.samples(&mut series, an_hour_later, take));
    assert_eq!(taken, 100 - full, "silent series made room");
}

#[test]
fn a_series_does_not_grow_beyond_the_memory_there_is() {
    let histogram = |time_s: i64, buckets: usize| {
        json!({"name": "size", "histogram": {"aggregationTemporality": 2, "dataPoints": [{
            "startTimeUnixNano": ns(0), "timeUnixNano": ns(time_s), "count": buckets, "sum": 1,
            "bucketCounts": vec![1; buckets], "explicitBounds": (1..buckets).collect::<Vec<_>>()}]}})
    };
    let mut series = Series::new(SINCE_MS, 2_000);
    let said = describe(json!([histogram(1, 2), histogram(2, 1_000), histogram(3, 3)]), &mut series);
    expect![[r#"
        size spread count 2 sum 1 min 0 max 1 [(0.5, 1), (1.0, 1)] at 1001000
        refused: series_full in "size"
        size spread count 1 sum 0 min 0 max 0 [(0.0, 1)] at 1003000"#]]
    .assert_eq(&said);
    assert!(series.bytes() <= 2_000);
}

#[test]
fn the_order_of_attributes_does_not_tell_series_apart() {
    let point = |time_s: i64, keys: [&str; 2]| {
        let attributes = keys.map(|key| json!({"key": key, "value": {"stringValue": "x"}}));
        json!({"startTimeUnixNano": ns(0), "timeUnixNano": ns(time_s), "asInt": "5", "attributes": attributes})
    };
    let points = [point(1, ["a", "b"]), point(2, ["b", "a"])];
    check(
        json!([{"name": "hits", "sum": {"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": points}}]),
        expect![[r#"
            hits count 5 a=x b=x at 1001000
            hits count 0 b=x a=x at 1002000"#]],
    );
}

#[test]
fn answers_are_what_the_protocol_asks_for() {
    assert_eq!(answer(Encoding::Protobuf, 0, ""), b"");
    assert_eq!(answer(Encoding::Protobuf, 300, "no"), b"\x0a\x07\x08\xac\x02\x12\x02no");
    assert_eq!(answer(Encoding::Json, 0, ""), b"{}");
    let json: Value = serde_json::from_slice(&answer(Encoding::Json, 3, "a \"b\"")).expect("it is JSON");
    assert_eq!(json, json!({"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "a \"b\""}}));
    assert_eq!(problem(Encoding::Protobuf, "no"), b"\x12\x02no");
    assert_eq!(problem(Encoding::Json, "no"), br#"{"message":"no"}"#);
    assert_eq!(Encoding::Protobuf.content_type(), "application/x-protobuf");
}

#[test]
fn a_body_of_another_type_is_refused_whole_and_says_where() {
    let read =
        |body: &[u8]| Metrics::read(body, Encoding::Protobuf, &mut Vec::new()).map(|_| ()).unwrap_err();
    assert_eq!(read(b"\x0a\x05\x12"), Malformed::Protobuf { field: "resourceMetrics" });
    assert_eq!(read(b"\x0a\x05\x12\x03\x12\x01\xff"), Malformed::Protobuf { field: "metrics" });
}

/// A field of a message: its number, and bytes.
fn put(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    put_varint(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_fixed(out: &mut Vec<u8>, number: u8, bits: u64) {
    out.push(number << 3 | 1);
    out.extend_from_slice(&bits.to_le_bytes());
}

/// The request around a point: `form` is the number of the metric's field, of differences.
fn around(form: u8, point: &[u8]) -> Vec<u8> {
    let (mut data, mut metric) = (Vec::new(), Vec::new());
    put(&mut data, 1, point);
    data.extend([2 << 3, 1]);
    put(&mut metric, form, &data);
    put(&mut metric, 1, b"name");
    [2, 2, 1].into_iter().fold(metric, |inner, number| {
        let mut outer = Vec::new();
        put(&mut outer, number, &inner);
        outer
    })
}

fn described(body: &[u8]) -> Option<String> {
    let (mut memory, mut series) = (Vec::new(), Series::new(SINCE_MS, 1 << 20));
    let metrics = Metrics::read(body, Encoding::Protobuf, &mut memory).ok()?;
    Some(samples::describe(|take| metrics.samples(&mut series, SINCE_MS, take)))
}

proptest! {
    #[test]
    fn random_bytes_never_panic(body: Vec<u8>, form in 5..12u8) {
        described(&body);
        described(&around(form, &body));
        let mut memory = Vec::new();
        let _ = Metrics::read(&body, Encoding::Json, &mut memory);
    }

    #[test]
    fn what_totals_grow_by_adds_up_to_them(steps in prop::collection::vec((0..1_000_000i64, prop::bool::weighted(0.2)), 1..20)) {
        let (mut series, mut start, mut value, mut counted) = (Series::new(SINCE_MS, 1 << 20), 0, 0, 0.0);
        let mut sent = 0;
        for (time, (step, is_restart)) in (1..).zip(steps) {
            if is_restart {
                (start, value) = (time, 0);
            }
            value += step;
            sent += step;
            let body = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [total(start, time, value)]}]}]}).to_string();
            let mut memory = Vec::new();
            let metrics = Metrics::read(body.as_bytes(), Encoding::Json, &mut memory).expect("it is right");
            metrics.samples(&mut series, SINCE_MS, |taken| {
                let Measured::Count(count) = taken.expect("it is right").measured else { panic!("a counter") };
                counted += count;
            });
        }
        prop_assert_eq!(counted, sent as f64);
    }

    #[test]
    fn a_number_is_read_as_it_was_written(value: f64, time_ns: u64) {
        prop_assume!(value.is_finite());
        let mut point = Vec::new();
        put_fixed(&mut point, 4, value.to_bits());
        put_fixed(&mut point, 3, time_ns);
        let (mut samples, mut memory) = (0, Vec::new());
        let body = around(5, &point);
        let metrics = Metrics::read(&body, Encoding::Protobuf, &mut memory).expect("it is right");
        metrics.samples(&mut Series::new(0, 0), 0, |taken| {
            let sample = taken.expect("it is right");
            assert_eq!(sample.measured, Measured::Gauge(value));
            assert_eq!(sample.ts_ms, (time_ns > 0).then_some((time_ns / 1_000_000) as i64));
            samples += 1;
        });
        prop_assert_eq!(samples, 1);
    }

    #[test]
    fn buckets_are_read_packed_and_one_by_one(counts in prop::collection::vec(0..1_000u64, 1..20), step in 0.1..100.0f64) {
        let bounds: Vec<f64> = (1..counts.len()).map(|n| n as f64 * step).collect();
        let count: u64 = counts.iter().sum();
        let (mut single, mut packed) = (Vec::new(), Vec::new());
        put_fixed(&mut single, 4, count);
        put_fixed(&mut packed, 4, count);
        counts.iter().for_each(|count| put_fixed(&mut single, 6, *count));
        bounds.iter().for_each(|bound| put_fixed(&mut single, 7, bound.to_bits()));
        put(&mut packed, 7, &bounds.iter().flat_map(|bound| bound.to_le_bytes()).collect::<Vec<_>>());
        put(&mut packed, 6, &counts.iter().flat_map(|count| count.to_le_bytes()).collect::<Vec<_>>());
        let said = described(&around(9, &single)).expect("it is right");
        prop_assert!(said.starts_with(&format!("name spread count {count} ")), "{}", said);
        prop_assert_eq!(described(&around(9, &packed)), Some(said));
    }
}
