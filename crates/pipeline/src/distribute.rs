//! Who does a piece of work. Whatever spreads work over workers asks here.
//!
//! Packets and connections come spread already: each runtime has a socket of its own on the same port, and the kernel
//! chooses one by the addresses of both ends, so that what one sender sends stays in order.

/// What decides who does a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Its number among all pieces: one worker after the other.
    Turn(usize),
    /// A hash of its key: the same worker for the same key. All bits of it are good.
    Key(u64),
}

/// Which of the `workers`, of whom there is at least one, does it.
///
/// By turns, none of them gets more than one piece more than another. By a key it is always the same one, and keys are
/// spread as evenly as their hashes.
#[inline]
pub fn distribute(by: By, workers: usize) -> usize {
    match by {
        By::Turn(number) => number % workers,
        // The bits in the middle: tables inside the workers use those at both ends.
        By::Key(hash) => (hash >> 32) as usize % workers,
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use model::flows::Pair;
    use proptest::prelude::*;

    use super::*;

    /// How many pieces each worker gets.
    fn shares(pieces: impl Iterator<Item = By>, workers: usize) -> Vec<usize> {
        let mut shares = vec![0; workers];
        pieces.for_each(|by| shares[distribute(by, workers)] += 1);
        shares
    }

    proptest! {
        #[test]
        fn by_turns_nobody_gets_more_than_one_more(first in 0usize..1_000, pieces in 0usize..500, workers in 1usize..70) {
            let shares = shares((first..first + pieces).map(By::Turn), workers);
            let (least, most) = (shares.iter().min(), shares.iter().max());
            prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{shares:?}");
        }

        #[test]
        fn both_directions_of_a_flow_are_one_worker_s(one in "[a-c]{1,4}", other in "[a-c]{1,4}", game: u32, workers in 1usize..70) {
            prop_assume!(one != other);
            let hasher = hashbrown::DefaultHashBuilder::default();
            let worker = |from, to| distribute(By::Key(hasher.hash_one((game, Pair::of(from, to)))), workers);
            prop_assert_eq!(worker(&one, &other), worker(&other, &one));
            prop_assert!(worker(&one, &other) < workers);
        }
    }

    /// A hundred thousand pairs over 64: a share of 1,562 on average, with a standard deviation of 39.
    #[test]
    fn keys_are_spread_evenly() {
        let hasher = hashbrown::DefaultHashBuilder::default();
        let key = |pair: u32| {
            By::Key(hasher.hash_one((1u32, (format!("caller-{pair}"), format!("callee-{pair}")))))
        };
        let shares = shares((0..100_000).map(key), 64);
        assert!(shares.iter().all(|share| (1_250..1_875).contains(share)), "{shares:?}");
    }
}
