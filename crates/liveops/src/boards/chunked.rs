//! A column that grows without moving what it has.

use std::ops::{Index, IndexMut};

/// Values in one piece. A small column is one small vector; a large one never copies itself to grow.
const PIECE: usize = 1 << SHIFT;
const SHIFT: u32 = 12;

/// Values by their number from 0 on.
#[derive(Clone, Debug)]
pub struct Chunked<T> {
    pieces: Vec<Vec<T>>,
}

impl<T> Default for Chunked<T> {
    fn default() -> Chunked<T> {
        Chunked { pieces: Vec::new() }
    }
}

impl<T> Chunked<T> {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        let full = self.pieces.len().saturating_sub(1) * PIECE;
        full + self.pieces.last().map_or(0, Vec::len)
    }

    /// Adds a value; it has the number that [`Chunked::len`] said.
    #[inline]
    pub fn push(&mut self, value: T) {
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => last.push(value),
            _ => self.pieces.push(vec![value]),
        }
    }
}

impl<T: Clone> Chunked<T> {
    /// Adds copies of a value until there are so many.
    pub fn grow(&mut self, len: usize, value: T) {
        while self.len() < len {
            self.push(value.clone());
        }
    }
}

impl<T> Index<u32> for Chunked<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.pieces[(number >> SHIFT) as usize][number as usize & (PIECE - 1)]
    }
}

impl<T> IndexMut<u32> for Chunked<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.pieces[(number >> SHIFT) as usize][number as usize & (PIECE - 1)]
    }
}
