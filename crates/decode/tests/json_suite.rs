//! All files of JSONTestSuite, and our own corpus of bodies that are easy to get wrong.

mod support;

use decode::json::Form;
use std::path::{Path, PathBuf};
use support::describe;

/// The suite is not part of the repository; without it this test says so and passes.
#[test]
fn the_public_suite_is_judged_as_it_asks() {
    let suites = std::env::var_os("PLAYMETER_SUITES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/suites"), PathBuf::from);
    let folder = suites.join("json/test_parsing");
    if !folder.is_dir() {
        eprintln!("SKIPPED: no JSONTestSuite in {}; set PLAYMETER_SUITES to where it is", folder.display());
        return;
    }
    let wrong: Vec<String> = files(&folder).iter().filter_map(|(name, body)| misjudged(name, body)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `y_` files must be read, `n_` files refused; `i_` files may be either, without a panic.
fn misjudged(name: &str, body: &[u8]) -> Option<String> {
    let said = describe(body, Form::Json);
    describe(body, Form::Lines);
    let is_refused = said.starts_with("malformed");
    let is_wrong = match &name[..2] {
        "y_" => is_refused,
        "n_" => !is_refused,
        "i_" => false,
        _ => true,
    };
    is_wrong.then(|| format!("{name}: {said}"))
}

/// Each body lies beside what is expected of it: `name.json` or `name.ndjson`, and `name.txt`.
/// `UPDATE_EXPECT=1` writes the expectations anew.
#[test]
fn the_corpus_says_what_it_always_said() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut bodies = 0;
    for (name, body) in files(&folder) {
        let form = match name.rsplit_once('.') {
            Some((_, "json")) => Form::Json,
            Some((_, "ndjson")) => Form::Lines,
            _ => continue,
        };
        let expected = folder.join(&name).with_extension("txt");
        expect_test::expect_file![expected].assert_eq(&(describe(&body, form) + "\n"));
        bodies += 1;
    }
    assert!(bodies > 20, "the corpus is not where it was: {bodies} bodies found");
}

/// Names and contents, in the order of the names.
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
