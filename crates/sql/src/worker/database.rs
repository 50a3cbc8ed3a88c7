//! An in-memory database of DuckDB behind a safe interface.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;

use serde::Deserialize;
use sql::protocol::{Column, Failure, FailureKind, Setup};

use super::ffi::{self, Api, ArrowOptions, Chunk, Connection, LogicalType, QueryResult, SUCCESS};
use super::tables;
use super::types::Type;
use super::vector::Values;

/// A database with one connection.
pub(crate) struct Database {
    pub(crate) api: &'static Api,
    connection: Connection,
}

impl Database {
    /// Opens a database that can use nothing but memory.
    pub(crate) fn open(api: &'static Api, setup: &Setup) -> Result<Database, Failure> {
        let memory = format!("{}B", setup.memory_bytes);
        let settings = [
            // More than one are started by `restrict`, inside of the sandbox.
            ("threads", "1"),
            ("memory_limit", &memory),
            ("temp_directory", ""),
            ("extension_directory", ""),
            ("secret_directory", ""),
            ("home_directory", ""),
            ("allow_persistent_secrets", "false"),
            ("autoinstall_known_extensions", "false"),
            ("autoload_known_extensions", "false"),
            ("allow_community_extensions", "false"),
            ("allow_unsigned_extensions", "false"),
        ];
        let (mut config, mut database, mut connection, mut error) =
            (null_mut(), null_mut(), null_mut(), null_mut());
        // SAFETY: the calls are made in the order that the API demands, with texts that end with zero.
        unsafe {
            if (api.create_config)(&mut config) != SUCCESS {
                return Err(internal("a configuration cannot be created"));
            }
            for (name, value) in settings {
                if (api.set_config)(config, c_text(name)?.as_ptr(), c_text(value)?.as_ptr()) != SUCCESS {
                    return Err(internal(format!("the setting {name} is not accepted")));
                }
            }
            if (api.open_ext)(c":memory:".as_ptr(), &mut database, config, &mut error) != SUCCESS {
                return Err(internal(api.take_text(error)));
            }
            (api.destroy_config)(&mut config);
            if (api.connect)(database, &mut connection) != SUCCESS {
                return Err(internal("a connection cannot be opened"));
            }
        }
        Ok(Database { api, connection })
    }

    /// Creates the views, then closes the database against everything that is not a read of these files.
    pub(crate) fn restrict(&self, setup: &Setup, paths: &[PathBuf]) -> Result<(), Failure> {
        self.run(&format!("SET threads = {}", setup.threads.max(1)))?;
        // Each file is bound three times: for its columns, for the view, for the query. Its footer is read once.
        self.run("SET parquet_metadata_cache = true")?;
        // What a query computes does not depend on the machine's time zone.
        self.run("SET TimeZone = 'UTC'")?;
        tables::create_views(self, &setup.tables, paths)?;
        self.run(&format!("SET allowed_paths = {}", tables::list(paths)))?;
        self.run("SET enable_external_access = false")?;
        // Errors then say where in the statement they are.
        self.run("SET errors_as_json = true")?;
        self.run("SET lock_configuration = true")
    }

    /// Runs a statement of the worker itself.
    pub(crate) fn run(&self, sql: &str) -> Result<(), Failure> {
        self.own_rows(sql).map(drop)
    }

    /// Returns the first two columns of a query of the worker itself; both are texts.
    pub(crate) fn first_two_columns(&self, sql: &str) -> Result<Vec<(String, String)>, Failure> {
        let mut rows = self.own_rows(sql)?;
        let mut found = Vec::new();
        while let Some(chunk) = rows.next_chunk()? {
            let columns = rows.values(&chunk);
            let text = |column: usize, row| columns[column].text(row).into_owned();
            found.extend((0..chunk.rows()).map(|row| (text(0, row), text(1, row))));
        }
        Ok(found)
    }

