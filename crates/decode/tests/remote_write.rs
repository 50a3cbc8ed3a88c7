//! The decoder of Prometheus remote write: accepted and rejected input, and properties of every body.

#[path = "support/samples.rs"]
mod samples;

use decode::otlp::CumulativeSeries;
use decode::remote_write::{InvalidSnappy, WriteRequest, unpack, unpacked_len};
use expect_test::{Expect, expect};
use proptest::prelude::*;

const NOW_MS: i64 = 1_000_000;

fn field(number: u8, wire_type: u8, out: &mut Vec<u8>) {
    out.push(number << 3 | wire_type);
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    field(number, 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// A series in one request: its labels, and its samples as time and value.
fn request(labels: &[(&str, &str)], points: &[(i64, f64)]) -> Vec<u8> {
    let mut series = Vec::new();
    for (name, value) in labels {
        let mut label = Vec::new();
        put_bytes(1, name.as_bytes(), &mut label);
        put_bytes(2, value.as_bytes(), &mut label);
        put_bytes(1, &label, &mut series);
    }
    for (time, value) in points {
        let mut point = Vec::new();
        field(1, 1, &mut point);
        point.extend_from_slice(&value.to_bits().to_le_bytes());
        field(2, 0, &mut point);
        varint(*time as u64, &mut point);
        put_bytes(2, &point, &mut series);
    }
    let mut request = Vec::new();
    put_bytes(1, &series, &mut request);
    request
}

#[track_caller]
fn check(requests: &[Vec<u8>], expected: Expect) {
    let mut series = CumulativeSeries::new(0, 1 << 20);
    let described: Vec<String> = requests
        .iter()
        .map(|body| {
            let request = WriteRequest::read(body).expect("it is well-formed");
            samples::describe(|emit| request.samples(&mut series, NOW_MS, emit))
        })
        .collect();
    expected.assert_eq(&described.join("\n"));
}

#[test]
fn series_is_a_gauge() {
    let labels = [("__name__", "up"), ("job", "game"), ("instance", "a:1")];
    check(
        &[request(&labels, &[(1_000, 1.0), (2_000, 0.0)])],
        expect![[r#"
        up gauge 1 job=game instance=a:1 at 1000
        up gauge 0 job=game instance=a:1 at 2000"#]],
    );
}

#[test]
fn total_counts_its_increase() {
    let labels = [("__name__", "hits_total"), ("code", "200")];
    let first = request(&labels, &[(1_000, 100.0)]);
    let second = request(&labels, &[(2_000, 107.0)]);
    // A request that is sent again counts once; a restarted counter counts from zero.
    check(
        &[first, second.clone(), second, request(&labels, &[(3_000, 4.0)])],
        expect![[r#"
        hits_total count 0 code=200 at 1000
        hits_total count 7 code=200 at 2000
        rejected: seen_before in "hits_total"
        hits_total count 4 code=200 at 3000"#]],
    );
}

#[test]
fn values_that_cannot_be_counted_are_rejected() {
    let stale = f64::from_bits(0x7ff0_0000_0000_0002);
    check(
        &[request(&[("__name__", "a")], &[(1, stale), (2, f64::INFINITY), (3, 1.0)])],
        expect![[r#"
        rejected: value_not_finite in "a"
        a gauge 1 at 3"#]],
    );
    check(&[request(&[("job", "x")], &[(1, 1.0)])], expect![[r#"rejected: event_name_empty in """#]]);
    check(
        &[request(&[("__name__", "a"), ("", "x")], &[(1, 1.0)])],
        expect![[r#"rejected: malformed_line in "a""#]],
    );
    check(
        &[request(&[("__name__", "a_total")], &[(-1, 1.0)])],
        expect![[r#"rejected: ts_invalid in "a_total""#]],
    );
}

#[test]
fn body_is_unpacked_within_bounds() {
    let packed = |bytes: &[u8]| snap::raw::Encoder::new().compress_vec(bytes).expect("it is small");
    let round_trip = |bytes: &[u8]| {
        let packed = packed(bytes);
        let mut unpacked = vec![0; unpacked_len(&packed, 1 << 20)?];
        unpack(&packed, &mut unpacked).map(|()| unpacked)
    };
    for bytes in [&b"hello"[..], &[7; 100_000], &[]] {
        assert_eq!(round_trip(bytes).as_deref(), Ok(bytes));
    }
    assert_eq!(unpacked_len(&packed(&vec![0; (1 << 20) + 1]), 1 << 20), Err(InvalidSnappy::TooLarge));
    // A few bytes that claim to be many are refused before memory is allocated for them.
    let mut claim = Vec::new();
    varint(60 << 20, &mut claim);
    assert_eq!(unpacked_len(&claim, 64 << 20), Err(InvalidSnappy::Malformed));
    assert_eq!(unpack(b"\x05abcde", &mut [0; 5]), Err(InvalidSnappy::Malformed));
}

proptest! {
    #[test]
    fn no_body_panics(body in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(request) = WriteRequest::read(&body) {
            request.samples(&mut CumulativeSeries::new(0, 1 << 16), NOW_MS, |_| {});
        }
        if let Ok(len) = unpacked_len(&body, 1 << 20) {
            let _ = unpack(&body, &mut vec![0; len]);
        }
    }
}
