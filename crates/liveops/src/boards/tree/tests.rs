//! The tree compared with a sorted vector.

use proptest::prelude::*;

use super::*;

struct Scores(Vec<i64>);

impl RankKeys for Scores {
    fn key(&self, row: u32) -> RankKey {
        RankKey { score: self.0[row as usize], subscore: 0, arrival: u64::from(row) }
    }
}

/// Toggles rows in both: removes a row that is present, adds one that is not. Then compares everything.
fn check(scores: &Scores, changes: impl Iterator<Item = u32>) {
    let (mut tree, mut sorted) = (Tree::default(), Vec::<(RankKey, u32)>::new());
    for row in changes {
        let key = scores.key(row);
        match sorted.binary_search(&(key, row)) {
            Ok(at) => {
                assert_eq!(tree.remove(row, &key), Some(at));
                sorted.remove(at);
            }
            Err(at) => {
                assert_eq!(tree.remove(row, &key), None);
                assert_eq!(tree.insert(row, scores), at);
                sorted.insert(at, (key, row));
            }
        }
        assert_eq!(tree.len(), sorted.len());
    }
    let rows: Vec<u32> = sorted.iter().map(|(_, row)| *row).collect();
    same(&tree, &rows, scores);
    same(&Tree::from_sorted(rows.iter().copied(), scores), &rows, scores);
}

fn same(tree: &Tree, rows: &[u32], scores: &Scores) {
    assert_eq!(tree.rows(0..usize::MAX), rows);
    for (at, row) in rows.iter().enumerate() {
        let key = scores.key(*row);
        assert_eq!((tree.row(at), tree.position(*row, &key)), (Some(*row), Some(at)));
        assert_eq!(tree.rank(&key, scores), at);
        assert_eq!(tree.rows(at..at + 3), rows[at..rows.len().min(at + 3)]);
    }
    assert_eq!(tree.row(rows.len()), None);
}

/// Deterministic pseudo-random numbers: xorshift.
fn random(count: usize, below: u64) -> impl Iterator<Item = u32> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below) as u32
    })
    .take(count)
}

#[test]
fn random_insertions_and_removals_keep_positions() {
    let scores = Scores(random(20_000, 500).map(i64::from).collect());
    check(&scores, random(60_000, 20_000));
}

#[test]
fn sequential_insertions_and_removals_keep_positions() {
    let scores = Scores((0..9_000).collect());
    check(&scores, 0..9_000);
    check(&scores, (0..9_000).rev());
    check(&scores, (0..9_000).chain(0..8_990));
    check(&scores, (0..9_000).chain((0..9_000).rev()));
    check(&scores, (0..9_000).chain((0..9_000).filter(|row| row % 100 != 0)).chain(0..4_000));
}

#[test]
fn tree_frees_leaves_when_most_rows_are_removed() {
    let scores = Scores(random(50_000, 1 << 30).map(i64::from).collect());
    let mut tree = Tree::default();
    (0..50_000).for_each(|row| {
        tree.insert(row, &scores);
    });
    let before = tree.leaves.all.len() - tree.leaves.free.len();
    assert!(50_000 / before >= LEAF_ROWS * 3 / 4, "leaves are filled well: {before}");
    (0..49_000).for_each(|row| {
        tree.remove(row, &scores.key(row));
    });
    let after = tree.leaves.all.len() - tree.leaves.free.len();
    assert!(after <= 1_000 / (LEAF_ROWS / 8), "{before} leaves became {after}");
}

proptest! {
    #[test]
    fn any_changes_equal_a_sorted_vector(
        scores in prop::collection::vec(-3i64..3, 300),
        changes in prop::collection::vec(0u32..300, 0..900),
    ) {
        check(&Scores(scores), changes.into_iter());
    }
}
