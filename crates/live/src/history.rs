//! The latest changes of a channel, kept for clients that resume.

use std::collections::VecDeque;

/// Changes kept.
const CHANGES_MAX: usize = 64;
/// Bytes of all changes together.
const BYTES_MAX: usize = 256 << 10;

/// The latest changes, each with its number.
pub(crate) struct History<T> {
    /// All changes after this number are kept.
    complete_after: u64,
    changes: VecDeque<(u64, usize, T)>,
    bytes: usize,
}

impl<T> History<T> {
    /// Returns an empty history. There was no change after this number.
    pub(crate) fn new(complete_after: u64) -> History<T> {
        History { complete_after, changes: VecDeque::new(), bytes: 0 }
    }

    /// Adds a change, and evicts the oldest ones beyond the limits.
    pub(crate) fn push(&mut self, number: u64, bytes: usize, change: T) {
        self.bytes += bytes;
        self.changes.push_back((number, bytes, change));
        while self.changes.len() > CHANGES_MAX || self.bytes > BYTES_MAX {
            let Some((number, bytes, _)) = self.changes.pop_front() else { break };
            self.bytes -= bytes;
            self.complete_after = number;
        }
    }

    /// Adds a change that replaces all earlier ones: it leads from any kept state to the newest.
    pub(crate) fn replace(&mut self, number: u64, bytes: usize, change: T) {
        self.changes.clear();
        self.bytes = 0;
        self.push(number, bytes, change);
    }

    /// Returns the bytes of all kept changes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the changes after this number with their numbers. `None`: some of them are no longer kept.
    pub(crate) fn since(&self, number: u64) -> Option<impl Iterator<Item = (u64, &T)>> {
        let newer = self.changes.iter().filter(move |(other, ..)| *other > number);
        (self.complete_after <= number).then(|| newer.map(|(number, _, change)| (*number, change)))
    }

    /// Returns true if all changes after this number are kept.
    pub(crate) fn is_complete_since(&self, number: u64) -> bool {
        self.complete_after <= number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(history: &History<&str>, since: u64, expected: Option<&str>) {
        let changes: Option<Vec<&str>> =
            history.since(since).map(|changes| changes.map(|(_, text)| *text).collect());
        assert_eq!(changes.map(|changes| changes.join(" ")).as_deref(), expected);
        assert_eq!(history.is_complete_since(since), expected.is_some());
    }

    #[test]
    fn changes_after_a_number_are_returned() {
        let mut history = History::new(4);
        check(&history, 4, Some(""));
        history.push(7, 1, "a");
        history.push(9, 1, "b");
        check(&history, 3, None);
        check(&history, 4, Some("a b"));
        check(&history, 7, Some("b"));
        check(&history, 9, Some(""));
    }

    #[test]
    fn replacement_stands_for_all_earlier_changes() {
        let mut history = History::new(4);
        history.push(7, 1, "a");
        history.replace(9, 5, "all");
        check(&history, 4, Some("all"));
        check(&history, 3, None);
        assert_eq!(history.bytes(), 5);
    }

    #[test]
    fn oldest_changes_are_evicted_beyond_the_limits() {
        let mut history = History::new(0);
        (1..=CHANGES_MAX as u64 + 1).for_each(|number| history.push(number, 1, "few"));
        check(&history, 0, None);
        assert!(history.is_complete_since(1));
        history.push(100, BYTES_MAX, "large");
        check(&history, 99, Some("large"));
        check(&history, CHANGES_MAX as u64, None);
    }
}
