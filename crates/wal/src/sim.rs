//! A disk in memory that loses power and fails on demand, for the tests of this crate and of others.
//!
//! What was written is readable at once and durable only after a sync. A power cut keeps any part of
//! the rest: each 512-byte sector of each write on its own, in any order, and each change of names.
//! Everything is decided by the seeds given, so that a failure can be repeated.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile};

const SECTOR_BYTES: u64 = 512;

/// The disk. A clone of the handle is the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    watcher: Arc<Mutex<Option<Watcher>>>,
}

/// Looks at the disk just before it changes.
type Watcher = Box<dyn FnMut(&SimDisk) + Send>;

#[derive(Clone)]
struct State {
    files: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    name_changes: Vec<NameChange>,
    operations: u64,
    fault: Option<Fault>,
    room: u64,
    random: Random,
}

#[derive(Clone, Default)]
struct Content {
    /// What a read sees.
    current: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Write>,
}

#[derive(Clone)]
struct Write {
    at: u64,
    bytes: Vec<u8>,
}

/// One atomic change of a folder: names that are removed, names that are set.
#[derive(Clone)]
struct NameChange {
    removed: Option<PathBuf>,
    set: Option<(PathBuf, usize)>,
}

/// How operations are to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first operation that fails, counted from the making of the disk; see `operations`.
    pub at: u64,
    /// In which way.
    pub kind: FaultKind,
    /// Whether all later ones fail too, until `heal`.
    pub for_good: bool,
}

/// The way an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The device does not answer: `EIO`. After a sync that failed so, what it was to make durable
    /// never becomes durable, though it is still read back, as with the page cache of an operating
    /// system.
    Broken,
    /// `ENOSPC`, where room is needed: creating, writing, reserving. Other operations succeed.
    NoSpace,
    /// Half of a write is taken, the rest is refused with `ENOSPC`. Other operations succeed.
    ShortWrite,
    /// `EINTR`, for reads and writes the caller is expected to repeat.
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
    /// An empty disk of 1 GiB.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::of(State {
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            operations: 0,
            fault: None,
            room: 1 << 30,
            random: Random::new(seed),
        })
    }

    fn of(state: State) -> SimDisk {
        SimDisk { state: Arc::new(Mutex::new(state)), watcher: Arc::default() }
    }

    /// How many operations that change something were asked for.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Lets operations fail.
    pub fn fail(&self, fault: Fault) {
        self.state.lock().fault = Some(fault);
    }

    /// Lets them succeed again.
    pub fn heal(&self) {
        self.state.lock().fault = None;
    }

    /// Sets how much may be written in all; less than what is there: the disk is full.
    pub fn set_room(&self, bytes: u64) {
        self.state.lock().room = bytes;
    }

    /// Calls `watcher` before each operation that changes something, with this disk.
    pub fn watch(&self, watcher: impl FnMut(&SimDisk) + Send + 'static) {
        *self.watcher.lock() = Some(Box::new(watcher));
    }

    /// Another disk, as this one would be found if the process ended now and the machine ran on.
    pub fn after_kill(&self) -> SimDisk {
        let mut state = self.state.lock().clone();
        state.fault = None;
        SimDisk::of(state)
    }

    /// Another disk, as this one might be found after a power cut now. Each seed keeps another part
    /// of what was not synced.
    pub fn after_power_cut(&self, seed: u64) -> SimDisk {
        let state = self.state.lock();
        let mut random = Random::new(seed);
        let names = state.names_after_cut(&mut random);
        let files = state.files.iter().map(|file| file.after_cut(&mut random)).collect();
        let (operations, room) = (0, state.room);
        SimDisk::of(State {
            files,
            durable_names: names.clone(),
            names,
            name_changes: Vec::new(),
            operations,
            fault: None,
            room,
            random,
        })
    }

    /// The content of a file as it is read now.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock();
        state.names.get(path).map(|file| state.files[*file].current.clone())
    }

    /// Replaces a file's content, durably, behind the back of whoever has it open.
    pub fn set_content(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.state.lock();
        let file = state.names.get(path).copied();
        let file = file.unwrap_or_else(|| state.new_file(path));
        state.durable_names.insert(path.to_path_buf(), file);
        state.files[file] = Content { durable: bytes.clone(), current: bytes, unsynced: Vec::new() };
    }

    /// All files there are.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.state.lock().names.keys().cloned().collect()
    }

    /// Counts an operation, shows the disk to the watcher, and says how it is to go.
    fn begin(&self, operation: Operation) -> io::Result<Option<FaultKind>> {
        // Taken out while it runs, so that it may use the disk.
        let watcher = self.watcher.lock().take();
        if let Some(mut watcher) = watcher {
            watcher(self);
            self.watcher.lock().get_or_insert(watcher);
        }
        let mut state = self.state.lock();
        state.operations += 1;
        let Some(fault) = state.fault.filter(|fault| state.is_hit(fault)) else { return Ok(None) };
        match (fault.kind, operation) {
            (FaultKind::Broken, Operation::Sync) | (FaultKind::ShortWrite, Operation::Write) => {
                Ok(Some(fault.kind))
            }
            (FaultKind::Broken, _) => Err(io::Error::other("the device does not answer")),
            (FaultKind::NoSpace, Operation::Create | Operation::Write | Operation::Allocate) => {
                Err(io::ErrorKind::StorageFull.into())
            }
            (FaultKind::Interrupted, Operation::Write) => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(None),
        }
    }
}

