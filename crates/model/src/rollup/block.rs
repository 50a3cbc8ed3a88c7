//! A block: one row in one hour by minute, or in one day by hour.

use std::borrow::Cow;

use super::bytes::{
    BitMembers, ByteReader, Corrupt, put_packed, put_set, put_signed, put_varint, varint_bytes,
};
use super::slot_players::{self, StoredPlayers};
use super::{Aggregate, Bucket, Distinct, LatestValue, Quantiles, ValueStats, ValueSummary};

/// An hour of a row: 60 minutes.
pub type HourBlock = Block<60>;
/// A day of a row: 24 hours.
pub type DayBlock = Block<24>;

/// The slots of a row, at most 60, and their total, which always equals the sum of the slots.
///
/// Equal events give equal bytes, in any order and grouping. Only slots with events take memory.
#[derive(Clone, Debug)]
pub struct Block<const SLOTS: usize> {
    since: u64,
    /// One bit per slot that has an aggregate, and [`SUM_INCLUDES_LAST`].
    present: u64,
    /// The aggregates of these slots, ascending. If there are two or more, followed by the sum of all but the last:
    /// most events go to the last slot, which is added to the sum only when the next slot starts.
    aggregates: Vec<Aggregate>,
}

/// Set if the sum includes the last slot, as after decoding, so that frequent reads need not add it each time.
const SUM_INCLUDES_LAST: u64 = 1 << 63;

impl<const SLOTS: usize> Default for Block<SLOTS> {
    fn default() -> Self {
        const { assert!(SLOTS > 0 && SLOTS <= 60, "a slot is a bit of a word and their number has six bits") };
        Block { since: u64::MAX, present: 0, aggregates: Vec::new() }
    }
}

impl<const SLOTS: usize> PartialEq for Block<SLOTS> {
    fn eq(&self, other: &Self) -> bool {
        self.since == other.since && self.slots().eq(other.slots())
    }
}

impl<const SLOTS: usize> Block<SLOTS> {
    /// Counts one event of this log offset in its slot and in the total; see [`Aggregate::observe`].
    #[inline]
    pub fn observe(&mut self, slot: u8, offset: u64, player: Option<u64>, value: Option<(f64, Bucket)>) {
        self.add(slot, offset, |aggregate| aggregate.observe(player, value));
    }

    /// Adds a change to a slot and to the total. `since` is the lowest log offset among the events of `delta`
    /// themselves, not of the batch that contained them.
    pub fn apply(&mut self, slot: u8, since: u64, delta: &Aggregate) {
        self.since = self.since.min(since);
        if !delta.is_empty() {
            self.add(slot, since, |aggregate| aggregate.merge(delta));
        }
    }

    /// Changes a slot and the total by calling `add`, which must add something and may be called twice.
    #[inline]
    pub fn add(&mut self, slot: u8, since: u64, add: impl Fn(&mut Aggregate)) {
        assert!(usize::from(slot) < SLOTS, "slot {slot} of {SLOTS}");
        self.since = self.since.min(since);
        let position = self.position(slot);
        if self.present >> slot & 1 == 0 {
            self.insert(slot, position);
        }
        add(&mut self.aggregates[position]);
        let slots = self.slots_in_use();
        if slots > 1 && (position + 1 < slots || self.present & SUM_INCLUDES_LAST != 0) {
            add(&mut self.aggregates[slots]);
        }
    }

    /// Adds another block.
    pub fn merge(&mut self, other: &Block<SLOTS>) {
        other.slots().for_each(|(slot, aggregate)| self.apply(slot, other.since, aggregate));
        self.since = self.since.min(other.since);
    }

