//! The CSV decoder: accepted and rejected input, and properties of every file.

mod support;

use decode::csv::{CsvReader, Field, Mapping, MappingError, OtherColumns, Target};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use support::line;

/// Describes the rows of a file that arrives in chunks of this size, with their first lines.
fn describe_chunks(file: &[u8], mapping: Mapping, chunk_bytes: usize) -> String {
    let (mut rows, mut described) = (CsvReader::new(mapping), Vec::new());
    let mut take = |rows: &mut CsvReader| {
        let events = rows.decoded().events;
        described
            .extend(rows.lines().zip(&events).map(|(number, event)| format!("{number}: {}", line(event))));
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
        Ok::<(), MappingError>(())
    };
    if let Err(bad) = read() {
        return format!("bad mapping: {bad}");
    }
    described.join("\n")
}

#[track_caller]
fn check_mapped(file: impl AsRef<[u8]>, mapping: Mapping, expected: Expect) {
    let described = describe_chunks(file.as_ref(), mapping.clone(), usize::MAX);
    assert_eq!(describe_chunks(file.as_ref(), mapping, 1), described, "byte by byte");
    expected.assert_eq(&described);
}

#[track_caller]
fn check(file: impl AsRef<[u8]>, expected: Expect) {
    check_mapped(file, Mapping::default(), expected);
}

fn target(text: &str) -> Target {
    Target::parse(text).expect("the name is valid")
}

