//! A random workload on a disk that loses power, and the ledger of what must be there.
//!
//! Before each disk operation the power is cut on a copy of the disk: the copy is opened, compared with the ledger,
//! cut and opened again. A run depends only on its seed, not on time or threads.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wal::disk::Disk;
use wal::sim::{Fault, Random, SimDisk};
use wal::{
    AcceptAll, Ack, Committer, Entry, EntryRef, Housekeeper, Options, Receipt, Replacement, Retention,
    Rewriter, Wal, WalError,
};

const FOLDER: &str = "log";

/// The parameters of one run.
#[derive(Clone)]
pub(crate) struct Plan {
    pub seed: u64,
    pub steps: u64,
    pub images_per_operation: u64,
    pub fault: Option<Fault>,
    #[cfg(feature = "fault-injection")]
    pub injected_fault: Option<wal::InjectedFault>,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Plan {
        Plan {
            seed,
            steps: 50,
            images_per_operation: 1,
            fault: None,
            #[cfg(feature = "fault-injection")]
            injected_fault: None,
        }
    }

    fn options(&self) -> Options {
        let mut random = Random::new(self.seed);
        Options {
            segment_bytes: 8 << 10 << random.below(2),
            first_segment_bytes: 4 << 10 << random.below(2),
            frame_bytes_max: 3 << 10,
            sync_after: Duration::from_secs(3600),
            full_retry: Duration::ZERO,
            free_bytes_min: 0,
            tail_bytes: 4 << 10,
            retention: Retention { bytes_max: Some(64 << 10), age_ms_max: None },
            clock: Arc::new(|| 1),
            #[cfg(feature = "fault-injection")]
            injected_fault: self.injected_fault,
            ..Options::default()
        }
    }
}

/// The result of a run.
#[derive(Default)]
pub(crate) struct Outcome {
    pub images: u64,
    pub failure: Option<String>,
    pub stopped: bool,
    pub rejected: bool,
    /// Segments that were rewritten without some of their content.
    pub rewritten: u64,
}

/// The known state of a sent entry.
enum Fate {
    Waiting(Receipt<()>),
    Acked(Range<u64>),
    Rejected,
    /// No result, or a guarantee weaker than surviving a power cut.
    Unknown,
}

struct SentEntry {
    ack: Ack,
    events: u32,
    bytes: Vec<u8>,
    fate: Fate,
    erased: ErasureState,
}

/// The progress of an entry's erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErasureState {
    No,
    /// The content may be the old or the new one.
    Begun,
    /// No file contains the old content.
    Done,
}

impl SentEntry {
    fn new(ack: Ack, events: u32, bytes: Vec<u8>, fate: Fate) -> SentEntry {
        SentEntry { ack, events, bytes, fate, erased: ErasureState::No }
    }

    /// Returns true if the entry may have this content.
    fn may_contain(&self, found: &[u8]) -> bool {
        let erased = found == without_content(number_of(&self.bytes));
        erased && self.erased != ErasureState::No || found == self.bytes && self.erased != ErasureState::Done
    }
}

/// Returns the content of an erased entry.
fn without_content(number: u64) -> Vec<u8> {
    [number.to_le_bytes().as_slice(), b"erased"].concat()
}

/// Erases the entries whose number has this remainder.
struct Eraser {
    ledger: SharedLedger,
    modulus: u64,
    remainder: u64,
    replaced: Vec<u64>,
}

impl Rewriter for Eraser {
    fn affects(&mut self, entry: &EntryRef<'_>) -> bool {
        let number = number_of(entry.bytes);
        let is_whole = entry.bytes != without_content(number);
        number != number_of(b"afterwards") && is_whole && number % self.modulus == self.remainder
    }

    fn replace(&mut self, entry: &EntryRef<'_>) -> Option<Replacement> {
        if !self.affects(entry) {
            return None;
        }
        let number = number_of(entry.bytes);
        let mut ledger = self.ledger.lock().expect("no check panics");
        ledger.sent.get_mut(&number)?.erased = ErasureState::Begun;
        self.replaced.push(number);
        Some(Replacement { kind: 2, bytes: without_content(number) })
    }
}

/// All sent entries by number, which is the start of their content.
#[derive(Default)]
struct Ledger {
    sent: BTreeMap<u64, SentEntry>,
    durable_until: u64,
    trimmed_until: u64,
    images: u64,
    failure: Option<String>,
    rejected: bool,
    rewritten: u64,
}

impl Ledger {
    fn settle(&mut self) {
        for sent in self.sent.values_mut() {
            let Fate::Waiting(receipt) = &mut sent.fate else { continue };
            sent.fate = match receipt.try_take() {
                None => continue,
                Some(Ok(Some(committed))) if sent.ack == Ack::Disk => Fate::Acked(committed.offsets),
                Some(Ok(_)) => Fate::Unknown,
                Some(Err(WalError::Full)) => Fate::Rejected,
                Some(Err(_)) => Fate::Unknown,
            };
            self.rejected |= matches!(sent.fate, Fate::Rejected);
        }
    }

