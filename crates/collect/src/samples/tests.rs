use std::sync::Arc;

use expect_test::{Expect, expect};

use super::*;
use pipeline::catalog::{DimensionDeclaration, GameSettings};

const NOW: i64 = 1_800_000_000_000;

fn dimensions() -> Dimensions {
    let hat = DimensionDeclaration { name: "hat".into(), number: 7 };
    Dimensions::of(&GameSettings { dimensions: vec![hat], ..GameSettings::default() })
}

fn table(gauges: &Arc<Gauges>) -> Table {
    Table::new(dimensions(), 1, Arc::clone(gauges))
}

/// Each line is a packet of StatsD; what was refused is told in its place.
fn fill(table: &mut Table, packets: &str) -> String {
    let mut refused = String::new();
    for packet in packets.lines().map(str::trim) {
        decode::statsd::decode(packet.as_bytes(), |taken| {
            let taken = taken.map_err(|refused| refused.reject);
            if let Err(reject) = taken.and_then(|sample| table.take(&sample, NOW)) {
                refused += &format!("{packet}: {}\n", reject.label());
            }
        });
    }
    refused
}

/// Each row: name, dimensions, how many samples of how many, and what they come to.
fn told(table: &mut Table) -> String {
    let entries = table.encode();
    let mut told = String::new();
    for entry in entries {
        for event in table.events(entry).events {
            let event = event.expect("rows are not refused");
            let samples = event.samples.expect("a row has samples");
            let cell = samples.aggregate().expect("it was encoded");
            let declared = event.declared.map(|(number, value)| format!(" {number}={}", text(value)));
            let built_in = event.dimensions.iter().flatten().map(|value| format!(" {value}"));
            let dimensions: String = built_in.chain(declared).collect();
            let minutes = event.ts_ms.map(|ts_ms| ts_ms / 60_000 - NOW / 60_000).unwrap_or_default();
            let at = if minutes == 0 { String::new() } else { format!(" {minutes} min") };
            told += &format!(
                "{}{dimensions}{at}: {} of {}",
                event.name.expect("a name"),
                samples.received,
                cell.count
            );
            if let Some(values) = &cell.values {
                told += &format!(", sum {} in {}..{}", values.sum.value(), values.min, values.max);
                if let Some(last) = &values.last {
                    told += &format!(", last {}", last.value);
                }
            }
            let seen = cell.players.count();
            if seen > 0 {
                told += &format!(", {seen} seen");
            }
            told.push('\n');
        }
    }
    told
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn check(packets: &str, expected: Expect) {
    let mut table = table(&Arc::default());
    let refused = fill(&mut table, packets);
    expected.assert_eq(&(told(&mut table) + &refused));
}

#[test]
fn samples_of_one_metric_are_one_row() {
    check(
        "hits:3|c
         hits:-1|c
         load:12:15|ms
         users:bo|s
         users:ann|s
         users:bo|s",
        expect![[r#"
            hits: 2 of 2, sum 2 in -1..3
            load: 2 of 2, sum 27 in 12..15
            users: 3 of 3, 2 seen
        "#]],
    );
}

#[test]
fn a_sampled_value_counts_as_often_as_its_rate_says_without_losing_fractions() {
    check(
        "hits:3|c|@0.1",
        expect![[r#"
        hits: 1 of 10, sum 30 in 3..3
    "#]],
    );
    check(
        "hits:1|c|@0.3
         hits:1|c|@0.3
         hits:1|c|@0.3",
        expect![[r#"
            hits: 3 of 10, sum 10 in 1..1
        "#]],
    );
}

#[test]
fn a_fraction_waits_for_the_next_flush() {
    let mut table = table(&Arc::default());
    let counts: Vec<String> = (0..3)
        .map(|_| {
            fill(&mut table, "hits:1|c|@0.4");
            let told = told(&mut table);
            table.clear(dimensions());
            told
        })
        .collect();
    assert_eq!(counts.concat().matches("1 of 2").count(), 2);
    assert_eq!(counts.concat().matches("1 of 3").count(), 1);
}

#[test]
fn a_gauge_is_set_and_changed_also_over_flushes_and_from_other_sockets() {
    let gauges = Arc::default();
    let (mut one, mut other) = (table(&gauges), table(&gauges));
    fill(&mut one, "players:10|g\nplayers:+5|g\nplayers:-3|g");
    expect![[r#"
        players: 3 of 3, sum 37 in 10..15, last 12
    "#]]
    .assert_eq(&told(&mut one));
    one.clear(dimensions());
    fill(&mut other, "players:-17|g\nplayers:+1|g|#hat:red");
    expect![[r#"
        players: 1 of 1, sum -5 in -5..-5, last -5
        players 7=red: 1 of 1, sum 1 in 1..1, last 1
    "#]]
    .assert_eq(&told(&mut other));
    fill(&mut one, "players:+1|g");
    expect![[r#"
        players: 1 of 1, sum -4 in -4..-4, last -4
    "#]]
    .assert_eq(&told(&mut one));
}

#[test]
fn a_tag_makes_a_row_if_it_is_a_dimension_and_is_counted_if_not() {
    check(
        "hits:1|c|#country:de,hat:red
         hits:2|c|#hat:red,host:a,country:DE
         hits:4|c|#hat:red,hat:blue,country:de
         hits:8|c|#host:b,hat,country:
         hits:16|c|#country:germany",
        expect![[r#"
            hits DE 7=red: 2 of 2, sum 3 in 1..2
            hits DE 7=blue: 1 of 1, sum 4 in 4..4
            hits: 1 of 1, sum 8 in 8..8
            hits:16|c|#country:germany: country_invalid
        "#]],
    );
    let mut table = table(&Arc::default());
    fill(&mut table, "hits:1|c|#country:de,a:b,c\nhits:1|c|#d:e");
    assert_eq!(table.ignored_tags(), 3);
}

#[test]
fn a_minute_has_rows_of_its_own_and_a_clock_far_ahead_is_not_believed() {
    check(
        &format!(
            "hits:1|c|T{}
             hits:2|c|T{}
             hits:4|c",
            NOW / 1000 - 60,
            NOW / 1000 + 25 * 3600,
        ),
        expect![[r#"
            hits -1 min: 1 of 1, sum 1 in 1..1
            hits: 2 of 2, sum 6 in 2..4
        "#]],
    );
}

#[test]
fn a_full_table_refuses_new_rows_and_goes_on_with_those_it_has() {
    let mut table = table(&Arc::default());
    let names: String = (0..ROWS_MAX).map(|name| format!("n{name}:1|c\n")).collect();
    assert_eq!(fill(&mut table, &names), "");
    assert_eq!(fill(&mut table, "one more:1|c\nn7:1|c"), "one more:1|c: queue_full\n");
    let entries = table.encode();
    let rows: usize = entries.iter().map(|entry| entry.len()).sum();
    assert_eq!(rows, ROWS_MAX);
}

#[test]
fn what_was_refused_leaves_no_row() {
    let gauges = Arc::default();
    fill(&mut table(&gauges), "level:1.7e308|g");
    let mut table = table(&gauges);
    assert_eq!(fill(&mut table, "level:+1e308|g"), "level:+1e308|g: value_not_finite\n");
    assert_eq!(told(&mut table), "");
}
