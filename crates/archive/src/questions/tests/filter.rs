//! Conditions, compared with their naive meaning and with their documentation.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::explore::Explore;
use super::world::{conditions, worlds};

proptest! {
    #[test]
    fn conditions_select_what_they_say(world in worlds(), conditions in conditions()) {
        let request = world.request(json!({"where": conditions, "step": "all"}));
        let question = Explore::from_json(&request).expect("it is valid");
        let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
        let expected = world.in_window().filter(|event| world.meets(event, &conditions)).count();
        prop_assert_eq!(answer.window.series[0].total, Some(expected as f64));
    }
}

fn check(conditions: Json, expected: &str) {
    let request = json!({"where": conditions}).to_string();
    let error = Explore::from_json(request.as_bytes()).expect_err("it is invalid");
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn errors_name_the_field_of_a_condition() {
    let country = |op: &str, value: Json| json!([{"property": "country", "op": op, "value": value}]);
    check(json!({}), "where: must be a list of conditions");
    check(json!([1]), "where[0]: must be an object");
    check(
        json!([{}]),
        "where[0]: must be a condition: property, op and value, or one of and, or, not, cohort",
    );
    check(json!([{"op": "=", "value": 1}]), "where[0].property: is required");
    check(json!([{"property": "hat", "op": "set"}]), "where[0].property: must be event, id,");
    check(json!([{"property": "props.", "op": "set"}]), "where[0].property: must be event, id,");
    check(json!([{"property": "country"}]), "where[0].op: is required");
    check(
        country("~", json!("FR")),
        "where[0].op: must be one of =, !=, <, <=, >, >=, contains, in, set, unset",
    );
    check(country("=", json!(["FR"])), "where[0].value: must be a string, a number, true or false");
    check(
        country("<", json!(true)),
        "where[0].value: must be a string or a number, because true and false have no order",
    );
    for property in ["player", "anonymous"] {
        let of = |op: &str, value: Json| json!([{"property": property, "op": op, "value": value}]);
        check(of("=", json!(123)), "where[0].value: must be a string, because ids of players are text");
        check(of("in", json!(["a", 123])), "where[0].value[1]: must be a string, because ids");
    }
    check(country("in", json!("FR")), "where[0].value: must be a list of values");
    check(country("in", json!([])), "where[0].value: must be a list of 1 to 1000 values");
    check(country("in", json!(vec![1; 1_001])), "where[0].value: must be a list of 1 to 1000 values");
    check(country("in", json!(["FR", {}])), "where[0].value[1]: must be a string, a number");
    check(country("set", json!("FR")), "where[0].value: must not be set with the operator set");
    check(country("contains", json!(5)), "where[0].value: must be a string");
    check(country("contains", json!("")), "where[0].value: must be between 1 and 1024 bytes long");
    check(country("=", json!("x".repeat(1_025))), "where[0].value: must be at most 1024 bytes long");
    check(
        json!([{"property": "country", "op": "set", "and": []}]),
        "where[0].op: is not a field of a condition",
    );
    check(
        json!([{"and": [{"or": [{"not": {"op": 1}}]}]}]),
        "where[0].and[0].or[0].not.property: is required",
    );
    check(json!(vec![json!({"and": []}); 101]), "where[100]: a request must have at most 100 conditions");
    let deep = (0..7).fold(json!({"property": "country", "op": "set"}), |inner, _| json!({"and": [inner]}));
    check(
        json!([deep]),
        "where[0].and[0].and[0].and[0].and[0].and[0].and[0]: conditions must be nested at most 5 deep",
    );
}

#[test]
fn unknown_cohort_is_named_with_its_field() {
    let world = super::world::empty();
    let question = Explore::from_json(&world.request(json!({"where": [{"or": [{"cohort": "whales"}]}]})));
    let question = question.expect("it is well formed");
    let error = world.ask(|context| question.run(context)).expect_err("there is no such cohort");
    assert_eq!(error.to_string(), "where[0].or[0].cohort: no cohort is named \"whales\"");
}
