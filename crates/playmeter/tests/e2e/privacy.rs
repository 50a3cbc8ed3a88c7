//! Export and erasure of a player. Canaries are unique texts: the files contain them before an erasure, but not after it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aho_corasick::AhoCorasick;
use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::watch::Watch;
use crate::world::{World, new_id, now_ms};

const CANARIES: usize = 20;
/// An erasure takes a second or two; on a busy machine, a few more.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A player whose texts are all unique.
struct Canary {
    id: String,
    anonymous: String,
    name: String,
    session: String,
    prop: String,
    level: String,
    /// So short that compression does not change it.
    data: String,
    answer: String,
    post: String,
    event_id: String,
}

/// A text with 24 random digits.
pub(crate) fn unique_text(what: &str) -> String {
    format!("{what}-{}", &new_id().replace('-', "")[..24])
}

impl Canary {
    fn new() -> Canary {
        Canary {
            id: unique_text("id"),
            anonymous: unique_text("anonymous"),
            name: unique_text("name"),
            session: unique_text("session"),
            prop: unique_text("prop"),
            level: unique_text("level"),
            data: unique_text("data"),
            answer: unique_text("answer"),
            post: unique_text("post"),
            event_id: new_id(),
        }
    }

    fn texts(&self) -> [&str; 9] {
        let Canary { id, anonymous, name, session, prop, level, data, answer, post, .. } = self;
        [id, anonymous, name, session, prop, level, data, answer, post].map(String::as_str)
    }

    /// The bytes to search for: the middle of each text, so that a compressor that found the beginning elsewhere
    /// hides nothing; and the event id as the log stores it.
    fn needles(&self) -> Vec<Vec<u8>> {
        let middle = |text: &str| text.as_bytes()[text.len() - 18..text.len() - 4].to_vec();
        let mut needles: Vec<Vec<u8>> = self.texts().into_iter().map(middle).collect();
        let id = u128::from_str_radix(&self.event_id.replace('-', ""), 16).expect("it is hexadecimal");
        needles.push(id.to_le_bytes().to_vec());
        needles
    }

    fn events(&self) -> String {
        let Canary { id, anonymous, session, prop, event_id, .. } = self;
        let events = [
            json!({"event": "$session_start", "player": anonymous, "session": session}),
            json!({"event": "$identify", "player": id, "session": session, "props": {"anonymous": anonymous}}),
            json!({"event": "win", "player": id, "id": event_id, "session": session, "value": 7.5,
                   "level": "3", "props": {"note": prop}}),
            json!({"event": "win", "player": anonymous, "platform": "web"}),
        ];
        json!(events).to_string()
    }

    /// Does everything that a player can do once.
    fn play(&self, world: &World) {
        let Canary { id, name, level, data, answer, post, prop, .. } = self;
        let public = |method: &'static str, target: &str, body: Value| {
            let request = Request::new(method, target).key(&world.public_key).body(body.to_string());
            world.send(&request.header("Idempotency-Key", &format!("{target} by {id}")))
        };
        assert_eq!(world.post(self.events()).summary(), "4 accepted");
        assert_eq!(public("POST", "/v1/session", json!({"player": id, "name": name})).status, 201);
        let saved = json!({"name": level, "data": data, "player": id, "player_name": name});
        assert_eq!(public("POST", "/v1/levels", saved).status, 201);
        let answers = json!({"player": id, "answers": {"why": answer}});
        assert_eq!(public("POST", "/v1/surveys/mood/answers", answers).status, 201);
        let secret = |method: &'static str, target: &str, body: String| {
            let answer = world.send(&Request::new(method, target).key(&world.secret_key).body(body));
            assert!(answer.status < 300, "{method} {target}: {}", answer.text());
        };
        secret("POST", "/v1/achievements/first/grants", json!({"player": id, "name": name}).to_string());
        let score = json!({"player": id, "name": name, "score": 7, "fields": {"note": prop}});
        secret("POST", "/v1/boards/canaries/scores", score.to_string());
        let item = json!({"player": id, "name": name, "text": post, "props": {"note": prop}});
        secret("POST", "/v1/feed", item.to_string());
        secret("PUT", &format!("/v1/players/{id}/follows/player-0"), String::new());
        secret("PUT", &format!("/v1/players/player-0/follows/{id}"), String::new());
    }
}

