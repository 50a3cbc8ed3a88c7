//! Files of every form, read whole and from every place.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::FromArgMatches;
use decode::csv::{Field, Mapping, Target};

use super::ImportArgs;
use super::ledger::{self, Account, Example, Ledger, Subject};
use super::sender::{NotAccepted, Receipt};
use super::source::{Batch, Form, Source};

/// A file in a folder that is gone in the end.
fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a file");
    (folder, path)
}

/// A file of this form, or of the one that is told by itself.
fn open(path: &Path, form: Option<Form>, mapping: &Mapping, from: u64) -> anyhow::Result<Source> {
    let form = form.map_or_else(|| Form::of(path), Ok)?;
    Source::open(path, form, mapping, from)
}

/// What is read of a file from a row on: events as `LINE TEXT`, refused lines as `LINE !REASON`.
fn read(path: &Path, form: Option<Form>, mapping: &Mapping, from: u64, rows_max: usize) -> Vec<String> {
    let source = open(path, form, mapping, from);
    let mut source = source.unwrap_or_else(|failure| panic!("{failure:#}"));
    let (mut batch, mut told) = (Batch::default(), Vec::new());
    loop {
        batch.clear();
        source.fill(rows_max, &mut batch).unwrap_or_else(|failure| panic!("{failure:#}"));
        assert!(batch.rows() <= rows_max);
        if batch.rows() == 0 {
            assert!(source.part().is_none_or(|part| part == 1.0), "all was read: {:?}", source.part());
            return told;
        }
        let mut rows: Vec<(u64, String)> =
            batch.lines.iter().copied().zip(batch.body.lines().map(str::to_owned)).collect();
        assert_eq!(rows.len(), batch.lines.len(), "one line an event");
        rows.extend(batch.refused.iter().map(|(line, reject)| (*line, format!("!{}", reject.label()))));
        rows.sort();
        told.extend(rows.iter().map(|(line, text)| format!("{line} {text}")));
    }
}

/// The same in batches of every size and from every row.
fn check_file(path: &Path, mapping: &Mapping, expected: &[&str]) {
    for rows_max in 1..=expected.len() + 1 {
        for from in 0..=expected.len() {
            let told = read(path, None, mapping, from as u64, rows_max);
            assert_eq!(told, expected[from..], "{} from {from}, {rows_max} at once", path.display());
        }
    }
}

