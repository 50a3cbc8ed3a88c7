//! Deleting a game removes every byte of it from the data folder, and nothing of the others.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Request;
use crate::games::Owner;
use crate::privacy::{search, unique_text};
use crate::retention::{files, start_ahead, wait_until};
use crate::world::{World, new_id, now_ms};

/// A game whose texts are all unique, and the texts.
struct Tenant {
    id: String,
    name: String,
    number: u64,
    secret_key: String,
    public_key: String,
    texts: Vec<String>,
}

impl Tenant {
    fn create(world: &World) -> Tenant {
        let (id, name) = (unique_text("id"), unique_text("name"));
        let game = world.command(&["games", "create", &id, "--name", &name, "--json"]).json();
        let scopes = "events:write,events:import,scores:write,vars:write,levels:moderate,query,export,admin";
        let label = unique_text("label");
        let created = ["keys", "create", "--game", &id, "--label", &label, "--scopes", scopes, "--json"];
        let created = world.command(&created).json();
        let site = unique_text("site");
        assert_eq!(world.command(&["games", "sites", &id, "--add", &site]).code, 0);
        let dimension = unique_text("dimension");
        assert_eq!(world.command(&["games", "set", &id, "--dimension", &dimension]).code, 0);
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        Tenant {
            number: game["number"].as_u64().expect("a number"),
            secret_key: text(&created["secret_key"]),
            public_key: text(&game["public_key"]),
            texts: vec![id.clone(), name.clone(), label, site, dimension],
            id,
            name,
        }
    }

    fn text(&mut self, what: &str) -> String {
        self.texts.push(unique_text(what));
        self.texts.last().expect("it was just added").clone()
    }

    /// Writes something of each kind.
    fn play(&mut self, world: &World) {
        let dimension = self.texts[4].clone();
        let (player, event, key) = (self.text("player"), self.text("event"), self.text("key"));
        let mut props = json!({dimension: self.text("value")});
        props[&key] = self.text("prop").into();
        let events = json!([
            {"event": "$identify", "player": player, "props": {"anonymous": self.text("anonymous")}},
            {"event": event, "player": player, "id": new_id(), "session": self.text("session"),
             "version": self.text("version"), "source": self.text("source"), "level": self.text("level"),
             "props": props, "value": 3},
        ]);
        assert_eq!(world.post_as(&self.public_key, events.to_string()).summary(), "2 accepted");
        let (board, survey, achievement) = (self.text("board"), self.text("survey"), self.text("first"));
        let var = self.text("var");
        let level = json!({"name": self.text("cave"), "data": self.text("data"), "player": player});
        let survey_text = json!({"title": self.text("title"), "questions": [{"key": "q", "kind": "text", "text": "Why?", "max": 60}]});
        let (cohort, question, dashboard) = (self.text("cohort"), self.text("saved"), self.text("home"));
        let (alert, asked) = (self.text("alert"), self.text("asked"));
        let request = json!({"event": asked, "where": [{"property": "player", "op": "=", "value": player}]});
        let saved = json!({"v": 1, "kind": "explore", "request": request, "range": {"last": "7d"}});
        let tile = json!({"x": 0, "y": 0, "w": 6, "h": 1, "question": {
            "v": 1, "kind": "query", "request": {"metric": self.text("counted")}, "range": {"last": "7d"},
        }});
        let rule = json!({
            "name": self.text("rule"), "query": {"metric": asked, "last": "5m"}, "compare": {"op": ">", "value": 5},
            "targets": [{"kind": "webhook", "url": format!("https://hooks.invalid/{}", self.text("hook"))}],
        });
        let writes = [
            (
                "POST",
                "/v1/cohorts".into(),
                json!({"name": cohort, "condition": {"event": self.text("bought")}}),
            ),
            (
                "PUT",
                format!("/v1/questions/{question}"),
                json!({"name": self.text("shown"), "question": saved}),
            ),
            (
                "PUT",
                format!("/v1/dashboards/{dashboard}"),
                json!({"name": self.text("board-name"), "tiles": [tile]}),
            ),
            ("PUT", format!("/v1/alerts/{alert}"), rule),
            ("PUT", format!("/v1/vars/{var}"), json!({"value": self.text("setting")})),
            ("PUT", format!("/v1/boards/{board}"), json!({"mode": "open"})),
            (
                "POST",
                format!("/v1/boards/{board}/scores"),
                json!({"player": player, "name": self.text("alias"), "score": 7}),
            ),
            ("POST", "/v1/levels".into(), level),
            ("PUT", format!("/v1/achievements/{achievement}"), json!({"name": self.text("medal")})),
            ("POST", format!("/v1/achievements/{achievement}/grants"), json!({"player": player})),
            ("POST", "/v1/feed".into(), json!({"player": player, "text": self.text("post")})),
            ("PUT", format!("/v1/surveys/{survey}"), survey_text),
            (
                "POST",
                format!("/v1/surveys/{survey}/answers"),
                json!({"player": player, "answers": {"q": self.text("answer")}}),
            ),
        ];
        for (method, target, body) in writes {
            let request = Request::new(method, &target).key(&self.secret_key).body(body.to_string());
            let answer = world.send(&request.header("Idempotency-Key", &self.text("idempotency")));
            assert!((200..300).contains(&answer.status), "{method} {target}: {}", answer.text());
        }
        let line = format!("{} value=1", self.text("metric"));
        let samples = Request::new("POST", "/write").key(&self.secret_key).body(line);
        assert_eq!(world.send(&samples).status, 204);
    }

