//! What is not taken, and how it is told.

use super::*;

#[test]
fn lines_that_cannot_be_events_are_told_and_the_others_are_in() {
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
fn what_is_wrong_with_the_command_is_named() {
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
fn what_was_done_before_a_file_that_fails_is_told() {
    let world = World::new();
    file(&world, "a.ndjson", lines("win", 3));
    let done = import(&world, &["a.ndjson", "none.ndjson", "--json"]);
    assert!(done.code == 1 && done.err.contains("none.ndjson: opening the file"), "{done:?}");
    let told: Value = serde_json::from_str(&done.out).expect("one object");
    assert_eq!((&told["accepted"], told["files"].as_array().map(Vec::len)), (&json!(3), Some(1)), "{told}");
}

#[test]
fn a_quota_that_is_used_up_is_waited_for() {
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(
        root.path().join("playmeter.toml"),
        "events_per_second = 400\n[quotas]\nplayer_events_per_second = 1\n",
    )
    .expect("a file");
    let world = World::on(root, &[]);
    // As much as may be sent at once: what the import sends first has to wait.
    let burst = json!(vec![json!({"event": "hit"}); 4_000]).to_string();
    assert_eq!(world.post(burst).told(), "4000 accepted");
    file(&world, "a.ndjson", ["bad\n".into(), lines("win", 1_500)].concat());
    let done = import(&world, &["a.ndjson", "--json"]);
    let told: Value = serde_json::from_str(&done.out).expect("one object");
    assert_eq!((&told["accepted"], &told["refused"]), (&json!(1_500), &json!(1)), "{told}");
    // What came again is counted once.
    let (accepted, reasons) = account(&world, "import");
    assert_eq!((accepted, reasons.as_object().map(serde_json::Map::len)), (1_500, Some(1)), "{reasons}");
    assert_eq!(reasons["malformed_json"], 1, "{reasons}");
    let limited = answered(&world, "POST", "/v1/import", "refused");
    assert!(limited > 0, "whole requests were told to come again");
}

#[test]
fn a_key_without_the_scope_is_refused() {
    let world = World::new();
    file(&world, "a.ndjson", lines("win", 3));
    for key in [&world.key("events:write,query"), &world.public_key] {
        check(&world, &["a.ndjson", "--key", key], 1, "events:import");
    }
    let key = world.key("events:write,events:import");
    assert_eq!(import(&world, &["a.ndjson", "--key", &key]).code, 0);
    assert_eq!(stored(&world, "win"), worth(3));
}

#[test]
fn without_a_server_it_is_said_how_to_start_one() {
    let mut world = World::new();
    file(&world, "a.ndjson", lines("win", 3));
    world.stop();
    check(&world, &["a.ndjson"], 1, "playmeter serve");
}

#[test]
fn a_file_that_has_changed_is_not_taken_again_by_itself() {
    let world = World::new();
    file(&world, "a.ndjson", lines("win", 100));
    assert_eq!(imported(&world, &["a.ndjson"])["accepted"], 100);
    file(&world, "a.ndjson", lines("win", 101));
    check(&world, &["a.ndjson"], 1, "the file has changed since 100 of its events were imported");
    assert_eq!(stored(&world, "win"), worth(100));
    assert_eq!(imported(&world, &["a.ndjson", "--changed"])["accepted"], 101);
    assert_eq!(stored(&world, "win").0, 201.0);
}

#[test]
fn a_file_that_was_moved_and_then_changed_is_not_taken_again_either() {
    let world = World::new();
    file(&world, "a.ndjson", lines("win", 100));
    assert_eq!(imported(&world, &["a.ndjson"])["accepted"], 100);
    std::fs::rename(world.root().join("a.ndjson"), world.root().join("b.ndjson")).expect("it is there");
    check(&world, &["b.ndjson"], 0, "");
    file(&world, "b.ndjson", lines("win", 101));
    check(&world, &["b.ndjson"], 1, "the file has changed since 100 of its events were imported");
    assert_eq!(stored(&world, "win"), worth(100));
}

#[test]
fn the_route_names_the_parameter_that_is_wrong() {
    let world = World::new();
    let ask = |query: &str, body: &str| {
        world
            .ask(&Request::new("POST", format!("/v1/import{query}")).key(&world.secret_key).body(body))
            .told()
    };
    let file = "ab".repeat(32);
    assert_eq!(ask("?file=ab", "{}"), "400 invalid_field (file)");
    assert_eq!(ask("?from=x", "{}"), "400 invalid_field (from)");
    assert_eq!(ask("?refused=seen_before:1", "{}"), "400 invalid_field (refused)");
    assert_eq!(ask("", ""), "400 malformed");
    assert_eq!(ask("?refused=malformed_line:2", ""), "0 accepted");
    let event = r#"{"event":"win"}"#;
    assert_eq!(ask(&format!("?file={file}&from=7"), event), "1 accepted");
    assert_eq!(ask(&format!("?file={file}&from=7"), event), "0 accepted; 0 duplicate seen_before");
    assert_eq!(ask(&format!("?file={file}&from=8"), event), "1 accepted");
    assert_eq!(ask("", event), "1 accepted", "without a file there is no id");
    assert_eq!(account(&world, "import"), (3, json!({"malformed_line": 2, "seen_before": 1})));
}
