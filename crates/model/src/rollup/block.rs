//! One series in one hour, by the minute, or in one day, by the hour.

use std::borrow::Cow;

use super::bytes::{Corrupt, Members, Reader, put_packed, put_set, put_signed, put_varint, varint_bytes};
use super::players::{self, Players};
use super::{Bucket, Cell, Distinct, Latest, Numbers, Quantiles, Values};

/// An hour of a series: 60 minutes.
pub type HourBlock = Block<60>;
/// A day of a series: 24 hours.
pub type DayBlock = Block<24>;

/// The slots of a series, at most 60, and their total, which is always the sum of the slots.
///
/// Equal events give equal bytes, in whatever order and however cut they came. Only slots in which
/// something happened take memory.
#[derive(Clone, Debug)]
pub struct Block<const SLOTS: usize> {
    since: u64,
    /// A bit for each slot that has a cell, and [`SUMMED`].
    present: u64,
    /// Of each slot that has one, ascending. Behind them, once there are two, the sum of all but the last of them:
    /// what happens now is added once, and once more when the next slot begins.
    cells: Vec<Cell>,
}

/// The last slot is in the sum as well, as it is after reading: what is looked at often is not added up each time.
const SUMMED: u64 = 1 << 63;

impl<const SLOTS: usize> Default for Block<SLOTS> {
    fn default() -> Self {
        const { assert!(SLOTS > 0 && SLOTS <= 60, "slots are bits of a word, their number is six bits") };
        Block { since: u64::MAX, present: 0, cells: Vec::new() }
    }
}

impl<const SLOTS: usize> PartialEq for Block<SLOTS> {
    fn eq(&self, other: &Self) -> bool {
        self.since == other.since && self.slots().eq(other.slots())
    }
}

impl<const SLOTS: usize> Block<SLOTS> {
    /// Counts one event of this log offset in its slot and in the total; see [`Cell::observe`].
    #[inline]
    pub fn observe(&mut self, slot: u8, offset: u64, player: Option<u64>, value: Option<(f64, Bucket)>) {
        self.add(slot, offset, |cell| cell.observe(player, value));
    }

    /// Adds what happened in a slot to it and to the total. `since` is the lowest log offset among the
    /// events of `delta` themselves, not of the batch they came in.
    pub fn apply(&mut self, slot: u8, since: u64, delta: &Cell) {
        self.since = self.since.min(since);
        if !delta.is_empty() {
            self.add(slot, since, |cell| cell.merge(delta));
        }
    }

    /// The same for whatever `add` adds to an empty cell, which must not be nothing. It may be asked twice.
    #[inline]
    pub fn add(&mut self, slot: u8, since: u64, add: impl Fn(&mut Cell)) {
        assert!(usize::from(slot) < SLOTS, "slot {slot} of {SLOTS}");
        self.since = self.since.min(since);
        let place = self.place(slot);
        if self.present >> slot & 1 == 0 {
            self.insert(slot, place);
        }
        add(&mut self.cells[place]);
        let slots = self.slots_in_use();
        if slots > 1 && (place + 1 < slots || self.present & SUMMED != 0) {
            add(&mut self.cells[slots]);
        }
    }

    /// Adds all that `other` has.
    pub fn merge(&mut self, other: &Block<SLOTS>) {
        other.slots().for_each(|(slot, cell)| self.apply(slot, other.since, cell));
        self.since = self.since.min(other.since);
    }

