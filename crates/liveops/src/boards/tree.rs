//! Rows in order of rank, with their positions: a counted B+-tree.
//!
//! A leaf holds only row numbers; the keys are read from the columns. Inner nodes hold keys and the number of rows
//! below each child. So a row takes about 5 bytes here, and finding its position, finding the row at a position, and
//! changing either costs one path from the root to a leaf, whatever the number of rows.
//!
//! Within a leaf, a position is found in two steps of independent reads, so that cache misses overlap. A row is removed
//! by its number alone.

use std::ops::Range;

use super::chunked::Chunked;

/// The sort key of a row, smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankKey {
    /// The score, inverted if needed so that the best is the smallest.
    pub score: i64,
    /// The subscore, inverted alike.
    pub subscore: i64,
    /// The arrival, which is unique.
    pub arrival: u64,
}

impl RankKey {
    /// Returns the key as one number, which orders keys with equal subscores.
    pub(super) fn without_subscore(&self) -> u128 {
        // With the sign bit inverted, negative scores come before positive ones.
        let score = (self.score as u64) ^ (1 << 63);
        u128::from(score) << 64 | u128::from(self.arrival)
    }
}

/// Access to the keys of rows.
pub(super) trait RankKeys {
    /// Returns the key of a row. It must not change while the row is in a tree.
    fn key(&self, row: u32) -> RankKey;

    /// Prefetches the key of a row.
    fn prefetch(&self, _row: u32) {}
}

/// With its length, a leaf takes four cache lines.
const LEAF_ROWS: usize = 63;
const INNER_CHILDREN: usize = 32;
/// Rows of a leaf that are skipped at a time.
const STEP: usize = 8;
/// A node with at most this fraction of its capacity is merged with a neighbour, if both fit well into one.
const MERGE_DIVISOR: usize = 4;

#[derive(Clone)]
#[repr(align(64))]
struct Leaf {
    len: u32,
    rows: [u32; LEAF_ROWS],
}

#[derive(Clone)]
struct Inner {
    len: u32,
    children: [u32; INNER_CHILDREN],
    /// Rows below each child.
    counts: [u32; INNER_CHILDREN],
    /// Every row below child `i` is at or after key `i`, and before key `i + 1`. The first key is not used. Scores are
    /// stored separately, because they nearly always decide.
    scores: [i64; INNER_CHILDREN],
    rests: [(i64, u64); INNER_CHILDREN],
}

/// Rows in order.
#[derive(Clone, Default)]
pub(super) struct Tree {
    leaves: Arena<Leaf>,
    inners: Arena<Inner>,
    root: u32,
    /// Inner nodes between the root and a leaf.
    height: u32,
    len: u32,
}

impl Tree {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Builds a tree from sorted rows, with some spare room in each leaf.
    pub(super) fn from_sorted(rows: impl ExactSizeIterator<Item = u32>, keys: &impl RankKeys) -> Tree {
        let mut tree = Tree { len: rows.len() as u32, ..Tree::default() };
        let mut level = tree.bulk_leaves(rows, keys);
        while level.len() > 1 {
            level = tree.bulk_inners(&level);
            tree.height += 1;
        }
        tree.root = level.first().map_or(0, |node| node.1);
        tree
    }

    fn bulk_leaves(
        &mut self,
        mut rows: impl ExactSizeIterator<Item = u32>,
        keys: &impl RankKeys,
    ) -> Vec<(RankKey, u32, u32)> {
        const FILL: usize = LEAF_ROWS - 5;
        let mut level = Vec::with_capacity(rows.len().div_ceil(FILL));
        while rows.len() > 0 {
            let mut leaf = Leaf::default();
            for (place, row) in leaf.rows.iter_mut().zip(rows.by_ref().take(FILL)) {
                *place = row;
                leaf.len += 1;
            }
            level.push((keys.key(leaf.rows[0]), self.leaves.add(leaf.clone()), leaf.len));
        }
        level
    }

