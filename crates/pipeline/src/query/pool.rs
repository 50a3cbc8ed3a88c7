//! The threads that run queries, apart from those that accept events.
//!
//! They yield to all others: a thread that answers a request or writes the log gets the processor at once. The queries of
//! one game can use half of the threads.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use model::query::{QueryControl, QueryStopped};
use parking_lot::{Condvar, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tracing::{error, warn};

use crate::cohorts::SETS_BYTES_MAX;

/// How much the threads yield: with 15, busy threads of normal priority get 28 times their time.
const NICE: i32 = 15;
/// Threads per query that one game may run at once.
const THREADS_PER_SLOT: usize = 2;
/// The memory of all queries together, as a multiple of that of one.
const MEMORY_SHARES: usize = 4;
/// A query's memory is taken from that of all queries in pieces of this size.
const MEMORY_PIECE: usize = 1 << 20;
/// Queries of one game that may wait.
const WAITING_PER_GAME_MAX: usize = 64;
/// The longest wait for a thread.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// A client is answered this long after the deadline at the latest, even if its query has not noticed it yet.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// The bounds of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryLimits {
    /// The longest time that a query may run.
    pub timeout: Duration,
    /// The memory of one query, in bytes. All queries together may use four times as much.
    pub memory_bytes_max: usize,
    /// Queries of one game that run at once.
    pub per_game_max: usize,
    /// The memory of the players of all cohorts, in bytes.
    pub cohorts_bytes_max: usize,
}

impl Default for QueryLimits {
    fn default() -> QueryLimits {
        QueryLimits {
            timeout: Duration::from_secs(10),
            memory_bytes_max: 256 << 20,
            per_game_max: 4,
            cohorts_bytes_max: SETS_BYTES_MAX,
        }
    }
}

/// A query was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryRejected {
    /// The game already runs as many queries as it may.
    #[error("the game already runs {per_game_max} queries, the maximum; try again")]
    GameBusy {
        /// The limit.
        per_game_max: usize,
    },
    /// All threads are busy.
    #[error("the server already runs as many queries as it can; try again")]
    Busy,
    /// It ran for too long.
    #[error(transparent)]
    Stopped(QueryStopped),
    /// It panicked.
    #[error("the query failed")]
    Failed,
}

/// Runs queries on threads of its own, within bounds.
pub struct QueryPool {
    limits: QueryLimits,
    threads: Arc<Semaphore>,
    games: Mutex<HashMap<u32, Arc<GameSlots>>>,
    jobs: Arc<JobQueue>,
    shared: Arc<SharedBounds>,
    handles: Mutex<Vec<JoinHandle<()>>>,
}

struct GameSlots {
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
}

type Job = Box<dyn FnOnce() + Send>;

/// Jobs for which a thread is free.
#[derive(Default)]
struct JobQueue {
    state: Mutex<JobQueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct JobQueueState {
    jobs: VecDeque<Job>,
    is_stopped: bool,
}

/// What all queries have in common.
struct SharedBounds {
    memory_used: AtomicUsize,
    memory_max: usize,
    is_stopped: AtomicBool,
}

/// What a running query holds: its place among those of its game, and a thread.
struct RunningPermit {
    _game: OwnedSemaphorePermit,
    _thread: OwnedSemaphorePermit,
}

impl QueryPool {
    /// Starts the threads.
    pub fn start(limits: QueryLimits) -> io::Result<Arc<QueryPool>> {
        let threads = limits.per_game_max * THREADS_PER_SLOT;
        let jobs = Arc::new(JobQueue::default());
        let mut handles = Vec::with_capacity(threads);
        for number in 0..threads {
            let (jobs, name) = (Arc::clone(&jobs), format!("query-{number}"));
            handles.push(std::thread::Builder::new().name(name).spawn(move || jobs.run())?);
        }
        let shared = SharedBounds {
            memory_used: AtomicUsize::new(0),
            memory_max: limits.memory_bytes_max.saturating_mul(MEMORY_SHARES),
            is_stopped: AtomicBool::new(false),
        };
        Ok(Arc::new(QueryPool {
            limits,
            threads: Arc::new(Semaphore::new(threads)),
            games: Mutex::default(),
            jobs,
            shared: Arc::new(shared),
            handles: Mutex::new(handles),
        }))
    }