    /// The lowest log offset that contributed; the highest number if none did.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// All slots together.
    pub fn total(&self) -> Cow<'_, Cell> {
        match self.slots_in_use() {
            0 => Cow::Owned(Cell::default()),
            1 => Cow::Borrowed(&self.cells[0]),
            slots if self.present & SUMMED != 0 => Cow::Borrowed(&self.cells[slots]),
            slots => {
                let mut total = self.cells[slots].clone();
                total.merge(&self.cells[slots - 1]);
                Cow::Owned(total)
            }
        }
    }

    /// What happened in this slot, if anything did.
    pub fn slot(&self, slot: u8) -> Option<&Cell> {
        let is_present = usize::from(slot) < SLOTS && self.present >> slot & 1 == 1;
        is_present.then(|| &self.cells[self.place(slot)]).filter(|cell| !cell.is_empty())
    }

    /// The cell that is most likely added to next, whatever it holds.
    pub fn last(&self) -> Option<&Cell> {
        self.cells.get(self.slots_in_use().saturating_sub(1))
    }

    /// The slots in which something happened, ascending.
    pub fn slots(&self) -> impl Iterator<Item = (u8, &Cell)> + Clone {
        // A correction may have emptied a cell.
        let all = Members(self.present & !SUMMED).zip(&self.cells);
        all.filter(|(_, cell)| !cell.is_empty())
    }

    /// Nothing happened.
    pub fn is_empty(&self) -> bool {
        self.slots().next().is_none()
    }

    /// What it keeps outside of itself.
    pub fn heap_bytes(&self) -> usize {
        let cells = self.cells.iter().map(Cell::heap_bytes).sum::<usize>();
        self.cells.capacity() * size_of::<Cell>() + cells
    }

    fn slots_in_use(&self) -> usize {
        (self.present & !SUMMED).count_ones() as usize
    }

    fn place(&self, slot: u8) -> usize {
        (self.present & ((1 << slot) - 1)).count_ones() as usize
    }

    #[cold]
    fn insert(&mut self, slot: u8, place: usize) {
        let slots = self.slots_in_use();
        let sum = usize::from(slots == 1);
        // Exactly one at first: most series of an hour are touched in one minute.
        self.cells.reserve_exact(if self.cells.len() + sum < self.cells.capacity() {
            0
        } else {
            slots.max(1) + sum
        });
        if slots == 1 {
            self.cells.push(Cell::default());
        }
        let is_last = slots > 0 && place == slots;
        if is_last && self.present & SUMMED == 0 {
            let (cells, sum) = self.cells.split_at_mut(slots);
            sum[0].merge(&cells[slots - 1]);
        }
        if is_last || slots == 1 {
            self.present &= !SUMMED;
        }
        self.cells.insert(place, Cell::default());
        self.present |= 1 << slot;
    }
}

const VERSION: u8 = 1;
/// Of a block with values that have a last one: these stand behind the quantiles. Other blocks are as they always were.
const VERSION_WITH_LAST: u8 = 2;
/// In the byte that says how many slots a block has.
const HAS_VALUES: u8 = 0x40;
const HAS_PLAYERS: u8 = 0x80;

impl<const SLOTS: usize> Block<SLOTS> {
    /// Writes the version, the number of slots and what there is, `since`, the slots in use and their
    /// counts; then, where there are some, numbers, quantiles and last of values, each with its length before
    /// it, and players. The total is not written, but for its registers: it is the sum.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let values = self.slots().filter_map(|(slot, cell)| Some((slot, cell.values.as_deref()?)));
        let players = self.slots().map(|(slot, cell)| (slot, &cell.players));
        let players = players.filter(|(_, players)| !players.is_empty());
        let has_values = if values.clone().next().is_some() { HAS_VALUES } else { 0 };
        let has_players = if players.clone().next().is_some() { HAS_PLAYERS } else { 0 };
        let lasts = values.clone().filter_map(|(slot, values)| Some((slot, values.last.as_deref()?)));
        let version = if lasts.clone().next().is_some() { VERSION_WITH_LAST } else { VERSION };
        out.extend([version, SLOTS as u8 | has_values | has_players]);
        put_varint(out, self.since);
        put_set::<SLOTS>(out, set_of(self.slots()));
        put_counts(out, &self.slots().map(|(_, cell)| cell.count).collect::<Vec<_>>());
        if has_values != 0 {
            put_values::<SLOTS>(out, values);
        }
        if version == VERSION_WITH_LAST {
            put_lasts::<SLOTS>(out, lasts);
        }
        if has_players != 0 {
            players::encode::<SLOTS>(players, &self.total().players, out);
        }
    }

    /// Reads what [`Block::encode`] wrote, and nothing else: a block has one form only.
    pub fn decode(bytes: &[u8]) -> Result<Block<SLOTS>, Corrupt> {
        let stored = StoredBlock::<SLOTS>::open(bytes)?;
        let mut block = Block { since: stored.since, present: stored.slots, ..Block::default() };
        let slots = stored.slots.count_ones() as usize;
        block.cells.reserve_exact(slots + usize::from(slots > 1));
        block.cells.extend(Members(stored.slots).map(|slot| stored.cell(slot)));
        for (slot, values) in stored.values()? {
            block.cell(slot)?.values = Some(Box::new(values?));
        }
        for (slot, last) in stored.lasts()? {
            let values = block.cell(slot)?.values.as_deref_mut();
            values.ok_or(Corrupt("the last of no values"))?.last = Some(Box::new(last));
        }
        for (slot, players) in stored.players()? {
            block.cell(slot)?.players = players;
        }
        if block.cells.iter().any(Cell::is_empty) {
            return Err(Corrupt("nothing happened in a slot"));
        }
        if block.cells.len() > 1 {
            let mut total = Cell::default();
            block.cells.iter().for_each(|cell| total.merge(cell));
            block.cells.push(total);
            block.present |= SUMMED;
        }
        stored.check_total(&block.total()).map(|()| block)
    }

    fn cell(&mut self, slot: u8) -> Result<&mut Cell, Corrupt> {
        let place = self.place(slot);
        let is_present = self.present >> slot & 1 == 1;
        self.cells.get_mut(place).filter(|_| is_present).ok_or(Corrupt("a slot is not in use"))
    }
}