    fn bulk_inners(&mut self, below: &[(RankKey, u32, u32)]) -> Vec<(RankKey, u32, u32)> {
        let mut level = Vec::with_capacity(below.len().div_ceil(INNER_CHILDREN - 2));
        for nodes in below.chunks(INNER_CHILDREN - 2) {
            let mut inner = Inner { len: nodes.len() as u32, ..Inner::default() };
            for (at, (key, node, count)) in nodes.iter().enumerate() {
                (inner.children[at], inner.counts[at]) = (*node, *count);
                inner.set_key(at, *key);
            }
            let count = nodes.iter().map(|node| node.2).sum();
            level.push((nodes[0].0, self.inners.add(inner), count));
        }
        level
    }

    /// Adds a row that is not in the tree and returns its position, from 0 on.
    pub(super) fn insert(&mut self, row: u32, keys: &impl RankKeys) -> usize {
        if self.leaves.is_empty() {
            self.root = self.leaves.add(Leaf::default());
        }
        if self.is_full(self.root, self.height) {
            self.grow_root();
        }
        let key = keys.key(row);
        let (mut node, mut before) = (self.root, 0);
        for level in (1..=self.height).rev() {
            let mut at = self.inners[node].child_of(&key);
            if self.is_full(self.inners[node].children[at], level - 1) {
                self.free_space_in_child(node, at, level, keys);
                at = self.inners[node].child_of(&key);
            }
            let inner = &mut self.inners[node];
            inner.counts[at] += 1;
            before += inner.before(at);
            node = inner.children[at];
        }
        self.len += 1;
        let leaf = &mut self.leaves[node];
        let at = leaf.lower_bound(&key, keys);
        leaf.insert(at, row);
        before + at
    }

