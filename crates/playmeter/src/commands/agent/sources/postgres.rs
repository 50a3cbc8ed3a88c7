//! The PostgreSQL source: its statistics views, version 10 and later.
//!
//! `tokio-postgres` without TLS: the database has to be on this machine or on a trusted network. It adds 1 MB to the
//! program and at most 28 CPU-seconds to its build.

use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls, Row};

use super::{SourceError, TIMEOUT};
use crate::commands::agent::rate::CounterRates;
use crate::commands::agent::reading::Reading;

/// One row for all databases together, with all numbers as `float8`. Values that the role may not see are null.
const STATISTICS: &str = include_str!("postgres.sql");

/// Shorter than the timeout of the agent, so that the server does not work on a query that the agent has given up.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(4);
const _: () = assert!(STATEMENT_TIMEOUT.as_secs() < TIMEOUT.as_secs());

/// A database, the connection to it and the rates of its counters.
pub(super) struct Postgres {
    config: Config,
    connection: Option<PostgresConnection>,
    rates: CounterRates,
}

struct PostgresConnection {
    client: Client,
    /// The task that drives the connection until it is closed.
    task: JoinHandle<Result<(), tokio_postgres::Error>>,
}

impl Drop for PostgresConnection {
    /// Without the abort, the task would wait for the response to the last query before it closes the connection.
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Postgres {
    /// Creates a source for the database at this URL or connection string, as accepted by `psql`.
    pub(super) fn new(url: &str) -> anyhow::Result<Postgres> {
        let mut config: Config = url.parse().context("--postgres")?;
        anyhow::ensure!(
            config.get_ssl_mode() != SslMode::Require,
            "--postgres: TLS is not supported; remove sslmode and run the agent on the machine of the database"
        );
        let own_options = config.get_options().unwrap_or_default();
        let options = format!("{own_options} -c statement_timeout={}", STATEMENT_TIMEOUT.as_millis());
        config.options(options.trim_start());
        config.ssl_mode(SslMode::Disable).application_name("playmeter agent");
        Ok(Postgres { config, connection: None, rates: CounterRates::default() })
    }

    pub(super) async fn read(&mut self, reading: &mut Reading, at: Instant) -> Result<(), SourceError> {
        if self.connection.is_none() {
            let (client, connection) = self.config.connect(NoTls).await.map_err(error_text)?;
            // The task also ends when the server closes the connection; the next query then fails.
            self.connection = Some(PostgresConnection { client, task: tokio::spawn(connection) });
        }
        let connection = self.connection.as_ref().expect("it was just created");
        let row = connection.client.query_one(STATISTICS, &[]).await.map_err(error_text)?;
        add_values(&row, &mut self.rates, reading, at)
    }

    /// Closes the connection. The next read opens a new one.
    pub(super) fn close(&mut self) {
        self.connection = None;
    }
}

/// Returns the message of the server if there is one: the library only says `db error`.
fn error_text(error: tokio_postgres::Error) -> SourceError {
    match (error.as_db_error(), std::error::Error::source(&error)) {
        (Some(error), _) => error.message().to_owned(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}

fn add_values(
    row: &Row,
    rates: &mut CounterRates,
    reading: &mut Reading,
    at: Instant,
) -> Result<(), SourceError> {
    let number = |name: &str| row.try_get::<_, Option<f64>>(name).map_err(error_text);
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
        |name: &str| Ok::<_, SourceError>(number(name)?.and_then(|total| rates.per_second(name, total, at)));
    reading.add("postgres.commits", rate("commits")?);
    reading.add("postgres.rollbacks", rate("rollbacks")?);
    reading.add("postgres.deadlocks", rate("deadlocks")?);
    if let (Some(hit), Some(read)) = (rate("blocks_hit")?, rate("blocks_read")?) {
        // Without reads this is NaN, which `add` ignores.
        reading.add("postgres.hit_share", 100.0 * hit / (hit + read));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn statement_timeout_is_added_to_the_options() {
        let check = |url: &str, expected: &str| {
            let postgres = Postgres::new(url).unwrap_or_else(|error| panic!("{url}: {error:#}"));
            assert_eq!(postgres.config.get_options(), Some(expected), "{url}");
        };
        check("postgres://me@localhost/game", "-c statement_timeout=4000");
        check("host=db options='-c geqo=off'", "-c geqo=off -c statement_timeout=4000");
        // The last option wins.
        check("host=db options='-c statement_timeout=0'", "-c statement_timeout=0 -c statement_timeout=4000");
    }

    /// Accepts a connection without asking for a password. Never answers a query.
    async fn accept(listener: &TcpListener) -> TcpStream {
        let (mut stream, _) = listener.accept().await.expect("the agent connects");
        let length = stream.read_u32().await.expect("it starts with its length") as usize;
        stream.read_exact(&mut vec![0; length - 4]).await.expect("the rest of the message");
        let authenticated_and_ready = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
        stream.write_all(authenticated_and_ready).await.expect("the agent reads");
        stream
    }

    #[tokio::test]
    async fn connection_with_a_pending_query_is_closed_on_close() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let mut postgres =
            Postgres::new(&format!("postgres://me@{address}/game")).expect("it is the URL of a database");
        let mut reading = Reading::new(0);
        let mut stream = tokio::select! {
            _ = postgres.read(&mut reading, Instant::now()) => panic!("the server does not answer"),
            // The query was sent when its first byte arrives.
            stream = async {
                let mut stream = accept(&listener).await;
                stream.read_u8().await.expect("the agent sends a query");
                stream
            } => stream,
        };
        postgres.close();
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "the connection is still open");
    }
}
