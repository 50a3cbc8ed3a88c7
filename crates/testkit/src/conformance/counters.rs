//! What all rollups promise, whatever they are made of.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::Dimension;
use model::limits::{METRICS_MAX, TUPLES_MAX, VALUES_PER_DIMENSION};
use model::ports::counters::{Counters, ExportedRow, Kept, Rows, Select};
use model::ports::records::Write;
use model::rollup::{Cell, HourBlock};
use model::series::{Cut, EVENTS, Level, OTHER, TUPLE_SEPARATOR};
use proptest::prelude::*;

use crate::counters::{Disk, MemoryCounters};
use crate::events::{Happened, agrees_with_a_recount, deltas_of};

const EVERY_HOUR: Range<u32> = 0..u32::MAX;
const VALUES_MAX: usize = VALUES_PER_DIMENSION as usize;
const COUNTRY: Cut = Cut::By(Dimension::Country);
const LEVEL: Cut = Cut::By(Dimension::Level);

/// Runs all checks. `new_home` gives a new, empty home each time. A home opens its rollups; opening them again is a
/// restart after a crash: those before it were dropped as they were.
pub fn counters_conform<H: Fn() -> Arc<dyn Counters>>(new_home: impl Fn() -> H) {
    a_range_applied_twice_counts_once(World::new(new_home()));
    what_was_committed_is_there_after_a_restart(World::new(new_home()));
    what_was_not_committed_is_applied_again(World::new(new_home()));
    a_checkpoint_holds_what_was_applied_before_it_was_frozen(World::new(new_home()));
    kept_states_belong_to_the_position(World::new(new_home()));
    records_belong_to_the_position(World::new(new_home()));
    a_visit_sees_what_was_selected(World::new(new_home()));
    readers_see_a_whole_range_or_nothing_of_it(World::new(new_home()));
    metrics_are_listed_by_the_hour(World::new(new_home()));
    rows_are_replaced_by_what_was_exported(World::new(new_home()));
    values_stay_known_when_hours_are_replaced(World::new(new_home()));
    late_events_find_hours_long_out_of_use(World::new(new_home()));
    the_first_values_of_a_day_have_rows_and_the_others_are_one(World::new(new_home()));
    a_changed_limit_counts_from_where_it_changed(World::new(new_home()));
    the_first_combinations_of_a_day_have_rows(World::new(new_home()));
    the_first_names_of_a_day_have_rows(World::new(new_home()));
    for at in [0, 1, 700, VALUES_MAX, VALUES_MAX + 1, 1_500] {
        a_restart_forgets_no_value_of_a_day(World::new(new_home()), at);
    }
}

fn a_range_applied_twice_counts_once<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>) {
    world.happen("7 score a FR 1 10\n 7 score b FR 1 5\n 8 start a FR 1 -");
    world.apply(2);
    world.check(COUNTRY, "7 FR 2/15 by 2");
    world.apply_range(0..2);
    world.apply_range(0..1);
    world.check(COUNTRY, "7 FR 2/15 by 2");
    world.apply_range(2..3);
    world.apply_range(2..3);
    world.apply_range(0..3);
    world.check(COUNTRY, "7 FR 2/15 by 2");
    assert_eq!(world.counters().applied_until(), 3);
}

fn what_was_committed_is_there_after_a_restart<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>) {
    assert_eq!((world.counters().applied_until(), world.counters().durable_until()), (0, 0));
    world.happen("7 score a FR 1 10\n 70 score b FR 2 5\n 3000 score b DE 2 0.1");
    world.apply(3);
    assert_eq!(world.counters().durable_until(), 0);
    world.checkpoint();
    assert_eq!(world.counters().durable_until(), 3);
    let before = world.rows();
    world.restart();
    assert_eq!((world.counters().applied_until(), world.counters().durable_until()), (3, 3));
    assert_eq!(world.rows(), before);
    world.check(COUNTRY, "7 FR 1/10 by 1, 70 FR 1/5 by 1, 3000 DE 1/0.1 by 1");
    world.apply_range(0..3);
    assert_eq!(world.rows(), before);
}

