//! The updates: posted on time from a thread of their own, one after the other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::commands::bench::answer::Answer;

/// Stands in a body for the number of the update.
const NUMBER: &str = "{n}";
/// A server that says nothing for so long is not well.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Where an update goes, and what it says.
#[derive(Clone, Debug)]
pub struct Post {
    pub address: SocketAddr,
    /// The request up to its `Content-Length`; without it each body is a line over plain TCP.
    pub head: Option<String>,
    pub body: String,
}

/// When which update is due.
#[derive(Clone, Copy, Debug)]
pub struct Timetable {
    pub start: Instant,
    /// The number of the first update.
    pub first: u64,
    pub count: u64,
    /// Updates a second.
    pub rate: f64,
}

impl Timetable {
    /// When an update is due, if it is one of these.
    pub fn due(&self, number: u64) -> Option<Instant> {
        let index = number.checked_sub(self.first).filter(|index| *index < self.count)?;
        Some(self.start + Duration::from_secs_f64(index as f64 / self.rate))
    }
}

impl Post {
    /// A request to this path, or lines.
    pub fn to_path(address: SocketAddr, host: &str, path: &str, key: Option<&str>, body: String) -> Post {
        let authorization = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{authorization}Content-Length: "
        );
        Post { address, head: Some(head), body }
    }

    /// Posts the whole timetable in a thread of its own. Each update has to be taken before the next one is posted;
    /// one that is refused ends it.
    pub fn begin(&self, timetable: Timetable) -> anyhow::Result<JoinHandle<anyhow::Result<()>>> {
        let stream =
            TcpStream::connect(self.address).with_context(|| format!("connecting to {}", self.address))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let post = self.clone();
        let thread = std::thread::Builder::new().name("updates".into());
        thread.spawn(move || post.all(stream, &timetable)).context("starting a thread")
    }

    fn all(&self, mut stream: TcpStream, timetable: &Timetable) -> anyhow::Result<()> {
        for number in timetable.first..timetable.first + timetable.count {
            let due = timetable.due(number).context("it is one of these")?;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            stream.write_all(self.message(number).as_bytes()).context("posting an update")?;
            if self.head.is_some() {
                wait_until_taken(&mut stream, number)?;
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

fn wait_until_taken(stream: &mut TcpStream, number: u64) -> anyhow::Result<()> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut part).context("reading the answer to an update")?;
        ensure!(read > 0, "the server closed the connection that updates are posted over");
        bytes.extend_from_slice(&part[..read]);
        let Ok(answer) = Answer::read(&bytes, false) else {
            bail!("update {number} got an answer that is not HTTP")
        };
        if let Some(answer) = answer {
            let said = String::from_utf8_lossy(&bytes[answer.body]).trim().to_owned();
            ensure!(
                (200..300).contains(&answer.status),
                "update {number} was refused with {}: {said}",
                answer.status
            );
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_due_by_its_number_alone() {
        let start = Instant::now();
        let timetable = Timetable { start, first: 11, count: 5, rate: 4.0 };
        let due = |number| timetable.due(number).map(|due| due.duration_since(start).as_millis());
        assert_eq!(
            [due(10), due(11), due(13), due(15), due(16)],
            [None, Some(0), Some(500), Some(1_000), None]
        );
    }

    #[test]
    fn a_body_says_the_number_of_the_update() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        let post = Post::to_path(address, "h", "/p", Some("k"), r#"{"total":{n}}"#.into());
        let message = post.message(42);
        assert!(message.starts_with("POST /p HTTP/1.1\r\nHost: h\r\n"), "{message}");
        assert!(
            message.ends_with("Authorization: Bearer k\r\nContent-Length: 12\r\n\r\n{\"total\":42}"),
            "{message}"
        );
        let line = Post { head: None, ..post };
        assert_eq!(line.message(7), "{\"total\":7}\n");
    }
}
