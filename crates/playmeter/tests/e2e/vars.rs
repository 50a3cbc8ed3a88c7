//! Game variables end to end: written with a secret key, read and watched with the public key.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Answer, Request};
use crate::watch::Watch;
use crate::world::{World, now_ms};

/// A write with the secret key.
fn write(world: &World, method: &'static str, target: &str, body: &str) -> Answer {
    world.send(&Request::new(method, target).key(&world.secret_key).body(body))
}

fn put(world: &World, name: &str, body: &str) {
    let answer = write(world, "PUT", &format!("/v1/vars/{name}"), body);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// A read with the public key.
fn read(world: &World, target: &str) -> Answer {
    world.send(&Request::get(target).key(&world.public_key))
}

#[test]
fn values_are_read_as_they_were_written() {
    let mut world = World::new();
    assert_eq!(read(&world, "/v1/vars").text(), "{}");
    put(&world, "speed", r#"{"value": 1.0}"#);
    put(&world, "waves", r#"{"value": {"z": [1, 2.50], "a": 1e3}}"#);
    for kill in [true, false] {
        let all = read(&world, "/v1/vars");
        assert_eq!(all.text(), r#"{"speed":1.0,"waves":{"z":[1,2.50],"a":1e3}}"#);
        assert_eq!(all.header("playmeter-vars-version"), Some("2"));
        assert_eq!(all.header("cache-control"), Some("no-cache"));
        let one = read(&world, "/v1/vars/speed");
        assert_eq!(one.text(), r#"{"name":"speed","value":1.0,"version":2}"#);
        if kill {
            world.kill9();
        } else {
            world.stop();
        }
        world.start();
    }
    assert_eq!(read(&world, "/v1/vars/nothing").summary(), "404 not_found (name)");
    assert_eq!(write(&world, "DELETE", "/v1/vars/speed", "").json(), json!({ "version": 3 }));
    assert_eq!(write(&world, "DELETE", "/v1/vars/speed", "").summary(), "404 not_found (name)");
    assert_eq!(read(&world, "/v1/vars").text(), r#"{"waves":{"z":[1,2.50],"a":1e3}}"#);
}

#[test]
fn unchanged_values_return_304() {
    let world = World::new();
    put(&world, "speed", r#"{"value": 1, "conditions": [{"name": "ios", "value": 2, "platform": ["ios"]}]}"#);
    for target in ["/v1/vars", "/v1/vars/speed"] {
        let get = |tag: &str, query: &str| {
            let request = Request::get(format!("{target}{query}")).key(&world.public_key);
            world.send(&request.header("If-None-Match", tag))
        };
        let first = read(&world, target);
        let tag = first.header("etag").expect("there is a tag").to_owned();
        let again = get(&tag, "");
        assert_eq!((again.status, again.text().as_str(), again.header("etag")), (304, "", Some(&*tag)));
        assert_eq!(get(&format!("\"x\", W/{tag}"), "").status, 304);
        assert_eq!(get("\"x\"", "").status, 200);
        assert_eq!(get(&tag, "?platform=ios").status, 200);
    }
    let tag = read(&world, "/v1/vars").header("etag").expect("there is a tag").to_owned();
    put(&world, "speed", r#"{"value": 1, "conditions": [{"name": "ios", "value": 3, "platform": ["ios"]}]}"#);
    assert_eq!(
        read(&world, "/v1/vars").header("etag"),
        Some(&*tag),
        "the values of other platforms have not changed"
    );
    put(&world, "speed", r#"{"value": 2}"#);
    assert_ne!(read(&world, "/v1/vars").header("etag"), Some(&*tag));
}

#[test]
fn conditions_use_parameters_and_headers_of_the_request() {
    let world = World::new();
    put(
        &world,
        "v",
        r#"{"value": "other", "conditions": [
            {"name": "fr", "value": "fr", "country": ["FR"]},
            {"name": "new", "value": "new", "version": ["2.0"]},
            {"name": "payers", "value": "payers", "segment": ["payers"]},
            {"name": "android", "value": "android", "platform": ["android"]},
            {"name": "half", "value": "half", "percent": {"to": 50}}]}"#,
    );
    let public = |query: &str| read(&world, &format!("/v1/vars?{query}")).json()["v"].clone();
    assert_eq!(public("version=2.0&segment=payers"), "new");
    assert_eq!(public("segment=friends,payers"), "payers");
    assert_eq!(public("platform=android"), "android");
    assert_eq!(public(""), "other");
    assert_eq!(public("player=undefined"), "other");
    let half = (0..200).filter(|n| public(&format!("player=p{n}")) == "half").count();
    assert!((60..140).contains(&half), "{half} of 200");
    let phone = Request::get("/v1/vars").key(&world.public_key);
    let phone = phone.header("User-Agent", "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36");
    assert_eq!(world.send(&phone).json()["v"], "android");
    let secret = |query: &str| world.send(&Request::get(format!("/v1/vars?{query}")).key(&world.secret_key));
    assert_eq!(secret("country=fr").json()["v"], "fr");
    let summary = |query: &str| read(&world, &format!("/v1/vars?{query}")).summary();
    assert_eq!(summary("country=FR"), "400 invalid_field (country)");
    assert_eq!(summary("weather=fine"), "400 invalid_field (weather)");
    assert_eq!(summary(&format!("player={}", "x".repeat(129))), "400 invalid_field (player)");
    assert_eq!(summary(&format!("segment={}", "x,".repeat(101))), "400 invalid_field (segment)");
}

#[test]
fn batch_write_is_atomic() {
    let world = World::new();
    let many = |body: &str| write(&world, "PUT", "/v1/vars", body);
    let answer = many(r#"{"expected_version": 0, "vars": {"a": {"value": 1}, "b": {"value": 2}}}"#);
    assert_eq!(answer.json(), json!({ "version": 1 }));
    for (body, expected) in [
        (r#"{"vars": {"a": {"value": 9}}, "expected_version": 0}"#, "409 conflict (expected_version)"),
        (r#"{"vars": {"a": {"value": 9}, "b c": {"value": 1}}}"#, "400 invalid_field (vars.b c)"),
        (r#"{"vars": {"a": {"value": 9}, "b": {}}}"#, "400 invalid_field (vars.b.value)"),
        (
            r#"{"vars": {"a": {"value": 9}, "b": {"value": 1, "schema": {"type": "string"}}}}"#,
            "400 invalid_field (vars.b.value)",
        ),
        (r#"{"vars": {}}"#, "400 invalid_field (vars)"),
    ] {
        assert_eq!(many(body).summary(), expected, "{body}");
    }
    assert_eq!(read(&world, "/v1/vars").text(), r#"{"a":1,"b":2}"#);
    assert_eq!(many(r#"{"vars": {"a": null, "c": {"value": 3}}}"#).json(), json!({ "version": 2 }));
    assert_eq!(read(&world, "/v1/vars").text(), r#"{"b":2,"c":3}"#);
}

#[test]
fn invalid_definition_field_is_named() {
    let world = World::new();
    let summary = |body: &str| write(&world, "PUT", "/v1/vars/v", body).summary();
    assert_eq!(summary("{}"), "400 invalid_field (value)");
    assert_eq!(summary(r#"{"value": 1, "owner": 1}"#), "400 invalid_field (owner)");
    assert_eq!(summary(r#"{"value": 1, "starts_at": "soon"}"#), "400 invalid_field (starts_at)");
    assert_eq!(summary(r#"{"value": {"a": 1, "a": 2}}"#), "400 invalid_field (value)");
    assert_eq!(summary(r#"{"value": "\ud800"}"#), "400 invalid_field (value)");
    assert_eq!(summary(r#"{"value": 1, "schema": {"pattern": "x"}}"#), "400 invalid_field (schema.pattern)");
    assert_eq!(summary(r#"{"value": 1, "expected_version": 7}"#), "409 conflict (expected_version)");
    let condition = |body: &str| summary(&format!(r#"{{"value": 1, "conditions": [{body}]}}"#));
    assert_eq!(
        condition(r#"{"name": "a", "value": 1, "coutry": []}"#),
        "400 invalid_field (conditions[0].coutry)"
    );
    assert_eq!(
        condition(r#"{"name": "a", "value": 1, "percent": {"to": 200}}"#),
        "400 invalid_field (conditions[0].percent.to)"
    );
    assert_eq!(summary(&format!(r#"{{"value": "{}"}}"#, "x".repeat(64 << 10))), "400 invalid_field (value)");
    assert_eq!(summary(&format!(r#"{{"value": "{}"}}"#, "x".repeat(256 << 10))), "413 too_large");
    let deep = format!(r#"{{"value": {}1{}}}"#, "[".repeat(17), "]".repeat(17));
    assert_eq!(summary(&deep), "400 invalid_field (value)");
    assert_eq!(
        write(&world, "PUT", "/v1/vars/a%20b", r#"{"value": 1}"#).summary(),
        "400 invalid_field (name)"
    );
    assert_eq!(read(&world, "/v1/vars").text(), "{}");
}

#[test]
fn rollback_restores_an_earlier_version() {
    let mut world = World::new();
    put(&world, "a", r#"{"value": 1}"#);
    put(&world, "a", r#"{"value": 2.0, "description": "d"}"#);
    let back = |world: &World, body: &str| write(world, "POST", "/v1/vars:rollback", body);
    assert_eq!(back(&world, r#"{"version": 1, "expected_version": 2}"#).json(), json!({ "version": 3 }));
    assert_eq!(back(&world, r#"{"version": 9}"#).summary(), "404 not_found (version)");
    assert_eq!(
        back(&world, r#"{"version": 2, "expected_version": 2}"#).summary(),
        "409 conflict (expected_version)"
    );
    world.restart();
    let secret = |target: &str| world.send(&Request::get(target).key(&world.secret_key));
    assert_eq!(secret("/v1/vars:definitions").text(), r#"{"version":3,"vars":{"a":{"value":1}}}"#);
    let history = secret("/v1/vars:history?n=2").json();
    let brief: Vec<_> = history["changes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|change| (change["version"].clone(), change["by"].clone(), change["changed"]["a"].clone()))
        .collect();
    let (one, two) = (json!({ "value": 1 }), json!({ "value": 2.0, "description": "d" }));
    assert_eq!(
        brief,
        [
            (json!(3), json!("server"), json!({ "before": two, "after": one })),
            (json!(2), json!("server"), json!({ "before": one, "after": two })),
        ]
    );
    assert_eq!(secret("/v1/vars:history?n=0").summary(), "400 invalid_field (n)");
    assert_eq!(secret("/v1/vars:history?m=1").summary(), "400 invalid_field (m)");
}

#[test]
fn repeated_write_is_applied_once() {
    let world = World::new();
    let send = |body: &str| {
        let request = Request::new("PUT", "/v1/vars/a").key(&world.secret_key).body(body);
        world.send(&request.header("Idempotency-Key", "one"))
    };
    let first = send(r#"{"value": 1, "expected_version": 0}"#).json();
    assert_eq!(send(r#"{"value": 1, "expected_version": 0}"#).json(), first);
    assert_eq!(send(r#"{"value": 2}"#).summary(), "409 conflict");
}

#[test]
fn change_is_published_within_1s() {
    let world = World::new();
    put(&world, "a", r#"{"value": 1.0}"#);
    let mut watch = Watch::open_as(&world, &world.public_key, "vars=1&player=ann&version=2.0", None);
    let snapshot = watch.next();
    assert_eq!(snapshot.name, "snapshot");
    let data = json!({ "sub": "vars", "topic": "vars", "version": 1, "vars": { "a": 1.0 } });
    assert_eq!(snapshot.data, data);
    // A change that does not apply to this viewer is not published.
    put(&world, "a", r#"{"value": 1.0, "conditions": [{"name": "c", "value": 5, "version": ["3.0"]}]}"#);
    let started = Instant::now();
    put(&world, "a", r#"{"value": 2, "conditions": [{"name": "c", "value": 3, "version": ["2.0"]}]}"#);
    let change = watch.next();
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!((change.name.as_str(), &change.data["vars"]["a"]), ("change", &json!(3)));
    assert_eq!(change.data["version"], 3);
    let id = change.id;
    drop(watch);
    let again = Watch::open_as(&world, &world.public_key, "vars=1", Some(&id)).next();
    assert_eq!((again.name.as_str(), &again.data["vars"]["a"]), ("reset", &json!(2)));
}

#[test]
fn scheduled_change_is_published() {
    let world = World::new();
    let at = |ms: i64| rfc3339(now_ms() + ms);
    let body = format!(
        r#"{{"value": "on", "default": "off", "starts_at": "{}", "ends_at": "{}"}}"#,
        at(1_500),
        at(2_500)
    );
    put(&world, "party", &body);
    let mut watch = Watch::open_as(&world, &world.public_key, "vars=1", None);
    let started = Instant::now();
    let values: Vec<_> = (0..3).map(|_| watch.next().data["vars"]["party"].clone()).collect();
    assert_eq!(values, ["off", "on", "off"]);
    assert!(started.elapsed() < Duration::from_millis(3_500), "{:?}", started.elapsed());
}

#[test]
fn different_viewers_share_one_subscription() {
    let world = World::new();
    put(&world, "a", r#"{"value": 0, "conditions": [{"name": "half", "value": 1, "percent": {"to": 50}}]}"#);
    let mut watches: Vec<Watch> = (0..20)
        .map(|n| Watch::open_as(&world, &world.public_key, &format!("vars=1&player=p{n}"), None))
        .collect();
    let values = |watches: &mut Vec<Watch>| -> Vec<_> {
        watches.iter_mut().map(|watch| watch.next().data["vars"]["a"].clone()).collect()
    };
    let first = values(&mut watches);
    assert!([json!(0), json!(1)].iter().all(|value| first.contains(value)));
    assert!(world.send(&Request::get("/metrics")).text().contains("\nplaymeter_subscriptions 1\n"));
    put(
        &world,
        "a",
        r#"{"value": 0, "conditions": [{"name": "half", "value": 1, "percent": {"from": 50, "to": 100}}]}"#,
    );
    let second = values(&mut watches);
    assert!(first.iter().zip(&second).all(|(first, second)| first != second));
}

#[test]
fn public_key_may_watch_only_live_ops() {
    let world = World::new();
    let summary = |what: &str| read(&world, &format!("/v1/watch?{what}")).summary();
    assert_eq!(summary("vars=1&load=1"), "403 scope");
    assert_eq!(summary("vars=0"), "400 invalid_field");
    assert_eq!(summary("vars=1&weather=1"), "400 invalid_field (weather)");
    assert_eq!(summary("vars=1&country=FR"), "400 invalid_field (country)");
}

/// A moment after 1970, in UTC.
fn rfc3339(ms: i64) -> String {
    let (mut days, in_day) = (ms / 86_400_000, ms % 86_400_000);
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + i64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        (days, month) = (days - length, month + 1);
    }
    let (hour, minute, second) = (in_day / 3_600_000, in_day / 60_000 % 60, in_day / 1_000 % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", days + 1, in_day % 1_000)
}