fn what_was_not_committed_is_applied_again<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>) {
    world.happen("7 score a FR 1 10\n 7 score b FR 2 5\n 8 score b DE 2 1");
    world.apply(1);
    world.checkpoint();
    world.apply(2);
    let before = world.rows();
    world.restart();
    assert_eq!((world.counters().applied_until(), world.counters().durable_until()), (1, 1));
    world.check(COUNTRY, "7 FR 1/10 by 1");
    world.apply(2);
    assert_eq!(world.rows(), before);
    drop(world.counters().freeze(Kept::default()));
    world.restart();
    assert_eq!(world.counters().applied_until(), 1);
    world.apply(2);
    assert_eq!(world.rows(), before);
}

fn a_checkpoint_holds_what_was_applied_before_it_was_frozen<H: Fn() -> Arc<dyn Counters>>(
    mut world: World<H>,
) {
    world.happen("7 score a FR 1 10\n 7 score b FR 1 5\n 9 score b DE 1 1\n 9 score b FR 1 1");
    world.apply(2);
    let mut first = world.counters().freeze(Kept::default());
    world.apply(1);
    first.commit().expect("the disk is well");
    assert_eq!((world.counters().applied_until(), world.counters().durable_until()), (3, 2));
    let mut second = world.counters().freeze(Kept::default());
    world.apply(1);
    second.commit().expect("the disk is well");
    drop((first, second));
    let before = world.rows();
    world.restart();
    assert_eq!(world.counters().applied_until(), 3);
    world.check(COUNTRY, "7 FR 2/15 by 2, 9 DE 1/1 by 1");
    world.apply(1);
    assert_eq!(world.rows(), before);
    // Nothing new is a checkpoint as well.
    world.checkpoint();
    world.checkpoint();
    world.restart();
    assert_eq!((world.counters().applied_until(), world.rows()), (4, before));
}

fn states(states: Vec<(&'static str, Vec<u8>)>) -> Kept {
    Kept { states, ..Kept::default() }
}

fn kept_states_belong_to_the_position<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>) {
    world.happen("7 score a FR 1 10\n 7 score b FR 1 5");
    assert_eq!(world.counters().kept("sessions").expect("the disk is well"), None);
    let one = ("sessions", b"one".to_vec());
    world.apply(1);
    let mut checkpoint = world.counters().freeze(states(vec![one, ("other", vec![])]));
    checkpoint.commit().expect("the disk is well");
    drop(checkpoint);
    world.apply(1);
    drop(world.counters().freeze(states(vec![("sessions", b"two".to_vec())])));
    world.restart();
    assert_eq!(world.counters().applied_until(), 1);
    let kept = |world: &World<H>, name| world.counters().kept(name).expect("the disk is well");
    assert_eq!(kept(&world, "sessions").as_deref(), Some(&b"one"[..]));
    assert_eq!(kept(&world, "other").as_deref(), Some(&b""[..]));
    assert_eq!(kept(&world, "unknown"), None);
}

/// Writes as `key=value` and `key` alone, which removes it.
fn writes(text: &str) -> Kept {
    let write = |word: &str| {
        let (key, value) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
        Write { key: key.into(), value: value.map(Into::into) }
    };
    Kept { records: text.split(' ').map(write).collect(), ..Kept::default() }
}