    /// Removes a row with this key and returns its position; `None` if it is not in the tree.
    pub(super) fn remove(&mut self, row: u32, key: &RankKey) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let (mut node, mut before) = (self.root, 0);
        for level in (1..=self.height).rev() {
            let at = self.inners[node].child_of(key);
            let at = self.merge_if_small(node, at, level);
            let inner = &mut self.inners[node];
            inner.counts[at] -= 1;
            before += inner.before(at);
            node = inner.children[at];
        }
        let leaf = &mut self.leaves[node];
        let Some(at) = leaf.position_of(row) else {
            self.restore_counts(key);
            return None;
        };
        leaf.remove(at);
        self.len -= 1;
        self.shrink_root();
        Some(before + at)
    }

    /// Undoes the counting of a removal when the row was not found.
    fn restore_counts(&mut self, key: &RankKey) {
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = &mut self.inners[node];
            let at = inner.child_of(key);
            inner.counts[at] += 1;
            node = inner.children[at];
        }
    }

    /// Returns the position of a row with this key.
    pub(super) fn position(&self, row: u32, key: &RankKey) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let (leaf, before) = self.leaf_of(key);
        Some(before + self.leaves[leaf].position_of(row)?)
    }

    /// Walks the paths to two keys at once, so that later accesses find them in the cache.
    #[inline]
    pub(super) fn prefetch_paths(&self, old: &RankKey, new: &RankKey, keys: &impl RankKeys) {
        if self.leaves.is_empty() {
            return;
        }
        let (mut old_node, mut new_node) = (self.root, self.root);
        for _ in 0..self.height {
            let (left, right) = (&self.inners[old_node], &self.inners[new_node]);
            (old_node, new_node) = (left.children[left.child_of(old)], right.children[right.child_of(new)]);
        }
        self.leaves[old_node].prefetch();
        self.leaves[new_node].rows().iter().skip(STEP - 1).step_by(STEP).for_each(|row| keys.prefetch(*row));
    }

    /// Returns the number of rows with a smaller key.
    pub(super) fn rank(&self, key: &RankKey, keys: &impl RankKeys) -> usize {
        if self.is_empty() {
            return 0;
        }
        let (leaf, before) = self.leaf_of(key);
        before + self.leaves[leaf].lower_bound(key, keys)
    }

    /// Returns the rows at these positions, in order; fewer if the tree is shorter.
    pub(super) fn rows(&self, positions: Range<usize>) -> Vec<u32> {
        let end = positions.end.min(self.len());
        let mut rows = Vec::with_capacity(end.saturating_sub(positions.start));
        let mut from = positions.start;
        while from < end {
            let (leaf, at) = self.leaf_at(from);
            let part = &self.leaves[leaf].rows()[at..];
            let part = &part[..part.len().min(end - from)];
            rows.extend_from_slice(part);
            from += part.len();
        }
        rows
    }

    /// Returns the row at a position.
    pub(super) fn row(&self, position: usize) -> Option<u32> {
        if position >= self.len() {
            return None;
        }
        let (leaf, at) = self.leaf_at(position);
        Some(self.leaves[leaf].rows[at])
    }

    pub(super) fn bytes(&self) -> usize {
        self.leaves.all.len() * size_of::<Leaf>() + self.inners.all.len() * size_of::<Inner>()
    }

    fn leaf_of(&self, key: &RankKey) -> (u32, usize) {
        let (mut node, mut before) = (self.root, 0);
        for _ in 0..self.height {
            let inner = &self.inners[node];
            let at = inner.child_of(key);
            node = inner.children[at];
            before += inner.before(at);
        }
        (node, before)
    }

    /// Returns the leaf with the row at an existing position, and the row's index in it.
    fn leaf_at(&self, position: usize) -> (u32, usize) {
        let (mut node, mut rest) = (self.root, position as u32);
        for _ in 0..self.height {
            let inner = &self.inners[node];
            let mut at = 0;
            while rest >= inner.counts[at] {
                rest -= inner.counts[at];
                at += 1;
            }
            node = inner.children[at];
        }
        (node, rest as usize)
    }

    fn is_full(&self, node: u32, level: u32) -> bool {
        match level {
            0 => self.leaves[node].len as usize == LEAF_ROWS,
            _ => self.inners[node].len as usize == INNER_CHILDREN,
        }
    }

    /// Adds a root above the root, which can then be split.
    fn grow_root(&mut self) {
        let mut inner = Inner { len: 1, ..Inner::default() };
        (inner.children[0], inner.counts[0]) = (self.root, self.len);
        self.root = self.inners.add(inner);
        self.height += 1;
    }

    /// Removes roots with a single child.
    fn shrink_root(&mut self) {
        while self.height > 0 && self.inners[self.root].len == 1 {
            let child = self.inners[self.root].children[0];
            self.inners.remove(self.root);
            self.root = child;
            self.height -= 1;
        }
    }

    /// Frees space in the full child `at` of a node that is not full: moves rows of a leaf to a neighbour with room,
    /// otherwise splits the child.
    fn free_space_in_child(&mut self, node: u32, at: usize, level: u32, keys: &impl RankKeys) {
        if level > 1 {
            return self.split_inner(node, at);
        }
        let inner = &self.inners[node];
        let len = |at: usize| self.leaves[inner.children[at]].len as usize;
        const ROOMY: usize = LEAF_ROWS - LEAF_ROWS / 8;
        if at + 1 < inner.len as usize && len(at + 1) < ROOMY {
            self.rebalance(node, at, keys);
        } else if at > 0 && len(at - 1) < ROOMY {
            self.rebalance(node, at - 1, keys);
        } else {
            self.split_leaf(node, at, keys);
        }
    }

    /// Distributes the rows of the leaves `at` and `at + 1` evenly.
    fn rebalance(&mut self, node: u32, at: usize, keys: &impl RankKeys) {
        let [left, right] = [at, at + 1].map(|at| self.inners[node].children[at]);
        let mut rows = [0; 2 * LEAF_ROWS];
        let (first, second) = (self.leaves[left].len as usize, self.leaves[right].len as usize);
        rows[..first].copy_from_slice(self.leaves[left].rows());
        rows[first..first + second].copy_from_slice(self.leaves[right].rows());
        let (half, all) = ((first + second) / 2, first + second);
        self.leaves[left].set(&rows[..half]);
        self.leaves[right].set(&rows[half..all]);
        let inner = &mut self.inners[node];
        inner.counts[at] = half as u32;
        inner.counts[at + 1] = (all - half) as u32;
        inner.set_key(at + 1, keys.key(rows[half]));
    }

    fn split_leaf(&mut self, node: u32, at: usize, keys: &impl RankKeys) {
        let child = self.inners[node].children[at];
        let mut right = Leaf::default();
        let left = &mut self.leaves[child];
        let half = left.len as usize / 2;
        right.set(&left.rows()[half..]);
        left.len = half as u32;
        let (key, count) = (keys.key(right.rows[0]), right.len);
        let new = self.leaves.add(right);
        self.inners[node].insert_split(at, key, new, count);
    }

    fn split_inner(&mut self, node: u32, at: usize) {
        let child = self.inners[node].children[at];
        let left = &mut self.inners[child];
        let half = left.len as usize / 2;
        let right = left.split_off(half);
        let (key, count) = (right.key(0), right.counts.iter().sum());
        let new = self.inners.add(right);
        self.inners[node].insert_split(at, key, new, count);
    }

    /// Merges the child `at` with a neighbour if it is small and both fit well into one. Returns its new index.
    fn merge_if_small(&mut self, node: u32, at: usize, level: u32) -> usize {
        let inner = &self.inners[node];
        let most = if level == 1 { LEAF_ROWS } else { INNER_CHILDREN };
        let len = |at: usize| match level {
            1 => self.leaves[inner.children[at]].len as usize,
            _ => self.inners[inner.children[at]].len as usize,
        };
        let (mine, well) = (len(at), most - most / 4);
        if mine > most / MERGE_DIVISOR || inner.len == 1 {
            return at;
        }
        let left = if at + 1 < inner.len as usize && mine + len(at + 1) <= well {
            at
        } else if at > 0 && mine + len(at - 1) <= well {
            at - 1
        } else {
            return at;
        };
        self.merge_with_next(node, left, level);
        left
    }

    fn merge_with_next(&mut self, node: u32, at: usize, level: u32) {
        let [left, right] = [at, at + 1].map(|at| self.inners[node].children[at]);
        let key = self.inners[node].key(at + 1);
        if level == 1 {
            let from = self.leaves[right].clone();
            self.leaves[left].append(from.rows());
            self.leaves.remove(right);
        } else {
            let from = self.inners[right].clone();
            self.inners[left].append(&from, key);
            self.inners.remove(right);
        }
        let inner = &mut self.inners[node];
        inner.counts[at] += inner.counts[at + 1];
        inner.remove(at + 1);
    }
}

