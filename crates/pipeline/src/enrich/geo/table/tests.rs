//! Synthetic tables compared with a linear search through their ranges.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

type Range = (IpAddr, IpAddr, Country);

fn country(code: &str) -> Country {
    Country::from_code(code).expect("a code")
}

fn table(ranges: &[Range]) -> Table {
    let mut builder = Builder::default();
    for (first, last, country) in ranges {
        builder.add(*first, *last, *country).expect("ascending ranges");
    }
    builder.finish()
}

/// Parses ranges: `first last code` in each line.
fn ranges(text: &str) -> Vec<Range> {
    let fields = |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
    let range = |fields: Vec<String>| {
        let [first, last, code] = &fields[..] else { panic!("three fields: {fields:?}") };
        (first.parse().expect("first"), last.parse().expect("last"), country(code))
    };
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(fields).map(range).collect()
}

/// Each line has an address and its code, or `-` for none.
fn check(table: &Table, expected: &str) {
    for line in expected.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (address, code) = line.split_once(' ').expect("address and code");
        let found = parse_address(address).and_then(|address| table.country(address));
        assert_eq!(found.map_or("-".into(), |found| found.as_str().to_owned()), code, "{address}");
    }
}

#[test]
fn an_address_has_the_country_of_its_range() {
    let ranges = ranges(
        "1.0.0.0 1.0.0.255 AU
         1.0.1.0 1.0.3.255 CN
         2.0.0.0 5.255.255.255 FR
         8.8.8.8 8.8.8.8 US
         223.255.255.0 223.255.255.255 NZ
         2001:200:: 2001:200:ffff:ffff:ffff:ffff:ffff:ffff JP
         2a00:1:2:: 2a00:1:2:7fff:ffff:ffff:ffff:ffff DE
         2a00:1:2:8000:: 2a00:1:2:8000:: SE",
    );
    check(
        &table(&ranges),
        "0.255.255.255 -
         1.0.0.0 AU
         1.0.0.255 AU
         1.0.1.0 CN
         1.0.3.255 CN
         1.0.4.0 -
         3.1.4.1 FR
         6.0.0.0 -
         8.8.8.7 -
         8.8.8.8 US
         8.8.8.9 -
         ::ffff:8.8.8.8 US
         223.255.255.255 NZ
         224.0.0.0 -
         255.255.255.255 -
         2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff -
         2001:200:: JP
         2001:200:1234::1 JP
         2001:201:: -
         2a00:1:2:1::1 DE
         2a00:1:2:8000:: SE
         2a00:1:2:8000::1 -
         2a00:1:3:: -",
    );
}

#[test]
fn private_addresses_have_no_country_even_if_the_file_has_one() {
    let everything = ranges(
        "0.0.0.0 255.255.255.255 US
         :: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff SE",
    );
    check(
        &table(&everything),
        "0.0.0.1 -
         9.255.255.255 US
         10.0.0.0 -
         10.255.255.255 -
         11.0.0.0 US
         100.64.0.1 -
         100.128.0.0 US
         127.0.0.1 -
         169.254.1.1 -
         172.15.255.255 US
         172.16.0.1 -
         172.32.0.0 US
         192.168.1.1 -
         192.169.0.0 US
         223.255.255.255 US
         224.0.0.1 -
         ::1 -
         100:: SE
         fbff:: SE
         fd12:3456::1 -
         fe00:: SE
         fe80::1 -
         fec0:: SE
         ff02::1 -",
    );
}

#[test]
fn a_table_without_networks_is_empty() {
    let empty = Builder::default().finish();
    assert!(empty.is_empty());
    check(&empty, "8.8.8.8 -\n2001:4860:4860::8888 -");
}

#[test]
fn networks_out_of_order_are_rejected() {
    let mut builder = Builder::default();
    let mut add = |first: &str, last: &str| {
        builder.add(first.parse().expect("first"), last.parse().expect("last"), country("SE")).is_ok()
    };
    assert!(add("1.0.0.0", "1.0.0.255"));
    assert!(!add("1.0.0.255", "1.0.1.0"));
    assert!(!add("1.0.2.1", "1.0.2.0"));
    assert!(!add("1.0.3.0", "::1"));
    assert!(add("1.0.1.0", "255.255.255.255"));
    assert!(!add("255.255.255.255", "255.255.255.255"));
}

#[test]
fn the_255th_country_is_rejected() {
    let letters = || b'A'..=b'Z';
    let codes = letters().flat_map(|first| letters().map(move |second| [first, second]));
    let mut builder = Builder::default();
    let mut added = codes.take(300).enumerate().map(|(index, code)| {
        let address = IpAddr::V4(Ipv4Addr::from_bits((1 << 24) + index as u32));
        builder.add(address, address, Country(code))
    });
    assert_eq!(added.position(|added| added == Err(TableError::TooManyCountries)), Some(254));
}

#[test]
fn codes_are_two_letters_and_not_unknown() {
    let code = |text| Country::from_code(text).map(|country| country.as_str().to_owned());
    assert_eq!(code("se").as_deref(), Some("SE"));
    for text in ["", "S", "SWE", "ZZ", "xx", "A1", "é", "\u{0}\u{0}"] {
        assert_eq!(code(text), None, "{text}");
    }
}

