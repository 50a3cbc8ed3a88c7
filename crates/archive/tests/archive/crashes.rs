//! The process ends, or the power fails, before any operation of the disk.

use std::sync::{Arc, Mutex};

use archive::{Archive, Maintained};
use model::rollup::hash_player;
use wal::sim::{Fault, FaultKind, SimDisk};

use crate::world::*;

/// Few enough that every operation can be checked.
fn world() -> WorldOptions {
    WorldOptions { entries: 16, events_per_entry: 12, days: 2, ..WorldOptions::default() }
}

/// Runs `work` on an archive and returns the disk as it was before each operation: after a kill, or after a power cut.
fn images(entries: &[Entry], work: impl Fn(&Archive)) -> Vec<SimDisk> {
    let disk = SimDisk::new(1);
    let archive = open(disk.clone(), small());
    append(&archive, &entries[..entries.len() / 2]);
    archive.flush(GAME).unwrap();
    append(&archive, entries);
    let images = Arc::new(Mutex::new(Vec::new()));
    let (into, mut count) = (images.clone(), 0);
    disk.watch(move |disk| {
        count += 1;
        let mut images = into.lock().unwrap();
        images.push(disk.after_kill());
        images.extend((0..2).map(|seed| disk.after_power_cut(count * 2 + seed)));
    });
    work(&archive);
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 30, "{}", images.len());
    images
}

/// What a start does: it appends from the position of the archive on.
fn restart(image: SimDisk, entries: &[Entry]) -> Archive {
    let archive = open(image, small());
    let position = archive.position();
    let rest: Vec<Entry> = entries.iter().filter(|entry| entry.log.end > position).cloned().collect();
    append(&archive, &rest);
    archive
}

#[test]
fn crash_while_cutting_loses_nothing_and_doubles_nothing() {
    let entries = entries(1, world());
    let end = entries.last().unwrap().log.end;
    let work = |archive: &Archive| {
        archive.flush(GAME).unwrap();
        archive.advance(end).unwrap();
    };
    for image in images(&entries, work) {
        let archive = restart(image, &entries);
        check(&archive, &entries);
        archive.flush(GAME).unwrap();
        check(&archive, &entries);
    }
}

#[test]
fn crash_while_merging_loses_nothing_and_leaves_no_file_behind() {
    let entries = entries(2, world());
    let work = |archive: &Archive| {
        archive.maintain(START_MS + 30 * DAY_MS).unwrap();
    };
    for image in images(&entries, work) {
        let archive = restart(image.clone(), &entries);
        check(&archive, &entries);
        archive.maintain(START_MS + 30 * DAY_MS).unwrap();
        check(&archive, &entries);
        let files = |disk: &SimDisk| {
            let is_part = |path: &&std::path::PathBuf| path.extension().is_some_and(|end| end == "parquet");
            (disk.paths().iter().filter(is_part).count(), disk.paths().len())
        };
        let (parts, all) = files(&image);
        assert_eq!(all, parts + 2, "the index and the manifest: {:?}", image.paths());
        assert_eq!(archive.maintain(START_MS + 30 * DAY_MS).unwrap(), Maintained::default());
    }
}

#[test]
fn crash_while_erasing_is_resumed_by_erasing_again() {
    let entries = entries(3, world());
    let player = hash_player(SEED, b"player-2");
    let after = erased(&entries, "player-2");
    let work = |archive: &Archive| {
        archive.erase(GAME, SEED, &[player]).unwrap();
    };
    for image in images(&entries, work) {
        // The log may or may not have been rewritten yet.
        for log in [&entries, &after] {
            let archive = restart(image.clone(), log);
            archive.erase(GAME, SEED, &[player]).unwrap();
            assert_eq!(archive.erase(GAME, SEED, &[player]).unwrap().events, 0);
            check(&archive, &after);
        }
    }
}

#[test]
fn crash_while_a_game_is_removed_leaves_it_whole_or_removed() {
    let entries = entries(4, WorldOptions { entries: 10, ..WorldOptions::default() });
    let disk = SimDisk::new(1);
    let archive = open(disk.clone(), small());
    append(&archive, &entries);
    archive.flush(GAME).unwrap();
    let images = Arc::new(Mutex::new(Vec::new()));
    let into = images.clone();
    disk.watch(move |disk| {
        let mut images = into.lock().unwrap();
        let seed = images.len() as u64;
        images.extend([disk.after_kill(), disk.after_power_cut(seed), disk.after_power_cut(seed + 1)]);
    });
    archive.remove_game(GAME).unwrap();
    drop(archive);
    let images = std::mem::take(&mut *images.lock().unwrap());
    let mut removed = 0;
    for image in images {
        let archive = open(image.clone(), small());
        if archive.games().is_empty() {
            assert_eq!(image.paths().len(), 1, "{:?}", image.paths());
            removed += 1;
        } else {
            check(&archive, &entries);
        }
    }
    assert!(removed > 0);
}

#[test]
fn fault_of_the_disk_loses_no_event() {
    let entries = entries(5, world());
    let faults = [FaultKind::NoSpace, FaultKind::ShortWrite, FaultKind::Broken, FaultKind::Interrupted];
    for kind in faults {
        for after in 0..30 {
            let disk = SimDisk::new(1);
            let archive = open(disk.clone(), small());
            append(&archive, &entries[..8]);
            archive.flush(GAME).unwrap();
            append(&archive, &entries[8..]);
            disk.fail(Fault { at: disk.operations() + after, kind, permanent: kind != FaultKind::Broken });
            let failed = archive.maintain(START_MS + 30 * DAY_MS).is_err();
            disk.heal();
            check(&archive, &entries);
            if kind == FaultKind::Interrupted {
                assert!(!failed, "is tried again");
            }
            // After a failed sync of a folder nothing is known; all others can be tried again.
            let again = archive.maintain(START_MS + 30 * DAY_MS);
            assert!(kind == FaultKind::Broken || again.is_ok(), "{kind:?} {after}: {again:?}");
            check(&archive, &entries);
            drop(archive);
            for image in [disk.after_kill(), disk.after_power_cut(after)] {
                check(&restart(image, &entries), &entries);
            }
        }
    }
}
