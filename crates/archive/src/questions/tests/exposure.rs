//! Results of experiments, compared with straightforward code.

use proptest::prelude::*;
use serde_json::json;

use super::super::QuestionFailure;
use super::super::answer::Answer;
use super::super::exposure::{ExperimentAnswer, ExperimentPlan, ExperimentQuestion, Exposure};
use super::world::{TestEvent, World, hash, world, worlds};

/// Players in France and Germany take part; a hash decides. From `changed_ms` on, others are blue.
fn assign(player: &str, country: &str, time_ms: i64, changed_ms: i64) -> Option<usize> {
    let takes_part = matches!(country, "FR" | "DE");
    takes_part.then(|| (hash(player) as usize + usize::from(time_ms >= changed_ms)) % 2)
}

fn ask(
    world: &World,
    request: serde_json::Value,
    changed_ms: i64,
) -> Result<ExperimentAnswer, QuestionFailure> {
    let question = ExperimentQuestion::from_json(&world.request(request)).expect("it is valid");
    let assign =
        |exposure: &Exposure<'_>| assign(exposure.player, exposure.country, exposure.time_ms, changed_ms);
    let variants = vec![("(value)".to_owned(), 0.5), ("blue".to_owned(), 0.5)];
    let plan = ExperimentPlan { variants, since_ms: None, transitions: vec![changed_ms], assign: &assign };
    world.ask(|context| question.run(context, &plan))
}

/// Players, those who converted, the sum of their values, and players with several variants.
type Totals = ([u64; 2], [u64; 2], [f64; 2], u64);

fn naive(world: &World, changed_ms: i64) -> Totals {
    let mut totals = Totals::default();
    for events in world.players().values() {
        let variant = |event: &TestEvent| {
            let country = event.field("country");
            let player = event.player.as_deref().expect("it has a player");
            assign(player, country.as_str().unwrap_or_default(), event.time, changed_ms)
        };
        let Some(first) = events.iter().position(|event| variant(event).is_some()) else { continue };
        let own = variant(events[first]).expect("it was found");
        if events.iter().any(|event| variant(event).is_some_and(|other| other != own)) {
            totals.3 += 1;
            continue;
        }
        let buys: Vec<_> = events[first..].iter().filter(|event| event.event == "buy").collect();
        totals.0[own] += 1;
        totals.1[own] += u64::from(!buys.is_empty());
        totals.2[own] += buys.iter().filter_map(|event| event.field("value").as_f64()).sum::<f64>();
    }
    totals
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn results_equal_the_naive_ones(world in worlds(), changes in any::<bool>()) {
        let changed_ms = if changes { (world.window.start + world.window.end) / 2 } else { i64::MAX };
        let metric = json!({"event": "buy", "measure": "mean", "property": "value"});
        let mean = ask(&world, json!({"variable": "button", "metric": metric}), changed_ms).expect("no bounds");
        let metric = json!({"event": "buy"});
        let share = ask(&world, json!({"variable": "button", "metric": metric}), changed_ms).expect("no bounds");
        let (players, converted, sums, mixed) = naive(&world, changed_ms);
        for variant in 0..2 {
            let result = &mean.result.variants[variant];
            prop_assert_eq!(result.players, players[variant]);
            if let Some(mean) = result.mean {
                prop_assert!((mean.value * players[variant] as f64 - sums[variant]).abs() < 1e-6);
            }
            let conversion = share.result.variants[variant].conversion;
            let expected = (players[variant] > 0).then(|| converted[variant] as f64 / players[variant] as f64);
            prop_assert_eq!(conversion.map(|it| it.value), expected);
        }
        prop_assert_eq!((mean.mixed, share.mixed), (mixed, mixed));
    }
}

#[test]
fn events_before_the_exposure_do_not_count() {
    let world = world("10:00 ann buy value=5\n11:00 ann start country=FR\n12:00 ann buy value=7");
    let metric = json!({"event": "buy", "measure": "mean", "property": "value"});
    let answer = ask(&world, json!({"variable": "button", "metric": metric}), i64::MAX).expect("no bounds");
    let variant = hash("ann") as usize % 2;
    assert_eq!(answer.result.variants[variant].players, 1);
    let fields = answer.fields();
    assert_eq!(fields["variants"][variant]["players"], 1);
    assert_eq!(fields["mixed_players"], 0);
    let share = ask(&world, json!({"variable": "button", "metric": {"event": "quit"}}), i64::MAX);
    let share = share.expect("no bounds").result.variants[variant].conversion.expect("there is a player");
    assert_eq!(share.value, 0.0);
}

#[test]
fn range_before_the_assignment_is_rejected() {
    let world = world("10:00 ann start country=FR");
    let assign = |_: &Exposure<'_>| None;
    let since = world.window.start + 3_600_000;
    let run = |request: serde_json::Value| {
        let question = ExperimentQuestion::from_json(request.to_string().as_bytes()).expect("it is valid");
        let plan = ExperimentPlan {
            variants: vec![("(value)".to_owned(), 0.0)],
            since_ms: Some(since),
            transitions: Vec::new(),
            assign: &assign,
        };
        world.ask(|context| question.run(context, &plan)).map(drop).map_err(|error| error.to_string())
    };
    let asked = |own: serde_json::Value| {
        let mut request = json!({"variable": "button", "metric": {"event": "a"}});
        request.as_object_mut().expect("an object").extend(own.as_object().expect("an object").clone());
        request
    };
    assert_eq!(run(asked(json!({}))), Ok(()));
    assert_eq!(run(asked(json!({"from": since}))), Ok(()));
    assert_eq!(run(asked(json!({"last": "30d"}))), Ok(()));
    let early = run(asked(json!({"from": since - 1}))).expect_err("it is too early");
    assert!(early.starts_with("from: must not be before"), "{early}");
    let over = run(asked(json!({"from": since - 2, "to": since}))).expect_err("it is over before");
    assert!(over.starts_with("from: must not be before"), "{over}");
}
