//! Queries in SQL over HTTP: what they read, in which formats, within which limits, and what becomes of their processes
//! and files.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::world::{World, now_ms};

/// A query that computes for hours.
const ENDLESS: &str = "SELECT count(*) FROM range(1000000000000) t(i) WHERE i % 7 = 3";
/// A query whose answer is endless.
const LONG: &str = "SELECT i, repeat('x', 1000) AS x FROM range(1000000000000) t(i)";

fn request(world: &World, path: &str, body: &Value) -> Request {
    Request::new("POST", path).key(&world.secret_key).body(body.to_string())
}

fn ask(world: &World, sql: &str) -> Answer {
    world.send(&request(world, "/v1/sql", &json!({"sql": sql})))
}

/// The rows of a query.
fn rows(world: &World, sql: &str) -> Value {
    let answer = ask(world, sql);
    assert_eq!(answer.status, 200, "{sql}: {}\n{}", answer.text(), world.log_lines());
    answer.json()["rows"].take()
}

/// The process ids of the workers of a server.
fn workers(server: Pid) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").expect("a folder").filter_map(Result::ok);
    let is_worker = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name in parentheses come the state and the parent.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        parent == Some(&server.as_raw_nonzero().to_string())
    };
    processes.filter_map(|process| process.file_name().to_str()?.parse().ok()).filter(is_worker).collect()
}

fn wait_until(world: &World, what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}: {}", world.log_lines());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn temporary_folders(world: &World) -> usize {
    std::fs::read_dir(world.folder().join("sql")).map_or(0, Iterator::count)
}

#[test]
fn answers_have_every_event_that_was_acknowledged_before() {
    let mut world = World::new();
    let mut sent = 0;
    for batch in 0..5 {
        let events: Vec<Value> = (0..200)
            .map(|number| json!({"event": "win", "player": format!("p{number}"), "value": number, "props": {"batch": batch, "weapon": "bow"}}))
            .collect();
        assert_eq!(world.post(json!(events).to_string()).summary(), "200 accepted");
        sent += 200;
        let found = rows(&world, "SELECT count(*), sum(value), count(DISTINCT player) FROM events");
        assert_eq!(found, json!([[sent, f64::from(19_900 * (batch + 1)), 200]]), "after batch {batch}");
    }
    world.restart();
    let by_property = rows(
        &world,
        r#"SELECT "props.batch", count(*) FROM events WHERE "props.weapon" = 'bow' GROUP BY 1 ORDER BY 1"#,
    );
    assert_eq!(by_property, json!([[0.0, 200], [1.0, 200], [2.0, 200], [3.0, 200], [4.0, 200]]));
    world.kill9();
    world.start();
    assert_eq!(rows(&world, "SELECT count(*) FROM players"), json!([[200]]));
    wait_until(&world, "the temporary files are gone", || temporary_folders(&world) == 0);
}

