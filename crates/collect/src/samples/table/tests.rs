use std::sync::Arc;

use expect_test::{Expect, expect};
use pipeline::catalog::{DimensionDeclaration, GameSettings};

use super::*;

const NOW: i64 = 1_800_000_000_000;

fn dimensions() -> Dimensions {
    let hat = DimensionDeclaration { name: "hat".into(), number: 7 };
    Dimensions::of(&GameSettings { dimensions: vec![hat], ..GameSettings::default() })
}

fn table(gauges: &Arc<Gauges>) -> SampleTable {
    SampleTable::new(dimensions(), 1, Arc::clone(gauges))
}

/// Adds StatsD packets, one in each line. Returns the rejected ones with their reasons.
fn add_packets(table: &mut SampleTable, packets: &str) -> String {
    let mut rejected = String::new();
    for packet in packets.lines().map(str::trim) {
        decode::statsd::decode(packet.as_bytes(), |taken| {
            let taken = taken.map_err(|rejected| rejected.reject);
            if let Err(reject) = taken.and_then(|sample| table.add(&sample, NOW)) {
                rejected += &format!("{packet}: {}\n", reject.label());
            }
        });
    }
    rejected
}

/// Returns a line for each row: name, dimensions, the number of samples, their weighted count, and the aggregate.
fn describe(table: &mut SampleTable) -> String {
    let entries = table.encode();
    let mut text = String::new();
    for entry in entries {
        for event in table.events(entry).events {
            let event = event.expect("rows are not rejected");
            let samples = event.samples.expect("a row has samples");
            let aggregate = samples.aggregate().expect("it was encoded");
            let declared =
                event.declared.map(|(number, value)| format!(" {number}={}", String::from_utf8_lossy(value)));
            let built_in = event.dimensions.iter().flatten().map(|value| format!(" {value}"));
            let dimensions: String = built_in.chain(declared).collect();
            let minutes = event.ts_ms.map(|ts_ms| ts_ms / 60_000 - NOW / 60_000).unwrap_or_default();
            let at = if minutes == 0 { String::new() } else { format!(" {minutes} min") };
            text += &format!(
                "{}{dimensions}{at}: {} of {}",
                event.name.expect("a name"),
                samples.received,
                aggregate.count
            );
            if let Some(values) = &aggregate.values {
                text += &format!(", sum {} in {}..{}", values.sum.value(), values.min, values.max);
                if let Some(last) = &values.last {
                    text += &format!(", last {}", last.value);
                }
            }
            let seen = aggregate.players.count();
            if seen > 0 {
                text += &format!(", {seen} seen");
            }
            text.push('\n');
        }
    }
    text
}

fn check(packets: &str, expected: Expect) {
    let mut table = table(&Arc::default());
    let rejected = add_packets(&mut table, packets);
    expected.assert_eq(&(describe(&mut table) + &rejected));
}

#[test]
fn samples_of_one_metric_are_aggregated_into_one_row() {
    check(
        "hits:3|c
         hits:-1|c
         load:12:15|ms
         users:bo|s
         users:ann|s
         users:bo|s",
        expect![[r#"
            hits 7=(none): 2 of 2, sum 2 in -1..3
            load 7=(none): 2 of 2, sum 27 in 12..15
            users 7=(none): 3 of 3, 2 seen
        "#]],
    );
}

#[test]
fn sampled_value_counts_with_its_weight_and_fractions_add_up() {
    check(
        "hits:3|c|@0.1",
        expect![[r#"
            hits 7=(none): 1 of 10, sum 30 in 3..3
        "#]],
    );
    check(
        "hits:1|c|@0.3
         hits:1|c|@0.3
         hits:1|c|@0.3",
        expect![[r#"
            hits 7=(none): 3 of 10, sum 10 in 1..1
        "#]],
    );
}

#[test]
fn fraction_of_a_count_is_kept_for_the_next_write() {
    let mut table = table(&Arc::default());
    let counts: Vec<String> = (0..3)
        .map(|_| {
            add_packets(&mut table, "hits:1|c|@0.4");
            let text = describe(&mut table);
            table.clear(dimensions());
            text
        })
        .collect();
    assert_eq!(counts.concat().matches("1 of 2").count(), 2);
    assert_eq!(counts.concat().matches("1 of 3").count(), 1);
}

#[test]
fn gauge_changes_apply_across_writes_and_sockets() {
    let gauges = Arc::default();
    let (mut one, mut other) = (table(&gauges), table(&gauges));
    add_packets(&mut one, "players:10|g\nplayers:+5|g\nplayers:-3|g");
    expect![[r#"
        players 7=(none): 3 of 3, sum 37 in 10..15, last 12
    "#]]
    .assert_eq(&describe(&mut one));
    one.clear(dimensions());
    add_packets(&mut other, "players:-17|g\nplayers:+1|g|#hat:red");
    expect![[r#"
        players 7=(none): 1 of 1, sum -5 in -5..-5, last -5
        players 7=red: 1 of 1, sum 1 in 1..1, last 1
    "#]]
    .assert_eq(&describe(&mut other));
    add_packets(&mut one, "players:+1|g");
    expect![[r#"
        players 7=(none): 1 of 1, sum -4 in -4..-4, last -4
    "#]]
    .assert_eq(&describe(&mut one));
}

#[test]
fn dimension_tags_get_rows_and_other_tags_are_counted() {
    check(
        "hits:1|c|#country:de,hat:red
         hits:2|c|#hat:red,host:a,country:DE
         hits:4|c|#hat:red,hat:blue,country:de
         hits:8|c|#host:b,hat,country:
         hits:16|c|#country:germany",
        expect![[r#"
            hits DE 7=red: 2 of 2, sum 3 in 1..2
            hits DE 7=blue: 1 of 1, sum 4 in 4..4
            hits 7=(none): 1 of 1, sum 8 in 8..8
            hits:16|c|#country:germany: country_invalid
        "#]],
    );
    let mut table = table(&Arc::default());
    add_packets(&mut table, "hits:1|c|#country:de,a:b,c\nhits:1|c|#d:e");
    assert_eq!(table.ignored_tags(), 3);
}

#[test]
fn each_minute_has_its_own_rows_and_a_timestamp_far_ahead_is_clamped() {
    check(
        &format!(
            "hits:1|c|T{}
             hits:2|c|T{}
             hits:4|c",
            NOW / 1000 - 60,
            NOW / 1000 + 25 * 3600,
        ),
        expect![[r#"
            hits 7=(none) -1 min: 1 of 1, sum 1 in 1..1
            hits 7=(none): 2 of 2, sum 6 in 2..4
        "#]],
    );
}

#[test]
fn full_table_rejects_new_rows_and_still_adds_to_existing_ones() {
    let mut table = table(&Arc::default());
    let names: String = (0..ROWS_MAX).map(|name| format!("n{name}:1|c\n")).collect();
    assert_eq!(add_packets(&mut table, &names), "");
    assert_eq!(add_packets(&mut table, "one more:1|c\nn7:1|c"), "one more:1|c: queue_full\n");
    let entries = table.encode();
    let rows: usize = entries.iter().map(|entry| entry.len()).sum();
    assert_eq!(rows, ROWS_MAX);
}

#[test]
fn rejected_sample_leaves_no_row() {
    let gauges = Arc::default();
    add_packets(&mut table(&gauges), "level:1.7e308|g");
    let mut table = table(&gauges);
    assert_eq!(add_packets(&mut table, "level:+1e308|g"), "level:+1e308|g: value_not_finite\n");
    assert_eq!(describe(&mut table), "");
}
