//! The conformance suite for rollups.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::Dimension;
use model::limits::{METRICS_MAX, TUPLES_MAX, VALUES_PER_DIMENSION};
use model::ports::counters::{
    Counters, ExportedRow, ExportedRows, RecordsCheck, RowChange, SideState, SlotSelector, SnapshotRow,
    StoreSnapshot,
};
use model::ports::records::RecordWrite;
use model::rollup::{Aggregate, HourBlock};
use model::series::{Cut, EVENTS, OTHER, Resolution, TUPLE_SEPARATOR};
use proptest::prelude::*;

use crate::counters::{MemoryCounters, MemoryDisk};
use crate::events::{TestEvent, assert_matches_recount, deltas_of};

const EVERY_HOUR: Range<u32> = 0..u32::MAX;
const VALUES_MAX: usize = VALUES_PER_DIMENSION as usize;
const COUNTRY: Cut = Cut::By(Dimension::Country);
const LEVEL: Cut = Cut::By(Dimension::Level);

/// Runs all checks. `new_store` returns an opener for a new, empty store each time. An opener called again simulates
/// a restart after a crash: the previous instance was dropped without a checkpoint.
pub fn counters_conform<H: Fn() -> Arc<dyn Counters>>(new_store: impl Fn() -> H) {
    range_applied_twice_counts_once(Harness::new(new_store()));
    committed_rows_survive_a_restart(Harness::new(new_store()));
    uncommitted_rows_are_applied_again(Harness::new(new_store()));
    checkpoint_contains_only_ranges_applied_before_it(Harness::new(new_store()));
    side_state_belongs_to_the_position(Harness::new(new_store()));
    records_belong_to_the_position(Harness::new(new_store()));
    visit_sees_the_selected_slots(Harness::new(new_store()));
    readers_see_whole_ranges(Harness::new(new_store()));
    metrics_are_listed_by_hour(Harness::new(new_store()));
    exported_rows_replace_stored_rows(Harness::new(new_store()));
    snapshot_contains_the_last_checkpoint(Harness::new(new_store()));
    known_values_follow_replaced_hours(Harness::new(new_store()));
    removed_rows_are_gone_for_good(Harness::new(new_store()));
    late_events_reach_unloaded_hours(Harness::new(new_store()));
    first_values_of_a_day_have_rows_and_the_rest_share_one(Harness::new(new_store()));
    limit_change_applies_from_its_offset(Harness::new(new_store()));
    first_combinations_of_a_day_have_rows(Harness::new(new_store()));
    first_names_of_a_day_have_rows(Harness::new(new_store()));
    for at in [0, 1, 700, VALUES_MAX, VALUES_MAX + 1, 1_500] {
        restart_keeps_the_known_values_of_a_day(Harness::new(new_store()), at);
    }
}

fn range_applied_twice_counts_once<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    harness.append("7 score a FR 1 10\n 7 score b FR 1 5\n 8 start a FR 1 -");
    harness.apply(2);
    harness.check(COUNTRY, "7 FR 2/15 by 2");
    harness.apply_range(0..2);
    harness.apply_range(0..1);
    harness.check(COUNTRY, "7 FR 2/15 by 2");
    harness.apply_range(2..3);
    harness.apply_range(2..3);
    harness.apply_range(0..3);
    harness.check(COUNTRY, "7 FR 2/15 by 2");
    assert_eq!(harness.counters().applied_until(), 3);
}

fn committed_rows_survive_a_restart<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    assert_eq!((harness.counters().applied_until(), harness.counters().durable_until()), (0, 0));
    harness.append("7 score a FR 1 10\n 70 score b FR 2 5\n 3000 score b DE 2 0.1");
    harness.apply(3);
    assert_eq!(harness.counters().durable_until(), 0);
    harness.checkpoint();
    assert_eq!(harness.counters().durable_until(), 3);
    let before = harness.rows();
    harness.restart();
    assert_eq!((harness.counters().applied_until(), harness.counters().durable_until()), (3, 3));
    assert_eq!(harness.rows(), before);
    harness.check(COUNTRY, "7 FR 1/10 by 1, 70 FR 1/5 by 1, 3000 DE 1/0.1 by 1");
    harness.apply_range(0..3);
    assert_eq!(harness.rows(), before);
}

fn uncommitted_rows_are_applied_again<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    harness.append("7 score a FR 1 10\n 7 score b FR 2 5\n 8 score b DE 2 1");
    harness.apply(1);
    harness.checkpoint();
    harness.apply(2);
    let before = harness.rows();
    harness.restart();
    assert_eq!((harness.counters().applied_until(), harness.counters().durable_until()), (1, 1));
    harness.check(COUNTRY, "7 FR 1/10 by 1");
    harness.apply(2);
    assert_eq!(harness.rows(), before);
    drop(harness.counters().checkpoint(SideState::default()));
    harness.restart();
    assert_eq!(harness.counters().applied_until(), 1);
    harness.apply(2);
    assert_eq!(harness.rows(), before);
}

