//! Deliveries: at least once, in order, signed, to allowed addresses only.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::receiver::{Behaviour, Received, Receiver};
use super::{
    SETTINGS, get, mean_rule, newest_deliveries, put, send_values, wait_for, wait_for_evaluation,
    wait_for_state, world,
};
use crate::client::Request;
use crate::world::{World, run};

const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

fn webhook(receiver: &Receiver) -> serde_json::Value {
    json!({ "id": "ops", "kind": "webhook", "url": receiver.url, "secret": SECRET })
}

/// The ids and kinds of the confirmed deliveries, each once.
fn confirmed(receiver: &Receiver) -> BTreeSet<(String, String)> {
    let id = |request: &Received| {
        let body = request.json();
        assert_eq!(request.header("webhook-id"), body["id"].as_str().expect("an id"));
        (body["id"].to_string(), body["kind"].as_str().expect("a kind").to_owned())
    };
    receiver.confirmed().iter().map(id).collect()
}

fn kinds(receiver: &Receiver) -> Vec<String> {
    confirmed(receiver).into_iter().map(|(_, kind)| kind).collect()
}

fn send_test(world: &World, key: &str) {
    let test = world.send(&Request::new("POST", format!("/v1/alerts/{key}/test")).key(&world.secret_key));
    assert_eq!(test.status, 202, "{}", test.text());
}

#[test]
fn rule_fires_once_and_resolves_once_across_kill_and_restart() {
    let receiver = Receiver::start(Behaviour::Status(500));
    let mut world = world();
    assert_eq!(put(&world, "fails", &mean_rule(json!([webhook(&receiver)]))).status, 201);
    send_values(&world, "fail", 100, 1);
    wait_for(&world, "a first attempt", || (!receiver.all().is_empty()).then_some(()));
    world.kill9();
    receiver.behave(Behaviour::Status(200));
    world.start();
    wait_for(&world, "the firing is delivered", || (!receiver.confirmed().is_empty()).then_some(()));
    let ids: BTreeSet<String> =
        receiver.all().iter().map(|request| request.header("webhook-id").to_owned()).collect();
    assert_eq!(ids.len(), 1, "retries have the same id: {ids:?}");
    let state = wait_for_state(&world, "fails", "firing");
    assert_eq!((&state["fired"], &state["value"]), (&json!(1), &json!(100.0)));
    world.restart();
    wait_for_evaluation(&world, "fails");
    assert_eq!(kinds(&receiver), ["firing"]);
    send_values(&world, "fail", 0, 9);
    wait_for_state(&world, "fails", "resolved");
    wait_for(&world, "the resolution is delivered", || (kinds(&receiver).len() == 2).then_some(()));
    world.kill9();
    world.start();
    wait_for_evaluation(&world, "fails");
    let mut both = kinds(&receiver);
    both.sort();
    assert_eq!(both, ["firing", "resolved"]);
}

#[test]
fn target_that_closes_redirects_or_hangs_is_retried_and_holds_up_no_other() {
    let (bad, good, elsewhere) = (
        Receiver::start(Behaviour::Close),
        Receiver::start(Behaviour::Status(200)),
        Receiver::start(Behaviour::Status(200)),
    );
    let world = world();
    let good_target = json!({ "id": "good", "kind": "webhook", "url": good.url });
    put(&world, "fails", &mean_rule(json!([webhook(&bad), good_target])));
    let attempts = |count: usize| {
        wait_for(&world, &format!("{count} attempts"), || (bad.all().len() >= count).then_some(()));
    };
    let error = |expected: &str| {
        wait_for(&world, expected, || {
            let deliveries = newest_deliveries(&world, "fails");
            deliveries[0]["error"].as_str().is_some_and(|error| error.contains(expected)).then_some(())
        });
    };
    send_test(&world, "fails");
    attempts(1);
    error("no response");
    bad.behave(Behaviour::Redirect(elsewhere.url.clone()));
    attempts(2);
    error("status 302: redirects are not followed");
    assert!(elsewhere.all().is_empty());
    bad.behave(Behaviour::Hang);
    attempts(3);
    send_test(&world, "fails");
    wait_for(&world, "the other target has both", || (good.confirmed().len() == 2).then_some(()));
    error_of_first(&world, "no response within");
    bad.behave(Behaviour::Status(200));
    wait_for(&world, "both are delivered", || (bad.confirmed().len() == 2).then_some(()));
    let all = wait_for(&world, "the log of deliveries", || {
        let all = get(&world, "/v1/alerts/fails/deliveries");
        let statuses = (&all["notifications"][0]["deliveries"][0], &all["notifications"][1]["deliveries"][0]);
        (statuses.0["status"] == "delivered" && statuses.1["status"] == "delivered").then(|| all.clone())
    });
    let order: Vec<i64> = all["notifications"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|notification| notification["deliveries"][0]["attempts"].as_i64().expect("a number"))
        .collect();
    assert!(order[0] == 1 && order[1] >= 4, "the second waited for the first: {all}");
}

/// Waits until the first notification has failed with this error.
fn error_of_first(world: &World, expected: &str) {
    wait_for(world, expected, || {
        let all = get(world, "/v1/alerts/fails/deliveries");
        let error = all["notifications"][1]["deliveries"][0]["error"].clone();
        error.as_str().is_some_and(|error| error.contains(expected)).then_some(())
    });
}

