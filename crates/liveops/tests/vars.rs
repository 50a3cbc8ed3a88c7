//! Variables as developers write them and clients read them.

mod world;

use expect_test::expect;

use liveops::vars::{VARIANTS_BYTES_MAX, VARS_MAX, VarDefinition, VarsCommand, VarsViewer};
use liveops::{CommandResponse, Refusal, RefusalKind};
use world::World;

const NOW: i64 = 1_800_000_000_000;

fn definition(json: &str) -> VarDefinition {
    serde_json::from_str(json).expect("the test gives a definition")
}

fn put(world: &mut World, name: &str, json: &str) -> Result<CommandResponse, Refusal> {
    let definition = definition(json);
    world.send(liveops::Command::Vars(VarsCommand::Put {
        name: name.into(),
        definition,
        expected_version: None,
    }))
}

fn put_many(
    world: &mut World,
    json: &str,
    expected_version: Option<u64>,
) -> Result<CommandResponse, Refusal> {
    let vars = serde_json::from_str(json).expect("the test gives definitions");
    world.send(liveops::Command::Vars(VarsCommand::PutMany { vars, expected_version }))
}

fn describe(outcome: Result<CommandResponse, Refusal>) -> String {
    match outcome {
        Ok(answer) => answer.json,
        Err(Refusal { kind, field, detail }) => {
            format!("{kind:?} ({}): {detail}", field.unwrap_or_default())
        }
    }
}

fn player(id: &str) -> VarsViewer {
    VarsViewer { player: id.into(), ..VarsViewer::default() }
}

/// Returns a viewer's current values.
fn values(world: &World, viewer: &VarsViewer) -> String {
    world.read(|game| game.vars.json(viewer, world.now_ms))
}