fn checkpoint_contains_only_ranges_applied_before_it<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    harness.append("7 score a FR 1 10\n 7 score b FR 1 5\n 9 score b DE 1 1\n 9 score b FR 1 1");
    harness.apply(2);
    let mut first = harness.counters().checkpoint(SideState::default());
    harness.apply(1);
    first.commit().expect("the store does not fail");
    assert_eq!((harness.counters().applied_until(), harness.counters().durable_until()), (3, 2));
    let mut second = harness.counters().checkpoint(SideState::default());
    harness.apply(1);
    second.commit().expect("the store does not fail");
    drop((first, second));
    let before = harness.rows();
    harness.restart();
    assert_eq!(harness.counters().applied_until(), 3);
    harness.check(COUNTRY, "7 FR 2/15 by 2, 9 DE 1/1 by 1");
    harness.apply(1);
    assert_eq!(harness.rows(), before);
    // A checkpoint without changes works too.
    harness.checkpoint();
    harness.checkpoint();
    harness.restart();
    assert_eq!((harness.counters().applied_until(), harness.rows()), (4, before));
}

fn states(states: Vec<(&'static str, Vec<u8>)>) -> SideState {
    SideState { states, ..SideState::default() }
}

fn side_state_belongs_to_the_position<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    harness.append("7 score a FR 1 10\n 7 score b FR 1 5");
    assert_eq!(harness.counters().side_state("sessions").expect("the store does not fail"), None);
    let one = ("sessions", b"one".to_vec());
    harness.apply(1);
    let mut checkpoint = harness.counters().checkpoint(states(vec![one, ("other", vec![])]));
    checkpoint.commit().expect("the store does not fail");
    drop(checkpoint);
    harness.apply(1);
    drop(harness.counters().checkpoint(states(vec![("sessions", b"two".to_vec())])));
    harness.restart();
    assert_eq!(harness.counters().applied_until(), 1);
    let side_state =
        |harness: &Harness<H>, name| harness.counters().side_state(name).expect("the store does not fail");
    assert_eq!(side_state(&harness, "sessions").as_deref(), Some(&b"one"[..]));
    assert_eq!(side_state(&harness, "other").as_deref(), Some(&b""[..]));
    assert_eq!(side_state(&harness, "unknown"), None);
}

/// Parses writes: `key=value` sets a record, `key` alone removes it.
fn writes(text: &str) -> SideState {
    let write = |word: &str| {
        let (key, value) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
        RecordWrite { key: key.into(), value: value.map(Into::into) }
    };
    SideState { records: text.split(' ').map(write).collect(), ..SideState::default() }
}

fn records_belong_to_the_position<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    harness.append("7 score a FR 1 10\n 7 score b FR 1 5");
    let check = |harness: &Harness<H>, prefix: &str, expected: &str| {
        let mut seen = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut visit = |key: &[u8], value: &[u8]| seen.push(format!("{}={}", text(key), text(value)));
        harness.counters().records(prefix.as_bytes(), &mut visit).expect("the store does not fail");
        assert_eq!(seen.join(" "), expected);
    };
    harness.apply(1);
    harness.counters().checkpoint(writes("b=2 a=1 aa=3 b/c= c=9")).commit().expect("the store does not fail");
    check(&harness, "", "a=1 aa=3 b=2 b/c= c=9");
    check(&harness, "a", "a=1 aa=3");
    harness.apply(1);
    drop(harness.counters().checkpoint(writes("a=lost c")));
    harness.restart();
    assert_eq!(harness.counters().applied_until(), 1);
    check(&harness, "", "a=1 aa=3 b=2 b/c= c=9");
    harness.apply(1);
    harness.counters().checkpoint(writes("a=7 b d=4 nothing")).commit().expect("the store does not fail");
    harness.restart();
    check(&harness, "", "a=7 aa=3 b/c= c=9 d=4");
    let record = |key: &str| harness.counters().record(key.as_bytes()).expect("the store does not fail");
    assert_eq!((record("a"), record("b"), record("b/c")), (Some(b"7".to_vec()), None, Some(Vec::new())));
}

