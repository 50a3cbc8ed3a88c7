//! Funnels, compared with straightforward code.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::answer::{Answer, csv};
use super::super::funnel::Funnel;
use super::super::players::PlayerSet;
use super::world::{World, by, conditions, hash, key_json, patterns, top_keys, world, worlds};

/// How far one player got: the times of the steps and the key at the first.
fn naive_player(
    world: &World,
    events: &[&super::world::TestEvent],
    request: &Json,
) -> Option<(Vec<i64>, Vec<String>)> {
    let steps = request["steps"].as_array().expect("steps");
    let is_step =
        |event, step: usize| world.meets(event, &request["where"]) && world.is_pattern(event, &steps[step]);
    let first = events.iter().position(|event| is_step(event, 0))?;
    let mut times = vec![events[first].time];
    let key = events[first].key(&request["by"]);
    let window_ms = request["window_s"].as_i64().expect("a window") * 1_000;
    for event in &events[first + 1..] {
        let next = times.len();
        if next == steps.len() || event.time > times[0] + window_ms {
            break;
        }
        if is_step(event, next) {
            times.push(event.time);
        } else if request["order"] == "strict"
            && !is_step(event, next - 1)
            && (0..steps.len()).any(|step| is_step(event, step))
        {
            break;
        }
    }
    Some((times, key))
}

fn naive_quantile(times: &[f64], percent: usize) -> Json {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    match times.len() {
        0 => Json::Null,
        count => {
            let time = times[(count * percent).div_ceil(100).max(1) - 1];
            if time.fract() == 0.0 { json!(time as i64) } else { json!(time) }
        }
    }
}

fn naive_steps(request: &Json, players: &[Vec<i64>]) -> Json {
    let steps = request["steps"].as_array().expect("steps");
    let step = |(step, pattern): (usize, &Json)| {
        let reached: Vec<&Vec<i64>> = players.iter().filter(|times| times.len() > step).collect();
        let seconds = |times: &&Vec<i64>| (times[step] - times[step - 1]) as f64 / 1_000.0;
        let times: Vec<f64> = if step == 0 { Vec::new() } else { reached.iter().map(seconds).collect() };
        let conversion = reached.len() as f64 / players.len() as f64;
        let conversion = match conversion {
            conversion if conversion.is_nan() => Json::Null,
            conversion if conversion.fract() == 0.0 => json!(conversion as i64),
            conversion => json!(conversion),
        };
        json!({
            "event": pattern["event"], "players": reached.len(), "conversion": conversion,
            "median_s": naive_quantile(&times, 50), "p90_s": naive_quantile(&times, 90),
        })
    };
    steps.iter().enumerate().map(step).collect()
}

fn naive(world: &World, request: &Json) -> (Json, PlayerSet) {
    let mut groups: BTreeMap<Vec<String>, Vec<Vec<i64>>> = BTreeMap::new();
    let mut dropped = Vec::new();
    for (player, events) in world.players() {
        if let Some((times, key)) = naive_player(world, &events, request) {
            if times.len() == 1 {
                dropped.push(hash(player));
            }
            groups.entry(key).or_default().push(times);
        }
    }
    let all: Vec<Vec<i64>> = groups.values().flatten().cloned().collect();
    let mut series = Vec::new();
    if !request["by"].is_null() {
        let (top, rest) = top_keys(groups, |players| players.len() as f64, 2);
        let one = |key: &[String], players: &[Vec<i64>]| json!({"key": key_json(&request["by"], key), "steps": naive_steps(request, players)});
        series.extend(top.iter().map(|(key, players)| one(key, players)));
        let rest: Vec<Vec<i64>> = rest.into_iter().flatten().collect();
        if !rest.is_empty() {
            series.push(one(&["(other)".to_owned(), "(other)".to_owned()], &rest));
        }
    }
    (json!({"steps": naive_steps(request, &all), "series": series}), dropped.into_iter().collect())
}

