//! Flow packets received by collectors, and how rejected ones are shown.

use std::io::Write;

use super::*;
use crate::watch::Watch;

/// A flow of three packets, one of them lost on the way; a malformed line; a packet without a sequence number.
const LINES: &str = "{\"from\":\"ann\",\"to\":\"bo\",\"seq\":1}\n{\"from\":\"ann\",\"to\":\"bo\",\"seq\":3}\nbad\n{\"from\":\"ann\",\"to\":\"bo\"}\n";

/// The last of these lines.
const NO_SEQ: &str = "{\"from\":\"ann\",\"to\":\"bo\"}";

/// Checks the result of [`LINES`], whatever the transport.
fn check(world: &World) {
    let now = wait_received(world, "one", 4);
    assert_eq!(now["counters"]["accepted"], 2, "{now}");
    let reasons = json!({"malformed_json": 1, "seq_invalid": 1});
    assert_eq!(now["counters"]["reasons"], reasons, "{now}");
    // The quality samples of a minute that has just ended may be counted as accepted; they are not events.
    assert_eq!(account(world, "flows").1, reasons, "a rejected packet is counted");
    let stored = world.query(&json!({"metric": "$events", "last": "1h", "step": "all"})).json();
    assert_eq!(
        stored["series"][0]["total"].as_u64().unwrap_or_default(),
        0,
        "a packet is not stored: {stored}"
    );
    let answer = world.send(&Request::get("/v1/flows").key(&world.secret_key)).json();
    let flow = &answer["flows"][0];
    assert_eq!((&flow["sent"]["received"], &flow["sent"]["lost"]), (&json!(2), &json!(1)), "{answer}");
    assert_eq!(
        shown(world),
        [("bad".into(), "malformed_json".into()), (NO_SEQ.into(), "seq_invalid".into())]
    );
}

/// The rejected lines as the feed of recent events shows them: line and reason, sorted.
fn shown(world: &World) -> Vec<(String, String)> {
    let mut watch = Watch::open_as(world, &world.secret_key, "events=1", None);
    let events = watch.next().data["events"].as_array().expect("a list").clone();
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let mut shown: Vec<_> =
        events.iter().map(|event| (text(event, "event"), text(event, "reason"))).collect();
    shown.retain(|(_, reason)| !reason.is_empty());
    shown.sort();
    shown
}

#[test]
fn packet_lines_become_flows_over_every_transport() {
    let one = |more: &str| world(&format!("[collectors.one]\ndecoder='flow'\n{more}\n"));
    let udp = one("transport='udp'\nlisten='127.0.0.1:0'");
    packets(&udp, "one").send(LINES.as_bytes()).expect("it listens");
    check(&udp);
    let server = one("transport='tcp_server'\nlisten='127.0.0.1:0'");
    connect(&server, "one").write_all(LINES.as_bytes()).expect("it reads");
    check(&server);
    let source = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = source.local_addr().expect("an address");
    let client = one(&format!("transport='tcp_client'\naddress='{address}'"));
    let (mut stream, _) = source.accept().expect("it connects");
    stream.write_all(LINES.as_bytes()).expect("it reads");
    check(&client);
}

#[test]
fn packet_file_becomes_flows_and_is_archived() {
    let (world, inbox) = files::world_with_folder("flow", "");
    std::fs::write(inbox.join("one.ndjson"), LINES).expect("a file");
    files::wait_for(&inbox.join("archive/one.ndjson"), &world);
    check(&world);
}

#[test]
fn start_of_a_malformed_rtcp_datagram_is_shown() {
    let world = World::with(&["--rtcp", "127.0.0.1:0"]);
    packets(&world, "rtcp").send(b"no rtcp").expect("it listens");
    wait_received(&world, "rtcp", 1);
    assert_eq!(account(&world, "flows"), (0, json!({"malformed_line": 1})));
    let why = "packet at byte 0 is not RTCP: its version is not 2: 6e6f2072746370";
    assert_eq!(shown(&world), [(why.to_owned(), "malformed_line".to_owned())]);
}

#[test]
fn rejected_samples_are_shown_verbatim() {
    let world = World::new();
    let request =
        Request::new("POST", "/api/v2/write").key(&world.secret_key).body("hits value=1\nhits value=\n");
    assert_eq!(world.send(&request).status, 204);
    world.query(&json!({"metric": "hits"}));
    let shown = shown(&world);
    assert_eq!(shown, [("hits value=".to_owned(), "malformed_line".to_owned())]);
}
