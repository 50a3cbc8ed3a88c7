//! Every limit of the API: a value at the limit is accepted, one over it is rejected with exactly this reason.

use std::fmt::Write;

use crate::client::Request;
use crate::world::{World, new_id};

/// Sends each event alone and checks the outcome.
fn check(rows: &[(String, &str)]) {
    let world = World::new();
    let mut connection = world.connect();
    for (event, expected) in rows {
        let request = Request::events(event).key(&world.public_key);
        let summary = connection.send(&request).expect("an answer").summary();
        let expected = match *expected {
            "accepted" => "1 accepted".to_owned(),
            reason if reason.starts_with('4') => reason.to_owned(),
            reason => format!("0 accepted; 0 invalid {reason}"),
        };
        assert_eq!(summary, expected, "{}", event.chars().take(300).collect::<String>());
    }
}

fn x(len: usize) -> String {
    "x".repeat(len)
}

/// An event whose one other field has this text as its value.
fn with(field: &str, value: &str) -> String {
    format!(r#"{{"event":"win","{field}":{value}}}"#)
}

#[test]
fn event_name_has_1_to_200_bytes_and_reserved_names_are_known() {
    let named = |name: &str| format!(r#"{{"event":{name}}}"#);
    check(&[
        (named(&format!("\"{}\"", x(200))), "accepted"),
        (named(&format!("\"{}\"", x(201))), "event_name_too_long"),
        (named(&format!("\"{}\"", "é".repeat(100))), "accepted"),
        (named(&format!("\"{}x\"", "é".repeat(100))), "event_name_too_long"),
        (named(&format!("\"{}\"", "\\u00e9".repeat(100))), "accepted"),
        (named(&format!("\"{}x\"", "\\u00e9".repeat(100))), "event_name_too_long"),
        (named("\"\""), "event_name_empty"),
        (named("null"), "event_name_not_a_string"),
        (named("7"), "event_name_not_a_string"),
        (named("true"), "event_name_not_a_string"),
        (named("[]"), "event_name_not_a_string"),
        (named("{}"), "event_name_not_a_string"),
        (named("\"$view\""), "accepted"),
        (named("\"$views\""), "event_name_reserved"),
        (named("\"$\""), "event_name_reserved"),
        ("{}".to_owned(), "event_name_missing"),
        (r#"{"player":"ann"}"#.to_owned(), "event_name_missing"),
    ]);
}

#[test]
fn event_id_must_be_a_uuid() {
    let id = |value: &str| with("id", value);
    check(&[
        (id(&format!("\"{}\"", new_id())), "accepted"),
        (id(&format!("\"{}\"", new_id().to_uppercase())), "accepted"),
        (id("null"), "accepted"),
        (id("\"00000000-0000-0000-0000-000000000000\""), "accepted"),
        (id("\"00000000-0000-0000-0000-000000000000\""), "accepted"),
        (id("\"\""), "id_not_a_uuid"),
        (id("\"7\""), "id_not_a_uuid"),
        (id("7"), "id_not_a_uuid"),
        (id("{}"), "id_not_a_uuid"),
        (id("\"0190c1f2-0000-7000-8000-00000000000g\""), "id_not_a_uuid"),
        (id("\"0190c1f2-0000-7000-8000-0000000000000\""), "id_not_a_uuid"),
    ]);
}

#[test]
fn player_and_session_have_at_most_128_bytes() {
    let mut rows = Vec::new();
    for (field, too_long, not_text) in [
        ("player", "player_too_long", "player_not_a_string"),
        ("session", "session_too_long", "session_not_a_string"),
    ] {
        rows.extend([
            (with(field, &format!("\"{}\"", x(128))), "accepted"),
            (with(field, &format!("\"{}\"", x(129))), too_long),
            (with(field, &"7".repeat(128)), "accepted"),
            (with(field, &"7".repeat(129)), too_long),
            (with(field, "7"), "accepted"),
            (with(field, "null"), "accepted"),
            (with(field, "7.5"), not_text),
            (with(field, "true"), not_text),
            (with(field, "[\"ann\"]"), not_text),
            (with(field, "{}"), not_text),
        ]);
        for placeholder in ["null", "undefined", "anonymous", "0", "[object Object]", "", "NaN"] {
            rows.push((with(field, &format!("\"{placeholder}\"")), "accepted"));
        }
    }
    check(&rows);
}

#[test]
fn dimension_has_at_most_128_bytes_and_country_two_letters() {
    let mut rows = Vec::new();
    for field in ["source", "platform", "version", "level"] {
        rows.extend([
            (with(field, &format!("\"{}\"", x(128))), "accepted"),
            (with(field, &format!("\"{}\"", x(129))), "dimension_too_long"),
            (with(field, "12"), "accepted"),
            (with(field, "null"), "accepted"),
            (with(field, "\"\""), "accepted"),
            (with(field, "1.5"), "dimension_not_a_string"),
            (with(field, "false"), "dimension_not_a_string"),
            (with(field, "{}"), "dimension_not_a_string"),
        ]);
    }
    rows.extend([
        (with("country", "\"fr\""), "accepted"),
        (with("country", "null"), "accepted"),
        (with("country", "\"\""), "accepted"),
        (with("country", "\"FRA\""), "country_invalid"),
        (with("country", "\"F1\""), "country_invalid"),
        (with("country", "33"), "country_invalid"),
        (with("country", "[]"), "dimension_not_a_string"),
    ]);
    check(&rows);
}

#[test]
fn value_must_be_a_finite_number() {
    let value = |value: &str| with("value", value);
    check(&[
        (value("0"), "accepted"),
        (value("-1.7976931348623157e308"), "accepted"),
        (value("1.7976931348623157e308"), "accepted"),
        (value("5e-324"), "accepted"),
        (value("1e-999"), "accepted"),
        (value("null"), "accepted"),
        (value("1.8e308"), "value_not_finite"),
        (value("-1e999"), "value_not_finite"),
        (value("\"1\""), "value_not_a_number"),
        (value("true"), "value_not_a_number"),
        (value("[1]"), "value_not_a_number"),
        (value("{}"), "value_not_a_number"),
        (value("NaN"), "400 malformed"),
        (value("Infinity"), "400 malformed"),
        (value("01"), "400 malformed"),
    ]);
}

#[test]
fn timestamp_is_rfc_3339_or_epoch_milliseconds() {
    let ts = |value: &str| with("ts", value);
    let now = crate::world::now_ms();
    check(&[
        (ts(&now.to_string()), "accepted"),
        (ts(&format!("{now}.75")), "accepted"),
        (ts("\"2999-01-01T00:00:00Z\""), "accepted"),
        (ts("null"), "accepted"),
        (ts("\"2026-02-30T00:00:00Z\""), "ts_invalid"),
        (ts("\"2026-01-01\""), "ts_invalid"),
        (ts("\"2026-01-01 at noon\""), "ts_invalid"),
        (ts("\"\""), "ts_invalid"),
        (ts("1e300"), "ts_invalid"),
        (ts("true"), "ts_invalid"),
        (ts("{}"), "ts_invalid"),
    ]);
}

/// `{"k0":0,"k1":0,...}`
fn keys(count: usize) -> String {
    let keys: Vec<String> = (0..count).map(|key| format!("\"k{key}\":0")).collect();
    format!("{{{}}}", keys.join(","))
}

#[test]
fn props_are_limited_in_depth_keys_and_string_length() {
    let props = |value: &str| with("props", value);
    let string = |string: String| props(&format!(r#"{{"a":"{string}"}}"#));
    let key = |key: String| props(&format!(r#"{{"{key}":1}}"#));
    check(&[
        (props("{}"), "accepted"),
        (props("null"), "accepted"),
        (props("[]"), "props_not_an_object"),
        (props("\"a\""), "props_not_an_object"),
        (props("1"), "props_not_an_object"),
        (props(r#"{"a":{"b":{"c":1}}}"#), "accepted"),
        (props(r#"{"a":{"b":{"c":{}}}}"#), "props_too_deep"),
        (props(r#"{"a":[[1]]}"#), "accepted"),
        (props(r#"{"a":[[[1]]]}"#), "props_too_deep"),
        (props(&keys(64)), "accepted"),
        (props(&keys(65)), "props_too_many_keys"),
        (props(&format!(r#"{{"inner":{}}}"#, keys(63))), "accepted"),
        (props(&format!(r#"{{"inner":{}}}"#, keys(64))), "props_too_many_keys"),
        (key(x(128)), "accepted"),
        (key(x(129)), "prop_key_too_long"),
        (string(x(1024)), "accepted"),
        (string(x(1025)), "prop_string_too_long"),
        (string("\\n".repeat(1024)), "accepted"),
        (string("\\n".repeat(1025)), "prop_string_too_long"),
        (props(&format!(r#"{{"a":["{}"]}}"#, x(1025))), "prop_string_too_long"),
    ]);
}

#[test]
fn event_has_at_most_64_kib() {
    let sized = |len: usize| {
        let mut event = r#"{"event":"win""#.to_owned();
        write!(event, "{}}}", " ".repeat(len - event.len() - 1)).expect("text grows");
        event
    };
    check(&[(sized(64 << 10), "accepted"), (sized((64 << 10) + 1), "event_too_large")]);
}

#[test]
fn unknown_fields_are_rejected() {
    let mut rows = Vec::new();
    for field in [
        "Event",
        "EVENT",
        "name",
        "user",
        "time",
        "game",
        "game_id",
        "rank",
        "verified",
        "role",
        "votes",
        "rating",
        "created_at",
        "received_at",
        "offset",
        "bot",
        "owner",
        "key",
        "",
        "events",
        "sent_at",
        "$set",
        "__proto__",
        "constructor",
    ] {
        for value in ["1", "\"demo\"", "null", "{}", "[]"] {
            // An object with `events` is an envelope.
            let expected = match (field, value) {
                ("events", "[]") => "400 invalid_field (event)",
                ("events", _) => "400 invalid_field (event)",
                _ => "unknown_field",
            };
            rows.push((with(field, value), expected));
        }
    }
    rows.push((r#"{"event":"win","event\u0000":1}"#.to_owned(), "unknown_field"));
    rows.push((r#"{"\u0065vent":"win"}"#.to_owned(), "accepted"));
    rows.push((r#"{"events":[],"game":"other"}"#.to_owned(), "400 invalid_field (game)"));
    rows.push((r#"{"events":{}}"#.to_owned(), "400 invalid_field (events)"));
    rows.push((r#"{"events":[],"sent_at":"soon"}"#.to_owned(), "400 invalid_field (sent_at)"));
    check(&rows);
}

#[test]
fn non_object_events_are_rejected() {
    let world = World::new();
    let body = r#"[1, "win", null, true, [], [{"event":"win"}], {"event":"win"}]"#;
    let rejected: String = (0..6).map(|i| format!("; {i} invalid not_an_object")).collect();
    assert_eq!(world.post(body).summary(), format!("1 accepted{rejected}"));
}

#[test]
fn json_nests_at_most_32_deep() {
    let nested = |deep: usize| {
        format!(r#"{{"event":"win","props":{}1{}}}"#, "[".repeat(deep - 1), "]".repeat(deep - 1))
    };
    check(&[
        (nested(32), "props_not_an_object"),
        (nested(33), "400 malformed"),
        (nested(100_000), "400 malformed"),
        (format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)), "400 malformed"),
    ]);
}

#[test]
fn request_has_at_most_10000_events() {
    let world = World::new();
    let array = |count: usize| format!("[{}]", vec![r#"{"event":"win"}"#; count].join(","));
    let lines = |count: usize| vec![r#"{"event":"win"}"#; count].join("\n");
    let ndjson = |count: usize| {
        let request = Request::events(lines(count)).header("Content-Type", "application/x-ndjson");
        world.send(&request.key(&world.public_key)).summary()
    };
    assert_eq!(world.post(array(10_000)).summary(), "10000 accepted");
    assert_eq!(world.post(array(10_001)).summary(), "413 too_large (events)");
    assert_eq!(world.post(lines(10_000)).summary(), "10000 accepted");
    assert_eq!(world.post(lines(10_001)).summary(), "413 too_large (events)");
    assert_eq!(ndjson(10_000), "10000 accepted");
    assert_eq!(ndjson(10_001), "413 too_large (events)");
    let envelope = |count| format!(r#"{{"events":{}}}"#, array(count));
    assert_eq!(world.post(envelope(10_000)).summary(), "10000 accepted");
    assert_eq!(world.post(envelope(10_001)).summary(), "413 too_large (events)");
    assert_eq!(world.load()["totals"]["received"], 40_000, "no event of a rejected request is counted");
}

/// One event, padded with spaces to this length.
fn padded(len: usize) -> Vec<u8> {
    let mut body = br#"{"event":"win"}"#.to_vec();
    body.resize(len, b' ');
    body
}

#[test]
fn body_has_at_most_10_mib_on_the_wire() {
    const MAX: usize = 10 << 20;
    let world = World::new();
    assert_eq!(world.post(padded(MAX)).summary(), "1 accepted");
    assert_eq!(world.post(padded(MAX + 1)).summary(), "413 too_large");
    let chunked = |len: usize| {
        let mut connection = world.connect();
        let request = Request::events(padded(len)).key(&world.public_key);
        connection.write(&request.chunked(100_000)).expect("it can be sent");
        connection.answer().expect("an answer").summary()
    };
    assert_eq!(chunked(MAX), "1 accepted");
    assert_eq!(chunked(MAX + 1), "413 too_large");
}

/// A client that writes everything before it reads must still get the error, or it would retry for ever.
#[test]
fn client_of_a_rejected_large_body_gets_the_error() {
    let world = World::new();
    let check = |request: Request, expected: &str| {
        let mut connection = world.connect();
        connection.write(&request.bytes()).unwrap_or_else(|failure| panic!("{expected}: {failure}"));
        std::thread::sleep(std::time::Duration::from_millis(50));
        let answer = connection.answer().unwrap_or_else(|failure| panic!("{expected}: {failure}"));
        assert_eq!(answer.summary(), expected);
    };
    let large = || Request::events(padded(8 << 20));
    check(large(), "401 key");
    check(large().key("pm_pk_wrong"), "401 key");
    check(
        large().key(&world.public_key).header("Content-Type", "image/png"),
        "415 unsupported (Content-Type)",
    );
    check(large().key(&world.public_key).to("/v1/events?ack=never"), "400 invalid_field (ack)");
    check(Request::events(padded(40 << 20)).key(&world.public_key), "413 too_large");
}

#[test]
fn unknown_paths_and_methods_are_reported() {
    let world = World::new();
    for (method, target, expected, allow) in [
        ("GET", "/v1/events", "405 method", Some("POST, OPTIONS")),
        ("PUT", "/v1/events", "405 method", Some("POST, OPTIONS")),
        ("DELETE", "/v1/events", "405 method", Some("POST, OPTIONS")),
        ("POST", "/v1/load", "405 method", Some("GET,HEAD")),
        ("DELETE", "/v1/query", "405 method", Some("GET,HEAD,POST")),
        ("POST", "/healthz", "405 method", Some("GET,HEAD")),
        ("GET", "/v1/nothing", "404 not_found", None),
        ("POST", "/v1/events/", "404 not_found", None),
        ("GET", "/v2/events", "404 not_found", None),
    ] {
        let answer = world.send(&Request::new(method, target));
        assert_eq!(answer.summary(), expected, "{method} {target}");
        assert_eq!(answer.header("allow"), allow, "{method} {target}");
    }
    let detail = |method, target| world.send(&Request::new(method, target)).json()["detail"].clone();
    assert_eq!(detail("DELETE", "/v1/query"), "Method not allowed; allowed: GET, HEAD, POST");
    assert_eq!(detail("GET", "/v1/nothing"), "No such route.");
}

#[test]
fn game_over_its_rate_limit_gets_retry_after() {
    let root = tempfile::tempdir().expect("a folder");
    let config = root.path().join("settings.toml");
    std::fs::write(&config, "events_per_second = 10\n").expect("a file");
    let config = config.to_str().expect("a path").to_owned();
    let world = World::on(root, &["--config", &config]);
    let hundred = format!("[{}]", vec![r#"{"event":"hit"}"#; 100].join(","));
    assert_eq!(world.post(&hundred).summary(), "100 accepted");
    let rejected = world.post(&hundred);
    assert_eq!(rejected.summary(), "429 too_many (events_per_second)");
    let retry_s: u32 = rejected.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1..=10).contains(&retry_s), "{retry_s}");
    let load = world.load();
    assert_eq!(
        (&load["totals"]["received"], &load["totals"]["limited"]),
        (&200.into(), &100.into()),
        "{load}"
    );
    assert_eq!(load["reasons"]["rate_limit"], 100);
}
