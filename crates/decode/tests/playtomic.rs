//! Requests of Playtomic's SDKs.

use decode::playtomic::{FormError, parse_form, parse_tracker, query_parameter};
use expect_test::{Expect, expect};
use model::{Dimension, RawEvent};

/// Checks the events of a query string, one per line.
#[track_caller]
fn check(query: &str, expected: Expect) {
    let described = match parse_tracker(query) {
        Err(error) => error.to_string(),
        Ok(tracker_events) => {
            let line = |event| match event {
                Ok(event) => describe_fields(&event),
                Err(reject) => format!("rejected: {}", model::Reject::label(reject)),
            };
            tracker_events.decoded().events.into_iter().map(line).collect::<Vec<_>>().join("\n")
        }
    };
    expected.assert_eq(&described);
}

fn describe_fields(event: &RawEvent<'_>) -> String {
    let mut words = event.name.as_deref().expect("events of the tracker have names").to_owned();
    words.extend(event.value.map(|value| format!(" value={value}")));
    for dimension in [Dimension::Source, Dimension::Level] {
        let text = &event.dimensions[dimension as usize];
        words.extend(text.as_ref().map(|text| format!(" {}={text}", dimension.label())));
    }
    words.extend(event.props.map(|props| format!(" {props}")));
    words
}

/// Checks one event of the tracker.
#[track_caller]
fn check_event(part: &str, expected: Expect) {
    check(&format!("q={part}"), expected);
}

