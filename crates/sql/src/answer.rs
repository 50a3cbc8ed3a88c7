//! A worker and its answer: started, read, ended.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::{Limits, SqlError};
use crate::protocol::{
    CANCEL, Column, QUERY, Query, Reply, SETUP, Setup, Summary, frame_header, parse_header,
};
use crate::workers::Places;

/// How long a worker may take to obey before it is killed.
const GRACE: Duration = Duration::from_secs(1);
/// What is kept of a worker's last words.
const STDERR_BYTES_MAX: u64 = 4 << 10;

/// How a worker ended, and what it wrote to standard error.
type End = (io::Result<ExitStatus>, String);

/// Waits for a worker to end, and ends it when it is late or its answer is not wanted any more. Its places are free
/// when it is gone.
async fn supervise(
    mut child: Child,
    mut stderr: ChildStderr,
    kill_at: Instant,
    abandoned: oneshot::Receiver<()>,
    report: oneshot::Sender<End>,
    places: Places,
) {
    let mut words = Vec::new();
    let status = {
        let mut last_words = (&mut stderr).take(STDERR_BYTES_MAX);
        let read = last_words.read_to_end(&mut words);
        tokio::pin!(read);
        let wait = async {
            // The end of standard error is the end of the process, or it has said enough.
            let _ = read.await;
            child.wait().await
        };
        tokio::select! {
            status = wait => Some(status),
            _ = abandoned => None,
            () = sleep_until(kill_at) => None,
        }
    };
    let status = match status {
        Some(status) => status,
        None => match child.start_kill() {
            Ok(()) => child.wait().await,
            Err(error) => Err(error),
        },
    };
    drop(places);
    // The answer may be gone already.
    let _ = report.send((status, String::from_utf8_lossy(&words).trim().to_owned()));
}

/// The answer of a worker. Dropping it kills the worker.
pub struct SqlAnswer {
    columns: Vec<Column>,
    summary: Option<Summary>,
    limits: Limits,
    deadline: Instant,
    pid: u32,
    stdin: ChildStdin,
    stdout: ChildStdout,
    end: Option<oneshot::Receiver<End>>,
    /// The supervisor sees when this is dropped.
    _abandon: oneshot::Sender<()>,
}

