//! Explore, compared with straightforward code.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::answer::{Answer, csv};
use super::super::explore::Explore;
use super::world::{TestEvent, World, by, conditions, hash, key_json, ms, top_keys, world, worlds};

fn naive_measure(world: &World, request: &Json, events: &[&TestEvent]) -> Option<f64> {
    let property = request["property"].as_str().unwrap_or("value");
    let mut values: Vec<f64> = events.iter().filter_map(|event| event.field(property).as_f64()).collect();
    values.sort_by(f64::total_cmp);
    let quantile = |percent: usize| {
        Some(values.len())
            .filter(|count| *count > 0)
            .map(|count| values[(count * percent).div_ceil(100).max(1) - 1])
    };
    match request["measure"].as_str().expect("a measure") {
        "count" => Some(events.len() as f64),
        "uniques" => {
            let players = events.iter().filter_map(|event| event.player.as_ref());
            Some(players.map(|player| hash(world.canonical(player))).collect::<BTreeSet<_>>().len() as f64)
        }
        _ if values.is_empty() => None,
        "sum" => Some(values.iter().sum()),
        "avg" => Some(values.iter().sum::<f64>() / values.len() as f64),
        "min" => values.first().copied(),
        "max" => values.last().copied(),
        "p50" => quantile(50),
        "p90" => quantile(90),
        measure => panic!("{measure}"),
    }
}

fn as_json(value: Option<f64>) -> Json {
    match value {
        Some(value) if value.fract() == 0.0 => json!(value as i64),
        value => json!(value),
    }
}

/// The key of a series and its events.
type Group<'w> = (Vec<String>, Vec<&'w TestEvent>);

/// The series over buckets that start at these times; the last ends at `until`. The keys are those of the top, or
/// fixed.
fn naive(
    world: &World,
    request: &Json,
    times: &[i64],
    until: i64,
    keys: Option<&[Vec<String>]>,
) -> (Json, Vec<Vec<String>>) {
    let mut groups: BTreeMap<Vec<String>, Vec<&TestEvent>> = BTreeMap::new();
    let is_value = !matches!(request["measure"].as_str(), Some("count" | "uniques"));
    let property = request["property"].as_str().unwrap_or("value");
    for event in world.events.iter().filter(|event| (times[0]..until).contains(&event.time)) {
        if world.is_pattern(event, request)
            && (!is_value || event.field(property).is_f64() || event.field(property).is_i64())
        {
            groups.entry(event.key(&request["by"])).or_default().push(event);
        }
    }
    if request["by"].is_null() {
        groups.entry(Vec::new()).or_default();
    }
    let total = |events: &Vec<&TestEvent>| naive_measure(world, request, events).expect("there are values");
    let (mut series, rest): (Vec<Group<'_>>, Vec<Vec<&TestEvent>>) = match keys {
        _ if request["by"].is_null() => (groups.into_iter().collect(), Vec::new()),
        None => top_keys(groups, total, 2),
        Some(keys) => {
            let own = keys.iter().map(|key| (key.clone(), groups.remove(key).unwrap_or_default())).collect();
            (own, groups.into_values().collect())
        }
    };
    let keys = series.iter().map(|(key, _)| key.clone()).collect();
    if !rest.is_empty() {
        series.push((vec!["(other)".to_owned(); 2], rest.into_iter().flatten().collect()));
    }
    let value = |(key, events): (Vec<String>, Vec<&TestEvent>)| {
        let bucket = |index: usize| {
            let end = times.get(index + 1).copied().unwrap_or(until);
            let inside: Vec<&TestEvent> =
                events.iter().copied().filter(|event| (times[index]..end).contains(&event.time)).collect();
            as_json(naive_measure(world, request, &inside))
        };
        json!({
            "key": key_json(&request["by"], &key), "values": (0..times.len()).map(bucket).collect::<Vec<_>>(),
            "total": as_json(naive_measure(world, request, &events)),
        })
    };
    (series.into_iter().map(value).collect(), keys)
}

fn times(window: &Json) -> Vec<i64> {
    window["times"].as_array().expect("times").iter().map(|time| ms(time.as_str().expect("a text"))).collect()
}

