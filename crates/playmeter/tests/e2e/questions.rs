//! Questions over raw events, over HTTP: they see every acknowledged event, with any property, before and after restarts.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::world::{World, now_ms};

fn ask(world: &World, path: &str, question: &Value) -> Answer {
    world.send(&Request::new("POST", path).key(&world.secret_key).body(question.to_string()))
}

const DAY_MS: i64 = 86_400_000;

/// Sends events of four players, most of them on one day, three days ago. Returns the time of the first one, 10:00.
fn play(world: &World) -> i64 {
    let start = now_ms() / DAY_MS * DAY_MS - 3 * DAY_MS + 10 * 3_600_000;
    let event = |name: &str, player: &str, second: i64, props: Value| json!({"event": name, "player": player, "ts": start + second * 1_000, "country": "FR", "props": props});
    let events = json!([
        event("start", "ann", 0, json!({"weapon": "bow"})),
        event("win", "ann", 60, json!({"weapon": "bow", "price": 2.5})),
        event("start", "bo", 10, json!({"weapon": "axe"})),
        event("win", "cy", 20, json!({"price": 7})),
        event("start", "cy", 30, json!({"weapon": "bow"})),
        event("start", "di", 40, json!({"weapon": "axe"})),
        event("win", "di", 3_000, json!({"price": 1.5})),
        event("start", "ann", 90_000, json!({})),
    ]);
    assert_eq!(world.post(events.to_string()).summary(), "8 accepted");
    start
}

/// The answers to one question of each kind, without the moment of the answer.
fn answers(world: &World, start: i64) -> Vec<Value> {
    let window = json!({"from": start - 10 * 3_600_000, "to": start + 2 * DAY_MS});
    let question = |own: Value| {
        let mut fields = window.as_object().expect("an object").clone();
        fields.extend(own.as_object().expect("an object").clone());
        Value::Object(fields)
    };
    let steps = json!([{"event": "start"}, {"event": "win"}]);
    let asked = [
        ("/v1/explore", json!({"event": "win", "measure": "sum", "property": "props.price", "step": "all"})),
        (
            "/v1/explore",
            json!({"event": "start", "measure": "uniques", "by": ["props.weapon"], "step": "all"}),
        ),
        ("/v1/funnel", json!({"steps": steps, "window_s": 100})),
        ("/v1/funnel", json!({"steps": steps, "window_s": 86_400, "by": "props.weapon"})),
        ("/v1/retention", json!({"start": {"event": "start"}, "return": {"event": "start"}, "periods": 2})),
        ("/v1/paths", json!({"event": "start", "depth": 1})),
    ];
    asked
        .into_iter()
        .map(|(path, own)| {
            let answer = ask(world, path, &question(own));
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            let mut answer = answer.json();
            assert!(answer["as_of"]["position"].is_string(), "{answer}");
            answer.as_object_mut().expect("an object").remove("as_of");
            answer
        })
        .collect()
}

#[test]
fn questions_see_every_property_and_are_answered_equally_after_restarts() {
    let mut world = World::new();
    let start = play(&world);
    let before = answers(&world, start);
    assert_eq!(before[0]["series"][0]["total"], 11.0, "{}", before[0]);
    let weapons: Vec<String> =
        before[1]["series"].as_array().expect("a list").iter().map(Value::to_string).collect();
    assert!(weapons.iter().any(|line| line.contains("bow") && line.contains("\"total\":2")), "{weapons:?}");
    let players = |funnel: &Value| json!([funnel["steps"][0]["players"], funnel["steps"][1]["players"]]);
    assert_eq!(players(&before[2]), json!([4, 1]), "{}", before[2]);
    assert_eq!(players(&before[3]), json!([4, 2]), "{}", before[3]);
    assert_eq!(before[4]["cohorts"][0]["players"], 4, "{}", before[4]);
    world.restart();
    assert_eq!(answers(&world, start), before);
    world.kill9();
    world.start();
    assert_eq!(answers(&world, start), before);
    let more = json!([{"event": "win", "player": "bo", "ts": start + 50_000, "props": {"price": 1}}]);
    assert_eq!(world.post(more.to_string()).summary(), "1 accepted");
    let after = answers(&world, start);
    assert_eq!(after[0]["series"][0]["total"], 12.0, "a question sees what was acknowledged before it");
    assert_eq!(players(&after[2]), json!([4, 2]), "{}", after[2]);
}

#[test]
fn linked_ids_are_one_player_in_questions() {
    let world = World::new();
    let start = now_ms() - 3_600_000;
    let events = json!([
        {"event": "start", "player": "guest-1", "ts": start},
        {"event": "$identify", "player": "ann", "ts": start + 1_000, "props": {"anonymous": "guest-1"}},
        {"event": "win", "player": "ann", "ts": start + 2_000},
    ]);
    assert_eq!(world.post(events.to_string()).summary(), "3 accepted");
    let funnel = json!({"steps": [{"event": "start"}, {"event": "win"}], "last": "24h"});
    let answer = ask(&world, "/v1/funnel", &funnel).json();
    assert_eq!(answer["steps"][1]["players"], 1, "{answer}");
    let found = world.send(&Request::get("/v1/players?search=guest").key(&world.secret_key)).json();
    assert_eq!((&found["found"], &found["players"][0]["player"]), (&json!(1), &json!("ann")), "{found}");
    let path = format!("/v1/players?search=guest&from={}&to={start}", start - 1_000);
    let before = world.send(&Request::get(&path).key(&world.secret_key)).json();
    assert_eq!(before["found"], 0, "times in milliseconds: {before}");
}

