//! Subscriptions over server-sent events: a snapshot, then changes, and resuming.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Request;
use crate::keys::{cookie, sign_in};
use crate::world::{World, now_ms};

/// One server-sent event.
#[derive(Debug)]
pub(crate) struct ServerSentEvent {
    pub name: String,
    pub id: String,
    pub data: Value,
}

/// A stream of server-sent events.
pub(crate) struct Watch {
    lines: BufReader<Chunks>,
    /// Reading fails after this time, if the stream is to end.
    ends_before: Option<Instant>,
}

/// Decodes the chunked encoding.
struct Chunks {
    stream: BufReader<TcpStream>,
    left: usize,
}

impl Read for Chunks {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            let mut line = String::new();
            while line.trim().is_empty() {
                line.clear();
                if self.stream.read_line(&mut line)? == 0 {
                    return Ok(0);
                }
            }
            self.left = usize::from_str_radix(line.trim(), 16).expect("the length of a chunk");
        }
        let len = bytes.len().min(self.left);
        let read = self.stream.read(&mut bytes[..len])?;
        self.left -= read;
        Ok(read)
    }
}

impl Watch {
    fn open(world: &World, what: &str, last_event_id: Option<&str>) -> Watch {
        Watch::open_as(world, &world.secret_key, what, last_event_id)
    }

    pub(crate) fn open_as(world: &World, key: &str, what: &str, last_event_id: Option<&str>) -> Watch {
        let mut request = Request::get(format!("/v1/watch?{what}")).key(key);
        if let Some(id) = last_event_id {
            request = request.header("Last-Event-ID", id);
        }
        Watch::send(world, &request)
    }

    /// Opens the stream that this request asks for.
    fn send(world: &World, request: &Request) -> Watch {
        let mut connection = world.connect();
        connection.write(&request.bytes()).expect("the server reads");
        let mut stream = BufReader::new(connection.writer());
        let mut line = String::new();
        stream.read_line(&mut line).expect("an answer");
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).expect("a head");
        }
        Watch { lines: BufReader::new(Chunks { stream, left: 0 }), ends_before: None }
    }

    pub(crate) fn next(&mut self) -> ServerSentEvent {
        self.next_or_end().expect("the stream goes on")
    }

    /// Returns the names of the events up to the end of the stream, which the server must end.
    fn names_until_end(&mut self) -> Vec<String> {
        self.ends_before = Some(Instant::now() + Duration::from_secs(60));
        std::iter::from_fn(|| self.next_or_end()).map(|event| event.name).collect()
    }

    /// Returns the next event, or `None` if the server ends the stream.
    fn next_or_end(&mut self) -> Option<ServerSentEvent> {
        let mut event = ServerSentEvent { name: String::new(), id: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).expect("a line in time") == 0 {
                return None;
            }
            assert!(
                self.ends_before.is_none_or(|end| Instant::now() < end),
                "the stream does not end: {line}"
            );
            match line.trim_end().split_once(": ") {
                Some(("event", name)) => event.name = name.into(),
                Some(("id", id)) => event.id = id.into(),
                Some(("data", data)) => event.data = serde_json::from_str(data).expect("JSON"),
                _ if line == "\n" && !event.name.is_empty() => return Some(event),
                _ => {}
            }
        }
    }

    /// Returns the next event of this subscription that satisfies `wanted`.
    fn until(&mut self, sub: &str, wanted: impl Fn(&ServerSentEvent) -> bool) -> ServerSentEvent {
        loop {
            let event = self.next();
            if event.data["sub"] == sub && wanted(&event) {
                return event;
            }
        }
    }
}

const HITS: &str = "query=%7B%22metric%22%3A%22hit%22%2C%22last%22%3A%2260m%22%2C%22step%22%3A%22all%22%7D";

fn total(event: &ServerSentEvent) -> u64 {
    let totals = &event.data["totals"][0]["total"];
    let series = &event.data["series"][0]["total"];
    totals.as_f64().or(series.as_f64()).unwrap_or(0.0) as u64
}

