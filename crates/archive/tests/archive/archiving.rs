//! Appending, cutting, merging and scanning.

use archive::columns::Field;
use archive::scan::{Order, ScanRequest, Source};
use archive::{Archive, ArchiveOptions};
use model::query::{QueryControl, QueryStopped};
use model::rollup::hash_player;
use proptest::prelude::*;
use wal::sim::SimDisk;

use crate::world::*;

#[test]
fn newest_events_are_in_every_scan_before_they_are_in_a_file() {
    let (archive, entries) = (open(SimDisk::new(1), small()), entries(1, WorldOptions::default()));
    for (count, entry) in entries.iter().enumerate() {
        append(&archive, std::slice::from_ref(entry));
        if count % 9 == 0 {
            check(&archive, &entries[..=count]);
        }
    }
    check(&archive, &entries);
}

#[test]
fn events_are_the_same_in_memory_in_files_and_in_merged_files() {
    let (archive, entries) = (open(SimDisk::new(1), small()), entries(2, WorldOptions::default()));
    for part in entries.chunks(7) {
        append(&archive, part);
        let now = START_MS + DAY_MS;
        archive.maintain(now).unwrap();
    }
    check(&archive, &entries);
    archive.flush(GAME).unwrap();
    check(&archive, &entries);
    assert_eq!(archive.memory().bytes, 0);
    let merged = archive.maintain(START_MS + 30 * DAY_MS).unwrap();
    assert!(merged.files_merged > 0, "{merged:?}");
    check(&archive, &entries);
    assert_eq!(archive.verify(GAME), Vec::<String>::new());
}

#[test]
fn entries_that_are_appended_again_count_once() {
    let disk = SimDisk::new(1);
    let entries = entries(3, WorldOptions::default());
    let archive = open(disk.clone(), small());
    append(&archive, &entries);
    append(&archive, &entries);
    check(&archive, &entries);
    archive.flush(GAME).unwrap();
    append(&archive, &entries);
    check(&archive, &entries);
    drop(archive);
    let archive = open(disk, small());
    append(&archive, &entries);
    check(&archive, &entries);
}

#[test]
fn log_may_be_trimmed_below_the_oldest_event_that_is_in_no_file() {
    let disk = SimDisk::new(1);
    let entries = entries(4, WorldOptions::default());
    let archive = open(disk.clone(), small());
    append(&archive, &entries[..20]);
    archive.flush(GAME).unwrap();
    append(&archive, &entries[20..]);
    assert_eq!(archive.position(), 0, "not yet durable");
    let end = entries.last().unwrap().log.end;
    let position = archive.advance(end + 100).unwrap();
    assert_eq!((position, archive.position()), (entries[20].log.start, position));
    drop(archive);

    let archive = open(disk.clone(), small());
    assert_eq!(archive.position(), position);
    let rest: Vec<Entry> = entries.iter().filter(|entry| entry.log.start >= position).cloned().collect();
    append(&archive, &rest);
    check(&archive, &entries);
    archive.flush(GAME).unwrap();
    assert_eq!(archive.advance(end + 100).unwrap(), end + 100);
    drop(archive);
    check(&open(disk, small()), &entries);
}

#[test]
fn games_are_apart_and_a_removed_game_leaves_no_file() {
    let disk = SimDisk::new(1);
    let archive = open(disk.clone(), small());
    let entries = entries(5, WorldOptions::default());
    append(&archive, &entries);
    let other: Vec<Entry> = entries
        .iter()
        .map(|entry| {
            let mut bytes = entry.bytes.clone();
            bytes[4..8].copy_from_slice(&8u32.to_le_bytes());
            Entry { log: entry.log.start + 1_000_000..entry.log.end + 1_000_000, bytes }
        })
        .collect();
    append(&archive, &other);
    archive.flush(GAME).unwrap();
    archive.flush(8).unwrap();
    assert_eq!(archive.games(), [GAME, 8]);
    archive.remove_game(8).unwrap();
    check(&archive, &entries);
    assert_eq!((archive.games(), archive.snapshot(8).events()), (vec![GAME], 0));
    assert!(!disk.paths().iter().any(|path| path.starts_with("/archive/8")));
    drop(archive);
    check(&open(disk, small()), &entries);
}

