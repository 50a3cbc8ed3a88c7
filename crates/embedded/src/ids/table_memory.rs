//! Allocation of large tables that are read at random positions.

/// Size from which huge pages pay off, in bytes.
const HUGE_BYTES_MIN: usize = 4 << 20;

/// Returns zeros, on huge pages where the system supports them: with small pages a random read costs a second miss, for
/// the page's address, and the first use of each 4 KiB costs a fault.
pub(super) fn zeroed(count: usize) -> Vec<u128> {
    // Fresh memory from the system is already zero, and untouched until the advice was given.
    let values = vec![0; count];
    advise_huge(&values);
    values
}

/// Returns an empty vector with this capacity, on huge pages where the system supports them.
pub(super) fn with_capacity<T>(count: usize) -> Vec<T> {
    let values = Vec::with_capacity(count);
    advise_huge(&values);
    values
}

fn advise_huge<T>(values: &Vec<T>) {
    if values.capacity() * size_of::<T>() >= HUGE_BYTES_MIN {
        memory::advise_huge_pages(values);
    }
}
