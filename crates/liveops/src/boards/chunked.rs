//! A vector that grows without moving its elements.

use std::ops::{Index, IndexMut};

/// Bytes of a chunk, at most. A small vector is one small chunk. A large one is never copied to grow, and its chunks
/// fit huge pages.
const PIECE_BYTES: usize = 4 << 20;

/// Values by number, from 0 on.
#[derive(Clone, Debug)]
pub(super) struct Chunked<T> {
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

    #[inline]
    pub(super) fn len(&self) -> usize {
        let full = self.pieces.len().saturating_sub(1) << Self::SHIFT;
        full + self.pieces.last().map_or(0, Vec::len)
    }

    /// Appends a value, whose number is the previous [`Chunked::len`].
    #[inline]
    pub(super) fn push(&mut self, value: T) {
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
            memory::advise_huge_pages(&piece);
        }
        piece.push(value);
        self.pieces.push(piece);
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.pieces.get((number >> Self::SHIFT) as usize)?.get(number as usize & (Self::PIECE - 1))
    }
}

impl<T: Clone> Chunked<T> {
    /// Appends copies of a value up to this length.
    pub(super) fn grow(&mut self, len: usize, value: T) {
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
