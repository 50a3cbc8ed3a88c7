//! Authorization: each route with each credential, and the commands that create and revoke keys.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Answer, Request};
use crate::route_table;
use crate::world::World;

/// Each route with its method, an example target and the expected status without a credential, with a wrong key, with a
/// public key, with a key that may only write, with one that may only query, and with one that has every scope.
const MATRIX: &[(&str, &str, &str, [u16; 6])] = &[
    ("/v1/session", "POST", "/v1/session", [401, 401, 201, 403, 403, 201]),
    ("/v1/events", "POST", "/v1/events", [401, 401, 202, 202, 403, 202]),
    (
        "/v1/events/receipts/{batch}",
        "GET",
        "/v1/events/receipts/00000000-0000-7000-8000-000000000000",
        [401, 401, 404, 404, 403, 404],
    ),
    ("/v1/query", "GET", "/v1/query?metric=win", [401, 401, 403, 403, 200, 200]),
    ("/v1/query", "POST", "/v1/query", [401, 401, 403, 403, 200, 200]),
    ("/v1/explore", "POST", "/v1/explore", [401, 401, 403, 403, 200, 200]),
    ("/v1/funnel", "POST", "/v1/funnel", [401, 401, 403, 403, 200, 200]),
    ("/v1/retention", "POST", "/v1/retention", [401, 401, 403, 403, 200, 200]),
    ("/v1/paths", "POST", "/v1/paths", [401, 401, 403, 403, 200, 200]),
    ("/v1/levels:outcomes", "POST", "/v1/levels:outcomes", [401, 401, 403, 403, 200, 200]),
    ("/v1/levels:heatmap", "POST", "/v1/levels:heatmap", [401, 401, 403, 403, 200, 200]),
    ("/v1/sql", "POST", "/v1/sql", [401, 401, 403, 403, 200, 200]),
    ("/v1/export/events", "GET", "/v1/export/events", [401, 401, 403, 403, 403, 403]),
    ("/v1/players", "GET", "/v1/players?search=bo", [401, 401, 403, 403, 200, 200]),
    ("/v1/players/{player}", "GET", "/v1/players/stranger", [401, 401, 403, 403, 404, 404]),
    ("/v1/players/{player}/timeline", "GET", "/v1/players/bo/timeline", [401, 401, 403, 403, 200, 200]),
    ("/v1/cohorts", "POST", "/v1/cohorts", [401, 401, 403, 403, 403, 201]),
    ("/v1/cohorts", "GET", "/v1/cohorts", [401, 401, 403, 403, 200, 200]),
    ("/v1/cohorts/{name}", "GET", "/v1/cohorts/testers", [401, 401, 403, 403, 200, 200]),
    ("/v1/cohorts:preview", "POST", "/v1/cohorts:preview", [401, 401, 403, 403, 200, 200]),
    ("/v1/cohorts/{name}", "DELETE", "/v1/cohorts/testers", [401, 401, 403, 403, 403, 204]),
    ("/v1/experiments", "GET", "/v1/experiments", [401, 401, 403, 403, 200, 200]),
    ("/v1/experiments:results", "POST", "/v1/experiments:results", [401, 401, 403, 403, 404, 404]),
    ("/v1/questions/{id}", "PUT", "/v1/questions/wins", [401, 401, 403, 403, 403, 201]),
    ("/v1/questions", "GET", "/v1/questions", [401, 401, 403, 403, 200, 200]),
    ("/v1/questions/{id}", "GET", "/v1/questions/wins", [401, 401, 403, 403, 200, 200]),
    ("/v1/questions/{id}/answer", "GET", "/v1/questions/wins/answer", [401, 401, 403, 403, 200, 200]),
    ("/v1/questions/{id}", "DELETE", "/v1/questions/wins", [401, 401, 403, 403, 403, 204]),
    ("/v1/dashboards/{id}", "PUT", "/v1/dashboards/home", [401, 401, 403, 403, 403, 201]),
    ("/v1/dashboards", "GET", "/v1/dashboards", [401, 401, 403, 403, 200, 200]),
    ("/v1/dashboards/{id}", "GET", "/v1/dashboards/home", [401, 401, 403, 403, 200, 200]),
    ("/v1/dashboards/{id}", "DELETE", "/v1/dashboards/home", [401, 401, 403, 403, 403, 204]),
    ("/v1/load", "GET", "/v1/load", [401, 401, 403, 403, 200, 200]),
    ("/v1/monitor", "GET", "/v1/monitor", [401, 401, 403, 403, 403, 200]),
    ("/v1/dimensions", "GET", "/v1/dimensions", [401, 401, 403, 403, 200, 200]),
    ("/v1/flows/packets", "POST", "/v1/flows/packets", [401, 401, 403, 202, 403, 202]),
    ("/v1/flows", "GET", "/v1/flows", [401, 401, 403, 403, 200, 200]),
    ("/v1/flows/ended", "GET", "/v1/flows/ended", [401, 401, 403, 403, 200, 200]),
    ("/v1/flows/{id}", "GET", "/v1/flows/0000000000000001", [401, 401, 403, 403, 404, 404]),
    ("/v1/import", "POST", "/v1/import", [401, 401, 403, 403, 403, 202]),
    ("/v1/import", "GET", "/v1/import", [401, 401, 403, 403, 403, 200]),
    ("/v1/agent/readings", "POST", "/v1/agent/readings", [401, 401, 403, 204, 403, 204]),
    ("/v1/metrics", "POST", "/v1/metrics", [401, 401, 200, 200, 403, 200]),
    ("/v1/logs", "POST", "/v1/logs", [401, 401, 200, 200, 403, 200]),
    ("/v1/traces", "POST", "/v1/traces", [401, 401, 200, 200, 403, 200]),
    ("/api/v1/write", "POST", "/api/v1/write", [401, 401, 415, 415, 403, 415]),
    ("/query", "GET", "/query?q=SHOW+DATABASES", [401, 401, 200, 200, 403, 200]),
    ("/query", "POST", "/query?q=SHOW+DATABASES", [401, 401, 200, 200, 403, 200]),
    ("/api/v2/write", "POST", "/api/v2/write", [401, 401, 204, 204, 403, 204]),
    ("/write", "POST", "/write", [401, 401, 204, 204, 403, 204]),
    ("/v1/collectors", "GET", "/v1/collectors", [401, 401, 403, 403, 200, 200]),
    ("/v1/watch", "GET", "/v1/watch?load=1", [401, 401, 403, 403, 200, 200]),
    ("/v1/watch", "GET", "/v1/watch?events=1", [401, 401, 403, 403, 200, 200]),
    ("/v1/subscriptions", "GET", "/v1/subscriptions", [401, 401, 403, 403, 200, 200]),
    ("/v1/achievements/{key}", "PUT", "/v1/achievements/first", [401, 401, 403, 403, 403, 200]),
    ("/v1/achievements", "GET", "/v1/achievements", [401, 401, 200, 200, 200, 200]),
    ("/v1/achievements/{key}/grants", "POST", "/v1/achievements/none/grants", [401, 401, 401, 403, 403, 404]),
    ("/v1/achievements/{key}", "DELETE", "/v1/achievements/none", [401, 401, 403, 403, 403, 404]),
    ("/v1/feed", "POST", "/v1/feed", [401, 401, 401, 403, 403, 201]),
    ("/v1/feed/{player}", "GET", "/v1/feed/bo", [401, 401, 200, 200, 200, 200]),
    ("/v1/players/{player}/follows", "GET", "/v1/players/bo/follows", [401, 401, 200, 200, 200, 200]),
    (
        "/v1/players/{player}/follows/{other}",
        "PUT",
        "/v1/players/bo/follows/cy",
        [401, 401, 401, 403, 403, 204],
    ),
    (
        "/v1/players/{player}/follows/{other}",
        "DELETE",
        "/v1/players/bo/follows/cy",
        [401, 401, 401, 403, 403, 204],
    ),
    ("/v1/boards/{table}", "PUT", "/v1/boards/open", [401, 401, 403, 403, 403, 201]),
    ("/v1/boards", "GET", "/v1/boards", [401, 401, 200, 200, 200, 200]),
    ("/v1/boards/{table}", "GET", "/v1/boards/none", [401, 401, 404, 404, 404, 404]),
    ("/v1/boards/{table}/scores", "POST", "/v1/boards/new/scores", [401, 401, 401, 403, 403, 200]),
    ("/v1/boards/{table}/scores", "GET", "/v1/boards/none/scores", [401, 401, 404, 404, 404, 404]),
    (
        "/v1/boards/{table}/scores:saveAndList",
        "POST",
        "/v1/boards/newer/scores:saveAndList",
        [401, 401, 401, 403, 403, 200],
    ),
    ("/v1/boards/{table}/reset", "POST", "/v1/boards/none/reset", [401, 401, 403, 403, 403, 404]),
    ("/v1/boards/{table}/quarantine", "GET", "/v1/boards/none/quarantine", [401, 401, 403, 403, 403, 404]),
    (
        "/v1/boards/{table}/quarantine/{id}",
        "POST",
        "/v1/boards/none/quarantine/1",
        [401, 401, 403, 403, 403, 404],
    ),
    ("/v1/players/{player}/ban", "PUT", "/v1/players/eve/ban", [401, 401, 403, 403, 403, 204]),
    ("/v1/players/{player}/ban", "DELETE", "/v1/players/eve/ban", [401, 401, 403, 403, 403, 204]),
    ("/v1/levels", "POST", "/v1/levels", [401, 401, 201, 403, 403, 200]),
    ("/v1/levels", "GET", "/v1/levels", [401, 401, 200, 200, 200, 200]),
    ("/v1/levels/{id}", "GET", "/v1/levels/nowhere00000", [401, 401, 404, 404, 404, 404]),
    ("/v1/levels/{id}", "PATCH", "/v1/levels/nowhere00000", [401, 401, 401, 403, 403, 404]),
    ("/v1/levels/{id}/rating", "POST", "/v1/levels/nowhere00000/rating", [401, 401, 404, 403, 403, 404]),
    ("/v1/levels/{id}/flags", "POST", "/v1/levels/nowhere00000/flags", [401, 401, 404, 403, 403, 404]),
    ("/v1/moderation", "GET", "/v1/moderation", [401, 401, 403, 403, 403, 200]),
    ("/v1/moderation/{id}", "POST", "/v1/moderation/nowhere00000", [401, 401, 403, 403, 403, 404]),
    ("/v1/watch", "GET", "/v1/watch?vars=1", [401, 401, 200, 200, 200, 200]),
    ("/v1/vars", "GET", "/v1/vars", [401, 401, 200, 200, 200, 200]),
    ("/v1/vars", "PUT", "/v1/vars", [401, 401, 403, 403, 403, 200]),
    ("/v1/vars/{name}", "PUT", "/v1/vars/a", [401, 401, 403, 403, 403, 200]),
    ("/v1/vars/{name}", "GET", "/v1/vars/none", [401, 401, 404, 404, 404, 404]),
    ("/v1/vars/{name}", "DELETE", "/v1/vars/a", [401, 401, 403, 403, 403, 200]),
    ("/v1/vars:definitions", "GET", "/v1/vars:definitions", [401, 401, 403, 403, 403, 200]),
    ("/v1/vars:history", "GET", "/v1/vars:history", [401, 401, 403, 403, 403, 200]),
    ("/v1/vars:rollback", "POST", "/v1/vars:rollback", [401, 401, 403, 403, 403, 200]),
    ("/v1/surveys/{key}", "PUT", "/v1/surveys/a", [401, 401, 403, 403, 403, 201]),
    ("/v1/surveys", "GET", "/v1/surveys?player=bo", [401, 401, 200, 200, 200, 200]),
    ("/v1/surveys", "GET", "/v1/surveys", [401, 401, 400, 403, 200, 200]),
    ("/v1/surveys/{key}/answers", "POST", "/v1/surveys/none/answers", [401, 401, 404, 404, 403, 404]),
    ("/v1/surveys/{key}/results", "GET", "/v1/surveys/none/results", [401, 401, 403, 403, 404, 404]),
    ("/v1/surveys/{key}", "DELETE", "/v1/surveys/a", [401, 401, 403, 403, 403, 204]),
    ("/v1/alerts/{key}", "PUT", "/v1/alerts/a", [401, 401, 403, 403, 403, 201]),
    ("/v1/alerts", "GET", "/v1/alerts", [401, 401, 403, 403, 200, 200]),
    ("/v1/alerts/{key}", "GET", "/v1/alerts/none", [401, 401, 403, 403, 404, 404]),
    ("/v1/alerts/{key}/mute", "PUT", "/v1/alerts/none/mute", [401, 401, 403, 403, 403, 404]),
    ("/v1/alerts/{key}/test", "POST", "/v1/alerts/none/test", [401, 401, 403, 403, 403, 404]),
    ("/v1/alerts/{key}/deliveries", "GET", "/v1/alerts/none/deliveries", [401, 401, 403, 403, 404, 404]),
    ("/v1/alerts:preview", "POST", "/v1/alerts:preview", [401, 401, 403, 403, 200, 200]),
    ("/v1/alerts/{key}", "DELETE", "/v1/alerts/a", [401, 401, 403, 403, 403, 204]),
    ("/v1/players/{player}/export", "GET", "/v1/players/bo/export", [401, 401, 403, 403, 403, 200]),
    ("/v1/players/{player}", "DELETE", "/v1/players/bo", [401, 401, 403, 403, 403, 202]),
    ("/v1/erasures/{receipt}", "GET", "/v1/erasures/none", [401, 401, 403, 403, 403, 404]),
    ("/v1", "POST", "/v1?publickey=nobody", [200; 6]),
    ("/tracker/q.aspx", "GET", "/tracker/q.aspx?q=p/1", [401; 6]),
    ("/{key}/tracker/q.aspx", "GET", "/nobody/tracker/q.aspx?q=p/1", [401; 6]),
    ("/websocket", "GET", "/websocket", [426, 401, 426, 426, 426, 426]),
    ("/ddp", "GET", "/ddp", [426, 401, 426, 426, 426, 426]),
    ("/e", "POST", "/e", [401; 6]),
    ("/e/", "POST", "/e/", [401; 6]),
    ("/i/v0/e", "POST", "/i/v0/e", [401; 6]),
    ("/i/v0/e/", "POST", "/i/v0/e/", [401; 6]),
    ("/capture", "POST", "/capture", [401; 6]),
    ("/capture/", "POST", "/capture/", [401; 6]),
    ("/batch", "POST", "/batch", [401; 6]),
    ("/batch/", "POST", "/batch/", [401; 6]),
    ("/v1/batch", "POST", "/v1/batch", [401; 6]),
    ("/v1/track", "POST", "/v1/track", [401; 6]),
    ("/v1/identify", "POST", "/v1/identify", [401; 6]),
    ("/v1/page", "POST", "/v1/page", [401; 6]),
    ("/v1/screen", "POST", "/v1/screen", [401; 6]),
    ("/v1/group", "POST", "/v1/group", [401; 6]),
    ("/v1/alias", "POST", "/v1/alias", [401; 6]),
    ("/v2/{key}/events", "POST", "/v2/nobody/events", [401; 6]),
    ("/v2/{key}/init", "POST", "/v2/nobody/init", [401; 6]),
    ("/remote_configs/v1/init", "POST", "/remote_configs/v1/init?game_key=nobody", [401; 6]),
    ("/v1/me", "GET", "/v1/me", [401; 6]),
    ("/v1/games", "GET", "/v1/games", [401, 401, 403, 403, 403, 403]),
    ("/v1/games", "POST", "/v1/games", [401, 401, 403, 403, 403, 403]),
    ("/v1/games/{game}", "PATCH", "/v1/games/demo", [401, 401, 403, 403, 403, 403]),
    ("/v1/games/{game}", "DELETE", "/v1/games/demo", [401, 401, 403, 403, 403, 403]),
    ("/v1/games/{game}/export", "GET", "/v1/games/demo/export", [401, 401, 403, 403, 403, 200]),
    ("/metrics", "GET", "/metrics", [200; 6]),
    ("/readyz", "GET", "/readyz", [200; 6]),
];

