//! Small worlds of events, a source that hands them out in days and chunks, and the naive meaning of conditions.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use jiff::Timestamp;
use model::query::{QueryControl, QueryStopped, Unbounded};
use model::rollup::hash_player;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::players::{PlayerLinks, PlayerSet};
use super::super::{Cohorts, Context, Progress};
use crate::columns::{ABSENT, Chunk, Column, Dictionary, Field, Value};
use crate::scan::{Order, ScanFailure, ScanRequest, Source};

pub(super) const GAME: u64 = 7;
const DAY_MS: i64 = 86_400_000;

/// An event. Its place in the world is the order of arrival.
#[derive(Clone, Debug)]
pub(super) struct TestEvent {
    pub time: i64,
    pub player: Option<String>,
    pub event: String,
    /// `value`, `country`, `version`, `level`, `session` and `props.NAME`, as JSON.
    pub fields: BTreeMap<String, Json>,
}

/// Events in order of arrival, links, and how the source cuts them.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub events: Vec<TestEvent>,
    /// Anonymous ids and their players.
    pub links: Vec<(String, String)>,
    pub cohort: Vec<String>,
    pub zone: &'static str,
    pub window: Range<i64>,
    pub cuts: Cuts,
}

/// How the source cuts the events.
#[derive(Clone, Debug)]
pub(super) struct Cuts {
    pub chunk_rows: Vec<usize>,
    pub ranges: usize,
    pub keeps_to_events: bool,
    pub numbers_are_coded: bool,
}

pub(super) fn hash(player: &str) -> u64 {
    hash_player(GAME, player.as_bytes())
}

impl World {
    pub(super) fn source(&self) -> MemorySource {
        MemorySource::new(&self.events, self.cuts.clone())
    }

    pub(super) fn player_links(&self) -> PlayerLinks {
        let hashes = |(anonymous, player): &(String, String)| (hash(anonymous), hash(player));
        PlayerLinks::of(&self.links.iter().map(hashes).collect::<Vec<_>>())
    }

    pub(super) fn cohorts(&self) -> Cohorts {
        let players: PlayerSet = self.cohort.iter().map(|player| hash(player)).collect();
        Cohorts::from([("team".to_owned(), Arc::new(players))])
    }

