//! Queries over HTTP: results contain every acknowledged event and can be verified from the log.

use serde_json::{Value, json};

use crate::client::Request;
use crate::world::{World, now_ms};

fn values(answer: &Value) -> Value {
    answer["series"].as_array().expect("a list").iter().map(|series| series["values"].clone()).collect()
}

#[test]
fn query_includes_everything_acknowledged_before_it() {
    let world = World::new();
    for count in 1..=50 {
        world.post(r#"{"event":"hit"}"#);
        let answer = world.query(&json!({"metric": "hit", "last": "60m", "step": "all"})).json();
        assert_eq!(answer["series"][0]["total"], count);
    }
}

#[test]
fn late_event_counts_in_its_own_minute_hour_and_day() {
    let world = World::new();
    let hour = (now_ms() - 3 * 24 * 3_600_000) / 3_600_000 * 3_600_000;
    for minute in [5, 5, 7] {
        let event = json!({"event": "hit", "ts": hour + minute * 60_000, "value": minute});
        world.post(event.to_string());
    }
    let values_of = |step: &str, measure: &str| {
        let query = json!({"metric": "hit", "measure": measure, "step": step, "from": hour, "to": hour + 10 * 60_000});
        values(&world.query(&query).json())
    };
    assert_eq!(values_of("minute", "count"), json!([[0, 0, 0, 0, 0, 2, 0, 1, 0, 0]]));
    assert_eq!(values_of("hour", "sum"), json!([[17]]));
    assert_eq!(values_of("day", "max"), json!([[7]]));
}

#[test]
fn one_dimension_breaks_down_while_another_filters() {
    let world = World::new();
    let event = |country: &str, platform: &str, player: &str| json!({"event": "hit", "country": country, "platform": platform, "player": player});
    let events = json!([
        event("FR", "web", "ann"),
        event("FR", "web", "bo"),
        event("FR", "ios", "ann"),
        event("DE", "web", "ann"),
    ]);
    world.post(events.to_string());
    let totals = |query: Value| {
        let answer = world.query(&query).json();
        let series = answer["series"].as_array().expect("a list").clone();
        series.iter().map(|series| format!("{} {}", series["key"], series["total"])).collect::<Vec<_>>()
    };
    let base = json!({"metric": "hit", "last": "60m", "step": "all", "by": ["country"]});
    let with = |name: &str, value: Value| {
        let mut query = base.clone();
        query[name] = value;
        query
    };
    assert_eq!(
        totals(with("where", json!({"platform": ["web"]}))),
        [r#"{"country":"FR"} 2"#, r#"{"country":"DE"} 1"#]
    );
    assert_eq!(totals(with("measure", json!("uniques"))), [r#"{"country":"FR"} 2"#, r#"{"country":"DE"} 1"#]);
    assert_eq!(totals(with("top", json!(1))), [r#"{"country":"FR"} 3"#, r#"{"country":"(other)"} 1"#]);
}

#[test]
fn query_supports_get_and_csv() {
    let world = World::new();
    world.post(r#"[{"event":"hit","platform":"web"},{"event":"hit","platform":"ios"}]"#);
    let target = "/v1/query?metric=hit&last=60m&step=all&by=platform&where.platform=web";
    let answer = world.send(&Request::get(target).key(&world.secret_key).header("Accept", "text/csv"));
    let text = answer.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((answer.status, lines.len(), lines[0]), (200, 2, "time,platform,value"), "{text}");
    assert!(lines[1].ends_with(",web,1"), "{text}");
}

#[test]
fn invalid_query_field_is_named() {
    let world = World::new();
    for (query, field) in [
        (json!({"metric": "hit", "step": "eon"}), "step"),
        (json!({"metric": "hit", "tz": "Mars/Base"}), "tz"),
        (json!({"metric": "hit", "measure": "luck"}), "measure"),
        (json!({"metric": "hit", "by": ["shoe_size"]}), "by"),
        (json!({"metric": "hit", "where": {"shoe_size": ["9"]}}), "where.shoe_size"),
        (json!({"metric": "hit", "colour": "red"}), "colour"),
        (json!({"metrics": [{"as": "A", "metric": "hit"}], "formula": "A / "}), "formula"),
    ] {
        let answer = world.query(&query);
        assert_eq!((answer.status, answer.json()["field"].as_str()), (400, Some(field)), "{query}");
    }
}

#[test]
fn game_queries_only_its_own_data() {
    let world = World::new();
    world.post(r#"{"event":"hit"}"#);
    world.command(&["games", "create", "other", "--json"]).json();
    let created = world.command(&["keys", "create", "--game", "other", "--scopes", "query", "--json"]).json();
    let key = created["secret_key"].as_str().expect("a secret key");
    let request = Request::get("/v1/query?metric=hit&last=60m&step=all&game=demo").key(key);
    assert_eq!(world.send(&request).json()["series"][0]["total"], 0);
}

#[test]
fn verify_and_rebuild_derive_every_number_from_the_log() {
    let mut world = World::new();
    let events: Vec<Value> = (0..500)
        .map(|number| {
            json!({
                "event": (["start", "score", "$ping"][number % 3]), "player": format!("p{}", number % 40),
                "country": (["FR", "DE"][number % 2]), "level": (number % 9).to_string(), "value": number as f64 / 7.0,
                "ts": now_ms() - (number as i64 % 5) * 3_600_000,
            })
        })
        .collect();
    world.post(json!(events).to_string());
    let agrees = |world: &World| {
        let done = world.command(&["verify", "--json"]).json();
        assert!(done["compared"].as_u64().expect("a number") > 50, "{done}");
        done["agrees"].as_bool().expect("a yes or no")
    };
    assert!(agrees(&world));
    let rebuilt = world.command(&["rebuild", "--json"]).json();
    assert!(rebuilt["rows"].as_u64().expect("a number") > 50, "{rebuilt}");
    assert!(agrees(&world));
    world.kill9();
    assert!(agrees(&world));
    world.command(&["rebuild", "--json"]).json();
    world.start();
    assert!(agrees(&world));
    let answer = world.query(&json!({"metric": "events", "last": "24h", "step": "all"})).json();
    assert_eq!(answer["series"][0]["total"], 500);
}

/// Resident memory of the server in bytes.
fn resident_bytes(world: &mut World) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", world.pid().as_raw_nonzero()));
    let status = status.expect("the server runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

#[test]
fn window_into_the_far_future_takes_no_memory() {
    let mut world = World::new();
    world.post(r#"{"event":"hit","country":"FR"}"#);
    let query = |metric: &str| {
        let range = json!({"from": "1970-01-02T00:00:00Z", "to": "2199-01-01T00:00:00Z"});
        let mut query = json!({"metric": metric, "step": "month", "by": ["country"]});
        query.as_object_mut().expect("an object").extend(range.as_object().expect("an object").clone());
        query
    };
    assert_eq!(world.query(&query("hit")).json()["series"][0]["total"], 1);
    let before = resident_bytes(&mut world);
    for number in 0..10 {
        let answer = world.query(&query(&format!("other{number}")));
        assert_eq!((answer.status, &answer.json()["series"]), (200, &json!([])));
    }
    let grown = resident_bytes(&mut world).saturating_sub(before);
    assert!(grown < 64 << 20, "the server grew by {grown} bytes");
    assert_eq!(world.query(&query("hit")).json()["series"][0]["total"], 1);
}

#[test]
fn query_that_needs_too_much_memory_is_rejected() {
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(root.path().join("playmeter.toml"), "[queries]\nmemory_bytes_max = 16777216\n")
        .expect("a file");
    let world = World::on(root, &[]);
    world.post(r#"{"event":"hit"}"#);
    let query = |window: &str| json!({"metric": "hit", "step": "minute", "last": window});
    let answer = world.query(&query("600d"));
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(answer.text().contains("16 MiB"), "{}", answer.text());
    assert_eq!(world.query(&query("1d")).json()["series"][0]["total"], 1);
}

#[test]
fn more_queries_than_run_at_once_wait_for_their_turn() {
    let world = World::new();
    world.post(r#"{"event":"hit"}"#);
    std::thread::scope(|threads| {
        for _ in 0..20 {
            threads.spawn(|| {
                let answer = world.query(&json!({"metric": "hit", "last": "30d", "step": "hour"}));
                assert_eq!(answer.json()["series"][0]["total"], 1, "{}", answer.text());
            });
        }
    });
}