impl Default for Leaf {
    fn default() -> Leaf {
        Leaf { len: 0, rows: [0; LEAF_ROWS] }
    }
}

impl Leaf {
    #[inline]
    fn rows(&self) -> &[u32] {
        &self.rows[..self.len as usize]
    }

    fn prefetch(&self) {
        self.rows.iter().step_by(memory::LINE_BYTES / size_of::<u32>()).for_each(memory::prefetch);
    }

    /// Returns the index of a row. Scans the whole leaf, which avoids mispredicted branches.
    #[inline]
    fn position_of(&self, row: u32) -> Option<usize> {
        let found = |(at, it): (usize, &u32)| if *it == row && at < self.len as usize { at + 1 } else { 0 };
        self.rows.iter().enumerate().map(found).max().and_then(|at| at.checked_sub(1))
    }

    /// Returns the number of rows with a smaller key, in two rounds of independent reads.
    #[inline]
    fn lower_bound(&self, key: &RankKey, keys: &impl RankKeys) -> usize {
        let rows = self.rows();
        let last = |step: &[u32]| step[STEP - 1];
        rows.chunks_exact(STEP).for_each(|step| keys.prefetch(last(step)));
        let smaller = |row: u32| keys.key(row) < *key;
        let steps = rows.chunks_exact(STEP).filter(|step| smaller(last(step))).count();
        let rest = &rows[steps * STEP..rows.len().min(steps * STEP + STEP)];
        rest.iter().for_each(|row| keys.prefetch(*row));
        steps * STEP + rest.iter().filter(|row| smaller(**row)).count()
    }

    fn insert(&mut self, at: usize, row: u32) {
        self.rows.copy_within(at..self.len as usize, at + 1);
        self.rows[at] = row;
        self.len += 1;
    }

    fn remove(&mut self, at: usize) {
        self.rows.copy_within(at + 1..self.len as usize, at);
        self.len -= 1;
    }

    fn set(&mut self, rows: &[u32]) {
        self.rows[..rows.len()].copy_from_slice(rows);
        self.len = rows.len() as u32;
    }

