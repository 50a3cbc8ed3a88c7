//! Cohorts as commands: what uses them, what survives a restart, what an erasure leaves.

mod world;

use liveops::{Command, CommandResponse, Refusal, RefusalKind};
use serde_json::{Value, json};
use world::World;

const NOW: i64 = 1_800_000_000_000;

fn send(world: &mut World, command: Value) -> Result<CommandResponse, Refusal> {
    let command: Command =
        serde_json::from_value(command.clone()).unwrap_or_else(|error| panic!("{error}: {command}"));
    world.send(command)
}

fn put(world: &mut World, definition: Value) -> Result<CommandResponse, Refusal> {
    send(world, json!({ "cohorts": { "put": { "definition": definition } } }))
}

fn cohorts(world: &World) -> Vec<(String, Value, u64)> {
    world.read(|game| {
        let describe = |(name, cohort): (&str, &liveops::cohorts::Cohort)| {
            (name.to_owned(), json!(cohort.definition), cohort.revision)
        };
        game.cohorts.iter().map(describe).collect()
    })
}

fn kind_and_field(outcome: Result<CommandResponse, Refusal>) -> (RefusalKind, Option<String>) {
    let refusal = outcome.expect_err("it is refused");
    (refusal.kind, refusal.field)
}

#[test]
fn cohorts_survive_restarts() {
    let mut world = World::new(NOW);
    put(&mut world, json!({ "name": "payers", "condition": { "event": "buy" } })).expect("it is valid");
    put(&mut world, json!({ "name": "gone", "players": ["ann"] })).expect("it is valid");
    world.checkpoint();
    send(&mut world, json!({ "cohorts": { "delete": { "name": "gone" } } })).expect("it is not used");
    let before = cohorts(&world);
    assert_eq!(before.len(), 1);
    for checkpoint in [false, true] {
        if checkpoint {
            world.checkpoint();
        }
        world.restart();
        assert_eq!(cohorts(&world), before);
    }
}

#[test]
fn cohort_cannot_be_deleted_while_it_is_used() {
    let mut world = World::new(NOW);
    let variable = json!({ "vars": { "put": { "name": "v", "definition": {
        "value": 1, "conditions": [{ "name": "c", "value": 2, "cohort": ["a", "b"] }],
    } } } });
    let unknown = (RefusalKind::Invalid, Some("conditions[0].cohort".to_owned()));
    assert_eq!(kind_and_field(send(&mut world, variable.clone())), unknown);
    put(&mut world, json!({ "name": "a", "players": ["ann"] })).expect("it is valid");
    assert_eq!(kind_and_field(send(&mut world, variable.clone())), unknown);
    put(&mut world, json!({ "name": "b", "players": ["ann"] })).expect("it is valid");
    send(&mut world, variable).expect("both exist");
    let delete = json!({ "cohorts": { "delete": { "name": "b" } } });
    let refused = (RefusalKind::Conflict, Some("name".to_owned()));
    assert_eq!(kind_and_field(send(&mut world, delete.clone())), refused);
    world.checkpoint();
    world.restart();
    assert_eq!(kind_and_field(send(&mut world, delete.clone())), refused);
    let many = json!({ "vars": { "put_many": { "vars": { "w": {
        "value": 1, "conditions": [{ "name": "c", "value": 2, "cohort": ["none"] }],
    } } } } });
    let field = Some("vars.w.conditions[0].cohort".to_owned());
    assert_eq!(kind_and_field(send(&mut world, many)), (RefusalKind::Invalid, field));
    send(&mut world, json!({ "vars": { "delete": { "name": "v" } } })).expect("it exists");
    send(&mut world, delete.clone()).expect("nothing uses it");
    assert_eq!(kind_and_field(send(&mut world, delete)).0, RefusalKind::NotFound);
}

#[test]
fn erased_player_leaves_definitions_and_their_revision_changes() {
    let mut world = World::new(NOW);
    put(&mut world, json!({ "name": "list", "players": ["ann", "bob"] })).expect("it is valid");
    let condition =
        json!({ "or": [{ "event": "a", "where": [{ "property": "player", "op": "=", "value": "ann" }] }] });
    put(&mut world, json!({ "name": "rule", "condition": condition })).expect("it is valid");
    put(&mut world, json!({ "name": "other", "condition": { "event": "ann" } })).expect("it is valid");
    let before = cohorts(&world);
    send(&mut world, json!({ "players": { "erase": { "receipt": "r", "player": "ann" } } }))
        .expect("it is valid");
    let after = cohorts(&world);
    assert_eq!(after[0].1["players"], json!(["bob"]));
    assert_eq!(after[1], before[1], "an event of the same name is not a player");
    assert!(!after[2].1.to_string().contains("ann"), "{:?}", after[2]);
    assert!(after[0].2 != before[0].2 && after[2].2 != before[2].2);
    send(&mut world, json!({ "players": { "erase": { "receipt": "s", "player": "bob" } } }))
        .expect("it is valid");
    assert_eq!(cohorts(&world)[0].1["players"], json!([]));
    world.checkpoint();
    world.restart();
    assert_eq!(cohorts(&world)[0].1["players"], json!([]));
}

#[test]
fn number_of_cohorts_is_limited() {
    let mut world = World::new(NOW);
    for number in 0..liveops::cohorts::COHORTS_MAX {
        put(&mut world, json!({ "name": format!("c{number}"), "players": ["ann"] })).expect("there is room");
    }
    let more = put(&mut world, json!({ "name": "more", "players": ["ann"] }));
    assert_eq!(kind_and_field(more).0, RefusalKind::TooMany);
    put(&mut world, json!({ "name": "c0", "players": ["bob"] })).expect("a cohort can still be replaced");
}
