//! The receipt of a submitted batch, event by event.

use model::{Outcome, Reject};

use super::QuotaUsage;

/// The outcome of a batch, event by event.
#[derive(Debug, Default, PartialEq)]
pub struct Receipt {
    /// The number of events by outcome, in the order of [`Outcome::ALL`].
    pub outcomes: [u32; 5],
    /// The log position after the batch.
    pub position: u64,
    /// The events that were not accepted, by their index in the batch, ascending.
    pub rejected: Vec<(u32, Reject)>,
    /// The daily quota that is nearly used up, if there is one.
    pub quota_usage: Option<QuotaUsage>,
}

impl Receipt {
    /// `removed` are ordinals among the `admitted` events of the batch; `rejected` are indexes into the batch.
    pub(super) fn new(
        admitted: u32,
        position: u64,
        removed: &[u32],
        mut rejected: Vec<(u32, Reject)>,
    ) -> Receipt {
        let mut outcomes = [0; 5];
        outcomes[Outcome::Accepted as usize] = admitted - removed.len() as u32;
        if !removed.is_empty() {
            let duplicates = indexes_of(removed, &rejected);
            rejected.extend(duplicates.into_iter().map(|index| (index, Reject::SeenBefore)));
            rejected.sort_unstable_by_key(|(index, _)| *index);
        }
        rejected.iter().for_each(|(_, reject)| outcomes[reject.outcome() as usize] += 1);
        Receipt { outcomes, position, rejected, quota_usage: None }
    }
}

/// Returns the indexes in the batch of the `ordinals`-th admitted events. Both lists ascend.
fn indexes_of(ordinals: &[u32], rejected: &[(u32, Reject)]) -> Vec<u32> {
    let mut skipped = 0;
    let index_of = |ordinal: &u32| {
        while rejected.get(skipped as usize).is_some_and(|(index, _)| *index <= ordinal + skipped) {
            skipped += 1;
        }
        ordinal + skipped
    };
    ordinals.iter().map(index_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_listed_by_their_index_in_the_batch() {
        let rejected = vec![(0, Reject::TooOld), (3, Reject::UnknownField)];
        // The batch was: late, admitted 0, admitted 1, invalid, admitted 2.
        let receipt = Receipt::new(3, 9, &[1, 2], rejected);
        let expected = vec![
            (0, Reject::TooOld),
            (2, Reject::SeenBefore),
            (3, Reject::UnknownField),
            (4, Reject::SeenBefore),
        ];
        assert_eq!(receipt.rejected, expected);
        assert_eq!(receipt.outcomes, [1, 2, 1, 1, 0]);
    }
}
