//! A table of the countries of all addresses, in about 3 MB.
//!
//! Nothing here reads a file or knows a foreign format, so the build script creates the embedded table with the same
//! code that the server uses for an operator's file.
//!
//! # Layout
//! The address space is a sorted list of starts, each valid until the next one. It is split into blocks, so that a
//! lookup touches two or three cache lines:
//!
//! * IPv4: the high 16 bits are an index. A block is either one country or a *run*: the inner starts as (low 16 bits,
//!   country), 3 bytes each.
//! * IPv6: the high 24 bits are searched in a sorted list of blocks. A run contains (next 24 bits, country), 4 bytes
//!   each. Networks longer than /48 are rare (one start in a hundred): their /48 is marked `DEEP`, and they are in a list
//!   of whole addresses.
//!
//! The first entry of a run is the start of its block, which needs no bound; the number of following entries is stored
//! in its place. All integers are little-endian. Entries are read byte by byte, so the table needs no alignment and no
//! copy.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An ISO 3166-1 alpha-2 code in upper case, or a code that the data uses in its place (`XK`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Country([u8; 2]);

impl Country {
    /// Parses a two-letter code. Returns `None` for `ZZ` and `XX`, which mean "unknown".
    pub fn from_code(code: &str) -> Option<Country> {
        let letters: [u8; 2] = code.as_bytes().try_into().ok()?;
        let letters = letters.map(|letter| letter.to_ascii_uppercase());
        let is_code = letters.iter().all(u8::is_ascii_uppercase) && !matches!(&letters, b"ZZ" | b"XX");
        is_code.then_some(Country(letters))
    }

    /// Returns the two letters.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("a code consists of ASCII letters")
    }
}

impl fmt::Debug for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The reason why a table could not be built or read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TableError {
    /// The bytes are not a table of this version.
    NotATable,
    /// A network begins before the end of the one before it.
    OutOfOrder(IpAddr),
    /// A country is stored in one byte; the world has about 250 countries.
    TooManyCountries,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::NotATable => f.write_str("not a country table of this version"),
            TableError::OutOfOrder(first) => {
                write!(f, "the network that begins at {first} overlaps the one before it")
            }
            TableError::TooManyCountries => write!(f, "more than {COUNTRIES_MAX} countries"),
        }
    }
}

impl std::error::Error for TableError {}

/// The country number of an address that belongs to none.
const NONE: u8 = 0;
/// The country number that refers to the list of whole addresses.
const DEEP: u8 = 255;
/// The country numbers that remain.
const COUNTRIES_MAX: usize = 254;
/// Marks a block of one country. Its lowest byte is then the country number.
const WHOLE: u32 = 1 << 31;

/// Changes with the layout, so that a table of another build is rejected rather than misread.
const MAGIC: [u8; 8] = *b"pmgeo\0\0\x01";
const HEADER_BYTES: usize = 64;

/// The address space with its countries. Lookups neither block nor allocate.
pub(super) struct Table {
    /// Indexed by country number; number 0 is not used.
    countries: Cow<'static, [[u8; 2]]>,
    v4_blocks: Cow<'static, [[u8; 4]]>,
    v4_runs: Cow<'static, [[u8; 3]]>,
    /// (high 24 bits, block); the block is valid until the next entry.
    v6_blocks: Cow<'static, [[u8; 8]]>,
    v6_runs: Cow<'static, [[u8; 4]]>,
    /// (whole address, country).
    v6_deep: Cow<'static, [[u8; 17]]>,
}