    /// Returns the lowest log offset that contributed, or `u64::MAX` for an empty block.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// Returns the sum of all slots.
    pub fn total(&self) -> Cow<'_, Aggregate> {
        match self.slots_in_use() {
            0 => Cow::Owned(Aggregate::default()),
            1 => Cow::Borrowed(&self.aggregates[0]),
            slots if self.present & SUM_INCLUDES_LAST != 0 => Cow::Borrowed(&self.aggregates[slots]),
            slots => {
                let mut total = self.aggregates[slots].clone();
                total.merge(&self.aggregates[slots - 1]);
                Cow::Owned(total)
            }
        }
    }

    /// Returns the aggregate of this slot, if it is not empty.
    #[cfg(test)]
    pub(crate) fn slot(&self, slot: u8) -> Option<&Aggregate> {
        let is_present = usize::from(slot) < SLOTS && self.present >> slot & 1 == 1;
        is_present.then(|| &self.aggregates[self.position(slot)]).filter(|aggregate| !aggregate.is_empty())
    }

    /// Returns the aggregate of the last slot, which the next events most likely change. It may be empty.
    pub fn last(&self) -> Option<&Aggregate> {
        self.aggregates.get(self.slots_in_use().saturating_sub(1))
    }

    /// Returns the slots that are not empty, ascending.
    pub fn slots(&self) -> impl Iterator<Item = (u8, &Aggregate)> + Clone {
        // A correction may have emptied an aggregate.
        let all = BitMembers(self.present & !SUM_INCLUDES_LAST).zip(&self.aggregates);
        all.filter(|(_, aggregate)| !aggregate.is_empty())
    }

    /// Returns the heap memory in use, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let aggregates = self.aggregates.iter().map(Aggregate::heap_bytes).sum::<usize>();
        self.aggregates.capacity() * size_of::<Aggregate>() + aggregates
    }

    /// Returns the memory of the slots themselves, without what their aggregates own, in bytes.
    #[inline]
    pub fn slot_bytes(&self) -> usize {
        self.aggregates.capacity() * size_of::<Aggregate>()
    }

    fn slots_in_use(&self) -> usize {
        (self.present & !SUM_INCLUDES_LAST).count_ones() as usize
    }

    fn position(&self, slot: u8) -> usize {
        (self.present & ((1 << slot) - 1)).count_ones() as usize
    }

    #[cold]
    fn insert(&mut self, slot: u8, position: usize) {
        let slots = self.slots_in_use();
        let sum = usize::from(slots == 1);
        // Reserves exactly one at first: most rows change in only one minute of an hour.
        self.aggregates.reserve_exact(if self.aggregates.len() + sum < self.aggregates.capacity() {
            0
        } else {
            slots.max(1) + sum
        });
        if slots == 1 {
            self.aggregates.push(Aggregate::default());
        }
        let is_last = slots > 0 && position == slots;
        if is_last && self.present & SUM_INCLUDES_LAST == 0 {
            let (aggregates, sum) = self.aggregates.split_at_mut(slots);
            sum[0].merge(&aggregates[slots - 1]);
        }
        if is_last || slots == 1 {
            self.present &= !SUM_INCLUDES_LAST;
        }
        self.aggregates.insert(position, Aggregate::default());
        self.present |= 1 << slot;
    }
}

const VERSION: u8 = 1;
/// The version of blocks with latest values, which follow the quantiles. Other blocks keep version 1.
const VERSION_WITH_LAST: u8 = 2;
/// A flag in the byte that contains the number of slots.
const HAS_VALUES: u8 = 0x40;
const HAS_PLAYERS: u8 = 0x80;

