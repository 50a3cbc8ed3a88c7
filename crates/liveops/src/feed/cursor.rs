//! Where a page ended, as text that a client gives back.

use super::stamp::Stamp;

/// The last item that a page looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Of `fair`: which newest of its player it was. 0: of `latest`.
    pub(super) round: usize,
    /// The item; its tail says nothing.
    pub(super) item: Stamp,
    /// The number that the next item had when the first page was asked for.
    pub(super) as_of: u64,
}

impl Cursor {
    /// Reads what [`Cursor::text`] made; `None` for anything else.
    pub fn parse(text: &str) -> Option<Cursor> {
        let mut numbers = text.split('-').map(|part| part.parse::<u64>().ok());
        let mut number = || numbers.next().flatten();
        let (round, at_ms, item, as_of) = (number()?, number()?, number()?, number()?);
        let item = Stamp::new(i64::try_from(at_ms).ok()?, item, 0);
        let cursor = Cursor { round: usize::try_from(round).ok()?, item, as_of };
        (cursor.text() == text).then_some(cursor)
    }

    /// Digits and `-`.
    pub fn text(&self) -> String {
        format!("{}-{}-{}-{}", self.round, self.item.at_ms(), self.item.number(), self.as_of)
    }
}
