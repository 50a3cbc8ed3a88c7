//! A disk in memory that loses power and fails on demand, for tests of this crate and of others.
//!
//! Written bytes are readable at once and durable only after a sync. A power cut keeps an arbitrary part of the rest:
//! each 512-byte sector of each write separately, in any order, and each change of names. Everything is determined by
//! the seeds, so that a failure can be reproduced.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile};

const SECTOR_BYTES: u64 = 512;

/// The disk. Clones of the handle share one disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<SimState>>,
    watcher: Arc<Mutex<Option<Watcher>>>,
}

/// Called with the disk just before it changes.
type Watcher = Box<dyn FnMut(&SimDisk) + Send>;

#[derive(Clone)]
struct SimState {
    files: Vec<FileContent>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    name_changes: Vec<NameChange>,
    operations: u64,
    fault: Option<Fault>,
    /// Ranges of files that cannot be read.
    unreadable: Vec<(usize, Range<u64>)>,
    capacity: u64,
    random: Random,
}

#[derive(Clone, Default)]
struct FileContent {
    /// The bytes that reads return.
    current: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<FileWrite>,
}

#[derive(Clone)]
struct FileWrite {
    at: u64,
    bytes: Vec<u8>,
}

/// One atomic change of a folder: a removed name, a new name, or both.
#[derive(Clone)]
struct NameChange {
    removed: Option<PathBuf>,
    set: Option<(PathBuf, usize)>,
}

/// A fault of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first operation that fails, counted from the creation of the disk; see `operations`.
    pub at: u64,
    /// The kind of failure.
    pub kind: FaultKind,
    /// All later operations fail too, until `heal`.
    pub permanent: bool,
}

/// The kind of failure of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// `EIO`: the device does not respond. What a failed sync should have made durable never becomes durable, though
    /// it can still be read, as from the page cache of an operating system. If the fault is permanent, reads fail, too.
    Broken,
    /// `ENOSPC` for operations that need space: creating, writing, reserving. Other operations succeed.
    NoSpace,
    /// Half of a write succeeds, the rest fails with `ENOSPC`. Other operations succeed.
    ShortWrite,
    /// `EINTR`, for writes that the caller should retry.
    Interrupted,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Create,
    Write,
    Allocate,
    Sync,
    Names,
}

