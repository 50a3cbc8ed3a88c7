//! Players' sessions and what all writes of live-ops have in common: credentials, fields, repeated requests.

use crate::client::Request;
use crate::player::Session;
use crate::world::World;

fn open(body: &str) -> Request {
    Request::new("POST", "/v1/session").body(body)
}

#[test]
fn a_session_is_opened_with_the_public_key_and_has_a_key_of_its_own() {
    let world = World::new();
    let (one, two) = (Session::open(&world, "bo"), Session::open(&world, "bo"));
    assert_eq!((one.key.len(), &*one.player), (32, "bo"));
    assert!(one.id != two.id && one.key != two.key);
}

#[test]
fn a_session_is_refused_for_what_is_wrong_with_it_by_name() {
    let world = World::new();
    let told = |body: &str| world.ask(&open(body).key(&world.public_key)).told();
    assert_eq!(told("{}"), "400 invalid_field (player)");
    assert_eq!(told(r#"{"player":""}"#), "400 invalid_field (player)");
    assert_eq!(told(r#"{"player":"undefined"}"#), "400 invalid_field (player)");
    assert_eq!(told(&format!(r#"{{"player":"{}"}}"#, "x".repeat(129))), "400 invalid_field (player)");
    assert_eq!(
        told(&format!(r#"{{"player":"bo","name":"{}"}}"#, "x".repeat(65))),
        "400 invalid_field (name)"
    );
    assert_eq!(told(r#"{"player":"bo","key":"mine"}"#), "400 invalid_field (key)");
    assert_eq!(
        told(r#"{"player":"bo","expires_at":"2100-01-01T00:00:00Z"}"#),
        "400 invalid_field (expires_at)"
    );
    assert_eq!(told(r#"{"player":["bo"]}"#), "400 invalid_field (player)");
    assert_eq!(told(r#"{"player":"bo""#), "400 malformed");
    assert_eq!(told(""), "400 malformed");
    let form =
        open("player=bo").key(&world.public_key).header("Content-Type", "application/x-www-form-urlencoded");
    assert_eq!(world.ask(&form).told(), "415 unsupported (Content-Type)");
}

#[test]
fn a_repeated_request_gets_the_same_answer() {
    let mut world = World::new();
    let ask = |world: &World, key: &str, body: &str| {
        world.ask(&open(body).key(&world.public_key).header("Idempotency-Key", key))
    };
    let first = ask(&world, "one", r#"{"player":"bo"}"#).json();
    assert_eq!(ask(&world, "one", r#"{"player":"bo"}"#).json(), first);
    assert_eq!(ask(&world, "one", r#"{"player":"cy"}"#).told(), "409 conflict");
    assert_ne!(ask(&world, "two", r#"{"player":"bo"}"#).json(), first);
    // The secret key's answers are its own.
    let other =
        world.ask(&open(r#"{"player":"cy"}"#).key(&world.secret_key).header("Idempotency-Key", "one"));
    assert_eq!(other.status, 201);
    let refused = ask(&world, "three", r#"{"player":""}"#).told();
    assert_eq!(ask(&world, "three", r#"{"player":""}"#).told(), refused);
    assert_eq!(
        ask(&world, &"x".repeat(201), r#"{"player":"bo"}"#).told(),
        "400 invalid_field (Idempotency-Key)"
    );
    for kill in [true, false] {
        if kill {
            world.kill9()
        } else {
            world.stop()
        }
        world.start();
        assert_eq!(ask(&world, "one", r#"{"player":"bo"}"#).json(), first);
        assert_eq!(ask(&world, "one", r#"{"player":"cy"}"#).told(), "409 conflict");
    }
}
