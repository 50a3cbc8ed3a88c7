//! How workers start, end and fail.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use sql::protocol::{QUERY, Query, SETUP, Setup, write_frame};
use sql::{FileFormat, Isolation, SqlAnswer, SqlError, SqlFormat, SqlQuery, SqlWorkers, TableFile, Tables};

use crate::support::{self, World, query, runtime, settings, whole};

/// A query that computes for hours.
const ENDLESS: &str = "SELECT count(*) FROM range(1000000000000) t(i) WHERE i % 7 = 3";
/// A query whose answer is endless.
const LONG: &str = "SELECT i, repeat('x', 1000) AS x FROM range(1000000000000) t(i)";

impl World {
    /// Replaces the worker by a script.
    fn with_script(mut self, script: &str) -> World {
        let path = self.path("worker.sh");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a program");
        self.settings.worker = path;
        self
    }

    fn with_timeout(mut self, ms: u64) -> World {
        self.settings.timeout_max = Duration::from_millis(ms);
        self
    }
}

/// A query whose rows have no end.
fn long() -> SqlQuery {
    SqlQuery { format: SqlFormat::Ndjson, rows_max: u64::MAX, ..query(LONG) }
}

async fn start(workers: &SqlWorkers, game: &str, query: SqlQuery) -> Result<SqlAnswer, SqlError> {
    support::start(workers, game, Tables::default(), query).await
}

