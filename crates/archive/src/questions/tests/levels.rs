//! Levels and heatmaps.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::answer::{Answer, csv};
use super::super::levels::{Heatmap, Levels};
use super::world::{World, world, worlds};

/// Turns events of the world into those of levels.
fn with_levels(mut world: World) -> World {
    for (number, event) in world.events.iter_mut().enumerate() {
        let state = match &event.event[..] {
            "buy" => ["retry", "flag", "lost"][number % 3].to_owned(),
            name => name.to_owned(),
        };
        event.event = "$level".to_owned();
        event.fields.insert("props.state".to_owned(), json!(state));
        event.fields.insert("level".to_owned(), json!(format!("level-{}", number % 3)));
        event.fields.insert("version".to_owned(), json!(format!("1.{}", number % 2)));
    }
    world
}

#[derive(Default)]
struct NaiveLevel<'w> {
    states: BTreeMap<String, u64>,
    players: BTreeSet<&'w str>,
    times: Vec<f64>,
}

fn naive(world: &World, by_version: bool) -> Json {
    let players = world.players();
    let mut levels: BTreeMap<(String, Option<String>), NaiveLevel<'_>> = BTreeMap::new();
    for (player, events) in &players {
        let mut started: BTreeMap<String, i64> = BTreeMap::new();
        for event in events {
            let text = |name: &str| event.field(name).as_str().expect("a text").to_owned();
            let (state, level) = (text("props.state"), text("level"));
            if state == "lost" {
                continue;
            }
            let version = by_version.then(|| text("version"));
            let result = levels.entry((level.clone(), version)).or_default();
            result.players.insert(player);
            match &state[..] {
                "start" | "retry" => drop(started.insert(level, event.time)),
                "win" => {
                    let started = started.remove(&level);
                    result.times.extend(started.map(|start| (event.time - start) as f64 / 1_000.0));
                }
                "quit" => drop(started.remove(&level)),
                _ => {}
            }
            *result.states.entry(state).or_default() += 1;
        }
    }
    let level = |((level, version), mut result): ((String, Option<String>), NaiveLevel<'_>)| {
        let count = |state: &str| result.states.get(state).copied().unwrap_or(0);
        let tries = count("start") + count("retry");
        let rate = count("win") as f64 / tries as f64;
        result.times.sort_by(f64::total_cmp);
        let median = result.times.get((result.times.len().max(1) - 1) / 2);
        let whole = |value: f64| if value.fract() == 0.0 { json!(value as i64) } else { json!(value) };
        json!({
            "level": level, "version": version, "starts": count("start"), "wins": count("win"),
            "retries": count("retry"), "quits": count("quit"), "flags": count("flag"), "players": result.players.len(),
            "win_rate": if tries == 0 { Json::Null } else { whole(rate) }, "median_s": median.map(|median| whole(*median)),
        })
    };
    let mut levels: Vec<Json> = levels.into_iter().map(level).collect();
    levels.sort_by_key(|level| std::cmp::Reverse(level["starts"].as_u64()));
    let found = levels.len();
    levels.truncate(2);
    json!({"found": found, "levels": levels})
}

proptest! {
    #[test]
    fn levels_equal_the_naive_ones(world in worlds(), by_version in any::<bool>()) {
        let world = with_levels(world);
        let by = if by_version { json!("version") } else { Json::Null };
        let question = Levels::from_json(&world.request(json!({"by": by, "top": 2}))).expect("it is valid");
        let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
        prop_assert_eq!(Json::from(answer.fields()), naive(&world, by_version));
    }
}

fn heatmap(lines: &str, request: Json) -> Json {
    let world = world(lines);
    let question = Heatmap::from_json(&world.request(request)).expect("it is valid");
    let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
    csv(&answer).expect("it is small");
    answer.fields().into()
}

const POINTS: &str = "10:00 ann $heat props.map=cave props.metric=death props.x=0 props.y=0
    10:01 - $heat props.map=cave props.metric=death props.x=4.9 props.y=1
    10:02 ann $heat props.map=cave props.metric=death props.x=10 props.y=20
    10:03 ann $heat props.map=cave props.metric=jump props.x=100 props.y=1
    10:04 ann $heat props.map=hill props.metric=death props.x=100 props.y=1
    10:05 ann $heat props.map=cave props.metric=death props.x=7";

#[test]
fn heatmap_covers_its_points_or_the_given_bounds() {
    let mut request = json!({"map": "cave", "metric": "death", "columns": 2, "rows": 2});
    assert_eq!(
        heatmap(POINTS, request.clone()),
        json!({"bounds": {"x_min": 0, "x_max": 10, "y_min": 0, "y_max": 20}, "cells": [[2, 0], [0, 1]], "outside": 0})
    );
    request["bounds"] = json!({"x_min": 0, "x_max": 5, "y_min": -1, "y_max": 1});
    assert_eq!(
        heatmap(POINTS, request.clone()),
        json!({"bounds": {"x_min": 0, "x_max": 5, "y_min": -1, "y_max": 1}, "cells": [[0, 0], [1, 1]], "outside": 1})
    );
    request["map"] = json!("void");
    request["bounds"] = Json::Null;
    assert_eq!(heatmap(POINTS, request), json!({"bounds": null, "cells": [[0, 0], [0, 0]], "outside": 0}));
}

#[test]
fn heatmap_of_one_point_has_it_in_one_cell() {
    let line = "10:00 ann $heat props.map=cave props.metric=death props.x=3 props.y=1e300";
    let answer = heatmap(line, json!({"map": "cave", "metric": "death", "columns": 2, "rows": 1}));
    assert_eq!(answer["cells"], json!([[1, 0]]));
}

#[test]
fn errors_name_the_field_of_levels_and_heatmaps() {
    let check = |request: Json, expected: &str| {
        let error = Heatmap::from_json(request.to_string().as_bytes()).expect_err("it is invalid");
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    check(json!({"metric": "a"}), "map: is required");
    check(json!({"map": "a"}), "metric: is required");
    check(json!({"map": "a", "metric": "b", "columns": 257}), "columns: must be an integer from 1 to 256");
    check(json!({"map": "a", "metric": "b", "bounds": {"x_min": 0}}), "bounds.x_max: is required");
    check(
        json!({"map": "a", "metric": "b", "bounds": {"x_min": 1, "x_max": 1, "y_min": 0, "y_max": 1}}),
        "bounds.x_min: must be less than x_max",
    );
    let check = |request: Json, expected: &str| {
        let error = Levels::from_json(request.to_string().as_bytes()).expect_err("it is invalid");
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    check(json!({"by": "country"}), "by: must be version");
    check(json!({"top": 10_001}), "top: must be an integer from 1 to 10000");
}
