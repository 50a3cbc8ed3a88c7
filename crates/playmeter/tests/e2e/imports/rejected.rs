//! Rejected lines, files and arguments, and how they are reported.

use super::*;

#[test]
fn rejected_lines_are_reported_and_the_others_are_imported() {
    let world = World::new();
    let mut text = lines("win", 40).into_bytes();
    text.extend_from_slice(b"bad\n\n{\"event\":\"win\",\"other\":1}\n\xff\xfe\n");
    text.extend_from_slice("x".repeat(70_000).as_bytes());
    text.extend_from_slice(b"\n{\"event\":\"\"}\n");
    text.extend_from_slice(lines("win", 10).as_bytes());
    file(&world, "a.ndjson", &text);
    let done = import(&world, &["a.ndjson"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(
        done.err.ends_with("playmeter: 5 of 55 events were rejected; the others were imported\n"),
        "{}",
        done.err
    );
    let expected = "a.ndjson: 55 events\n  50 accepted, 0 duplicate, 5 rejected\n  1 event_name_empty\n  \
                    1 event_too_large\n  1 malformed_json\n  1 not_utf8\n  1 unknown_field\n  \
                    line 41: malformed_json\n  line 43: unknown_field\n  line 44: not_utf8\n  \
                    line 45: event_too_large\n  line 46: event_name_empty\n";
    assert_eq!(done.out, expected);
    let reasons = json!({"event_name_empty": 1, "event_too_large": 1, "malformed_json": 1, "not_utf8": 1, "unknown_field": 1});
    assert_eq!(account(&world, "import"), (50, reasons));
    let again = import(&world, &["a.ndjson"]);
    assert!(again.code == 1 && again.out.contains("55 events, all imported earlier"), "{again:?}");
}

fn check(world: &World, args: &[&str], code: i32, part: &str) {
    let done = import(world, args);
    assert_eq!(done.code, code, "{args:?}: {done:?}");
    assert!(done.err.contains(part), "{part} in {}", done.err);
}

#[test]
fn invalid_argument_is_named() {
    let world = World::new();
    file(&world, "a.ndjson", lines("win", 3));
    file(&world, "a.csv", "event\nwin\n");
    check(&world, &["a.csv", "--columns", "price=value"], 1, "a.csv: the header has no column \"price\"");
    check(
        &world,
        &["a.csv", "--columns", "event=what"],
        1,
        "--columns event: \"what\" is not an event field",
    );
    check(&world, &["a.csv", "--columns", "event"], 2, "NAME=VALUE");
    check(&world, &["a.csv", "--fixed", "who=bo"], 1, "--fixed who");
    check(&world, &["a.csv", "--delimiter", "\n"], 1, "--delimiter");
    check(&world, &["none.ndjson"], 1, "none.ndjson: opening the file");
    check(&world, &["."], 1, "not a regular file");
    check(&world, &["a.ndjson", "--game", "other"], 1, "the key belongs to the game demo");
    check(&world, &[], 2, "FILE");
    assert_eq!(account(&world, "import").0, 0);
}

#[test]
fn files_imported_before_a_failure_are_reported() {
    let world = World::new();
    file(&world, "a.ndjson", lines("win", 3));
    let done = import(&world, &["a.ndjson", "none.ndjson", "--json"]);
    assert!(done.code == 1 && done.err.contains("none.ndjson: opening the file"), "{done:?}");
    let report: Value = serde_json::from_str(&done.out).expect("one object");
    assert_eq!(
        (&report["accepted"], report["files"].as_array().map(Vec::len)),
        (&json!(3), Some(1)),
        "{report}"
    );
}

#[test]
fn import_waits_for_an_exhausted_quota() {
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(
        root.path().join("playmeter.toml"),
        "events_per_second = 400\n[quotas]\nplayer_events_per_second = 1\n",
    )
    .expect("a file");
    let world = World::on(root, &[]);
    // The whole burst of the quota: the first batch of the import has to wait.
    let burst = json!(vec![json!({"event": "hit"}); 4_000]).to_string();
    assert_eq!(world.post(burst).summary(), "4000 accepted");
    file(&world, "a.ndjson", ["bad\n".into(), lines("win", 1_500)].concat());
    let done = import(&world, &["a.ndjson", "--json"]);
    let report: Value = serde_json::from_str(&done.out).expect("one object");
    assert_eq!((&report["accepted"], &report["refused"]), (&json!(1_500), &json!(1)), "{report}");
    // Lines that were sent again are counted once.
    let (accepted, reasons) = account(&world, "import");
    assert_eq!((accepted, reasons.as_object().map(serde_json::Map::len)), (1_500, Some(1)), "{reasons}");
    assert_eq!(reasons["malformed_json"], 1, "{reasons}");
    let limited = requests_with_outcome(&world, "POST", "/v1/import", "refused");
    assert!(limited > 0, "whole requests were rejected with Retry-After");
}

#[test]
fn key_without_import_scope_is_rejected() {
    let world = World::new();
    file(&world, "a.ndjson", lines("win", 3));
    for key in [&world.key("events:write,query"), &world.public_key] {
        check(&world, &["a.ndjson", "--key", key], 1, "events:import");
    }
    let key = world.key("events:write,events:import");
    assert_eq!(import(&world, &["a.ndjson", "--key", &key]).code, 0);
    assert_eq!(stored(&world, "win"), expected_totals(3));
}

#[test]
fn import_without_a_server_explains_how_to_start_one() {
    let mut world = World::new();
    file(&world, "a.ndjson", lines("win", 3));
    world.stop();
    check(&world, &["a.ndjson"], 1, "playmeter serve");
}

#[test]
fn changed_file_is_imported_only_with_the_flag() {
    let world = World::new();
    file(&world, "a.ndjson", lines("win", 100));
    assert_eq!(import_json(&world, &["a.ndjson"])["accepted"], 100);
    file(&world, "a.ndjson", lines("win", 101));
    check(&world, &["a.ndjson"], 1, "the file has changed since 100 of its events were imported");
    assert_eq!(stored(&world, "win"), expected_totals(100));
    assert_eq!(import_json(&world, &["a.ndjson", "--changed"])["accepted"], 101);
    assert_eq!(stored(&world, "win").0, 201.0);
}

#[test]
fn moved_and_changed_file_is_not_imported_again() {
    let world = World::new();
    file(&world, "a.ndjson", lines("win", 100));
    assert_eq!(import_json(&world, &["a.ndjson"])["accepted"], 100);
    std::fs::rename(world.root().join("a.ndjson"), world.root().join("b.ndjson")).expect("it is there");
    check(&world, &["b.ndjson"], 0, "");
    file(&world, "b.ndjson", lines("win", 101));
    check(&world, &["b.ndjson"], 1, "the file has changed since 100 of its events were imported");
    assert_eq!(stored(&world, "win"), expected_totals(100));
}

#[test]
fn invalid_route_parameter_is_named() {
    let world = World::new();
    let post = |query: &str, body: &str| {
        world
            .send(&Request::new("POST", format!("/v1/import{query}")).key(&world.secret_key).body(body))
            .summary()
    };
    let file = "ab".repeat(32);
    assert_eq!(post("?file=ab", "{}"), "400 invalid_field (file)");
    assert_eq!(post("?from=x", "{}"), "400 invalid_field (from)");
    assert_eq!(post("?refused=seen_before:1", "{}"), "400 invalid_field (refused)");
    assert_eq!(post("", ""), "400 malformed");
    assert_eq!(post("?refused=malformed_line:2", ""), "0 accepted");
    let event = r#"{"event":"win"}"#;
    assert_eq!(post(&format!("?file={file}&from=7"), event), "1 accepted");
    assert_eq!(post(&format!("?file={file}&from=7"), event), "0 accepted; 0 duplicate seen_before");
    assert_eq!(post(&format!("?file={file}&from=8"), event), "1 accepted");
    assert_eq!(post("", event), "1 accepted", "without a file, events get no id");
    assert_eq!(account(&world, "import"), (3, json!({"malformed_line": 2, "seen_before": 1})));
}
