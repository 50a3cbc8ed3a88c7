//! The players of a board: a number for each id, and the name that others see.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use super::chunked::Chunked;
use super::lookup::Lookup;
use super::memory;

/// Players whose ids and names lie together. One has to be passed over to get to the next, so not too many.
const PER_PAGE: usize = 16;
/// Lines of memory in which most pages lie.
const PAGE_LINES: usize = 6;
/// Beyond it there are many tables, which then grow one after the other and none for long.
const ONE_TABLE_MAX: u32 = 1 << 15;
const TABLES: usize = 64;

/// Bytes that a page may have: 16 players of 128 and 64 bytes fit. A page begins at a multiple of four.
const UNIT: usize = 4;

/// Players by number and by id. Numbers are dense, and those of erased players are used again.
///
/// Per player there is the length of the id, the length of the name, and both texts; an erased one has an empty id. Full
/// pages of 16 players lie in one text, the last page by itself.
#[derive(Default)]
pub struct Roster {
    texts: Texts,
    /// Where each full page begins.
    starts: Chunked<u32>,
    last: Vec<u8>,
    len: u32,
    erased: Vec<u32>,
    tables: Vec<Lookup>,
    hasher: DefaultHashBuilder,
}

/// What is known of a player. An empty name is the same as the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known<'a> {
    /// As the game calls the player.
    pub id: &'a str,
    /// As others see the player.
    pub name: &'a str,
}

impl<'a> Known<'a> {
    /// The name to show.
    pub fn shown(&self) -> &'a str {
        if self.name.is_empty() { self.id } else { self.name }
    }
}

impl Roster {
    /// Numbers given, erased ones included.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// The number of a player who is known.
    pub fn find(&self, id: &str) -> Option<u32> {
        let hash = self.hash_of(id.as_bytes());
        let table = self.tables.get(self.table_of(hash))?;
        table.find(hash, |number| self.id_bytes(number) == id.as_bytes())
    }

    /// A number for a player who is not known yet.
    pub fn add(&mut self, id: &str, name: &str) -> u32 {
        let number = self.erased.pop().unwrap_or(self.len);
        self.place(number, id, name);
        self.enter(number);
        number
    }

    /// Another name for a player; tells whether it is another one.
    pub fn rename(&mut self, number: u32, name: &str) -> bool {
        let known = self.get(number);
        let name = if name == known.id { "" } else { name };
        if known.name == name {
            return false;
        }
        let id = known.id.to_owned();
        self.place(number, &id, name);
        true
    }

    /// Forgets a player.
    pub fn erase(&mut self, number: u32) {
        let hash = self.hash(number);
        let at = self.table_of(hash);
        let mut table = std::mem::take(&mut self.tables[at]);
        table.remove(hash, number, |other| self.hash(other));
        self.tables[at] = table;
        self.place(number, "", "");
        self.erased.push(number);
    }