fn visit_sees_the_selected_slots<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    harness.append(
        "59 score a FR 1 10
         60 score a FR 1 1
         60 score b DE 2 2
         61 score b - 2 3
         119 score b FR 2 4
         120 start c FR 2 -",
    );
    harness.apply(6);
    let seen = |harness: &Harness<H>, cut, resolution, minutes, values| {
        harness.seen(SlotSelector { game: 1, metric: "score", cut, values, resolution }, minutes)
    };
    let all = "59 FR 1/10 by 1, 60 DE 1/2 by 1, 60 FR 1/1 by 1, 61  1/3 by 1, 119 FR 1/4 by 1";
    for _ in 0..2 {
        assert_eq!(seen(&harness, COUNTRY, Resolution::Minute, 0..1_440, None), all);
        assert_eq!(
            seen(&harness, COUNTRY, Resolution::Minute, 60..61, None),
            "60 DE 1/2 by 1, 60 FR 1/1 by 1"
        );
        assert_eq!(seen(&harness, COUNTRY, Resolution::Minute, 61..119, None), "61  1/3 by 1");
        assert_eq!(seen(&harness, COUNTRY, Resolution::Minute, 60..60, None), "");
        let hours = "0 FR 1/10 by 1, 60  1/3 by 1, 60 DE 1/2 by 1, 60 FR 2/5 by 2";
        assert_eq!(seen(&harness, COUNTRY, Resolution::Hour, 0..180, None), hours);
        assert_eq!(seen(&harness, COUNTRY, Resolution::Hour, 0..60, None), "0 FR 1/10 by 1");
        assert_eq!(seen(&harness, COUNTRY, Resolution::Hour, 60..180, Some(&["FR", "XX"])), "60 FR 2/5 by 2");
        assert_eq!(seen(&harness, COUNTRY, Resolution::Minute, 0..180, Some(&["", "XX"])), "61  1/3 by 1");
        assert_eq!(seen(&harness, COUNTRY, Resolution::Minute, 0..180, Some(&[])), "");
        assert_eq!(seen(&harness, Cut::Total, Resolution::Hour, 0..180, None), "0  1/10 by 1, 60  4/10 by 2");
        assert_eq!(seen(&harness, LEVEL, Resolution::Hour, 60..120, None), "60 1 1/1 by 1, 60 2 3/9 by 1");
        let tuple = format!("FR{0}{0}{0}{0}2", TUPLE_SEPARATOR);
        let tuples = seen(&harness, Cut::Tuple, Resolution::Minute, 62..180, None);
        assert_eq!(tuples, format!("119 {tuple} 1/4 by 0"));
        let select = SlotSelector {
            game: 1,
            metric: EVENTS,
            cut: COUNTRY,
            values: None,
            resolution: Resolution::Hour,
        };
        let hours = "0 FR 1/- by 1, 60  1/- by 1, 60 DE 1/- by 1, 60 FR 2/- by 2, 120 FR 1/- by 1";
        assert_eq!(harness.seen(select, 0..180), hours);
        assert_eq!(harness.seen(SlotSelector { game: 2, ..select }, 0..180), "");
        assert_eq!(harness.seen(SlotSelector { metric: "unknown", ..select }, 0..180), "");
        harness.checkpoint();
        harness.restart();
    }
}

/// Each range adds one event in every country, so a reader must never see different counts.
fn readers_see_whole_ranges<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    const RANGES: usize = 200;
    for range in 0..RANGES {
        let minute = 59 + range % 3;
        harness.append(&format!("{minute} score a FR 1 1\n{minute} score a DE 2 1\n{minute} score a JP 3 1"));
    }
    let done = AtomicBool::new(false);
    let select =
        SlotSelector { game: 1, metric: "score", cut: COUNTRY, values: None, resolution: Resolution::Minute };
    let counters = harness.counters();
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let before = counters.applied_until();
                    let mut seen = [0; 3];
                    let mut visit = |value: &str, _: u32, aggregate: &Aggregate| {
                        let position = ["FR", "DE", "JP"].iter().position(|country| *country == value);
                        seen[position.expect("there are three")] += aggregate.count as u64;
                    };
                    counters.visit(select, 0..120, &mut visit).expect("the store does not fail");
                    let after = counters.applied_until();
                    assert!(
                        seen.iter().all(|count| *count == seen[0]),
                        "a part of a range was seen: {seen:?}"
                    );
                    assert!((before..=after).contains(&(seen[0] * 3)), "{seen:?} of {before} to {after}");
                }
            });
        }
        let mut checkpoint = None;
        for range in 0..RANGES {
            harness.apply(3);
            match range % 20 {
                5 => checkpoint = Some(harness.counters().checkpoint(SideState::default())),
                9 => drop(
                    checkpoint
                        .take()
                        .map(|mut checkpoint| checkpoint.commit().expect("the store does not fail")),
                ),
                _ => {}
            }
        }
        done.store(true, Ordering::Release);
    });
    harness.check(COUNTRY, "59 DE 67/67 by 1, 59 FR 67/67 by 1, 59 JP 67/67 by 1, 60 DE 67/67 by 1, 60 FR 67/67 by 1, 60 JP 67/67 by 1, 61 DE 66/66 by 1, 61 FR 66/66 by 1, 61 JP 66/66 by 1");
}