    /// Compares a disk image with the ledger. Returns the entries of the image.
    fn compare(&self, disk: &SimDisk, options: &Options) -> Result<Vec<(u64, Vec<u8>)>, String> {
        let opened = Wal::<()>::open(Arc::new(disk.clone()), Path::new(FOLDER), options.clone());
        let opened = opened.map_err(|error| format!("the log does not open: {error}"))?;
        let report = opened.report().clone();
        if !report.damage.is_empty() {
            return Err(format!("the log has damage: {:?}", report.damage));
        }
        if report.next < self.durable_until {
            return Err(format!("readers saw {}, the log ends at {}", self.durable_until, report.next));
        }
        let (mut found, mut offset) = (Vec::new(), report.first);
        while offset < report.next {
            let batch =
                opened.read(offset, 3000).map_err(|error| format!("the log does not read: {error}"))?;
            if !batch.skipped.is_empty() || batch.next == offset {
                return Err(format!("offset {offset} is missing: {:?}", batch.skipped));
            }
            for entry in batch.chunks.iter().flat_map(|chunk| chunk.entries()) {
                if entry.offset != offset {
                    return Err(format!("offset {} follows after {offset}", entry.offset));
                }
                offset = entry.until();
                found.push((entry.offset, entry.bytes.to_vec()));
            }
        }
        self.compare_entries(&found, report.first)?;
        self.compare_files(disk)?;
        let (log, mut committer, _) = opened.into_parts(Box::new(AcceptAll));
        let entry = Entry { kind: 1, events: 1, bytes: b"afterwards".to_vec(), ack: Ack::Disk, extra: () };
        let mut receipt =
            log.append(entry).map_err(|error| format!("the log does not accept an entry: {error}"))?;
        committer.step(1);
        match receipt.try_take() {
            Some(Ok(Some(committed))) if committed.offsets == (report.next..report.next + 1) => Ok(found),
            other => Err(format!("the log does not continue at {}: {other:?}", report.next)),
        }
    }

    /// Checks that no erased content is left. It reads every byte, so it runs for some of the images only.
    fn compare_files(&self, disk: &SimDisk) -> Result<(), String> {
        if !self.images.is_multiple_of(8) {
            return Ok(());
        }
        let erased =
            self.sent.values().filter(|sent| sent.erased == ErasureState::Done && sent.bytes.len() > 16);
        let erased: Vec<&[u8]> = erased.map(|sent| &sent.bytes[..16]).collect();
        if erased.is_empty() {
            return Ok(());
        }
        for path in disk.paths() {
            let content = disk.content(&path).unwrap_or_default();
            let found = content.windows(16).find(|window| erased.contains(window));
            if let Some(found) = found {
                return Err(format!("{} is still in {}", number_of(found), path.display()));
            }
        }
        Ok(())
    }

    fn compare_entries(&self, found: &[(u64, Vec<u8>)], first: u64) -> Result<(), String> {
        let mut places = BTreeMap::new();
        let mut last = None;
        for (offset, bytes) in found.iter().filter(|(_, bytes)| bytes != b"afterwards") {
            let number = number_of(bytes);
            let sent = self.sent.get(&number).ok_or(format!("{number} was never sent"))?;
            if !sent.may_contain(bytes) {
                return Err(format!("{number} has other content, erased: {:?}", sent.erased));
            }
            if matches!(sent.fate, Fate::Rejected) {
                return Err(format!("{number} was rejected but is in the log"));
            }
            if last.replace(number).is_some_and(|last| last >= number) {
                return Err(format!("{number} is in the log twice or out of order"));
            }
            places.insert(number, *offset);
        }
        for (number, sent) in &self.sent {
            let Fate::Acked(offsets) = &sent.fate else { continue };
            if places.get(number) != Some(&offsets.start) && offsets.start >= first.max(self.trimmed_until) {
                let place = places.get(number);
                return Err(format!("acknowledged entry {number} at {offsets:?} is lost: {place:?}"));
            }
        }
        if first > self.trimmed_until {
            return Err(format!(
                "the log begins at {first}, but only offsets before {} were trimmed",
                self.trimmed_until
            ));
        }
        Ok(())
    }
}

fn number_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(u64::MAX, |number| u64::from_le_bytes(*number))
}

type SharedLedger = Arc<Mutex<Ledger>>;

