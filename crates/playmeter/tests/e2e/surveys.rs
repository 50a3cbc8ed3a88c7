//! Surveys end to end: created with a secret key, answered with the public one, visible in queries.

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::player::Session;
use crate::world::World;

const MOOD: &str = r#"{"title": "Mood", "questions": [
    {"key": "fun", "kind": "scale", "text": "How much fun?"},
    {"key": "best", "kind": "choice", "text": "The best letter?", "options": ["A", "B"]},
    {"key": "why", "kind": "text", "text": "Why?", "max": 20}]}"#;

fn put(world: &World, key: &str, body: &str) -> Answer {
    world.send(&Request::new("PUT", format!("/v1/surveys/{key}")).key(&world.secret_key).body(body))
}

fn answer(world: &World, key: &str, body: &str) -> Answer {
    let target = format!("/v1/surveys/{key}/answers");
    world.send(&Request::new("POST", target).key(&world.public_key).body(body))
}

fn due(world: &World, query: &str) -> Vec<Value> {
    let answer = world.send(&Request::get(format!("/v1/surveys?{query}")).key(&world.public_key)).json();
    let surveys = answer["surveys"].as_array().expect("a list").iter();
    surveys.map(|survey| survey["key"].clone()).collect()
}

fn results(world: &World, key: &str) -> Value {
    world.send(&Request::get(format!("/v1/surveys/{key}/results")).key(&world.secret_key)).json()
}

/// The series of a query over the last hour.
fn total(world: &World, query: Value) -> Value {
    let mut query = query;
    query["last"] = json!("60m");
    query["step"] = json!("all");
    world.query(&query).json()["series"].clone()
}

