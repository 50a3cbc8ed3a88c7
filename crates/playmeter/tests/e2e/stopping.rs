//! The end of the program: asked for, insisted on, or sudden. What was acknowledged is there afterwards.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::{Connection, Request};
use crate::world::{World, new_id};

/// Sends events one by one on several connections until the server is gone; `end` ends it after a while. Returns the
/// ids of those that were acknowledged.
fn acknowledged_until(world: &mut World, end: impl FnOnce(&mut World)) -> Vec<String> {
    let (address, key) = (world.address, world.public_key.clone());
    let send = || {
        let mut acknowledged = Vec::new();
        let Ok(mut connection) = Connection::open(address) else { return acknowledged };
        loop {
            let id = new_id();
            let event = Request::events(format!(r#"{{"event":"win","id":"{id}"}}"#)).key(&key);
            match connection.ask(&event) {
                Ok(answer) if answer.status == 202 => acknowledged.push(id),
                Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.text()),
                Err(_) => return acknowledged,
            }
        }
    };
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..8).map(|_| scope.spawn(send)).collect();
        std::thread::sleep(Duration::from_millis(300));
        end(world);
        senders.into_iter().flat_map(|sender| sender.join().expect("a sender ends")).collect()
    })
}

/// Each of these was stored: it is known as a duplicate, and the books have at least as many.
fn check_stored(world: &World, ids: &[String]) {
    assert!(!ids.is_empty(), "something was sent");
    let stored = world.load()["totals"]["accepted"].as_u64().expect("a count");
    assert!(stored >= ids.len() as u64, "{stored} of {}", ids.len());
    assert!(stored <= ids.len() as u64 + 8, "one a connection may be unknown to its sender");
    for ids in ids.chunks(1_000) {
        let events: Vec<String> = ids.iter().map(|id| format!(r#"{{"event":"win","id":"{id}"}}"#)).collect();
        let receipt = world.post(format!("[{}]", events.join(","))).json();
        assert_eq!(receipt["duplicate"], ids.len());
    }
}

#[test]
fn a_stop_under_load_keeps_everything_acknowledged() {
    let mut world = World::new();
    for signal in [Signal::TERM, Signal::INT] {
        let before = world.load()["totals"]["accepted"].as_u64().expect("a count");
        let ids = acknowledged_until(&mut world, |world| {
            world.signal(signal);
            assert_eq!(world.ended().code(), Some(0), "{}", world.log_lines());
        });
        let started = Instant::now();
        world.start();
        assert!(started.elapsed() < Duration::from_secs(5), "a start is quick: {:?}", started.elapsed());
        if before == 0 {
            check_stored(&world, &ids);
        }
    }
    assert!(!world.log_lines().contains("cut short"), "a stop leaves nothing half written");
}

#[test]
fn a_crash_under_load_keeps_everything_acknowledged() {
    let mut world = World::new();
    let ids = acknowledged_until(&mut world, World::kill9);
    world.start();
    check_stored(&world, &ids);
    let verified = world.command(&["verify", "--json"]).json();
    assert_eq!(verified["agrees"], true, "{verified}");
}

#[test]
fn idle_connections_and_watchers_do_not_delay_a_stop() {
    let mut world = World::new();
    let mut idle: Vec<Connection> = (0..20).map(|_| world.connect()).collect();
    for connection in &mut idle[10..] {
        assert_eq!(connection.ask(&Request::get("/healthz")).expect("an answer").status, 200);
    }
    let mut watcher = world.connect();
    let watch = Request::get("/v1/watch?load=1&online=1").key(&world.secret_key);
    assert_eq!(watcher.ask(&watch).expect("a stream").status, 200);
    let asked = Instant::now();
    world.stop();
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
}

#[test]
fn a_request_under_way_is_finished_before_the_end() {
    let mut world = World::new();
    let body = br#"{"event":"win"}"#;
    let mut connection = world.connect();
    connection.send(&Request::events("").key(&world.public_key).head(body.len())).expect("it can be sent");
    connection.send(&body[..5]).expect("it can be sent");
    std::thread::sleep(Duration::from_millis(100));
    world.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(200));
    assert!(Connection::open(world.address).is_err(), "no new work is taken");
    connection.send(&body[5..]).expect("it can be sent");
    let answer = connection.answer().expect("an answer");
    assert_eq!((answer.told().as_str(), answer.header("connection")), ("1 accepted", Some("close")));
    assert_eq!(world.ended().code(), Some(0));
    world.start();
    assert_eq!(world.load()["totals"]["accepted"], 1);
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut world = World::new();
    let mut connection = world.connect();
    connection.send(&Request::events("").key(&world.public_key).head(100)).expect("it can be sent");
    connection.send(b"{").expect("it can be sent");
    std::thread::sleep(Duration::from_millis(100));
    world.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(300));
    let insisted = Instant::now();
    world.signal(Signal::TERM);
    assert_eq!(world.ended().code(), Some(130));
    assert!(insisted.elapsed() < Duration::from_secs(1), "{:?}", insisted.elapsed());
    world.start();
    assert_eq!(world.post(r#"{"event":"win"}"#).told(), "1 accepted");
}