fn records_belong_to_the_position<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>) {
    world.happen("7 score a FR 1 10\n 7 score b FR 1 5");
    let check = |world: &World<H>, prefix: &str, expected: &str| {
        let mut seen = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut visit = |key: &[u8], value: &[u8]| seen.push(format!("{}={}", text(key), text(value)));
        world.counters().records(prefix.as_bytes(), &mut visit).expect("the disk is well");
        assert_eq!(seen.join(" "), expected);
    };
    world.apply(1);
    world.counters().freeze(writes("b=2 a=1 aa=3 b/c= c=9")).commit().expect("the disk is well");
    check(&world, "", "a=1 aa=3 b=2 b/c= c=9");
    check(&world, "a", "a=1 aa=3");
    world.apply(1);
    drop(world.counters().freeze(writes("a=lost c")));
    world.restart();
    assert_eq!(world.counters().applied_until(), 1);
    check(&world, "", "a=1 aa=3 b=2 b/c= c=9");
    world.apply(1);
    world.counters().freeze(writes("a=7 b d=4 nothing")).commit().expect("the disk is well");
    world.restart();
    check(&world, "", "a=7 aa=3 b/c= c=9 d=4");
    let record = |key: &str| world.counters().record(key.as_bytes()).expect("the disk is well");
    assert_eq!((record("a"), record("b"), record("b/c")), (Some(b"7".to_vec()), None, Some(Vec::new())));
}

fn a_visit_sees_what_was_selected<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>) {
    world.happen(
        "59 score a FR 1 10
         60 score a FR 1 1
         60 score b DE 2 2
         61 score b - 2 3
         119 score b FR 2 4
         120 start c FR 2 -",
    );
    world.apply(6);
    let seen = |world: &World<H>, cut, level, minutes, values| {
        world.seen(Select { game: 1, metric: "score", cut, values, level }, minutes)
    };
    let all = "59 FR 1/10 by 1, 60 DE 1/2 by 1, 60 FR 1/1 by 1, 61  1/3 by 1, 119 FR 1/4 by 1";
    for _ in 0..2 {
        assert_eq!(seen(&world, COUNTRY, Level::Minute, 0..1_440, None), all);
        assert_eq!(seen(&world, COUNTRY, Level::Minute, 60..61, None), "60 DE 1/2 by 1, 60 FR 1/1 by 1");
        assert_eq!(seen(&world, COUNTRY, Level::Minute, 61..119, None), "61  1/3 by 1");
        assert_eq!(seen(&world, COUNTRY, Level::Minute, 60..60, None), "");
        let hours = "0 FR 1/10 by 1, 60  1/3 by 1, 60 DE 1/2 by 1, 60 FR 2/5 by 2";
        assert_eq!(seen(&world, COUNTRY, Level::Hour, 0..180, None), hours);
        assert_eq!(seen(&world, COUNTRY, Level::Hour, 0..60, None), "0 FR 1/10 by 1");
        assert_eq!(seen(&world, COUNTRY, Level::Hour, 60..180, Some(&["FR", "XX"])), "60 FR 2/5 by 2");
        assert_eq!(seen(&world, COUNTRY, Level::Minute, 0..180, Some(&["", "XX"])), "61  1/3 by 1");
        assert_eq!(seen(&world, COUNTRY, Level::Minute, 0..180, Some(&[])), "");
        assert_eq!(seen(&world, Cut::Total, Level::Hour, 0..180, None), "0  1/10 by 1, 60  4/10 by 2");
        assert_eq!(seen(&world, LEVEL, Level::Hour, 60..120, None), "60 1 1/1 by 1, 60 2 3/9 by 1");
        let tuple = format!("FR{0}{0}{0}{0}2", TUPLE_SEPARATOR);
        let tuples = seen(&world, Cut::Tuple, Level::Minute, 62..180, None);
        assert_eq!(tuples, format!("119 {tuple} 1/4 by 0"));
        let select = Select { game: 1, metric: EVENTS, cut: COUNTRY, values: None, level: Level::Hour };
        let hours = "0 FR 1/- by 1, 60  1/- by 1, 60 DE 1/- by 1, 60 FR 2/- by 2, 120 FR 1/- by 1";
        assert_eq!(world.seen(select, 0..180), hours);
        assert_eq!(world.seen(Select { game: 2, ..select }, 0..180), "");
        assert_eq!(world.seen(Select { metric: "unknown", ..select }, 0..180), "");
        world.checkpoint();
        world.restart();
    }
}

