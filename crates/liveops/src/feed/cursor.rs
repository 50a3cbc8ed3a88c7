//! The position at which a page ended, as text that the client sends back.

use super::item_position::ItemPosition;

/// The last item that a page visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// In mode `fair`, the round; 0 in mode `latest`.
    pub(super) round: usize,
    /// The item, without a tail.
    pub(super) item: ItemPosition,
    /// The number of the next item at the time of the first page.
    pub(super) as_of: u64,
}

impl Cursor {
    /// Parses the text of [`Cursor::text`]; `None` for anything else.
    pub fn parse(text: &str) -> Option<Cursor> {
        let mut numbers = text.split('-').map(|part| part.parse::<u64>().ok());
        let mut number = || numbers.next().flatten();
        let (round, at_ms, item, as_of) = (number()?, number()?, number()?, number()?);
        let item = ItemPosition::new(i64::try_from(at_ms).ok()?, item, 0);
        let cursor = Cursor { round: usize::try_from(round).ok()?, item, as_of };
        (cursor.text() == text).then_some(cursor)
    }

    /// Returns the cursor as digits and `-`.
    pub fn text(&self) -> String {
        format!("{}-{}-{}-{}", self.round, self.item.at_ms(), self.item.number(), self.as_of)
    }
}
