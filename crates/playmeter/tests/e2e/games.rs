//! Games: managed by the owner, archived, restored, exported.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::collectors;
use crate::keys::{cookie, sign_in};
use crate::world::{World, playmeter, run};

/// A signed-in owner.
pub(crate) struct Owner<'a> {
    world: &'a World,
    cookie: String,
    csrf: String,
}

impl Owner<'_> {
    pub(crate) fn of(world: &World) -> Owner<'_> {
        let cookie = cookie(&sign_in(world));
        let me = world.send(&Request::get("/v1/me").header("Cookie", &cookie)).json();
        let csrf = me["csrf"].as_str().expect("a token").to_owned();
        Owner { world, cookie, csrf }
    }

    fn request(&self, method: &'static str, target: &str) -> Request {
        Request::new(method, target).header("Cookie", &self.cookie).header("Origin", "http://localhost")
    }

    pub(crate) fn send(&self, method: &'static str, target: &str, body: &Value) -> Answer {
        let request = self.request(method, target).header("X-CSRF-Token", &self.csrf);
        self.world.send(&request.body(if body.is_null() { String::new() } else { body.to_string() }))
    }
}

#[test]
fn owner_lists_creates_renames_archives_and_restores_games() {
    let world = World::new();
    let owner = Owner::of(&world);
    let created = owner.send("POST", "/v1/games", &json!({"id": "words", "tz": "Europe/Paris"}));
    assert_eq!(created.status, 201, "{}", created.text());
    let created = created.json();
    assert_eq!((&created["name"], &created["archived_at"]), (&json!("words"), &Value::Null));
    let key = created["public_key"].as_str().expect("a key").to_owned();
    assert_eq!(world.post_as(&key, r#"{"event":"hit"}"#).summary(), "1 accepted");
    let renamed = owner.send("PATCH", "/v1/games/words", &json!({"name": "Words!"})).json();
    assert_eq!((&renamed["name"], &renamed["tz"]), (&json!("Words!"), &json!("Europe/Paris")));
    let archived = owner.send("PATCH", "/v1/games/words", &json!({"archived": true})).json();
    assert!(archived["archived_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{archived}");
    assert_eq!(world.post_as(&key, r#"{"event":"hit"}"#).summary(), "403 archived");
    let listed = owner.send("GET", "/v1/games", &Value::Null).json();
    let ids: Vec<&Value> =
        listed["games"].as_array().expect("a list").iter().map(|game| &game["id"]).collect();
    assert_eq!(ids, ["demo", "words"]);
    assert_eq!(listed["games"][1], archived, "again does not change since when");
    assert_eq!(world.send(&owner.request("GET", "/v1/me")).json()["games"][1]["archived"], true);
    let restored = owner.send("PATCH", "/v1/games/words", &json!({"archived": false})).json();
    assert_eq!(restored["archived_at"], Value::Null);
    assert_eq!(world.post_as(&key, r#"{"event":"hit"}"#).summary(), "1 accepted");
}

#[test]
fn wrong_requests_about_games_are_rejected_with_the_field() {
    let world = World::new();
    let owner = Owner::of(&world);
    for (body, expected) in [
        (json!({}), "400 invalid_field (id)"),
        (json!({"id": "Words"}), "400 invalid_field (id)"),
        (json!({"id": "demo"}), "400 invalid_field (id)"),
        (json!({"id": "words", "tz": "Mars/Base"}), "400 invalid_field (tz)"),
        (json!({"id": "words", "name": " "}), "400 invalid_field (name)"),
        (json!({"id": "words", "number": 7}), "400 invalid_field (number)"),
    ] {
        let answer = owner.send("POST", "/v1/games", &body);
        assert_eq!(answer.summary(), expected, "{body}: {}", answer.text());
    }
    assert_eq!(
        owner.send("PATCH", "/v1/games/none", &json!({"name": "x"})).summary(),
        "404 not_found (game)"
    );
    let name = owner.send("PATCH", "/v1/games/demo", &json!({"name": "a\nb", "archived": true}));
    assert_eq!(name.summary(), "400 invalid_field (name)");
    assert_eq!(world.post(r#"{"event":"hit"}"#).summary(), "1 accepted", "nothing of it was changed");
}

#[test]
fn only_a_signed_in_person_manages_games() {
    let world = World::new();
    let owner = Owner::of(&world);
    let body = r#"{"id":"words"}"#;
    for key in [&world.secret_key, &world.public_key] {
        let get = world.send(&Request::get("/v1/games").key(key));
        assert_eq!(get.summary(), "403 scope (Authorization)");
        let post = world.send(&Request::new("POST", "/v1/games").key(key).body(body));
        assert_eq!(post.summary(), "403 scope (Authorization)");
    }
    assert_eq!(world.send(&Request::get("/v1/games")).summary(), "401 key");
    let without_token = world.send(&owner.request("POST", "/v1/games").body(body));
    assert_eq!(without_token.summary(), "403 scope (X-CSRF-Token)");
    let elsewhere = Request::new("POST", "/v1/games").header("Cookie", &owner.cookie).body(body);
    let elsewhere = elsewhere.header("X-CSRF-Token", &owner.csrf);
    assert_eq!(world.send(&elsewhere).summary(), "403 scope (Origin)");
    assert_eq!(
        world.send(&elsewhere.header("Origin", "https://game.example")).summary(),
        "403 scope (Origin)"
    );
    let get = owner.request("GET", "/v1/games");
    assert_eq!(world.send(&get).header("access-control-allow-origin"), None);
    assert_eq!(world.command(&["games", "list", "--json"]).json().as_array().map(Vec::len), Some(1));
}

/// Writes with the public and the secret key, each by its method, target and body.
const WRITES: [(&str, &str, &str); 12] = [
    ("POST", "/v1/events", r#"{"event":"hit"}"#),
    ("POST", "/v1/import", r#"{"event":"hit","ts":1}"#),
    ("POST", "/write", "cpu value=1"),
    ("POST", "/capture/", r#"{"api_key":"KEY","event":"hit","distinct_id":"ann"}"#),
    ("POST", "/v1/flows/packets", r#"{"from":"cy","to":"dee","seq":1}"#),
    ("POST", "/v1/session", r#"{"player":"ann"}"#),
    ("PUT", "/v1/vars/speed", r#"{"value":5}"#),
    ("PUT", "/v1/boards/high", r#"{"mode":"open"}"#),
    ("POST", "/v1/boards/high/scores", r#"{"player":"ann","score":3}"#),
    ("PUT", "/v1/achievements/first", r#"{"name":"First"}"#),
    ("POST", "/v1/feed", r#"{"player":"ann","text":"hello"}"#),
    ("PUT", "/v1/players/ann/follows/bo", ""),
];

#[test]
fn archived_game_rejects_every_write_and_stays_readable() {
    let mut world = World::new();
    let send = |world: &World, (method, target, body): (&'static str, &str, &str)| {
        let body = body.replace("KEY", &world.public_key);
        world.send(&Request::new(method, target).key(&world.secret_key).body(body))
    };
    for write in WRITES {
        let answer = send(&world, write);
        assert!((200..300).contains(&answer.status), "{write:?}: {} {}", answer.status, answer.text());
    }
    let reads =
        ["/v1/vars", "/v1/boards/high/scores", "/v1/achievements?player=ann", "/v1/players/ann/follows"];
    let read = |world: &World| {
        let rows = reads.map(|target| world.send(&Request::get(target).key(&world.secret_key)).text());
        let hits = world.query(&json!({"metric": "hit", "last": "24h", "step": "all"})).json();
        (rows, hits["series"][0]["total"].clone())
    };
    let before = read(&world);
    let archived = world.command(&["games", "archive", "demo", "--json"]).json();
    assert!(archived["archived_at"].is_string(), "{archived}");
    assert!(world.command(&["games", "list"]).out.contains("archived since"));
    for round in ["at once", "after a restart"] {
        for write in WRITES {
            let answer = send(&world, write);
            assert_eq!(answer.summary(), "403 archived", "{round}: {write:?}");
            assert!(answer.text().contains("`demo` is archived"), "{}", answer.text());
        }
        assert_eq!(world.post(r#"{"event":"hit"}"#).summary(), "403 archived", "{round}: the public key");
        assert_eq!(read(&world), before, "{round}");
        world.restart();
    }
    let erased = world.send(&Request::new("DELETE", "/v1/players/ann").key(&world.secret_key));
    assert_eq!(erased.status, 202, "a player can still be erased: {}", erased.text());
    assert_eq!(world.command(&["games", "restore", "demo"]).code, 0);
    assert_eq!(world.post(r#"{"event":"hit"}"#).summary(), "1 accepted");
    assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true);
    let unknown = world.command(&["games", "archive", "none"]);
    assert!(unknown.code == 1 && unknown.err.contains("no game `none`"), "{unknown:?}");
}

#[test]
fn collector_of_an_archived_game_fails_until_the_game_is_restored() {
    let world =
        collectors::world("[collectors.one]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n");
    collectors::packets(&world, "one").send(b"hits:1|c").expect("it listens");
    collectors::wait_received(&world, "one", 1);
    assert_eq!(world.command(&["games", "archive", "demo"]).code, 0);
    let failed = collectors::wait_until(&world, "one", |now| now["state"] == "failed");
    assert!(failed["error"].as_str().is_some_and(|error| error.contains("`demo` is archived")), "{failed}");
    assert_eq!(world.command(&["games", "restore", "demo"]).code, 0);
    assert_eq!(world.command(&["collectors", "start", "one"]).code, 0);
    collectors::wait_until(&world, "one", |now| now["state"] == "running");
    collectors::packets(&world, "one").send(b"hits:1|c").expect("it listens");
    collectors::wait_received(&world, "one", 2);
}

/// Fills a game with something of each kind: 1,200 events of 40 players, samples, live-ops.
fn fill(world: &World) {
    let events: Vec<String> = (0..1200)
        .map(|n| {
            let id = crate::world::new_id();
            let (player, country) = (n % 40, ["NO", "DE", "JP"][n % 3]);
            format!(
                r#"{{"event":"score","id":"{id}","player":"p{player}","session":"s{player}","value":{n},"country":"{country}","version":"1.{}","props":{{"weapon":"w{}"}}}}"#,
                n % 2,
                n % 5
            )
        })
        .collect();
    for some in events.chunks(100) {
        assert_eq!(
            world.post_as(&world.secret_key, format!("[{}]", some.join(","))).summary(),
            "100 accepted"
        );
    }
    let links = r#"{"event":"$identify","player":"p1","props":{"anonymous":"anon-1"}}"#;
    assert_eq!(world.post(links).summary(), "1 accepted");
    let put = |method, target: &str, body: &str| {
        let answer = world.send(&Request::new(method, target).key(&world.secret_key).body(body));
        assert!((200..300).contains(&answer.status), "{method} {target}: {}", answer.text());
    };
    put("PUT", "/v1/vars/speed", r#"{"value":5}"#);
    put("PUT", "/v1/boards/high", r#"{"mode":"open","windows":["all","day"]}"#);
    for player in 0..450 {
        put("POST", "/v1/boards/high/scores", &format!(r#"{{"player":"b{player}","score":{player}}}"#));
    }
    put("PUT", "/v1/boards/low", r#"{"mode":"open"}"#);
    put("POST", "/v1/boards/low/scores", r#"{"player":"ann","name":"Ann","score":7}"#);
    put("PUT", "/v1/players/eve/ban", "{}");
    put("POST", "/v1/levels", r#"{"name":"cave","data":"..x","player":"ann"}"#);
    put("PUT", "/v1/achievements/first", r#"{"name":"First"}"#);
    put("POST", "/v1/achievements/first/grants", r#"{"player":"ann"}"#);
    put("POST", "/v1/feed", r#"{"player":"ann","text":"hello all"}"#);
    put("PUT", "/v1/players/ann/follows/bo", "");
    put(
        "PUT",
        "/v1/surveys/mood",
        r#"{"title":"Mood","questions":[{"key":"q","kind":"scale","text":"Fun?"}]}"#,
    );
    put("POST", "/v1/surveys/mood/answers", r#"{"player":"ann","answers":{"q":1}}"#);
    let silence = r#"{"query":{"metric":"none","last":"5m"},"compare":{"no_data_s":600}}"#;
    put("PUT", "/v1/alerts/silence", silence);
    put("POST", "/v1/cohorts", r#"{"name":"payers","players":["ann"]}"#);
    put(
        "PUT",
        "/v1/questions/scores",
        r#"{"name":"Scores","question":{"v":1,"kind":"explore","request":{"event":"score"},"range":{"last":"7d"}}}"#,
    );
    put("PUT", "/v1/dashboards/home", r#"{"name":"Home","tiles":[]}"#);
    put("POST", "/write", "cpu value=1.5");
}

/// The lines of all files of a folder.
fn lines(export: &Path, part: &str) -> Vec<Value> {
    let Ok(files) = fs::read_dir(export.join(part)) else { return Vec::new() };
    let mut files: Vec<_> = files.map(|file| file.expect("an entry").path()).collect();
    files.sort();
    let text: String = files.iter().map(|file| fs::read_to_string(file).expect("a file")).collect();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The totals of a game with this key that an import of its events must give again.
fn totals(world: &World, key: &str) -> Vec<Value> {
    let queries = [
        json!({"metric": "score", "measure": "count"}),
        json!({"metric": "score", "measure": "sum", "by": ["country"]}),
        json!({"metric": "score", "measure": "uniques", "by": ["version"]}),
        json!({"metric": "score", "measure": "p90"}),
        json!({"metric": "events", "measure": "uniques"}),
    ];
    let total = |mut query: Value| {
        query["last"] = "48h".into();
        query["step"] = "all".into();
        let request = Request::new("POST", "/v1/query").key(key).header("Content-Type", "application/json");
        let answer = world.send(&request.body(query.to_string())).json();
        let mut series: Vec<String> = answer["series"]
            .as_array()
            .unwrap_or_else(|| panic!("{answer}"))
            .iter()
            .map(|series| format!("{} {}", series["key"], series["total"]))
            .collect();
        series.sort();
        json!(series)
    };
    queries.into_iter().map(total).collect()
}

#[test]
fn export_has_everything_and_its_events_can_be_imported_again() {
    let mut world = World::new();
    fill(&world);
    let other = world.command(&["games", "create", "other", "--json"]).json();
    let other_key = other["public_key"].as_str().expect("a key");
    assert_eq!(world.post_as(other_key, r#"{"event":"secret-of-other"}"#).summary(), "1 accepted");
    let folder = world.root().join("export");
    let to = folder.to_str().expect("text");
    let summary = world.command(&["games", "export", "demo", "--to", to, "--json"]).json();
    let again = world.command(&["games", "export", "demo", "--to", to]);
    assert!(again.code == 1 && again.err.contains("is not empty"), "{again:?}");
    assert_eq!((&summary["complete"], &summary["events_lost"]), (&json!(true), &json!(0)), "{summary}");
    let count = |part: &str| lines(&folder, part).len();
    let expected = [
        ("events", 1202),
        ("vars", 1),
        ("boards", 2),
        ("scores", 451),
        ("bans", 1),
        ("levels", 1),
        ("achievements", 1),
        ("surveys", 1),
        ("survey_responses", 1),
        ("alerts", 1),
        ("cohorts", 1),
        ("questions", 1),
        ("dashboards", 1),
        ("links", 1),
    ];
    for (part, expected) in expected {
        assert_eq!((count(part), &summary["lines"][part]), (expected, &json!(expected)), "{part}");
    }
    assert_eq!(lines(&folder, "levels")[0]["data"], "..x");
    assert_eq!(lines(&folder, "links"), [json!({"anonymous": "anon-1", "player": "p1"})]);
    let feed: String = lines(&folder, "feed").iter().map(Value::to_string).collect();
    assert!(feed.contains("hello all") && feed.contains(r#""follows":["bo"]"#), "{feed}");
    let mut players: Vec<String> =
        lines(&folder, "scores").iter().map(|row| row["player"].to_string()).collect();
    players.sort();
    players.dedup();
    assert_eq!(players.len(), 451, "each player once");
    let rollups = lines(&folder, "rollups");
    let sum = |by: Value, key: Value| -> i64 {
        let of =
            rollups.iter().filter(|row| row["metric"] == "score" && row["by"] == by && row["key"] == key);
        of.filter_map(|row| row["count"].as_i64()).sum()
    };
    assert_eq!((sum(Value::Null, Value::Null), sum(json!("country"), json!("NO"))), (1200, 400));
    assert!(rollups.iter().any(|row| row["metric"] == "cpu" && row["last"] == 1.5), "samples are rollups");
    let all: String = lines(&folder, "events").iter().chain(&rollups).map(Value::to_string).collect();
    assert!(!all.contains("secret-of-other"), "nothing of another game");
    let key = world
        .command(&[
            "keys",
            "create",
            "--game",
            "other",
            "--scopes",
            "events:write,events:import,query",
            "--json",
        ])
        .json();
    let key = key["secret_key"].as_str().expect("a key").to_owned();
    let mut import = playmeter(world.root());
    import.args(["import", "--to", &format!("http://{}", world.address)]).env("PLAYMETER_KEY", &key);
    import.arg(folder.join("events/000001.ndjson"));
    let imported = run(&mut import);
    assert_eq!(imported.code, 0, "{imported:?}");
    assert_eq!(totals(&world, &key)[..4], totals(&world, &world.secret_key)[..4]);
    world.stop();
    let offline = world.root().join("offline");
    let to = offline.to_str().expect("text");
    let summary_offline = world.command(&["games", "export", "demo", "--to", to, "--json"]).json();
    assert_eq!(summary_offline["lines"], summary["lines"], "without a server");
}

/// The export of the demo game, which is sent in chunks.
fn download(world: &World) -> Vec<u8> {
    let request = Request::get("/v1/games/demo/export").key(&world.secret_key).header("Connection", "close");
    let mut stream = TcpStream::connect(world.address).expect("the server accepts connections");
    stream.write_all(&request.bytes()).expect("it can be sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let line_end = |bytes: &[u8]| bytes.windows(2).position(|two| two == b"\r\n").expect("a line");
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    assert!(
        text.starts_with("http/1.1 200") && text.contains("content-type: application/octet-stream"),
        "{text}"
    );
    let (mut rest, mut body) = (&bytes[head + 4..], Vec::new());
    loop {
        let at = line_end(rest);
        let length = std::str::from_utf8(&rest[..at]).expect("a number");
        let length = usize::from_str_radix(length, 16).expect("the length of a chunk");
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&rest[at + 2..at + 2 + length]);
        rest = &rest[at + 2 + length + 2..];
    }
}

#[test]
fn export_over_http_is_a_tar_archive_for_keys_with_the_scope() {
    let world = World::new();
    fill(&world);
    let get = |key: &str, game: &str| world.send(&Request::get(format!("/v1/games/{game}/export")).key(key));
    let archive = world.root().join("demo.tar");
    fs::write(&archive, download(&world)).expect("a file");
    let unpacked = Command::new("tar").arg("xf").arg(&archive).arg("-C").arg(world.root()).output();
    let unpacked = unpacked.expect("tar is installed");
    assert!(unpacked.status.success() && unpacked.stderr.is_empty(), "{unpacked:?}");
    let folder = world.root().join("demo");
    assert_eq!(lines(&folder, "events").len(), 1202);
    let summary = fs::read(folder.join("summary.json")).expect("the archive is complete");
    let summary: Value = serde_json::from_slice(&summary).expect("JSON");
    assert_eq!(summary["lines"]["scores"], 451);
    assert_eq!(get(&world.key("query"), "demo").summary(), "403 scope");
    assert_eq!(get(&world.public_key, "demo").summary(), "403 scope");
    assert_eq!(world.command(&["games", "create", "other"]).code, 0);
    assert_eq!(get(&world.secret_key, "other").summary(), "404 not_found (game)", "another game's key");
    let owner = Owner::of(&world);
    assert_eq!(owner.send("GET", "/v1/games/other/export", &Value::Null).status, 200);
    assert_eq!(owner.send("GET", "/v1/games/none/export", &Value::Null).summary(), "404 not_found (game)");
}

#[test]
fn export_leaves_out_a_player_who_is_erased() {
    let world = World::new();
    let events = r#"[{"event":"hit","player":"canary-1"},{"event":"hit","player":"bo"}]"#;
    assert_eq!(world.post(events).summary(), "2 accepted");
    assert_eq!(
        world.send(&Request::new("DELETE", "/v1/players/canary-1").key(&world.secret_key)).status,
        202
    );
    let text = String::from_utf8_lossy(&download(&world)).into_owned();
    assert!(text.contains(r#""player":"bo""#) && !text.contains("canary-1"), "{text}");
}
