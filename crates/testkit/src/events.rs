//! Invented events as the rollups get them, and what of them must be in the rollups: counted again by the plainest code.

use std::collections::{BTreeMap, BTreeSet};

use model::Dimension;
use model::deltas::Deltas;
use model::limits::{DECLARED_NUMBER_MAX, VALUES_PER_DIMENSION};
use model::ports::counters::{Counters, Select};
use model::record::{Declared, Stored};
use model::rollup::{Bucket, Cell, Values};
use model::series::{Cut, EVENTS, Level, TUPLE_SEPARATOR, VARIANT};
use proptest::prelude::*;

/// A metric that every event with a player also counts under, as a session does.
pub const DERIVED: &str = "$session";
/// A metric that the value of every event is also measured for, as one sample.
pub const SAMPLED: &str = "$sampled";
/// A plain counter of all events.
pub const PLAIN: &str = "$load";

/// One event: an entry of the log of its own.
#[derive(Clone, Debug)]
pub struct Happened {
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
    /// In the order of [`Dimension::ALL`]; empty: not known.
    pub dimensions: [String; Dimension::COUNT],
    /// Numbers and values of declared dimensions, each number once.
    pub declared: Vec<(u8, String)>,
    /// Values of a dimension that the game keeps.
    pub values_max: u32,
}