#[test]
fn every_tracker_code_is_an_event() {
    check(
        "q=v/1~p/2~t/y/1~t/n/2~c/Opened/Menu~f/Start/Clicked/2~lc/Deaths/3~la/Time/3/41.5~lr/Score/3/-7&url=x",
        expect![[r#"
            $view source=x {"n":1}
            $play source=x {"n":2}
            $session_start value=60 source=x
            $ping value=30 source=x
            Opened source=x {"group":"Menu"}
            Start source=x {"step":"Clicked","n":2}
            $level_metric source=x level=3 {"name":"Deaths","kind":"counter"}
            $level_metric value=41.5 source=x level=3 {"name":"Time","kind":"average"}
            $level_metric value=-7 source=x level=3 {"name":"Score","kind":"ranged"}"#]],
    );
    check(
        "q=h/Clicks/Screen%201/10/20.5~l/more/sponsor/http%3A%5C%5Cgames.example%5C/1/1/0~pls/a1~plw/a1~plq/a1~plr/a1~plf/a1",
        expect![[r#"
            $heat {"metric":"Clicks","map":"Screen 1","x":10,"y":20.5}
            $link {"name":"more","group":"sponsor","url":"http://games.example/","unique":1,"total":1,"fail":0}
            $level level=a1 {"state":"start"}
            $level level=a1 {"state":"win"}
            $level level=a1 {"state":"quit"}
            $level level=a1 {"state":"retry"}
            $level level=a1 {"state":"flag"}"#]],
    );
}

#[test]
fn text_is_unescaped_for_each_sdk() {
    check_event("c/a%5Cb%20c/", expect!["a/b c"]);
    check_event("c/level-1/", expect!["level-1"]);
    check_event("c/Tutorial+1+targets/", expect!["Tutorial 1 targets"]);
    check_event("c/caf%C3%A9/", expect!["café"]);
    check_event("c/caf%E9/", expect!["café"]);
    check_event("c/%u20AC%E9/", expect!["€é"]);
    check_event("c/%uD83D%uDE00/", expect!["😀"]);
    check_event("c/%uD83D/", expect!["\u{fffd}"]);
    check_event("c/100%/", expect!["100%"]);
    check_event("c/%zz%u12/", expect!["%zz%u12"]);
    check_event("c/x/%22%01%5C", expect![[r#"x {"group":"\"\u0001/"}"#]]);
}

#[test]
fn escaped_separators_still_separate() {
    check_event(
        "p/1%7Ec/a/b",
        expect![[r#"
        $play {"n":1}
        a {"group":"b"}"#]],
    );
    check_event(
        "p%2F1%7ec%2Fa%2Fb%255Cc",
        expect![[r#"
        $play {"n":1}
        a {"group":"b/c"}"#]],
    );
}

#[test]
fn events_with_missing_counts_are_accepted() {
    check_event(
        "v/undefined~p/undefined~t/n/0~t/y",
        expect![[r#"
        $view
        $play
        $ping value=30
        $session_start value=60"#]],
    );
    check_event("v~p~c/a", expect!["$view\n$play\na"]);
}

#[test]
fn invalid_event_is_rejected_alone_with_a_reason() {
    check_event(
        "p/1~~zz/1~p/2",
        expect![[r#"
        $play {"n":1}
        rejected: event_name_missing
        rejected: unknown_field
        $play {"n":2}"#]],
    );
    check_event(
        "c//group~c/$view/~f/$play/a/1",
        expect![[r#"
        rejected: event_name_empty
        rejected: event_name_reserved
        rejected: event_name_reserved"#]],
    );
    check_event(
        "lc//1~lc/a/~lc/a~la/a/1~h/a/b/1/x~h/a/b/1~pls/~t/x/1~l/a/b//1/1/0",
        expect![[r#"
        rejected: reserved_props_invalid
        rejected: reserved_props_invalid
        rejected: reserved_props_invalid
        rejected: reserved_props_invalid
        rejected: reserved_props_invalid
        rejected: reserved_props_invalid
        rejected: reserved_props_invalid
        rejected: reserved_props_invalid
        rejected: reserved_props_invalid"#]],
    );
    check_event(
        "la/a/1/x~lr/a/1/NaN~lr/a/1/1e999~c/a/b/c~v/1/2",
        expect![[r#"
        rejected: value_not_a_number
        rejected: value_not_finite
        rejected: value_not_finite
        rejected: unknown_field
        rejected: unknown_field"#]],
    );
}

#[test]
fn names_have_at_most_50_characters_and_texts_the_usual_limits() {
    let (fifty, more) = ("é".repeat(50), "é".repeat(51));
    let accepted = |query: String| {
        parse_tracker(&query).expect("the query has `q`").decoded().events.remove(0).map(|_| ())
    };
    for part in ["c/#/", "f/#/a/1", "lc/#/1", "la/#/1/2", "h/#/m/1/2", "l/#/g/u/1/1/0"] {
        assert_eq!(accepted(format!("q={}", part.replace('#', &fifty))), Ok(()), "{part}");
        assert!(accepted(format!("q={}", part.replace('#', &more))).is_err(), "{part}");
    }
    assert_eq!(accepted(format!("q=pls/{}", "x".repeat(128))), Ok(()));
    assert_eq!(accepted(format!("q=pls/{}", "x".repeat(129))), Err(model::Reject::DimensionTooLong));
    assert_eq!(accepted(format!("q=c/a/{}", "x".repeat(1024))), Ok(()));
    assert_eq!(accepted(format!("q=c/a/{}", "x".repeat(1025))), Err(model::Reject::PropStringTooLong));
    assert_eq!(accepted(format!("q=p/1&url={}", "x".repeat(129))), Err(model::Reject::DimensionTooLong));
}

#[test]
fn source_is_the_host_of_the_page_or_the_device_name() {
    check(
        "q=p/1&url=http%3A//www.Games.example:8080/a%3Fb",
        expect![[r#"$play source=games.example {"n":1}"#]],
    );
    check("q=p/1&url=https://bo@[::1]:80/", expect![[r#"$play source=[::1] {"n":1}"#]]);
    check("url=localhost&q=p/1&0.5Z", expect![[r#"$play source=localhost {"n":1}"#]]);
    check("q=p/1&url=file:///home/game.html", expect![[r#"$play {"n":1}"#]]);
}

#[test]
fn request_needs_events_within_the_limit() {
    check("q=", expect![""]);
    check("url=x", expect!["the query string has no `q`"]);
    check(&format!("q=v{}", "~p".repeat(10_000)), expect!["more than 10000 events in `q`"]);
    assert_eq!(parse_tracker(&format!("q=v{}", "~p".repeat(9_999))).unwrap().decoded().events.len(), 10_000);
}

#[test]
fn parameter_is_found_by_its_exact_name() {
    assert_eq!(query_parameter("xguid=1&guid=a%20b&guid=c", "guid").as_deref(), Some("a b"));
    assert_eq!(query_parameter("a&b", "a").as_deref(), Some(""));
    assert_eq!(query_parameter("a&b", "c"), None);
}

/// Names, and the requests of the browser SDK for the variable of that name. The private key is `secret`.
const SENT: [(&str, &str); 9] = [
    (
        "plain",
        "data=eyJuYW1lIjoicGxhaW4iLCJzZWN0aW9uIjoiZ2FtZXZhcnMiLCJhY3Rpb24iOiJzaW5nbGUiLCJwdWJsaWNrZXkiOiJwdWIifQ==&hash=5585591c75ea9c899e1f1aac00f688a7",
    ),
    (
        "~~~>>>???",
        "data=eyJuYW1lIjoifn5+Pj4+Pz8/Iiwic2VjdGlvbiI6ImdhbWV2YXJzIiwiYWN0aW9uIjoic2luZ2xlIiwicHVibGlja2V5IjoicHViIn0=&hash=d1b0a895869377a0d04d2cb2b5021f5d",
    ),
    (
        "café",
        "data=eyJuYW1lIjoiY2Fmw6kiLCJzZWN0aW9uIjoiZ2FtZXZhcnMiLCJhY3Rpb24iOiJzaW5nbGUiLCJwdWJsaWNrZXkiOiJwdWIifQ==&hash=bd6392e85965553ddb7973e61d25a6a1",
    ),
    (
        "naïve é",
        "data=eyJuYW1lIjoibmHDr3ZlIMOpIiwic2VjdGlvbiI6ImdhbWV2YXJzIiwiYWN0aW9uIjoic2luZ2xlIiwicHVibGlja2V5IjoicHViIn0=&hash=4479ee7d438adb627fb193c88b65c0dc",
    ),
    (
        "€uro",
        "data=eyJuYW1lIjoi4oKsdXJvIiwic2VjdGlvbiI6ImdhbWV2YXJzIiwiYWN0aW9uIjoic2luZ2xlIiwicHVibGlja2V5IjoicHViIn0=&hash=cd71be0e64aaa7258d4bcc45428f7a7a",
    ),
    (
        "日本語",
        "data=eyJuYW1lIjoi5pel5pys6KqeIiwic2VjdGlvbiI6ImdhbWV2YXJzIiwiYWN0aW9uIjoic2luZ2xlIiwicHVibGlja2V5IjoicHViIn0=&hash=6f144be6bf7be66bfb812ef4a2054576",
    ),
    (
        "😀 hi",
        "data=eyJuYW1lIjoi7aC97biAIGhpIiwic2VjdGlvbiI6ImdhbWV2YXJzIiwiYWN0aW9uIjoic2luZ2xlIiwicHVibGlja2V5IjoicHViIn0=&hash=2266ce0e2a6f25930042e1894dae53e4",
    ),
    (
        "a😀",
        "data=eyJuYW1lIjoiYe2gve24gCIsInNlY3Rpb24iOiJnYW1ldmFycyIsImFjdGlvbiI6InNpbmdsZSIsInB1YmxpY2tleSI6InB1YiJ9&hash=9f6f2c0d914a6d5b72e87e6357952388",
    ),
    (
        "x€y€z€w€v",
        "data=eyJuYW1lIjoieOKCrHnigqx64oKsd+KCrHYiLCJzZWN0aW9uIjoiZ2FtZXZhcnMiLCJhY3Rpb24iOiJzaW5nbGUiLCJwdWJsaWNrZXkiOiJwdWIifQ==&hash=b73b4d27531667b614f197f32a9b9e23",
    ),
];

#[test]
fn signature_of_the_browser_sdk_is_valid() {
    for (name, body) in SENT {
        let form = parse_form(body.as_bytes()).unwrap();
        let json = format!(r#"{{"name":"{name}","section":"gamevars","action":"single","publickey":"pub"}}"#);
        assert_eq!(form.json(), json);
        assert!(form.is_signed_with("secret"), "{name}");
        assert!(!form.is_signed_with("Secret"), "{name}");
        assert!(!form.is_signed_with(""), "{name}");
    }
}

/// Returns a form with this data and hash.
fn body(data: &str, hash: &str) -> String {
    format!("data={data}&hash={hash}")
}

#[test]
fn form_is_read_in_any_escaping_and_verified_by_its_bytes() {
    // {"name":"é"} and the MD5 of its UTF-8 and `key`.
    let (data, hash) = ("eyJuYW1lIjoiw6kifQ==", "68b12dbb6da9dbfc9514578cee75b62b");
    let accepted = |body: String| parse_form(body.as_bytes()).is_ok_and(|form| form.is_signed_with("key"));
    assert!(accepted(body(data, hash)));
    assert!(accepted(body(&data.replace('=', "%3D"), hash)));
    assert!(accepted(body(&data.replace('=', ""), &hash.to_ascii_uppercase())));
    assert!(accepted(format!("hash={hash}&x=1&data={data}")));
    assert!(!accepted(body("eyJuYW1lIjoiw6gifQ==", hash)));
}

#[test]
fn unreadable_form_reports_the_reason() {
    let zeros = "0".repeat(32);
    let bad = |body: &[u8]| parse_form(body).unwrap_err();
    assert_eq!(bad(b"\xff"), FormError::NotText);
    assert_eq!(bad(b""), FormError::Missing("data"));
    assert_eq!(bad(b"data=e30="), FormError::Missing("hash"));
    assert_eq!(bad(body("e30=", "12").as_bytes()), FormError::Hash);
    assert_eq!(bad(body("e30=", &"g".repeat(32)).as_bytes()), FormError::Hash);
    assert_eq!(bad(body("e!0=", &zeros).as_bytes()), FormError::Data);
    assert_eq!(bad(body("e", &zeros).as_bytes()), FormError::Data);
    assert_eq!(bad(body("gICA", &zeros).as_bytes()), FormError::Data);
}
