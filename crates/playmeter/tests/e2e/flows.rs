//! Flows: packets, running and ended flows, restarts.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::world::World;

fn send(world: &World, lines: &[Value]) -> Value {
    let body: Vec<String> = lines.iter().map(Value::to_string).collect();
    let request = Request::new("POST", "/v1/flows/packets").key(&world.secret_key);
    let answer = world.send(&request.header("Content-Type", "application/x-ndjson").body(body.join("\n")));
    assert_eq!(answer.status, 202, "{}", answer.text());
    answer.json()
}

fn packet(from: &str, to: &str, seq: u32) -> Value {
    json!({"from": from, "to": to, "seq": seq, "ts": 20 * seq, "at": 1_800_000_000_000u64 + 20 * u64::from(seq)})
}

fn get(world: &World, target: &str) -> Answer {
    world.send(&Request::get(target).key(&world.secret_key))
}

/// `from>to received/lost` of each running flow, in the order of the page.
fn running(world: &World, query: &str) -> Vec<String> {
    let answer = get(world, &format!("/v1/flows?{query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let describe = |flow: &Value| {
        let (from, to) = (flow["from"]["id"].as_str(), flow["to"]["id"].as_str());
        let (received, lost) = (&flow["sent"]["received"], &flow["sent"]["lost"]);
        format!("{}>{} {received}/{lost}", from.expect("an id"), to.expect("an id"))
    };
    answer.json()["flows"].as_array().expect("a list").iter().map(describe).collect()
}

/// The number of ended flows and their mean MOS.
fn ended(world: &World) -> (Value, Value) {
    let total = |measure: &str| {
        let query = json!({"metric": "$flow", "measure": measure, "last": "1h", "step": "all"});
        world.query(&query).json()["series"][0]["total"].clone()
    };
    (total("count"), total("avg"))
}

/// Reads until the result is the expected one.
fn wait_until(expected: Value, mut read: impl FnMut() -> Value) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let current = read();
        if current == expected {
            return;
        }
        assert!(Instant::now() < deadline, "got {current}, expected {expected}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn out_of_order_packets_are_one_flow() {
    let world = World::new();
    let sent = send(&world, &[packet("ann", "bo", 8), packet("bo", "ann", 90), packet("ann", "bo", 7)]);
    assert_eq!((&sent["received"], &sent["counted"], &sent["opened"]), (&json!(3), &json!(3), &json!(1)));
    let again = send(&world, &[packet("ann", "bo", 7), packet("ann", "bo", 10), json!({"from": "ann"})]);
    assert_eq!((&again["opened"], &again["invalid"]), (&json!(0), &json!(1)));
    assert_eq!(again["reasons"], json!({"ends_invalid": 1}));
    assert_eq!(running(&world, ""), ["ann>bo 3/1"]);
    let flow = &get(&world, "/v1/flows").json()["flows"][0];
    assert_eq!(flow["sent"]["duplicated"], 1);
    assert_eq!(flow["received"]["highest"], 90);
    let one = get(&world, &format!("/v1/flows/{}", flow["id"].as_str().expect("an id")));
    assert_eq!(one.json()["to"]["id"], "bo");
    assert_eq!(get(&world, "/v1/flows/0000000000000001").summary(), "404 not_found");
    assert_eq!(get(&world, "/v1/flows/bo").summary(), "404 not_found");
}

#[test]
fn worst_flows_come_first_with_filters_and_pages() {
    let world = World::new();
    for (number, step) in [(1, 1), (2, 4), (3, 2), (4, 3)] {
        let callee = format!("callee{number}");
        let packets: Vec<Value> = (0..20).map(|at| packet("caller", &callee, at * step)).collect();
        send(&world, &packets);
    }
    let worst =
        ["caller>callee2 20/57", "caller>callee4 20/38", "caller>callee3 20/19", "caller>callee1 20/0"];
    assert_eq!(running(&world, ""), worst);
    assert_eq!(running(&world, "sort=loss&per_page=1&page=2"), worst[1..2]);
    assert_eq!(running(&world, "end=callee3"), worst[2..3]);
    assert_eq!(running(&world, "loss_above=0.6"), worst[..2]);
    assert_eq!(running(&world, "mos_below=4&loss_above=0.4&sort=mos"), worst[..3]);
    let page = get(&world, "/v1/flows?loss_above=0.6&per_page=1").json();
    assert_eq!((&page["matched"], &page["running"]), (&json!(2), &json!(4)));
    assert_eq!(get(&world, "/v1/flows?sort=x").summary(), "400 invalid_field (sort)");
    assert_eq!(get(&world, "/v1/flows?per_page=1001").summary(), "400 invalid_field (per_page)");
}

#[test]
fn running_flows_are_summarized() {
    let world = World::new();
    for (number, step) in [(1, 1), (2, 4), (3, 2)] {
        let callee = format!("callee{number}");
        let packets: Vec<Value> = (0..20).map(|at| packet("caller", &callee, at * step)).collect();
        send(&world, &packets);
    }
    let page = get(&world, "/v1/flows?per_page=1").json();
    let now = &page["now"];
    assert_eq!(
        (&now["began"], &now["expected"], &now["lost"]),
        (&json!(3), &json!(20 + 77 + 39), &json!(76))
    );
    assert_eq!(now["loss"], 0.558824);
    assert_eq!(now["rtt_ms"], Value::Null, "no round-trip time was reported");
    let tenths: Vec<u64> =
        now["mos_tenths"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    let of_list = |flow: &Value| (flow["recent"]["mos"].as_f64().expect("a number") * 10.0) as usize - 10;
    let all = get(&world, "/v1/flows").json();
    let mut expected = [0; 36];
    all["flows"].as_array().expect("a list").iter().for_each(|flow| expected[of_list(flow)] += 1);
    assert_eq!(tenths, expected);
    let worst = all["flows"][0]["recent"]["mos"].as_f64().expect("a number");
    let p10 = now["mos"]["p10"].as_f64().expect("a number");
    assert!((p10 - worst).abs() <= 0.005, "{p10} of {worst}");
}

#[test]
fn recently_ended_flows_can_be_read() {
    let world = World::new();
    let ids = || -> Vec<String> {
        let ended = get(&world, "/v1/flows/ended").json();
        let flows = ended["flows"].as_array().expect("a list");
        flows.iter().map(|flow| flow["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert!(ids().is_empty());
    send(&world, &[packet("ann", "bo", 1), packet("ann", "bo", 3)]);
    let id = get(&world, "/v1/flows").json()["flows"][0]["id"].as_str().expect("an id").to_owned();
    send(&world, &[json!({"from": "bo", "to": "ann", "bye": true})]);
    // A flow can be read at any moment, also while it ends.
    let one = get(&world, &format!("/v1/flows/{id}")).json();
    assert_eq!((&one["ended_by"], &one["sent"]["lost"]), (&json!("bye"), &json!(1)));
    wait_until(json!([id.clone()]), || json!(ids()));
    for number in 0..101 {
        let callee = format!("callee{number}");
        send(&world, &[packet("caller", &callee, 1), json!({"from": "caller", "to": callee, "bye": true})]);
    }
    wait_until(json!(false), || json!(ids().contains(&id)));
    assert_eq!(ids().len(), 100);
    assert_eq!(get(&world, &format!("/v1/flows/{id}")).summary(), "404 not_found");
}

#[test]
fn only_the_server_sends_flow_end_events() {
    let world = World::new();
    let forged = world.post(r#"[{"event":"$flow","value":1},{"event":"$flow.mos","value":1}]"#);
    assert_eq!(forged.summary(), "0 accepted; 0 invalid event_name_reserved; 1 invalid event_name_reserved");
    send(&world, &[packet("ann", "bo", 1), json!({"from": "bo", "to": "ann", "bye": true})]);
    wait_until(json!(1), || ended(&world).0);
    assert!(running(&world, "").is_empty());
    let mos = ended(&world).1.as_f64().expect("a number");
    assert!((4.39..4.41).contains(&mos), "{mos}");
    let late = send(&world, &[packet("ann", "bo", 2)]);
    assert_eq!((&late["stragglers"], &late["opened"]), (&json!(1), &json!(0)));
    let load = world.load();
    let flows = load["endpoints"].as_array().expect("a list").iter().find(|row| row["endpoint"] == "flows");
    // The endpoint also counts the quality samples of the minute, if it is over.
    assert!(flows.expect("it is there")["accepted"].as_u64().is_some_and(|accepted| accepted >= 1), "{load}");
    let done = world.command(&["verify", "--json"]).json();
    assert_eq!(done["agrees"], true, "{done}");
}

#[test]
fn flows_survive_restart_and_crash_and_end_once() {
    let mut world = World::new();
    send(&world, &[packet("ann", "bo", 1), packet("ann", "bo", 2), packet("cy", "dee", 1)]);
    world.restart();
    assert_eq!(running(&world, "sort=started&end=ann"), ["ann>bo 2/0"]);
    let on = send(&world, &[packet("ann", "bo", 3), json!({"from": "cy", "to": "dee", "bye": true})]);
    assert_eq!((&on["opened"], &on["ended"]), (&json!(0), &json!(1)));
    wait_until(json!(1), || ended(&world).0);
    // The file may still list the ended flow as running, or as ended: its end is reported again and counts once.
    world.kill9();
    world.start();
    send(
        &world,
        &[json!({"from": "dee", "to": "cy", "bye": true}), json!({"from": "bo", "to": "ann", "bye": true})],
    );
    wait_until(json!(2), || ended(&world).0);
    assert!(running(&world, "").is_empty());
    world.restart();
    assert_eq!(ended(&world).0, 2);
}

#[test]
fn game_is_limited_to_its_flow_quota() {
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(root.path().join("playmeter.toml"), "[quotas]\nflows_per_game = 2\n").expect("a file");
    let mut world = World::on(root, &[]);
    let sent = send(&world, &["bo", "cy", "dee"].map(|to| packet("ann", to, 1)));
    assert_eq!((&sent["opened"], &sent["limited"], &sent["received"]), (&json!(2), &json!(1), &json!(3)));
    assert_eq!(sent["reasons"], json!({"flows_full": 1}));
    let load = world.load();
    let flows = load["endpoints"].as_array().expect("a list").iter().find(|row| row["endpoint"] == "flows");
    assert_eq!(flows.expect("it is there")["limited"], 1, "{load}");
    let created = world.command(&["games", "create", "other", "--json"]);
    assert_eq!(created.code, 0, "{created:?}");
    let created =
        world.command(&["keys", "create", "--game", "other", "--scopes", "events:write", "--json"]).json();
    let body = packet("ann", "dee", 1).to_string();
    let request =
        Request::new("POST", "/v1/flows/packets").key(created["secret_key"].as_str().expect("a key"));
    assert_eq!(world.send(&request.body(body)).json()["opened"], 1, "another game has its own quota");
    world.restart();
    assert_eq!(
        send(&world, &[packet("ann", "dee", 2)])["limited"],
        1,
        "restored flows count towards the quota"
    );
}

#[test]
fn flows_of_another_game_are_hidden() {
    let world = World::new();
    let created = world.command(&["games", "create", "other", "--json"]);
    assert_eq!(created.code, 0, "{created:?}");
    send(&world, &[packet("ann", "bo", 1)]);
    let id = get(&world, "/v1/flows").json()["flows"][0]["id"].as_str().expect("an id").to_owned();
    let key = world.command(&["keys", "create", "--game", "other", "--scopes", "query", "--json"]).json();
    let key = key["secret_key"].as_str().expect("a key");
    let of_other = |target: &str| world.send(&Request::get(target).key(key));
    assert_eq!(of_other("/v1/flows").json()["running"], 0);
    assert_eq!(of_other("/v1/flows").json()["now"]["expected"], 0);
    assert_eq!(of_other(&format!("/v1/flows/{id}")).summary(), "404 not_found");
    send(&world, &[json!({"from": "bo", "to": "ann", "bye": true})]);
    wait_until(json!(1), || json!(get(&world, "/v1/flows/ended").json()["flows"].as_array().map(Vec::len)));
    assert_eq!(of_other("/v1/flows/ended").json()["flows"], json!([]));
    assert_eq!(of_other(&format!("/v1/flows/{id}")).summary(), "404 not_found");
}
