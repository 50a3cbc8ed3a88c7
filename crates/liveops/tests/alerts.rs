//! Alert rules as developers write them, and as the server changes their state.

mod world;

use expect_test::expect;
use liveops::alerts::{ALERTS_MAX, AlertCommand, AlertPhase, NOTIFICATIONS_MAX};
use liveops::{Command, CommandResponse, Refusal};
use serde_json::{Value, json};
use world::World;

const NOW: i64 = 1_800_000_000_000;
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

fn send(world: &mut World, command: Value) -> Result<CommandResponse, Refusal> {
    let command: AlertCommand = serde_json::from_value(command).expect("a command");
    world.send(Command::Alerts(command))
}

fn rule(more: Value) -> Value {
    let mut rule =
        json!({ "query": { "metric": "error", "last": "5m" }, "compare": { "op": ">", "value": 5.0 } });
    rule.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    rule
}

fn put_with(world: &mut World, rule: Value, targets: Value) -> Result<CommandResponse, Refusal> {
    send(world, json!({ "put": { "key": "errors", "rule": rule, "targets": targets } }))
}

fn put(world: &mut World) -> Value {
    let hook = json!({ "kind": "webhook", "url": "https://hooks.example.com/a", "new_secret": SECRET });
    let slack = json!({ "id": "chat", "kind": "slack", "url": "https://hooks.slack.com/services/T0/B0/xyz" });
    let response = put_with(world, rule(json!({})), json!([hook, slack])).expect("a valid rule");
    serde_json::from_str(&response.json).expect("JSON")
}

/// Has the server change the state, with the current revision.
fn enter(world: &mut World, from: &str, to: &str) -> Result<CommandResponse, Refusal> {
    let revision = world.read(|game| game.alerts.rule("errors").map_or(0, |alert| alert.definition.revision));
    let finding = json!({ "value": 7.0 });
    let transition =
        json!({ "key": "errors", "revision": revision, "from": from, "to": to, "finding": finding });
    send(world, json!({ "transition": transition }))
}

/// The notifications with the statuses of their deliveries.
fn notifications(world: &World) -> Vec<String> {
    world.read(|game| {
        let alert = game.alerts.rule("errors").expect("the rule");
        let line = |notification: &liveops::alerts::AlertNotification| {
            let json = notification.json();
            let deliveries = json["deliveries"].as_array().expect("a list").iter();
            let deliveries: Vec<String> =
                deliveries.map(|it| format!("{} {}", it["target"], it["status"]).replace('"', "")).collect();
            format!("{} {}", notification.kind.label(), deliveries.join(", "))
        };
        alert.notifications.iter().map(line).collect()
    })
}

fn phase(world: &World) -> AlertPhase {
    world.read(|game| game.alerts.rule("errors").expect("the rule").state.phase)
}

/// Records the outcome of an attempt for the oldest notification that waits.
fn attempt(
    world: &mut World,
    target: &str,
    delivered: bool,
    is_last: bool,
) -> Result<CommandResponse, Refusal> {
    let next = world.read(|game| game.alerts.rule("errors")?.next_for(target).map(|next| next.id));
    let error = (!delivered).then_some("status 500");
    send(
        world,
        json!({ "attempt": { "key": "errors", "notification": next.unwrap_or_default(), "target": target,
            "delivered": delivered, "is_last": is_last, "error": error } }),
    )
}

fn describe(outcome: Result<CommandResponse, Refusal>) -> String {
    match outcome {
        Ok(answer) => format!("{} {}", answer.status, answer.json),
        Err(Refusal { kind, field, detail }) => format!("{kind:?} ({}): {detail}", field.unwrap_or_default()),
    }
}

#[test]
fn rule_fires_once_and_resolves_once_across_restarts() {
    let mut world = World::new(NOW);
    put(&mut world);
    enter(&mut world, "ok", "pending").expect("a transition");
    assert_eq!(notifications(&world), [""; 0]);
    enter(&mut world, "pending", "firing").expect("a transition");
    for checkpoint in [false, true] {
        if checkpoint {
            world.checkpoint();
        }
        world.restart();
        assert_eq!(phase(&world), AlertPhase::Firing);
        let repeated = enter(&mut world, "pending", "firing");
        assert!(describe(repeated).starts_with("Conflict"), "the state is another one by now");
    }
    enter(&mut world, "firing", "resolved").expect("a transition");
    let both = ["firing 1 waiting, chat waiting", "resolved 1 waiting, chat waiting"];
    assert_eq!(notifications(&world), both);
    world.checkpoint();
    world.restart();
    assert_eq!(notifications(&world), both);
    assert_eq!(phase(&world), AlertPhase::Resolved);
}