    /// Runs a question over the world.
    pub(super) fn ask<A>(&self, ask: impl FnOnce(&Context<'_>) -> A) -> A {
        self.ask_within(&Unbounded, ask)
    }

    pub(super) fn ask_within<A>(&self, control: &dyn QueryControl, ask: impl FnOnce(&Context<'_>) -> A) -> A {
        let (source, links, cohorts) = (self.source(), self.player_links(), self.cohorts());
        let progress = Progress::default();
        ask(&Context {
            source: &source,
            control,
            progress: &progress,
            links: &links,
            cohorts: &cohorts,
            now_ms: self.window.end,
            tz: self.zone,
        })
    }

    /// The request of a question over the window of the world.
    pub(super) fn request(&self, mut request: Json) -> Vec<u8> {
        request["from"] = json!(self.window.start);
        request["to"] = json!(self.window.end);
        request["tz"] = json!(self.zone);
        request.to_string().into_bytes()
    }

    /// The player that an id belongs to.
    pub(super) fn canonical<'w>(&'w self, id: &'w str) -> &'w str {
        self.links.iter().find(|(anonymous, _)| anonymous == id).map_or(id, |(_, player)| player)
    }

    /// The events of the window in order of arrival.
    pub(super) fn in_window(&self) -> impl Iterator<Item = &TestEvent> {
        self.events.iter().filter(|event| self.window.contains(&event.time))
    }

    /// The events of each player in order of time, those of the same time in order of arrival.
    pub(super) fn players(&self) -> BTreeMap<&str, Vec<&TestEvent>> {
        let mut players: BTreeMap<&str, Vec<&TestEvent>> = BTreeMap::new();
        for event in self.in_window() {
            if let Some(player) = &event.player {
                players.entry(self.canonical(player)).or_default().push(event);
            }
        }
        players.values_mut().for_each(|events| events.sort_by_key(|event| event.time));
        players
    }

    /// The naive meaning of a list of conditions.
    pub(super) fn meets(&self, event: &TestEvent, conditions: &Json) -> bool {
        conditions.as_array().is_none_or(|list| list.iter().all(|one| self.meets_one(event, one)))
    }

    /// The naive meaning of an object with `event` and `where`.
    pub(super) fn is_pattern(&self, event: &TestEvent, pattern: &Json) -> bool {
        pattern["event"].as_str().is_none_or(|name| name == event.event)
            && self.meets(event, &pattern["where"])
    }

    fn meets_one(&self, event: &TestEvent, condition: &Json) -> bool {
        if condition.get("and").is_some() {
            return self.meets(event, &condition["and"]);
        }
        if let Some(any) = condition["or"].as_array() {
            return any.iter().any(|one| self.meets_one(event, one));
        }
        if let Some(negated) = condition.get("not") {
            return !self.meets_one(event, negated);
        }
        if condition.get("cohort").is_some() {
            let player = event.player.as_ref().map(|player| self.canonical(player).to_owned());
            return player.is_some_and(|player| self.cohort.contains(&player));
        }
        let value = event.field(condition["property"].as_str().expect("a property"));
        let wanted = &condition["value"];
        match condition["op"].as_str().expect("an operator") {
            "=" => equal(&value, wanted),
            "!=" => !equal(&value, wanted),
            "in" => wanted.as_array().expect("a list").iter().any(|wanted| equal(&value, wanted)),
            "<" => order(&value, wanted) == Some(-1),
            "<=" => matches!(order(&value, wanted), Some(-1 | 0)),
            ">" => order(&value, wanted) == Some(1),
            ">=" => matches!(order(&value, wanted), Some(1 | 0)),
            "contains" => value.as_str().is_some_and(|text| text.contains(wanted.as_str().expect("a text"))),
            "set" => !value.is_null(),
            "unset" => value.is_null(),
            op => panic!("{op}"),
        }
    }
}

/// The naive meaning of `=`: by text if both are texts, else as numbers or flags.
fn equal(value: &Json, wanted: &Json) -> bool {
    match (value, wanted) {
        (Json::Null, _) => false,
        (Json::String(value), Json::String(wanted)) => value == wanted,
        (Json::Bool(_), _) | (_, Json::Bool(_)) => plain(value) == plain(wanted),
        _ => as_number(value).is_some_and(|value| as_number(wanted) == Some(value)),
    }
}

fn order(value: &Json, wanted: &Json) -> Option<i8> {
    let order = match (value, wanted) {
        (Json::String(value), Json::String(wanted)) => value.cmp(wanted),
        _ => as_number(value)?.partial_cmp(&as_number(wanted)?)?,
    };
    Some(order as i8)
}

fn as_number(value: &Json) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl TestEvent {
    pub(super) fn field(&self, name: &str) -> Json {
        match name {
            "event" => self.event.clone().into(),
            "player" => json!(self.player),
            _ => self.fields.get(name).cloned().unwrap_or(Json::Null),
        }
    }

    /// The text of a value in the key of a series.
    pub(super) fn key(&self, by: &Json) -> Vec<String> {
        let names: Vec<&str> = match by {
            Json::String(name) => vec![name],
            Json::Array(names) => names.iter().filter_map(Json::as_str).collect(),
            _ => Vec::new(),
        };
        let text = |name: &str| match self.field(name) {
            Json::Null => String::new(),
            Json::Number(number) => {
                let number = number.as_f64().expect("a number");
                if number.fract() == 0.0 { (number as i64).to_string() } else { number.to_string() }
            }
            value => plain(&value),
        };
        names.into_iter().map(text).collect()
    }
}

/// Events in memory, in the order of day files.
pub(super) struct MemorySource {
    days: Vec<Vec<(u64, TestEvent, i64)>>,
    cuts: Cuts,
}

impl MemorySource {
    fn new(events: &[TestEvent], cuts: Cuts) -> MemorySource {
        let mut days: BTreeMap<i64, Vec<(u64, TestEvent, i64)>> = BTreeMap::new();
        for (number, event) in events.iter().enumerate() {
            let player = event.player.as_ref().map_or(0, |player| hash(player));
            let day = days.entry(event.time.div_euclid(DAY_MS)).or_default();
            day.push((player, event.clone(), number as i64));
        }
        let mut days: Vec<Vec<(u64, TestEvent, i64)>> = days.into_values().collect();
        days.iter_mut().for_each(|day| day.sort_by_key(|(player, event, _)| (*player, event.time)));
        MemorySource { days, cuts }
    }

    fn chunk(&self, rows: &[&(u64, TestEvent, i64)], fields: &[Field], dictionaries: &[Coded]) -> Chunk {
        let column = |(field, coded): (&Field, &Coded)| {
            let values: Vec<Json> =
                rows.iter().map(|(_, event, number)| value(event, *number, field)).collect();
            if values.iter().all(Json::is_null) {
                return Column::Absent;
            }
            let all_numbers = coded.1.keys().all(|key| key.parse::<f64>().is_ok());
            if all_numbers && !self.cuts.numbers_are_coded {
                return Column::Numbers(
                    values.iter().map(|value| value.as_f64().unwrap_or(f64::NAN)).collect(),
                );
            }
            let code = |value: &Json| coded.1.get(&value.to_string()).copied().unwrap_or(ABSENT);
            Column::Coded { codes: values.iter().map(code).collect(), dictionary: Arc::clone(&coded.0) }
        };
        Chunk {
            players: rows.iter().map(|(player, ..)| *player).collect(),
            times: rows.iter().map(|(_, event, _)| event.time).collect(),
            columns: fields.iter().zip(dictionaries).map(column).collect(),
        }
    }
}

fn value(event: &TestEvent, number: i64, field: &Field) -> Json {
    match field {
        Field::Received => json!(1_000 + number),
        Field::Property(name) => event.field(&format!("props.{name}")),
        field => event.field(&super::super::filter::label(field)),
    }
}

/// The dictionary of a column in one day, and the codes of its values as JSON text.
type Coded = (Arc<Dictionary>, BTreeMap<String, u32>);

fn dictionary(day: &[(u64, TestEvent, i64)], field: &Field) -> Coded {
    let (mut dictionary, mut codes) = (Dictionary::default(), BTreeMap::new());
    let values: BTreeSet<String> =
        day.iter().map(|(_, event, number)| value(event, *number, field).to_string()).collect();
    for text in values {
        let code = match serde_json::from_str(&text).expect("it was JSON") {
            Json::Null => continue,
            Json::String(text) => dictionary.push(Value::Text(&text)),
            Json::Number(number) => dictionary.push(Value::Number(number.as_f64().expect("a number"))),
            Json::Bool(flag) => dictionary.push(Value::Flag(flag)),
            other => panic!("{other}"),
        };
        codes.insert(text, code);
    }
    (Arc::new(dictionary), codes)
}

impl Source for MemorySource {
    fn player_ranges(&self, _: Range<i64>) -> Vec<RangeInclusive<u64>> {
        let size = u64::MAX / self.cuts.ranges as u64;
        let start = |range: usize| if range == 0 { 0 } else { range as u64 * size };
        let end = |range: usize| if range + 1 == self.cuts.ranges { u64::MAX } else { start(range + 1) - 1 };
        (0..self.cuts.ranges).map(|range| start(range)..=end(range)).collect()
    }

    fn scan(
        &self,
        request: &ScanRequest,
        control: &dyn QueryControl,
        rows: &mut dyn FnMut(&Chunk) -> Result<(), QueryStopped>,
    ) -> Result<(), ScanFailure> {
        let is_wanted = |row: &&(u64, TestEvent, i64)| {
            let is_named = |names: &Vec<Box<str>>| names.iter().any(|name| **name == row.1.event);
            request.times.contains(&row.1.time)
                && request.players.contains(&row.0)
                && (!self.cuts.keeps_to_events || request.events.as_ref().is_none_or(is_named))
        };
        let mut days: Vec<&Vec<(u64, TestEvent, i64)>> = self.days.iter().collect();
        if request.order == Order::Any {
            days.reverse();
        }
        let mut sizes = self.cuts.chunk_rows.iter().cycle();
        for day in days {
            let dictionaries: Vec<Coded> =
                request.fields.iter().map(|field| dictionary(day, field)).collect();
            let wanted: Vec<&(u64, TestEvent, i64)> = day.iter().filter(is_wanted).collect();
            let mut left = &wanted[..];
            while !left.is_empty() {
                control.check(1 << 10)?;
                let size = (*sizes.next().expect("it repeats")).min(left.len());
                let (chunk, rest) = left.split_at(size);
                rows(&self.chunk(chunk, &request.fields, &dictionaries))?;
                left = rest;
            }
        }
        Ok(())
    }
}

/// Stops a question at its nth check, or at an amount of memory.
pub(super) struct Stop {
    pub checks: Cell<usize>,
    pub bytes_max: usize,
}

impl QueryControl for Stop {
    fn check(&self, bytes: usize) -> Result<(), QueryStopped> {
        if bytes > self.bytes_max {
            return Err(QueryStopped::Memory { bytes_max: self.bytes_max });
        }
        let left = self.checks.get();
        self.checks.set(left.saturating_sub(1));
        if left == 0 { Err(QueryStopped::Cancelled) } else { Ok(()) }
    }
}

pub(super) fn ms(text: &str) -> i64 {
    text.parse::<Timestamp>().expect("a time").as_millisecond()
}

/// Worlds of a few days around a change of clocks.
pub(super) fn worlds() -> impl Strategy<Value = World> {
    let zone = prop_oneof![
        Just(("UTC", "2026-02-26T00:00Z")),
        Just(("Europe/Paris", "2026-03-27T00:00Z")),
        Just(("America/St_Johns", "2026-10-30T00:00Z")),
        Just(("Australia/Lord_Howe", "2026-04-03T00:00Z")),
        Just(("Asia/Kathmandu", "2026-04-28T00:00Z")),
    ];
    let links = prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::collection::btree_map(0usize..3, 3usize..6, 1..3).prop_map(|links| {
            links.into_iter().map(|(anonymous, player)| (id(anonymous), id(player))).collect()
        }),
    ];
    let cuts = (prop::collection::vec(1usize..9, 1..5), 1usize..5, any::<bool>(), any::<bool>()).prop_map(
        |(chunk_rows, ranges, keeps_to_events, numbers_are_coded)| Cuts {
            chunk_rows,
            ranges,
            keeps_to_events,
            numbers_are_coded,
        },
    );
    let window = (0i64..24, 24i64..130);
    let cohort = prop::collection::vec((3usize..8).prop_map(id), 0..3);
    (zone, prop::collection::vec(event(), 0..50), links, cohort, cuts, window).prop_map(
        |((zone, first), mut events, links, cohort, cuts, (from, to))| {
            let first = ms(first);
            events.iter_mut().for_each(|event| event.time += first);
            let window = first + from * 3_600_000..first + to * 3_600_000;
            World { events, links, cohort, zone, window, cuts }
        },
    )
}

pub(super) fn id(number: usize) -> String {
    format!("player-{number}")
}

fn event() -> impl Strategy<Value = TestEvent> {
    // Few different times, so that ties are frequent; minutes and milliseconds at the edges of hours.
    let time = (0i64..40, prop_oneof![Just(0i64), Just(1), Just(1_799_999)])
        .prop_map(|(slot, ms)| slot * 3 * 3_600_000 + ms);
    let time = prop_oneof![time, (0i64..12).prop_map(|slot| slot * 1_800_000 + 48 * 3_600_000)];
    let player = prop_oneof![1 => Just(None), 9 => (0usize..8).prop_map(|number| Some(id(number)))];
    let weapon = prop_oneof![
        Just(json!("bow")),
        Just(json!("5")),
        Just(json!(5)),
        Just(json!(2.5)),
        Just(json!(true)),
        Just(json!("true")),
        Just(Json::Null),
    ];
    let country = prop_oneof![Just(json!("FR")), Just(json!("DE")), Just(json!("US")), Just(Json::Null)];
    let value = prop_oneof![(-20i32..20).prop_map(|value| json!(f64::from(value) / 4.0)), Just(Json::Null)];
    let name = prop_oneof![Just("start"), Just("win"), Just("quit"), Just("buy")];
    (time, player, name, country, value, weapon).prop_map(|(time, player, name, country, value, weapon)| {
        let fields = [("country", country), ("value", value), ("props.weapon", weapon)];
        let set = fields.into_iter().filter(|(_, value)| !value.is_null());
        TestEvent {
            time,
            player,
            event: name.to_owned(),
            fields: set.map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    })
}

/// Ids of players are compared with text only.
fn operand(property: &str, value: Json) -> Json {
    if property == "player" && !value.is_string() { json!(value.to_string()) } else { value }
}

/// Lists of conditions, as JSON.
pub(super) fn conditions() -> impl Strategy<Value = Json> {
    let property = prop_oneof![
        Just("country"),
        Just("value"),
        Just("props.weapon"),
        Just("event"),
        Just("player"),
        Just("props.never"),
    ];
    let value = prop_oneof![
        Just(json!("FR")),
        Just(json!("5")),
        Just(json!(5)),
        Just(json!(2.5)),
        Just(json!("bow")),
        Just(json!("true")),
        Just(json!("player-4")),
        Just(json!("")),
    ];
    let op = prop_oneof![Just("="), Just("!="), Just("<"), Just("<="), Just(">"), Just(">=")];
    let compare = (property.clone(), op, value.clone()).prop_map(
        |(property, op, value)| json!({"property": property, "op": op, "value": operand(property, value)}),
    );
    let other = prop_oneof![
        property.clone().prop_map(|property| json!({"property": property, "op": "set"})),
        property.clone().prop_map(|property| json!({"property": property, "op": "unset"})),
        (property.clone(), prop::collection::vec(value, 1..3)).prop_map(|(property, values)| {
            let values: Json = values.into_iter().map(|value| operand(property, value)).collect();
            json!({"property": property, "op": "in", "value": values})
        }),
        property.clone().prop_map(|property| json!({"property": property, "op": "contains", "value": "r"})),
        (property, any::<bool>())
            .prop_map(|(property, value)| json!({"property": property, "op": "=", "value": operand(property, json!(value))})),
        Just(json!({"cohort": "team"})),
    ];
    let leaf = prop_oneof![2 => compare, 1 => other];
    let one = leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|list| json!({"and": list})),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|list| json!({"or": list})),
            inner.prop_map(|one| json!({"not": one})),
        ]
    });
    prop_oneof![2 => Just(json!([])), 1 => prop::collection::vec(one, 1..3).prop_map(Json::Array)]
}

