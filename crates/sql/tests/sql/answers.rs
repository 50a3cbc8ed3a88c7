//! What queries answer, in each format.

use serde_json::{Value, json};
use sql::{FileFormat, SqlError, SqlFormat, SqlQuery, TableFile};

use crate::support::{World, query};

#[test]
fn json_has_columns_and_rows() {
    let world = World::with_events();
    let answer = world.ask(query("SELECT event, count(*) AS n FROM events GROUP BY event ORDER BY event"));
    assert_eq!(
        answer.expect("an answer").text(),
        r#"{"columns":[{"name":"event","type":"VARCHAR"},{"name":"n","type":"BIGINT"}],"rows":[["start",2],["win",1]],"truncated":false}"#
    );
}

#[test]
fn events_have_the_columns_of_all_files() {
    let world = World::with_events();
    let columns: Vec<Value> =
        world.rows("DESCRIBE events").as_array().expect("rows").iter().map(|row| row[0].clone()).collect();
    assert_eq!(
        columns,
        [
            "ts",
            "ts_utc",
            "event",
            "id",
            "player",
            "session",
            "value",
            "country",
            "platform",
            "version",
            "source",
            "level",
            "props.lives",
            "props.mode",
            "props",
            "received"
        ]
    );
    assert_eq!(
        world.rows(r#"SELECT id, "props.lives", "props.mode", props FROM events ORDER BY id"#),
        json!([["e1", 3, null, null], ["e2", 2, null, "{\"weapon\":\"bow\"}"], ["e3", null, "hard", null]])
    );
}

#[test]
fn events_that_are_not_in_the_archive_yet_are_in_the_answer() {
    let mut world = World::with_events();
    world.ndjson(
        "tail.ndjson",
        "{\"ts\":\"2026-11-02T12:00:00.5Z\",\"event\":\"start\",\"player\":\"cy\",\"id\":\"e4\",\
         \"props\":{\"lives\":7,\"mode\":\"easy\",\"x\":{\"y\":1}}}\n\
         {\"ts\":\"2026-11-02T12:00:01Z\",\"event\":\"start\",\"id\":\"e5\",\"props\":{\"lives\":\"many\"}}\n\
         {\"ts\":\"2026-11-02T12:00:02Z\",\"event\":\"start\",\"id\":\"e6\"}\n",
    );
    assert_eq!(
        world.rows(
            r#"SELECT id, ts, player, "props.lives", "props.mode", props FROM events WHERE id > 'e3' ORDER BY id"#
        ),
        json!([
            ["e4", "2026-11-02T12:00:00.5Z", "cy", 7, "easy", "{\"x\":{\"y\":1}}"],
            ["e5", "2026-11-02T12:00:01Z", null, null, null, null],
            ["e6", "2026-11-02T12:00:02Z", null, null, null, null]
        ])
    );
    assert_eq!(world.rows("SELECT count(*) FROM events"), json!([[6]]));
}

#[test]
fn events_of_the_tail_alone_keep_their_properties() {
    let mut world = World::new();
    world.ndjson(
        "tail.ndjson",
        "{\"ts\":\"2026-11-02T12:00:00Z\",\"event\":\"start\",\"props\":{\"lives\":7}}\n",
    );
    assert_eq!(world.rows("SELECT event, props->>'lives' FROM events"), json!([["start", "7"]]));
}

#[test]
fn hidden_players_are_in_no_table() {
    let mut world = World::new();
    world.parquet(
        "0-100.parquet",
        "SELECT TIMESTAMPTZ '2026-11-01 10:00:00+00' AS ts, player, player AS session, player_hash FROM \
         (VALUES ('ann', 7::UBIGINT), ('bo', 18446744073709551615::UBIGINT), ('cy', 9::UBIGINT), (NULL, NULL)) \
         t(player, player_hash)",
    );
    world.tables.hidden_players = vec![7, u64::MAX];
    assert_eq!(world.rows("SELECT player FROM events ORDER BY player"), json!([["cy"], [null]]));
    assert_eq!(world.rows("SELECT player FROM players"), json!([["cy"]]));
    assert_eq!(world.rows("SELECT session FROM sessions"), json!([["cy"]]));
}

#[test]
fn sessions_and_players_are_derived_from_events() {
    let world = World::with_events();
    assert_eq!(
        world.rows("SELECT * FROM sessions ORDER BY session"),
        json!([
            [
                "s1",
                "ann",
                "2026-11-01T10:00:00.123Z",
                "2026-11-01T10:05:00Z",
                299.877,
                2,
                "FR",
                "web",
                "1.0",
                null
            ],
            ["s2", "bo", "2026-11-02T00:00:00Z", "2026-11-02T00:00:00Z", 0.0, 1, "DE", "ios", "1.1", "ad"]
        ])
    );
    assert_eq!(
        world.rows("SELECT * FROM players ORDER BY player"),
        json!([
            ["ann", "2026-11-01T10:00:00.123Z", "2026-11-01T10:05:00Z", 2, 1, "FR", "web", "1.0"],
            ["bo", "2026-11-02T00:00:00Z", "2026-11-02T00:00:00Z", 1, 1, "DE", "ios", "1.1"]
        ])
    );
}

#[test]
fn files_of_the_server_replace_derived_tables() {
    let mut world = World::with_events();
    let path = world.path("players.ndjson");
    std::fs::write(&path, "{\"player\":\"zoe\",\"events\":3}\n").expect("the file is written");
    world.tables.players.push(TableFile { path, format: FileFormat::Ndjson });
    let path =
        world.write("scores.parquet", "SELECT 'highscores' AS board, 'zoe' AS player, 12.5::DOUBLE AS score");
    world.tables.scores.push(TableFile { path, format: FileFormat::Parquet });
    assert_eq!(world.rows("SELECT player, events, country FROM players"), json!([["zoe", 3, null]]));
    assert_eq!(
        world.rows("SELECT board, player, score, name FROM scores"),
        json!([["highscores", "zoe", 12.5, null]])
    );
    assert_eq!(world.rows("SELECT player FROM events JOIN scores USING (player)"), json!([]));
}

#[test]
fn a_game_without_events_has_empty_tables() {
    let world = World::new();
    for table in ["events", "sessions", "players", "scores"] {
        assert_eq!(world.rows(&format!("SELECT * FROM {table}")), json!([]), "{table}");
    }
    assert_eq!(world.rows("SELECT count(ts), sum(value) FROM events"), json!([[0, null]]));
}

#[test]
fn properties_of_different_types_become_one_column() {
    let mut world = World::new();
    let file = |price: &str| {
        format!(
            "SELECT TIMESTAMPTZ '2026-11-01 10:00:00+00' AS ts, 'buy' AS event, {price} AS \"props.price\""
        )
    };
    world.parquet("a.parquet", &file("3::BIGINT"));
    world.parquet("b.parquet", &file("'free'"));
    world.parquet("c.parquet", &file("true"));
    assert_eq!(
        world.rows("SELECT \"props.price\" FROM events ORDER BY 1"),
        json!([["3"], ["free"], ["true"]])
    );
}

#[test]
fn times_of_files_without_a_zone_are_utc() {
    let mut world = World::new();
    world.parquet("a.parquet", "SELECT TIMESTAMP '2026-11-01 10:00:00' AS ts, 'buy' AS event");
    assert_eq!(
        world.rows("SELECT ts, ts_utc, ts AT TIME ZONE 'Asia/Kolkata' FROM events"),
        json!([["2026-11-01T10:00:00Z", "2026-11-01T10:00:00", "2026-11-01T15:30:00"]])
    );
}

/// Checks the JSON of expressions, each with its type.
fn check_types(expressions: &[(&str, &str, Value)]) {
    let list: Vec<&str> = expressions.iter().map(|(expression, ..)| *expression).collect();
    let answer = World::new().ask(query(&format!("SELECT {}", list.join(", ")))).expect("an answer").json();
    for (index, (expression, sql_type, value)) in expressions.iter().enumerate() {
        assert_eq!(answer["columns"][index]["type"], *sql_type, "{expression}");
        assert_eq!(answer["rows"][0][index], *value, "{expression}");
    }
}

#[test]
fn numbers_keep_every_digit() {
    check_types(&[
        ("true", "BOOLEAN", json!(true)),
        ("(-128)::TINYINT", "TINYINT", json!(-128)),
        ("255::UTINYINT", "UTINYINT", json!(255)),
        ("(-32768)::SMALLINT", "SMALLINT", json!(-32768)),
        ("65535::USMALLINT", "USMALLINT", json!(65535)),
        ("(-2147483648)::INTEGER", "INTEGER", json!(-2147483648i64)),
        ("4294967295::UINTEGER", "UINTEGER", json!(4294967295u32)),
        ("9007199254740992::BIGINT", "BIGINT", json!(9007199254740992i64)),
        // Above 2^53 a reader in JavaScript would round.
        ("9007199254740993::BIGINT", "BIGINT", json!("9007199254740993")),
        ("(-9223372036854775808)::BIGINT", "BIGINT", json!("-9223372036854775808")),
        ("18446744073709551615::UBIGINT", "UBIGINT", json!("18446744073709551615")),
        ("7::HUGEINT", "HUGEINT", json!(7)),
        (
            "(-170141183460469231731687303715884105727)::HUGEINT",
            "HUGEINT",
            json!("-170141183460469231731687303715884105727"),
        ),
        (
            "340282366920938463463374607431768211455::UHUGEINT",
            "UHUGEINT",
            json!("340282366920938463463374607431768211455"),
        ),
        (
            "'123456789012345678901234567890123456789012345'::BIGNUM",
            "BIGNUM",
            json!("123456789012345678901234567890123456789012345"),
        ),
        ("'-1000000000000000000000'::BIGNUM", "BIGNUM", json!("-1000000000000000000000")),
        ("'0'::BIGNUM", "BIGNUM", json!("0")),
        ("1.5::FLOAT", "FLOAT", json!(1.5)),
        ("0.1::DOUBLE", "DOUBLE", json!(0.1)),
        ("'nan'::DOUBLE", "DOUBLE", json!(null)),
        ("'-inf'::FLOAT", "FLOAT", json!(null)),
        ("1.50", "DECIMAL(3,2)", json!(1.50)),
        ("-0.05::DECIMAL(4,2)", "DECIMAL(4,2)", json!(-0.05)),
        ("'1234567890123456789.01'::DECIMAL(38,2)", "DECIMAL(38,2)", json!("1234567890123456789.01")),
        ("12::DECIMAL(18,0)", "DECIMAL(18,0)", json!(12)),
        ("NULL", "INTEGER", json!(null)),
    ]);
}

#[test]
fn times_are_rfc_3339() {
    check_types(&[
        ("DATE '2026-02-28'", "DATE", json!("2026-02-28")),
        ("DATE '1969-12-31'", "DATE", json!("1969-12-31")),
        ("DATE '0001-01-01 (BC)'", "DATE", json!("0000-01-01")),
        ("DATE '12026-01-01'", "DATE", json!("+12026-01-01")),
        ("'infinity'::DATE", "DATE", json!("infinity")),
        ("TIME '01:02:03.004'", "TIME", json!("01:02:03.004")),
        ("TIMETZ '01:02:03+05:30'", "TIME WITH TIME ZONE", json!("01:02:03+05:30")),
        ("TIMETZ '01:02:03-08:00'", "TIME WITH TIME ZONE", json!("01:02:03-08:00")),
        ("TIMESTAMP '2026-11-22 23:59:59.000001'", "TIMESTAMP", json!("2026-11-22T23:59:59.000001")),
        ("TIMESTAMP '1969-12-31 23:59:59'", "TIMESTAMP", json!("1969-12-31T23:59:59")),
        ("TIMESTAMP_S '2026-11-22 23:59:59'", "TIMESTAMP_S", json!("2026-11-22T23:59:59")),
        ("TIMESTAMP_MS '2026-11-22 23:59:59.5'", "TIMESTAMP_MS", json!("2026-11-22T23:59:59.5")),
        (
            "TIMESTAMP_NS '2026-11-22 23:59:59.000000001'",
            "TIMESTAMP_NS",
            json!("2026-11-22T23:59:59.000000001"),
        ),
        ("TIMESTAMPTZ '2026-11-22 12:00:00+02'", "TIMESTAMP WITH TIME ZONE", json!("2026-11-22T10:00:00Z")),
        ("'-infinity'::TIMESTAMP", "TIMESTAMP", json!("-infinity")),
        ("INTERVAL '14 months 3 days'", "INTERVAL", json!("P1Y2M3D")),
        ("INTERVAL '90.5 seconds'", "INTERVAL", json!("PT1M30.5S")),
        ("INTERVAL '-1 hour'", "INTERVAL", json!("PT-1H")),
        ("INTERVAL '0 days'", "INTERVAL", json!("PT0S")),
    ]);
}

#[test]
fn other_types_have_a_form_in_json() {
    check_types(&[
        ("'a\"\\\n\t\u{1}é'", "VARCHAR", json!("a\"\\\n\t\u{1}é")),
        ("'a longer text than twelve bytes'", "VARCHAR", json!("a longer text than twelve bytes")),
        ("'{\"a\": [1,\n 2]}'::JSON", "JSON", json!({"a": [1, 2]})),
        ("'\\xAA\\x00'::BLOB", "BLOB", json!("qgA=")),
        ("'0101'::BIT", "BIT", json!("0101")),
        (
            "'550e8400-e29b-41d4-a716-446655440000'::UUID",
            "UUID",
            json!("550e8400-e29b-41d4-a716-446655440000"),
        ),
        ("'b'::ENUM('a', 'b')", "ENUM", json!("b")),
        ("[1, NULL, 3]", "INTEGER[]", json!([1, null, 3])),
        ("[[1], [], NULL]", "INTEGER[][]", json!([[1], [], null])),
        ("[1, 2]::INTEGER[2]", "INTEGER[2]", json!([1, 2])),
        (
            "{'a': 1, 'b c': [DATE '2026-01-01']}",
            "STRUCT(\"a\" INTEGER, \"b c\" DATE[])",
            json!({"a": 1, "b c": ["2026-01-01"]}),
        ),
        ("MAP {'x': 1, 'y': NULL}", "MAP(VARCHAR, INTEGER)", json!({"x": 1, "y": null})),
        ("MAP {1: 'x'}", "MAP(INTEGER, VARCHAR)", json!([[1, "x"]])),
        ("union_value(n := 2)", "UNION(\"n\" INTEGER)", json!({"n": 2})),
        ("row_to_json({'a': 1})", "JSON", json!({"a": 1})),
    ]);
}

#[test]
fn nested_values_of_many_rows_are_read_from_the_right_place() {
    let rows = World::new().rows(
        "SELECT i, CASE WHEN i % 3 = 0 THEN NULL ELSE [i, i + 1] END, {'a': i, 'b': 'text ' || i}, MAP {'k' || i: [i]}, \
         [i, i * 2]::BIGINT[2] FROM range(5000) t(i) ORDER BY i",
    );
    for (i, row) in rows.as_array().expect("rows").iter().enumerate() {
        let list = if i % 3 == 0 { json!(null) } else { json!([i, i + 1]) };
        assert_eq!(
            *row,
            json!([i, list, {"a": i, "b": format!("text {i}")}, {format!("k{i}"): [i]}, [i, i * 2]])
        );
    }
    assert_eq!(rows.as_array().map(Vec::len), Some(5000));
}

#[test]
fn ndjson_has_an_object_per_line() {
    let world = World::with_events();
    let sql = "SELECT event, value, 1 AS event, 2 AS event_2 FROM events ORDER BY id LIMIT 2";
    let answer = world.ask(SqlQuery { format: SqlFormat::Ndjson, ..query(sql) }).expect("an answer");
    assert_eq!(
        answer.text(),
        "{\"event\":\"start\",\"value\":null,\"event_3\":1,\"event_2\":2}\n\
         {\"event\":\"win\",\"value\":12.5,\"event_3\":1,\"event_2\":2}\n"
    );
}

#[test]
fn csv_neutralises_formulas() {
    let world = World::new();
    let sql = "SELECT '=1+1' AS \"=a\", '-5' AS b, -5 AS c, 'x,\"y\"' AS d, NULL AS e, [1, 2] AS f, 'nan'::DOUBLE AS g, \
               DATE '2026-01-01' AS h, '@SUM(A1)'::ENUM('@SUM(A1)') AS i, MAP {'=1': '=2'} AS j";
    let answer = world.ask(SqlQuery { format: SqlFormat::Csv, ..query(sql) }).expect("an answer");
    assert_eq!(
        answer.text(),
        "'=a,b,c,d,e,f,g,h,i,j\r\n\
         '=1+1,-5,-5,\"x,\"\"y\"\"\",,\"[1,2]\",,2026-01-01,'@SUM(A1),\"{\"\"=1\"\":\"\"=2\"\"}\"\r\n"
    );
}

#[test]
fn rows_above_the_limit_are_cut_and_the_answer_says_so() {
    let world = World::new();
    let ask = |rows: u64, rows_max: u64, format| {
        let sql = format!("SELECT i FROM range({rows}) t(i)");
        world.ask(SqlQuery { rows_max, format, ..query(&sql) }).expect("an answer").summary
    };
    for format in [SqlFormat::Json, SqlFormat::Ndjson, SqlFormat::Csv, SqlFormat::Arrow] {
        for (rows, rows_max, expected, truncated) in [
            (10, 10, 10, false),
            (10, 9, 9, true),
            (10_000, 4096, 4096, true),
            (0, 5, 0, false),
            (3, 0, 0, true),
        ] {
            let summary = ask(rows, rows_max, format);
            assert_eq!(
                (summary.rows, summary.truncated),
                (expected, truncated),
                "{rows} {rows_max} {format:?}"
            );
        }
    }
}

#[test]
fn bytes_above_the_limit_are_cut_at_a_row() {
    let mut world = World::new();
    world.settings.bytes_max = 100_000;
    let sql = "SELECT repeat('x', 1000) AS x FROM range(100000)";
    let answer = world.ask(SqlQuery { rows_max: 1_000_000, ..query(sql) }).expect("an answer");
    assert!(answer.summary.truncated && answer.bytes.len() < 200_000, "{} bytes", answer.bytes.len());
    let json = answer.json();
    assert_eq!(json["truncated"], true);
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(answer.summary.rows as usize));
}