#[test]
fn deliveries_are_made_in_order_and_their_outcomes_survive_restarts() {
    let mut world = World::new(NOW);
    put(&mut world);
    enter(&mut world, "ok", "firing").expect("a transition");
    enter(&mut world, "firing", "resolved").expect("a transition");
    attempt(&mut world, "1", false, false).expect("it waits");
    assert_eq!(notifications(&world)[0], "firing 1 waiting, chat waiting");
    attempt(&mut world, "1", true, false).expect("it waits");
    attempt(&mut world, "chat", false, true).expect("it waits");
    world.checkpoint();
    attempt(&mut world, "1", true, false).expect("it waits");
    world.restart();
    assert_eq!(
        notifications(&world),
        ["firing 1 delivered, chat failed", "resolved 1 delivered, chat waiting"]
    );
    let delivery = world.read(|game| game.alerts.rule("errors").expect("the rule").notifications[0].json());
    assert_eq!(
        (&delivery["deliveries"][0]["attempts"], &delivery["deliveries"][1]["error"]),
        (&json!(2), &json!("status 500"))
    );
    assert!(describe(attempt(&mut world, "1", true, false)).starts_with("NotFound"));
}

#[test]
fn oldest_notification_is_dropped_when_too_many_wait() {
    let mut world = World::new(NOW);
    put(&mut world);
    for _ in 0..NOTIFICATIONS_MAX + 3 {
        send(&mut world, json!({ "test": { "key": "errors" } })).expect("it has targets");
    }
    world.checkpoint();
    world.restart();
    assert_eq!(notifications(&world).len(), NOTIFICATIONS_MAX);
    let json = world.read(|game| game.alerts.rule("errors").expect("the rule").json("errors"));
    assert_eq!(json["deliveries"], json!({ "waiting": 2 * NOTIFICATIONS_MAX, "dropped": 6 }));
}

#[test]
fn muted_rule_changes_its_state_and_sends_nothing() {
    let mut world = World::new(NOW);
    put(&mut world);
    let until = "2027-01-15T09:00:00.000Z";
    send(&mut world, json!({ "mute": { "key": "errors", "until": until } })).expect("the rule");
    enter(&mut world, "ok", "firing").expect("a transition");
    assert_eq!(
        (phase(&world), &notifications(&world)[..]),
        (AlertPhase::Firing, &["firing ".to_owned()][..])
    );
    send(&mut world, json!({ "mute": { "key": "errors", "until": null } })).expect("the rule");
    enter(&mut world, "firing", "resolved").expect("a transition");
    assert_eq!(notifications(&world)[1], "resolved ", "the targets were not sent that it fires");
    enter(&mut world, "resolved", "firing").expect("a transition");
    assert_eq!(notifications(&world)[2], "firing 1 waiting, chat waiting");
}

#[test]
fn changed_condition_resolves_and_other_changes_keep_the_state() {
    let mut world = World::new(NOW);
    put(&mut world);
    enter(&mut world, "ok", "firing").expect("a transition");
    let same = rule(json!({ "name": "Errors", "for_s": 60 }));
    let keep = json!([{ "kind": "webhook" }]);
    put_with(&mut world, same, keep.clone()).expect("the target keeps its URL and its secret");
    assert_eq!(phase(&world), AlertPhase::Firing);
    assert_eq!(notifications(&world), ["firing 1 waiting, chat removed"]);
    let old = world.read(|game| game.alerts.rule("errors").expect("the rule").definition.revision);
    put_with(&mut world, rule(json!({ "compare": { "op": ">", "value": 9.0 } })), keep).expect("a rule");
    assert_eq!(phase(&world), AlertPhase::Ok);
    assert_eq!(notifications(&world)[1], "resolved 1 waiting");
    let late = json!({ "key": "errors", "revision": old, "from": "ok", "to": "firing", "finding": {} });
    assert!(describe(send(&mut world, json!({ "transition": late }))).starts_with("Conflict"));
}