/// Each range adds one event in every country; a reader never sees countries that differ.
fn readers_see_a_whole_range_or_nothing_of_it<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>) {
    const RANGES: usize = 200;
    for range in 0..RANGES {
        let minute = 59 + range % 3;
        world.happen(&format!("{minute} score a FR 1 1\n{minute} score a DE 2 1\n{minute} score a JP 3 1"));
    }
    let done = AtomicBool::new(false);
    let select = Select { game: 1, metric: "score", cut: COUNTRY, values: None, level: Level::Minute };
    let counters = world.counters();
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let before = counters.applied_until();
                    let mut seen = [0; 3];
                    let mut visit = |value: &str, _: u32, cell: &Cell| {
                        let place = ["FR", "DE", "JP"].iter().position(|country| *country == value);
                        seen[place.expect("there are three")] += cell.count as u64;
                    };
                    counters.visit(select, 0..120, &mut visit).expect("the disk is well");
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
            world.apply(3);
            match range % 20 {
                5 => checkpoint = Some(world.counters().freeze(Kept::default())),
                9 => drop(checkpoint.take().map(|mut frozen| frozen.commit().expect("the disk is well"))),
                _ => {}
            }
        }
        done.store(true, Ordering::Release);
    });
    world.check(COUNTRY, "59 DE 67/67 by 1, 59 FR 67/67 by 1, 59 JP 67/67 by 1, 60 DE 67/67 by 1, 60 FR 67/67 by 1, 60 JP 67/67 by 1, 61 DE 66/66 by 1, 61 FR 66/66 by 1, 61 JP 66/66 by 1");
}

fn metrics_are_listed_by_the_hour<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>) {
    world.happen(
        "59 score a FR 1 10\n 60 buy a FR 1 1\n 600 start b DE 2 2\n 600 $play b DE 2 2\n 601 a b DE 2 2",
    );
    let check = |world: &World<H>, minutes: Range<u32>, names: &[&str]| {
        let found = world.counters().metrics(1, minutes).expect("the disk is well");
        assert_eq!(found, names);
    };
    check(&world, 0..1_440, &[]);
    world.apply(5);
    for _ in 0..2 {
        let day = ["$events", "$load", "$play", "$sampled", "$session", "a", "buy", "score", "start"];
        check(&world, 0..1_440, &day);
        check(&world, 0..60, &["$events", "$load", "$sampled", "$session", "score"]);
        check(&world, 60..600, &["$events", "$load", "$sampled", "$session", "buy"]);
        check(&world, 120..600, &[]);
        assert!(world.counters().metrics(2, 0..1_440).expect("the disk is well").is_empty());
        world.checkpoint();
        world.restart();
    }
}

fn rows_are_replaced_by_what_was_exported<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>) {
    world.happen("59 score a FR 1 10\n 60 score a FR 1 1\n 60 score b DE 1 2\n 120 score b DE 1 2");
    world.apply(4);
    world.checkpoint();
    let (position, hour) = world.counters().export(&(1..2)).expect("the disk is well");
    assert_eq!(position, 4);
    assert!(hour.values().all(|row| row.name.ends_with("hour 1")), "{hour:?}");
    let doubled: Rows = hour.iter().filter(|(_, row)| !row.name.contains("DE")).map(twice).collect();
    world.counters().replace(&(1..2), &doubled).expect("the disk is well");
    for _ in 0..2 {
        assert_eq!(world.counters().export(&(1..2)).expect("the disk is well"), (4, doubled.clone()));
        world.check(COUNTRY, "59 FR 1/10 by 1, 60 FR 2/2 by 1, 120 DE 1/2 by 1");
        world.restart();
    }
    world.happen("61 score c FR 1 1");
    world.apply(1);
    world.check(COUNTRY, "59 FR 1/10 by 1, 60 FR 2/2 by 1, 61 FR 1/1 by 1, 120 DE 1/2 by 1");
    world.checkpoint();
    world.counters().replace(&(1..2), &hour).expect("the disk is well");
    world.restart();
    world.check(COUNTRY, "59 FR 1/10 by 1, 60 DE 1/2 by 1, 60 FR 1/1 by 1, 120 DE 1/2 by 1");
    world.counters().replace(&EVERY_HOUR, &Rows::new()).expect("the disk is well");
    assert_eq!((world.counters().applied_until(), world.rows().len()), (5, 0));
    world.check(COUNTRY, "");
}

