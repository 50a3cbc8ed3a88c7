//! PostgreSQL, by its statistics views: version 10 and later.
//!
//! `tokio-postgres`, without TLS: read a database on this machine or over a network that is trusted. It adds 1 MB to
//! the program and at most 28 CPU-seconds to its build.

use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls, Row};

use super::{Failed, TIMEOUT};
use crate::commands::agent::rate::Meters;
use crate::commands::agent::reading::Reading;

/// All databases together; numbers as `float8`, so that a row is read in one way. What a role may not see is null.
const STATISTICS: &str = include_str!("postgres.sql");

/// The server gives up before the agent does, so that what the agent no longer waits for is no longer worked on.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(4);
const _: () = assert!(STATEMENT_TIMEOUT.as_secs() < TIMEOUT.as_secs());

/// A database and the connection to it.
pub(super) struct Postgres {
    config: Config,
    connection: Option<Connection>,
    meters: Meters,
}

struct Connection {
    client: Client,
    /// Reads what the server sends, until it is closed.
    task: JoinHandle<Result<(), tokio_postgres::Error>>,
}

impl Drop for Connection {
    /// Without it the task would wait for the answer to the last question before it closes.
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Postgres {
    /// The database at this URL, or with these words as `psql` takes them.
    pub(super) fn new(url: &str) -> anyhow::Result<Postgres> {
        let mut config: Config = url.parse().context("--postgres")?;
        anyhow::ensure!(
            config.get_ssl_mode() != SslMode::Require,
            "--postgres: TLS is not spoken here: leave sslmode away and read the database on its own machine"
        );
        let given = config.get_options().unwrap_or_default();
        let options = format!("{given} -c statement_timeout={}", STATEMENT_TIMEOUT.as_millis());
        config.options(options.trim_start());
        config.ssl_mode(SslMode::Disable).application_name("playmeter agent");
        Ok(Postgres { config, connection: None, meters: Meters::default() })
    }

    pub(super) async fn read(&mut self, reading: &mut Reading, at: Instant) -> Result<(), Failed> {
        if self.connection.is_none() {
            let (client, connection) = self.config.connect(NoTls).await.map_err(words)?;
            // It ends when the server closes, too; the next question then says so.
            self.connection = Some(Connection { client, task: tokio::spawn(connection) });
        }
        let connection = self.connection.as_ref().expect("it was just made");
        let row = connection.client.query_one(STATISTICS, &[]).await.map_err(words)?;
        values(&row, &mut self.meters, reading, at)
    }

    /// The next reading connects again.
    pub(super) fn close(&mut self) {
        self.connection = None;
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_server_is_told_when_to_give_up() {
        let check = |words: &str, expected: &str| {
            let postgres = Postgres::new(words).unwrap_or_else(|error| panic!("{words}: {error:#}"));
            assert_eq!(postgres.config.get_options(), Some(expected), "{words}");
        };
        check("postgres://me@localhost/game", "-c statement_timeout=4000");
        check("host=db options='-c geqo=off'", "-c geqo=off -c statement_timeout=4000");
        // The last one holds.
        check("host=db options='-c statement_timeout=0'", "-c statement_timeout=0 -c statement_timeout=4000");
    }

    /// Takes a connection without asking for a password, and reads what is asked without an answer.
    async fn let_in(listener: &TcpListener) -> TcpStream {
        let (mut stream, _) = listener.accept().await.expect("the agent comes");
        let length = stream.read_u32().await.expect("it begins with its length") as usize;
        stream.read_exact(&mut vec![0; length - 4]).await.expect("and has it");
        let authenticated_and_ready = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
        stream.write_all(authenticated_and_ready).await.expect("the agent reads");
        stream
    }

    #[tokio::test]
    async fn a_connection_on_which_a_question_waits_is_closed_when_it_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let mut postgres =
            Postgres::new(&format!("postgres://me@{address}/game")).expect("it is the URL of a database");
        let mut reading = Reading::new(0);
        let mut stream = tokio::select! {
            _ = postgres.read(&mut reading, Instant::now()) => panic!("nobody answered"),
            // It has asked when its first byte is there.
            stream = async {
                let mut stream = let_in(&listener).await;
                stream.read_u8().await.expect("the agent asks");
                stream
            } => stream,
        };
        postgres.close();
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "the connection is still open");
    }
}
