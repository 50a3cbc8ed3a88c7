//! The minutes of a channel's data that changed since it was last computed.

/// Minutes that are tracked separately. If more of them change, all are dirty.
const MINUTES_MAX: usize = 64;

/// The changed part of a channel's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DirtyMinutes {
    /// These minutes since 1970, sorted. Empty: nothing changed.
    Minutes(Vec<u32>),
    /// Anything may have changed.
    All,
}

impl Default for DirtyMinutes {
    fn default() -> DirtyMinutes {
        DirtyMinutes::Minutes(Vec::new())
    }
}

impl DirtyMinutes {
    pub(crate) fn add(&mut self, minute: u32) {
        let DirtyMinutes::Minutes(minutes) = self else { return };
        let Err(index) = minutes.binary_search(&minute) else { return };
        if minutes.len() == MINUTES_MAX {
            *self = DirtyMinutes::All;
        } else {
            minutes.insert(index, minute);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, DirtyMinutes::Minutes(minutes) if minutes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_tracked_separately_up_to_a_limit() {
        let mut dirty = DirtyMinutes::default();
        assert!(dirty.is_empty());
        [7, 3, 7, 5].into_iter().for_each(|minute| dirty.add(minute));
        assert_eq!(dirty, DirtyMinutes::Minutes(vec![3, 5, 7]));
        (0..100).for_each(|minute| dirty.add(minute));
        assert_eq!(dirty, DirtyMinutes::All);
        assert!(!dirty.is_empty());
    }
}
