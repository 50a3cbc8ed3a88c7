//! What the server and a worker say to each other over the worker's standard input and output.
//!
//! A frame is its length in bytes as a little-endian `u32`, then one byte for its kind, then that many bytes less one.
//! A worker reads one [`Setup`], which fixes for good what it can see, then queries, one after the other. It answers each
//! with [`Columns`](Reply::Columns), any number of [`Data`](Reply::Data) and one [`Done`](Reply::Done), or with a
//! [`Failure`](Reply::Failure) at any point. [`CANCEL`] ends the query that runs; the end of its input ends the worker.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The first frame: JSON of [`Setup`].
pub const SETUP: u8 = 1;
/// A query: JSON of [`Query`].
pub const QUERY: u8 = 2;
/// Ends the query with a failure of kind [`FailureKind::Cancelled`].
pub const CANCEL: u8 = 3;

const COLUMNS: u8 = 1;
const DATA: u8 = 2;
const DONE: u8 = 3;
const FAILURE: u8 = 4;

/// Largest frame either side accepts. Data is cut well below it; a setup with 20,000 files fits.
pub const FRAME_BYTES_MAX: usize = 8 << 20;
/// Size at which a worker sends what it has encoded.
pub const DATA_BYTES: usize = 64 << 10;

/// How an answer is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SqlFormat {
    /// One document: `{"columns": [{"name", "type"}], "rows": [[...]], "truncated": false}`.
    #[default]
    Json,
    /// One JSON object per line.
    Ndjson,
    /// RFC 4180 with a header; texts that a spreadsheet would run are neutralised.
    Csv,
    /// The streaming format of Arrow IPC.
    Arrow,
}

/// What isolates a worker from the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Private mount and network namespaces and Landlock; without either of them the query is refused.
    #[default]
    Required,
    /// Landlock alone; without it the query is refused.
    Landlock,
    /// Namespaces alone; without them the query is refused.
    Namespaces,
    /// As `Required`, but a machine that has neither runs the query all the same.
    Optional,
}

/// The encoding of a file with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// One JSON object per line.
    Ndjson,
}

/// A file with rows of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableFile {
    /// Where it is.
    pub path: PathBuf,
    /// How it is encoded.
    pub format: FileFormat,
}

/// The files of the tables of one game.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tables {
    /// Raw events: files of the archive, and files with events that are not yet in it. Lines of NDJSON have the
    /// fields of the columns, `ts` and `received` in RFC 3339 and all properties in the object `props`.
    pub events: Vec<TableFile>,
    /// Sessions; derived from the events if there is no file.
    pub sessions: Vec<TableFile>,
    /// Players; derived from the events if there is no file.
    pub players: Vec<TableFile>,
    /// Scores; an empty table if there is no file.
    pub scores: Vec<TableFile>,
    /// Players whose events in Parquet are hidden, by the values of the column `player_hash`.
    #[serde(default)]
    pub hidden_players: Vec<u64>,
}

/// What a worker may see and use.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// DuckDB's library.
    pub library: PathBuf,
    /// The files that queries may read.
    pub tables: Tables,
    /// What isolates the worker.
    pub isolation: Isolation,
    /// Memory that DuckDB may use.
    pub memory_bytes: u64,
    /// Threads that DuckDB may use.
    pub threads: u32,
    /// Processor time after which the kernel ends the worker.
    pub cpu_seconds: u64,
}

/// A query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Query {
    /// The statement.
    pub sql: String,
    /// How the answer is encoded.
    pub format: SqlFormat,
    /// Rows after which the answer is cut.
    pub rows_max: u64,
    /// Bytes after which the answer is cut, at the next row.
    pub bytes_max: u64,
    /// Time after which the query ends with a failure.
    pub timeout_ms: u64,
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type as SQL writes it.
    #[serde(rename = "type")]
    pub sql_type: String,
}

/// The end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Rows in the answer.
    pub rows: u64,
    /// True if the query has more rows than the answer.
    pub truncated: bool,
}