impl<const SLOTS: usize> Block<SLOTS> {
    /// Encodes the version, the number of slots with flags, `since`, the slots in use and their counts; then, if
    /// present, summaries, quantiles and latest values, each preceded by its length; then players. Of the total only
    /// the registers are stored, because the rest is the sum of the slots.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let values = self.slots().filter_map(|(slot, aggregate)| Some((slot, aggregate.values.as_deref()?)));
        let players = self.slots().map(|(slot, aggregate)| (slot, &aggregate.players));
        let players = players.filter(|(_, players)| !players.is_empty());
        let has_values = if values.clone().next().is_some() { HAS_VALUES } else { 0 };
        let has_players = if players.clone().next().is_some() { HAS_PLAYERS } else { 0 };
        let lasts = values.clone().filter_map(|(slot, values)| Some((slot, values.last.as_deref()?)));
        let version = if lasts.clone().next().is_some() { VERSION_WITH_LAST } else { VERSION };
        out.extend([version, SLOTS as u8 | has_values | has_players]);
        put_varint(out, self.since);
        put_set::<SLOTS>(out, set_of(self.slots()));
        put_counts(out, &self.slots().map(|(_, aggregate)| aggregate.count).collect::<Vec<_>>());
        if has_values != 0 {
            put_values::<SLOTS>(out, values);
        }
        if version == VERSION_WITH_LAST {
            put_lasts::<SLOTS>(out, lasts);
        }
        if has_players != 0 {
            slot_players::encode::<SLOTS>(players, &self.total().players, out);
        }
    }

    /// Decodes a block. Accepts only the canonical form that [`Block::encode`] writes.
    pub fn decode(bytes: &[u8]) -> Result<Block<SLOTS>, Corrupt> {
        let stored = StoredBlock::<SLOTS>::open(bytes)?;
        let mut block = Block { since: stored.since, present: stored.slots, ..Block::default() };
        let slots = stored.slots.count_ones() as usize;
        block.aggregates.reserve_exact(slots + usize::from(slots > 1));
        block.aggregates.extend(BitMembers(stored.slots).map(|slot| stored.aggregate(slot)));
        for (slot, values) in stored.values()? {
            block.aggregate(slot)?.values = Some(Box::new(values?));
        }
        for (slot, last) in stored.lasts()? {
            let values = block.aggregate(slot)?.values.as_deref_mut();
            values.ok_or(Corrupt("a latest value without values"))?.last = Some(Box::new(last));
        }
        for (slot, players) in stored.players()? {
            block.aggregate(slot)?.players = players;
        }
        if block.aggregates.iter().any(Aggregate::is_empty) {
            return Err(Corrupt("a slot is empty"));
        }
        if block.aggregates.len() > 1 {
            let mut total = Aggregate::default();
            block.aggregates.iter().for_each(|aggregate| total.merge(aggregate));
            block.aggregates.push(total);
            block.present |= SUM_INCLUDES_LAST;
        }
        stored.check_total(&block.total()).map(|()| block)
    }

    fn aggregate(&mut self, slot: u8) -> Result<&mut Aggregate, Corrupt> {
        let position = self.position(slot);
        let is_present = self.present >> slot & 1 == 1;
        self.aggregates.get_mut(position).filter(|_| is_present).ok_or(Corrupt("a slot is not in use"))
    }
}

fn set_of<T>(slots: impl Iterator<Item = (u8, T)>) -> u64 {
    slots.fold(0, |set, (slot, _)| set | 1 << slot)
}

/// Marks varints in the byte that contains the width of packed counts.
const VARINTS: u8 = 65;

/// Encodes the smallest count and, if there are several, the difference of each to it: either packed with equal
/// width, or, if shorter, the byte 65 and varints.
fn put_counts(out: &mut Vec<u8>, counts: &[i64]) {
    let Some(smallest) = counts.iter().copied().min() else { return };
    put_signed(out, smallest);
    if counts.len() == 1 {
        return;
    }
    let above = counts.iter().map(|count| count.wrapping_sub(smallest) as u64);
    match packed_width(above.clone()) {
        Some(width) => {
            out.push(width as u8);
            put_packed(out, width, above);
        }
        None => {
            out.push(VARINTS);
            above.for_each(|above| put_varint(out, above));
        }
    }
}

/// Returns the width in bits of the largest number, unless varints are shorter. A varint takes at least one byte.
fn packed_width(numbers: impl ExactSizeIterator<Item = u64> + Clone) -> Option<u32> {
    let width = 64 - numbers.clone().fold(0, |all, number| all | number).leading_zeros();
    let packed = (numbers.len() * width as usize).div_ceil(8);
    (packed <= numbers.len() || packed <= numbers.map(varint_bytes).sum()).then_some(width)
}