/// Waits until a process is gone.
async fn wait_until_gone(pid: u32) {
    while PathBuf::from(format!("/proc/{pid}")).exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn query_that_takes_too_long_is_interrupted() {
    let world = World::new().with_timeout(300);
    assert!(matches!(world.error(ENDLESS), SqlError::Timeout { ms: 300 }));
}

#[test]
fn worker_that_does_not_obey_is_killed() {
    let world = World::new().with_script("exec /bin/sleep 1000").with_timeout(100);
    runtime().block_on(async {
        let error = start(&world.workers(), "letters", query("SELECT 1")).await.err();
        assert!(matches!(error, Some(SqlError::Timeout { ms: 100 })), "{error:?}");
    });
}

#[test]
fn worker_is_killed_when_its_answer_is_dropped() {
    runtime().block_on(async {
        let workers = SqlWorkers::new(settings());
        let answer = start(&workers, "letters", long()).await.expect("an answer");
        let pid = answer.worker_pid();
        drop(answer);
        wait_until_gone(pid).await;
        // Its place is free again.
        whole(start(&workers, "letters", query("SELECT 1")).await.expect("an answer")).await.expect("an end");
    });
}

#[test]
fn cancelled_query_ends() {
    runtime().block_on(async {
        let workers = SqlWorkers::new(settings());
        let answer = start(&workers, "letters", long()).await.expect("an answer");
        let pid = answer.worker_pid();
        answer.cancel().await;
        wait_until_gone(pid).await;
    });
}

#[test]
fn answer_that_is_not_read_ends_at_the_deadline() {
    runtime().block_on(async {
        let workers = SqlWorkers::new(settings());
        let timeout = Duration::from_millis(500);
        let mut answer = start(&workers, "letters", SqlQuery { timeout, ..long() }).await.expect("an answer");
        wait_until_gone(answer.worker_pid()).await;
        let error = loop {
            match answer.next().await {
                Ok(piece) => assert!(piece.is_some(), "the answer ends as if it were whole"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, SqlError::Timeout { ms: 500 }), "{error:?}");
    });
}

#[test]
fn worker_ends_with_the_server() {
    let settings = settings();
    let mut worker = Command::new(&settings.worker)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a worker");
    let mut input = worker.stdin.take().expect("a pipe");
    let setup = Setup {
        library: settings.library,
        tables: Tables::default(),
        isolation: Isolation::Required,
        memory_bytes: 64 << 20,
        threads: 1,
        cpu_seconds: 600,
    };
    let query = Query {
        sql: ENDLESS.to_owned(),
        format: SqlFormat::Json,
        rows_max: 1,
        bytes_max: 1,
        timeout_ms: 600_000,
    };
    write_frame(&mut input, SETUP, &serde_json::to_vec(&setup).expect("JSON")).expect("it is read");
    write_frame(&mut input, QUERY, &serde_json::to_vec(&query).expect("JSON")).expect("it is read");
    input.flush().expect("it is read");
    drop(input);
    assert!(worker.wait().expect("it ends").success());
}

#[test]
fn memory_is_limited() {
    let mut world = World::new();
    world.settings.memory_bytes = 64 << 20;
    for sql in [
        "SELECT i % 100000000 AS k, count(*) FROM range(100000000) t(i) GROUP BY k ORDER BY k",
        "SELECT list(i) FROM range(1000000000) t(i)",
        "SELECT length(string_agg(repeat('x', 100000), '')) FROM range(1000000)",
        // DuckDB does not count the memory of this text.
        "SELECT repeat('x', 2000000000)",
    ] {
        let error = world.error(sql);
        assert!(matches!(error, SqlError::Memory { bytes: 67_108_864 }), "{sql}: {error:?}");
    }
}

#[test]
fn memory_that_a_query_has_freed_is_not_counted() {
    let world = World::new();
    // The tables of this aggregation grow by copying. DuckDB counts at most 512 MiB up to 8.5 million rows; when freed memory
    // is counted too, the limits of the process are reached between 7 and 8 million.
    let sql = "SELECT count(*) FROM (SELECT DISTINCT i, i || 'x' FROM range(8000000) t(i))";
    assert_eq!(world.rows(sql), json!([[8_000_000]]));
}

#[test]
fn answers_larger_than_memory_are_streamed() {
    let mut world = World::new();
    world.settings.memory_bytes = 64 << 20;
    runtime().block_on(async {
        let mut answer = start(&world.workers(), "letters", long()).await.expect("an answer");
        let mut read = 0;
        while read < 300 << 20 {
            read += answer.next().await.expect("a piece").expect("more").len();
        }
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", answer.worker_pid())).expect("a status");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        let peak_kb: u64 = peak.trim().trim_end_matches("kB").trim().parse().expect("a number");
        assert!(peak_kb < 250 << 10, "{peak_kb} kB for {read} bytes");
    });
}

#[test]
fn a_game_cannot_take_the_workers_of_others() {
    runtime().block_on(async {
        let workers = SqlWorkers::new(settings());
        let _held = start(&workers, "letters", long()).await.expect("an answer");
        let impatient = SqlQuery { timeout: Duration::from_millis(100), ..query("SELECT 1") };
        let error = start(&workers, "letters", impatient).await.err();
        assert!(matches!(error, Some(SqlError::Timeout { .. })), "{error:?}");
        whole(start(&workers, "other", query("SELECT 1")).await.expect("an answer")).await.expect("an end");
    });
}

#[test]
fn queries_that_wait_are_limited_for_a_game_and_for_all() {
    runtime().block_on(async {
        let workers = std::sync::Arc::new(SqlWorkers::new(settings()));
        let _held = start(&workers, "letters", long()).await.expect("an answer");
        let held_of_other = start(&workers, "other", long()).await.expect("an answer");
        let mut waiting = Vec::new();
        for game in ["letters", "other", "third", "fourth"] {
            for _ in 0..16 {
                let workers = std::sync::Arc::clone(&workers);
                waiting
                    .push(tokio::spawn(async move { start(&workers, game, query("SELECT 1")).await.err() }));
            }
            // The runtime runs them in parts.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            let error = start(&workers, game, query("SELECT 1")).await.err();
            let is_last = game == "fourth";
            let is_refused = matches!(
                (is_last, &error),
                (false, Some(SqlError::GameBusy { waiting_max: 16 })) | (true, Some(SqlError::Busy))
            );
            assert!(is_refused, "{game}: {error:?}");
        }
        waiting.iter().for_each(|task| task.abort());
        for task in waiting {
            assert!(task.await.is_err(), "it was aborted");
        }
        drop(held_of_other);
        whole(start(&workers, "other", query("SELECT 1")).await.expect("an answer")).await.expect("an end");
    });
}

#[test]
fn missing_library_is_named_with_what_to_do() {
    let mut world = World::new();
    world.settings.library = "/nowhere/libduckdb.so".into();
    let error = world.error("SELECT 1");
    assert!(matches!(error, SqlError::LibraryMissing { .. }), "{error:?}");
    assert!(error.to_string().contains("/nowhere/libduckdb.so") && error.to_string().contains("sql.library"));
}

#[test]
fn wrong_library_is_refused() {
    let mut world = World::new();
    world.settings.library = world.path("libduckdb.so");
    std::fs::write(&world.settings.library, "not a library").expect("a file");
    let check = |world: &World, expected: &str| match world.error("SELECT 1") {
        SqlError::LibraryUnsuitable { reason, .. } => assert!(reason.contains(expected), "{reason}"),
        other => panic!("{other:?}"),
    };
    check(&world, "cannot be loaded");
    let libc = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6", "/lib64/libm.so.6"];
    world.settings.library =
        libc.map(PathBuf::from).into_iter().find(|path| path.is_file()).expect("a library");
    check(&world, "has no function duckdb_library_version");
    // Rust links with the compiler of C, so it is there.
    let stub = |world: &mut World, version: &str| {
        let source = world.path("stub.c");
        let library = world.path(&format!("{version}.so"));
        std::fs::write(
            &source,
            format!("const char *duckdb_library_version(void) {{ return \"{version}\"; }}"),
        )
        .expect("a file");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
        assert!(built.expect("a compiler").success());
        world.settings.library = library;
    };
    stub(&mut world, "v2.0.0");
    check(&world, "is version v2.0.0; this server needs v1.5.x");
    stub(&mut world, "v1.5.9");
    check(&world, "has no function duckdb_create_config");
}

#[test]
fn missing_worker_is_named() {
    let mut world = World::new();
    world.settings.worker = "/nowhere/playmeter-sql".into();
    let error = world.error("SELECT 1");
    assert!(matches!(error, SqlError::WorkerMissing { .. }), "{error:?}");
}

#[test]
fn worker_that_dies_is_reported_with_its_last_words() {
    let world = World::new().with_script("echo broken >&2; kill -SEGV $$");
    let error = world.error("SELECT 1");
    assert!(
        matches!(&error, SqlError::WorkerDied(words) if words.contains("broken") && words.contains("SIGSEGV")),
        "{error:?}"
    );
}

#[test]
fn worker_that_breaks_the_protocol_is_not_believed() {
    for script in
        ["printf '\\377\\377\\377\\377\\1'", "printf '\\1\\0\\0\\0\\11'", "printf '\\4\\0\\0\\0\\1xyz'"]
    {
        let world = World::new().with_script(script);
        let error = world.error("SELECT 1");
        assert!(matches!(error, SqlError::WorkerDied(_)), "{script}: {error:?}");
    }
}

#[test]
fn files_that_cannot_be_read_are_an_error() {
    let check = |world: &World, path: PathBuf| {
        let mut world_tables = world.tables.clone();
        world_tables.events.push(TableFile { path, format: FileFormat::Parquet });
        let error = runtime().block_on(async {
            support::start(&world.workers(), "letters", world_tables, query("FROM events")).await.err()
        });
        assert!(matches!(error, Some(SqlError::Files(_))), "{error:?}");
    };
    let world = World::with_events();
    check(&world, world.path("missing.parquet"));
    check(&world, world.folder.path().to_owned());
    let damaged = world.path("damaged.parquet");
    std::fs::write(&damaged, "PAR1 and nothing else PAR1").expect("a file");
    check(&world, damaged);
}

#[test]
fn files_that_are_deleted_during_a_query_stay_readable() {
    let mut world = World::new();
    let path = world.parquet(
        "big.parquet",
        "SELECT TIMESTAMPTZ '2026-11-01 10:00:00+00' AS ts, repeat('x', 100) || i AS event FROM range(500000) t(i)",
    );
    runtime().block_on(async {
        let sql =
            SqlQuery { format: SqlFormat::Ndjson, rows_max: u64::MAX, ..query("SELECT event FROM events") };
        let answer =
            support::start(&world.workers(), "letters", world.tables.clone(), sql).await.expect("an answer");
        std::fs::remove_file(path).expect("it is deleted");
        assert_eq!(whole(answer).await.expect("an end").summary.rows, 500_000);
    });
}
