//! Number of distinct players.

use super::bytes::{ByteReader, Corrupt, put_varint};
use super::registers::Registers;

/// The number of distinct 64-bit hashes (of [`super::hash_player`]): exact up to 1,024, then estimated by
/// HyperLogLog with a standard error of 0.57 %.
///
/// The representation depends only on the number of distinct hashes, and the registers are the same as if there had
/// never been an exact set: any order and grouping of inserts and merges gives the same bytes. A player cannot be
/// removed. An empty set takes 8 bytes, up to four players take 40 bytes, up to 1,024 take 11 to 22 bytes each, and
/// more than that 32 KiB.
#[derive(Clone, Debug, Default)]
pub struct Distinct(Option<Box<Sketch>>);

#[derive(Clone, Debug)]
enum Sketch {
    /// Most minutes of most series have very few players. Zero marks a free place, here and in the table.
    Few([u64; FEW]),
    Table(Table),
    Dense(Registers),
}

const FEW: usize = 4;
/// Up to this number, the hashes themselves are kept.
pub(super) const EXACT_MAX: usize = 1_024;
/// Marks registers in the encoded form.
const DENSE: u64 = EXACT_MAX as u64 + 1;

impl PartialEq for Distinct {
    fn eq(&self, other: &Self) -> bool {
        match (self.registers(), other.registers()) {
            (Some(one), Some(two)) => one == two,
            (None, None) => self.sorted() == other.sorted(),
            _ => false,
        }
    }
}

impl Distinct {
    /// Counts this hash once. The hash 0 counts as 1.
    #[inline]
    pub fn insert(&mut self, hash: u64) {
        let hash = hash.max(1);
        match self.0.as_deref_mut() {
            Some(Sketch::Dense(registers)) => registers.insert(hash),
            Some(sketch) => sketch.insert(hash),
            None => self.0 = Some(Box::new(Sketch::Few([hash, 0, 0, 0]))),
        }
    }

    /// Adds another set.
    pub fn merge(&mut self, other: &Distinct) {
        let Some(theirs) = other.0.as_deref() else { return };
        let Some(ours) = self.0.as_deref_mut() else {
            self.0.clone_from(&other.0);
            return;
        };
        match theirs {
            Sketch::Dense(registers) => ours.dense().merge(registers),
            exact => exact.hashes().for_each(|hash| ours.insert(hash)),
        }
    }

    /// Returns the number of distinct hashes, exact or estimated.
    pub fn count(&self) -> u64 {
        match self.registers() {
            Some(registers) => registers.estimate().max(DENSE),
            None => self.hashes().count() as u64,
        }
    }

    /// Returns the number of distinct hashes in the union of the sets.
    pub(crate) fn union_count<'a>(sketches: impl IntoIterator<Item = &'a Distinct>) -> u64 {
        let mut union = Distinct::default();
        sketches.into_iter().for_each(|sketch| union.merge(sketch));
        union.count()
    }

    /// Returns true if no hash was inserted.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns true if the number is exact.
    pub(crate) fn is_exact(&self) -> bool {
        self.registers().is_none()
    }

    /// Returns the heap memory in use, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let Some(sketch) = self.0.as_deref() else { return 0 };
        size_of::<Sketch>()
            + match sketch {
                Sketch::Few(_) => 0,
                Sketch::Table(table) => size_of_val(&table.slots[..]),
                Sketch::Dense(_) => Registers::HEAP_BYTES,
            }
    }

    /// Encodes the number of hashes and each hash in 8 bytes, ascending; or 1,025 and the registers.
    ///
    /// Delta encoding would save 8 % at a hundred players and nothing at eight.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Some(registers) = self.registers() {
            put_varint(out, DENSE);
            return registers.encode(out);
        }
        let sorted = self.sorted();
        put_varint(out, sorted.len() as u64);
        out.extend(sorted.iter().flat_map(|hash| hash.to_le_bytes()));
    }

    /// Decodes a set written by [`Distinct::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Distinct, Corrupt> {
        let mut reader = ByteReader(bytes);
        let distinct = match reader.varint()? {
            DENSE => Registers::decode(&mut reader)?.into(),
            _ => {
                reader = ByteReader(bytes);
                exact(&read_hashes(&mut reader)?)?
            }
        };
        reader.end().map(|()| distinct)
    }

    /// Returns the hashes in any order; none once only registers are left.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.0.as_deref().into_iter().flat_map(Sketch::hashes)
    }

    pub(super) fn registers(&self) -> Option<&Registers> {
        match self.0.as_deref() {
            Some(Sketch::Dense(registers)) => Some(registers),
            _ => None,
        }
    }

    fn sorted(&self) -> Vec<u64> {
        let mut hashes: Vec<u64> = self.hashes().collect();
        hashes.sort_unstable();
        hashes
    }
}

