//! Starting, failing, stopping: of one collector, while the others go on.

use super::*;

#[test]
fn one_that_ends_again_and_again_disturbs_no_other() {
    let both = ["one", "other"].map(|name| {
        format!("[collectors.{name}]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n")
    });
    let world = world(&both.concat());
    let (one, other) = (packets(&world, "one"), packets(&world, "other"));
    for round in 1..=5 {
        one.send(b"one:1|c").expect("it listens");
        other.send(b"other:1|c").expect("it listens");
        wait_until(&world, "one", |now| now["counters"]["packets"] == round);
        let told = order(&world, "restart", "one");
        assert_eq!((&told["state"], &told["starts"]), (&json!("running"), &json!(round + 1)), "{told}");
    }
    received(&world, "one", 5);
    let other = received(&world, "other", 5);
    assert_eq!((&other["starts"], &other["failures"]), (&json!(1), &json!(0)), "{other}");
    for name in ["one", "other"] {
        assert_eq!(measured(&world, name, "sum"), 5.0, "what it had taken was written");
    }
}

#[test]
fn a_port_that_is_lost_is_taken_again_as_soon_as_it_is_free() {
    let world = world("[collectors.one]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n");
    let address = address(&world, "one");
    assert_eq!(order(&world, "stop", "one")["state"], "stopped");
    let taken = UdpSocket::bind(address).expect("it is free now");
    let told = order(&world, "start", "one");
    assert_eq!(told["state"], "waiting", "{told}");
    let error = told["error"].as_str().expect("a sentence");
    assert!(error.contains("another program receives on"), "{error}");
    drop(taken);
    let told = wait_until(&world, "one", |now| now["state"] == "running");
    assert_eq!((&told["failures"], &told["starts"]), (&json!(1), &json!(3)), "by itself: {told}");
    packets(&world, "one").send(b"hits:1|c").expect("it listens");
    received(&world, "one", 1);
}

#[test]
fn what_collectors_do_is_told_everywhere() {
    let world = world("[collectors.one]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n");
    packets(&world, "one").send(b"hits:1|c\nbad").expect("it listens");
    received(&world, "one", 2);
    let listed = world.command(&["collectors", "list"]);
    for word in ["one", "running", "udp statsd", "received 2", "refused 1"] {
        assert!(listed.out.contains(word), "{word} in {listed:?}");
    }
    let unknown = world.command(&["collectors", "stop", "nobody"]);
    assert!(unknown.code == 1 && unknown.err.contains("no collector `nobody`"), "{unknown:?}");
    let metrics = world.ask(&Request::get("/metrics")).text();
    assert!(metrics.contains("playmeter_collector_received_total{collector=\"one\"} 2"), "{metrics}");
    let monitor = world.ask(&Request::get("/v1/monitor").key(&world.secret_key)).json();
    assert_eq!(monitor["collectors"][0]["counters"]["received"], 2, "{monitor}");
    let top = world.command(&["top", "--once", "--every", "0.1"]);
    assert!(top.out.contains("running"), "{top:?}");
}

#[test]
fn a_key_sees_the_collectors_of_its_own_game_alone() {
    let world = world("[collectors.one]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n");
    assert_eq!(world.command(&["games", "create", "other"]).code, 0);
    let made = world.command(&["keys", "create", "--game", "other", "--scopes", "query", "--json"]).json();
    let key = made["secret_key"].as_str().expect("a key");
    let answer = world.ask(&Request::get("/v1/collectors").key(key)).json();
    assert_eq!(answer, json!({"collectors": []}));
}