fn metrics_are_listed_by_hour<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    harness.append(
        "59 score a FR 1 10\n 60 buy a FR 1 1\n 600 start b DE 2 2\n 600 $play b DE 2 2\n 601 a b DE 2 2",
    );
    let check = |harness: &Harness<H>, minutes: Range<u32>, names: &[&str]| {
        let found = harness.counters().metrics(1, minutes).expect("the store does not fail");
        assert_eq!(found, names);
    };
    check(&harness, 0..1_440, &[]);
    harness.apply(5);
    for _ in 0..2 {
        let day =
            ["$events", "$load", "$play", "$sampled", "$samples", "$session", "a", "buy", "score", "start"];
        check(&harness, 0..1_440, &day);
        check(&harness, 0..60, &["$events", "$load", "$sampled", "$samples", "$session", "score"]);
        check(&harness, 60..600, &["$events", "$load", "$sampled", "$samples", "$session", "buy"]);
        check(&harness, 120..600, &[]);
        assert!(harness.counters().metrics(2, 0..1_440).expect("the store does not fail").is_empty());
        harness.checkpoint();
        harness.restart();
    }
}

fn exported_rows_replace_stored_rows<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    harness.append("59 score a FR 1 10\n 60 score a FR 1 1\n 60 score b DE 1 2\n 120 score b DE 1 2");
    harness.apply(4);
    harness.checkpoint();
    let (position, hour) = harness.counters().export(&(1..2)).expect("the store does not fail");
    assert_eq!(position, 4);
    assert!(hour.values().all(|row| row.name.ends_with("hour 1")), "{hour:?}");
    let doubled: ExportedRows = hour.iter().filter(|(_, row)| !row.name.contains("DE")).map(twice).collect();
    replace(&harness, 1..2, &doubled);
    for _ in 0..2 {
        assert_eq!(
            harness.counters().export(&(1..2)).expect("the store does not fail"),
            (4, doubled.clone())
        );
        harness.check(COUNTRY, "59 FR 1/10 by 1, 60 FR 2/2 by 1, 120 DE 1/2 by 1");
        harness.restart();
    }
    harness.append("61 score c FR 1 1");
    harness.apply(1);
    harness.check(COUNTRY, "59 FR 1/10 by 1, 60 FR 2/2 by 1, 61 FR 1/1 by 1, 120 DE 1/2 by 1");
    harness.checkpoint();
    replace(&harness, 1..2, &hour);
    harness.restart();
    harness.check(COUNTRY, "59 FR 1/10 by 1, 60 DE 1/2 by 1, 60 FR 1/1 by 1, 120 DE 1/2 by 1");
    replace(&harness, EVERY_HOUR, &ExportedRows::new());
    assert_eq!((harness.counters().applied_until(), harness.rows().len()), (5, 0));
    harness.check(COUNTRY, "");
}

/// Replaces all rows of these hours.
fn replace<H: Fn() -> Arc<dyn Counters>>(harness: &Harness<H>, hours: Range<u32>, rows: &ExportedRows) {
    let (_, old) = harness.counters().export(&hours).expect("the store does not fail");
    let removed = old.into_keys().filter(|key| !rows.contains_key(key));
    let removed = removed.map(|key| RowChange { key, block: None });
    let new = rows.iter().map(|(key, row)| RowChange { key: key.clone(), block: Some(row.block.clone()) });
    let changes: Vec<RowChange> = removed.chain(new).collect();
    harness.counters().replace(&changes).expect("the store does not fail");
}

/// A snapshot contains the last checkpoint, whatever happens after it was taken.
fn snapshot_contains_the_last_checkpoint<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    let snapshot = |harness: &Harness<H>| harness.counters().snapshot().expect("the store does not fail");
    let rows = |snapshot: &dyn StoreSnapshot, hours: Range<u32>| -> ExportedRows {
        let rows = snapshot.rows(&hours).map(|row| row.expect("the store does not fail"));
        let rows: Vec<SnapshotRow> = rows.collect();
        assert!(rows.is_sorted_by(|one, next| one.key < next.key), "they are in order");
        let named = rows.into_iter().map(|SnapshotRow { key, since, block, hour }| {
            let name = snapshot.row_name(&key);
            assert!(name.ends_with(&format!("hour {hour}")), "{name}");
            (key, ExportedRow { name, since, block })
        });
        named.collect()
    };
    assert!(rows(&*snapshot(&harness), EVERY_HOUR).is_empty());
    harness.append("59 score a FR 1 10\n 60 score b DE 1 2");
    harness.apply(2);
    assert_eq!((snapshot(&harness).position(), rows(&*snapshot(&harness), EVERY_HOUR).len()), (0, 0));
    let key = b"\0\0\0\x01\x01key".to_vec();
    let write = |value: Option<&[u8]>| RecordWrite { key: key.clone(), value: value.map(<[u8]>::to_vec) };
    let records = |value| SideState { records: vec![write(value)], ..SideState::default() };
    harness.counters().checkpoint(records(Some(b"one"))).commit().expect("the store does not fail");
    let (taken, before) = (snapshot(&harness), harness.rows());
    harness.append("59 score c FR 1 1\n 180 score a FR 1 1");
    harness.apply(2);
    harness.counters().checkpoint(records(Some(b"two"))).commit().expect("the store does not fail");
    assert_eq!((taken.position(), rows(&*taken, EVERY_HOUR)), (2, before.clone()));
    let last_hour: ExportedRows =
        before.into_iter().filter(|(_, row)| row.name.ends_with("hour 1")).collect();
    assert_eq!(rows(&*taken, 1..2), last_hour);
    assert_eq!((snapshot(&harness).position(), rows(&*snapshot(&harness), EVERY_HOUR)), (4, harness.rows()));
    let one = RecordsCheck { count: 1, expected: 1, agrees: true };
    assert_eq!(taken.check_records().expect("the store does not fail"), one);
    drop(taken);
    harness.restart();
    assert_eq!(snapshot(&harness).check_records().expect("the store does not fail"), one);
    harness.counters().checkpoint(records(None)).commit().expect("the store does not fail");
    let none = RecordsCheck { count: 0, expected: 0, agrees: true };
    assert_eq!(snapshot(&harness).check_records().expect("the store does not fail"), none);
}

