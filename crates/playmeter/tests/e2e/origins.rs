//! Authorization on sockets: by key, by sign-in, by origin.

use serde_json::{Value, json};

use crate::client::Request;
use crate::keys::{cookie, sign_in};
use crate::socket::{ClientStore, Socket, handshake};
use crate::world::World;

/// The outcome of a WebSocket handshake with these headers.
fn handshake_outcome(world: &World, target: &str, headers: &[(&str, &str)]) -> String {
    let answer = world.send(&upgrade(target, headers));
    if answer.status == 101 { "101".into() } else { answer.summary() }
}

pub(crate) fn upgrade(target: &str, headers: &[(&str, &str)]) -> Request {
    let request = Request::get(target)
        .header("Connection", "keep-alive, Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    headers.iter().fold(request, |request, (name, value)| request.header(name, value))
}

/// Connects with these headers.
pub(crate) fn with_headers(world: &World, target: &str, headers: &[(&'static str, &str)]) -> Socket {
    let mut request = handshake(world, target);
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().expect("a header"));
    }
    Socket::with_request(world, request).connected()
}

/// Each publication with the expected outcome without a credential, with a public key, with a key that may only write,
/// with one that may only query, with one that has every scope, and with a sign-in.
const PUBLICATIONS: &[(&str, [&str; 6])] = &[
    ("online", ["401", "403", "403", "ready", "ready", "ready"]),
    ("events", ["401", "403", "403", "ready", "ready", "ready"]),
    ("flows", ["401", "403", "403", "ready", "ready", "ready"]),
    ("load", ["401", "403", "403", "ready", "ready", "ready"]),
    ("alerts", ["401", "403", "403", "ready", "ready", "ready"]),
    ("query", ["401", "403", "403", "ready", "ready", "ready"]),
    ("board", ["401", "ready", "ready", "ready", "ready", "ready"]),
    ("vars", ["401", "ready", "ready", "ready", "ready", "ready"]),
    ("feed", ["401", "ready", "ready", "ready", "ready", "ready"]),
];

fn params(name: &str) -> Value {
    match name {
        "query" => json!([{"metric": "win", "last": "60m", "step": "all"}]),
        "board" => json!(["high"]),
        "feed" => json!(["bo"]),
        _ => json!([]),
    }
}

#[test]
fn each_publication_enforces_its_credentials() {
    let world = World::new();
    let (writer, reader) = (world.key("events:write"), world.key("query"));
    let cookie = cookie(&sign_in(&world));
    let mut sockets = [
        Socket::anonymous(&world),
        Socket::open(&world, &world.public_key),
        Socket::open(&world, &writer),
        Socket::open(&world, &reader),
        Socket::open(&world, &world.secret_key),
        with_headers(&world, "/ddp", &[("Cookie", &cookie)]),
    ];
    for (name, expected) in PUBLICATIONS {
        for (socket, expected) in sockets.iter_mut().zip(expected) {
            assert_eq!(socket.try_subscribe(name, name, params(name)), *expected, "{name}");
        }
    }
    let names: Vec<&str> = PUBLICATIONS.iter().map(|row| row.0).collect();
    let rejection = sockets[4].subscribe("x", "nothing", json!([])).pop().expect("a refusal");
    let known = rejection["error"]["reason"].as_str().expect("a reason");
    assert_eq!(known.split('`').skip(1).step_by(2).count(), names.len(), "{known}");
    assert!(
        names.iter().all(|name| known.contains(&format!("`{name}`"))),
        "the table lists every publication: {known}"
    );
}

#[test]
fn methods_enforce_the_credentials_of_their_routes() {
    let world = World::new();
    let writer = world.key("events:write");
    let cookie = cookie(&sign_in(&world));
    let mut sockets = [
        Socket::anonymous(&world),
        Socket::open(&world, &world.public_key),
        Socket::open(&world, &writer),
        Socket::open(&world, &world.secret_key),
        with_headers(&world, "/ddp", &[("Cookie", &cookie)]),
    ];
    let score = json!([{"table": "high", "player": "bo", "score": 1}]);
    let level = json!([{"name": "cave", "data": "x", "player": "bo"}]);
    for (method, params, expected) in [
        ("open_session", json!([{"player": "bo"}]), ["401", "ok", "403", "ok", "ok"]),
        ("submit_score", score, ["401", "401", "403", "ok", "ok"]),
        ("save_level", level, ["401", "ok", "403", "ok", "ok"]),
        ("put_variable", json!([{"name": "a", "value": 1}]), ["401", "403", "403", "ok", "ok"]),
        ("erase_player", json!([{"player": "zed"}]), ["401", "403", "403", "ok", "ok"]),
    ] {
        for (socket, expected) in sockets.iter_mut().zip(expected) {
            let outcome = socket.try_call(method, method, params.clone());
            assert_eq!(outcome.map_or_else(|rejection| rejection, |_| "ok".into()), expected, "{method}");
        }
    }
}

#[test]
fn invalid_credential_is_rejected_at_the_handshake() {
    let world = World::new();
    let bearer = |key: &str| format!("Bearer {key}");
    let (public, secret) = (bearer(&world.public_key), bearer(&world.secret_key));
    let (query, of_secret) =
        (format!("/websocket?key={}", world.public_key), format!("/ddp?key={}", world.secret_key));
    for (target, headers, expected) in [
        ("/websocket", &[][..], "101"),
        ("/websocket", &[("Authorization", public.as_str())], "101"),
        ("/websocket", &[("Authorization", secret.as_str())], "101"),
        (query.as_str(), &[], "101"),
        (query.as_str(), &[("Origin", "https://game.example")], "101"),
        (of_secret.as_str(), &[], "401 key (key)"),
        ("/websocket?key=pm_pk_0", &[], "401 key"),
        ("/websocket", &[("Authorization", "Bearer pm_sk_0")], "401 key"),
        ("/websocket", &[("Authorization", "Basic YTpi")], "401 key (Authorization)"),
        ("/websocket", &[("Authorization", secret.as_str()), ("Origin", "https://game.example")], "401 key"),
    ] {
        assert_eq!(handshake_outcome(&world, target, headers), expected, "{target} {headers:?}");
    }
}

/// The ids of the subscriptions that these messages end.
fn ended(messages: &[Value]) -> Vec<&str> {
    let nosubs = messages.iter().filter(|message| message["msg"] == "nosub");
    nosubs.filter_map(|message| message["id"].as_str()).collect()
}

#[test]
fn subscriptions_continue_after_a_login_with_a_secret_key() {
    let world = World::new();
    let put = |value: u32| {
        let body = json!({ "value": value }).to_string();
        let answer = world.send(&Request::new("PUT", "/v1/vars/speed").key(&world.secret_key).body(body));
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    put(1);
    let mut socket = Socket::open(&world, &world.public_key);
    let mut store = ClientStore::default();
    store.apply(&socket.subscribe("a", "vars", json!([null, {"min_interval": 0}])));
    let messages = socket.call("1", "login", json!([{"key": world.secret_key}]));
    assert!(messages.iter().all(|message| message["msg"] != "removed"), "{messages:?}");
    put(2);
    while store.column("vars", "value") != [json!(2)] {
        store.apply([&socket.next()]);
    }
    let other = world.command(&["games", "create", "other", "--json"]).json();
    let key = other["public_key"].as_str().expect("a key");
    let messages = socket.call("2", "login", json!([{"key": key}]));
    assert_eq!(ended(&messages), ["a"], "another game's key ends them: {messages:?}");
    store.apply(messages.iter().filter(|message| message["msg"] == "removed"));
    assert_eq!(store.len(), 0);
}

#[test]
fn login_changes_the_credential() {
    let world = World::new();
    let mut socket = Socket::anonymous(&world);
    assert_eq!(socket.try_call("1", "login", json!([{"key": "pm_pk_0"}])), Err("401".into()));
    assert_eq!(
        socket.try_call("1", "login", json!([{"key": "two\nlines"}])),
        Err("401 (Authorization)".into())
    );
    let public = socket.try_call("1", "login", json!([{"key": world.public_key}])).expect("the key is known");
    assert_eq!((&public["game"], &public["scopes"]), (&json!("demo"), &json!(["events:write"])));
    assert_eq!(socket.try_subscribe("a", "vars", json!([])), "ready");
    assert_eq!(socket.try_subscribe("b", "load", json!([])), "403");
    assert_eq!(socket.try_call("1", "login", json!([{"key": "pm_pk_0"}])), Err("401".into()));
    assert_eq!(
        socket.try_subscribe("c", "feed", json!(["bo"])),
        "ready",
        "the previous credential stays valid"
    );
    let secret = socket.call("2", "login", json!([{"key": world.secret_key}]));
    assert_eq!(ended(&secret), [""; 0], "a better credential ends no subscription: {secret:?}");
    assert_eq!(socket.try_subscribe("d", "load", json!([])), "ready");
    let public = socket.call("3", "login", json!([{"resume": world.public_key}]));
    assert_eq!(ended(&public), ["d"], "only what the public key may not see ends: {public:?}");
    let mut page = with_headers(&world, "/websocket", &[("Origin", "https://game.example")]);
    assert_eq!(page.try_call("1", "login", json!([{"key": world.secret_key}])), Err("401".into()));
    assert!(page.try_call("1", "login", json!([{"key": world.public_key}])).is_ok());
}

#[test]
fn sign_in_cookie_is_ignored_on_other_origins() {
    let world = World::new();
    let cookie = cookie(&sign_in(&world));
    let own = format!("http://{}", world.address);
    let from = |origin: &str| with_headers(&world, "/websocket", &[("Cookie", &cookie), ("Origin", origin)]);
    let mut page = from(&own);
    assert_eq!(page.try_subscribe("a", "load", json!([])), "ready");
    assert!(page.try_call("m", "put_variable", json!([{"name": "a", "value": 1}])).is_ok());
    for stranger in ["https://game.example", "null", &format!("{own}.evil.example")] {
        let mut page = from(stranger);
        assert_eq!(page.try_subscribe("a", "load", json!([])), "401", "{stranger}");
        assert_eq!(page.try_call("m", "put_variable", json!([{"name": "a", "value": 2}])), Err("401".into()));
    }
    let other_game = with_headers(&world, "/websocket?game=demo", &[("Cookie", &cookie)]).try_subscribe(
        "a",
        "load",
        json!([]),
    );
    assert_eq!(other_game, "ready");
    assert_eq!(
        handshake_outcome(&world, "/websocket?game=nowhere", &[("Cookie", &cookie)]),
        "404 not_found (game)"
    );
}

#[test]
fn only_listed_origins_may_open_sockets() {
    let world = World::with(&["--origins", "https://game.example,https://b.example:8443"]);
    let cookie = cookie(&sign_in(&world));
    let own = format!("http://{}", world.address);
    let host = world.address.to_string();
    for (origin, expected) in [
        (own.as_str(), "101"),
        ("https://game.example", "101"),
        ("https://b.example:8443", "101"),
        ("https://b.example", "403 scope (Origin)"),
        ("http://game.example", "403 scope (Origin)"),
        ("null", "403 scope (Origin)"),
    ] {
        let mut request = upgrade("/websocket", &[("Origin", origin)]);
        if origin == own {
            request = request.host(&host);
        }
        let answer = world.send(&request);
        let summary = if answer.status == 101 { "101".into() } else { answer.summary() };
        assert_eq!(summary, expected, "{origin}");
    }
    let headers = [("Cookie", cookie.as_str()), ("Origin", "https://game.example")];
    assert_eq!(with_headers(&world, "/websocket", &headers).try_subscribe("a", "load", json!([])), "ready");
    assert_eq!(
        handshake_outcome(&world, "/websocket", &[]),
        "101",
        "a client that is not a page has no origin"
    );
}

#[test]
fn socket_never_shows_data_of_another_game() {
    let world = World::new();
    world.command(&["games", "create", "other", "--json"]).json();
    let created = world
        .command(&[
            "keys",
            "create",
            "--game",
            "other",
            "--scopes",
            "admin,query,scores:write,vars:write",
            "--json",
        ])
        .json();
    let other = created["secret_key"].as_str().expect("a secret key");
    let (mut ours, mut theirs) = (Socket::open(&world, &world.secret_key), Socket::open(&world, other));
    for socket in [&mut ours, &mut theirs] {
        for name in ["board", "vars", "feed", "online", "query"] {
            let mut params = params(name);
            let options = json!({"min_interval": 0});
            let list = params.as_array_mut().expect("a list");
            if list.is_empty() {
                list.push(Value::Null);
            }
            list.push(options);
            assert_eq!(socket.try_subscribe(name, name, params), "ready", "{name}");
        }
    }
    world.post(r#"{"event":"win","player":"bo"}"#);
    for (method, params) in [
        ("submit_score", json!([{"table": "high", "player": "bo", "score": 7}])),
        ("put_variable", json!([{"name": "speed", "value": "ours alone"}])),
        ("follow", json!([{"player": "bo", "other": "cy"}])),
        ("post_to_feed", json!([{"player": "cy", "text": "ours alone"}])),
    ] {
        assert!(ours.try_call(method, method, params).is_ok(), "{method}");
    }
    theirs.send_json(json!({"msg": "method", "id": "own", "method": "put_variable", "params": [{"name": "speed", "value": "theirs"}]}));
    let messages = theirs.read_until("updated");
    let text = json!(messages).to_string();
    assert!(text.contains("theirs") && !text.contains("ours alone") && !text.contains("\"score\""), "{text}");
    let values: Vec<&Value> =
        messages.iter().filter(|it| it["collection"] == "vars").map(|it| &it["fields"]["value"]).collect();
    assert_eq!(values, ["theirs"]);
    assert!(
        messages.iter().all(|it| it["fields"]["online"] != 1 && it["fields"]["total"] != 1),
        "{messages:?}"
    );
}

#[test]
fn revoked_key_ends_its_subscriptions() {
    let world = World::new();
    let created = world.command(&["keys", "create", "--scopes", "query", "--json"]).json();
    let (id, key) = (created["id"].as_str().expect("an id"), created["secret_key"].as_str().expect("a key"));
    let mut socket = Socket::open(&world, key);
    assert_eq!(socket.try_subscribe("a", "events", json!([null, {"min_interval": 0}])), "ready");
    world.command(&["keys", "revoke", id, "--json"]).json();
    world.post(r#"{"event":"win"}"#);
    let messages = socket.read_until("nosub");
    assert_eq!(messages.last().expect("a message")["error"]["error"], 401);
    assert!(messages.iter().all(|message| message["msg"] != "added"), "{messages:?}");
    assert_eq!(socket.try_subscribe("a", "vars", json!([])), "401");
    assert_eq!(socket.try_call("m", "open_session", json!([{"player": "bo"}])), Err("401".into()));
}

#[test]
fn private_board_subscription_requires_its_code() {
    let world = World::new();
    let board = Request::new("PUT", "/v1/boards/club")
        .key(&world.secret_key)
        .body(r#"{"mode":"open","private":true}"#);
    let board = world.send(&board);
    let code = board.json()["code"].as_str().unwrap_or_else(|| panic!("{}", board.text())).to_owned();
    let mut public = Socket::open(&world, &world.public_key);
    let mut secret = Socket::open(&world, &world.secret_key);
    let shown = |socket: &mut Socket, what: Value| {
        let messages = socket.subscribe("a", "board", json!([what]));
        socket.send_json(json!({"msg": "unsub", "id": "a"}));
        socket.until("nosub");
        messages.iter().any(|message| message["fields"]["player"] == "bo")
    };
    let score = Request::new("POST", "/v1/boards/club/scores").key(&world.secret_key);
    let answer = world.send(&score.body(r#"{"player":"bo","score":1}"#));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(!shown(&mut public, json!("club")));
    assert!(!shown(&mut public, json!({"table": "club", "code": "wrong"})));
    assert!(shown(&mut public, json!({"table": "club", "code": code})));
    assert!(shown(&mut secret, json!("club")));
}
