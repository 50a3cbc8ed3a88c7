//! Refreshed results equal those of new queries.

use super::*;

/// One query of each kind.
fn queries(window: &Range<u32>, zone: &str, step: Step) -> Vec<Query> {
    let query_of = |metric, measure| query_of(metric, measure, window, zone, step);
    let country = || vec![QueryDimension::BuiltIn(Dimension::Country)];
    let both = ["a", "b"].map(|name| MetricQuery { metric: name.into(), ..MetricQuery::default() }).to_vec();
    let mut queries: Vec<Query> = Measure::ALL.map(|measure| query_of("a", Some(measure))).to_vec();
    queries.extend([
        query_of("online", None),
        Query { by: country(), top: Some(2), ..query_of("a", None) },
        Query { by: country(), top: Some(2), ..query_of("a", Some(Measure::Uniques)) },
        Query { by: vec![QueryDimension::Event], top: Some(1), ..query_of("events", None) },
        Query { filter: vec![(country().remove(0), vec!["FR".into()])], ..query_of("a", Some(Measure::Sum)) },
        Query { metrics: both.clone(), by: country(), top: Some(2), ..query_of("a", None) },
        Query { metrics: both, formula: Some("a / b".into()), by: country(), ..query_of("a", None) },
        Query { compare: Some(CompareWith::Previous), by: country(), top: Some(2), ..query_of("a", None) },
        Query { compare: Some(CompareWith::Previous), ..query_of("a", Some(Measure::P90)) },
    ]);
    queries
}

fn start(store: &Store, query: &Query) -> Option<IncrementalQuery> {
    let plan = query.plan(0, "UTC").ok()?;
    Some(IncrementalQuery::run(plan, GAME, store, None, &Unbounded).expect("the store does not fail"))
}

proptest! {
    #[test]
    fn refreshed_result_matches_a_new_query(
        (events, window, zone, step) in any_case(), sizes in prop::collection::vec(1..6usize, 1..6),
    ) {
        let mut rest = &events[..];
        let mut store = Store::of(&rest[..rest.len() / 2]);
        rest = &rest[rest.len() / 2..];
        let queries = queries(&window, zone, step);
        let mut incremental: Vec<Option<IncrementalQuery>> = queries.iter().map(|query| start(&store, query)).collect();
        for size in sizes {
            let (now, later) = rest.split_at(size.min(rest.len()));
            rest = later;
            now.iter().for_each(|event| store.put(event));
            let mut minutes: Vec<u32> = now.iter().map(|event| event.minute).collect();
            minutes.sort_unstable();
            minutes.dedup();
            for (query, incremental) in queries.iter().zip(&mut incremental) {
                let Some(incremental) = incremental else { continue };
                let before = incremental.result().clone();
                let refreshed = incremental.refresh(&minutes, GAME, &store, None, &Unbounded).expect("the store does not fail");
                prop_assert_eq!(incremental.result(), &run_over(&store, query), "{:?}", query);
                match refreshed {
                    Refreshed::Values(changed) => prop_assert_eq!(&patched(before, &changed, incremental.result()), incremental.result()),
                    Refreshed::Replaced(Some(old)) => prop_assert_eq!(old, before),
                    Refreshed::Rearranged | Refreshed::Replaced(None) => {}
                }
            }
        }
    }
}

/// Returns a result with these values taken over from another: what a subscriber has after it was sent the changes.
fn patched(mut result: QueryResult, changed: &ChangedValues, from: &QueryResult) -> QueryResult {
    for (series, bucket) in &changed.points {
        assert_ne!(result.series[*series].values[*bucket], from.series[*series].values[*bucket]);
        result.series[*series].values[*bucket] = from.series[*series].values[*bucket];
    }
    for series in &changed.totals {
        assert_ne!(result.series[*series].total, from.series[*series].total);
        result.series[*series].total = from.series[*series].total;
    }
    QueryResult { as_of: from.as_of, ..result }
}

/// Adds one event, refreshes, and checks how much was read and the result.
fn check_refresh(events: &str, text: &str, one_more: &str, is_patched: bool, expected: Expect) {
    let mut store = Store::of(&parse_events(events));
    let mut incremental = start(&store, &query(text)).expect("a valid query");
    let event = parse_event(one_more);
    store.put(&event);
    let patched = incremental
        .refresh(&[event.minute], GAME, &store, None, &Unbounded)
        .expect("the store does not fail");
    assert_eq!(!matches!(patched, Refreshed::Replaced(_)), is_patched);
    assert_eq!(incremental.result(), &run_over(&store, &query(text)));
    expected.assert_eq(&show(incremental.result()));
}

const WINDOW: &str = "from=2026-11-18T10:00Z to=2026-11-18T14:00Z step=hour";
const EVENTS_BEFORE: &str = "
    2026-11-18T10:01Z a player=ann country=FR value=1
    2026-11-18T12:02Z a player=bo country=DE value=2
    2026-11-18T12:02Z a player=cy country=DE value=3";

#[test]
fn refresh_reads_only_the_changed_buckets() {
    let late = "2026-11-18T10:30Z a player=dee country=FR value=4";
    check_refresh(
        EVENTS_BEFORE,
        &format!("{WINDOW} metric=a measure=sum"),
        late,
        true,
        expect![[r#"
        hour UTC: 11-18T10:00Z 11-18T11:00Z 11-18T12:00Z 11-18T13:00Z
        : 5 0 5 0 = 10"#]],
    );
    check_refresh(
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
    check_refresh(
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
    check_refresh(
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
fn new_links_cause_a_full_read() {
    let mut store = Store::of(&parse_events(EVENTS_BEFORE));
    let linked = links(&[("bo", "cy")]);
    let text = format!("{WINDOW} metric=a measure=uniques");
    let mut incremental = start(&store, &query(&text)).expect("a valid query");
    let event = parse_event("2026-11-18T10:30Z a player=dee");
    store.put(&event);
    let mut touch = || {
        incremental
            .refresh(&[event.minute], GAME, &store, Some(&linked), &Unbounded)
            .expect("the store does not fail")
    };
    let is_replaced = |refreshed| matches!(refreshed, Refreshed::Replaced(_));
    assert_eq!([touch(), touch()].map(is_replaced), [true, false]);
    let plan = query(&text).plan(0, "UTC").expect("a valid query");
    assert_eq!(
        incremental.result(),
        &run(&plan, GAME, &store, Some(&linked), &Unbounded).expect("the store does not fail")
    );
}
