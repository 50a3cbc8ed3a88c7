//! What the decoder of CSV takes and refuses, rule by rule, and what holds for every file.

mod support;

use decode::csv::{BadMapping, Field, Mapping, Others, Rows, Target};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use support::line;

/// The rows of a file that comes in chunks of this size, with the lines that they begin in.
fn describe_chunks(file: &[u8], mapping: Mapping, chunk_bytes: usize) -> String {
    let (mut rows, mut said) = (Rows::new(mapping), Vec::new());
    let mut take = |rows: &mut Rows| {
        let events = rows.decoded().events;
        said.extend(rows.lines().zip(&events).map(|(number, event)| format!("{number}: {}", line(event))));
        rows.clear();
    };
    let mut read = || {
        for mut chunk in file.chunks(chunk_bytes) {
            while !chunk.is_empty() {
                chunk = &chunk[rows.read(chunk)?..];
                take(&mut rows);
            }
        }
        rows.finish()?;
        take(&mut rows);
        Ok::<(), BadMapping>(())
    };
    if let Err(bad) = read() {
        return format!("bad mapping: {bad}");
    }
    said.join("\n")
}

#[track_caller]
fn check_mapped(file: impl AsRef<[u8]>, mapping: Mapping, expected: Expect) {
    let said = describe_chunks(file.as_ref(), mapping.clone(), usize::MAX);
    assert_eq!(describe_chunks(file.as_ref(), mapping, 1), said, "byte by byte");
    expected.assert_eq(&said);
}

#[track_caller]
fn check(file: impl AsRef<[u8]>, expected: Expect) {
    check_mapped(file, Mapping::default(), expected);
}

fn target(text: &str) -> Target {
    Target::parse(text).expect("there is one")
}

