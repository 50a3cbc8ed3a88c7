//! The players of a board: a number for each id, and the name that others see.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Players whose ids and names lie together. One has to be passed over to get to the next, so not too many.
const PER_PAGE: usize = 16;
/// Beyond it there are many tables, which then grow one after the other and none for long.
const ONE_TABLE_MAX: usize = 1 << 15;
const TABLES: usize = 64;

/// Players by number and by id. Numbers are dense, and those of erased players are used again.
#[derive(Default)]
pub struct Roster {
    /// Per player: length of the id, length of the name, both texts. An erased one has an empty id.
    pages: Vec<Box<[u8]>>,
    len: u32,
    erased: Vec<u32>,
    tables: Vec<HashTable<u32>>,
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
        let hash = self.hasher.hash_one(id);
        let table = self.tables.get(self.table_of(hash))?;
        table.find(hash, |number| self.get(*number).id == id).copied()
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
        let hash = self.hasher.hash_one(self.get(number).id);
        let table = self.table_of(hash);
        let found = self.tables[table].find_entry(hash, |it| *it == number);
        found.map(|entry| entry.remove()).expect("a known player is in its table");
        self.place(number, "", "");
        self.erased.push(number);
    }

    /// The player of a number.
    #[inline]
    pub fn get(&self, number: u32) -> Known<'_> {
        let page = &self.pages[number as usize / PER_PAGE];
        let mut rest = &page[..];
        for _ in 0..number as usize % PER_PAGE {
            rest = entry(rest).1;
        }
        entry(rest).0
    }

    /// Puts a player at a number, which is known already or at most one page further than the last. Lookups by id
    /// need [`Roster::enter_all`] afterwards.
    pub fn place(&mut self, number: u32, id: &str, name: &str) {
        let name = if name == id { "" } else { name };
        while self.len <= number {
            self.splice(self.len, true, "", "");
            self.len += 1;
        }
        self.splice(number, false, id, name);
    }

    fn splice(&mut self, number: u32, is_new: bool, id: &str, name: &str) {
        let at = number as usize / PER_PAGE;
        if at == self.pages.len() {
            self.pages.push(Box::default());
        }
        let page = &self.pages[at];
        let mut start = 0;
        for _ in 0..number as usize % PER_PAGE {
            start += bytes_of(&page[start..]);
        }
        let end = if is_new { start } else { start + bytes_of(&page[start..]) };
        let new = [&[id.len() as u8, name.len() as u8], id.as_bytes(), name.as_bytes()].concat();
        self.pages[at] = [&page[..start], &new, &page[end..]].concat().into_boxed_slice();
    }

    /// Makes lookups by id from what was placed.
    pub fn enter_all(&mut self) {
        self.tables = tables_for(self.len as usize);
        self.erased.clear();
        let each = self.len as usize / self.tables.len();
        for at in 0..self.tables.len() {
            self.tables[at].reserve(each + each / 50, |_| 0);
        }
        for number in 0..self.len {
            if self.get(number).id.is_empty() {
                self.erased.push(number);
            } else {
                self.enter(number);
            }
        }
    }

    fn enter(&mut self, number: u32) {
        if self.tables.len() <= 1 && self.len as usize >= ONE_TABLE_MAX || self.tables.is_empty() {
            let before = std::mem::replace(&mut self.tables, tables_for(self.len as usize));
            before.into_iter().flatten().for_each(|number| self.enter(number));
        }
        let hash = self.hash(number);
        let at = self.table_of(hash);
        let mut tables = std::mem::take(&mut self.tables);
        tables[at].insert_unique(hash, number, |number| self.hash(*number));
        self.tables = tables;
    }

    fn hash(&self, number: u32) -> u64 {
        self.hasher.hash_one(self.get(number).id)
    }

    /// Tables use the highest and the lowest bits themselves.
    fn table_of(&self, hash: u64) -> usize {
        (hash >> 40) as usize & self.tables.len().saturating_sub(1)
    }

    /// Bytes of memory: of ids and names, and of the lookup.
    pub fn bytes(&self) -> (usize, usize) {
        let texts = self.pages.iter().map(|page| page.len() + size_of::<Box<[u8]>>()).sum();
        (texts, self.tables.iter().map(HashTable::allocation_size).sum())
    }
}

fn tables_for(players: usize) -> Vec<HashTable<u32>> {
    let count = if players < ONE_TABLE_MAX { 1 } else { TABLES };
    (0..count).map(|_| HashTable::new()).collect()
}

#[inline]
fn bytes_of(entry: &[u8]) -> usize {
    2 + usize::from(entry[0]) + usize::from(entry[1])
}

#[inline]
fn entry(bytes: &[u8]) -> (Known<'_>, &[u8]) {
    let (id, name) = (2 + usize::from(bytes[0]), bytes_of(bytes));
    let text =
        |range: std::ops::Range<usize>| std::str::from_utf8(&bytes[range]).expect("only text is put there");
    (Known { id: text(2..id), name: text(id..name) }, &bytes[name..])
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
    fn the_number_of_an_erased_player_is_used_again() {
        let mut roster = Roster::default();
        let numbers = ["al", "bo", "cy"].map(|id| roster.add(id, "name"));
        roster.erase(numbers[1]);
        assert_eq!((roster.find("bo"), roster.find("cy")), (None, Some(2)));
        assert_eq!(roster.add("di", ""), numbers[1]);
        assert_eq!((roster.find("di"), roster.get(2).id), (Some(1), "cy"));
    }
}
