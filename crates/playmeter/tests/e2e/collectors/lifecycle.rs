//! Start, failure and stop of one collector while the others keep running.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;

use super::*;

#[test]
fn restarting_one_collector_does_not_affect_others() {
    let both = ["one", "other"].map(|name| {
        format!("[collectors.{name}]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n")
    });
    let world = world(&both.concat());
    let (one, other) = (packets(&world, "one"), packets(&world, "other"));
    for round in 1..=5 {
        one.send(b"one:1|c").expect("it listens");
        other.send(b"other:1|c").expect("it listens");
        wait_until(&world, "one", |now| now["counters"]["packets"] == round);
        let state = control(&world, "restart", "one");
        assert_eq!((&state["state"], &state["starts"]), (&json!("running"), &json!(round + 1)), "{state}");
    }
    wait_received(&world, "one", 5);
    let other = wait_received(&world, "other", 5);
    assert_eq!((&other["starts"], &other["failures"]), (&json!(1), &json!(0)), "{other}");
    for name in ["one", "other"] {
        assert_eq!(measured(&world, name, "sum"), 5.0, "everything received before the restart was written");
    }
}

/// The number of failures of each failing collector.
const FAILURES: u64 = 50;

const FAILING: &str = "[collectors.closed]\ntransport='tcp_client'\ndecoder='statsd'\naddress='ADDRESS'\n\
     [collectors.lost]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n";
const OTHERS: &str = "[collectors.packets]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n\
     [collectors.stream]\ntransport='tcp_server'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n";

/// Traffic to the healthy collectors.
struct HealthyTraffic {
    packets: UdpSocket,
    stream: TcpStream,
    rounds: u64,
}

impl HealthyTraffic {
    fn of(world: &World) -> HealthyTraffic {
        HealthyTraffic { packets: packets(world, "packets"), stream: connect(world, "stream"), rounds: 0 }
    }