fn read_counts(reader: &mut ByteReader, counts: &mut [i64]) -> Result<(), Corrupt> {
    let mut above = [0; 64];
    let above = &mut above[..counts.len()];
    let smallest = if counts.is_empty() { 0 } else { reader.signed()? };
    let width = if counts.len() > 1 { reader.byte()? } else { 0 };
    match width {
        VARINTS => above.iter_mut().try_for_each(|above| reader.varint().map(|read| *above = read))?,
        0..=64 => reader.packed(width.into(), above)?,
        _ => return Err(Corrupt("counts are malformed")),
    }
    let expected = packed_width(above.iter().copied()).map_or(VARINTS, |width| width as u8);
    if width != expected || !above.is_empty() && !above.contains(&0) {
        return Err(Corrupt("counts are not in their shortest form"));
    }
    for (count, above) in counts.iter_mut().zip(above) {
        *count = smallest.checked_add_unsigned(*above).ok_or(Corrupt("a count is too large"))?;
    }
    Ok(())
}

fn put_values<'a, const SLOTS: usize>(
    out: &mut Vec<u8>,
    values: impl Iterator<Item = (u8, &'a ValueStats)> + Clone,
) {
    let mut part = Vec::new();
    put_set::<SLOTS>(&mut part, set_of(values.clone()));
    values.clone().for_each(|(_, values)| values.summary().encode(&mut part));
    put_part(out, &mut part);
    values.for_each(|(_, values)| values.quantiles.encode(&mut part));
    put_part(out, &mut part);
}

fn put_lasts<'a, const SLOTS: usize>(
    out: &mut Vec<u8>,
    lasts: impl Iterator<Item = (u8, &'a LatestValue)> + Clone,
) {
    let mut part = Vec::new();
    put_set::<SLOTS>(&mut part, set_of(lasts.clone()));
    lasts.for_each(|(_, last)| last.encode(&mut part));
    put_part(out, &mut part);
}

fn put_part(out: &mut Vec<u8>, part: &mut Vec<u8>) {
    put_varint(out, part.len() as u64);
    out.append(part);
}

/// The bytes of a block, for queries that decode only the parts they need.
#[derive(Clone, Copy, Debug)]
pub struct StoredBlock<'a, const SLOTS: usize> {
    since: u64,
    slots: u64,
    counts: [i64; SLOTS],
    values: Option<StoredValues<'a>>,
    lasts: Option<(u64, ByteReader<'a>)>,
    players: Option<ByteReader<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct StoredValues<'a> {
    slots: u64,
    summaries: ByteReader<'a>,
    quantiles: ByteReader<'a>,
}

impl<'a, const SLOTS: usize> StoredBlock<'a, SLOTS> {
    /// Decodes the counts and locates the other parts.
    pub fn open(bytes: &'a [u8]) -> Result<StoredBlock<'a, SLOTS>, Corrupt> {
        let mut reader = ByteReader(bytes);
        let (version, shape) = (reader.byte()?, reader.byte()?);
        if !(VERSION..=VERSION_WITH_LAST).contains(&version)
            || shape & !(HAS_VALUES | HAS_PLAYERS) != SLOTS as u8
        {
            return Err(Corrupt("unknown version or kind of block"));
        }
        let (since, slots) = (reader.varint()?, reader.set::<SLOTS>()?);
        let mut dense = [0; SLOTS];
        read_counts(&mut reader, &mut dense[..slots.count_ones() as usize])?;
        let mut counts = [0; SLOTS];
        BitMembers(slots).zip(dense).for_each(|(slot, count)| counts[usize::from(slot)] = count);
        let values =
            if shape & HAS_VALUES == 0 { None } else { Some(StoredValues::open::<SLOTS>(&mut reader)?) };
        let lasts = if version == VERSION_WITH_LAST { Some(open_lasts::<SLOTS>(&mut reader)?) } else { None };
        let players = (shape & HAS_PLAYERS != 0).then_some(reader);
        if players.is_none() {
            reader.end()?;
        }
        Ok(StoredBlock { since, slots, counts, values, lasts, players })
    }

    /// See [`Block::since`].
    pub fn since(&self) -> u64 {
        self.since
    }

    /// Returns the number of events in each slot.
    pub fn counts(&self) -> &[i64; SLOTS] {
        &self.counts
    }

    /// Returns count, sum, minimum and maximum of the values of each slot that has values, ascending.
    pub(crate) fn summaries(&self) -> Result<Vec<(u8, ValueSummary)>, Corrupt> {
        let Some(StoredValues { slots, summaries, .. }) = self.values else { return Ok(Vec::new()) };
        each(slots, summaries, ValueSummary::decode)
    }

    /// Returns the distribution of the values of each slot that has values, ascending.
    pub(crate) fn quantiles(&self) -> Result<Vec<(u8, Quantiles)>, Corrupt> {
        let Some(StoredValues { slots, quantiles, .. }) = self.values else { return Ok(Vec::new()) };
        each(slots, quantiles, Quantiles::decode)
    }

    /// Returns the players of each slot that has players, ascending.
    pub(crate) fn players(&self) -> Result<Vec<(u8, Distinct)>, Corrupt> {
        self.open_players()?.map_or(Ok(Vec::new()), StoredPlayers::each)
    }

    /// Returns the players of all slots together, without decoding each slot.
    pub fn players_total(&self) -> Result<Distinct, Corrupt> {
        self.open_players()?.map_or(Ok(Distinct::default()), StoredPlayers::total)
    }

    fn open_players(&self) -> Result<Option<StoredPlayers<'a>>, Corrupt> {
        self.players.map(StoredPlayers::open::<SLOTS>).transpose()
    }

