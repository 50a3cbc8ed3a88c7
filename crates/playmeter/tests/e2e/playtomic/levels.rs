//! Player levels: saved once, rated once, listed in every mode.

use serde_json::{Value, json};

use super::{KEY, call, code, tracked, world};
use crate::client::Request;

/// A level as the SDK sends it.
fn a_level(name: &str) -> Value {
    json!({"name": name, "playername": "Bo", "playerid": "0", "data": "###", "fields": {"rnd": 7}, "source": "http://www.Kong.example/x"})
}

#[test]
fn level_is_saved_once_and_loaded_with_its_data() {
    let world = world();
    let saved = call(&world, "playerlevels", "save", a_level("The cave"));
    assert_eq!(code(&saved), (true, 0), "{saved}");
    let level = &saved["level"];
    let id = level["levelid"].as_str().expect("an id").to_owned();
    let expected = json!({
        "levelid": id, "name": "The cave", "playername": "Bo", "data": "###", "fields": {"rnd": "7"},
        "source": "kong.example", "votes": 0, "rating": 0.0, "score": 0, "plays": 0,
        "date": level["date"], "rdate": "just now",
    });
    assert_eq!(*level, expected);
    let again = call(&world, "playerlevels", "save", json!({"level": a_level("The cave")}));
    assert_eq!((code(&again), &again["level"]["levelid"]), ((true, 405), &json!(id)));
    let loaded = call(&world, "playerlevels", "load", json!({"levelid": id}));
    assert_eq!((code(&loaded), &loaded["level"]["data"]), ((true, 0), &json!("###")));
    tracked(&world.send(&Request::get(format!("/{KEY}/tracker/q.aspx?q=pls/{id}~plw/{id}&1Z"))));
    world.query(&json!({"metric": "$level"}));
    let loaded = call(&world, "playerlevels", "load", json!({"levelid": id}));
    assert_eq!(loaded["level"]["plays"], 1);
    for (action, parameters, expected) in [
        ("save", json!({"data": "###", "playername": "Bo"}), 403),
        ("save", json!({"name": "x", "owner": "Bo"}), 4),
        ("load", json!({}), 404),
        ("load", json!({"levelid": "nothing"}), 404),
    ] {
        let answer = call(&world, "playerlevels", action, parameters.clone());
        assert_eq!(code(&answer), (false, expected), "{action} {parameters}");
    }
}

#[test]
fn level_rating_cannot_be_changed() {
    let world = world();
    let saved = call(&world, "playerlevels", "save", a_level("rate"));
    let id = saved["level"]["levelid"].as_str().expect("an id");
    let rate = |parameters: Value| code(&call(&world, "playerlevels", "rate", parameters));
    assert_eq!(rate(json!({"levelid": id, "rating": 70})), (false, 401));
    assert_eq!(rate(json!({"levelid": id, "rating": 0})), (false, 401));
    assert_eq!(rate(json!({"levelid": id, "rating": 6.5})), (false, 401));
    assert_eq!(rate(json!({"levelid": id, "rating": 6})), (true, 0));
    assert_eq!(rate(json!({"levelid": id, "rating": 7})), (false, 402));
    assert_eq!(rate(json!({"levelid": id, "rating": 9, "playerid": "ann"})), (true, 0));
    assert_eq!(rate(json!({"levelid": id, "rating": 9, "playerid": "ann"})), (false, 402));
    assert_eq!(rate(json!({"levelid": "nothing", "rating": 9})), (false, 404));
    assert_eq!(rate(json!({"rating": 9})), (false, 404));
    let level = call(&world, "playerlevels", "load", json!({"levelid": id}))["level"].clone();
    assert_eq!((&level["votes"], &level["rating"], &level["score"]), (&json!(2), &json!(7.5), &json!(15)));
}

#[test]
fn levels_are_listed_in_every_mode_and_by_every_filter() {
    let world = world();
    let ids: Vec<String> = (0..5)
        .map(|number| {
            let level = json!({
                "name": format!("level {number}"), "playername": "Bo", "playerid": format!("p{number}"),
                "data": "###", "fields": {"size": number % 2, "rnd": 7},
            });
            let saved = call(&world, "playerlevels", "save", level);
            saved["level"]["levelid"].as_str().expect("an id").to_owned()
        })
        .collect();
    for (number, rating) in [(1, 4), (3, 9)] {
        call(
            &world,
            "playerlevels",
            "rate",
            json!({"levelid": ids[number], "rating": rating, "playerid": "ann"}),
        );
    }
    let names = |parameters: Value| {
        let answer = call(&world, "playerlevels", "list", parameters);
        assert_eq!(code(&answer), (true, 0), "{answer}");
        let levels = answer["levels"].as_array().expect("a list").iter();
        let names: Vec<String> =
            levels.map(|level| level["name"].as_str().expect("a name").replace("level ", "")).collect();
        format!("{} of {}", names.join(","), answer["numlevels"])
    };
    assert_eq!(names(json!({"mode": "newest"})), "4,3,2,1,0 of 5");
    assert_eq!(names(json!({"mode": "newest", "page": 2, "perpage": 2})), "2,1 of 5");
    assert_eq!(names(json!({"perpage": 1})), "3 of 5");
    for mode in ["popular", "alltime", "recentaverage"] {
        assert_eq!(&names(json!({"mode": mode, "perpage": 2}))[..1], "3", "{mode}");
    }
    for mode in [
        "todayaverage",
        "last7days",
        "last7daysaverage",
        "last30days",
        "last30daysaverage",
        "last90daysaverage",
    ] {
        assert_eq!(names(json!({"mode": mode})), "3,1 of 2", "{mode}");
    }
    assert_eq!(names(json!({"mode": "yesterdayaverage"})), " of 0");
    assert_eq!(names(json!({"mode": "newest", "filters": {"size": 1}})), "3,1 of 2");
    assert_eq!(names(json!({"mode": "newest", "filters": {"size": 1, "rnd": "8"}})), " of 0");
    assert_eq!(names(json!({"mode": "newest", "friendslist": ["p1", "p2"], "playerid": "p4"})), "4,2,1 of 3");
    assert_eq!(names(json!({"mode": "newest", "datemin": "2000-01-01", "datemax": "01/31/2000"})), " of 0");
    assert_eq!(names(json!({"mode": "newest", "datemin": "2000-01-01"})), "4,3,2,1,0 of 5");
    let first =
        |data: bool| call(&world, "playerlevels", "list", json!({"data": data}))["levels"][0]["data"].clone();
    assert_eq!((first(true), first(false)), (json!("###"), Value::Null));
    for parameters in [json!({"mode": "best"}), json!({"perpage": 100_000}), json!({"datemin": "soon"})] {
        assert_eq!(code(&call(&world, "playerlevels", "list", parameters)), (false, 4));
    }
}