#[test]
fn columns_map_to_fields_by_name_and_the_rest_to_properties() {
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
fn mapping_overrides_the_targets_of_columns() {
    let mapping = Mapping::default()
        .column("Name", target("event"))
        .column("Money spent", target("props.price"))
        .column("secret", target("ignore"))
        .fixed(Field::parse("source").expect("the name is valid"), "old");
    check_mapped(
        "Name,Money spent,secret,ts\nbuy,1.50,x,0\n",
        mapping.clone(),
        expect![[r#"2: event=buy ts=0 source=old props={"price":1.50}"#]],
    );
    check_mapped(
        "Name;Money spent;secret;more\nbuy;1,50;x;y\n",
        mapping.clone().others(OtherColumns::Ignore).delimiter(';').expect("the delimiter is valid"),
        expect![[r#"2: event=buy source=old props={"price":"1,50"}"#]],
    );
    check_mapped(
        "Name,secret\n",
        mapping,
        expect![[r#"bad mapping: the header has no column "Money spent""#]],
    );
}

#[test]
fn unusable_mapping_reports_the_reason() {
    check("", expect!["bad mapping: the file has no header"]);
    check("\n\r\n", expect!["bad mapping: the file has no header"]);
    check("\u{feff}", expect!["bad mapping: the file has no header"]);
    check(
        "event,a,a\n",
        expect![[r#"bad mapping: column "a" has the same target as another column or a fixed value"#]],
    );
    check(
        "event,a,props.a\n",
        expect![[r#"bad mapping: column "props.a" has the same target as another column or a fixed value"#]],
    );
    check(
        "event,\n",
        expect!["bad mapping: the name of column 2 cannot be a property: it must have 1 to 128 bytes"],
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
    let fixed = Mapping::default().fixed(Field::parse("event").expect("the name is valid"), "a");
    check_mapped(
        "event\n",
        fixed,
        expect![[r#"bad mapping: column "event" has the same target as another column or a fixed value"#]],
    );
    assert_eq!(Target::parse("name"), Err(MappingError::UnknownTarget("name".into())));
    assert_eq!(Mapping::default().delimiter('"'), Err(MappingError::Delimiter('"')));
    assert_eq!(Mapping::default().delimiter('é'), Err(MappingError::Delimiter('é')));
}

#[test]
fn quoted_fields_may_contain_separators_quotes_and_newlines() {
    check(
        "event,text\r\n\"a,b\",\"say \"\"hi\"\"\"\r\n\"\",\"two\r\nlines\n\"\r\nc,\"\"\r\n",
        expect![[r#"
            2: event=a,b props={"text":"say \"hi\""}
            3: event absent props={"text":"two\u000d\u000alines\u000a"}
            6: event=c"#]],
    );
}

#[test]
fn line_endings_blank_lines_and_byte_order_mark_are_ignored() {
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
fn invalid_row_is_rejected_alone_with_its_line_number() {
    check(
        b"event,value,ts,a\nx,1,,\nx,1,\n\nx,1,,,\nx,?,,\nx,nan,,\nx,,soon,\nx,,,\xff\n\xc3,\xa9,,\n\"x\ny\",2,,\n",
        expect![[r#"
            2: event=x value=1.0
            3: rejected: malformed_line
            5: rejected: malformed_line
            6: rejected: value_not_a_number
            7: rejected: value_not_finite
            8: rejected: ts_invalid
            9: rejected: not_utf8
            10: rejected: not_utf8
            11: event=x
            y value=2.0"#]],
    );
}

#[test]
fn unterminated_row_is_rejected() {
    check("event,a\nx,\"y\nz,1\n", expect!["2: rejected: malformed_line"]);
    check("event,a\nx,\"y", expect!["2: rejected: malformed_line"]);
    check("event,a\nx,y", expect![[r#"2: event=x props={"a":"y"}"#]]);
}

#[test]
fn oversized_rows_texts_and_properties_are_rejected_alone() {
    let long = |len: usize| "x".repeat(len);
    let file = |text: &str| format!("event,player,a\nx,,{text}\nlast,,\n");
    let described = |text: &str| describe_chunks(file(text).as_bytes(), Mapping::default(), 1_000);
    assert!(described(&long(1_024)).starts_with("2: event=x props="));
    assert_eq!(described(&long(1_025)), "2: rejected: prop_string_too_long\n3: event=last");
    assert_eq!(described(&long(65_535)), "2: rejected: prop_string_too_long\n3: event=last");
    assert_eq!(described(&long(65_536)), "2: rejected: event_too_large\n3: event=last");
    assert_eq!(described(&long(300_000)), "2: rejected: event_too_large\n3: event=last");
    assert_eq!(described(&long(1_000).replace('x', ",")), "2: rejected: malformed_line\n3: event=last");
    assert_eq!(described(&long(5_000).replace('x', ",")), "2: rejected: malformed_line\n3: event=last");
    check(format!("event,player\nx,{}", long(129)), expect!["2: rejected: player_too_long"]);
    let header = (0..64).map(|n| format!(",c{n}")).collect::<String>();
    let row = format!(",{}", "\u{1}".repeat(200)).repeat(64);
    check(format!("event{header}\nx{row}"), expect!["2: rejected: event_too_large"]);
}

#[test]
fn property_is_a_number_if_it_is_a_json_number() {
    check(
        "a,b,c,d,e,f,g,h,i\n0,-1.5e3,01,1.,true,TRUE,NaN,1e999,1234567890123456\n",
        expect![[
            r#"2: event absent props={"a":0,"b":-1.5e3,"c":"01","d":"1.","e":true,"f":"TRUE","g":"NaN","h":"1e999","i":"1234567890123456"}"#
        ]],
    );
}

#[test]
fn batch_is_full_at_ten_thousand_rows() {
    let file = format!("event\n{}", "x\n".repeat(25_000));
    let mut rows = CsvReader::new(Mapping::default());
    let (mut rest, mut batches) = (file.as_bytes(), Vec::new());
    while !rest.is_empty() {
        rest = &rest[rows.read(rest).expect("the file can be read")..];
        batches.push((rows.lines().next(), rows.decoded().events.len()));
        rows.clear();
    }
    assert_eq!(batches, [(Some(2), 10_000), (Some(10_002), 10_000), (Some(20_002), 5_000)]);
}

/// Writes a field as in RFC 4180.
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
    fn restart_discards_the_previous_file(before in pieces(), file in pieces(), ended: bool) {
        let mut rows = CsvReader::new(Mapping::default());
        let _ = rows.read(before.as_bytes()).and_then(|_| if ended { rows.finish() } else { Ok(()) });
        rows.restart();
        let bad = rows.read(file.as_bytes()).and_then(|_| rows.finish()).err();
        let events = rows.decoded().events;
        let described: Vec<_> = rows.lines().zip(&events).map(|(number, event)| format!("{number}: {}", line(event))).collect();
        let described = bad.map_or(described.join("\n"), |bad| format!("bad mapping: {bad}"));
        prop_assert_eq!(described, describe_chunks(file.as_bytes(), Mapping::default(), usize::MAX));
    }

    #[test]
    fn division_into_chunks_does_not_matter(file in pieces(), header in any::<bool>(), chunk in 1..10usize) {
        let file = if header { format!("event,a\n{file}") } else { file };
        let whole = describe_chunks(file.as_bytes(), Mapping::default(), usize::MAX);
        prop_assert_eq!(describe_chunks(file.as_bytes(), Mapping::default(), chunk), whole);
    }

    #[test]
    fn written_input_is_read_back(
        rows in prop::collection::vec((".{1,12}", "[a-z,\"\r\n\t ]{0,12}", any::<bool>()), 0..8),
        chunk in 1..20usize,
    ) {
        let mut file = "event,text\r\n".to_string();
        for (name, text, quoted) in &rows {
            file += &format!("{},{}\r\n", written(name, *quoted), written(text, *quoted));
        }
        let (mut reader, mut read) = (CsvReader::new(Mapping::default()), Vec::new());
        for chunk in file.as_bytes().chunks(chunk) {
            prop_assert_eq!(reader.read(chunk), Ok(chunk.len()));
        }
        reader.finish().expect("the file can be read");
        for event in reader.decoded().events {
            let event = event.expect("the input is valid");
            let props: serde_json::Value = serde_json::from_str(event.props.unwrap_or("{}")).expect("props are JSON");
            let text = props["text"].as_str().unwrap_or("").to_string();
            read.push((event.name.expect("the event has a name").into_owned(), text));
        }
        let expected: Vec<_> = rows.iter().map(|(name, text, _)| (name.clone(), text.clone())).collect();
        prop_assert_eq!(read, expected);
    }
}
