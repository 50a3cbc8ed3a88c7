//! Files written by the `parquet` crate, pyarrow and DuckDB.

use std::sync::Arc;

use super::super::{FileFormat, ImportSource};
use super::*;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

fn read(path: &Path, mapping: &Mapping, from: u64) -> Vec<String> {
    let mut source = ImportSource::open(path, FileFormat::Parquet, mapping, from)
        .unwrap_or_else(|error| panic!("{error:#}"));
    let (mut batch, mut rows) = (EventBatch::default(), Vec::new());
    loop {
        batch.clear();
        source.fill(3, &mut batch).unwrap_or_else(|error| panic!("{error:#}"));
        let events = batch.lines.iter().zip(batch.body.lines()).map(|(row, text)| format!("{row} {text}"));
        rows.extend(events);
        rows.extend(batch.rejected.iter().map(|(row, reject)| format!("{row} !{}", reject.label())));
        if batch.rows() == 0 {
            return rows;
        }
    }
}

fn check(name: &str, mapping: &Mapping, expected: &[&str]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/imports").join(name);
    for from in 0..=expected.len() {
        assert_eq!(read(&path, mapping, from as u64), expected[from..], "{name} from {from}");
    }
}

#[test]
fn pyarrow_file_is_read_with_its_types() {
    check(
        "pyarrow.parquet",
        &Mapping::default(),
        &[
            r#"1 {"event":"sold","player":"7","level":"cave","ts":1740830400000,"value":1.5e0,"props":{"item":"hat","n":2,"tags":["a","b"],"is_new":true,"day":"2025-03-01"}}"#,
            r#"2 {"event":"sold","player":"7","level":"cave","ts":1740830460000,"value":2e0,"props":{"item":"12","tags":[],"is_new":false,"day":"2025-03-01"}}"#,
            r#"3 {"event":"sold","player":"8","level":"castle","ts":1740830520000,"props":{"day":"2025-03-01"}}"#,
            r#"4 {"event":"sold","player":"9","ts":1740830580000,"value":4.25e0,"props":{"item":"bow","n":1,"is_new":true,"day":"2025-03-01"}}"#,
            r#"5 {"event":"sold","level":"cave","ts":1740830640000,"props":{"is_new":false,"day":"2025-03-01"}}"#,
            r#"6 {"player":"7","level":"cave","ts":1740830700000,"value":1e0,"props":{"is_new":true,"day":"2025-03-01"}}"#,
        ],
    );
}

#[test]
fn duckdb_file_is_read_with_its_types() {
    check(
        "duckdb.parquet",
        &Mapping::default().column("pair", Target::Ignore),
        &[
            r#"1 {"event":"sold","player":"p0","id":"00000000000080008000000000000000","ts":1740830400000,"value":0e0,"props":{"item":"hat","place":"x0"}}"#,
            r#"2 {"event":"sold","player":"p1","id":"00000000000080008000000000000001","ts":1740830460000,"value":1.25e0,"props":{"item":"hat","place":"x1"}}"#,
            r#"3 {"event":"sold","player":"p0","id":"00000000000080008000000000000002","ts":1740830520000,"value":2.5e0,"props":{"item":"hat","place":"x2"}}"#,
            r#"4 {"event":"sold","player":"p1","id":"00000000000080008000000000000003","ts":1740830580000,"value":3.75e0,"props":{"item":"hat","place":"x3"}}"#,
            r#"5 {"event":"sold","player":"p0","id":"00000000000080008000000000000004","ts":1740830640000,"value":5e0,"props":{"item":"hat","place":"x4"}}"#,
        ],
    );
}

const SCHEMA: &str = "message m { required binary what (UTF8); required int64 at (TIMESTAMP_MICROS); \
                      required double price; required binary props (UTF8); }";

/// Returns a file with this number of rows in groups of ten.
fn parquet_file(rows: usize) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).expect("a schema"));
    let mut writer =
        SerializedFileWriter::new(Vec::new(), schema, Arc::default()).expect("writing to memory works");
    let all: Vec<usize> = (0..rows).collect();
    for rows in all.chunks(10) {
        let mut group = writer.next_row_group().expect("writing to memory works");
        let bytes = |text: &dyn Fn(usize) -> String| -> Vec<ByteArray> {
            rows.iter().map(|row| ByteArray::from(text(*row).into_bytes())).collect()
        };
        let mut column = group.next_column().expect("a column").expect("a column");
        column
            .typed::<ByteArrayType>()
            .write_batch(&bytes(&|row| format!("e{}", row % 3)), None, None)
            .expect("writing to memory works");
        column.close().expect("writing to memory works");
        let mut column = group.next_column().expect("a column").expect("a column");
        let times: Vec<i64> =
            rows.iter().map(|row| 1_700_000_000_000_000 + *row as i64 * 1_000_999).collect();
        column.typed::<Int64Type>().write_batch(&times, None, None).expect("writing to memory works");
        column.close().expect("writing to memory works");
        let mut column = group.next_column().expect("a column").expect("a column");
        let prices: Vec<f64> = rows.iter().map(|row| *row as f64 / 4.0).collect();
        column.typed::<DoubleType>().write_batch(&prices, None, None).expect("writing to memory works");
        column.close().expect("writing to memory works");
        let mut column = group.next_column().expect("a column").expect("a column");
        let props = |row: usize| if row == 4 { "[1]".to_owned() } else { format!("{{\n\"n\":{row}}}") };
        column
            .typed::<ByteArrayType>()
            .write_batch(&bytes(&props), None, None)
            .expect("writing to memory works");
        column.close().expect("writing to memory works");
        group.close().expect("writing to memory works");
    }
    writer.into_inner().expect("writing to memory works")
}

fn mapping() -> Mapping {
    let target = |text| Target::parse(text).expect("a target");
    Mapping::default()
        .column("what", target("event"))
        .column("at", target("ts"))
        .column("price", target("props.cost"))
}

fn file(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.parquet");
    std::fs::write(&path, bytes).expect("a file");
    (folder, path)
}

#[test]
fn mapping_is_applied_from_every_start_row() {
    let (_folder, path) = file(&parquet_file(25));
    let all = read(&path, &mapping(), 0);
    assert_eq!(all.len(), 25);
    assert_eq!(all[3], r#"4 {"event":"e0","ts":1700000003002,"props":{"cost":0.75,"n":3}}"#);
    assert!(all.contains(&"5 !props_not_an_object".to_owned()), "{all:?}");
    for from in [1, 9, 10, 11, 19, 20, 24, 25] {
        assert_eq!(read(&path, &mapping(), from).len(), 25 - from as usize, "from {from}");
    }
    assert_eq!(read(&path, &mapping(), 24), all[24..]);
}

#[test]
fn nested_column_cannot_be_a_field() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/imports/duckdb.parquet");
    let mapping = Mapping::default().column("pair", Target::parse("level").expect("a field"));
    let error = ImportSource::open(&path, FileFormat::Parquet, &mapping, 0)
        .err()
        .expect("it is an error")
        .to_string();
    assert!(error.contains("\"pair\" is nested"), "{error}");
}

#[test]
fn damaged_files_cause_no_panic() {
    let whole = parquet_file(25);
    for at in (4..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x5a;
        let (_folder, path) = file(&damaged);
        let mut batch = EventBatch::default();
        // Reading may succeed, because not all bytes are checked.
        if let Ok(mut source) = ImportSource::open(&path, FileFormat::Parquet, &mapping(), 0) {
            while source.fill(10, &mut batch).is_ok() && batch.rows() > 0 {
                batch.clear();
            }
        }
    }
}
