//! A column that grows without moving what it has.

use std::ops::{Index, IndexMut};

use super::memory;

/// Bytes of a piece, or a little less. A small column is one small vector; a large one never copies itself to grow, and
/// its pieces are large enough for large pages.
const PIECE_BYTES: usize = 4 << 20;

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
    const SHIFT: u32 = (PIECE_BYTES / size_of::<T>()).ilog2();
    const PIECE: usize = 1 << Self::SHIFT;

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        let full = self.pieces.len().saturating_sub(1) << Self::SHIFT;
        full + self.pieces.last().map_or(0, Vec::len)
    }

    /// Adds a value; it has the number that [`Chunked::len`] said.
    #[inline]
    pub fn push(&mut self, value: T) {
        match self.pieces.last_mut() {
            Some(last) if last.len() < Self::PIECE => last.push(value),
            _ => self.push_piece(value),
        }
    }

    #[cold]
    fn push_piece(&mut self, value: T) {
        let mut piece = Vec::new();
        if !self.pieces.is_empty() {
            piece.reserve_exact(Self::PIECE);
            memory::in_large_pages(&piece);
        }
        piece.push(value);
        self.pieces.push(piece);
    }

    /// A value, if there is one of this number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        self.pieces.get((number >> Self::SHIFT) as usize)?.get(number as usize & (Self::PIECE - 1))
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
        &self.pieces[(number >> Self::SHIFT) as usize][number as usize & (Self::PIECE - 1)]
    }
}

impl<T> IndexMut<u32> for Chunked<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.pieces[(number >> Self::SHIFT) as usize][number as usize & (Self::PIECE - 1)]
    }
}