/// Rows of a deleted game are removed in parts, and those of other games stay.
fn removed_rows_are_gone_for_good<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    harness.append("59 score a FR 1 10\n 60 score b DE 1 2\n 3000 score c JP 1 1");
    harness.apply(3);
    harness.checkpoint();
    let before = harness.rows();
    let remove = |harness: &Harness<H>, game, rows_max| {
        harness.counters().remove_rows(game, rows_max).expect("the store does not fail")
    };
    assert_eq!((remove(&harness, 2, 100), harness.rows()), (0, before.clone()));
    assert_eq!(remove(&harness, 1, 5), 5);
    assert_eq!(harness.rows().len(), before.len() - 5);
    harness.restart();
    assert_eq!(remove(&harness, 1, before.len()), before.len() - 5);
    harness.counters().purge_rows().expect("the store does not fail");
    assert!(harness.rows().is_empty());
    harness.check(COUNTRY, "");
    harness.restart();
    assert!(harness.rows().is_empty());
    assert_eq!(harness.counters().durable_until(), 3);
}

fn twice((key, row): (&Vec<u8>, &ExportedRow)) -> (Vec<u8>, ExportedRow) {
    let mut block = HourBlock::decode(&row.block).expect("an exported row is a block");
    block.merge(&block.clone());
    let mut bytes = Vec::new();
    block.encode(&mut bytes);
    (key.clone(), ExportedRow { block: bytes, ..row.clone() })
}

/// The known values of a day are those that have rows, before and after a replacement.
fn known_values_follow_replaced_hours<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    let levels = |levels: Range<usize>, minute: u32| levels.map(move |level| event(minute, "score", level));
    harness.log.extend(levels(0..600, 10).chain(levels(600..900, 70)));
    harness.apply(900);
    harness.checkpoint();
    let (_, hour) = harness.counters().export(&(0..1)).expect("the store does not fail");
    replace(&harness, 0..1, &hour);
    harness.log.extend(levels(900..1_100, 130));
    harness.apply(200);
    assert_eq!(harness.own_rows("score", LEVEL, 0), VALUES_MAX);
    harness.checkpoint();
    replace(&harness, 0..2, &ExportedRows::new());
    assert_eq!(harness.own_rows("score", LEVEL, 0), 100);
}

fn late_events_reach_unloaded_hours<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    harness.append("7 score a FR 1 10");
    harness.apply(1);
    for hour in 5..12 {
        harness.append(&format!("{} score a FR 1 1", hour * 60));
        harness.apply(1);
        harness.checkpoint();
    }
    harness.append("7 score b FR 1 5\n 8 score b DE 1 5");
    harness.apply(2);
    let minutes = "7 FR 2/15 by 2, 8 DE 1/5 by 1";
    let select =
        SlotSelector { game: 1, metric: "score", cut: COUNTRY, values: None, resolution: Resolution::Minute };
    assert_eq!(harness.seen(select, 0..60), minutes);
    for _ in 0..3 {
        harness.checkpoint();
        assert_eq!(harness.seen(select, 0..60), minutes);
    }
    harness.restart();
    assert_eq!(harness.seen(select, 0..60), minutes);
    assert_eq!(harness.rows(), harness.rows_uncut());
}