#[test]
fn old_days_are_deleted_and_the_archive_keeps_since_when() {
    let (disk, entries) = (SimDisk::new(1), entries(6, WorldOptions::default()));
    let archive = open(disk.clone(), small());
    append(&archive, &entries);
    archive.flush(GAME).unwrap();
    let kept_from = START_MS + DAY_MS;
    let all = archive.snapshot(GAME).events();
    assert_eq!(archive.snapshot(GAME).events_since(), None);
    let deleted = archive.delete_before(GAME, kept_from + 5).unwrap();
    let snapshot = archive.snapshot(GAME);
    let left = scan(&snapshot, &request(&fields())).unwrap();
    let expected = expected(&entries, &fields()).into_iter().filter(|row| row.1 >= kept_from).count();
    assert_eq!((left.len(), left.len() as u64 + deleted), (expected, all));
    assert!(left.iter().all(|row| row.1 >= kept_from));
    assert_eq!(archive.delete_before(GAME, kept_from).unwrap(), 0);
    drop(snapshot);
    assert_eq!(archive.replaced_files(), 0);
    drop(archive);
    let snapshot = open(disk, small()).snapshot(GAME);
    let midnight = kept_from - kept_from.rem_euclid(DAY_MS);
    assert_eq!((snapshot.events_since(), snapshot.events()), (Some(midnight), all - deleted));
}

#[test]
fn snapshot_is_not_changed_by_what_comes_later() {
    let disk = SimDisk::new(1);
    let (archive, entries) = (open(disk.clone(), small()), entries(7, WorldOptions::default()));
    append(&archive, &entries[..30]);
    archive.flush(GAME).unwrap();
    append(&archive, &entries[30..35]);
    let snapshot = archive.snapshot(GAME);
    append(&archive, &entries[35..]);
    archive.flush(GAME).unwrap();
    archive.maintain(START_MS + 30 * DAY_MS).unwrap();
    let player = hash_player(SEED, b"player-1");
    archive.erase(GAME, SEED, &[player]).unwrap();
    assert!(archive.replaced_files() > 0);
    let mut rows = scan(&snapshot, &request(&fields())).unwrap();
    let mut expected = expected(&entries[..35], &fields());
    rows.sort();
    expected.sort();
    assert_eq!(rows, expected);
    let files = disk.paths().len();
    drop(snapshot);
    assert_eq!(archive.replaced_files(), 0);
    assert!(disk.paths().len() < files, "replaced files are removed with the last snapshot");
}

#[test]
fn memory_budget_cuts_the_largest_game_first() {
    let options = ArchiveOptions { memory_bytes_max: 64 << 10, ..ArchiveOptions::default() };
    let archive = open(SimDisk::new(1), options);
    let world = WorldOptions { entries: 100, ..WorldOptions::default() };
    let mut appended = Vec::new();
    for entry in entries(8, world) {
        append(&archive, std::slice::from_ref(&entry));
        appended.push(entry);
        if archive.is_over_budget() {
            let done = archive.maintain(START_MS).unwrap();
            assert!(done.games_cut > 0 && archive.memory().bytes <= options.memory_bytes_max / 2);
        }
    }
    check(&archive, &appended);
}

#[test]
fn scan_hands_out_only_the_players_and_times_that_were_asked_for() {
    let (archive, entries) = (open(SimDisk::new(1), small()), entries(9, WorldOptions::default()));
    append(&archive, &entries[..35]);
    archive.flush(GAME).unwrap();
    append(&archive, &entries[35..]);
    let (snapshot, fields) = (archive.snapshot(GAME), fields());
    let (from, to) = (START_MS + DAY_MS / 2, START_MS + 2 * DAY_MS + 1_000);
    let half = u64::MAX / 2;
    for order in [Order::Any, Order::ByPlayer] {
        for players in [0..=half, half + 1..=u64::MAX] {
            let request =
                ScanRequest { times: from..to, players: players.clone(), order, ..request(&fields) };
            let mut rows = scan(&snapshot, &request).unwrap();
            let mut expected = expected(&entries, &fields);
            expected.retain(|row| (from..to).contains(&row.1) && players.contains(&row.0));
            rows.sort();
            expected.sort();
            assert_eq!(rows, expected);
        }
    }
    let events = Some(vec!["win".into(), "nothing".into()]);
    let wins = scan(&snapshot, &ScanRequest { events, ..request(&[Field::Level]) }).unwrap();
    let expected = expected(&entries, &[Field::Event]).into_iter().filter(|row| row.2[0] == "\"win\"");
    assert_eq!(wins.len(), expected.count());
}

#[test]
fn player_ranges_are_without_gaps() {
    let archive = open(SimDisk::new(1), small());
    append(&archive, &entries(1, WorldOptions::default()));
    assert_eq!(archive.snapshot(GAME).player_ranges(0..i64::MAX), [0..=u64::MAX]);
    assert_eq!(archive.snapshot(12).player_ranges(0..i64::MAX), [0..=u64::MAX]);
}

