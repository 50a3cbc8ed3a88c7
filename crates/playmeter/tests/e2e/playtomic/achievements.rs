//! Achievements, following the published SDK's own tests.

use serde_json::{Value, json};

use super::{call, code, put, world};
use crate::client::Request;
use crate::world::World;

/// A server with the achievements and grants of the published SDK's own tests.
fn achieved() -> World {
    let world = world();
    for (key, number) in [("secretkey", 1), ("secretkey2", 2), ("secretkey3", 3)] {
        let achievement = json!({"name": format!("Super Mega Achievement #{number}"), "points": number});
        put(&world, &format!("/v1/achievements/{key}"), achievement);
    }
    for (number, key, player, name) in [
        (1, "secretkey", "1", "ben"),
        (1, "secretkey", "2", "michelle"),
        (1, "secretkey", "3", "peter"),
        (2, "secretkey2", "3", "peter"),
        (2, "secretkey2", "2", "michelle"),
    ] {
        let achievement = format!("Super Mega Achievement #{number}");
        let save = json!({"achievement": achievement, "achievementkey": key, "playerid": player, "playername": name, "fields": {"rnd": 7}});
        assert_eq!(code(&call(&world, "achievements", "save", save)), (true, 0));
    }
    world
}

#[test]
fn saving_an_achievement_requires_its_key() {
    let world = achieved();
    let save = |changes: Value| {
        let mut save = json!({"achievement": "Super Mega Achievement #3", "achievementkey": "secretkey3", "playerid": "4", "playername": "ann"});
        for (name, value) in changes.as_object().expect("changes are an object") {
            save[name] = value.clone();
        }
        code(&call(&world, "achievements", "save", save))
    };
    assert_eq!(save(json!({"achievementkey": "secretkey"})), (false, 504));
    assert_eq!(save(json!({"achievement": "Nothing"})), (false, 504));
    assert_eq!(save(json!({"achievement": null})), (false, 503));
    assert_eq!(save(json!({"playername": ""})), (false, 502));
    assert_eq!(save(json!({"playerid": "0"})), (false, 501));
    assert_eq!(save(json!({"points": 7})), (false, 4));
    assert_eq!(save(json!({})), (true, 0));
    assert_eq!(save(json!({})), (false, 505));
    assert_eq!(save(json!({"overwrite": true})), (true, 506));
    assert_eq!(save(json!({"allowduplicates": true})), (true, 506));
}

#[test]
fn achievements_are_listed_with_player_and_friends() {
    let world = achieved();
    let list = |parameters: Value| {
        let answer = call(&world, "achievements", "list", parameters);
        assert_eq!(code(&answer), (true, 0), "{answer}");
        let achievements = answer["achievements"].as_array().expect("a list").iter();
        let lines = achievements.map(|it| {
            let name = it["achievement"].as_str().expect("a name");
            let player = it["player"]["playername"].as_str().unwrap_or("-");
            let friends = it["friends"].as_array().map_or_else(
                || "-".to_owned(),
                |friends| {
                    let names = friends.iter().filter_map(|friend| friend["playername"].as_str());
                    names.collect::<Vec<_>>().join("+")
                },
            );
            format!("{} {player} {friends}", &name[name.len() - 2..])
        });
        lines.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(list(json!({"filters": {"rnd": 7}})), "#1 - -, #2 - -, #3 - -");
    assert_eq!(
        list(json!({"friendslist": ["1", "2", "3"]})),
        "#1 - ben+michelle+peter, #2 - michelle+peter, #3 - -"
    );
    assert_eq!(list(json!({"playerid": "1"})), "#1 ben -, #2 - -, #3 - -");
    assert_eq!(
        list(json!({"playerid": "1", "friendslist": ["2", "3"]})),
        "#1 ben michelle+peter, #2 - michelle+peter, #3 - -"
    );
}

#[test]
fn stream_is_newest_first_or_grouped_by_player() {
    let world = achieved();
    let stream = |parameters: Value| call(&world, "achievements", "stream", parameters);
    let all = stream(json!({"playerid": "1", "friendslist": ["2", "3"]}));
    assert_eq!((code(&all), &all["numachievements"]), ((true, 0), &json!(5)));
    let names: Vec<String> = all["achievements"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| {
            let name = it["awarded"]["achievement"].as_str().expect("a name");
            assert_eq!(it["rdate"], "just now");
            format!("{}{}", it["playername"].as_str().expect("a name"), &name[name.len() - 2..])
        })
        .collect();
    assert_eq!(names.join(","), "michelle#2,peter#2,peter#1,michelle#1,ben#1");
    let everyone = stream(json!({"filters": {"rnd": 7}}));
    assert_eq!(everyone, all, "without a player, the stream has the grants of all players");
    let page = stream(json!({"group": true, "perpage": 1, "page": 2}));
    assert_eq!(
        (&page["numachievements"], &page["achievements"][0]["playername"]),
        (&json!(3), &json!("peter"))
    );
    let grouped = stream(json!({"group": true, "playerid": "1", "friendslist": ["2", "3"], "perpage": 2}));
    assert_eq!(grouped["numachievements"], 3);
    let first = &grouped["achievements"][0];
    assert_eq!((&first["playername"], &first["awards"]), (&json!("michelle"), &json!(2)));
    assert_eq!(first["awarded"]["achievement"], "Super Mega Achievement #2");
    assert_eq!(grouped["achievements"].as_array().map(Vec::len), Some(2));
    assert_eq!(code(&stream(json!({"mode": "best"}))), (false, 4));
}

#[test]
fn stream_of_all_players_survives_a_restart_and_an_erasure() {
    let mut world = achieved();
    let names = |world: &World| {
        let stream = call(world, "achievements", "stream", json!({}));
        let rows = stream["achievements"].as_array().expect("a list").iter();
        rows.filter_map(|row| row["playername"].as_str().map(str::to_owned)).collect::<Vec<_>>().join(",")
    };
    let before = names(&world);
    world.stop();
    world.start();
    assert_eq!(names(&world), before);
    let answer = world.send(&Request::new("DELETE", "/v1/players/2").key(&world.secret_key));
    assert!(answer.status < 300, "{}", answer.text());
    assert_eq!(names(&world), "peter,peter,ben");
}
