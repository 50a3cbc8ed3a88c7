//! Rows in order, with their positions: a counted B+-tree.
//!
//! A leaf holds nothing but row numbers; what a row is compared by is read from the columns. Inner nodes hold whole
//! keys and how many rows are below each child. So a row costs about 5 bytes here, and its position, the row at a
//! position, and a change of either cost one way from the root to a leaf, whatever the number of rows.
//!
//! Within a leaf a place is found in two steps of independent reads, so that the misses of a large table overlap. A row
//! that leaves is found by its number alone.

use std::ops::Range;

use super::chunked::Chunked;
use super::memory;

/// What rows are ordered by, smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The score, turned so that the best is the smallest.
    pub score: i64,
    /// The subscore, turned alike.
    pub subscore: i64,
    /// When it came. No two rows have the same.
    pub arrival: u64,
}

impl Key {
    /// The key as one number, which orders keys of equal subscores.
    pub fn without_subscore(&self) -> u128 {
        // With the sign turned, negative scores come before positive ones.
        let score = (self.score as u64) ^ (1 << 63);
        u128::from(score) << 64 | u128::from(self.arrival)
    }
}

/// Where the keys of rows are.
pub trait Keys {
    /// The key of a row. It does not change while the row is in a tree.
    fn key(&self, row: u32) -> Key;

    /// The key of a row will be asked for soon.
    fn prefetch(&self, _row: u32) {}
}

/// With its length four cache lines.
const LEAF: usize = 63;
const INNER: usize = 32;
/// Within a leaf, so many rows are passed over at a time.
const STEP: usize = 8;
/// A node below it is joined with a neighbour, when both fit well into one.
const FEW: usize = 4;

#[derive(Clone)]
#[repr(align(64))]
struct Leaf {
    len: u32,
    rows: [u32; LEAF],
}

#[derive(Clone)]
struct Inner {
    len: u32,
    children: [u32; INNER],
    /// Rows below each child.
    counts: [u32; INNER],
    /// Every row below child `i` is at or after key `i`, and before key `i + 1`. The first is not looked at. Scores
    /// lie together, because they nearly always decide.
    scores: [i64; INNER],
    rests: [(i64, u64); INNER],
}

/// Rows in order.
#[derive(Clone, Default)]
pub struct Tree {
    leaves: Arena<Leaf>,
    inners: Arena<Inner>,
    root: u32,
    /// Inner nodes between the root and a leaf.
    height: u32,
    len: u32,
}

impl Tree {
    /// How many rows there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes a tree of rows that are in order, with room in each leaf for some more.
    pub fn of_sorted(rows: impl ExactSizeIterator<Item = u32>, keys: &impl Keys) -> Tree {
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
        keys: &impl Keys,
    ) -> Vec<(Key, u32, u32)> {
        const FILL: usize = LEAF - 5;
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

    fn bulk_inners(&mut self, below: &[(Key, u32, u32)]) -> Vec<(Key, u32, u32)> {
        let mut level = Vec::with_capacity(below.len().div_ceil(INNER - 2));
        for nodes in below.chunks(INNER - 2) {
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

    /// Adds a row that is not in the tree and tells its position, from 0 on.
    pub fn insert(&mut self, row: u32, keys: &impl Keys) -> usize {
        if self.leaves.is_empty() {
            self.root = self.leaves.add(Leaf::default());
        }
        if self.is_full(self.root, self.height) {
            self.raise();
        }
        let key = keys.key(row);
        let (mut node, mut before) = (self.root, 0);
        for level in (1..=self.height).rev() {
            let mut at = self.inners[node].child_of(&key);
            if self.is_full(self.inners[node].children[at], level - 1) {
                self.make_room(node, at, level, keys);
                at = self.inners[node].child_of(&key);
            }
            let inner = &mut self.inners[node];
            inner.counts[at] += 1;
            before += inner.before(at);
            node = inner.children[at];
        }
        self.len += 1;
        let leaf = &mut self.leaves[node];
        let at = leaf.place(&key, keys);
        leaf.insert(at, row);
        before + at
    }

    /// Removes a row with this key and tells the position it had. `None`: it was not there.
    pub fn remove(&mut self, row: u32, key: &Key) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let (mut node, mut before) = (self.root, 0);
        for level in (1..=self.height).rev() {
            let at = self.inners[node].child_of(key);
            let at = self.join(node, at, level);
            let inner = &mut self.inners[node];
            inner.counts[at] -= 1;
            before += inner.before(at);
            node = inner.children[at];
        }
        let leaf = &mut self.leaves[node];
        let Some(at) = leaf.place_of(row) else {
            self.count_again(key);
            return None;
        };
        leaf.remove(at);
        self.len -= 1;
        self.lower();
        Some(before + at)
    }

    /// A row that was counted as removed was not there.
    fn count_again(&mut self, key: &Key) {
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = &mut self.inners[node];
            let at = inner.child_of(key);
            inner.counts[at] += 1;
            node = inner.children[at];
        }
    }

    /// The position of a row with this key.
    pub fn position(&self, row: u32, key: &Key) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let (leaf, before) = self.leaf_of(key);
        Some(before + self.leaves[leaf].place_of(row)?)
    }