    /// The middle of each text, so that a compressor that found the beginning elsewhere hides nothing.
    fn needles(&self) -> Vec<Vec<u8>> {
        self.texts.iter().map(|text| text.as_bytes()[text.len() - 18..text.len() - 4].to_vec()).collect()
    }

    fn archive(&self, world: &World) {
        assert_eq!(world.command(&["games", "archive", &self.id]).code, 0);
    }

    fn delete(&self, owner: &Owner<'_>) {
        let answer = owner.send("DELETE", &self.target(), &json!({"confirm": self.name}));
        assert_eq!(answer.status, 202, "{}", answer.text());
        assert_eq!(answer.json()["id"], *self.id);
    }

    fn target(&self) -> String {
        format!("/v1/games/{}", self.id)
    }
}

/// Waits until the files contain nothing of the deleted games.
fn wait_until_deleted(world: &World) {
    let catalog = world.folder().join("catalog.json");
    wait_until("the deletion ends", world, || {
        let text = std::fs::read(&catalog).expect("a catalog");
        serde_json::from_slice::<Value>(&text).expect("JSON")["deleted_games"].is_null()
    });
}

/// What the demo game answers.
fn demo(world: &World) -> Vec<Value> {
    let (from, to) = (now_ms() - 86_400_000, now_ms() + 10 * 86_400_000);
    let query = |metric: &str, measure: &str, by: Value| {
        let query =
            json!({"metric": metric, "measure": measure, "by": by, "from": from, "to": to, "step": "all"});
        world.query(&query).json()["series"].clone()
    };
    let get = |target: &str| world.send(&Request::get(target).key(&world.secret_key)).json();
    let explore = json!({"event": "hit", "by": ["props.kind"], "from": from, "to": to, "step": "all"});
    let explore = Request::new("POST", "/v1/explore").key(&world.secret_key).body(explore.to_string());
    vec![
        query("hit", "count", json!(["level"])),
        query("hit", "uniques", json!([])),
        query("players", "uniques", json!([])),
        world.send(&explore).json()["series"].clone(),
        get("/v1/boards/high/scores?window=all")["rows"].clone(),
        get("/v1/vars")["vars"].clone(),
    ]
}

