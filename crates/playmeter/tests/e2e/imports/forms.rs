//! Every form of file, and what is counted of it.

use std::fs::File;
use std::io::Write;

use super::*;

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

#[test]
fn lines_compressed_or_not_are_in_the_answers_as_they_are_in_the_files() {
    let world = World::new();
    file(&world, "a.ndjson", lines("plain", 5_000));
    file(&world, "b.ndjson.gz", gzip(&lines("gzip", 3_000)));
    file(
        &world,
        "c.jsonl.zst",
        zstd::encode_all(lines("zstd", 2_000).as_bytes(), 1).expect("memory takes it"),
    );
    let told = imported(&world, &["a.ndjson", "b.ndjson.gz", "c.jsonl.zst"]);
    let sums = ["received", "accepted", "duplicate", "refused"].map(|name| told[name].as_u64());
    assert_eq!(sums, [Some(10_000), Some(10_000), Some(0), Some(0)], "{told}");
    let each: Vec<_> =
        told["files"].as_array().expect("a list").iter().map(|file| &file["accepted"]).collect();
    assert_eq!(each, [5_000, 3_000, 2_000]);
    for (event, count) in [("plain", 5_000), ("gzip", 3_000), ("zstd", 2_000)] {
        assert_eq!(stored(&world, event), worth(count), "{event}");
    }
    assert_eq!(account(&world, "import"), (10_000, json!({})));
    let query =
        json!({"metric": "plain", "from": LONG_AGO_MS, "to": LONG_AGO_MS + 3_600_000, "step": "minute"});
    let minutes = world.query(&query).json()["series"][0]["values"].clone();
    assert_eq!(minutes, json!(vec![60; 60]), "each in its own minute");
    assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true);
}

#[test]
fn tables_go_in_by_their_mapping() {
    let world = World::new();
    file(&world, "a.csv", "when;price;item\n2024-01-01T10:00:00Z;2.5;hat\n1704103260000;4;bow\n");
    let mapping =
        ["--delimiter", ";", "--fixed", "event=sold", "--columns", "when=ts", "--columns", "price=value"];
    let told = imported(&world, &[&["a.csv"], &mapping[..]].concat());
    assert_eq!(told["accepted"], 2, "{told}");
    assert_eq!(stored(&world, "sold"), (2.0, 6.5));
}

#[test]
fn files_of_pyarrow_and_duckdb_go_in() {
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
fn standard_input_is_new_each_time() {
    let world = World::new();
    let path = file(&world, "a.ndjson", lines("win", 700));
    for times in 1..=2 {
        let mut command = command(&world, &["-", "--json"]);
        let told = run(command.stdin(File::open(&path).expect("it is there"))).json();
        assert_eq!(
            (&told["accepted"], &told["files"][0]["file"]),
            (&json!(700), &json!("standard input")),
            "{told}"
        );
        assert_eq!(stored(&world, "win").0, 700.0 * f64::from(times));
    }
}

#[test]
fn a_file_counts_once_wherever_it_is_and_whatever_forgets_it() {
    let world = World::new();
    file(&world, "a.ndjson", lines("win", 900));
    assert_eq!(imported(&world, &["a.ndjson"])["accepted"], 900);
    let sent = requests(&world, "POST", "/v1/import");
    std::fs::rename(world.root().join("a.ndjson"), world.root().join("b.ndjson")).expect("it is there");
    let again = import(&world, &["b.ndjson"]);
    assert!(again.code == 0 && again.out.contains("900 events, all imported earlier"), "{again:?}");
    assert_eq!(requests(&world, "POST", "/v1/import"), sent, "nothing is sent again");
    std::fs::remove_dir_all(world.root().join("state")).expect("it is there");
    let told = imported(&world, &["b.ndjson"]);
    assert_eq!((&told["accepted"], &told["duplicate"]), (&json!(0), &json!(900)), "{told}");
    assert_eq!(stored(&world, "win"), worth(900));
}

#[test]
fn events_of_a_file_may_be_of_any_age_and_have_ids_of_their_own() {
    let world = World::new();
    let id = crate::world::new_id();
    let line = format!("{{\"event\":\"old\",\"id\":\"{id}\",\"value\":1,\"ts\":\"2024-06-01T00:00:00Z\"}}\n");
    file(&world, "a.ndjson", line.repeat(3));
    let told = imported(&world, &["a.ndjson"]);
    assert_eq!((&told["accepted"], &told["duplicate"]), (&json!(1), &json!(2)), "{told}");
    assert_eq!(stored(&world, "old"), (1.0, 1.0));
}
