//! What a query cannot reach: other files, other games, the environment, the network, the settings.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sql::protocol::{QUERY, Query, Reply, SETUP, Setup, frame_header, read_frame};
use sql::{Isolation, SqlFormat, Tables};

use crate::support::{World, settings};

const IN_FILE: &str = "canary-of-a-file-8f1c";
const IN_GAME: &str = "canary-of-another-game-27ab";
const IN_ENVIRONMENT: &str = "canary-of-the-environment-51d0";
const IN_NETWORK: &str = "canary-of-the-network-c09e";

/// Functions that read files, of DuckDB and of its extensions.
const FUNCTIONS: [&str; 34] = [
    "read_text",
    "read_blob",
    "read_csv",
    "read_csv_auto",
    "sniff_csv",
    "read_json",
    "read_json_auto",
    "read_json_objects",
    "read_json_objects_auto",
    "read_ndjson",
    "read_ndjson_auto",
    "read_ndjson_objects",
    "read_parquet",
    "parquet_scan",
    "parquet_metadata",
    "parquet_schema",
    "parquet_file_metadata",
    "parquet_kv_metadata",
    "parquet_full_metadata",
    "glob",
    "read_duckdb",
    "read_xlsx",
    "read_avro",
    "sqlite_scan",
    "postgres_scan",
    "iceberg_scan",
    "delta_scan",
    "st_read",
    "shapefile_meta",
    "http_get",
    "read_lines",
    "open_prompt",
    "getenv",
    "which_secret",
];

/// Places for a function `F` of a path `P`.
const CALLS: [&str; 9] = [
    "SELECT * FROM F('P')",
    "FROM F(['P'])",
    "SELECT count(*), max(x) FROM F('P') t(x)",
    "WITH a AS MATERIALIZED (FROM F('P')) SELECT * FROM a",
    "EXPLAIN ANALYZE SELECT * FROM F('P')",
    "DESCRIBE SELECT * FROM F('P')",
    "SELECT (SELECT any_value(t) FROM F('P') t), F('P')",
    "SELECT * FROM query('FROM F(''P'')')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM F(''P'')'))",
];

/// Statements with a path `P`.
const STATEMENTS: [&str; 40] = [
    "FROM 'P'",
    "SELECT * FROM \"P\"",
    "SELECT * FROM query_table('P')",
    "SELECT * FROM query_table(['P', 'events'])",
    "COPY (SELECT 1) TO 'P'",
    "COPY events TO 'P.out' (FORMAT csv)",
    "COPY events FROM 'P'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO 'P.out'",
    "ATTACH 'P' AS other",
    "ATTACH 'P' AS other (TYPE sqlite)",
    "ATTACH 'P' AS other (READ_ONLY)",
    "EXPORT DATABASE 'P'",
    "IMPORT DATABASE 'P'",
    "LOAD 'P'",
    "INSTALL 'P'",
    "INSTALL httpfs FROM 'P'",
    "CREATE TABLE t AS FROM read_text('P')",
    "CREATE VIEW v AS FROM read_text('P')",
    "CREATE MACRO m() AS TABLE FROM read_text('P')",
    "CREATE SECRET s (TYPE s3, ENDPOINT 'P')",
    "CREATE PERSISTENT SECRET s IN local_file (TYPE http, BEARER_TOKEN 'P')",
    "INSERT INTO events FROM read_text('P')",
    "SET allowed_paths = ['P']",
    "SET allowed_directories = ['P']",
    "SET enable_external_access = true",
    "SET GLOBAL temp_directory = 'P'",
    "SET home_directory = 'P'",
    "SET profiling_output = 'P'",
    "SET log_query_path = 'P'",
    "SET custom_extension_repository = 'P'",
    "RESET lock_configuration",
    "PRAGMA enable_profiling = 'P'",
    "PRAGMA database_list('P')",
    "CALL enable_logging(storage = 'file', storage_path = 'P')",
    "SELECT * FROM enable_logging('QueryLog', storage = 'file', storage_path = 'P')",
    "SELECT * FROM parquet_bloom_probe('P', 'x', 1)",
    "SELECT * FROM read_csv('P', store_rejects = true)",
    "SELECT * FROM read_parquet('P', hive_partitioning = true, filename = true)",
    "SELECT * FROM read_csv('P', header = false, delim = chr(1), columns = {'a': 'VARCHAR'})",
    "SELECT set_config('P', 'P'), current_setting('P'), getvariable('P'), pg_read_file('P')",
];