impl Table {
    /// Returns the country of an address; `None` for private, reserved and unknown addresses. An IPv4 address mapped to
    /// IPv6 (`::ffff:192.0.2.1`) counts as IPv4.
    #[inline]
    pub(super) fn country(&self, address: IpAddr) -> Option<Country> {
        let number = match address {
            IpAddr::V4(v4) => self.number_v4(v4.to_bits()),
            IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
                Some(v4) => self.number_v4(v4.to_bits()),
                None => self.number_v6(v6.to_bits()),
            },
        };
        self.countries.get(number as usize).copied().filter(|_| number != NONE).map(Country)
    }

    /// Returns true if the table has no countries.
    pub(super) fn is_empty(&self) -> bool {
        self.countries.len() <= 1
    }

    #[inline]
    fn number_v4(&self, address: u32) -> u8 {
        let Some(block) = self.v4_blocks.get((address >> 16) as usize) else { return NONE };
        number_in_block(u32::from_le_bytes(*block), &self.v4_runs, address & 0xffff)
    }

    fn number_v6(&self, address: u128) -> u8 {
        let high = (address >> 104) as u32;
        let after = self.v6_blocks.partition_point(|entry| keyed_block(entry).0 <= high);
        let Some(entry) = after.checked_sub(1).and_then(|index| self.v6_blocks.get(index)) else {
            return NONE;
        };
        let low = (address >> 80) as u32 & 0xff_ffff;
        match number_in_block(keyed_block(entry).1, &self.v6_runs, low) {
            DEEP => self.number_deep(address),
            number => number,
        }
    }

    fn number_deep(&self, address: u128) -> u8 {
        let after = self.v6_deep.partition_point(|entry| deep_start(entry) <= address);
        after.checked_sub(1).and_then(|index| self.v6_deep.get(index)).map_or(NONE, |entry| entry[16])
    }
}

/// Returns the country number at `low` in a block. In a damaged table a missing run is no country, not a panic.
#[inline]
fn number_in_block<const N: usize>(block: u32, runs: &[[u8; N]], low: u32) -> u8 {
    if block & WHOLE != 0 {
        return block as u8;
    }
    let Some((head, following)) = runs.get(block as usize..).and_then(<[_]>::split_first) else {
        return NONE;
    };
    let following = &following[..following.len().min(bound(head) as usize)];
    match following.partition_point(|entry| bound(entry) <= low) {
        0 => head[N - 1],
        after => following[after - 1][N - 1],
    }
}

/// Returns the part of a run's entry before its country.
#[inline]
fn bound<const N: usize>(entry: &[u8; N]) -> u32 {
    let mut wide = [0; 4];
    wide[..N - 1].copy_from_slice(&entry[..N - 1]);
    u32::from_le_bytes(wide)
}

fn keyed_block(entry: &[u8; 8]) -> (u32, u32) {
    let [a, b, c, d, block @ ..] = *entry;
    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(block))
}

fn deep_start(entry: &[u8; 17]) -> u128 {
    let mut start = [0; 16];
    start.copy_from_slice(&entry[..16]);
    u128::from_le_bytes(start)
}

/// Parses an address in a header or a log. The dotted form has a parser of its own, a third faster than that of the
/// standard library; both reject the same texts.
#[inline]
pub fn parse_address(text: &str) -> Option<IpAddr> {
    match parse_dotted(text.as_bytes()) {
        Some(bits) => Some(IpAddr::V4(Ipv4Addr::from_bits(bits))),
        None => text.parse().ok(),
    }
}

/// Repeats a byte sixteen times.
const fn splat(byte: u8) -> u128 {
    u128::from_le_bytes([byte; 16])
}

const HIGH_BITS: u128 = splat(0x80);

/// Parses `a.b.c.d` of 8 to 15 bytes. Returns `None` if the text has another form or is shorter.
///
/// Processes all bytes at once, because the lengths of the four numbers differ between addresses and branches on them
/// are mispredicted.
#[inline]
fn parse_dotted(text: &[u8]) -> Option<u32> {
    if text.len() > 15 {
        return None;
    }
    // The two halves overlap where they are equal. An additional dot ends the last number.
    let (first, last) = (text.first_chunk()?, text.last_chunk()?);
    let length = text.len() * 8;
    let halves =
        u128::from(u64::from_le_bytes(*first)) | (u128::from(u64::from_le_bytes(*last)) << (length - 64));
    let word = halves | (u128::from(b'.') << length);
    let digits = word ^ splat(b'0');
    let no_digit = (((digits & !HIGH_BITS) + splat(0x7f - 9)) | word) & (u128::MAX >> (120 - length));
    let no_dot = (((word ^ splat(b'.')) & !HIGH_BITS) + splat(0x7f)) | word;
    let dots = !no_dot & HIGH_BITS;
    if dots.count_ones() != 4 || no_digit & HIGH_BITS != dots {
        return None;
    }
    parse_numbers(digits, dots)
}

