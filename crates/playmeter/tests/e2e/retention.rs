//! Raw events are deleted because of their age; rollups and other games keep what they have.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pipeline::time::parse_time;
use serde_json::{Value, json};

use crate::client::Request;
use crate::games::Owner;
use crate::world::{World, now_ms};

const DAY_S: i64 = 86_400;
/// Files are written every few seconds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Starts the stopped server with a system clock that is ahead by this many days. It trusts the clock at once.
pub(crate) fn start_ahead(world: &mut World, days: i64) {
    let clock = world.root().join("clock");
    std::fs::write(&clock, (days * DAY_S).to_string()).expect("a file in the test's folder");
    let mut command = world.serve();
    command.env("PLAYMETER_INJECTED_CLOCK_ERROR", clock).env("PLAYMETER_INJECTED_DELETION_SETTLE", "0");
    world.start_as(command);
}

/// The files with events of a game.
pub(crate) fn files(world: &World, game: u32) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let items = std::fs::read_dir(folder).into_iter().flatten();
        items.map(|item| item.expect("an entry").path()).collect()
    };
    let days = list(&world.folder().join("archive").join(game.to_string()));
    let files = days.iter().flat_map(|day| list(day));
    files.filter(|path| path.extension().is_some_and(|kind| kind == "parquet")).collect()
}

pub(crate) fn wait_until(what: &str, world: &World, is_done: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_done() {
        assert!(Instant::now() < deadline, "{what}\n{}", world.log_lines());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The number of raw events up to 60 days from now, and since when there are any.
fn ask(world: &World, key: &str) -> (Value, Value) {
    let (from, to) = (now_ms() - 86_400_000, now_ms() + 60 * 86_400_000);
    let question = json!({"event": "hit", "from": from, "to": to, "step": "all"});
    let request = Request::new("POST", "/v1/explore").key(key).body(question.to_string());
    let answer = world.send(&request);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    let total = answer["series"].get(0).map_or(json!(0), |series| series["total"].clone());
    (total, answer["events_since"].clone())
}

/// A secret key of another game.
fn create_game(world: &World, id: &str) -> String {
    world.command(&["games", "create", id, "--json"]).json();
    let scopes = ["--scopes", "events:write,query"];
    let created = world.command(&[&["keys", "create", "--game", id, "--json"][..], &scopes].concat()).json();
    created["secret_key"].as_str().expect("a key").to_owned()
}

#[test]
fn raw_events_leave_the_disk_after_the_days_of_their_game() {
    let mut world = World::configured("[archive]\nevents_days = 35\n", &["--config", "playmeter.toml"]);
    let (kept, default) = (create_game(&world, "kept"), create_game(&world, "default"));
    assert_eq!(world.command(&["games", "set", "demo", "--events-days", "30"]).code, 0);
    assert_eq!(world.command(&["games", "set", "kept", "--events-days", "0"]).code, 0);
    let demo = world.secret_key.clone();
    for key in [&demo, &kept, &default] {
        assert_eq!(world.post_as(key, r#"[{"event":"hit"},{"event":"hit"}]"#).summary(), "2 accepted");
    }
    world.stop();
    start_ahead(&mut world, 2);
    wait_until("files are written", &world, || (1..=3).all(|game| files(&world, game).len() == 1));
    for key in [&demo, &kept, &default] {
        assert_eq!(ask(&world, key), (json!(2), Value::Null), "nothing is old");
    }
    world.stop();
    start_ahead(&mut world, 33);
    assert_eq!(world.post_as(&demo, r#"{"event":"hit"}"#).summary(), "1 accepted");
    wait_until("the file of demo is deleted", &world, || files(&world, 1).is_empty());
    let (total, since) = ask(&world, &demo);
    assert_eq!(total, 1, "the new one");
    let since_ms = since.as_str().and_then(parse_time).expect("a time");
    assert_eq!(since_ms % 86_400_000, 0, "{since}");
    assert!((1..=86_400_000 + 60_000).contains(&(now_ms() + 3 * 86_400_000 - since_ms)), "{since}");
    for (key, game) in [(&kept, 2), (&default, 3)] {
        assert_eq!((ask(&world, key), files(&world, game).len()), ((json!(2), Value::Null), 1));
    }
    world.stop();
    start_ahead(&mut world, 38);
    wait_until("the file of default is deleted", &world, || files(&world, 3).is_empty());
    assert_eq!(ask(&world, &default).0, 0);
    assert_eq!((ask(&world, &kept), files(&world, 2).len()), ((json!(2), Value::Null), 1));
    let (from, to) = (now_ms() - 86_400_000, now_ms() + 60 * 86_400_000);
    let query = json!({"metric": "hit", "step": "all", "from": from, "to": to});
    assert_eq!(world.query(&query).json()["series"][0]["total"], 3, "rollups keep their counts");
    assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true);
    world.kill9();
    start_ahead(&mut world, 38);
    assert_eq!(ask(&world, &default).0, 0, "nothing returns");
    assert!(ask(&world, &demo).1.is_string());
}

#[test]
fn owner_sets_how_long_raw_events_are_kept() {
    let world = World::new();
    let owner = Owner::of(&world);
    let set = |days: Value| owner.send("PATCH", "/v1/games/demo", &json!({"events_days": days}));
    for days in [json!(7), json!(0), json!(36_500), Value::Null] {
        assert_eq!(set(days.clone()).json()["events_days"], days);
    }
    set(json!(7));
    let renamed = owner.send("PATCH", "/v1/games/demo", &json!({"name": "Demo"})).json();
    assert_eq!(renamed["events_days"], 7, "what is not given stays");
    let both = owner.send("PATCH", "/v1/games/demo", &json!({"name": "Other", "events_days": 36_501}));
    assert_eq!(both.summary(), "400 invalid_field (events_days)");
    let games = owner.send("GET", "/v1/games", &Value::Null).json();
    assert_eq!((&games["games"][0]["name"], &games["games"][0]["events_days"]), (&json!("Demo"), &json!(7)));
    for days in [json!(36_501), json!(-1), json!(1.5), json!("7")] {
        assert_eq!(set(days.clone()).summary(), "400 invalid_field (events_days)", "{days}");
    }
    let listed = world.command(&["games", "list", "--json"]).json();
    assert_eq!(listed[0]["settings"]["events_days"], 7);
    assert!(world.command(&["games", "list"]).out.contains("raw events are kept for 7 days"));
    let default = world.command(&["games", "set", "demo", "--events-days", "default", "--json"]).json();
    assert_eq!(default["settings"]["events_days"], Value::Null);
    let wrong = world.command(&["games", "set", "demo", "--events-days", "long"]);
    assert!(wrong.code == 2 && wrong.err.contains("--events-days"), "{wrong:?}");
}