/// Every file that contains one of the needles, with the needle's index.
pub(crate) fn search(folder: &Path, needles: &[Vec<u8>]) -> BTreeSet<(PathBuf, usize)> {
    let matcher = AhoCorasick::new(needles).expect("needles");
    let (mut found, mut left) = (BTreeSet::new(), vec![folder.to_path_buf()]);
    while let Some(path) = left.pop() {
        // A running server creates and deletes files.
        let Ok(kind) = fs::symlink_metadata(&path).map(|metadata| metadata.file_type()) else { continue };
        if kind.is_dir() {
            left.extend(fs::read_dir(&path).expect("a folder").map(|item| item.expect("an item").path()));
        } else if kind.is_file() {
            let Ok(bytes) = fs::read(&path) else { continue };
            found.extend(matcher.find_iter(&bytes).map(|it| (path.clone(), it.pattern().as_usize())));
        }
    }
    found
}

/// Creates a survey, some players, and canaries among them.
fn create_players(world: &World, canaries: &[Canary]) {
    let survey =
        r#"{"title": "Mood", "questions": [{"key": "why", "kind": "text", "text": "Why?", "max": 60}]}"#;
    let put = Request::new("PUT", "/v1/surveys/mood").key(&world.secret_key).body(survey);
    assert_eq!(world.send(&put).status, 201);
    let put = Request::new("PUT", "/v1/achievements/first").body(r#"{"name": "First win"}"#);
    assert!(world.send(&put.key(&world.secret_key)).status < 300);
    for (number, canary) in canaries.iter().enumerate() {
        canary.play(world);
        let other = json!([
            {"event": "win", "player": format!("player-{number}"), "props": {"note": "stays"}},
            {"event": "win", "platform": "web"},
        ]);
        assert_eq!(world.post(other.to_string()).summary(), "2 accepted");
        let level =
            json!({"name": "cave", "data": format!("###{number}"), "player": format!("player-{number}")});
        let save = Request::new("POST", "/v1/levels").key(&world.public_key).body(level.to_string());
        assert_eq!(world.send(&save).status, 201);
    }
}

fn erase(world: &World, player: &str) -> Answer {
    world.send(&Request::new("DELETE", format!("/v1/players/{player}")).key(&world.secret_key))
}

fn receipt(world: &World, receipt: &str) -> Value {
    world.send(&Request::get(format!("/v1/erasures/{receipt}")).key(&world.secret_key)).json()
}

/// Waits until the erasure is complete and returns its receipt.
fn wait_until_erased(world: &World, id: &str) -> Value {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let current = receipt(world, id);
        if current["state"] == "done" {
            return current;
        }
        assert!(Instant::now() < deadline, "{current}\n{}", world.log_lines());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An export, which is sent in chunks.
fn export(world: &World, player: &str) -> Value {
    let request = Request::get(format!("/v1/players/{player}/export")).key(&world.secret_key);
    let mut stream = TcpStream::connect(world.address).expect("the server accepts connections");
    stream.write_all(&request.header("Connection", "close").bytes()).expect("it can be sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let text = String::from_utf8(bytes).expect("it is text");
    let (head, mut rest) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut body = String::new();
    while let Some((length, chunk)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("the length of a chunk");
        body += &chunk[..length];
        rest = &chunk[length + 2..];
    }
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// The results of queries on rollups of every kind: sums, players, sessions, cuts.
fn rollup_results(world: &World) -> Vec<Value> {
    let (from, to) = (now_ms() - 86_400_000, now_ms() + 3_600_000);
    let series = |metric: &str, measure: &str, by: Value| {
        let query =
            json!({"metric": metric, "measure": measure, "by": by, "from": from, "to": to, "step": "all"});
        let answer = world.query(&query);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["series"].clone()
    };
    vec![
        series("win", "count", json!([])),
        series("win", "sum", json!([])),
        series("win", "uniques", json!([])),
        series("win", "count", json!(["platform", "level"])),
        series("players", "uniques", json!([])),
        series("sessions", "count", json!([])),
    ]
}

/// Everything that can be read about all players.
fn read_everything(world: &World) -> String {
    let get = |target: &str| world.send(&Request::get(target).key(&world.secret_key)).text();
    let mut watch = Watch::open_as(world, &world.secret_key, "events=1", None);
    let mut read = watch.next().data.to_string();
    for target in [
        "/v1/levels?data=1&per_page=100",
        "/v1/moderation",
        "/v1/surveys/mood/results",
        "/v1/feed/player-0?n=100",
        "/v1/players/player-0/follows",
        "/v1/achievements?player=player-0&friends=follows",
    ] {
        read += &get(target);
    }
    read
}

#[test]
fn erased_player_disappears_from_reads_at_once_and_from_files_soon() {
    let mut world = World::new();
    let canaries: Vec<Canary> = (0..CANARIES).map(|_| Canary::new()).collect();
    let needles: Vec<Vec<u8>> = canaries.iter().flat_map(Canary::needles).collect();
    create_players(&world, &canaries);
    // A stop writes a checkpoint, so that the store contains them too.
    world.restart();
    let before = search(&world.folder(), &needles);
    let found: BTreeSet<usize> = before.iter().map(|(_, needle)| *needle).collect();
    assert_eq!(found.len(), needles.len(), "the search finds every canary before anything is erased");
    let views = world.folder().join("views");
    assert!(before.iter().filter(|(path, _)| path.starts_with(&views)).count() > 5 * CANARIES);
    let numbers = rollup_results(&world);
    let mut receipts = Vec::new();
    for canary in &canaries {
        let answer = erase(&world, &canary.id);
        assert_eq!(answer.status, 202, "{}", answer.text());
        receipts.push(answer.json()["receipt"].as_str().expect("a receipt").to_owned());
        for id in [&canary.id, &canary.anonymous] {
            let export = export(&world, id);
            assert_eq!((&export["events"], &export["complete"]), (&json!([]), &json!(true)));
            assert_eq!(export["known"][id]["levels"]["levels"], json!([]), "{export}");
            assert!(!export.to_string().contains(&canary.prop));
        }
    }
    let read = read_everything(&world);
    assert!(read.contains("player-7"), "other players are still listed: {read}");
    for text in canaries.iter().flat_map(Canary::texts) {
        assert!(!read.contains(text), "{text} can be read");
    }
    for id in &receipts {
        let erased = wait_until_erased(&world, id);
        // Four were sent; the answer to the survey is an event too.
        assert_eq!((&erased["kind"], &erased["events"]), (&json!("erasure"), &json!(5)), "{erased}");
        // A session, a level, an answer, an achievement, an item, two follows, and the request for the erasure.
        assert_eq!(erased["commands"], 9, "{erased}");
        assert!(canaries.iter().flat_map(Canary::texts).all(|text| !erased.to_string().contains(text)));
    }
    assert_eq!(search(&world.folder(), &needles), BTreeSet::new());
    assert_eq!(rollup_results(&world), numbers);
    for kill in [true, false] {
        let verified = world.command(&["verify", "--json"]).json();
        assert_eq!(verified["agrees"], true, "{verified}");
        if kill {
            world.kill9();
        } else {
            world.stop();
        }
        assert_eq!(search(&world.folder(), &needles), BTreeSet::new());
        world.start();
        assert_eq!(rollup_results(&world), numbers);
        assert_eq!(receipt(&world, &receipts[0])["state"], "done");
    }
    // An event that is sent again is still a duplicate after its player was erased.
    let again = json!({"event": "win", "id": canaries[0].event_id}).to_string();
    assert_eq!(world.post(again).json()["duplicate"], 1);
    let export = export(&world, "player-7");
    assert_eq!(
        (&export["events_count"], &export["events"][0]["props"]["note"]),
        (&json!(1), &json!("stays"))
    );
}

#[test]
fn crash_during_an_erasure_restores_no_data() {
    let mut world = World::new();
    let canaries: Vec<Canary> = (0..6).map(|_| Canary::new()).collect();
    let needles: Vec<Vec<u8>> = canaries.iter().flat_map(Canary::needles).collect();
    create_players(&world, &canaries);
    let numbers = rollup_results(&world);
    let mut receipts = Vec::new();
    for (number, canary) in canaries.iter().enumerate() {
        let answer = erase(&world, &canary.id).json();
        receipts.push(answer["receipt"].as_str().expect("a receipt").to_owned());
        // From before the erasure pass starts to after it has ended.
        std::thread::sleep(Duration::from_millis(number as u64 * 150));
        world.kill9();
        world.start();
        assert_eq!(export(&world, &canary.id)["events"], json!([]));
    }
    for id in &receipts {
        wait_until_erased(&world, id);
    }
    assert_eq!(search(&world.folder(), &needles), BTreeSet::new());
    let verified = world.command(&["verify", "--json"]).json();
    assert_eq!(verified["agrees"], true, "{verified}");
    assert_eq!(rollup_results(&world), numbers);
    world.restart();
    assert_eq!(search(&world.folder(), &needles), BTreeSet::new());
}

#[test]
fn export_contains_all_data_of_one_player_only() {
    let world = World::new();
    let canaries = [Canary::new(), Canary::new()];
    create_players(&world, &canaries);
    for id in [&canaries[0].id, &canaries[0].anonymous] {
        let export = export(&world, id);
        let text = export.to_string();
        for own in canaries[0].texts() {
            assert!(text.contains(own), "{own}: {text}");
        }
        for other in canaries[1].texts() {
            assert!(!text.contains(other), "{other}: {text}");
        }
        assert!(text.contains(&canaries[0].event_id));
        assert_eq!((&export["events_count"], &export["events_lost"]), (&json!(5), &json!(0)));
        let stored = receipt(&world, export["receipt"].as_str().expect("a receipt"));
        assert_eq!((&stored["kind"], &stored["state"]), (&json!("export"), &Value::Null));
    }
}

#[test]
fn events_after_an_erasure_are_kept() {
    let world = World::new();
    let canary = Canary::new();
    create_players(&world, std::slice::from_ref(&canary));
    let first = erase(&world, &canary.id).json();
    let later = json!({"event": "win", "player": canary.id, "props": {"note": "later"}}).to_string();
    assert_eq!(world.post(&later).summary(), "1 accepted");
    wait_until_erased(&world, first["receipt"].as_str().expect("a receipt"));
    let export = export(&world, &canary.id);
    assert_eq!(
        (&export["events_count"], &export["events"][0]["props"]["note"]),
        (&json!(1), &json!("later"))
    );
}

#[test]
fn erasure_requires_a_valid_player_and_the_scope() {
    let world = World::new();
    let key = world.key("players:delete");
    let send =
        |method: &'static str, target: &str, key: &str| world.send(&Request::new(method, target).key(key));
    assert_eq!(send("DELETE", "/v1/players/bo", &key).status, 202);
    assert_eq!(send("GET", "/v1/players/bo/export", &key).summary(), "403 scope");
    assert_eq!(send("DELETE", "/v1/players/bo", &world.key("export")).summary(), "403 scope");
    assert_eq!(send("DELETE", "/v1/players/undefined", &key).summary(), "400 invalid_field (player)");
    let long = format!("/v1/players/{}", "x".repeat(129));
    assert_eq!(send("DELETE", &long, &key).summary(), "400 invalid_field (player)");
    let with_body = Request::new("DELETE", "/v1/players/bo").key(&key).body(r#"{"reason":"x"}"#);
    assert_eq!(world.send(&with_body).summary(), "400 invalid_field (reason)");
    assert_eq!(send("GET", "/v1/erasures/none", &key).summary(), "404 not_found");
    world.command(&["games", "create", "other", "--json"]).json();
    let created =
        world.command(&["keys", "create", "--game", "other", "--scopes", "export", "--json"]).json();
    let other = created["secret_key"].as_str().expect("a key");
    let receipt =
        send("DELETE", "/v1/players/cy", &key).json()["receipt"].as_str().expect("a receipt").to_owned();
    assert_eq!(send("GET", &format!("/v1/erasures/{receipt}"), other).summary(), "404 not_found");
    let again = Request::new("DELETE", "/v1/players/di").key(&key).header("Idempotency-Key", "once");
    assert_eq!(world.send(&again).json()["receipt"], world.send(&again).json()["receipt"]);
}
