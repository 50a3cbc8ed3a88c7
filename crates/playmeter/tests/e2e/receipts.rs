//! Receipts: the outcome of each event, also after a restart or a crash.

use serde_json::json;

use crate::client::Request;
use crate::world::{World, new_id};

fn event(id: &str) -> String {
    format!(r#"{{"event":"win","id":"{id}"}}"#)
}

fn array(events: &[String]) -> String {
    format!("[{}]", events.join(","))
}

#[test]
fn receipt_lists_events_not_accepted_by_index_and_id() {
    let world = World::new();
    let [seen, new] = [new_id(), new_id()];
    world.post(event(&seen));
    let late = format!(r#"{{"event":"win","id":"{new}","ts":86400000}}"#);
    let batch = [event(&seen), r#"{"event":""}"#.into(), event(&new), "7".into(), event(&new), late];
    let answer = world.post(array(&batch));
    let expected = "1 accepted; 0 duplicate seen_before; 1 invalid event_name_empty; 3 invalid not_an_object; \
                4 duplicate seen_before; 5 late too_old";
    assert_eq!(answer.summary(), expected);
    let receipt = answer.json();
    let ids: Vec<_> =
        receipt["results"].as_array().expect("a list").iter().map(|it| it["id"].clone()).collect();
    assert_eq!(ids, [json!(seen), json!(null), json!(null), json!(new), json!(new)]);
}

#[test]
fn retry_with_same_id_counts_once() {
    let mut world = World::new();
    let ids: Vec<String> = (0..50).map(|_| new_id()).collect();
    let batch = array(&ids.iter().map(|id| event(id)).collect::<Vec<_>>());
    let twice = format!("[{0},{0}]", event(&ids[0]));
    assert_eq!(world.post(&twice).summary(), "1 accepted; 1 duplicate seen_before");
    let all_seen: String = (0..50).map(|i| format!("; {i} duplicate seen_before")).collect();
    let new_ones: String = (0..1).map(|i| format!("; {i} duplicate seen_before")).collect();
    assert_eq!(world.post(&batch).summary(), format!("49 accepted{new_ones}"));
    assert_eq!(world.post(&batch).summary(), format!("0 accepted{all_seen}"));
    world.restart();
    assert_eq!(world.post(&batch).summary(), format!("0 accepted{all_seen}"), "after a restart");
    world.kill9();
    world.start();
    assert_eq!(world.post(&batch).summary(), format!("0 accepted{all_seen}"), "after kill -9");
    assert_eq!(world.load()["totals"]["accepted"], 50);
}

#[test]
fn spelling_of_an_id_does_not_matter() {
    let world = World::new();
    let id = new_id();
    assert_eq!(world.post(event(&id)).summary(), "1 accepted");
    for spelled in [
        id.to_uppercase(),
        id.replace('-', ""),
        id.replacen(&id[..1], &format!("\\u{:04x}", id.as_bytes()[0]), 1),
    ] {
        assert_eq!(world.post(event(&spelled)).summary(), "0 accepted; 0 duplicate seen_before", "{spelled}");
    }
}

#[test]
fn other_games_and_public_keys_cannot_suppress_an_event() {
    let world = World::new();
    let other = world.command(&["games", "create", "other", "--json"]).json();
    let other_key = other["public_key"].as_str().expect("a public key");
    let id = new_id();
    for key in [&world.public_key, &world.secret_key, other_key] {
        assert_eq!(world.post_as(key, event(&id)).summary(), "1 accepted", "{key}");
        assert_eq!(world.post_as(key, event(&id)).summary(), "0 accepted; 0 duplicate seen_before", "{key}");
    }
    let second = world.key("events:write");
    assert_eq!(world.post_as(&second, event(&id)).summary(), "0 accepted; 0 duplicate seen_before");
}

#[test]
fn invalid_event_may_be_resent_with_the_same_id() {
    let world = World::new();
    let id = new_id();
    let wrong = format!(r#"{{"event":"win","id":"{id}","value":"much"}}"#);
    assert_eq!(world.post(&wrong).summary(), "0 accepted; 0 invalid value_not_a_number");
    assert_eq!(
        world.post(format!("[{wrong},{}]", event(&id))).summary(),
        "1 accepted; 0 invalid value_not_a_number"
    );
}

#[test]
fn positions_grow_by_accepted_events_and_continue_after_a_crash() {
    let mut world = World::new();
    let id = new_id();
    let steps = [
        (event(&id), 1),
        (array(&vec![r#"{"event":"win"}"#.into(); 7]), 7),
        (array(&[event(&new_id()), event(&id)]), 1),
    ];
    let mut end = world.post(event(&new_id())).position();
    for (body, accepted) in &steps {
        let position = world.post(body).position();
        assert_eq!(position, end + accepted, "{body}");
        end = position;
    }
    world.kill9();
    world.start();
    assert_eq!(world.post(r#"{"event":"win"}"#).position(), end + 1);
    world.restart();
    assert_eq!(world.post(r#"{"event":"win"}"#).position(), end + 2);
}

#[test]
fn ack_parameter_selects_the_durability() {
    let mut world = World::new();
    for (ack, expected) in [
        ("disk", "1 accepted"),
        ("os", "1 accepted"),
        ("memory", "1 accepted"),
        ("never", "400 invalid_field (ack)"),
        ("", "400 invalid_field (ack)"),
        ("DISK", "400 invalid_field (ack)"),
    ] {
        let request = Request::events(r#"{"event":"win"}"#).to(format!("/v1/events?ack={ack}"));
        assert_eq!(world.send(&request.key(&world.public_key)).summary(), expected, "ack={ack}");
    }
    let body = format!("[{0},{0}]", event(&new_id()));
    let os = Request::events(&body).to(format!("/v1/events?key={}&ack=os", world.public_key));
    assert_eq!(world.send(&os).summary(), "1 accepted; 1 duplicate seen_before");
    world.restart();
    let totals = world.load()["totals"].clone();
    assert_eq!(
        (&totals["accepted"], &totals["duplicate"]),
        (&json!(4), &json!(1)),
        "a stop loses nothing that was queued"
    );
}

/// The outcome of asking for a batch.
fn batch(world: &World, key: &str, batch: &str) -> String {
    let answer = world.send(&Request::get(format!("/v1/events/receipts/{batch}?key={key}")));
    if answer.status == 200 { answer.text() } else { answer.summary() }
}

#[test]
fn outcome_of_a_batch_is_found_by_its_id() {
    let mut world = World::new();
    let (id, other_id, event_id) = (new_id(), new_id(), new_id());
    let key = world.public_key.clone();
    let to = |batch: &str| format!("/v1/events?batch={batch}&key={key}");
    let body = array(&[event(&event_id), event(&event_id), r#"{"event":""}"#.into()]);
    assert_eq!(batch(&world, &key, &id), "404 not_found (batch)");
    world.send(&Request::events(&body).to(to(&id)));
    let expected = r#"{"accepted":1,"duplicate":1,"late":0,"limited":0,"invalid":1}"#;
    assert_eq!(batch(&world, &key, &id), expected);
    assert_eq!(batch(&world, &key, &id.to_uppercase()), expected);
    world.send(&Request::events(&body).to(to(&id)));
    assert_eq!(batch(&world, &key, &id), expected, "the first outcome stays");
    let other = world.command(&["games", "create", "other", "--json"]).json();
    let other_key = other["public_key"].as_str().expect("a public key");
    assert_eq!(batch(&world, other_key, &id), "404 not_found (batch)", "of another game");
    for wrong in ["7", "", "0193a1c27d4e7b3a9c552f8e6d1b4a70"] {
        let answer = world.send(&Request::events(&body).to(to(wrong)));
        assert_eq!(answer.summary(), "400 invalid_field (batch)", "`{wrong}`");
    }
    let in_memory = Request::events(&body).to(format!("{}&ack=memory", to(&other_id)));
    assert_eq!(world.send(&in_memory).status, 202);
    assert_eq!(batch(&world, &key, &other_id), "404 not_found (batch)", "it need not be durable");
    world.restart();
    assert_eq!(batch(&world, &key, &id), "404 not_found (batch)", "after a restart");
}
