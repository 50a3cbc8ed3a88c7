//! Queries written as text, over a store that is a list of events.

mod control;
mod incremental;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use expect_test::{Expect, expect};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::deltas::Deltas;
use crate::identity::{Identities, Links};
use crate::ports::counters::{
    Checkpoint, Counters, ExportedRows, RowChange, SideState, SlotSelector, StoreError, StoreSnapshot,
};
use crate::ports::records::Records;
use crate::rollup::{Aggregate, Bucket, LatestValue, hash_player};
use crate::series::{Cut, EVENTS, Resolution, TUPLE_SEPARATOR};

const GAME: u32 = 7;

/// The key of a slot: metric, code of the cut, minutes of the resolution, row, minute.
type SlotKey = (String, u8, u32, String, u32);

/// Rollups in a map.
#[derive(Default)]
struct Store {
    aggregates: BTreeMap<SlotKey, Aggregate>,
    /// Visits slots in reverse, because the port guarantees no order.
    backwards: bool,
}

/// An event of a test.
#[derive(Clone, Debug, Default)]
struct TestEvent {
    minute: u32,
    name: String,
    player: Option<String>,
    value: Option<f64>,
    dimensions: [String; Dimension::COUNT],
    /// The value of the declared dimension [`WEAPON`].
    weapon: Option<String>,
}

/// The number of a dimension that the game declared.
const WEAPON: u8 = 3;

fn declared() -> Vec<NumberedDimension> {
    vec![NumberedDimension { number: WEAPON, name: "weapon".into() }]
}

fn by(label: &str) -> Option<QueryDimension> {
    QueryDimension::from_label(label, &declared())
}

impl Store {
    fn of(events: &[TestEvent]) -> Store {
        let mut store = Store::default();
        events.iter().for_each(|event| store.put(event));
        store
    }

    fn put(&mut self, event: &TestEvent) {
        self.add(&event.name, event, event.value);
        if !matches!(&event.name[..], "$session" | "$play_time") {
            self.add(EVENTS, event, None);
        }
    }

    fn add(&mut self, metric: &str, event: &TestEvent, value: Option<f64>) {
        self.add_row(metric, Cut::Total, "", event, value);
        for dimension in Dimension::ALL {
            self.add_row(metric, Cut::By(dimension), &event.dimensions[dimension as usize], event, value);
        }
        if let Some(weapon) = &event.weapon {
            self.add_row(metric, Cut::Declared(WEAPON), weapon, event, value);
        }
        let tuple = event.dimensions.join(&TUPLE_SEPARATOR.to_string());
        self.add_row(metric, Cut::Tuple, &tuple, event, value);
    }

    fn add_row(&mut self, metric: &str, cut: Cut, row: &str, event: &TestEvent, value: Option<f64>) {
        for resolution in [Resolution::Minute, Resolution::Hour] {
            let minute = event.minute - event.minute % resolution.minutes();
            let key = (metric.to_owned(), cut.code(), resolution.minutes(), row.to_owned(), minute);
            let player = event.player.as_ref().map(|player| hash_player(1, player.as_bytes()));
            let player = player.filter(|_| cut != Cut::Tuple);
            let aggregate = self.aggregates.entry(key).or_default();
            aggregate.observe(player, value.map(|value| (value, Bucket::of(value))));
            // In this store every value is also a state.
            if let (Some(values), Some(value)) = (&mut aggregate.values, value) {
                values.observe_latest(LatestValue { at_ms: i64::from(event.minute) * 60_000, value });
            }
        }
    }
}

