//! The country of an address.
//!
//! The table in the binary is built from DB-IP Lite as published on npm. That data is a snapshot of one month, and its
//! packager says that the npm package has errors and will not be updated; for a sample of IPv4 addresses it agreed with
//! GeoLite2 in 94 of 100 cases. Operators who need better data configure an .mmdb file of any vendor, which replaces
//! the embedded table while the server runs.

mod mmdb;
mod table;

use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use mmdb::MmdbError;
use table::Table;

pub use table::{Country, parse_address};

/// The attribution that a page with countries from the embedded table must show as a link to [`ATTRIBUTION_URL`]. The
/// licence, CC-BY-4.0, requires it.
pub const ATTRIBUTION: &str = "IP Geolocation by DB-IP";
/// The target of the [`ATTRIBUTION`] link.
pub const ATTRIBUTION_URL: &str = "https://db-ip.com";

static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/countries.bin"));

/// The maximum size of an operator's file, which is read into memory. A file of all cities in the world has about 130
/// MB.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Looks up countries in the embedded table, or in the operator's file once it is loaded.
pub struct Geo {
    table: ArcSwap<Table>,
    file: Option<PathBuf>,
    /// The version of the file that was last read, valid or not, so that an invalid file is reported once.
    last_read: Mutex<Option<FileVersion>>,
}

/// Distinguishes versions of a file without reading it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileVersion {
    Absent,
    Present { inode: u64, modified: (i64, i64), bytes: u64 },
}

/// The result of [`Geo::refresh`].
#[derive(Debug, PartialEq, Eq)]
enum RefreshOutcome {
    /// The file has not changed.
    Unchanged,
    /// The new file is in use.
    Loaded,
}

/// The reason why an operator's file was not loaded. The previous table stays in use.
#[derive(Debug, thiserror::Error)]
enum GeoError {
    /// The file could not be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The operator's file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The content of the file is not usable.
    #[error("{}: {error}", path.display())]
    Content {
        /// The operator's file.
        path: PathBuf,
        /// The problem with the content.
        error: MmdbError,
    },
}

impl Geo {
    /// Uses the embedded table. This costs nothing at start: the table is read in place, and its pages are loaded on
    /// demand.
    pub fn embedded() -> Geo {
        let table = Table::from_bytes(EMBEDDED).expect("the build script wrote it with the same code");
        Geo { table: ArcSwap::from_pointee(table), file: None, last_read: Mutex::new(None) }
    }

    /// Uses the embedded table until the first [`Geo::refresh`] has loaded the file.
    pub fn with_file(file: PathBuf) -> Geo {
        Geo { file: Some(file), ..Geo::embedded() }
    }

    /// Returns the country of an address; `None` for private, reserved and unknown addresses.
    #[inline]
    pub fn country(&self, address: IpAddr) -> Option<Country> {
        self.table.load().country(address)
    }

    /// Returns true if the table has no countries, because the server was built without data.
    pub fn is_empty(&self) -> bool {
        self.table.load().is_empty()
    }

    /// Loads the operator's file if it has changed. Otherwise this costs one `stat`. Loading costs a second of CPU and
    /// the file's size in memory, so do not call this on a thread that serves requests.
    ///
    /// An error is returned once for each version of the file.
    fn refresh(&self) -> Result<RefreshOutcome, GeoError> {
        let Some(path) = &self.file else { return Ok(RefreshOutcome::Unchanged) };
        let mut last_read = self.last_read.lock();
        let version = FileVersion::of(path);
        if *last_read == Some(version) {
            return Ok(RefreshOutcome::Unchanged);
        }
        *last_read = Some(version);
        self.table.store(Arc::new(load(path)?));
        Ok(RefreshOutcome::Loaded)
    }

    /// Runs [`Geo::refresh`] on a thread of its own, which logs the result and ends.
    pub fn refresh_in_background(self: &Arc<Geo>) -> io::Result<()> {
        let geo = Arc::clone(self);
        std::thread::Builder::new().name("geo".into()).spawn(move || geo.refresh_and_log())?;
        Ok(())
    }

    fn refresh_and_log(&self) {
        match self.refresh() {
            Ok(RefreshOutcome::Unchanged) => {}
            Ok(RefreshOutcome::Loaded) => tracing::info!(file = ?self.file, "country data loaded"),
            Err(error) => {
                tracing::warn!(%error, "country data could not be loaded; the previous data stays in use")
            }
        }
    }
}

impl FileVersion {
    /// A file whose metadata cannot be read counts as absent. Reading it then gives the error.
    fn of(path: &Path) -> FileVersion {
        match std::fs::metadata(path) {
            Ok(file) => FileVersion::Present {
                inode: file.ino(),
                modified: (file.mtime(), file.mtime_nsec()),
                bytes: file.len(),
            },
            Err(_) => FileVersion::Absent,
        }
    }
}

fn load(path: &Path) -> Result<Table, GeoError> {
    let bytes = read(path).map_err(|error| GeoError::Read { path: path.into(), error })?;
    mmdb::read_table(&bytes).map_err(|error| GeoError::Content { path: path.into(), error })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is larger than 1 GiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
