//! Reading a country table from an .mmdb file of any vendor.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use maxminddb::{LookupResult, MaxMindDbError, PathElement, Reader, WithinOptions};

use super::table::{Builder, Country, Table, TableError};

/// The reason why a file is not usable.
#[derive(Debug, thiserror::Error)]
pub(super) enum MmdbError {
    /// The file is not an .mmdb file, or it is damaged.
    #[error(transparent)]
    Format(#[from] MaxMindDbError),
    /// The networks of the file do not form a table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// No record of the file contains a country.
    #[error("no record of the file contains a country code")]
    NoCountries,
}

/// The paths of the country code: flat in files of DB-IP and IPinfo, nested in those of MaxMind. For some networks
/// MaxMind has only the country of registration, which is better than none.
const PATHS: [&[PathElement<'static>]; 4] = [
    &[PathElement::Key("country_code")],
    &[PathElement::Key("country"), PathElement::Key("iso_code")],
    &[PathElement::Key("country")],
    &[PathElement::Key("registered_country"), PathElement::Key("iso_code")],
];

/// Reads the networks of the file, IPv4 and IPv6. Aliases of the IPv4 space (6to4, Teredo) are ignored.
pub(super) fn read_table(file: &[u8]) -> Result<Table, MmdbError> {
    let reader = Reader::from_source(file)?;
    // A tree has one leaf more than nodes. In a damaged file nodes may point backwards, and the walk would not end in
    // years. Counting all leaves, including the empty ones, bounds it.
    let leaves_max = reader.metadata().node_count as usize * 3 + 1;
    let mut countries = HashMap::new();
    let mut builder = Builder::default();
    let options = WithinOptions::default().include_networks_without_data();
    for (leaf, found) in reader.networks(options)?.enumerate() {
        let found = found?;
        if leaf > leaves_max {
            return Err(MaxMindDbError::invalid_database("the search tree has a cycle").into());
        }
        let Some(record) = found.offset() else { continue };
        let country = match countries.get(&record) {
            Some(country) => *country,
            None => *countries.entry(record).or_insert(country_of(&found)?),
        };
        if let Some(country) = country {
            let (first, last) = range_of(&found)?;
            builder.add(first, last, country)?;
        }
    }
    let any = countries.values().any(Option::is_some);
    any.then(|| builder.finish()).ok_or(MmdbError::NoCountries)
}

fn country_of(found: &LookupResult<'_, &[u8]>) -> Result<Option<Country>, MaxMindDbError> {
    for path in PATHS {
        // A value of another type belongs to the record format of another vendor: try the next path.
        if let Ok(Some(code)) = found.decode_path::<&str>(path) {
            return Ok(Country::from_code(code));
        }
    }
    Ok(None)
}

/// Returns the first and the last address of a network.
fn range_of(found: &LookupResult<'_, &[u8]>) -> Result<(IpAddr, IpAddr), MaxMindDbError> {
    let network = found.network()?;
    let host_bits = |width: u32| width - u32::from(network.prefix());
    Ok(match network.network() {
        IpAddr::V4(first) => {
            let last = u64::from(first.to_bits()) | ((1u64 << host_bits(32)) - 1);
            (first.into(), Ipv4Addr::from_bits(last as u32).into())
        }
        IpAddr::V6(first) => {
            let hosts = 1u128.checked_shl(host_bits(128)).map_or(u128::MAX, |count| count - 1);
            (first.into(), Ipv6Addr::from_bits(first.to_bits() | hosts).into())
        }
    })
}
