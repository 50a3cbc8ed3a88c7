//! What is read beside the host, if it is asked for. A source that fails is told of and tried again with the next reading.

mod nginx;
mod postgres;
mod redis;

use std::time::{Duration, Instant};

use clap::Args;
use tracing::{info, warn};

use super::reading::Reading;

/// A source that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where the sources are. Each may be in the environment, where its password cannot be seen by others on this machine.
#[derive(Args)]
pub struct SourceArgs {
    /// Read PostgreSQL, for instance postgres://user@localhost/game or "host=/run/postgresql". A member of pg_monitor sees all.
    #[arg(long, value_name = "URL", env = "PLAYMETER_POSTGRES", hide_env_values = true)]
    postgres: Option<String>,
    /// Read Redis, for instance localhost:6379 or redis://user:password@localhost:6379.
    #[arg(long, value_name = "URL", env = "PLAYMETER_REDIS", hide_env_values = true)]
    redis: Option<String>,
    /// Read nginx at the URL of its stub_status.
    #[arg(long, value_name = "URL", env = "PLAYMETER_NGINX", hide_env_values = true)]
    nginx: Option<String>,
}

/// A source and whether it answered last time.
pub struct Source {
    name: &'static str,
    kind: Kind,
    is_up: bool,
}

enum Kind {
    Postgres(Box<postgres::Postgres>),
    Redis(redis::Redis),
    Nginx(nginx::Nginx),
}

/// Why a source could not be read, in words.
type Failed = String;

impl SourceArgs {
    /// The sources; nothing is read yet. An error names the argument that cannot be used.
    pub fn open(&self) -> anyhow::Result<Vec<Source>> {
        let mut sources = Vec::new();
        let mut add = |name, kind| sources.push(Source { name, kind, is_up: true });
        if let Some(url) = &self.postgres {
            add("postgres", Kind::Postgres(Box::new(postgres::Postgres::new(url)?)));
        }
        if let Some(url) = &self.redis {
            add("redis", Kind::Redis(redis::Redis::new(url)?));
        }
        if let Some(url) = &self.nginx {
            add("nginx", Kind::Nginx(nginx::Nginx::new(url)?));
        }
        Ok(sources)
    }
}

impl Source {
    /// What it is, for people.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Adds its values, and whether there were any: `agent.source_up` is 1 or 0.
    pub async fn read(&mut self, reading: &mut Reading, at: Instant) {
        let read = async {
            match &mut self.kind {
                Kind::Postgres(postgres) => postgres.read(reading, at).await,
                Kind::Redis(redis) => redis.read(reading, at).await,
                Kind::Nginx(nginx) => nginx.read(reading, at).await,
            }
        };
        let done = tokio::time::timeout(TIMEOUT, read).await;
        let done = done.unwrap_or_else(|_| Err(format!("it does not answer within {TIMEOUT:?}")));
        if done.is_err() {
            self.forget();
        }
        self.tell(&done);
        reading.add_part("agent.source_up", self.name, f64::from(u8::from(done.is_ok())));
    }

    /// A connection that failed, or on which half an answer may stand, is not used again.
    fn forget(&mut self) {
        match &mut self.kind {
            Kind::Postgres(postgres) => postgres.close(),
            Kind::Redis(redis) => redis.close(),
            Kind::Nginx(_) => {}
        }
    }

    fn tell(&mut self, done: &Result<(), Failed>) {
        let name = self.name;
        match done {
            Ok(()) if !self.is_up => info!("{name} can be read again"),
            Err(why) if self.is_up => warn!(%why, "{name} cannot be read"),
            _ => {}
        }
        self.is_up = done.is_ok();
    }
}
