//! Collectors that read files of a folder.

use std::path::PathBuf;

use super::*;

/// A server that reads files of a folder next to its data folder.
pub(crate) fn world_with_folder(decoder: &str, more: &str) -> (World, PathBuf) {
    let root = tempfile::tempdir().expect("a temporary folder");
    let inbox = root.path().join("inbox");
    std::fs::create_dir(&inbox).expect("a folder");
    let config = format!(
        "[collectors.one]\ntransport='dir'\ndecoder='{decoder}'\npath='{}'\nsettle_ms=50\nscan_interval_ms=20\n{more}",
        inbox.display()
    );
    std::fs::write(root.path().join("playmeter.toml"), config).expect("a file");
    (World::on(root, &[]), inbox)
}

pub(crate) fn wait_for(file: &std::path::Path, world: &World) -> String {
    let deadline = Instant::now() + TIMEOUT;
    // A new file may be empty for a moment.
    while std::fs::metadata(file).map_or(0, |file| file.len()) == 0 {
        assert!(
            Instant::now() < deadline,
            "no {}: {}\n{}",
            file.display(),
            collector(world, "one"),
            world.log_lines()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::read_to_string(file).expect("a text")
}

#[test]
fn ndjson_file_is_read_and_archived() {
    let (world, inbox) = world_with_folder("json", "");
    let text = "{\"event\":\"win\",\"value\":2}\nbad\n\n{\"event\":\"win\",\"value\":3}\n{\"event\":\"win\",\"value\":4}";
    std::fs::write(inbox.join("one.json.part"), text).expect("a file");
    std::fs::rename(inbox.join("one.json.part"), inbox.join("one.json")).expect("a file");
    assert_eq!(wait_for(&inbox.join("archive/one.json"), &world), text);
    assert!(!inbox.join("one.json").exists());
    assert_eq!(measured(&world, "win", "sum"), 9.0);
    assert_eq!(account(&world, "json"), (3, json!({"malformed_json": 1})));
    let now = wait_received(&world, "one", 4);
    assert_eq!(
        (&now["counters"]["packets"], &now["counters"]["bytes"]),
        (&json!(1), &json!(text.len())),
        "{now}"
    );
}

#[test]
fn csv_file_is_mapped_and_deleted() {
    let more = "after='delete'\ndelimiter=';'\nfixed={event='sold'}\ncolumns={price='value',item='props.item'}\ntags=['item']\n";
    let (world, inbox) = world_with_folder("csv", more);
    std::fs::write(inbox.join("sales.csv"), "price;item\n2.5;hat\n4;bow\nfree;bow\n").expect("a file");
    wait_received(&world, "one", 3);
    wait_until(&world, "one", |now| now["counters"]["packets"] == 1);
    assert!(!inbox.join("sales.csv").exists());
    assert_eq!(measured(&world, "sold", "sum"), 6.5);
    let query = json!({"metric": "sold", "by": ["item"], "last": "24h", "step": "all"});
    assert_eq!(world.query(&query).json()["series"].as_array().map(Vec::len), Some(2));
}

#[test]
fn unreadable_file_is_moved_to_failed_with_the_reason() {
    let (world, inbox) = world_with_folder("csv", "columns={price='value'}\nfile_bytes_max=1000\n");
    std::fs::write(inbox.join("other.csv"), "cost,event\n1,sold\n").expect("a file");
    std::fs::write(inbox.join("large.csv"), "x".repeat(1001)).expect("a file");
    assert_eq!(
        wait_for(&inbox.join("failed/other.csv.reason.txt"), &world),
        "the header has no column \"price\"\n"
    );
    let reason = wait_for(&inbox.join("failed/large.csv.reason.txt"), &world);
    assert!(reason.contains("file_bytes_max"), "{reason}");
    assert_eq!(collector(&world, "one")["state"], "running");
    assert_eq!(account(&world, "csv").0, 0);
}

#[test]
fn file_over_quota_counts_once_and_does_not_delay_live_traffic() {
    let (world, inbox) = world_with_folder("json", "import=true\n[quotas]\nkey_events_per_second=1000\n");
    // More than the burst of the quota.
    let text = ["bad\n", &"{\"event\":\"win\"}\n".repeat(12_000)].concat();
    std::fs::write(inbox.join("one.json"), text).expect("a file");
    wait_for(&inbox.join("archive/one.json"), &world);
    let target = world.send(&Request::get("/v1/import").key(&world.secret_key)).json();
    assert_eq!(target["commit_ms"], Value::Null, "the commits of an imported file do not delay live traffic");
    assert_eq!(account(&world, "json"), (12_000, json!({"malformed_json": 1})));
    assert_eq!(wait_received(&world, "one", 12_001)["counters"]["received"], 12_001);
}

#[test]
fn interrupted_file_counts_once() {
    let (mut world, inbox) = world_with_folder("json", "");
    const LINES: u64 = 60_000;
    let text: String = (0..LINES).map(|n| format!("{{\"event\":\"win\",\"value\":{}}}\n", n % 7)).collect();
    std::fs::write(inbox.join(".many.json"), &text).expect("a file");
    std::fs::rename(inbox.join(".many.json"), inbox.join("many.json")).expect("a file");
    let now = wait_until(&world, "one", |now| now["counters"]["accepted"].as_u64() > Some(0));
    world.kill9();
    assert!(inbox.join("many.json").exists(), "it was killed in the middle: {now}");
    world.start();
    wait_for(&inbox.join("archive/many.json"), &world);
    let sum: u64 = (0..LINES).map(|n| n % 7).sum();
    assert_eq!(measured(&world, "win", "count"), LINES as f64);
    assert_eq!(measured(&world, "win", "sum"), sum as f64);
    let (accepted, reasons) = account(&world, "json");
    let again =
        reasons["seen_before"].as_u64().expect("lines that were stored before the kill are duplicates");
    assert_eq!((accepted, again > 0), (LINES, true), "{reasons}");
}
