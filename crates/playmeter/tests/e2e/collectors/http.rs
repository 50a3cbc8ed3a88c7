//! The same decoders over HTTP, as InfluxDB clients and OpenTelemetry exporters use them.

use super::*;

fn post(world: &World, target: &str, key: &str, content_type: &str, body: &str) -> crate::client::Answer {
    let request = Request::new("POST", target).header("Authorization", key).body(body);
    world.send(&request.header("Content-Type", content_type))
}

#[test]
fn influx_lines_are_accepted_on_influxdb_endpoints() {
    let world = World::new();
    let token = format!("Token {}", world.secret_key);
    let minute_ago = crate::world::now_ms() / 1000 - 60;
    let lines = format!("load,host=a value=3 {minute_ago}\nbad\nload value=5 {minute_ago}\n");
    let answer = post(&world, "/api/v2/write?org=o&bucket=b&precision=s", &token, "text/plain", &lines);
    assert_eq!((answer.status, answer.text().as_str()), (204, ""));
    let target = format!("/write?db=d&u=me&p={}", world.public_key);
    assert_eq!(world.send(&Request::new("POST", target).body("load value=4")).status, 204);
    assert_eq!((measured(&world, "load", "max"), measured(&world, "load", "count")), (5.0, 3.0));
    assert_eq!(account(&world, "influx"), (3, json!({"malformed_line": 1})));
    let answer = post(&world, "/api/v2/write", &token, "text/plain", "bad\nworse");
    assert_eq!(answer.summary(), "400 malformed");
    assert!(answer.text().contains("2 malformed_line"), "{}", answer.text());
    let answer = post(&world, "/api/v2/write?precision=days", &token, "text/plain", "load value=1");
    assert_eq!(answer.summary(), "400 invalid_field (precision)");
    let target = format!("/write?p={}", world.secret_key);
    assert_eq!(world.send(&Request::new("POST", target).body("load value=4")).status, 401);
}

#[test]
fn otlp_export_reports_rejected_points() {
    let world = World::new();
    let bearer = format!("Bearer {}", world.secret_key);
    let export = |name: &str, points: Value| {
        let sum = json!({"dataPoints": points, "aggregationTemporality": 1, "isMonotonic": true});
        let metrics = json!([{"name": name, "sum": sum}]);
        json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}).to_string()
    };
    let at = (crate::world::now_ms() * 1_000_000).to_string();
    let body =
        export("hits", json!([{"asInt": "3", "timeUnixNano": at}, {"asDouble": 4.5, "timeUnixNano": at}]));
    let answer = post(&world, "/v1/metrics", &bearer, "application/json", &body);
    assert_eq!((answer.status, answer.text().as_str()), (200, "{}"));
    assert_eq!(measured(&world, "hits", "sum"), 7.5);
    let answer =
        post(&world, "/v1/metrics", &bearer, "application/json", &export("$own", json!([{"asInt": "3"}])));
    assert_eq!(answer.json()["partialSuccess"]["rejectedDataPoints"], "1", "{}", answer.text());
    assert_eq!(account(&world, "otlp"), (2, json!({"event_name_reserved": 1})));
    let answer = post(&world, "/v1/metrics", &bearer, "application/json", "{");
    assert_eq!(answer.status, 400);
    assert!(answer.json()["message"].is_string(), "a status: {}", answer.text());
    assert_eq!(post(&world, "/v1/metrics", &bearer, "text/plain", "{}").status, 415);
}
