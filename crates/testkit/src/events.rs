//! Generated events, and a simple recount to compare rollups with.

use std::collections::{BTreeMap, BTreeSet};

use model::Dimension;
use model::batch::{DeclaredValues, StoredEvent};
use model::deltas::Deltas;
use model::limits::{DECLARED_NUMBER_MAX, VALUES_PER_DIMENSION};
use model::ports::counters::{Counters, SlotSelector};
use model::rollup::{Aggregate, Bucket, ValueStats};
use model::series::{Cut, EVENTS, Resolution, SAMPLE_NAMES, SAMPLES, TUPLE_SEPARATOR, VARIANT};
use proptest::prelude::*;

/// A metric that also counts every event with a player, as sessions do.
pub(crate) const DERIVED: &str = "$session";
/// A metric that also records the value of every event as one sample.
pub(crate) const SAMPLED: &str = "$sampled";
/// A counter of all events.
pub(crate) const PLAIN: &str = "$load";

/// One event, which is one entry of the log.
#[derive(Clone, Debug)]
pub struct TestEvent {
    /// The tenant.
    pub game: u32,
    /// Minutes since 1970-01-01 UTC.
    pub minute: u32,
    /// The event's name.
    pub name: String,
    /// The hash of the player.
    pub player: Option<u64>,
    /// The measured value.
    pub value: Option<f64>,
    /// In the order of [`Dimension::ALL`]; empty if unknown.
    pub dimensions: [String; Dimension::COUNT],
    /// Numbers and values of declared dimensions; each number at most once.
    pub declared: Vec<(u8, String)>,
    /// Number of values of a dimension that the game keeps per day.
    pub values_max: u32,
}

impl TestEvent {
    /// Parses `minute name player country level value`, with `-` for none. A player is one letter.
    pub fn read(line: &str) -> TestEvent {
        let words: Vec<&str> =
            line.split_whitespace().map(|word| if word == "-" { "" } else { word }).collect();
        let [minute, name, player, country, level, value] = words[..] else {
            panic!("{line:?} is not: minute name player country level value");
        };
        let mut dimensions: [String; Dimension::COUNT] = Default::default();
        dimensions[Dimension::Country as usize] = country.to_owned();
        dimensions[Dimension::Level as usize] = level.to_owned();
        TestEvent {
            game: 1,
            minute: minute.parse().expect("a minute"),
            name: name.to_owned(),
            player: player.bytes().next().map(u64::from),
            value: value.parse().ok(),
            dimensions,
            declared: Vec::new(),
            values_max: VALUES_PER_DIMENSION,
        }
    }

    /// Returns the rows that count the event, in all cuts.
    fn rows(&self) -> Vec<(Cut, String)> {
        let by =
            Dimension::ALL.map(|dimension| (Cut::By(dimension), self.dimensions[dimension as usize].clone()));
        let tuple = self.dimensions.join(&TUPLE_SEPARATOR.to_string());
        let declared = self.declared.iter().map(|(number, value)| (Cut::Declared(*number), value.clone()));
        [(Cut::Total, String::new()), (Cut::Tuple, tuple)].into_iter().chain(by).chain(declared).collect()
    }

    /// Returns the metrics that count the event, with the value each of them gets.
    fn metrics(&self) -> Vec<(&str, Option<f64>)> {
        let derived = self.player.map(|_| (DERIVED, self.value));
        let sampled = self.value.map(|value| (SAMPLED, Some(value)));
        [(&self.name[..], self.value), (EVENTS, None)].into_iter().chain(derived).chain(sampled).collect()
    }
}

/// Returns the changes made by these events. The first has the log offset `first`; the others follow one by one.
pub fn deltas_of(events: &[TestEvent], first: u64) -> Deltas {
    let mut deltas = Deltas::default();
    for (offset, event) in (first..).zip(events) {
        let mut declared = Vec::new();
        event
            .declared
            .iter()
            .for_each(|(number, value)| DeclaredValues::push(&mut declared, *number, value.as_bytes()));
        let stored = StoredEvent {
            ts_ms: i64::from(event.minute) * 60_000 + offset as i64 % 60_000,
            name: event.name.as_bytes(),
            value: event.value,
            dimensions: std::array::from_fn(|dimension| event.dimensions[dimension].as_bytes()),
            declared: DeclaredValues::from_bytes(&declared),
            ..StoredEvent::default()
        };
        deltas.set_offset(offset);
        deltas.set_values_max(event.game, event.values_max);
        deltas.add_event(event.game, &stored, event.player);
        if event.player.is_some() {
            deltas.add_derived(event.game, DERIVED, &stored, event.player, event.value);
        }
        if let Some(value) = event.value {
            let mut aggregate = Aggregate::default();
            aggregate.observe(event.player, Some((value, Bucket::of(value))));
            deltas.add_samples(event.game, &StoredEvent { name: SAMPLED.as_bytes(), ..stored }, aggregate);
        }
        deltas.add_count(event.game, PLAIN, event.minute, 1);
    }
    deltas
}

