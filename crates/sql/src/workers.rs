//! Starts workers, reads their answers, ends them.

use std::collections::HashMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::error::{Limits, SqlError};
use crate::protocol::{
    CANCEL, Column, Isolation, QUERY, Query, Reply, SETUP, Setup, SqlFormat, Summary, Tables, frame_header,
    parse_header,
};

/// How long a worker may take to obey before it is killed.
const GRACE: Duration = Duration::from_secs(1);
/// Processor time beside that of the query, for the start.
const CPU_SECONDS_MORE: u64 = 5;
/// Queries that may wait for a worker.
const WAITING_MAX: usize = 64;
/// What is kept of a worker's last words.
const STDERR_BYTES_MAX: u64 = 4 << 10;

/// How workers run.
#[derive(Clone, Debug)]
pub struct SqlSettings {
    /// The program of the worker.
    pub worker: PathBuf,
    /// DuckDB's library.
    pub library: PathBuf,
    /// Workers at once.
    pub workers_max: usize,
    /// Memory that one query may use.
    pub memory_bytes: u64,
    /// Threads that one query may use.
    pub threads: u32,
    /// The longest time limit of a query.
    pub timeout_max: Duration,
    /// Bytes after which an answer is cut.
    pub bytes_max: u64,
    /// What isolates a worker.
    pub isolation: Isolation,
}

impl SqlSettings {
    /// Returns the defaults of a server whose program is in this folder: the worker and the library are beside it, two
    /// workers with 512 MiB and two threads each, 30 seconds, answers up to 1 GiB.
    pub fn beside(folder: &Path) -> SqlSettings {
        SqlSettings {
            worker: folder.join("playmeter-sql"),
            library: folder.join("libduckdb.so"),
            workers_max: 2,
            memory_bytes: 512 << 20,
            threads: 2,
            timeout_max: Duration::from_secs(30),
            bytes_max: 1 << 30,
            isolation: Isolation::Required,
        }
    }
}

/// A question in SQL.
#[derive(Clone, Debug)]
pub struct SqlQuery {
    /// One statement that reads.
    pub sql: String,
    /// How the answer is encoded.
    pub format: SqlFormat,
    /// Rows after which the answer is cut.
    pub rows_max: u64,
    /// Time for everything from waiting for a worker to the last byte; at most that of the settings.
    pub timeout: Duration,
}

/// Runs queries, each in a worker of its own.
///
/// A game has at most half of the workers at once, so that it cannot keep others from theirs.
pub struct SqlWorkers {
    settings: SqlSettings,
    workers: Arc<Semaphore>,
    games: Mutex<HashMap<String, Weak<Semaphore>>>,
    waiting: AtomicUsize,
}

impl SqlWorkers {
    /// Returns a pool that has not started anything.
    pub fn new(settings: SqlSettings) -> SqlWorkers {
        let workers = Arc::new(Semaphore::new(settings.workers_max.max(1)));
        SqlWorkers { settings, workers, games: Mutex::default(), waiting: AtomicUsize::new(0) }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &SqlSettings {
        &self.settings
    }

    /// Runs a query over these tables and returns its answer once the first rows are there. Dropping the answer, or the
    /// future before that, kills the worker.
    ///
    /// Must run on a thread that lives as long as the query: the kernel ends a worker with the thread that started it.
    ///
    /// # Errors
    ///
    /// Those of [`SqlError`].
    pub async fn query(&self, game: &str, tables: Tables, query: SqlQuery) -> Result<SqlAnswer, SqlError> {
        let allowed = query.timeout.min(self.settings.timeout_max);
        let deadline = Instant::now() + allowed;
        let limits = Limits {
            library: self.settings.library.clone(),
            timeout_ms: allowed.as_millis() as u64,
            memory_bytes: self.settings.memory_bytes,
        };
        if !self.settings.library.is_file() {
            return Err(SqlError::LibraryMissing { path: self.settings.library.clone() });
        }
        let places = self.wait_for_places(game, deadline, &limits).await?;
        let setup = Setup {
            library: self.settings.library.clone(),
            tables,
            isolation: self.settings.isolation,
            memory_bytes: self.settings.memory_bytes,
            threads: self.settings.threads,
            cpu_seconds: allowed.as_secs() * u64::from(self.settings.threads) + CPU_SECONDS_MORE,
        };
        let mut answer = self.start(places, deadline, limits)?;
        answer.send_json(SETUP, &setup).await?;
        let query = Query {
            sql: query.sql,
            format: query.format,
            rows_max: query.rows_max,
            bytes_max: self.settings.bytes_max,
            timeout_ms: (deadline - Instant::now()).as_millis() as u64,
        };
        answer.send_json(QUERY, &query).await?;
        match answer.read().await? {
            Reply::Columns(columns) => {
                answer.columns = columns;
                Ok(answer)
            }
            other => Err(answer.unexpected(other)),
        }
    }

    /// Waits until the game and the pool have a place for one more worker.
    async fn wait_for_places(
        &self,
        game: &str,
        deadline: Instant,
        limits: &Limits,
    ) -> Result<[OwnedSemaphorePermit; 2], SqlError> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(SqlError::Busy);
        }
        let _waiting = Waiting(&self.waiting);
        let of_game = self.places_of(game);
        let wait = async {
            let game = of_game.acquire_owned().await?;
            Ok::<_, tokio::sync::AcquireError>([game, Arc::clone(&self.workers).acquire_owned().await?])
        };
        match timeout_at(deadline, wait).await {
            Ok(Ok(places)) => Ok(places),
            // The semaphores are never closed.
            Ok(Err(_)) | Err(_) => Err(SqlError::Timeout { ms: limits.timeout_ms }),
        }
    }

    fn places_of(&self, game: &str) -> Arc<Semaphore> {
        let mut games = self.games.lock();
        if let Some(places) = games.get(game).and_then(Weak::upgrade) {
            return places;
        }
        games.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(self.settings.workers_max.div_ceil(2).max(1)));
        games.insert(game.to_owned(), Arc::downgrade(&places));
        places
    }

    fn start(
        &self,
        places: [OwnedSemaphorePermit; 2],
        deadline: Instant,
        limits: Limits,
    ) -> Result<SqlAnswer, SqlError> {
        let mut child = Command::new(&self.settings.worker)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| SqlError::WorkerMissing { path: self.settings.worker.clone(), source })?;
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
}

/// Counts a query that waits.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

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
    places: [OwnedSemaphorePermit; 2],
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
