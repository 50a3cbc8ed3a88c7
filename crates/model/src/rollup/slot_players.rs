//! Encoding of the players of all slots of a block: a player of one minute is mostly a player of the next.

use super::Distinct;
use super::bytes::{BitMembers, ByteReader, Corrupt, put_set, put_varint};
use super::distinct::{EXACT_MAX, read_hashes};
use super::registers::Registers;

/// Encodes the sets of all slots: which slots have one; 1 and the registers of the total if it has registers and
/// there is more than one slot, else 0; all hashes of exact slots once, ascending (their number, then 8 bytes each);
/// then for each slot its number of hashes and which ones, or 0 and its registers.
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
    let all_hashes = all_hashes(slots.clone());
    put_varint(out, all_hashes.len() as u64);
    out.extend(all_hashes.iter().flat_map(|hash| hash.to_le_bytes()));
    for (_, distinct) in slots {
        match distinct.registers() {
            None => encode_places(distinct, &all_hashes, out),
            Some(registers) => {
                out.push(0);
                registers.encode(out);
            }
        }
    }
}

fn all_hashes<'a>(slots: impl Iterator<Item = (u8, &'a Distinct)>) -> Vec<u64> {
    let mut hashes: Vec<u64> = slots.flat_map(|(_, distinct)| distinct.hashes()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Encodes the number of positions and then the positions: a bitmap over all hashes, or the gaps between them if those
/// take fewer bytes even at one byte each.
fn encode_places(distinct: &Distinct, all_hashes: &[u64], out: &mut Vec<u8>) {
    let mut positions: Vec<usize> =
        distinct.hashes().filter_map(|hash| all_hashes.binary_search(&hash).ok()).collect();
    put_varint(out, positions.len() as u64);
    if uses_bitmap(positions.len(), all_hashes.len()) {
        let start = out.len();
        out.resize(start + all_hashes.len().div_ceil(8), 0);
        positions.iter().for_each(|position| out[start + position / 8] |= 1 << (position % 8));
        return;
    }
    positions.sort_unstable();
    let mut next = 0;
    for position in positions {
        put_varint(out, (position - next) as u64);
        next = position + 1;
    }
}

fn uses_bitmap(positions: usize, all_hashes: usize) -> bool {
    all_hashes.div_ceil(8) <= positions
}

/// The head of the encoded form: enough for the players of all slots together.
pub(super) struct StoredPlayers<'a> {
    slots: u64,
    total: Option<Registers>,
    all_hashes: Vec<u64>,
    rest: ByteReader<'a>,
}

impl<'a> StoredPlayers<'a> {
    pub(super) fn open<const SLOTS: usize>(mut reader: ByteReader<'a>) -> Result<StoredPlayers<'a>, Corrupt> {
        let slots = reader.set::<SLOTS>()?;
        if slots == 0 {
            return Err(Corrupt("players without a slot"));
        }
        let total = match reader.byte()? {
            0 => None,
            1 if slots.count_ones() > 1 => Some(Registers::decode(&mut reader)?),
            _ => return Err(Corrupt("a total of players is malformed")),
        };
        let all_hashes = read_hashes(&mut reader)?;
        Ok(StoredPlayers { slots, total, all_hashes, rest: reader })
    }

    pub(super) fn slots(&self) -> u64 {
        self.slots
    }

    /// Returns the players of all slots together. If several slots have no registers for the total, no slot has
    /// registers, and the list contains all hashes.
    pub(super) fn total(self) -> Result<Distinct, Corrupt> {
        if let Some(registers) = self.total {
            return Ok(registers.into());
        }
        if self.slots.count_ones() > 1 {
            return Ok(self.all_hashes.into_iter().collect());
        }
        Ok(self.each()?.pop().map(|(_, only)| only).unwrap_or_default())
    }

    /// Returns the registers stored for the total.
    pub(super) fn total_registers(&self) -> Option<&Registers> {
        self.total.as_ref()
    }

    /// Decodes the players of each slot.
    pub(super) fn each(mut self) -> Result<Vec<(u8, Distinct)>, Corrupt> {
        let mut used = vec![false; self.all_hashes.len()];
        let mut each = Vec::with_capacity(self.slots.count_ones() as usize);
        for slot in BitMembers(self.slots) {
            let distinct = match self.rest.varint()? {
                0 => Registers::decode(&mut self.rest)?.into(),
                number => self.positions(number, &mut used)?,
            };
            each.push((slot, distinct));
        }
        self.rest.end()?;
        if used.contains(&false) { Err(Corrupt("a player is in no slot")) } else { Ok(each) }
    }

    fn positions(&mut self, number: u64, used: &mut [bool]) -> Result<Distinct, Corrupt> {
        if number > (self.all_hashes.len()).min(EXACT_MAX) as u64 {
            return Err(Corrupt("too many players in a slot"));
        }
        let positions = match number as usize {
            number if uses_bitmap(number, self.all_hashes.len()) => self.bitmap(number)?,
            number => self.list(number)?,
        };
        positions.iter().for_each(|position| used[*position] = true);
        Ok(positions.into_iter().map(|position| self.all_hashes[position]).collect())
    }

    fn bitmap(&mut self, number: usize) -> Result<Vec<usize>, Corrupt> {
        let bytes = self.rest.take(self.all_hashes.len().div_ceil(8))?;
        let bits = bytes.iter().enumerate().flat_map(|(index, byte)| {
            BitMembers((*byte).into()).map(move |bit| index * 8 + usize::from(bit))
        });
        let positions: Vec<usize> = bits.collect();
        let fits = positions.len() == number
            && positions.last().is_none_or(|position| *position < self.all_hashes.len());
        if fits { Ok(positions) } else { Err(Corrupt("a set of players is malformed")) }
    }

    fn list(&mut self, number: usize) -> Result<Vec<usize>, Corrupt> {
        let (mut next, all_hashes) = (0, self.all_hashes.len() as u64);
        let position = |_| {
            let position = next + self.rest.varint()?.min(all_hashes);
            next = position + 1;
            if position < all_hashes {
                Ok(position as usize)
            } else {
                Err(Corrupt("a player index is out of range"))
            }
        };
        (0..number).map(position).collect()
    }
}