fn first_values_of_a_day_have_rows_and_the_rest_share_one<H: Fn() -> Arc<dyn Counters>>(
    mut harness: Harness<H>,
) {
    let levels = VALUES_MAX + 10;
    for minute in [10, 11, 100, 1_440] {
        harness.log.extend((0..levels).map(|level| event(minute, "score", level)));
    }
    harness.apply(4 * levels);
    let other = |harness: &Harness<H>, minutes: Range<u32>| {
        let values: &[&str] = &[OTHER];
        let select = SlotSelector {
            game: 1,
            metric: "score",
            cut: LEVEL,
            values: Some(values),
            resolution: Resolution::Minute,
        };
        harness.seen(select, minutes)
    };
    for _ in 0..2 {
        let expected = [10, 11, 100].map(|minute| format!("{minute} (other) 10/10 by 10"));
        assert_eq!(other(&harness, 0..1_440), expected.join(", "));
        assert_eq!(other(&harness, 1_440..2_880), "1440 (other) 10/10 by 10");
        assert_eq!(harness.own_rows("score", LEVEL, 0), VALUES_MAX);
        assert_eq!(harness.own_rows("score", COUNTRY, 0), 1);
        let total = SlotSelector {
            game: 1,
            metric: "score",
            cut: Cut::Total,
            values: None,
            resolution: Resolution::Minute,
        };
        assert_eq!(harness.seen(total, 10..11), "10  1010/1010 by 1010");
        harness.checkpoint();
        harness.restart();
    }
    // A value that has no row in this hour but one on this day still gets its own row.
    harness.log.extend([event(200, "score", 3), event(200, "score", levels - 1), event(200, "score", 7_000)]);
    harness.apply(3);
    let select =
        SlotSelector { game: 1, metric: "score", cut: LEVEL, values: None, resolution: Resolution::Minute };
    assert_eq!(harness.seen(select, 200..201), "200 (other) 2/2 by 2, 200 level 3 1/1 by 1");
}

/// The number of kept values may change within a range, and back.
fn limit_change_applies_from_its_offset<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    let mut send = |levels: Range<usize>, values_max: u32| {
        for level in levels {
            let declared = vec![(3, format!("weapon {level}"))];
            let event = event(10 + (level % 3) as u32, "score", level);
            harness.log.push(TestEvent { declared, values_max, ..event });
        }
    };
    send(0..30, 10);
    send(20..50, 25);
    send(40..60, 10);
    send(0..70, VALUES_PER_DIMENSION);
    send(70..90, 10);
    send(90..95, 80);
    for pieces in [1, 7, 60, 300].into_iter().cycle() {
        if harness.applied() == harness.log.len() {
            break;
        }
        harness.apply(pieces);
        harness.checkpoint();
        harness.restart();
    }
    assert_eq!(harness.rows(), harness.rows_uncut());
    for cut in [LEVEL, Cut::Declared(3)] {
        assert_eq!(harness.own_rows("score", cut, 0), 75);
        let select = SlotSelector {
            game: 1,
            metric: "score",
            cut,
            values: Some(&[OTHER]),
            resolution: Resolution::Hour,
        };
        assert_eq!(harness.counted(select, 0..1_440), 20 + 15 + 20 + 20);
    }
}

fn first_combinations_of_a_day_have_rows<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    let combined = |number: usize| {
        let mut event = event(10 + (number % 100) as u32, "score", number % 150);
        event.dimensions[Dimension::Country as usize] = format!("C{}", number / 150);
        event
    };
    harness.log.extend((0..TUPLES_MAX + 50).map(combined));
    harness.apply(6_000);
    harness.checkpoint();
    harness.restart();
    harness.apply(TUPLES_MAX + 50 - 6_000);
    assert_eq!(harness.own_rows("score", Cut::Tuple, 0), TUPLES_MAX);
    let values: &[&str] = &[OTHER];
    let select = SlotSelector {
        game: 1,
        metric: "score",
        cut: Cut::Tuple,
        values: Some(values),
        resolution: Resolution::Hour,
    };
    assert_eq!(harness.counted(select, 0..1_440), 50);
    assert_eq!(harness.rows(), harness.rows_uncut());
}

fn first_names_of_a_day_have_rows<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>) {
    let name = |number: usize| event(10 + (number % 100) as u32, &format!("name{number}"), number % 3);
    let late = format!("name{}", METRICS_MAX + 5);
    harness.log.extend((0..METRICS_MAX + 20).map(name));
    harness.log.extend([event(10, "$play", 1), event(10, "name5", 1), event(1_440, &late, 1)]);
    harness.apply(METRICS_MAX + 20);
    harness.checkpoint();
    harness.restart();
    harness.apply(3);
    let mut names = harness.counters().metrics(1, 0..1_440).expect("the store does not fail");
    names.retain(|name| !name.starts_with('$'));
    assert_eq!(names.len(), METRICS_MAX + 1);
    assert!(names.contains(&OTHER.to_owned()));
    let total =
        SlotSelector { game: 1, metric: OTHER, cut: Cut::Total, values: None, resolution: Resolution::Hour };
    assert_eq!(harness.counted(total, 0..1_440), 20);
    assert_eq!(harness.counted(SlotSelector { metric: "name5", ..total }, 0..1_440), 2);
    assert_eq!(harness.counted(SlotSelector { metric: "$play", ..total }, 0..1_440), 1);
    assert_eq!(harness.counted(SlotSelector { metric: &late, ..total }, 0..2_880), 1);
    assert_eq!(harness.rows(), harness.rows_uncut());
}