impl SimDisk {
    /// Creates an empty disk of 1 GiB.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::of(SimState {
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            operations: 0,
            fault: None,
            unreadable: Vec::new(),
            capacity: 1 << 30,
            random: Random::new(seed),
        })
    }

    fn of(state: SimState) -> SimDisk {
        SimDisk { state: Arc::new(Mutex::new(state)), watcher: Arc::default() }
    }

    /// Returns the number of operations that changed something, failed ones included.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Makes operations fail.
    pub fn fail(&self, fault: Fault) {
        self.state.lock().fault = Some(fault);
    }

    /// Makes reads of these bytes of a file fail with `EIO`, as on a bad sector, also after a power cut.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub fn fail_reads(&self, path: &Path, bytes: Range<u64>) {
        let mut state = self.state.lock();
        let file = *state.names.get(path).expect("the file exists");
        state.unreadable.push((file, bytes));
    }

    /// Makes all operations succeed again.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.fault = None;
        state.unreadable.clear();
    }

    /// Sets the capacity. Less than what is stored means that the disk is full.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity = bytes;
    }

    /// Calls `watcher` with this disk before each operation that changes something.
    pub fn watch(&self, watcher: impl FnMut(&SimDisk) + Send + 'static) {
        *self.watcher.lock() = Some(Box::new(watcher));
    }

    /// Returns a copy of the disk as the next process finds it if this process ends now and the machine keeps running.
    pub fn after_kill(&self) -> SimDisk {
        let mut state = self.state.lock().clone();
        state.fault = None;
        SimDisk::of(state)
    }

    /// Returns a copy of the disk as it may be found after a power cut now. Each seed keeps another part of what was not
    /// synced.
    pub fn after_power_cut(&self, seed: u64) -> SimDisk {
        let state = self.state.lock();
        let mut random = Random::new(seed);
        let names = state.names_after_cut(&mut random);
        let files = state.files.iter().map(|file| file.after_cut(&mut random)).collect();
        let (operations, capacity, unreadable) = (0, state.capacity, state.unreadable.clone());
        SimDisk::of(SimState {
            files,
            durable_names: names.clone(),
            names,
            name_changes: Vec::new(),
            operations,
            fault: None,
            unreadable,
            capacity,
            random,
        })
    }

    /// Returns the content of a file as it is read now.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock();
        state.names.get(path).map(|file| state.files[*file].current.clone())
    }

    /// Replaces a file's content durably, even while the file is open.
    pub fn set_content(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.state.lock();
        let file = state.names.get(path).copied();
        let file = file.unwrap_or_else(|| state.new_file(path));
        state.durable_names.insert(path.to_path_buf(), file);
        state.files[file] = FileContent { durable: bytes.clone(), current: bytes, unsynced: Vec::new() };
    }

    /// Returns the paths of all files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.state.lock().names.keys().cloned().collect()
    }

    /// Counts an operation, calls the watcher, and returns the fault to apply.
    fn start_operation(&self, operation: Operation) -> io::Result<Option<FaultKind>> {
        // Taken out while it runs, so that it may use the disk.
        let watcher = self.watcher.lock().take();
        if let Some(mut watcher) = watcher {
            watcher(self);
            self.watcher.lock().get_or_insert(watcher);
        }
        let mut state = self.state.lock();
        state.operations += 1;
        let Some(fault) = state.fault.filter(|fault| state.is_affected_by(fault)) else { return Ok(None) };
        match (fault.kind, operation) {
            (FaultKind::Broken, Operation::Sync) | (FaultKind::ShortWrite, Operation::Write) => {
                Ok(Some(fault.kind))
            }
            (FaultKind::Broken, _) => Err(no_response()),
            (FaultKind::NoSpace, Operation::Create | Operation::Write | Operation::Allocate) => {
                Err(io::ErrorKind::StorageFull.into())
            }
            (FaultKind::Interrupted, Operation::Write) => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(None),
        }
    }
}

impl SimState {
    fn is_affected_by(&self, fault: &Fault) -> bool {
        // A permanent interruption would be retried forever; every second call is enough.
        let again = match fault.kind {
            FaultKind::Interrupted => (self.operations - fault.at.min(self.operations)).is_multiple_of(2),
            _ => true,
        };
        if fault.permanent { self.operations >= fault.at && again } else { self.operations == fault.at }
    }

    fn new_file(&mut self, path: &Path) -> usize {
        let file = self.files.len();
        self.files.push(FileContent::default());
        self.names.insert(path.to_path_buf(), file);
        self.name_changes.push(NameChange { removed: None, set: Some((path.to_path_buf(), file)) });
        file
    }

    fn used(&self) -> u64 {
        self.names.values().map(|file| self.files[*file].current.len() as u64).sum()
    }

    fn names_after_cut(&self, random: &mut Random) -> BTreeMap<PathBuf, usize> {
        let mut names = self.durable_names.clone();
        let survival_percent = random.survival_percent();
        for change in &self.name_changes {
            if random.chance(survival_percent) {
                change.apply(&mut names);
            }
        }
        names
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        if let Some(removed) = &self.removed {
            names.remove(removed);
        }
        if let Some((path, file)) = &self.set {
            names.insert(path.clone(), *file);
        }
    }
}

impl FileContent {
    fn after_cut(&self, random: &mut Random) -> FileContent {
        let mut durable = self.durable.clone();
        let mut sectors: Vec<FileWrite> = self.unsynced.iter().flat_map(FileWrite::sectors).collect();
        if random.chance(50) {
            random.shuffle(&mut sectors);
        }
        let survival_percent = random.survival_percent();
        for sector in sectors.iter().filter(|_| random.chance(survival_percent)) {
            sector.apply(&mut durable);
        }
        FileContent { current: durable.clone(), durable, unsynced: Vec::new() }
    }
}

impl FileWrite {
    fn apply(&self, content: &mut Vec<u8>) {
        let until = self.at as usize + self.bytes.len();
        if content.len() < until {
            content.resize(until, 0);
        }
        content[self.at as usize..until].copy_from_slice(&self.bytes);
    }

