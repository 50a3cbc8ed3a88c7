//! Answers that are kept up to date say what new ones would.

use super::*;

/// One query of each kind.
fn queries(window: &Range<u32>, zone: &str, step: Step) -> Vec<Query> {
    let ask = |metric, measure| ask(metric, measure, window, zone, step);
    let country = || vec![By::Dimension(Dimension::Country)];
    let both = ["a", "b"].map(|name| MetricQuery { metric: name.into(), ..MetricQuery::default() }).to_vec();
    let mut queries: Vec<Query> = Measure::ALL.map(|measure| ask("a", Some(measure))).to_vec();
    queries.extend([
        ask("online", None),
        Query { by: country(), top: Some(2), ..ask("a", None) },
        Query { by: country(), top: Some(2), ..ask("a", Some(Measure::Uniques)) },
        Query { by: vec![By::Event], top: Some(1), ..ask("events", None) },
        Query { filter: vec![(country().remove(0), vec!["FR".into()])], ..ask("a", Some(Measure::Sum)) },
        Query { metrics: both.clone(), by: country(), top: Some(2), ..ask("a", None) },
        Query { metrics: both, formula: Some("a / b".into()), by: country(), ..ask("a", None) },
        Query { compare: Some(Compare::Previous), by: country(), top: Some(2), ..ask("a", None) },
        Query { compare: Some(Compare::Previous), ..ask("a", Some(Measure::P90)) },
    ]);
    queries
}

fn stand(store: &Store, query: &Query) -> Option<Standing> {
    let plan = query.plan(0, "UTC").ok()?;
    Some(Standing::ask(plan, GAME, store, None).expect("the store answers"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_that_is_kept_is_what_a_new_one_says(
        (facts, window, zone, step) in any_case(), sizes in prop::collection::vec(1..6usize, 1..6),
    ) {
        let mut rest = &facts[..];
        let mut store = Store::of(&rest[..rest.len() / 2]);
        rest = &rest[rest.len() / 2..];
        let queries = queries(&window, zone, step);
        let mut kept: Vec<Option<Standing>> = queries.iter().map(|query| stand(&store, query)).collect();
        for size in sizes {
            let (now, later) = rest.split_at(size.min(rest.len()));
            rest = later;
            now.iter().for_each(|fact| store.put(fact));
            let mut minutes: Vec<u32> = now.iter().map(|fact| fact.minute).collect();
            minutes.sort_unstable();
            minutes.dedup();
            for (query, kept) in queries.iter().zip(&mut kept) {
                let Some(kept) = kept else { continue };
                kept.touch(&minutes, GAME, &store, None).expect("the store answers");
                prop_assert_eq!(kept.answer(), &run_over(&store, query), "{:?}", query);
            }
        }
    }
}

/// What was read after one more event, and the answer.
fn check_kept(events: &str, text: &str, one_more: &str, is_patched: bool, expected: Expect) {
    let mut store = Store::of(&facts(events));
    let mut kept = stand(&store, &query(text)).expect("it can be answered");
    let fact = fact(one_more);
    store.put(&fact);
    let patched = kept.touch(&[fact.minute], GAME, &store, None).expect("the store answers");
    assert_eq!(patched, is_patched);
    assert_eq!(kept.answer(), &run_over(&store, &query(text)));
    expected.assert_eq(&show(kept.answer()));
}

const WINDOW: &str = "from=2026-11-18T10:00Z to=2026-11-18T14:00Z step=hour";
const EVENTS_BEFORE: &str = "
    2026-11-18T10:01Z a player=ann country=FR value=1
    2026-11-18T12:02Z a player=bo country=DE value=2
    2026-11-18T12:02Z a player=cy country=DE value=3";

#[test]
fn only_what_was_touched_is_read_again() {
    let late = "2026-11-18T10:30Z a player=dee country=FR value=4";
    check_kept(
        EVENTS_BEFORE,
        &format!("{WINDOW} metric=a measure=sum"),
        late,
        true,
        expect![[r#"
        hour UTC: 11-18T10:00Z 11-18T11:00Z 11-18T12:00Z 11-18T13:00Z
        : 5 0 5 0 = 10"#]],
    );
    check_kept(
        EVENTS_BEFORE,
        &format!("{WINDOW} metric=a by=country"),
        late,
        true,
        expect![[r#"
        hour UTC: 11-18T10:00Z 11-18T11:00Z 11-18T12:00Z 11-18T13:00Z
        DE: 0 0 2 0 = 2
        FR: 2 0 0 0 = 2"#]],
    );
    let two = "2026-11-18T10:30Z a player=dee country=TR value=4";
    check_kept(
        EVENTS_BEFORE,
        &format!("{WINDOW} metric=a by=country"),
        two,
        false,
        expect![[r#"
        hour UTC: 11-18T10:00Z 11-18T11:00Z 11-18T12:00Z 11-18T13:00Z
        DE: 0 0 2 0 = 2
        FR: 1 0 0 0 = 1
        TR: 1 0 0 0 = 1"#]],
    );
    let outside = "2026-11-18T09:30Z a player=dee country=TR value=4";
    check_kept(
        EVENTS_BEFORE,
        &format!("{WINDOW} metric=a measure=p50"),
        outside,
        true,
        expect![[r#"
        hour UTC: 11-18T10:00Z 11-18T11:00Z 11-18T12:00Z 11-18T13:00Z
        : 1 - 2.0199685003161307 - = 2.0199685003161307"#]],
    );
}

#[test]
fn new_links_have_everything_read_again() {
    let mut store = Store::of(&facts(EVENTS_BEFORE));
    let linked = links(&[("bo", "cy")]);
    let text = format!("{WINDOW} metric=a measure=uniques");
    let mut kept = stand(&store, &query(&text)).expect("it can be answered");
    let fact = fact("2026-11-18T10:30Z a player=dee");
    store.put(&fact);
    let mut touch = || kept.touch(&[fact.minute], GAME, &store, Some(&linked)).expect("the store answers");
    assert_eq!([touch(), touch()], [false, true]);
    let plan = query(&text).plan(0, "UTC").expect("it can be answered");
    assert_eq!(kept.answer(), &run(&plan, GAME, &store, Some(&linked)).expect("the store answers"));
}
