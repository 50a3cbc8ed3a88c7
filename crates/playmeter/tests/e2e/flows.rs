//! Flows: packets in, what runs, what has ended; across restarts.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, Request};
use crate::world::World;

fn send(world: &World, lines: &[Value]) -> Value {
    let body: Vec<String> = lines.iter().map(Value::to_string).collect();
    let request = Request::new("POST", "/v1/flows/packets").key(&world.secret_key);
    let answer = world.ask(&request.header("Content-Type", "application/x-ndjson").body(body.join("\n")));
    assert_eq!(answer.status, 202, "{}", answer.text());
    answer.json()
}

fn packet(from: &str, to: &str, seq: u32) -> Value {
    json!({"from": from, "to": to, "seq": seq, "ts": 20 * seq, "at": 1_800_000_000_000u64 + 20 * u64::from(seq)})
}

fn ask(world: &World, target: &str) -> Answer {
    world.ask(&Request::get(target).key(&world.secret_key))
}

/// `from>to received/lost` of each running flow, in the order of the answer.
fn running(world: &World, query: &str) -> Vec<String> {
    let answer = ask(world, &format!("/v1/flows?{query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let told = |flow: &Value| {
        let (from, to) = (flow["from"]["id"].as_str(), flow["to"]["id"].as_str());
        let (received, lost) = (&flow["sent"]["received"], &flow["sent"]["lost"]);
        format!("{}>{} {received}/{lost}", from.expect("an id"), to.expect("an id"))
    };
    answer.json()["flows"].as_array().expect("a list").iter().map(told).collect()
}

/// How many flows have ended, and the mean of their MOS.
fn ended(world: &World) -> (Value, Value) {
    let total = |measure: &str| {
        let query = json!({"metric": "$flow", "measure": measure, "last": "1h", "step": "all"});
        world.query(&query).json()["series"][0]["total"].clone()
    };
    (total("count"), total("avg"))
}

/// Asks until the answer is the expected one.
fn becomes(expected: Value, mut ask: impl FnMut() -> Value) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let told = ask();
        if told == expected {
            return;
        }
        assert!(Instant::now() < deadline, "it is {told}, not {expected}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn packets_in_any_order_are_one_flow() {
    let world = World::new();
    let sent = send(&world, &[packet("ann", "bo", 8), packet("bo", "ann", 90), packet("ann", "bo", 7)]);
    assert_eq!((&sent["received"], &sent["counted"], &sent["opened"]), (&json!(3), &json!(3), &json!(1)));
    let again = send(&world, &[packet("ann", "bo", 7), packet("ann", "bo", 10), json!({"from": "ann"})]);
    assert_eq!((&again["opened"], &again["invalid"]), (&json!(0), &json!(1)));
    assert_eq!(again["reasons"], json!({"ends_invalid": 1}));
    assert_eq!(running(&world, ""), ["ann>bo 3/1"]);
    let flow = &ask(&world, "/v1/flows").json()["flows"][0];
    assert_eq!(flow["sent"]["duplicated"], 1);
    assert_eq!(flow["received"]["highest"], 90);
    let one = ask(&world, &format!("/v1/flows/{}", flow["id"].as_str().expect("an id")));
    assert_eq!(one.json()["to"]["id"], "bo");
    assert_eq!(ask(&world, "/v1/flows/0000000000000001").told(), "404 not_found");
    assert_eq!(ask(&world, "/v1/flows/bo").told(), "404 not_found");
}

#[test]
fn the_worst_flow_comes_first_and_filters_and_pages_cut() {
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
    let page = ask(&world, "/v1/flows?loss_above=0.6&per_page=1").json();
    assert_eq!((&page["matched"], &page["running"]), (&json!(2), &json!(4)));
    assert_eq!(ask(&world, "/v1/flows?sort=x").told(), "400 invalid_field (sort)");
    assert_eq!(ask(&world, "/v1/flows?per_page=1001").told(), "400 invalid_field (per_page)");
}

#[test]
fn all_that_run_are_told_together() {
    let world = World::new();
    for (number, step) in [(1, 1), (2, 4), (3, 2)] {
        let callee = format!("callee{number}");
        let packets: Vec<Value> = (0..20).map(|at| packet("caller", &callee, at * step)).collect();
        send(&world, &packets);
    }
    let page = ask(&world, "/v1/flows?per_page=1").json();
    let now = &page["now"];
    assert_eq!(
        (&now["began"], &now["expected"], &now["lost"]),
        (&json!(3), &json!(20 + 77 + 39), &json!(76))
    );
    assert_eq!(now["loss"], 0.558824);
    assert_eq!(now["rtt_ms"], Value::Null, "nobody reported one");
    let tenths: Vec<u64> =
        now["mos_tenths"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    let of_list = |flow: &Value| (flow["recent"]["mos"].as_f64().expect("a number") * 10.0) as usize - 10;
    let all = ask(&world, "/v1/flows").json();
    let mut expected = [0; 36];
    all["flows"].as_array().expect("a list").iter().for_each(|flow| expected[of_list(flow)] += 1);
    assert_eq!(tenths, expected);
    let worst = all["flows"][0]["recent"]["mos"].as_f64().expect("a number");
    let p10 = now["mos"]["p10"].as_f64().expect("a number");
    assert!((p10 - worst).abs() <= 0.005, "{p10} of {worst}");
}

#[test]
fn the_last_flows_to_end_can_be_looked_at() {
    let world = World::new();
    let ids = || -> Vec<String> {
        let ended = ask(&world, "/v1/flows/ended").json();
        let flows = ended["flows"].as_array().expect("a list");
        flows.iter().map(|flow| flow["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert!(ids().is_empty());
    send(&world, &[packet("ann", "bo", 1), packet("ann", "bo", 3)]);
    let id = ask(&world, "/v1/flows").json()["flows"][0]["id"].as_str().expect("an id").to_owned();
    send(&world, &[json!({"from": "bo", "to": "ann", "bye": true})]);
    // At no moment it is nowhere.
    let one = ask(&world, &format!("/v1/flows/{id}")).json();
    assert_eq!((&one["ended_by"], &one["sent"]["lost"]), (&json!("bye"), &json!(1)));
    becomes(json!([id.clone()]), || json!(ids()));
    for number in 0..101 {
        let callee = format!("callee{number}");
        send(&world, &[packet("caller", &callee, 1), json!({"from": "caller", "to": callee, "bye": true})]);
    }
    becomes(json!(false), || json!(ids().contains(&id)));
    assert_eq!(ids().len(), 100);
    assert_eq!(ask(&world, &format!("/v1/flows/{id}")).told(), "404 not_found");
}

#[test]
fn the_end_of_a_flow_is_an_event_that_only_the_server_sends() {
    let world = World::new();
    let forged = world.post(r#"[{"event":"$flow","value":1},{"event":"$flow.mos","value":1}]"#);
    assert_eq!(forged.told(), "0 accepted; 0 invalid event_name_reserved; 1 invalid event_name_reserved");
    send(&world, &[packet("ann", "bo", 1), json!({"from": "bo", "to": "ann", "bye": true})]);
    becomes(json!(1), || ended(&world).0);
    assert!(running(&world, "").is_empty());
    let mos = ended(&world).1.as_f64().expect("a number");
    assert!((4.39..4.41).contains(&mos), "{mos}");
    let late = send(&world, &[packet("ann", "bo", 2)]);
    assert_eq!((&late["stragglers"], &late["opened"]), (&json!(1), &json!(0)));
    let load = world.load();
    let flows = load["endpoints"].as_array().expect("a list").iter().find(|row| row["endpoint"] == "flows");
    // Beside the end there are samples of its minute, if that is over.
    assert!(flows.expect("it is there")["accepted"].as_u64().is_some_and(|accepted| accepted >= 1), "{load}");
    let done = world.command(&["verify", "--json"]).json();
    assert_eq!(done["agrees"], true, "{done}");
}

#[test]
fn flows_go_on_after_a_stop_and_after_a_kill_and_each_end_is_told_once() {
    let mut world = World::new();
    send(&world, &[packet("ann", "bo", 1), packet("ann", "bo", 2), packet("cy", "dee", 1)]);
    world.restart();
    assert_eq!(running(&world, "sort=started&end=ann"), ["ann>bo 2/0"]);
    let on = send(&world, &[packet("ann", "bo", 3), json!({"from": "cy", "to": "dee", "bye": true})]);
    assert_eq!((&on["opened"], &on["ended"]), (&json!(0), &json!(1)));
    becomes(json!(1), || ended(&world).0);
    // The file still has the flow that has ended, or has it as ended: its end is told again, and counts once.
    world.kill9();
    world.start();
    send(
        &world,
        &[json!({"from": "dee", "to": "cy", "bye": true}), json!({"from": "bo", "to": "ann", "bye": true})],
    );
    becomes(json!(2), || ended(&world).0);
    assert!(running(&world, "").is_empty());
    world.restart();
    assert_eq!(ended(&world).0, 2);
}

#[test]
fn a_game_takes_no_more_than_its_share_of_all_flows() {
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(root.path().join("playmeter.toml"), "[quotas]\nflows_per_game = 2\n").expect("a file");
    let mut world = World::on(root, &[]);
    let sent = send(&world, &["bo", "cy", "dee"].map(|to| packet("ann", to, 1)));
    assert_eq!((&sent["opened"], &sent["limited"], &sent["received"]), (&json!(2), &json!(1), &json!(3)));
    assert_eq!(sent["reasons"], json!({"flows_full": 1}));
    let load = world.load();
    let flows = load["endpoints"].as_array().expect("a list").iter().find(|row| row["endpoint"] == "flows");
    assert_eq!(flows.expect("it is there")["limited"], 1, "{load}");
    let made = world.command(&["games", "create", "other", "--json"]);
    assert_eq!(made.code, 0, "{made:?}");
    let made =
        world.command(&["keys", "create", "--game", "other", "--scopes", "events:write", "--json"]).json();
    let body = packet("ann", "dee", 1).to_string();
    let request = Request::new("POST", "/v1/flows/packets").key(made["secret_key"].as_str().expect("a key"));
    assert_eq!(world.ask(&request.body(body)).json()["opened"], 1, "another game has its own");
    world.restart();
    assert_eq!(send(&world, &[packet("ann", "dee", 2)])["limited"], 1, "those that were taken back count");
}

#[test]
fn flows_of_another_game_are_not_seen() {
    let world = World::new();
    let made = world.command(&["games", "create", "other", "--json"]);
    assert_eq!(made.code, 0, "{made:?}");
    send(&world, &[packet("ann", "bo", 1)]);
    let id = ask(&world, "/v1/flows").json()["flows"][0]["id"].as_str().expect("an id").to_owned();
    let key = world.command(&["keys", "create", "--game", "other", "--scopes", "query", "--json"]).json();
    let key = key["secret_key"].as_str().expect("a key");
    let of_other = |target: &str| world.ask(&Request::get(target).key(key));
    assert_eq!(of_other("/v1/flows").json()["running"], 0);
    assert_eq!(of_other("/v1/flows").json()["now"]["expected"], 0);
    assert_eq!(of_other(&format!("/v1/flows/{id}")).told(), "404 not_found");
    send(&world, &[json!({"from": "bo", "to": "ann", "bye": true})]);
    becomes(json!(1), || json!(ask(&world, "/v1/flows/ended").json()["flows"].as_array().map(Vec::len)));
    assert_eq!(of_other("/v1/flows/ended").json()["flows"], json!([]));
    assert_eq!(of_other(&format!("/v1/flows/{id}")).told(), "404 not_found");
}
