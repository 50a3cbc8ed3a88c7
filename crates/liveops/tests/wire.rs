//! Commands and records keep their names, because the log and the store hold them for as long as a game exists.

mod world;

use expect_test::expect_file;
use liveops::levels::PackedLevel;
use liveops::{Caller, Command, CommandRef, Idempotency, Principal, RequestSignature, encode};
use serde_json::{Value, json};
use world::World;

const NOW: i64 = 1_800_000_000_000;
/// The number of this subject in the keys of records, after the game.
const LEVEL_BLOBS: u8 = 128;

/// A rule with every field but its condition.
fn alert(key: &str, compare: Value) -> Value {
    let secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let rule = json!({
        "name": "N", "message": "M", "query": { "metric": "error", "last": "5m" }, "compare": compare, "for_s": 60,
        "cooldown_s": 120, "no_data": "keep",
    });
    let targets = json!([
        { "id": "1", "kind": "webhook", "url": "https://example.com/", "secret": secret },
        { "id": "2", "kind": "webhook", "url": "https://example.com/", "new_secret": secret },
        { "kind": "slack", "url": "https://example.com/s" },
        { "kind": "email", "to": "ops@example.com" },
    ]);
    json!({ "alerts": { "put": { "key": key, "rule": rule, "targets": targets } } })
}