fn set_of<T>(slots: impl Iterator<Item = (u8, T)>) -> u64 {
    slots.fold(0, |set, (slot, _)| set | 1 << slot)
}

/// Instead of a width.
const VARINTS: u8 = 65;

/// The smallest count, and if there are more than one, how much larger each is: either so many bits for
/// each, or 65 and varints, if these are shorter.
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

/// The bits for the largest, unless varints are shorter. These have a byte at least.
fn packed_width(numbers: impl ExactSizeIterator<Item = u64> + Clone) -> Option<u32> {
    let width = 64 - numbers.clone().fold(0, |all, number| all | number).leading_zeros();
    let packed = (numbers.len() * width as usize).div_ceil(8);
    (packed <= numbers.len() || packed <= numbers.map(varint_bytes).sum()).then_some(width)
}

fn read_counts(reader: &mut Reader, counts: &mut [i64]) -> Result<(), Corrupt> {
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
    values: impl Iterator<Item = (u8, &'a Values)> + Clone,
) {
    let mut part = Vec::new();
    put_set::<SLOTS>(&mut part, set_of(values.clone()));
    values.clone().for_each(|(_, values)| values.numbers().encode(&mut part));
    put_part(out, &mut part);
    values.for_each(|(_, values)| values.quantiles.encode(&mut part));
    put_part(out, &mut part);
}

fn put_lasts<'a, const SLOTS: usize>(
    out: &mut Vec<u8>,
    lasts: impl Iterator<Item = (u8, &'a Latest)> + Clone,
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

/// The bytes of a block, of which a query reads only what it asks for.
#[derive(Clone, Copy, Debug)]
pub struct StoredBlock<'a, const SLOTS: usize> {
    since: u64,
    slots: u64,
    counts: [i64; SLOTS],
    values: Option<StoredValues<'a>>,
    lasts: Option<(u64, Reader<'a>)>,
    players: Option<Reader<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct StoredValues<'a> {
    slots: u64,
    numbers: Reader<'a>,
    quantiles: Reader<'a>,
}

impl<'a, const SLOTS: usize> StoredBlock<'a, SLOTS> {
    /// Reads the counts and where the rest is.
    pub fn open(bytes: &'a [u8]) -> Result<StoredBlock<'a, SLOTS>, Corrupt> {
        let mut reader = Reader(bytes);
        let (version, shape) = (reader.byte()?, reader.byte()?);
        if !(VERSION..=VERSION_WITH_LAST).contains(&version)
            || shape & !(HAS_VALUES | HAS_PLAYERS) != SLOTS as u8
        {
            return Err(Corrupt("another version or kind of block"));
        }
        let (since, slots) = (reader.varint()?, reader.set::<SLOTS>()?);
        let mut dense = [0; SLOTS];
        read_counts(&mut reader, &mut dense[..slots.count_ones() as usize])?;
        let mut counts = [0; SLOTS];
        Members(slots).zip(dense).for_each(|(slot, count)| counts[usize::from(slot)] = count);
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

    /// How many events were in each slot.
    pub fn counts(&self) -> &[i64; SLOTS] {
        &self.counts
    }

    /// Count, sum, least and greatest of the values of each slot that has some, ascending.
    pub fn numbers(&self) -> Result<Vec<(u8, Numbers)>, Corrupt> {
        let Some(StoredValues { slots, numbers, .. }) = self.values else { return Ok(Vec::new()) };
        each(slots, numbers, Numbers::decode)
    }

    /// The distribution of the values of each slot that has some, ascending.
    pub fn quantiles(&self) -> Result<Vec<(u8, Quantiles)>, Corrupt> {
        let Some(StoredValues { slots, quantiles, .. }) = self.values else { return Ok(Vec::new()) };
        each(slots, quantiles, Quantiles::decode)
    }

    /// The players of each slot that has some, ascending.
    pub fn players(&self) -> Result<Vec<(u8, Distinct)>, Corrupt> {
        self.open_players()?.map_or(Ok(Vec::new()), Players::each)
    }

    /// The players of all slots together, without reading those of each.
    pub fn players_total(&self) -> Result<Distinct, Corrupt> {
        self.open_players()?.map_or(Ok(Distinct::default()), Players::total)
    }

    fn open_players(&self) -> Result<Option<Players<'a>>, Corrupt> {
        self.players.map(Players::open::<SLOTS>).transpose()
    }

    fn cell(&self, slot: u8) -> Cell {
        Cell { count: self.counts[usize::from(slot)], ..Cell::default() }
    }

    fn values(&self) -> Result<impl Iterator<Item = (u8, Result<Values, Corrupt>)>, Corrupt> {
        let (numbers, quantiles) = (self.numbers()?, self.quantiles()?);
        let pairs = numbers.into_iter().zip(quantiles);
        Ok(pairs.map(|((slot, numbers), (_, quantiles))| (slot, Values::of(numbers, quantiles))))
    }

    /// The newest value of each slot that has one, ascending.
    pub fn lasts(&self) -> Result<Vec<(u8, Latest)>, Corrupt> {
        let Some((slots, lasts)) = self.lasts else { return Ok(Vec::new()) };
        each(slots, lasts, Latest::decode)
    }

    /// The registers that are stored for the total are those of the slots together.
    fn check_total(&self, total: &Cell) -> Result<(), Corrupt> {
        let players = self.open_players()?;
        let Some(players) = players.filter(|players| players.slots().count_ones() > 1) else { return Ok(()) };
        let equal = players.total_registers() == total.players.registers();
        if equal { Ok(()) } else { Err(Corrupt("the total is not the sum of its slots")) }
    }
}

impl<'a> StoredValues<'a> {
    fn open<const SLOTS: usize>(reader: &mut Reader<'a>) -> Result<StoredValues<'a>, Corrupt> {
        let (mut numbers, quantiles) = (reader.part()?, reader.part()?);
        let slots = numbers.set::<SLOTS>()?;
        if slots == 0 {
            Err(Corrupt("values of no slot"))
        } else {
            Ok(StoredValues { slots, numbers, quantiles })
        }
    }
}

fn open_lasts<'a, const SLOTS: usize>(reader: &mut Reader<'a>) -> Result<(u64, Reader<'a>), Corrupt> {
    let mut lasts = reader.part()?;
    let slots = lasts.set::<SLOTS>()?;
    if slots == 0 { Err(Corrupt("the last of no slot")) } else { Ok((slots, lasts)) }
}

fn each<'a, T>(
    slots: u64,
    mut reader: Reader<'a>,
    read: impl Fn(&mut Reader<'a>) -> Result<T, Corrupt>,
) -> Result<Vec<(u8, T)>, Corrupt> {
    let all: Result<Vec<_>, _> = Members(slots).map(|slot| Ok((slot, read(&mut reader)?))).collect();
    all.and_then(|all| reader.end().map(|()| all))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::super::hash_player;
    use super::*;

    #[derive(Clone, Copy, Debug)]
    struct Happened {
        slot: u8,
        offset: u64,
        player: Option<u64>,
        value: Option<f64>,
    }

    impl Happened {
        fn player(self) -> Option<u64> {
            self.player.map(|player| hash_player(1, &player.to_le_bytes()))
        }

        fn value(self) -> Option<(f64, Bucket)> {
            self.value.map(|value| (value, Bucket::of(value)))
        }

        /// Some values are a state, all of them at a few moments.
        fn last(self) -> Option<Latest> {
            let value = self.value.filter(|value| value.fract() == 0.0)?;
            Some(Latest { at_ms: (self.offset % 7) as i64 - 3, value })
        }

        fn cell(self) -> Cell {
            let mut cell = Cell::default();
            cell.observe(self.player(), self.value());
            if let (Some(values), Some(last)) = (&mut cell.values, self.last()) {
                values.observe_latest(last);
            }
            cell
        }
    }

    fn block_of<const SLOTS: usize>(events: &[Happened]) -> Block<SLOTS> {
        let mut block = Block::default();
        for event in events {
            match event.last() {
                None => block.observe(event.slot, event.offset, event.player(), event.value()),
                Some(_) => block.apply(event.slot, event.offset, &event.cell()),
            }
        }
        block
    }

    fn bytes<const SLOTS: usize>(block: &Block<SLOTS>) -> Vec<u8> {
        let mut out = Vec::new();
        block.encode(&mut out);
        out
    }

    /// One event a line: its slot, its player and its value, `-` for none; offsets from 7 on.
    fn events_of(text: &str) -> Vec<Happened> {
        let event = |(line, offset): (&str, u64)| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [slot, player, value] = words[..] else { panic!("a slot, a player and a value") };
            Happened {
                slot: slot.parse().expect("a slot"),
                offset,
                player: player.parse().ok(),
                value: value.parse().ok(),
            }
        };
        text.lines().zip(7..).map(event).collect()
    }

    fn tell(cell: &Cell) -> String {
        let values = cell.values.as_deref().map_or_else(String::new, |values| {
            format!(" {}/{} {}..{}", values.sum.value(), values.count(), values.min, values.max)
        });
        format!("{} by {}{values}", cell.count, cell.players.count())
    }

    fn check(events: &str, expected: Expect) {
        let block: HourBlock = block_of(&events_of(events));
        let slots = block.slots().map(|(slot, cell)| format!("{slot:02}: {}\n", tell(cell)));
        let text = slots.chain([format!("all: {} since {}", tell(&block.total()), block.since())]);
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

    /// What is stored stays readable: a change of these bytes is a new version.
    #[test]
    fn the_bytes_of_version_1_are_these() {
        let mut block = HourBlock::default();
        for event in events_of("5 - 0.5\n5 1 -\n6 1 -\n6 - 20") {
            block.observe(event.slot, event.offset, event.player(), event.value());
        }
        let hex: String = bytes(&block).iter().map(|byte| format!("{byte:02x}")).collect();
        expect!["01fc0702050604001102050602030103010301020905090509050601844c01f84e0205060001f3b005d962146c7301010101"]
            .assert_eq(&hex);
    }

    #[test]
    fn the_bytes_of_version_2_are_these() {
        let block: HourBlock = block_of(&events_of("5 - 0.5\n6 - 20\n6 - 30"));
        let hex: String = bytes(&block).iter().map(|byte| format!("{byte:02x}")).collect();
        expect!["027c0702050602010211020506020301030103010405190905050f0701844c02f84e2605010601050f"]
            .assert_eq(&hex);
        assert_eq!(HourBlock::decode(&bytes(&block)), Ok(block));
    }

    fn assert_cost(counts: impl Iterator<Item = i64>, bytes_max: usize) {
        let mut block = HourBlock::default();
        for (slot, count) in (0..60).zip(counts) {
            block.apply(slot, 1 << 40, &Cell { count, ..Cell::default() });
        }
        let stored = bytes(&block);
        assert!(stored.len() <= bytes_max, "{} bytes", stored.len());
        assert_eq!(HourBlock::decode(&stored), Ok(block));
    }

    #[test]
    fn a_dense_series_of_counters_costs_less_than_two_bytes_a_minute() {
        assert_cost((0..60).map(|minute| minute * 7 % 11 + 1), 45);
        assert_cost((0..60).map(|minute| 10_000 + minute * 97 % 500), 85);
        assert_cost((0..60).map(|minute| minute * minute * 4 + 1), 120);
        assert_cost((0..60).map(|minute| if minute == 30 { 1_000_000 } else { 3 }), 80);
        assert_cost((0..60).map(|_| 5), 14);
        assert_cost((0..1).map(|_| 5), 13);
    }

    #[test]
    fn a_counter_touched_in_one_minute_takes_less_than_100_bytes() {
        let block: HourBlock = block_of(&events_of("5 - -"));
        assert!(size_of_val(&block) + block.heap_bytes() < 100);
    }

    #[test]
    fn who_stays_all_hour_is_stored_once() {
        let stay = (0..60u8).flat_map(|slot| {
            (0..50).map(move |player| Happened { slot, offset: 1, player: Some(player), value: None })
        });
        let stored = bytes(&block_of::<60>(&stay.collect::<Vec<_>>()));
        assert!(stored.len() < 50 * 8 + 60 * 8 + 20, "{} bytes", stored.len());
    }

    #[test]
    fn a_correction_that_empties_a_slot_leaves_no_trace_of_it() {
        let mut block: HourBlock = block_of(&events_of("5 - -\n6 - -"));
        block.apply(6, 9, &Cell { count: -1, ..Cell::default() });
        assert_eq!(bytes(&block), bytes(&block_of::<60>(&events_of("5 - -"))));
        assert_eq!((block.slot(6), block.slots().count()), (None, 1));
    }

    #[test]
    fn an_hour_is_not_read_as_a_day() {
        assert!(DayBlock::decode(&bytes(&block_of::<60>(&events_of("5 1 -")))).is_err());
    }

    /// Few events, or so many players that some slots, or only the total, are estimates.
    fn events<const SLOTS: u8>() -> impl Strategy<Value = Vec<Happened>> {
        let value = prop_oneof![
            4 => Just(None),
            2 => (-50i32..50).prop_map(|value| Some(f64::from(value))),
            2 => (-1e6..1e6f64).prop_map(Some),
            1 => prop::num::f64::NORMAL.prop_map(Some),
        ];
        let slot = prop_oneof![0..SLOTS, Just(3), 2..5u8];
        let event = (slot, any::<u64>(), prop::option::of(0u64..30), value)
            .prop_map(|(slot, offset, player, value)| Happened { slot, offset, player, value });
        let crowd =
            prop_oneof![5 => Just((0, 1)), 1 => (1_000u64..1_100, 1..40u8), 1 => (0u64..4_000, 1..3u8)];
        (prop::collection::vec(event, 0..60), crowd).prop_map(|(mut events, (players, slots))| {
            let one = |player| Happened {
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
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn order_and_cut_change_no_byte(events in events::<60>(), seed: u64, cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
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
        fn the_total_is_the_sum_of_the_slots(events in events::<24>()) {
            let block: DayBlock = block_of(&events);
            let mut sum = Cell::default();
            block.slots().for_each(|(_, cell)| sum.merge(cell));
            prop_assert_eq!(&*block.total(), &sum);
            let mut all = Cell::default();
            events.iter().for_each(|event| all.merge(&event.cell()));
            prop_assert_eq!(&*block.total(), &all);
        }

        #[test]
        fn a_part_reads_as_it_does_in_the_whole(events in events::<24>()) {
            let block: DayBlock = block_of(&events);
            let stored = bytes(&block);
            let stored = StoredBlock::<24>::open(&stored).expect("it is a block");
            prop_assert_eq!(stored.since(), block.since());
            prop_assert_eq!(stored.counts(), &std::array::from_fn(|slot| block.slot(slot as u8).map_or(0, |cell| cell.count)));
            prop_assert_eq!(stored.players_total(), Ok(block.total().players.clone()));
            let players = block.slots().map(|(slot, cell)| (slot, cell.players.clone()));
            prop_assert_eq!(stored.players(), Ok(players.filter(|(_, players)| !players.is_empty()).collect()));
            let values: Vec<_> = block.slots().filter_map(|(slot, cell)| Some((slot, cell.values.as_deref()?))).collect();
            prop_assert_eq!(stored.numbers(), Ok(values.iter().map(|(slot, values)| (*slot, values.numbers())).collect()));
            prop_assert_eq!(stored.quantiles(), Ok(values.iter().map(|(slot, values)| (*slot, values.quantiles.clone())).collect()));
        }

        #[test]
        fn any_bytes_are_a_block_in_its_one_form_or_refused(
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
                let _ = (stored.numbers(), stored.quantiles(), stored.players(), stored.players_total());
            }
        }

        #[test]
        fn random_bytes_never_make_it_panic(mut noise in prop::collection::vec(any::<u8>(), 0..200), shape in 0u8..4) {
            noise.splice(0..0, [VERSION, 60 | shape << 6, 1]);
            let _ = HourBlock::decode(&noise);
        }
    }
}