/// Alternates between days, so that their known values are loaded and unloaded; restarts after `at` events.
fn restart_keeps_the_known_values_of_a_day<H: Fn() -> Arc<dyn Counters>>(mut harness: Harness<H>, at: usize) {
    let minute = |number: usize| if number % 5 == 4 { 5 } else { 5 * 1_440 + (number / 10) as u32 };
    harness.log.extend((0..1_500).map(|number| event(minute(number), "score", number * 7 % 1_300)));
    harness.apply(at / 2);
    harness.checkpoint();
    harness.apply(at - at / 2);
    harness.restart();
    while harness.applied() < at {
        harness.apply((at - harness.applied()).min(300));
        harness.checkpoint();
    }
    harness.checkpoint();
    harness.restart();
    harness.apply(1_500 - at);
    harness.checkpoint();
    assert_eq!(harness.rows(), harness.rows_uncut());
}

/// Returns an event of the player and the level with this number.
fn event(minute: u32, name: &str, level: usize) -> TestEvent {
    let player = Some(1 + level as u64);
    let event = TestEvent::read(&format!("{minute} {name} - FR - 1"));
    let mut dimensions = event.dimensions.clone();
    dimensions[Dimension::Level as usize] = format!("level {level}");
    TestEvent { player, dimensions, ..event }
}

/// An operation on a store.
#[derive(Clone, Copy, Debug)]
pub enum StoreStep {
    /// Applies this many events as one range.
    Apply(usize),
    /// Makes everything applied durable.
    Checkpoint,
    /// Applies this many events during a checkpoint.
    ApplyMeanwhile(usize),
    /// Crashes after taking a checkpoint but before committing it.
    CheckpointAndRestart,
    /// Crashes and restarts.
    Restart,
    /// Compares all rows with a recount of the events.
    Compare,
}

/// Generates random sequences of operations.
pub fn steps() -> impl Strategy<Value = Vec<StoreStep>> {
    let step = prop_oneof![
        6 => (1..40usize).prop_map(StoreStep::Apply),
        3 => Just(StoreStep::Checkpoint),
        2 => (1..40usize).prop_map(StoreStep::ApplyMeanwhile),
        1 => Just(StoreStep::CheckpointAndRestart),
        1 => Just(StoreStep::Restart),
        1 => Just(StoreStep::Compare),
    ];
    prop::collection::vec(step, 0..16)
}

/// Checks that any sequence of operations gives the same rows as applying the whole log at once to the memory
/// engine, and that these match a recount of the events.
pub fn check_log_split<H: Fn() -> Arc<dyn Counters>>(open: H, events: &[TestEvent], steps: &[StoreStep]) {
    let mut harness = Harness::new(open);
    harness.log = events.to_vec();
    for step in steps {
        harness.step(*step);
    }
    harness.apply(usize::MAX);
    assert_matches_recount(&**harness.counters(), events);
    assert_eq!(harness.rows(), harness.rows_uncut());
    harness.checkpoint();
    harness.restart();
    assert_eq!(harness.rows(), harness.rows_uncut());
    assert_matches_recount(&**harness.counters(), events);
}