/// Parses four numbers of up to three digits. `dots` has the highest bit of the byte after each of them.
///
/// Leading zeros are rejected, because some systems read such a number as octal.
#[inline]
fn parse_numbers(digits: u128, mut dots: u128) -> Option<u32> {
    let (mut address, mut wrong, mut start) = (0, false, 0);
    for _ in 0..4 {
        let end = dots.trailing_zeros() - 7;
        dots &= dots - 1;
        let length = (end - start) / 8;
        // The last digit moves to the third byte; leading bytes are zero.
        let aligned = ((digits >> start) as u32).wrapping_shl(24u32.wrapping_sub(end - start));
        let [hundreds, tens, ones, _] = aligned.to_le_bytes().map(u32::from);
        let number = hundreds * 100 + tens * 10 + ones;
        let smallest = [u32::MAX, 0, 10, 100][(length & 3) as usize];
        wrong |= length > 3 || number < smallest || number > 255;
        address = address << 8 | number;
        start = end + 8;
    }
    (!wrong).then_some(address)
}

// ---- encoding ----

impl Table {
    /// Reads the encoding of [`Table::to_bytes`] without copying it.
    pub(super) fn from_bytes(bytes: &'static [u8]) -> Result<Table, TableError> {
        let mut reader = Sections::new(bytes)?;
        let table = Table {
            countries: reader.read()?,
            v4_blocks: reader.read()?,
            v4_runs: reader.read()?,
            v6_blocks: reader.read()?,
            v6_runs: reader.read()?,
            v6_deep: reader.read()?,
        };
        reader.bytes.is_empty().then_some(table).ok_or(TableError::NotATable)
    }

    /// Encodes the table: magic and version, the number of entries of each of the six sections as `u32`, zeros up to 64
    /// bytes, then the sections in order.
    #[allow(dead_code, reason = "called by the build script and by tests")]
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let sections = [
            (self.countries.len(), self.countries.as_flattened()),
            (self.v4_blocks.len(), self.v4_blocks.as_flattened()),
            (self.v4_runs.len(), self.v4_runs.as_flattened()),
            (self.v6_blocks.len(), self.v6_blocks.as_flattened()),
            (self.v6_runs.len(), self.v6_runs.as_flattened()),
            (self.v6_deep.len(), self.v6_deep.as_flattened()),
        ];
        let mut bytes = MAGIC.to_vec();
        bytes.extend(sections.iter().flat_map(|(entries, _)| (*entries as u32).to_le_bytes()));
        bytes.resize(HEADER_BYTES, 0);
        sections.iter().for_each(|(_, section)| bytes.extend_from_slice(section));
        bytes
    }
}

/// Reads the sections in order.
struct Sections {
    counts: &'static [[u8; 4]],
    bytes: &'static [u8],
}

impl Sections {
    fn new(bytes: &'static [u8]) -> Result<Sections, TableError> {
        let (header, bytes) = bytes.split_at_checked(HEADER_BYTES).ok_or(TableError::NotATable)?;
        let counts = header.strip_prefix(&MAGIC).ok_or(TableError::NotATable)?;
        Ok(Sections { counts: counts.as_chunks().0, bytes })
    }

    fn read<const N: usize>(&mut self) -> Result<Cow<'static, [[u8; N]]>, TableError> {
        let (count, counts) = self.counts.split_first().ok_or(TableError::NotATable)?;
        let length = u32::from_le_bytes(*count) as usize * N;
        let (section, bytes) = self.bytes.split_at_checked(length).ok_or(TableError::NotATable)?;
        (self.counts, self.bytes) = (counts, bytes);
        Ok(Cow::Borrowed(section.as_chunks().0))
    }
}

// ---- building ----

/// An address and the country number from there until the next start.
type Start = (u128, u8);