#[test]
fn private_address_is_refused_unless_it_is_allowed() {
    let receiver = Receiver::start(Behaviour::Status(200));
    let rule = mean_rule(json!([webhook(&receiver)]));
    let mut world = World::configured("[alerts]\nallowed_addresses = [\"127.0.0.0/8\"]\n", &[]);
    assert_eq!(put(&world, "fails", &rule).status, 201);
    send_test(&world, "fails");
    wait_for(&world, "it arrives", || (receiver.confirmed().len() == 1).then_some(()));
    world.stop();
    std::fs::write(world.root().join("playmeter.toml"), "").expect("a file");
    world.start();
    assert_eq!(put(&world, "other", &rule).summary(), "400 invalid_field (targets[0].url)");
    let by_name = receiver.url.replace("127.0.0.1", "localhost");
    let by_name = mean_rule(json!([{ "kind": "webhook", "url": by_name }]));
    assert_eq!(put(&world, "other", &by_name).summary(), "400 invalid_field (targets[0].url)");
    send_test(&world, "fails");
    wait_for(&world, "it is refused", || {
        let delivery = newest_deliveries(&world, "fails")[0].clone();
        let is_refused =
            delivery["error"].as_str().is_some_and(|error| error.contains("not a public address"));
        (is_refused && delivery["status"] == "failed").then_some(())
    });
    assert_eq!(receiver.all().len(), 1);
}

#[test]
fn notifications_beyond_the_queue_drop_the_oldest() {
    let receiver = Receiver::start(Behaviour::Hang);
    let world = world();
    put(&world, "fails", &mean_rule(json!([webhook(&receiver)])));
    send_test(&world, "fails");
    // The first delivery hangs, and is dropped while it does.
    wait_for(&world, "a first attempt", || (receiver.all().len() == 1).then_some(()));
    (1..40).for_each(|_| send_test(&world, "fails"));
    let alert = get(&world, "/v1/alerts/fails");
    assert_eq!(alert["deliveries"], json!({ "waiting": 32, "dropped": 8 }));
    receiver.behave(Behaviour::Status(200));
    wait_for(&world, "the others are delivered", || (confirmed(&receiver).len() == 32).then_some(()));
}

#[test]
fn slack_gets_a_text_and_its_url_is_not_shown_again() {
    let receiver = Receiver::start(Behaviour::Status(200));
    let world = world();
    let url = format!("{}/T0/B0/token", receiver.url);
    let rule = mean_rule(json!([{ "kind": "slack", "url": url }]));
    assert!(!put(&world, "fails", &rule).text().contains("token"));
    send_test(&world, "fails");
    let request = wait_for(&world, "it arrives", || receiver.confirmed().pop());
    assert!(request.head.starts_with("POST /hook/T0/B0/token "), "{}", request.head);
    let text = request.json()["text"].as_str().expect("a text").to_owned();
    assert!(text.starts_with("Test: Failures\n"), "{text}");
    for target in ["/v1/alerts", "/v1/alerts/fails", "/v1/alerts/fails/deliveries"] {
        assert!(!get(&world, target).to_string().contains("token"), "{target}");
    }
}

#[test]
fn command_lists_rules_and_tests_their_targets() {
    let (good, bad) = (Receiver::start(Behaviour::Status(200)), Receiver::start(Behaviour::Status(503)));
    let world = world();
    let bad = json!({ "id": "bad", "kind": "webhook", "url": bad.url });
    put(&world, "fails", &mean_rule(json!([webhook(&good)])));
    put(&world, "both", &mean_rule(json!([webhook(&good), bad])));
    let listed = world.command(&["alerts", "list"]);
    assert!(listed.code == 0 && listed.out.contains("fails  ok since "), "{listed:?}");
    let tested = world.command(&["alerts", "test", "fails"]);
    assert!(tested.code == 0 && tested.out.contains("ops  delivered"), "{tested:?}");
    let tested = world.command(&["alerts", "test", "both", "--json"]);
    assert!(tested.code == 1 && tested.err.contains("1 of 2 targets did not confirm"), "{tested:?}");
    assert!(tested.out.contains("status 503"), "{tested:?}");
    let missing = world.command(&["alerts", "test", "none"]);
    assert!(missing.code == 1 && missing.err.contains("404"), "{missing:?}");
}

/// The programs that verify signatures on the page, run with a request that was received.
#[test]
fn programs_of_the_page_verify_the_signature() {
    let receiver = Receiver::start(Behaviour::Status(200));
    let world = World::configured(SETTINGS, &[]);
    put(&world, "fails", &mean_rule(json!([webhook(&receiver)])));
    send_test(&world, "fails");
    let request = wait_for(&world, "it arrives", || receiver.confirmed().pop());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/alerts.md");
    let page = std::fs::read_to_string(page).expect("the page is readable");
    let program = |language: &str| {
        let (_, rest) = page.split_once(&format!("```{language}\n")).expect("the page has a program");
        rest.split_once("```").expect("it ends").0.to_owned()
    };
    let headers = json!({
        "webhook-id": request.header("webhook-id"),
        "webhook-timestamp": request.header("webhook-timestamp"),
        "webhook-signature": request.header("webhook-signature"),
    });
    let python = format!(
        "{}\nimport json, sys\nprint(verify(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3].encode()))\n",
        program("python")
    );
    let node = format!(
        "{}\nprocess.stdout.write(String(verify(process.argv[1], JSON.parse(process.argv[2]), Buffer.from(process.argv[3]))))\n",
        program("js")
    );
    for (command, flag, source) in [("python3", "-c", &python), ("node", "-e", &node)] {
        let verify = |body: &str| {
            let mut command = Command::new(command);
            let args = [flag, source.as_str(), SECRET, &headers.to_string(), body];
            run(command.args(args)).out.trim().to_lowercase()
        };
        assert_eq!(verify(&request.body), "true", "{command}");
        assert_eq!(verify(&request.body.replace("Failures", "Nothing")), "false", "{command}");
    }
}
