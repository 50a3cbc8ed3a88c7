//! Entries of the log with known events, and what a scan should hand out for them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use archive::columns::{Field, Value};
use archive::scan::{Order, ScanFailure, ScanRequest, Source};
use archive::{Archive, ArchiveOptions};
use model::batch::{BatchBuilder, Endpoint, ErasureScope, EventBatch, KeyClass, StoredEvent};
use model::query::Unbounded;
use serde_json::{Map, Value as Json};
use wal::Disk;
use wal::sim::Random;

pub(crate) const GAME: u32 = 7;
pub(crate) const SEED: u64 = 99;
pub(crate) const DAY_MS: i64 = 86_400_000;
/// 2026-11-01
pub(crate) const START_MS: i64 = 20_758 * DAY_MS;

/// An entry of the log.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) log: Range<u64>,
    pub(crate) bytes: Vec<u8>,
}

/// What the entries look like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorldOptions {
    pub(crate) entries: usize,
    pub(crate) events_per_entry: u64,
    pub(crate) players: u64,
    pub(crate) days: i64,
    pub(crate) late_percent: u64,
}

impl Default for WorldOptions {
    fn default() -> WorldOptions {
        WorldOptions { entries: 40, events_per_entry: 20, players: 12, days: 3, late_percent: 10 }
    }
}

/// Returns entries in the order of the log, whose events have ties, gaps and late times.
pub(crate) fn entries(seed: u64, options: WorldOptions) -> Vec<Entry> {
    let mut random = Random::new(seed);
    let (mut entries, mut offset) = (Vec::new(), 0);
    for number in 0..options.entries {
        let now = START_MS + options.days * DAY_MS * number as i64 / options.entries as i64;
        let count = 1 + random.below(options.events_per_entry);
        let mut batch = BatchBuilder::new(Endpoint::Events, KeyClass::Public, GAME, now, 0);
        for _ in 0..count {
            push_event(&mut random, now, options, &mut batch);
        }
        // Other games' entries lie in between.
        offset += random.below(5);
        entries.push(Entry { log: offset..offset + count, bytes: batch.finish(&[]).0 });
        offset += count;
    }
    entries
}