#[test]
fn query_sends_a_snapshot_then_changes() {
    let world = World::new();
    world.post(r#"{"event":"hit"}"#);
    let mut watch = Watch::open(&world, HITS, None);
    let snapshot = watch.next();
    assert_eq!((snapshot.name.as_str(), total(&snapshot)), ("snapshot", 1));
    world.post(r#"[{"event":"hit"},{"event":"hit"}]"#);
    let change = watch.until("query0", |event| total(event) == 3);
    assert!(["change", "reset"].contains(&change.name.as_str()), "{change:?}");
}

#[test]
fn recent_events_show_their_outcomes() {
    let world = World::new();
    let mut watch = Watch::open(&world, "events=1", None);
    assert_eq!(watch.next().data["events"], json!([]));
    world.post(r#"[{"event":"hit","player":"ann","value":3},{"event":"hit","nonsense":1}]"#);
    let mut outcomes = Vec::new();
    while outcomes.len() < 2 {
        let change = watch.until("events", |event| event.name == "change");
        let added = change.data["added"].as_array().expect("a list").clone();
        outcomes.extend(added.iter().map(|event| format!("{} {}", event["outcome"], event["reason"])));
    }
    outcomes.sort();
    assert_eq!(outcomes, [r#""accepted" null"#, r#""invalid" "unknown_field""#]);
}

#[test]
fn event_updates_online_and_load() {
    let world = World::new();
    let mut watch = Watch::open(&world, "online=1&load=1", None);
    world.post(r#"{"event":"hit","player":"ann"}"#);
    watch.until("online", |event| event.data["online"] == 1);
    let load = watch.until("load", |event| event.data["totals"]["accepted"] == 1);
    assert_eq!(load.data["totals"]["received"], 1);
}

#[test]
fn reconnected_client_resumes_where_it_stopped() {
    let world = World::new();
    let mut watch = Watch::open(&world, HITS, None);
    watch.next();
    world.post(r#"{"event":"hit"}"#);
    let seen = watch.until("query0", |event| total(event) == 1);
    drop(watch);
    world.post(r#"{"event":"hit"}"#);
    let mut again = Watch::open(&world, HITS, Some(&seen.id));
    let missed = again.until("query0", |event| total(event) == 2);
    assert!(["change", "reset"].contains(&missed.name.as_str()), "{missed:?}");
}

#[test]
fn restart_resets_the_subscription() {
    let mut world = World::new();
    world.post(r#"{"event":"hit"}"#);
    let id = Watch::open(&world, HITS, None).next().id;
    world.restart();
    let event = Watch::open(&world, HITS, Some(&id)).next();
    assert_eq!((event.name.as_str(), total(&event)), ("reset", 1));
}

#[test]
fn equal_subscriptions_share_one_computation() {
    let world = World::new();
    let mut watches: Vec<Watch> = (0..20).map(|_| Watch::open(&world, HITS, None)).collect();
    watches.iter_mut().for_each(|watch| drop(watch.next()));
    let metrics = world.send(&Request::get("/metrics")).text();
    assert!(metrics.contains("\nplaymeter_subscriptions 1\n"), "{metrics}");
    world.post(r#"{"event":"hit"}"#);
    let ids: Vec<String> =
        watches.iter_mut().map(|watch| watch.until("query0", |event| total(event) == 1).id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn subscriptions_are_listed_with_their_cost() {
    let world = World::new();
    let mut watches: Vec<Watch> =
        (0..3).map(|_| Watch::open(&world, &format!("{HITS}&min_interval=0"), None)).collect();
    watches.iter_mut().for_each(|watch| drop(watch.next()));
    world.post(r#"{"event":"hit"}"#);
    watches.iter_mut().for_each(|watch| drop(watch.until("query0", |event| total(event) == 1)));
    let list = world.send(&Request::get("/v1/subscriptions").key(&world.secret_key)).json();
    let [subscription] = &list["subscriptions"].as_array().expect("a list")[..] else { panic!("{list}") };
    assert_eq!(subscription["topic"], "query");
    assert_eq!(subscription["what"]["metrics"], json!([{"metric": "hit"}]));
    assert_eq!((&subscription["watchers"], &subscription["min_interval_ms"]), (&json!(3), &json!(0)));
    assert_eq!(
        subscription["computations"], 2,
        "one for the three subscribers at the start, one for the event"
    );
    assert!(subscription["cost_us"]["total"].as_u64() >= subscription["cost_us"]["last"].as_u64());
    assert_eq!(list["connections"], json!({"streamed": 3, "as_documents": 0}));
}

#[test]
fn invalid_stream_parameter_is_named() {
    let world = World::new();
    let get =
        |what: &str| world.send(&Request::get(format!("/v1/watch?{what}")).key(&world.secret_key)).json();
    for (what, field) in [
        ("weather=1", json!("weather")),
        ("query=%7B%22metric%22%3A%22hit%22%2C%22step%22%3A%22eon%22%7D", json!("step")),
        ("load=1&min_interval=soon", json!("min_interval")),
        ("load=1&min_interval=3600001", json!("min_interval")),
        ("", json!(null)),
    ] {
        let problem = get(what);
        assert_eq!((problem["status"].clone(), problem["field"].clone()), (json!(400), field), "{what}");
    }
}

#[test]
fn revoked_key_ends_its_stream() {
    let world = World::new();
    let created = world.command(&["keys", "create", "--scopes", "query", "--json"]).json();
    let (id, key) = (created["id"].as_str().expect("an id"), created["secret_key"].as_str().expect("a key"));
    let mut watch = Watch::open_as(&world, key, "events=1&min_interval=0", None);
    assert_eq!(watch.next().name, "snapshot");
    world.command(&["keys", "revoke", id, "--json"]).json();
    world.post(r#"{"event":"hit"}"#);
    assert_eq!(watch.names_until_end(), [""; 0], "nothing that happened after the revocation is sent");
    let again = world.send(&Request::get("/v1/watch?events=1").key(key));
    assert_eq!(again.summary(), "401 key");
}

#[test]
fn stream_without_changes_ends_after_its_credential() {
    let world = World::configured("[connections]\nheartbeat_s = 1\n", &[]);
    let created = world.command(&["keys", "create", "--scopes", "query", "--json"]).json();
    let (id, key) = (created["id"].as_str().expect("an id"), created["secret_key"].as_str().expect("a key"));
    let mut of_key = Watch::open_as(&world, key, "query=%7B%22metric%22%3A%22hit%22%7D", None);
    let cookie = cookie(&sign_in(&world));
    let mut of_person = Watch::send(&world, &Request::get("/v1/watch?events=1").header("Cookie", &cookie));
    let old_public = world.public_key.clone();
    let mut of_player = Watch::open_as(&world, &old_public, "board=high", None);
    for watch in [&mut of_key, &mut of_person, &mut of_player] {
        assert_eq!(watch.next().name, "snapshot");
    }
    world.command(&["keys", "revoke", id, "--json"]).json();
    world.send(&Request::new("POST", "/v1/sign-out").header("Cookie", &cookie));
    world.command(&["keys", "rotate", "--public", "demo", "--json"]).json();
    world.command(&["keys", "revoke", &old_public, "--json"]).json();
    for watch in [&mut of_key, &mut of_person, &mut of_player] {
        assert_eq!(watch.names_until_end(), [""; 0]);
    }
}

#[test]
fn busy_stream_ends_when_its_key_expires() {
    let world = World::configured("[connections]\nheartbeat_s = 1\n", &[]);
    let expires_s = now_ms() / 1000 + 8;
    let command =
        json!({"create_key": {"game": "demo", "label": "", "scopes": ["query"], "expires_s": expires_s}});
    let mut control = UnixStream::connect(world.folder().join("control.sock")).expect("the control socket");
    writeln!(control, "{command}").expect("it can be written");
    let mut reply = String::new();
    BufReader::new(control).read_line(&mut reply).expect("a reply");
    let reply: Value = serde_json::from_str(&reply).expect("JSON");
    let key = reply["done"]["secret_key"].as_str().unwrap_or_else(|| panic!("no key in {reply}"));
    let mut watch = Watch::open_as(&world, key, "events=1&min_interval=0", None);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || watch.names_until_end());
        while !reader.is_finished() {
            world.post(r#"{"event":"hit"}"#);
        }
    });
    assert!(now_ms() / 1000 >= expires_s, "the stream lasts as long as its key");
}