    /// The player of a number.
    #[inline]
    pub fn get(&self, number: u32) -> Known<'_> {
        let entry = self.entry(number);
        let (id, name) = entry[2..].split_at(usize::from(entry[0]));
        let text = |bytes| std::str::from_utf8(bytes).expect("only text is put there");
        Known { id: text(id), name: text(name) }
    }

    #[inline]
    fn id_bytes(&self, number: u32) -> &[u8] {
        let entry = self.entry(number);
        &entry[2..2 + usize::from(entry[0])]
    }

    #[inline]
    fn entry(&self, number: u32) -> &[u8] {
        let mut rest = self.page(number as usize / PER_PAGE);
        // An entry's place is known when those before it were read: all lines of the page are asked for at once.
        rest.iter().step_by(memory::LINE).take(PAGE_LINES).for_each(memory::prefetch);
        for _ in 0..number as usize % PER_PAGE {
            rest = &rest[bytes_of(rest)..];
        }
        &rest[..bytes_of(rest)]
    }

    /// A page; a full one with what follows it.
    #[inline]
    fn page(&self, page: usize) -> &[u8] {
        self.starts.get(page as u32).map_or(&self.last, |start| self.texts.from(*start))
    }

    /// Puts a player at a number, which is known already or at most one further than the last. Lookups by id need
    /// [`Roster::enter_all`] afterwards.
    pub fn place(&mut self, number: u32, id: &str, name: &str) {
        let name = if name == id { "" } else { name };
        while self.len < number {
            self.append("", "");
        }
        if self.len == number {
            return self.append(id, name);
        }
        let known = self.get(number);
        if (known.id, known.name) != (id, name) {
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
                self.texts.waste(start, PER_PAGE);
                self.starts[page as u32] = self.texts.add(&new);
                self.tidy();
            }
        }
    }

    /// Makes the text anew when most of it is not used any more.
    fn tidy(&mut self) {
        if self.texts.is_tidy() {
            return;
        }
        let before = std::mem::take(&mut self.texts);
        for page in 0..self.starts.len() as u32 {
            let start = self.starts[page];
            self.starts[page] = self.texts.add(before.page(start, PER_PAGE));
        }
    }

    /// Makes lookups by id from what was placed.
    pub fn enter_all(&mut self) {
        self.tables = Self::tables_for(self.len);
        self.erased.clear();
        for page in 0..(self.len as usize).div_ceil(PER_PAGE) {
            self.enter_page(page);
        }
    }

    fn enter_page(&mut self, page: usize) {
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
                Some(hash) => self.enter_hash(number, *hash),
            }
        }
    }

    fn enter(&mut self, number: u32) {
        if self.tables.is_empty() || self.tables.len() == 1 && self.len > ONE_TABLE_MAX {
            let before = std::mem::replace(&mut self.tables, Self::tables_for(self.len));
            before.iter().flat_map(Lookup::numbers).for_each(|number| self.enter(number));
        }
        self.enter_hash(number, self.hash(number));
    }

    fn enter_hash(&mut self, number: u32, hash: u64) {
        let at = self.table_of(hash);
        if !self.tables[at].has_room(number) {
            self.tables[at] = self.grown(&self.tables[at]);
        }
        self.tables[at].put(hash, number);
    }

    /// Empty tables with room for some more than these players.
    fn tables_for(players: u32) -> Vec<Lookup> {
        let count = if players <= ONE_TABLE_MAX { 1 } else { TABLES };
        let each = players as usize / count;
        (0..count).map(|_| Lookup::with_room(each + each / 50, players.saturating_mul(2))).collect()
    }

    fn grown(&self, table: &Lookup) -> Lookup {
        let mut grown = Lookup::with_room(table.len() + table.len() / 4 + 1, self.len.saturating_mul(2));
        table.numbers().for_each(|number| grown.put(self.hash(number), number));
        grown
    }

    fn hash(&self, number: u32) -> u64 {
        self.hash_of(self.id_bytes(number))
    }

    fn hash_of(&self, id: &[u8]) -> u64 {
        self.hasher.hash_one(id)
    }

    /// Tables use the highest and the lowest bits themselves.
    fn table_of(&self, hash: u64) -> usize {
        (hash >> 32) as usize & self.tables.len().saturating_sub(1)
    }

    /// Bytes of memory: of ids and names, and of the lookup.
    pub fn bytes(&self) -> (usize, usize) {
        let texts = self.texts.bytes() + self.starts.len() * size_of::<u32>();
        (texts, self.tables.iter().map(Lookup::bytes).sum())
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

/// Pages of players, one after the other. A page that changes is put at the end.
#[derive(Default)]
struct Texts {
    pieces: Vec<Vec<u8>>,
    used: usize,
    wasted: usize,
}

impl Texts {
    const PIECE: usize = 4 << 20;
    /// Less is not worth tidying.
    const WASTE: usize = 64 << 10;

    /// Adds a page; tells where it begins, in units of four bytes.
    fn add(&mut self, page: &[u8]) -> u32 {
        let has_room = |piece: &Vec<u8>| piece.len() + page.len() <= Self::PIECE;
        if !self.pieces.last().is_some_and(has_room) {
            let mut piece = Vec::new();
            if !self.pieces.is_empty() {
                piece.reserve_exact(Self::PIECE);
                memory::in_large_pages(&piece);
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

    fn waste(&mut self, start: u32, players: usize) {
        self.wasted += self.page(start, players).len();
    }

    fn is_tidy(&self) -> bool {
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
    fn players_are_found_by_id_and_by_number_however_many_there_are() {
        let mut roster = Roster::default();
        for number in 0..40_000_u32 {
            assert_eq!(roster.find(&format!("player {number}")), None);
            assert_eq!(roster.add(&format!("player {number}"), &"n".repeat(number as usize % 20)), number);
        }
        let mut again = Roster::default();
        for number in 0..roster.len() {
            let known = roster.get(number);
            assert_eq!(known.id, format!("player {number}"));
            assert_eq!(known.name.len(), number as usize % 20);
            assert_eq!(roster.find(known.id), Some(number));
            again.place(number, known.id, known.name);
        }
        again.enter_all();
        assert!((0..roster.len()).all(|number| again.find(roster.get(number).id) == Some(number)));
    }

    #[test]
    fn a_name_can_change_and_is_the_id_when_there_is_none() {
        let mut roster = Roster::default();
        let [bo, al] = ["bo", "al"].map(|id| roster.add(id, id));
        assert_eq!((roster.get(bo).name, roster.get(bo).shown()), ("", "bo"));
        assert!(roster.rename(bo, "Bo the Great"));
        assert!(!roster.rename(bo, "Bo the Great"));
        assert_eq!((roster.get(bo).shown(), roster.get(al).shown()), ("Bo the Great", "al"));
        assert!(roster.rename(bo, "bo"));
        assert_eq!(roster.get(bo), Known { id: "bo", name: "" });
    }

    #[test]
    fn names_that_change_often_leave_no_waste() {
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
    fn the_number_of_an_erased_player_is_used_again() {
        let mut roster = Roster::default();
        let numbers = ["al", "bo", "cy"].map(|id| roster.add(id, "name"));
        roster.erase(numbers[1]);
        assert_eq!((roster.find("bo"), roster.find("cy")), (None, Some(2)));
        assert_eq!(roster.add("di", ""), numbers[1]);
        assert_eq!((roster.find("di"), roster.get(2).id), (Some(1), "cy"));
    }
}