    /// Sends ten packets, ten lines over the open connection and two events.
    fn send(&mut self, world: &World) {
        for _ in 0..10 {
            self.packets.send(b"packets:1|c").expect("it listens");
            self.stream.write_all(b"stream:1|c\n").expect("it reads");
        }
        assert_eq!(world.post(r#"[{"event": "win"}, {"event": "win"}]"#).status, 202);
        self.rounds += 1;
    }

    /// Checks that everything was counted and no healthy collector was restarted.
    fn check(&self, world: &World) {
        for name in ["packets", "stream"] {
            let now = wait_received(world, name, 10 * self.rounds);
            assert_eq!(now["counters"]["accepted"], 10 * self.rounds, "{now}");
            assert_eq!((&now["starts"], &now["failures"]), (&json!(1), &json!(0)), "{now}");
            assert_eq!(measured(world, name, "sum"), 10.0 * self.rounds as f64);
        }
        assert_eq!(
            collector(world, "stream")["counters"]["connections_total"],
            1,
            "the connection was never closed"
        );
        assert_eq!(measured(world, "win", "count"), 2.0 * self.rounds as f64);
    }
}

/// Waits until a collector has failed this often and returns its last error.
fn failed(world: &World, name: &str, count: u64) -> String {
    let now =
        wait_until(world, name, |now| now["failures"].as_u64() >= Some(count) && now["state"] == "failed");
    now["error"].as_str().expect("a sentence").to_owned()
}

#[test]
fn failing_collectors_do_not_affect_others() {
    let source = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let closed = source.local_addr().expect("an address").to_string();
    std::thread::spawn(move || source.incoming().for_each(drop));
    let world = world(&[&FAILING.replace("ADDRESS", &closed), OTHERS].concat());
    let lost = address(&world, "lost");
    control(&world, "stop", "lost");
    let _occupied = UdpSocket::bind(lost).expect("the address is free now");
    let mut others = HealthyTraffic::of(&world);
    for round in 1..=FAILURES {
        others.send(&world);
        control(&world, "restart", "lost");
        assert!(failed(&world, "lost", round).contains("another program receives on"));
        others.send(&world);
        assert!(failed(&world, "closed", round).contains("closed the connection"));
        control(&world, "restart", "closed");
    }
    others.check(&world);
}

#[cfg(feature = "fault-injection")]
#[test]
fn panicking_collector_does_not_affect_others() {
    let failing = "[collectors.one]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n";
    let mut world = world(&[failing, OTHERS].concat());
    world.stop();
    let mut command = world.serve();
    command.env("PLAYMETER_INJECTED_FAULT", "collector_panics");
    world.start_as(command);
    let mut others = HealthyTraffic::of(&world);
    for round in 1..=FAILURES {
        let one = packets(&world, "one");
        one.send(b"panic!").expect("it listens");
        others.send(&world);
        assert!(failed(&world, "one", round).contains("internal error: injected fault"));
        control(&world, "start", "one");
        wait_until(&world, "one", |now| now["state"] == "running");
    }
    others.check(&world);
}

#[test]
fn collector_rebinds_its_port_once_it_is_free() {
    let world = world("[collectors.one]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n");
    let address = address(&world, "one");
    assert_eq!(control(&world, "stop", "one")["state"], "stopped");
    let occupied = UdpSocket::bind(address).expect("the address is free now");
    let state = control(&world, "start", "one");
    assert_eq!(state["state"], "failed", "{state}");
    let error = state["error"].as_str().expect("a sentence");
    assert!(error.contains("another program receives on"), "{error}");
    drop(occupied);
    let state = wait_until(&world, "one", |now| now["state"] == "running");
    assert_eq!(
        (&state["failures"], &state["starts"]),
        (&json!(1), &json!(3)),
        "without an operator: {state}"
    );
    packets(&world, "one").send(b"hits:1|c").expect("it listens");
    wait_received(&world, "one", 1);
}

#[test]
fn busy_port_at_the_start_is_a_failure_of_its_collector_only() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let file = root.path().join("in.sock");
    let receiver = UnixDatagram::bind(&file).expect("a socket");
    let packets_socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addresses = [packets_socket.local_addr(), listener.local_addr()].map(|it| it.expect("an address"));
    let config = format!(
        "[collectors.base]\ntemplate=true\ndecoder='statsd'\n\
         [collectors.udp]\nextends='base'\ntransport='udp'\nlisten='{}'\n\
         [collectors.tcp]\nextends='base'\ntransport='tcp_server'\nlisten='{}'\n\
         [collectors.unix]\nextends='base'\ntransport='unixgram'\npath='{}'\n\
         [collectors.free]\nextends='base'\ntransport='udp'\nlisten='127.0.0.1:0'\n",
        addresses[0],
        addresses[1],
        file.display()
    );
    std::fs::write(root.path().join("playmeter.toml"), config).expect("a file");
    let world = World::on(root, &[]);
    let gauge = |name: &str| format!("playmeter_collector_failed{{collector=\"{name}\"}} 1");
    let ready = || world.send(&Request::get("/readyz"));
    for name in ["udp", "tcp", "unix"] {
        assert!(failed(&world, name, 1).contains("another program"), "{name}");
        assert!(collector(&world, name)["next_try"].is_string(), "{name}");
        let metrics = world.send(&Request::get("/metrics")).text();
        assert!(metrics.contains(&gauge(name)), "{name} in {metrics}");
        assert!(metrics.contains(&format!("playmeter_collector_failures_total{{collector=\"{name}\"}}")));
    }
    let text = ready().text();
    assert!(text.starts_with("ready\nwarning: collectors have failed"), "{text}");
    let log = world.log_lines();
    assert!(log.contains("collector failed") && log.contains("another program receives on"), "{log}");
    packets(&world, "free").send(b"hits:1|c").expect("it listens");
    wait_received(&world, "free", 1);
    drop((receiver, packets_socket, listener));
    for name in ["udp", "tcp", "unix"] {
        let now = wait_until(&world, name, |now| now["state"] == "running");
        let starts = now["starts"].as_u64().expect("a number");
        assert_eq!(now["failures"], starts - 1, "it started again by itself: {now}");
    }
    assert_eq!(ready().text(), "ready\n");
    let sender = UnixDatagram::unbound().expect("a socket");
    sender.send_to(b"hits:1|c", &file).expect("it receives");
    packets(&world, "udp").send(b"hits:1|c").expect("it listens");
    connect(&world, "tcp").write_all(b"hits:1|c\n").expect("it reads");
    for name in ["udp", "tcp", "unix"] {
        wait_received(&world, name, 1);
    }
}

#[test]
fn collector_state_is_shown_in_cli_metrics_and_monitor() {
    let world = world("[collectors.one]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n");
    packets(&world, "one").send(b"hits:1|c\nbad").expect("it listens");
    wait_received(&world, "one", 2);
    let listed = world.command(&["collectors", "list"]);
    for part in ["one", "running", "udp statsd", "received 2", "rejected 1"] {
        assert!(listed.out.contains(part), "{part} in {listed:?}");
    }
    let unknown = world.command(&["collectors", "stop", "nobody"]);
    assert!(unknown.code == 1 && unknown.err.contains("no collector `nobody`"), "{unknown:?}");
    let metrics = world.send(&Request::get("/metrics")).text();
    assert!(metrics.contains("playmeter_collector_received_total{collector=\"one\"} 2"), "{metrics}");
    let monitor = world.send(&Request::get("/v1/monitor").key(&world.secret_key)).json();
    assert_eq!(monitor["collectors"][0]["counters"]["received"], 2, "{monitor}");
    let top = world.command(&["top", "--once", "--every", "0.1"]);
    assert!(top.out.contains("running"), "{top:?}");
}

#[test]
fn key_lists_only_collectors_of_its_own_game() {
    let world = world("[collectors.one]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n");
    assert_eq!(world.command(&["games", "create", "other"]).code, 0);
    let created = world.command(&["keys", "create", "--game", "other", "--scopes", "query", "--json"]).json();
    let key = created["secret_key"].as_str().expect("a key");
    let answer = world.send(&Request::get("/v1/collectors").key(key)).json();
    assert_eq!(answer, json!({"collectors": []}));
}
