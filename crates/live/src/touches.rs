//! What was touched of the things a channel reads, since it was computed last.

/// Minutes that are told apart; with more of them everything counts as touched.
const MINUTES_MAX: usize = 64;

/// What was touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Touches {
    /// These minutes since 1970, in order; maybe none.
    Minutes(Vec<u32>),
    /// Whatever there is.
    All,
}

impl Default for Touches {
    fn default() -> Touches {
        Touches::Minutes(Vec::new())
    }
}

impl Touches {
    /// Adds a minute.
    pub fn add(&mut self, minute: u32) {
        let Touches::Minutes(minutes) = self else { return };
        let Err(place) = minutes.binary_search(&minute) else { return };
        if minutes.len() == MINUTES_MAX {
            *self = Touches::All;
        } else {
            minutes.insert(place, minute);
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Touches::Minutes(minutes) if minutes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_told_apart_until_they_are_too_many() {
        let mut touches = Touches::default();
        assert!(touches.is_empty());
        [7, 3, 7, 5].into_iter().for_each(|minute| touches.add(minute));
        assert_eq!(touches, Touches::Minutes(vec![3, 5, 7]));
        (0..100).for_each(|minute| touches.add(minute));
        assert_eq!(touches, Touches::All);
        assert!(!touches.is_empty());
    }
}
