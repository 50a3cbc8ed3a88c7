//! DuckDB's C API, loaded at run time: the functions that the worker uses and their types.
//!
//! `libduckdb-sys` links the library when the program is built (or builds it, in 2,800 CPU-seconds), so a server without
//! the library would not start its worker at all; its `loadable-extension` feature is for code that DuckDB loads. The
//! functions here are few and part of the stable C API, so they are declared by hand.

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

use libloading::Library;
use sql::protocol::{Failure, FailureKind};

pub(crate) type Database = *mut c_void;
pub(crate) type Connection = *mut c_void;
pub(crate) type Config = *mut c_void;
pub(crate) type Extracted = *mut c_void;
pub(crate) type Prepared = *mut c_void;
pub(crate) type Chunk = *mut c_void;
pub(crate) type Vector = *mut c_void;
pub(crate) type LogicalType = *mut c_void;
pub(crate) type ArrowOptions = *mut c_void;
pub(crate) type ErrorData = *mut c_void;
pub(crate) type State = u32;

/// What a function returns when it succeeds.
pub(crate) const SUCCESS: State = 0;
/// The versions of the library that this worker was tested with.
const VERSION: &str = "v1.5.";
/// The variable in which DuckDB's allocator, jemalloc, finds options.
const ALLOCATOR: &str = "DUCKDB_JE_MALLOC_CONF";
/// DuckDB lets jemalloc keep freed memory for a second and its addresses forever. The limits of the process count addresses,
/// used or not, so a query would be refused although the memory in use is below every limit. Each returned addresses now;
/// memory is kept for about 100 ms, because a query that frees it often needs as much again at once.
const RETURN_FREED_MEMORY: &str = "retain:false,dirty_decay_ms:100,muzzy_decay_ms:0";

/// `duckdb_result`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct QueryResult {
    deprecated: [u64; 3],
    deprecated_pointers: [*mut c_void; 2],
    internal_data: *mut c_void,
}

impl QueryResult {
    pub(crate) const EMPTY: QueryResult = QueryResult {
        deprecated: [0; 3],
        deprecated_pointers: [std::ptr::null_mut(); 2],
        internal_data: std::ptr::null_mut(),
    };
}

/// The schema of the Arrow C data interface.
#[repr(C)]
pub(crate) struct ArrowSchema {
    pub(crate) format: *const c_char,
    pub(crate) name: *const c_char,
    pub(crate) metadata: *const c_char,
    pub(crate) flags: i64,
    pub(crate) n_children: i64,
    pub(crate) children: *mut *mut ArrowSchema,
    pub(crate) dictionary: *mut ArrowSchema,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub(crate) private_data: *mut c_void,
}

/// The array of the Arrow C data interface.
#[repr(C)]
pub(crate) struct ArrowArray {
    pub(crate) length: i64,
    pub(crate) null_count: i64,
    pub(crate) offset: i64,
    pub(crate) n_buffers: i64,
    pub(crate) n_children: i64,
    pub(crate) buffers: *mut *const c_void,
    pub(crate) children: *mut *mut ArrowArray,
    pub(crate) dictionary: *mut ArrowArray,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub(crate) private_data: *mut c_void,
}

macro_rules! api {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, without their prefix `duckdb_`.
        pub(crate) struct Api {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            unsafe fn resolve(library: &Library) -> Result<Api, Failure> {
                $(
                    // SAFETY: the declaration below has the types of the library's header.
                    let $name = *unsafe { library.get(concat!("duckdb_", stringify!($name))) }.map_err(|_| {
                        unsuitable(concat!("has no function duckdb_", stringify!($name)))
                    })?;
                )*
                Ok(Api { $($name),* })
            }
        }
    };
}