/// Checks copies of the disk as if the power had been cut now.
fn check_after_power_cut(disk: &SimDisk, ledger: &SharedLedger, plan: &Plan) {
    let mut ledger = ledger.lock().expect("no check panics");
    if ledger.failure.is_some() {
        return;
    }
    ledger.settle();
    for copy in 0..plan.images_per_operation {
        let seed = plan.seed ^ (disk.operations() << 20) ^ (copy << 50);
        ledger.images += 1;
        let image =
            if seed.count_ones().is_multiple_of(8) { disk.after_kill() } else { disk.after_power_cut(seed) };
        if let Err(failure) = check_reopened_twice(&ledger, &image, seed, plan) {
            ledger.failure = Some(format!("before operation {}: {failure}", disk.operations()));
        }
    }
}

/// Checks that an image that was opened has the same content after another power cut.
fn check_reopened_twice(ledger: &Ledger, image: &SimDisk, seed: u64, plan: &Plan) -> Result<(), String> {
    let options = plan.options();
    let mut found = ledger.compare(image, &options)?;
    let again = ledger.compare(&image.after_power_cut(seed + 1), &options);
    let again = again.map_err(|failure| format!("opened again: {failure}"))?;
    found.push((again.last().map_or(0, |entry| entry.0), b"afterwards".to_vec()));
    if found != again {
        return Err("the log has different entries after it was opened again".into());
    }
    Ok(())
}

/// A running log and its random workload.
struct Run<'a> {
    plan: &'a Plan,
    random: Random,
    disk: SimDisk,
    ledger: SharedLedger,
    log: Wal<()>,
    committer: Committer<()>,
    housekeeper: Housekeeper,
    numbers: u64,
    mixed: bool,
    stopped: bool,
}

pub(crate) fn run(plan: &Plan) -> Outcome {
    let ledger = SharedLedger::default();
    let disk = SimDisk::new(plan.seed);
    watch(&disk, &ledger, plan);
    if let Some(fault) = plan.fault {
        disk.fail(fault);
    }
    let parts = open(&disk, plan).or_else(|| {
        disk.heal();
        open(&disk, plan)
    });
    let (log, committer, housekeeper) = parts.expect("a working disk lets the log open");
    let mut random = Random::new(plan.seed ^ 1);
    let mixed = random.chance(50);
    let (numbers, stopped) = (0, false);
    let mut run = Run { plan, random, disk, ledger, log, committer, housekeeper, numbers, mixed, stopped };
    for _ in 0..plan.steps {
        run.step();
    }
    run.finish()
}

type Parts = (Wal<()>, Committer<()>, Housekeeper);

fn open(disk: &SimDisk, plan: &Plan) -> Option<Parts> {
    let opened = Wal::<()>::open(Arc::new(disk.clone()), Path::new(FOLDER), plan.options());
    opened.ok().map(|opened| opened.into_parts(Box::new(AcceptAll)))
}

fn watch(disk: &SimDisk, ledger: &SharedLedger, plan: &Plan) {
    let (ledger, plan) = (Arc::clone(ledger), plan.clone());
    disk.watch(move |disk| check_after_power_cut(disk, &ledger, &plan));
}