impl SqlAnswer {
    /// Starts a worker that has no task yet.
    pub(crate) fn start(
        worker: &Path,
        places: Places,
        deadline: Instant,
        limits: Limits,
    ) -> Result<SqlAnswer, SqlError> {
        let mut child = Command::new(worker)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| SqlError::WorkerMissing { path: worker.to_owned(), source })?;
        let pid = child.id().unwrap_or(0);
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, child.stderr.take()) else {
            return Err(SqlError::WorkerDied("it has no pipes".to_owned()));
        };
        let (abandon, abandoned) = oneshot::channel();
        let (report, end) = oneshot::channel();
        tokio::spawn(supervise(child, stderr, deadline + GRACE, abandoned, report, places));
        Ok(SqlAnswer {
            columns: Vec::new(),
            summary: None,
            limits,
            deadline,
            pid,
            stdin,
            stdout,
            end: Some(end),
            _abandon: abandon,
        })
    }

    /// Fixes for good what the worker can see.
    pub(crate) async fn set_up(&mut self, setup: &Setup) -> Result<(), SqlError> {
        self.send_json(SETUP, setup).await
    }

    /// Sends the query, and returns when its first rows are there.
    pub(crate) async fn ask(&mut self, query: &Query) -> Result<(), SqlError> {
        self.send_json(QUERY, query).await?;
        match self.read().await? {
            Reply::Columns(columns) => {
                self.columns = columns;
                Ok(())
            }
            other => Err(self.unexpected(other)),
        }
    }

    /// Returns the process id of the worker.
    pub fn worker_pid(&self) -> u32 {
        self.pid
    }

    /// Returns the columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the next piece of the encoded answer. `None` after the last; then the answer is whole.
    ///
    /// # Errors
    ///
    /// Those of [`SqlError`]. What was returned before is not a whole answer.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SqlError> {
        if self.summary.is_some() {
            return Ok(None);
        }
        match self.read().await? {
            Reply::Data(bytes) => Ok(Some(bytes.into())),
            Reply::Done(summary) => {
                self.summary = Some(summary);
                Ok(None)
            }
            other => Err(self.unexpected(other)),
        }
    }

    /// Returns how many rows the answer has, and whether it was cut. `None` until [`next`](SqlAnswer::next) has returned
    /// the end.
    pub fn summary(&self) -> Option<Summary> {
        self.summary
    }

    /// Asks the worker to end its query, and kills it if it has not ended a second later.
    pub async fn cancel(mut self) {
        let obey = async {
            self.send(CANCEL, &[]).await?;
            // What is on its way is read, so that the worker does not wait for room in the pipe.
            while self.next().await?.is_some() {}
            Ok::<(), SqlError>(())
        };
        // However that ends, the worker has no one to answer to.
        let _ = timeout(GRACE, obey).await;
    }

    async fn send_json(&mut self, kind: u8, value: &impl Serialize) -> Result<(), SqlError> {
        let payload = serde_json::to_vec(value).map_err(|error| SqlError::WorkerDied(error.to_string()))?;
        self.send(kind, &payload).await
    }

    async fn send(&mut self, kind: u8, payload: &[u8]) -> Result<(), SqlError> {
        let header = frame_header(kind, payload).ok_or_else(|| SqlError::Statement {
            message: "the statement or the list of files is too long".to_owned(),
            position: None,
        })?;
        let sent = async {
            self.stdin.write_all(&header).await?;
            self.stdin.write_all(payload).await?;
            self.stdin.flush().await
        };
        match sent.await {
            Ok(()) => Ok(()),
            // A worker that has failed does not read on, but it has said why.
            Err(_) => Err(match self.read().await {
                Ok(reply) => self.unexpected(reply),
                Err(error) => error,
            }),
        }
    }

    async fn read(&mut self) -> Result<Reply, SqlError> {
        let read = async {
            let mut header = [0; 5];
            self.stdout.read_exact(&mut header).await?;
            let (length, kind) = parse_header(header)?;
            let mut payload = vec![0; length];
            self.stdout.read_exact(&mut payload).await?;
            Reply::parse(kind, payload)
        };
        match read.await {
            Ok(reply) => Ok(reply),
            Err(_) => Err(self.death().await),
        }
    }

    fn unexpected(&self, reply: Reply) -> SqlError {
        match reply {
            Reply::Failure(failure) => SqlError::of(failure, &self.limits),
            _ => SqlError::WorkerDied("its frames are in the wrong order".to_owned()),
        }
    }

    /// Returns why the worker ended without an answer.
    async fn death(&mut self) -> SqlError {
        let timeout = SqlError::Timeout { ms: self.limits.timeout_ms };
        let Some(end) = self.end.take() else { return SqlError::WorkerDied("it is gone".to_owned()) };
        let Ok((status, words)) = end.await else { return timeout };
        tracing::warn!(?status, words, "a worker for SQL died");
        if Instant::now() >= self.deadline {
            return timeout;
        }
        match status {
            Ok(status) if status.signal() == Some(libc::SIGXCPU) => timeout,
            // C++ and Rust both end with this signal when there is no memory.
            Ok(status) if status.signal() == Some(libc::SIGABRT) && is_about_memory(&words) => {
                SqlError::Memory { bytes: self.limits.memory_bytes }
            }
            Ok(status) => SqlError::WorkerDied(format!("{status}: {words}")),
            Err(error) => SqlError::WorkerDied(error.to_string()),
        }
    }
}

fn is_about_memory(words: &str) -> bool {
    words.contains("bad_alloc") || words.contains("memory allocation") || words.contains("Out of Memory")
}
