//! Which queries may start a worker, and when.

use std::any::Any;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::answer::SqlAnswer;
use crate::error::{Limits, SqlError};
use crate::protocol::{Isolation, Query, Setup, SqlFormat, Tables};

/// Processor time beside that of the query, for the start.
const CPU_SECONDS_MORE: u64 = 5;
/// Queries that may wait for a worker, of all games and of one.
const WAITING_MAX: usize = 64;
const WAITING_PER_GAME_MAX: usize = 16;

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
    /// Rows after which every answer is cut.
    pub rows_max: u64,
    /// Bytes after which an answer is cut.
    pub bytes_max: u64,
    /// What isolates a worker.
    pub isolation: Isolation,
}

impl SqlSettings {
    /// Returns the defaults of a server whose program is in this folder: the worker and the library are beside it, two
    /// workers with 512 MiB and two threads each, 30 seconds, answers up to a million rows and 1 GiB.
    pub fn beside(folder: &Path) -> SqlSettings {
        SqlSettings {
            worker: folder.join("playmeter-sql"),
            library: folder.join("libduckdb.so"),
            workers_max: 2,
            memory_bytes: 512 << 20,
            threads: 2,
            timeout_max: Duration::from_secs(30),
            rows_max: 1_000_000,
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
    settings: Arc<SqlSettings>,
    workers: Arc<Semaphore>,
    games: Mutex<HashMap<String, Weak<GamePlaces>>>,
    waiting: AtomicUsize,
}

/// The workers that one game may have at once, and its queries that wait for one.
struct GamePlaces {
    workers: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// What a worker holds while it lives.
pub(crate) struct Places {
    _of_game: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
    /// Keeps the count of the game.
    _game: Arc<GamePlaces>,
    /// What the worker reads.
    _files: Option<Box<dyn Any + Send>>,
}

/// A query that may start its worker. Its time is already running.
pub struct AdmittedQuery {
    settings: Arc<SqlSettings>,
    query: SqlQuery,
    places: Places,
    deadline: Instant,
    limits: Limits,
}

impl SqlWorkers {
    /// Returns a pool that has not started anything.
    pub fn new(settings: SqlSettings) -> SqlWorkers {
        let workers = Arc::new(Semaphore::new(settings.workers_max.max(1)));
        let settings = Arc::new(settings);
        SqlWorkers { settings, workers, games: Mutex::default(), waiting: AtomicUsize::new(0) }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &SqlSettings {
        &self.settings
    }

    /// Waits until the game and the pool have a place for one more worker. What the query is to read is best prepared
    /// after that, since it may be large.
    ///
    /// # Errors
    ///
    /// If there is no library, too many queries wait already, or the time of the query is over.
    pub async fn admit(&self, game: &str, query: SqlQuery) -> Result<AdmittedQuery, SqlError> {
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
        Ok(AdmittedQuery { settings: Arc::clone(&self.settings), query, places, deadline, limits })
    }

    /// Waits until the game and the pool have a place for one more worker.
    async fn wait_for_places(
        &self,
        game: &str,
        deadline: Instant,
        limits: &Limits,
    ) -> Result<Places, SqlError> {
        let game = self.places_of(game);
        let _waiting = Waiting::enter(&self.waiting, WAITING_MAX).ok_or(SqlError::Busy)?;
        let _waiting_of_game = Waiting::enter(&game.waiting, WAITING_PER_GAME_MAX)
            .ok_or(SqlError::GameBusy { waiting_max: WAITING_PER_GAME_MAX })?;
        let wait = async {
            let of_game = Arc::clone(&game.workers).acquire_owned().await?;
            let of_all = Arc::clone(&self.workers).acquire_owned().await?;
            Ok::<_, tokio::sync::AcquireError>((of_game, of_all))
        };
        match timeout_at(deadline, wait).await {
            Ok(Ok((of_game, of_all))) => {
                Ok(Places { _of_game: of_game, _of_all: of_all, _game: Arc::clone(&game), _files: None })
            }
            // The semaphores are never closed.
            Ok(Err(_)) | Err(_) => Err(SqlError::Timeout { ms: limits.timeout_ms }),
        }
    }

    fn places_of(&self, game: &str) -> Arc<GamePlaces> {
        let mut games = self.games.lock();
        if let Some(places) = games.get(game).and_then(Weak::upgrade) {
            return places;
        }
        games.retain(|_, places| places.strong_count() > 0);
        let workers = Arc::new(Semaphore::new(self.settings.workers_max.div_ceil(2).max(1)));
        let places = Arc::new(GamePlaces { workers, waiting: AtomicUsize::new(0) });
        games.insert(game.to_owned(), Arc::downgrade(&places));
        places
    }
}

impl AdmittedQuery {
    /// Returns the time that is left for the query.
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Keeps what the worker reads until the worker is gone, however long the client takes to read the answer.
    pub fn keep(mut self, files: impl Any + Send) -> AdmittedQuery {
        self.places._files = Some(Box::new(files));
        self
    }

    /// Runs the query over these tables and returns its answer once the first rows are there. Dropping the answer, or
    /// the future before that, kills the worker.
    ///
    /// Must run on a thread that lives as long as the query: the kernel ends a worker with the thread that started it.
    ///
    /// # Errors
    ///
    /// Those of [`SqlError`].
    pub async fn run(self, tables: Tables) -> Result<SqlAnswer, SqlError> {
        let AdmittedQuery { settings, query, places, deadline, limits } = self;
        let setup = Setup {
            library: settings.library.clone(),
            tables,
            isolation: settings.isolation,
            memory_bytes: settings.memory_bytes,
            threads: settings.threads,
            cpu_seconds: (limits.timeout_ms / 1_000) * u64::from(settings.threads) + CPU_SECONDS_MORE,
        };
        let mut answer = SqlAnswer::start(&settings.worker, places, deadline, limits)?;
        answer.set_up(&setup).await?;
        let query = Query {
            sql: query.sql,
            format: query.format,
            rows_max: query.rows_max.min(settings.rows_max),
            bytes_max: settings.bytes_max,
            timeout_ms: deadline.saturating_duration_since(Instant::now()).as_millis() as u64,
        };
        answer.ask(&query).await?;
        Ok(answer)
    }
}

/// Counts a query that waits.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn enter(count: &AtomicUsize, max: usize) -> Option<Waiting<'_>> {
        let waiting = Waiting(count);
        (count.fetch_add(1, Ordering::Relaxed) < max).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
