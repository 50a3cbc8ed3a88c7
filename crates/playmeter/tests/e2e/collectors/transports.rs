//! Samples and events sent in packets and over connections are in the results of queries.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;

use rustix::process::Signal;
use serde_json::json;

use super::*;
use crate::watch::Watch;

const STATSD: &str =
    "hits:3|c\nhits:4|c|@0.5\nload:20|ms\nbad\nusers:ann|s\nusers:bo|s\nusers:ann|s\nlevel:9|g\nlevel:-2|g\n";
const INFLUX: &str =
    "hits value=11\nload,host=a value=20\nlevel value=9\nlevel value=7\nusers text=\"ann\"\n";
const JSON: &str = "{\"event\":\"hits\",\"value\":11}\n\n{\"event\":\"load\",\"value\":20}\nbad\n{\"event\":\"level\",\"value\":7}\n";

/// Checks the totals that the three inputs have in common, and their rejected lines.
fn check(world: &World, decoder: &str) {
    let (lines, rejected) = match decoder {
        "statsd" => (9, json!({"malformed_line": 1})),
        "influx" => (5, json!({"value_not_a_number": 1})),
        _ => (4, json!({"malformed_json": 1})),
    };
    let now = wait_received(world, "one", lines);
    assert_eq!(now["counters"]["reasons"], rejected, "{now}");
    assert_eq!(now["counters"]["accepted"], lines - 1, "{now}");
    assert_eq!(measured(world, "hits", "sum"), 11.0, "{decoder}");
    assert_eq!(measured(world, "load", "avg"), 20.0, "{decoder}");
    assert_eq!(account(world, decoder), (lines - 1, rejected));
    if decoder != "json" {
        assert_eq!(measured(world, "level", "last"), 7.0);
        assert_eq!(measured(world, "hits", "count"), if decoder == "statsd" { 3.0 } else { 1.0 });
    }
    if decoder == "statsd" {
        assert_eq!(measured(world, "users", "uniques"), 2.0);
    }
}

const ALL: [(&str, &str); 3] = [("statsd", STATSD), ("influx", INFLUX), ("json", JSON)];

#[test]
fn udp_packets_are_counted() {
    for (decoder, sent) in ALL {
        let config =
            format!("[collectors.one]\ntransport='udp'\ndecoder='{decoder}'\nlisten='127.0.0.1:0'\n");
        let world = world(&config);
        let socket = packets(&world, "one");
        let (first, second) = sent.split_at(sent.find('\n').expect("lines") + 1);
        for packet in [first, "", second] {
            socket.send(packet.as_bytes()).expect("it listens");
        }
        check(&world, decoder);
        socket.set_nonblocking(true).expect("a socket");
        assert!(socket.recv(&mut [0; 10]).is_err(), "the collector sends no reply");
    }
}