#[test]
fn survey_answer_counts_once() {
    let mut world = World::new();
    assert_eq!(put(&world, "mood", MOOD).status, 201);
    assert_eq!(put(&world, "mood", MOOD).status, 200);
    assert_eq!(due(&world, "player=bo"), ["mood"]);
    let body = r#"{"player": "bo", "answers": {"fun": 4, "best": "B", "why": "so"}}"#;
    let first = answer(&world, "mood", body);
    assert_eq!((first.status, &first.json()["player"]), (201, &json!("bo")));
    assert_eq!(due(&world, "player=bo"), Vec::<Value>::new());
    assert_eq!(answer(&world, "mood", body).summary(), "409 conflict");
    assert_eq!(answer(&world, "mood", r#"{"player": "cy", "answers": {"fun": 1}}"#).status, 201);
    for kill in [true, false] {
        if kill {
            world.kill9();
        } else {
            world.stop();
        }
        world.start();
        assert_eq!(answer(&world, "mood", body).summary(), "409 conflict");
        let results = results(&world, "mood");
        assert_eq!((&results["answers"], &results["questions"][0]["mean"]), (&json!(2), &json!(2.5)));
        assert_eq!(results["questions"][1]["options"][1], json!({ "option": "B", "count": 1 }));
        assert_eq!(results["questions"][2]["texts"][0]["text"], "so");
        let fun = total(&world, json!({ "metric": "survey.mood.fun" }));
        assert_eq!(fun[0]["total"], 2, "{fun}");
        let mean = total(&world, json!({ "metric": "survey.mood.fun", "measure": "avg" }));
        assert_eq!(mean[0]["total"], 2.5, "{mean}");
        let best = total(&world, json!({ "metric": "survey.mood.best", "by": ["level"] }));
        assert_eq!((&best[0]["key"]["level"], &best[0]["total"]), (&json!("B"), &json!(1)), "{best}");
    }
}

#[test]
fn answer_sent_again_with_another_key_counts_once() {
    let world = World::new();
    put(&world, "mood", MOOD);
    let body = r#"{"player": "bo", "answers": {"fun": 4}}"#;
    assert_eq!(answer(&world, "mood", body).status, 201);
    let secret = Request::new("POST", "/v1/surveys/mood/answers").key(&world.secret_key).body(body);
    assert_eq!(world.send(&secret).summary(), "409 conflict");
    assert_eq!(total(&world, json!({ "metric": "survey.mood.fun" }))[0]["total"], 1);
}

#[test]
fn invalid_field_is_named() {
    let world = World::new();
    put(&world, "mood", MOOD);
    let summary = |body: &str| answer(&world, "mood", body).summary();
    assert_eq!(summary(r#"{"answers": {"fun": 1}}"#), "400 invalid_field (player)");
    assert_eq!(summary(r#"{"player": "null", "answers": {"fun": 1}}"#), "400 invalid_field (player)");
    assert_eq!(summary(r#"{"player": "bo", "answers": {}}"#), "400 invalid_field (answers)");
    assert_eq!(summary(r#"{"player": "bo", "answers": {"fun": 6}}"#), "400 invalid_field (answers.fun)");
    assert_eq!(
        summary(r#"{"player": "bo", "answers": {"fun": 1, "best": 1}}"#),
        "400 invalid_field (answers.best)"
    );
    assert_eq!(
        summary(r#"{"player": "bo", "answers": {"fun": 1, "x": 1}}"#),
        "400 invalid_field (answers.x)"
    );
    assert_eq!(summary(r#"{"player": "bo", "answers": {"fun": 1}, "at": 1}"#), "400 invalid_field (at)");
    assert_eq!(
        answer(&world, "none", r#"{"player": "bo", "answers": {"fun": 1}}"#).summary(),
        "404 not_found (key)"
    );
    let summary = |body: &str| put(&world, "other", body).summary();
    assert_eq!(summary("{}"), "400 invalid_field (title)");
    assert_eq!(summary(r#"{"title": "", "questions": []}"#), "400 invalid_field (questions)");
    let one = |question: &str| summary(&format!(r#"{{"title": "", "questions": [{question}]}}"#));
    assert_eq!(one(r#"{"key": "a", "kind": "dance", "text": ""}"#), "400 invalid_field (questions[0].kind)");
    assert_eq!(
        one(r#"{"key": "a", "kind": "choice", "text": ""}"#),
        "400 invalid_field (questions[0].options)"
    );
    assert_eq!(
        one(r#"{"key": "a", "kind": "text", "text": "", "x": 1}"#),
        "400 invalid_field (questions[0].x)"
    );
    let get = |target: &str| world.send(&Request::get(target).key(&world.public_key)).summary();
    assert_eq!(get("/v1/surveys"), "400 invalid_field (player)");
    assert_eq!(get("/v1/surveys?player=bo&country=FR"), "400 invalid_field (country)");
    assert_eq!(get("/v1/surveys?x=1"), "400 invalid_field (x)");
    assert_eq!(get("/v1/surveys/mood/results"), "403 scope");
}

#[test]
fn survey_is_shown_to_its_audience_and_owners_list_all() {
    let world = World::new();
    put(&world, "mood", MOOD);
    let question = r#""questions": [{"key": "q", "kind": "scale", "text": ""}]"#;
    put(&world, "payers", &format!(r#"{{"title": "", {question}, "audience": {{"segment": ["payers"]}}}}"#));
    put(&world, "over", &format!(r#"{{"title": "", {question}, "ends_at": "2020-01-01T00:00:00Z"}}"#));
    assert_eq!(due(&world, "player=bo"), ["mood"]);
    assert_eq!(due(&world, "player=bo&segment=new,payers"), ["mood", "payers"]);
    let over = answer(&world, "over", r#"{"player": "bo", "answers": {"q": 1}}"#);
    assert_eq!(over.summary(), "404 not_found (key)");
    let secret = |method, target: &str| world.send(&Request::new(method, target).key(&world.secret_key));
    let all = secret("GET", "/v1/surveys").json();
    assert_eq!(all["surveys"].as_array().map(Vec::len), Some(3));
    assert_eq!(all["surveys"][2]["audience"], json!({ "segment": ["payers"] }));
    assert_eq!(secret("DELETE", "/v1/surveys/payers").status, 204);
    assert_eq!(secret("DELETE", "/v1/surveys/payers").summary(), "404 not_found (key)");
    assert_eq!(secret("GET", "/v1/surveys/payers/results").summary(), "404 not_found (key)");
}

#[test]
fn signed_answer_is_accepted_only_for_its_own_player() {
    let world = World::new();
    put(&world, "mood", MOOD);
    let session = Session::open(&world, "bo");
    let signed = |player: &str| {
        let body = format!(r#"{{"player": "{player}", "answers": {{"fun": 1}}}}"#);
        world.send(&session.signed("POST", "/v1/surveys/mood/answers", &body))
    };
    assert_eq!(signed("cy").summary(), "403 scope (player)");
    assert_eq!(signed("bo").status, 201);
}
