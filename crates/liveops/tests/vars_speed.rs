//! What it costs to say which values somebody gets.

mod world;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use liveops;

use liveops::vars::{Command, Definition, Who};
use world::World;

const NOW: i64 = 1_800_000_000_000;
const ROUNDS: u32 = 2_000;

#[test]
fn values_of_a_hundred_variables_take_microseconds() {
    let mut world = World::new(NOW);
    let vars: BTreeMap<String, Option<Definition>> = (0..100)
        .map(|n| {
            let share = if n % 2 == 0 { r#","percent":{"to":50}"# } else { "" };
            let json = format!(
                r#"{{"value":"the value of {n}","conditions":[
                    {{"name":"a","value":1,"country":["FR"]}},{{"name":"b","value":2,"version":["3.0"]{share}}}]}}"#
            );
            (format!("variable_{n}"), serde_json::from_str(&json).expect("it is a definition"))
        })
        .collect();
    world.send(liveops::Command::Vars(Command::PutMany { vars, expected_version: None })).expect("it fits");
    let who = |n: u32| Who { player: format!("player-{n}"), version: "3.0".into(), ..Who::default() };
    let timed = |what: &str, act: &dyn Fn(&Who) -> usize| {
        let asking: Vec<Who> = (0..ROUNDS).map(who).collect();
        let started = Instant::now();
        let bytes: usize = asking.iter().map(act).sum();
        let each = started.elapsed() / ROUNDS;
        println!("{what}: {each:?}, {} bytes", bytes / ROUNDS as usize);
        // Far above what it takes, so that a busy machine does not fail it and a change of its kind does.
        assert!(each < Duration::from_micros(500), "{what}: {each:?}");
    };
    world.read(|game| {
        timed("tag", &|who| game.vars.evaluate(who, NOW).etag.len());
        timed("tag and values", &|who| {
            game.vars.evaluate(who, NOW).etag.len() + game.vars.json(who, NOW).len()
        });
        timed("variants", &|who| game.vars.variants(who, NOW).len());
    });
}
