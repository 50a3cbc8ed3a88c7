//! Searches for players, and timelines.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::answer::{Answer, csv, utc};
use super::super::explore::Explore;
use super::super::search::PlayerSearch;
use super::super::timeline::Timeline;
use super::super::totals::PlayerTotals;
use super::super::{Context, QuestionFailure};
use super::world::{TestEvent, World, conditions, hash, id, world, worlds};

fn naive_search(world: &World, request: &Json) -> Json {
    let search = request["search"].as_str().expect("a search");
    let is_found = |event: &&&TestEvent| {
        let id = event.player.as_deref().expect("it has a player");
        let has_id = if request["match"] == "prefix" { id.starts_with(search) } else { id.contains(search) };
        has_id && world.meets(event, &request["where"])
    };
    let mut found: Vec<(&str, Vec<&TestEvent>)> = world.players().into_iter().collect();
    found.retain(|(_, events)| events.iter().any(|event| is_found(&event)));
    let last = |events: &[&TestEvent]| events.last().expect("one").time;
    found.sort_by_key(|(player, events)| (std::cmp::Reverse(last(events)), hash(player)));
    let player = |(player, events): &(&str, Vec<&TestEvent>)| {
        let has_own_id = events.iter().any(|event| event.player.as_deref() == Some(*player));
        let latest = events.last().expect("one").player.as_deref().expect("it has a player");
        let country = events.iter().rev().find_map(|event| event.fields.get("country"));
        json!({
            "player": if has_own_id { *player } else { latest }, "events": events.len(),
            "first_seen": utc(events[0].time), "last_seen": utc(last(events)),
            "country": country, "platform": null, "version": null,
        })
    };
    json!({"found": found.len(), "players": found.iter().take(3).map(player).collect::<Vec<_>>()})
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn searches_equal_the_naive_ones(
        world in worlds(),
        search in prop_oneof![Just("player"), Just("3"), Just("r-1"), Just("player-2"), Just("nobody")],
        how in prop_oneof![Just("contains"), Just("prefix")],
        conditions in conditions(),
    ) {
        let request = json!({"search": search, "match": how, "where": conditions, "limit": 3});
        let question = PlayerSearch::from_json(&world.request(request.clone())).expect("it is valid");
        let answer = world.ask(|context| question.run(context)).expect("it has no bounds");
        prop_assert_eq!(Json::from(answer.fields()), naive_search(&world, &request));
    }

    #[test]
    fn hidden_players_are_in_no_answer(mut world in worlds(), hidden in 0usize..8) {
        let hidden = id(hidden);
        let links = world.player_links().hiding([hash(&hidden)]);
        let search = world.request(json!({"search": "player", "limit": 100}));
        let search = PlayerSearch::from_json(&search).expect("it is valid");
        let explore = Explore::from_json(&world.request(json!({"by": ["player"], "step": "all", "top": 100})));
        let explore = explore.expect("it is valid");
        let ask = |context: &Context<'_>| {
            let found = search.run(context).expect("it has no bounds").fields();
            (found, explore.run(context).expect("it has no bounds").fields())
        };
        let hiding = world.ask(|context| ask(&Context { links: &links, ..*context }));
        world.events.retain(|event| event.player.as_deref() != Some(&*hidden));
        prop_assert_eq!(hiding, world.ask(ask));
    }

    #[test]
    fn totals_equal_the_naive_ones(world in worlds(), player in 0usize..8) {
        let player = id(player);
        let events = world.players().remove(world.canonical(&player)).unwrap_or_default();
        let totals = world.ask(|context| PlayerTotals::read(context, hash(&player), world.window.clone()));
        let totals = totals.expect("it has no bounds");
        let Some(first) = events.first() else {
            prop_assert_eq!(totals, None);
            return Ok(());
        };
        let by_event = |name: &str| {
            let own: Vec<_> = events.iter().filter(|event| event.event == name).collect();
            let values: Vec<f64> = own.iter().filter_map(|event| event.field("value").as_f64()).collect();
            let sum: f64 = values.iter().sum();
            let sum = if sum.fract() == 0.0 { json!(sum as i64) } else { json!(sum) };
            json!({"event": name, "count": own.len(), "sum": if values.is_empty() { Json::Null } else { sum }})
        };
        let mut expected: Vec<Json> = ["buy", "quit", "start", "win"].map(by_event).to_vec();
        expected.retain(|event| event["count"] != 0);
        expected.sort_by_key(|event| std::cmp::Reverse(event["count"].as_u64()));
        prop_assert_eq!(Json::from(totals.expect("there are events").fields()), json!({
            "first_seen": utc(first.time), "last_seen": utc(events.last().expect("one").time), "events": events.len(),
            "sessions": 0, "by_event": expected,
        }));
    }

    #[test]
    fn pages_of_a_timeline_join_to_all_events_newest_first(world in worlds(), player in 0usize..8, limit in 1usize..6) {
        let player = id(player);
        let own = world.canonical(&player).to_owned();
        let mut expected: Vec<&TestEvent> = world.events.iter().filter(|event| {
            event.player.as_deref().is_some_and(|player| world.canonical(player) == own)
        }).collect();
        expected.sort_by_key(|event| event.time);
        let show = |event: &&TestEvent| (utc(event.time), event.event.clone(), event.field("props.weapon"));
        let expected: Vec<_> = expected.iter().rev().map(show).collect();
        let (mut found, mut before) = (Vec::new(), Json::Null);
        loop {
            let page = timeline(&world, &player, json!({"before": before, "limit": limit})).expect("it is valid");
            let events = page["events"].as_array().expect("a list");
            prop_assert!(events.len() <= limit);
            for event in events {
                let text = |name: &str| event[name].as_str().expect("a text").to_owned();
                found.push((text("ts"), text("event"), event["props"]["weapon"].clone()));
            }
            before = page["next"].clone();
            if before.is_null() {
                break;
            }
            prop_assert_eq!(events.len(), limit);
        }
        prop_assert_eq!(found, expected.into_iter().map(|(ts, event, weapon)| (ts, event, numbers_as_answers(weapon))).collect::<Vec<_>>());
    }
}

