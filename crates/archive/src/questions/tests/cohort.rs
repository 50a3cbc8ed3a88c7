//! Cohorts, compared with straightforward code.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::cohort::CohortDefinition;
use super::super::players::PlayerSet;
use super::world::{GAME, TestEvent, World, conditions, hash, world, worlds};

fn since<'e>(world: &World, events: &[&'e TestEvent], days: &Json) -> Vec<&'e TestEvent> {
    let from = world.window.end - days.as_i64().unwrap_or(30) * 86_400_000;
    events.iter().copied().filter(|event| (from..=world.window.end).contains(&event.time)).collect()
}

fn holds(world: &World, rule: &Json, events: &[&TestEvent]) -> bool {
    if let Some(rules) = rule["and"].as_array() {
        return rules.iter().all(|rule| holds(world, rule, events));
    }
    if let Some(rules) = rule["or"].as_array() {
        return rules.iter().any(|rule| holds(world, rule, events));
    }
    if let Some(rule) = rule.get("not") {
        return !holds(world, rule, events);
    }
    let recent = since(world, events, &rule["within_days"]);
    match rule["property"].as_str() {
        None => {
            let count = recent.iter().filter(|event| world.is_pattern(event, rule)).count();
            count as u64 >= rule["at_least"].as_u64().unwrap_or(1)
        }
        Some(property) => {
            let absent =
                TestEvent { time: 0, player: None, event: "none".to_owned(), fields: Default::default() };
            let latest = recent.iter().rfind(|event| !event.field(property).is_null());
            let mut condition = rule.clone();
            condition.as_object_mut().expect("an object").remove("within_days");
            world.meets(latest.unwrap_or(&&absent), &json!([condition]))
        }
    }
}

fn naive(world: &World, request: &Json) -> PlayerSet {
    // The world as it would be known at the end of the window, from its beginning.
    let whole = World { window: i64::MIN..world.window.end + 1, ..world.clone() };
    let players = whole.players();
    let longest = longest_days(&request["condition"]).max(30);
    let seen = request["seen_within_days"].as_i64().unwrap_or(longest);
    let is_member = |events: &Vec<&TestEvent>| {
        !since(world, events, &json!(seen)).is_empty() && holds(world, &request["condition"], events)
    };
    players.iter().filter(|(_, events)| is_member(events)).map(|(player, _)| hash(player)).collect()
}

fn longest_days(rule: &Json) -> i64 {
    let inner = ["and", "or"].iter().filter_map(|key| rule[*key].as_array()).flatten().chain(rule.get("not"));
    let own = if rule.get("event").or(rule.get("property")).is_some() {
        rule["within_days"].as_i64().unwrap_or(30)
    } else {
        0
    };
    inner.map(longest_days).max().unwrap_or(0).max(own)
}

fn rules() -> impl Strategy<Value = Json> {
    let days = prop_oneof![Just(1u64), Just(2), Just(4), Just(60)];
    let names_no_cohort = |conditions: &Json| !conditions.to_string().contains("cohort");
    let did = (prop_oneof![Just("start"), Just("win")], conditions(), 1u64..4, days.clone())
        .prop_filter("a cohort cannot depend on another", move |(_, conditions, ..)| names_no_cohort(conditions))
        .prop_map(|(event, conditions, at_least, days)| {
            json!({"event": event, "where": conditions, "at_least": at_least, "within_days": days})
        });
    let latest = (prop_oneof![Just("country"), Just("props.weapon")], prop_oneof![Just("="), Just("!=")], days)
        .prop_map(|(property, op, days)| {
            json!({"property": property, "op": op, "value": "FR", "within_days": days})
        });
    let unset = Just(json!({"property": "value", "op": "unset"}));
    prop_oneof![3 => did, 2 => latest, 1 => unset].prop_recursive(3, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..3).prop_map(|list| json!({"and": list})),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|list| json!({"or": list})),
            inner.prop_map(|one| json!({"not": one})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn cohorts_equal_the_naive_ones(
        world in worlds(),
        condition in rules(),
        seen in prop_oneof![Just(Json::Null), Just(json!(1)), Just(json!(3))],
    ) {
        let request = json!({"name": "x", "condition": condition, "seen_within_days": seen});
        match CohortDefinition::from_json(request.to_string().as_bytes()) {
            Ok(definition) => {
                let players = world.ask(|context| definition.evaluate(context, GAME)).expect("it has no bounds");
                prop_assert_eq!(players, naive(&world, &request));
            }
            Err(error) => prop_assert!(error.to_string().contains("at most 15 rules"), "{}", error),
        }
    }
}

#[test]
fn list_holds_the_players_of_linked_ids() {
    let mut world = world("10:00 ann start");
    world.links.push(("anon".to_owned(), "ann".to_owned()));
    let definition = CohortDefinition::from_json(br#"{"name": "testers", "players": ["anon", "bo", "bo"]}"#);
    let definition = definition.expect("it is valid");
    assert!(definition.is_list());
    let players = world.ask(|context| definition.evaluate(context, GAME)).expect("it has no bounds");
    assert_eq!(players, [hash("ann"), hash("bo")].into_iter().collect());
}

#[test]
fn errors_name_the_field_of_a_cohort() {
    let check = |request: Json, expected: &str| {
        let error = CohortDefinition::from_json(request.to_string().as_bytes()).expect_err("it is invalid");
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    let rule = |rule: Json| json!({"name": "x", "condition": rule});
    check(json!({}), "name: is required");
    check(json!({"name": "a b"}), "name: must be letters, digits, -, _ and . only");
    check(json!({"name": "x"}), "condition: is required, unless `players` lists the players");
    check(
        json!({"name": "x", "players": [], "condition": {}}),
        "players: cannot be combined with `condition`",
    );
    check(json!({"name": "x", "players": []}), "players: must be a list of 1 to 100000 player ids");
    check(json!({"name": "x", "players": ["a", 1]}), "players[1]: must be a string");
    check(rule(json!({})), "condition: must be a rule: about an event,");
    check(rule(json!({"and": []})), "condition.and: must be a list of at least one rule");
    check(
        rule(json!({"and": [{"event": "a", "at_least": 0}]})),
        "condition.and[0].at_least: must be an integer from 1",
    );
    check(
        rule(json!({"event": "a", "within_days": 3_661})),
        "condition.within_days: must be an integer from 1 to 3660",
    );
    check(rule(json!({"not": {"property": "country"}})), "condition.not.op: is required");
    check(
        rule(json!({"event": "a", "where": [{"cohort": "b"}]})),
        "condition.where: must not name the cohort \"b\": a cohort cannot depend on another",
    );
    check(rule(json!({"or": vec![json!({"event": "a"}); 16]})), "condition: must have at most 15 rules;");
}
