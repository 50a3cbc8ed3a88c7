//! Runs queries: reads the setup, isolates the process, answers until the input ends.

use std::io::{self, Stdout};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use sql::protocol::{
    CANCEL, DATA_BYTES, Failure, FailureKind, QUERY, Query, Reply, SETUP, Setup, SqlFormat, Summary,
    read_frame,
};

use super::arrow::ArrowEncoder;
use super::database::{Database, Interrupter, Rows};
use super::ffi::Api;
use super::rows::RowEncoder;
use super::{sandbox, statement, tables};

/// Time between two interrupts: one that comes before the query has started is lost.
const INTERRUPT_EVERY: Duration = Duration::from_millis(20);

/// Answers on standard output what standard input asks. Fails if the server has closed the connection or breaks the
/// protocol.
pub(crate) fn run() -> io::Result<()> {
    let Some((SETUP, payload)) = read_frame(&mut io::stdin().lock())? else {
        return Err(io::Error::other("the first frame is no setup"));
    };
    let setup: Setup = serde_json::from_slice(&payload)?;
    drop(payload);
    let mut stdout = io::stdout();
    let database = match open(&setup) {
        Ok(database) => database,
        Err(failure) => return Reply::Failure(failure).write(&mut stdout),
    };
    let watch = Arc::new(Watch::default());
    for query in watch.start(database.interrupter()) {
        let mut output = Output { stdout: io::stdout(), sent: 0 };
        watch.begin(Instant::now() + Duration::from_millis(query.timeout_ms));
        let answer = answer(&database, &query, &mut output);
        let reason = watch.end();
        let end = match answer {
            Ok(summary) => Reply::Done(summary),
            // An interrupted query says only that; why is known here.
            Err(Stop::Failed(failure)) => Reply::Failure(reason.unwrap_or(failure)),
            Err(Stop::Disconnected(error)) => return Err(error),
        };
        end.write(&mut stdout)?;
    }
    Ok(())
}

/// Isolates the process and opens the tables.
fn open(setup: &Setup) -> Result<Database, Failure> {
    sandbox::limit(setup, tables::all_files(&setup.tables).count() as u64)?;
    let files = sandbox::true_paths(tables::all_files(&setup.tables).map(|file| file.path.as_path()))?;
    let api = Api::load(&setup.library)?;
    // DuckDB reads the machine's limits when it opens. It has no threads yet, and has seen nothing of a query.
    let database = Database::open(api, setup)?;
    let paths = sandbox::enter(setup.isolation, &files)?;
    database.restrict(setup, &paths)?;
    Ok(database)
}

/// Why there is no whole answer.
enum Stop {
    Failed(Failure),
    Disconnected(io::Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Disconnected(error)
    }
}

fn answer(database: &Database, query: &Query, output: &mut Output) -> Result<Summary, Stop> {
    let statement = statement::prepare(database, &query.sql)?;
    let rows = statement.execute()?;
    encode(query, database, rows, output)
}

/// Sends the rows of a query.
fn encode(
    query: &Query,
    database: &Database,
    mut rows: Rows<'_>,
    output: &mut Output,
) -> Result<Summary, Stop> {
    // The first rows are computed before anything is sent, so that most failures are not inside an answer.
    let mut chunk = rows.next_chunk()?;
    let columns = rows.columns();
    let mut encoder = match query.format {
        SqlFormat::Arrow => Encoder::Arrow(ArrowEncoder::new(database, &mut rows, &columns)?),
        format => Encoder::Rows(RowEncoder::new(format, &columns)),
    };
    let mut out = String::new();
    match &mut encoder {
        Encoder::Arrow(encoder) => {
            Reply::Columns(columns).write(&mut output.stdout)?;
            output.send(encoder.schema())?;
        }
        Encoder::Rows(encoder) => {
            encoder.start(&mut out, &columns);
            Reply::Columns(columns).write(&mut output.stdout)?;
        }
    }
    let mut summary = Summary { rows: 0, truncated: false };
    'rows: while let Some(some) = chunk {
        let left = usize::try_from(query.rows_max - summary.rows).unwrap_or(usize::MAX);
        match &mut encoder {
            Encoder::Arrow(encoder) if output.sent < query.bytes_max => {
                let count = some.rows().min(left);
                if count > 0 {
                    output.send(&encoder.batch(&some, count)?)?;
                }
                summary.rows += count as u64;
                summary.truncated = count < some.rows();
            }
            Encoder::Arrow(_) => summary.truncated = some.rows() > 0,
            Encoder::Rows(encoder) => {
                let values = rows.values(&some);
                for row in 0..some.rows() {
                    if row == left || output.sent + out.len() as u64 > query.bytes_max {
                        summary.truncated = true;
                        break 'rows;
                    }
                    encoder.row(&mut out, &values, row);
                    summary.rows += 1;
                    if out.len() >= DATA_BYTES {
                        output.send(out.as_bytes())?;
                        out.clear();
                    }
                }
            }
        }
        if summary.truncated {
            break;
        }
        chunk = rows.next_chunk()?;
    }
    match &mut encoder {
        Encoder::Arrow(encoder) => output.send(encoder.end()?)?,
        Encoder::Rows(encoder) => {
            encoder.end(&mut out, &summary);
            output.send(out.as_bytes())?;
        }
    }
    Ok(summary)
}

