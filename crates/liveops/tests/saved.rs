//! Saved questions and dashboards as commands.

mod world;

use liveops::saved::SavedKind::Question;
use liveops::{Command, CommandResponse, Refusal, RefusalKind};
use serde_json::{Value, json};
use world::World;

const NOW: i64 = 1_800_000_000_000;

fn send(world: &mut World, command: Value) -> Result<CommandResponse, Refusal> {
    let command: Command =
        serde_json::from_value(command.clone()).unwrap_or_else(|error| panic!("{error}: {command}"));
    world.send(command)
}

#[test]
fn saved_questions_survive_restarts_and_keep_their_cohorts() {
    let mut world = World::new(NOW);
    let question = json!({ "saved": { "put": { "kind": "question", "id": "q", "content": {
        "name": "Q", "body": { "v": 1 }, "cohorts": { "payers": "question.request.where" },
    } } } });
    let unknown = send(&mut world, question.clone()).expect_err("there is no such cohort");
    assert_eq!(unknown.field.as_deref(), Some("question.request.where"));
    let cohort = json!({ "name": "payers", "condition": { "event": "buy" } });
    send(&mut world, json!({ "cohorts": { "put": { "definition": cohort } } })).expect("it is valid");
    send(&mut world, question.clone()).expect("it is valid");
    world.checkpoint();
    send(&mut world, question).expect("a question may be replaced");
    let saved = |world: &World| -> Vec<Value> {
        world.read(|game| game.saved.iter(Question).map(|(id, saved)| saved.json(Question, id)).collect())
    };
    let before = saved(&world);
    assert_eq!((before.len(), &before[0]["version"]), (1, &json!(2)));
    let delete = json!({ "cohorts": { "delete": { "name": "payers" } } });
    for checkpoint in [false, true] {
        if checkpoint {
            world.checkpoint();
        }
        world.restart();
        assert_eq!(saved(&world), before);
        let refused = send(&mut world, delete.clone()).expect_err("the question names it");
        assert_eq!(refused.kind, RefusalKind::Conflict);
    }
    send(&mut world, json!({ "saved": { "delete": { "kind": "question", "id": "q" } } })).expect("it exists");
    send(&mut world, delete).expect("nothing names it");
}

#[test]
fn dashboard_is_only_replaced_with_its_version() {
    let mut world = World::new(NOW);
    let put = |world: &mut World, kind: &str, version: Option<u64>| {
        let content = json!({ "name": "D", "body": [] });
        let put = json!({ "kind": kind, "id": "d", "content": content, "expected_version": version });
        send(world, json!({ "saved": { "put": put } }))
            .map(|answer| answer.status)
            .map_err(|refusal| refusal.kind)
    };
    assert_eq!(put(&mut world, "dashboard", Some(1)), Err(RefusalKind::Conflict));
    assert_eq!(put(&mut world, "dashboard", None), Ok(201));
    assert_eq!(put(&mut world, "dashboard", None), Err(RefusalKind::Conflict));
    assert_eq!(put(&mut world, "dashboard", Some(0)), Err(RefusalKind::Conflict));
    assert_eq!(put(&mut world, "dashboard", Some(1)), Ok(200));
    assert_eq!(put(&mut world, "dashboard", Some(1)), Err(RefusalKind::Conflict));
    assert_eq!(put(&mut world, "question", Some(0)), Ok(201));
    assert_eq!(put(&mut world, "question", None), Ok(200));
}
