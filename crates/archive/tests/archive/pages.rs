//! Events in pages: each exactly once, however files change between two pages.

use archive::pages::{EventCursor, EventPage, PageFormat, PageRequest};
use model::query::Unbounded;
use model::rollup::hash_player;
use proptest::prelude::*;
use serde_json::Value;
use wal::sim::SimDisk;

use crate::world::*;

/// The pages that begin at a place.
fn page(archive: &archive::Archive, from: Option<EventCursor>, request: &PageRequest) -> EventPage {
    let request = PageRequest { from, ..request.clone() };
    EventPage::plan(archive.snapshot(GAME), request, &Unbounded).unwrap()
}

fn text(page: &EventPage) -> String {
    let mut bytes = Vec::new();
    let write = |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        Ok(())
    };
    let mut write = write;
    page.write(&Unbounded, &mut write).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn all(rows_max: u64) -> PageRequest {
    PageRequest {
        times: i64::MIN..i64::MAX,
        from: None,
        rows_max,
        format: PageFormat::Ndjson,
        hidden_players: Vec::new(),
    }
}

/// The lines of all pages. `between` is called with the number of pages so far.
fn lines(archive: &archive::Archive, request: &PageRequest, mut between: impl FnMut(usize)) -> Vec<String> {
    let (mut lines, mut from, mut count) = (Vec::new(), None, 0);
    loop {
        let page = page(archive, from, request);
        let text = text(&page);
        assert_eq!(text.lines().count() as u64, page.rows());
        assert!(page.rows() <= request.rows_max);
        lines.extend(text.lines().map(str::to_owned));
        // A cursor is given to clients as a text.
        from = page.next.map(|next| next.to_string().parse().unwrap());
        if from.is_none() {
            return lines;
        }
        count += 1;
        between(count);
    }
}

#[test]
fn pages_have_every_event_once_while_files_are_cut_and_merged() {
    let options = WorldOptions { players: 3, ..WorldOptions::default() };
    let entries = entries(4, options);
    let whole = open(SimDisk::new(1), small());
    append(&whole, &entries);
    let expected = lines(&whole, &all(u64::MAX), |_| ());
    assert!(expected.len() > 300, "{}", expected.len());
    for rows_max in [1, 7, 64, 1_000] {
        let archive = open(SimDisk::new(1), small());
        append(&archive, &entries);
        let found = lines(&archive, &all(rows_max), |pages| match pages % 40 {
            1 => archive.flush(GAME).unwrap(),
            20 => drop(archive.maintain(START_MS + 30 * DAY_MS).unwrap()),
            _ => {}
        });
        assert_eq!(found, expected, "{rows_max} rows a page");
    }
}

#[test]
fn later_events_move_no_event_to_another_page() {
    let entries = entries(5, WorldOptions { players: 3, late_percent: 60, ..WorldOptions::default() });
    let (first, later) = entries.split_at(25);
    let archive = open(SimDisk::new(1), small());
    append(&archive, first);
    let before = lines(&archive, &all(u64::MAX), |_| ());
    let found = lines(&archive, &all(10), |pages| {
        if pages == 5 {
            append(&archive, later);
            archive.flush(GAME).unwrap();
        }
    });
    let count = |lines: &[String], line: &String| lines.iter().filter(|other| *other == line).count();
    for line in &before {
        assert!(count(&found, line) >= count(&before, line), "{line}");
    }
    let all = lines(&archive, &all(u64::MAX), |_| ());
    for line in &found {
        assert!(count(&found, line) <= count(&all, line), "{line}");
    }
}

#[test]
fn hidden_players_have_events_without_ids() {
    let entries = entries(6, WorldOptions::default());
    let archive = open(SimDisk::new(1), small());
    append(&archive, &entries);
    let hidden_players = vec![hash_player(SEED, b"player-3"), hash_player(SEED, b"anon-4")];
    let shown = lines(&archive, &all(50), |_| ());
    assert!(shown.iter().any(|line| line.contains("player-3\"")));
    assert!(shown.iter().any(|line| line.contains("anon-4\"")));
    let hidden = PageRequest { hidden_players, ..all(50) };
    let hidden = lines(&archive, &hidden, |_| ());
    assert_eq!(hidden.len(), shown.len());
    assert!(!hidden.iter().any(|line| line.contains("player-3\"") || line.contains("anon-4\"")));
}

#[test]
fn csv_and_parquet_have_the_rows_of_ndjson() {
    let archive = open(SimDisk::new(1), small());
    let entries = entries(7, WorldOptions::default());
    append(&archive, &entries[..30]);
    archive.flush(GAME).unwrap();
    append(&archive, &entries[30..]);
    let lines = lines(&archive, &all(u64::MAX), |_| ());
    let csv = text(&page(&archive, None, &PageRequest { format: PageFormat::Csv, ..all(u64::MAX) }));
    assert!(csv.starts_with("ts,event,id,player,"), "{csv:.80}");
    let starts: Vec<String> = lines
        .iter()
        .map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            format!("{},{}", event["ts"].as_str().unwrap(), event["event"].as_str().unwrap())
        })
        .collect();
    // Texts of the world have line breaks, inside of quotes.
    let rows = csv.split("\r\n").skip(1).filter(|row| !row.is_empty());
    assert!(rows.zip(&starts).all(|(row, start)| row.starts_with(start)));
    let (mut rows, mut from) = (0, None);
    loop {
        let page = page(&archive, from, &PageRequest { format: PageFormat::Parquet, ..all(100) });
        let mut bytes = Vec::new();
        let mut write = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok(())
        };
        page.write(&Unbounded, &mut write).unwrap();
        assert_eq!((&bytes[..4], &bytes[bytes.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]));
        rows += page.rows();
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(rows, lines.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn times_and_pages_select_the_same_events_as_a_filter(
        seed in 0u64..1_000,
        rows_max in 1u64..60,
        start in 0i64..3 * DAY_MS,
        length in 0i64..2 * DAY_MS,
        flushed in 0usize..40,
    ) {
        let entries = entries(seed, WorldOptions { players: 4, ..WorldOptions::default() });
        let archive = open(SimDisk::new(1), small());
        append(&archive, &entries[..flushed]);
        archive.flush(GAME).unwrap();
        append(&archive, &entries[flushed..]);
        let times = START_MS + start..START_MS + start + length;
        let in_range = |line: &String| {
            let event: Value = serde_json::from_str(line).unwrap();
            let ts: jiff::Timestamp = event["ts"].as_str().unwrap().parse().unwrap();
            times.contains(&ts.as_millisecond())
        };
        let mut expected = lines(&archive, &all(u64::MAX), |_| ());
        expected.retain(in_range);
        let request = PageRequest { times: times.clone(), ..all(rows_max) };
        prop_assert_eq!(lines(&archive, &request, |_| ()), expected);
    }
}