#[test]
fn answers_are_given_as_rows_on_request() {
    let world = World::new();
    play(&world);
    let question = json!({"steps": [{"event": "start"}, {"event": "win"}], "last": "7d"});
    let csv = ask(&world, "/v1/funnel?format=csv", &question);
    assert!(csv.header("content-type").is_some_and(|kind| kind.starts_with("text/csv")));
    assert_eq!(csv.text().lines().count(), 3, "{}", csv.text());
    let lines = ask(&world, "/v1/funnel?format=ndjson", &question).text();
    assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{lines}");
}

#[test]
fn invalid_question_names_its_field_and_public_keys_may_not_ask() {
    let world = World::new();
    for (path, question, field) in [
        ("/v1/funnel", json!({"steps": [{"event": "start"}]}), "steps"),
        ("/v1/funnel", json!({"steps": [{"event": "a"}, {"event": "b"}], "order": "any"}), "order"),
        (
            "/v1/explore",
            json!({"event": "a", "where": [{"property": "country", "op": "~", "value": 1}]}),
            "where[0].op",
        ),
        ("/v1/explore", json!({"event": "a", "tz": "Mars/Base"}), "tz"),
        (
            "/v1/retention",
            json!({"start": {"event": "a"}, "return": {"event": "a"}, "step": "minute"}),
            "step",
        ),
        ("/v1/paths", json!({"event": "a", "depth": 0}), "depth"),
        ("/v1/explore", json!({"event": "a", "nonsense": 1}), "nonsense"),
    ] {
        let answer = ask(&world, path, &question);
        assert_eq!(answer.status, 400, "{path} {question}: {}", answer.text());
        assert_eq!(answer.json()["field"], field, "{}", answer.text());
    }
    let question = json!({"event": "a"}).to_string();
    let public = Request::new("POST", "/v1/explore").key(&world.public_key).body(&question);
    assert_eq!(world.send(&public).status, 403);
    assert_eq!(world.send(&Request::new("POST", "/v1/explore").body(&question)).status, 401);
    let limit = world.send(&Request::get("/v1/players?limit=x").key(&world.secret_key));
    assert_eq!((limit.status, &limit.json()["field"]), (400, &json!("limit")));
}

/// The Parquet files of the archive.
fn files(world: &World) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![world.folder().join("archive")]);
    while let Some(folder) = left.pop() {
        // Files and folders come and go.
        let Ok(items) = std::fs::read_dir(folder) else { continue };
        for path in items.filter_map(|item| Some(item.ok()?.path())) {
            match path.extension() {
                Some(kind) if kind == "parquet" => found.push(path),
                _ if path.is_dir() => left.push(path),
                _ => {}
            }
        }
    }
    found
}

fn wait_until(world: &World, what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(180), "{what}: {}", world.log_lines());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn events_in_files_are_counted_once_and_erased_from_them() {
    const BATCH: usize = 10_000;
    const BATCHES: usize = 27;
    let mut world = World::new();
    let canary = "canary-8d1f0c2b7a";
    for batch in 0..BATCHES {
        let events: Vec<String> = (0..BATCH)
            .map(|number| match number {
                0 => format!(r#"{{"event":"win","player":"{canary}","props":{{"note":"{canary}-note"}}}}"#),
                _ => format!(r#"{{"event":"win","player":"p{number}","props":{{"batch":{batch}}}}}"#),
            })
            .collect();
        assert_eq!(world.post(format!("[{}]", events.join(","))).summary(), "10000 accepted");
    }
    let explore = |world: &World, own: Value| {
        let mut question = json!({"event": "win", "last": "2d", "step": "all"});
        question.as_object_mut().expect("an object").extend(own.as_object().expect("an object").clone());
        let answer = ask(world, "/v1/explore", &question);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["series"][0]["total"].clone()
    };
    let check = |world: &World| {
        assert_eq!(explore(world, json!({})), BATCHES * BATCH);
        assert_eq!(explore(world, json!({"measure": "uniques"})), BATCH);
        let one = json!({"where": [{"property": "props.batch", "op": "=", "value": 3}]});
        assert_eq!(explore(world, one), BATCH - 1);
    };
    check(&world);
    wait_until(&world, "a file is written", || !files(&world).is_empty());
    check(&world);
    world.kill9();
    world.start();
    check(&world);
    let contains = |path: &PathBuf| {
        std::fs::read(path).is_ok_and(|bytes| memchr::memmem::find(&bytes, canary.as_bytes()).is_some())
    };
    // A kill between a file and the manifest that names it: the start removes the file, and it is written again.
    wait_until(&world, "the search finds the canary before it is erased", || {
        files(&world).iter().any(contains)
    });
    let erased =
        world.send(&Request::new("DELETE", format!("/v1/players/{canary}")).key(&world.secret_key)).json();
    let receipt = format!("/v1/erasures/{}", erased["receipt"].as_str().expect("a receipt"));
    wait_until(&world, "the erasure is done", || {
        world.send(&Request::get(&receipt).key(&world.secret_key)).json()["state"] == "done"
    });
    assert!(!files(&world).is_empty() && !files(&world).iter().any(contains));
    check(&world);
    let noted = json!({"where": [{"property": "props.note", "op": "set"}]});
    assert_eq!(explore(&world, noted), 0);
    world.restart();
    check(&world);
}