fn push_event(random: &mut Random, now: i64, options: WorldOptions, batch: &mut BatchBuilder) {
    let late = if random.chance(options.late_percent) { random.below(5 * DAY_MS as u64) as i64 } else { 0 };
    // Few distinct times, so that many events of a player have the same one.
    let ts_ms = now - late - (random.below(4) * 250) as i64;
    let player = match random.below(options.players + 1) {
        0 => String::new(),
        number => format!("player-{number}"),
    };
    let session = format!("{player}/{}", random.below(3));
    let anonymous = if random.chance(5) { format!("anon-{}", random.below(9)) } else { String::new() };
    let name = ["start", "win", "lose", "$session_start", "buy ünïcode"][random.below(5) as usize];
    let level = random.below(30).to_string();
    let pick = |random: &mut Random, values: [&'static str; 3]| values[random.below(3) as usize].as_bytes();
    let props = props(random);
    batch.push(&StoredEvent {
        id: random.chance(80).then(|| u128::from(random.next()) << 64 | u128::from(random.next())),
        ts_ms,
        name: name.as_bytes(),
        player: player.as_bytes(),
        session: if random.chance(20) { b"" } else { session.as_bytes() },
        value: random.chance(40).then(|| random.below(1_000) as f64 / 8.0),
        dimensions: [
            pick(random, ["DE", "FR", ""]),
            pick(random, ["", "", "store"]),
            pick(random, ["web", "ios", ""]),
            pick(random, ["1.0", "1.1", "2.0-β"]),
            if random.chance(50) { level.as_bytes() } else { b"" },
        ],
        anonymous: anonymous.as_bytes(),
        props: props.as_bytes(),
        ..StoredEvent::default()
    });
}

fn props(random: &mut Random) -> String {
    if random.chance(10) {
        return String::new();
    }
    let mut props = Map::new();
    let mut put = |name: &str, value: Json| {
        props.insert(name.to_owned(), value);
    };
    put("price", Json::from(random.below(500) as f64 / 100.0));
    put("weapon", Json::from(["axe", "bow \"x\"\n", "ünï"][random.below(3) as usize]));
    if random.chance(50) {
        put("is_first", Json::from(random.chance(50)));
    }
    // Of several types, of which one gets the column.
    put("mixed", [Json::from(5), Json::from("five"), Json::from(true)][random.below(3) as usize].clone());
    if random.chance(30) {
        let (x, tags) = (random.below(100), vec![random.below(3); 2]);
        put("at", serde_json::json!({"x": x, "deep": {"y": x * 2}, "tags": tags, "none": null}));
    }
    if random.chance(5) {
        put("large", Json::from(9_007_199_254_740_993_i64 + random.below(9) as i64));
    }
    if random.chance(20) {
        put(&format!("rare_{}", random.below(400)), Json::from(random.below(9)));
    }
    serde_json::to_string(&props).unwrap()
}

/// All columns that the events of a world have.
pub(crate) fn fields() -> Vec<Field> {
    let names =
        ["price", "weapon", "is_first", "mixed", "at.x", "at.deep.y", "large", "rare_3", "at", "at.tags"];
    let mut fields = vec![
        Field::Event,
        Field::Id,
        Field::Player,
        Field::Anonymous,
        Field::Session,
        Field::Value,
        Field::Country,
        Field::Platform,
        Field::Version,
        Field::Source,
        Field::Level,
        Field::Received,
    ];
    fields.extend(names.map(|name| Field::Property(name.into())));
    fields
}

/// A row: the player's hash, the time, the values of the fields.
pub(crate) type Row = (u64, i64, Vec<String>);

/// Returns the rows of entries in the order of the log.
pub(crate) fn expected(entries: &[Entry], fields: &[Field]) -> Vec<Row> {
    let mut rows = Vec::new();
    for entry in entries {
        let batch = EventBatch::read(&entry.bytes).unwrap();
        for event in batch.events() {
            let values =
                fields.iter().map(|field| expected_value(&event, batch.received_ms, field)).collect();
            let player = if event.player.is_empty() { 0 } else { event.player_number(SEED) };
            rows.push((player, event.ts_ms, values));
        }
    }
    rows
}

fn expected_value(event: &StoredEvent<'_>, received_ms: i64, field: &Field) -> String {
    let text = |text: &[u8]| match text {
        b"" => "-".to_owned(),
        text => format!("{:?}", String::from_utf8_lossy(text)),
    };
    match field {
        Field::Event => text(event.name),
        Field::Id => event.id.map_or("-".to_owned(), |id| {
            let hex = format!("{id:032x}");
            let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
            format!("{:?}", parts.join("-"))
        }),
        Field::Player if event.erased => "-".to_owned(),
        Field::Anonymous if event.erased => "-".to_owned(),
        Field::Player => text(event.player),
        Field::Anonymous => text(event.anonymous),
        Field::Session => text(event.session),
        Field::Value => event.value.map_or("-".to_owned(), |value| value.to_string()),
        Field::Country => text(event.dimensions[0]),
        Field::Source => text(event.dimensions[1]),
        Field::Platform => text(event.dimensions[2]),
        Field::Version => text(event.dimensions[3]),
        Field::Level => text(event.dimensions[4]),
        Field::Received => (received_ms as f64).to_string(),
        Field::Property(name) => {
            let Ok(props) = serde_json::from_slice::<Json>(event.props) else { return "-".to_owned() };
            let value = name.split('.').try_fold(&props, |value, key| value.get(key));
            match value {
                Some(Json::String(text)) => format!("{text:?}"),
                Some(Json::Number(number)) => number.as_f64().unwrap().to_string(),
                Some(Json::Bool(flag)) => flag.to_string(),
                _ => "-".to_owned(),
            }
        }
    }
}

pub(crate) fn request(fields: &[Field]) -> ScanRequest {
    ScanRequest {
        times: 0..i64::MAX,
        fields: fields.to_vec(),
        events: None,
        players: 0..=u64::MAX,
        order: Order::Any,
    }
}

/// Returns the rows in the order in which they are handed out.
pub(crate) fn scan(source: &dyn Source, request: &ScanRequest) -> Result<Vec<Row>, ScanFailure> {
    let mut rows = Vec::new();
    source.scan(request, &Unbounded, &mut |chunk| {
        assert!((1..=65_536).contains(&chunk.rows()));
        assert_eq!(chunk.columns.len(), request.fields.len());
        for row in 0..chunk.rows() {
            let values = chunk.columns.iter().map(|column| match column.value(row) {
                None => "-".to_owned(),
                Some(Value::Text(text)) => format!("{text:?}"),
                Some(Value::Number(number)) => number.to_string(),
                Some(Value::Flag(flag)) => flag.to_string(),
            });
            rows.push((chunk.players[row], chunk.times[row], values.collect()));
        }
        Ok(())
    })?;
    Ok(rows)
}

/// Returns each player's rows in the order in which they come.
pub(crate) fn by_player(rows: &[Row]) -> BTreeMap<u64, Vec<Row>> {
    let mut players: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
    rows.iter().for_each(|row| players.entry(row.0).or_default().push(row.clone()));
    players
}

/// Checks that the archive hands out exactly the events of these entries, in both orders.
pub(crate) fn check(archive: &Archive, entries: &[Entry]) {
    let fields = fields();
    let mut expected = expected(entries, &fields);
    let snapshot = archive.snapshot(GAME);
    assert_eq!(snapshot.events(), expected.len() as u64);
    let ordered = scan(&snapshot, &ScanRequest { order: Order::ByPlayer, ..request(&fields) }).unwrap();
    let mut in_time = expected.clone();
    in_time.sort_by_key(|row| row.1);
    assert_eq!(by_player(&ordered), by_player(&in_time));
    let mut any = scan(&snapshot, &request(&fields)).unwrap();
    any.sort();
    expected.sort();
    assert_eq!(any, expected);
}

/// Appends entries; those that were appended before change nothing.
pub(crate) fn append(archive: &Archive, entries: &[Entry]) {
    for entry in entries {
        archive.append(SEED, entry.log.clone(), &entry.bytes).unwrap();
    }
}

/// Returns the entries as the log holds them after the erasure of a player.
pub(crate) fn erased(entries: &[Entry], player: &str) -> Vec<Entry> {
    let erase = |entry: &Entry| {
        let batch = EventBatch::read(&entry.bytes).unwrap();
        let scope = |event: &StoredEvent<'_>| match event.player == player.as_bytes() {
            true => ErasureScope::Player,
            false => ErasureScope::None,
        };
        Entry { log: entry.log.clone(), bytes: batch.erase(SEED, scope, |_| None) }
    };
    entries.iter().map(erase).collect()
}

pub(crate) fn open(disk: impl Disk, options: ArchiveOptions) -> Archive {
    let (archive, report) = Archive::open(Arc::new(disk), Path::new("/archive"), options).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    archive
}

/// Small enough that the entries of a world make several files.
pub(crate) fn small() -> ArchiveOptions {
    ArchiveOptions { part_rows: 100, ..ArchiveOptions::default() }
}
