//! The country of an address.
//!
//! The table in the binary is made from DB-IP Lite as npm carries it. What to know about that data:
//! it is a snapshot of one month, and its packager says that the line on npm has faults and will not
//! be renewed; of a sample of IPv4 addresses it agreed with GeoLite2 on 94 in 100. An operator who
//! needs better names an .mmdb of any maker, which replaces the embedded table while the server runs.

mod mmdb;
pub mod table;

use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

pub use mmdb::MmdbError;
pub use table::{Country, parse_address};

use table::Table;

/// What a page that shows countries from the embedded table has to show as well: its licence,
/// CC-BY-4.0, asks for this text as a link to [`ATTRIBUTION_URL`].
pub const ATTRIBUTION: &str = "IP Geolocation by DB-IP";
/// Where [`ATTRIBUTION`] leads.
pub const ATTRIBUTION_URL: &str = "https://db-ip.com";

static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/countries.bin"));

/// A file of all cities in the world has about 130 MB; it is read into memory while it is loaded.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Answers from the embedded table, or from the operator's file once it has been read.
pub struct Geo {
    table: ArcSwap<Table>,
    file: Option<PathBuf>,
    /// What was last tried, good or bad, so that a bad file is reported once and not on every timer.
    tried: Mutex<Option<Version>>,
}

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Absent,
    Present { inode: u64, modified: (i64, i64), bytes: u64 },
}

/// What [`Geo::refresh`] did.
#[derive(Debug, PartialEq, Eq)]
pub enum Refreshed {
    /// There was nothing new.
    Unchanged,
    /// Look-ups now answer from the new file.
    Loaded,
}

/// Why an operator's file was not taken. Look-ups go on with the table they had.
#[derive(Debug, thiserror::Error)]
pub enum GeoError {
    /// It could not be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The operator's file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It was read and is of no use.
    #[error("{}: {error}", path.display())]
    Content {
        /// The operator's file.
        path: PathBuf,
        /// What is wrong in it.
        error: MmdbError,
    },
}

impl Geo {
    /// Answers from the embedded table. Takes no time at start: the table is used where the binary
    /// lies, and pages of it come into memory as they are asked for.
    pub fn embedded() -> Geo {
        let table = Table::from_bytes(EMBEDDED).expect("the build made it with the same code");
        Geo { table: ArcSwap::from_pointee(table), file: None, tried: Mutex::new(None) }
    }

    /// Answers from the embedded table until the first [`Geo::refresh`] has read the file.
    pub fn with_file(file: PathBuf) -> Geo {
        Geo { file: Some(file), ..Geo::embedded() }
    }

    /// The country of an address; none for private, reserved and unknown ones.
    #[inline]
    pub fn country(&self, address: IpAddr) -> Option<Country> {
        self.table.load().country(address)
    }

    /// Whether it knows no country at all, which is so when the server was built without data.
    pub fn is_empty(&self) -> bool {
        self.table.load().is_empty()
    }

    /// Reads the operator's file if it is another one than last time. Otherwise this costs one
    /// `stat`. A new file costs a second of CPU and its size in memory: not for a thread that serves.
    ///
    /// An error says what to log; it comes once for each state of the file.
    pub fn refresh(&self) -> Result<Refreshed, GeoError> {
        let Some(path) = &self.file else { return Ok(Refreshed::Unchanged) };
        let mut tried = self.tried.lock();
        let version = Version::of(path);
        if *tried == Some(version) {
            return Ok(Refreshed::Unchanged);
        }
        *tried = Some(version);
        self.table.store(Arc::new(load(path)?));
        Ok(Refreshed::Loaded)
    }

    /// [`Geo::refresh`] in a thread of its own, which logs what came of it and ends.
    pub fn refresh_in_background(self: &Arc<Geo>) -> io::Result<()> {
        let geo = Arc::clone(self);
        std::thread::Builder::new().name("geo".into()).spawn(move || geo.refresh_and_log())?;
        Ok(())
    }

    fn refresh_and_log(&self) {
        match self.refresh() {
            Ok(Refreshed::Unchanged) => {}
            Ok(Refreshed::Loaded) => tracing::info!(file = ?self.file, "country data loaded"),
            Err(error) => tracing::warn!(%error, "country data not loaded, going on with what there was"),
        }
    }
}

impl Version {
    /// A file that cannot be looked at counts as absent; reading it then says why.
    fn of(path: &Path) -> Version {
        match std::fs::metadata(path) {
            Ok(file) => Version::Present {
                inode: file.ino(),
                modified: (file.mtime(), file.mtime_nsec()),
                bytes: file.len(),
            },
            Err(_) => Version::Absent,
        }
    }
}

fn load(path: &Path) -> Result<Table, GeoError> {
    let bytes = read(path).map_err(|error| GeoError::Read { path: path.into(), error })?;
    mmdb::table_of(&bytes).map_err(|error| GeoError::Content { path: path.into(), error })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 GiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
