//! Settings of a game for its events: declared dimensions, values per dimension, the lateness bound.

use serde_json::{Value, json};

use crate::client::Request;
use crate::world::{CommandOutput, World, now_ms};

const DAY: i64 = 24 * 3_600_000;

fn set(world: &World, args: &[&str]) -> CommandOutput {
    world.command(&[&["games", "set", "demo", "--json"], args].concat())
}

/// The series of a query's result, as `value total`.
fn series_totals(world: &World, query: Value) -> Vec<String> {
    let mut full_query = json!({"last": "24h", "step": "all"});
    query.as_object().expect("an object").iter().for_each(|(name, value)| full_query[name] = value.clone());
    let answer = world.query(&full_query);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    let one = |series: &Value| {
        let key =
            series["key"].as_object().expect("a key").values().filter_map(Value::as_str).collect::<Vec<_>>();
        format!("{} {}", key.join("/"), series["total"])
    };
    answer["series"].as_array().expect("a list").iter().map(one).collect()
}

fn shot(weapon: Value, player: &str) -> Value {
    json!({"event": "shot", "player": player, "country": "FR", "value": 2, "props": {"weapon": weapon, "ammo": 3}})
}

fn check_verified(world: &World) {
    let done = world.command(&["verify", "--json"]).json();
    assert_eq!(done["agrees"], true, "{done}");
}

#[test]
fn declared_property_becomes_a_dimension_of_later_events() {
    let mut world = World::new();
    world.post(shot(json!("early"), "ann").to_string());
    assert_eq!(set(&world, &["--dimension", "weapon"]).code, 0);
    let events = json!([
        shot(json!("bow"), "ann"), shot(json!("bow"), "bo"), shot(json!(7), "ann"), shot(json!(true), "ann"),
        shot(json!(null), "ann"), shot(json!({"kind": "bow"}), "ann"), shot(json!("x".repeat(129)), "cem"),
        {"event": "start", "player": "dee", "props": {"weapon": "bow"}}, {"event": "shot"},
    ]);
    assert_eq!(world.post(events.to_string()).summary(), "9 accepted");
    for _ in 0..2 {
        let by = json!({"metric": "shot", "by": ["weapon"]});
        assert_eq!(series_totals(&world, by), ["bow 2", "7 1", "true 1", "(other) 1"]);
        let sum = json!({"metric": "shot", "measure": "sum", "where": {"weapon": ["bow", "7"]}});
        assert_eq!(series_totals(&world, sum), [" 6"]);
        assert_eq!(series_totals(&world, json!({"metric": "players", "where": {"weapon": "bow"}})), [" 3"]);
        let each = json!({"metric": "events", "by": ["event", "weapon"], "where": {"weapon": "bow"}});
        assert_eq!(series_totals(&world, each), ["shot/bow 2", "start/bow 1"]);
        assert_eq!(
            series_totals(&world, json!({"metric": "sessions", "by": ["weapon"]})),
            ["bow 2", "(other) 1"]
        );
        world.kill9();
        world.start();
    }
    check_verified(&world);
    let mixed = world.query(&json!({"metric": "shot", "by": ["weapon", "country"], "last": "24h"}));
    assert_eq!((mixed.status, mixed.json()["field"].as_str()), (400, Some("by")), "{}", mixed.text());
    assert!(mixed.text().contains("weapon cannot be combined with another dimension"), "{}", mixed.text());
    let filtered = world.query(&json!({"metric": "shot", "by": ["country"], "where": {"weapon": "bow"}}));
    assert_eq!((filtered.status, filtered.json()["field"].as_str()), (400, Some("where.weapon")));
}

#[test]
fn minutes_hours_and_days_of_a_declared_dimension_add_up() {
    let world = World::new();
    set(&world, &["--dimension", "weapon"]);
    let midnight = now_ms() / DAY * DAY - 2 * DAY;
    let at = |number: i64| midnight + number * 37 * 60_000 % DAY;
    let event = |number: i64| json!({"event": "shot", "ts": at(number), "props": {"weapon": number % 3}});
    world.post(json!((0..300).map(event).collect::<Vec<_>>()).to_string());
    let sum = |step: &str| {
        let query =
            json!({"metric": "shot", "by": ["weapon"], "step": step, "from": midnight, "to": midnight + DAY});
        let answer = world.query(&query).json();
        let series = answer["series"].as_array().expect("a list").clone();
        let sum =
            |values: &Value| values.as_array().expect("a list").iter().filter_map(Value::as_u64).sum::<u64>();
        series.iter().map(|series| sum(&series["values"])).collect::<Vec<_>>()
    };
    assert_eq!((sum("minute"), sum("hour"), sum("day")), (vec![100; 3], vec![100; 3], vec![100; 3]));
}

#[test]
fn dropped_dimension_keeps_its_data_when_declared_again() {
    let world = World::new();
    set(&world, &["--dimension", "weapon,hat"]);
    world.post(shot(json!("bow"), "ann").to_string());
    let done = set(&world, &["--drop-dimension", "weapon", "--dimension", "mode"]).json();
    assert_eq!(
        done["settings"]["dimensions"],
        json!([{"name": "hat", "number": 2}, {"name": "mode", "number": 3}])
    );
    assert_eq!(world.query(&json!({"metric": "shot", "by": ["weapon"]})).status, 400);
    assert_eq!(series_totals(&world, json!({"metric": "shot", "by": ["mode"]})), [""; 0]);
    set(&world, &["--dimension", "weapon"]);
    assert_eq!(series_totals(&world, json!({"metric": "shot", "by": ["weapon"]})), ["bow 1"]);
}

