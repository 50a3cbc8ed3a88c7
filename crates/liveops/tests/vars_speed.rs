//! The time to evaluate variables.

mod world;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use liveops::vars::{VarDefinition, VarsCommand, VarsViewer};
use world::World;

const NOW: i64 = 1_800_000_000_000;
const ROUNDS: u32 = 2_000;

#[test]
fn evaluating_a_hundred_variables_takes_microseconds() {
    let mut world = World::new(NOW);
    let vars: BTreeMap<String, Option<VarDefinition>> = (0..100)
        .map(|n| {
            let share = if n % 2 == 0 { r#","percent":{"to":50}"# } else { "" };
            let json = format!(
                r#"{{"value":"the value of {n}","conditions":[
                    {{"name":"a","value":1,"country":["FR"]}},{{"name":"b","value":2,"version":["3.0"]{share}}}]}}"#
            );
            (format!("variable_{n}"), serde_json::from_str(&json).expect("it is a definition"))
        })
        .collect();
    world
        .send(liveops::Command::Vars(VarsCommand::PutMany { vars, expected_version: None }))
        .expect("it fits");
    let viewer =
        |n: u32| VarsViewer { player: format!("player-{n}"), version: "3.0".into(), ..VarsViewer::default() };
    let timed = |what: &str, act: &dyn Fn(&VarsViewer) -> usize| {
        let asking: Vec<VarsViewer> = (0..ROUNDS).map(viewer).collect();
        let started = Instant::now();
        let bytes: usize = asking.iter().map(act).sum();
        let each = started.elapsed() / ROUNDS;
        println!("{what}: {each:?}, {} bytes", bytes / ROUNDS as usize);
        // Far above the usual time, so that a busy machine does not fail the test but a change of complexity does.
        assert!(each < Duration::from_micros(500), "{what}: {each:?}");
    };
    world.read(|game| {
        timed("tag", &|viewer| game.vars.evaluate(viewer, NOW).etag.len());
        timed("tag and values", &|viewer| {
            game.vars.evaluate(viewer, NOW).etag.len() + game.vars.json(viewer, NOW).len()
        });
        timed("variants", &|viewer| game.vars.variants(viewer, NOW).len());
    });
}
