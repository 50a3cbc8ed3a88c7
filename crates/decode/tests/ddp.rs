//! DDP messages, rule by rule and in the corpus.

use std::path::{Path, PathBuf};

use decode::ddp::ClientMessage;
use expect_test::expect_file;
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::json;

fn describe(text: &str) -> String {
    match ClientMessage::read(text) {
        Ok(message) => describe_message(&message),
        Err(malformed) => format!("error: {malformed}"),
    }
}

fn describe_message(message: &ClientMessage<'_>) -> String {
    let written = |params: &[&serde_json::value::RawValue]| {
        params.iter().map(|param| param.get()).collect::<Vec<_>>().join(" and ")
    };
    match message {
        ClientMessage::Connect { version, support } => format!("connect with {version} of {support:?}"),
        ClientMessage::Ping { id: None } => "ping".to_owned(),
        ClientMessage::Ping { id: Some(id) } => format!("ping {id}"),
        ClientMessage::Pong => "pong".to_owned(),
        ClientMessage::Sub { id, name, params } => format!("sub {id} to {name} with {}", written(params)),
        ClientMessage::Unsub { id } => format!("unsub {id}"),
        ClientMessage::Method { id, method, params } => {
            format!("method {id}: {method} with {}", written(params))
        }
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(describe(text), expected, "{text}");
}

#[test]
fn messages_are_read_by_their_kind() {
    check(r#"{"msg":"connect","version":"1","support":["1","pre2"]}"#, r#"connect with 1 of ["1", "pre2"]"#);
    check(r#"{"msg":"connect","version":"1"}"#, "connect with 1 of []");
    check(r#"{"msg":"ping"}"#, "ping");
    check(r#" {"msg":"ping","id":"7"} "#, "ping 7");
    check(r#"{"msg":"pong","id":"7"}"#, "pong");
    check(r#"{"id":"a","msg":"sub","name":"online"}"#, "sub a to online with ");
    check(
        r#"{"msg":"sub","id":"a","name":"query","params":[{"metric": "hit"}, {"ordered":false}]}"#,
        r#"sub a to query with {"metric": "hit"} and {"ordered":false}"#,
    );
    check(r#"{"msg":"unsub","id":"a"}"#, "unsub a");
    check(r#"{"msg":"method","id":"m","method":"login","params":[]}"#, "method m: login with ");
    check(r#"{"msg":"method","id":"\u0041\"","method":"x"}"#, r#"method A": x with "#);
}

#[test]
fn unknown_messages_are_errors_and_unknown_fields_are_ignored() {
    check(r#"{"server_id":"0"}"#, "error: `msg` is missing");
    check(r#"{"msg":null}"#, "error: `msg` is missing");
    check(
        r#"{"msg":"later","id":"x","params":[1]}"#,
        "error: unknown `msg`: use `connect`, `ping`, `pong`, `sub`, `unsub` or `method`",
    );
    check(r#"{"msg":"unsub","id":"x","why":[{"deep":1}]}"#, "unsub x");
    check(r#"{"msg":"method","id":"x","method":"y","randomSeed":"z"}"#, "method x: y with ");
}

#[test]
fn malformed_messages_report_the_reason() {
    let message = "error: a message must be a JSON object";
    ["", " ", "[]", "7", "null", r#"["sub"]"#, "ping"].into_iter().for_each(|text| check(text, message));
    check(r#"{"msg":"sub","name":"x"}"#, "error: `id` is missing");
    check(r#"{"msg":"sub","id":"","name":"x"}"#, "error: `id` must have 1 to 128 bytes");
    check(r#"{"msg":"sub","id":"x"}"#, "error: `name` is missing");
    check(r#"{"msg":"method","id":"x"}"#, "error: `method` is missing");
    check(r#"{"msg":"connect"}"#, "error: `version` is missing");
    check(r#"{"msg":"method","id":"x","method":"y","params":{}}"#, "error: `params` must be an array");
    check(
        r#"{"msg":"sub","id":"x","name":"y","params":[1,2,3,4,5,6,7,8,9]}"#,
        "error: `params` must have at most 8 elements",
    );
    let long = json!({"msg": "unsub", "id": "x".repeat(129)}).to_string();
    check(&long, "error: `id` must have 1 to 128 bytes");
    assert!(describe(r#"{"msg":"method","id":7,"method":"y"}"#).starts_with("error: not a message"));
    assert!(describe(r#"{"msg":"ping""#).starts_with("error: not a message"));
    assert!(describe(r#"{"msg":"ping","msg":"pong"}"#).starts_with("error: not a message: duplicate field"));
}

/// `name.ddp` and the expected result, `name.ddp.txt`. `UPDATE_EXPECT=1` rewrites the expected results.
#[test]
fn corpus_decodes_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let files = std::fs::read_dir(folder).expect("the corpus exists");
    let files = files.map(|file| file.expect("a file").path());
    let files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|own| own == "ddp")).collect();
    assert!(files.len() >= 15, "the corpus is incomplete: {} files found", files.len());
    for path in files {
        let bytes = std::fs::read(&path).expect("the file is readable");
        let text = String::from_utf8_lossy(&bytes);
        expect_file![path.with_extension("ddp.txt")].assert_eq(&(describe(&text) + "\n"));
    }
}

proptest! {
    #[test]
    fn written_subscription_is_read_back(id in "\\PC{1,20}", name in "\\PC{1,20}", number: i64) {
        let text = json!({"msg": "sub", "id": id, "name": name, "params": [{"n": number}]}).to_string();
        prop_assert_eq!(describe(&text), format!(r#"sub {id} to {name} with {{"n":{number}}}"#));
    }

    #[test]
    fn only_json_is_accepted_and_no_text_panics(text in "\\PC*") {
        if ClientMessage::read(&text).is_ok() {
            prop_assert!(serde_json::from_str::<IgnoredAny>(&text).is_ok());
        }
    }
}
