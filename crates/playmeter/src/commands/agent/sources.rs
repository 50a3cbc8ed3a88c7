//! Sources of metrics besides the host. A source that fails is logged and retried with the next reading.

mod nginx;
mod postgres;
mod redis;

use std::time::{Duration, Instant};

use clap::Args;
use tracing::{info, warn};

use super::reading::Reading;

/// A source that does not answer within this time has failed.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The URLs of the sources. A password in the environment is hidden from other users of this machine.
#[derive(Args)]
pub(crate) struct SourceArgs {
    /// Read PostgreSQL, for example postgres://user@localhost/game or "host=/run/postgresql", as a member of pg_monitor
    #[arg(long, value_name = "URL", env = "PLAYMETER_POSTGRES", hide_env_values = true)]
    postgres: Option<String>,
    /// Read Redis, for example localhost:6379 or redis://user:password@localhost:6379
    #[arg(long, value_name = "URL", env = "PLAYMETER_REDIS", hide_env_values = true)]
    redis: Option<String>,
    /// Read nginx at its stub_status URL, for example http://127.0.0.1/nginx_status
    #[arg(long, value_name = "URL", env = "PLAYMETER_NGINX", hide_env_values = true)]
    nginx: Option<String>,
}

/// A source and the result of its last read.
pub(crate) struct AgentSource {
    name: &'static str,
    kind: AgentSourceKind,
    is_up: bool,
}

enum AgentSourceKind {
    Postgres(Box<postgres::Postgres>),
    Redis(redis::Redis),
    Nginx(nginx::Nginx),
}

/// The reason why a source could not be read.
type SourceError = String;

impl SourceArgs {
    /// Creates the sources. Reads nothing. An error names the invalid argument.
    pub(crate) fn open(&self) -> anyhow::Result<Vec<AgentSource>> {
        let mut sources = Vec::new();
        let mut add = |name, kind| sources.push(AgentSource { name, kind, is_up: true });
        if let Some(url) = &self.postgres {
            add("postgres", AgentSourceKind::Postgres(Box::new(postgres::Postgres::new(url)?)));
        }
        if let Some(url) = &self.redis {
            add("redis", AgentSourceKind::Redis(redis::Redis::new(url)?));
        }
        if let Some(url) = &self.nginx {
            add("nginx", AgentSourceKind::Nginx(nginx::Nginx::new(url)?));
        }
        Ok(sources)
    }
}

impl AgentSource {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Adds the values of the source, and `agent.source_up`: 1 if it was read, 0 if it failed.
    pub(crate) async fn read(&mut self, reading: &mut Reading, at: Instant) {
        let read = async {
            match &mut self.kind {
                AgentSourceKind::Postgres(postgres) => postgres.read(reading, at).await,
                AgentSourceKind::Redis(redis) => redis.read(reading, at).await,
                AgentSourceKind::Nginx(nginx) => nginx.read(reading, at).await,
            }
        };
        let result = tokio::time::timeout(TIMEOUT, read).await;
        let result = result.unwrap_or_else(|_| Err(format!("no response within {TIMEOUT:?}")));
        if result.is_err() {
            self.close();
        }
        self.log(&result);
        reading.add_part("agent.source_up", self.name, f64::from(u8::from(result.is_ok())));
    }

    /// Closes the connection, on which part of a response may still be waiting.
    fn close(&mut self) {
        match &mut self.kind {
            AgentSourceKind::Postgres(postgres) => postgres.close(),
            AgentSourceKind::Redis(redis) => redis.close(),
            AgentSourceKind::Nginx(_) => {}
        }
    }

    fn log(&mut self, result: &Result<(), SourceError>) {
        let source = self.name;
        match result {
            Ok(()) if !self.is_up => info!(source, "source is up again"),
            Err(error) if self.is_up => warn!(source, %error, "source cannot be read"),
            _ => {}
        }
        self.is_up = result.is_ok();
    }
}