impl Run<'_> {
    fn step(&mut self) {
        match self.random.below(20) {
            0 => self.trim(),
            8 => self.committer.roll(),
            9 => self.rewrite(),
            1 => self.committer.sync(),
            2 => self.log.keep_from(self.log.durable_until() / 2),
            3 => self.restart(|disk| disk.after_kill()),
            4 => {
                let seed = self.random.next();
                self.restart(|disk| disk.after_power_cut(seed));
            }
            5..8 => self.housekeeper.step(),
            _ => self.append(),
        }
        // Retention may remove what the views no longer need.
        let durable_until = self.log.durable_until();
        let mut ledger = self.ledger.lock().expect("no check panics");
        ledger.settle();
        ledger.durable_until = ledger.durable_until.max(durable_until);
        ledger.trimmed_until = ledger.trimmed_until.max(durable_until / 2);
    }

    fn append(&mut self) {
        for _ in 0..1 + self.random.below(5) {
            let ack = if self.mixed {
                [Ack::Disk, Ack::Os, Ack::Memory][self.random.below(3) as usize]
            } else {
                Ack::Disk
            };
            let bytes = self.content();
            let events = self.random.below(4) as u32;
            let entry = Entry { kind: 1, events, bytes: bytes.clone(), ack, extra: () };
            let fate = match self.log.append(entry) {
                Ok(receipt) => Fate::Waiting(receipt),
                Err(_) => Fate::Rejected,
            };
            let sent = SentEntry::new(ack, events, bytes, fate);
            self.ledger.lock().expect("no check panics").sent.insert(self.numbers, sent);
            self.numbers += 1;
        }
        self.committer.step(1);
        self.check_resumes();
    }

    /// Returns the number, then bytes that differ from all other entries, usually few.
    fn content(&mut self) -> Vec<u8> {
        let most = if self.random.chance(10) { 6000 } else { 600 };
        let mut bytes = self.numbers.to_le_bytes().to_vec();
        bytes.extend((0..self.random.below(most)).map(|at| (self.numbers as u8).wrapping_add(at as u8)));
        bytes
    }

    /// Checks that the next append succeeds when the disk has space again.
    fn check_resumes(&mut self) {
        if !self.log.stats().full || self.random.chance(50) {
            return;
        }
        self.disk.heal();
        let bytes = self.numbers.to_le_bytes().to_vec();
        let entry = Entry { kind: 1, events: 1, bytes: bytes.clone(), ack: Ack::Disk, extra: () };
        let receipt = self.log.append(entry).expect("an attempt is allowed after a moment");
        let fate = Fate::Waiting(receipt);
        let mut ledger = self.ledger.lock().expect("no check panics");
        ledger.sent.insert(self.numbers, SentEntry::new(Ack::Disk, 1, bytes, fate));
        drop(ledger);
        self.committer.step(1);
        let mut ledger = self.ledger.lock().expect("no check panics");
        ledger.settle();
        if !matches!(ledger.sent[&self.numbers].fate, Fate::Acked(_)) {
            ledger.failure.get_or_insert("appends do not resume when there is space".into());
        }
        self.numbers += 1;
    }

    fn trim(&mut self) {
        let until = self.random.below(self.log.durable_until() / 2 + 1);
        // A disk failure here must not have removed too much; the ledger checks that.
        let _ = self.log.trim(until);
    }

    /// Erases some entries in each closed segment.
    fn rewrite(&mut self) {
        let modulus = 1 + self.random.below(5);
        let remainder = self.random.below(modulus);
        for closed in self.log.closed_segments() {
            let ledger = Arc::clone(&self.ledger);
            let mut erase = Eraser { ledger, modulus, remainder, replaced: Vec::new() };
            // A disk failure here leaves either the old or the new segment.
            if let Ok(Some(rewritten)) = self.log.rewrite(closed.start, &mut erase) {
                assert_eq!(rewritten.entries as usize, erase.replaced.len());
                let mut ledger = self.ledger.lock().expect("no check panics");
                for number in &erase.replaced {
                    ledger.sent.get_mut(number).expect("the entry was sent").erased = ErasureState::Done;
                }
                ledger.rewritten += 1;
            }
        }
    }

    /// Ends the process and restarts it on the disk that remains.
    fn restart(&mut self, left: impl FnOnce(&SimDisk) -> SimDisk) {
        self.stopped |= matches!(self.log.close(), Err(WalError::Stopped));
        self.ledger.lock().expect("no check panics").settle();
        let disk = left(&self.disk);
        if let Some(fault) = self.plan.fault.filter(|fault| fault.permanent) {
            disk.fail(Fault { at: fault.at + disk.operations() + 10, ..fault });
        }
        watch(&disk, &self.ledger, self.plan);
        let parts = open(&disk, self.plan).or_else(|| {
            disk.heal();
            open(&disk, self.plan)
        });
        (self.log, self.committer, self.housekeeper) = parts.expect("a working disk lets the log open");
        self.disk = disk;
        self.settle_unacknowledged();
    }

    /// Settles the entries without a result: after a restart each is either there or not, permanently.
    fn settle_unacknowledged(&mut self) {
        let mut ledger = self.ledger.lock().expect("no check panics");
        ledger.settle();
        for sent in ledger.sent.values_mut() {
            if matches!(sent.fate, Fate::Waiting(_)) {
                sent.fate = Fate::Unknown;
            }
        }
        ledger.durable_until = ledger.durable_until.max(self.log.durable_until());
        let mut offset = self.log.first();
        while let Ok(batch) = self.log.read(offset, 1 << 20)
            && batch.next > offset
        {
            offset = batch.next;
            for entry in batch.chunks.iter().flat_map(|chunk| chunk.entries()) {
                if let Some(sent) = ledger.sent.get_mut(&number_of(entry.bytes)) {
                    assert!(sent.events == entry.events && sent.may_contain(entry.bytes));
                    sent.fate = Fate::Acked(entry.offset..entry.until());
                }
            }
        }
    }

    fn finish(mut self) -> Outcome {
        self.restart(SimDisk::after_kill);
        assert!(self.disk.list(Path::new(FOLDER)).is_ok_and(|names| !names.is_empty()));
        let ledger = self.ledger.lock().expect("no check panics");
        let (images, failure) = (ledger.images, ledger.failure.clone());
        let (rejected, rewritten) = (ledger.rejected, ledger.rewritten);
        Outcome { images, failure, stopped: self.stopped, rejected, rewritten }
    }
}
