//! What a channel told last, for those who come back.

use std::collections::VecDeque;

/// What is kept at most.
const KEPT_MAX: usize = 64;
/// And its bytes together.
const BYTES_MAX: usize = 256 << 10;

/// The last of what was told, each under the number of its change.
pub(super) struct History<T> {
    /// Everything after this number is still here.
    complete_after: u64,
    kept: VecDeque<(u64, usize, T)>,
    bytes: usize,
}

impl<T> History<T> {
    /// Nothing has been told since this number.
    pub fn new(complete_after: u64) -> History<T> {
        History { complete_after, kept: VecDeque::new(), bytes: 0 }
    }

    /// Keeps one more, forgetting the oldest where that is too much.
    pub fn push(&mut self, number: u64, bytes: usize, told: T) {
        self.bytes += bytes;
        self.kept.push_back((number, bytes, told));
        while self.kept.len() > KEPT_MAX || self.bytes > BYTES_MAX {
            let Some((number, bytes, _)) = self.kept.pop_front() else { break };
            self.bytes -= bytes;
            self.complete_after = number;
        }
    }

    /// Keeps this one only, which stands for all before: whoever knows an older state needs nothing else.
    pub fn replace(&mut self, number: u64, bytes: usize, told: T) {
        self.kept.clear();
        self.bytes = 0;
        self.push(number, bytes, told);
    }

    /// The bytes of what is kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What was told after this number, with its number; `None`: some of it is no longer kept.
    pub fn since(&self, number: u64) -> Option<impl Iterator<Item = (u64, &T)>> {
        let newer = self.kept.iter().filter(move |(other, ..)| *other > number);
        (self.complete_after <= number).then(|| newer.map(|(number, _, told)| (*number, told)))
    }

    /// Whether everything after this number is still kept.
    pub fn reaches(&self, number: u64) -> bool {
        self.complete_after <= number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(history: &History<&str>, since: u64, expected: Option<&str>) {
        let told: Option<Vec<&str>> = history.since(since).map(|told| told.map(|(_, text)| *text).collect());
        assert_eq!(told.map(|told| told.join(" ")).as_deref(), expected);
        assert_eq!(history.reaches(since), expected.is_some());
    }

    #[test]
    fn what_came_after_a_number_is_told_again() {
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
    fn the_whole_stands_for_everything_before() {
        let mut history = History::new(4);
        history.push(7, 1, "a");
        history.replace(9, 5, "all");
        check(&history, 4, Some("all"));
        check(&history, 3, None);
        assert_eq!(history.bytes(), 5);
    }

    #[test]
    fn only_so_much_is_kept() {
        let mut history = History::new(0);
        (1..=KEPT_MAX as u64 + 1).for_each(|number| history.push(number, 1, "few"));
        check(&history, 0, None);
        assert!(history.reaches(1));
        history.push(100, BYTES_MAX, "large");
        check(&history, 99, Some("large"));
        check(&history, KEPT_MAX as u64, None);
    }
}