/// Every command with all of its fields.
fn commands() -> Vec<Value> {
    let packed = PackedLevel::new("data", Some("data:image/png;base64,AAAA")).expect("small data");
    let [data, thumb] = [Some(packed.data), packed.thumb].map(|content| json!(content));
    let query = json!({
        "window": "24h", "at_ms": 1, "season": 2, "filter": { "car": "red" }, "page": 1, "per_page": 20,
        "newest": true, "highest": true, "around": "ann", "friends": ["bob"], "player": "cid",
    });
    let change = json!({
        "order": "asc", "keep": "sum", "windows": ["day", "week", "month", "season", "all", "24h", "7d", "30d"],
        "min": "1", "max": "2", "decimals": 1, "mode": "server", "competitive": true,
        "checks": { "min_play_s": 1, "points_per_s_max": 2.5, "level": "l1" },
        "filters": ["car"], "code": "c", "new_code": "n", "title": "T",
    });
    let score = json!({
        "player": "ann", "name": "Ann", "score": "1.5", "subscore": "2", "fields": { "car": "red" },
        "source": "web", "session": "s", "code": "c",
    });
    let definition = json!({
        "value": 1, "default": 0, "schema": { "type": "integer" },
        "conditions": [{
            "name": "c", "value": 2, "country": ["FR"], "platform": ["web"], "version": ["1"], "segment": ["new"],
            "percent": { "from": 0.0, "to": 50.0, "salt": "s" },
            "starts_at": "2026-01-01T00:00:00.000Z", "ends_at": "2026-01-02T00:00:00.000Z",
        }],
        "description": "d", "starts_at": "2026-01-01T00:00:00.000Z", "ends_at": "2026-01-02T00:00:00.000Z",
    });
    let survey = json!({
        "title": "Mood", "questions": [
            { "key": "a", "kind": "choice", "text": "A?", "options": ["x", "y"] },
            { "key": "b", "kind": "scale", "text": "B?", "min": 0, "max": 4 },
            { "key": "c", "kind": "text", "text": "C?" },
        ],
        "audience": { "country": ["FR"], "platform": ["web"], "version": ["1"], "segment": ["new"] },
        "starts_at": "2026-01-01T00:00:00.000Z", "ends_at": "2026-01-02T00:00:00.000Z",
    });
    vec![
        json!({ "vars": { "put": { "name": "v", "definition": definition, "expected_version": 0 } } }),
        json!({ "vars": { "put_many": { "vars": { "v": null, "w": { "value": 1 } }, "expected_version": 1 } } }),
        json!({ "vars": { "delete": { "name": "v" } } }),
        json!({ "vars": { "roll_back": { "version": 1, "expected_version": 2 } } }),
        json!({ "boards": { "define": { "table": "t", "change": change } } }),
        json!({ "boards": { "reset": { "table": "t" } } }),
        json!({ "boards": { "submit": { "table": "t", "score": score, "list": query } } }),
        json!({ "boards": { "decide": { "table": "t", "id": "1", "accept": true } } }),
        json!({ "boards": { "ban": { "player": "ann", "reason": "r" } } }),
        json!({ "boards": { "lift": { "player": "ann" } } }),
        json!({ "levels": { "save": {
            "id": "abcdefghij01", "name": "cave", "player": "ann", "player_name": "Ann", "fields": { "size": "big" },
            "source": "web", "state": "draft", "data": data, "thumb": thumb,
        } } }),
        json!({ "levels": { "set_state": { "id": "abcdefghij01", "state": "published" } } }),
        json!({ "levels": { "set_state": { "id": "abcdefghij01", "state": "removed" } } }),
        json!({ "levels": { "rate": { "id": "abcdefghij01", "player": "bob", "rating": 9 } } }),
        json!({ "levels": { "flag": { "id": "abcdefghij01", "player": "bob", "reason": "rude" } } }),
        json!({ "levels": { "decide": { "id": "abcdefghij01", "decision": "keep" } } }),
        json!({ "levels": { "decide": { "id": "abcdefghij01", "decision": "remove" } } }),
        json!({ "feed": { "put_achievement": { "key": "a", "achievement": {
            "name": "A", "description": "d", "points": 5, "icon": "i", "hidden": true,
        } } } }),
        json!({ "feed": { "delete_achievement": { "key": "a" } } }),
        json!({ "feed": { "grant": { "key": "a", "player": "ann", "name": "Ann" } } }),
        json!({ "feed": { "follow": { "player": "ann", "other": "bob" } } }),
        json!({ "feed": { "unfollow": { "player": "ann", "other": "bob" } } }),
        json!({ "feed": { "post": {
            "player": "ann", "name": "Ann", "kind": "trade", "text": "hi", "props": { "n": 1 }, "at_ms": 7,
        } } }),
        json!({ "surveys": { "put": { "key": "mood", "definition": survey } } }),
        json!({ "surveys": { "delete": { "key": "mood" } } }),
        json!({ "surveys": { "answer": { "key": "mood", "player": "ann", "answers": { "a": "x" } } } }),
        json!({ "players": { "open_session": { "session": "s", "player": "ann", "name": "Ann" } } }),
        json!({ "players": { "erase": {
            "receipt": "r", "player": "ann", "links": [{ "anonymous": "anon", "player": "ann" }],
        } } }),
        json!({ "players": { "erased": { "receipt": "r", "found": { "events": 1, "commands": 2 } } } }),
        json!({ "players": { "purged": { "receipt": "r" } } }),
        json!({ "players": { "exported": { "receipt": "r" } } }),
        json!({ "players": { "erased": { "receipt": "r", "found": { "events": 1, "commands": 2 }, "until": 9 } } }),
        alert("errors", json!({ "op": ">", "value": 5.5 })),
        alert("low", json!({ "band": { "weeks": 4, "width": 2.5 } })),
        alert("twice", json!({ "previous": { "op": ">=", "factor": 2.0, "min": 1.5 } })),
        alert("silent", json!({ "no_data_s": 600 })),
        json!({ "alerts": { "mute": { "key": "low", "until": "2027-02-01T00:00:00.000Z" } } }),
        json!({ "alerts": { "test": { "key": "low" } } }),
        json!({ "alerts": { "transition": {
            "key": "errors", "revision": 33, "from": "ok", "to": "firing", "finding": {
                "value": 7.5, "low": 1.5, "high": 5.5, "series": [{ "key": { "country": "FR" }, "value": 7.5 }],
            },
        } } }),
        json!({ "alerts": { "attempt": {
            "key": "errors", "notification": 39, "target": "1", "delivered": false, "is_last": false, "error": "status 500",
        } } }),
        json!({ "alerts": { "delete": { "key": "silent" } } }),
        json!({ "cohorts": { "put": { "definition": {
            "name": "payers", "description": "d", "condition": { "event": "buy" }, "seen_within_days": 7,
        } } } }),
        json!({ "cohorts": { "put": { "definition": { "name": "list", "players": ["ann", "bob"] } } } }),
        json!({ "cohorts": { "delete": { "name": "list" } } }),
        json!({ "saved": { "put": {
            "kind": "question", "id": "q", "expected_version": 0, "content": {
                "name": "Q", "body": { "v": 1 }, "cohorts": { "payers": "question.request.where" },
            },
        } } }),
        json!({ "saved": { "put": { "kind": "dashboard", "id": "d", "content": { "name": "D", "body": [] } } } }),
        json!({ "saved": { "delete": { "kind": "dashboard", "id": "d" } } }),
        json!({ "vars": { "put": { "name": "c", "definition": {
            "value": 1, "conditions": [{ "name": "c", "value": 2, "cohort": ["payers"] }],
        } } } }),
        json!({ "surveys": { "put": { "key": "c", "definition": {
            "title": "C", "questions": [{ "key": "c", "kind": "text", "text": "C?" }],
            "audience": { "cohort": ["payers"] },
        } } } }),
    ]
}

