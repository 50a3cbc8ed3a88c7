//! Only the fields that a route lists ever reach the state.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::Request;
use crate::openapi::{Operation, description};
use crate::world::World;

/// Fields that the server owns, and others that a careless merge would accept.
const SERVERS_OWN: [&str; 44] = [
    "id",
    "_id",
    "game",
    "game_id",
    "tenant",
    "owner",
    "owner_id",
    "author",
    "rank",
    "verified",
    "role",
    "roles",
    "votes",
    "rating",
    "created_at",
    "updated_at",
    "created",
    "started_ms",
    "scope",
    "scopes",
    "admin",
    "is_admin",
    "token",
    "key",
    "secret",
    "sha256",
    "expires_at",
    "expires_ms",
    "quarantined",
    "banned",
    "moderated",
    "featured",
    "score_id",
    "position",
    "offset",
    "history",
    "flags",
    "starts",
    "wins",
    "total",
    "session_key",
    "by",
    "__proto__",
    "constructor",
];

/// The answers of all reads whose examples work, to detect changes of the state.
fn state(
    world: &World,
    operations: &[Operation],
    created: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let reads = operations.iter().filter(|operation| {
        let moves = [
            // Rules are evaluated, and notifications are delivered.
            "/v1/alerts",
            "/v1/alerts/{key}",
            "/v1/alerts/{key}/deliveries",
            "/v1/watch",
            "/v1/load",
            "/v1/query",
            "/v1/players",
            "/v1/flows",
            "/v1/flows/ended",
            "/v1/monitor",
            "/metrics",
            "/v1/me",
            // The moment of the answer, or of the last evaluation.
            "/v1/players/{player}",
            "/v1/players/{player}/timeline",
            "/v1/questions/{id}/answer",
            "/v1/cohorts",
            "/v1/cohorts/{name}",
            // The latency of recent commits.
            "/v1/import",
            // An archive with the time of its creation.
            "/v1/games/{game}/export",
        ];
        operation.method == "get" && !moves.contains(&&*operation.path)
    });
    reads
        .map(|operation| {
            let answer = world.send(&operation.request(created).key(&world.secret_key));
            (operation.target(created), format!("{} {}", answer.status, answer.text()))
        })
        .collect()
}

/// The request with one more field, in four spellings, each with its expected status.
fn spellings(operation: &Operation, created: &BTreeMap<String, String>, name: &str) -> Vec<(Request, u16)> {
    let body = operation.body().unwrap_or(Value::Null);
    let Some(fields) = body.as_object() else { return Vec::new() };
    let mut more = fields.clone();
    more.insert(name.to_owned(), json!("forged"));
    let escaped: String = name.chars().map(|char| format!("\\u{:04x}", char as u32)).collect();
    let inner = body.to_string();
    let spelt = format!("{{\"{escaped}\":\"forged\",{}", &inner[1..]);
    let form: String = fields.iter().map(|(name, value)| format!("{name}={value}&")).collect();
    let base = operation.request(created);
    let target = operation.target(created);
    let separator = if target.contains('?') { '&' } else { '?' };
    vec![
        (base.clone().body(Value::Object(more.clone()).to_string()), 400),
        (base.clone().body(spelt), 400),
        (base.clone().header("Content-Type", "text/plain").body(Value::Object(more).to_string()), 400),
        (
            base.to(format!("{target}{separator}{name}=forged"))
                .header("Content-Type", "application/x-www-form-urlencoded")
                .body(format!("{form}{name}=forged")),
            415,
        ),
    ]
}

#[test]
fn server_owned_fields_are_rejected_on_every_route() {
    let world = World::new();
    let description = description(&world);
    let operations = Operation::all(&description);
    let mut created = BTreeMap::new();
    for operation in operations.iter().filter(|operation| ["put", "post"].contains(&operation.method)) {
        let answer = world.send(&operation.request(&created).key(&world.secret_key));
        if answer.status == 201 && answer.text().starts_with('{') {
            let id = answer.json()["id"].as_str().map(str::to_owned);
            id.map(|id| created.insert(format!("{}/", operation.path), id));
        }
    }
    let before = state(&world, &operations, &created);
    let mut connection = world.connect();
    let (mut sent, mut wrong) = (0, Vec::new());
    const READ_ONLY: [&str; 11] = [
        "/v1/alerts:preview",
        "/v1/query",
        "/v1/explore",
        "/v1/funnel",
        "/v1/retention",
        "/v1/paths",
        "/v1/levels:outcomes",
        "/v1/levels:heatmap",
        "/v1/sql",
        "/v1/experiments:results",
        "/v1/cohorts:preview",
    ];
    // Events and packets get a receipt per event instead; questions write nothing. What needs a sign-in is tested in
    // `games.rs`.
    let writes = operations.iter().filter(|operation| {
        operation.method != "get"
            && !operation.requires_sign_in()
            && !["/v1/events", "/v1/flows/packets"].contains(&&*operation.path)
            && !READ_ONLY.contains(&&*operation.path)
    });
    for operation in writes {
        let listed = operation.fields(&description);
        for name in SERVERS_OWN.iter().filter(|name| !listed.contains(**name)) {
            for (request, expected) in spellings(operation, &created, name) {
                let answer = connection.send(&request.key(&world.secret_key)).expect("an answer");
                sent += 1;
                if answer.status != expected || (expected == 400 && answer.json()["field"] != **name) {
                    wrong.push(format!("{} {} {name}: {}", operation.method, operation.path, answer.text()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {sent}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(sent > 4 * 40, "{sent} were sent");
    assert_eq!(state(&world, &operations, &created), before);
}
