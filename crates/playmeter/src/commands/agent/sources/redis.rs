//! Redis, by its answer to `INFO`. Two commands need no client: RESP is written here.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::bail;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::Failed;
use crate::commands::agent::rate::Meters;
use crate::commands::agent::reading::Reading;

/// An answer to `INFO` has a few kilobytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The first line of an answer.
const LINE_BYTES_MAX: u64 = 4 << 10;

/// A server and the connection to it.
pub(super) struct Redis {
    address: String,
    /// What `AUTH` is sent with; empty: it is not sent.
    credentials: Vec<String>,
    connection: Option<BufReader<TcpStream>>,
    meters: Meters,
}

impl Redis {
    /// A server at `HOST:PORT` or `redis://[[USER]:PASSWORD@]HOST[:PORT]`.
    pub(super) fn new(url: &str) -> anyhow::Result<Redis> {
        let rest = url.strip_prefix("redis://").unwrap_or(url);
        let (credentials, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        let place = place.trim_end_matches('/');
        if place.is_empty() || place.contains(['/', ' ', '?']) || url.starts_with("rediss:") {
            bail!("--redis: it is HOST:PORT or redis://USER:PASSWORD@HOST:PORT");
        }
        let has_port = place.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { place.to_owned() } else { format!("{place}:6379") };
        let credentials = match credentials.split_once(':') {
            Some((user, password)) => {
                [user, password].map(decoded).into_iter().filter(|word| !word.is_empty()).collect()
            }
            None if credentials.is_empty() => Vec::new(),
            None => vec![decoded(credentials)],
        };
        Ok(Redis { address, credentials, connection: None, meters: Meters::default() })
    }

    pub(super) async fn read(&mut self, reading: &mut Reading, at: Instant) -> Result<(), Failed> {
        let answer = self.info().await?;
        values(&answer, &mut self.meters, reading, at)
    }

    /// The next reading connects again.
    pub(super) fn close(&mut self) {
        self.connection = None;
    }

    async fn info(&mut self) -> Result<String, Failed> {
        if self.connection.is_none() {
            let stream = TcpStream::connect(&self.address).await.map_err(|error| error.to_string())?;
            let mut connection = BufReader::new(stream);
            if !self.credentials.is_empty() {
                let words = ["AUTH"].into_iter().chain(self.credentials.iter().map(String::as_str));
                ask(&mut connection, words).await?;
            }
            self.connection = Some(connection);
        }
        let connection = self.connection.as_mut().expect("it was just made");
        ask(connection, ["INFO"].into_iter()).await
    }
}

/// Passwords in URLs are percent-encoded where they have to be.
fn decoded(word: &str) -> String {
    http::query_string::pairs(&format!("word={}", word.replace('+', "%2B")))
        .ok()
        .and_then(|pairs| pairs.into_iter().next())
        .map_or_else(|| word.to_owned(), |(_, word)| word)
}

/// Sends a command as RESP has it, and reads a simple or a bulk answer.
async fn ask<'a>(
    connection: &mut BufReader<TcpStream>,
    words: impl Iterator<Item = &'a str>,
) -> Result<String, Failed> {
    let words: Vec<&str> = words.collect();
    let mut command = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| command += &format!("${}\r\n{word}\r\n", word.len()));
    let told = |error: std::io::Error| error.to_string();
    connection.get_mut().write_all(command.as_bytes()).await.map_err(told)?;
    let mut line = Vec::new();
    connection.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await.map_err(told)?;
    let line = String::from_utf8_lossy(&line);
    let Some(line) = line.strip_suffix("\r\n") else { return Err("it does not speak RESP".to_owned()) };
    match line.split_at_checked(1) {
        Some(("+", _)) => Ok(String::new()),
        Some(("-", why)) => Err(refusal(&words, why)),
        Some(("$", length)) => bulk(connection, length).await,
        _ => Err("it does not speak RESP".to_owned()),
    }
}

/// A server may repeat what it does not take, and that is a password after `AUTH`: then only the kind is told.
fn refusal(command: &[&str], why: &str) -> Failed {
    match command {
        ["AUTH", ..] => format!("it answers AUTH with {}", why.split(' ').next().unwrap_or_default()),
        _ => why.to_owned(),
    }
}