/// Checks that another order of the same events gives the same rows, except for the offsets of their first events.
pub fn check_event_order<H: Fn() -> Arc<dyn Counters>>(open: H, events: &[TestEvent], seed: u64) {
    let mut harness = Harness::new(open);
    let mut numbered: Vec<(u64, &TestEvent)> = (1..).zip(events).collect();
    numbered.sort_by_key(|(number, _)| {
        number.wrapping_mul(seed | 1).rotate_left(29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    harness.log = numbered.into_iter().map(|(_, event)| event.clone()).collect();
    while harness.applied() < events.len() {
        harness.apply(7);
    }
    let other_order = Harness { log: events.to_vec(), ..Harness::new(|| harness.counters().clone()) };
    assert_eq!(without_since(harness.rows()), without_since(other_order.rows_uncut()));
}

fn without_since(rows: ExportedRows) -> Vec<(Vec<u8>, HourBlockSlots)> {
    let slots = |row: ExportedRow| {
        let block = HourBlock::decode(&row.block).expect("an exported row is a block");
        block.slots().map(|(slot, aggregate)| (slot, aggregate.clone())).collect()
    };
    rows.into_iter().map(|(key, row)| (key, slots(row))).collect()
}

type HourBlockSlots = Vec<(u8, Aggregate)>;

/// A store with the log that it applies.
struct Harness<H> {
    open: H,
    counters: Option<Arc<dyn Counters>>,
    log: Vec<TestEvent>,
}

impl<H: Fn() -> Arc<dyn Counters>> Harness<H> {
    fn new(open: H) -> Harness<H> {
        let counters = Some(open());
        Harness { open, counters, log: Vec::new() }
    }

    fn counters(&self) -> &Arc<dyn Counters> {
        self.counters.as_ref().expect("a store is open except while it restarts")
    }

    fn applied(&self) -> usize {
        self.counters().applied_until() as usize
    }

    /// Appends events to the log.
    fn append(&mut self, events: &str) {
        self.log.extend(events.lines().map(TestEvent::read));
    }

    /// Applies up to this many further events as one range.
    fn apply(&self, events: usize) {
        let at = self.applied();
        self.apply_range(at..at.saturating_add(events).min(self.log.len()));
    }

    fn apply_range(&self, range: Range<usize>) {
        let deltas = deltas_of(&self.log[range.clone()], range.start as u64);
        let range = range.start as u64..range.end as u64;
        self.counters().apply(range, &deltas).expect("the store does not fail");
    }

    fn checkpoint(&self) {
        self.counters().checkpoint(SideState::default()).commit().expect("the store does not fail");
    }

    fn restart(&mut self) {
        let durable_until = self.counters().durable_until();
        self.counters = None;
        self.counters = Some((self.open)());
        assert_eq!(self.counters().durable_until(), durable_until, "the position of the last checkpoint");
        assert_eq!(self.counters().applied_until(), durable_until, "the position of the last checkpoint");
    }

    fn step(&mut self, step: StoreStep) {
        match step {
            StoreStep::Apply(events) => self.apply(events),
            StoreStep::Checkpoint => self.checkpoint(),
            StoreStep::ApplyMeanwhile(events) => {
                let mut checkpoint = self.counters().checkpoint(SideState::default());
                self.apply(events);
                checkpoint.commit().expect("the store does not fail");
            }
            StoreStep::CheckpointAndRestart => {
                drop(self.counters().checkpoint(SideState::default()));
                self.restart();
            }
            StoreStep::Restart => self.restart(),
            StoreStep::Compare => assert_matches_recount(&**self.counters(), &self.log[..self.applied()]),
        }
    }

    fn check(&self, cut: Cut, expected: &str) {
        let select =
            SlotSelector { game: 1, metric: "score", cut, values: None, resolution: Resolution::Minute };
        assert_eq!(self.seen(select, 0..10_000), expected);
    }

    /// Returns the visited slots by time: `minute value count/sum by players`.
    fn seen(&self, select: SlotSelector<'_>, minutes: Range<u32>) -> String {
        let mut seen = BTreeSet::new();
        let mut visit = |value: &str, minute: u32, aggregate: &Aggregate| {
            let sum =
                aggregate.values.as_ref().map_or("-".to_owned(), |values| values.sum.value().to_string());
            let text = format!("{minute} {value} {}/{sum} by {}", aggregate.count, aggregate.players.count());
            assert!(seen.insert((minute, value.to_owned(), text)), "{minute} {value} was visited twice");
        };
        self.counters().visit(select, minutes, &mut visit).expect("the store does not fail");
        seen.into_iter().map(|(_, _, text)| text).collect::<Vec<_>>().join(", ")
    }

    fn counted(&self, select: SlotSelector<'_>, minutes: Range<u32>) -> i64 {
        let mut counted = 0;
        self.counters()
            .visit(select, minutes, &mut |_, _, aggregate| counted += aggregate.count)
            .expect("the store does not fail");
        counted
    }

    /// Returns the number of values that have rows on a day, without `(other)`.
    fn own_rows(&self, metric: &str, cut: Cut, day: u32) -> usize {
        let mut values = BTreeSet::new();
        let select = SlotSelector { game: 1, metric, cut, values: None, resolution: Resolution::Hour };
        let mut visit = |value: &str, _: u32, _: &Aggregate| _ = values.insert(value.to_owned());
        self.counters()
            .visit(select, day * 1_440..(day + 1) * 1_440, &mut visit)
            .expect("the store does not fail");
        values.remove(OTHER);
        values.len()
    }

    fn rows(&self) -> ExportedRows {
        self.counters().export(&EVERY_HOUR).expect("the store does not fail").1
    }

    /// Returns the rows of the memory engine after applying the same log in a single range.
    fn rows_uncut(&self) -> ExportedRows {
        let plain = MemoryCounters::open(&MemoryDisk::default());
        let deltas = deltas_of(&self.log, 0);
        plain.apply(0..self.log.len() as u64, &deltas).expect("the store does not fail");
        plain.export(&EVERY_HOUR).expect("the store does not fail").1
    }
}
