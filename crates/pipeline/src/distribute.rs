//! Distribution of work items over workers.
//!
//! Packets and connections need none: each runtime has a socket of its own on the same port, and the kernel chooses one
//! by the addresses of both ends, so that the packets of one sender stay in order.

/// The property of a work item that selects its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistributeBy {
    /// The number of the item: workers take turns.
    Turn(usize),
    /// A hash of the item's key: equal keys go to the same worker. All bits must be well mixed.
    Hash(u64),
}

/// Returns the index of the worker for an item. `workers` must be at least 1.
///
/// By turns, the shares of two workers differ by at most one item. By hash, keys are spread as evenly as their hashes.
#[inline]
pub fn distribute(by: DistributeBy, workers: usize) -> usize {
    match by {
        DistributeBy::Turn(number) => number % workers,
        // The middle bits, because hash tables inside the workers use those at both ends.
        DistributeBy::Hash(hash) => (hash >> 32) as usize % workers,
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use model::flows::Pair;
    use proptest::prelude::*;

    use super::*;

    /// Returns the number of items of each worker.
    fn shares(items: impl Iterator<Item = DistributeBy>, workers: usize) -> Vec<usize> {
        let mut shares = vec![0; workers];
        items.for_each(|by| shares[distribute(by, workers)] += 1);
        shares
    }

    proptest! {
        #[test]
        fn by_turns_shares_differ_by_at_most_one(first in 0usize..1_000, items in 0usize..500, workers in 1usize..70) {
            let shares = shares((first..first + items).map(DistributeBy::Turn), workers);
            let (least, most) = (shares.iter().min(), shares.iter().max());
            prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{shares:?}");
        }

        #[test]
        fn both_directions_of_a_flow_have_the_same_worker(one in "[a-c]{1,4}", other in "[a-c]{1,4}", game: u32, workers in 1usize..70) {
            prop_assume!(one != other);
            let hasher = hashbrown::DefaultHashBuilder::default();
            let worker = |from, to| distribute(DistributeBy::Hash(hasher.hash_one((game, Pair::of(from, to)))), workers);
            prop_assert_eq!(worker(&one, &other), worker(&other, &one));
            prop_assert!(worker(&one, &other) < workers);
        }
    }

    /// 100,000 pairs over 64 workers: an average share of 1,562 with a standard deviation of 39.
    #[test]
    fn keys_are_spread_evenly() {
        let hasher = hashbrown::DefaultHashBuilder::default();
        let key = |pair: u32| {
            DistributeBy::Hash(hasher.hash_one((1u32, (format!("caller-{pair}"), format!("callee-{pair}")))))
        };
        let shares = shares((0..100_000).map(key), 64);
        assert!(shares.iter().all(|share| (1_250..1_875).contains(share)), "{shares:?}");
    }
}
