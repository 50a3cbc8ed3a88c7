//! The players of a board: a number for each id, and display names.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use super::chunked::Chunked;
use super::lookup::PlayerLookup;

/// Players whose ids and names are stored together. A lookup skips those before it, so there must not be too many.
const PER_PAGE: usize = 16;
/// Cache lines that most pages fit in.
const PAGE_LINES: usize = 6;
/// Beyond it there are many tables, which grow one at a time, so that no command waits for long.
const ONE_TABLE_MAX: u32 = 1 << 15;
const TABLES: usize = 64;

/// The alignment of a page in bytes, so that a `u32` can address it.
const UNIT: usize = 4;

/// Players by number and by id. Numbers are dense; those of erased players are reused.
///
/// An entry is the length of the id, the length of the name, and both texts. An erased player has an empty id. Full
/// pages of 16 players are stored in [`TextPages`], the last page separately.
#[derive(Default)]
pub struct Roster {
    texts: TextPages,
    /// The start of each full page.
    starts: Chunked<u32>,
    last: Vec<u8>,
    len: u32,
    erased: Vec<u32>,
    tables: Vec<PlayerLookup>,
    hasher: DefaultHashBuilder,
}

/// A player. An empty name means that it equals the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RosterEntry<'a> {
    /// The id that the game chose.
    pub id: &'a str,
    /// The display name.
    pub name: &'a str,
}

impl<'a> RosterEntry<'a> {
    /// Returns the name to show.
    pub(super) fn display_name(&self) -> &'a str {
        if self.name.is_empty() { self.id } else { self.name }
    }
}

impl Roster {
    /// Returns the number of players, including erased ones.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns the number of a player.
    pub fn find(&self, id: &str) -> Option<u32> {
        let hash = self.hash_of(id.as_bytes());
        let table = self.tables.get(self.table_of(hash))?;
        table.find(hash, |number| self.id_bytes(number) == id.as_bytes())
    }

    /// Adds a player who is not in the roster and returns the number.
    pub fn add(&mut self, id: &str, name: &str) -> u32 {
        let number = self.erased.pop().unwrap_or(self.len);
        self.put(number, id, name);
        self.index_player(number);
        number
    }

    /// Changes a player's name. Returns true if it was another one.
    pub fn rename(&mut self, number: u32, name: &str) -> bool {
        let player = self.get(number);
        let name = if name == player.id { "" } else { name };
        if player.name == name {
            return false;
        }
        let id = player.id.to_owned();
        self.put(number, &id, name);
        true
    }

    /// Erases a player.
    pub fn erase(&mut self, number: u32) {
        let hash = self.hash(number);
        let at = self.table_of(hash);
        let mut table = std::mem::take(&mut self.tables[at]);
        table.remove(hash, number, |other| self.hash(other));
        self.tables[at] = table;
        self.put(number, "", "");
        self.erased.push(number);
    }