#[test]
fn secrets_are_shown_once() {
    let mut world = World::new(NOW);
    let created = put(&mut world);
    assert_eq!(
        created["targets"][0],
        json!({ "id": "1", "kind": "webhook", "url": "https://hooks.example.com/***", "secret": SECRET })
    );
    assert_eq!(
        created["targets"][1],
        json!({ "id": "chat", "kind": "slack", "url": "https://hooks.slack.com/***" })
    );
    let again = json!([
        { "kind": "webhook", "new_secret": "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=" },
        { "id": "chat", "kind": "slack", "url": "https://hooks.slack.com/***" },
    ]);
    let response = put_with(&mut world, rule(json!({})), again).expect("a valid rule");
    assert!(!response.json.contains("whsec_"), "{}", response.json);
    let targets = world.read(|game| game.alerts.rule("errors").expect("the rule").definition.targets.clone());
    assert_eq!((targets[0].secret.as_str(), targets[1].url.ends_with("/xyz")), (SECRET, true));
    let shown = world.read(|game| game.alerts.rule("errors").expect("the rule").json("errors").to_string());
    assert!(!shown.contains("whsec_") && !shown.contains("xyz"), "{shown}");
}

#[test]
fn erased_player_leaves_the_conditions_of_rules() {
    let mut world = World::new(NOW);
    let query = json!({ "kind": "explore", "event": "death", "last": "5m", "where": [
        { "property": "player", "op": "in", "value": ["ann", "bo"] },
        { "property": "level", "op": "=", "value": "ann" },
    ] });
    put_with(&mut world, rule(json!({ "query": query })), json!([])).expect("a valid rule");
    enter(&mut world, "ok", "pending").expect("a transition");
    world.checkpoint();
    let definition =
        |world: &World| world.read(|game| game.alerts.rule("errors").expect("the rule").definition.clone());
    let before = definition(&world);
    let erase = |world: &mut World, receipt: &str, player: &str| {
        let erase = json!({ "players": { "erase": { "receipt": receipt, "player": player } } });
        world.send(serde_json::from_value(erase).expect("a command")).expect("an erasure");
    };
    erase(&mut world, "r", "cleo");
    assert_eq!(definition(&world), before, "the rule does not name this player");
    erase(&mut world, "s", "ann");
    for checkpoint in [false, true] {
        if checkpoint {
            world.checkpoint();
        }
        world.restart();
        let after = definition(&world);
        let query: Value = serde_json::from_str(after.rule.query.text()).expect("JSON");
        assert_eq!(query["where"][0]["value"], json!(["(erased)", "bo"]));
        assert_eq!(query["where"][1]["value"], "ann", "a level may have the same name");
        assert!(after.revision > before.revision, "an evaluation of the earlier condition is refused");
        assert_eq!(phase(&world), AlertPhase::Pending);
    }
}

