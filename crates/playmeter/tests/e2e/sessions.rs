//! Player sessions, and what all live-ops writes have in common: credentials, fields, repeated requests.

use crate::client::Request;
use crate::player::Session;
use crate::world::World;

fn open(body: &str) -> Request {
    Request::new("POST", "/v1/session").body(body)
}

#[test]
fn session_is_opened_with_the_public_key_and_has_its_own_key() {
    let world = World::new();
    let (one, two) = (Session::open(&world, "bo"), Session::open(&world, "bo"));
    assert_eq!((one.key.len(), &*one.player), (32, "bo"));
    assert!(one.id != two.id && one.key != two.key);
}

#[test]
fn invalid_session_field_is_named() {
    let world = World::new();
    let summary = |body: &str| world.send(&open(body).key(&world.public_key)).summary();
    assert_eq!(summary("{}"), "400 invalid_field (player)");
    assert_eq!(summary(r#"{"player":""}"#), "400 invalid_field (player)");
    assert_eq!(summary(r#"{"player":"undefined"}"#), "400 invalid_field (player)");
    assert_eq!(summary(&format!(r#"{{"player":"{}"}}"#, "x".repeat(129))), "400 invalid_field (player)");
    assert_eq!(
        summary(&format!(r#"{{"player":"bo","name":"{}"}}"#, "x".repeat(65))),
        "400 invalid_field (name)"
    );
    assert_eq!(summary(r#"{"player":"bo","key":"mine"}"#), "400 invalid_field (key)");
    assert_eq!(
        summary(r#"{"player":"bo","expires_at":"2100-01-01T00:00:00Z"}"#),
        "400 invalid_field (expires_at)"
    );
    assert_eq!(summary(r#"{"player":["bo"]}"#), "400 invalid_field (player)");
    assert_eq!(summary(r#"{"player":"bo""#), "400 malformed");
    assert_eq!(summary(""), "400 malformed");
    let form =
        open("player=bo").key(&world.public_key).header("Content-Type", "application/x-www-form-urlencoded");
    assert_eq!(world.send(&form).summary(), "415 unsupported (Content-Type)");
}

#[test]
fn repeated_request_returns_the_same_response() {
    let mut world = World::new();
    let send = |world: &World, key: &str, body: &str| {
        world.send(&open(body).key(&world.public_key).header("Idempotency-Key", key))
    };
    let first = send(&world, "one", r#"{"player":"bo"}"#).json();
    assert_eq!(send(&world, "one", r#"{"player":"bo"}"#).json(), first);
    assert_eq!(send(&world, "one", r#"{"player":"cy"}"#).summary(), "409 conflict");
    assert_ne!(send(&world, "two", r#"{"player":"bo"}"#).json(), first);
    // Idempotency keys are separate for each credential.
    let other =
        world.send(&open(r#"{"player":"cy"}"#).key(&world.secret_key).header("Idempotency-Key", "one"));
    assert_eq!(other.status, 201);
    let rejected = send(&world, "three", r#"{"player":""}"#).summary();
    assert_eq!(send(&world, "three", r#"{"player":""}"#).summary(), rejected);
    assert_eq!(
        send(&world, &"x".repeat(201), r#"{"player":"bo"}"#).summary(),
        "400 invalid_field (Idempotency-Key)"
    );
    for kill in [true, false] {
        if kill {
            world.kill9()
        } else {
            world.stop()
        }
        world.start();
        assert_eq!(send(&world, "one", r#"{"player":"bo"}"#).json(), first);
        assert_eq!(send(&world, "one", r#"{"player":"cy"}"#).summary(), "409 conflict");
    }
}
