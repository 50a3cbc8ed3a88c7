//! Damaged and missing files are named; no byte of them is answered as if it were right.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::{Archive, ArchiveOptions};
use wal::sim::{Random, SimDisk};

use crate::world::*;

fn archived(entries: &[Entry]) -> (SimDisk, PathBuf) {
    let disk = SimDisk::new(1);
    let archive = open(disk.clone(), ArchiveOptions::default());
    append(&archive, entries);
    archive.flush(GAME).unwrap();
    drop(archive);
    let part = disk.paths().into_iter().filter(|path| path.extension().is_some_and(|end| end == "parquet"));
    let part = part.max_by_key(|path| disk.content(path).unwrap().len()).unwrap();
    (disk, part)
}

#[test]
fn flipped_byte_is_an_error_that_names_the_file() {
    let entries = entries(1, WorldOptions { entries: 8, ..WorldOptions::default() });
    let (disk, part) = archived(&entries);
    let whole = disk.content(&part).unwrap();
    let name = part.strip_prefix("/archive").unwrap().display().to_string();
    let mut random = Random::new(5);
    // All bytes of the ends, and a part of the middle.
    let middle: Vec<usize> = (0..400).map(|_| random.below(whole.len() as u64) as usize).collect();
    let ends = (0..16).chain(whole.len() - 64..whole.len());
    for at in ends.chain(middle) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << random.below(8);
        disk.set_content(&part, bytes);
        let archive = open(disk.clone(), ArchiveOptions::default());
        let failure = scan(&archive.snapshot(GAME), &request(&fields()));
        let problems = archive.verify(GAME);
        assert_eq!(problems.len(), 1, "byte {at}");
        assert!(problems[0].contains(&name), "{problems:?}");
        // A scan may not need the damaged column.
        if let Err(failure) = failure {
            assert!(failure.to_string().contains(&name), "{failure}");
        }
    }
}

#[test]
fn truncated_file_is_found_when_the_archive_is_opened() {
    let entries = entries(1, WorldOptions { entries: 8, ..WorldOptions::default() });
    let (disk, part) = archived(&entries);
    let whole = disk.content(&part).unwrap();
    for length in [0, 1, 4, 11, 12, 100, whole.len() / 2, whole.len() - 1] {
        disk.set_content(&part, whole[..length].to_vec());
        let (archive, report) =
            Archive::open(Arc::new(disk.clone()), Path::new("/archive"), ArchiveOptions::default()).unwrap();
        assert_eq!(report.problems.len(), 1);
        assert!(report.problems[0].contains(".parquet has"), "{:?}", report.problems);
        assert!(scan(&archive.snapshot(GAME), &request(&[])).is_err());
    }
}

#[test]
fn missing_file_fails_only_the_days_that_need_it() {
    let entries = entries(2, WorldOptions::default());
    let (disk, part) = archived(&entries);
    wal::Disk::remove(&disk, &part).unwrap();
    let (archive, report) =
        Archive::open(Arc::new(disk), Path::new("/archive"), ArchiveOptions::default()).unwrap();
    assert!(report.problems[0].contains("is missing; restore it from a backup"), "{:?}", report.problems);
    let snapshot = archive.snapshot(GAME);
    let failure = scan(&snapshot, &request(&[])).unwrap_err().to_string();
    assert!(failure.contains(".parquet: is missing"), "{failure}");
    let day = part.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let of_month: i64 = day[8..].parse().unwrap();
    let missing = START_MS + (of_month - 1) * DAY_MS;
    let after = archive::scan::ScanRequest { times: missing + DAY_MS..i64::MAX, ..request(&[]) };
    scan(&snapshot, &after).unwrap();
}

#[test]
fn missing_or_damaged_manifest_is_refused_with_advice() {
    let entries = entries(3, WorldOptions { entries: 8, ..WorldOptions::default() });
    for name in ["archive.json", "7/manifest.json"] {
        let path = Path::new("/archive").join(name);
        let (disk, _) = archived(&entries);
        let mut bytes = disk.content(&path).unwrap();
        bytes[20] ^= 1;
        disk.set_content(&path, bytes);
        let open = |disk: &SimDisk| {
            let opened =
                Archive::open(Arc::new(disk.clone()), Path::new("/archive"), ArchiveOptions::default());
            opened.map(|_| ()).unwrap_err().to_string()
        };
        let message = open(&disk);
        assert!(message.starts_with(&format!("{name} differs from what was written; restore")), "{message}");
        wal::Disk::remove(&disk, &path).unwrap();
        let message = open(&disk);
        assert!(message.starts_with(&format!("{name} is missing; restore it from a backup")), "{message}");
    }
}