/// Statements without a path. None may show where the files of the game are.
const PLAIN: [&str; 27] = [
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_views()",
    "SELECT * FROM duckdb_databases()",
    "SELECT * FROM duckdb_extensions()",
    "SELECT * FROM duckdb_variables()",
    "SELECT * FROM duckdb_logs()",
    "SELECT * FROM duckdb_log_contexts()",
    "SELECT * FROM duckdb_temporary_files()",
    "SELECT * FROM duckdb_memory()",
    "SELECT * FROM duckdb_external_file_cache()",
    "SELECT * FROM duckdb_prepared_statements()",
    "SELECT * FROM pragma_database_list",
    "PRAGMA database_list",
    "PRAGMA show_databases",
    "PRAGMA version",
    "SELECT * FROM pragma_storage_info('events')",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM information_schema.tables",
    "SELECT current_setting('allowed_paths'), current_setting('temp_directory'), current_setting('secret_directory')",
    "SELECT * FROM force_checkpoint()",
    "SELECT * FROM parquet_metadata('/0')",
    "SELECT *, filename FROM read_parquet('/0', filename = true)",
    "EXPLAIN ANALYZE FROM events",
    "EXPLAIN (FORMAT json) FROM events",
    "SELECT file_name FROM parquet_metadata('/0')",
    "SELECT error('x')",
];

/// A worker that the test speaks to itself: one worker answers thousands of statements, so that what one leaves behind
/// is there for the next.
struct Worker {
    child: Child,
}

impl Worker {
    fn start(tables: &Tables, isolation: Isolation) -> Worker {
        let settings = settings();
        let child = Command::new(&settings.worker)
            .env("SECRET", IN_ENVIRONMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a worker starts");
        let setup = Setup {
            library: settings.library,
            tables: tables.clone(),
            isolation,
            memory_bytes: 256 << 20,
            threads: 2,
            cpu_seconds: 600,
        };
        let mut worker = Worker { child };
        worker.send(SETUP, &serde_json::to_vec(&setup).expect("JSON"));
        worker
    }

    fn send(&mut self, kind: u8, payload: &[u8]) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        input.write_all(&frame_header(kind, payload).expect("a small frame")).expect("the worker reads");
        input.write_all(payload).expect("the worker reads");
    }

    /// Returns all that a worker says to a statement, and whether it was an answer. `None` if it has died.
    fn ask(&mut self, sql: &str) -> Option<(bool, String)> {
        let query = Query {
            sql: sql.to_owned(),
            format: SqlFormat::Json,
            rows_max: 10_000,
            bytes_max: 16 << 20,
            timeout_ms: 20_000,
        };
        self.send(QUERY, &serde_json::to_vec(&query).expect("JSON"));
        let output = self.child.stdout.as_mut().expect("a pipe");
        let mut said = String::new();
        loop {
            let (kind, payload) = read_frame(output).ok()??;
            match Reply::parse(kind, payload).expect("a reply") {
                Reply::Data(bytes) => said.push_str(&String::from_utf8_lossy(&bytes)),
                Reply::Columns(columns) => said.push_str(&format!("{columns:?}")),
                Reply::Done(_) => return Some((true, said)),
                Reply::Failure(failure) => return Some((false, said + &failure.message)),
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A machine full of canaries beside the game's own files.
struct Trap {
    world: World,
    paths: Vec<String>,
    connections: Arc<AtomicUsize>,
    done: Arc<AtomicBool>,
    address: std::net::SocketAddr,
}

impl Trap {
    fn set() -> Trap {
        let world = World::with_events();
        let folder = world.folder.path().to_owned();
        let file = |name: &str, content: &str| std::fs::write(world.path(name), content).expect("a file");
        file("secret.txt", IN_FILE);
        file("secret.csv", &format!("a,b\n1,{IN_FILE}\n"));
        file("secret.json", &format!("{{\"a\": \"{IN_FILE}\"}}\n"));
        file("secret.sql", &format!("SELECT '{IN_FILE}'"));
        let other = "archive/other/2026-11-01/0-1.parquet";
        world.write(
            other,
            &format!("SELECT TIMESTAMPTZ '2026-11-01 10:00:00+00' AS ts, '{IN_GAME}' AS event"),
        );
        symlink(world.path("secret.txt"), world.path("link.txt")).expect("a link");
        let database = world.path("secret.db");
        world.duckdb.run(&format!("ATTACH '{}' AS other", database.display()));
        world.duckdb.run(&format!("CREATE TABLE other.main.secret AS SELECT '{IN_FILE}' AS x"));
        world.duckdb.run("DETACH other");

        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (connections, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, end) = (Arc::clone(&connections), Arc::clone(&done));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    break;
                }
                counter.fetch_add(1, Ordering::SeqCst);
                let Ok(mut stream) = stream else { continue };
                let _ = stream.read(&mut [0; 4096]);
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{IN_NETWORK}",
                    IN_NETWORK.len()
                );
            }
        });