/// Generates events over three days from midnight: most within a few minutes, some at any time, some late.
pub fn events(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<TestEvent>> {
    prop::collection::vec(event(), count)
}

/// The first minute of a day.
pub(crate) const FIRST_MINUTE: u32 = 20_000 * 1_440;

fn event() -> impl Strategy<Value = TestEvent> {
    let minute = prop_oneof![
        4 => 1_435..1_445u32,
        2 => (0..3u32, 0..4u32).prop_map(|(day, minute)| day * 1_440 + 715 + minute * 3),
        1 => 0..3 * 1_440u32,
    ];
    let name = prop::sample::select(vec!["score", "start", "$play", "buy"]);
    let player = prop_oneof![
        1 => Just(None),
        4 => (0..40u64).prop_map(|player| Some(player.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        1 => any::<u64>().prop_map(Some),
    ];
    (1..4u32, minute, name, player, value(), dimensions(), declared()).prop_map(
        |(game, minute, name, player, value, dimensions, declared)| {
            let (minute, name) = (FIRST_MINUTE + minute, name.to_owned());
            let values_max = VALUES_PER_DIMENSION;
            TestEvent { game, minute, name, player, value, dimensions, declared, values_max }
        },
    )
}

fn declared() -> impl Strategy<Value = Vec<(u8, String)>> {
    let number = prop::sample::select(vec![VARIANT, 1, 9, DECLARED_NUMBER_MAX]);
    let value = prop::sample::select(vec!["bow", "axe", "true", "Ω"]).prop_map(str::to_owned);
    prop::collection::btree_map(number, value, 0..3).prop_map(|values| values.into_iter().collect())
}

fn value() -> impl Strategy<Value = Option<f64>> {
    let extreme = [f64::MAX, -f64::MAX, f64::MIN_POSITIVE, 5e-324, -0.0, 1e300, -1e18, 0.1];
    prop_oneof![
        3 => Just(None),
        3 => (-20..1_000i32).prop_map(|value| Some(f64::from(value))),
        2 => (-1e6..1e6f64).prop_map(Some),
        1 => prop::sample::select(extreme.to_vec()).prop_map(Some),
    ]
}

fn dimensions() -> impl Strategy<Value = [String; Dimension::COUNT]> {
    let some = |values: &'static [&'static str]| prop::sample::select(values).prop_map(str::to_owned);
    [
        some(&["", "FR", "DE", "JP"]).boxed(),
        some(&["", "", "friend"]).boxed(),
        some(&["web", "ios"]).boxed(),
        some(&["", "1.0", "1.1"]).boxed(),
        prop_oneof![Just(String::new()), (1..15u32).prop_map(|level| level.to_string()), some(&["Ω niveau"])]
            .boxed(),
    ]
}

/// Panics unless every minute, hour and day of each row matches a recount of the events. Quantiles may be off by 1
/// %.
pub(crate) fn assert_matches_recount(counters: &dyn Counters, events: &[TestEvent]) {
    let mut expected: BTreeMap<(u32, String, Cut), BTreeMap<String, Vec<Counted>>> = BTreeMap::new();
    for event in events {
        for (metric, value) in event.metrics() {
            for (cut, row) in event.rows() {
                let player = event.player.filter(|_| cut != Cut::Tuple);
                let rows = expected.entry((event.game, metric.to_owned(), cut)).or_default();
                rows.entry(row).or_default().push(Counted { minute: event.minute, player, value });
            }
        }
    }
    for event in events.iter().filter(|event| event.value.is_some()) {
        for (cut, row) in [(Cut::Total, ""), (SAMPLE_NAMES, SAMPLED)] {
            let rows = expected.entry((event.game, SAMPLES.to_owned(), cut)).or_default();
            let counted = Counted { minute: event.minute, player: None, value: None };
            rows.entry(row.to_owned()).or_default().push(counted);
        }
    }
    for ((game, metric, cut), rows) in &expected {
        for (resolution, minutes) in [(Resolution::Minute, 1), (Resolution::Hour, 60)] {
            let select = SlotSelector { game: *game, metric, cut: *cut, values: None, resolution };
            compare(&slots(counters, select, minutes), rows, minutes);
        }
        let select =
            SlotSelector { game: *game, metric, cut: *cut, values: None, resolution: Resolution::Hour };
        compare(&slots(counters, select, 1_440), rows, 1_440);
    }
}

/// An event in one row.
struct Counted {
    minute: u32,
    player: Option<u64>,
    value: Option<f64>,
}

type Slots = BTreeMap<(String, u32), Aggregate>;

/// Returns the visited slots, added up to slots of this many minutes.
fn slots(counters: &dyn Counters, select: SlotSelector<'_>, minutes: u32) -> Slots {
    let mut slots = Slots::new();
    let all = FIRST_MINUTE..FIRST_MINUTE + 3 * 1_440;
    let mut visit = |value: &str, minute: u32, aggregate: &Aggregate| {
        slots.entry((value.to_owned(), minute / minutes)).or_default().merge(aggregate);
    };
    counters.visit(select, all, &mut visit).expect("the store does not fail");
    slots
}

fn compare(slots: &Slots, rows: &BTreeMap<String, Vec<Counted>>, minutes: u32) {
    let mut expected: BTreeMap<(String, u32), Vec<&Counted>> = BTreeMap::new();
    for (row, events) in rows {
        for event in events {
            expected.entry((row.clone(), event.minute / minutes)).or_default().push(event);
        }
    }
    assert!(slots.keys().eq(expected.keys()), "slots of {minutes} minutes");
    for (slot, events) in expected {
        let aggregate = &slots[&slot];
        assert_eq!(aggregate.count, events.len() as i64, "{slot:?}");
        let players: BTreeSet<u64> =
            events.iter().filter_map(|event| event.player).map(|hash| hash.max(1)).collect();
        assert_eq!(aggregate.players.count(), players.len() as u64, "{slot:?}");
        let mut values: Vec<f64> = events.iter().filter_map(|event| event.value).collect();
        values.sort_by(f64::total_cmp);
        assert_eq!(aggregate.values.is_some(), !values.is_empty(), "{slot:?}");
        if let Some(found) = &aggregate.values {
            compare_values(found, &values);
        }
    }
}

fn compare_values(found: &ValueStats, sorted: &[f64]) {
    assert_eq!(found.count(), sorted.len() as i64);
    assert_eq!((found.min, found.max), (sorted[0], sorted[sorted.len() - 1]));
    assert!(is_nearest(found.sum.value(), sorted), "the sum of {sorted:?} is not {}", found.sum.value());
    for q in [0.0, 0.5, 0.9, 0.99, 1.0] {
        let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
        let (exact, estimate) = (sorted[rank - 1], found.quantile(q).expect("there are values"));
        let near = (estimate - exact).abs() <= 0.01 * exact.abs();
        // The smallest values count as zero, and the largest are not distinguished.
        let is_distinguished = (1e-12..=1e18).contains(&exact.abs());
        assert!(
            near || !is_distinguished && (estimate - exact).abs() <= 1e-12 || exact.abs() > 1e18,
            "{q} of {sorted:?}"
        );
    }
}

/// Returns true if no other float is nearer to the sum, which is added digit by digit in units of the smallest
/// float.
fn is_nearest(float: f64, values: &[f64]) -> bool {
    let mut twice = [0i64; 72];
    values.iter().for_each(|value| (0..2).for_each(|_| add(&mut twice, *value)));
    let beside = |neighbour: f64| {
        let mut distance = twice;
        add(&mut distance, -float);
        add(&mut distance, -neighbour);
        is_negative(&mut distance)
    };
    // The largest float has no neighbour above and represents everything beyond it.
    let above = float == f64::MAX || beside(float.next_up());
    let below = float == -f64::MAX || !beside(float.next_down());
    let exact = {
        let mut distance = twice;
        (0..2).for_each(|_| add(&mut distance, -float));
        carry(&mut distance);
        distance.iter().all(|digit| *digit == 0)
    };
    exact
        || (above || is_tie(&twice, float, float.next_up()))
            && (below || is_tie(&twice, float, float.next_down()))
}

fn is_tie(twice: &[i64; 72], one: f64, other: f64) -> bool {
    let mut distance = *twice;
    add(&mut distance, -one);
    add(&mut distance, -other);
    carry(&mut distance);
    distance.iter().all(|digit| *digit == 0)
}

fn add(digits: &mut [i64; 72], value: f64) {
    let bits = value.abs().to_bits();
    let (exponent, fraction) = (bits >> 52, bits & ((1 << 52) - 1));
    let whole = if exponent == 0 { fraction } else { fraction + (1 << 52) };
    let position = exponent.max(1) as usize - 1;
    for bit in (0..53).filter(|bit| whole >> bit & 1 == 1) {
        let at = position + bit;
        digits[at / 32] += if value < 0.0 { -1 } else { 1 } << (at % 32);
    }
}

fn carry(digits: &mut [i64; 72]) {
    for index in 0..digits.len() - 1 {
        let carried = digits[index] >> 32;
        digits[index] -= carried << 32;
        digits[index + 1] += carried;
    }
}

fn is_negative(digits: &mut [i64; 72]) -> bool {
    carry(digits);
    digits[digits.len() - 1] < 0
}
