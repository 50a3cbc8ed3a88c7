//! Leaderboards, following the published SDK's own tests.

use serde_json::{Value, json};

use super::{call, code, put, world};
use crate::client::Request;
use crate::world::World;

/// A score of the SDK's first test, with changes.
fn score(changes: Value) -> Value {
    let mut score = json!({
        "table": "High Scores", "playername": "person1", "points": 10_000, "highest": true, "fields": {"rnd": 7},
    });
    for (name, value) in changes.as_object().expect("changes are an object") {
        score[name] = value.clone();
    }
    score
}

#[track_caller]
fn save(world: &World, changes: Value) -> (bool, u64) {
    code(&call(world, "leaderboards", "save", score(changes)))
}

/// A page as text: `rank name points` of each score, and the total.
#[track_caller]
fn page(world: &World, action: &str, parameters: Value) -> String {
    let answer = call(world, "leaderboards", action, parameters);
    assert!(answer["success"] == true, "{answer}");
    let scores = answer["scores"].as_array().expect("a list").iter();
    let lines = scores.map(|score| {
        let mark = if score["submitted"] == true { "*" } else { "" };
        format!(
            "{} {} {}{mark}",
            score["rank"],
            score["playername"].as_str().expect("a name"),
            score["points"]
        )
    });
    format!("{} of {}", lines.collect::<Vec<_>>().join(", "), answer["numscores"])
}

fn list(world: &World, changes: Value) -> String {
    let mut list = json!({"table": "High Scores"});
    for (name, value) in changes.as_object().expect("changes are an object") {
        list[name] = value.clone();
    }
    page(world, "list", list)
}

#[test]
fn best_score_of_a_player_is_kept() {
    let world = world();
    assert_eq!(list(&world, json!({})), " of 0");
    assert_eq!(save(&world, json!({})), (true, 0));
    assert_eq!(save(&world, json!({"points": 9_000})), (true, 209));
    assert_eq!(save(&world, json!({"points": 11_000})), (true, 0));
    assert_eq!(save(&world, json!({"points": 9_000, "allowduplicates": true})), (true, 0));
    assert_eq!(
        save(&world, json!({"playername": "person2", "points": "20000.5", "allowduplicates": true})),
        (true, 0)
    );
    assert_eq!(
        list(&world, json!({"highest": true, "filters": {"rnd": 7}})),
        "1 person2 20000.5, 2 person1 11000, 3 person1 9000 of 3"
    );
    assert_eq!(list(&world, json!({"lowest": true, "perpage": 1})), "1 person1 9000 of 3");
    assert_eq!(list(&world, json!({"mode": "newest", "perpage": 1})), "1 person2 20000.5 of 3");
    for mode in ["today", "last7days", "last30days", "alltime"] {
        assert_eq!(list(&world, json!({"mode": mode, "perpage": 1})), "1 person2 20000.5 of 3", "{mode}");
    }
    assert_eq!(list(&world, json!({"filters": {"rnd": 8}})), " of 0");
    assert_eq!(list(&world, json!({"page": 2, "perpage": 1})), "2 person1 11000 of 3");
}

#[test]
fn each_score_decides_whether_it_is_kept_beside_others() {
    let world = world();
    let own = |points: u64, duplicate: bool| json!({"points": points, "allowduplicates": duplicate});
    for (points, duplicate, code) in [
        (5, false, 0),
        (3, true, 0),
        (4, false, 209),
        (5, false, 0),
        (6, false, 0),
        (6, true, 0),
        (7, false, 0),
    ] {
        assert_eq!(save(&world, own(points, duplicate)), (true, code), "{points} {duplicate}");
    }
    let all = "1 person1 7, 2 person1 6, 3 person1 3 of 3";
    assert_eq!(list(&world, json!({})), all, "a better score replaced the best one only");
    let mut worse = score(own(2, false));
    worse["perpage"] = json!(5);
    assert_eq!(page(&world, "saveandlist", worse), all, "a score that is not kept is not marked");
}

#[test]
fn score_that_its_board_does_not_keep_is_not_answered_as_kept() {
    let world = world();
    put(&world, "/v1/boards/best", json!({"keep": "best", "mode": "open"}));
    let save =
        |points: u64| save(&world, json!({"table": "best", "points": points, "allowduplicates": true}));
    assert_eq!((save(5), save(4), save(6)), ((true, 0), (true, 209), (true, 0)));
    assert_eq!(list(&world, json!({"table": "best"})), "1 person1 6 of 1");
}

#[test]
fn points_with_many_decimals_are_rounded() {
    let world = world();
    let lap = |points: f64| json!({"table": "laps", "points": points, "highest": false, "lowest": true});
    assert_eq!(save(&world, lap(12.345_678_9)), (true, 0));
    assert_eq!(save(&world, lap(12.345_9)), (true, 0), "it is equal after rounding");
    assert_eq!(list(&world, json!({"table": "laps"})), "1 person1 12.346 of 1");
}

#[test]
fn scores_are_listed_in_the_format_of_the_sdks() {
    let world = world();
    save(&world, json!({"playerid": "7", "source": "http://www.Kong.example/x"}));
    save(&world, json!({"playername": "person2", "points": 5, "source": "kong.example"}));
    let answer = call(
        &world,
        "leaderboards",
        "list",
        json!({"table": "High Scores", "source": "https://kong.example/"}),
    );
    assert_eq!(code(&answer), (true, 0), "{answer}");
    let first = &answer["scores"][0];
    let expected = json!({
        "playername": "person1", "playerid": "7", "points": 10_000, "source": "kong.example", "fields": {"rnd": "7"},
        "date": first["date"], "rdate": "just now", "rank": 1, "scoreid": first["scoreid"],
    });
    assert_eq!(*first, expected);
    assert!(first["date"].as_i64().is_some_and(|date| date > 1_700_000_000));
    assert_eq!(answer["scores"][1]["playerid"], Value::Null, "a name is not an id");
    assert_eq!(answer["numscores"], 2);
}

