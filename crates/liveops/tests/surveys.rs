//! Surveys as developers, players and readers of results use them.

mod world;

use std::collections::BTreeMap;

use expect_test::expect;

use liveops::surveys::{SurveyCommand, TEXTS_MAX};
use liveops::vars::VarsViewer;
use liveops::{Caller, CommandResponse, Refusal};
use serde_json::{Value, json};
use world::{Dice, World};

const NOW: i64 = 1_800_000_000_000;

const MOOD: &str = r#"{"title": "Mood", "questions": [
    {"key": "best", "kind": "choice", "text": "The best letter?", "options": ["A", "B", "C"]},
    {"key": "fun", "kind": "scale", "text": "How much fun?", "min": 0, "max": 4},
    {"key": "why", "kind": "text", "text": "Why?", "max": 20}]}"#;

fn put(world: &mut World, key: &str, json: &str) -> Result<CommandResponse, Refusal> {
    let definition = serde_json::from_str(json).expect("the test gives a survey");
    world.send(liveops::Command::Surveys(SurveyCommand::Put { key: key.into(), definition }))
}

fn answer(world: &mut World, player: &str, json: &str) -> Result<CommandResponse, Refusal> {
    answer_to(world, "mood", player, json)
}

fn answer_to(world: &mut World, key: &str, player: &str, json: &str) -> Result<CommandResponse, Refusal> {
    let answers = serde_json::from_str(json).expect("the test gives answers");
    let command = SurveyCommand::Answer { key: key.into(), player: player.into(), answers };
    world.send_as(Caller::Public, liveops::Command::Surveys(command))
}

fn describe(outcome: Result<CommandResponse, Refusal>) -> String {
    match outcome {
        Ok(answer) => format!("{} {}", answer.status, answer.json),
        Err(Refusal { kind, field, detail }) => {
            format!("{kind:?} ({}): {detail}", field.unwrap_or_default())
        }
    }
}

fn results(world: &World, key: &str) -> Value {
    world.read(|game| game.surveys.results(key)).expect("there is such a survey")
}

fn due(world: &World, viewer: &VarsViewer) -> Vec<String> {
    let due = world.read(|game| game.surveys.due(viewer, world.now_ms));
    let surveys = due.as_array().expect("it is a list").iter();
    surveys.map(|survey| survey["key"].as_str().expect("it has a key").to_owned()).collect()
}

fn player(id: &str) -> VarsViewer {
    VarsViewer { player: id.into(), ..VarsViewer::default() }
}

