//! Every file format, and the events counted from it.

use std::fs::File;
use std::io::Write;

use super::*;

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).expect("memory can be written");
    encoder.finish().expect("memory can be written")
}

#[test]
fn plain_and_compressed_ndjson_is_imported() {
    let world = World::new();
    file(&world, "a.ndjson", lines("plain", 5_000));
    file(&world, "b.ndjson.gz", gzip(&lines("gzip", 3_000)));
    file(
        &world,
        "c.jsonl.zst",
        zstd::encode_all(lines("zstd", 2_000).as_bytes(), 1).expect("memory can be written"),
    );
    let report = import_json(&world, &["a.ndjson", "b.ndjson.gz", "c.jsonl.zst"]);
    let sums = ["received", "accepted", "duplicate", "refused"].map(|name| report[name].as_u64());
    assert_eq!(sums, [Some(10_000), Some(10_000), Some(0), Some(0)], "{report}");
    let each: Vec<_> =
        report["files"].as_array().expect("a list").iter().map(|file| &file["accepted"]).collect();
    assert_eq!(each, [5_000, 3_000, 2_000]);
    for (event, count) in [("plain", 5_000), ("gzip", 3_000), ("zstd", 2_000)] {
        assert_eq!(stored(&world, event), expected_totals(count), "{event}");
    }
    assert_eq!(account(&world, "import"), (10_000, json!({})));
    let query =
        json!({"metric": "plain", "from": LONG_AGO_MS, "to": LONG_AGO_MS + 3_600_000, "step": "minute"});
    let minutes = world.query(&query).json()["series"][0]["values"].clone();
    assert_eq!(minutes, json!(vec![60; 60]), "each event counts in its own minute");
    assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true);
}

#[test]
fn csv_is_imported_with_a_mapping() {
    let world = World::new();
    file(&world, "a.csv", "when;price;item\n2024-01-01T10:00:00Z;2.5;hat\n1704103260000;4;bow\n");
    let mapping =
        ["--delimiter", ";", "--fixed", "event=sold", "--columns", "when=ts", "--columns", "price=value"];
    let report = import_json(&world, &[&["a.csv"], &mapping[..]].concat());
    assert_eq!(report["accepted"], 2, "{report}");
    assert_eq!(stored(&world, "sold"), (2.0, 6.5));
}

#[test]
fn parquet_files_of_pyarrow_and_duckdb_are_imported() {
    let world = World::new();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/imports");
    let path = |name: &str| folder.join(name).to_str().expect("a text").to_owned();
    let done = import(&world, &[&path("pyarrow.parquet"), &path("duckdb.parquet")]);
    assert_eq!(done.code, 1, "{done:?}");
    for part in [
        "6 events\n  5 accepted, 0 duplicate, 1 rejected",
        "line 6: event_name_missing",
        "5 events\n  5 accepted",
    ] {
        assert!(done.out.contains(part), "{part} in {}", done.out);
    }
    assert_eq!(stored(&world, "sold"), (10.0, 1.5 + 2.0 + 4.25 + 12.5));
    assert_eq!(account(&world, "import"), (10, json!({"event_name_missing": 1})));
}

#[test]
fn standard_input_is_imported_every_time() {
    let world = World::new();
    let path = file(&world, "a.ndjson", lines("win", 700));
    for times in 1..=2 {
        let mut command = command(&world, &["-", "--json"]);
        let report = run(command.stdin(File::open(&path).expect("it is there"))).json();
        assert_eq!(
            (&report["accepted"], &report["files"][0]["file"]),
            (&json!(700), &json!("standard input")),
            "{report}"
        );
        assert_eq!(stored(&world, "win").0, 700.0 * f64::from(times));
    }
}

#[test]
fn renamed_file_counts_once_even_without_import_state() {
    let world = World::new();
    file(&world, "a.ndjson", lines("win", 900));
    assert_eq!(import_json(&world, &["a.ndjson"])["accepted"], 900);
    let sent = requests(&world, "POST", "/v1/import");
    std::fs::rename(world.root().join("a.ndjson"), world.root().join("b.ndjson")).expect("it is there");
    let again = import(&world, &["b.ndjson"]);
    assert!(again.code == 0 && again.out.contains("900 events, all imported earlier"), "{again:?}");
    assert_eq!(requests(&world, "POST", "/v1/import"), sent, "no event is sent again");
    std::fs::remove_dir_all(world.root().join("state")).expect("it is there");
    let report = import_json(&world, &["b.ndjson"]);
    assert_eq!((&report["accepted"], &report["duplicate"]), (&json!(0), &json!(900)), "{report}");
    assert_eq!(stored(&world, "win"), expected_totals(900));
}

#[test]
fn imported_events_may_be_of_any_age_and_have_their_own_ids() {
    let world = World::new();
    let id = crate::world::new_id();
    let line = format!("{{\"event\":\"old\",\"id\":\"{id}\",\"value\":1,\"ts\":\"2024-06-01T00:00:00Z\"}}\n");
    file(&world, "a.ndjson", line.repeat(3));
    let report = import_json(&world, &["a.ndjson"]);
    assert_eq!((&report["accepted"], &report["duplicate"]), (&json!(1), &json!(2)), "{report}");
    assert_eq!(stored(&world, "old"), (1.0, 1.0));
}