#[test]
fn commands_keep_their_json() {
    for json in commands() {
        let command: Command =
            serde_json::from_value(json.clone()).unwrap_or_else(|error| panic!("{error}: {json}"));
        assert_eq!(serde_json::to_value(&command).expect("JSON"), json);
    }
}

#[test]
fn entry_keeps_its_bytes() {
    let signed = RequestSignature { session: "s".to_owned(), nonce: "n".to_owned() };
    let entry = CommandRef {
        game: 7,
        received_ms: NOW,
        by: Principal { caller: Caller::Public, signed: Some(signed) },
        tz: "UTC".to_owned(),
        idempotency: Some(Idempotency { key: "k".to_owned(), request: "r".to_owned() }),
        command: serde_json::from_value(json!({ "vars": { "delete": { "name": "v" } } })).expect("a command"),
        blob: b"blob",
    };
    let bytes = encode(&entry);
    let json = r#"{"by":{"caller":"public","signed":{"session":"s","nonce":"n"}},"tz":"UTC","#.to_owned()
        + r#""idempotency":{"key":"k","request":"r"},"command":{"vars":{"delete":{"name":"v"}}}}"#;
    assert_eq!(bytes[..4], [1, 0, 0, 0]);
    assert_eq!(bytes[4..8], 7_u32.to_le_bytes());
    assert_eq!(bytes[8..16], NOW.to_le_bytes());
    assert_eq!(bytes[16..20], (json.len() as u32).to_le_bytes());
    assert_eq!(std::str::from_utf8(&bytes[20..]).expect("text"), json + "blob");
    assert_eq!(CommandRef::read(&bytes).expect("a command"), entry);
    let callers = [Caller::Public, Caller::Server, Caller::Person];
    assert_eq!(json!(callers), json!(["public", "server", "person"]));
}

