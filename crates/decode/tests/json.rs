//! The JSON decoder: accepted and rejected input.

mod support;

use decode::json::{BodyFormat, decode};
use expect_test::{Expect, expect};
use model::{RawBatch, Reject};
use support::describe;

#[track_caller]
fn check(body: &str, expected: Expect) {
    expected.assert_eq(&describe(body.as_bytes(), BodyFormat::Json));
}

#[track_caller]
fn check_lines(body: impl AsRef<[u8]>, expected: Expect) {
    expected.assert_eq(&describe(body.as_ref(), BodyFormat::Lines));
}

/// Checks one event with this field and a name: accepted, or rejected for this reason.
#[track_caller]
fn check_field(field: &str, expected: Result<&str, Reject>) {
    let described = describe(format!(r#"{{"event":"a",{field}}}"#).as_bytes(), BodyFormat::Json);
    let expected = match expected {
        Ok("") => "event=a".to_string(),
        Ok(rest) => format!("event=a {rest}"),
        Err(reject) => format!("rejected: {}", reject.label()),
    };
    assert_eq!(described, expected, "{field}");
}

#[test]
fn event_with_all_fields_is_decoded() {
    check(
        r#"{"id":"0190b6a1-7c2e-7def-8a9b-0123456789AB","event":"level_complete","ts":"1970-01-01T00:00:01Z",
            "player":"bo","session":7,"value":-1.5e2,"props":{"a": [1, "x"]},"country":"de","source":"ad",
            "platform":"web","version":"1.2","level":12}"#,
        expect![[
            r#"event=level_complete id=0190b6a17c2e7def8a9b0123456789ab ts=1000 player=bo session=7 value=-150.0 country=DE source=ad platform=web version=1.2 level=12 props={"a": [1, "x"]}"#
        ]],
    );
}

#[test]
fn body_is_one_event_or_an_array_or_an_envelope() {
    check(r#"{"event":"a"}"#, expect!["event=a"]);
    check(r#" [ {"event":"a"} , {"event":"b"} ] "#, expect!["event=a\nevent=b"]);
    check("[]", expect![""]);
    check(r#"{"events":[]}"#, expect![""]);
    check(
        r#"{"sent_at":"1970-01-01T00:00:00.5Z","events":[{"event":"a"}]}"#,
        expect!["sent at 500\nevent=a"],
    );
    check(r#"{ "events" : [{"event":"a"}] , "sent_at" : 1500.9 }"#, expect!["sent at 1500\nevent=a"]);
    check(r#"{"sent_at":null,"events":[{"event":"a"}]}"#, expect!["event=a"]);
    check(r#"{"\u0065vents":[{"event":"a"}]}"#, expect!["event=a"]);
    check(r#"{"events":[{"event":"a"}],"events":[{"event":"b"}]}"#, expect!["event=b"]);
}

#[test]
fn invalid_envelope_is_malformed() {
    check(
        r#"{"sent_at":"today","events":[]}"#,
        expect!["malformed: `sent_at` must be RFC 3339 or epoch milliseconds"],
    );
    check(
        r#"{"sent_at":true,"events":[]}"#,
        expect!["malformed: `sent_at` must be RFC 3339 or epoch milliseconds"],
    );
    check(
        r#"{"sent_at":1e300,"events":[]}"#,
        expect!["malformed: `sent_at` must be RFC 3339 or epoch milliseconds"],
    );
    check(r#"{"events":{}}"#, expect!["malformed: `events` must be an array"]);
    check(r#"{"events":null}"#, expect!["malformed: `events` must be an array"]);
    check(
        r#"{"events":[{"event":"a"}],"key":"x"}"#,
        expect![[r#"malformed: unknown field "key" next to `events`"#]],
    );
    check(
        r#"{"player":"bo","events":[]}"#,
        expect![[r#"malformed: unknown field "player" next to `events`"#]],
    );
    check(r#"{"events":[]} {}"#, expect!["malformed: body is not JSON: expected the end at byte 14"]);
    let long = format!(r#"{{"events":[],"{}":1}}"#, "é".repeat(1000));
    let cut = format!("malformed: unknown field {:?} next to `events`", "é".repeat(64));
    assert_eq!(describe(long.as_bytes(), BodyFormat::Json), cut);
}

#[test]
fn envelope_is_recognised_only_at_the_top() {
    check(r#"[{"events":[]}]"#, expect!["rejected: unknown_field"]);
    check(r#"{"sent_at":1}"#, expect!["rejected: unknown_field"]);
    check_lines(r#"{"events":[]}"#, expect!["rejected: unknown_field"]);
    check(r#"{"events":[{"events":[]}]}"#, expect!["rejected: unknown_field"]);
}

#[test]
fn values_other_than_objects_are_rejected() {
    for body in ["5", "\"x\"", "null", "true", " -1.5e3 "] {
        check(body, expect!["rejected: not_an_object"]);
    }
    check(
        r#"[1, {"event":"a"}, [{"event":"b"}], null]"#,
        expect![[r#"
            rejected: not_an_object
            event=a
            rejected: not_an_object
            rejected: not_an_object"#]],
    );
}

#[test]
fn body_that_is_not_json_is_rejected_with_the_position() {
    check("", expect!["malformed: body is empty"]);
    check(" \r\n\t", expect!["malformed: body is empty"]);
    check(
        r#"[{"event":"a"} {"event":"b"}]"#,
        expect!["malformed: body is not JSON: expected ',' or ']' at byte 15"],
    );
    check(r#"[{"event":"a"},]"#, expect!["malformed: body is not JSON: expected a value at byte 15"]);
    check(
        r#"{"event":"a",}"#,
        expect!["malformed: body is not JSON: expected a key in double quotes at byte 13"],
    );
    check(r#"{"event" "a"}"#, expect!["malformed: body is not JSON: expected ':' at byte 9"]);
    check(r#"{"event":"a""#, expect!["malformed: body is not JSON: expected ',' or '}' at byte 12"]);
    check(
        r#"{"event":"a"#,
        expect![[r#"malformed: body is not JSON: expected '"' at the end of the string at byte 11"#]],
    );
    check(
        "{\"event\":\"a\n\"}",
        expect![[r#"malformed: body is not JSON: expected '"' at the end of the string at byte 11"#]],
    );
    check(r#"{"event":"\x"}"#, expect!["malformed: body is not JSON: expected a valid escape at byte 10"]);
    check(
        r#"{"value":01}"#,
        expect!["malformed: body is not JSON: expected no digit after a leading zero at byte 11"],
    );
    check(r#"{"value":1.}"#, expect!["malformed: body is not JSON: expected a digit at byte 11"]);
    check(
        r#"{"event":"a"}{"event":"b"}"#,
        expect!["malformed: body is not JSON: expected the end at byte 13"],
    );
    check("\u{feff}{}", expect!["malformed: body is not JSON: expected a value at byte 0"]);
    check("{'event':1}", expect!["malformed: body is not JSON: expected a key in double quotes at byte 1"]);
    check(r#"{"props":{"a":[1}}"#, expect!["malformed: body is not JSON: expected ',' or ']' at byte 16"]);
    assert_eq!(
        describe(b"{\"event\":\"\xff\"}", BodyFormat::Json),
        "malformed: body is not UTF-8 at byte 10"
    );
}

#[test]
fn syntax_error_after_a_rejected_event_is_detected() {
    check(r#"[{"x":1},{"event":}]"#, expect!["malformed: body is not JSON: expected a value at byte 18"]);
    check(r#"[{"x":{"y":tru}}]"#, expect!["malformed: body is not JSON: expected a value at byte 11"]);
}

#[test]
fn malformed_body_leaves_the_result_empty() {
    let mut decoded = RawBatch::default();
    assert!(decode(br#"{"sent_at":1,"events":[{"event":"a"},"#, BodyFormat::Json, &mut decoded).is_err());
    assert_eq!(decoded, RawBatch::default());
}

#[test]
fn recycled_result_is_empty_and_keeps_its_allocation() {
    let mut decoded = RawBatch::default();
    decode(br#"{"sent_at":1,"events":[{"event":"a"}]}"#, BodyFormat::Json, &mut decoded)
        .expect("well-formed");
    let capacity = decoded.events.capacity();
    let decoded: RawBatch<'_> = decoded.recycle();
    assert_eq!((decoded.sent_at_ms, decoded.events.len(), decoded.events.capacity()), (None, 0, capacity));
}

#[test]
fn objects_on_separate_lines_are_lines_in_either_format() {
    check("{\"event\":\"a\"}\n{\"event\":\"b\"}", expect!["event=a\nevent=b"]);
    check(
        "{\"event\":\"a\"} \r\n\n {\"event\":\n{}",
        expect!["event=a\nrejected: malformed_json\nevent absent"],
    );
    check("{\"event\":\n\"a\"}\n{\"event\":\"b\"}\n", expect!["event=a\nevent=b"]);
    check("{\"x\":1}\n{\"event\":\"b\"}", expect!["rejected: unknown_field\nevent=b"]);
    check(
        "{\"event\":\"a\"} {\"event\":\"b\"}",
        expect!["malformed: body is not JSON: expected the end at byte 14"],
    );
    check("{\"event\":\"a\"}\n5", expect!["malformed: body is not JSON: expected the end at byte 14"]);
    check("[]\n{}", expect!["malformed: body is not JSON: expected the end at byte 3"]);
}

#[test]
fn malformed_line_is_rejected_alone() {
    check_lines(
        "{\"event\":\"a\"}\r\n\r\n{\"event\":}\nnonsense\n  {\"event\":\"b\"}  \n{\"event\":\"c\"} x\n[1]\n7\n{\"event\":\n\"d\"}\n",
        expect![[r#"
            event=a
            rejected: malformed_json
            rejected: malformed_json
            event=b
            rejected: malformed_json
            rejected: not_an_object
            rejected: not_an_object
            rejected: malformed_json
            rejected: malformed_json"#]],
    );
    check_lines("{\"event\":\"a\"}", expect!["event=a"]);
    check_lines("\n \r\n", expect!["malformed: body is empty"]);
    check_lines("\u{feff}{}\n{}", expect!["rejected: malformed_json\nevent absent"]);
}

#[test]
fn invalid_utf8_affects_only_its_line() {
    check_lines(
        b"{\"event\":\"a\"}\n{\"event\":\"\xff\"}\n\n{\"event\":\"\xc3\xa9\"}",
        expect!["event=a\nrejected: malformed_json\nevent=é"],
    );
}

#[test]
fn ten_thousand_events_are_accepted_and_one_more_is_not() {
    let full = ["{}"; 10_000];
    let over = ["{}"; 10_001];
    let count = |form, body: String| {
        let mut decoded = RawBatch::default();
        decode(body.as_bytes(), form, &mut decoded)
            .map(|()| decoded.events.len())
            .map_err(|fault| fault.to_string())
    };
    let too_many = || Err("more than 10000 events in one body".to_string());
    for form in [BodyFormat::Json, BodyFormat::Lines] {
        assert_eq!(count(form, full.join("\n")), Ok(10_000));
        assert_eq!(count(form, over.join("\n")), too_many());
    }
    assert_eq!(count(BodyFormat::Json, format!("[{}]", full.join(","))), Ok(10_000));
    assert_eq!(count(BodyFormat::Json, format!("[{}]", over.join(","))), too_many());
    assert_eq!(count(BodyFormat::Json, format!("{{\"events\":[{}]}}", over.join(","))), too_many());
}

#[test]
fn unlisted_fields_are_rejected() {
    for name in [
        "x",
        "",
        "Event",
        "events_",
        "event\\u0000",
        "ip",
        "received_at",
        "a_name_longer_than_a_block_of_text",
    ] {
        check_field(&format!("\"{name}\":1"), Err(Reject::UnknownField));
    }
}

#[test]
fn name_is_a_string_and_optional_in_the_decoder() {
    check(r#"{"player":"bo"}"#, expect!["event absent player=bo"]);
    check(r#"{"event":""}"#, expect!["event="]);
    check(r#"{"event":null}"#, expect!["rejected: event_name_not_a_string"]);
    check(r#"{"event":7}"#, expect!["rejected: event_name_not_a_string"]);
    check(r#"{"event":["a"]}"#, expect!["rejected: event_name_not_a_string"]);
}

#[test]
fn null_is_the_same_as_absent() {
    for name in [
        "id", "ts", "player", "session", "value", "props", "country", "source", "platform", "version",
        "level",
    ] {
        check_field(&format!("\"{name}\":null"), Ok(""));
    }
}

#[test]
fn last_of_duplicate_keys_counts() {
    check_field(r#""event":"b","event":"a""#, Ok(""));
    check_field(r#""player":"bo","player":null"#, Ok(""));
    check_field(r#""value":1,"value":2"#, Ok("value=2.0"));
    check_field(r#""country":"DE","country":"""#, Ok(""));
}

#[test]
fn first_violated_rule_is_reported() {
    check_field(r#""value":"x","id":1"#, Err(Reject::ValueNotANumber));
    check_field(r#""id":1,"value":"x""#, Err(Reject::IdNotAUuid));
    check_field(r#""value":"x","value":1"#, Err(Reject::ValueNotANumber));
}

#[test]
fn id_is_a_uuid() {
    let id = "id=0190b6a17c2e7def8a9b0123456789ab";
    check_field(r#""id":"0190b6a1-7c2e-7def-8a9b-0123456789ab""#, Ok(id));
    check_field(r#""id":"0190B6A17C2E7DEF8A9B0123456789AB""#, Ok(id));
    check_field(r#""id":"\u0030190b6a1-7c2e-7def-8a9b-0123456789ab""#, Ok(id));
    check_field(r#""id":"00000000-0000-0000-0000-000000000000""#, Ok(""));
    check_field(r#""id":"00000000000000000000000000000000""#, Ok(""));
    check_field(r#""id":"\u00300000000-0000-0000-0000-000000000000""#, Ok(""));
    for id in ["\"\"", "\"7\"", "7", "true", "[]", "\"{0190b6a1-7c2e-7def-8a9b-0123456789ab}\""] {
        check_field(&format!("\"id\":{id}"), Err(Reject::IdNotAUuid));
    }
}

#[test]
fn time_is_rfc_3339_or_epoch_milliseconds() {
    check_field(r#""ts":"1970-01-01T00:00:01.250Z""#, Ok("ts=1250"));
    check_field(r#""ts":"1970-01-01t01:00:01.25+01:00""#, Ok("ts=1250"));
    check_field(r#""ts":"1970-01-01\u005400:00:01Z""#, Ok("ts=1000"));
    check_field(r#""ts":"2016-12-31T23:59:60.000Z""#, Ok("ts=1483228799999"));
    check_field(r#""ts":1763638457000"#, Ok("ts=1763638457000"));
    check_field(r#""ts":-1"#, Ok("ts=-1"));
    check_field(r#""ts":1763638457000.999"#, Ok("ts=1763638457000"));
    check_field(r#""ts":-0.5"#, Ok("ts=0"));
    check_field(r#""ts":1.763638457e12"#, Ok("ts=1763638457000"));
    check_field(r#""ts":253402300799999"#, Ok("ts=253402300799999"));
    check_field(r#""ts":-62167219200000"#, Ok("ts=-62167219200000"));
    for ts in [
        "253402300800000",
        "-62167219200001",
        "99999999999999999999",
        "1e400",
        "true",
        "{}",
        r#""""#,
        r#""1763638457000""#,
        r#""2026-11-20""#,
        r#""2026-02-30T00:00:00.000Z""#,
        r#""2026-11-20T25:00:00Z""#,
    ] {
        check_field(&format!("\"ts\":{ts}"), Err(Reject::TimestampInvalid));
    }
}

#[test]
fn players_and_sessions_are_text_or_whole_numbers() {
    for (field, wrong) in [("player", Reject::PlayerNotAString), ("session", Reject::SessionNotAString)] {
        let described = |value: &str| format!("{field}={value}");
        for (value, text) in [
            (r#""bo""#, "bo"),
            (r#"" bo ""#, " bo "),
            (r#""b\u006f""#, "bo"),
            ("7", "7"),
            ("-7", "-7"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("12.0", "12"),
            ("9007199254740991.0", "9007199254740991"),
            ("1.5e3", "1500"),
        ] {
            check_field(&format!("\"{field}\":{value}"), Ok(&described(text)));
        }
        for value in ["true", "{}", "[7]", "1.5", "9007199254740993.0", "1e300"] {
            check_field(&format!("\"{field}\":{value}"), Err(wrong));
        }
    }
}

#[test]
fn placeholder_ids_are_treated_as_absent() {
    let placeholders = [
        r#""""#,
        r#"" ""#,
        r#""null""#,
        r#""undefined""#,
        r#""None""#,
        r#""nil""#,
        r#""NaN""#,
        r#""Anonymous""#,
        r#""guest""#,
        r#""unknown""#,
        r#""0""#,
        r#""-1""#,
        r#""true""#,
        r#""false""#,
        r#""[object Object]""#,
        r#""00000000-0000-0000-0000-000000000000""#,
        r#""n\u0075ll""#,
        "0",
        "-0",
        "0.0",
        "-1",
    ];
    for id in placeholders {
        check_field(&format!("\"player\":{id},\"session\":{id}"), Ok(""));
    }
}

#[test]
fn value_is_a_finite_number() {
    check_field(r#""value":0"#, Ok("value=0.0"));
    check_field(r#""value":-0"#, Ok("value=-0.0"));
    check_field(r#""value":0.1"#, Ok("value=0.1"));
    check_field(r#""value":9007199254740993"#, Ok("value=9007199254740992.0"));
    check_field(r#""value":1e-999"#, Ok("value=0.0"));
    check_field(r#""value":1e999"#, Err(Reject::ValueNotFinite));
    check_field(r#""value":-1e999"#, Err(Reject::ValueNotFinite));
    for value in [r#""1""#, "true", "[]", "{}"] {
        check_field(&format!("\"value\":{value}"), Err(Reject::ValueNotANumber));
    }
}

#[test]
fn dimensions_are_text_or_whole_numbers() {
    for field in ["source", "platform", "version", "level"] {
        check_field(&format!("\"{field}\":\"x\""), Ok(&format!("{field}=x")));
        check_field(&format!("\"{field}\":\"\""), Ok(""));
        check_field(&format!("\"{field}\":0"), Ok(&format!("{field}=0")));
        check_field(&format!("\"{field}\":-12"), Ok(&format!("{field}=-12")));
        for value in ["true", "1.5", "[]", "{}"] {
            check_field(&format!("\"{field}\":{value}"), Err(Reject::DimensionNotAString));
        }
    }
}

#[test]
fn country_is_two_letters_in_upper_case() {
    for country in ["DE", "de", "dE", "\\u0064e"] {
        check_field(&format!("\"country\":\"{country}\""), Ok("country=DE"));
    }
    check_field(r#""country":"zz""#, Ok("country=ZZ"));
    check_field(r#""country":"AA""#, Ok("country=AA"));
    check_field(r#""country":"""#, Ok(""));
    for country in [r#""D""#, r#""DEU""#, r#""D1""#, r#""ß""#, r#""[a""#, "49"] {
        check_field(&format!("\"country\":{country}"), Err(Reject::CountryInvalid));
    }
    check_field(r#""country":true"#, Err(Reject::DimensionNotAString));
}

#[test]
fn properties_are_an_object_kept_as_text() {
    check_field(r#""props":{}"#, Ok("props={}"));
    check_field(r#""props": { "a" : [ ] } "#, Ok(r#"props={ "a" : [ ] }"#));
    for props in ["[]", "\"{}\"", "1", "true"] {
        check_field(&format!("\"props\":{props}"), Err(Reject::PropsNotAnObject));
    }
}

/// Checks that content of exactly `at` is accepted and one more is rejected.
#[track_caller]
fn check_limit(at: usize, field: impl Fn(usize) -> String, reject: Reject) {
    let described =
        |size| describe(format!(r#"{{"event":"a",{}}}"#, field(size)).as_bytes(), BodyFormat::Json);
    assert!(described(at).starts_with("event=a"), "{reject:?} at the limit: {:.99}", described(at));
    assert_eq!(described(at + 1), format!("rejected: {}", reject.label()));
}

#[test]
fn every_limit_is_exact() {
    let text = |field: &str, len| format!("\"{field}\":\"{}\"", "x".repeat(len));
    check_limit(128, |len| text("player", len), Reject::PlayerTooLong);
    check_limit(128, |len| text("session", len), Reject::SessionTooLong);
    check_limit(128, |len| format!("\"player\":{}", "7".repeat(len)), Reject::PlayerTooLong);
    for field in ["source", "platform", "version", "level"] {
        check_limit(128, |len| text(field, len), Reject::DimensionTooLong);
    }
    let nested = |depth| format!("\"props\":{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    check_limit(3, nested, Reject::PropsTooDeep);
    let arrays =
        |depth: usize| format!("\"props\":{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    check_limit(3, arrays, Reject::PropsTooDeep);
    let keys = |count| vec!["\"k\":1"; count].join(",");
    check_limit(64, |count| format!("\"props\":{{{}}}", keys(count)), Reject::PropsTooManyKeys);
    let inner = |count| format!("\"props\":{{\"a\":{{{}}},\"b\":[{{\"c\":0}}]}}", keys(count - 3));
    check_limit(64, inner, Reject::PropsTooManyKeys);
    let prop =
        |key: usize, value: usize| format!("\"props\":{{\"{}\":\"{}\"}}", "k".repeat(key), "v".repeat(value));
    check_limit(128, |len| prop(len, 1), Reject::PropKeyTooLong);
    check_limit(1024, |len| prop(1, len), Reject::PropStringTooLong);
    let in_array = |len| format!("\"props\":{{\"a\":[\"{}\"]}}", "v".repeat(len));
    check_limit(1024, in_array, Reject::PropStringTooLong);
}

#[test]
fn event_of_64_kib_is_accepted_and_one_byte_more_is_not() {
    let around = r#"{"event":"a","props":{"a":[]}}"#.len();
    check_limit(
        64 << 10,
        |len| format!("\"props\":{{\"a\":[{}]}}", " ".repeat(len - around)),
        Reject::EventTooLarge,
    );
}

#[test]
fn lengths_count_unescaped_bytes() {
    let text = |field: &str, unit: &str, len: usize| format!("\"{field}\":\"{}\"", unit.repeat(len));
    check_limit(128, |len| text("player", "\\u0078", len), Reject::PlayerTooLong);
    check_limit(128, |len| text("level", "\\n", len), Reject::DimensionTooLong);
    for (unit, len) in
        [("\\/", 1024), ("\\u00e9", 512), ("\\u20ac", 341), ("\\ud83d\\ude00", 256), ("\\udead", 341)]
    {
        let prop = |len| format!("\"props\":{{\"k\":\"{}\"}}", unit.repeat(len));
        check_limit(len, prop, Reject::PropStringTooLong);
    }
    check_limit(64, |len| format!("\"player\":\"{}\"", "\\u00e9".repeat(len)), Reject::PlayerTooLong);
    check_limit(32, |len| format!("\"player\":\"{}\"", "\\ud83d\\ude00".repeat(len)), Reject::PlayerTooLong);
    check_limit(32, |len| format!("\"player\":\"{}\"", "😀".repeat(len)), Reject::PlayerTooLong);
}

#[test]
fn json_nests_at_most_32_deep() {
    let arrays = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    check(&arrays(32), expect!["rejected: not_an_object"]);
    check(&arrays(33), expect!["malformed: body is not JSON: nested deeper than 32 at byte 32"]);
    check(&arrays(100_000), expect!["malformed: body is not JSON: nested deeper than 32 at byte 32"]);
    check(&format!("{{\"x\":{}}}", arrays(31)), expect!["rejected: unknown_field"]);
    check(
        &format!("{{\"x\":{}}}", arrays(32)),
        expect!["malformed: body is not JSON: nested deeper than 32 at byte 36"],
    );
    check_lines(arrays(99), expect!["rejected: malformed_json"]);
    let envelope = |depth| format!("{{\"events\":[{{\"x\":{}}}]}}", arrays(depth));
    check(&envelope(29), expect!["rejected: unknown_field"]);
    check(&envelope(30), expect!["malformed: body is not JSON: nested deeper than 32 at byte 45"]);
}

#[test]
fn escapes_are_decoded() {
    check(r#"{"event":"\"\\\/\b\f\n\r\tü"}"#, expect!["event=\"\\/\u{8}\u{c}\n\r\tü"]);
    check(r#"{"event":"\u00e9\u20AC\ud83d\ude00."}"#, expect!["event=é€😀."]);
    check(
        r#"{"event":"a string that is longer than a block\nand goes on after it"}"#,
        expect![[r#"
        event=a string that is longer than a block
        and goes on after it"#]],
    );
}

#[test]
fn lone_surrogate_becomes_the_replacement_character() {
    check(r#"{"event":"\ud800"}"#, expect!["event=\u{fffd}"]);
    check(r#"{"event":"\udc00x"}"#, expect!["event=\u{fffd}x"]);
    check(r#"{"event":"\ud800\ud83d\ude00"}"#, expect!["event=\u{fffd}😀"]);
    check(r#"{"event":"\ud800\n"}"#, expect!["event=\u{fffd}\n"]);
    check(
        r#"{"event":"\ud800\u"}"#,
        expect!["malformed: body is not JSON: expected a valid escape at byte 16"],
    );
}

#[test]
fn keys_may_be_escaped() {
    check(r#"{"\u0065vent":"a","play\u0065r":"bo"}"#, expect!["event=a player=bo"]);
    check(r#"{"\u0000":1}"#, expect!["rejected: unknown_field"]);
}
