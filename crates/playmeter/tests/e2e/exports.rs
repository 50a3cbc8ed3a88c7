//! The export of raw events: pages over HTTP, and the command that copies them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::world::{World, now_ms, playmeter};

fn enable(world: &World) {
    let set = world.command(&["games", "set", "demo", "--export", "true", "--json"]).json();
    assert_eq!(set["settings"]["export"], true, "{set}");
}

/// Sends events with known numbers.
fn send(world: &World, numbers: std::ops::Range<u64>) {
    let numbers: Vec<u64> = numbers.collect();
    for part in numbers.chunks(5_000) {
        let events: Vec<Value> = part
            .iter()
            .map(|number| json!({"event": "hit", "player": format!("p{}", number % 97), "props": {"number": number}}))
            .collect();
        assert_eq!(world.post(json!(events).to_string()).summary(), format!("{} accepted", part.len()));
    }
}

fn page(world: &World, key: &str, query: &str) -> Answer {
    let request = Request::get(format!("/v1/export/events{query}")).key(key).header("Connection", "close");
    let mut connection = world.connect();
    connection.write(&request.bytes()).expect("it can be sent");
    let mut answer = connection.answer().expect("an answer");
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.body = connection.chunks().expect("the whole body");
    }
    answer
}

/// How often each number is in NDJSON.
fn numbers(text: &str, found: &mut BTreeMap<u64, usize>) {
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let number = event["props"]["number"].as_f64().expect("a number");
        *found.entry(number as u64).or_default() += 1;
    }
}

/// Checks that each number up to `count` was found once.
fn check_once(found: &BTreeMap<u64, usize>, count: u64) {
    let wrong: Vec<_> = found.iter().filter(|(number, times)| **times != 1 || **number >= count).collect();
    assert!(wrong.is_empty() && found.len() as u64 == count, "{} of {count}, {wrong:?}", found.len());
}

/// What the files of a folder hold.
fn numbers_in(folder: &Path) -> BTreeMap<u64, usize> {
    let mut found = BTreeMap::new();
    for file in std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok) {
        if file.path().extension().is_some_and(|kind| kind == "ndjson") {
            numbers(&std::fs::read_to_string(file.path()).expect("a file"), &mut found);
        }
    }
    found
}

fn export(world: &World, out: &Path, rows: &str) -> Child {
    let mut command = playmeter(world.root());
    command.args(["export", "--json", "--rows", rows, "--out"]).arg(out).arg("--data").arg(world.folder());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program can be started")
}

