//! Responses to repeated requests: the decision of the first time, with a page as it is now.

mod world;

use liveops::{Caller, Command, CommandResponse, Idempotency, Principal};
use serde_json::{Value, json};
use world::World;

const NOW: i64 = 1_800_000_000_000;
/// The number of stored responses in the keys of records, after the game.
const RESPONSES: u8 = 0;
const PLAYERS: usize = 1_000;

fn send(world: &mut World, key: Option<&str>, command: Value) -> CommandResponse {
    let command: Command = serde_json::from_value(command).expect("a command");
    let idempotency = key.map(|key| Idempotency { key: key.to_owned(), request: "digest".to_owned() });
    let by = Principal { caller: Caller::Server, signed: None };
    world.send_whole(by, idempotency, command, &[]).expect("it is accepted")
}

fn submit(player: &str, score: usize) -> Value {
    json!({ "boards": { "submit": { "table": "t", "score": { "player": player, "score": score.to_string() } } } })
}

fn submit_and_list(world: &mut World) -> Value {
    let mut command = submit("ann", 5_000);
    command["boards"]["submit"]["list"] = json!({ "per_page": 1_000 });
    serde_json::from_str(&send(world, Some("server:k"), command).json).expect("it is JSON")
}

#[test]
fn stored_response_is_the_decision_and_its_page_is_rendered_again() {
    let mut world = World::new(NOW);
    for player in 1..PLAYERS {
        send(&mut world, None, submit(&format!("player-{player}"), player));
    }
    let first = submit_and_list(&mut world);
    let rows = |answer: &Value| answer["rows"].as_array().expect("a list").len();
    assert_eq!((&first["saved"], &first["rank"], rows(&first)), (&json!(true), &json!(1), PLAYERS));
    assert_eq!(submit_and_list(&mut world), first, "nothing has changed");
    world.checkpoint();
    let records = world.records();
    let stored: usize =
        records.iter().filter(|(key, _)| key[4] == RESPONSES).map(|(_, value)| value.len()).sum();
    assert!((1..1_000).contains(&stored), "{stored} bytes are stored of a page of {PLAYERS} rows");
    world.restart();
    assert_eq!(submit_and_list(&mut world), first, "after a restart");
    send(&mut world, None, submit("bob", 6_000));
    let later = submit_and_list(&mut world);
    assert_eq!((&later["rank"], &later["best"]), (&json!(1), &json!(5_000)), "the decision stays");
    assert_eq!((&later["total"], &later["rows"][0]["player"]), (&json!(PLAYERS + 1), &json!("bob")));
    assert_eq!(later["rows"][1]["submitted"], json!(true));
}

#[test]
fn stored_response_does_not_contain_the_query_of_its_page() {
    let mut world = World::new(NOW);
    let mut command = submit("ann", 5_000);
    command["boards"]["submit"]["list"] = json!({ "friends": vec!["ann"; 7_500] });
    let first = send(&mut world, Some("public:k"), command.clone());
    world.checkpoint();
    let records = world.records();
    let stored: usize =
        records.iter().filter(|(key, _)| key[4] == RESPONSES).map(|(_, value)| value.len()).sum();
    assert!((1..1_000).contains(&stored), "{stored} bytes are stored");
    world.restart();
    assert_eq!(send(&mut world, Some("public:k"), command), first);
}