#[test]
fn columns_go_where_their_names_say_and_the_rest_to_the_properties() {
    check(
        "event,id,ts,player,session,value,country,platform,weapon,props.combo\n\
         hit,0190b6a1-7c2e-7def-8a9b-0123456789ab,1970-01-01T00:00:01Z,bo,7,-1.5e2,de,web,sword,12\n\
         hit,,1500,bo,,,,,,\n",
        expect![[r#"
            2: event=hit id=0190b6a17c2e7def8a9b0123456789ab ts=1000 player=bo session=7 value=-150.0 country=DE platform=web props={"weapon":"sword","combo":12}
            3: event=hit ts=1500 player=bo"#]],
    );
}

#[test]
fn a_mapping_sends_columns_elsewhere() {
    let mapping = Mapping::default()
        .column("Name", target("event"))
        .column("Money spent", target("props.price"))
        .column("secret", target("ignore"))
        .fixed(Field::parse("source").expect("there is one"), "old");
    check_mapped(
        "Name,Money spent,secret,ts\nbuy,1.50,x,0\n",
        mapping.clone(),
        expect![[r#"2: event=buy ts=0 source=old props={"price":1.50}"#]],
    );
    check_mapped(
        "Name;Money spent;secret;more\nbuy;1,50;x;y\n",
        mapping.clone().others(Others::Ignore).delimiter(';').expect("it can be"),
        expect![[r#"2: event=buy source=old props={"price":"1,50"}"#]],
    );
    check_mapped(
        "Name,secret\n",
        mapping,
        expect![[r#"bad mapping: the header has no column "Money spent""#]],
    );
}

#[test]
fn a_file_that_cannot_be_read_with_its_mapping_says_why() {
    check("", expect!["bad mapping: the file has no header"]);
    check("\n\r\n", expect!["bad mapping: the file has no header"]);
    check("\u{feff}", expect!["bad mapping: the file has no header"]);
    check("event,a,a\n", expect![[r#"bad mapping: "a" is there twice"#]]);
    check("event,a,props.a\n", expect![[r#"bad mapping: "props.a" is there twice"#]]);
    check(
        "event,\n",
        expect!["bad mapping: the name of column 2 cannot be a property: 1 to 128 bytes are allowed"],
    );
    check(
        b"event,\xff\n",
        expect!["bad mapping: the header is not UTF-8, too long, or has more than 1024 columns"],
    );
    let many = |count: usize| (0..count).map(|n| format!("c{n}")).collect::<Vec<_>>().join(",");
    check(many(64), expect![""]);
    check(many(65), expect!["bad mapping: more than 64 columns are properties"]);
    check(
        many(1_025),
        expect!["bad mapping: the header is not UTF-8, too long, or has more than 1024 columns"],
    );
    let fixed = Mapping::default().fixed(Field::parse("event").expect("there is one"), "a");
    check_mapped("event\n", fixed, expect![[r#"bad mapping: "event" is there twice"#]]);
    assert_eq!(Target::parse("name"), Err(BadMapping::UnknownTarget("name".into())));
    assert_eq!(Mapping::default().delimiter('"'), Err(BadMapping::Delimiter('"')));
    assert_eq!(Mapping::default().delimiter('é'), Err(BadMapping::Delimiter('é')));
}

#[test]
fn quoted_fields_hold_separators_quotes_and_newlines() {
    check(
        "event,text\r\n\"a,b\",\"say \"\"hi\"\"\"\r\n\"\",\"two\r\nlines\n\"\r\nc,\"\"\r\n",
        expect![[r#"
            2: event=a,b props={"text":"say \"hi\""}
            3: event absent props={"text":"two\u000d\u000alines\u000a"}
            6: event=c"#]],
    );
}

#[test]
fn line_ends_of_any_kind_blank_lines_and_a_byte_order_mark_are_nothing() {
    check(
        "\u{feff}\"event\",a\r\n\r\nx,1\n\n\ny,2",
        expect![[r#"
        3: event=x props={"a":1}
        6: event=y props={"a":2}"#]],
    );
    check(
        b"\xef\xbbevent\nx",
        expect!["bad mapping: the header is not UTF-8, too long, or has more than 1024 columns"],
    );
}

#[test]
fn a_bad_row_is_refused_alone_with_its_line() {
    check(
        b"event,value,ts,a\nx,1,,\nx,1,\n\nx,1,,,\nx,?,,\nx,nan,,\nx,,soon,\nx,,,\xff\n\xc3,\xa9,,\n\"x\ny\",2,,\n",
        expect![[r#"
            2: event=x value=1.0
            3: refused: malformed_line
            5: refused: malformed_line
            6: refused: value_not_a_number
            7: refused: value_not_finite
            8: refused: ts_invalid
            9: refused: not_utf8
            10: refused: not_utf8
            11: event=x
            y value=2.0"#]],
    );
}

#[test]
fn a_row_that_does_not_end_is_refused() {
    check("event,a\nx,\"y\nz,1\n", expect!["2: refused: malformed_line"]);
    check("event,a\nx,\"y", expect!["2: refused: malformed_line"]);
    check("event,a\nx,y", expect![[r#"2: event=x props={"a":"y"}"#]]);
}

#[test]
fn long_rows_texts_and_properties_are_refused_alone() {
    let long = |len: usize| "x".repeat(len);
    let file = |text: &str| format!("event,player,a\nx,,{text}\nlast,,\n");
    let said = |text: &str| describe_chunks(file(text).as_bytes(), Mapping::default(), 1_000);
    assert!(said(&long(1_024)).starts_with("2: event=x props="));
    assert_eq!(said(&long(1_025)), "2: refused: prop_string_too_long\n3: event=last");
    assert_eq!(said(&long(65_535)), "2: refused: prop_string_too_long\n3: event=last");
    assert_eq!(said(&long(65_536)), "2: refused: event_too_large\n3: event=last");
    assert_eq!(said(&long(300_000)), "2: refused: event_too_large\n3: event=last");
    assert_eq!(said(&long(1_000).replace('x', ",")), "2: refused: malformed_line\n3: event=last");
    assert_eq!(said(&long(5_000).replace('x', ",")), "2: refused: malformed_line\n3: event=last");
    check(format!("event,player\nx,{}", long(129)), expect!["2: refused: player_too_long"]);
    let header = (0..64).map(|n| format!(",c{n}")).collect::<String>();
    let row = format!(",{}", "\u{1}".repeat(200)).repeat(64);
    check(format!("event{header}\nx{row}"), expect!["2: refused: event_too_large"]);
}

#[test]
fn a_property_is_a_number_if_json_would_write_it_so() {
    check(
        "a,b,c,d,e,f,g,h,i\n0,-1.5e3,01,1.,true,TRUE,NaN,1e999,1234567890123456\n",
        expect![[
            r#"2: event absent props={"a":0,"b":-1.5e3,"c":"01","d":"1.","e":true,"f":"TRUE","g":"NaN","h":"1e999","i":"1234567890123456"}"#
        ]],
    );
}

#[test]
fn a_batch_is_full_at_ten_thousand_rows_and_the_rest_waits() {
    let file = format!("event\n{}", "x\n".repeat(25_000));
    let mut rows = Rows::new(Mapping::default());
    let (mut rest, mut batches) = (file.as_bytes(), Vec::new());
    while !rest.is_empty() {
        rest = &rest[rows.read(rest).expect("it can be read")..];
        batches.push((rows.lines().next(), rows.decoded().events.len()));
        rows.clear();
    }
    assert_eq!(batches, [(Some(2), 10_000), (Some(10_002), 10_000), (Some(20_002), 5_000)]);
}

/// A field as RFC 4180 writes it.
fn written(text: &str, quoted: bool) -> String {
    let needs_quotes = quoted || text.contains([',', '"', '\r', '\n']);
    if needs_quotes { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
}

const PIECES: &[&str] = &[
    "event", "ts", "a", ",", ",", "\n", "\n", "\r\n", "\r", "\"", "\"\"", "\"x\"", "1", "é", " ", "\u{feff}",
    ";", "\n\n", "x,y\n",
];

fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn random_bytes_never_panic(file: Vec<u8>, chunk in 1..10usize) {
        describe_chunks(&file, Mapping::default(), chunk);
    }

    #[test]
    fn a_restart_forgets_the_file_before(before in pieces(), file in pieces(), ended: bool) {
        let mut rows = Rows::new(Mapping::default());
        let _ = rows.read(before.as_bytes()).and_then(|_| if ended { rows.finish() } else { Ok(()) });
        rows.restart();
        let bad = rows.read(file.as_bytes()).and_then(|_| rows.finish()).err();
        let events = rows.decoded().events;
        let said: Vec<_> = rows.lines().zip(&events).map(|(number, event)| format!("{number}: {}", line(event))).collect();
        let said = bad.map_or(said.join("\n"), |bad| format!("bad mapping: {bad}"));
        prop_assert_eq!(said, describe_chunks(file.as_bytes(), Mapping::default(), usize::MAX));
    }

    #[test]
    fn where_the_chunks_end_never_matters(file in pieces(), header in any::<bool>(), chunk in 1..10usize) {
        let file = if header { format!("event,a\n{file}") } else { file };
        let whole = describe_chunks(file.as_bytes(), Mapping::default(), usize::MAX);
        prop_assert_eq!(describe_chunks(file.as_bytes(), Mapping::default(), chunk), whole);
    }

    #[test]
    fn what_is_written_is_read(
        rows in prop::collection::vec((".{1,12}", "[a-z,\"\r\n\t ]{0,12}", any::<bool>()), 0..8),
        chunk in 1..20usize,
    ) {
        let mut file = "event,text\r\n".to_string();
        for (name, text, quoted) in &rows {
            file += &format!("{},{}\r\n", written(name, *quoted), written(text, *quoted));
        }
        let (mut reader, mut read) = (Rows::new(Mapping::default()), Vec::new());
        for chunk in file.as_bytes().chunks(chunk) {
            prop_assert_eq!(reader.read(chunk), Ok(chunk.len()));
        }
        reader.finish().expect("it can be read");
        for event in reader.decoded().events {
            let event = event.expect("it is right");
            let props: serde_json::Value = serde_json::from_str(event.props.unwrap_or("{}")).expect("props are JSON");
            let text = props["text"].as_str().unwrap_or("").to_string();
            read.push((event.name.expect("it has a name").into_owned(), text));
        }
        let expected: Vec<_> = rows.iter().map(|(name, text, _)| (name.clone(), text.clone())).collect();
        prop_assert_eq!(read, expected);
    }
}
