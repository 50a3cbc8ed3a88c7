//! Paths, compared with straightforward code.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::answer::{Answer, csv};
use super::super::paths::Paths;
use super::world::{World, conditions, world, worlds};

/// The events on all paths of a player by distance, from the starting event on.
fn naive_paths(world: &World, request: &Json, events: &[&super::world::TestEvent]) -> Vec<Vec<String>> {
    let excluded = request["exclude"].as_array().cloned().unwrap_or_default();
    let mut steps: Vec<(String, bool)> = Vec::new();
    for event in events {
        if !world.meets(event, &request["where"]) || excluded.contains(&json!(event.event)) {
            continue;
        }
        let is_start =
            json!(event.event) == request["event"] && world.meets(event, &request["start"]["where"]);
        match steps.last_mut() {
            Some((name, start)) if request["collapse"] == true && *name == event.event => *start |= is_start,
            _ => steps.push((event.event.clone(), is_start)),
        }
    }
    if request["direction"] == "before" {
        steps.reverse();
    }
    let depth = request["depth"].as_u64().expect("a depth") as usize;
    let starts = (0..steps.len()).filter(|at| steps[*at].1);
    starts.map(|at| steps[at..].iter().take(depth + 1).map(|(name, _)| name.clone()).collect()).collect()
}

/// Nodes and links by name: distance, event, count, players; and the same for pairs.
type Flat = (BTreeSet<(usize, String, u64, u64)>, BTreeSet<(usize, String, String, u64, u64)>);

fn naive(world: &World, request: &Json) -> Flat {
    let paths: Vec<(&str, Vec<Vec<String>>)> = world
        .players()
        .iter()
        .map(|(player, events)| (*player, naive_paths(world, request, events)))
        .collect();
    let mut by_distance: BTreeMap<usize, BTreeMap<&str, u64>> = BTreeMap::new();
    for path in paths.iter().flat_map(|(_, paths)| paths) {
        for (distance, event) in path.iter().enumerate() {
            *by_distance.entry(distance).or_default().entry(event).or_default() += 1;
        }
    }
    let top = |distance: usize, event: &str| {
        let mut ranked: Vec<(&str, u64)> =
            by_distance[&distance].iter().map(|(name, count)| (*name, *count)).collect();
        ranked.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        let is_top = ranked.iter().take(2).any(|(name, _)| *name == event);
        if is_top { event.to_owned() } else { "(other)".to_owned() }
    };
    let mut nodes: BTreeMap<(usize, String), (u64, BTreeSet<&str>)> = BTreeMap::new();
    let mut links: BTreeMap<(usize, String, String), (u64, BTreeSet<&str>)> = BTreeMap::new();
    for (player, paths) in &paths {
        for path in paths {
            let path: Vec<String> =
                path.iter().enumerate().map(|(distance, event)| top(distance, event)).collect();
            for (distance, event) in path.iter().enumerate() {
                let node = nodes.entry((distance, event.clone())).or_default();
                node.0 += 1;
                node.1.insert(player);
                if distance > 0 {
                    let (mut from, mut to) = (path[distance - 1].clone(), event.clone());
                    if request["direction"] == "before" {
                        std::mem::swap(&mut from, &mut to);
                    }
                    let link = links.entry((distance, from, to)).or_default();
                    link.0 += 1;
                    link.1.insert(player);
                }
            }
        }
    }
    (
        nodes.into_iter().map(|((d, e), (count, players))| (d, e, count, players.len() as u64)).collect(),
        links
            .into_iter()
            .map(|((d, a, b), (count, players))| (d, a, b, count, players.len() as u64))
            .collect(),
    )
}

fn requests() -> impl Strategy<Value = Json> {
    let direction = prop_oneof![Just("after"), Just("before")];
    let exclude = prop_oneof![Just(json!([])), Just(json!(["quit"])), Just(json!(["quit", "buy"]))];
    (direction, 1u64..5, any::<bool>(), exclude, conditions(), conditions()).prop_map(
        |(direction, depth, collapse, exclude, conditions, start)| {
            json!({
                "event": "start", "direction": direction, "depth": depth, "collapse": collapse, "exclude": exclude,
                "where": conditions, "start": {"where": start}, "top": 2,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn paths_equal_the_naive_ones(world in worlds(), request in requests()) {
        let question = Paths::from_json(&world.request(request.clone())).expect("it is valid");
        let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
        let nodes: BTreeSet<_> =
            answer.nodes.iter().map(|node| (node.distance, node.event.clone(), node.count, node.players)).collect();
        let links: BTreeSet<_> = answer.links.iter().map(|link| {
            let (from, to) = (&answer.nodes[link.from], &answer.nodes[link.to]);
            (from.distance.max(to.distance), from.event.clone(), to.event.clone(), link.count, link.players)
        }).collect();
        prop_assert_eq!((nodes.len(), links.len()), (answer.nodes.len(), answer.links.len()));
        prop_assert_eq!((nodes, links), naive(&world, &request));
        prop_assert!(answer.nodes.is_sorted_by_key(|node| node.distance));
    }
}

#[test]
fn repeats_are_one_event_unless_they_are_not_to_be_collapsed() {
    let world =
        world("10:00 ann start\n10:01 ann jump\n10:02 ann jump\n10:03 ann win\n10:00 bo start\n10:01 bo win");
    let check = |collapse: bool, expected: &str| {
        let request = json!({"event": "start", "depth": 2, "collapse": collapse});
        let question = Paths::from_json(&world.request(request)).expect("it is valid");
        let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
        let rows = String::from_utf8(csv(&answer).expect("it is small")).expect("it is text");
        assert_eq!(rows.replace("\r\n", "\n"), format!("distance,from,to,count,players\n{expected}"));
        assert!(answer.fields()["nodes"].is_array());
    };
    check(true, "1,start,jump,1,1\n1,start,win,1,1\n2,jump,win,1,1\n");
    check(false, "1,start,jump,1,1\n1,start,win,1,1\n2,jump,jump,1,1\n");
}

#[test]
fn errors_name_the_field_of_a_paths_question() {
    let check = |request: Json, expected: &str| {
        let error = Paths::from_json(request.to_string().as_bytes()).expect_err("it is invalid");
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    check(json!({}), "event: is required");
    check(json!({"event": "a", "direction": "up"}), "direction: must be after or before");
    check(json!({"event": "a", "depth": 11}), "depth: must be an integer from 1 to 10");
    check(json!({"event": "a", "top": 21}), "top: must be an integer from 1 to 20");
    check(json!({"event": "a", "collapse": 1}), "collapse: must be true or false");
    check(json!({"event": "a", "exclude": "b"}), "exclude: must be a list of event names");
    check(
        json!({"event": "a", "exclude": ["b", "a"]}),
        "exclude[1]: must not be the event that paths start from",
    );
    check(json!({"event": "a", "start": {"event": "b"}}), "start.event: is not a field of a start");
}