#[test]
fn bytes_of_another_format_are_rejected() {
    let bytes = table(&ranges("1.0.0.0 1.0.0.255 AU")).to_bytes();
    for length in [0, 7, 63, 64, bytes.len() - 1] {
        assert!(Table::from_bytes(bytes[..length].to_vec().leak()).is_err(), "{length} bytes");
    }
    let mut other_version = bytes.clone();
    other_version[7] += 1;
    assert!(Table::from_bytes(other_version.leak()).is_err());
    assert!(Table::from_bytes([bytes, vec![0]].concat().leak()).is_err());
}

/// Ascending ranges between random points, with and without gaps, and adjacent ones with equal and different countries.
fn random_ranges(points: Vec<u128>, to_address: fn(u128) -> IpAddr) -> Vec<Range> {
    let mut points = points;
    points.sort_unstable();
    points.dedup();
    let codes = ["SE", "DE", "SE", "US", "FR"];
    let between = points.windows(2).enumerate().filter(|(index, _)| index % 4 != 3);
    between.map(|(i, ends)| (to_address(ends[0]), to_address(ends[1] - 1), country(codes[i % 5]))).collect()
}

fn v4(bits: u128) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(bits as u32))
}

fn v6(bits: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(bits))
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Checks addresses at, before and after both ends of each range and inside it, in the table and in a decoded copy.
fn ranges_hold(ranges: &[Range], to_address: fn(u128) -> IpAddr) {
    let table = table(ranges);
    let copy = Table::from_bytes(table.to_bytes().leak()).expect("its own bytes");
    let addresses = ranges.iter().flat_map(|(first, last, _)| {
        let (first, last) = (bits(*first), bits(*last));
        let inside = [1, 3, 5, 7].map(|eighths| first + (last - first) / 8 * eighths);
        [first - 1, first, first + 1, last - 1, last, last + 1].into_iter().chain(inside)
    });
    for address in addresses.map(to_address) {
        let plain = ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&address));
        assert_eq!(table.country(address), plain.map(|range| range.2), "{address}");
        assert_eq!(copy.country(address), table.country(address), "{address}");
    }
}

proptest! {
    #[test]
    fn every_ipv4_range_holds_from_its_first_address_to_its_last(
        // Public space without gaps; close points give many starts in one block.
        near in prop::collection::vec(0u128..0x30000, 0..60),
        far in prop::collection::vec(0xb00_0000u128..0x63ff_ffff, 2..60),
    ) {
        let near = near.into_iter().map(|point| 0x2000_0000 + point);
        ranges_hold(&random_ranges(near.chain(far).collect(), v4), v4);
    }

    #[test]
    fn every_ipv6_range_holds_from_its_first_address_to_its_last(
        networks in prop::collection::vec((0x2000u128..0x3fff, any::<u128>(), 16u32..=128), 2..80),
    ) {
        // Few different values in each part, so that points share blocks at every level.
        let point = |(top, rest, prefix): (u128, u128, u32)| {
            let sparse = rest & 0x0003_0000_0101_0003_0000_0000_0000_0301;
            ((top & 0x2003) << 112 | sparse & (u128::MAX >> 16)) & !(u128::MAX.checked_shr(prefix).unwrap_or(0))
        };
        ranges_hold(&random_ranges(networks.into_iter().map(point).collect(), v6), v6);
    }

    #[test]
    fn a_damaged_table_causes_no_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..200),
        addresses in prop::collection::vec(any::<u128>(), 50),
    ) {
        let whole = table(&ranges(
            "20.0.0.0 20.0.1.255 AU
             2a00:1:2:: 2a00:1:2:7fff:ffff:ffff:ffff:ffff DE",
        ));
        let mut bytes = whole.to_bytes();
        let length = bytes.len() - 64;
        damage.iter().for_each(|(place, byte)| bytes[64 + place.index(length)] = *byte);
        let damaged = Table::from_bytes(bytes.leak()).expect("the header is whole");
        for address in addresses {
            damaged.country(v4(address));
            damaged.country(v6(address));
        }
    }

    #[test]
    fn addresses_are_parsed_as_by_the_standard_library(
        address in any::<[u8; 4]>(),
        text in "[0-9.]{0,16}|[0-9]{1,3}(\\.[0-9]{1,3}){2,4}|(0|1|25|99|100|255|256)(\\.(0|00|1|9|010|255|256)){3}",
        noise in ".{0,20}",
        place in any::<prop::sample::Index>(),
        byte in 0u8..128,
    ) {
        let written = Ipv4Addr::from(address).to_string();
        let mut changed = written.clone().into_bytes();
        changed[place.index(written.len())] = byte;
        let changed = String::from_utf8(changed).expect("ASCII");
        for text in [written, changed, text, noise] {
            prop_assert_eq!(parse_address(&text), text.parse::<IpAddr>().ok(), "{}", text);
        }
    }
}

#[test]
fn every_number_is_parsed_in_every_position() {
    for place in 0..4 {
        for number in 0..1_100 {
            let mut numbers = ["0".to_owned(), "12".into(), "255".into(), "7".into()];
            numbers[place] = number.to_string();
            let text = numbers.join(".");
            assert_eq!(parse_address(&text), text.parse().ok(), "{text}");
        }
    }
}
