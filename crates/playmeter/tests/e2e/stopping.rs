//! Graceful, forced and sudden ends of the server: acknowledged events are still stored afterwards.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::{Connection, Request};
use crate::world::{World, new_id};

/// Sends events one by one on several connections until the server is gone; `end` stops it after 300 ms. Returns the
/// ids of the acknowledged events.
fn acknowledged_until(world: &mut World, end: impl FnOnce(&mut World)) -> Vec<String> {
    let (address, key) = (world.address, world.public_key.clone());
    let send = || {
        let mut acknowledged = Vec::new();
        let Ok(mut connection) = Connection::open(address) else { return acknowledged };
        loop {
            let id = new_id();
            let event = Request::events(format!(r#"{{"event":"win","id":"{id}"}}"#)).key(&key);
            match connection.send(&event) {
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

/// Checks that each of these events was stored: it is a duplicate, and the totals count at least as many.
fn check_stored(world: &World, ids: &[String]) {
    assert!(!ids.is_empty(), "something was sent");
    let stored = world.load()["totals"]["accepted"].as_u64().expect("a count");
    assert!(stored >= ids.len() as u64, "{stored} of {}", ids.len());
    assert!(
        stored <= ids.len() as u64 + 8,
        "one event per connection may be stored without its acknowledgement"
    );
    for ids in ids.chunks(1_000) {
        let events: Vec<String> = ids.iter().map(|id| format!(r#"{{"event":"win","id":"{id}"}}"#)).collect();
        let receipt = world.post(format!("[{}]", events.join(","))).json();
        assert_eq!(receipt["duplicate"], ids.len());
    }
}

#[test]
fn stop_under_load_keeps_everything_acknowledged() {
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
    assert!(!world.log_lines().contains("cut short"), "a stop leaves no incomplete write");
}

#[test]
fn crash_under_load_keeps_everything_acknowledged() {
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
        assert_eq!(connection.send(&Request::get("/healthz")).expect("an answer").status, 200);
    }
    let mut watcher = world.connect();
    let watch = Request::get("/v1/watch?load=1&online=1").key(&world.secret_key);
    assert_eq!(watcher.send(&watch).expect("a stream").status, 200);
    let stopping = Instant::now();
    world.stop();
    assert!(stopping.elapsed() < Duration::from_secs(3), "{:?}", stopping.elapsed());
}

#[test]
fn request_in_flight_finishes_before_shutdown() {
    let mut world = World::new();
    let body = br#"{"event":"win"}"#;
    let mut connection = world.connect();
    connection.write(&Request::events("").key(&world.public_key).head(body.len())).expect("it can be sent");
    connection.write(&body[..5]).expect("it can be sent");
    std::thread::sleep(Duration::from_millis(100));
    world.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(200));
    assert!(Connection::open(world.address).is_err(), "no new connection is accepted");
    connection.write(&body[5..]).expect("it can be sent");
    let answer = connection.answer().expect("an answer");
    assert_eq!((answer.summary().as_str(), answer.header("connection")), ("1 accepted", Some("close")));
    assert_eq!(world.ended().code(), Some(0));
    world.start();
    assert_eq!(world.load()["totals"]["accepted"], 1);
}

#[test]
fn second_signal_exits_at_once() {
    let mut world = World::new();
    let mut connection = world.connect();
    connection.write(&Request::events("").key(&world.public_key).head(100)).expect("it can be sent");
    connection.write(b"{").expect("it can be sent");
    std::thread::sleep(Duration::from_millis(100));
    world.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(300));
    let repeated = Instant::now();
    world.signal(Signal::TERM);
    assert_eq!(world.ended().code(), Some(130));
    assert!(repeated.elapsed() < Duration::from_secs(1), "{:?}", repeated.elapsed());
    world.start();
    assert_eq!(world.post(r#"{"event":"win"}"#).summary(), "1 accepted");
}