impl Happened {
    /// Reads `minute name player country level value`, `-` for nothing. A player is one letter.
    pub fn read(line: &str) -> Happened {
        let words: Vec<&str> =
            line.split_whitespace().map(|word| if word == "-" { "" } else { word }).collect();
        let [minute, name, player, country, level, value] = words[..] else {
            panic!("{line:?} is not: minute name player country level value");
        };
        let mut dimensions: [String; Dimension::COUNT] = Default::default();
        dimensions[Dimension::Country as usize] = country.to_owned();
        dimensions[Dimension::Level as usize] = level.to_owned();
        Happened {
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

    /// The values of its rows, cut in every way.
    fn rows(&self) -> Vec<(Cut, String)> {
        let by =
            Dimension::ALL.map(|dimension| (Cut::By(dimension), self.dimensions[dimension as usize].clone()));
        let tuple = self.dimensions.join(&TUPLE_SEPARATOR.to_string());
        let declared = self.declared.iter().map(|(number, value)| (Cut::Declared(*number), value.clone()));
        [(Cut::Total, String::new()), (Cut::Tuple, tuple)].into_iter().chain(by).chain(declared).collect()
    }

    /// What it counts under, and with which value.
    fn metrics(&self) -> Vec<(&str, Option<f64>)> {
        let derived = self.player.map(|_| (DERIVED, self.value));
        let sampled = self.value.map(|value| (SAMPLED, Some(value)));
        [(&self.name[..], self.value), (EVENTS, None)].into_iter().chain(derived).chain(sampled).collect()
    }
}

/// What these events change. The first of them stands at this offset of the log, the others follow one by one.
pub fn deltas_of(events: &[Happened], first: u64) -> Deltas {
    let mut deltas = Deltas::default();
    for (offset, event) in (first..).zip(events) {
        let mut declared = Vec::new();
        event
            .declared
            .iter()
            .for_each(|(number, value)| Declared::put(&mut declared, *number, value.as_bytes()));
        let stored = Stored {
            ts_ms: i64::from(event.minute) * 60_000 + offset as i64 % 60_000,
            name: event.name.as_bytes(),
            value: event.value,
            dimensions: std::array::from_fn(|dimension| event.dimensions[dimension].as_bytes()),
            declared: Declared::of(&declared),
            ..Stored::default()
        };
        deltas.entry(offset);
        deltas.values_max(event.game, event.values_max);
        deltas.event(event.game, &stored, event.player);
        if event.player.is_some() {
            deltas.derived(event.game, DERIVED, &stored, event.player, event.value);
        }
        if let Some(value) = event.value {
            let mut cell = Cell::default();
            cell.observe(event.player, Some((value, Bucket::of(value))));
            deltas.samples(event.game, &Stored { name: SAMPLED.as_bytes(), ..stored }, cell);
        }
        deltas.count(event.game, PLAIN, event.minute, 1);
    }
    deltas
}

/// Three days from a midnight on: most events in a few minutes, some anywhere, late ones among them.
pub fn events(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Happened>> {
    prop::collection::vec(event(), count)
}

/// A day that ends where another begins.
pub const FIRST_MINUTE: u32 = 20_000 * 1_440;

fn event() -> impl Strategy<Value = Happened> {
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
            Happened { game, minute, name, player, value, dimensions, declared, values_max }
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

/// Compares every minute, every hour and every day of each row with the events themselves. Quantiles may be 1 % off.
pub fn agrees_with_a_recount(counters: &dyn Counters, events: &[Happened]) {
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
    for ((game, metric, cut), rows) in &expected {
        for (level, minutes) in [(Level::Minute, 1), (Level::Hour, 60)] {
            let select = Select { game: *game, metric, cut: *cut, values: None, level };
            compare(&slots(counters, select, minutes), rows, minutes);
        }
        let select = Select { game: *game, metric, cut: *cut, values: None, level: Level::Hour };
        compare(&slots(counters, select, 1_440), rows, 1_440);
    }
}

/// An event in one row.
struct Counted {
    minute: u32,
    player: Option<u64>,
    value: Option<f64>,
}

type Slots = BTreeMap<(String, u32), Cell>;

/// What is visited, added up to slots of so many minutes.
fn slots(counters: &dyn Counters, select: Select<'_>, minutes: u32) -> Slots {
    let mut slots = Slots::new();
    let all = FIRST_MINUTE..FIRST_MINUTE + 3 * 1_440;
    let mut visit = |value: &str, minute: u32, cell: &Cell| {
        slots.entry((value.to_owned(), minute / minutes)).or_default().merge(cell);
    };
    counters.visit(select, all, &mut visit).expect("the store is well");
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
        let cell = &slots[&slot];
        assert_eq!(cell.count, events.len() as i64, "{slot:?}");
        let players: BTreeSet<u64> =
            events.iter().filter_map(|event| event.player).map(|hash| hash.max(1)).collect();
        assert_eq!(cell.players.count(), players.len() as u64, "{slot:?}");
        let mut values: Vec<f64> = events.iter().filter_map(|event| event.value).collect();
        values.sort_by(f64::total_cmp);
        assert_eq!(cell.values.is_some(), !values.is_empty(), "{slot:?}");
        if let Some(found) = &cell.values {
            compare_values(found, &values);
        }
    }
}

fn compare_values(found: &Values, sorted: &[f64]) {
    assert_eq!(found.count(), sorted.len() as i64);
    assert_eq!((found.min, found.max), (sorted[0], sorted[sorted.len() - 1]));
    assert!(is_nearest(found.sum.value(), sorted), "the sum of {sorted:?} is not {}", found.sum.value());
    for q in [0.0, 0.5, 0.9, 0.99, 1.0] {
        let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
        let (exact, estimate) = (sorted[rank - 1], found.quantile(q).expect("there are values"));
        let near = (estimate - exact).abs() <= 0.01 * exact.abs();
        // The smallest count as zero, and the largest are not told apart.
        let told_apart = (1e-12..=1e18).contains(&exact.abs());
        assert!(
            near || !told_apart && (estimate - exact).abs() <= 1e-12 || exact.abs() > 1e18,
            "{q} of {sorted:?}"
        );
    }
}

/// No other float is nearer to the sum, which is added up digit by digit in units of the smallest float.
fn is_nearest(float: f64, values: &[f64]) -> bool {
    let mut twice = [0i64; 72];
    values.iter().for_each(|value| (0..2).for_each(|_| add(&mut twice, *value)));
    let beside = |neighbour: f64| {
        let mut distance = twice;
        add(&mut distance, -float);
        add(&mut distance, -neighbour);
        is_negative(&mut distance)
    };
    // The largest float has no neighbour above; what is beyond it is told as the largest.
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
    let place = exponent.max(1) as usize - 1;
    for bit in (0..53).filter(|bit| whole >> bit & 1 == 1) {
        let at = place + bit;
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
