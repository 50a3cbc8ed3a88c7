//! The players of many slots side by side: who plays in one minute mostly plays in the next.

use super::Distinct;
use super::bytes::{Corrupt, Members, Reader, put_set, put_varint};
use super::distinct::{EXACT_MAX, read_hashes};
use super::registers::Registers;

/// Writes everyone's sets: which slots have one; 1 and the registers of the total if it has registers
/// and there is more than one slot, else 0; all hashes of exact slots once, ascending (how many, 8 bytes
/// each); then for each slot how many of these it has and which, or 0 and its registers.
pub(super) fn encode<'a, const SLOTS: usize>(
    slots: impl Iterator<Item = (u8, &'a Distinct)> + Clone,
    total: &Distinct,
    out: &mut Vec<u8>,
) {
    let set = slots.clone().fold(0, |set, (slot, _)| set | 1 << slot);
    put_set::<SLOTS>(out, set);
    match total.registers().filter(|_| set.count_ones() > 1) {
        None => out.push(0),
        Some(registers) => {
            out.push(1);
            registers.encode(out);
        }
    }
    let everyone = everyone(slots.clone());
    put_varint(out, everyone.len() as u64);
    out.extend(everyone.iter().flat_map(|hash| hash.to_le_bytes()));
    for (_, distinct) in slots {
        match distinct.registers() {
            None => encode_places(distinct, &everyone, out),
            Some(registers) => {
                out.push(0);
                registers.encode(out);
            }
        }
    }
}

fn everyone<'a>(slots: impl Iterator<Item = (u8, &'a Distinct)>) -> Vec<u64> {
    let mut hashes: Vec<u64> = slots.flat_map(|(_, distinct)| distinct.hashes()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// How many, then their places: a bit for everyone, or the distance of each to the one before, less one,
/// if these are fewer bytes even when each takes one.
fn encode_places(distinct: &Distinct, everyone: &[u64], out: &mut Vec<u8>) {
    let mut places: Vec<usize> =
        distinct.hashes().filter_map(|hash| everyone.binary_search(&hash).ok()).collect();
    put_varint(out, places.len() as u64);
    if is_bitmap(places.len(), everyone.len()) {
        let start = out.len();
        out.resize(start + everyone.len().div_ceil(8), 0);
        places.iter().for_each(|place| out[start + place / 8] |= 1 << (place % 8));
        return;
    }
    places.sort_unstable();
    let mut next = 0;
    for place in places {
        put_varint(out, (place - next) as u64);
        next = place + 1;
    }
}

fn is_bitmap(places: usize, everyone: usize) -> bool {
    everyone.div_ceil(8) <= places
}

/// The head of what [`encode`] wrote: enough for the players of all slots together.
pub(super) struct Players<'a> {
    slots: u64,
    total: Option<Registers>,
    everyone: Vec<u64>,
    rest: Reader<'a>,
}

impl<'a> Players<'a> {
    pub(super) fn open<const SLOTS: usize>(mut reader: Reader<'a>) -> Result<Players<'a>, Corrupt> {
        let slots = reader.set::<SLOTS>()?;
        if slots == 0 {
            return Err(Corrupt("players of no slot"));
        }
        let total = match reader.byte()? {
            0 => None,
            1 if slots.count_ones() > 1 => Some(Registers::decode(&mut reader)?),
            _ => return Err(Corrupt("a total of players is malformed")),
        };
        let everyone = read_hashes(&mut reader)?;
        Ok(Players { slots, total, everyone, rest: reader })
    }

    pub(super) fn slots(&self) -> u64 {
        self.slots
    }

    /// The players of all slots together. If they have no registers of their own and are several, then
    /// no slot has registers, and everyone is here.
    pub(super) fn total(self) -> Result<Distinct, Corrupt> {
        if let Some(registers) = self.total {
            return Ok(registers.into());
        }
        if self.slots.count_ones() > 1 {
            return Ok(self.everyone.into_iter().collect());
        }
        Ok(self.each()?.pop().map(|(_, only)| only).unwrap_or_default())
    }

    /// The registers that are stored for the total.
    pub(super) fn total_registers(&self) -> Option<&Registers> {
        self.total.as_ref()
    }

    /// The players of each slot.
    pub(super) fn each(mut self) -> Result<Vec<(u8, Distinct)>, Corrupt> {
        let mut used = vec![false; self.everyone.len()];
        let mut each = Vec::with_capacity(self.slots.count_ones() as usize);
        for slot in Members(self.slots) {
            let distinct = match self.rest.varint()? {
                0 => Registers::decode(&mut self.rest)?.into(),
                number => self.places(number, &mut used)?,
            };
            each.push((slot, distinct));
        }
        self.rest.end()?;
        if used.contains(&false) { Err(Corrupt("a player is in no slot")) } else { Ok(each) }
    }

    fn places(&mut self, number: u64, used: &mut [bool]) -> Result<Distinct, Corrupt> {
        if number > (self.everyone.len()).min(EXACT_MAX) as u64 {
            return Err(Corrupt("too many players in a slot"));
        }
        let places = match number as usize {
            number if is_bitmap(number, self.everyone.len()) => self.bitmap(number)?,
            number => self.list(number)?,
        };
        places.iter().for_each(|place| used[*place] = true);
        Ok(places.into_iter().map(|place| self.everyone[place]).collect())
    }

    fn bitmap(&mut self, number: usize) -> Result<Vec<usize>, Corrupt> {
        let bytes = self.rest.take(self.everyone.len().div_ceil(8))?;
        let bits = bytes
            .iter()
            .enumerate()
            .flat_map(|(index, byte)| Members((*byte).into()).map(move |bit| index * 8 + usize::from(bit)));
        let places: Vec<usize> = bits.collect();
        let fits = places.len() == number && places.last().is_none_or(|place| *place < self.everyone.len());
        if fits { Ok(places) } else { Err(Corrupt("a set of players is malformed")) }
    }

    fn list(&mut self, number: usize) -> Result<Vec<usize>, Corrupt> {
        let (mut next, everyone) = (0, self.everyone.len() as u64);
        let place = |_| {
            let place = next + self.rest.varint()?.min(everyone);
            next = place + 1;
            if place < everyone { Ok(place as usize) } else { Err(Corrupt("a player is nobody")) }
        };
        (0..number).map(place).collect()
    }
}