/// Why a worker cannot answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The library cannot be loaded or is of another version.
    Library,
    /// The kernel offers none of what isolates a worker.
    Isolation,
    /// A file of the game cannot be read.
    Files,
    /// The statement is wrong: syntax, names, types, or a value that cannot be computed.
    Statement,
    /// The statement does more than read the tables.
    NotAllowed,
    /// The time limit is reached.
    Timeout,
    /// The memory limit is reached.
    Memory,
    /// The client has cancelled the query.
    Cancelled,
    /// A fault of the worker or of the library.
    Internal,
}

/// A failure of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// What is wrong, for the author of the statement.
    pub message: String,
    /// The place in the statement: bytes before the mistake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
}

impl Failure {
    /// Returns a failure without a position.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), position: None }
    }
}

/// A frame from a worker.
#[derive(Debug)]
pub enum Reply {
    /// The columns of the answer. The first frame of an answer; sent when the first rows are there.
    Columns(Vec<Column>),
    /// A piece of the encoded answer.
    Data(Vec<u8>),
    /// The answer is complete.
    Done(Summary),
    /// There is no answer, or what was sent of it is not whole.
    Failure(Failure),
}

impl Reply {
    /// Parses a frame.
    ///
    /// # Errors
    ///
    /// If the kind is unknown or the JSON is not of that kind.
    pub fn parse(kind: u8, payload: Vec<u8>) -> io::Result<Reply> {
        Ok(match kind {
            COLUMNS => Reply::Columns(serde_json::from_slice(&payload)?),
            DATA => Reply::Data(payload),
            DONE => Reply::Done(serde_json::from_slice(&payload)?),
            FAILURE => Reply::Failure(serde_json::from_slice(&payload)?),
            kind => return Err(io::Error::other(format!("a frame has the unknown kind {kind}"))),
        })
    }

    /// Writes this reply as one frame.
    ///
    /// # Errors
    ///
    /// If the server has closed the connection.
    pub fn write(&self, output: &mut impl Write) -> io::Result<()> {
        match self {
            Reply::Columns(columns) => write_frame(output, COLUMNS, &serde_json::to_vec(columns)?),
            Reply::Data(bytes) => write_frame(output, DATA, bytes),
            Reply::Done(summary) => write_frame(output, DONE, &serde_json::to_vec(summary)?),
            Reply::Failure(failure) => write_frame(output, FAILURE, &serde_json::to_vec(failure)?),
        }
    }
}

/// Returns the header of a frame: its length and kind. `None` if the payload is too large.
pub fn frame_header(kind: u8, payload: &[u8]) -> Option<[u8; 5]> {
    let length =
        u32::try_from(payload.len() + 1).ok().filter(|length| *length as usize <= FRAME_BYTES_MAX)?;
    let [a, b, c, d] = length.to_le_bytes();
    Some([a, b, c, d, kind])
}

/// Returns the length of a payload and its kind from a header.
///
/// # Errors
///
/// If the frame is empty or too large.
pub fn parse_header(header: [u8; 5]) -> io::Result<(usize, u8)> {
    let [length @ .., kind] = header;
    let length = u32::from_le_bytes(length) as usize;
    if length == 0 || length > FRAME_BYTES_MAX {
        return Err(io::Error::other(format!("a frame has {length} bytes")));
    }
    Ok((length - 1, kind))
}

/// Writes one frame.
///
/// # Errors
///
/// If the payload is too large or the other side has closed the connection.
pub fn write_frame(output: &mut impl Write, kind: u8, payload: &[u8]) -> io::Result<()> {
    let header = frame_header(kind, payload).ok_or_else(|| io::Error::other("a frame is too large"))?;
    output.write_all(&header)?;
    output.write_all(payload)?;
    output.flush()
}

/// Reads one frame. `None` at the end of the input.
///
/// # Errors
///
/// If the input ends inside a frame or the frame is too large.
pub fn read_frame(input: &mut impl Read) -> io::Result<Option<(u8, Vec<u8>)>> {
    let mut header = [0; 5];
    match input.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let (length, kind) = parse_header(header)?;
    let mut payload = vec![0; length];
    input.read_exact(&mut payload)?;
    Ok(Some((kind, payload)))
}