    fn own_rows(&self, sql: &str) -> Result<Rows<'_>, Failure> {
        let mut result = QueryResult::EMPTY;
        let text = c_text(sql)?;
        // SAFETY: the connection is open, and the result is freed by `Rows`.
        let state = unsafe { (self.api.query)(self.connection, text.as_ptr(), &mut result) };
        let rows = Rows { api: self.api, result, types: Vec::new() };
        match state {
            // What fails here are the files of the game: its author has not been asked yet.
            state if state != SUCCESS => Err(Failure::new(FailureKind::Files, rows.error_text())),
            _ => rows.with_types(),
        }
    }

    /// Prepares the only statement of a text.
    pub(crate) fn prepare(&self, sql: &str) -> Result<Prepared<'_>, Failure> {
        let text = c_text(sql)?;
        let (mut extracted, mut statement) = (null_mut(), null_mut());
        // SAFETY: the connection is open, and what is created is freed on every path.
        unsafe {
            let count = (self.api.extract_statements)(self.connection, text.as_ptr(), &mut extracted);
            let error = ffi::text((self.api.extract_statements_error)(extracted));
            let failure = match count {
                _ if !error.is_empty() => Some(failure_of(&error)),
                0 => Some(Failure::new(FailureKind::Statement, "there is no statement")),
                1 => None,
                _ => Some(Failure::new(FailureKind::NotAllowed, "only one statement at a time is allowed")),
            };
            let prepared = failure.is_none().then(|| {
                (self.api.prepare_extracted_statement)(self.connection, extracted, 0, &mut statement)
            });
            (self.api.destroy_extracted)(&mut extracted);
            let prepared_statement = Prepared { api: self.api, statement };
            match (failure, prepared) {
                (Some(failure), _) => Err(failure),
                (None, Some(SUCCESS)) => Ok(prepared_statement),
                (None, _) => Err(failure_of(&ffi::text((self.api.prepare_error)(statement)))),
            }
        }
    }

    /// Returns what ends the running query, from any thread.
    pub(crate) fn interrupter(&self) -> Interrupter {
        Interrupter { api: self.api, connection: self.connection }
    }

    pub(crate) fn arrow_options(&self) -> ArrowOptions {
        let mut options = null_mut();
        // SAFETY: the connection is open. The options live until the process ends.
        unsafe { (self.api.connection_get_arrow_options)(self.connection, &mut options) };
        options
    }
}

/// Ends the running query of a connection.
pub(crate) struct Interrupter {
    api: &'static Api,
    connection: Connection,
}

// SAFETY: DuckDB allows an interrupt from any thread, and the connection stays open until the process ends.
unsafe impl Send for Interrupter {}

impl Interrupter {
    pub(crate) fn interrupt(&self) {
        // SAFETY: as above.
        unsafe { (self.api.interrupt)(self.connection) }
    }
}

/// A statement that DuckDB has parsed and bound.
pub(crate) struct Prepared<'a> {
    api: &'a Api,
    statement: ffi::Prepared,
}

impl<'a> Prepared<'a> {
    /// Returns DuckDB's own type of the statement.
    pub(crate) fn kind(&self) -> u32 {
        // SAFETY: the statement is alive.
        unsafe { (self.api.prepared_statement_type)(self.statement) }
    }

    pub(crate) fn parameters(&self) -> u64 {
        // SAFETY: the statement is alive.
        unsafe { (self.api.nparams)(self.statement) }
    }

    /// Starts the query; its rows are computed as they are read.
    pub(crate) fn execute(&self) -> Result<Rows<'a>, Failure> {
        let mut result = QueryResult::EMPTY;
        // SAFETY: the statement is alive, and the result is freed by `Rows`.
        let state = unsafe { (self.api.execute_prepared_streaming)(self.statement, &mut result) };
        let rows = Rows { api: self.api, result, types: Vec::new() };
        if state == SUCCESS { rows.with_types() } else { Err(rows.failure()) }
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        // SAFETY: the statement is not used afterwards.
        unsafe { (self.api.destroy_prepare)(&mut self.statement) }
    }
}

/// The rows of a running query.
pub(crate) struct Rows<'a> {
    pub(crate) api: &'a Api,
    result: QueryResult,
    types: Vec<Type>,
}