/// Routes that need no credential.
const OPEN: &[&str] = &[
    "/ping",
    "/health",
    "/play",
    "/play/",
    "/play/config.json",
    "/play/{*path}",
    "/openapi.json",
    "/sdk/integrity.json",
    "/sdk/{file}",
    "/sdk/{version}/{file}",
    "/healthz",
    "/sign-in",
    "/v1/sign-out",
    "/flags",
    "/flags/",
    "/decide",
    "/decide/",
    "/array/{key}/config",
    "/array/{key}/config.js",
    "/",
    "/assets/{*path}",
    "/{file}",
    // These find their game by the site that the page names.
    "/api/event",
    "/api/send",
    // A session logs in like one at `/ddp`.
    "/sockjs",
    "/sockjs/",
    "/sockjs/info",
    "/sockjs/{server}/{session}/websocket",
    "/sockjs/{server}/{session}/xhr",
    "/sockjs/{server}/{session}/xhr_send",
    "/sockjs/{server}/{session}/xhr_streaming",
    // The game and its key are in the body, or in the path that this test does not fill in.
    "/tracker/p.aspx",
    "/{key}/tracker/p.aspx",
    "/v3/api.aspx",
    "/{key}/v3/api.aspx",
];

fn request(method: &'static str, target: &str) -> Request {
    let body = match (method, target) {
        (_, "/v1/events") | ("POST", "/v1/import") => r#"{"event":"win"}"#,
        (_, "/v1/session") => r#"{"player":"bo"}"#,
        ("PUT", "/v1/achievements/first") => r#"{"name":"First"}"#,
        (_, "/v1/achievements/none/grants") => r#"{"player":"bo"}"#,
        ("POST", "/v1/feed") => r#"{"player":"bo","text":"hello"}"#,
        ("PUT", "/v1/boards/open") => r#"{"mode":"open"}"#,
        ("POST", "/v1/boards/none/quarantine/1") => r#"{"decision":"reject"}"#,
        ("PUT", "/v1/players/eve/ban") => "{}",
        ("POST", "/v1/boards/new/scores" | "/v1/boards/newer/scores:saveAndList") => {
            r#"{"player":"bo","score":7}"#
        }
        ("POST", "/v1/levels") => r#"{"name":"cave","data":"..x","player":"bo"}"#,
        ("PATCH", _) => r#"{"state":"draft"}"#,
        ("POST", "/v1/levels/nowhere00000/rating") => r#"{"player":"bo","rating":9}"#,
        ("POST", "/v1/levels/nowhere00000/flags") => r#"{"player":"bo"}"#,
        ("POST", "/v1/moderation/nowhere00000") => r#"{"decision":"keep"}"#,
        ("POST", "/v1/query") => r#"{"metric":"win"}"#,
        (_, "/v1/explore" | "/v1/paths") => r#"{"event":"win"}"#,
        (_, "/v1/funnel") => r#"{"steps":[{"event":"start"},{"event":"win"}]}"#,
        (_, "/v1/retention") => r#"{"start":{"event":"win"},"return":{"event":"win"}}"#,
        (_, "/v1/sql") => r#"{"sql":"SELECT 1"}"#,
        (_, "/v1/levels:outcomes") => "{}",
        (_, "/v1/experiments:results") => r#"{"variable":"none","metric":{"event":"win"}}"#,
        ("PUT", "/v1/questions/wins") => {
            r#"{"name":"Wins","question":{"v":1,"kind":"explore","request":{"event":"win"},"range":{"last":"1d"}}}"#
        }
        ("PUT", "/v1/dashboards/home") => r#"{"name":"Home","tiles":[]}"#,
        ("POST", "/v1/cohorts") => r#"{"name":"testers","players":["bo"]}"#,
        (_, "/v1/cohorts:preview") => r#"{"condition":{"event":"win"}}"#,
        (_, "/v1/levels:heatmap") => r#"{"map":"castle","metric":"deaths"}"#,
        ("PUT", "/v1/vars") => r#"{"vars":{"a":{"value":1}}}"#,
        ("PUT", "/v1/vars/a") => r#"{"value":2}"#,
        (_, "/v1/vars:rollback") => r#"{"version":1}"#,
        ("PUT", "/v1/surveys/a") => r#"{"title":"a","questions":[{"key":"q","kind":"scale","text":"q"}]}"#,
        (_, "/v1/surveys/none/answers") => r#"{"player":"bo","answers":{"q":1}}"#,
        (_, "/v1/alerts/a" | "/v1/alerts:preview") if method != "DELETE" => {
            r#"{"query":{"metric":"win","last":"5m"},"compare":{"op":">","value":1}}"#
        }
        (_, "/v1/alerts/none/mute") => r#"{"until":null}"#,
        (_, "/v1/metrics") => r#"{"resourceMetrics":[]}"#,
        (_, "/v1/logs" | "/v1/traces") => "{}",
        (_, "/api/v2/write" | "/write" | "/v1/agent/readings") => "load value=1",
        (_, "/e" | "/e/" | "/i/v0/e" | "/i/v0/e/" | "/capture" | "/capture/" | "/batch" | "/batch/") => "{}",
        (_, "/v1/batch") => r#"{"batch":[]}"#,
        (_, "/v1/track" | "/v1/identify" | "/v1/page" | "/v1/screen" | "/v1/group" | "/v1/alias") => "{}",
        _ => "",
    };
    let request = Request::new(method, target).body(body);
    if ["/v1/metrics", "/v1/logs", "/v1/traces"].contains(&target) {
        request.header("Content-Type", "application/json")
    } else {
        request
    }
}