fn check(name: &str, bytes: &[u8], mapping: &Mapping, expected: &[&str]) {
    let (_folder, path) = file(name, bytes);
    check_file(&path, mapping, expected);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

const LINES: &str = "{\"event\":\"a\"}\n\n  \r\nbad\n{\"event\":\"b\"}\r\n\t{\"event\":\"c\"}";
const LINES_READ: [&str; 4] =
    ["1 {\"event\":\"a\"}", "4 bad", "5 {\"event\":\"b\"}\r", "6 \t{\"event\":\"c\"}"];

#[test]
fn lines_are_sent_as_they_are_and_blank_ones_are_none() {
    let read = LINES_READ.map(|line| line.trim_end());
    check("a.ndjson", LINES.as_bytes(), &Mapping::default(), &read);
    check("a.jsonl", b"", &Mapping::default(), &[]);
    let long = [b"{}\n", "x".repeat(70_000).as_bytes(), b"\n\xff\n{}\n"].concat();
    check("a.ndjson", &long, &Mapping::default(), &["1 {}", "2 !event_too_large", "3 !not_utf8", "4 {}"]);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line() {
    let read = LINES_READ.map(|line| line.trim_end());
    let marked = ["\u{feff}", LINES].concat();
    for name in ["a.ndjson", "unnamed"] {
        check(name, marked.as_bytes(), &Mapping::default(), &read);
        check(name, &gzip(marked.as_bytes()), &Mapping::default(), &read);
    }
    check("a.ndjson", "\u{feff}\n{}\n".as_bytes(), &Mapping::default(), &["2 {}"]);
    check("a.ndjson", "{}\n\u{feff}{}\n".as_bytes(), &Mapping::default(), &["1 {}", "2 \u{feff}{}"]);
}

#[test]
fn what_is_compressed_is_read_as_what_is_not() {
    let read = LINES_READ.map(|line| line.trim_end());
    check("a.ndjson.gz", &gzip(LINES.as_bytes()), &Mapping::default(), &read);
    check("unnamed", &gzip(LINES.as_bytes()), &Mapping::default(), &read);
    let both = [gzip(&LINES.as_bytes()[..20]), gzip(&LINES.as_bytes()[20..])].concat();
    check("a.ndjson.gz", &both, &Mapping::default(), &read);
    let zstd = zstd::encode_all(LINES.as_bytes(), 1).expect("memory takes it");
    check("a.ndjson.zst", &zstd, &Mapping::default(), &read);
    let csv = gzip(b"event,value\nwin,3\n");
    check("a.csv.gz", &csv, &Mapping::default(), &["2 {\"event\":\"win\",\"value\":3e0}"]);
}

#[test]
fn columns_of_a_table_go_where_the_mapping_says() {
    let mapping = Mapping::default().column("when", Target::parse("ts").expect("a field"));
    let mapping =
        mapping.fixed(Field::parse("event").expect("a field"), "sold").delimiter(';').expect("a delimiter");
    let csv = "when;value;item\n2024-01-01T00:00:00Z;2.5;\"a\nhat\"\n\nnever;1;x\n1704067260000;;7\n3;4\n";
    let expected = [
        r#"2 {"event":"sold","ts":1704067200000,"value":2.5e0,"props":{"item":"a\u000ahat"}}"#,
        "5 !ts_invalid",
        r#"6 {"event":"sold","ts":1704067260000,"props":{"item":7}}"#,
        "7 !malformed_line",
    ];
    check("a.csv", csv.as_bytes(), &mapping, &expected);
}

#[test]
fn what_cannot_be_read_says_why() {
    let why = |name: &str, bytes: &[u8], form| {
        let (_folder, path) = file(name, bytes);
        let mut batch = Batch::default();
        let read = open(&path, form, &Mapping::default(), 0);
        let failure = read.and_then(|mut source| source.fill(10, &mut batch)).expect_err("it cannot be read");
        format!("{failure:#}")
    };
    let whole = gzip(LINES.as_bytes());
    for (name, bytes, form, part) in [
        ("a.json", &b"[{}]"[..], None, "one object a line"),
        ("a.txt", b"event,value\n", None, "--format"),
        ("a.csv", b"", None, "no header"),
        ("a.ndjson.gz", &whole[..whole.len() - 9], None, "reading it"),
        ("a.parquet", b"PAR1 and nothing else", None, "arquet"),
        ("a.ndjson", b"{}", Some(Form::Parquet), "arquet"),
    ] {
        let told = why(name, bytes, form);
        assert!(told.contains(part), "{name}: {told}");
    }
}

fn receipt(accepted: u64, results: &[(usize, &str, &str)]) -> Receipt {
    let result = |(i, outcome, reason): &(usize, &str, &str)| NotAccepted {
        i: *i,
        outcome: (*outcome).to_owned(),
        reason: (*reason).to_owned(),
    };
    let results: Vec<NotAccepted> = results.iter().map(result).collect();
    let duplicate = results.iter().filter(|result| result.outcome == "duplicate").count() as u64;
    Receipt { accepted, duplicate, results, commit_ms: None }
}

fn subject<'a>(path: &'a str, sha256: &'a [u8; 32], reading: &'a str) -> Subject<'a> {
    Subject { path, sha256, reading }
}

#[test]
fn what_became_of_each_line_is_added_up() {
    let batch =
        Batch { lines: vec![1, 2, 4, 5], refused: vec![(3, model::Reject::NotUtf8)], ..Batch::default() };
    let mut account = Account::new("/a", &[0; 32]);
    account.add(
        &batch,
        &receipt(1, &[(1, "duplicate", "seen_before"), (2, "late", "too_old"), (3, "invalid", "not_utf8")]),
    );
    assert_eq!((account.received, account.sent, account.accepted, account.duplicate), (5, 4, 1, 1));
    let refused: Vec<_> = account.refused.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    assert_eq!(refused, [("not_utf8", 2), ("too_old", 1)]);
    let example = |line, reason: &str| Example { line, reason: reason.to_owned() };
    assert_eq!(account.examples, [example(3, "not_utf8"), example(4, "too_old"), example(5, "not_utf8")]);
    assert_eq!(account.received, account.accepted + account.duplicate + account.refused_count());
}