fn twice((key, row): (&Vec<u8>, &ExportedRow)) -> (Vec<u8>, ExportedRow) {
    let mut block = HourBlock::decode(&row.block).expect("an exported row is a block");
    block.merge(&block.clone());
    let mut bytes = Vec::new();
    block.encode(&mut bytes);
    (key.clone(), ExportedRow { block: bytes, ..row.clone() })
}

/// The values that are known on a day are those with rows, before and after.
fn values_stay_known_when_hours_are_replaced<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>) {
    let levels = |levels: Range<usize>, minute: u32| levels.map(move |level| event(minute, "score", level));
    world.log.extend(levels(0..600, 10).chain(levels(600..900, 70)));
    world.apply(900);
    world.checkpoint();
    let (_, hour) = world.counters().export(&(0..1)).expect("the disk is well");
    world.counters().replace(&(0..1), &hour).expect("the disk is well");
    world.log.extend(levels(900..1_100, 130));
    world.apply(200);
    assert_eq!(world.own_rows("score", LEVEL, 0), VALUES_MAX);
    world.checkpoint();
    world.counters().replace(&(0..2), &Rows::new()).expect("the disk is well");
    assert_eq!(world.own_rows("score", LEVEL, 0), 100);
}

fn late_events_find_hours_long_out_of_use<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>) {
    world.happen("7 score a FR 1 10");
    world.apply(1);
    for hour in 5..12 {
        world.happen(&format!("{} score a FR 1 1", hour * 60));
        world.apply(1);
        world.checkpoint();
    }
    world.happen("7 score b FR 1 5\n 8 score b DE 1 5");
    world.apply(2);
    let minutes = "7 FR 2/15 by 2, 8 DE 1/5 by 1";
    let select = Select { game: 1, metric: "score", cut: COUNTRY, values: None, level: Level::Minute };
    assert_eq!(world.seen(select, 0..60), minutes);
    for _ in 0..3 {
        world.checkpoint();
        assert_eq!(world.seen(select, 0..60), minutes);
    }
    world.restart();
    assert_eq!(world.seen(select, 0..60), minutes);
    assert_eq!(world.rows(), world.rows_uncut());
}

fn the_first_values_of_a_day_have_rows_and_the_others_are_one<H: Fn() -> Arc<dyn Counters>>(
    mut world: World<H>,
) {
    let levels = VALUES_MAX + 10;
    for minute in [10, 11, 100, 1_440] {
        world.log.extend((0..levels).map(|level| event(minute, "score", level)));
    }
    world.apply(4 * levels);
    let other = |world: &World<H>, minutes: Range<u32>| {
        let values: &[&str] = &[OTHER];
        let select =
            Select { game: 1, metric: "score", cut: LEVEL, values: Some(values), level: Level::Minute };
        world.seen(select, minutes)
    };
    for _ in 0..2 {
        let expected = [10, 11, 100].map(|minute| format!("{minute} (other) 10/10 by 10"));
        assert_eq!(other(&world, 0..1_440), expected.join(", "));
        assert_eq!(other(&world, 1_440..2_880), "1440 (other) 10/10 by 10");
        assert_eq!(world.own_rows("score", LEVEL, 0), VALUES_MAX);
        assert_eq!(world.own_rows("score", COUNTRY, 0), 1);
        let total = Select { game: 1, metric: "score", cut: Cut::Total, values: None, level: Level::Minute };
        assert_eq!(world.seen(total, 10..11), "10  1010/1010 by 1010");
        world.checkpoint();
        world.restart();
    }
    // What has no row in the hour, but one on the day, still gets its own.
    world.log.extend([event(200, "score", 3), event(200, "score", levels - 1), event(200, "score", 7_000)]);
    world.apply(3);
    let select = Select { game: 1, metric: "score", cut: LEVEL, values: None, level: Level::Minute };
    assert_eq!(world.seen(select, 200..201), "200 (other) 2/2 by 2, 200 level 3 1/1 by 1");
}

