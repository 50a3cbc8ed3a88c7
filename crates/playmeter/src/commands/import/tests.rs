//! Files of every format, read as a whole and from every row.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::FromArgMatches;
use decode::csv::{Field, Mapping, Target};

use super::ImportArgs;
use super::batch_sender::{ImportReceipt, ReceiptResult};
use super::ledger::{self, ImportIdentity, ImportLedger, LedgerEntry, RejectedLine};
use super::source::{EventBatch, FileFormat, ImportSource};

/// Writes a file into a temporary folder, which is deleted when dropped.
fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a file");
    (folder, path)
}

/// Opens a file in this format, or in the detected one.
fn open(
    path: &Path,
    format: Option<FileFormat>,
    mapping: &Mapping,
    from: u64,
) -> anyhow::Result<ImportSource> {
    let format = format.map_or_else(|| FileFormat::detect(path), Ok)?;
    ImportSource::open(path, format, mapping, from)
}

/// Reads a file from a row on. Returns events as `LINE TEXT` and rejected lines as `LINE !REASON`.
fn read(
    path: &Path,
    format: Option<FileFormat>,
    mapping: &Mapping,
    from: u64,
    rows_max: usize,
) -> Vec<String> {
    let source = open(path, format, mapping, from);
    let mut source = source.unwrap_or_else(|error| panic!("{error:#}"));
    let (mut batch, mut all) = (EventBatch::default(), Vec::new());
    loop {
        batch.clear();
        source.fill(rows_max, &mut batch).unwrap_or_else(|error| panic!("{error:#}"));
        assert!(batch.rows() <= rows_max);
        if batch.rows() == 0 {
            assert!(
                source.fraction().is_none_or(|fraction| fraction == 1.0),
                "all was read: {:?}",
                source.fraction()
            );
            return all;
        }
        let mut rows: Vec<(u64, String)> =
            batch.lines.iter().copied().zip(batch.body.lines().map(str::to_owned)).collect();
        assert_eq!(rows.len(), batch.lines.len(), "one line per event");
        rows.extend(batch.rejected.iter().map(|(line, reject)| (*line, format!("!{}", reject.label()))));
        rows.sort();
        all.extend(rows.iter().map(|(line, text)| format!("{line} {text}")));
    }
}

/// Checks the rows of a file, read in batches of every size and from every row.
fn check_file(path: &Path, mapping: &Mapping, expected: &[&str]) {
    for rows_max in 1..=expected.len() + 1 {
        for from in 0..=expected.len() {
            let rows = read(path, None, mapping, from as u64, rows_max);
            assert_eq!(rows, expected[from..], "{} from {from}, {rows_max} per batch", path.display());
        }
    }
}

fn check(name: &str, bytes: &[u8], mapping: &Mapping, expected: &[&str]) {
    let (_folder, path) = file(name, bytes);
    check_file(&path, mapping, expected);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("writing to memory works");
    encoder.finish().expect("writing to memory works")
}

const LINES: &str = "{\"event\":\"a\"}\n\n  \r\nbad\n{\"event\":\"b\"}\r\n\t{\"event\":\"c\"}";
const LINES_READ: [&str; 4] =
    ["1 {\"event\":\"a\"}", "4 bad", "5 {\"event\":\"b\"}\r", "6 \t{\"event\":\"c\"}"];

#[test]
fn lines_are_unchanged_and_blank_ones_are_skipped() {
    let read = LINES_READ.map(|line| line.trim_end());
    check("a.ndjson", LINES.as_bytes(), &Mapping::default(), &read);
    check("a.jsonl", b"", &Mapping::default(), &[]);
    let long = [b"{}\n", "x".repeat(70_000).as_bytes(), b"\n\xff\n{}\n"].concat();
    check("a.ndjson", &long, &Mapping::default(), &["1 {}", "2 !event_too_large", "3 !not_utf8", "4 {}"]);
}

