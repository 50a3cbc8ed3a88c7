use crossterm::event::KeyCode;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::screen::TopView;
use super::tables::tables;

fn snapshot(uptime_ms: u64, accepted: u64, cpu_s: f64) -> Value {
    json!({
        "version": "0.1.0", "uptime_s": uptime_ms / 1000, "uptime_ms": uptime_ms,
        "process": {"cpu_s": cpu_s, "memory_bytes": 14_000_000, "threads": 9, "open_files": 31},
        "events": [
            {"game": "demo", "endpoint": "events", "outcome": "invalid", "reason": "unknown_field", "count": 9_402},
            {"game": "demo", "endpoint": "events", "outcome": "accepted", "reason": null, "count": accepted},
        ],
        "requests": [
            {"method": "GET", "path": "/v1/query", "ok": 10, "refused": 2, "failed": 0, "p50_us": 63, "p99_us": 1_279},
            {"method": "POST", "path": "/v1/events", "ok": accepted / 100, "refused": 0, "failed": 0, "p50_us": 900, "p99_us": 3_071},
        ],
        "stores": [
            {"store": "rollups", "count": null, "bytes": 1_048_576, "reads": 40, "read_us": 800, "writes": accepted / 1000, "write_us": accepted},
            {"store": "log", "count": accepted, "bytes": 67_108_864, "reads": 0, "read_us": 0, "writes": 1, "write_us": 70},
        ],
    })
}

fn check(now: &Value, previous: Option<&Value>, expected: Expect) {
    let text: Vec<String> = tables(now, previous).iter().map(|table| table.text()).collect();
    expected.assert_eq(&text.join("\n"));
}

#[test]
fn rates_are_the_difference_of_two_snapshots() {
    check(
        &snapshot(3_725_000, 527_837, 20.5),
        Some(&snapshot(3_723_000, 521_837, 20.3)),
        expect![[r#"
        Server
        version         up     CPU    memory  threads  open files
        0.1.0    1 h 2 min  10.0 %  13.4 MiB        9          31

        Events since the start
        outcome                       game    count    share  per second
        events.accepted               demo  527,837  98.25 %       3,000
        events.invalid unknown_field  demo    9,402   1.75 %           0

        Requests since the start
        request          count    share  per second  rejected  failed  p50 ms  p99 ms
        POST /v1/events  5,278  99.77 %          30         0       0   0.900   3.071
        GET /v1/query       12   0.23 %           0         2       0   0.063   1.279

        Stores
        store      count      size  reads/s  reading  writes/s  writing
        log      527,837  64.0 MiB        0    0.0 %         0    0.0 %
        rollups            1.0 MiB        0    0.0 %       3.0    0.3 %
    "#]],
    );
}

#[test]
fn subscriptions_are_listed_with_mode_and_cost() {
    let mut now = snapshot(1_000, 1_000, 0.1);
    now["subscriptions"] = json!([
        {"topic": "online", "mode": "poll", "watchers": 1, "interval_ms": 1000, "computations": 3, "changes": 2, "merged": 0, "cost_us": {"mean": 12, "total": 36}},
        {"topic": "query", "what": {"metric": "plays", "step": "minute", "by": ["country"], "last": "24h"}, "mode": "incremental",
         "watchers": 1000, "interval_ms": 250, "computations": 40, "changes": 39, "merged": 5, "cost_us": {"mean": 310, "total": 12_400}},
    ]);
    let tables = tables(&now, None);
    expect![[r#"
        Subscriptions by cost
        subscription                                                   mode  subscribers  interval ms  computed  changes  merged  mean ms
        query {"by":["country"],"last":"24h","metric":"plays"…  incremental        1,000          250        40       39       5    0.310
        online                                                         poll            1        1,000         3        2       0    0.012
    "#]].assert_eq(&tables.last().expect("there are subscriptions").text());
}

/// Returns the lines that a screen of this size shows, without escape sequences.
fn screen(view: &TopView, width: usize, height: usize) -> Vec<String> {
    let mut bytes = Vec::new();
    view.draw(&mut bytes, width, height).expect("memory has room");
    let text = String::from_utf8(bytes).expect("it is text");
    let is_code = |c: char| c.is_ascii_alphabetic();
    let lines =
        text.split("\u{1b}[").filter_map(|part| part.split_once(is_code)).map(|(_, text)| text.to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn tables_are_cut_off_at_the_screen_edge() {
    let mut view = TopView::new(tables(&snapshot(2_000, 1_000, 0.1), None));
    let small = screen(&view, 20, 4);
    assert_eq!(small, ["Server", "version   up    CPU ", "0.1.0    2 s  5.0 % ", "q quits, space pause"]);
    assert!(screen(&view, 1, 1).iter().all(|line| line.chars().count() <= 1));
    assert!(screen(&view, 0, 0).is_empty());
    (0..9).for_each(|_| view.press(KeyCode::Down));
    assert_eq!(screen(&view, 80, 24)[0], "Stores", "the last table stays visible");
    view.press(KeyCode::Char(' '));
    assert_eq!(screen(&view, 80, 24).last().map(String::as_str), Some("paused; space resumes, q quits"));
}
