//! The Redis source: the response to `INFO`. Two commands do not justify a client library, so RESP is implemented here.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::bail;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::SourceError;
use crate::commands::agent::rate::CounterRates;
use crate::commands::agent::reading::Reading;

/// A response to `INFO` has a few kilobytes.
const RESPONSE_BYTES_MAX: usize = 1 << 20;
/// Limit of the first line of a response.
const LINE_BYTES_MAX: u64 = 4 << 10;

/// A server, the connection to it and the rates of its counters.
pub(super) struct Redis {
    address: String,
    /// The arguments of `AUTH`, which is not sent if there are none.
    credentials: Vec<String>,
    connection: Option<BufReader<TcpStream>>,
    rates: CounterRates,
}

impl Redis {
    /// Creates a source for the server at `HOST:PORT` or `redis://[[USER]:PASSWORD@]HOST[:PORT]`.
    pub(super) fn new(url: &str) -> anyhow::Result<Redis> {
        let rest = url.strip_prefix("redis://").unwrap_or(url);
        let (credentials, address) = rest.rsplit_once('@').unwrap_or(("", rest));
        let address = address.trim_end_matches('/');
        if address.is_empty() || address.contains(['/', ' ', '?']) || url.starts_with("rediss:") {
            bail!("--redis: must be HOST:PORT or redis://USER:PASSWORD@HOST:PORT");
        }
        let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { address.to_owned() } else { format!("{address}:6379") };
        let credentials = match credentials.split_once(':') {
            Some((user, password)) => {
                [user, password].map(percent_decoded).into_iter().filter(|text| !text.is_empty()).collect()
            }
            None if credentials.is_empty() => Vec::new(),
            None => vec![percent_decoded(credentials)],
        };
        Ok(Redis { address, credentials, connection: None, rates: CounterRates::default() })
    }

    pub(super) async fn read(&mut self, reading: &mut Reading, at: Instant) -> Result<(), SourceError> {
        let info = self.info().await?;
        add_values(&info, &mut self.rates, reading, at)
    }

    /// Closes the connection. The next read opens a new one.
    pub(super) fn close(&mut self) {
        self.connection = None;
    }

    async fn info(&mut self) -> Result<String, SourceError> {
        if self.connection.is_none() {
            let stream = TcpStream::connect(&self.address).await.map_err(|error| error.to_string())?;
            let mut connection = BufReader::new(stream);
            if !self.credentials.is_empty() {
                let command = ["AUTH"].into_iter().chain(self.credentials.iter().map(String::as_str));
                send_command(&mut connection, command).await?;
            }
            self.connection = Some(connection);
        }
        let connection = self.connection.as_mut().expect("it was just created");
        send_command(connection, ["INFO"].into_iter()).await
    }
}

/// Decodes a user or a password of a URL.
fn percent_decoded(text: &str) -> String {
    http::query_string::pairs(&format!("text={}", text.replace('+', "%2B")))
        .ok()
        .and_then(|pairs| pairs.into_iter().next())
        .map_or_else(|| text.to_owned(), |(_, text)| text)
}

/// Sends a command and reads a simple string or a bulk string.
async fn send_command<'a>(
    connection: &mut BufReader<TcpStream>,
    command: impl Iterator<Item = &'a str>,
) -> Result<String, SourceError> {
    let command: Vec<&str> = command.collect();
    let mut encoded = format!("*{}\r\n", command.len());
    command.iter().for_each(|word| encoded += &format!("${}\r\n{word}\r\n", word.len()));
    let error_text = |error: std::io::Error| error.to_string();
    connection.get_mut().write_all(encoded.as_bytes()).await.map_err(error_text)?;
    let mut line = Vec::new();
    connection.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await.map_err(error_text)?;
    let line = String::from_utf8_lossy(&line);
    let Some(line) = line.strip_suffix("\r\n") else { return Err("the response is not RESP".to_owned()) };
    match line.split_at_checked(1) {
        Some(("+", _)) => Ok(String::new()),
        Some(("-", why)) => Err(rejection(&command, why)),
        Some(("$", length)) => bulk_string(connection, length).await,
        _ => Err("the response is not RESP".to_owned()),
    }
}

/// Returns the text of an error response. A server may repeat the arguments of a failed command, so for `AUTH` only the
/// kind of the error is returned, without the password.
fn rejection(command: &[&str], why: &str) -> SourceError {
    match command {
        ["AUTH", ..] => format!("AUTH failed with {}", why.split(' ').next().unwrap_or_default()),
        _ => why.to_owned(),
    }
}

