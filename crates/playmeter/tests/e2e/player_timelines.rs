//! One player: totals and the timeline, over all ids of the player; erased players have neither.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Request;
use crate::world::{World, now_ms};

fn get(world: &World, path: &str) -> Value {
    let answer = world.send(&Request::get(path).key(&world.secret_key));
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// Sends events of two players, one of whom was anonymous first. Returns the time of the first event.
fn play(world: &World) -> i64 {
    let start = now_ms() - 40 * 86_400_000;
    let events = json!([
        {"event": "start", "player": "guest-1", "session": "s1", "ts": start, "props": {"weapon": "bow"}},
        {"event": "$identify", "player": "ann", "session": "s1", "ts": start + 1_000, "props": {"anonymous": "guest-1"}},
        {"event": "win", "player": "ann", "session": "s1", "value": 7, "level": "castle", "ts": start + 2_000},
        {"event": "win", "player": "bo", "ts": start + 3_000, "props": {"secret": "of bo"}},
        {"event": "buy", "player": "ann", "session": "s2", "ts": now_ms() - 5_000, "country": "FR", "platform": "web",
         "props": {"price": 2.5, "item": {"name": "axe"}, "rare": [1, 2]}},
    ]);
    let answer =
        world.send(&Request::new("POST", "/v1/import").key(&world.secret_key).body(events.to_string()));
    assert_eq!(answer.summary(), "5 accepted", "{}", answer.text());
    start
}

fn names(page: &Value) -> Vec<&str> {
    let events = page["events"].as_array().expect("a list");
    events.iter().map(|event| event["event"].as_str().expect("a name")).collect()
}

#[test]
fn timeline_shows_events_of_all_ids_newest_first_page_by_page() {
    let mut world = World::new();
    play(&world);
    for id in ["ann", "guest-1"] {
        let page = get(&world, &format!("/v1/players/{id}/timeline"));
        assert_eq!(names(&page), ["buy", "win", "$identify", "start"], "{page}");
        assert_eq!(page["next"], Value::Null);
        assert_eq!(page["events"][0]["props"]["price"], 2.5, "{page}");
        assert_eq!(page["events"][0]["props"]["item.name"], "axe", "{page}");
        assert_eq!(page["events"][1]["level"], "castle");
        assert_eq!(page["events"][3]["props"], json!({"weapon": "bow"}));
        assert!(!page.to_string().contains("of bo"), "{page}");
    }
    let first = get(&world, "/v1/players/ann/timeline?limit=3");
    assert_eq!(names(&first), ["buy", "win", "$identify"]);
    let next = first["next"].as_str().expect("a cursor");
    let second = get(&world, &format!("/v1/players/ann/timeline?limit=3&before={next}"));
    assert_eq!((names(&second), &second["next"]), (vec!["start"], &Value::Null));
    assert_eq!(get(&world, "/v1/players/stranger/timeline")["events"], json!([]));
    world.restart();
    assert_eq!(names(&get(&world, "/v1/players/ann/timeline")), ["buy", "win", "$identify", "start"]);
    let rows = world.send(&Request::get("/v1/players/ann/timeline?format=csv").key(&world.secret_key)).text();
    assert_eq!(rows.lines().count(), 5, "{rows}");
    for (query, field) in
        [("before=x", "before"), ("limit=0", "limit"), ("limit=1001", "limit"), ("x=1", "x")]
    {
        let answer =
            world.send(&Request::get(format!("/v1/players/ann/timeline?{query}")).key(&world.secret_key));
        assert_eq!((answer.status, &answer.json()["field"]), (400, &json!(field)), "{query}");
    }
}

#[test]
fn totals_count_events_sessions_scores_and_variants_of_a_player() {
    let world = World::new();
    play(&world);
    let score = Request::new("POST", "/v1/boards/high/scores").key(&world.secret_key);
    assert_eq!(world.send(&score.body(r#"{"player":"ann","score":70}"#)).status, 200);
    let variable = r#"{"value":"red","conditions":[{"name":"blue","value":"blue","country":["FR"],"percent":{"to":100}}]}"#;
    let put = Request::new("PUT", "/v1/vars/button").key(&world.secret_key).body(variable);
    assert_eq!(world.send(&put).status, 200);
    let totals = get(&world, "/v1/players/ann");
    assert_eq!((&totals["events"], &totals["sessions"]), (&json!(4), &json!(2)), "{totals}");
    let wins = totals["by_event"].as_array().expect("a list").iter().find(|event| event["event"] == "win");
    assert_eq!(wins, Some(&json!({"event": "win", "count": 1, "sum": 7})), "{totals}");
    assert_eq!((&totals["country"], &totals["platform"]), (&json!("FR"), &json!("web")), "{totals}");
    assert_eq!(totals["variants"], json!({"button": "blue"}));
    assert!(totals["scores"]["high"].to_string().contains("70"), "{totals}");
    let none = world.send(&Request::get("/v1/players/stranger").key(&world.secret_key));
    assert_eq!((none.status, &none.json()["field"]), (404, &json!("player")));
    let public = world.send(&Request::get("/v1/players/ann").key(&world.public_key));
    assert_eq!(public.status, 403, "{}", public.text());
}

#[test]
fn erased_player_has_no_timeline_and_no_totals() {
    let mut world = World::new();
    play(&world);
    let erased = world.send(&Request::new("DELETE", "/v1/players/ann").key(&world.secret_key)).json();
    let receipt = format!("/v1/erasures/{}", erased["receipt"].as_str().expect("a receipt"));
    let check = |world: &World| {
        for id in ["ann", "guest-1"] {
            assert_eq!(get(world, &format!("/v1/players/{id}/timeline"))["events"], json!([]), "{id}");
            let totals = world.send(&Request::get(format!("/v1/players/{id}")).key(&world.secret_key));
            assert_eq!(totals.status, 404, "{id}: {}", totals.text());
        }
        assert_eq!(get(world, "/v1/players/bo")["events"], 1);
    };
    check(&world);
    let started = Instant::now();
    while get(&world, &receipt)["state"] != "done" {
        assert!(started.elapsed() < Duration::from_secs(60), "{}", world.log_lines());
        std::thread::sleep(Duration::from_millis(20));
    }
    check(&world);
    world.restart();
    check(&world);
}
