//! Results of experiments: per variant, from raw events, with the assignment that players really got.

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::world::{World, now_ms};

const PLAYERS: usize = 3_000;

fn put(world: &World, name: &str, body: &Value) {
    let request =
        Request::new("PUT", format!("/v1/vars/{name}")).key(&world.secret_key).body(body.to_string());
    let answer = world.send(&request);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn results(world: &World, question: &Value) -> Answer {
    world.send(
        &Request::new("POST", "/v1/experiments:results").key(&world.secret_key).body(question.to_string()),
    )
}

fn half() -> Value {
    json!({"value": "red", "conditions": [{"name": "blue", "value": "blue", "percent": {"to": 50}}]})
}

/// The variant of a player, as the game gets it.
fn is_blue(world: &World, player: &str) -> bool {
    let vars = world.send(&Request::get(format!("/v1/vars?player={player}")).key(&world.public_key));
    vars.json()["button"] == "blue"
}

fn send(world: &World, events: &[Value]) {
    for batch in events.chunks(1_000) {
        let answer = world.post(json!(batch).to_string());
        assert_eq!(answer.summary(), format!("{} accepted", batch.len()));
    }
}

/// The variant of this name.
fn variant<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let variants = answer["variants"].as_array().expect("a list").iter();
    variants.clone().find(|variant| variant["name"] == name).unwrap_or_else(|| panic!("{name}: {answer}"))
}

#[test]
fn variants_are_compared_by_conversion_and_mean() {
    let mut world = World::new();
    put(&world, "button", &half());
    let known: Vec<bool> = (0..50).map(|player| is_blue(&world, &format!("p{player}"))).collect();
    let starts: Vec<Value> =
        (0..PLAYERS).map(|player| json!({"event": "start", "player": format!("p{player}")})).collect();
    send(&world, &starts);
    let query = json!({"metric": "start", "by": ["variant"], "step": "all", "last": "60m"});
    let counted = world.query(&query).json();
    let blue =
        counted["series"].as_array().expect("a list").iter().find(|it| it["key"]["variant"] == "button=blue");
    let blue = blue.expect("it was assigned")["total"].as_u64().expect("a number");
    let asked = json!({"variable": "button", "metric": {"event": "start"}});
    let all = results(&world, &asked).json();
    assert_eq!(variant(&all, "blue")["players"], blue, "the results count those whom ingest has assigned");
    assert_eq!(variant(&all, "(value)")["players"], PLAYERS as u64 - blue);
    // Of the first players, whose variant was loaded as a game does: the blue ones buy for 4, twice.
    let mut buys = Vec::new();
    for (player, blue) in known.iter().enumerate() {
        let buy = json!({"event": "buy", "player": format!("p{player}"), "props": {"price": 4}});
        buys.extend(std::iter::repeat_n(buy, if *blue { 2 } else { 0 }));
    }
    send(&world, &buys);
    let buyers = known.iter().filter(|blue| **blue).count() as f64;
    let check = |world: &World| {
        let asked = json!({"variable": "button", "metric": {"event": "buy", "measure": "conversion"}});
        let answer = results(world, &asked);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        let value = variant(&answer, "blue")["estimate"]["value"].as_f64().expect("a number");
        assert!((value - buyers / blue as f64).abs() < 1e-9, "{answer}");
        assert_eq!(variant(&answer, "(value)")["estimate"]["value"], 0.0, "{answer}");
        let difference = &variant(&answer, "blue")["difference"];
        let sequential = &difference["sequential"];
        let (low, high) =
            (sequential["low"].as_f64().expect("a number"), sequential["high"].as_f64().expect("a number"));
        assert!(
            low < value && value < high && sequential["p"].as_f64().is_some_and(|p| p < 0.05),
            "{answer}"
        );
        assert_eq!(variant(&answer, "(value)")["difference"], Value::Null);
        assert_eq!(
            (&answer["sample_ratio"]["is_mismatched"], &answer["mixed_players"]),
            (&json!(false), &json!(0))
        );
        let asked = json!({"variable": "button", "metric": {"event": "buy", "measure": "mean", "property": "props.price"}});
        let mean = results(world, &asked).json();
        let value = variant(&mean, "blue")["estimate"]["value"].as_f64().expect("a number");
        assert!((value - 8.0 * buyers / blue as f64).abs() < 1e-9, "{mean}");
    };
    check(&world);
    world.restart();
    check(&world);
    let rows = world.send(
        &Request::new("POST", "/v1/experiments:results?format=csv")
            .key(&world.secret_key)
            .body(asked.to_string()),
    );
    assert_eq!(rows.text().lines().count(), 3, "{}", rows.text());
}

