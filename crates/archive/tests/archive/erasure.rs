//! An erased player is in no byte of the archive.

use archive::ArchiveOptions;
use archive::columns::Field;
use model::batch::{BatchBuilder, Endpoint, KeyClass, StoredEvent};
use model::rollup::hash_player;
use wal::RealDisk;

use crate::world::*;

/// Events of Ann with 20 different secrets, between those of others.
fn with_canaries() -> (Vec<Entry>, Vec<String>) {
    let canaries: Vec<String> = (0..20).map(|number| format!("canary{number:02}x")).collect();
    let mut entries = entries(1, WorldOptions::default());
    let mut offset = entries.last().unwrap().log.end;
    for round in 0..6 {
        let now = START_MS + round % 3 * DAY_MS;
        let mut batch = BatchBuilder::new(Endpoint::Events, KeyClass::Public, GAME, now, 0);
        let c = |number: usize| canaries[number].as_str();
        let props = format!(
            "{{\"{}\":\"{}\",\"note\":\"{}\",\"at\":{{\"{}\":1,\"who\":\"{}\"}},\"list\":[\"{}\",{{\"{}\":\"{}\"}}],\
             \"weapon\":\"{}\",\"mixed\":\"{}\",\"{}.{}\":true,\"{}\":null,\"{}\":[]}}",
            c(0),
            c(1),
            c(2),
            c(3),
            c(4),
            c(5),
            c(6),
            c(7),
            c(8),
            c(9),
            c(10),
            c(11),
            c(12),
            c(13),
        );
        let session = format!("{}-{}", c(14), round);
        let anonymous = c(15);
        let ann = |id: Option<u128>| StoredEvent {
            id,
            ts_ms: now + 17,
            name: b"start",
            player: canaries[16].as_bytes(),
            session: session.as_bytes(),
            anonymous: anonymous.as_bytes(),
            props: props.as_bytes(),
            ..StoredEvent::default()
        };
        let id = |number: usize| {
            u128::from_be_bytes(*format!("{}-uuid-pad", c(number)).as_bytes().first_chunk().unwrap())
        };
        batch.push(&ann(Some(id(17))));
        batch.push(&ann(Some(id(18))));
        // Ann before she was known, and another player who claims her anonymous id.
        batch.push(&StoredEvent { player: anonymous.as_bytes(), anonymous: b"", ..ann(Some(id(19))) });
        batch.push(&StoredEvent {
            player: b"player-3",
            anonymous: anonymous.as_bytes(),
            name: b"$identify",
            ts_ms: now,
            ..StoredEvent::default()
        });
        entries.push(Entry { log: offset..offset + 4, bytes: batch.finish(&[]).0 });
        offset += 4;
    }
    (entries, canaries)
}

fn files(folder: &std::path::Path) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(std::fs::read(path).unwrap());
        }
    }
    files
}

/// Returns the canaries in the bytes of the files, also in compressed pages: every column is decoded by a scan.
fn found(folder: &std::path::Path, archive: &archive::Archive, canaries: &[String]) -> Vec<String> {
    let contains =
        |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    let files = files(folder);
    let mut fields = fields();
    fields.extend(canaries.iter().map(|name| Field::Property(name.as_str().into())));
    fields.extend(["note", "at.who"].map(|name| Field::Property(name.into())));
    let rows = scan(&archive.snapshot(GAME), &request(&fields)).unwrap();
    let texts: Vec<String> = rows.into_iter().flat_map(|row| row.2).collect();
    let is_found = |canary: &&String| {
        files.iter().any(|file| contains(file, canary))
            || texts.iter().any(|text| text.contains(canary.as_str()))
    };
    canaries.iter().filter(is_found).cloned().collect()
}

#[test]
fn erased_player_is_in_no_byte_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let disk = std::sync::Arc::new(RealDisk);
        archive::Archive::open(disk, folder.path(), ArchiveOptions { part_rows: 50, ..Default::default() })
            .unwrap()
            .0
    };
    let archive = open();
    let (entries, canaries) = with_canaries();
    let (first, last) = entries.split_at(entries.len() - 2);
    for part in first.chunks(10) {
        append(&archive, part);
        archive.maintain(START_MS).unwrap();
    }
    append(&archive, last);
    assert!(!found(folder.path(), &archive, &canaries).is_empty());
    let before =
        scan(&archive.snapshot(GAME), &request(&[Field::Event, Field::Value, Field::Level])).unwrap();

    let ann = [16, 15].map(|number: usize| hash_player(SEED, canaries[number].as_bytes()));
    let erased = archive.erase(GAME, SEED, &ann).unwrap();
    assert_eq!((erased.events, archive.replaced_files()), (24, 0));
    assert_eq!(found(folder.path(), &archive, &canaries), Vec::<String>::new());
    for file in files(folder.path()) {
        let parts = parquet_texts(file);
        let left = canaries.iter().filter(|canary| parts.iter().any(|part| part.contains(canary.as_str())));
        assert_eq!(left.count(), 0);
    }
    let mut after =
        scan(&archive.snapshot(GAME), &request(&[Field::Event, Field::Value, Field::Level])).unwrap();
    let mut before = before;
    before.sort();
    after.sort();
    assert_eq!(after, before, "hashes, times, names, values and dimensions stay");
    assert_eq!(archive.erase(GAME, SEED, &ann).unwrap().events, 0);
    archive.maintain(START_MS + 90 * DAY_MS).unwrap();
    drop(archive);
    let archive = open();
    assert_eq!(found(folder.path(), &archive, &canaries), Vec::<String>::new());
    assert_eq!(archive.verify(GAME), Vec::<String>::new());
}

/// Returns every decompressed page and the metadata of a file as text.
fn parquet_texts(file: Vec<u8>) -> Vec<String> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    if !file.starts_with(b"PAR1") {
        return vec![String::from_utf8_lossy(&file).into_owned()];
    }
    let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
    let mut texts = vec![format!("{:?}", reader.metadata())];
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).unwrap();
        for column in 0..group.num_columns() {
            for page in group.get_column_page_reader(column).unwrap() {
                texts.push(String::from_utf8_lossy(page.unwrap().buffer()).into_owned());
            }
        }
    }
    texts
}

#[test]
fn events_erased_in_the_log_keep_their_hash_and_no_id() {
    let archive = open(wal::sim::SimDisk::new(1), small());
    let entries = erased(&entries(2, WorldOptions::default()), "player-4");
    append(&archive, &entries);
    archive.flush(GAME).unwrap();
    check(&archive, &entries);
    let player = hash_player(SEED, b"player-4");
    let rows = scan(&archive.snapshot(GAME), &request(&[Field::Player, Field::Session])).unwrap();
    let of_player: Vec<_> = rows.iter().filter(|row| row.0 == player).collect();
    assert!(!of_player.is_empty() && of_player.iter().all(|row| row.2 == ["-", "-"]));
}