/// How many values are kept may change in the middle of a range, and back.
fn a_changed_limit_counts_from_where_it_changed<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>) {
    let mut send = |levels: Range<usize>, values_max: u32| {
        for level in levels {
            let declared = vec![(3, format!("weapon {level}"))];
            let event = event(10 + (level % 3) as u32, "score", level);
            world.log.push(Happened { declared, values_max, ..event });
        }
    };
    send(0..30, 10);
    send(20..50, 25);
    send(40..60, 10);
    send(0..70, VALUES_PER_DIMENSION);
    send(70..90, 10);
    send(90..95, 80);
    for pieces in [1, 7, 60, 300].into_iter().cycle() {
        if world.applied() == world.log.len() {
            break;
        }
        world.apply(pieces);
        world.checkpoint();
        world.restart();
    }
    assert_eq!(world.rows(), world.rows_uncut());
    for cut in [LEVEL, Cut::Declared(3)] {
        assert_eq!(world.own_rows("score", cut, 0), 75);
        let select = Select { game: 1, metric: "score", cut, values: Some(&[OTHER]), level: Level::Hour };
        assert_eq!(world.counted(select, 0..1_440), 20 + 15 + 20 + 20);
    }
}

fn the_first_combinations_of_a_day_have_rows<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>) {
    let combined = |number: usize| {
        let mut event = event(10 + (number % 100) as u32, "score", number % 150);
        event.dimensions[Dimension::Country as usize] = format!("C{}", number / 150);
        event
    };
    world.log.extend((0..TUPLES_MAX + 50).map(combined));
    world.apply(6_000);
    world.checkpoint();
    world.restart();
    world.apply(TUPLES_MAX + 50 - 6_000);
    assert_eq!(world.own_rows("score", Cut::Tuple, 0), TUPLES_MAX);
    let values: &[&str] = &[OTHER];
    let select =
        Select { game: 1, metric: "score", cut: Cut::Tuple, values: Some(values), level: Level::Hour };
    assert_eq!(world.counted(select, 0..1_440), 50);
    assert_eq!(world.rows(), world.rows_uncut());
}

fn the_first_names_of_a_day_have_rows<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>) {
    let name = |number: usize| event(10 + (number % 100) as u32, &format!("name{number}"), number % 3);
    world.log.extend((0..METRICS_MAX + 20).map(name));
    world.log.extend([event(10, "$play", 1), event(10, "name5", 1), event(1_440, "name1005", 1)]);
    world.apply(METRICS_MAX + 20);
    world.checkpoint();
    world.restart();
    world.apply(3);
    let mut names = world.counters().metrics(1, 0..1_440).expect("the disk is well");
    names.retain(|name| !name.starts_with('$'));
    assert_eq!(names.len(), METRICS_MAX + 1);
    assert!(names.contains(&OTHER.to_owned()));
    let total = Select { game: 1, metric: OTHER, cut: Cut::Total, values: None, level: Level::Hour };
    assert_eq!(world.counted(total, 0..1_440), 20);
    assert_eq!(world.counted(Select { metric: "name5", ..total }, 0..1_440), 2);
    assert_eq!(world.counted(Select { metric: "$play", ..total }, 0..1_440), 1);
    assert_eq!(world.counted(Select { metric: "name1005", ..total }, 0..2_880), 1);
    assert_eq!(world.rows(), world.rows_uncut());
}

