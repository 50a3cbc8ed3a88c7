//! The crate that others use to read Parquet reads every file.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field as Cell;
use wal::sim::SimDisk;

use crate::world::*;

#[test]
fn files_are_read_by_the_row_reader_of_the_parquet_crate() {
    let disk = SimDisk::new(1);
    let archive = open(disk.clone(), small());
    let entries = entries(1, WorldOptions { entries: 60, ..WorldOptions::default() });
    append(&archive, &entries);
    archive.flush(GAME).unwrap();
    let fields = [archive::columns::Field::Event, archive::columns::Field::Value];
    let mut expected = expected(&entries, &fields);
    let mut rows = Vec::new();
    for path in disk.paths().iter().filter(|path| path.extension().is_some_and(|end| end == "parquet")) {
        let reader = SerializedFileReader::new(bytes::Bytes::from(disk.content(path).unwrap())).unwrap();
        for row in reader.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            let cell =
                |name: &str| row.get_column_iter().find(|(column, _)| *column == name).unwrap().1.clone();
            let (Cell::TimestampMillis(ts), Cell::Str(event)) = (cell("ts"), cell("event")) else {
                panic!("{row}")
            };
            let player = match cell("player_hash") {
                Cell::ULong(player) => player,
                _ => 0,
            };
            let value = match cell("value") {
                Cell::Double(value) => value.to_string(),
                _ => "-".to_owned(),
            };
            rows.push((player, ts, vec![format!("{event:?}"), value]));
        }
    }
    rows.sort();
    expected.sort();
    assert_eq!(rows, expected);
}