impl State {
    fn is_hit(&self, fault: &Fault) -> bool {
        // An interruption for good would be repeated for ever; every second call is bad enough.
        let again = match fault.kind {
            FaultKind::Interrupted => (self.operations - fault.at.min(self.operations)).is_multiple_of(2),
            _ => true,
        };
        if fault.for_good { self.operations >= fault.at && again } else { self.operations == fault.at }
    }

    fn new_file(&mut self, path: &Path) -> usize {
        let file = self.files.len();
        self.files.push(Content::default());
        self.names.insert(path.to_path_buf(), file);
        self.name_changes.push(NameChange { removed: None, set: Some((path.to_path_buf(), file)) });
        file
    }

    fn used(&self) -> u64 {
        self.names.values().map(|file| self.files[*file].current.len() as u64).sum()
    }

    fn names_after_cut(&self, random: &mut Random) -> BTreeMap<PathBuf, usize> {
        let mut names = self.durable_names.clone();
        let kept = random.share();
        for change in &self.name_changes {
            if random.chance(kept) {
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

impl Content {
    fn after_cut(&self, random: &mut Random) -> Content {
        let mut durable = self.durable.clone();
        let mut sectors: Vec<Write> = self.unsynced.iter().flat_map(Write::sectors).collect();
        if random.chance(50) {
            random.shuffle(&mut sectors);
        }
        let kept = random.share();
        for sector in sectors.iter().filter(|_| random.chance(kept)) {
            sector.apply(&mut durable);
        }
        Content { current: durable.clone(), durable, unsynced: Vec::new() }
    }
}

impl Write {
    fn apply(&self, content: &mut Vec<u8>) {
        let until = self.at as usize + self.bytes.len();
        if content.len() < until {
            content.resize(until, 0);
        }
        content[self.at as usize..until].copy_from_slice(&self.bytes);
    }

    /// The parts a device writes at once.
    fn sectors(&self) -> Vec<Write> {
        let (mut at, mut rest, mut sectors) = (self.at, &self.bytes[..], Vec::new());
        while !rest.is_empty() {
            let part = rest.len().min((SECTOR_BYTES - at % SECTOR_BYTES) as usize);
            sectors.push(Write { at, bytes: rest[..part].to_vec() });
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
        self.begin(Operation::Create)?;
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
        self.begin(Operation::Names)?;
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
        self.begin(Operation::Names)?;
        let mut state = self.state.lock();
        state.names.remove(path);
        state.name_changes.push(NameChange { removed: Some(path.to_path_buf()), set: None });
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        let inside = state.names.keys().filter(|path| path.parent() == Some(folder));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        if self.begin(Operation::Sync)?.is_some() {
            return Err(io::Error::other("the device does not answer"));
        }
        let mut state = self.state.lock();
        state.durable_names = state.names.clone();
        state.name_changes.clear();
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        let state = self.state.lock();
        Ok(state.room.saturating_sub(state.used()))
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
        if state.used() + grows > state.room && grows > 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let write = Write { at, bytes: bytes.to_vec() };
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
        into[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        match self.disk.begin(Operation::Write)? {
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
        self.disk.begin(Operation::Allocate)?;
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        let broken = self.disk.begin(Operation::Sync)?.is_some();
        let mut state = self.disk.state.lock();
        let content = &mut state.files[self.file];
        let unsynced = std::mem::take(&mut content.unsynced);
        if broken {
            return Err(io::Error::other("the device does not answer"));
        }
        unsynced.iter().for_each(|write| write.apply(&mut content.durable));
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.disk.state.lock().files[self.file].current.len() as u64)
    }
}

/// A small generator of numbers (splitmix64), the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins a sequence.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any number.
    #[expect(clippy::should_implement_trait, reason = "it has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// How much survives: nothing, everything and something in between, each often.
    fn share(&mut self) -> u64 {
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