#[test]
fn an_account_is_found_again_by_the_content_and_the_way_of_reading() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = |subject: &Subject<'_>| Ledger::open(folder.path(), subject);
    let one = subject("/a", &[1; 32], "csv");
    let (mut ledger, mut account) = open(&one).expect("a new account");
    account.received = 7;
    ledger.keep(&account).expect("it can be kept");
    let second = open(&one).err().expect("it is locked").to_string();
    assert!(second.contains("another process"), "{second}");
    drop(ledger);
    let moved = open(&subject("/moved", &[1; 32], "csv")).expect("it is there").1;
    assert_eq!(moved.received, account.received);
    assert_eq!(open(&subject("/a", &[1; 32], "tsv")).expect("a new account").1.received, 0);
    assert_eq!(open(&subject("/a", &[2; 32], "csv")).expect("a new account").1.received, 0);
}

/// How a file of this form is read with these flags.
fn reading(form: Form, flags: &str) -> String {
    let words = ["import", "a.csv"].into_iter().chain(flags.split_whitespace());
    let command = <ImportArgs as clap::Args>::augment_args(clap::Command::new("import"));
    let matches = command.try_get_matches_from(words).expect("they are flags");
    ImportArgs::from_arg_matches(&matches).expect("they are flags").reading(form)
}

#[test]
fn the_same_import_written_otherwise_has_the_same_account() {
    let check = |one: &str, other: &str, is_same: bool| {
        assert_eq!(reading(Form::Csv, one) == reading(Form::Csv, other), is_same, "{one:?} and {other:?}");
    };
    check("", "--format csv --others props --delimiter , --json --unpaced", true);
    check("--columns a=ts --columns b=value", "--columns b=value --columns a=ts", true);
    check("--fixed event=a --fixed platform=b", "--fixed platform=b --fixed event=a", true);
    check("--columns a=ts --columns b=value", "--columns a=value --columns b=ts", false);
    check("--columns a=ts --columns a=value", "--columns a=value --columns a=ts", false);
    check("--columns event=ignore", "--fixed event=ignore", false);
    check("", "--others ignore", false);
    check("", "--delimiter ;", false);
    assert_ne!(reading(Form::Csv, ""), reading(Form::Ndjson, ""));
}

#[test]
fn an_account_that_cannot_be_read_is_not_taken_for_a_new_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut ledger, account) =
        Ledger::open(folder.path(), &subject("/a", &[1; 32], "csv")).expect("a new account");
    ledger.keep(&account).expect("it can be kept");
    drop(ledger);
    let kept =
        std::fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").path());
    let path =
        kept.into_iter().find(|path| path.extension().is_some_and(|end| end == "json")).expect("it was kept");
    for text in ["", "{}", "\0\0"] {
        std::fs::write(&path, text).expect("a file");
        let opened = Ledger::open(folder.path(), &subject("/a", &[1; 32], "csv"));
        let told = opened.err().map(|failure| failure.to_string()).unwrap_or_default();
        assert!(told.contains("is no account of an import; move it away"), "{text:?}: {told}");
    }
}

#[test]
fn a_file_that_has_changed_is_noticed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let changed = |path, sha256: [u8; 32]| {
        ledger::changed(folder.path(), &subject(path, &sha256, "csv")).expect("it can be read").is_some()
    };
    assert!(!changed("/a", [1; 32]), "nothing is known");
    let (mut ledger, mut account) =
        Ledger::open(folder.path(), &subject("/a", &[1; 32], "csv")).expect("a new account");
    account.received = 7;
    ledger.keep(&account).expect("it can be kept");
    assert!(!changed("/a", [1; 32]));
    assert!(changed("/a", [2; 32]));
    assert!(!changed("/b", [2; 32]));
    drop(ledger);
    Ledger::open(folder.path(), &subject("/b", &[1; 32], "csv")).expect("it was moved");
    assert!(changed("/b", [2; 32]));
    assert!(!changed("/a", [2; 32]), "what comes where it was is another file");
}