#[test]
fn sample_ratio_mismatch_is_reported() {
    let world = World::new();
    put(&world, "button", &half());
    // Events of most red players are missing, as if the red variant crashed.
    let mut events = Vec::new();
    for player in 0..400 {
        let id = format!("p{player}");
        if is_blue(&world, &id) || player % 4 == 0 {
            events.push(json!({"event": "start", "player": id}));
        }
    }
    send(&world, &events);
    let answer = results(&world, &json!({"variable": "button", "metric": {"event": "start"}})).json();
    assert_eq!(answer["sample_ratio"]["is_mismatched"], true, "{answer}");
}

#[test]
fn experiments_are_listed_with_variants_and_the_time_of_their_assignment() {
    let world = World::new();
    put(&world, "speed", &json!({"value": 1}));
    put(&world, "button", &half());
    let list = |world: &World| {
        let answer = world.send(&Request::get("/v1/experiments").key(&world.secret_key));
        answer.json()["experiments"].clone()
    };
    let first = list(&world);
    assert_eq!(first.as_array().map(Vec::len), Some(1), "{first}");
    assert_eq!((&first[0]["variable"], &first[0]["state"]), (&json!("button"), &json!("running")));
    let shares: Vec<&Value> =
        first[0]["variants"].as_array().expect("a list").iter().map(|it| &it["planned_share"]).collect();
    assert!(
        shares.iter().all(|share| share.as_f64().is_some_and(|share| (share - 0.5).abs() < 1e-9)),
        "{first}"
    );
    let mut described = half();
    described["description"] = json!("Colour of the button");
    put(&world, "button", &described);
    assert_eq!(list(&world)[0]["since"], first[0]["since"], "a description changes no assignment");
    std::thread::sleep(std::time::Duration::from_millis(5));
    described["conditions"][0]["percent"]["to"] = json!(20);
    put(&world, "button", &described);
    let changed = list(&world);
    assert_ne!(changed[0]["since"], first[0]["since"], "{changed}");
    let asked = json!({"variable": "button", "metric": {"event": "win"}, "from": first[0]["since"]});
    let early = results(&world, &asked);
    assert_eq!((early.status, &early.json()["field"]), (400, &json!("from")), "{}", early.text());
}

#[test]
fn invalid_question_about_an_experiment_names_its_field() {
    let world = World::new();
    put(&world, "button", &half());
    put(&world, "speed", &json!({"value": 1}));
    for (question, status, field) in [
        (json!({"metric": {"event": "a"}}), 400, "variable"),
        (json!({"variable": "button"}), 400, "metric"),
        (json!({"variable": "button", "metric": {}}), 400, "metric.event"),
        (json!({"variable": "button", "metric": {"event": "a", "measure": "median"}}), 400, "metric.measure"),
        (
            json!({"variable": "button", "metric": {"event": "a", "property": "value"}}),
            400,
            "metric.property",
        ),
        (json!({"variable": "button", "metric": {"event": "a", "size": 1}}), 400, "metric.size"),
        (
            json!({"variable": "button", "metric": {"event": "a"}, "planned_players": 1}),
            400,
            "planned_players",
        ),
        (json!({"variable": "button", "metric": {"event": "a"}, "to": now_ms() - 86_400_000}), 400, "to"),
        (json!({"variable": "speed", "metric": {"event": "a"}}), 404, "variable"),
        (json!({"variable": "none", "metric": {"event": "a"}}), 404, "variable"),
    ] {
        let answer = results(&world, &question);
        assert_eq!(
            (answer.status, &answer.json()["field"]),
            (status, &json!(field)),
            "{question}: {}",
            answer.text()
        );
    }
}