#[test]
fn samples_are_not_counted_or_shown_as_events() {
    let world = world("[collectors.one]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n");
    packets(&world, "one").send(b"cpu:0.5|g\nhits:3|c\nhits:4|c|@0.5").expect("it listens");
    wait_until(&world, "one", |now| now["counters"]["accepted"] == 3);
    assert_eq!(
        world.post(r#"[{"event":"round"},{"event":"round"},{"event":"win"}]"#).summary(),
        "3 accepted"
    );
    let query = |by: serde_json::Value| {
        let query = json!({"metric": "events", "last": "60m", "step": "all", "by": by});
        let answer = world.query(&query).json();
        let series = answer["series"].as_array().expect("series").iter();
        series.map(|one| format!("{} {}", one["key"], one["total"])).collect::<Vec<_>>()
    };
    assert_eq!(query(json!([])), ["{} 3"]);
    assert_eq!(query(json!(["event"])), [r#"{"event":"round"} 2"#, r#"{"event":"win"} 1"#]);
    assert_eq!(measured(&world, "cpu", "last"), 0.5);
    let load = world.load();
    assert_eq!((&load["totals"]["accepted"], &load["samples"]), (&json!(6), &json!(3)), "{load}");
    let mut watch = Watch::open_as(&world, &world.secret_key, "events=1&load=1", None);
    for _ in 0..2 {
        let data = watch.next().data;
        if data["sub"] == "events" {
            let names: Vec<_> =
                data["events"].as_array().expect("a list").iter().map(|one| &one["event"]).collect();
            assert_eq!(names, ["win", "round", "round"]);
        } else {
            let sum = |field: &str| {
                data["second"][field].as_array().expect("a list").iter().map(|n| n.as_u64()).sum()
            };
            let sums: [Option<u64>; 3] = ["accepted", "samples", "refused"].map(sum);
            assert_eq!(sums, [Some(3), Some(3), Some(0)], "{data}");
        }
    }
}

#[test]
fn tcp_lines_and_frames_are_counted() {
    for (decoder, sent) in ALL {
        for framing in ["newline", "length"] {
            let world = world(&format!(
                "[collectors.one]\ntransport='tcp_server'\ndecoder='{decoder}'\nlisten='127.0.0.1:0'\nframing='{framing}'\n"
            ));
            let mut stream = connect(&world, "one");
            for (place, line) in sent.split_inclusive('\n').enumerate() {
                let frame = match framing {
                    "length" => [&(line.len() as u32).to_be_bytes()[..], line.as_bytes()].concat(),
                    _ => line.as_bytes().to_vec(),
                };
                // The split of a stream into writes must not matter.
                let (one, other) = frame.split_at(place.min(frame.len()));
                stream.write_all(one).expect("it reads");
                stream.write_all(other).expect("it reads");
            }
            check(&world, decoder);
            let now = collector(&world, "one");
            assert_eq!(now["counters"]["connections"], 1, "{now}");
            drop(stream);
            wait_until(&world, "one", |now| now["counters"]["connections"] == 0);
        }
    }
}

#[test]
fn tcp_client_reconnects_after_the_source_closes() {
    let source = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = source.local_addr().expect("an address");
    let world =
        world(&format!("[collectors.one]\ntransport='tcp_client'\ndecoder='statsd'\naddress='{address}'\n"));
    let (mut stream, _) = source.accept().expect("it connects");
    stream.write_all(STATSD.as_bytes()).expect("it reads");
    check(&world, "statsd");
    drop(stream);
    let failed = wait_until(&world, "one", |now| now["state"] == "failed");
    assert!(
        failed["error"].as_str().is_some_and(|error| error.contains("closed the connection")),
        "{failed}"
    );
    assert!(failed["next_try"].is_string(), "{failed}");
    control(&world, "start", "one");
    let (mut stream, _) = source.accept().expect("it connects again");
    stream.write_all(b"hits:1|c\n").expect("it reads");
    wait_received(&world, "one", 10);
    assert_eq!(measured(&world, "hits", "sum"), 12.0);
}

#[test]
fn idle_and_excess_connections_are_closed() {
    let world = world(
        "[collectors.one]\ntransport='tcp_server'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n\
         idle_timeout_s=1\nconnections_max=1\nframe_bytes_max=100\n",
    );
    let mut first = connect(&world, "one");
    wait_until(&world, "one", |now| now["counters"]["connections"] == 1);
    let mut second = connect(&world, "one");
    assert_eq!(second.read(&mut [0; 1]).unwrap_or(0), 0, "it exceeds connections_max");
    let long = format!("{}:1|c\nhits:1|c\n", "x".repeat(101));
    first.write_all(long.as_bytes()).expect("it reads");
    assert_eq!(first.read(&mut [0; 1]).unwrap_or(0), 0, "it was idle");
    let now = wait_received(&world, "one", 2);
    assert_eq!(now["counters"]["reasons"], json!({"event_too_large": 1}), "{now}");
    assert_eq!(now["counters"]["connections_refused"], 1, "{now}");
    assert_eq!(measured(&world, "hits", "sum"), 1.0);
}

#[test]
fn configured_tags_become_dimensions() {
    let world = world(
        "[collectors.one]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\ntags=['host','country']\n",
    );
    let lines = "hits:3|c|#host:a,country:de\nhits:4|c|#host:b,other:x\nhits:5|c|#host:a,country:DE";
    packets(&world, "one").send(lines.as_bytes()).expect("it listens");
    let now = wait_received(&world, "one", 3);
    assert_eq!(now["counters"]["ignored_tags"], 1, "{now}");
    for (by, expected) in [("host", json!([8.0, 4.0])), ("country", json!([8.0]))] {
        let query = json!({"metric": "hits", "measure": "sum", "by": [by], "last": "24h", "step": "all"});
        let answer = world.query(&query).json();
        let totals = answer["series"].as_array().expect("a list").iter();
        let totals: Vec<f64> = totals.filter_map(|series| series["total"].as_f64()).collect();
        assert!(
            totals.starts_with(&serde_json::from_value::<Vec<f64>>(expected).expect("numbers")),
            "{answer}"
        );
    }
    let done = world.command(&["verify", "--json"]).json();
    assert_eq!(done["agrees"], true, "{done}");
}

#[test]
fn verify_agrees_after_samples_and_flows() {
    let one = |name: &str, transport: &str, decoder: &str| {
        format!(
            "[collectors.{name}]\ntransport='{transport}'\ndecoder='{decoder}'\nlisten='127.0.0.1:0'\ntags=['host']\n"
        )
    };
    let all = [one("a", "udp", "statsd"), one("b", "tcp_server", "influx"), one("c", "udp", "flow")];
    let mut world = world(&all.concat());
    packets(&world, "a").send(STATSD.as_bytes()).expect("it listens");
    packets(&world, "a")
        .send(b"hits:5|c|#host:x\nlevel:+2|g|#host:x\nusers:cy|s|#host:y")
        .expect("it listens");
    connect(&world, "b").write_all(INFLUX.as_bytes()).expect("it reads");
    let flow =
        "{\"from\":\"ann\",\"to\":\"bo\",\"seq\":1}\n{\"from\":\"ann\",\"to\":\"bo\",\"bye\":true}\nbad";
    packets(&world, "c").send(flow.as_bytes()).expect("it listens");
    for (name, count) in [("a", 12), ("b", 5), ("c", 3)] {
        wait_received(&world, name, count);
    }
    let deadline = Instant::now() + TIMEOUT;
    while measured(&world, "$flow", "count") < 1.0 {
        assert!(Instant::now() < deadline, "the end of the flow is not counted\n{}", world.log_lines());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(measured(&world, "hits", "sum"), 27.0);
    let agrees = |world: &World| world.command(&["verify", "--json"]).json()["agrees"].clone();
    assert_eq!(agrees(&world), true, "while it runs");
    world.stop();
    assert_eq!(agrees(&world), true, "from the files of a stopped server");
}

/// Waits until no thread of the server runs: a signal takes a moment.
fn wait_stopped(world: &mut World) {
    let stat = format!("/proc/{}/stat", world.pid().as_raw_nonzero());
    let deadline = Instant::now() + TIMEOUT;
    while !std::fs::read_to_string(&stat).expect("the server exists").contains(") T ") {
        assert!(Instant::now() < deadline, "the server does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn packets_dropped_by_the_kernel_are_counted() {
    let mut world = world(
        "runtimes=1\n[collectors.one]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\nreceive_buffer_bytes=4096\n",
    );
    let socket = packets(&world, "one");
    world.signal(Signal::STOP);
    wait_stopped(&mut world);
    for _ in 0..1_000 {
        socket.send(b"hits:1|c").expect("the kernel queues or drops it");
    }
    world.signal(Signal::CONT);
    let now = wait_received(&world, "one", 1_000);
    let count = |name: &str| now["counters"][name].as_u64().expect("a count");
    assert!(count("kernel_drops") > 0, "{now}");
    assert_eq!(count("accepted") + count("kernel_drops"), 1_000, "{now}");
    assert_eq!(now["counters"]["reasons"]["queue_full"], count("kernel_drops"), "{now}");
    assert_eq!(measured(&world, "hits", "sum"), count("accepted") as f64);
    assert_eq!(account(&world, "statsd").1["queue_full"], count("kernel_drops"));
}

#[test]
fn statsd_flag_creates_a_udp_collector() {
    let world = World::with(&["--statsd", "127.0.0.1:0"]);
    packets(&world, "statsd").send(b"hits:1|c").expect("it listens");
    wait_received(&world, "statsd", 1);
    assert_eq!(measured(&world, "hits", "sum"), 1.0);
}

#[test]
fn received_packets_are_written_before_shutdown() {
    let mut world = World::with(&["--statsd", "127.0.0.1:0"]);
    let socket = packets(&world, "statsd");
    for _ in 0..100 {
        socket.send(b"hits:1|c").expect("it listens");
    }
    wait_until(&world, "statsd", |now| now["counters"]["packets"] == 100);
    world.restart();
    assert_eq!(measured(&world, "hits", "sum"), 100.0);
}

#[test]
fn rtcp_reports_become_flows() {
    let world = World::with(&["--rtcp", "127.0.0.1:0"]);
    let socket = packets(&world, "rtcp");
    // RFC 3550, 6.4.2: a receiver report of source 1 about source 2, 64 of 256 lost, 5 in total.
    let words: [u32; 8] = [0x81c9_0007, 1, 2, 0x4000_0005, 1_000, 80, 0, 0];
    let report: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    socket.send(&report).expect("it listens");
    socket.send(b"no rtcp").expect("it listens");
    let now = wait_received(&world, "rtcp", 2);
    assert_eq!(now["counters"]["reasons"], json!({"malformed_line": 1}), "{now}");
    let flows = world.send(&Request::get("/v1/flows").key(&world.secret_key)).json();
    assert_eq!(flows["flows"].as_array().map(Vec::len), Some(1), "{flows}");
}

#[test]
fn unix_packets_are_counted() {
    for (decoder, sent) in ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("in.sock");
        // A socket that a crash has left behind is replaced.
        drop(UnixDatagram::bind(&path).expect("a socket"));
        let config = format!(
            "[collectors.one]\ntransport='unixgram'\ndecoder='{decoder}'\npath='{}'\npermissions='622'\n",
            path.display()
        );
        let mut world = world(&config);
        let now = wait_until(&world, "one", |now| now["state"] == "running");
        assert_eq!(now["address"].as_str(), path.to_str());
        assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o622);
        let socket = UnixDatagram::unbound().expect("a socket");
        let (first, second) = sent.split_at(sent.find('\n').expect("lines") + 1);
        for packet in [first, "", second] {
            socket.send_to(packet.as_bytes(), &path).expect("it receives");
        }
        check(&world, decoder);
        assert_eq!(control(&world, "restart", "one")["state"], "running");
        socket.send_to(first.as_bytes(), &path).expect("it receives at the same path");
        let large = vec![b'x'; (64 << 10) + 1];
        let accepted = now["counters"]["accepted"].clone();
        socket.send_to(&large, &path).expect("it receives");
        let now = wait_until(&world, "one", |now| now["counters"]["reasons"]["event_too_large"] == 1);
        assert_ne!(now["counters"]["accepted"], accepted);
        world.stop();
        assert!(!path.exists(), "the file is removed");
    }
}