fn completed(child: Child) -> Value {
    let output = child.wait_with_output().expect("a child can be waited for");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn wait_for_files(folder: &Path, count: usize) {
    let started = Instant::now();
    let files =
        || std::fs::read_dir(folder).map_or(0, |files| files.filter_map(Result::ok).filter(is_page).count());
    while files() < count {
        assert!(started.elapsed() < Duration::from_secs(60), "{} of {count} files", files());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_page(file: &std::fs::DirEntry) -> bool {
    file.path().extension().is_some_and(|kind| kind == "ndjson")
}

#[test]
fn export_is_off_until_it_is_enabled_and_needs_its_scope() {
    let world = World::new();
    send(&world, 0..3);
    let key = world.key("export");
    let refused = page(&world, &key, "");
    assert_eq!(refused.summary(), "403 export_off");
    assert!(refused.text().contains("playmeter games set demo --export true"), "{}", refused.text());
    enable(&world);
    assert_eq!(page(&world, &key, "").status, 200);
    assert_eq!(page(&world, &world.secret_key, "").status, 200);
    for wrong in [&world.key("query,sql,events:write"), &world.public_key] {
        assert_eq!(page(&world, wrong, "").summary(), "403 scope");
    }
    assert_eq!(world.send(&Request::get("/v1/export/events")).summary(), "401 key");
    let other = world.command(&["games", "create", "other", "--json"]).json();
    let created =
        world.command(&["keys", "create", "--game", "other", "--scopes", "export", "--json"]).json();
    let other_key = created["secret_key"].as_str().expect("a key");
    assert_eq!(page(&world, other_key, "?game=demo").summary(), "403 export_off", "{other}");
    assert_eq!(world.command(&["games", "set", "demo", "--export", "false"]).code, 0);
    assert_eq!(page(&world, &key, "").summary(), "403 export_off");
}

#[test]
fn pages_have_every_event_once_across_restarts() {
    let mut world = World::new();
    enable(&world);
    send(&world, 0..2_000);
    let (mut found, mut cursor, mut pages) = (BTreeMap::new(), String::new(), 0);
    loop {
        let answer = page(&world, &world.secret_key, &format!("?limit=300{cursor}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let text = answer.text();
        assert_eq!(answer.header("playmeter-rows"), Some(&*text.lines().count().to_string()));
        numbers(&text, &mut found);
        pages += 1;
        match answer.header("playmeter-next-cursor") {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
        match pages {
            2 => world.restart(),
            4 => {
                world.kill9();
                world.start();
            }
            _ => {}
        }
    }
    // The events may be of two days.
    assert!(pages >= 7, "{pages}");
    check_once(&found, 2_000);
}

#[test]
fn pages_have_the_columns_and_times_that_were_sent() {
    let world = World::new();
    enable(&world);
    let ts = now_ms() / 1_000 * 1_000;
    let event = json!({"event": "=buy", "player": "bo", "session": "s", "ts": ts, "value": 2.5, "country": "FR",
        "id": "018f0000-0000-7000-8000-000000000001", "props": {"weapon": {"kind": "axe"}, "tags": [1, 2]}});
    assert_eq!(world.post(event.to_string()).summary(), "1 accepted");
    let line: Value = serde_json::from_str(&page(&world, &world.secret_key, "").text()).expect("one line");
    for field in ["event", "player", "session", "value", "country", "id"] {
        assert_eq!(line[field], event[field], "{line}");
    }
    assert_eq!(line["props"], json!({"weapon.kind": "axe", "tags": [1, 2]}), "{line}");
    let csv = page(&world, &world.secret_key, "?format=csv").text();
    let (header, row) = csv.split_once("\r\n").expect("a header");
    assert_eq!(
        header,
        "ts,event,id,player,anonymous,session,value,country,platform,version,source,level,received,props"
    );
    assert!(row.contains(",'=buy,018f0000-0000-7000-8000-000000000001,bo,,s,2.5,FR,"), "{row}");
    let parquet = page(&world, &world.secret_key, "?format=parquet");
    assert_eq!(parquet.header("content-type"), Some("application/vnd.apache.parquet"));
    assert_eq!((&parquet.body[..4], &parquet.body[parquet.body.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]));
    for (query, rows) in [
        (format!("?from={ts}"), "1"),
        (format!("?from={}", ts + 1), "0"),
        (format!("?to={ts}"), "0"),
        (format!("?from={ts}&to={}", ts + 1), "1"),
    ] {
        assert_eq!(page(&world, &world.secret_key, &query).header("playmeter-rows"), Some(rows), "{query}");
    }
    for (query, field) in [("?cursor=x", "cursor"), ("?limit=0", "limit"), ("?format=xml", "format")] {
        let summary = page(&world, &world.secret_key, query).summary();
        assert_eq!(summary, format!("400 invalid_field ({field})"));
    }
}

#[test]
fn interrupted_command_resumes_and_exports_everything_once() {
    const EVENTS: u64 = 30_000;
    let mut world = World::new();
    enable(&world);
    send(&world, 0..EVENTS);
    let out = world.root().join("exported");
    let mut interrupted = export(&world, &out, "500");
    wait_for_files(&out, 3);
    interrupted.kill().expect("it runs");
    interrupted.wait().expect("it ends");
    let first = numbers_in(&out).len() as u64;
    assert!((1_500..EVENTS).contains(&first), "{first} events before it was killed");
    // The server is killed while the command runs, and comes back.
    let resumed = export(&world, &out, "500");
    wait_for_files(&out, first as usize / 500 + 3);
    let address = world.address;
    world.kill9();
    world.listen(address);
    world.start();
    let summary = completed(resumed);
    assert_eq!((&summary["events"], &summary["game"]), (&json!(EVENTS), &json!("demo")), "{summary}");
    check_once(&numbers_in(&out), EVENTS);
    assert_eq!(completed(export(&world, &out, "500")), summary, "a completed export is not repeated");
    let wrong = world.command(&["export", "--format", "csv", "--out", out.to_str().expect("text")]);
    assert!(wrong.code == 1 && wrong.err.contains("--out"), "{wrong:?}");
}

#[test]
fn erased_player_is_in_no_page_from_the_request_on() {
    let world = World::new();
    enable(&world);
    let canary = "canary-7f31";
    let events = json!([
        {"event": "hit", "player": canary, "session": format!("{canary}-s"), "props": {"note": canary}},
        {"event": "hit", "player": "bo"},
    ]);
    assert_eq!(world.post(events.to_string()).summary(), "2 accepted");
    let text = || {
        ["ndjson", "csv"].map(|format| {
            let answer = page(&world, &world.secret_key, &format!("?format={format}"));
            assert_eq!(answer.header("playmeter-rows"), Some("2"), "an erased event is counted");
            answer.text()
        })
    };
    assert!(
        text().iter().all(|text| text.contains(canary)),
        "the search finds the canary before it is erased"
    );
    let erased = world.send(&Request::new("DELETE", format!("/v1/players/{canary}")).key(&world.secret_key));
    let receipt = format!("/v1/erasures/{}", erased.json()["receipt"].as_str().expect("a receipt"));
    let mut is_done = false;
    while !is_done {
        is_done = world.send(&Request::get(&receipt).key(&world.secret_key)).json()["state"] == "done";
        assert!(!text().iter().any(|text| text.contains(canary)), "is done: {is_done}");
    }
}

#[test]
fn one_page_of_a_game_is_sent_at_a_time() {
    let world = World::new();
    enable(&world);
    let long = "x".repeat(1_000);
    for _ in 0..10 {
        let events: Vec<Value> = (0..2_000)
            .map(|number| json!({"event": "hit", "props": {"text": format!("{long}{number}")}}))
            .collect();
        assert_eq!(world.post(json!(events).to_string()).summary(), "2000 accepted");
    }
    // More than the socket and the server buffer, and not read.
    let mut slow = world.connect();
    let request = Request::get("/v1/export/events").key(&world.secret_key);
    slow.write(&request.bytes()).expect("it can be sent");
    assert_eq!(slow.answer().expect("a head").status, 200);
    let refused = page(&world, &world.secret_key, "");
    assert_eq!(refused.summary(), "429 too_many");
    assert_eq!(refused.header("retry-after"), Some("1"));
    drop(slow);
    let started = Instant::now();
    while page(&world, &world.secret_key, "?limit=1").status != 200 {
        assert!(started.elapsed() < Duration::from_secs(60), "the page of a client that left ends");
        std::thread::sleep(Duration::from_millis(20));
    }
}
