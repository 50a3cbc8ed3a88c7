//! The boards that clients create leave room for those of servers.

mod world;

use liveops::{Caller, Command};
use serde_json::json;
use world::World;

const NOW: i64 = 1_800_000_000_000;

#[test]
fn clients_cannot_use_up_the_boards_of_a_game() {
    let mut world = World::new(NOW);
    let define = |table: String| {
        let define = json!({ "boards": { "define": { "table": table, "change": { "mode": "open" } } } });
        serde_json::from_value::<Command>(define).expect("a command")
    };
    for number in 0..5_000 {
        world.send_as(Caller::Compat, define(format!("t{number}"))).expect("there is room");
    }
    let refused = world.send_as(Caller::Compat, define("more".to_owned())).expect_err("it is too many");
    assert!(refused.detail.contains("create further ones with a secret key"), "{refused}");
    // An entry of an earlier version names the server as the sender.
    for caller in [Caller::Server, Caller::Person] {
        world.send_as(caller, define(format!("{caller:?}"))).expect("the rest is for servers");
    }
    world.send_as(Caller::Compat, define("t7".to_owned())).expect("it exists");
}