#[test]
fn byte_order_mark_is_removed_from_the_first_line() {
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
fn compressed_files_are_decompressed() {
    let read = LINES_READ.map(|line| line.trim_end());
    check("a.ndjson.gz", &gzip(LINES.as_bytes()), &Mapping::default(), &read);
    check("unnamed", &gzip(LINES.as_bytes()), &Mapping::default(), &read);
    let both = [gzip(&LINES.as_bytes()[..20]), gzip(&LINES.as_bytes()[20..])].concat();
    check("a.ndjson.gz", &both, &Mapping::default(), &read);
    let zstd = zstd::encode_all(LINES.as_bytes(), 1).expect("writing to memory works");
    check("a.ndjson.zst", &zstd, &Mapping::default(), &read);
    let csv = gzip(b"event,value\nwin,3\n");
    check("a.csv.gz", &csv, &Mapping::default(), &["2 {\"event\":\"win\",\"value\":3e0}"]);
}

#[test]
fn csv_columns_are_mapped() {
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
fn unreadable_file_is_an_error_with_the_reason() {
    let error_of = |name: &str, bytes: &[u8], format| {
        let (_folder, path) = file(name, bytes);
        let mut batch = EventBatch::default();
        let read = open(&path, format, &Mapping::default(), 0);
        let error = read.and_then(|mut source| source.fill(10, &mut batch)).expect_err("it cannot be read");
        format!("{error:#}")
    };
    let whole = gzip(LINES.as_bytes());
    for (name, bytes, format, part) in [
        ("a.json", &b"[{}]"[..], None, "one object per line"),
        ("a.txt", b"event,value\n", None, "--format"),
        ("a.csv", b"", None, "no header"),
        ("a.ndjson.gz", &whole[..whole.len() - 9], None, "reading the file"),
        ("a.parquet", b"PAR1 and nothing else", None, "arquet"),
        ("a.ndjson", b"{}", Some(FileFormat::Parquet), "arquet"),
    ] {
        let error = error_of(name, bytes, format);
        assert!(error.contains(part), "{name}: {error}");
    }
}

fn receipt(accepted: u64, results: &[(usize, &str, &str)]) -> ImportReceipt {
    let result = |(i, outcome, reason): &(usize, &str, &str)| ReceiptResult {
        i: *i,
        outcome: (*outcome).to_owned(),
        reason: (*reason).to_owned(),
    };
    let results: Vec<ReceiptResult> = results.iter().map(result).collect();
    let duplicate = results.iter().filter(|result| result.outcome == "duplicate").count() as u64;
    ImportReceipt { accepted, duplicate, results, commit_ms: None }
}

fn identity<'a>(path: &'a str, sha256: &'a [u8; 32], options: &'a str) -> ImportIdentity<'a> {
    ImportIdentity { path, sha256, options }
}

#[test]
fn receipts_are_added_to_the_entry() {
    let batch = EventBatch {
        lines: vec![1, 2, 4, 5],
        rejected: vec![(3, model::Reject::NotUtf8)],
        ..EventBatch::default()
    };
    let mut entry = LedgerEntry::new("/a", &[0; 32]);
    entry.add(
        &batch,
        &receipt(1, &[(1, "duplicate", "seen_before"), (2, "late", "too_old"), (3, "invalid", "not_utf8")]),
    );
    assert_eq!((entry.received, entry.sent, entry.accepted, entry.duplicate), (5, 4, 1, 1));
    let rejected: Vec<_> = entry.rejected.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    assert_eq!(rejected, [("not_utf8", 2), ("too_old", 1)]);
    let example = |line, reason: &str| RejectedLine { line, reason: reason.to_owned() };
    assert_eq!(entry.examples, [example(3, "not_utf8"), example(4, "too_old"), example(5, "not_utf8")]);
    assert_eq!(entry.received, entry.accepted + entry.duplicate + entry.rejected_count());
}