/// Days are touched in turns, so that what is known of them comes and goes; at `at` there is a restart.
fn a_restart_forgets_no_value_of_a_day<H: Fn() -> Arc<dyn Counters>>(mut world: World<H>, at: usize) {
    let minute = |number: usize| if number % 5 == 4 { 5 } else { 5 * 1_440 + (number / 10) as u32 };
    world.log.extend((0..1_500).map(|number| event(minute(number), "score", number * 7 % 1_300)));
    world.apply(at / 2);
    world.checkpoint();
    world.apply(at - at / 2);
    world.restart();
    while world.applied() < at {
        world.apply((at - world.applied()).min(300));
        world.checkpoint();
    }
    world.checkpoint();
    world.restart();
    world.apply(1_500 - at);
    world.checkpoint();
    assert_eq!(world.rows(), world.rows_uncut());
}

/// One event of a player and level of this number.
fn event(minute: u32, name: &str, level: usize) -> Happened {
    let player = Some(1 + level as u64);
    let event = Happened::read(&format!("{minute} {name} - FR - 1"));
    let mut dimensions = event.dimensions.clone();
    dimensions[Dimension::Level as usize] = format!("level {level}");
    Happened { player, dimensions, ..event }
}

/// What may happen to a store between events.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// So many events are applied as one range.
    Apply(usize),
    /// What was applied is made durable.
    Checkpoint,
    /// So many events are applied while it is being made durable.
    ApplyMeanwhile(usize),
    /// A checkpoint that was not committed before the crash.
    FreezeAndRestart,
    /// A crash.
    Restart,
    /// A question about everything.
    Look,
}

/// Any life.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..40usize).prop_map(Step::Apply),
        3 => Just(Step::Checkpoint),
        2 => (1..40usize).prop_map(Step::ApplyMeanwhile),
        1 => Just(Step::FreezeAndRestart),
        1 => Just(Step::Restart),
        1 => Just(Step::Look),
    ];
    prop::collection::vec(step, 0..16)
}

/// Whatever happens on the way, the rows are those of one range applied to the plainest engine, and these are what a
/// recount of the events says.
pub fn cutting_the_log_changes_nothing<H: Fn() -> Arc<dyn Counters>>(
    home: H,
    events: &[Happened],
    steps: &[Step],
) {
    let mut world = World::new(home);
    world.log = events.to_vec();
    for step in steps {
        world.step(*step);
    }
    world.apply(usize::MAX);
    agrees_with_a_recount(&**world.counters(), events);
    assert_eq!(world.rows(), world.rows_uncut());
    world.checkpoint();
    world.restart();
    assert_eq!(world.rows(), world.rows_uncut());
    agrees_with_a_recount(&**world.counters(), events);
}

