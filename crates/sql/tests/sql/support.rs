//! Files of games, and workers over them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use sql::{
    FileFormat, SqlAnswer, SqlError, SqlFormat, SqlQuery, SqlSettings, SqlWorkers, Summary, TableFile, Tables,
};
use tempfile::TempDir;

use crate::duckdb::{DuckDb, library};

/// A data folder with the archive of a game, and workers over it.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) duckdb: DuckDb,
    pub(crate) settings: SqlSettings,
    pub(crate) tables: Tables,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) bytes: Vec<u8>,
    pub(crate) summary: Summary,
}

impl Whole {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("it is text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

impl World {
    /// Returns a game without events.
    pub(crate) fn new() -> World {
        World {
            folder: tempfile::tempdir().expect("a folder"),
            duckdb: DuckDb::open(),
            settings: settings(),
            tables: Tables::default(),
        }
    }

    /// Returns a game with a few events of two days, in files whose columns differ.
    pub(crate) fn with_events() -> World {
        let mut world = World::new();
        world.parquet(
            "archive/letters/2026-11-01/0-100.parquet",
            "SELECT TIMESTAMPTZ '2026-11-01 10:00:00.123+00' AS ts, 'start' AS event, 'e1' AS id, 'ann' AS player, \
             's1' AS session, NULL::DOUBLE AS value, 'FR' AS country, 'web' AS platform, '1.0' AS version, \
             NULL::VARCHAR AS source, '1' AS level, 3::BIGINT AS \"props.lives\", NULL::VARCHAR AS props, \
             TIMESTAMPTZ '2026-11-01 10:00:01+00' AS received \
             UNION ALL SELECT '2026-11-01 10:05:00+00', 'win', 'e2', 'ann', 's1', 12.5, 'FR', 'web', '1.0', NULL, '1', 2, \
             '{\"weapon\":\"bow\"}', '2026-11-01 10:05:01+00'",
        );
        world.parquet(
            "archive/letters/2026-11-02/100-200.parquet",
            "SELECT TIMESTAMPTZ '2026-11-02 00:00:00+00' AS ts, 'start' AS event, 'e3' AS id, 'bo' AS player, \
             's2' AS session, 1.0::DOUBLE AS value, 'DE' AS country, 'ios' AS platform, '1.1' AS version, \
             'ad' AS source, '2' AS level, 'hard' AS \"props.mode\", NULL::VARCHAR AS props, \
             TIMESTAMPTZ '2026-11-02 00:00:01+00' AS received",
        );
        world
    }

    /// Writes a file of events in the archive's format.
    pub(crate) fn parquet(&mut self, name: &str, query: &str) -> PathBuf {
        let path = self.write(name, query);
        self.tables.events.push(TableFile { path: path.clone(), format: FileFormat::Parquet });
        path
    }

    /// Writes a Parquet file.
    pub(crate) fn write(&self, name: &str, query: &str) -> PathBuf {
        let path = self.path(name);
        self.duckdb.run(&format!("COPY ({query}) TO '{}' (FORMAT parquet)", path.display()));
        path
    }

    /// Writes a file of events that are not yet in the archive.
    pub(crate) fn ndjson(&mut self, name: &str, lines: &str) {
        let path = self.path(name);
        std::fs::write(&path, lines).expect("the file is written");
        self.tables.events.push(TableFile { path, format: FileFormat::Ndjson });
    }

    /// Returns a path in the folder, whose parent exists.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("the folder is created");
        path
    }

    pub(crate) fn workers(&self) -> SqlWorkers {
        SqlWorkers::new(self.settings.clone())
    }

    /// Runs a query to its end.
    pub(crate) fn ask(&self, query: SqlQuery) -> Result<Whole, SqlError> {
        runtime().block_on(async {
            whole(start(&self.workers(), "letters", self.tables.clone(), query).await?).await
        })
    }

    /// Returns the rows of a query, as JSON.
    pub(crate) fn rows(&self, sql: &str) -> Value {
        let answer = self.ask(query(sql)).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        answer.json()["rows"].take()
    }

    /// Returns why a query is refused.
    pub(crate) fn error(&self, sql: &str) -> SqlError {
        self.ask(query(sql)).expect_err(sql)
    }
}

/// Starts a query over tables.
pub(crate) async fn start(
    workers: &SqlWorkers,
    game: &str,
    tables: Tables,
    query: SqlQuery,
) -> Result<SqlAnswer, SqlError> {
    workers.admit(game, query).await?.run(tables).await
}

/// Reads an answer to its end.
pub(crate) async fn whole(mut answer: SqlAnswer) -> Result<Whole, SqlError> {
    let mut bytes = Vec::new();
    while let Some(piece) = answer.next().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(Whole { bytes, summary: answer.summary().expect("the answer is whole") })
}

pub(crate) fn query(sql: &str) -> SqlQuery {
    SqlQuery {
        sql: sql.to_owned(),
        format: SqlFormat::Json,
        rows_max: 10_000,
        timeout: Duration::from_secs(60),
    }
}

pub(crate) fn settings() -> SqlSettings {
    let mut settings = SqlSettings::beside(Path::new("/nowhere"));
    settings.worker = env!("CARGO_BIN_EXE_playmeter-sql").into();
    settings.library = library();
    settings.rows_max = u64::MAX;
    // Other tests run at the same time.
    settings.timeout_max = Duration::from_secs(60);
    settings
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}