fn requests() -> impl Strategy<Value = Json> {
    let steps = prop::collection::vec(patterns(), 2..5);
    let order = prop_oneof![Just("loose"), Just("strict")];
    let window = prop_oneof![Just(1u64), Just(1_800), Just(10_800), Just(86_400), Just(604_800)];
    (steps, order, window, conditions(), by()).prop_map(|(steps, order, window, conditions, by)| {
        json!({
            "steps": steps, "order": order, "window_s": window, "where": conditions, "by": by, "top": 2,
            "players": {"kind": "dropped", "step": 2},
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn funnels_equal_the_naive_ones(world in worlds(), request in requests()) {
        let question = Funnel::from_json(&world.request(request.clone())).expect("it is valid");
        let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
        let (expected, dropped) = naive(&world, &request);
        prop_assert_eq!(Json::from(answer.fields()), expected);
        prop_assert_eq!(answer.players, Some(dropped));
    }
}

fn check(lines: &str, request: Json, expected: &str) {
    let world = world(lines);
    let question = Funnel::from_json(&world.request(request)).expect("it is valid");
    let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
    let players: Vec<String> = answer.steps.iter().map(|step| step.players.to_string()).collect();
    assert_eq!(players.join(" "), expected, "{lines}");
}

fn steps(order: &str) -> Json {
    json!({"steps": [{"event": "start"}, {"event": "win"}, {"event": "buy"}], "order": order, "window_s": 3_600})
}

#[test]
fn later_step_at_the_same_time_counts_if_it_arrived_later() {
    check("10:00 ann start\n10:00 ann win", steps("loose"), "1 1 0");
    check("10:00 ann win\n10:00 ann start", steps("loose"), "1 0 0");
}

#[test]
fn window_starts_at_step_1_and_includes_its_end() {
    check("10:00 ann start\n10:50 ann win\n11:00 ann buy", steps("loose"), "1 1 1");
    check("10:00 ann start\n10:50 ann win\n11:00:00.001 ann buy", steps("loose"), "1 1 0");
    check("10:00 ann start\n10:50 ann start\n11:20 ann win", steps("loose"), "1 0 0");
}

#[test]
fn strict_funnel_ends_at_a_step_out_of_order() {
    check("10:00 ann start\n10:01 ann buy\n10:02 ann win", steps("loose"), "1 1 0");
    check("10:00 ann start\n10:01 ann buy\n10:02 ann win", steps("strict"), "1 0 0");
    check("10:00 ann start\n10:01 ann start\n10:01 ann jump\n10:02 ann win", steps("strict"), "1 1 0");
}

#[test]
fn both_ids_of_a_linked_player_are_one_player() {
    let mut world = world("10:00 anon start\n10:01 ann win\n1+10:00 ann start\n10:02 anon buy");
    let run = |world: &World| {
        let question = Funnel::from_json(&world.request(steps("loose"))).expect("it is valid");
        let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
        answer.steps.iter().map(|step| step.players).collect::<Vec<u64>>()
    };
    assert_eq!(run(&world), [2, 0, 0]);
    world.links.push(("anon".to_owned(), "ann".to_owned()));
    assert_eq!(run(&world), [1, 1, 1]);
}

#[test]
fn rows_show_each_step_of_each_key() {
    let world = world("10:00 ann start country=FR\n10:01 ann win\n10:00 bo start");
    let request = json!({"steps": [{"event": "start"}, {"event": "win"}], "by": "country"});
    let question = Funnel::from_json(&world.request(request)).expect("it is valid");
    let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
    let rows = String::from_utf8(csv(&answer).expect("it is small")).expect("it is text");
    assert_eq!(
        rows.replace("\r\n", "\n"),
        "country,step,event,players,conversion,median_s,p90_s\n,1,start,1,1,,\n,2,win,0,0,,\n\
         FR,1,start,1,1,,\nFR,2,win,1,1,60,60\n"
    );
}

#[test]
fn errors_name_the_field_of_a_funnel() {
    let check = |request: Json, expected: &str| {
        let error = Funnel::from_json(request.to_string().as_bytes()).expect_err("it is invalid");
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    let two = json!([{"event": "a"}, {"event": "b"}]);
    check(json!({}), "steps: is required");
    check(json!({"steps": [{}]}), "steps: must be a list of 2 to 12 steps");
    check(json!({"steps": vec![json!({}); 13]}), "steps: must be a list of 2 to 12 steps");
    check(
        json!({"steps": [{"event": "a"}, {"event": ""}]}),
        "steps[1].event: must be between 1 and 200 bytes",
    );
    check(json!({"steps": [{"event": "a"}, {"name": "b"}]}), "steps[1].name: is not a field of a step");
    check(json!({"steps": [{"where": [{}]}, {}]}), "steps[0].where[0]: must be a condition");
    check(json!({"steps": two, "window_s": 0}), "window_s: must be an integer from 1 to 315576000");
    check(json!({"steps": two, "order": "any"}), "order: must be loose or strict");
    check(json!({"steps": two, "by": ["a"]}), "by[0]: must be event, id,");
    check(json!({"steps": two, "by": ["country", "country"]}), "by[1]: is listed twice");
    check(json!({"steps": two, "by": ["country", "level", "version"]}), "by: must be at most 2 properties");
    check(
        json!({"steps": two, "players": {"kind": "dropped", "step": 1}}),
        "players.step: must be an integer from 2 to 2",
    );
    check(json!({"steps": two, "players": {"kind": "lost"}}), "players.kind: must be reached or dropped");
    check(json!({"steps": two, "from": "today"}), "from: must be a time such as");
    check(json!({"steps": two, "from": 0, "last": "7d"}), "last: cannot be combined with");
    check(json!({"steps": two, "limit": 1}), "limit: is not a field of a funnel");
    check(json!([]), "body: is not a JSON object");
    let world = super::world::empty();
    let run = |request: Json| {
        let question = Funnel::from_json(request.to_string().as_bytes()).expect("it is well formed");
        world.ask(|context| question.run(context)).expect_err("it cannot run").to_string()
    };
    assert!(run(json!({"steps": two, "tz": "Mars"})).starts_with("tz: unknown time zone \"Mars\""));
    assert!(run(json!({"steps": two, "from": 5, "to": 5})).starts_with("from: must be before `to`"));
}