    fn append(&mut self, rows: &[u32]) {
        let len = self.len as usize;
        self.rows[len..len + rows.len()].copy_from_slice(rows);
        self.len += rows.len() as u32;
    }
}

impl Default for Inner {
    fn default() -> Inner {
        Inner {
            len: 0,
            children: [0; INNER_CHILDREN],
            counts: [0; INNER_CHILDREN],
            scores: [0; INNER_CHILDREN],
            rests: [(0, 0); INNER_CHILDREN],
        }
    }
}

impl Inner {
    fn key(&self, at: usize) -> RankKey {
        let (subscore, arrival) = self.rests[at];
        RankKey { score: self.scores[at], subscore, arrival }
    }

    fn set_key(&mut self, at: usize, key: RankKey) {
        self.scores[at] = key.score;
        self.rests[at] = (key.subscore, key.arrival);
    }

    /// Returns the child that contains a key.
    #[inline]
    fn child_of(&self, key: &RankKey) -> usize {
        let len = self.len as usize;
        // Comparing all scores takes a few instructions and no mispredicted branch.
        let smaller = |at: usize| at > 0 && at < len && self.scores[at] < key.score;
        let below = (0..INNER_CHILDREN).filter(|at| smaller(*at)).count();
        let equals = (below + 1..len).take_while(|at| self.scores[*at] == key.score && self.key(*at) <= *key);
        below + equals.count()
    }

    #[inline]
    fn before(&self, at: usize) -> usize {
        let counts = self.counts.iter().enumerate();
        counts.map(|(other, count)| if other < at { *count } else { 0 }).sum::<u32>() as usize
    }

    /// Inserts `new` after child `at`, which gave it its last `count` rows.
    fn insert_split(&mut self, at: usize, key: RankKey, new: u32, count: u32) {
        let len = self.len as usize;
        self.children.copy_within(at + 1..len, at + 2);
        self.counts.copy_within(at + 1..len, at + 2);
        self.scores.copy_within(at + 1..len, at + 2);
        self.rests.copy_within(at + 1..len, at + 2);
        self.counts[at] -= count;
        (self.children[at + 1], self.counts[at + 1]) = (new, count);
        self.set_key(at + 1, key);
        self.len += 1;
    }

    fn remove(&mut self, at: usize) {
        let len = self.len as usize;
        self.children.copy_within(at + 1..len, at);
        self.counts.copy_within(at + 1..len, at);
        self.scores.copy_within(at + 1..len, at);
        self.rests.copy_within(at + 1..len, at);
        self.len -= 1;
    }

    fn split_off(&mut self, half: usize) -> Inner {
        let mut right = Inner::default();
        right.append_range(self, half..self.len as usize);
        self.len = half as u32;
        right
    }

    /// Appends all children of the next node, whose first key is in their parent.
    fn append(&mut self, from: &Inner, first: RankKey) {
        let at = self.len as usize;
        self.append_range(from, 0..from.len as usize);
        self.set_key(at, first);
    }

    fn append_range(&mut self, from: &Inner, range: Range<usize>) {
        let to = self.len as usize..self.len as usize + range.len();
        self.children[to.clone()].copy_from_slice(&from.children[range.clone()]);
        self.counts[to.clone()].copy_from_slice(&from.counts[range.clone()]);
        self.scores[to.clone()].copy_from_slice(&from.scores[range.clone()]);
        self.rests[to.clone()].copy_from_slice(&from.rests[range]);
        self.len = to.end as u32;
    }
}

/// Nodes by number. Numbers of removed nodes are reused.
#[derive(Clone)]
struct Arena<T> {
    all: Chunked<T>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Arena<T> {
        Arena { all: Chunked::default(), free: Vec::new() }
    }
}

impl<T> Arena<T> {
    fn is_empty(&self) -> bool {
        self.all.len() == 0
    }

    fn add(&mut self, node: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.all[number] = node;
            return number;
        }
        self.all.push(node);
        self.all.len() as u32 - 1
    }

    fn remove(&mut self, number: u32) {
        self.free.push(number);
    }
}

impl<T> std::ops::Index<u32> for Arena<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.all[number]
    }
}

impl<T> std::ops::IndexMut<u32> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.all[number]
    }
}

#[cfg(test)]
mod tests;
