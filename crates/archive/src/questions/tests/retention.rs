//! Retention, compared with straightforward code.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::answer::{Answer, csv};
use super::super::retention::Retention;
use super::world::{World, by, conditions, key_json, patterns, top_keys, world, worlds};

const PERIODS: usize = 4;

/// The first day of the period of a time.
fn period(world: &World, time_ms: i64, step: &str) -> Date {
    let zone = TimeZone::get(world.zone).expect("a zone");
    let date = zone.to_datetime(Timestamp::from_millisecond(time_ms).expect("a time")).date();
    match step {
        "day" => date,
        "week" => date.checked_sub(Span::new().days(date.weekday().to_monday_zero_offset())).expect("a date"),
        _ => date.first_of_month(),
    }
}

fn next_period(date: Date, step: &str) -> Date {
    let span = match step {
        "day" => Span::new().days(1),
        "week" => Span::new().weeks(1),
        _ => Span::new().months(1),
    };
    date.checked_add(span).expect("a date")
}

/// Cohort and the periods of the returns of one player, and the key.
type NaivePlayer = (usize, Vec<usize>);

fn naive_cohorts(periods: &[Date], is_last_whole: bool, kind: &str, players: &[NaivePlayer]) -> Json {
    let cohort = |(cohort, start): (usize, &Date)| {
        let of_cohort: Vec<&NaivePlayer> = players.iter().filter(|player| player.0 == cohort).collect();
        let returned = |n: usize| {
            let came_back = |player: &&&NaivePlayer| match kind {
                "classic" => player.1.contains(&n),
                "rolling" => player.1.iter().any(|period| *period >= n),
                _ if n == 0 => player.1.contains(&0),
                _ => player.1.iter().any(|period| (1..=n).contains(period)),
            };
            let count = of_cohort.iter().filter(came_back).count();
            if cohort + n < periods.len() { json!(count) } else { Json::Null }
        };
        let complete =
            (0..PERIODS).filter(|n| cohort + n + usize::from(!is_last_whole) < periods.len()).count();
        json!({
            "start": start.to_string(), "players": of_cohort.len(),
            "returned": (0..PERIODS).map(returned).collect::<Vec<_>>(), "complete": complete,
        })
    };
    periods.iter().enumerate().map(cohort).collect()
}

fn naive(world: &World, request: &Json) -> Json {
    let step = request["step"].as_str().expect("a step");
    let last = period(world, world.window.end - 1, step);
    let mut periods = vec![period(world, world.window.start, step)];
    while *periods.last().expect("one") < last {
        periods.push(next_period(*periods.last().expect("one"), step));
    }
    let number =
        |time| periods.iter().position(|date| *date == period(world, time, step)).expect("in the window");
    let is_last_whole = period(world, world.window.end, step) != last;
    let mut groups: BTreeMap<Vec<String>, Vec<NaivePlayer>> = BTreeMap::new();
    for events in world.players().values() {
        let is = |event, pattern: &str| {
            world.meets(event, &request["where"]) && world.is_pattern(event, &request[pattern])
        };
        let Some(first) = events.iter().position(|event| is(event, "start")) else { continue };
        let cohort = number(events[first].time);
        let returns = events[first..].iter().filter(|event| is(event, "return"));
        let returns = returns.map(|event| number(event.time) - cohort).collect();
        groups.entry(events[first].key(&request["by"])).or_default().push((cohort, returns));
    }
    let kind = request["kind"].as_str().expect("a kind");
    let cohorts = |players: &[NaivePlayer]| naive_cohorts(&periods, is_last_whole, kind, players);
    let all: Vec<NaivePlayer> = groups.values().flatten().cloned().collect();
    let mut series = Vec::new();
    if !request["by"].is_null() {
        let (top, rest) = top_keys(groups, |players| players.len() as f64, 2);
        let one = |key: &[String], players: &[NaivePlayer]| json!({"key": key_json(&request["by"], key), "cohorts": cohorts(players)});
        series.extend(top.iter().map(|(key, players)| one(key, players)));
        let rest: Vec<NaivePlayer> = rest.into_iter().flatten().collect();
        if !rest.is_empty() {
            series.push(one(&["(other)".to_owned(), "(other)".to_owned()], &rest));
        }
    }
    json!({"cohorts": cohorts(&all), "series": series})
}

fn requests() -> impl Strategy<Value = Json> {
    let step = prop_oneof![3 => Just("day"), 1 => Just("week"), 1 => Just("month")];
    let kind = prop_oneof![Just("classic"), Just("rolling"), Just("bounded")];
    (patterns(), patterns(), step, kind, conditions(), by()).prop_map(
        |(start, returns, step, kind, conditions, by)| {
            json!({
                "start": start, "return": returns, "step": step, "kind": kind, "where": conditions, "by": by,
                "periods": PERIODS, "top": 2,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn retention_equals_the_naive_one(world in worlds(), request in requests()) {
        let question = Retention::from_json(&world.request(request.clone())).expect("it is valid");
        let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
        prop_assert_eq!(Json::from(answer.fields()), naive(&world, &request));
    }
}

#[test]
fn player_belongs_to_the_local_day_of_the_first_start() {
    // 23:30 in UTC is the next day in Paris.
    let mut world = world("23:30 ann start\n1+22:30 ann start\n1+23:30 ann start");
    world.zone = "Europe/Paris";
    world.window.end = world.window.start + 3 * 86_400_000;
    let request = json!({"start": {"event": "start"}, "return": {"event": "start"}, "periods": 2});
    let question = Retention::from_json(&world.request(request)).expect("it is valid");
    let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
    let rows = String::from_utf8(csv(&answer).expect("it is small")).expect("it is text");
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows[0], "cohort,period,players,returned");
    assert_eq!(&rows[3..5], ["2026-11-20,0,1,1", "2026-11-20,1,1,1"]);
}

#[test]
fn errors_name_the_field_of_a_retention_question() {
    let check = |request: Json, expected: &str| {
        let error = Retention::from_json(request.to_string().as_bytes()).expect_err("it is invalid");
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    check(json!({}), "start: is required");
    check(json!({"start": {}}), "return: is required");
    check(json!({"start": {"events": 1}, "return": {}}), "start.events: is not a field of a start event");
    check(json!({"start": {}, "return": {}, "step": "hour"}), "step: must be day, week or month");
    check(json!({"start": {}, "return": {}, "kind": "n-day"}), "kind: must be classic, rolling or bounded");
    check(json!({"start": {}, "return": {}, "periods": 121}), "periods: must be an integer from 1 to 120");
    let world = super::world::empty();
    let request = json!({"start": {}, "return": {}, "periods": 120, "last": "5000d", "by": "country"});
    let question = Retention::from_json(request.to_string().as_bytes()).expect("it is well formed");
    let failure = world.ask(|context| question.run(context)).expect_err("it is too large").to_string();
    assert!(
        failure.starts_with("periods: 5001 cohorts with 120 periods in up to 11 series exceed 1000000"),
        "{failure}"
    );
}