#[test]
fn invalid_rule_is_refused_with_its_field() {
    let mut world = World::new(NOW);
    let mut check = |more: Value, targets: Value| describe(put_with(&mut world, rule(more), targets));
    let compare = |compare: Value| json!({ "compare": compare });
    let lines = [
        check(compare(json!({})), json!([])),
        check(compare(json!({ "op": ">" })), json!([])),
        check(compare(json!({ "value": 1.0 })), json!([])),
        check(compare(json!({ "band": { "weeks": 1, "width": 3.0 } })), json!([])),
        check(compare(json!({ "band": { "weeks": 4, "width": 0.0 } })), json!([])),
        check(compare(json!({ "previous": { "op": ">", "factor": -1.0 } })), json!([])),
        check(compare(json!({ "no_data_s": 5 })), json!([])),
        check(json!({ "for_s": 90_000 }), json!([])),
        check(json!({ "name": "a\u{0}" }), json!([])),
        check(json!({}), json!([{ "kind": "webhook", "new_secret": SECRET }])),
        check(json!({}), json!([{ "kind": "webhook", "url": "ftp://a/b", "new_secret": SECRET }])),
        check(json!({}), json!([{ "kind": "webhook", "url": "https://u:p@a/", "new_secret": SECRET }])),
        check(json!({}), json!([{ "kind": "webhook", "url": "https://a/", "secret": "short" }])),
        check(json!({}), json!([{ "kind": "slack", "url": "https://a/", "secret": SECRET }])),
        check(json!({}), json!([{ "kind": "email", "to": "no address" }])),
        check(
            json!({}),
            json!([{ "id": "a", "kind": "email", "to": "a@b" }, { "id": "a", "kind": "email", "to": "a@b" }]),
        ),
    ];
    expect![[r#"
        Invalid (compare): must have exactly one of `op` with `value`, `band`, `previous` and `no_data_s`
        Invalid (compare.value): is required with `op`
        Invalid (compare.op): is required with `value`
        Invalid (compare.band.weeks): must be between 2 and 8
        Invalid (compare.band.width): must be greater than 0 and at most 100
        Invalid (compare.previous.factor): must be greater than 0 and at most 1000000
        Invalid (compare.no_data_s): must be between 60 and 604800
        Invalid (for_s): must be between 0 and 86400
        Invalid (name): must not have control characters
        Invalid (targets[0].url): is required
        Invalid (targets[0].url): must be an https:// or http:// URL with a host, in ASCII
        Invalid (targets[0].url): must not contain a user or a password
        Invalid (targets[0].secret): must be `whsec_` and 24 to 64 bytes in base64; omit it to get a new one
        Invalid (targets[0].secret): does not apply to this kind of target; remove `secret`
        Invalid (targets[0].to): must be a mail address such as ops@example.com
        Invalid (targets[1].id): another target has the same id"#]]
    .assert_eq(&lines.join("\n"));
    assert!(world.read(|game| game.alerts.is_empty()));
}

#[test]
fn url_of_a_target_must_be_complete_and_valid() {
    let mut world = World::new(NOW);
    put(&mut world);
    let mut put_target = |target: Value| describe(put_with(&mut world, rule(json!({})), json!([target])));
    let masked =
        "Invalid (targets[0].url): is masked; send the complete URL, or the `id` of a target that has it";
    let slack = |id: &str, url: &str| json!({ "id": id, "kind": "slack", "url": url });
    assert_eq!(put_target(slack("new", "https://hooks.slack.com/***")), masked, "no target has this id");
    assert_eq!(put_target(slack("chat", "https://hooks.example.com/***")), masked, "it has another URL");
    let invalid = "Invalid (targets[0].url): must be an https:// or http:// URL with a host, in ASCII";
    let hosts =
        ["https://", "https://:80/", "https://a:0/", "https://a:65536/", "https://a:b/", "https://a,b/"];
    let others = ["https://[::1/", "https://[::1]80/", "https://a/<x>", "https://a/b c", r"https://a/\b"];
    for url in hosts.into_iter().chain(others) {
        assert_eq!(put_target(slack("chat", url)), invalid, "{url}");
    }
    for url in ["https://a", "http://127.0.0.1:9/x?y=%20#z", "http://[::1]:8080/", "https://b.test/***/x"] {
        assert!(put_target(slack("chat", url)).starts_with("200"), "{url}");
    }
    assert!(put_target(slack("chat", "https://b.test/***")).starts_with("200"), "as it is shown");
    let stored = |game: &liveops::Game| {
        game.alerts.rule("errors").expect("the rule").definition.targets[0].url.clone()
    };
    assert_eq!(world.read(stored), "https://b.test/***/x");
}

#[test]
fn game_has_a_limited_number_of_rules() {
    let mut world = World::new(NOW);
    let mut put = |key: String| {
        describe(send(&mut world, json!({ "put": { "key": key, "rule": rule(json!({})), "targets": [] } })))
    };
    for number in 0..ALERTS_MAX {
        assert!(put(number.to_string()).starts_with("201"));
    }
    assert!(put("more".to_owned()).starts_with("TooMany"));
    assert!(put("0".to_owned()).starts_with("200"), "an existing one can be replaced");
    send(&mut world, json!({ "delete": { "key": "0" } })).expect("the rule");
    world.checkpoint();
    world.restart();
    assert_eq!(world.read(|game| game.alerts.rules().count()), ALERTS_MAX - 1);
}