#[test]
fn records_keep_their_bytes() {
    let mut world = World::new(NOW);
    let mut send = |caller: Caller, key: Option<&str>, json: Value, blob: &[u8]| {
        world.now_ms += 1_000;
        let command: Command = serde_json::from_value(json.clone()).expect("a command");
        let idempotency = key.map(|key| Idempotency { key: key.to_owned(), request: "digest".to_owned() });
        let outcome = world.send_whole(Principal { caller, signed: None }, idempotency, command, blob);
        outcome.unwrap_or_else(|refusal| panic!("{refusal:?}: {json}"))
    };
    let packed = PackedLevel::new("data", Some("data:image/png;base64,AAAA")).expect("small data");
    let server = |json: Value| (Caller::Server, None, json, &[][..]);
    let mut scenes = Vec::new();
    let all = commands();
    scenes.push(server(
        json!({ "players": { "open_session": { "session": "s", "player": "cid", "name": "Cid" } } }),
    ));
    scenes.push((Caller::Server, Some("key"), all[0].clone(), &[]));
    scenes.push(server(json!({ "vars": { "put": { "name": "w", "definition": { "value": [1.0] } } } })));
    scenes.push(server(json!({ "boards": { "define": { "table": "t", "change": {
        "order": "asc", "keep": "sum", "windows": ["season", "7d"], "min": "1", "max": "2", "decimals": 1,
        "mode": "server", "competitive": true, "checks": { "level": "l1" }, "filters": ["car"], "code": "c", "title": "T",
    } } } })));
    scenes.push(server(json!({ "boards": { "define": { "table": "open", "change": {
        "mode": "open", "checks": { "min_play_s": 100, "points_per_s_max": 0.5, "level": "l1" },
    } } } })));
    let score = |score: &str, session: Value| {
        json!({ "boards": { "submit": { "table": "open", "score": {
            "player": "cid", "name": "Cid", "score": score, "session": session,
        } } } })
    };
    scenes.push((Caller::Public, None, score("7", json!("s")), &[]));
    scenes.push((Caller::Public, None, score("9", Value::Null), &[]));
    for (player, score, car) in [("ann", "1.5", "red"), ("bob", "2", "blue"), ("ann", "1.2", "red")] {
        let score = json!({ "player": player, "name": "N", "score": score, "subscore": "1", "fields": { "car": car },
            "source": "web", "code": "c" });
        scenes.push(server(json!({ "boards": { "submit": { "table": "t", "score": score } } })));
        scenes.push(server(json!({ "boards": { "submit": { "table": "open", "score": {
            "player": player, "score": "5",
        } } } })));
    }
    scenes.push(server(json!({ "boards": { "ban": { "player": "eve", "reason": "r" } } })));
    scenes.push((Caller::Server, None, all[10].clone(), &packed.blob));
    scenes.push(server(all[11].clone()));
    scenes.push(server(all[13].clone()));
    scenes.push(server(all[14].clone()));
    scenes.push(server(all[17].clone()));
    scenes.push(server(all[19].clone()));
    scenes.push(server(all[20].clone()));
    scenes.push(server(all[22].clone()));
    scenes.push(server(json!({ "surveys": { "put": { "key": "mood", "definition": {
        "title": "Mood", "questions": [
            { "key": "a", "kind": "choice", "text": "A?", "options": ["x", "y"] },
            { "key": "b", "kind": "scale", "text": "B?", "min": 0, "max": 4 },
            { "key": "c", "kind": "text", "text": "C?" },
        ],
    } } } })));
    scenes.push(server(json!({ "surveys": { "answer": {
        "key": "mood", "player": "ann", "answers": { "a": "y", "b": 3, "c": "so" },
    } } })));
    scenes.push(server(all[30].clone()));
    scenes.push(server(json!({ "players": { "erase": {
        "receipt": "e1", "player": "zoe", "links": [{ "anonymous": "anon", "player": "zoe" }],
    } } })));
    scenes.push(server(json!({ "players": { "erase": { "receipt": "e2", "player": "yan" } } })));
    scenes.push(server(
        json!({ "players": { "erased": { "receipt": "e2", "found": { "events": 1, "commands": 2 } } } }),
    ));
    scenes.push(server(json!({ "players": { "erase": { "receipt": "e3", "player": "xia" } } })));
    scenes.push(server(
        json!({ "players": { "erased": { "receipt": "e3", "found": { "events": 1, "commands": 2 } } } }),
    ));
    scenes.push(server(json!({ "players": { "purged": { "receipt": "e3" } } })));
    let revision = scenes.len() as u64 + 1;
    scenes.push(server(all[32].clone()));
    scenes.extend(all[33..38].iter().map(|command| server(command.clone())));
    let mut firing = all[38].clone();
    firing["alerts"]["transition"]["revision"] = revision.into();
    let mut attempt = all[39].clone();
    attempt["alerts"]["attempt"]["notification"] = (scenes.len() + 1).into();
    scenes.extend([firing, attempt, all[40].clone()].map(server));
    let is_new =
        |command: &&Value| command["cohorts"]["put"].is_object() || command["saved"]["put"].is_object();
    all.iter().filter(is_new).for_each(|command| scenes.push(server(command.clone())));
    for (caller, key, json, blob) in scenes {
        send(caller, key, json, blob);
    }
    world.play("l1", "cid", "win");
    world.link("anon-2", "ann");
    let key = world.send_whole(
        Principal { caller: Caller::Server, signed: None },
        Some(Idempotency { key: "refused".to_owned(), request: "digest".to_owned() }),
        serde_json::from_value(json!({ "vars": { "delete": { "name": "none" } } })).expect("a command"),
        &[],
    );
    key.expect_err("there is no such variable");
    let signed = RequestSignature { session: "s".to_owned(), nonce: "n-1".to_owned() };
    let follow = serde_json::from_value(json!({ "feed": { "follow": { "player": "cid", "other": "bob" } } }));
    world
        .send_whole(
            Principal { caller: Caller::Public, signed: Some(signed) },
            None,
            follow.expect("a command"),
            &[],
        )
        .expect("a follow");
    world.checkpoint();
    // The output of zstd may change from version to version.
    let shown = |key: &[u8], value: &[u8]| match key[4] {
        LEVEL_BLOBS => "(zstd)".to_owned(),
        _ => value.escape_ascii().to_string(),
    };
    let records = world.records().into_iter();
    let lines = records.map(|(key, value)| format!("{} = {}\n", key.escape_ascii(), shown(&key, &value)));
    let text: String = lines.collect();
    expect_file!["records.txt"].assert_eq(&text);
}