#[test]
fn values_are_read_as_they_were_written() {
    let mut world = World::new(NOW);
    put(&mut world, "speed", r#"{"value": 1.0}"#).unwrap();
    put(&mut world, "waves", r#"{"value": {"z": [1, 2.50, 1e3], "a": "\u00e4"}}"#).unwrap();
    expect![[r#"{"speed":1.0,"waves":{"z":[1,2.50,1e3],"a":"\u00e4"}}"#]]
        .assert_eq(&values(&world, &VarsViewer::default()));
    world.checkpoint();
    world.restart();
    expect![[r#"{"speed":1.0,"waves":{"z":[1,2.50,1e3],"a":"\u00e4"}}"#]]
        .assert_eq(&values(&world, &VarsViewer::default()));
}

#[test]
fn first_matching_condition_wins() {
    let mut world = World::new(NOW);
    let json = r#"{"value": 0, "conditions": [
        {"name": "fr_web", "value": 1, "country": ["FR"], "platform": ["web"]},
        {"name": "fr", "value": 2, "country": ["FR", "BE"]},
        {"name": "old", "value": 3, "version": ["1.0", "1.1"]},
        {"name": "payers", "value": 4, "segment": ["payers"]}
    ]}"#;
    put(&mut world, "n", json).unwrap();
    let viewer = |country: &str, platform: &str, version: &str, segments: &[&str]| VarsViewer {
        country: country.into(),
        platform: platform.into(),
        version: version.into(),
        segments: segments.iter().map(|text| text.to_string()).collect(),
        ..VarsViewer::default()
    };
    for (viewer, value) in [
        (viewer("FR", "web", "1.0", &[]), 1),
        (viewer("FR", "ios", "1.0", &[]), 2),
        (viewer("BE", "web", "2.0", &["payers"]), 2),
        (viewer("DE", "web", "1.1", &["payers"]), 3),
        (viewer("DE", "web", "1.10", &["new", "payers"]), 4),
        (viewer("", "", "", &[]), 0),
    ] {
        assert_eq!(values(&world, &viewer), format!(r#"{{"n":{value}}}"#), "{viewer:?}");
    }
}

#[test]
fn default_applies_outside_of_the_variables_time() {
    let mut world = World::new(NOW);
    let at = |ms: i64| liveops::vars::TimestampMs::from_ms(NOW + ms);
    let (start, inner, end) = (at(1_000), at(2_000), at(3_000));
    let json = format!(
        r#"{{"value": "on", "default": "off", "starts_at": "{start}", "ends_at": "{end}",
            "conditions": [{{"name": "late", "value": "late", "starts_at": "{inner}"}}]}}"#
    );
    put(&mut world, "event", &json).unwrap();
    put(&mut world, "plain", &format!(r#"{{"value": 1, "ends_at": "{end}"}}"#)).unwrap();
    let next = |world: &World| world.read(|game| game.vars.next_change_ms(world.now_ms)).map(|ms| ms - NOW);
    for (ms, value, transition) in [
        (0, r#"{"event":"off","plain":1}"#, Some(1_000)),
        (1_000, r#"{"event":"on","plain":1}"#, Some(2_000)),
        (2_999, r#"{"event":"late","plain":1}"#, Some(3_000)),
        (3_000, r#"{"event":"off","plain":null}"#, None),
    ] {
        world.now_ms = NOW + ms;
        assert_eq!(
            (values(&world, &VarsViewer::default()).as_str(), next(&world)),
            (value, transition),
            "{ms}"
        );
        world.restart();
    }
    put_many(&mut world, r#"{"event": null, "plain": null}"#, None).unwrap();
    world.now_ms = NOW;
    assert_eq!(next(&world), None);
}

#[test]
fn several_variables_are_written_atomically() {
    let mut world = World::new(NOW);
    put_many(&mut world, r#"{"a": {"value": 1}, "b": {"value": 2}}"#, Some(0)).unwrap();
    let one_is_wrong = r#"{"a": {"value": 10}, "b": {"value": 2, "schema": {"maximum": 1}}}"#;
    expect!["Invalid (vars.b.value): is too large"].assert_eq(&describe(put_many(
        &mut world,
        one_is_wrong,
        None,
    )));
    expect!["Conflict (expected_version): the version is 1, not 0"].assert_eq(&describe(put_many(
        &mut world,
        r#"{"a": {"value": 10}}"#,
        Some(0),
    )));
    assert_eq!(values(&world, &VarsViewer::default()), r#"{"a":1,"b":2}"#);
    let outcome = put_many(&mut world, r#"{"a": null, "c": {"value": 3}, "nothing": null}"#, Some(1));
    assert_eq!(describe(outcome), r#"{"version":2}"#);
    assert_eq!(values(&world, &VarsViewer::default()), r#"{"b":2,"c":3}"#);
}

#[test]
fn write_without_a_difference_keeps_the_version() {
    let mut world = World::new(NOW);
    for _ in 0..2 {
        assert_eq!(describe(put(&mut world, "a", r#"{"value": 1}"#)), r#"{"name":"a","version":1}"#);
    }
    assert_eq!(describe(put(&mut world, "a", r#"{"value": 1.0}"#)), r#"{"name":"a","version":2}"#);
    assert_eq!(world.read(|game| game.vars.history(10).len()), 2);
}

#[test]
fn rollback_is_a_new_version() {
    let mut world = World::new(NOW);
    put(&mut world, "a", r#"{"value": 1}"#).unwrap();
    put(&mut world, "a", r#"{"value": 2}"#).unwrap();
    put(&mut world, "b", r#"{"value": 3}"#).unwrap();
    let mut back = |version, expected_version| {
        let outcome = world.send(liveops::Command::Vars(VarsCommand::RollBack { version, expected_version }));
        format!("{} {}", describe(outcome), values(&world, &VarsViewer::default()))
    };
    assert_eq!(back(1, Some(3)), r#"{"version":4} {"a":1}"#);
    assert_eq!(back(3, None), r#"{"version":5} {"a":2,"b":3}"#);
    assert_eq!(back(0, None), r#"{"version":6} {}"#);
    assert!(back(7, None).starts_with("NotFound (version)"));
    assert!(back(2, Some(5)).starts_with("Conflict (expected_version)"));
    world.checkpoint();
    world.restart();
    let history = world.read(|game| serde_json::to_string(&game.vars.history(2)).unwrap());
    expect![[r#"[{"version":6,"at":"2027-01-15T08:00:00.000Z","by":"server","rolled_back_to":0,"changed":{"a":{"before":{"value":2},"after":null},"b":{"before":{"value":3},"after":null}}},{"version":5,"at":"2027-01-15T08:00:00.000Z","by":"server","rolled_back_to":3,"changed":{"a":{"before":{"value":1},"after":{"value":2}},"b":{"before":null,"after":{"value":3}}}}]"#]]
    .assert_eq(&history);
}

#[test]
fn entity_tag_depends_on_the_values_only() {
    let mut world = World::new(NOW);
    let tag =
        |world: &World, viewer: &VarsViewer| world.read(|game| game.vars.evaluate(viewer, world.now_ms).etag);
    put(&mut world, "a", r#"{"value": 1, "conditions": [{"name": "fr", "value": 2, "country": ["FR"]}]}"#)
        .unwrap();
    let french = VarsViewer { country: "FR".into(), ..VarsViewer::default() };
    let (others, ours) = (tag(&world, &VarsViewer::default()), tag(&world, &french));
    assert_ne!(others, ours);
    let changed =
        r#"{"value": 1, "description": "d", "conditions": [{"name": "fr", "value": 3, "country": ["FR"]}]}"#;
    put(&mut world, "a", changed).unwrap();
    assert_eq!(tag(&world, &VarsViewer::default()), others);
    assert_ne!(tag(&world, &french), ours);
    world.checkpoint();
    world.restart();
    assert_eq!(tag(&world, &VarsViewer::default()), others);
    put_many(&mut world, r#"{"a": null, "b": {"value": 1}}"#, None).unwrap();
    assert_ne!(tag(&world, &VarsViewer::default()), others);
}

#[test]
fn variants_name_the_matching_condition() {
    let mut world = World::new(NOW);
    let half = r#"{"value": 1, "conditions": [
        {"name": "testers", "value": 3, "segment": ["testers"]},
        {"name": "fast", "value": 2, "percent": {"to": 50}}]}"#;
    put(&mut world, "speed", half).unwrap();
    put(
        &mut world,
        "plain",
        r#"{"value": 1, "conditions": [{"name": "fr", "value": 2, "country": ["FR"]}]}"#,
    )
    .unwrap();
    let variants = |viewer: &VarsViewer| world.read(|game| game.vars.variants(viewer, NOW));
    let mut counts = [0, 0];
    for n in 0..1_000 {
        match variants(&player(&format!("player-{n}"))).as_str() {
            "speed=fast" => counts[0] += 1,
            "speed=(value)" => counts[1] += 1,
            other => panic!("{other}"),
        }
    }
    assert!(counts.iter().all(|count| (400..600).contains(count)), "{counts:?}");
    let tester = VarsViewer { segments: vec!["testers".into()], ..player("player-1") };
    assert_eq!(variants(&tester), "speed=testers");
}

#[test]
fn variants_have_a_limit() {
    let mut world = World::new(NOW);
    for n in 0..100 {
        let half = r#"{"value": 1, "conditions": [{"name": "on", "value": 2, "percent": {"to": 50}}]}"#;
        put(&mut world, &format!("an_experiment_with_a_long_name_{n}"), half).unwrap();
    }
    let text = world.read(|game| game.vars.variants(&player("ann"), NOW));
    assert!(text.len() <= VARIANTS_BYTES_MAX && text.len() > VARIANTS_BYTES_MAX - 100, "{}", text.len());
}

#[test]
fn refusal_names_the_invalid_field() {
    let mut world = World::new(NOW);
    let mut check = |name: &str, json: &str, field: &str| {
        let refusal = put(&mut world, name, json).expect_err(json);
        assert_eq!((refusal.kind, refusal.field.as_deref()), (RefusalKind::Invalid, Some(field)), "{json}");
    };
    check("a b", r#"{"value": 1}"#, "name");
    check("", r#"{"value": 1}"#, "name");
    check("a", r#"{"value": {"b": 1, "b": 2}}"#, "value");
    check("a", &format!(r#"{{"value": {}1{}}}"#, "[".repeat(20), "]".repeat(20)), "value");
    check("a", &format!(r#"{{"value": "{}"}}"#, "x".repeat(64 << 10)), "value");
    check("a", &format!(r#"{{"value": 1, "description": "{}"}}"#, "x".repeat(1_001)), "description");
    check("a", r#"{"value": 1, "schema": {"pattern": "x"}}"#, "schema.pattern");
    check("a", r#"{"value": 1, "schema": {"type": "string"}}"#, "value");
    check("a", r#"{"value": {"b": 1}, "schema": {"properties": {"b": {"const": 2}}}}"#, "value.b");
    check("a", r#"{"value": 1, "default": "x", "schema": {"type": "integer"}}"#, "default");
    let early = r#""starts_at": "2026-01-02T00:00:00Z", "ends_at": "2026-01-01T00:00:00Z""#;
    check("a", &format!(r#"{{"value": 1, {early}}}"#), "ends_at");
    let mut check = |condition: &str, field: &str| {
        let json = format!(
            r#"{{"value": 1, "schema": {{"type": "integer"}}, "conditions": [{{"name": "ok", "value": 1}}, {condition}]}}"#
        );
        check("a", &json, &format!("conditions[1].{field}"));
    };
    check(r#"{"name": "ok", "value": 1}"#, "name");
    check(r#"{"name": "", "value": 1}"#, "name");
    check(r#"{"name": "c", "value": 1.5}"#, "value");
    check(r#"{"name": "c", "value": 1, "country": ["fr"]}"#, "country");
    check(r#"{"name": "c", "value": 1, "platform": [""]}"#, "platform");
    check(r#"{"name": "c", "value": 1, "percent": {"from": -1, "to": 5}}"#, "percent.from");
    check(r#"{"name": "c", "value": 1, "percent": {"from": 5, "to": 5}}"#, "percent.to");
    check(r#"{"name": "c", "value": 1, "percent": {"to": 101}}"#, "percent.to");
    check(r#"{"name": "c", "value": 1, "percent": {"to": 5, "salt": ""}}"#, "percent.salt");
    check(&format!(r#"{{"name": "c", "value": 1, {early}}}"#), "ends_at");
    assert_eq!(world.read(|game| game.vars.version()), 0);
}

#[test]
fn missing_variable_cannot_be_removed() {
    let outcome = World::new(NOW).send(liveops::Command::Vars(VarsCommand::Delete { name: "a".into() }));
    assert_eq!(describe(outcome), "NotFound (name): there is no variable `a`");
}

#[test]
fn number_and_size_of_variables_are_limited() {
    let mut world = World::new(NOW);
    let many: Vec<String> = (0..VARS_MAX).map(|n| format!(r#""v{n}": {{"value": {n}}}"#)).collect();
    put_many(&mut world, &format!("{{{}}}", many.join(",")), None).unwrap();
    assert_eq!(put(&mut world, "one_more", r#"{"value": 1}"#).unwrap_err().kind, RefusalKind::TooMany);
    put_many(&mut world, r#"{"v0": null, "one_more": {"value": 1}}"#, None).unwrap();
    let large = format!(r#"{{"value": "{}"}}"#, "x".repeat(60_000));
    let outcomes: Vec<_> = (0..100).map(|n| put(&mut world, &format!("v{}", n + 1), &large)).collect();
    let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(accepted, (4 << 20) / 60_200);
    assert!(outcomes[accepted..].iter().all(|it| it.as_ref().unwrap_err().kind == RefusalKind::TooMany));
}