    /// Returns the player with this number.
    #[inline]
    pub fn get(&self, number: u32) -> RosterEntry<'_> {
        let entry = self.entry(number);
        let (id, name) = entry[2..].split_at(usize::from(entry[0]));
        let text = |bytes| std::str::from_utf8(bytes).expect("entries are text");
        RosterEntry { id: text(id), name: text(name) }
    }

    #[inline]
    fn id_bytes(&self, number: u32) -> &[u8] {
        let entry = self.entry(number);
        &entry[2..2 + usize::from(entry[0])]
    }

    #[inline]
    fn entry(&self, number: u32) -> &[u8] {
        let mut rest = self.page(number as usize / PER_PAGE);
        // The offset of an entry depends on the entries before it, so all lines of the page are prefetched at once.
        rest.iter().step_by(memory::LINE_BYTES).take(PAGE_LINES).for_each(memory::prefetch);
        for _ in 0..number as usize % PER_PAGE {
            rest = &rest[bytes_of(rest)..];
        }
        &rest[..bytes_of(rest)]
    }

    /// Returns a page. A full page is followed by other data.
    #[inline]
    fn page(&self, page: usize) -> &[u8] {
        self.starts.get(page as u32).map_or(&self.last, |start| self.texts.from(*start))
    }

    /// Puts a player at a number, which must be known or the next one. [`Roster::rebuild_lookup`] must follow before
    /// lookups by id.
    pub fn put(&mut self, number: u32, id: &str, name: &str) {
        let name = if name == id { "" } else { name };
        while self.len < number {
            self.append("", "");
        }
        if self.len == number {
            return self.append(id, name);
        }
        let player = self.get(number);
        if (player.id, player.name) != (id, name) {
            self.replace(number, id, name);
        }
    }

    fn append(&mut self, id: &str, name: &str) {
        push_entry(&mut self.last, id, name);
        self.len += 1;
        if (self.len as usize).is_multiple_of(PER_PAGE) {
            self.starts.push(self.texts.add(&self.last));
            self.last.clear();
        }
    }

    fn replace(&mut self, number: u32, id: &str, name: &str) {
        let (page, at) = (number as usize / PER_PAGE, number as usize % PER_PAGE);
        let mut new = Vec::new();
        let mut rest = self.page(page);
        for other in 0..PER_PAGE.min(self.len as usize - page * PER_PAGE) {
            let (entry, after) = rest.split_at(bytes_of(rest));
            if other == at {
                push_entry(&mut new, id, name);
            } else {
                new.extend_from_slice(entry);
            }
            rest = after;
        }
        match self.starts.get(page as u32).copied() {
            None => self.last = new,
            Some(start) => {
                self.texts.discard(start, PER_PAGE);
                self.starts[page as u32] = self.texts.add(&new);
                self.compact();
            }
        }
    }

    /// Rewrites the texts if most of them are unused.
    fn compact(&mut self) {
        if self.texts.is_compact() {
            return;
        }
        let before = std::mem::take(&mut self.texts);
        for page in 0..self.starts.len() as u32 {
            let start = self.starts[page];
            self.starts[page] = self.texts.add(before.page(start, PER_PAGE));
        }
    }

    /// Rebuilds the lookups by id.
    pub(super) fn rebuild_lookup(&mut self) {
        self.tables = Self::tables_for(self.len);
        self.erased.clear();
        for page in 0..(self.len as usize).div_ceil(PER_PAGE) {
            self.index_page(page);
        }
    }

    fn index_page(&mut self, page: usize) {
        let (first, mut hashes) = (page * PER_PAGE, [None; PER_PAGE]);
        let players = PER_PAGE.min(self.len as usize - first);
        let mut rest = self.page(page);
        for place in &mut hashes[..players] {
            let (entry, after) = rest.split_at(bytes_of(rest));
            let id = &entry[2..2 + usize::from(entry[0])];
            *place = (!id.is_empty()).then(|| self.hash_of(id));
            rest = after;
        }
        hashes.iter().flatten().for_each(|hash| self.tables[self.table_of(*hash)].prefetch(*hash));
        for (at, hash) in hashes[..players].iter().enumerate() {
            let number = (first + at) as u32;
            match hash {
                None => self.erased.push(number),
                Some(hash) => self.index_hash(number, *hash),
            }
        }
    }

    fn index_player(&mut self, number: u32) {
        if self.tables.is_empty() || self.tables.len() == 1 && self.len > ONE_TABLE_MAX {
            let before = std::mem::replace(&mut self.tables, Self::tables_for(self.len));
            before.iter().flat_map(PlayerLookup::numbers).for_each(|number| self.index_player(number));
        }
        self.index_hash(number, self.hash(number));
    }

    fn index_hash(&mut self, number: u32, hash: u64) {
        let at = self.table_of(hash);
        if !self.tables[at].has_room(number) {
            self.tables[at] = self.grown(&self.tables[at]);
        }
        self.tables[at].put(hash, number);
    }

    /// Returns empty tables with some spare room for this many players.
    fn tables_for(players: u32) -> Vec<PlayerLookup> {
        let count = if players <= ONE_TABLE_MAX { 1 } else { TABLES };
        let each = players as usize / count;
        (0..count).map(|_| PlayerLookup::with_room(each + each / 50, players.saturating_mul(2))).collect()
    }

    fn grown(&self, table: &PlayerLookup) -> PlayerLookup {
        let mut grown =
            PlayerLookup::with_room(table.len() + table.len() / 4 + 1, self.len.saturating_mul(2));
        table.numbers().for_each(|number| grown.put(self.hash(number), number));
        grown
    }

    fn hash(&self, number: u32) -> u64 {
        self.hash_of(self.id_bytes(number))
    }

    fn hash_of(&self, id: &[u8]) -> u64 {
        self.hasher.hash_one(id)
    }

    /// The tables use the highest and the lowest bits.
    fn table_of(&self, hash: u64) -> usize {
        (hash >> 32) as usize & self.tables.len().saturating_sub(1)
    }

    /// Returns the bytes of ids and names, and of the lookup.
    pub fn bytes(&self) -> (usize, usize) {
        let texts = self.texts.bytes() + self.starts.len() * size_of::<u32>();
        (texts, self.tables.iter().map(PlayerLookup::bytes).sum())
    }
}

