//! Holds `docs/failures.md` against the repository: every test that a promise names exists and runs in `make test`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the rows of all tables as (promise, names of tests).
fn promises(page: &str) -> Vec<(&str, Vec<&str>)> {
    for (before, row) in page.lines().zip(page.lines().skip(1)).filter(|(_, row)| row.starts_with('|')) {
        assert!(before.starts_with('|') || row.contains("| shown by |"), "a table without a header: {row}");
    }
    let cells = page.lines().filter(|line| line.starts_with("| ") && !line.contains("| shown by |"));
    cells
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
            let [what, _, tests] = cells[..] else { panic!("a row has three cells: {line}") };
            (what, tests.split('`').skip(1).step_by(2).collect())
        })
        .collect()
}

/// Collects the names of the tests in the Rust files of a folder. A test that is ignored does not count.
fn collect_tests(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect_tests(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("text");
            let mut lines = text.lines().map(str::trim);
            while let Some(line) = lines.next() {
                if line != "#[test]" && !line.starts_with("#[tokio::test") {
                    continue;
                }
                let next = lines.next().unwrap_or_default();
                let name = next.trim_start_matches("async ").strip_prefix("fn ");
                names.extend(name.and_then(|name| name.split('(').next()).map(str::to_owned));
            }
        }
    }
}

#[test]
fn every_promise_names_tests_that_exist() {
    let root = repository();
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("a file of the repository");
    let (page, stages) = (read("docs/failures.md"), read("scripts/gate/stages.py"));
    let mut tests = BTreeSet::new();
    collect_tests(&root.join("crates"), &mut tests);
    let (in_make_test, _) = stages.split_once("\ndef long():").expect("the stages before the long tests");
    let is_known = |name: &str| match name.ends_with(".py") {
        true => root.join(name).exists() && in_make_test.contains(name),
        false => tests.contains(name),
    };
    let promises = promises(&page);
    assert!(promises.len() > 20, "the page has {} rows", promises.len());
    for (promise, names) in promises {
        assert!(!names.is_empty(), "`{promise}` names no test");
        for name in names {
            assert!(is_known(name), "`{promise}` names `{name}`, which `make test` does not run");
        }
    }
}

#[test]
fn ignored_tests_do_not_count() {
    let folder = tempfile::tempdir().expect("a folder");
    let text =
        "#[test]\nfn one() {}\n#[test]\n#[ignore = \"slow\"]\nfn two() {}\n    #[test]\n    fn three() {}\n";
    std::fs::write(folder.path().join("a.rs"), text).expect("it is writable");
    let mut names = BTreeSet::new();
    collect_tests(folder.path(), &mut names);
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["one", "three"]);
}