async fn bulk(connection: &mut BufReader<TcpStream>, length: &str) -> Result<String, Failed> {
    let length = length.parse().ok().filter(|length| *length <= ANSWER_BYTES_MAX);
    let length = length.ok_or("its answer has no length that is believed")?;
    let mut text = vec![0; length + 2];
    connection.read_exact(&mut text).await.map_err(|error| error.to_string())?;
    text.truncate(length);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// What the answer to `INFO` says.
fn values(info: &str, meters: &mut Meters, reading: &mut Reading, at: Instant) -> Result<(), Failed> {
    let fields: HashMap<&str, &str> =
        info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
    let number = |name: &str| fields.get(name).and_then(|value| value.parse::<f64>().ok());
    let (Some(memory), Some(clients)) = (number("used_memory"), number("connected_clients")) else {
        return Err("it answers INFO with something else".to_owned());
    };
    reading.add("redis.memory_used", memory);
    reading.add("redis.clients", clients);
    reading.add("redis.blocked_clients", number("blocked_clients"));
    reading.add("redis.keys", keys(&fields));
    let mut rate = |name: &str| meters.per_second(name, number(name)?, at);
    let (hits, misses) = (rate("keyspace_hits"), rate("keyspace_misses"));
    reading.add("redis.commands", rate("total_commands_processed"));
    reading.add("redis.evicted", rate("evicted_keys"));
    reading.add("redis.expired", rate("expired_keys"));
    reading.add("redis.refused", rate("rejected_connections"));
    reading.add("redis.hits", hits);
    reading.add("redis.misses", misses);
    if let (Some(hits), Some(misses)) = (hits, misses) {
        // Without reads there is no share, which `add` leaves out.
        reading.add("redis.hit_share", 100.0 * hits / (hits + misses));
    }
    Ok(())
}

/// `db0:keys=1,expires=0`: of all databases together.
fn keys(fields: &HashMap<&str, &str>) -> f64 {
    let is_database = |name: &str| name.strip_prefix("db").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let databases = fields.iter().filter(|(name, _)| is_database(name));
    let keys = databases
        .filter_map(|(_, value)| value.strip_prefix("keys=")?.split(',').next()?.parse::<f64>().ok());
    // Beginning with 0.0, because an empty sum of floats is -0.0.
    keys.fold(0.0, |sum, keys| sum + keys)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// What Redis 7.0 answers, shortened.
    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\n# Clients\r\nconnected_clients:3\r\nblocked_clients:1\r\n\
        # Memory\r\nused_memory:1048576\r\n# Stats\r\ntotal_commands_processed:100\r\nrejected_connections:0\r\n\
        expired_keys:0\r\nevicted_keys:5\r\nkeyspace_hits:30\r\nkeyspace_misses:10\r\n# Keyspace\r\n\
        db0:keys=7,expires=2,avg_ttl=0\r\ndb3:keys=5,expires=0,avg_ttl=0\r\n";

    #[test]
    fn info_becomes_values() {
        let (mut meters, start, mut reading) = (Meters::default(), Instant::now(), Reading::new(0));
        values(INFO, &mut meters, &mut reading, start).expect("it is an answer");
        let expected =
            ["redis.memory_used 1048576", "redis.clients 3", "redis.blocked_clients 1", "redis.keys 12"];
        assert_eq!(reading.words(), expected);
        let later = INFO
            .replace("processed:100", "processed:300")
            .replace("hits:30", "hits:60")
            .replace("misses:10", "misses:20")
            .replace("evicted_keys:5", "evicted_keys:6");
        let mut reading = Reading::new(0);
        values(&later, &mut meters, &mut reading, start + Duration::from_secs(10)).expect("it is an answer");
        let expected = [
            "redis.commands 20",
            "redis.evicted 0.1",
            "redis.expired 0",
            "redis.refused 0",
            "redis.hits 3",
            "redis.misses 1",
            "redis.hit_share 75",
        ];
        assert_eq!(reading.words()[4..], expected);
        for other in ["", "PONG", "used_memory:x\r\nconnected_clients:1\r\n"] {
            assert!(values(other, &mut meters, &mut Reading::new(0), start).is_err(), "{other}");
        }
    }

    #[test]
    fn a_password_that_a_server_repeats_is_not_told() {
        let check = |command: &[&str], why: &str, expected: &str| {
            assert_eq!(refusal(command, why), expected, "{why}");
        };
        let repeated = "ERR unknown command `AUTH`, with args beginning with: `secret`, ";
        check(&["AUTH", "secret"], repeated, "it answers AUTH with ERR");
        check(&["AUTH", "me", "secret"], "WRONGPASS invalid", "it answers AUTH with WRONGPASS");
        check(&["INFO"], "NOAUTH Authentication required.", "NOAUTH Authentication required.");
    }

    #[test]
    fn a_server_is_named_in_several_forms() {
        let check = |url: &str, expected: &str| {
            let told = Redis::new(url).map_or_else(
                |error| error.to_string(),
                |redis| format!("{} {:?}", redis.address, redis.credentials),
            );
            assert_eq!(told, expected, "{url}");
        };
        check("localhost:6379", r#"localhost:6379 []"#);
        check("redis://cache", r#"cache:6379 []"#);
        check("redis://:p%40ss+1@cache:7000/", r#"cache:7000 ["p@ss+1"]"#);
        check("redis://me:secret@[::1]:7000", r#"[::1]:7000 ["me", "secret"]"#);
        let wrong = "--redis: it is HOST:PORT or redis://USER:PASSWORD@HOST:PORT";
        for url in ["", "redis://", "rediss://a", "redis://a/0", "http://a"] {
            check(url, wrong);
        }
    }
}