    fn aggregate(&self, slot: u8) -> Aggregate {
        Aggregate { count: self.counts[usize::from(slot)], ..Aggregate::default() }
    }

    fn values(&self) -> Result<impl Iterator<Item = (u8, Result<ValueStats, Corrupt>)>, Corrupt> {
        let (summaries, quantiles) = (self.summaries()?, self.quantiles()?);
        let pairs = summaries.into_iter().zip(quantiles);
        Ok(pairs.map(|((slot, summaries), (_, quantiles))| (slot, ValueStats::of(summaries, quantiles))))
    }

    /// Returns the latest value of each slot that has one, ascending.
    pub(crate) fn lasts(&self) -> Result<Vec<(u8, LatestValue)>, Corrupt> {
        let Some((slots, lasts)) = self.lasts else { return Ok(Vec::new()) };
        each(slots, lasts, LatestValue::decode)
    }

    /// Checks that the stored registers of the total equal those of all slots together.
    fn check_total(&self, total: &Aggregate) -> Result<(), Corrupt> {
        let players = self.open_players()?;
        let Some(players) = players.filter(|players| players.slots().count_ones() > 1) else { return Ok(()) };
        let equal = players.total_registers() == total.players.registers();
        if equal { Ok(()) } else { Err(Corrupt("the total is not the sum of its slots")) }
    }
}

impl<'a> StoredValues<'a> {
    fn open<const SLOTS: usize>(reader: &mut ByteReader<'a>) -> Result<StoredValues<'a>, Corrupt> {
        let (mut summaries, quantiles) = (reader.part()?, reader.part()?);
        let slots = summaries.set::<SLOTS>()?;
        if slots == 0 {
            Err(Corrupt("values without a slot"))
        } else {
            Ok(StoredValues { slots, summaries, quantiles })
        }
    }
}

fn open_lasts<'a, const SLOTS: usize>(reader: &mut ByteReader<'a>) -> Result<(u64, ByteReader<'a>), Corrupt> {
    let mut lasts = reader.part()?;
    let slots = lasts.set::<SLOTS>()?;
    if slots == 0 { Err(Corrupt("latest values without a slot")) } else { Ok((slots, lasts)) }
}