    /// Runs `work` on a thread of the pool. Waits up to 2 s for its turn. The query is cancelled when the returned future
    /// is dropped.
    pub async fn run<T: Send + 'static>(
        &self,
        game: u32,
        work: impl FnOnce(&dyn QueryControl) -> T + Send + 'static,
    ) -> Result<T, QueryRejected> {
        let permit = self.wait_for_permit(game).await?;
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let _cancel_on_drop = CancelOnDrop(Arc::clone(&is_cancelled));
        let control = RunningQuery::new(self.limits, is_cancelled, Arc::clone(&self.shared));
        let (sender, result) = oneshot::channel();
        self.jobs.push(Box::new(move || {
            let result = work(&control);
            drop((control, permit));
            // The receiver is gone if the client is.
            let _ = sender.send(result);
        }));
        match tokio::time::timeout(self.limits.timeout + ANSWER_GRACE, result).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_panicked)) => Err(QueryRejected::Failed),
            Err(_elapsed) => Err(QueryRejected::Stopped(self.limits.timeout())),
        }
    }

    /// Runs `work` on a thread of the pool, if the game may run another query and a thread is free.
    pub fn try_run(&self, game: u32, work: impl FnOnce() + Send + 'static) -> bool {
        let slots = self.slots(game);
        let Ok(of_game) = Arc::clone(&slots.running).try_acquire_owned() else { return false };
        let Ok(thread) = Arc::clone(&self.threads).try_acquire_owned() else { return false };
        let permit = RunningPermit { _game: of_game, _thread: thread };
        self.jobs.push(Box::new(move || {
            work();
            drop(permit);
        }));
        true
    }

    /// Returns bounds that start now, for a computation outside of the threads of the pool.
    pub fn control(&self) -> impl QueryControl + use<> {
        RunningQuery::new(self.limits, Arc::default(), Arc::clone(&self.shared))
    }

    /// Stops the queries in progress and waits for the threads. Queries that wait are not started.
    pub fn stop(&self) {
        self.end_threads();
        for handle in std::mem::take(&mut *self.handles.lock()) {
            // A panic ends a query, not its thread.
            let _ = handle.join();
        }
    }

    fn end_threads(&self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        self.jobs.stop();
    }

    async fn wait_for_permit(&self, game: u32) -> Result<RunningPermit, QueryRejected> {
        let busy = QueryRejected::GameBusy { per_game_max: self.limits.per_game_max };
        let slots = self.slots(game);
        let deadline = tokio::time::Instant::now() + WAIT_MAX;
        let of_game = match Arc::clone(&slots.running).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let _waiting = Waiting::enter(&slots.waiting).ok_or(busy)?;
                let permit = tokio::time::timeout_at(deadline, Arc::clone(&slots.running).acquire_owned());
                permit.await.map_err(|_| busy)?.expect("the semaphore is never closed")
            }
        };
        let thread = tokio::time::timeout_at(deadline, Arc::clone(&self.threads).acquire_owned()).await;
        let thread = thread.map_err(|_| QueryRejected::Busy)?.expect("the semaphore is never closed");
        Ok(RunningPermit { _game: of_game, _thread: thread })
    }

    fn slots(&self, game: u32) -> Arc<GameSlots> {
        let new = || {
            let running = Arc::new(Semaphore::new(self.limits.per_game_max));
            Arc::new(GameSlots { running, waiting: AtomicUsize::new(0) })
        };
        Arc::clone(self.games.lock().entry(game).or_insert_with(new))
    }
}

impl Drop for QueryPool {
    fn drop(&mut self) {
        self.end_threads();
    }
}

impl QueryLimits {
    fn timeout(&self) -> QueryStopped {
        QueryStopped::Timeout { seconds: self.timeout.as_secs() }
    }
}

impl JobQueue {
    /// Adds a job. Once the threads were stopped, it is dropped.
    fn push(&self, job: Job) {
        let mut state = self.state.lock();
        if !state.is_stopped {
            state.jobs.push_back(job);
            self.changed.notify_one();
        }
    }

    fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        let dropped = std::mem::take(&mut state.jobs);
        drop(state);
        drop(dropped);
        self.changed.notify_all();
    }

    fn run(&self) {
        if let Err(failure) = rustix::process::nice(NICE) {
            warn!(%failure, "queries run with the priority of all other work");
        }
        while let Some(job) = self.wait_for_job() {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                error!("a query has panicked");
            }
        }
    }

    fn wait_for_job(&self) -> Option<Job> {
        let mut state = self.state.lock();
        while !state.is_stopped {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            self.changed.wait(&mut state);
        }
        None
    }
}

/// One of the queries of a game that wait.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(waiting: &'a AtomicUsize) -> Option<Waiting<'a>> {
        let entered = Waiting(waiting);
        (waiting.fetch_add(1, Ordering::Relaxed) < WAITING_PER_GAME_MAX).then_some(entered)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The bounds of a query that runs.
struct RunningQuery {
    limits: QueryLimits,
    deadline: Instant,
    is_cancelled: Arc<AtomicBool>,
    shared: Arc<SharedBounds>,
    /// What it holds of the memory of all queries.
    held: Cell<usize>,
}

impl RunningQuery {
    fn new(limits: QueryLimits, is_cancelled: Arc<AtomicBool>, shared: Arc<SharedBounds>) -> RunningQuery {
        let deadline = Instant::now() + limits.timeout;
        RunningQuery { limits, deadline, is_cancelled, shared, held: Cell::new(0) }
    }

    fn hold(&self, bytes: usize) -> Result<(), QueryStopped> {
        let (needed, held) = (bytes.next_multiple_of(MEMORY_PIECE), self.held.get());
        if needed > held {
            let used = self.shared.memory_used.fetch_add(needed - held, Ordering::Relaxed) + needed - held;
            self.held.set(needed);
            if used > self.shared.memory_max {
                return Err(QueryStopped::Overloaded);
            }
        } else if needed < held {
            self.shared.memory_used.fetch_sub(held - needed, Ordering::Relaxed);
            self.held.set(needed);
        }
        Ok(())
    }
}