#[test]
fn each_route_enforces_its_credentials() {
    let world = World::new();
    let (writer, reader) = (world.key("events:write"), world.key("query"));
    let wrong = "pm_sk_000000000000_0000000000000000000000000000000000000000000_00000000".to_owned();
    let credentials =
        [None, Some(&wrong), Some(&world.public_key), Some(&writer), Some(&reader), Some(&world.secret_key)];
    for &(_, method, target, expected) in MATRIX {
        for (credential, status) in credentials.into_iter().zip(expected) {
            let mut request = request(method, target);
            if let Some(key) = credential {
                request = request.key(key);
            }
            let answer = world.send(&request);
            assert_eq!(answer.status, status, "{method} {target} with {credential:?}: {}", answer.text());
            if status >= 400 {
                answer.summary();
            }
        }
    }
}

#[test]
fn credential_table_lists_every_route() {
    let routes = route_table::routes();
    let routes = routes.iter().map(|(path, _)| path.as_str());
    let routes: BTreeSet<&str> = routes.chain(["/v1/events"]).collect();
    let known: BTreeSet<&str> = MATRIX.iter().map(|row| row.0).chain(OPEN.iter().copied()).collect();
    assert_eq!(routes, known);
}

#[test]
fn request_without_a_credential_is_rejected_before_parsing() {
    let world = World::new();
    for (method, target, body) in [
        ("GET", "/v1/query?measure=nonsense", ""),
        ("POST", "/v1/query", "{"),
        ("GET", "/v1/load?from=nonsense", ""),
        ("GET", "/v1/load?nonsense=1", ""),
        ("GET", "/v1/watch", ""),
        ("GET", "/v1/watch?nonsense=1", ""),
        ("POST", "/v1/events?ack=nonsense", "{"),
    ] {
        assert_eq!(
            world.send(&Request::new(method, target).body(body)).summary(),
            "401 key",
            "{method} {target}"
        );
    }
}