#[test]
fn a_mistake_is_named_with_its_position() {
    let world = World::with_events();
    let check = |sql: &str, expected: &str, at: Option<usize>| match world.error(sql) {
        SqlError::Statement { message, position } => {
            assert!(message.contains(expected), "{sql}: {message}");
            assert_eq!(position, at, "{sql}: {message}");
        }
        other => panic!("{sql}: {other:?}"),
    };
    check("SELECT event FRM events", "syntax error", Some(17));
    check("SELECT foo FROM events", "\"foo\" not found", Some(7));
    check("SELECT 'é', foo FROM events", "\"foo\" not found", Some(13));
    check("SELECT * FROM event", "event does not exist", Some(14));
    check("SELECT props.mode FROM events", "Columns of properties are written with double quotes", None);
    check("SELECT 'x'::INTEGER", "Could not convert", Some(10));
    check("", "there is no statement", None);
    check("SELECT 1\0", "zero byte", Some(8));
    check("SELECT 1::VARIANT", "VARIANT", None);
}

#[test]
fn only_one_statement_that_reads_is_allowed() {
    let world = World::with_events();
    for sql in [
        "SELECT 1",
        "  /* why */ SELECT 1; ",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "FROM events",
        "VALUES (1)",
        "DESCRIBE events",
        "SHOW TABLES",
        "SUMMARIZE events",
        "EXPLAIN SELECT 1",
        "EXPLAIN ANALYZE SELECT count(*) FROM events",
        "EXPLAIN (FORMAT json) SELECT 1",
        "-- one\nEXPLAIN (SELECT 1)",
        "PIVOT events ON event IN ('start', 'win') USING count(*)",
    ] {
        let answer = world.ask(query(sql));
        assert!(answer.is_ok(), "{sql}: {answer:?}");
    }
    for sql in [
        "SELECT 1; SELECT 2",
        "CREATE TABLE t AS SELECT 1",
        "CREATE VIEW v AS SELECT 1",
        "CREATE MACRO m() AS 1",
        "INSERT INTO events VALUES (1)",
        "DROP VIEW events",
        "SET memory_limit = '8GB'",
        "RESET lock_configuration",
        "PRAGMA memory_limit = '8GB'",
        "COPY (SELECT 1) TO '/tmp/x'",
        "ATTACH '/tmp/x' AS x",
        "LOAD httpfs",
        "INSTALL httpfs",
        "BEGIN",
        "PREPARE p AS SELECT 1",
        "CALL range(3)",
        "EXPLAIN CREATE TABLE t AS SELECT 1",
        "EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/x'",
        "EXPLAIN (FORMAT json, ANALYZE) INSERT INTO events VALUES (1)",
        "SELECT $1",
    ] {
        let error = world.error(sql);
        let is_refused = matches!(error, SqlError::NotAllowed(_) | SqlError::Statement { .. });
        assert!(is_refused, "{sql}: {error:?}");
    }
}