async fn bulk_string(connection: &mut BufReader<TcpStream>, length: &str) -> Result<String, SourceError> {
    let length = length.parse().ok().filter(|length| *length <= RESPONSE_BYTES_MAX);
    let length = length.ok_or("the response has no valid length")?;
    let mut text = vec![0; length + 2];
    connection.read_exact(&mut text).await.map_err(|error| error.to_string())?;
    text.truncate(length);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Adds the values of a response to `INFO`.
fn add_values(
    info: &str,
    rates: &mut CounterRates,
    reading: &mut Reading,
    at: Instant,
) -> Result<(), SourceError> {
    let fields: HashMap<&str, &str> =
        info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
    let number = |name: &str| fields.get(name).and_then(|value| value.parse::<f64>().ok());
    let (Some(memory), Some(clients)) = (number("used_memory"), number("connected_clients")) else {
        return Err("the response to INFO is not valid".to_owned());
    };
    reading.add("redis.memory_used", memory);
    reading.add("redis.clients", clients);
    reading.add("redis.blocked_clients", number("blocked_clients"));
    reading.add("redis.keys", keys(&fields));
    let mut rate = |name: &str| rates.per_second(name, number(name)?, at);
    let (hits, misses) = (rate("keyspace_hits"), rate("keyspace_misses"));
    reading.add("redis.commands", rate("total_commands_processed"));
    reading.add("redis.evicted", rate("evicted_keys"));
    reading.add("redis.expired", rate("expired_keys"));
    reading.add("redis.refused", rate("rejected_connections"));
    reading.add("redis.hits", hits);
    reading.add("redis.misses", misses);
    if let (Some(hits), Some(misses)) = (hits, misses) {
        // Without reads this is NaN, which `add` ignores.
        reading.add("redis.hit_share", 100.0 * hits / (hits + misses));
    }
    Ok(())
}

/// Sums up the keys of all databases, from lines such as `db0:keys=1,expires=0`.
fn keys(fields: &HashMap<&str, &str>) -> f64 {
    let is_database = |name: &str| name.strip_prefix("db").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let databases = fields.iter().filter(|(name, _)| is_database(name));
    let keys = databases
        .filter_map(|(_, value)| value.strip_prefix("keys=")?.split(',').next()?.parse::<f64>().ok());
    // Starts with 0.0, because an empty sum of floats is -0.0.
    keys.fold(0.0, |sum, keys| sum + keys)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The response of Redis 7.0, shortened.
    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\n# Clients\r\nconnected_clients:3\r\nblocked_clients:1\r\n\
        # Memory\r\nused_memory:1048576\r\n# Stats\r\ntotal_commands_processed:100\r\nrejected_connections:0\r\n\
        expired_keys:0\r\nevicted_keys:5\r\nkeyspace_hits:30\r\nkeyspace_misses:10\r\n# Keyspace\r\n\
        db0:keys=7,expires=2,avg_ttl=0\r\ndb3:keys=5,expires=0,avg_ttl=0\r\n";

    #[test]
    fn info_response_is_parsed() {
        let (mut rates, start, mut reading) = (CounterRates::default(), Instant::now(), Reading::new(0));
        add_values(INFO, &mut rates, &mut reading, start).expect("it is a response");
        let expected =
            ["redis.memory_used 1048576", "redis.clients 3", "redis.blocked_clients 1", "redis.keys 12"];
        assert_eq!(reading.summary(), expected);
        let later = INFO
            .replace("processed:100", "processed:300")
            .replace("hits:30", "hits:60")
            .replace("misses:10", "misses:20")
            .replace("evicted_keys:5", "evicted_keys:6");
        let mut reading = Reading::new(0);
        add_values(&later, &mut rates, &mut reading, start + Duration::from_secs(10))
            .expect("it is a response");
        let expected = [
            "redis.commands 20",
            "redis.evicted 0.1",
            "redis.expired 0",
            "redis.refused 0",
            "redis.hits 3",
            "redis.misses 1",
            "redis.hit_share 75",
        ];
        assert_eq!(reading.summary()[4..], expected);
        for other in ["", "PONG", "used_memory:x\r\nconnected_clients:1\r\n"] {
            assert!(add_values(other, &mut rates, &mut Reading::new(0), start).is_err(), "{other}");
        }
    }

    #[test]
    fn password_in_an_error_response_is_hidden() {
        let check = |command: &[&str], why: &str, expected: &str| {
            assert_eq!(rejection(command, why), expected, "{why}");
        };
        let repeated = "ERR unknown command `AUTH`, with args beginning with: `secret`, ";
        check(&["AUTH", "secret"], repeated, "AUTH failed with ERR");
        check(&["AUTH", "me", "secret"], "WRONGPASS invalid", "AUTH failed with WRONGPASS");
        check(&["INFO"], "NOAUTH Authentication required.", "NOAUTH Authentication required.");
    }

    #[test]
    fn urls_in_several_forms_are_parsed() {
        let check = |url: &str, expected: &str| {
            let actual = Redis::new(url).map_or_else(
                |error| error.to_string(),
                |redis| format!("{} {:?}", redis.address, redis.credentials),
            );
            assert_eq!(actual, expected, "{url}");
        };
        check("localhost:6379", r#"localhost:6379 []"#);
        check("redis://cache", r#"cache:6379 []"#);
        check("redis://:p%40ss+1@cache:7000/", r#"cache:7000 ["p@ss+1"]"#);
        check("redis://me:secret@[::1]:7000", r#"[::1]:7000 ["me", "secret"]"#);
        let invalid = "--redis: must be HOST:PORT or redis://USER:PASSWORD@HOST:PORT";
        for url in ["", "redis://", "rediss://a", "redis://a/0", "http://a"] {
            check(url, invalid);
        }
    }
}