/// Objects with `event` and `where`.
pub(super) fn patterns() -> impl Strategy<Value = Json> {
    let name = prop_oneof![
        3 => Just(json!("start")),
        3 => Just(json!("win")),
        2 => Just(json!("quit")),
        1 => Just(Json::Null),
    ];
    (name, conditions()).prop_map(|(event, conditions)| json!({"event": event, "where": conditions}))
}

pub(super) fn by() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::Null),
        Just(json!("country")),
        Just(json!("props.weapon")),
        Just(json!("value")),
        Just(json!(["country", "props.weapon"])),
    ]
}

/// The series of a naive answer: those of the top keys, and the rest merged.
pub(super) fn top_keys<T>(
    groups: BTreeMap<Vec<String>, T>,
    total: impl Fn(&T) -> f64,
    top: usize,
) -> (Vec<(Vec<String>, T)>, Vec<T>) {
    let mut ranked: Vec<(Vec<String>, T)> = groups.into_iter().collect();
    ranked.sort_by(|one, other| total(&other.1).total_cmp(&total(&one.1)));
    let rest = ranked.split_off(top.min(ranked.len()));
    (ranked, rest.into_iter().map(|(_, group)| group).collect())
}

/// The key of a series as answers show it.
pub(super) fn key_json(by: &Json, values: &[String]) -> Json {
    let names: Vec<&str> = match by {
        Json::String(name) => vec![name],
        Json::Array(names) => names.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    names
        .into_iter()
        .zip(values)
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// A world without events, of one day.
pub(super) fn empty() -> World {
    let cuts = Cuts { chunk_rows: vec![4], ranges: 1, keeps_to_events: true, numbers_are_coded: false };
    let window = ms("2026-11-19T00:00Z")..ms("2026-11-20T00:00Z");
    World { events: Vec::new(), links: Vec::new(), cohort: Vec::new(), zone: "UTC", window, cuts }
}

/// A world of one day from lines such as `10:00 ann start country=FR value=2 props.weapon="bow"`; a `-` is no player.
pub(super) fn world(lines: &str) -> World {
    let mut world = empty();
    world.window.end += 20 * DAY_MS;
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split(' ');
        let time = words.next().expect("a time");
        let time = match time.split_once('+') {
            Some((days, time)) => (days.parse::<i64>().expect("days"), time),
            None => (0, time),
        };
        let of_day = ms(&format!("2026-11-19T{}Z", time.1));
        let player = words.next().filter(|player| *player != "-").map(str::to_owned);
        let event = words.next().expect("an event").to_owned();
        let field = |word: &str| {
            let (name, value) = word.split_once('=').expect("name=value");
            (name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value)))
        };
        let fields = words.map(field).collect();
        world.events.push(TestEvent { time: of_day + time.0 * DAY_MS, player, event, fields });
    }
    world
}