impl<'a> Rows<'a> {
    fn with_types(mut self) -> Result<Rows<'a>, Failure> {
        let types: Result<_, _> = (0..self.count())
            // SAFETY: the result is alive; each type is read once.
            .map(|column| unsafe { Type::take(self.api, self.logical_type(column)) })
            .collect();
        self.types = types?;
        Ok(self)
    }

    fn count(&mut self) -> u64 {
        // SAFETY: the result is alive.
        unsafe { (self.api.column_count)(&mut self.result) }
    }

    /// Returns the type of a column; the caller frees it.
    pub(crate) fn logical_type(&mut self, column: u64) -> LogicalType {
        // SAFETY: the result is alive.
        unsafe { (self.api.column_logical_type)(&mut self.result, column) }
    }

    pub(crate) fn columns(&mut self) -> Vec<Column> {
        (0..self.count())
            .map(|column| Column {
                // SAFETY: the result is alive.
                name: unsafe { ffi::text((self.api.column_name)(&mut self.result, column)) },
                sql_type: self.types[column as usize].to_string(),
            })
            .collect()
    }

    /// Computes the next rows. `None` at the end.
    pub(crate) fn next_chunk(&mut self) -> Result<Option<Rowset<'a>>, Failure> {
        // SAFETY: the result is alive; the chunk is freed by `Rowset`.
        let chunk = unsafe { (self.api.fetch_chunk)(self.result) };
        if !chunk.is_null() {
            return Ok(Some(Rowset { api: self.api, chunk }));
        }
        // SAFETY: the result is alive.
        let error = unsafe { (self.api.result_error)(&mut self.result) };
        if error.is_null() { Ok(None) } else { Err(self.failure_mut()) }
    }

    /// Returns the columns of a chunk of these rows.
    pub(crate) fn values<'b>(&'b self, chunk: &'b Rowset<'_>) -> Vec<Values<'b>> {
        let column = |(index, of): (usize, &'b Type)| {
            // SAFETY: the chunk is one of this result, whose columns have these types.
            unsafe {
                let vector = (self.api.data_chunk_get_vector)(chunk.chunk, index as u64);
                Values::new(self.api, of, vector)
            }
        };
        self.types.iter().enumerate().map(column).collect()
    }

    fn error_text(mut self) -> String {
        // SAFETY: the result is alive.
        unsafe { ffi::text((self.api.result_error)(&mut self.result)) }
    }

    fn failure(mut self) -> Failure {
        self.failure_mut()
    }

    fn failure_mut(&mut self) -> Failure {
        // SAFETY: the result is alive.
        let text = unsafe { ffi::text((self.api.result_error)(&mut self.result)) };
        failure_of(&text)
    }
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        // SAFETY: the result is not used afterwards.
        unsafe { (self.api.destroy_result)(&mut self.result) }
    }
}

/// Some rows.
pub(crate) struct Rowset<'a> {
    api: &'a Api,
    pub(crate) chunk: Chunk,
}

impl Rowset<'_> {
    pub(crate) fn rows(&self) -> usize {
        // SAFETY: the chunk is alive.
        unsafe { (self.api.data_chunk_get_size)(self.chunk) as usize }
    }
}

impl Drop for Rowset<'_> {
    fn drop(&mut self) {
        // SAFETY: the chunk is not used afterwards.
        unsafe { (self.api.destroy_data_chunk)(&mut self.chunk) }
    }
}

/// An error as DuckDB writes it with `errors_as_json`.
#[derive(Deserialize)]
struct DuckError {
    exception_type: String,
    exception_message: String,
    position: Option<String>,
}

/// Reads an error of DuckDB.
fn failure_of(text: &str) -> Failure {
    let parsed = text.find('{').and_then(|start| serde_json::from_str::<DuckError>(&text[start..]).ok());
    let Some(error) = parsed else {
        let is_memory = text.contains("Out of Memory");
        let kind = if is_memory { FailureKind::Memory } else { FailureKind::Statement };
        return Failure::new(kind, text);
    };
    let kind = match error.exception_type.as_str() {
        "Out of Memory" => FailureKind::Memory,
        "INTERRUPT" | "Interrupt" => FailureKind::Cancelled,
        "Permission" => FailureKind::NotAllowed,
        "IO" => FailureKind::Files,
        "INTERNAL" | "Internal" | "FATAL" | "Fatal" => FailureKind::Internal,
        _ => FailureKind::Statement,
    };
    let mut message = error.exception_message;
    if message.contains("from expression \"props\"") {
        message.push_str(". Columns of properties are written with double quotes: \"props.name\"");
    }
    Failure { kind, message, position: error.position.and_then(|position| position.parse().ok()) }
}

fn internal(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Internal, message)
}

fn c_text(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|error| Failure {
        kind: FailureKind::Statement,
        message: "the statement has a zero byte".to_owned(),
        position: Some(error.nul_position()),
    })
}

/// Returns the message of an error of the Arrow functions.
///
/// # Safety
///
/// `error` is null or an error of this library.
pub(crate) unsafe fn arrow_failure(api: &Api, error: *mut c_void) -> Option<Failure> {
    // SAFETY: as promised by the caller.
    unsafe {
        let failed = !error.is_null() && (api.error_data_has_error)(error);
        failed.then(|| {
            failure_of(&CStr::from_ptr((api.error_data_message)(error) as *const c_char).to_string_lossy())
        })
    }
}