impl From<Registers> for Distinct {
    fn from(registers: Registers) -> Self {
        Distinct(Some(Box::new(Sketch::Dense(registers))))
    }
}

impl FromIterator<u64> for Distinct {
    fn from_iter<T: IntoIterator<Item = u64>>(hashes: T) -> Self {
        let mut distinct = Distinct::default();
        distinct.extend(hashes);
        distinct
    }
}

impl Extend<u64> for Distinct {
    fn extend<T: IntoIterator<Item = u64>>(&mut self, hashes: T) {
        hashes.into_iter().for_each(|hash| self.insert(hash));
    }
}

/// Reads a varint and that many hashes, ascending.
pub(super) fn read_hashes(reader: &mut ByteReader) -> Result<Vec<u64>, Corrupt> {
    let count = reader.length(8)?;
    let (eights, _) = reader.take(count * 8)?.as_chunks::<8>();
    let hashes: Vec<u64> = eights.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let ascending = hashes.first() != Some(&0) && hashes.is_sorted_by(|one, two| one < two);
    if ascending { Ok(hashes) } else { Err(Corrupt("hashes are not in order")) }
}

/// Creates an exact set.
fn exact(hashes: &[u64]) -> Result<Distinct, Corrupt> {
    if hashes.len() > EXACT_MAX {
        return Err(Corrupt("too many hashes for an exact number"));
    }
    Ok(hashes.iter().copied().collect())
}

impl Sketch {
    #[inline]
    fn insert(&mut self, hash: u64) {
        match self {
            Sketch::Dense(registers) => registers.insert(hash),
            Sketch::Table(table) => {
                table.insert(hash);
                if table.used > EXACT_MAX {
                    self.dense();
                }
            }
            Sketch::Few(few) => match few.iter_mut().find(|slot| **slot == hash || **slot == 0) {
                Some(slot) => *slot = hash,
                None => *self = Sketch::Table(Table::of(few.iter().copied().chain([hash]))),
            },
        }
    }

    /// Converts the hashes to registers, unless they are registers already.
    fn dense(&mut self) -> &mut Registers {
        if !matches!(self, Sketch::Dense(_)) {
            let mut registers = Registers::new();
            self.hashes().for_each(|hash| registers.insert(hash));
            *self = Sketch::Dense(registers);
        }
        match self {
            Sketch::Dense(registers) => registers,
            _ => unreachable!("converted to dense above"),
        }
    }

    fn hashes(&self) -> impl Iterator<Item = u64> {
        let slots: &[u64] = match self {
            Sketch::Few(few) => few,
            Sketch::Table(table) => &table.slots,
            Sketch::Dense(_) => &[],
        };
        slots.iter().copied().filter(|hash| *hash != 0)
    }
}

/// A hash table with open addressing, at most three quarters full, in 8 to 2,048 slots.
#[derive(Clone, Debug)]
struct Table {
    used: usize,
    slots: Box<[u64]>,
}

impl Table {
    fn of(hashes: impl Iterator<Item = u64>) -> Table {
        let mut table = Table::with_slots(2 * FEW);
        hashes.for_each(|hash| table.insert(hash));
        table
    }

    fn with_slots(slots: usize) -> Table {
        Table { used: 0, slots: vec![0; slots].into_boxed_slice() }
    }