        let at = |name: &str| folder.join(name).display().to_string();
        let mut paths: Vec<String> =
            ["secret.txt", "secret.csv", "secret.json", "secret.sql", "secret.db", "link.txt", other]
                .map(at)
                .into();
        let up = format!("{}/../../../../../../../..", folder.join("archive/letters").display());
        paths.extend([
            at("*"),
            at("**/*.parquet"),
            at("archive/letters/../other/2026-11-01/0-1.parquet"),
            format!("{up}{}", at("secret.txt")),
            format!("file://{}", at("secret.txt")),
            format!("/proc/self/root{}", at("secret.txt")),
            format!("/proc/self/fd/3/../../root{}", at("secret.txt")),
            format!("/proc/self/cwd/{}", at("secret.txt")),
            format!("http://{address}/secret.csv"),
            format!("s3://{address}/secret.csv"),
        ]);
        paths.extend(
            [
                "/etc/passwd",
                "/proc/self/environ",
                "/proc/thread-self/environ",
                "/proc/self/maps",
                "/proc/self/fd/0",
                "/proc/self/fd/*",
                "/dev/stdin",
            ]
            .map(str::to_owned),
        );
        Trap { world, paths, connections, done, address }
    }

    fn statements(&self) -> Vec<String> {
        // Keywords have these letters too.
        let call = |template: &str, path: &str, function: &str| {
            let marked = template.replace("F(", "\u{0}(").replace("'P", "'\u{1}");
            marked.replace('\u{0}', function).replace('\u{1}', path)
        };
        let mut statements: Vec<String> = PLAIN.map(str::to_owned).into();
        for path in &self.paths {
            for function in FUNCTIONS {
                statements.extend(CALLS.map(|template| call(template, path, function)));
            }
            statements.extend(
                STATEMENTS.map(|template| call(template, path, "").replace("\"P\"", &format!("\"{path}\""))),
            );
        }
        statements
    }

    fn check(&self, isolation: Isolation, sql: &str, said: &str) {
        for canary in [IN_FILE, IN_GAME, IN_ENVIRONMENT, IN_NETWORK, "root:x:0"] {
            assert!(!said.contains(canary), "{sql} has shown {canary}: {said}");
        }
        let folder = self.world.folder.path().display().to_string();
        // With Landlock alone, DuckDB's settings name the files that it may read.
        if isolation != Isolation::Landlock && !sql.contains(&folder) {
            assert!(!said.contains(&folder), "{sql} has shown where the data is: {said}");
        }
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        self.done.store(true, Ordering::SeqCst);
        let _ = std::net::TcpStream::connect(self.address);
    }
}

/// Returns whether the kernel has Landlock, without asking the worker.
fn has_landlock() -> bool {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the kernel only returns a number.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION) > 0 }
}

/// Returns whether a process of this user may have namespaces of its own, without asking the worker.
fn has_namespaces() -> bool {
    Command::new("unshare").args(["-Urmn", "true"]).status().is_ok_and(|status| status.success())
}