#[test]
fn events_in_files_and_newest_ones_are_one_table() {
    let world = World::new();
    let yesterday = now_ms() - 86_400_000;
    let batch: Vec<Value> = (0..10_000)
        .map(|number| json!({"event": "start", "player": format!("p{number}"), "ts": yesterday}))
        .collect();
    let batch = json!(batch).to_string();
    for _ in 0..27 {
        assert_eq!(world.post(&batch).summary(), "10000 accepted");
    }
    wait_until(&world, "a file is written", || {
        let manifest = std::fs::read_to_string(world.folder().join("archive/1/manifest.json"));
        manifest.is_ok_and(|manifest| manifest.contains("\"rows\""))
    });
    assert_eq!(world.post(r#"{"event":"win","session":"s1"}"#).summary(), "1 accepted");
    let found = rows(&world, "SELECT event, count(*) FROM events GROUP BY event ORDER BY event");
    assert_eq!(found, json!([["start", 270_000], ["win", 1]]));
    assert_eq!(rows(&world, "SELECT session FROM sessions"), json!([["s1"]]));
}

#[test]
fn scores_are_those_of_the_boards() {
    let world = World::new();
    for (player, score) in [("ann", 12.0), ("bo", 30.0), ("ann", 25.0)] {
        let score = json!({"player": player, "score": score, "fields": {"car": "red"}});
        let path = "/v1/boards/race/scores";
        let answer = world.send(&request(&world, path, &score));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let found = rows(
        &world,
        "SELECT board, rank, player, score, subscore, verified, fields->>'car' FROM scores ORDER BY rank",
    );
    assert_eq!(
        found,
        json!([["race", 1, "bo", 30.0, null, true, "red"], ["race", 2, "ann", 25.0, null, true, "red"]])
    );
    assert_eq!(rows(&world, "SELECT count(*) FROM scores WHERE ts > now() - INTERVAL 1 HOUR"), json!([[2]]));
    assert_eq!(rows(&world, "SELECT count(*) FROM query_table('sc' || 'ores')"), json!([[2]]));
}

#[test]
fn other_games_and_files_of_the_server_cannot_be_read() {
    let world = World::new();
    let other = world.command(&["games", "create", "other", "--json"]).json();
    let other_key = other["public_key"].as_str().expect("a key");
    let canary = r#"{"event":"canary-of-other","player":"canary"}"#;
    assert_eq!(world.post_as(other_key, canary).summary(), "1 accepted");
    assert_eq!(world.post(r#"{"event":"own"}"#).summary(), "1 accepted");
    assert_eq!(rows(&world, "SELECT event FROM events"), json!([["own"]]));
    let data = world.folder().canonicalize().expect("a folder").display().to_string();
    for statement in [
        format!("SELECT * FROM read_text('{data}/catalog.json')"),
        format!("SELECT * FROM read_blob('{data}/**')"),
        format!("SELECT * FROM read_parquet('{data}/archive/*/*/*.parquet')"),
        format!("COPY (SELECT 1) TO '{data}/new'"),
        "ATTACH '/tmp/other.db'".to_owned(),
        "SET enable_external_access = true".to_owned(),
        "INSTALL httpfs".to_owned(),
        "SELECT getenv('HOME')".to_owned(),
    ] {
        let answer = ask(&world, &statement);
        assert_eq!(answer.status, 400, "{statement}: {}", answer.text());
        assert_eq!(answer.json()["field"], "sql", "{statement}: {}", answer.text());
    }
    let created = world.command(&["keys", "create", "--game", "other", "--scopes", "sql", "--json"]).json();
    let key = created["secret_key"].as_str().expect("a secret key");
    let body = json!({"sql": "SELECT event FROM events"}).to_string();
    let answer = world.send(&Request::new("POST", "/v1/sql").key(key).body(body));
    assert_eq!(answer.json()["rows"], json!([["canary-of-other"]]), "the scope `sql` is enough");
}

#[test]
fn answers_have_the_format_that_the_url_or_accept_names() {
    let world = World::new();
    assert_eq!(world.post(r#"{"event":"=1+1","value":2}"#).summary(), "1 accepted");
    let sql = json!({"sql": "SELECT event, value FROM events"});
    for (name, accept, kind, text) in [
        (
            "json",
            "application/json",
            "application/json",
            r#"{"columns":[{"name":"event","type":"VARCHAR"},{"name":"value","type":"DOUBLE"}],"rows":[["=1+1",2.0]],"truncated":false}"#,
        ),
        ("ndjson", "application/x-ndjson", "application/x-ndjson", "{\"event\":\"=1+1\",\"value\":2.0}\n"),
        ("csv", "text/csv", "text/csv; charset=utf-8", "event,value\r\n'=1+1,2.0\r\n"),
    ] {
        let by_url = world.send(&request(&world, &format!("/v1/sql?format={name}"), &sql));
        let by_header = world.send(&request(&world, "/v1/sql", &sql).header("Accept", accept));
        for answer in [by_url, by_header] {
            assert_eq!(answer.text(), text);
            assert_eq!(answer.header("content-type"), Some(kind));
        }
    }
    let arrow = world.send(&request(&world, "/v1/sql?format=arrow", &sql));
    assert_eq!(arrow.header("content-type"), Some("application/vnd.apache.arrow.stream"));
    assert_eq!(arrow.body[..4], [0xff; 4], "a message of the streaming format begins with a continuation");
    assert_eq!(
        world.send(&request(&world, "/v1/sql?format=xml", &sql)).summary(),
        "400 invalid_field (format)"
    );
}

#[test]
fn long_answer_is_streamed_and_cut_after_its_rows() {
    let world = World::new();
    let body = json!({"sql": LONG, "rows_max": 2_000});
    let mut connection = world.connect();
    connection.write(&request(&world, "/v1/sql", &body).bytes()).expect("it can be sent");
    let head = connection.answer().expect("an answer");
    assert_eq!((head.status, head.header("transfer-encoding")), (200, Some("chunked")));
    let bytes = connection.chunks().expect("it is complete");
    let answer: Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(answer["rows"].as_array().map(Vec::len), Some(2_000));
    assert_eq!(answer["truncated"], true);
    let exact =
        world.send(&request(&world, "/v1/sql", &json!({"sql": "FROM range(3)", "rows_max": 3}))).json();
    assert_eq!(exact["truncated"], false);
}

#[test]
fn query_ends_at_its_time_and_its_worker_too() {
    let mut world = World::new();
    let pid = world.pid();
    let answer = world.send(&request(&world, "/v1/sql", &json!({"sql": ENDLESS, "timeout_s": 1})));
    assert_eq!(answer.summary(), "503 query_timeout");
    wait_until(&world, "the worker is gone", || workers(pid).is_empty());
    // The client reads nothing, so that the answer cannot be complete in time.
    let body = json!({"sql": LONG, "timeout_s": 10});
    let mut connection = world.connect();
    connection.write(&request(&world, "/v1/sql?format=ndjson", &body).bytes()).expect("it can be sent");
    assert_eq!(connection.answer().expect("an answer").status, 200);
    wait_until(&world, "the worker is gone", || workers(pid).is_empty());
    let whole = connection.chunks();
    assert!(whole.is_err(), "an answer that is not whole does not end like a whole one");
    wait_until(&world, "the temporary files are gone", || temporary_folders(&world) == 0);
}

#[test]
fn client_that_leaves_ends_its_worker() {
    let mut world = World::new();
    world.stop();
    let mut command = world.serve();
    // Long after the test has given up: the worker does not end by its deadline.
    command.env("PLAYMETER_SQL__TIMEOUT_S", "600");
    world.start_as(command);
    let pid = world.pid();
    assert_eq!(world.post(r#"{"event":"win"}"#).summary(), "1 accepted");
    for sql in [ENDLESS, LONG] {
        let mut connection = world.connect();
        let sent = request(&world, "/v1/sql", &json!({"sql": sql}));
        connection.write(&sent.bytes()).expect("it can be sent");
        wait_until(&world, "a worker runs", || !workers(pid).is_empty());
        assert_eq!(temporary_folders(&world), 1);
        drop(connection);
        wait_until(&world, "the worker is gone", || workers(pid).is_empty());
        wait_until(&world, "the temporary files are gone", || temporary_folders(&world) == 0);
    }
}

#[test]
fn workers_and_temporary_files_end_with_a_killed_server() {
    let mut world = World::new();
    let pid = world.pid();
    assert_eq!(world.post(r#"{"event":"win"}"#).summary(), "1 accepted");
    let mut connection = world.connect();
    let sent = request(&world, "/v1/sql", &json!({"sql": ENDLESS}));
    connection.write(&sent.bytes()).expect("it can be sent");
    wait_until(&world, "a worker runs", || !workers(pid).is_empty());
    let worker = workers(pid)[0];
    world.kill9();
    wait_until(&world, "the worker is gone", || !Path::new(&format!("/proc/{worker}")).exists());
    assert_eq!(temporary_folders(&world), 1);
    world.start();
    assert_eq!(temporary_folders(&world), 0);
    assert_eq!(rows(&world, "SELECT count(*) FROM events"), json!([[1]]));
}

#[test]
fn server_without_the_library_names_what_to_do_and_does_everything_else() {
    let mut world = World::new();
    world.stop();
    let mut command = world.serve();
    command.env_remove("PLAYMETER_SQL__LIBRARY");
    world.start_as(command);
    let answer = ask(&world, "SELECT 1");
    assert_eq!(answer.summary(), "501 sql_unavailable");
    let detail = answer.json()["detail"].to_string();
    assert!(detail.contains("libduckdb.so") && detail.contains("sql.library"), "{detail}");
    assert_eq!(world.post(r#"{"event":"win"}"#).summary(), "1 accepted");
    let query = Request::get("/v1/query?metric=win&step=all").key(&world.secret_key);
    assert_eq!(world.send(&query).json()["series"][0]["total"], 1);
}

#[test]
fn wrong_request_names_its_field() {
    let world = World::new();
    for (body, expected) in [
        (json!({}), "400 invalid_field (sql)"),
        (json!({"sql": ""}), "400 invalid_field (sql)"),
        (json!({"sql": 1}), "400 invalid_field (sql)"),
        (json!({"sql": "SELEC 1"}), "400 invalid_field (sql)"),
        (json!({"sql": "SELECT missing FROM events"}), "400 invalid_field (sql)"),
        (json!({"sql": "DELETE FROM events"}), "400 invalid_field (sql)"),
        (json!({"sql": "SELECT 1", "rows_max": 0}), "400 invalid_field (rows_max)"),
        (json!({"sql": "SELECT 1", "rows_max": 1_000_001}), "400 invalid_field (rows_max)"),
        (json!({"sql": "SELECT 1", "timeout_s": 31}), "400 invalid_field (timeout_s)"),
        (json!({"sql": "SELECT 1", "database": "x"}), "400 invalid_field (database)"),
        (json!({"sql": "x".repeat(70_000)}), "413 too_large"),
    ] {
        assert_eq!(world.send(&request(&world, "/v1/sql", &body)).summary(), expected, "{body:.80}");
    }
    let misplaced = ask(&world, "SELECT missing FROM events").json()["detail"].to_string();
    assert!(misplaced.contains("at byte 7"), "{misplaced}");
}

#[test]
fn erased_player_is_in_no_answer_from_the_request_on() {
    let world = World::new();
    let canary = "canary-51c0a7";
    let events = json!([
        {"event": "win", "player": canary, "session": format!("{canary}-s"), "props": {"note": canary}},
        {"event": "win", "player": "bo", "session": "s2"},
    ]);
    assert_eq!(world.post(events.to_string()).summary(), "2 accepted");
    let score = json!({"player": canary, "score": 7});
    assert_eq!(world.send(&request(&world, "/v1/boards/race/scores", &score)).status, 200);
    let tables = ["events", "sessions", "players", "scores"];
    let mentions = |table: &str| rows(&world, &format!("FROM {table}")).to_string().contains(canary);
    assert!(tables.iter().all(|table| mentions(table)), "the search finds the canary before it is erased");
    let erased = world.send(&Request::new("DELETE", format!("/v1/players/{canary}")).key(&world.secret_key));
    assert_eq!(erased.status, 202, "{}", erased.text());
    // At once, while the erasure works, and when it is done.
    let receipt = format!("/v1/erasures/{}", erased.json()["receipt"].as_str().expect("a receipt"));
    let mut is_done = false;
    while !is_done {
        is_done = world.send(&Request::get(&receipt).key(&world.secret_key)).json()["state"] == "done";
        assert!(!tables.iter().any(|table| mentions(table)), "is done: {is_done}");
    }
    assert_eq!(rows(&world, "SELECT player FROM players"), json!([["bo"]]));
}
