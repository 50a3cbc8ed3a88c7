//! DuckDB in the process of the test, without any restriction: it writes the files that the workers read.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use libloading::Library;

type Open = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> u32;
type Connect = unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> u32;
type Query = unsafe extern "C" fn(*mut c_void, *const c_char, *mut [u64; 6]) -> u32;
type ResultError = unsafe extern "C" fn(*mut [u64; 6]) -> *const c_char;
type Destroy = unsafe extern "C" fn(*mut [u64; 6]);

/// Returns the library that `make sql-library` installs.
pub(crate) fn library() -> PathBuf {
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../sql/node_modules/@duckdb/node-bindings-linux-{arch}/libduckdb.so"));
    assert!(path.is_file(), "{} is missing; run `make sql-library`", path.display());
    path
}

/// A database in memory.
pub(crate) struct DuckDb {
    library: Library,
    connection: *mut c_void,
}

impl DuckDb {
    pub(crate) fn open() -> DuckDb {
        // SAFETY: the declarations above are those of DuckDB's C API.
        unsafe {
            let library = Library::new(library()).expect("the library loads");
            let (mut database, mut connection) = (null_mut(), null_mut());
            let open = library.get::<Open>("duckdb_open").expect("a function");
            assert_eq!(open(c":memory:".as_ptr(), &mut database), 0, "a database opens");
            let connect = library.get::<Connect>("duckdb_connect").expect("a function");
            assert_eq!(connect(database, &mut connection), 0, "a connection opens");
            DuckDb { library, connection }
        }
    }

    /// Runs a statement that succeeds.
    pub(crate) fn run(&self, sql: &str) {
        if let Err(error) = self.execute(sql) {
            panic!("{sql}: {error}");
        }
    }

    /// Runs a statement and returns whether it succeeded.
    pub(crate) fn try_run(&self, sql: &str) -> bool {
        self.execute(sql).is_ok()
    }

    fn execute(&self, sql: &str) -> Result<(), String> {
        let text = CString::new(sql).expect("no zero byte");
        let mut result = [0; 6];
        // SAFETY: as above.
        unsafe {
            let query = self.library.get::<Query>("duckdb_query").expect("a function");
            let error = self.library.get::<ResultError>("duckdb_result_error").expect("a function");
            let destroy = self.library.get::<Destroy>("duckdb_destroy_result").expect("a function");
            let outcome = match query(self.connection, text.as_ptr(), &mut result) != 0 {
                true => Err(CStr::from_ptr(error(&mut result)).to_string_lossy().into_owned()),
                false => Ok(()),
            };
            destroy(&mut result);
            outcome
        }
    }
}