fn hostile_statements_reach_nothing_with(isolation: Isolation) {
    let trap = Trap::set();
    let before = files(trap.world.folder.path());
    let statements = trap.statements();
    assert!(statements.len() >= 5_000, "{} statements", statements.len());
    let mut worker = Worker::start(&trap.world.tables, isolation);
    let mut deaths = Vec::new();
    let mut answers = 0;
    for sql in &statements {
        match worker.ask(sql) {
            Some((answered, said)) => {
                answers += usize::from(answered);
                trap.check(isolation, sql, &said);
            }
            None => deaths.push(sql),
        }
        // Such a SELECT changes what later statements do. That is why the server asks a worker only once.
        if sql.contains("enable_logging") || deaths.last() == Some(&sql) {
            worker = Worker::start(&trap.world.tables, isolation);
        }
    }
    assert!(deaths.is_empty(), "the worker died of {deaths:?}");
    assert!(answers > 0, "the statements without a path have answers");
    assert_eq!(trap.connections.load(Ordering::SeqCst), 0, "connections were made");
    assert_eq!(files(trap.world.folder.path()), before, "files were written");
    // After all of them the worker still answers, and only about its own game.
    let (answered, said) = worker.ask("SELECT count(*) FROM events").expect("an answer");
    assert!(answered && said.contains("[[3]]"), "{said}");
}

fn files(folder: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let metadata = entry.metadata().expect("metadata");
        match metadata.is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push((entry.path().display().to_string(), metadata.len())),
        }
    }
    found.sort();
    found
}

#[test]
fn hostile_statements_reach_nothing() {
    hostile_statements_reach_nothing_with(Isolation::Required);
}

#[test]
fn hostile_statements_reach_nothing_behind_landlock() {
    if !has_landlock() {
        return testkit::skip::skip("landlock", "the kernel does not have it");
    }
    hostile_statements_reach_nothing_with(Isolation::Landlock);
}

#[test]
fn hostile_statements_reach_nothing_in_namespaces() {
    if !has_namespaces() {
        return testkit::skip::skip("namespaces", "the kernel refuses them");
    }
    hostile_statements_reach_nothing_with(Isolation::Namespaces);
}

#[test]
fn the_same_statements_find_every_canary_without_isolation() {
    let trap = Trap::set();
    let out = trap.world.path("out.csv");
    let mut found = String::new();
    for path in &trap.paths {
        let sql = format!("COPY (SELECT content FROM read_blob('{path}')) TO '{}'", out.display());
        if trap.world.duckdb.try_run(&sql) {
            found.push_str(&std::fs::read_to_string(&out).expect("text"));
        }
    }
    for canary in [IN_FILE, IN_GAME, "root:x:0"] {
        assert!(found.contains(canary), "{canary} is not found");
    }
}

#[test]
fn kernel_refuses_what_duckdb_does_not_ask_for() {
    let layers = [("", true), ("landlock", has_landlock()), ("namespaces", has_namespaces())];
    for (isolation, _) in layers.into_iter().filter(|(_, available)| *available) {
        let arguments = ["check", isolation].into_iter().filter(|argument| !argument.is_empty());
        let check = Command::new(settings().worker).args(arguments).output().expect("it runs");
        let said =
            String::from_utf8_lossy(&check.stdout).into_owned() + &String::from_utf8_lossy(&check.stderr);
        assert!(check.status.success(), "{isolation}: {said}");
        assert_eq!(said.matches("\nrefused: ").count(), 14, "{isolation}: {said}");
    }
}

#[test]
fn worker_isolates_itself_for_a_user_without_privileges() {
    // A copy in a folder that every user may enter. For a test that has privileges itself, another user runs it.
    const OTHER_USER: u32 = 65_534;
    let folder = tempfile::tempdir().expect("a folder");
    let open = || PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open()).expect("the folder is opened");
    let worker = folder.path().join("playmeter-sql");
    std::fs::copy(settings().worker, &worker).expect("a copy");
    std::fs::set_permissions(&worker, open()).expect("a program");
    let layers = [("landlock", has_landlock()), ("namespaces", has_namespaces())];
    for (isolation, _) in layers.into_iter().filter(|(_, available)| *available) {
        let mut check = Command::new(&worker);
        // SAFETY: the function has no preconditions.
        if unsafe { libc::geteuid() } == 0 {
            check.uid(OTHER_USER).gid(OTHER_USER);
        }
        let check = check.args(["check", isolation]).output().expect("it runs");
        let said =
            String::from_utf8_lossy(&check.stdout).into_owned() + &String::from_utf8_lossy(&check.stderr);
        assert!(check.status.success(), "{isolation}: {said}");
    }
}