/// Builds a table from networks in ascending order, separately for IPv4 and IPv6.
pub(super) struct Builder {
    countries: Vec<[u8; 2]>,
    /// The country number of each pair of letters; zero if not assigned.
    numbers: [u8; 26 * 26],
    v4: Ranges,
    v6: Ranges,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            countries: vec![[0; 2]],
            numbers: [NONE; 26 * 26],
            v4: Ranges::default(),
            v6: Ranges::default(),
        }
    }
}

impl Builder {
    /// Assigns the addresses from `first` to `last`, inclusive, to a country. Adjacent ranges of one country are
    /// merged.
    pub(super) fn add(&mut self, first: IpAddr, last: IpAddr, country: Country) -> Result<(), TableError> {
        let number = self.number(country)?;
        let added = match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                self.v4.add(first.to_bits().into(), last.to_bits().into(), number)
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => self.v6.add(first.to_bits(), last.to_bits(), number),
            _ => None,
        };
        added.ok_or(TableError::OutOfOrder(first))
    }

    fn number(&mut self, country: Country) -> Result<u8, TableError> {
        let [first, second] = country.0.map(|letter| usize::from(letter - b'A'));
        let number = &mut self.numbers[first * 26 + second];
        if *number == NONE {
            if self.countries.len() > COUNTRIES_MAX {
                return Err(TableError::TooManyCountries);
            }
            *number = self.countries.len() as u8;
            self.countries.push(country.0);
        }
        Ok(*number)
    }

    /// Builds the table, without the addresses that are not public.
    pub(super) fn finish(self) -> Table {
        let v4 = self.v4.finish(u32::MAX.into(), &NOT_PUBLIC_V4.map(v4_range));
        let v6 = self.v6.finish(u128::MAX, &NOT_PUBLIC_V6.map(v6_range));
        let (v4_blocks, v4_runs) = blocks_and_runs(&v4, 16);
        let (v6, v6_deep) = without_deep(&v6);
        let (v6_blocks, v6_runs) = blocks_and_runs(&v6, 24);
        Table {
            countries: self.countries.into(),
            v4_blocks: expand_blocks(&v4_blocks).into(),
            v4_runs: v4_runs.into(),
            v6_blocks: v6_blocks.iter().map(keyed).collect(),
            v6_runs: v6_runs.into(),
            v6_deep: v6_deep.into(),
        }
    }
}

/// Addresses without a location, whatever a file contains: this host, private, shared by a carrier, link-local,
/// multicast and reserved.
const NOT_PUBLIC_V4: [(Ipv4Addr, u32); 8] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// The same for IPv6. The first range contains mapped IPv4 addresses, which are looked up before as IPv4.
const NOT_PUBLIC_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 0), 8),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
];

fn v4_range((first, prefix): (Ipv4Addr, u32)) -> (u128, u128) {
    let first = first.to_bits();
    (first.into(), (first | u32::MAX >> prefix).into())
}

fn v6_range((first, prefix): (Ipv6Addr, u32)) -> (u128, u128) {
    (first.to_bits(), first.to_bits() | u128::MAX >> prefix)
}

/// The starts of one address family.
#[derive(Default)]
struct Ranges {
    starts: Vec<Start>,
    last: Option<u128>,
}

impl Ranges {
    /// Returns `None` if the range does not start after all earlier ones.
    fn add(&mut self, first: u128, last: u128, number: u8) -> Option<()> {
        let free_from = self.last.map_or(Some(0), |last| last.checked_add(1))?;
        if first < free_from || last < first {
            return None;
        }
        if first > free_from {
            self.start(free_from, NONE);
        }
        self.start(first, number);
        self.last = Some(last);
        Some(())
    }

    fn start(&mut self, at: u128, number: u8) {
        if self.starts.last().is_none_or(|(_, before)| *before != number) {
            self.starts.push((at, number));
        }
    }

    /// Returns the starts of the whole space up to `max`; the first is at zero.
    fn finish(mut self, max: u128, not_public: &[(u128, u128)]) -> Vec<Start> {
        let free_from = self.last.map_or(0, |last| last.saturating_add(1));
        if self.last < Some(max) {
            self.start(free_from, NONE);
        }
        not_public.iter().for_each(|(first, last)| blank(&mut self.starts, *first, *last, max));
        self.starts.dedup_by_key(|(_, number)| *number);
        self.starts
    }
}