fn requests() -> impl Strategy<Value = Json> {
    let measure = prop_oneof![
        Just("count"),
        Just("uniques"),
        Just("sum"),
        Just("avg"),
        Just("min"),
        Just("max"),
        Just("p50"),
        Just("p90")
    ];
    let step = prop_oneof![Just("hour"), Just("day"), Just("week"), Just("month"), Just("all"), Just("auto")];
    let event = prop_oneof![Just(json!("start")), Just(Json::Null)];
    let property = prop_oneof![Just(Json::Null), Just(json!("props.weapon"))];
    let compare = prop_oneof![2 => Just(Json::Null), 1 => Just(json!("previous"))];
    (event, measure, property, step, by(), conditions(), compare).prop_map(
        |(event, measure, property, step, by, conditions, compare)| {
            let property = if matches!(measure, "count" | "uniques") { Json::Null } else { property };
            json!({
                "event": event, "measure": measure, "property": property, "step": step, "by": by,
                "where": conditions, "compare": compare, "top": 2,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn explore_equals_the_naive_one(world in worlds(), request in requests()) {
        let question = Explore::from_json(&world.request(request.clone())).expect("it is valid");
        let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
        let answer = Json::from(answer.fields());
        let mut starts = times(&answer);
        // The first bucket of the calendar may start before the window.
        prop_assert!(starts[0] <= world.window.start && starts.is_sorted());
        starts[0] = world.window.start;
        let (expected, keys) = naive(&world, &request, &starts, world.window.end, None);
        prop_assert_eq!(&answer["series"], &expected);
        if request["compare"] == "previous" && matches!(request["step"].as_str(), Some("all" | "hour")) {
            let length = world.window.end - world.window.start;
            let mut starts = times(&answer["compare"]);
            starts[0] = world.window.start - length;
            let (expected, _) = naive(&world, &request, &starts, world.window.start, Some(&keys));
            prop_assert_eq!(&answer["compare"]["series"], &expected);
        }
    }
}

#[test]
fn many_values_by_many_times_are_read_twice_and_give_the_same() {
    let mut lines = String::new();
    for number in 0..900 {
        let value = if number % 300 < 5 { 1_000 } else { number };
        lines.push_str(&format!(
            "{:02}:{:02} ann buy value={value} country={}\n",
            number / 60,
            number % 60,
            number % 300
        ));
    }
    let mut world = world(&lines);
    // 20 days of minutes in 300 countries are more cells than one table holds.
    for (measure, expected) in
        [("sum", "3000"), ("count", "3"), ("max", "1000"), ("uniques", "1"), ("p50", "1000")]
    {
        let request = json!({"measure": measure, "by": "country", "step": "hour", "top": 5});
        let at_once = run(&world, &request);
        let mut request = request.clone();
        request["step"] = json!("minute");
        let twice = run(&world, &request);
        let totals = |rows: &str| rows.split("\r\n").next().expect("a header").len();
        assert_eq!(totals(&at_once), totals(&twice));
        let answer = answer(&world, &request);
        assert_eq!(answer["series"].as_array().expect("series").len(), 6);
        assert_eq!(answer["series"][0]["total"].to_string(), expected, "{measure}");
        assert_eq!(answer["series"][5]["key"]["country"], "(other)");
    }
    world.window.end = world.window.start + 86_400_000;
    let one_day = answer(&world, &json!({"by": "country", "step": "minute", "top": 5}));
    world.window.end = world.window.start + 20 * 86_400_000;
    let whole = answer(&world, &json!({"by": "country", "step": "minute", "top": 5}));
    for (short, long) in
        one_day["series"].as_array().expect("series").iter().zip(whole["series"].as_array().expect("series"))
    {
        assert_eq!((&short["key"], &short["total"]), (&long["key"], &long["total"]));
        assert_eq!(
            short["values"].as_array().expect("values")[..],
            long["values"].as_array().expect("values")[..1_440]
        );
    }
}

fn answer(world: &World, request: &Json) -> Json {
    let question = Explore::from_json(&world.request(request.clone())).expect("it is valid");
    Json::from(world.ask(|context| question.run(context)).expect("it has no bounds").fields())
}

fn run(world: &World, request: &Json) -> String {
    let question = Explore::from_json(&world.request(request.clone())).expect("it is valid");
    let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
    String::from_utf8(csv(&answer).expect("it is small")).expect("it is text")
}

#[test]
fn rows_name_the_window_of_a_comparison() {
    let mut world = world("10:00 ann buy country=FR\n1+10:00 bo buy country=FR\n1+11:00 bo buy");
    world.window = ms("2026-11-20T00:00Z")..ms("2026-11-21T00:00Z");
    let rows = run(&world, &json!({"by": "country", "step": "day", "compare": "previous"}));
    assert_eq!(
        rows.replace("\r\n", "\n"),
        "time,window,country,value\n2026-11-20T00:00:00Z,current,,1\n2026-11-20T00:00:00Z,current,FR,1\n\
         2026-11-19T00:00:00Z,previous,,0\n2026-11-19T00:00:00Z,previous,FR,1\n"
    );
}

#[test]
fn errors_name_the_field_of_an_explore_question() {
    let check = |request: Json, expected: &str| {
        let world = super::world::empty();
        let failure = match Explore::from_json(request.to_string().as_bytes()) {
            Err(error) => error.to_string(),
            Ok(question) => {
                world.ask(|context| question.run(context)).expect_err("it is invalid").to_string()
            }
        };
        assert!(failure.starts_with(expected), "{failure}");
    };
    check(json!({"measure": "last"}), "measure: must be count, uniques, sum,");
    check(
        json!({"measure": "count", "property": "value"}),
        "property: must not be set with the measure count",
    );
    check(json!({"measure": "sum", "property": "price"}), "property: must be event, id,");
    check(json!({"step": "year"}), "step: must be minute, hour,");
    check(json!({"top": 0}), "top: must be an integer from 1 to 1000");
    check(json!({"compare": "before"}), "compare: must be previous or year");
    check(
        json!({"last": "3000d", "step": "minute"}),
        "step: 4320000 buckets in up to 1 series exceed 1000000 points",
    );
    check(
        json!({"from": 0, "to": 86_400_000, "compare": "year"}),
        "compare: the compared window would start before 1970",
    );
    check(json!({"metric": "buy"}), "metric: is not a field of an explore question");
}