#[test]
fn values_max_applies_to_later_events() {
    let mut world = World::new();
    set(&world, &["--dimension", "weapon"]);
    let send = |world: &World, from: u32, until: u32| {
        let event =
            |number: u32| json!({"event": "shot", "level": number.to_string(), "props": {"weapon": number}});
        world.post(json!((from..until).map(event).collect::<Vec<_>>()).to_string());
    };
    let check = |world: &World, own: usize, other: u64| {
        for by in ["weapon", "level"] {
            let found = series_totals(world, json!({"metric": "shot", "by": [by], "top": 1000}));
            assert_eq!(found.last(), Some(&format!("(other) {other}")), "{by}");
            assert_eq!(found.len(), own + 1, "{by}");
        }
        check_verified(world);
    };
    set(&world, &["--values-max", "20"]);
    send(&world, 0, 50);
    check(&world, 20, 30);
    set(&world, &["--values-max", "40"]);
    send(&world, 30, 70);
    check(&world, 40, 50);
    world.kill9();
    world.start();
    check(&world, 40, 50);
    set(&world, &["--values-max", "10"]);
    send(&world, 0, 100);
    world.restart();
    check(&world, 40, 110);
    world.command(&["rebuild", "--json"]).json();
    check(&world, 40, 110);
}

#[test]
fn late_days_sets_the_lateness_bound() {
    let world = World::new();
    let at = |age: i64| json!({"event": "win", "ts": now_ms() - age}).to_string();
    assert_eq!(world.post(at(8 * DAY)).summary(), "1 accepted");
    assert_eq!(set(&world, &["--late-days", "7"]).json()["settings"]["late_days"], 7);
    assert_eq!(world.post(at(8 * DAY)).summary(), "0 accepted; 0 late too_old");
    assert_eq!(world.post(at(6 * DAY)).summary(), "1 accepted");
    let importer = world.key("events:write,events:import");
    assert_eq!(world.post_as(&importer, at(8 * DAY)).summary(), "1 accepted");
}

#[test]
fn invalid_settings_are_rejected_and_change_nothing() {
    let world = World::new();
    let many: Vec<String> = (0..17).map(|number| format!("d{number}")).collect();
    for (args, why) in [
        (&["--late-days", "0"][..], "late_days: must be between 1 and 30"),
        (&["--late-days", "31"], "late_days: must be between 1 and 30"),
        (&["--values-max", "0"], "values_max: must be between 1 and 10000"),
        (&["--values-max", "10001"], "values_max: must be between 1 and 10000"),
        (&["--dimension", "country"], "`country` is a built-in dimension"),
        (&["--dimension", "variant"], "`variant` is a built-in dimension"),
        (&["--dimension", "a b"], "1 to 64 letters"),
        (&["--dimension", &many.join(",")], "more than 16 dimensions"),
        (&["--drop-dimension", "weapon"], "`weapon` is not declared"),
        (&["--late-days", "5", "--dimension", "a b"], "1 to 64 letters"),
    ] {
        let done = set(&world, args);
        assert!(done.code != 0 && done.err.contains(why), "{args:?}: {done:?}");
    }
    let unknown = world.command(&["games", "set", "nobody", "--late-days", "5"]);
    assert!(unknown.err.contains("there is no game `nobody`"), "{unknown:?}");
    let settings = world.command(&["games", "list", "--json"]).json()[0]["settings"].clone();
    let expected =
        json!({"late_days": 30, "values_max": 1000, "export": false, "events_days": null, "dimensions": []});
    assert_eq!(settings, expected);
    assert_eq!(set(&world, &["--dimension", &many[..16].join(",")]).code, 0);
    let list = world.command(&["games", "list"]).out;
    assert!(
        list.contains("late after 30 days, 1000 values per dimension, declared dimensions: d0, d1"),
        "{list}"
    );
}

#[test]
fn listed_dimensions_show_overflow() {
    let world = World::new();
    set(&world, &["--dimension", "weapon,hat", "--values-max", "3"]);
    let event =
        |number: u32| json!({"event": "shot", "version": "1", "props": {"weapon": number, "hat": "bowler"}});
    let list = || {
        let listed = world.send(&Request::get("/v1/dimensions").key(&world.secret_key)).json();
        assert_eq!((&listed["values_max"], &listed["late_days"]), (&json!(3), &json!(30)));
        let dimensions = listed["dimensions"].as_array().expect("a list").clone();
        let describe = |dimension: &Value| {
            let flag =
                |field: &str| if dimension[field] == true { format!(" {field}") } else { String::new() };
            let name = dimension["name"].as_str().expect("a name");
            format!("{name}{}{}", flag("declared"), flag("overflowed"))
        };
        dimensions.iter().map(describe).collect::<Vec<_>>().join(", ")
    };
    let built_in = "country, source, platform, version, level, variant, vars, measure";
    world.post(json!((0..3).map(event).collect::<Vec<_>>()).to_string());
    assert_eq!(list(), format!("{built_in}, weapon declared, hat declared"));
    world.post(event(3).to_string());
    assert_eq!(list(), format!("{built_in}, weapon declared overflowed, hat declared"));
}
