//! All files of JSONTestSuite, and our own corpus of difficult bodies.

mod support;

use decode::json::BodyFormat;
use std::path::{Path, PathBuf};
use support::describe;

/// The suite is not part of the repository; without it the test prints a note and passes.
#[test]
fn json_test_suite_passes() {
    let suites = std::env::var_os("PLAYMETER_SUITES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/suites"), PathBuf::from);
    let folder = suites.join("json/test_parsing");
    if !folder.is_dir() {
        testkit::skip::skip(
            "json-suite",
            "set PLAYMETER_SUITES to the folder that contains json/test_parsing",
        );
        return;
    }
    let wrong: Vec<String> =
        files(&folder).iter().filter_map(|(name, body)| wrong_result(name, body)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `y_` files must be accepted, `n_` files rejected; `i_` files may be either, without a panic.
fn wrong_result(name: &str, body: &[u8]) -> Option<String> {
    let described = describe(body, BodyFormat::Json);
    describe(body, BodyFormat::Lines);
    let is_rejected = described.starts_with("malformed");
    let is_wrong = match &name[..2] {
        "y_" => is_rejected,
        "n_" => !is_rejected,
        "i_" => false,
        _ => true,
    };
    is_wrong.then(|| format!("{name}: {described}"))
}

/// Each body is next to its expected result: `name.json` or `name.ndjson`, and `name.txt`. `UPDATE_EXPECT=1` rewrites the
/// expected results.
#[test]
fn corpus_decodes_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut bodies = 0;
    for (name, body) in files(&folder) {
        let form = match name.rsplit_once('.') {
            Some((_, "json")) => BodyFormat::Json,
            Some((_, "ndjson")) => BodyFormat::Lines,
            _ => continue,
        };
        let expected = folder.join(&name).with_extension("txt");
        expect_test::expect_file![expected].assert_eq(&(describe(&body, form) + "\n"));
        bodies += 1;
    }
    assert!(bodies > 20, "the corpus is incomplete: {bodies} bodies found");
}

/// Returns names and contents, sorted by name.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("the folder is readable");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let named = |path: PathBuf| {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        (name, std::fs::read(&path).expect("the file is readable"))
    };
    paths.into_iter().map(named).collect()
}
