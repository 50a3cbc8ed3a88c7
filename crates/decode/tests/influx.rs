//! The line protocol decoder: accepted and rejected input, and properties of every body.

#[path = "support/samples.rs"]
mod samples;

use decode::influx::{Precision, decode};
use decode::sample::Measured;
use expect_test::{Expect, expect};
use proptest::prelude::*;

fn describe(body: &[u8], precision: Precision) -> String {
    samples::describe(|emit| decode(body, precision, emit))
}

#[track_caller]
fn check(body: impl AsRef<[u8]>, expected: Expect) {
    expected.assert_eq(&describe(body.as_ref(), Precision::Nanoseconds));
}

#[test]
fn field_is_a_gauge_of_the_measurement() {
    check(
        "cpu,host=a,core=1 usage=1.5,idle=98i,on=true,n=7u 1556813561098000000",
        expect![[r#"
            cpu_usage gauge 1.5 host=a core=1 at 1556813561098
            cpu_idle gauge 98 host=a core=1 at 1556813561098
            cpu_on gauge 1 host=a core=1 at 1556813561098
            cpu_n gauge 7 host=a core=1 at 1556813561098"#]],
    );
    check("cpu value=-2e3", expect!["cpu gauge -2000"]);
    check(
        "cpu a=t,b=T,c=True,d=TRUE,e=f,g=F,h=False,i=FALSE",
        expect![[r#"
        cpu_a gauge 1
        cpu_b gauge 1
        cpu_c gauge 1
        cpu_d gauge 1
        cpu_e gauge 0
        cpu_g gauge 0
        cpu_h gauge 0
        cpu_i gauge 0"#]],
    );
}

#[test]
fn string_field_is_rejected_alone() {
    check(
        r#"log level="warn, \"x\" = é",n=1i,path="C:\\" 5000000"#,
        expect![[r#"
            rejected: value_not_a_number in "log level=\"warn, \\\"x\\\" = é\",n=1i,path=\"C:\\\\\" 5000000"
            log_n gauge 1 at 5
            rejected: value_not_a_number in "log level=\"warn, \\\"x\\\" = é\",n=1i,path=\"C:\\\\\" 5000000""#]],
    );
    check(
        "a b=NaN,c=1,d=inf",
        expect![[r#"
        rejected: value_not_finite in "a b=NaN,c=1,d=inf"
        a_c gauge 1
        rejected: value_not_finite in "a b=NaN,c=1,d=inf""#]],
    );
}

#[test]
fn string_may_span_lines_but_a_missing_quote_swallows_no_lines() {
    check(
        "log text=\"one\ntwo n=1\n\",n=1\ncpu n=2",
        expect![[r#"
            rejected: value_not_a_number in "log text=\"one\ntwo n=1\n\",n=1"
            log_n gauge 1
            cpu_n gauge 2"#]],
    );
    check(
        "log text=\"one\ncpu n=2\nlog text=\"two\",n=3\ncpu n=4",
        expect![[r#"
            rejected: malformed_line in "log text=\"one"
            cpu_n gauge 2
            rejected: value_not_a_number in "log text=\"two\",n=3"
            log_n gauge 3
            cpu_n gauge 4"#]],
    );
    check(
        "log text=\"one\nlog text=\" two\"\ncpu n=2",
        expect![[r#"
            rejected: malformed_line in "log text=\"one"
            rejected: value_not_a_number in "log text=\" two\""
            cpu_n gauge 2"#]],
    );
}

#[test]
fn backslash_escapes_only_separators() {
    check(
        r"my\ cpu\,x,the\ host=a\=b\,c\d my\ field=1",
        expect![[r"my cpu,x_my field gauge 1 the host=a=b,c\d"]],
    );
    check(r"a=b,c=\ d e=1", expect![[r"a=b_e gauge 1 c= d"]]);
    check(r"a\\ e=1 e=1", expect![[r"a\ e=1_e gauge 1"]]);
}

#[test]
fn blank_lines_and_comments_are_skipped() {
    check(
        "\n\r\n  \n# a b=1\n  a b=1  \r\n a b=2 1000000 \r\n",
        expect![[r#"
        a_b gauge 1
        a_b gauge 2 at 1"#]],
    );
}

#[test]
fn invalid_line_does_not_affect_its_neighbours() {
    let bad = [
        "a",
        "a ",
        "a,b c=1",
        "a,b= c=1",
        "a,=b c=1",
        "a, c=1",
        "a b",
        "a b=",
        "a b=1,",
        "a =1",
        "a b=1 2 3",
        "a b=1 1.5",
        "a b=1 -",
        "a b=x",
        "a b=1ii",
        "a b=i",
        "a b=9223372036854775808i",
        "a b=-1u",
        "a b=\"x\"y",
        "a b=\"x",
        "a b=tRUE",
        ",a b=1",
    ];
    for line in bad {
        let body = format!("x y=1\n{line}\nx y=2");
        let described = describe(body.as_bytes(), Precision::Nanoseconds);
        let expected = format!("x_y gauge 1\nrejected: malformed_line in {line:?}\nx_y gauge 2");
        assert_eq!(described, expected);
    }
    check(
        b"x y=1\n\xff y=1\nx y=2",
        expect![[r#"
        x_y gauge 1
        rejected: not_utf8 in "� y=1"
        x_y gauge 2"#]],
    );
}

#[test]
fn times_use_the_precision_of_the_request() {
    for (label, expected) in [
        ("ns", "a_b gauge 1 at -1"),
        ("n", "a_b gauge 1 at -1"),
        ("us", "a_b gauge 1 at -2"),
        ("µ", "a_b gauge 1 at -2"),
        ("ms", "a_b gauge 1 at -1500"),
        ("s", "a_b gauge 1 at -1500000"),
        ("m", "a_b gauge 1 at -90000000"),
        ("h", "a_b gauge 1 at -5400000000"),
    ] {
        let precision = Precision::from_label(label).expect("the name is valid");
        assert_eq!(describe(b"a b=1 -1500", precision), expected, "{label}");
    }
    assert_eq!(Precision::from_label("d"), None);
    check("a b=1 9223372036854775808", expect![[r#"rejected: ts_invalid in "a b=1 9223372036854775808""#]]);
    assert_eq!(
        describe(b"a b=1 9223372036854775807", Precision::Hours),
        "rejected: ts_invalid in \"a b=1 9223372036854775807\""
    );
}

#[test]
fn names_tags_and_fields_have_limits() {
    let reason = |line: String| {
        describe(line.as_bytes(), Precision::Nanoseconds)
            .split(' ')
            .nth(1)
            .map(str::to_string)
            .unwrap_or_default()
    };
    let long = |len: usize| "x".repeat(len);
    assert_eq!(reason(format!("{} value=1", long(200))), "gauge");
    assert_eq!(reason(format!("{} value=1", long(201))), "event_name_too_long");
    assert_eq!(reason(format!("{} {}=1", long(100), long(100))), "event_name_too_long");
    assert_eq!(reason("$a b=1".to_string()), "event_name_reserved");
    let tags = |count: usize| (0..count).map(|key| format!(",k{key}=v")).collect::<String>();
    assert_eq!(reason(format!("a{} b=1", tags(64))), "gauge");
    assert_eq!(reason(format!("a{} b=1", tags(65))), "props_too_many_keys");
    assert_eq!(reason(format!("a,k={} b=1", long(1_025))), "prop_string_too_long");
    assert_eq!(reason(format!("a {}", vec!["b=1"; 1_024].join(","))), "gauge");
    assert_eq!(reason(format!("a {}", vec!["b=1"; 1_025].join(","))), "props_too_many_keys");
}

const PIECES: &[&str] = &[
    "a",
    "b",
    "cpu",
    ",",
    ",",
    "=",
    "=",
    " ",
    " ",
    "\n",
    "\n",
    "\\",
    "\"",
    "\"",
    "1",
    "1i",
    "-2.5u",
    "t",
    "x=1",
    " x=1",
    "#",
    "\r",
    "é",
    "a,b=c d=1",
    " 1556813561098000000",
    "\\ ",
    "\\,",
];

fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..40).prop_map(|pieces| pieces.concat())
}

/// Escapes the separators in a text.
fn escaped(text: &str) -> String {
    text.replace(',', "\\,").replace('=', "\\=").replace(' ', "\\ ")
}

proptest! {
    #[test]
    fn random_bytes_never_panic(body: Vec<u8>) {
        samples::count(|emit| decode(&body, Precision::Seconds, emit));
    }

    #[test]
    fn every_line_without_a_quote_is_accepted_or_rejected(body in pieces()) {
        let body = body.replace('"', "");
        let count = |body: &str| samples::count(|emit| decode(body.as_bytes(), Precision::Nanoseconds, emit));
        let (mut accepted, mut rejected) = (0, 0);
        for line in body.split('\n') {
            let (of_line, bad) = count(line);
            let line = line.trim_start_matches(' ');
            let is_nothing = matches!(line, "" | "\r") || line.starts_with('#');
            prop_assert_eq!(of_line + bad == 0, is_nothing, "{:?}", line);
            accepted += of_line;
            rejected += bad;
        }
        prop_assert_eq!(count(&body), (accepted, rejected));
    }

    #[test]
    fn lines_before_and_after_any_input_are_accepted(body in pieces()) {
        let body = format!("first n=1\n{body}\nlast n=2");
        let described = describe(body.as_bytes(), Precision::Nanoseconds);
        prop_assert!(described.starts_with("first_n gauge 1"), "{}", described);
        // A string that starts in the middle may reach to the end of the body, but only if it ends there.
        prop_assert!(described.ends_with("last_n gauge 2"), "{}", described);
    }

    #[test]
    fn written_input_is_read_back(
        measurement in r"[^$#\\,\n\r \x00-\x1f=][^\\,\n\r]{0,20}",
        fields in prop::collection::vec((r"[^\\\n\r]{1,10}", -1e15..1e15f64), 1..5),
        tags in prop::collection::vec((r"[^\\\n\r]{1,10}", r"[^\\\n\r]{1,10}"), 0..5),
        time_ms in any::<i32>(),
    ) {
        let mut line = escaped(&measurement);
        tags.iter().for_each(|(key, value)| line += &format!(",{}={}", escaped(key), escaped(value)));
        let written = fields.iter().map(|(key, value)| format!("{}={value}", escaped(key))).collect::<Vec<_>>();
        line += &format!(" {} {time_ms}", written.join(","));
        let mut read = Vec::new();
        decode(line.as_bytes(), Precision::Milliseconds, |result| {
            let sample = result.expect("the input is valid");
            assert_eq!(sample.ts_ms, Some(i64::from(time_ms)));
            let pairs: Vec<_> = sample.tags.iter().map(|tag| (tag.key.to_string(), tag.value.to_string())).collect();
            assert_eq!(pairs, tags);
            let Measured::Gauge(value) = sample.measured else { panic!("{sample:?}") };
            read.push((sample.name.to_string(), value));
        });
        let named = |field: &str| if field == "value" { measurement.clone() } else { format!("{measurement}_{field}") };
        let expected: Vec<_> = fields.iter().map(|(key, value)| (named(key), *value)).collect();
        prop_assert_eq!(read, expected);
    }
}
