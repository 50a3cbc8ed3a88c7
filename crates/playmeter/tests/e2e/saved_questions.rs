//! Saved questions and dashboards: checked when they are written, answered by id, and never overwritten by an old page.

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::world::World;

fn send(world: &World, method: &'static str, path: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    world.send(&Request::new(method, path).key(&world.secret_key).body(body))
}

fn get(world: &World, path: &str) -> Value {
    let answer = send(world, "GET", path, &Value::Null);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn question(kind: &str, request: &Value) -> Value {
    json!({"v": 1, "kind": kind, "request": request, "range": {"last": "24h"}})
}

fn play(world: &World) {
    let events = json!([
        {"event": "start", "player": "ann"}, {"event": "start", "player": "bo"}, {"event": "win", "player": "ann"},
    ]);
    assert_eq!(world.post(events.to_string()).summary(), "3 accepted");
}

#[test]
fn saved_question_of_every_kind_is_answered_like_its_route() {
    let mut world = World::new();
    play(&world);
    let steps = json!([{"event": "start"}, {"event": "win"}]);
    let kinds = [
        ("query", "/v1/query", json!({"metric": "start", "step": "all"})),
        ("explore", "/v1/explore", json!({"event": "start", "step": "all"})),
        ("funnel", "/v1/funnel", json!({"steps": steps})),
        ("retention", "/v1/retention", json!({"start": {"event": "start"}, "return": {"event": "start"}})),
        ("paths", "/v1/paths", json!({"event": "start"})),
        ("levels", "/v1/levels:outcomes", json!({})),
        ("heatmap", "/v1/levels:heatmap", json!({"map": "castle", "metric": "deaths"})),
    ];
    for (kind, _, request) in &kinds {
        let saved = json!({"name": kind, "question": question(kind, request)});
        let answer = send(&world, "PUT", &format!("/v1/questions/{kind}"), &saved);
        assert_eq!(answer.status, 201, "{kind}: {}", answer.text());
    }
    let without_time = |mut answer: Value| {
        let fields = answer.as_object_mut().expect("an object");
        ["as_of", "times", "from", "to"].iter().for_each(|name| drop(fields.remove(*name)));
        answer
    };
    let check = |world: &World| {
        for (kind, path, request) in &kinds {
            let mut asked = request.clone();
            asked["last"] = json!("24h");
            let direct = send(world, "POST", path, &asked).json();
            let saved = get(world, &format!("/v1/questions/{kind}/answer"));
            assert_eq!(without_time(saved), without_time(direct), "{kind}");
        }
    };
    check(&world);
    world.kill9();
    world.start();
    check(&world);
    let players = json!({"name": "Players", "question": question("players", &json!({"search": "an"}))});
    assert_eq!(send(&world, "PUT", "/v1/questions/players", &players).status, 201);
    assert_eq!(get(&world, "/v1/questions/players/answer")["found"], 1);
    let rows = send(&world, "GET", "/v1/questions/funnel/answer?format=csv", &Value::Null);
    assert_eq!(rows.text().lines().count(), 3, "{}", rows.text());
    let list = get(&world, "/v1/questions");
    assert_eq!(list["questions"].as_array().map(Vec::len), Some(8), "{list}");
    assert_eq!(list["questions"][0]["changed_by"], "server");
    assert_eq!(send(&world, "DELETE", "/v1/questions/paths", &Value::Null).status, 204);
    for path in ["/v1/questions/paths", "/v1/questions/paths/answer"] {
        assert_eq!(send(&world, "GET", path, &Value::Null).status, 404, "{path}");
    }
}

#[test]
fn invalid_question_is_not_saved_and_names_its_field() {
    let world = World::new();
    let explore = json!({"event": "start"});
    let mut newer = question("explore", &explore);
    newer["v"] = json!(2);
    let mut early = question("explore", &explore);
    early["range"] = json!({"from": "yesterday"});
    let mut step = question("explore", &explore);
    step["range"] = json!({"step": "day"});
    let mut compared = question("explore", &explore);
    compared["compare"] = json!("never");
    for (question, field) in [
        (newer, "question.v"),
        (early, "question.range.from"),
        (step, "question.range.step"),
        (compared, "question.compare"),
        (question("poem", &json!({})), "question.kind"),
        (question("explore", &json!({"event": "a", "nonsense": 1})), "question.request.nonsense"),
        (question("explore", &json!({"event": "a", "last": "1d"})), "question.request.last"),
        (question("query", &json!({"metric": "a", "measure": "wrong"})), "question.request.measure"),
        (question("funnel", &json!({"steps": []})), "question.request.steps"),
        (
            question("explore", &json!({"event": "a", "where": [{"cohort": "none"}]})),
            "question.request.where",
        ),
    ] {
        let answer = send(&world, "PUT", "/v1/questions/a", &json!({"name": "a", "question": question}));
        assert_eq!(
            (answer.status, &answer.json()["field"]),
            (400, &json!(field)),
            "{question}: {}",
            answer.text()
        );
    }
    let valid = question("explore", &explore);
    let unnamed = send(&world, "PUT", "/v1/questions/a", &json!({"name": "", "question": valid}));
    assert_eq!((unnamed.status, &unnamed.json()["field"]), (400, &json!("name")));
    let large = json!({"name": "a".repeat(201), "question": valid});
    assert_eq!(send(&world, "PUT", "/v1/questions/a", &large).status, 400);
    assert_eq!(get(&world, "/v1/questions")["questions"], json!([]));
}

fn dashboard(name: &str, tiles: usize) -> Value {
    let tile = |index: usize| json!({"x": 0, "y": index, "w": 6, "h": 1, "question": question("query", &json!({"metric": "plays"}))});
    json!({"name": name, "tiles": (0..tiles).map(tile).collect::<Vec<_>>()})
}

#[test]
fn dashboard_is_replaced_only_by_a_page_that_knows_its_version() {
    let mut world = World::new();
    let put = |world: &World, body: &Value| send(world, "PUT", "/v1/dashboards/home", body);
    let created = put(&world, &dashboard("Home", 1));
    assert_eq!((created.status, &created.json()["version"]), (201, &json!(1)), "{}", created.text());
    let at = |version: u64, name: &str| {
        let mut body = dashboard(name, 2);
        body["expected_version"] = json!(version);
        body
    };
    let mine = put(&world, &at(1, "Mine"));
    assert_eq!((mine.status, &mine.json()["version"]), (200, &json!(2)), "{}", mine.text());
    for late in [at(1, "Late"), dashboard("Blind", 1), at(0, "New"), at(7, "Future")] {
        let answer = put(&world, &late);
        assert_eq!((answer.status, &answer.json()["field"]), (409, &json!("expected_version")), "{late}");
    }
    world.kill9();
    world.start();
    let kept = get(&world, "/v1/dashboards/home");
    assert_eq!((&kept["name"], kept["tiles"].as_array().map(Vec::len)), (&json!("Mine"), Some(2)), "{kept}");
    let list = get(&world, "/v1/dashboards");
    assert_eq!(
        (&list["dashboards"][0]["id"], &list["dashboards"][0]["tiles"]),
        (&json!("home"), &Value::Null)
    );
    assert_eq!(send(&world, "DELETE", "/v1/dashboards/home", &Value::Null).status, 204);
    assert_eq!(put(&world, &dashboard("Again", 50)).status, 201);
}

#[test]
fn invalid_tile_names_its_field() {
    let world = World::new();
    for (field, value) in [("x", 12), ("w", 0), ("w", 13), ("h", 0), ("h", 101), ("y", 10_001)] {
        let mut body = dashboard("Home", 2);
        body["tiles"][1][field] = json!(value);
        let answer = send(&world, "PUT", "/v1/dashboards/home", &body);
        assert_eq!(
            (answer.status, &answer.json()["field"]),
            (400, &json!(format!("tiles[1].{field}"))),
            "{value}"
        );
    }
    let mut wrong = dashboard("Home", 1);
    wrong["tiles"][0]["question"]["request"]["step"] = json!("eon");
    let answer = send(&world, "PUT", "/v1/dashboards/home", &wrong);
    assert_eq!(answer.json()["field"], "tiles[0].question.request.step", "{}", answer.text());
    let many = send(&world, "PUT", "/v1/dashboards/home", &dashboard("Home", 51));
    assert_eq!((many.status, &many.json()["field"]), (400, &json!("tiles")));
}

#[test]
fn cohort_of_a_saved_question_cannot_be_deleted_and_erased_players_leave_questions() {
    let world = World::new();
    play(&world);
    let cohort = json!({"name": "winners", "condition": {"event": "win"}});
    assert_eq!(send(&world, "POST", "/v1/cohorts", &cohort).status, 201);
    let filter = json!([{"cohort": "winners"}, {"property": "player", "op": "in", "value": ["ann", "bo"]}]);
    let saved = json!({"name": "Wins", "question": question("explore", &json!({"event": "start", "step": "all", "where": filter}))});
    assert_eq!(send(&world, "PUT", "/v1/questions/wins", &saved).status, 201);
    assert_eq!(get(&world, "/v1/questions/wins/answer")["series"][0]["total"], 1);
    let refused = send(&world, "DELETE", "/v1/cohorts/winners", &Value::Null);
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert_eq!(get(&world, "/v1/cohorts/winners")["used_by"], json!([{"kind": "question", "name": "wins"}]));
    assert_eq!(send(&world, "DELETE", "/v1/players/ann", &Value::Null).status, 202);
    assert!(!get(&world, "/v1/questions/wins").to_string().contains("\"ann\""));
    assert_eq!(send(&world, "DELETE", "/v1/questions/wins", &Value::Null).status, 204);
    assert_eq!(send(&world, "DELETE", "/v1/cohorts/winners", &Value::Null).status, 204);
}