#[test]
fn secret_key_is_rejected_in_urls_and_browsers() {
    let world = World::new();
    for &(_, method, target, expected) in MATRIX.iter().filter(|row| row.3[0] == 401) {
        let separator = if target.contains('?') { '&' } else { '?' };
        let in_url = request(method, target).to(format!("{target}{separator}key={}", world.secret_key));
        assert_eq!(world.send(&in_url).status, 401, "{method} {target}");
        let in_browser =
            request(method, target).key(&world.secret_key).header("Origin", "https://game.example");
        assert_eq!(world.send(&in_browser).status, 401, "{method} {target}");
        let in_public = request(method, target).to(format!("{target}{separator}key={}", world.public_key));
        assert_eq!(world.send(&in_public).status, expected[2], "{method} {target}");
    }
    let summary = |request: Request| world.send(&request).summary();
    let events = || Request::events(r#"{"event":"win"}"#);
    assert_eq!(summary(events().to(format!("/v1/events?key={}", world.secret_key))), "401 key (key)");
    assert_eq!(summary(events().header("Authorization", "Basic YTpi")), "401 key (Authorization)");
    assert_eq!(
        summary(events().header("Authorization", &format!("bearer {}", world.public_key))),
        "1 accepted"
    );
    assert_eq!(summary(events().key("")), "401 key (Authorization)");
    assert_eq!(summary(events().key("pm_pk_ü")), "401 key (Authorization)");
}

#[test]
fn only_the_key_determines_the_game() {
    let world = World::new();
    world.command(&["games", "create", "other", "--json"]).json();
    world.post(r#"{"event":"win"}"#);
    let created = world.command(&["keys", "create", "--game", "other", "--scopes", "query", "--json"]).json();
    let key = created["secret_key"].as_str().expect("a secret key");
    for target in ["/v1/load", "/v1/load?game=demo"] {
        let load = world.send(&Request::get(target).key(key)).json();
        assert_eq!(load["totals"]["received"], 0, "{target}");
    }
    for target in ["/v1/query?metric=win&step=all", "/v1/query?metric=win&step=all&game=demo"] {
        let answer = world.send(&Request::get(target).key(key));
        assert!(!answer.text().contains("\"total\":1"), "{target}: {}", answer.text());
    }
}

#[test]
fn revoked_key_is_rejected_within_1s_on_open_connections() {
    let world = World::new();
    let created = world.command(&["keys", "create", "--scopes", "events:write,query", "--json"]).json();
    let (id, key) = (created["id"].as_str().expect("an id"), created["secret_key"].as_str().expect("a key"));
    let mut connection = world.connect();
    let event = Request::events(r#"{"event":"win"}"#).key(key);
    assert_eq!(connection.send(&event).expect("an answer").summary(), "1 accepted");
    world.command(&["keys", "revoke", id, "--json"]).json();
    let revoked = Instant::now();
    assert_eq!(connection.send(&event).expect("an answer").summary(), "401 key");
    assert_eq!(world.send(&Request::get("/v1/load").key(key)).summary(), "401 key");
    assert!(revoked.elapsed() < Duration::from_secs(1));
}

/// Checks commands, each row being the arguments, the exit code and a part of the output.
fn commands(world: &World, rows: &[(&[&str], i32, &str)]) {
    for (args, code, expected) in rows {
        let done = world.command(args);
        assert_eq!(done.code, *code, "{args:?}: {done:?}");
        let output = if *code == 0 { &done.out } else { &done.err };
        assert!(output.contains(expected), "{args:?}: {done:?}");
        assert!(!output.contains("panicked"), "{output}");
        if *code == 1 {
            assert!(
                output.starts_with("playmeter: ") && output.lines().count() == 1,
                "one sentence: {output}"
            );
        }
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

#[test]
fn games_and_keys_are_managed_with_and_without_a_running_server() {
    let mut world = World::new();
    for runs in [true, false] {
        if !runs {
            world.stop();
        }
        let game = if runs { "word-game" } else { "card-game" };
        let created =
            world.command(&["games", "create", game, "--name", "A game", "--tz", "Europe/Paris", "--json"]);
        assert_eq!(text(&created.json(), "tz"), "Europe/Paris");
        let games = world.command(&["games", "list", "--json"]).json();
        assert!(games.as_array().expect("a list").iter().any(|it| it["id"] == game), "{games}");
        let key = world.command(&[
            "keys",
            "create",
            "--game",
            game,
            "--scopes",
            "query,sql",
            "--label",
            "ci",
            "--json",
        ]);
        let key = key.json();
        assert_eq!((text(&key, "label"), &key["scopes"]), ("ci", &serde_json::json!(["query", "sql"])));
        let next = world.command(&["keys", "rotate", text(&key, "id"), "--json"]).json();
        assert_ne!(text(&next, "secret_key"), text(&key, "secret_key"));
        world.command(&["keys", "revoke", text(&key, "id"), "--json"]).json();
        let keys = world.command(&["keys", "list", "--game", game, "--json"]).json();
        let live: Vec<bool> =
            keys.as_array().expect("a list").iter().map(|it| it["revoked_s"].is_null()).collect();
        assert_eq!(live, [false, true], "{keys}");
        assert!(!keys.to_string().contains("pm_sk_"), "a secret is shown only once");
        commands(
            &world,
            &[
                (&["games", "create", game], 1, game),
                (&["games", "create", "Word Game"], 1, "id"),
                (&["games", "create", "other", "--tz", "Mars/Base"], 1, "Mars/Base"),
                (&["games", "list"], 0, "word-game"),
                (&["keys", "list", "--game", "nowhere"], 1, "nowhere"),
                (&["keys", "create", "--scopes", "everything"], 1, "everything"),
                (&["keys", "create", "--game", "nowhere", "--scopes", "query"], 1, "nowhere"),
                (&["keys", "create"], 2, "--scopes"),
                (&["keys", "rotate"], 2, "--public"),
                (&["keys", "rotate", "nothing"], 1, "nothing"),
                (&["keys", "revoke", "nothing"], 1, "nothing"),
                (&["keys", "list"], 0, "first start"),
                (&["keys"], 2, "Usage"),
            ],
        );
    }
}

#[test]
fn command_outside_a_data_folder_fails() {
    let world = World::new();
    for args in [&["games", "list"][..], &["keys", "list"], &["verify"]] {
        let mut command = crate::world::playmeter(world.root());
        let done = crate::world::run(command.args(args).arg("--data").arg(world.root().join("nothing")));
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.err.contains("is not a data folder"), "{done:?}");
    }
}

#[test]
fn rotated_public_key_works_until_it_is_revoked() {
    let world = World::new();
    let old = world.public_key.clone();
    let game = world.command(&["keys", "rotate", "--public", "demo", "--json"]).json();
    let new = text(&game, "public_key");
    let summary = |key: &str| world.post_as(key, r#"{"event":"win"}"#).summary();
    assert_eq!((summary(&old), summary(new)), ("1 accepted".into(), "1 accepted".into()));
    world.command(&["keys", "revoke", &old, "--json"]).json();
    assert_eq!((summary(&old), summary(new)), ("401 key".into(), "1 accepted".into()));
    commands(&world, &[(&["keys", "revoke", new], 1, "key")]);
}

#[test]
fn expired_key_is_rejected() {
    let world = World::new();
    let created =
        world.command(&["keys", "create", "--scopes", "query", "--expires-days", "0", "--json"]).json();
    assert_eq!(world.send(&Request::get("/v1/load").key(text(&created, "secret_key"))).summary(), "401 key");
}

#[test]
fn bootstrap_json_is_private_and_has_the_server_url() {
    let mut world = World::new();
    let first = world.bootstrap();
    let fields: Vec<&str> = first.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(fields, ["game", "public_key", "secret_key", "sign_in_url", "url"]);
    assert_eq!(text(&first, "url"), format!("http://{}", world.address));
    assert!(text(&first, "sign_in_url").starts_with(&format!("http://{}/sign-in?token=", world.address)));
    let mode = || {
        let file = world.folder().join("bootstrap.json").metadata().expect("there is a bootstrap.json");
        file.permissions().mode() & 0o777
    };
    assert_eq!(mode(), 0o600);
    let before = world.address;
    world.restart();
    let second = world.bootstrap();
    assert_eq!(text(&second, "url"), format!("http://{}", world.address));
    assert!(text(&second, "sign_in_url").starts_with(text(&second, "url")));
    for field in ["game", "public_key", "secret_key"] {
        assert_eq!(first[field], second[field]);
    }
    assert_ne!(before, world.address, "the kernel does not assign the same free port again at once");
}

#[test]
fn secret_key_appears_only_in_bootstrap_json() {
    let mut world = World::new();
    let created = world.key("query");
    for key in [&created, &world.secret_key] {
        world.send(&Request::get("/v1/load").key(key));
        world.send(&Request::get(format!("/v1/load?key={key}")));
    }
    let metrics = world.send(&Request::get("/metrics")).text();
    world.stop();
    let mut places = Vec::new();
    let mut folders = vec![world.root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = std::fs::read(&path) {
                let holds = |key: &str| bytes.windows(key.len()).any(|part| part == key.as_bytes());
                if holds(&world.secret_key) || holds(&created) {
                    places.push(path);
                }
            }
        }
    }
    assert_eq!(places, [world.folder().join("bootstrap.json")]);
    assert!(!metrics.contains(&created) && !metrics.contains(&world.secret_key));
}

/// Checks the cookie that a sign-in sets and returns it as a browser sends it.
pub(crate) fn cookie(answer: &Answer) -> String {
    let set = answer.header("set-cookie").expect("a cookie");
    for property in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(set.contains(property), "{set}");
    }
    set.split(';').next().expect("name and value").to_owned()
}

pub(crate) fn sign_in(world: &World) -> Answer {
    let bootstrap = world.bootstrap();
    let link = text(&bootstrap, "sign_in_url").to_owned();
    let target = link.strip_prefix(text(&bootstrap, "url")).expect("a link to the server");
    world.send(&Request::get(target))
}

#[test]
fn sign_in_link_grants_access_from_the_dashboard_only() {
    let world = World::new();
    let answer = sign_in(&world);
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
    let cookie = cookie(&answer);
    let get = |target: &str, origin: Option<&str>| {
        let mut request = Request::get(target).header("Cookie", &format!("theme=dark; {cookie}"));
        if let Some(origin) = origin {
            request = request.header("Origin", origin);
        }
        world.send(&request)
    };
    let me = get("/v1/me", None).json();
    assert_eq!((text(&me, "role"), text(&me["games"][0], "id")), ("owner", "demo"));
    assert!(!me.to_string().contains("pm_sk_"));
    assert_eq!(get("/v1/load", None).status, 200);
    assert_eq!(get("/v1/load?game=nowhere", None).summary(), "404 not_found (game)");
    assert_eq!(
        get("/v1/load", Some("http://localhost")).status,
        200,
        "the origin of the dashboard is allowed"
    );
    for stranger in ["https://game.example", "null", "http://localhost.evil.example"] {
        assert_eq!(get("/v1/load", Some(stranger)).summary(), "403 scope (Origin)", "{stranger}");
        assert_eq!(get("/v1/watch?load=1", Some(stranger)).summary(), "403 scope (Origin)", "{stranger}");
    }
    let wrong = world.send(&Request::get("/sign-in?token=wrong"));
    assert_eq!((wrong.status, wrong.header("set-cookie")), (303, None));
    let out = Request::new("POST", "/v1/sign-out").header("Cookie", &cookie);
    assert_eq!(world.send(&out.clone().header("Origin", "https://game.example")).status, 403);
    assert_eq!(get("/v1/me", None).status, 200);
    assert_eq!(world.send(&out).status, 200);
    assert_eq!(get("/v1/me", None).summary(), "401 key");
}

/// Returns the target of the current sign-in link.
fn sign_in_target(world: &World) -> String {
    let bootstrap = world.bootstrap();
    let link = text(&bootstrap, "sign_in_url");
    link.strip_prefix(text(&bootstrap, "url")).expect("a link to the server").to_owned()
}

fn is_signed_in(world: &World, cookie: &str) -> bool {
    match world.send(&Request::get("/v1/me").header("Cookie", cookie)).summary().as_str() {
        "200" => true,
        "401 key" => false,
        other => panic!("{other}"),
    }
}

#[test]
fn sign_in_link_works_once() {
    let mut world = World::new();
    let target = sign_in_target(&world);
    let head = world.send(&Request::new("HEAD", &target));
    assert_eq!(head.header("set-cookie"), None, "a preview of the link does not use it");
    let first = cookie(&world.send(&Request::get(&target)));
    let again = world.send(&Request::get(&target));
    assert_eq!((again.header("set-cookie"), again.header("location")), (None, Some("/?sign_in=failed")));
    let same_browser = world.send(&Request::get(&target).header("Cookie", &first));
    assert_eq!(
        (same_browser.header("set-cookie"), same_browser.header("location")),
        (None, Some("/")),
        "a browser that is signed in may open the link again"
    );
    let unused = world.command(&["keys", "sign-in", "--json"]).json();
    let created = world.command(&["keys", "sign-in", "--json"]).json();
    assert_eq!(text(&created, "sign_in_url"), text(&world.bootstrap(), "sign_in_url"));
    let unused =
        text(&unused, "sign_in_url").split_once("/sign-in").map(|(_, rest)| format!("/sign-in{rest}"));
    assert_eq!(world.send(&Request::get(unused.expect("a link"))).header("set-cookie"), None);
    let second = cookie(&sign_in(&world));
    assert!(is_signed_in(&world, &first) && is_signed_in(&world, &second));
    world.restart();
    assert!(is_signed_in(&world, &first) && is_signed_in(&world, &second), "a sign-in survives a restart");
    let third = cookie(&sign_in(&world));
    assert!(is_signed_in(&world, &third), "every start creates a link");
    world.command(&["keys", "sign-in", "--sign-out", "--json"]).json();
    assert!([first, second, third].iter().all(|cookie| !is_signed_in(&world, cookie)));
    assert!(is_signed_in(&world, &cookie(&sign_in(&world))));
}

#[test]
fn sign_in_link_is_created_without_bootstrap_json() {
    let mut world = World::new();
    std::fs::remove_file(world.folder().join("bootstrap.json")).expect("it can be deleted");
    let created = world.command(&["keys", "sign-in", "--json"]).json();
    let target = text(&created, "sign_in_url");
    assert!(target.starts_with("/sign-in?token="), "{created}");
    assert!(is_signed_in(&world, &cookie(&world.send(&Request::get(target)))));
    world.stop();
    let created = world.command(&["keys", "sign-in"]);
    assert!(created.out.contains("sign_in_url: /sign-in?token="), "{created:?}");
}

#[test]
fn sign_in_attempts_are_limited_by_address() {
    let world = World::with(&["--behind-proxy"]);
    let attempt = |token: &str, address: &str| {
        let request = Request::get(format!("/sign-in?token={token}"));
        world.send(&request.header("X-Forwarded-For", address)).summary()
    };
    for number in 0..10 {
        assert_eq!(attempt("wrong", &format!("2001:db8::{number}")), "303");
    }
    let target = sign_in_target(&world);
    let (_, token) = target.split_once('=').expect("a token");
    assert_eq!(attempt("wrong", "2001:db8::b"), "429 too_many (token)");
    assert_eq!(attempt(token, "2001:db8::c"), "429 too_many (token)", "a correct guess is not recognizable");
    assert_eq!(attempt("wrong", "203.0.113.1"), "303", "another address has attempts of its own");
    let answer = world.send(&Request::get(target).header("X-Forwarded-For", "203.0.113.1"));
    assert!(answer.header("set-cookie").is_some());
}

#[test]
fn only_the_configured_cookie_name_is_accepted() {
    for (args, accepted, other) in
        [(&["--behind-proxy"][..], "__Host-playmeter", "playmeter"), (&[], "playmeter", "__Host-playmeter")]
    {
        let world = World::with(args);
        let cookie = cookie(&sign_in(&world));
        let (name, value) = cookie.split_once('=').expect("name and value");
        assert_eq!(name, accepted);
        let renamed = format!("{other}={value}");
        assert!(is_signed_in(&world, &cookie) && !is_signed_in(&world, &renamed));
        assert!(!is_signed_in(&world, &format!("x={value}; {renamed}")));
        assert!(is_signed_in(&world, &format!("{other}=planted; {cookie}")));
        let load = |cookie: &str| world.send(&Request::get("/v1/load").header("Cookie", cookie)).status;
        assert_eq!((load(&cookie), load(&renamed)), (200, 401));
        let mut socket = crate::origins::with_headers(&world, "/ddp", &[("Cookie", &cookie)]);
        assert_eq!(socket.try_subscribe("a", "load", serde_json::json!([])), "ready");
        let write = socket.try_call("m", "put_variable", serde_json::json!([{"name": "a", "value": 1}]));
        assert!(write.is_ok(), "{write:?}");
        let mut socket = crate::origins::with_headers(&world, "/ddp", &[("Cookie", &renamed)]);
        assert_eq!(socket.try_subscribe("a", "load", serde_json::json!([])), "401");
    }
}

#[test]
fn response_to_a_cookie_is_not_shared_with_other_origins() {
    let world = World::new();
    let cookie = cookie(&sign_in(&world));
    let allowed = |request: Request| {
        let answer = world.send(&request);
        answer.header("access-control-allow-origin").map(str::to_owned)
    };
    for target in ["/v1/me", "/v1/load", "/v1/query?metric=hit", "/v1/vars", "/v1/boards", "/v1/sign-out"] {
        for origin in [None, Some("http://localhost"), Some("https://game.example")] {
            let request = Request::get(target).header("Cookie", &format!("theme=dark; {cookie}"));
            let request =
                origin.into_iter().fold(request, |request, origin| request.header("Origin", origin));
            assert_eq!(allowed(request), None, "{target} {origin:?}");
        }
    }
    let query = Request::new("POST", "/v1/query").header("Cookie", &cookie).body(r#"{"metric":"hit"}"#);
    assert_eq!(allowed(query), None);
    for target in ["/v1/me", "/v1/sign-out"] {
        assert_eq!(allowed(Request::get(target)), None, "{target}");
        assert_eq!(allowed(Request::new("OPTIONS", target)), None, "{target}");
    }
    for target in ["/v1/load", "/v1/query?metric=hit", "/v1/vars"] {
        assert_eq!(allowed(Request::get(target).key(&world.public_key)).as_deref(), Some("*"), "{target}");
        let both = Request::get(target).key(&world.public_key).header("Cookie", "theme=dark");
        assert_eq!(allowed(both).as_deref(), Some("*"), "{target}");
    }
}

#[test]
fn metrics_without_a_key_are_open_to_names_of_this_machine_only() {
    let world = World::new();
    let admin = world.key("admin");
    let get = |host: &str| Request::get("/metrics").host(host);
    let address = world.address.to_string();
    for host in [
        "localhost",
        "LOCALHOST:8080",
        "localhost.",
        "127.0.0.1",
        "127.8.8.8:1",
        "[::1]",
        "[::1]:8080",
        &address,
    ] {
        assert_eq!(world.send(&get(host)).status, 200, "{host}");
    }
    for host in [
        "attacker.example",
        "attacker.example:8080",
        "localhost.attacker.example",
        "127.0.0.1.attacker.example",
        "notlocalhost",
        "192.0.2.1",
        "[::2]",
    ] {
        assert_eq!(world.send(&get(host)).summary(), "401 key", "{host}");
        assert_eq!(world.send(&get(host).key(&world.public_key)).summary(), "403 scope", "{host}");
        assert_eq!(world.send(&get(host).key(&admin)).status, 200, "{host}");
    }
}

#[test]
fn behind_a_proxy_cookies_are_secure_and_metrics_need_a_key() {
    let world = World::with(&["--behind-proxy"]);
    let answer = sign_in(&world);
    let set = answer.header("set-cookie").expect("a cookie");
    assert!(set.starts_with("__Host-") && set.contains("; Secure"), "{set}");
    let reader = world.key("query");
    let admin = world.key("admin");
    for (key, status) in
        [(None, 401), (Some(&world.public_key), 403), (Some(&reader), 403), (Some(&admin), 200)]
    {
        let request = key.into_iter().fold(Request::get("/metrics"), |request, key| request.key(key));
        assert_eq!(world.send(&request).status, status, "{key:?}");
    }
}

#[test]
fn world_readable_credentials_prevent_start() {
    for name in ["bootstrap.json", "catalog.json"] {
        let mut world = World::new();
        world.stop();
        let path = world.folder().join(name);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("the mode can be changed");
        let done = crate::world::run(&mut world.serve());
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.err.contains(name) && done.err.contains("chmod 600"), "{done:?}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("the mode can be restored");
        world.start();
    }
}
