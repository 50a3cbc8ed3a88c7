//! The decoder of OpenTelemetry metrics: accepted and rejected input, and properties of every body.

#[path = "support/samples.rs"]
mod samples;

use decode::otlp::{
    CumulativeSeries, Encoding, MalformedRequest, MetricsRequest, RecordsRequest, Signal, error_status,
    export_response,
};
use decode::sample::Measured;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The start of the collector.
const SINCE_MS: i64 = 1_000_000;
const SINCE_NS: u64 = SINCE_MS as u64 * 1_000_000;

fn describe(metrics: Value, series: &mut CumulativeSeries) -> String {
    let body = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}).to_string();
    let mut memory = Vec::new();
    match MetricsRequest::read(body.as_bytes(), Encoding::Json, &mut memory) {
        Ok(metrics) => samples::describe(|emit| metrics.samples(series, SINCE_MS, emit)),
        Err(malformed) => malformed.to_string(),
    }
}

#[track_caller]
fn check(metrics: Value, expected: Expect) {
    expected.assert_eq(&describe(metrics, &mut CumulativeSeries::new(SINCE_MS, 1 << 20)));
}

/// A cumulative counter; times are seconds since the start of the collector.
fn total(start_s: i64, time_s: i64, value: i64) -> Value {
    json!({"name": "hits", "sum": {"aggregationTemporality": 2, "isMonotonic": true, "dataPoints":
        [{"startTimeUnixNano": ns(start_s), "timeUnixNano": ns(time_s), "asInt": value.to_string()}]}})
}

fn ns(seconds: i64) -> String {
    (SINCE_NS as i64 + seconds * 1_000_000_000).to_string()
}