#[test]
fn friends_are_ranked_among_each_other() {
    let world = world();
    for number in 1..=10 {
        let id = number.to_string();
        save(&world, json!({"playername": format!("p{number}"), "playerid": id, "points": number * 1_000}));
    }
    assert_eq!(
        list(&world, json!({"friendslist": ["1", "2", "3"], "perpage": 3})),
        "1 p3 3000, 2 p2 2000, 3 p1 1000 of 3"
    );
    assert_eq!(
        list(&world, json!({"friendslist": ["1", 2], "playerid": "9"})),
        "1 p9 9000, 2 p2 2000, 3 p1 1000 of 3"
    );
    let without = json!({"friendslist": ["1", "2"], "playerid": "9", "excludeplayerid": true});
    assert_eq!(list(&world, without), "1 p2 2000, 2 p1 1000 of 2");
}

#[test]
fn board_that_allows_duplicates_keeps_every_score() {
    let world = world();
    let own = |points: u64| json!({"playername": "bo", "playerid": "bo@games.example", "points": points, "allowduplicates": true});
    for points in 1..=9 {
        assert_eq!(save(&world, own(points * 1_000)), (true, 0));
    }
    let mut last = score(own(2_500));
    last["filters"] = json!({"rnd": 7});
    last["perpage"] = json!(5);
    assert_eq!(
        page(&world, "saveandlist", last),
        "6 bo 4000, 7 bo 3000, 8 bo 2500*, 9 bo 2000, 10 bo 1000 of 10"
    );
    let mut worse = own(500);
    worse["allowduplicates"] = json!(false);
    assert_eq!(save(&world, worse.clone()), (true, 209));
    assert_eq!(&list(&world, json!({}))[..9], "1 bo 9000");
    worse["points"] = json!(10_000);
    assert_eq!(save(&world, worse), (true, 0));
    assert_eq!(&list(&world, json!({}))[..23], "1 bo 10000, 2 bo 8000, ", "it replaces the best");
}

#[test]
fn lowest_first_boards_keep_the_lowest() {
    let world = world();
    let lap = |points: f64| json!({"table": "laps", "points": points, "highest": false, "lowest": true});
    assert_eq!(save(&world, lap(61.25)), (true, 0));
    assert_eq!(save(&world, lap(70.0)), (true, 209));
    assert_eq!(save(&world, lap(59.001)), (true, 0));
    assert_eq!(list(&world, json!({"table": "laps", "lowest": true})), "1 person1 59.001 of 1");
}

#[test]
fn rejected_score_returns_an_error_code() {
    let world = world();
    assert_eq!(save(&world, json!({"playername": ""})), (false, 201));
    assert_eq!(save(&world, json!({"table": ""})), (false, 207));
    assert_eq!(save(&world, json!({"points": "many"})), (false, 4));
    assert_eq!(save(&world, json!({"rank": 1})), (false, 4));
    assert_eq!(save(&world, json!({"perpage": 0})), (true, 0), "unlisted parameters are ignored");
    assert_eq!(
        code(&call(&world, "leaderboards", "list", json!({"table": "x", "mode": "best"}))),
        (false, 4)
    );
    assert_eq!(code(&call(&world, "leaderboards", "list", json!({}))), (false, 207));
    put(&world, "/v1/boards/servers", json!({"mode": "server"}));
    assert_eq!(save(&world, json!({"table": "servers"})), (false, 202));
    put(&world, "/v1/boards/sessions", json!({"mode": "session"}));
    assert_eq!(save(&world, json!({"table": "sessions"})), (false, 202));
    put(&world, "/v1/players/cheat/ban", json!({"reason": "forged"}));
    assert_eq!(save(&world, json!({"playerid": "cheat"})), (false, 208));
}

#[test]
fn client_address_does_not_identify_a_player() {
    let world = World::with(&["--behind-proxy"]);
    let games = world.command(&["games", "list", "--json"]).json();
    let private_key = games[0]["playtomic"]["private_key"].as_str().expect("a key").to_owned();
    let mut score = score(json!({}));
    score["section"] = json!("leaderboards");
    score["action"] = json!("save");
    let mut codes = Vec::new();
    for address in ["203.0.113.7", "198.51.100.9"] {
        let request: Request = super::signed(&score.to_string(), &private_key);
        let request =
            request.to(format!("/v1?publickey={}", world.public_key)).header("X-Forwarded-For", address);
        codes.push(code(&world.send(&request).json()));
        score["points"] = json!(9_000);
    }
    assert_eq!(codes, [(true, 0), (true, 209)]);
}

#[test]
fn boards_that_an_address_creates_are_limited_per_day() {
    let world = world();
    let save = |table: usize| {
        let name = format!("ben-{}", table % 10);
        let score = json!({"table": format!("t{table}"), "playername": name, "points": 1});
        code(&call(&world, "leaderboards", "save", score)).0
    };
    assert_eq!((0..260).filter(|table| save(*table)).count(), 250);
    assert!(save(0), "scores of existing boards are accepted");
    put(&world, "/v1/boards/mine", json!({}));
}