enum Encoder {
    Rows(RowEncoder),
    Arrow(ArrowEncoder),
}

/// Standard output.
struct Output {
    stdout: Stdout,
    sent: u64,
}

impl Output {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sent += bytes.len() as u64;
        // One large value is sent in several frames.
        bytes
            .chunks(16 * DATA_BYTES)
            .try_for_each(|piece| Reply::Data(piece.to_vec()).write(&mut self.stdout))
    }
}

/// Ends a query when its time is over or the server says so.
#[derive(Default)]
struct Watch {
    running: Mutex<Option<Running>>,
    changed: Condvar,
}

struct Running {
    deadline: Instant,
    /// Why the query is to end.
    reason: Option<Failure>,
}

impl Watch {
    /// Starts the threads that read the input and look at the clock, and returns the queries. The end of the input ends
    /// the process.
    fn start(self: &Arc<Watch>, interrupter: Interrupter) -> Receiver<Query> {
        let (queries, received) = sync_channel(1);
        let watch = Arc::clone(self);
        thread::spawn(move || {
            let error = watch.read(&queries).err();
            if let Some(error) = &error {
                eprintln!("{error}");
            }
            exit(error.is_some().into());
        });
        let watch = Arc::clone(self);
        thread::spawn(move || watch.interrupt(&interrupter));
        received
    }

    fn read(&self, queries: &SyncSender<Query>) -> io::Result<()> {
        while let Some((kind, payload)) = read_frame(&mut io::stdin().lock())? {
            match kind {
                QUERY => queries.send(serde_json::from_slice(&payload)?).map_err(io::Error::other)?,
                CANCEL => {
                    if let Some(running) = &mut *self.running.lock() {
                        running.reason =
                            Some(Failure::new(FailureKind::Cancelled, "the query was cancelled"));
                    }
                    self.changed.notify_all();
                }
                kind => return Err(io::Error::other(format!("a frame has the unknown kind {kind}"))),
            }
        }
        Ok(())
    }

    fn interrupt(&self, interrupter: &Interrupter) {
        let mut running = self.running.lock();
        loop {
            match &mut *running {
                None => self.changed.wait(&mut running),
                Some(Running { reason: Some(_), .. }) => {
                    interrupter.interrupt();
                    self.changed.wait_for(&mut running, INTERRUPT_EVERY);
                }
                Some(Running { deadline, reason }) if *deadline <= Instant::now() => {
                    *reason = Some(Failure::new(FailureKind::Timeout, "the time limit is reached"));
                }
                Some(Running { deadline, .. }) => {
                    let deadline = *deadline;
                    self.changed.wait_until(&mut running, deadline);
                }
            }
        }
    }

    fn begin(&self, deadline: Instant) {
        *self.running.lock() = Some(Running { deadline, reason: None });
        self.changed.notify_all();
    }

    /// Returns why the query had to end, if it had to.
    fn end(&self) -> Option<Failure> {
        self.running.lock().take().and_then(|running| running.reason)
    }
}

/// Ends the process at once. Threads of DuckDB may still run, so nothing is torn down.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: the function has no preconditions.
    unsafe { libc::_exit(code) }
}