fn each<'a, T>(
    slots: u64,
    mut reader: ByteReader<'a>,
    read: impl Fn(&mut ByteReader<'a>) -> Result<T, Corrupt>,
) -> Result<Vec<(u8, T)>, Corrupt> {
    let all: Result<Vec<_>, _> = BitMembers(slots).map(|slot| Ok((slot, read(&mut reader)?))).collect();
    all.and_then(|all| reader.end().map(|()| all))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::super::hash_player;
    use super::*;

    #[derive(Clone, Copy, Debug)]
    struct TestEvent {
        slot: u8,
        offset: u64,
        player: Option<u64>,
        value: Option<f64>,
    }

    impl TestEvent {
        fn player(self) -> Option<u64> {
            self.player.map(|player| hash_player(1, &player.to_le_bytes()))
        }

        fn value(self) -> Option<(f64, Bucket)> {
            self.value.map(|value| (value, Bucket::of(value)))
        }

        /// Integers count as states, measured at a few different times.
        fn last(self) -> Option<LatestValue> {
            let value = self.value.filter(|value| value.fract() == 0.0)?;
            Some(LatestValue { at_ms: (self.offset % 7) as i64 - 3, value })
        }

        fn aggregate(self) -> Aggregate {
            let mut aggregate = Aggregate::default();
            aggregate.observe(self.player(), self.value());
            if let (Some(values), Some(last)) = (&mut aggregate.values, self.last()) {
                values.observe_latest(last);
            }
            aggregate
        }
    }

    fn block_of<const SLOTS: usize>(events: &[TestEvent]) -> Block<SLOTS> {
        let mut block = Block::default();
        for event in events {
            match event.last() {
                None => block.observe(event.slot, event.offset, event.player(), event.value()),
                Some(_) => block.apply(event.slot, event.offset, &event.aggregate()),
            }
        }
        block
    }

    fn bytes<const SLOTS: usize>(block: &Block<SLOTS>) -> Vec<u8> {
        let mut out = Vec::new();
        block.encode(&mut out);
        out
    }

    /// One event per line: its slot, its player and its value, `-` for none; offsets start at 7.
    fn events_of(text: &str) -> Vec<TestEvent> {
        let event = |(line, offset): (&str, u64)| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [slot, player, value] = words[..] else { panic!("a slot, a player and a value") };
            TestEvent {
                slot: slot.parse().expect("a slot"),
                offset,
                player: player.parse().ok(),
                value: value.parse().ok(),
            }
        };
        text.lines().zip(7..).map(event).collect()
    }

    fn describe(aggregate: &Aggregate) -> String {
        let values = aggregate.values.as_deref().map_or_else(String::new, |values| {
            format!(" {}/{} {}..{}", values.sum.value(), values.count(), values.min, values.max)
        });
        format!("{} by {}{values}", aggregate.count, aggregate.players.count())
    }

    fn check(events: &str, expected: Expect) {
        let block: HourBlock = block_of(&events_of(events));
        let slots = block.slots().map(|(slot, aggregate)| format!("{slot:02}: {}\n", describe(aggregate)));
        let text = slots.chain([format!("all: {} since {}", describe(&block.total()), block.since())]);
        expected.assert_eq(&text.collect::<String>());
        assert_eq!(HourBlock::decode(&bytes(&block)), Ok(block));
    }

    #[test]
    fn minutes_add_up_to_the_hour() {
        check("", expect!["all: 0 by 0 since 18446744073709551615"]);
        check(
            "5 1 -",
            expect![[r"
            05: 1 by 1
            all: 1 by 1 since 7"]],
        );
        check(
            "5 1 0.1
             59 1 0.2
             5 2 -
             0 - 700",
            expect![[r"
            00: 1 by 0 700/1 700..700
            05: 2 by 2 0.1/1 0.1..0.1
            59: 1 by 1 0.2/1 0.2..0.2
            all: 4 by 2 700.3/3 0.1..700 since 7"]],
        );
    }

    /// Stored blocks must stay readable: a change of these bytes needs a new version.
    #[test]
    fn bytes_of_version_1_are_stable() {
        let mut block = HourBlock::default();
        for event in events_of("5 - 0.5\n5 1 -\n6 1 -\n6 - 20") {
            block.observe(event.slot, event.offset, event.player(), event.value());
        }
        let hex: String = bytes(&block).iter().map(|byte| format!("{byte:02x}")).collect();
        expect!["01fc0702050604001102050602030103010301020905090509050601844c01f84e0205060001f3b005d962146c7301010101"]
            .assert_eq(&hex);
    }

    #[test]
    fn bytes_of_version_2_are_stable() {
        let block: HourBlock = block_of(&events_of("5 - 0.5\n6 - 20\n6 - 30"));
        let hex: String = bytes(&block).iter().map(|byte| format!("{byte:02x}")).collect();
        expect!["027c0702050602010211020506020301030103010405190905050f0701844c02f84e2605010601050f"]
            .assert_eq(&hex);
        assert_eq!(HourBlock::decode(&bytes(&block)), Ok(block));
    }

    fn assert_cost(counts: impl Iterator<Item = i64>, bytes_max: usize) {
        let mut block = HourBlock::default();
        for (slot, count) in (0..60).zip(counts) {
            block.apply(slot, 1 << 40, &Aggregate { count, ..Aggregate::default() });
        }
        let stored = bytes(&block);
        assert!(stored.len() <= bytes_max, "{} bytes", stored.len());
        assert_eq!(HourBlock::decode(&stored), Ok(block));
    }

    #[test]
    fn dense_counters_take_less_than_two_bytes_per_minute() {
        assert_cost((0..60).map(|minute| minute * 7 % 11 + 1), 45);
        assert_cost((0..60).map(|minute| 10_000 + minute * 97 % 500), 85);
        assert_cost((0..60).map(|minute| minute * minute * 4 + 1), 120);
        assert_cost((0..60).map(|minute| if minute == 30 { 1_000_000 } else { 3 }), 80);
        assert_cost((0..60).map(|_| 5), 14);
        assert_cost((0..1).map(|_| 5), 13);
    }

    #[test]
    fn hour_with_one_counted_minute_takes_less_than_100_bytes() {
        let block: HourBlock = block_of(&events_of("5 - -"));
        assert!(size_of_val(&block) + block.heap_bytes() < 100);
    }

    #[test]
    fn player_in_every_minute_is_stored_once() {
        let stay = (0..60u8).flat_map(|slot| {
            (0..50).map(move |player| TestEvent { slot, offset: 1, player: Some(player), value: None })
        });
        let stored = bytes(&block_of::<60>(&stay.collect::<Vec<_>>()));
        assert!(stored.len() < 50 * 8 + 60 * 8 + 20, "{} bytes", stored.len());
    }

    #[test]
    fn emptied_slot_is_not_stored() {
        let mut block: HourBlock = block_of(&events_of("5 - -\n6 - -"));
        block.apply(6, 9, &Aggregate { count: -1, ..Aggregate::default() });
        assert_eq!(bytes(&block), bytes(&block_of::<60>(&events_of("5 - -"))));
        assert_eq!((block.slot(6), block.slots().count()), (None, 1));
    }

    #[test]
    fn hour_block_does_not_decode_as_a_day_block() {
        assert!(DayBlock::decode(&bytes(&block_of::<60>(&events_of("5 1 -")))).is_err());
    }

    /// Few events, or so many players that some slots, or only the total, are estimates.
    fn events<const SLOTS: u8>() -> impl Strategy<Value = Vec<TestEvent>> {
        let value = prop_oneof![
            4 => Just(None),
            2 => (-50i32..50).prop_map(|value| Some(f64::from(value))),
            2 => (-1e6..1e6f64).prop_map(Some),
            1 => prop::num::f64::NORMAL.prop_map(Some),
        ];
        let slot = prop_oneof![0..SLOTS, Just(3), 2..5u8];
        let event = (slot, any::<u64>(), prop::option::of(0u64..30), value)
            .prop_map(|(slot, offset, player, value)| TestEvent { slot, offset, player, value });
        let crowd =
            prop_oneof![5 => Just((0, 1)), 1 => (1_000u64..1_100, 1..40u8), 1 => (0u64..4_000, 1..3u8)];
        (prop::collection::vec(event, 0..60), crowd).prop_map(|(mut events, (players, slots))| {
            let one = |player| TestEvent {
                slot: (player % u64::from(slots)) as u8 % SLOTS,
                offset: 1 << 50,
                player: Some(player),
                value: None,
            };
            events.extend((0..players).map(one));
            events
        })
    }

    proptest! {
        #[test]
        fn order_and_grouping_do_not_change_the_bytes(events in events::<60>(), seed: u64, cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
            let whole: HourBlock = block_of(&events);
            let mut other = events.clone();
            other.sort_by_key(|event| hash_player(seed, &[event.slot, event.player.unwrap_or(77) as u8]));
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(other.len() + 1)).chain([0, other.len()]).collect();
            cuts.sort_unstable();
            let mut merged = HourBlock::default();
            for cut in cuts.windows(2).rev() {
                merged.merge(&block_of(&other[cut[0]..cut[1]]));
            }
            prop_assert_eq!(bytes(&merged), bytes(&whole));
            prop_assert_eq!(merged.total(), whole.total());
            prop_assert_eq!(&merged, &whole);
            prop_assert_eq!(HourBlock::decode(&bytes(&whole)), Ok(whole));
        }

        #[test]
        fn total_is_the_sum_of_the_slots(events in events::<24>()) {
            let block: DayBlock = block_of(&events);
            let mut sum = Aggregate::default();
            block.slots().for_each(|(_, aggregate)| sum.merge(aggregate));
            prop_assert_eq!(&*block.total(), &sum);
            let mut all = Aggregate::default();
            events.iter().for_each(|event| all.merge(&event.aggregate()));
            prop_assert_eq!(&*block.total(), &all);
        }

        #[test]
        fn partial_read_matches_the_whole_block(events in events::<24>()) {
            let block: DayBlock = block_of(&events);
            let stored = bytes(&block);
            let stored = StoredBlock::<24>::open(&stored).expect("the bytes are a block");
            prop_assert_eq!(stored.since(), block.since());
            prop_assert_eq!(stored.counts(), &std::array::from_fn(|slot| block.slot(slot as u8).map_or(0, |aggregate| aggregate.count)));
            prop_assert_eq!(stored.players_total(), Ok(block.total().players.clone()));
            let players = block.slots().map(|(slot, aggregate)| (slot, aggregate.players.clone()));
            prop_assert_eq!(stored.players(), Ok(players.filter(|(_, players)| !players.is_empty()).collect()));
            let values: Vec<_> = block.slots().filter_map(|(slot, aggregate)| Some((slot, aggregate.values.as_deref()?))).collect();
            prop_assert_eq!(stored.summaries(), Ok(values.iter().map(|(slot, values)| (*slot, values.summary())).collect()));
            prop_assert_eq!(stored.quantiles(), Ok(values.iter().map(|(slot, values)| (*slot, values.quantiles.clone())).collect()));
        }

        #[test]
        fn any_bytes_are_rejected_or_a_canonical_block(
            events in events::<60>(),
            noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            near_the_head: bool,
            cut: Option<prop::sample::Index>,
        ) {
            let mut noisy = bytes(&block_of::<60>(&events));
            let reach = if near_the_head { noisy.len().min(24) } else { noisy.len() };
            noise.iter().for_each(|(at, byte)| *at.get_mut(&mut noisy[..reach]) = *byte);
            noisy.truncate(cut.map_or(noisy.len(), |cut| cut.index(noisy.len() + 1)));
            if let Ok(block) = HourBlock::decode(&noisy) {
                prop_assert_eq!(bytes(&block), noisy.clone());
            }
            if let Ok(stored) = StoredBlock::<60>::open(&noisy) {
                let _ = (stored.summaries(), stored.quantiles(), stored.players(), stored.players_total());
            }
        }

        #[test]
        fn random_bytes_do_not_panic(mut noise in prop::collection::vec(any::<u8>(), 0..200), shape in 0u8..4) {
            noise.splice(0..0, [VERSION, 60 | shape << 6, 1]);
            let _ = HourBlock::decode(&noise);
        }
    }
}