fn push_entry(page: &mut Vec<u8>, id: &str, name: &str) {
    page.extend_from_slice(&[id.len() as u8, name.len() as u8]);
    page.extend_from_slice(id.as_bytes());
    page.extend_from_slice(name.as_bytes());
}

#[inline]
fn bytes_of(entry: &[u8]) -> usize {
    2 + usize::from(entry[0]) + usize::from(entry[1])
}

/// Pages of players in one append-only text. A page that changes is appended again.
#[derive(Default)]
struct TextPages {
    pieces: Vec<Vec<u8>>,
    used: usize,
    wasted: usize,
}

impl TextPages {
    const PIECE: usize = 4 << 20;
    /// Less waste is not worth compacting.
    const WASTE: usize = 64 << 10;

    /// Appends a page and returns its start, in units of four bytes.
    fn add(&mut self, page: &[u8]) -> u32 {
        let has_room = |piece: &Vec<u8>| piece.len() + page.len() <= Self::PIECE;
        if !self.pieces.last().is_some_and(has_room) {
            let mut piece = Vec::new();
            if !self.pieces.is_empty() {
                piece.reserve_exact(Self::PIECE);
                memory::advise_huge_pages(&piece);
            }
            self.pieces.push(piece);
        }
        let number = self.pieces.len() - 1;
        let piece = &mut self.pieces[number];
        let start = (number * Self::PIECE + piece.len()) / UNIT;
        piece.extend_from_slice(page);
        let padded = piece.len().next_multiple_of(UNIT);
        piece.resize(padded.min(Self::PIECE), 0);
        self.used += page.len();
        start as u32
    }

    #[inline]
    fn from(&self, start: u32) -> &[u8] {
        let at = start as usize * UNIT;
        &self.pieces[at / Self::PIECE][at % Self::PIECE..]
    }

    fn page(&self, start: u32, players: usize) -> &[u8] {
        let text = self.from(start);
        let end = (0..players).fold(0, |end, _| end + bytes_of(&text[end..]));
        &text[..end]
    }

    fn discard(&mut self, start: u32, players: usize) {
        self.wasted += self.page(start, players).len();
    }

    fn is_compact(&self) -> bool {
        self.wasted < Self::WASTE || self.wasted < self.used / 2
    }

    fn bytes(&self) -> usize {
        self.pieces.iter().map(Vec::capacity).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn players_are_found_by_id_and_by_number() {
        let mut roster = Roster::default();
        for number in 0..40_000_u32 {
            assert_eq!(roster.find(&format!("player {number}")), None);
            assert_eq!(roster.add(&format!("player {number}"), &"n".repeat(number as usize % 20)), number);
        }
        let mut again = Roster::default();
        for number in 0..roster.len() {
            let player = roster.get(number);
            assert_eq!(player.id, format!("player {number}"));
            assert_eq!(player.name.len(), number as usize % 20);
            assert_eq!(roster.find(player.id), Some(number));
            again.put(number, player.id, player.name);
        }
        again.rebuild_lookup();
        assert!((0..roster.len()).all(|number| again.find(roster.get(number).id) == Some(number)));
    }

    #[test]
    fn name_can_change_and_defaults_to_the_id() {
        let mut roster = Roster::default();
        let [bo, al] = ["bo", "al"].map(|id| roster.add(id, id));
        assert_eq!((roster.get(bo).name, roster.get(bo).display_name()), ("", "bo"));
        assert!(roster.rename(bo, "Bo the Great"));
        assert!(!roster.rename(bo, "Bo the Great"));
        assert_eq!((roster.get(bo).display_name(), roster.get(al).display_name()), ("Bo the Great", "al"));
        assert!(roster.rename(bo, "bo"));
        assert_eq!(roster.get(bo), RosterEntry { id: "bo", name: "" });
    }

    #[test]
    fn frequent_renames_are_compacted() {
        let mut roster = Roster::default();
        for number in 0..1_000 {
            roster.add(&format!("player {number}"), "");
        }
        for turn in 0..20_000_u32 {
            roster.rename(turn * 7 % 1_000, &format!("name {turn}"));
        }
        assert!((0..1_000).all(|number| roster.find(&format!("player {number}")) == Some(number)));
        assert!(roster.bytes().0 < 400_000, "{:?}", roster.bytes());
    }

    #[test]
    fn number_of_an_erased_player_is_reused() {
        let mut roster = Roster::default();
        let numbers = ["al", "bo", "cy"].map(|id| roster.add(id, "name"));
        roster.erase(numbers[1]);
        assert_eq!((roster.find("bo"), roster.find("cy")), (None, Some(2)));
        assert_eq!(roster.add("di", ""), numbers[1]);
        assert_eq!((roster.find("di"), roster.get(2).id), (Some(1), "cy"));
    }
}