#[test]
fn sums_are_counters_or_gauges_by_temporality_and_monotonicity() {
    let sum = |temporality: u8, is_monotonic: bool| {
        json!([{"name": "a", "sum": {"aggregationTemporality": temporality, "isMonotonic": is_monotonic,
            "dataPoints": [{"startTimeUnixNano": ns(0), "timeUnixNano": ns(1), "asDouble": 2.5}]}}])
    };
    check(sum(1, true), expect!["a count 2.5 at 1001000"]);
    check(sum(1, false), expect!["a change 2.5 at 1001000"]);
    check(sum(2, true), expect!["a count 2.5 at 1001000"]);
    check(sum(2, false), expect!["a gauge 2.5 at 1001000"]);
    check(sum(0, true), expect![[r#"rejected: kind_unsupported in "a""#]]);
}

#[test]
fn cumulative_total_counts_its_increase() {
    check(
        json!([total(0, 1, 5), total(0, 2, 9), total(0, 3, 9)]),
        expect![[r#"
        hits count 5 at 1001000
        hits count 4 at 1002000
        hits count 0 at 1003000"#]],
    );
}

#[test]
fn repeated_or_late_total_is_a_duplicate() {
    check(
        json!([total(0, 2, 9), total(0, 2, 9), total(0, 1, 5), total(0, 3, 10)]),
        expect![[r#"
        hits count 9 at 1002000
        rejected: seen_before in "hits"
        rejected: seen_before in "hits"
        hits count 1 at 1003000"#]],
    );
}

#[test]
fn restarted_sender_counts_from_zero() {
    check(
        json!([total(0, 1, 5), total(2, 3, 2), total(2, 4, 3)]),
        expect![[r#"
        hits count 5 at 1001000
        hits count 2 at 1003000
        hits count 1 at 1004000"#]],
    );
    // Without a new start time the smaller number shows the restart.
    check(
        json!([total(0, 1, 5), total(0, 2, 3)]),
        expect![[r#"
        hits count 5 at 1001000
        hits count 3 at 1002000"#]],
    );
}

#[test]
fn values_before_the_start_of_the_collector_are_not_counted() {
    check(
        json!([total(-9, 1, 100), total(-9, 2, 103)]),
        expect![[r#"
        hits count 0 at 1001000
        hits count 3 at 1002000"#]],
    );
}

#[test]
fn identical_senders_are_tracked_separately() {
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
fn whole_numbers_keep_their_digits_in_the_difference() {
    let large = 1 << 60;
    check(
        json!([total(0, 1, large), total(0, 2, large + 1)]),
        expect![[r#"
        hits count 1152921504606847000 at 1001000
        hits count 1 at 1002000"#]],
    );
}

#[test]
fn point_without_recorded_value_is_skipped() {
    check(
        json!([{"name": "a", "gauge": {"dataPoints": [{"flags": 1}, {"asInt": "1", "flags": 1}]}}]),
        expect![""],
    );
}

#[test]
fn series_stay_within_the_memory_limit() {
    let mut series = CumulativeSeries::new(SINCE_MS, 2_000);
    let point = |player: usize| {
        json!({"startTimeUnixNano": ns(0), "timeUnixNano": ns(1), "asInt": "1",
            "attributes": [{"key": "player", "value": {"intValue": player.to_string()}}]})
    };
    let points: Vec<_> = (1_000..1_100).map(point).collect();
    let hits = json!([{"name": "hits", "sum": {"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": points}}]);
    let described = describe(hits.clone(), &mut series);
    let full = described.matches("series_full").count();
    assert!((1..100).contains(&full) && series.len() == 100 - full && series.bytes() <= 2_000);
    let body = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": hits}]}]}).to_string();
    let mut memory = Vec::new();
    let metrics =
        MetricsRequest::read(body.as_bytes(), Encoding::Json, &mut memory).expect("the input is valid");
    let an_hour_later = SINCE_MS + 3_600_000;
    let (accepted, _) = samples::count(|emit| metrics.samples(&mut series, an_hour_later, emit));
    assert_eq!(accepted, 100 - full, "idle series were evicted");
}

#[test]
fn growing_series_is_rejected_at_the_memory_limit() {
    let histogram = |time_s: i64, buckets: usize| {
        json!({"name": "size", "histogram": {"aggregationTemporality": 2, "dataPoints": [{
            "startTimeUnixNano": ns(0), "timeUnixNano": ns(time_s), "count": buckets, "sum": 1,
            "bucketCounts": vec![1; buckets], "explicitBounds": (1..buckets).collect::<Vec<_>>()}]}})
    };
    let mut series = CumulativeSeries::new(SINCE_MS, 2_000);
    let described = describe(json!([histogram(1, 2), histogram(2, 1_000), histogram(3, 3)]), &mut series);
    expect![[r#"
        size histogram count 2 sum 1 min 0 max 1 [(0.5, 1), (1.0, 1)] at 1001000
        rejected: series_full in "size"
        size histogram count 1 sum 0 min 0 max 0 [(0.0, 1)] at 1003000"#]]
    .assert_eq(&described);
    assert!(series.bytes() <= 2_000);
}

#[test]
fn order_of_attributes_does_not_distinguish_series() {
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
fn responses_follow_the_protocol() {
    assert_eq!(export_response(Signal::Metrics, Encoding::Protobuf, 0, ""), b"");
    assert_eq!(
        export_response(Signal::Metrics, Encoding::Protobuf, 300, "no"),
        b"\x0a\x07\x08\xac\x02\x12\x02no"
    );
    assert_eq!(export_response(Signal::Metrics, Encoding::Json, 0, ""), b"{}");
    let json: Value = serde_json::from_slice(&export_response(Signal::Metrics, Encoding::Json, 3, "a \"b\""))
        .expect("the response is JSON");
    assert_eq!(json, json!({"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "a \"b\""}}));
    assert_eq!(error_status(Encoding::Protobuf, "no"), b"\x12\x02no");
    assert_eq!(error_status(Encoding::Json, "no"), br#"{"message":"no"}"#);
    assert_eq!(Encoding::Protobuf.content_type(), "application/x-protobuf");
}

#[test]
fn body_with_wrong_type_is_rejected_with_the_field() {
    let read = |body: &[u8]| {
        MetricsRequest::read(body, Encoding::Protobuf, &mut Vec::new()).map(|_| ()).unwrap_err()
    };
    assert_eq!(read(b"\x0a\x05\x12"), MalformedRequest::Protobuf { field: "resourceMetrics" });
    assert_eq!(read(b"\x0a\x05\x12\x03\x12\x01\xff"), MalformedRequest::Protobuf { field: "metrics" });
}

/// Appends a field of a message: its number, and bytes.
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

/// Returns the request around a point: `form` is the field number of the data, with delta temporality.
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

fn describe_body(body: &[u8]) -> Option<String> {
    let (mut memory, mut series) = (Vec::new(), CumulativeSeries::new(SINCE_MS, 1 << 20));
    let metrics = MetricsRequest::read(body, Encoding::Protobuf, &mut memory).ok()?;
    Some(samples::describe(|emit| metrics.samples(&mut series, SINCE_MS, emit)))
}

proptest! {
    #[test]
    fn random_bytes_never_panic(body: Vec<u8>, form in 5..12u8) {
        describe_body(&body);
        describe_body(&around(form, &body));
        let mut memory = Vec::new();
        let _ = MetricsRequest::read(&body, Encoding::Json, &mut memory);
    }

    #[test]
    fn increases_add_up_to_the_totals(steps in prop::collection::vec((0..1_000_000i64, prop::bool::weighted(0.2)), 1..20)) {
        let (mut series, mut start, mut value, mut counted) = (CumulativeSeries::new(SINCE_MS, 1 << 20), 0, 0, 0.0);
        let mut sent = 0;
        for (time, (step, is_restart)) in (1..).zip(steps) {
            if is_restart {
                (start, value) = (time, 0);
            }
            value += step;
            sent += step;
            let body = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [total(start, time, value)]}]}]}).to_string();
            let mut memory = Vec::new();
            let metrics = MetricsRequest::read(body.as_bytes(), Encoding::Json, &mut memory).expect("the input is valid");
            metrics.samples(&mut series, SINCE_MS, |result| {
                let Measured::Count(count) = result.expect("the input is valid").measured else { panic!("a counter") };
                counted += count;
            });
        }
        prop_assert_eq!(counted, sent as f64);
    }

    #[test]
    fn number_round_trips(value: f64, time_ns: u64) {
        prop_assume!(value.is_finite());
        let mut point = Vec::new();
        put_fixed(&mut point, 4, value.to_bits());
        put_fixed(&mut point, 3, time_ns);
        let (mut samples, mut memory) = (0, Vec::new());
        let body = around(5, &point);
        let metrics = MetricsRequest::read(&body, Encoding::Protobuf, &mut memory).expect("the input is valid");
        metrics.samples(&mut CumulativeSeries::new(0, 0), 0, |result| {
            let sample = result.expect("the input is valid");
            assert_eq!(sample.measured, Measured::Gauge(value));
            assert_eq!(sample.ts_ms, (time_ns > 0).then_some((time_ns / 1_000_000) as i64));
            samples += 1;
        });
        prop_assert_eq!(samples, 1);
    }

    #[test]
    fn buckets_may_be_packed_or_not(counts in prop::collection::vec(0..1_000u64, 1..20), step in 0.1..100.0f64) {
        let bounds: Vec<f64> = (1..counts.len()).map(|n| n as f64 * step).collect();
        let count: u64 = counts.iter().sum();
        let (mut single, mut packed) = (Vec::new(), Vec::new());
        put_fixed(&mut single, 4, count);
        put_fixed(&mut packed, 4, count);
        counts.iter().for_each(|count| put_fixed(&mut single, 6, *count));
        bounds.iter().for_each(|bound| put_fixed(&mut single, 7, bound.to_bits()));
        put(&mut packed, 7, &bounds.iter().flat_map(|bound| bound.to_le_bytes()).collect::<Vec<_>>());
        put(&mut packed, 6, &counts.iter().flat_map(|count| count.to_le_bytes()).collect::<Vec<_>>());
        let described = describe_body(&around(9, &single)).expect("the input is valid");
        prop_assert!(described.starts_with(&format!("name histogram count {count} ")), "{}", described);
        prop_assert_eq!(describe_body(&around(9, &packed)), Some(described));
    }
}

/// The events of a request in JSON, or why it is rejected.
fn events(signal: Signal, request: Value) -> String {
    let (body, mut memory) = (request.to_string(), Vec::new());
    match RecordsRequest::read(body.as_bytes(), signal, Encoding::Json, &mut memory) {
        Ok(records) => String::from_utf8(records.events().expect("there are few")).expect("it is text"),
        Err(malformed) => malformed.to_string(),
    }
}

fn text_attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

#[test]
fn span_is_an_event_with_its_duration() {
    let span = json!({
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": "load \"level\"",
        "kind": 2, "startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": "1544712661500500000",
        "attributes": [text_attribute("user.id", "bo"), text_attribute("level", "cave"),
            {"key": "tries", "value": {"intValue": "3"}}, {"key": "list", "value": {"arrayValue": {}}}],
        "status": {"code": 2, "message": "no memory"},
    });
    let resource = json!({"attributes": [text_attribute("service.name", "game"),
        text_attribute("service.version", "1.2"), text_attribute("level", "resource")]});
    let request = json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]});
    expect![[r#"[{"event":"load \"level\"","id":"b0dc25ad-eed2-2d7d-4a5f-728d5cc8e003","ts":1544712660000,"value":1500.5,"player":"bo","version":"1.2","props":{"kind":"server","status":"error","message":"no memory","level":"cave","tries":"3","service.name":"game"}}]"#]]
    .assert_eq(&events(Signal::Traces, request));
}

#[test]
fn log_record_is_an_event() {
    let records = json!([
        {"timeUnixNano": "1544712660300000000", "severityNumber": 10, "body": {"stringValue": "slow frame"}},
        {"timeUnixNano": "1544712660300000000", "severityNumber": 10, "body": {"stringValue": "slow frame"}},
        {"severityText": "Error", "eventName": "crash", "attributes": [text_attribute("session.id", "s1")]},
    ]);
    let request = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]});
    expect![[r#"[{"event":"log","id":"9f7e4f59-817b-43ec-0fa4-078b306162fb","ts":1544712660300,"props":{"severity":"INFO","message":"slow frame"}},{"event":"log","id":"969be693-ee4e-fad5-7a1e-baccc3838f89","ts":1544712660300,"props":{"severity":"INFO","message":"slow frame"}},{"event":"crash","session":"s1","props":{"severity":"Error"}}]"#]].assert_eq(&events(Signal::Logs, request));
}

#[test]
fn malformed_records_are_rejected() {
    let spans = |spans: Value| json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]});
    for odd in ["5b8", "xy"] {
        let message = events(Signal::Traces, spans(json!([{"traceId": odd}])));
        assert!(message.contains("`traceId` cannot be"), "{message}");
    }
    assert_eq!(events(Signal::Traces, spans(json!([]))), "[]");
    let protobuf =
        RecordsRequest::read(&[0x0a, 0x05, 0x01], Signal::Logs, Encoding::Protobuf, &mut Vec::new())
            .map(drop);
    assert_eq!(protobuf, Err(MalformedRequest::Protobuf { field: "resourceLogs" }));
}

#[test]
fn too_many_records_are_refused() {
    let records = vec![json!({"severityNumber": 1}); 10_001];
    let body = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).to_string();
    let mut memory = Vec::new();
    let records = RecordsRequest::read(body.as_bytes(), Signal::Logs, Encoding::Json, &mut memory);
    assert!(records.expect("it is well-formed").events().is_err());
}

#[test]
fn long_attributes_are_shortened_and_surplus_ones_left_out() {
    let long = "é".repeat(2_000);
    let mut attributes: Vec<Value> = (0..100).map(|n| text_attribute(&n.to_string(), "x")).collect();
    attributes[0] = text_attribute("long", &long);
    let request = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"attributes": attributes}]}]}]});
    let events: Value = serde_json::from_str(&events(Signal::Logs, request)).expect("it is JSON");
    let props = events[0]["props"].as_object().expect("an object");
    assert_eq!((props.len(), props["long"].as_str().map(str::len)), (64, Some(1_024)));
}

#[test]
fn responses_name_what_was_rejected() {
    let json = |signal| String::from_utf8(export_response(signal, Encoding::Json, 2, "x")).expect("text");
    assert_eq!(json(Signal::Traces), r#"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"x"}}"#);
    assert_eq!(json(Signal::Logs), r#"{"partialSuccess":{"rejectedLogRecords":"2","errorMessage":"x"}}"#);
}