#[test]
fn entry_is_found_by_content_and_read_options() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = |identity: &ImportIdentity<'_>| ImportLedger::open(folder.path(), identity);
    let one = identity("/a", &[1; 32], "csv");
    let (mut ledger, mut entry) = open(&one).expect("a new entry");
    entry.received = 7;
    ledger.write(&entry).expect("it can be written");
    let second = open(&one).err().expect("it is locked").to_string();
    assert!(second.contains("another process"), "{second}");
    drop(ledger);
    let moved = open(&identity("/moved", &[1; 32], "csv")).expect("it exists").1;
    assert_eq!(moved.received, entry.received);
    assert_eq!(open(&identity("/a", &[1; 32], "tsv")).expect("a new entry").1.received, 0);
    assert_eq!(open(&identity("/a", &[2; 32], "csv")).expect("a new entry").1.received, 0);
}

/// Returns the read options for these flags.
fn read_options(format: FileFormat, flags: &str) -> String {
    let arguments = ["import", "a.csv"].into_iter().chain(flags.split_whitespace());
    let command = <ImportArgs as clap::Args>::augment_args(clap::Command::new("import"));
    let matches = command.try_get_matches_from(arguments).expect("they are flags");
    ImportArgs::from_arg_matches(&matches).expect("they are flags").read_options(format)
}

#[test]
fn equivalent_flags_have_the_same_read_options() {
    let check = |one: &str, other: &str, is_same: bool| {
        assert_eq!(
            read_options(FileFormat::Csv, one) == read_options(FileFormat::Csv, other),
            is_same,
            "{one:?} and {other:?}"
        );
    };
    check("", "--format csv --others props --delimiter , --json --unpaced", true);
    check("--columns a=ts --columns b=value", "--columns b=value --columns a=ts", true);
    check("--fixed event=a --fixed platform=b", "--fixed platform=b --fixed event=a", true);
    check("--columns a=ts --columns b=value", "--columns a=value --columns b=ts", false);
    check("--columns a=ts --columns a=value", "--columns a=value --columns a=ts", false);
    check("--columns event=ignore", "--fixed event=ignore", false);
    check("", "--others ignore", false);
    check("", "--delimiter ;", false);
    assert_ne!(read_options(FileFormat::Csv, ""), read_options(FileFormat::Ndjson, ""));
}

#[test]
fn unreadable_entry_is_an_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut ledger, entry) =
        ImportLedger::open(folder.path(), &identity("/a", &[1; 32], "csv")).expect("a new entry");
    ledger.write(&entry).expect("it can be written");
    drop(ledger);
    let files =
        std::fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").path());
    let path = files
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "json"))
        .expect("it was written");
    for text in ["", "{}", "\0\0"] {
        std::fs::write(&path, text).expect("a file");
        let opened = ImportLedger::open(folder.path(), &identity("/a", &[1; 32], "csv"));
        let error = opened.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("is not an entry of the import ledger; move it away"), "{text:?}: {error}");
    }
}

#[test]
fn changed_file_is_detected() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let changed = |path, sha256: [u8; 32]| {
        ledger::find_changed(folder.path(), &identity(path, &sha256, "csv"))
            .expect("it can be read")
            .is_some()
    };
    assert!(!changed("/a", [1; 32]), "the ledger is empty");
    let (mut ledger, mut entry) =
        ImportLedger::open(folder.path(), &identity("/a", &[1; 32], "csv")).expect("a new entry");
    entry.received = 7;
    ledger.write(&entry).expect("it can be written");
    assert!(!changed("/a", [1; 32]));
    assert!(changed("/a", [2; 32]));
    assert!(!changed("/b", [2; 32]));
    drop(ledger);
    ImportLedger::open(folder.path(), &identity("/b", &[1; 32], "csv")).expect("it was moved");
    assert!(changed("/b", [2; 32]));
    assert!(!changed("/a", [2; 32]), "a file at the old path is a different one");
}
