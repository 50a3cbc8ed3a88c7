//! What games with Playtomic's SDKs send, and what is made of it.

use decode::playtomic::{BadForm, form, parameter, tracker};
use expect_test::{Expect, expect};
use model::{Dimension, RawEvent};

/// The events of a query string, a line for each.
#[track_caller]
fn check(query: &str, expected: Expect) {
    let said = match tracker(query) {
        Err(error) => error.to_string(),
        Ok(tracked) => {
            let line = |event| match event {
                Ok(event) => words(&event),
                Err(reject) => format!("refused: {}", model::Reject::label(reject)),
            };
            tracked.decoded().events.into_iter().map(line).collect::<Vec<_>>().join("\n")
        }
    };
    expected.assert_eq(&said);
}

fn words(event: &RawEvent<'_>) -> String {
    let mut words = event.name.as_deref().expect("events of the tracker have names").to_owned();
    words.extend(event.value.map(|value| format!(" value={value}")));
    for dimension in [Dimension::Source, Dimension::Level] {
        let text = &event.dimensions[dimension as usize];
        words.extend(text.as_ref().map(|text| format!(" {}={text}", dimension.label())));
    }
    words.extend(event.props.map(|props| format!(" {props}")));
    words
}

/// One event of the tracker.
#[track_caller]
fn check_part(part: &str, expected: Expect) {
    check(&format!("q={part}"), expected);
}