    /// Reads the ways to two keys at once, so that what is done with them next finds these in the caches.
    #[inline]
    pub fn warm(&self, old: &Key, new: &Key, keys: &impl Keys) {
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

    /// How many rows have a smaller key.
    pub fn rank(&self, key: &Key, keys: &impl Keys) -> usize {
        if self.is_empty() {
            return 0;
        }
        let (leaf, before) = self.leaf_of(key);
        before + self.leaves[leaf].place(key, keys)
    }

    /// The rows at these positions, in order; fewer when there are not so many.
    pub fn rows(&self, positions: Range<usize>) -> Vec<u32> {
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

    /// The row at a position.
    pub fn row(&self, position: usize) -> Option<u32> {
        if position >= self.len() {
            return None;
        }
        let (leaf, at) = self.leaf_at(position);
        Some(self.leaves[leaf].rows[at])
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.leaves.all.len() * size_of::<Leaf>() + self.inners.all.len() * size_of::<Inner>()
    }

    fn leaf_of(&self, key: &Key) -> (u32, usize) {
        let (mut node, mut before) = (self.root, 0);
        for _ in 0..self.height {
            let inner = &self.inners[node];
            let at = inner.child_of(key);
            node = inner.children[at];
            before += inner.before(at);
        }
        (node, before)
    }

    /// The leaf with the row at a position that exists, and the row's place in it.
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
            0 => self.leaves[node].len as usize == LEAF,
            _ => self.inners[node].len as usize == INNER,
        }
    }

    /// A root above the root, which then has a parent and can be divided.
    fn raise(&mut self) {
        let mut inner = Inner { len: 1, ..Inner::default() };
        (inner.children[0], inner.counts[0]) = (self.root, self.len);
        self.root = self.inners.add(inner);
        self.height += 1;
    }

    /// Takes away roots that have one child.
    fn lower(&mut self) {
        while self.height > 0 && self.inners[self.root].len == 1 {
            let child = self.inners[self.root].children[0];
            self.inners.remove(self.root);
            self.root = child;
            self.height -= 1;
        }
    }

    /// Makes room in the full child `at` of a node that has room: a leaf's rows go to a neighbour, if it has room; else
    /// the child is divided.
    fn make_room(&mut self, node: u32, at: usize, level: u32, keys: &impl Keys) {
        if level > 1 {
            return self.divide_inner(node, at);
        }
        let inner = &self.inners[node];
        let len = |at: usize| self.leaves[inner.children[at]].len as usize;
        const ROOMY: usize = LEAF - LEAF / 8;
        if at + 1 < inner.len as usize && len(at + 1) < ROOMY {
            self.even_out(node, at, keys);
        } else if at > 0 && len(at - 1) < ROOMY {
            self.even_out(node, at - 1, keys);
        } else {
            self.divide_leaf(node, at, keys);
        }
    }