api! {
    create_config(*mut Config) -> State;
    set_config(Config, *const c_char, *const c_char) -> State;
    destroy_config(*mut Config);
    open_ext(*const c_char, *mut Database, Config, *mut *mut c_char) -> State;
    connect(Database, *mut Connection) -> State;
    interrupt(Connection);
    free(*mut c_void);
    extract_statements(Connection, *const c_char, *mut Extracted) -> u64;
    extract_statements_error(Extracted) -> *const c_char;
    destroy_extracted(*mut Extracted);
    prepare_extracted_statement(Connection, Extracted, u64, *mut Prepared) -> State;
    prepare_error(Prepared) -> *const c_char;
    prepared_statement_type(Prepared) -> u32;
    nparams(Prepared) -> u64;
    destroy_prepare(*mut Prepared);
    execute_prepared_streaming(Prepared, *mut QueryResult) -> State;
    query(Connection, *const c_char, *mut QueryResult) -> State;
    result_error(*mut QueryResult) -> *const c_char;
    destroy_result(*mut QueryResult);
    column_count(*mut QueryResult) -> u64;
    column_name(*mut QueryResult, u64) -> *const c_char;
    column_logical_type(*mut QueryResult, u64) -> LogicalType;
    fetch_chunk(QueryResult) -> Chunk;
    destroy_data_chunk(*mut Chunk);
    data_chunk_get_size(Chunk) -> u64;
    data_chunk_get_vector(Chunk, u64) -> Vector;
    vector_get_data(Vector) -> *mut c_void;
    vector_get_validity(Vector) -> *mut u64;
    list_vector_get_child(Vector) -> Vector;
    array_vector_get_child(Vector) -> Vector;
    struct_vector_get_child(Vector, u64) -> Vector;
    get_type_id(LogicalType) -> u32;
    logical_type_get_alias(LogicalType) -> *mut c_char;
    destroy_logical_type(*mut LogicalType);
    decimal_width(LogicalType) -> u8;
    decimal_scale(LogicalType) -> u8;
    decimal_internal_type(LogicalType) -> u32;
    enum_internal_type(LogicalType) -> u32;
    enum_dictionary_size(LogicalType) -> u32;
    enum_dictionary_value(LogicalType, u64) -> *mut c_char;
    list_type_child_type(LogicalType) -> LogicalType;
    array_type_child_type(LogicalType) -> LogicalType;
    array_type_array_size(LogicalType) -> u64;
    map_type_key_type(LogicalType) -> LogicalType;
    map_type_value_type(LogicalType) -> LogicalType;
    struct_type_child_count(LogicalType) -> u64;
    struct_type_child_name(LogicalType, u64) -> *mut c_char;
    struct_type_child_type(LogicalType, u64) -> LogicalType;
    union_type_member_count(LogicalType) -> u64;
    union_type_member_name(LogicalType, u64) -> *mut c_char;
    union_type_member_type(LogicalType, u64) -> LogicalType;
    connection_get_arrow_options(Connection, *mut ArrowOptions);
    to_arrow_schema(
        ArrowOptions, *mut LogicalType, *mut *const c_char, u64, *mut ArrowSchema
    ) -> ErrorData;
    data_chunk_to_arrow(ArrowOptions, Chunk, *mut ArrowArray) -> ErrorData;
    error_data_message(ErrorData) -> *const c_char;
    error_data_has_error(ErrorData) -> bool;
}

impl Api {
    /// Loads the library for the rest of the process.
    ///
    /// Must run before there is a second thread: it sets a variable of the environment.
    pub(crate) fn load(path: &Path) -> Result<&'static Api, Failure> {
        // SAFETY: the worker loads the library before it starts a thread, and DuckDB has none yet.
        unsafe { std::env::set_var(ALLOCATOR, RETURN_FREED_MEMORY) };
        // SAFETY: the operator names the library; its initialisers are those of DuckDB.
        let library = unsafe { Library::new(path) }
            .map_err(|error| Failure::new(FailureKind::Library, format!("it cannot be loaded: {error}")))?;
        let library = Box::leak(Box::new(library));
        // Before the others: what is missing in another version says less than its number.
        // SAFETY: the declaration has the types of the library's header, and the function returns a constant.
        let version = unsafe {
            let version = library.get::<unsafe extern "C" fn() -> *const c_char>("duckdb_library_version");
            text(version.map_err(|_| unsuitable("has no function duckdb_library_version"))?())
        };
        if !version.starts_with(VERSION) {
            return Err(unsuitable(&format!("is version {version}; this server needs {VERSION}x")));
        }
        // SAFETY: the library stays loaded, so the functions stay valid.
        Ok(Box::leak(Box::new(unsafe { Api::resolve(library) }?)))
    }

    /// Copies a text that the library has allocated, and frees it.
    ///
    /// # Safety
    ///
    /// `text` is null or a text of this library that is not used afterwards.
    pub(crate) unsafe fn take_text(&self, pointer: *mut c_char) -> String {
        // SAFETY: as promised by the caller.
        unsafe {
            let copy = text(pointer);
            (self.free)(pointer.cast());
            copy
        }
    }
}

fn unsuitable(what: &str) -> Failure {
    Failure::new(FailureKind::Library, format!("it {what}"))
}

/// Copies a text of the library; empty if there is none.
///
/// # Safety
///
/// `pointer` is null or a text that ends with a zero byte.
pub(crate) unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: as promised by the caller.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}
