//! Endpoints for senders of other systems: Prometheus remote write, checks of InfluxDB clients, OpenTelemetry.

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::world::{World, now_ms};

const PROTOBUF: &str = "application/x-protobuf";

fn put_bytes(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    assert!(bytes.len() < 128, "one byte of length");
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A `WriteRequest` with one value, as snappy without compression.
fn write_request(name: &str, value: f64, ts_ms: i64) -> Vec<u8> {
    let (mut label, mut point, mut series, mut request) =
        (Vec::new(), vec![1 << 3 | 1], Vec::new(), Vec::new());
    put_bytes(1, b"__name__", &mut label);
    put_bytes(2, name.as_bytes(), &mut label);
    point.extend_from_slice(&value.to_le_bytes());
    point.push(2 << 3);
    varint(ts_ms as u64, &mut point);
    put_bytes(1, &label, &mut series);
    put_bytes(2, &point, &mut series);
    put_bytes(1, &series, &mut request);
    literal(&request)
}

/// Snappy's block format: the length, then one literal of up to 256 bytes.
fn literal(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    varint(bytes.len() as u64, &mut packed);
    packed.extend([60 << 2, (bytes.len() - 1) as u8]);
    packed.extend_from_slice(bytes);
    packed
}

fn remote_write(world: &World, content_type: &str, encoding: &str, body: &[u8]) -> Answer {
    let request = Request::new("POST", "/api/v1/write").key(&world.secret_key);
    world.send(&request.header("Content-Type", content_type).header("Content-Encoding", encoding).body(body))
}

fn total(world: &World, metric: &str, measure: &str) -> Value {
    let query = json!({"metric": metric, "measure": measure, "last": "24h", "step": "all"});
    world.query(&query).json()["series"][0]["total"].clone()
}

#[test]
fn remote_write_counts_gauges_and_increases() {
    let world = World::new();
    let now = now_ms();
    for (step, value) in [(0, 100.0), (1, 107.0), (1, 107.0), (2, 112.0)] {
        let body = write_request("hits_total", value, now + step);
        let answer = remote_write(&world, PROTOBUF, "snappy", &body);
        assert_eq!(answer.status, 204, "{}", answer.text());
    }
    assert_eq!(remote_write(&world, PROTOBUF, "snappy", &write_request("up", 1.0, now)).status, 204);
    assert_eq!(total(&world, "hits_total", "sum"), 12);
    assert_eq!(total(&world, "up", "last"), 1);
    let load = world.load();
    let rows = load["endpoints"].as_array().expect("a list");
    let row = rows.iter().find(|row| row["endpoint"] == "prometheus").expect("its accounting");
    assert_eq!((&row["received"], &row["accepted"], &row["duplicate"]), (&json!(5), &json!(4), &json!(1)));
}

#[test]
fn remote_write_rejects_other_protocols_and_bodies() {
    let world = World::new();
    let body = write_request("up", 1.0, now_ms());
    let second = format!("{PROTOBUF};proto=io.prometheus.write.v2.Request");
    let first = format!("{PROTOBUF};proto=prometheus.WriteRequest");
    assert_eq!(remote_write(&world, &first, "snappy", &body).status, 204);
    let cases: [(&str, &str, Vec<u8>, &str); 7] = [
        (&second, "snappy", body.clone(), "415 unsupported (Content-Type)"),
        ("application/json", "snappy", body.clone(), "415 unsupported (Content-Type)"),
        (PROTOBUF, "gzip", body.clone(), "415 unsupported (Content-Encoding)"),
        (PROTOBUF, "snappy", b"\xff\xff\xff".to_vec(), "400 malformed (Content-Encoding)"),
        // A short body that claims to be 60 MiB.
        (PROTOBUF, "snappy", vec![0x80, 0x80, 0x80, 0x1e, 0, 0], "400 malformed (Content-Encoding)"),
        (PROTOBUF, "snappy", literal(b"not protobuf"), "400 malformed"),
        (PROTOBUF, "snappy", write_request("up", f64::NAN, now_ms()), "400 malformed"),
    ];
    for (content_type, encoding, body, expected) in cases {
        let answer = remote_write(&world, content_type, encoding, &body);
        assert_eq!(answer.summary(), expected, "{content_type} {encoding} {}", answer.text());
    }
    let without_key = Request::new("POST", "/api/v1/write").header("Content-Type", PROTOBUF).body(body);
    assert_eq!(world.send(&without_key).status, 401);
}

#[test]
fn influx_clients_can_check_the_server() {
    let world = World::new();
    let ping = world.send(&Request::get("/ping"));
    assert_eq!((ping.status, ping.header("x-influxdb-version").is_some()), (204, true));
    let health = world.send(&Request::get("/health"));
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("pass")));
    let query =
        |statement: &str, key: &str| world.send(&Request::get(format!("/query?q={statement}")).key(key));
    assert_eq!(query("CREATE+DATABASE+x", &world.secret_key).status, 200);
    assert_eq!(query("CREATE+DATABASE+x", "wrong").status, 401);
    let answer = query("SELECT+*+FROM+cpu", &world.secret_key);
    assert_eq!((answer.status, &answer.json()["field"]), (400, &json!("q")));
}

#[test]
fn spans_and_log_records_are_counted_once() {
    let world = World::new();
    let now_ns = now_ms() as u64 * 1_000_000;
    let span = |name: &str, id: &str| {
        json!({"traceId": "5b8efff798038103d269b633813fc60c", "spanId": id, "name": name,
            "startTimeUnixNano": now_ns.to_string(), "endTimeUnixNano": (now_ns + 25_000_000).to_string()})
    };
    let spans = json!([
        span("load", "eee19b7ec3c1b174"),
        span("load", "eee19b7ec3c1b175"),
        span("$reserved", "eee19b7ec3c1b176")
    ]);
    let traces = json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).to_string();
    let send = |target: &'static str, body: &str| {
        let request = Request::new("POST", target).key(&world.public_key);
        world.send(&request.header("Content-Type", "application/json").body(body))
    };
    for _ in 0..2 {
        let partial = send("/v1/traces", &traces).json();
        assert_eq!(partial["partialSuccess"]["rejectedSpans"], "1", "{partial}");
        assert_eq!(partial["partialSuccess"]["errorMessage"], "1 event_name_reserved");
    }
    assert_eq!((total(&world, "load", "count"), total(&world, "load", "avg")), (json!(2), json!(25)));
    let record =
        json!({"timeUnixNano": now_ns.to_string(), "severityText": "ERROR", "body": {"stringValue": "x"}});
    let logs =
        json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [record.clone(), record]}]}]}).to_string();
    for _ in 0..2 {
        assert_eq!(send("/v1/logs", &logs).text(), "{}");
    }
    assert_eq!(total(&world, "log", "count"), 2);
    assert_eq!(send("/v1/logs", "{\"resourceLogs\":1}").status, 400);
}
