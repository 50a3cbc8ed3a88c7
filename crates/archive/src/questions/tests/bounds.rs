//! Bounds of time and memory, and what happens when a scan fails.

use std::cell::Cell;

use model::query::QueryStopped;
use serde_json::json;

use super::super::QuestionFailure;
use super::super::explore::Explore;
use super::super::funnel::Funnel;
use super::super::question::Question;
use super::super::retention::Retention;
use super::world::{Stop, World, world};
use crate::scan::ScanFailure;

fn sample() -> World {
    let lines = (0..5_000)
        .map(|number| format!("{}+10:00 p{number} start value={number} country={number}\n", number % 20));
    let mut world = world(&lines.collect::<String>());
    world.cuts.chunk_rows = vec![500];
    world.links.push(("p1".to_owned(), "p2".to_owned()));
    world
}

/// A question of each kind whose memory grows with the world.
fn questions(world: &World) -> Vec<(&'static str, Question)> {
    let question = |name, kind, request| {
        (name, Question::from_json(kind, &world.request(request)).expect("it is valid"))
    };
    let explore = |measure| json!({"measure": measure, "by": "country", "step": "day"});
    vec![
        question("count", "explore", explore("count")),
        question("uniques", "explore", explore("uniques")),
        question("median", "explore", explore("p50")),
        question(
            "funnel",
            "funnel",
            json!({"steps": [{"event": "start"}, {"event": "start"}], "by": "country"}),
        ),
        question("retention", "retention", json!({"start": {}, "return": {}, "by": "country"})),
        question("paths", "paths", json!({"event": "start"})),
        question("players", "players", json!({"search": "p", "limit": 1_000})),
    ]
}

#[test]
fn question_stops_at_any_check_without_an_answer() {
    let world = sample();
    for (name, question) in questions(&world) {
        let mut stopped = 0;
        for checks in 0.. {
            let stop = Stop { checks: Cell::new(checks), bytes_max: usize::MAX };
            match world.ask_within(&stop, |context| question.run(context).map(drop)) {
                Ok(()) => break,
                Err(QuestionFailure::Scan(ScanFailure::Stopped(QueryStopped::Cancelled))) => stopped += 1,
                Err(failure) => panic!("{name}: {failure}"),
            }
        }
        assert!(stopped >= 20, "{name} checked {stopped} times");
    }
}

#[test]
fn question_with_too_many_groups_or_players_is_refused() {
    let world = sample();
    for (name, question) in questions(&world) {
        let stop = Stop { checks: Cell::new(usize::MAX), bytes_max: 64 << 10 };
        match world.ask_within(&stop, |context| question.run(context).map(drop)) {
            Err(QuestionFailure::Scan(ScanFailure::Stopped(QueryStopped::Memory { .. }))) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn progress_ends_at_all_events_and_all_ranges() {
    let world = sample();
    for (name, question) in questions(&world) {
        world.ask(|context| {
            drop(question.run(context).expect("it has no bounds"));
            assert!(context.progress.rows() >= 5_000, "{name}");
            assert_eq!(context.progress.share(), 1.0, "{name}");
        });
    }
}

#[test]
fn question_lists_the_cohorts_that_it_needs() {
    let named = |name: &str| json!([{"or": [{"not": {"cohort": name}}]}]);
    let request = json!({"steps": [{"where": named("a")}, {"where": named("b")}], "where": named("c")});
    let funnel = Funnel::from_json(request.to_string().as_bytes()).expect("it is valid");
    assert_eq!(Vec::from_iter(funnel.cohorts()), ["a", "b", "c"]);
    let request =
        json!({"start": {"where": named("a")}, "return": {"where": named("b")}, "where": named("a")});
    let retention = Retention::from_json(request.to_string().as_bytes()).expect("it is valid");
    assert_eq!(Vec::from_iter(retention.cohorts()), ["a", "b"]);
    let explore =
        Explore::from_json(json!({"where": named("a")}).to_string().as_bytes()).expect("it is valid");
    assert_eq!(Vec::from_iter(explore.cohorts()), ["a"]);
}

#[test]
fn each_kind_of_question_is_parsed_and_answered() {
    let world = sample();
    for (kind, request) in [
        ("explore", json!({"where": [{"cohort": "team"}]})),
        ("funnel", json!({"steps": [{}, {}], "where": [{"cohort": "team"}]})),
        ("retention", json!({"start": {}, "return": {}, "where": [{"cohort": "team"}]})),
        ("paths", json!({"event": "start", "where": [{"cohort": "team"}]})),
        ("players", json!({"where": [{"cohort": "team"}]})),
        ("levels", json!({"where": [{"cohort": "team"}]})),
        ("heatmap", json!({"map": "cave", "metric": "death", "where": [{"cohort": "team"}]})),
    ] {
        let question = Question::from_json(kind, &world.request(request)).expect("it is valid");
        assert_eq!(Vec::from_iter(question.cohorts()), ["team"], "{kind}");
        let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
        assert!(!answer.fields().is_empty(), "{kind}");
    }
    let error = Question::from_json("trends", b"{}").expect_err("there is no such kind").to_string();
    assert_eq!(error, "question: must be one of explore, funnel, retention, paths, players, levels, heatmap");
}