/// Clears the country of the addresses from `first` to `last`.
fn blank(starts: &mut Vec<Start>, first: u128, last: u128, max: u128) {
    let from = starts.partition_point(|(at, _)| *at < first);
    let until = starts.partition_point(|(at, _)| *at <= last);
    let resumed = starts[until - 1].1;
    let resumes = last < max && starts.get(until).is_none_or(|(at, _)| *at != last + 1);
    let replaced = [(first, NONE)].into_iter().chain(resumes.then_some((last.wrapping_add(1), resumed)));
    starts.splice(from..until, replaced);
}

/// Splits a list of starts at every multiple of `1 << low_bits`. Returns a list of block starts: `whole` returns the
/// value of a block of one country, `split` the value of a block that begins with a country and has further starts
/// inside.
fn split_blocks<V>(
    starts: &[Start],
    low_bits: u32,
    whole: impl Fn(u8) -> V,
    mut split: impl FnMut(u128, u8, &[Start]) -> V,
) -> Vec<(u128, V)> {
    let mut blocks: Vec<(u128, V)> = Vec::new();
    let mut country = NONE;
    for group in starts.chunk_by(|a, b| a.0 >> low_bits == b.0 >> low_bits) {
        let number = group[0].0 >> low_bits;
        let begins_here = group[0].0 == number << low_bits;
        let inner = &group[usize::from(begins_here)..];
        let first = if begins_here { group[0].1 } else { country };
        country = group[group.len() - 1].1;
        // The start that a split block leaves for its neighbour is replaced if the neighbour has starts of its own.
        blocks.pop_if(|(last, _)| *last == number);
        if inner.is_empty() {
            blocks.push((number, whole(first)));
        } else {
            blocks.push((number, split(number, first, inner)));
            blocks.push((number + 1, whole(country)));
        }
    }
    blocks
}

/// Splits into blocks and moves the inner starts of each into a run.
fn blocks_and_runs<const N: usize>(starts: &[Start], low_bits: u32) -> (Vec<(u128, u32)>, Vec<[u8; N]>) {
    let mut runs = Vec::new();
    let blocks = split_blocks(
        starts,
        low_bits,
        |country| WHOLE | u32::from(country),
        |number, first, inner| {
            let run = runs.len() as u32;
            runs.push(run_entry(inner.len() as u32, first));
            let block_start = number << low_bits;
            runs.extend(inner.iter().map(|(at, country)| run_entry((at - block_start) as u32, *country)));
            run
        },
    );
    (blocks, runs)
}

fn run_entry<const N: usize>(bound: u32, country: u8) -> [u8; N] {
    let mut entry = [country; N];
    entry[..N - 1].copy_from_slice(&bound.to_le_bytes()[..N - 1]);
    entry
}

/// Moves the starts inside a /48 to a list of their own. Returns the others by their high 48 bits.
fn without_deep(starts: &[Start]) -> (Vec<Start>, Vec<[u8; 17]>) {
    let mut deep = Vec::new();
    let shallow = split_blocks(
        starts,
        80,
        |country| country,
        |number, first, inner| {
            deep.push(deep_entry(&(number << 80, first)));
            deep.extend(inner.iter().map(deep_entry));
            DEEP
        },
    );
    (shallow, deep)
}

fn deep_entry((at, country): &Start) -> [u8; 17] {
    let mut entry = [*country; 17];
    entry[..16].copy_from_slice(&at.to_le_bytes());
    entry
}

/// Expands the blocks of IPv4 to all 65,536.
fn expand_blocks(blocks: &[(u128, u32)]) -> Vec<[u8; 4]> {
    let ends = blocks.iter().skip(1).map(|(number, _)| *number).chain([1 << 16]);
    let counted = blocks.iter().zip(ends);
    counted.flat_map(|((number, block), end)| (*number..end).map(|_| block.to_le_bytes())).collect()
}

fn keyed((number, block): &(u128, u32)) -> [u8; 8] {
    (u64::from(*block) << 32 | *number as u64).to_le_bytes()
}

#[cfg(test)]
mod tests;