#[test]
fn large_day_has_several_row_groups_that_end_where_a_player_ends() {
    let disk = SimDisk::new(1);
    let options = ArchiveOptions { part_rows: usize::MAX, memory_bytes_max: usize::MAX };
    let archive = open(disk.clone(), options);
    // Few players, so that one of them has many pages.
    let world = WorldOptions { entries: 300, events_per_entry: 4_000, players: 40, days: 1, late_percent: 0 };
    let entries = entries(11, world);
    append(&archive, &entries);
    let fields = [Field::Event, Field::Property("mixed".into())];
    let mut expected = expected(&entries, &fields);
    expected.sort_by_key(|row| (row.0, row.1));
    let expected_of = by_player(&expected);
    for step in 0..2 {
        let snapshot = archive.snapshot(GAME);
        let request = ScanRequest { order: Order::ByPlayer, ..request(&fields) };
        let rows = scan(&snapshot, &request).unwrap();
        assert!(by_player(&rows) == expected_of, "step {step}");
        let (third, mut rows) = (u64::MAX / 3, Vec::new());
        for players in [0..=third, third + 1..=2 * third, 2 * third + 1..=u64::MAX] {
            rows.extend(scan(&snapshot, &ScanRequest { players, ..request.clone() }).unwrap());
        }
        assert!(by_player(&rows) == expected_of, "step {step} by range");
        archive.flush(GAME).unwrap();
    }
    // The first events are some milliseconds before the day.
    let part = disk.paths().into_iter().filter_map(|path| disk.content(&path)).max_by_key(Vec::len);
    let file = bytes::Bytes::from(part.unwrap());
    let footer = parquet::file::metadata::ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let groups: Vec<i64> = footer.row_groups().iter().map(|group| group.num_rows()).collect();
    assert!(groups.len() > 1 && groups[0] >= 262_144, "{groups:?}");
    expected.retain(|row| row.1 >= START_MS);
    let until = groups[0] as usize;
    assert_ne!(expected[until - 1].0, expected[until].0);
}

#[test]
fn question_that_is_stopped_ends_the_scan() {
    struct Stop;
    impl QueryControl for Stop {
        fn check(&self, _: usize) -> Result<(), QueryStopped> {
            Err(QueryStopped::Cancelled)
        }
    }
    let archive = open(SimDisk::new(1), small());
    append(&archive, &entries(1, WorldOptions::default()));
    for order in [Order::Any, Order::ByPlayer] {
        let request = ScanRequest { order, ..request(&[]) };
        let stopped = archive.snapshot(GAME).scan(&request, &Stop, &mut |_| Ok(()));
        assert_eq!(stopped.unwrap_err().to_string(), QueryStopped::Cancelled.to_string());
    }
}

#[test]
fn many_names_of_properties_stay_within_the_columns_of_a_file() {
    let archive = open(SimDisk::new(1), small());
    let names =
        |event: usize| (0..60).map(move |name| format!("\"p{}\":{event}", (event * 60 + name) % 3_000));
    let mut offset = 0;
    let mut all = Vec::new();
    for entry in 0..20 {
        let mut batch = model::batch::BatchBuilder::new(
            model::batch::Endpoint::Events,
            model::batch::KeyClass::Public,
            GAME,
            START_MS,
            0,
        );
        for event in 0..10 {
            let props = format!("{{{}}}", names(entry * 10 + event).collect::<Vec<_>>().join(","));
            let event = model::batch::StoredEvent {
                name: b"hit",
                player: b"ann",
                ts_ms: START_MS,
                props: props.as_bytes(),
                ..Default::default()
            };
            batch.push(&event);
        }
        all.push(Entry { log: offset..offset + 10, bytes: batch.finish(&[]).0 });
        offset += 10;
    }
    append(&archive, &all);
    let fields: Vec<Field> =
        [0, 7, 1_500, 2_999].map(|name| Field::Property(format!("p{name}").into())).into();
    let mut expected = expected(&all, &fields);
    expected.sort();
    for _ in 0..2 {
        let mut rows = scan(&archive.snapshot(GAME), &request(&fields)).unwrap();
        rows.sort();
        assert_eq!(rows, expected);
        archive.flush(GAME).unwrap();
    }
}

fn world() -> impl Strategy<Value = (u64, WorldOptions)> {
    let options = (1..12usize, 1..40u64, 1..9u64, 1..3i64, 0..50u64);
    (any::<u64>(), options).prop_map(|(seed, (entries, events_per_entry, players, days, late_percent))| {
        (seed, WorldOptions { entries, events_per_entry, players, days, late_percent })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn how_events_were_cut_and_merged_changes_no_scan(
        (seed, options) in world(),
        steps in prop::collection::vec((0..4u8, 1..5usize), 1..12),
    ) {
        let disk = SimDisk::new(seed);
        let mut archive: Archive = open(disk.clone(), small());
        let entries = entries(seed, options);
        let mut appended = 0;
        for (step, count) in steps {
            match step {
                0 => {
                    let until = entries.len().min(appended + count);
                    append(&archive, &entries[..until]);
                    appended = until;
                }
                1 => archive.flush(GAME).unwrap(),
                2 => {
                    archive.maintain(START_MS + count as i64 * DAY_MS).unwrap();
                }
                _ => {
                    drop(archive);
                    archive = open(disk.clone(), small());
                    append(&archive, &entries[..appended]);
                }
            }
            check(&archive, &entries[..appended]);
        }
    }
}