    /// Splits the write into the units that a device writes atomically.
    fn sectors(&self) -> Vec<FileWrite> {
        let (mut at, mut rest, mut sectors) = (self.at, &self.bytes[..], Vec::new());
        while !rest.is_empty() {
            let part = rest.len().min((SECTOR_BYTES - at % SECTOR_BYTES) as usize);
            sectors.push(FileWrite { at, bytes: rest[..part].to_vec() });
            at += part as u64;
            rest = &rest[part..];
        }
        sectors
    }
}

impl Disk for SimDisk {
    fn create_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.start_operation(Operation::Create)?;
        let mut state = self.state.lock();
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = state.new_file(path);
        Ok(Arc::new(SimFile { disk: self.clone(), file }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.state.lock().names.get(path).copied().ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimFile { disk: self.clone(), file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.start_operation(Operation::Names)?;
        let mut state = self.state.lock();
        let file = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_path_buf(), file);
        let change = NameChange { removed: Some(from.to_path_buf()), set: Some((to.to_path_buf(), file)) };
        state.name_changes.push(change);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if !self.state.lock().names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.start_operation(Operation::Names)?;
        let mut state = self.state.lock();
        state.names.remove(path);
        state.name_changes.push(NameChange { removed: Some(path.to_path_buf()), set: None });
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        // A folder is there as long as a file is below it.
        let below =
            state.names.keys().filter_map(|path| path.strip_prefix(folder).ok()?.iter().next()?.to_str());
        let mut names: Vec<String> = below.map(str::to_owned).collect();
        names.dedup();
        Ok(names)
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        if self.start_operation(Operation::Sync)?.is_some() {
            return Err(no_response());
        }
        let mut state = self.state.lock();
        state.durable_names = state.names.clone();
        state.name_changes.clear();
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        let state = self.state.lock();
        Ok(state.capacity.saturating_sub(state.used()))
    }

    fn random(&self) -> u64 {
        self.state.lock().random.next()
    }
}

struct SimFile {
    disk: SimDisk,
    file: usize,
}

impl SimFile {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        let grows = (at + bytes.len() as u64).saturating_sub(state.files[self.file].current.len() as u64);
        if state.used() + grows > state.capacity && grows > 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let write = FileWrite { at, bytes: bytes.to_vec() };
        let content = &mut state.files[self.file];
        write.apply(&mut content.current);
        content.unsynced.push(write);
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let state = self.disk.state.lock();
        let content = &state.files[self.file].current;
        let rest = content.get(at as usize..).unwrap_or_default();
        let read = rest.len().min(into.len());
        let wanted = at..at + read as u64;
        let is_wanted = |bytes: &Range<u64>| bytes.start < wanted.end && wanted.start < bytes.end;
        let is_broken = state.fault.is_some_and(|fault| {
            fault.kind == FaultKind::Broken && fault.permanent && state.operations >= fault.at
        });
        if is_broken || state.unreadable.iter().any(|(file, bytes)| *file == self.file && is_wanted(bytes)) {
            return Err(no_response());
        }
        into[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        match self.disk.start_operation(Operation::Write)? {
            Some(FaultKind::ShortWrite) if bytes.len() > 1 => {
                let half = &bytes[..bytes.len() / 2];
                self.write(half, at)?;
                Ok(half.len())
            }
            Some(FaultKind::ShortWrite) => Err(io::ErrorKind::StorageFull.into()),
            _ => self.write(bytes, at).map(|()| bytes.len()),
        }
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        self.disk.start_operation(Operation::Allocate)?;
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        let broken = self.disk.start_operation(Operation::Sync)?.is_some();
        let mut state = self.disk.state.lock();
        let content = &mut state.files[self.file];
        let unsynced = std::mem::take(&mut content.unsynced);
        if broken {
            return Err(no_response());
        }
        unsynced.iter().for_each(|write| write.apply(&mut content.durable));
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.disk.state.lock().files[self.file].current.len() as u64)
    }
}

/// `EIO`
fn no_response() -> io::Error {
    io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error())
}

/// A small random number generator (splitmix64), the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts a sequence.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "the sequence is infinite")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns true in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns the percentage that survives: often none, often all, often something in between.
    fn survival_percent(&mut self) -> u64 {
        match self.below(4) {
            0 => 0,
            1 => 100,
            _ => self.below(101),
        }
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}
