//! Streams split into lines.

use decode::lines::{LineChunk, LineSplitter};
use proptest::prelude::*;

/// Returns all chunks of a stream that arrives in pieces of this size: the number of the first line, and the lines.
fn pieces(
    stream: &[u8],
    chunk_bytes: usize,
    line_bytes_max: usize,
    lines_max: usize,
) -> Vec<(u64, Option<String>)> {
    let mut lines = LineSplitter::new(line_bytes_max);
    let mut pieces = Vec::new();
    let mut take_all = |lines: &mut LineSplitter| {
        while let Some(piece) = lines.next_chunk(lines_max) {
            pieces.push(match piece {
                LineChunk::Lines { bytes, first_line } => {
                    (first_line, Some(String::from_utf8_lossy(bytes).into_owned()))
                }
                LineChunk::TooLong { line } => (line, None),
            });
        }
    };
    for chunk in stream.chunks(chunk_bytes) {
        lines.push(chunk);
        take_all(&mut lines);
    }
    lines.finish();
    take_all(&mut lines);
    pieces
}

#[track_caller]
fn check(stream: &str, chunk_bytes: usize, expected: &[(u64, Option<&str>)]) {
    let expected: Vec<_> = expected.iter().map(|(line, text)| (*line, text.map(str::to_string))).collect();
    assert_eq!(pieces(stream.as_bytes(), chunk_bytes, 4, 2), expected);
}

#[test]
fn lines_are_whole_and_limited_per_chunk() {
    check("a\nb\nc\n", 100, &[(1, Some("a\nb\n")), (3, Some("c\n"))]);
    check("a\nb\nc", 100, &[(1, Some("a\nb\n")), (3, Some("c"))]);
    check("ab\ncd\n", 1, &[(1, Some("ab\n")), (2, Some("cd\n"))]);
    check("\n\n\n", 100, &[(1, Some("\n\n")), (3, Some("\n"))]);
    check("", 100, &[]);
}

#[test]
fn too_long_line_is_skipped_alone() {
    check("abcd\nabcde\nx\n", 100, &[(1, Some("abcd\n")), (2, None), (3, Some("x\n"))]);
    check("abcdefghijklmno\nx\n", 3, &[(1, None), (2, Some("x\n"))]);
    check("abcdefghijklmno", 3, &[(1, None)]);
    check("abcdefghijklmno\n", 3, &[(1, None)]);
    check("x\nabcde", 100, &[(1, Some("x\n")), (2, None)]);
}

proptest! {
    #[test]
    fn every_line_is_returned_once_in_order_for_any_division(
        stream in "[ab\n]{0,60}",
        chunk_bytes in 1..20usize,
        line_bytes_max in 1..8usize,
        lines_max in 1..5usize,
    ) {
        let mut next = 1;
        let mut expected = stream.split_inclusive('\n');
        for (line, text) in pieces(stream.as_bytes(), chunk_bytes, line_bytes_max, lines_max) {
            prop_assert_eq!(line, next);
            let lines: Vec<_> = text.iter().flat_map(|text| text.split_inclusive('\n')).collect();
            prop_assert!(lines.len() <= lines_max);
            for line in &lines {
                prop_assert_eq!(Some(*line), expected.next());
                prop_assert!(line.trim_end_matches('\n').len() <= line_bytes_max);
            }
            if text.is_none() {
                prop_assert!(expected.next().is_some_and(|line| line.trim_end_matches('\n').len() > line_bytes_max));
            }
            next += lines.len().max(1) as u64;
        }
        prop_assert_eq!(expected.next(), None);
    }
}
