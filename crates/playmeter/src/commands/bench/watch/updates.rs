//! Posts the updates on schedule, one after the other, on a separate thread.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::commands::bench::response::HttpResponse;

/// The placeholder for the number of the update in a body.
const NUMBER: &str = "{n}";
/// A server that does not respond within this time has failed.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The destination and the content of the updates.
#[derive(Clone, Debug)]
pub(crate) struct UpdateTarget {
    pub(crate) address: SocketAddr,
    /// The head of the request up to the value of `Content-Length`. Without a head, each body is a line over plain TCP.
    pub(crate) head: Option<String>,
    pub(crate) body: String,
}

/// The due times of the updates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateSchedule {
    pub(crate) start: Instant,
    /// The number of the first update.
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Updates per second.
    pub(crate) rate: f64,
}

impl UpdateSchedule {
    /// Returns the due time of an update, or `None` if it is not in this schedule.
    pub(crate) fn due(&self, number: u64) -> Option<Instant> {
        let index = number.checked_sub(self.first).filter(|index| *index < self.count)?;
        Some(self.start + Duration::from_secs_f64(index as f64 / self.rate))
    }
}

impl UpdateTarget {
    /// Creates a target for requests to this path.
    pub(crate) fn to_path(
        address: SocketAddr,
        host: &str,
        path: &str,
        key: Option<&str>,
        body: String,
    ) -> UpdateTarget {
        let authorization = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{authorization}Content-Length: "
        );
        UpdateTarget { address, head: Some(head), body }
    }

    /// Starts a thread that posts all updates of a schedule. It waits for the response to an update before it posts the
    /// next one, and stops if an update is rejected.
    pub(crate) fn start(&self, schedule: UpdateSchedule) -> anyhow::Result<JoinHandle<anyhow::Result<()>>> {
        let stream =
            TcpStream::connect(self.address).with_context(|| format!("connecting to {}", self.address))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
        let target = self.clone();
        let thread = std::thread::Builder::new().name("updates".into());
        thread.spawn(move || target.post_all(stream, &schedule)).context("starting a thread")
    }

    fn post_all(&self, mut stream: TcpStream, schedule: &UpdateSchedule) -> anyhow::Result<()> {
        for number in schedule.first..schedule.first + schedule.count {
            let due = schedule.due(number).context("the number is in the schedule")?;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            stream.write_all(self.message(number).as_bytes()).context("posting an update")?;
            if self.head.is_some() {
                wait_for_response(&mut stream, number)?;
            }
        }
        Ok(())
    }

    fn message(&self, number: u64) -> String {
        let body = self.body.replace(NUMBER, &number.to_string());
        match &self.head {
            Some(head) => format!("{head}{}\r\n\r\n{body}", body.len()),
            None => format!("{body}\n"),
        }
    }
}

fn wait_for_response(stream: &mut TcpStream, number: u64) -> anyhow::Result<()> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut chunk).context("reading the response to an update")?;
        ensure!(read > 0, "the server closed the connection that updates are posted over");
        bytes.extend_from_slice(&chunk[..read]);
        let Ok(response) = HttpResponse::parse(&bytes, false) else {
            bail!("the response to update {number} is not HTTP")
        };
        if let Some(response) = response {
            let body = String::from_utf8_lossy(&bytes[response.body]).trim().to_owned();
            ensure!(
                (200..300).contains(&response.status),
                "update {number} was rejected with status {}: {body}",
                response.status
            );
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_time_only_depends_on_the_number() {
        let start = Instant::now();
        let schedule = UpdateSchedule { start, first: 11, count: 5, rate: 4.0 };
        let due = |number| schedule.due(number).map(|due| due.duration_since(start).as_millis());
        assert_eq!(
            [due(10), due(11), due(13), due(15), due(16)],
            [None, Some(0), Some(500), Some(1_000), None]
        );
    }

    #[test]
    fn body_contains_the_number_of_the_update() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        let target = UpdateTarget::to_path(address, "h", "/p", Some("k"), r#"{"total":{n}}"#.into());
        let message = target.message(42);
        assert!(message.starts_with("POST /p HTTP/1.1\r\nHost: h\r\n"), "{message}");
        assert!(
            message.ends_with("Authorization: Bearer k\r\nContent-Length: 12\r\n\r\n{\"total\":42}"),
            "{message}"
        );
        let line = UpdateTarget { head: None, ..target };
        assert_eq!(line.message(7), "{\"total\":7}\n");
    }
}
