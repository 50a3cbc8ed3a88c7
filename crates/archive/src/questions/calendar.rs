//! The calendar's bucket of a time.

use model::query::Buckets;

/// Windows up to this length get a table with the bucket of each minute, of 4 bytes a minute.
const TABLE_MINUTES_MAX: u32 = 500_000;

/// Finds the bucket of times in a window.
pub(super) struct BucketOf {
    first_ms: i64,
    edges: Vec<u32>,
    table: Vec<u32>,
}

impl BucketOf {
    pub(super) fn new(buckets: &Buckets) -> BucketOf {
        let window = buckets.window();
        let mut table = Vec::new();
        if window.end - window.start <= TABLE_MINUTES_MAX {
            for (bucket, edge) in buckets.edges.windows(2).enumerate() {
                table.extend(std::iter::repeat_n(bucket as u32, (edge[1] - edge[0]) as usize));
            }
        }
        BucketOf { first_ms: i64::from(window.start) * 60_000, edges: buckets.edges.clone(), table }
    }

    /// Returns the bucket of a time in the window, in milliseconds since 1970.
    #[inline]
    pub(super) fn bucket(&self, time_ms: i64) -> usize {
        let minute = ((time_ms - self.first_ms) as u64 / 60_000) as usize;
        match self.table.get(minute) {
            Some(bucket) => *bucket as usize,
            None => self.search(minute),
        }
    }

    #[inline(never)]
    fn search(&self, minute: usize) -> usize {
        let minute = u64::from(self.edges[0]) + minute as u64;
        self.edges.partition_point(|edge| u64::from(*edge) <= minute) - 1
    }
}