/// Another order of the same events gives the same rows, but for the offsets at which they first came.
pub fn order_changes_nothing<H: Fn() -> Arc<dyn Counters>>(home: H, events: &[Happened], seed: u64) {
    let mut world = World::new(home);
    let mut numbered: Vec<(u64, &Happened)> = (1..).zip(events).collect();
    numbered.sort_by_key(|(number, _)| {
        number.wrapping_mul(seed | 1).rotate_left(29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    world.log = numbered.into_iter().map(|(_, event)| event.clone()).collect();
    while world.applied() < events.len() {
        world.apply(7);
    }
    let other_order = World { log: events.to_vec(), ..World::new(|| world.counters().clone()) };
    assert_eq!(without_since(world.rows()), without_since(other_order.rows_uncut()));
}

fn without_since(rows: Rows) -> Vec<(Vec<u8>, HourBlockSlots)> {
    let slots = |row: ExportedRow| {
        let block = HourBlock::decode(&row.block).expect("an exported row is a block");
        block.slots().map(|(slot, cell)| (slot, cell.clone())).collect()
    };
    rows.into_iter().map(|(key, row)| (key, slots(row))).collect()
}

type HourBlockSlots = Vec<(u8, Cell)>;

/// A store beside a log.
struct World<H> {
    home: H,
    counters: Option<Arc<dyn Counters>>,
    log: Vec<Happened>,
}

impl<H: Fn() -> Arc<dyn Counters>> World<H> {
    fn new(home: H) -> World<H> {
        let counters = Some(home());
        World { home, counters, log: Vec::new() }
    }

    fn counters(&self) -> &Arc<dyn Counters> {
        self.counters.as_ref().expect("a store is open except while it restarts")
    }

    fn applied(&self) -> usize {
        self.counters().applied_until() as usize
    }

    /// Appends events to the log.
    fn happen(&mut self, events: &str) {
        self.log.extend(events.lines().map(Happened::read));
    }

    /// Applies at most so many more of them as one range.
    fn apply(&self, events: usize) {
        let at = self.applied();
        self.apply_range(at..at.saturating_add(events).min(self.log.len()));
    }

    fn apply_range(&self, range: Range<usize>) {
        let deltas = deltas_of(&self.log[range.clone()], range.start as u64);
        let range = range.start as u64..range.end as u64;
        self.counters().apply(range, &deltas).expect("the disk is well");
    }

    fn checkpoint(&self) {
        self.counters().freeze(Kept::default()).commit().expect("the disk is well");
    }

    fn restart(&mut self) {
        let durable_until = self.counters().durable_until();
        self.counters = None;
        self.counters = Some((self.home)());
        assert_eq!(self.counters().durable_until(), durable_until, "the position of the last checkpoint");
        assert_eq!(self.counters().applied_until(), durable_until, "the position of the last checkpoint");
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Apply(events) => self.apply(events),
            Step::Checkpoint => self.checkpoint(),
            Step::ApplyMeanwhile(events) => {
                let mut frozen = self.counters().freeze(Kept::default());
                self.apply(events);
                frozen.commit().expect("the disk is well");
            }
            Step::FreezeAndRestart => {
                drop(self.counters().freeze(Kept::default()));
                self.restart();
            }
            Step::Restart => self.restart(),
            Step::Look => agrees_with_a_recount(&**self.counters(), &self.log[..self.applied()]),
        }
    }

    fn check(&self, cut: Cut, expected: &str) {
        let select = Select { game: 1, metric: "score", cut, values: None, level: Level::Minute };
        assert_eq!(self.seen(select, 0..10_000), expected);
    }

    /// What is visited, by time: `minute value count/sum by players`.
    fn seen(&self, select: Select<'_>, minutes: Range<u32>) -> String {
        let mut seen = BTreeSet::new();
        let mut visit = |value: &str, minute: u32, cell: &Cell| {
            let sum = cell.values.as_ref().map_or("-".to_owned(), |values| values.sum.value().to_string());
            let text = format!("{minute} {value} {}/{sum} by {}", cell.count, cell.players.count());
            assert!(seen.insert((minute, value.to_owned(), text)), "{minute} {value} was visited twice");
        };
        self.counters().visit(select, minutes, &mut visit).expect("the disk is well");
        seen.into_iter().map(|(_, _, text)| text).collect::<Vec<_>>().join(", ")
    }

    fn counted(&self, select: Select<'_>, minutes: Range<u32>) -> i64 {
        let mut counted = 0;
        self.counters()
            .visit(select, minutes, &mut |_, _, cell| counted += cell.count)
            .expect("the disk is well");
        counted
    }

    /// How many values have rows on a day, those in `(other)` not counted.
    fn own_rows(&self, metric: &str, cut: Cut, day: u32) -> usize {
        let mut values = BTreeSet::new();
        let select = Select { game: 1, metric, cut, values: None, level: Level::Hour };
        let mut visit = |value: &str, _: u32, _: &Cell| _ = values.insert(value.to_owned());
        self.counters().visit(select, day * 1_440..(day + 1) * 1_440, &mut visit).expect("the disk is well");
        values.remove(OTHER);
        values.len()
    }

    fn rows(&self) -> Rows {
        self.counters().export(&EVERY_HOUR).expect("the disk is well").1
    }

    /// The rows of the same log applied in one go to the plainest engine.
    fn rows_uncut(&self) -> Rows {
        let plain = MemoryCounters::open(&Disk::default());
        let deltas = deltas_of(&self.log, 0);
        plain.apply(0..self.log.len() as u64, &deltas).expect("it is in memory");
        plain.export(&EVERY_HOUR).expect("it is in memory").1
    }
}