#[test]
fn every_code_of_the_tracker_is_an_event() {
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
fn text_is_unescaped_as_each_sdk_escapes_it() {
    check_part("c/a%5Cb%20c/", expect!["a/b c"]);
    check_part("c/level-1/", expect!["level-1"]);
    check_part("c/Tutorial+1+targets/", expect!["Tutorial 1 targets"]);
    check_part("c/caf%C3%A9/", expect!["café"]);
    check_part("c/caf%E9/", expect!["café"]);
    check_part("c/%u20AC%E9/", expect!["€é"]);
    check_part("c/%uD83D%uDE00/", expect!["😀"]);
    check_part("c/%uD83D/", expect!["\u{fffd}"]);
    check_part("c/100%/", expect!["100%"]);
    check_part("c/%zz%u12/", expect!["%zz%u12"]);
    check_part("c/x/%22%01%5C", expect![[r#"x {"group":"\"\u0001/"}"#]]);
}

#[test]
fn separators_that_were_escaped_too_still_separate() {
    check_part(
        "p/1%7Ec/a/b",
        expect![[r#"
        $play {"n":1}
        a {"group":"b"}"#]],
    );
    check_part(
        "p%2F1%7ec%2Fa%2Fb%255Cc",
        expect![[r#"
        $play {"n":1}
        a {"group":"b/c"}"#]],
    );
}

#[test]
fn an_sdk_that_forgets_its_counts_is_still_heard() {
    check_part(
        "v/undefined~p/undefined~t/n/0~t/y",
        expect![[r#"
        $view
        $play
        $ping value=30
        $session_start value=60"#]],
    );
    check_part("v~p~c/a", expect!["$view\n$play\na"]);
}

#[test]
fn a_part_that_is_no_event_is_refused_for_a_reason_and_the_others_stay() {
    check_part(
        "p/1~~zz/1~p/2",
        expect![[r#"
        $play {"n":1}
        refused: event_name_missing
        refused: unknown_field
        $play {"n":2}"#]],
    );
    check_part(
        "c//group~c/$view/~f/$play/a/1",
        expect![[r#"
        refused: event_name_empty
        refused: event_name_reserved
        refused: event_name_reserved"#]],
    );
    check_part(
        "lc//1~lc/a/~lc/a~la/a/1~h/a/b/1/x~h/a/b/1~pls/~t/x/1~l/a/b//1/1/0",
        expect![[r#"
        refused: reserved_props_invalid
        refused: reserved_props_invalid
        refused: reserved_props_invalid
        refused: reserved_props_invalid
        refused: reserved_props_invalid
        refused: reserved_props_invalid
        refused: reserved_props_invalid
        refused: reserved_props_invalid
        refused: reserved_props_invalid"#]],
    );
    check_part(
        "la/a/1/x~lr/a/1/NaN~lr/a/1/1e999~c/a/b/c~v/1/2",
        expect![[r#"
        refused: value_not_a_number
        refused: value_not_finite
        refused: value_not_finite
        refused: unknown_field
        refused: unknown_field"#]],
    );
}

#[test]
fn names_have_fifty_characters_and_other_texts_the_limits_of_every_event() {
    let (fifty, more) = ("é".repeat(50), "é".repeat(51));
    let taken = |query: String| tracker(&query).expect("it has `q`").decoded().events.remove(0).map(|_| ());
    for part in ["c/#/", "f/#/a/1", "lc/#/1", "la/#/1/2", "h/#/m/1/2", "l/#/g/u/1/1/0"] {
        assert_eq!(taken(format!("q={}", part.replace('#', &fifty))), Ok(()), "{part}");
        assert!(taken(format!("q={}", part.replace('#', &more))).is_err(), "{part}");
    }
    assert_eq!(taken(format!("q=pls/{}", "x".repeat(128))), Ok(()));
    assert_eq!(taken(format!("q=pls/{}", "x".repeat(129))), Err(model::Reject::DimensionTooLong));
    assert_eq!(taken(format!("q=c/a/{}", "x".repeat(1024))), Ok(()));
    assert_eq!(taken(format!("q=c/a/{}", "x".repeat(1025))), Err(model::Reject::PropStringTooLong));
    assert_eq!(taken(format!("q=p/1&url={}", "x".repeat(129))), Err(model::Reject::DimensionTooLong));
}

#[test]
fn the_source_is_the_pages_host_or_the_devices_name() {
    check(
        "q=p/1&url=http%3A//www.Games.example:8080/a%3Fb",
        expect![[r#"$play source=games.example {"n":1}"#]],
    );
    check("q=p/1&url=https://bo@[::1]:80/", expect![[r#"$play source=[::1] {"n":1}"#]]);
    check("url=localhost&q=p/1&0.5Z", expect![[r#"$play source=localhost {"n":1}"#]]);
    check("q=p/1&url=file:///home/game.html", expect![[r#"$play {"n":1}"#]]);
}

#[test]
fn a_request_has_events_but_not_too_many() {
    check("q=", expect![""]);
    check("url=x", expect!["the query string has no `q`"]);
    check(&format!("q=v{}", "~p".repeat(10_000)), expect!["more than 10000 events in `q`"]);
    assert_eq!(tracker(&format!("q=v{}", "~p".repeat(9_999))).unwrap().decoded().events.len(), 10_000);
}

#[test]
fn a_parameter_is_found_by_its_whole_name() {
    assert_eq!(parameter("xguid=1&guid=a%20b&guid=c", "guid").as_deref(), Some("a b"));
    assert_eq!(parameter("a&b", "a").as_deref(), Some(""));
    assert_eq!(parameter("a&b", "c"), None);
}

/// Names, and the bodies in which the browser SDK asks for the variable of that name. The private key is `secret`.
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
fn a_form_is_signed_as_the_browser_sdk_signs_it() {
    for (name, body) in SENT {
        let form = form(body.as_bytes()).unwrap();
        let json = format!(r#"{{"name":"{name}","section":"gamevars","action":"single","publickey":"pub"}}"#);
        assert_eq!(form.json(), json);
        assert!(form.is_signed_with("secret"), "{name}");
        assert!(!form.is_signed_with("Secret"), "{name}");
        assert!(!form.is_signed_with(""), "{name}");
    }
}

/// A form of this data and hash.
fn body(data: &str, hash: &str) -> String {
    format!("data={data}&hash={hash}")
}

#[test]
fn a_form_is_read_however_it_is_escaped_and_signed_by_its_bytes() {
    // {"name":"é"} and the MD5 of its UTF-8 and `key`.
    let (data, hash) = ("eyJuYW1lIjoiw6kifQ==", "68b12dbb6da9dbfc9514578cee75b62b");
    let taken = |body: String| form(body.as_bytes()).is_ok_and(|form| form.is_signed_with("key"));
    assert!(taken(body(data, hash)));
    assert!(taken(body(&data.replace('=', "%3D"), hash)));
    assert!(taken(body(&data.replace('=', ""), &hash.to_ascii_uppercase())));
    assert!(taken(format!("hash={hash}&x=1&data={data}")));
    assert!(!taken(body("eyJuYW1lIjoiw6gifQ==", hash)));
}

#[test]
fn a_form_that_cannot_be_read_says_why() {
    let zeros = "0".repeat(32);
    let bad = |body: &[u8]| form(body).unwrap_err();
    assert_eq!(bad(b"\xff"), BadForm::NotText);
    assert_eq!(bad(b""), BadForm::Missing("data"));
    assert_eq!(bad(b"data=e30="), BadForm::Missing("hash"));
    assert_eq!(bad(body("e30=", "12").as_bytes()), BadForm::Hash);
    assert_eq!(bad(body("e30=", &"g".repeat(32)).as_bytes()), BadForm::Hash);
    assert_eq!(bad(body("e!0=", &zeros).as_bytes()), BadForm::Data);
    assert_eq!(bad(body("e", &zeros).as_bytes()), BadForm::Data);
    assert_eq!(bad(body("gICA", &zeros).as_bytes()), BadForm::Data);
}