impl QueryControl for RunningQuery {
    fn check(&self, bytes: usize) -> Result<(), QueryStopped> {
        if self.is_cancelled.load(Ordering::Relaxed) || self.shared.is_stopped.load(Ordering::Relaxed) {
            return Err(QueryStopped::Cancelled);
        }
        if Instant::now() > self.deadline {
            return Err(self.limits.timeout());
        }
        if bytes > self.limits.memory_bytes_max {
            return Err(QueryStopped::Memory { bytes_max: self.limits.memory_bytes_max });
        }
        self.hold(bytes)
    }
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        self.shared.memory_used.fetch_sub(self.held.get(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const GAME: u32 = 1;

    fn pool(timeout_ms: u64) -> Arc<QueryPool> {
        let timeout = Duration::from_millis(timeout_ms);
        let limits =
            QueryLimits { timeout, memory_bytes_max: 8 << 20, per_game_max: 2, ..QueryLimits::default() };
        QueryPool::start(limits).expect("threads can be started")
    }

    fn run_async<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
            .block_on(future)
    }

    /// Starts a query that runs until the returned sender is dropped.
    fn start_blocked(pool: &QueryPool, game: u32) -> mpsc::Sender<()> {
        let (sender, receiver) = mpsc::channel::<()>();
        assert!(pool.try_run(game, move || {
            let _ = receiver.recv();
        }));
        sender
    }

    /// Runs until the control stops it.
    fn run_until_stopped(control: &dyn QueryControl) -> QueryStopped {
        loop {
            if let Err(stopped) = control.check(0) {
                return stopped;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn one_game_runs_a_few_queries_at_once_and_leaves_threads_to_others() {
        let pool = pool(60_000);
        let blocked = [start_blocked(&pool, GAME), start_blocked(&pool, GAME)];
        run_async(async {
            tokio::time::pause();
            let rejected = pool.run(GAME, |_| ()).await;
            assert_eq!(rejected, Err(QueryRejected::GameBusy { per_game_max: 2 }));
            tokio::time::resume();
            assert_eq!(pool.run(GAME + 1, |_| 7).await, Ok(7));
            drop(blocked);
            assert_eq!(pool.run(GAME, |_| 8).await, Ok(8), "it waits for its turn");
        });
    }

    #[test]
    fn queries_of_all_games_share_the_threads() {
        let pool = pool(60_000);
        let _blocked: Vec<_> = (0..4).map(|number| start_blocked(&pool, GAME + number / 2)).collect();
        run_async(async {
            tokio::time::pause();
            assert_eq!(pool.run(GAME + 2, |_| ()).await, Err(QueryRejected::Busy));
        });
    }

    #[test]
    fn query_stops_at_its_deadline() {
        let stopped = run_async(pool(20).run(GAME, run_until_stopped));
        assert_eq!(stopped, Ok(QueryStopped::Timeout { seconds: 0 }));
    }

    #[test]
    fn query_whose_client_left_is_cancelled() {
        let pool = pool(60_000);
        let (sender, stopped) = mpsc::channel();
        run_async(async {
            let work = move |control: &dyn QueryControl| sender.send(run_until_stopped(control));
            let run = pool.run(GAME, work);
            assert!(tokio::time::timeout(Duration::from_millis(5), run).await.is_err());
        });
        assert_eq!(stopped.recv(), Ok(QueryStopped::Cancelled));
    }

    #[test]
    fn memory_is_bounded_for_each_query_and_for_all_and_is_returned() {
        let pool = pool(60_000);
        let controls: Vec<_> = (0..4).map(|_| pool.control()).collect();
        assert_eq!(controls[0].check((8 << 20) + 1), Err(QueryStopped::Memory { bytes_max: 8 << 20 }));
        controls.iter().for_each(|control| assert_eq!(control.check(8 << 20), Ok(())));
        assert_eq!(pool.control().check(1), Err(QueryStopped::Overloaded));
        assert_eq!(controls[0].check(1 << 20), Ok(()));
        assert_eq!(pool.control().check(1 << 20), Ok(()));
        drop(controls);
        assert_eq!(pool.shared.memory_used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn queries_end_when_the_pool_stops() {
        let pool = pool(60_000);
        let (sender, stopped) = mpsc::channel();
        let (started, has_started) = mpsc::channel();
        let control = pool.control();
        assert!(pool.try_run(GAME, move || {
            started.send(()).expect("it is received");
            sender.send(run_until_stopped(&control)).expect("it is received");
        }));
        has_started.recv().expect("a thread is free");
        pool.stop();
        assert_eq!(stopped.recv(), Ok(QueryStopped::Cancelled));
    }

    #[test]
    fn query_that_panics_frees_its_thread() {
        let pool = pool(60_000);
        for _ in 0..8 {
            assert_eq!(
                run_async(pool.run(GAME, |_| panic!("on purpose"))),
                Err::<(), _>(QueryRejected::Failed)
            );
        }
        assert_eq!(run_async(pool.run(GAME, |_| 1)), Ok(1));
    }
}
