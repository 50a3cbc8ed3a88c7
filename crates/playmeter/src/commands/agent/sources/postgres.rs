//! PostgreSQL, by its statistics views: version 10 and later.
//!
//! `tokio-postgres`, without TLS: read a database on this machine or over a network that is trusted. It adds 1 MB to
//! the program and at most 28 CPU-seconds to its build.

use std::time::Instant;

use anyhow::Context;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls, Row};

use super::Failed;
use crate::commands::agent::rate::Meters;
use crate::commands::agent::reading::Reading;

/// All databases together; numbers as `float8`, so that a row is read in one way. What a role may not see is null.
const STATISTICS: &str = include_str!("postgres.sql");

/// A database and the connection to it.
pub(super) struct Postgres {
    config: Config,
    client: Option<Client>,
    meters: Meters,
}

impl Postgres {
    /// The database at this URL, or with these words as `psql` takes them.
    pub(super) fn new(url: &str) -> anyhow::Result<Postgres> {
        let mut config: Config = url.parse().context("--postgres")?;
        anyhow::ensure!(
            config.get_ssl_mode() != SslMode::Require,
            "--postgres: TLS is not spoken here: leave sslmode away and read the database on its own machine"
        );
        config.ssl_mode(SslMode::Disable).application_name("playmeter agent");
        Ok(Postgres { config, client: None, meters: Meters::default() })
    }

    pub(super) async fn read(&mut self, reading: &mut Reading, at: Instant) -> Result<(), Failed> {
        if self.client.is_none() {
            let (client, connection) = self.config.connect(NoTls).await.map_err(words)?;
            // It ends with the client, or when the server closes; the next question then says so.
            tokio::spawn(connection);
            self.client = Some(client);
        }
        let client = self.client.as_ref().expect("it was just made");
        let row = client.query_one(STATISTICS, &[]).await.map_err(words)?;
        values(&row, &mut self.meters, reading, at)
    }

    /// The next reading connects again.
    pub(super) fn close(&mut self) {
        self.client = None;
    }
}

/// The library's own words are `db error`; what the server said stands behind.
fn words(error: tokio_postgres::Error) -> Failed {
    match (error.as_db_error(), std::error::Error::source(&error)) {
        (Some(told), _) => told.message().to_owned(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}

fn values(row: &Row, meters: &mut Meters, reading: &mut Reading, at: Instant) -> Result<(), Failed> {
    let number = |name: &str| row.try_get::<_, Option<f64>>(name).map_err(words);
    for (metric, column) in [
        ("postgres.connections", "connections"),
        ("postgres.connections_max", "connections_max"),
        ("postgres.active", "active"),
        ("postgres.idle", "idle"),
        ("postgres.idle_in_transaction", "idle_in_transaction"),
        ("postgres.waiting_for_lock", "waiting_for_lock"),
        ("postgres.longest_transaction", "longest_transaction"),
        ("postgres.size", "size"),
        ("postgres.replication_lag", "replication_lag"),
    ] {
        reading.add(metric, number(column)?);
    }
    let mut rate =
        |name: &str| Ok::<_, Failed>(number(name)?.and_then(|total| meters.per_second(name, total, at)));
    reading.add("postgres.commits", rate("commits")?);
    reading.add("postgres.rollbacks", rate("rollbacks")?);
    reading.add("postgres.deadlocks", rate("deadlocks")?);
    if let (Some(hit), Some(read)) = (rate("blocks_hit")?, rate("blocks_read")?) {
        // Without reads there is no share, which `add` leaves out.
        reading.add("postgres.hit_share", 100.0 * hit / (hit + read));
    }
    Ok(())
}
