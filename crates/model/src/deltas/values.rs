//! The values of a dimension, each written down once and numbered.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::series::TUPLE_SEPARATOR;

/// A piece of the text arena.
#[derive(Clone, Copy, Default)]
pub(super) struct Text {
    start: u32,
    length: u32,
}

impl Text {
    /// Admission has checked that it is UTF-8. If it were not, the processor would have to go on all the same.
    pub(super) fn push(arena: &mut String, text: &[u8]) -> Text {
        let start = arena.len();
        arena.push_str(&String::from_utf8_lossy(text));
        Text::since(start, arena)
    }

    /// What was pushed since the arena was so long.
    pub(super) fn since(start: usize, arena: &str) -> Text {
        Text { start: start as u32, length: (arena.len() - start) as u32 }
    }

    pub(super) fn of(self, arena: &str) -> &str {
        &arena[self.range()]
    }

    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..(self.start + self.length) as usize
    }
}

/// The values of one dimension. The number 0 is that of events without it.
#[derive(Default)]
pub(super) struct Values {
    known: Vec<Known>,
    index: HashTable<u32>,
}

struct Known {
    text: Text,
    /// The same, but that nothing in it separates the parts of a tuple.
    in_tuple: Text,
}

impl Values {
    #[inline]
    pub(super) fn number_of(&mut self, value: &[u8], hasher: &DefaultHashBuilder, arena: &mut String) -> u32 {
        if value.is_empty() {
            return 0;
        }
        let hash = hasher.hash_one(value);
        let known = &self.known;
        let same = |number: &u32| known[*number as usize - 1].text.of(arena).as_bytes() == value;
        match self.index.find(hash, same) {
            Some(number) => *number,
            None => self.learn(hash, value, hasher, arena),
        }
    }

    #[cold]
    fn learn(&mut self, hash: u64, value: &[u8], hasher: &DefaultHashBuilder, arena: &mut String) -> u32 {
        let text = Text::push(arena, value);
        let in_tuple = match text.of(arena).contains(TUPLE_SEPARATOR) {
            true => Text::push(arena, text.of(arena).replace(TUPLE_SEPARATOR, " ").as_bytes()),
            false => text,
        };
        self.known.push(Known { text, in_tuple });
        let (number, known) = (self.known.len() as u32, &self.known);
        self.index.insert_unique(hash, number, |number| {
            hasher.hash_one(known[*number as usize - 1].text.of(arena).as_bytes())
        });
        number
    }

    pub(super) fn text(&self, number: u32) -> Text {
        number.checked_sub(1).map_or(Text::default(), |place| self.known[place as usize].text)
    }

    pub(super) fn text_in_tuple(&self, number: u32) -> Text {
        number.checked_sub(1).map_or(Text::default(), |place| self.known[place as usize].in_tuple)
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.index.clear();
    }
}

/// A hash of numbers that nobody outside chooses.
#[inline]
pub(super) fn mixed(number: u64) -> u64 {
    let product = u128::from(number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
    (product >> 64) as u64 ^ product as u64
}