    /// Shares the rows of the leaves `at` and `at + 1` evenly.
    fn even_out(&mut self, node: u32, at: usize, keys: &impl Keys) {
        let [left, right] = [at, at + 1].map(|at| self.inners[node].children[at]);
        let mut rows = [0; 2 * LEAF];
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

    fn divide_leaf(&mut self, node: u32, at: usize, keys: &impl Keys) {
        let child = self.inners[node].children[at];
        let mut right = Leaf::default();
        let left = &mut self.leaves[child];
        let half = left.len as usize / 2;
        right.set(&left.rows()[half..]);
        left.len = half as u32;
        let (key, count) = (keys.key(right.rows[0]), right.len);
        let new = self.leaves.add(right);
        self.inners[node].divided(at, key, new, count);
    }

    fn divide_inner(&mut self, node: u32, at: usize) {
        let child = self.inners[node].children[at];
        let left = &mut self.inners[child];
        let half = left.len as usize / 2;
        let right = left.split_off(half);
        let (key, count) = (right.key(0), right.counts.iter().sum());
        let new = self.inners.add(right);
        self.inners[node].divided(at, key, new, count);
    }

    /// Joins the child `at` with a neighbour, if it has few and both fit well into one. Tells where it is now.
    fn join(&mut self, node: u32, at: usize, level: u32) -> usize {
        let inner = &self.inners[node];
        let most = if level == 1 { LEAF } else { INNER };
        let len = |at: usize| match level {
            1 => self.leaves[inner.children[at]].len as usize,
            _ => self.inners[inner.children[at]].len as usize,
        };
        let (mine, well) = (len(at), most - most / 4);
        if mine > most / FEW || inner.len == 1 {
            return at;
        }
        let left = if at + 1 < inner.len as usize && mine + len(at + 1) <= well {
            at
        } else if at > 0 && mine + len(at - 1) <= well {
            at - 1
        } else {
            return at;
        };
        self.join_with_next(node, left, level);
        left
    }

    fn join_with_next(&mut self, node: u32, at: usize, level: u32) {
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
        Leaf { len: 0, rows: [0; LEAF] }
    }
}

impl Leaf {
    #[inline]
    fn rows(&self) -> &[u32] {
        &self.rows[..self.len as usize]
    }

    fn prefetch(&self) {
        self.rows.iter().step_by(memory::LINE / size_of::<u32>()).for_each(memory::prefetch);
    }

    /// Where a row is. All of the leaf is looked at, which needs no guess.
    #[inline]
    fn place_of(&self, row: u32) -> Option<usize> {
        let found = |(at, it): (usize, &u32)| if *it == row && at < self.len as usize { at + 1 } else { 0 };
        self.rows.iter().enumerate().map(found).max().and_then(|at| at.checked_sub(1))
    }

    /// How many rows have a smaller key. Two rounds of reads that do not wait for each other.
    #[inline]
    fn place(&self, key: &Key, keys: &impl Keys) -> usize {
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
        Inner { len: 0, children: [0; INNER], counts: [0; INNER], scores: [0; INNER], rests: [(0, 0); INNER] }
    }
}

impl Inner {
    fn key(&self, at: usize) -> Key {
        let (subscore, arrival) = self.rests[at];
        Key { score: self.scores[at], subscore, arrival }
    }

    fn set_key(&mut self, at: usize, key: Key) {
        self.scores[at] = key.score;
        self.rests[at] = (key.subscore, key.arrival);
    }

    /// The child below which a row with this key belongs.
    #[inline]
    fn child_of(&self, key: &Key) -> usize {
        let len = self.len as usize;
        // All scores are compared: that is a few instructions and no guess.
        let smaller = |at: usize| at > 0 && at < len && self.scores[at] < key.score;
        let below = (0..INNER).filter(|at| smaller(*at)).count();
        let equals = (below + 1..len).take_while(|at| self.scores[*at] == key.score && self.key(*at) <= *key);
        below + equals.count()
    }

    #[inline]
    fn before(&self, at: usize) -> usize {
        let counts = self.counts.iter().enumerate();
        counts.map(|(other, count)| if other < at { *count } else { 0 }).sum::<u32>() as usize
    }

    /// The child `at` gave its last `count` rows to a new one after it.
    fn divided(&mut self, at: usize, key: Key, new: u32, count: u32) {
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

    /// Takes over all children of the next node, whose first key its parent knows.
    fn append(&mut self, from: &Inner, first: Key) {
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

/// Nodes by number; numbers of removed ones are used again.
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