fn numbers_as_answers(value: Json) -> Json {
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 => json!(number as i64),
        _ => value,
    }
}

fn timeline(world: &World, player: &str, request: Json) -> Result<Json, QuestionFailure> {
    let question = Timeline::from_json(request.to_string().as_bytes())?;
    let oldest = world.events.iter().map(|event| event.time).min().unwrap_or(0);
    let page = world
        .ask(|context| question.run(context, hash(player), &|_, _| Ok(vec!["weapon".into()]), oldest))?;
    csv(&page).expect("it is small");
    Ok(page.fields().into())
}

#[test]
fn timeline_shows_what_an_event_has() {
    let world = world("10:00 ann buy country=FR value=2 props.weapon=\"bow\"\n10:00 bo buy");
    assert_eq!(
        timeline(&world, "ann", json!({})).expect("it is valid"),
        json!({
            "events": [{
                "ts": "2026-11-19T10:00:00Z", "event": "buy", "player": "ann", "country": "FR", "value": 2,
                "received": "1970-01-01T00:00:01Z", "props": {"weapon": "bow"},
            }],
            "next": null,
        })
    );
}

#[test]
fn errors_name_the_field_of_a_search_and_a_timeline() {
    let check = |request: Json, expected: &str| {
        let error = PlayerSearch::from_json(request.to_string().as_bytes()).expect_err("it is invalid");
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    check(json!({"search": ""}), "search: must be between 1 and 128 bytes long");
    check(json!({"match": "regex"}), "match: must be contains or prefix");
    check(json!({"limit": 1_001}), "limit: must be an integer from 1 to 1000");
    check(json!({"id": "a"}), "id: is not a field of a search for players");
    let check = |request: Json, expected: &str| {
        let error = Timeline::from_json(request.to_string().as_bytes()).expect_err("it is invalid");
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    for cursor in ["x", "-5", "5-x", "5-100001", "9223372036854775807"] {
        check(json!({"before": cursor}), "before: must be the cursor `next` of another page");
    }
    check(json!({"limit": 0}), "limit: must be an integer from 1 to 1000");
    check(json!({"until": 0}), "until: is not a field of a timeline");
}

#[test]
fn totals_count_sessions_of_both_ids_once() {
    let mut world =
        world("10:00 anon buy session=s1\n10:01 ann buy session=s1\n10:02 ann buy session=s2\n10:03 ann buy");
    world.links.push(("anon".to_owned(), "ann".to_owned()));
    let totals = world.ask(|context| PlayerTotals::read(context, hash("anon"), world.window.clone()));
    let totals = totals.expect("it has no bounds").expect("there are events");
    assert_eq!((totals.events, totals.sessions), (4, 2));
}
