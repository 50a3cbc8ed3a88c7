//! Bounds of time and memory, and what happens when a scan fails.

use std::cell::Cell;

use model::query::QueryStopped;
use serde_json::json;

use super::super::explore::Explore;
use super::super::funnel::Funnel;
use super::super::retention::Retention;
use super::super::{Context, QuestionFailure};
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

type Run = Box<dyn Fn(&Context<'_>) -> Result<(), QuestionFailure>>;

fn questions(world: &World) -> Vec<(&'static str, Run)> {
    let explore = |measure: &str| {
        let request = json!({"measure": measure, "by": "country", "step": "day"});
        Explore::from_json(&world.request(request)).expect("it is valid")
    };
    let (count, uniques, median) = (explore("count"), explore("uniques"), explore("p50"));
    let steps = json!({"steps": [{"event": "start"}, {"event": "start"}], "by": "country"});
    let funnel = Funnel::from_json(&world.request(steps)).expect("it is valid");
    let request = json!({"start": {}, "return": {}, "by": "country"});
    let retention = Retention::from_json(&world.request(request)).expect("it is valid");
    vec![
        ("count", Box::new(move |context: &Context<'_>| count.run(context).map(drop))),
        ("uniques", Box::new(move |context: &Context<'_>| uniques.run(context).map(drop))),
        ("median", Box::new(move |context: &Context<'_>| median.run(context).map(drop))),
        ("funnel", Box::new(move |context: &Context<'_>| funnel.run(context).map(drop))),
        ("retention", Box::new(move |context: &Context<'_>| retention.run(context).map(drop))),
    ]
}

#[test]
fn question_stops_at_any_check_without_an_answer() {
    let world = sample();
    for (name, run) in questions(&world) {
        let mut stopped = 0;
        for checks in 0.. {
            let stop = Stop { checks: Cell::new(checks), bytes_max: usize::MAX };
            match world.ask_within(&stop, |context| run(context)) {
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
    for (name, run) in questions(&world) {
        let stop = Stop { checks: Cell::new(usize::MAX), bytes_max: 64 << 10 };
        match world.ask_within(&stop, |context| run(context)) {
            Err(QuestionFailure::Scan(ScanFailure::Stopped(QueryStopped::Memory { .. }))) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn progress_ends_at_all_events_and_all_ranges() {
    let world = sample();
    for (name, run) in questions(&world) {
        world.ask(|context| {
            run(context).expect("it has no bounds");
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
