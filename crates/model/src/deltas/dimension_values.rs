//! The values of a dimension, each stored once and numbered.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::series::TUPLE_SEPARATOR;

/// A range of the text arena.
#[derive(Clone, Copy, Default)]
pub(super) struct TextRange {
    start: u32,
    length: u32,
}

impl TextRange {
    /// Admission has checked that the text is UTF-8. If it ever were not, the applier could not stop either.
    pub(super) fn push(arena: &mut String, text: &[u8]) -> TextRange {
        let start = arena.len();
        arena.push_str(&String::from_utf8_lossy(text));
        TextRange::since(start, arena)
    }

    /// Returns the text pushed since the arena had this length.
    pub(super) fn since(start: usize, arena: &str) -> TextRange {
        TextRange { start: start as u32, length: (arena.len() - start) as u32 }
    }

    pub(super) fn of(self, arena: &str) -> &str {
        &arena[self.range()]
    }

    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..(self.start + self.length) as usize
    }
}

/// The values of one dimension. The number 0 stands for events without the dimension.
#[derive(Default)]
pub(super) struct DimensionValues {
    texts: Vec<ValueText>,
    index: HashTable<u32>,
}

struct ValueText {
    text: TextRange,
    /// The text with the tuple separator replaced.
    in_tuple: TextRange,
}

impl DimensionValues {
    #[inline]
    pub(super) fn number_of(&mut self, value: &[u8], hasher: &DefaultHashBuilder, arena: &mut String) -> u32 {
        if value.is_empty() {
            return 0;
        }
        let hash = hasher.hash_one(value);
        let texts = &self.texts;
        let same = |number: &u32| texts[*number as usize - 1].text.of(arena).as_bytes() == value;
        match self.index.find(hash, same) {
            Some(number) => *number,
            None => self.insert(hash, value, hasher, arena),
        }
    }

    #[cold]
    fn insert(&mut self, hash: u64, value: &[u8], hasher: &DefaultHashBuilder, arena: &mut String) -> u32 {
        let text = TextRange::push(arena, value);
        let in_tuple = match text.of(arena).contains(TUPLE_SEPARATOR) {
            true => TextRange::push(arena, text.of(arena).replace(TUPLE_SEPARATOR, " ").as_bytes()),
            false => text,
        };
        self.texts.push(ValueText { text, in_tuple });
        let (number, texts) = (self.texts.len() as u32, &self.texts);
        self.index.insert_unique(hash, number, |number| {
            hasher.hash_one(texts[*number as usize - 1].text.of(arena).as_bytes())
        });
        number
    }

    pub(super) fn text(&self, number: u32) -> TextRange {
        number.checked_sub(1).map_or(TextRange::default(), |position| self.texts[position as usize].text)
    }

    pub(super) fn text_in_tuple(&self, number: u32) -> TextRange {
        number.checked_sub(1).map_or(TextRange::default(), |position| self.texts[position as usize].in_tuple)
    }

    pub(super) fn clear(&mut self) {
        self.texts.clear();
        self.index.clear();
    }
}

/// A hash of internal numbers, which clients cannot choose.
#[inline]
pub(super) fn mix(number: u64) -> u64 {
    let product = u128::from(number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
    (product >> 64) as u64 ^ product as u64
}