fn play_demo(world: &World) {
    let events: Vec<Value> = (0..50)
        .map(|n| json!({"event": "hit", "player": format!("p{}", n % 7), "level": format!("l{}", n % 3), "props": {"kind": n % 2 == 0}}))
        .collect();
    assert_eq!(world.post(json!(events).to_string()).summary(), "50 accepted");
    let identify = r#"{"event":"$identify","player":"p1","props":{"anonymous":"anon-1"}}"#;
    assert_eq!(world.post(identify).summary(), "1 accepted");
    for (method, target, body) in [
        ("PUT", "/v1/boards/high", r#"{"mode":"open"}"#),
        ("POST", "/v1/boards/high/scores", r#"{"player":"p1","score":3}"#),
        ("PUT", "/v1/vars/speed", r#"{"value":5}"#),
    ] {
        let answer = world.send(&Request::new(method, target).key(&world.secret_key).body(body));
        assert!((200..300).contains(&answer.status), "{}", answer.text());
    }
}

#[test]
fn deleted_game_leaves_no_byte_and_the_others_are_untouched() {
    let mut world = World::new();
    let mut tenant = Tenant::create(&world);
    play_demo(&world);
    tenant.play(&world);
    world.stop();
    // The first events are in files of the archive, in rollups and in records; the second ones in the log and in memory.
    start_ahead(&mut world, 2);
    let number = tenant.number as u32;
    wait_until("files are written", &world, || {
        !files(&world, 1).is_empty() && !files(&world, number).is_empty()
    });
    play_demo(&world);
    tenant.play(&world);
    let needles = tenant.needles();
    let before = demo(&world);
    let owner = Owner::of(&world);
    let delete = |confirm: &str| owner.send("DELETE", &tenant.target(), &json!({"confirm": confirm}));
    assert_eq!(delete(&tenant.name).summary(), "400 invalid_field (game)", "it is not archived");
    tenant.archive(&world);
    assert_eq!(delete(&tenant.id).summary(), "400 invalid_field (confirm)");
    let by_key = Request::new("DELETE", tenant.target()).key(&tenant.secret_key).body(r#"{"confirm":"x"}"#);
    assert_eq!(world.send(&by_key).summary(), "403 scope (Authorization)");
    let nothing = owner.send("DELETE", "/v1/games/none", &json!({"confirm": "x"}));
    assert_eq!(nothing.summary(), "404 not_found (game)");
    let found: BTreeSet<usize> =
        search(&world.folder(), &needles).iter().map(|(_, needle)| *needle).collect();
    assert_eq!(found.len(), needles.len(), "the search finds every text before the deletion");
    tenant.delete(&owner);
    for key in [&tenant.secret_key, &tenant.public_key] {
        assert_eq!(world.post_as(key, r#"{"event":"hit"}"#).summary(), "401 key");
    }
    wait_until_deleted(&world);
    let nothing: BTreeSet<(PathBuf, usize)> = BTreeSet::new();
    assert_eq!(search(&world.folder(), &needles), nothing);
    assert!(!world.folder().join("archive").join(number.to_string()).exists());
    assert_eq!(owner.send("GET", "/v1/games", &Value::Null).json()["deleting"], json!([]));
    for round in 0..3 {
        assert_eq!(demo(&world), before, "round {round}");
        let verified = world.command(&["verify", "--json"]).json();
        assert_eq!(verified["agrees"], true, "{verified}");
        if round == 0 {
            world.kill9();
        } else {
            world.stop();
        }
        assert_eq!(search(&world.folder(), &needles), nothing);
        start_ahead(&mut world, 2);
    }
    let again = world.command(&["games", "create", &tenant.id, "--json"]).json();
    assert!(again["number"].as_u64() > Some(tenant.number), "{again}");
    play_demo(&world);
    assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true);
}

#[test]
fn crash_at_any_moment_of_a_deletion_leaves_nothing() {
    let mut world = World::new();
    play_demo(&world);
    let before = demo(&world);
    let mut needles = Vec::new();
    for number in 0..5 {
        let mut tenant = Tenant::create(&world);
        tenant.play(&world);
        tenant.archive(&world);
        needles.extend(tenant.needles());
        // Each start renews the sign-in link.
        tenant.delete(&Owner::of(&world));
        // From before the first step to after the last one.
        std::thread::sleep(Duration::from_millis(number * 250));
        world.kill9();
        world.start();
        assert_eq!(world.post_as(&tenant.public_key, r#"{"event":"hit"}"#).summary(), "401 key");
    }
    wait_until_deleted(&world);
    assert_eq!(search(&world.folder(), &needles), BTreeSet::new());
    assert_eq!(demo(&world), before);
    assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true);
    world.restart();
    assert_eq!(search(&world.folder(), &needles), BTreeSet::new());
}

#[test]
fn game_of_the_first_start_can_be_exported_and_deleted_without_a_server() {
    let mut world = World::new();
    play_demo(&world);
    let key = world.secret_key.clone();
    let demo =
        world.command(&["games", "list", "--json"]).json()[0]["name"].as_str().expect("a name").to_owned();
    world.stop();
    let delete = |more: &[&str]| {
        world.command(&[&["games", "delete", "demo", "--json", "--confirm", &demo][..], more].concat())
    };
    let usage = delete(&[]);
    assert!(usage.code == 2 && usage.err.contains("--export"), "{usage:?}");
    assert_eq!(world.command(&["games", "archive", "demo"]).code, 0);
    let only = delete(&["--without-export"]);
    assert!(only.code == 1 && only.err.contains("the only game"), "{only:?}");
    let mut other = Tenant::create(&world);
    let export = world.root().join("export");
    let deleted = delete(&["--export", export.to_str().expect("text")]);
    assert_eq!(deleted.json(), json!({"id": "demo", "state": "deleting"}));
    assert!(export.join("summary.json").exists());
    world.start();
    wait_until_deleted(&world);
    let bootstrap = world.bootstrap();
    assert_eq!((&bootstrap["secret_key"], &bootstrap["game"]), (&Value::Null, &Value::Null), "{bootstrap}");
    assert_eq!(world.post_as(&key, r#"{"event":"hit"}"#).summary(), "401 key");
    other.play(&world);
    world.restart();
    let listed = world.command(&["games", "list", "--json"]).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true);
}