impl Records for Store {
    fn record(&self, _: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    fn records(&self, _: &[u8], _: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Counters for Store {
    fn apply(&self, _: Range<u64>, _: &Deltas) -> Result<(), StoreError> {
        unreachable!("this store is only read")
    }

    fn applied_until(&self) -> u64 {
        42
    }

    fn durable_until(&self) -> u64 {
        42
    }

    fn checkpoint(&self, _: SideState) -> Box<dyn Checkpoint> {
        unreachable!("this store is only read")
    }

    fn side_state(&self, _: &str) -> Result<Option<Vec<u8>>, StoreError> {
        unreachable!("this store is only read")
    }

    fn export(&self, _: &Range<u32>) -> Result<(u64, ExportedRows), StoreError> {
        unreachable!("this store is only read")
    }

    fn snapshot(&self) -> Result<Box<dyn StoreSnapshot>, StoreError> {
        unreachable!("this store is only read")
    }

    fn link_files(&self, _: &std::path::Path) -> Result<(), StoreError> {
        unreachable!("this store is only read")
    }

    fn remove_rows(&self, _: u32, _: usize) -> Result<usize, StoreError> {
        unreachable!("this store is only read")
    }

    fn replace(&self, _: &[RowChange]) -> Result<(), StoreError> {
        unreachable!("this store is only read")
    }

    fn visit(
        &self,
        select: SlotSelector<'_>,
        minutes: Range<u32>,
        visit: &mut dyn FnMut(&str, u32, &Aggregate),
    ) -> Result<(), StoreError> {
        assert_eq!(
            (minutes.start % select.resolution.minutes(), minutes.end % select.resolution.minutes()),
            (0, 0)
        );
        assert_eq!(select.game, GAME);
        let at = |resolution| (select.metric.to_owned(), select.cut.code(), resolution, String::new(), 0);
        let resolution = select.resolution.minutes();
        let wanted = |(.., row, minute): &SlotKey| {
            minutes.contains(minute) && select.values.is_none_or(|values| values.contains(&&row[..]))
        };
        let rows = self.aggregates.range(at(resolution)..at(resolution + 1));
        let mut found: Vec<_> = rows.filter(|(key, _)| wanted(key)).collect();
        if self.backwards {
            found.reverse();
        }
        found.into_iter().for_each(|((.., row, minute), aggregate)| visit(row, *minute, aggregate));
        Ok(())
    }

    fn metrics(&self, _: u32, minutes: Range<u32>) -> Result<Vec<String>, StoreError> {
        let seen = self.aggregates.keys().filter(|(.., minute)| minutes.contains(minute));
        Ok(seen.map(|(metric, ..)| metric.clone()).collect::<BTreeSet<_>>().into_iter().collect())
    }
}

fn minute(time: &str) -> u32 {
    let timestamp: Timestamp = time.parse().unwrap_or_else(|_| panic!("{time} is a time"));
    (timestamp.as_second() / 60) as u32
}

/// Parses events such as `2026-11-19T00:05Z plays country=FR player=ann value=3`, one per line.
fn parse_events(text: &str) -> Vec<TestEvent> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(parse_event).collect()
}

fn parse_event(line: &str) -> TestEvent {
    let mut words = line.split(' ');
    let time = words.next().expect("a time");
    let name = words.next().expect("a name").to_owned();
    let mut event = TestEvent { minute: minute(time), name, ..TestEvent::default() };
    for (word, text) in words.map(|word| word.split_once('=').expect("name=value")) {
        match word {
            "player" => event.player = Some(text.to_owned()),
            "value" => event.value = text.parse().ok(),
            "weapon" => event.weapon = Some(text.to_owned()),
            dimension => {
                let dimension = Dimension::from_label(dimension).expect("a dimension");
                event.dimensions[dimension as usize] = text.to_owned();
            }
        }
    }
    event
}

/// Parses a query such as `metric=plays measure=sum from=... step=day by=country where.platform=web,ios`; named
/// metrics are written `A=plays:sum`.
fn query(text: &str) -> Query {
    let mut query = Query::default();
    let milliseconds = |time: &str| Some(i64::from(minute(time)) * 60_000);
    for (word, value) in text.split_whitespace().map(|word| word.split_once('=').expect("name=value")) {
        match word {
            "metric" => {
                query.metrics.push(MetricQuery { metric: value.to_owned(), ..MetricQuery::default() })
            }
            "measure" => query.metrics[0].measure = Measure::from_label(value),
            "formula" => query.formula = Some(value.replace('_', " ")),
            "from" => query.from_ms = milliseconds(value),
            "to" => query.until_ms = milliseconds(value),
            "last" => query.last = WindowLength::parse(value),
            "step" => query.step = Step::from_label(value),
            "by" => query.by = value.split(',').filter_map(by).collect(),
            "top" => query.top = value.parse().ok(),
            "tz" => query.tz = Some(value.to_owned()),
            "compare" => query.compare = CompareWith::from_label(value),
            _ => match word.strip_prefix("where.").and_then(by) {
                Some(by) => query.filter.push((by, value.split(',').map(str::to_owned).collect())),
                None => query.metrics.push(named_metric(word, value)),
            },
        }
    }
    query
}

fn named_metric(name: &str, value: &str) -> MetricQuery {
    let (metric, measure) = value.split_once(':').unwrap_or((value, ""));
    MetricQuery {
        as_name: Some(name.to_owned()),
        metric: metric.to_owned(),
        measure: Measure::from_label(measure),
    }
}

fn show(answer: &QueryResult) -> String {
    let mut text = format!("{} {}: {}", answer.step.label(), answer.tz, show_times(&answer.times));
    answer.series.iter().for_each(|series| text += &show_series(series));
    if let Some(compared) = &answer.compare {
        text += &format!("\nbefore: {}", show_times(&compared.times));
        compared.series.iter().for_each(|series| text += &show_series(series));
    }
    text
}

fn show_times(times: &BucketTimes) -> String {
    let one = |(index, minute): (usize, &u32)| {
        let offset = times.offsets.iter().rfind(|offset| offset.from <= index).expect("an offset").minutes;
        let local = i64::from(*minute) + i64::from(offset);
        let local = Timestamp::from_second(local * 60).expect("a time").strftime("%m-%dT%H:%M").to_string();
        let sign = if offset < 0 { '-' } else { '+' };
        match times.utc {
            true => local + "Z",
            false => format!("{local}{sign}{:02}:{:02}", offset.abs() / 60, offset.abs() % 60),
        }
    };
    times.minutes.iter().enumerate().map(one).collect::<Vec<_>>().join(" ")
}

fn show_series(series: &Series) -> String {
    let number = |value: &Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
    let mut names: Vec<&str> = series.name.as_deref().into_iter().collect();
    names.extend(series.key.iter().map(|(_, value)| &value[..]));
    let values: Vec<String> = series.values.iter().map(number).collect();
    format!("\n{}: {} = {}", names.join("/"), values.join(" "), number(&series.total))
}

/// Runs a query at 2026-11-20T12:34:56Z, in a game in UTC.
fn answer(store: &Store, text: &str) -> Result<QueryResult, QueryError> {
    let now_ms = i64::from(minute("2026-11-20T12:34Z")) * 60_000 + 56_000;
    let plan = query(text).plan(now_ms, "UTC")?;
    Ok(run(&plan, GAME, store, None, &Unbounded).expect("the store does not fail"))
}

fn check_events(events: &str, text: &str, expected: Expect) {
    let mut store = Store::of(&parse_events(events));
    let shown = |store: &Store| match answer(store, text) {
        Ok(answer) => show(&answer),
        Err(error) => error.to_string(),
    };
    let forwards = shown(&store);
    store.backwards = true;
    assert_eq!(shown(&store), forwards);
    expected.assert_eq(&forwards);
}

/// Two days of events of Ann, Bo and Cem.
const TWO_DAYS: &str = "
    2026-11-18T10:00Z $view player=ann country=FR platform=web
    2026-11-18T10:01Z $play player=ann country=FR platform=web value=10
    2026-11-18T10:59Z $play player=bo country=DE platform=ios value=30
    2026-11-19T00:30Z $play player=ann country=FR platform=ios value=20
    2026-11-19T13:00Z $view player=cem country=TR platform=web
    2026-11-19T13:05Z $play player=cem country=TR platform=web
    2026-11-19T13:06Z $play player=cem country=(other) platform=web value=-4
    2026-11-19T13:07Z $session player=cem country=TR platform=web
    2026-11-19T13:07Z $play_time player=cem country=TR platform=web value=420
    2026-11-19T13:59Z $view country=FR";

const WINDOW: &str = "from=2026-11-18T00:00:00Z to=2026-11-20T00:00:00Z";

fn check(text: &str, expected: Expect) {
    check_events(TWO_DAYS, &format!("{WINDOW} {text}"), expected);
}

#[test]
fn measures_of_a_metric() {
    check(
        "metric=plays step=day",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 2 3 = 5"#]],
    );
    check(
        "metric=plays step=day measure=sum",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 40 16 = 56"#]],
    );
    check(
        "metric=plays step=day measure=min",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 10 -4 = -4"#]],
    );
    check(
        "metric=plays step=day measure=max",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 30 20 = 30"#]],
    );
    check(
        "metric=plays step=day measure=avg",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 20 8 = 14"#]],
    );
    check(
        "metric=plays step=day measure=uniques",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 2 2 = 3"#]],
    );
    check(
        "metric=plays step=all measure=p50",
        expect![[r#"
        all UTC: 11-18T00:00Z
        : 10.04269333178841 = 10.04269333178841"#]],
    );
    check(
        "metric=plays step=day measure=p90",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 29.885027403221553 20 = 29.885027403221553"#]],
    );
    check(
        "metric=plays step=day measure=p99 by=country",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        DE: 30 - = 30
        FR: 10 20 = 20
        TR: - - = -
        (other): - -4 = -4"#]],
    );
}

#[test]
fn metric_without_events_is_zero_or_unknown() {
    check(
        "metric=nothing step=day",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 0 0 = 0"#]],
    );
    check(
        "metric=nothing step=day measure=uniques",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 0 0 = 0"#]],
    );
    check(
        "metric=nothing step=day measure=avg",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : - - = -"#]],
    );
    check(
        "metric=nothing step=day measure=p90",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : - - = -"#]],
    );
    check("metric=nothing step=day by=country", expect!["day UTC: 11-18T00:00Z 11-19T00:00Z"]);
}

#[test]
fn built_in_metrics() {
    check(
        "metric=events step=day",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 3 5 = 8"#]],
    );
    check(
        "metric=players step=day",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 2 2 = 3"#]],
    );
    check(
        "metric=sessions step=day",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 0 1 = 1"#]],
    );
    check(
        "metric=views step=day",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 1 2 = 3"#]],
    );
    check(
        "metric=play_time_s step=day",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 0 420 = 420"#]],
    );
    check(
        "metric=play_time_s step=day measure=count",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 0 1 = 1"#]],
    );
    check(
        "metric=online step=day",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 1 1 = 1"#]],
    );
    check(
        "metric=online step=day by=country",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        DE: 1 0 = 1
        FR: 1 1 = 1
        TR: 0 1 = 1
        (other): 0 1 = 1"#]],
    );
}

#[test]
fn player_is_online_for_three_minutes() {
    check_events(
        "2026-11-19T13:00Z a player=ann
         2026-11-19T13:01Z a player=bo
         2026-11-19T13:02Z a player=ann
         2026-11-19T13:06Z a player=ann",
        "metric=online step=minute from=2026-11-19T12:59:00Z to=2026-11-19T13:09:00Z",
        expect![[r#"
            minute UTC: 11-19T12:59Z 11-19T13:00Z 11-19T13:01Z 11-19T13:02Z 11-19T13:03Z 11-19T13:04Z 11-19T13:05Z 11-19T13:06Z 11-19T13:07Z 11-19T13:08Z
            : 0 1 2 2 2 1 0 1 1 1 = 2"#]],
    );
    check_events(
        "2026-11-19T12:59Z a player=ann",
        "metric=online step=minute from=2026-11-19T13:00:00Z to=2026-11-19T13:03:00Z",
        expect![[r#"
            minute UTC: 11-19T13:00Z 11-19T13:01Z 11-19T13:02Z
            : 1 1 0 = 1"#]],
    );
}

#[test]
fn series_by_one_dimension() {
    check(
        "metric=plays step=day by=country",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        FR: 1 1 = 2
        DE: 1 0 = 1
        TR: 0 1 = 1
        (other): 0 1 = 1"#]],
    );
    check(
        "metric=plays step=day by=country top=2",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        FR: 1 1 = 2
        DE: 1 0 = 1
        (other): 0 2 = 2"#]],
    );
    check(
        "metric=plays step=day by=country top=1 measure=uniques",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        DE: 1 0 = 1
        (other): 1 2 = 2"#]],
    );
    check(
        "metric=plays step=day by=country top=1 measure=avg",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        DE: 30 - = 30
        (other): 10 8 = 8.666666666666666"#]],
    );
    check(
        "metric=views step=day by=country",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        FR: 1 1 = 2
        TR: 0 1 = 1"#]],
    );
    check(
        "metric=views step=day by=platform",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        web: 1 1 = 2
        : 0 1 = 1"#]],
    );
}

#[test]
fn filtered_by_dimension_values() {
    check(
        "metric=plays step=day where.country=FR",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 1 1 = 2"#]],
    );
    check(
        "metric=plays step=day where.country=FR,DE,FR",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 2 1 = 3"#]],
    );
    check(
        "metric=plays step=day where.country=FR,DE by=country",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        FR: 1 1 = 2
        DE: 1 0 = 1"#]],
    );
    check(
        "metric=players step=day where.country=FR,TR",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 1 2 = 2"#]],
    );
    check(
        "metric=plays step=day where.country=",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 0 0 = 0"#]],
    );
}

#[test]
fn series_by_several_dimensions() {
    check(
        "metric=plays step=day by=country,platform",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        (other)/web: 0 1 = 1
        DE/ios: 1 0 = 1
        FR/ios: 0 1 = 1
        FR/web: 1 0 = 1
        TR/web: 0 1 = 1"#]],
    );
    check(
        "metric=plays step=day by=platform where.country=FR,TR measure=sum",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        ios: 0 20 = 20
        web: 10 0 = 10"#]],
    );
    check(
        "metric=plays step=day where.country=FR where.platform=web,ios measure=avg",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 10 20 = 15"#]],
    );
    check(
        "metric=plays step=day by=country where.platform=web",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        FR: 1 0 = 1
        TR: 0 1 = 1
        (other): 0 1 = 1"#]],
    );
    check(
        "metric=players step=day by=country where.platform=web",
        expect![
            "measure: players cannot be counted over several dimensions; use a single dimension in `by` and `where`"
        ],
    );
}

#[test]
fn series_by_event() {
    check(
        "metric=events step=day by=event",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        $play: 2 3 = 5
        $view: 1 2 = 3"#]],
    );
    check(
        "metric=players step=day by=event",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        $play: 2 2 = 3
        $view: 1 1 = 2"#]],
    );
    check(
        "metric=events step=day by=event top=1",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        $play: 2 3 = 5
        (other): 1 2 = 3"#]],
    );
    check(
        "metric=events step=day by=event,country top=3",
        expect![[r#"
            day UTC: 11-18T00:00Z 11-19T00:00Z
            $play/FR: 1 1 = 2
            $view/FR: 1 1 = 2
            $play/(other): 0 1 = 1
            (other)/(other): 1 2 = 3"#]],
    );
    check(
        "metric=events step=day where.event=$view,$session",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 1 2 = 3"#]],
    );
    check(
        "metric=players step=day where.event=$view,$play",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 2 2 = 3"#]],
    );
    check(
        "metric=events step=day by=country where.event=$view",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        FR: 1 1 = 2
        TR: 0 1 = 1"#]],
    );
    check(
        "metric=plays step=day by=event",
        expect!["by: event is supported only for the metrics events and players"],
    );
    check(
        "metric=plays step=day where.event=$view",
        expect!["where.event: event is supported only for the metrics events and players"],
    );
}

#[test]
fn formulas_over_metrics() {
    check(
        "A=plays B=views formula=A/B step=day",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 2 1.5 = 1.6666666666666667"#]],
    );
    check(
        "A=plays B=views formula=A/B step=day by=country",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        FR: 1 1 = 1
        TR: - 1 = 1
        DE: - - = -
        (other): - - = -"#]],
    );
    check(
        "A=plays B=views formula=(A+B)*2_-_-1/4 step=day",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 6.25 10.25 = 16.25"#]],
    );
    check(
        "A=plays:avg B=views formula=A+B step=day",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 21 10 = 17"#]],
    );
    check(
        "metric=plays metric=views formula=plays/views*100 step=all",
        expect![[r#"
        all UTC: 11-18T00:00Z
        : 166.66666666666669 = 166.66666666666669"#]],
    );
    check(
        "A=plays B=views:uniques step=day by=country top=2",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        A/FR: 1 1 = 2
        A/DE: 1 0 = 1
        A/(other): 0 2 = 2
        B/FR: 1 0 = 1
        B/DE: 0 0 = 0
        B/(other): 0 1 = 1"#]],
    );
}

#[test]
fn invalid_formulas() {
    check(
        "A=plays formula=A+",
        expect![[r#"formula: expected a number, a name or "(", found the end of the formula"#]],
    );
    check("A=plays formula=A)", expect![[r#"formula: expected an operator, found ")" at position 2"#]]);
    check("A=plays formula=(A", expect![[r#"formula: expected ")", found the end of the formula"#]]);
    check("A=plays formula=A_A", expect![[r#"formula: expected an operator, found "A" at position 3"#]]);
    check(
        "A=plays formula=B",
        expect![[r#"formula: unknown metric "B"; use the name of a metric of this query"#]],
    );
    check("A=plays formula=1.2.3", expect![[r#"formula: "1.2.3" is not a number"#]]);
    check(
        "A=plays formula=",
        expect![[r#"formula: expected a number, a name or "(", found the end of the formula"#]],
    );
    check(
        "A=plays formula=é",
        expect![[r#"formula: expected a number, a name or "(", found "é" at position 1"#]],
    );
}

#[test]
fn errors_name_the_field() {
    check(
        "step=day",
        expect![
            "metric: is required; use an event name or one of events, players, sessions, views, plays, play_time_s, online"
        ],
    );
    check("metric= step=day", expect!["metric: must be between 1 and 200 bytes long"]);
    check(
        "metric=plays tz=Mars/Olympus",
        expect![[r#"tz: unknown time zone "Mars/Olympus"; use an IANA name such as Europe/Paris"#]],
    );
    check("metric=plays step=day top=0", expect!["top: must be between 1 and 1000"]);
    check("metric=plays step=day top=1001", expect!["top: must be between 1 and 1000"]);
    check(
        "metric=plays last=60m",
        expect!["last: cannot be combined with `from` or `to`; remove `last` or both of them"],
    );
    check(
        "metric=players measure=sum",
        expect!["measure: players has no values to measure; remove `measure`"],
    );
    check(
        "metric=events measure=avg",
        expect!["measure: events has no values to measure; use count or uniques, or name an event"],
    );
    check("metric=plays by=country,country", expect!["by: country is listed twice"]);
    check(
        "metric=plays where.country=FR where.country=DE",
        expect!["where.country: is set twice; list all values in one filter"],
    );
    check(
        "A=plays A=views",
        expect![[r#"metrics[1].as: two metrics are named "A"; set a different `as` for each"#]],
    );
    check(
        "A=plays B=online:sum",
        expect!["metrics[1].measure: online has no values to measure; remove `measure`"],
    );
    check_events(
        "",
        "metric=plays from=2026-11-20T00:00:00Z to=2026-11-20T00:00:00Z",
        expect!["from: must be before `to`"],
    );
    check_events("", "metric=plays from=2026-11-21T00:00:00Z", expect!["from: must be before `to`"]);
    check_events(
        "",
        "metric=plays to=1969-11-20T00:00:00Z",
        expect!["to: must be between the years 1970 and 2200"],
    );
    check_events(
        "",
        "metric=plays to=2300-11-20T00:00:00Z",
        expect!["to: must be between the years 1970 and 2200"],
    );
    check_events(
        "",
        "metric=plays step=minute from=2020-01-01T00:00:00Z",
        expect![
            "step: 3622355 buckets in up to 1 series exceed 1000000 points; use a wider step, a shorter window or a smaller `top`"
        ],
    );
    check_events(
        "",
        "metric=plays step=minute last=30d by=country",
        expect![
            "step: 43200 buckets in up to 51 series exceed 1000000 points; use a wider step, a shorter window or a smaller `top`"
        ],
    );
    check_events(
        "",
        "metric=online step=day last=700d",
        expect![
            "last: online is counted per minute and 1008755 minutes exceed the limit; use a shorter window"
        ],
    );
    check_events(
        "",
        "metric=plays last=100w compare=year from=1970-11-20T00:00:00Z",
        expect!["last: cannot be combined with `from` or `to`; remove `last` or both of them"],
    );
    check_events(
        "",
        "metric=plays to=1970-11-20T00:00:00Z compare=year",
        expect!["compare: the compared window would start before 1970"],
    );
}

/// Checks the default window of a query.
fn check_window(text: &str, expected: Expect) {
    let answer = answer(&Store::default(), &format!("metric=plays {text}")).expect("a valid query");
    let window = query(&format!("metric=plays {text}"))
        .plan(i64::from(minute("2026-11-20T12:34Z")) * 60_000 + 56_000, "UTC")
        .expect("a valid query")
        .window();
    let at =
        |minute: u32| Timestamp::from_second(i64::from(minute) * 60).expect("a time").strftime("%m-%dT%H:%M");
    let (step, points) = (answer.step.label(), answer.times.minutes.len());
    expected.assert_eq(&format!("{}..{} {points} by {step}", at(window.start), at(window.end)));
}

#[test]
fn windows_end_with_the_minute_of_now() {
    check_window("", expect!["11-19T12:35..11-20T12:35 25 by hour"]);
    check_window("step=minute", expect!["11-19T12:35..11-20T12:35 1440 by minute"]);
    check_window("step=all", expect!["11-19T12:35..11-20T12:35 1 by all"]);
    check_window("last=60m", expect!["11-20T11:35..11-20T12:35 60 by minute"]);
    check_window("last=24h step=hour", expect!["11-19T12:00..11-20T12:35 25 by hour"]);
    check_window("last=24h step=minute", expect!["11-19T12:35..11-20T12:35 1440 by minute"]);
    check_window("last=7d step=day", expect!["11-13T00:00..11-20T12:35 8 by day"]);
    check_window("last=7d step=day tz=Asia/Kolkata", expect!["11-12T18:30..11-20T12:35 8 by day"]);
    check_window("last=30d", expect!["10-21T00:00..11-20T12:35 31 by day"]);
    check_window("last=4w step=week", expect!["10-19T00:00..11-20T12:35 5 by week"]);
    check_window("last=365d", expect!["11-20T00:00..11-20T12:35 366 by day"]);
    check_window("last=365d step=month", expect!["11-01T00:00..11-20T12:35 13 by month"]);
    check_window("last=3650d", expect!["11-01T00:00..11-20T12:35 121 by month"]);
    check_window("last=7d step=all", expect!["11-13T12:35..11-20T12:35 1 by all"]);
    check_window("to=2026-11-20T00:00:00Z", expect!["11-19T00:00..11-20T00:00 24 by hour"]);
}

/// Counts one play per minute of the window, so the values are the lengths of the buckets in minutes.
fn check_lengths(text: &str, expected: Expect) {
    let query = query(&format!("metric=plays {text}"));
    let window = query.plan(0, "UTC").expect("a valid query").window();
    let mut store = Store::default();
    for minute in window {
        let event = TestEvent { minute, ..TestEvent::default() };
        store.add_row("$play", Cut::Total, "", &event, None);
    }
    let plan = query.plan(0, "UTC").expect("a valid query");
    expected.assert_eq(&show(&run(&plan, GAME, &store, None, &Unbounded).expect("the store does not fail")));
}

#[test]
fn days_have_23_to_25_hours_at_clock_changes() {
    check_lengths(
        "step=day tz=Europe/Paris from=2026-03-27T23:00:00Z to=2026-03-30T22:00:00Z",
        expect![[r#"
            day Europe/Paris: 03-28T00:00+01:00 03-29T00:00+01:00 03-30T00:00+02:00
            : 1440 1380 1440 = 4260"#]],
    );
    check_lengths(
        "step=day tz=America/New_York from=2026-10-31T04:00:00Z to=2026-11-03T05:00:00Z",
        expect![[r#"
            day America/New_York: 10-31T00:00-04:00 11-01T00:00-04:00 11-02T00:00-05:00
            : 1440 1500 1440 = 4380"#]],
    );
    check_lengths(
        "step=day tz=Australia/Lord_Howe from=2026-04-03T13:00:00Z to=2026-04-06T13:30:00Z",
        expect![[r#"
            day Australia/Lord_Howe: 04-04T00:00+11:00 04-05T00:00+11:00 04-06T00:00+10:30
            : 1440 1470 1440 = 4350"#]],
    );
    check_lengths(
        "step=day tz=Asia/Kolkata from=2026-01-01T18:30:00Z to=2026-01-03T18:30:00Z",
        expect![[r#"
            day Asia/Kolkata: 01-02T00:00+05:30 01-03T00:00+05:30
            : 1440 1440 = 2880"#]],
    );
    check_lengths(
        "step=day tz=Asia/Kathmandu from=2026-01-01T18:15:00Z to=2026-01-03T00:00:00Z",
        expect![[r#"
            day Asia/Kathmandu: 01-02T00:00+05:45 01-03T00:00+05:45
            : 1440 345 = 1785"#]],
    );
}

#[test]
fn skipped_midnights_and_skipped_days() {
    check_lengths(
        "step=day tz=America/Sao_Paulo from=2018-11-03T03:00:00Z to=2018-11-05T02:00:00Z",
        expect![[r#"
            day America/Sao_Paulo: 11-03T00:00-03:00 11-04T01:00-02:00
            : 1440 1380 = 2820"#]],
    );
    check_lengths(
        "step=day tz=Pacific/Apia from=2011-12-28T10:00:00Z to=2012-01-01T10:00:00Z",
        expect![[r#"
        day Pacific/Apia: 12-28T00:00-10:00 12-29T00:00-10:00 12-31T00:00+14:00 01-01T00:00+14:00
        : 1440 1440 1440 1440 = 5760"#]],
    );
}

#[test]
fn hours_follow_local_clocks() {
    check_lengths(
        "step=hour tz=Europe/Paris from=2026-10-24T23:00:00Z to=2026-10-25T03:00:00Z",
        expect![[r#"
            hour Europe/Paris: 10-25T01:00+02:00 10-25T02:00+02:00 10-25T02:00+01:00 10-25T03:00+01:00
            : 60 60 60 60 = 240"#]],
    );
    check_lengths(
        "step=hour tz=Australia/Lord_Howe from=2026-04-04T13:30:00Z to=2026-04-04T17:00:00Z",
        expect![[r#"
            hour Australia/Lord_Howe: 04-05T00:00+11:00 04-05T01:00+11:00 04-05T01:30+10:30 04-05T02:00+10:30 04-05T03:00+10:30
            : 30 60 30 60 30 = 210"#]],
    );
    check_lengths(
        "step=hour tz=Australia/Lord_Howe from=2026-10-03T14:30:00Z to=2026-10-03T17:00:00Z",
        expect![[r#"
            hour Australia/Lord_Howe: 10-04T01:00+10:30 10-04T02:30+11:00 10-04T03:00+11:00
            : 60 30 60 = 150"#]],
    );
    check_lengths(
        "step=hour tz=Asia/Kolkata from=2026-01-01T10:00:00Z to=2026-01-01T12:40:00Z",
        expect![[r#"
            hour Asia/Kolkata: 01-01T15:00+05:30 01-01T16:00+05:30 01-01T17:00+05:30 01-01T18:00+05:30
            : 30 60 60 10 = 160"#]],
    );
}

/// A month before 28 March 01:00 is 28 February 01:00, and so far before 29 March 00:30 it is 28 February 00:30.
#[test]
fn compared_window_in_a_shorter_month_does_not_end_before_it_starts() {
    let minute = |text: &str| (text.parse::<jiff::Timestamp>().expect("a time").as_second() / 60) as u32;
    let window = minute("2026-03-28T01:00Z")..minute("2026-03-29T00:30Z");
    let zone = jiff::tz::TimeZone::UTC;
    let previous = Buckets::cut(&zone, Step::Month, window).previous(&zone, Step::Month).expect("after 1970");
    let start = minute("2026-02-28T01:00Z");
    assert_eq!(previous.window(), start..start);
}

#[test]
fn weeks_start_on_monday_and_months_on_the_first() {
    check_lengths(
        "step=week tz=Europe/Paris from=2026-03-19T10:00:00Z to=2026-04-02T00:00:00Z",
        expect![[r#"
            week Europe/Paris: 03-16T00:00+01:00 03-23T00:00+01:00 03-30T00:00+02:00
            : 5100 10020 4440 = 19560"#]],
    );
    check_lengths(
        "step=month tz=America/New_York from=2026-02-01T05:00:00Z to=2026-05-01T04:00:00Z",
        expect![[r#"
            month America/New_York: 02-01T00:00-05:00 03-01T00:00-05:00 04-01T00:00-04:00
            : 40320 44580 43200 = 128100"#]],
    );
}

#[test]
fn first_and_last_bucket_are_clipped_to_the_window() {
    check_lengths(
        "step=hour from=2026-01-01T10:20:00Z to=2026-01-01T12:40:00Z",
        expect![[r#"
        hour UTC: 01-01T10:00Z 01-01T11:00Z 01-01T12:00Z
        : 40 60 40 = 140"#]],
    );
    check_lengths(
        "step=day from=2026-01-01T10:20:00Z to=2026-01-02T00:01:00Z",
        expect![[r#"
        day UTC: 01-01T00:00Z 01-02T00:00Z
        : 820 1 = 821"#]],
    );
}

#[test]
fn previous_window_is_compared() {
    check(
        "metric=plays step=day compare=previous",
        expect![[r#"
        day UTC: 11-18T00:00Z 11-19T00:00Z
        : 2 3 = 5
        before: 11-16T00:00Z 11-17T00:00Z
        : 0 0 = 0"#]],
    );
    check_events(
        TWO_DAYS,
        "metric=plays by=country from=2026-11-19T00:00:00Z to=2026-11-20T00:00:00Z step=all compare=previous",
        expect![[r#"
            all UTC: 11-19T00:00Z
            FR: 1 = 1
            TR: 1 = 1
            (other): 1 = 1
            before: 11-18T00:00Z
            FR: 1 = 1
            TR: 0 = 0
            (other): 1 = 1"#]],
    );
    check_events(
        TWO_DAYS,
        "metric=plays from=2026-11-19T00:30:00Z to=2026-11-19T02:00:00Z step=hour compare=previous",
        expect![[r#"
            hour UTC: 11-19T00:00Z 11-19T01:00Z
            : 1 0 = 1
            before: 11-18T22:30Z 11-18T23:30Z
            : 0 0 = 0"#]],
    );
    check_events(
        "",
        "metric=plays from=2026-03-29T00:00:00Z to=2026-03-30T10:00:00Z step=day tz=Europe/Paris compare=previous",
        expect![[r#"
            day Europe/Paris: 03-29T00:00+01:00 03-30T00:00+02:00
            : 0 0 = 0
            before: 03-27T00:00+01:00 03-28T00:00+01:00
            : 0 0 = 0"#]],
    );
    check_events(
        "",
        "metric=plays from=2026-03-01T00:00:00Z to=2026-03-31T12:00:00Z step=month compare=previous",
        expect![[r#"
            month UTC: 03-01T00:00Z
            : 0 = 0
            before: 02-01T00:00Z
            : 0 = 0"#]],
    );
    check_events(
        "",
        "metric=plays last=1d step=week compare=year",
        expect![[r#"
        week UTC: 11-16T00:00Z
        : 0 = 0
        before: 11-17T00:00Z
        : 0 = 0"#]],
    );
    check_events(
        "",
        "metric=plays to=2024-02-29T12:00:00Z from=2024-02-29T10:00:00Z step=hour compare=year",
        expect![[r#"
        hour UTC: 02-29T10:00Z 02-29T11:00Z
        : 0 0 = 0
        before: 02-28T10:00Z 02-28T11:00Z
        : 0 0 = 0"#]],
    );
}

/// A random event: time, name, country, player and value.
fn any_event(minutes: Range<u32>) -> impl Strategy<Value = TestEvent> {
    let value = prop::option::of((-1000i32..1000).prop_map(f64::from));
    let words =
        (prop::sample::select(vec!["a", "b"]), prop::sample::select(vec!["", "DE", "FR", "TR", "US"]));
    (minutes, words, prop::option::of(0..9u8), value).prop_map(|(minute, (name, country), player, value)| {
        let mut event = TestEvent { minute, name: name.to_owned(), value, ..TestEvent::default() };
        event.player = player.map(|player| player.to_string());
        event.dimensions[0] = country.to_owned();
        event
    })
}

/// Events, a window, a time zone and a step. The windows include clock changes.
fn any_case() -> impl Strategy<Value = (Vec<TestEvent>, Range<u32>, &'static str, Step)> {
    let zones = [
        ("UTC", "2026-03-28T20:00Z"),
        ("Europe/Paris", "2026-03-28T20:00Z"),
        ("Europe/Paris", "2026-10-24T20:00Z"),
        ("America/New_York", "2026-03-08T01:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T10:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T10:00Z"),
        ("Asia/Kolkata", "2026-03-31T10:00Z"),
        ("Asia/Kathmandu", "2026-02-27T10:00Z"),
        ("America/Sao_Paulo", "2018-11-03T20:00Z"),
        ("Pacific/Apia", "2011-12-29T20:00Z"),
    ];
    let length = prop::sample::select(vec![(Step::Minute, 300u32), (Step::Hour, 2_900), (Step::Day, 9_000)]);
    let length = prop_oneof![4 => length, 1 => prop::sample::select(vec![(Step::Week, 30_000), (Step::Month, 90_000)])];
    (prop::sample::select(zones.to_vec()), length).prop_flat_map(|((zone, around), (step, length))| {
        let from = minute(around);
        let all = from..from + length;
        let window =
            (0..length / 2, 1..length / 2).prop_map(move |(start, len)| from + start..from + start + len);
        (prop::collection::vec(any_event(all), 0..80), window, Just(zone), Just(step))
    })
}

/// Returns a key that is equal for all minutes of one bucket, read from local clocks.
fn bucket_of(zone: &TimeZone, step: Step, minute: u32) -> (DateTime, i32) {
    let timestamp = Timestamp::from_second(i64::from(minute) * 60).expect("a time");
    let local = zone.to_datetime(timestamp);
    let date = local.date();
    let monday = date.checked_sub(Span::new().days(date.weekday().to_monday_zero_offset())).expect("a date");
    match step {
        // An hour that clocks show twice is two hours.
        Step::Minute => (local, zone.to_offset(timestamp).seconds()),
        Step::Hour => (date.at(local.hour(), 0, 0, 0), zone.to_offset(timestamp).seconds()),
        Step::Day => (date.into(), 0),
        Step::Week => (monday.into(), 0),
        Step::Month => (date.first_of_month().into(), 0),
        Step::All => (DateTime::MIN, 0),
    }
}

fn measure_of(events: &[&TestEvent], measure: Measure) -> Option<f64> {
    let mut values: Vec<f64> = events.iter().filter_map(|event| event.value).collect();
    values.sort_by(f64::total_cmp);
    let share = |share: f64| values.get(((share * values.len() as f64).ceil() as usize).max(1) - 1).copied();
    match measure {
        Measure::Count => Some(events.len() as f64),
        Measure::Sum => Some(values.iter().sum()),
        Measure::Min => values.first().copied(),
        Measure::Max => values.last().copied(),
        Measure::Avg => (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64),
        Measure::Uniques => {
            Some(events.iter().filter_map(|event| event.player.as_ref()).collect::<BTreeSet<_>>().len() as f64)
        }
        Measure::P10 => share(0.1),
        Measure::P50 => share(0.5),
        Measure::P90 => share(0.9),
        Measure::P99 => share(0.99),
        Measure::Last => {
            let newest = events.iter().filter(|event| event.value.is_some()).map(|event| event.minute).max();
            let values =
                events.iter().filter(|event| Some(event.minute) == newest).filter_map(|event| event.value);
            values.max_by(f64::total_cmp)
        }
    }
}

/// Returns the maximum number of players active in the three minutes up to one of these minutes.
fn online_of(events: &[TestEvent], minutes: impl Iterator<Item = u32>) -> f64 {
    let online = |minute: u32| {
        let seen = events.iter().filter(|event| (minute - 2..=minute).contains(&event.minute));
        seen.filter_map(|event| event.player.as_ref()).collect::<BTreeSet<_>>().len()
    };
    minutes.map(online).max().unwrap_or(0) as f64
}

fn near(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() <= 0.0101 * other.abs(),
        (one, other) => one == other,
    }
}

fn query_of(metric: &str, measure: Option<Measure>, window: &Range<u32>, zone: &str, step: Step) -> Query {
    Query {
        metrics: vec![MetricQuery { metric: metric.to_owned(), measure, as_name: None }],
        from_ms: Some(i64::from(window.start) * 60_000),
        until_ms: Some(i64::from(window.end) * 60_000),
        step: Some(step),
        tz: Some(zone.to_owned()),
        ..Query::default()
    }
}

fn run_over(store: &Store, query: &Query) -> QueryResult {
    let plan = query.plan(0, "UTC").expect("a valid query");
    run(&plan, GAME, store, None, &Unbounded).expect("the store does not fail")
}

proptest! {
    #[test]
    fn query_result_matches_a_recount((events, window, name, step) in any_case(), backwards: bool) {
        let store = Store { backwards, ..Store::of(&events) };
        let zone = TimeZone::get(name).expect("a zone");
        let mut buckets: Vec<((DateTime, i32), Range<u32>)> = Vec::new();
        for minute in window.clone() {
            let bucket = bucket_of(&zone, step, minute);
            match buckets.last_mut() {
                Some((last, minutes)) if *last == bucket => minutes.end = minute + 1,
                _ => buckets.push((bucket, minute..minute + 1)),
            }
        }
        let of = |minutes: &Range<u32>| -> Vec<&TestEvent> {
            events.iter().filter(|event| event.name == "a" && minutes.contains(&event.minute)).collect()
        };
        for measure in Measure::ALL {
            let answer = run_over(&store, &query_of("a", Some(measure), &window, name, step));
            prop_assert_eq!(answer.times.minutes.len(), buckets.len());
            prop_assert!(near(answer.series[0].total, measure_of(&of(&window), measure)));
            for (value, (_, minutes)) in answer.series[0].values.iter().zip(&buckets) {
                let recounted = measure_of(&of(minutes), measure);
                prop_assert!(near(*value, recounted), "{measure:?} {minutes:?}: {value:?} is {recounted:?}");
            }
        }
        let online = run_over(&store, &query_of("online", None, &window, name, step));
        for (value, (_, minutes)) in online.series[0].values.iter().zip(&buckets) {
            prop_assert_eq!(*value, Some(online_of(&events, minutes.clone())));
        }
    }

    #[test]
    fn top_series_and_the_rest_add_up_to_the_total(
        (events, window, name, step) in any_case(),
        backwards: bool,
        top in 1..6usize,
        by in prop::sample::select(vec![QueryDimension::BuiltIn(Dimension::Country), QueryDimension::Event]),
    ) {
        let store = Store { backwards, ..Store::of(&events) };
        let query = query_of("events", Some(Measure::Count), &window, name, step);
        let total = run_over(&store, &query);
        let parts = run_over(&store, &Query { by: vec![by], top: Some(top), ..query });
        let sum = |of: &dyn Fn(&Series) -> Option<f64>| parts.series.iter().filter_map(of).sum::<f64>();
        prop_assert_eq!(Some(sum(&|series| series.total)), total.series[0].total);
        for (bucket, value) in total.series[0].values.iter().enumerate() {
            prop_assert_eq!(Some(sum(&|series| series.values[bucket])), *value);
        }
        let ranked: Vec<_> = parts.series.iter().take(top).map(|series| series.total).collect();
        prop_assert!(ranked.is_sorted_by(|one, other| one >= other));
        prop_assert!(parts.series.len() <= top + 1);
    }

    #[test]
    fn players_of_the_rest_are_counted_once((events, window, name, step) in any_case(), top in 1..3usize) {
        let query = query_of("a", Some(Measure::Uniques), &window, name, step);
        let by = vec![QueryDimension::BuiltIn(Dimension::Country)];
        let answer = run_over(&Store::of(&events), &Query { by, top: Some(top), ..query });
        let own: Vec<&str> = answer.series.iter().take(top).map(|series| &series.key[0].1[..]).collect();
        let rest: Vec<&TestEvent> = events
            .iter()
            .filter(|event| event.name == "a" && window.contains(&event.minute))
            .filter(|event| !own.contains(&&event.dimensions[0][..]))
            .collect();
        prop_assert_eq!(answer.series.len() > top, !rest.is_empty());
        let Some(other) = answer.series.get(top) else { return Ok(()) };
        prop_assert_eq!(other.total, measure_of(&rest, Measure::Uniques));
        let ends = answer.times.minutes[1..].iter().chain([&window.end]);
        for ((start, end), value) in answer.times.minutes.iter().zip(ends).zip(&other.values) {
            let here = rest.iter().copied().filter(|event| (*start..*end).contains(&event.minute));
            prop_assert_eq!(*value, measure_of(&here.collect::<Vec<_>>(), Measure::Uniques));
        }
    }

    #[test]
    fn previous_window_has_as_many_buckets_and_is_never_later((_, window, name, step) in any_case()) {
        let query = Query { compare: Some(CompareWith::Previous), ..query_of("a", None, &window, name, step) };
        let answer = run_over(&Store::default(), &query);
        let (before, now) = (answer.compare.expect("the query compares").times.minutes, answer.times.minutes);
        prop_assert_eq!(before.len(), now.len());
        // A day that a zone skipped is an empty bucket at the start of the next.
        prop_assert!(before.iter().zip(&now).all(|(before, now)| before <= now));
        if matches!(step, Step::Minute | Step::Hour) {
            prop_assert_eq!((now[0] - before[0]) as usize, window.len());
        }
    }
}

const WEAPONS: &str = "
    2026-11-18T10:00Z $play player=ann country=FR weapon=bow value=1
    2026-11-18T10:01Z $play player=bo country=DE weapon=bow value=2
    2026-11-18T10:02Z $play player=ann country=FR weapon=axe value=4
    2026-11-18T10:03Z $play player=ann country=FR weapon=(other) value=8
    2026-11-19T10:03Z start player=ann country=FR weapon=axe
    2026-11-19T10:04Z $play player=cem country=TR value=16";

fn check_weapons(text: &str, expected: Expect) {
    check_events(WEAPONS, &format!("{WINDOW} {text}"), expected);
}

#[test]
fn declared_dimension_splits_like_a_built_in_one() {
    check_weapons(
        "metric=plays step=all measure=sum by=weapon",
        expect![[r#"
            all UTC: 11-18T00:00Z
            axe: 4 = 4
            bow: 3 = 3
            (other): 8 = 8"#]],
    );
    check_weapons(
        "metric=players step=day where.weapon=bow,axe",
        expect![[r#"
            day UTC: 11-18T00:00Z 11-19T00:00Z
            : 2 1 = 2"#]],
    );
    check_weapons(
        "metric=events step=all by=weapon where.weapon=axe",
        expect![[r#"
            all UTC: 11-18T00:00Z
            axe: 2 = 2"#]],
    );
    check_weapons(
        "metric=events step=all by=event,weapon where.event=$play,start top=2",
        expect![[r#"
            all UTC: 11-18T00:00Z
            $play/bow: 2 = 2
            $play/(other): 1 = 1
            (other)/(other): 2 = 2"#]],
    );
}

#[test]
fn declared_dimension_cannot_be_combined_with_another() {
    let message = "cannot be combined with another dimension; query it alone";
    let error_of =
        |text: &str| answer(&Store::default(), text).expect_err("the query is invalid").to_string();
    assert_eq!(error_of("metric=plays by=weapon,country"), format!("by: weapon {message}"));
    assert_eq!(
        error_of("metric=plays by=country where.weapon=axe"),
        format!("where.weapon: weapon {message}")
    );
    assert_eq!(error_of("metric=plays by=variant,weapon"), format!("by: variant {message}"));
}

#[test]
fn undeclared_dimension_is_unknown() {
    assert_eq!(by("armour"), None);
    assert_eq!(QueryDimension::from_label("weapon", &[]), None);
    assert_eq!(by("variant").map(|by| by.label().to_owned()).as_deref(), Some("variant"));
}

/// Creates links from `(anonymous, player)` pairs.
fn links(pairs: &[(&str, &str)]) -> std::sync::Arc<Links> {
    let identities = Identities::default();
    let id = |id: &str| hash_player(1, id.as_bytes());
    for (anonymous, player) in pairs {
        identities.link(GAME, id(anonymous), id(player), 0).expect("the id is not linked");
    }
    identities.game(GAME).expect("a link exists")
}

fn check_linked(text: &str, expected: Expect) {
    let query = query(&format!("{WINDOW} {text}"));
    let plan = query.plan(0, "UTC").expect("a valid query");
    let store = Store::of(&parse_events(TWO_DAYS));
    let answer = run(&plan, GAME, &store, Some(&links(&[("bo", "ann"), ("cem", "ann")])), &Unbounded);
    expected.assert_eq(&show(&answer.expect("the store does not fail")));
}

#[test]
fn linked_player_is_counted_once_even_before_the_link() {
    check_linked(
        "metric=players step=day",
        expect![[r#"
            day UTC: 11-18T00:00Z 11-19T00:00Z
            : 1 1 = 1"#]],
    );
    check_linked(
        "metric=players step=day by=country",
        expect![[r#"
            day UTC: 11-18T00:00Z 11-19T00:00Z
            DE: 1 0 = 1
            FR: 1 1 = 1
            TR: 0 1 = 1
            (other): 0 1 = 1"#]],
    );
    check_linked(
        "metric=online step=all",
        expect![[r#"
            all UTC: 11-18T00:00Z
            : 1 = 1"#]],
    );
    check_linked(
        "metric=plays step=all",
        expect![[r#"
            all UTC: 11-18T00:00Z
            : 5 = 5"#]],
    );
}

proptest! {
    #[test]
    fn linked_ids_count_as_one_player(
        (events, window, name, step) in any_case(),
        pairs in prop::collection::vec((0..6usize, 0..6usize), 0..4),
    ) {
        let identities = Identities::default();
        let names: Vec<String> =
            events.iter().filter_map(|event| event.player.clone()).collect::<BTreeSet<_>>().into_iter().collect();
        let id = |name: &str| hash_player(1, name.as_bytes());
        for (anonymous, player) in pairs {
            if let (Some(anonymous), Some(player)) = (names.get(anonymous), names.get(player)) {
                let _ = identities.link(GAME, id(anonymous), id(player), 0);
            }
        }
        let links = identities.game(GAME);
        let resolve = |name: &String| {
            let player = links.as_ref().map_or(id(name), |links| links.player(id(name)));
            names.iter().find(|other| id(other) == player).expect("players are among them").clone()
        };
        let renamed: Vec<TestEvent> = events
            .iter()
            .map(|event| TestEvent { player: event.player.as_ref().map(resolve), ..event.clone() })
            .collect();
        for metric in ["players", "online"] {
            let query = query_of(metric, None, &window, name, step);
            let plan = query.plan(0, "UTC").expect("a valid query");
            let linked = run(&plan, GAME, &Store::of(&events), links.as_deref(), &Unbounded).expect("the store does not fail");
            prop_assert_eq!(linked, run_over(&Store::of(&renamed), &query));
        }
    }
}