    #[inline]
    fn insert(&mut self, hash: u64) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != hash {
            if self.slots[at] == 0 {
                self.slots[at] = hash;
                self.used += 1;
                if self.used * 4 > self.slots.len() * 3 {
                    self.grow();
                }
                return;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Table::with_slots(self.slots.len() * 2);
        self.slots.iter().filter(|hash| **hash != 0).for_each(|hash| larger.insert(*hash));
        *self = larger;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::hash_player;
    use super::*;

    fn players(from: u64, to: u64) -> impl Iterator<Item = u64> {
        (from..to).map(|player| hash_player(1, &player.to_le_bytes()))
    }

    fn bytes(distinct: &Distinct) -> Vec<u8> {
        let mut out = Vec::new();
        distinct.encode(&mut out);
        out
    }

    /// Counts players `0..number` in order, in reverse order, and in two overlapping parts.
    fn check(number: u64, is_exact: bool, error_max: f64) {
        let whole: Distinct = players(0, number).collect();
        let mut hashes: Vec<u64> = players(0, number).collect();
        hashes.reverse();
        let mut halves: Distinct = hashes[hashes.len() / 3..].iter().copied().collect();
        halves.merge(&hashes[..hashes.len() * 2 / 3].iter().copied().collect());
        for other in [
            halves,
            hashes.into_iter().collect(),
            Distinct::decode(&bytes(&whole)).expect("the encoding is valid"),
        ] {
            assert_eq!(other, whole, "{number}");
            assert_eq!(bytes(&other), bytes(&whole), "{number}");
        }
        assert_eq!(whole.is_exact(), is_exact, "{number}");
        let error = (whole.count() as f64 - number as f64).abs();
        assert!(error <= error_max * number as f64, "{number}: {}", whole.count());
    }

    #[test]
    fn up_to_1024_players_are_counted_exactly() {
        for number in [0, 1, 2, 4, 5, 6, 7, 12, 13, 100, 768, 769, 1_023, 1_024] {
            check(number, true, 0.0);
        }
    }

    #[test]
    fn estimate_is_continuous_beyond_1024_players() {
        for number in [1_025, 1_026, 1_500, 10_000, 40_000, 100_000, 300_000] {
            check(number, false, 0.025);
        }
    }

    /// The standard error is 1.04 / sqrt(2^15) = 0.57 %, so 1.1 % is nearly twice that.
    #[test]
    fn error_at_a_million_players_is_below_1_1_percent_in_9_of_10_cases() {
        let (seeds, million) = (32, 1_000_000u64);
        let error = |seed: u64| {
            let mut distinct = Distinct::default();
            (0..million).for_each(|player| distinct.insert(hash_player(seed, &player.to_le_bytes())));
            (distinct.count() as f64 / million as f64 - 1.0).abs()
        };
        let errors: Vec<f64> = (0..seeds).map(error).collect();
        let typical = (errors.iter().map(|error| error.powi(2)).sum::<f64>() / seeds as f64).sqrt();
        let beyond = errors.iter().filter(|error| **error >= 0.011).count();
        assert!(typical < 0.0075 && beyond <= 3, "{typical}, {beyond} beyond");
    }

    /// Stored sets must stay readable: a change of these bytes needs a new version.
    #[test]
    fn bytes_of_an_estimate_are_stable() {
        let stored = bytes(&players(0, 100_000).collect());
        assert_eq!((stored.len(), hash_player(0, &stored)), (16_391, 12_689_576_203_998_374_519));
    }

    #[test]
    fn empty_set_takes_8_bytes() {
        assert_eq!(size_of::<Distinct>(), 8);
        assert_eq!(size_of::<Sketch>(), 40);
        assert_eq!(bytes(&Distinct::default()), [0]);
    }

    #[test]
    fn union_counts_each_player_once() {
        let parts: Vec<Distinct> =
            (0..10).map(|part| players(part * 50, part * 50 + 100).collect()).collect();
        assert_eq!(Distinct::union_count(&parts), 550);
        assert_eq!(Distinct::union_count([]), 0);
    }

    /// Numbers of hashes near the step from exact to dense, and registers of all ranks.
    fn some_hashes() -> impl Strategy<Value = Vec<u64>> {
        (prop_oneof![0usize..40, 1_000usize..1_060, 0usize..3_000], any::<u64>(), 0u32..50).prop_map(
            |(number, seed, zeros)| {
                let hash = |player: usize| hash_player(seed, &player.to_le_bytes());
                let rare = |hash: u64| {
                    if hash.is_multiple_of(7) { hash & !(u64::MAX >> 14 << (50 - zeros)) } else { hash }
                };
                (0..number).map(hash).map(rare).collect()
            },
        )
    }

    proptest! {
        #[test]
        fn order_and_grouping_do_not_change_the_bytes(hashes in some_hashes(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 2)) {
            let whole: Distinct = hashes.iter().copied().collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(hashes.len() + 1)).collect();
            cuts.sort_unstable();
            let part = |range: std::ops::Range<usize>| hashes[range].iter().rev().copied().collect::<Distinct>();
            let mut merged = part(cuts[1]..hashes.len());
            merged.merge(&part(cuts[0]..cuts[1]));
            let mut first = part(0..cuts[0]);
            first.merge(&merged);
            prop_assert_eq!(bytes(&first), bytes(&whole));
            prop_assert_eq!(Distinct::decode(&bytes(&whole)), Ok(whole.clone()));
            let mut twice = whole.clone();
            twice.merge(&first);
            prop_assert_eq!(twice, whole);
        }

        #[test]
        fn any_bytes_are_rejected_or_a_canonical_set(
            hashes in some_hashes(),
            noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut: Option<prop::sample::Index>,
        ) {
            let mut noisy = bytes(&hashes.into_iter().collect());
            noise.iter().for_each(|(at, byte)| *at.get_mut(&mut noisy) = *byte);
            noisy.truncate(cut.map_or(noisy.len(), |cut| cut.index(noisy.len())));
            if let Ok(distinct) = Distinct::decode(&noisy) {
                prop_assert_eq!(bytes(&distinct), noisy);
            }
        }
    }
}
