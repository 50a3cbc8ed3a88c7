//! Lists and queries as flat rows, and request bodies and parameters at their bounds.

use serde_json::{Value, json};

use crate::client::Request;
use crate::world::World;

fn get(world: &World, target: &str) -> crate::client::Answer {
    world.send(&Request::get(target).key(&world.secret_key))
}

#[test]
fn query_is_answered_as_rows() {
    let world = World::new();
    world.post(
        r#"[{"event":"hit","level":"=1+1","value":-2},{"event":"hit","level":"cave"},{"event":"hit","level":"cave"}]"#,
    );
    let query = "/v1/query?metric=hit&last=60m&step=all&by=level";
    let csv = get(&world, &format!("{query}&format=csv"));
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(csv.header("content-disposition"), Some("attachment; filename=\"query.csv\""));
    let text = csv.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "time,level,value");
    assert!(lines[1].ends_with("Z,cave,2") || lines[1].ends_with(",cave,2"), "{text}");
    assert!(lines[2].ends_with(",'=1+1,1"), "{text}");
    let ndjson = get(&world, &format!("{query}&format=ndjson"));
    assert_eq!(ndjson.header("content-type"), Some("application/x-ndjson"));
    let rows: Vec<Value> =
        ndjson.text().lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect();
    assert_eq!((&rows[0]["level"], &rows[0]["value"]), (&json!("cave"), &json!(2)));
    assert_eq!((&rows[1]["level"], &rows[1]["value"]), (&json!("=1+1"), &json!(1)));
    assert!(rows[0]["time"].is_string());
    // A number stays one.
    let sum = get(&world, "/v1/query?metric=hit&measure=sum&last=60m&step=all&format=csv").text();
    assert!(sum.trim_end().ends_with(",-2"), "{sum}");
    let body = json!({"metric": "hit", "last": "60m", "step": "all"}).to_string();
    let posted = Request::new("POST", "/v1/query?format=ndjson").key(&world.secret_key).body(body);
    assert_eq!(world.send(&posted).json()["value"], 3);
    let answer = get(&world, "/v1/query?metric=hit&format=xml");
    assert_eq!((answer.status, &answer.json()["field"]), (400, &json!("format")));
}

#[test]
fn lists_are_answered_as_rows() {
    let world = World::new();
    for (player, score) in [("=cmd", 3), ("bo", -5)] {
        let body = json!({"player": player, "name": player, "score": score, "fields": {"car": "red"}});
        let score = Request::new("POST", "/v1/boards/race/scores").key(&world.secret_key);
        assert_eq!(world.send(&score.body(body.to_string())).status, 200);
    }
    let csv = get(&world, "/v1/boards/race/scores?format=csv&per_page=10");
    assert_eq!(csv.header("content-disposition"), Some("attachment; filename=\"scores.csv\""));
    let text = csv.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].contains("fields.car") && lines[1].contains(",'=cmd,"), "{text}");
    assert!(lines[2].contains(",-5,"), "{text}");
    let rows = get(&world, "/v1/boards/race/scores?format=ndjson").text();
    let players: Vec<Value> = rows
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["player"].clone())
        .collect();
    assert_eq!(players, ["=cmd", "bo"]);
    for list in ["/v1/boards", "/v1/levels", "/v1/flows", "/v1/dimensions", "/v1/collectors", "/v1/surveys"] {
        let answer = get(&world, &format!("{list}?format=ndjson"));
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("application/x-ndjson")),
            "{list}"
        );
    }
    // An error stays a problem document.
    assert_eq!(get(&world, "/v1/boards/none/scores?format=csv").status, 404);
    assert_eq!(get(&world, "/v1/levels?format=xls").json()["field"], "format");
}

#[test]
fn empty_json_body_is_accepted_where_none_is_needed() {
    let world = World::new();
    let put = Request::new("PUT", "/v1/boards/race").key(&world.secret_key);
    assert_eq!(world.send(&put.body("{}")).status, 201);
    let reset = |body: &str| {
        let reset = Request::new("POST", "/v1/boards/race/reset").key(&world.secret_key);
        world.send(&reset.header("Content-Type", "application/json").body(body))
    };
    for body in ["", "{}", " { } \n"] {
        assert_eq!(reset(body).status, 200, "{body}");
    }
    let answer = reset(r#"{"season": 4}"#);
    assert_eq!((answer.status, &answer.json()["field"]), (400, &json!("season")));
    assert_eq!(reset("[1]").status, 400);
    assert_eq!(reset(&" ".repeat(2_000)).status, 413);
}

#[test]
fn pages_and_flags_are_bounded_as_documented() {
    let world = World::new();
    let put = Request::new("PUT", "/v1/boards/race").key(&world.secret_key);
    world.send(&put.body("{}"));
    for (target, field) in [
        ("/v1/boards/race/scores?page=0", "page"),
        ("/v1/boards/race/scores?page=1000001", "page"),
        ("/v1/levels?page=1000001", "page"),
        ("/v1/levels?per_page=1001", "per_page"),
        ("/v1/levels?data=2", "data"),
        ("/v1/levels?thumbs=no", "thumbs"),
        ("/v1/moderation?page=1000001", "page"),
        ("/v1/flows?page=10001", "page"),
        ("/v1/watch?online=yes", "online"),
        ("/v1/watch?vars=2", "vars"),
        ("/v1/watch?board=race&newest=x", "newest"),
    ] {
        let answer = get(&world, target);
        assert_eq!((answer.status, &answer.json()["field"]), (400, &json!(field)), "{target}");
    }
    for target in ["/v1/boards/race/scores?page=1000000", "/v1/levels?page=1000000&data=true&thumbs=0"] {
        assert_eq!(get(&world, target).status, 200, "{target}");
    }
}

#[test]
fn samples_without_a_tag_are_a_row_of_their_own() {
    let world = World::new();
    let write = |lines: &str| {
        let points = Request::new("POST", "/v1/agent/readings").key(&world.secret_key);
        let answer = world.send(&points.header("Content-Type", "text/plain").body(lines));
        assert_eq!(answer.status, 204, "{}", answer.text());
    };
    write(
        "host.disk,host=web-1,host_part=web-1/sda value=3\nhost.disk,host=web-1 value=4\nhost.disk value=5\n",
    );
    let count = |by: &str| {
        let query =
            json!({"metric": "host.disk", "measure": "count", "last": "60m", "step": "all", "by": [by]});
        let answer = world.query(&query).json();
        let series = answer["series"].as_array().expect("a list").clone();
        let total = |series: &Value| (series["key"][by].clone(), series["total"].clone());
        let mut rows: Vec<_> =
            series.iter().map(total).map(|(key, total)| format!("{key} {total}")).collect();
        rows.sort();
        rows.join(", ")
    };
    assert_eq!(count("host"), r#""(none)" 1, "web-1" 2"#);
    assert_eq!(count("host_part"), r#""(none)" 2, "web-1/sda" 1"#);
}