#[test]
fn results_count_every_answer_once() {
    let mut world = World::new(NOW);
    put(&mut world, "mood", MOOD).unwrap();
    for (player, json) in [
        ("ann", r#"{"best": "A", "fun": 4, "why": "letters"}"#),
        ("bob", r#"{"best": "A", "fun": 1}"#),
        ("eve", r#"{"best": "C", "why": "no \"A\""}"#),
    ] {
        world.now_ms += 1_000;
        answer(&mut world, player, json).unwrap();
    }
    let again = answer(&mut world, "ann", r#"{"best": "B"}"#);
    expect!["Conflict (): this player has already answered this survey"].assert_eq(&describe(again));
    for _ in 0..2 {
        expect![[r#"
            {
              "answers": 3,
              "key": "mood",
              "questions": [
                {
                  "count": 3,
                  "key": "best",
                  "kind": "choice",
                  "options": [
                    {
                      "count": 2,
                      "option": "A"
                    },
                    {
                      "count": 0,
                      "option": "B"
                    },
                    {
                      "count": 1,
                      "option": "C"
                    }
                  ],
                  "text": "The best letter?"
                },
                {
                  "count": 2,
                  "counts": [
                    {
                      "count": 0,
                      "value": 0
                    },
                    {
                      "count": 1,
                      "value": 1
                    },
                    {
                      "count": 0,
                      "value": 2
                    },
                    {
                      "count": 0,
                      "value": 3
                    },
                    {
                      "count": 1,
                      "value": 4
                    }
                  ],
                  "key": "fun",
                  "kind": "scale",
                  "mean": 2.5,
                  "text": "How much fun?"
                },
                {
                  "count": 2,
                  "key": "why",
                  "kind": "text",
                  "text": "Why?",
                  "texts": [
                    {
                      "at": "2027-01-15T08:00:03.000Z",
                      "player": "eve",
                      "text": "no \"A\""
                    },
                    {
                      "at": "2027-01-15T08:00:01.000Z",
                      "player": "ann",
                      "text": "letters"
                    }
                  ]
                }
              ],
              "title": "Mood"
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&results(&world, "mood")).unwrap());
        world.checkpoint();
        world.restart();
    }
}

#[test]
fn survey_is_due_until_it_is_answered() {
    let mut world = World::new(NOW);
    put(&mut world, "mood", MOOD).unwrap();
    let time = |ms: i64| liveops::vars::TimestampMs::from_ms(NOW + ms);
    let question = r#""questions": [{"key": "q", "kind": "scale", "text": ""}]"#;
    let later = format!(
        r#"{{"title": "", {question}, "starts_at": "{}", "ends_at": "{}"}}"#,
        time(1_000),
        time(2_000)
    );
    put(&mut world, "later", &later).unwrap();
    let french = format!(
        r#"{{"title": "", {question}, "audience": {{"country": ["FR"], "segment": ["new", "payers"]}}}}"#
    );
    put(&mut world, "french", &french).unwrap();
    let payer = VarsViewer { country: "FR".into(), segments: vec!["payers".into()], ..player("eve") };
    assert_eq!(due(&world, &player("ann")), ["mood"]);
    assert_eq!(due(&world, &payer), ["french", "mood"]);
    assert_eq!(
        describe(answer_to(&mut world, "later", "ann", r#"{"q": 1}"#)),
        "NotFound (key): the survey `later` is not open"
    );
    answer(&mut world, "ann", r#"{"fun": 1}"#).unwrap();
    world.now_ms += 1_000;
    assert_eq!(due(&world, &player("ann")), ["later"]);
    answer_to(&mut world, "later", "ann", r#"{"q": 1}"#).unwrap();
    assert!(due(&world, &player("ann")).is_empty());
    world.now_ms += 1_000;
    assert_eq!(due(&world, &player("bob")), ["mood"]);
}

#[test]
fn refusal_names_the_invalid_answer() {
    let mut world = World::new(NOW);
    put(&mut world, "mood", MOOD).unwrap();
    let mut check = |json: &str, expected: &str| {
        assert_eq!(describe(answer(&mut world, "ann", json)), format!("Invalid ({expected}"), "{json}");
    };
    check("{}", "answers): must have at least one entry");
    check(r#"{"worst": "A"}"#, "answers.worst): there is no such question");
    check(r#"{"best": "D"}"#, "answers.best): must be one of the question's options");
    check(r#"{"best": 1}"#, "answers.best): must be a string");
    check(r#"{"best": "A", "fun": 5}"#, "answers.fun): must be a whole number from 0 to 4");
    check(r#"{"fun": 1.5}"#, "answers.fun): must be a whole number from 0 to 4");
    check(r#"{"fun": "1"}"#, "answers.fun): must be a number");
    let length = "must have 1 to 20 characters and no control characters";
    check(r#"{"why": ""}"#, &format!("answers.why): {length}"));
    check(r#"{"why": "123456789012345678901"}"#, &format!("answers.why): {length}"));
    check(r#"{"why": "a\u0000b"}"#, &format!("answers.why): {length}"));
    assert!(describe(answer(&mut world, "null", r#"{"fun": 1}"#)).starts_with("Invalid (player)"));
    let nothing = answer_to(&mut world, "nothing", "ann", r#"{"fun": 1}"#);
    assert_eq!(describe(nothing), "NotFound (key): there is no survey `nothing`");
    assert_eq!(results(&world, "mood")["answers"], 0);
    assert!(answer(&mut world, "ann", r#"{"best": "B", "fun": 4.0, "why": "äöü\n"}"#).is_ok());
}

#[test]
fn refusal_names_the_invalid_field_of_a_survey() {
    let mut world = World::new(NOW);
    let mut check = |json: Value, field: &str| {
        let refusal = put(&mut world, "s", &json.to_string()).expect_err(field);
        assert_eq!(refusal.field.as_deref(), Some(field), "{json}");
    };
    let one = |question: Value| json!({ "title": "t", "questions": [question] });
    let scale = json!({ "key": "q", "kind": "scale", "text": "" });
    check(json!({ "title": "t", "questions": [] }), "questions");
    check(json!({ "title": "t", "questions": vec![scale.clone(); 31] }), "questions");
    check(json!({ "title": "t", "questions": [scale, scale] }), "questions[1].key");
    check(json!({ "title": "t".repeat(201), "questions": [scale] }), "title");
    check(
        json!({ "title": "t", "questions": [scale], "audience": { "country": ["fr"] } }),
        "audience.country",
    );
    check(one(json!({ "key": "a b", "kind": "scale", "text": "" })), "questions[0].key");
    check(one(json!({ "key": "q", "kind": "scale", "text": "t".repeat(501) })), "questions[0].text");
    check(one(json!({ "key": "q", "kind": "scale", "text": "", "min": 5 })), "questions[0].max");
    check(one(json!({ "key": "q", "kind": "scale", "text": "", "min": 0, "max": 101 })), "questions[0].max");
    check(one(json!({ "key": "q", "kind": "scale", "text": "", "min": -1001 })), "questions[0].min");
    check(one(json!({ "key": "q", "kind": "scale", "text": "", "options": ["a"] })), "questions[0].options");
    check(one(json!({ "key": "q", "kind": "text", "text": "", "max": 2001 })), "questions[0].max");
    check(one(json!({ "key": "q", "kind": "choice", "text": "" })), "questions[0].options");
    check(one(json!({ "key": "q", "kind": "choice", "text": "", "options": ["a"] })), "questions[0].options");
    check(
        one(json!({ "key": "q", "kind": "choice", "text": "", "options": ["a", "a"] })),
        "questions[0].options[1]",
    );
    check(
        one(json!({ "key": "q", "kind": "choice", "text": "", "options": ["a", "b"], "max": 1 })),
        "questions[0].max",
    );
    let long = "k".repeat(100);
    let question = one(json!({ "key": long, "kind": "scale", "text": "" })).to_string();
    let refusal = put(&mut world, &long, &question).unwrap_err();
    assert_eq!(refusal.field.as_deref(), Some("questions[0].key"), "its events' name is too long");
}

#[test]
fn survey_with_responses_can_only_be_extended() {
    let mut world = World::new(NOW);
    let with = |questions: Value| json!({ "title": "t", "questions": questions }).to_string();
    let choice = |options: &[&str]| json!({ "key": "q", "kind": "choice", "text": "", "options": options });
    let scale = json!({ "key": "r", "kind": "scale", "text": "" });
    put(&mut world, "mood", &with(json!([scale, choice(&["a", "b"])]))).unwrap();
    put(&mut world, "mood", &with(json!([choice(&["a", "b"])]))).unwrap();
    answer(&mut world, "ann", r#"{"q": "b"}"#).unwrap();
    for other in [json!([scale]), json!([choice(&["b", "a"])]), json!([scale, choice(&["a", "b"])])] {
        let refusal = put(&mut world, "mood", &with(other)).unwrap_err();
        assert_eq!(
            (refusal.kind, refusal.field.as_deref()),
            (liveops::RefusalKind::Conflict, Some("questions"))
        );
    }
    put(&mut world, "mood", &with(json!([choice(&["a", "b", "c"]), scale]))).unwrap();
    answer(&mut world, "bob", r#"{"q": "c", "r": 5}"#).unwrap();
    world.checkpoint();
    world.restart();
    let results = results(&world, "mood");
    assert_eq!(results["questions"][0]["options"][1], json!({ "option": "b", "count": 1 }));
    assert_eq!(results["questions"][1]["mean"], 5.0);
}

#[test]
fn events_of_answers_have_stable_ids() {
    let mut world = World::new(NOW);
    put(&mut world, "mood", MOOD).unwrap();
    answer(&mut world, "ann", r#"{"why": "so", "fun": 3, "best": "B"}"#).unwrap();
    answer(&mut world, "bob", r#"{"fun": 3}"#).unwrap();
    let events = |world: &World, player: &str| world.read(|game| game.surveys.events("mood", player));
    let of_ann = events(&world, "ann");
    let brief: Vec<_> =
        of_ann.iter().map(|it| (it.name.as_str(), it.value, it.option.as_deref(), it.ts_ms)).collect();
    let expected = [
        ("survey.mood.best", None, Some("B"), NOW),
        ("survey.mood.fun", Some(3.0), None, NOW),
        ("survey.mood.why", None, None, NOW),
    ];
    assert_eq!(brief, expected);
    assert!(of_ann.iter().all(|event| event.id != events(&world, "bob")[0].id));
    world.checkpoint();
    world.restart();
    assert_eq!(events(&world, "ann"), of_ann);
    world.send(liveops::Command::Surveys(SurveyCommand::Delete { key: "mood".into() })).unwrap();
    assert!(events(&world, "ann").is_empty());
    world.now_ms += 1;
    put(&mut world, "mood", MOOD).unwrap();
    answer(&mut world, "ann", r#"{"fun": 3}"#).unwrap();
    assert_ne!(events(&world, "ann")[0].id, of_ann[1].id, "this is another survey");
}

#[test]
fn removed_survey_leaves_no_records() {
    let mut world = World::new(NOW);
    put(&mut world, "mood", MOOD).unwrap();
    answer(&mut world, "ann", r#"{"why": "canary-1"}"#).unwrap();
    answer(&mut world, "canary-2", r#"{"fun": 1}"#).unwrap();
    world.checkpoint();
    let has =
        |world: &World, text: &str| world.bytes().windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(has(&world, "canary-1") && has(&world, "canary-2"));
    world.send(liveops::Command::Surveys(SurveyCommand::Delete { key: "mood".into() })).unwrap();
    world.checkpoint();
    assert!(!has(&world, "canary-1") && !has(&world, "canary-2"));
    world.restart();
    assert_eq!(world.read(|game| game.surveys.all()), json!([]));
}

#[test]
fn erasure_removes_responses_from_results() {
    let mut world = World::new(NOW);
    put(&mut world, "mood", MOOD).unwrap();
    answer(&mut world, "ann", r#"{"best": "A", "fun": 4, "why": "letters"}"#).unwrap();
    let before = results(&world, "mood");
    answer(&mut world, "canary", r#"{"best": "B", "fun": 0, "why": "canary"}"#).unwrap();
    world.checkpoint();
    let export = world.read(|game| game.surveys.export_player("canary"));
    expect![[
        r#"[{"answers":{"best":"B","fun":0,"why":"canary"},"at":"2027-01-15T08:00:00.000Z","survey":"mood"}]"#
    ]]
    .assert_eq(&export.to_string());
    world.write(|game| game.surveys.erase_player("canary"));
    assert_eq!(results(&world, "mood"), before);
    assert_eq!(world.read(|game| game.surveys.export_player("canary")), json!([]));
    world.checkpoint();
    assert!(!world.bytes().windows(6).any(|bytes| bytes == b"canary"));
    world.restart();
    assert_eq!(results(&world, "mood"), before);
    assert_eq!(due(&world, &player("canary")), ["mood"]);
}

#[test]
fn older_text_is_shown_when_a_shown_one_is_erased() {
    let mut world = World::new(NOW);
    put(&mut world, "mood", MOOD).unwrap();
    let texts = |world: &World| {
        let texts = results(world, "mood")["questions"][2]["texts"].as_array().cloned();
        texts.expect("it is a list").iter().map(|text| text["text"].clone()).collect::<Vec<_>>()
    };
    let count = TEXTS_MAX + 5;
    for n in 0..count {
        world.now_ms += 1;
        answer(&mut world, &format!("p{n}"), &format!(r#"{{"why": "{n}"}}"#)).unwrap();
    }
    let shown =
        |newest: usize| (0..=newest).rev().take(TEXTS_MAX).map(|n| json!(n.to_string())).collect::<Vec<_>>();
    assert_eq!(texts(&world), shown(count - 1));
    world.write(|game| game.surveys.erase_player(&format!("p{}", count - 1)));
    assert_eq!(texts(&world), shown(count - 2));
    world.checkpoint();
    world.restart();
    assert_eq!(texts(&world), shown(count - 2));
}

/// By survey and player, the chosen option and the step on the scale.
type Model = BTreeMap<(String, String), (Option<u64>, Option<u64>)>;

#[test]
fn ten_thousand_random_steps_agree_with_a_naive_model() {
    let (mut dice, mut world) = (Dice(2), World::new(NOW));
    let mut model = Model::new();
    let mut keys: Vec<String> = Vec::new();
    for number in 0..10_000 {
        let (key, player) = (format!("s{}", dice.roll(4)), format!("p{}", dice.roll(400)));
        match dice.roll(200) {
            0 => {
                let outcome =
                    world.send(liveops::Command::Surveys(SurveyCommand::Delete { key: key.clone() }));
                assert_eq!(outcome.is_ok(), keys.contains(&key), "step {number}");
                keys.retain(|other| *other != key);
                model.retain(|(survey, _), _| *survey != key);
            }
            1..5 => {
                assert!(put(&mut world, &key, MOOD).is_ok());
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
            5..10 => {
                world.write(|game| game.surveys.erase_player(&player));
                model.retain(|(_, other), _| *other != player);
                // In the product this is a command; this log does not contain it.
                world.checkpoint();
            }
            10..14 => world.checkpoint(),
            14..16 => world.restart(),
            _ => {
                let best = dice.once_in(2).then(|| dice.roll(4));
                let fun = (best.is_none() || dice.once_in(2)).then(|| dice.roll(5));
                let mut answers = json!({});
                if let Some(best) = best {
                    answers["best"] = ["A", "B", "C", "wrong"][best as usize].into();
                }
                if let Some(fun) = fun {
                    answers["fun"] = fun.into();
                }
                let slot = (key.clone(), player.clone());
                let fits = keys.contains(&key) && !model.contains_key(&slot) && best != Some(3);
                let outcome = answer_to(&mut world, &key, &player, &answers.to_string());
                assert_eq!(outcome.is_ok(), fits, "step {number}: {outcome:?}");
                if fits {
                    model.insert(slot, (best, fun));
                }
            }
        }
        if number % 20 == 0 {
            keys.iter().for_each(|key| compare(&world, &model, key));
        }
    }
}

fn compare(world: &World, model: &Model, key: &str) {
    let answers: Vec<_> =
        model.iter().filter(|((survey, _), _)| survey == key).map(|(_, answers)| answers).collect();
    let results = results(world, key);
    assert_eq!(results["answers"], answers.len());
    for option in 0..3 {
        let count = answers.iter().filter(|(best, _)| *best == Some(option)).count();
        assert_eq!(results["questions"][0]["options"][option as usize]["count"], count);
    }
    let fun: Vec<u64> = answers.iter().filter_map(|(_, fun)| *fun).collect();
    let mean = (!fun.is_empty()).then(|| fun.iter().sum::<u64>() as f64 / fun.len() as f64);
    assert_eq!(results["questions"][1]["mean"], json!(mean));
}
