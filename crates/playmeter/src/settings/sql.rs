//! Settings of queries in SQL.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::sql::{Isolation, SqlSettings};
use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

/// Queries in SQL, each in a process of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct RawSql {
    /// DuckDB's library; empty for `libduckdb.so` beside the program.
    library: PathBuf,
    /// What a query needs of the kernel: `required` for namespaces or Landlock, `namespaces`, `landlock`, or `optional`
    /// to run queries on a machine that has neither.
    isolation: Isolation,
    /// Bytes of memory of one query.
    memory_bytes_max: u64,
    /// Queries that run at once; one game has at most half of them.
    workers_max: usize,
    /// Seconds that a query may take.
    timeout_s: u64,
    /// Rows of an answer.
    rows_max: u64,
}

impl Default for RawSql {
    fn default() -> RawSql {
        let settings = SqlSettings::beside(Path::new(""));
        RawSql {
            library: PathBuf::new(),
            isolation: settings.isolation,
            memory_bytes_max: settings.memory_bytes,
            workers_max: settings.workers_max,
            timeout_s: settings.timeout_max.as_secs(),
            rows_max: settings.rows_max,
        }
    }
}

impl RawSql {
    /// Validates the settings. The library may be added later, so its absence is no error.
    pub(super) fn resolve(self) -> anyhow::Result<SqlSettings> {
        ensure!(
            self.memory_bytes_max >= 64 << 20,
            "sql.memory_bytes_max: must be at least 67108864 (64 MiB)"
        );
        ensure!((1..=64).contains(&self.workers_max), "sql.workers_max: must be between 1 and 64");
        ensure!((1..=3600).contains(&self.timeout_s), "sql.timeout_s: must be between 1 and 3600");
        ensure!(self.rows_max > 0, "sql.rows_max: must be at least 1");
        let program = std::env::current_exe().context("finding the folder of the program")?;
        let mut settings = SqlSettings::beside(program.parent().unwrap_or(Path::new("/")));
        if !self.library.as_os_str().is_empty() {
            settings.library = std::path::absolute(&self.library).context("sql.library")?;
        }
        settings.isolation = self.isolation;
        settings.memory_bytes = self.memory_bytes_max;
        settings.workers_max = self.workers_max;
        settings.timeout_max = Duration::from_secs(self.timeout_s);
        settings.rows_max = self.rows_max;
        Ok(settings)
    }
}
