//! Allocation and prefetch hints for large tables that are read at random positions.

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

#[cfg(target_os = "linux")]
fn advise_huge<T>(values: &Vec<T>) {
    use rustix::mm::{Advice, madvise};
    if values.capacity() * size_of::<T>() < HUGE_BYTES_MIN {
        return;
    }
    let page = rustix::param::page_size();
    let start = values.as_ptr().addr().next_multiple_of(page);
    let end = (values.as_ptr().addr() + values.capacity() * size_of::<T>()) / page * page;
    let address = values.as_ptr().cast_mut().cast::<u8>().with_addr(start);
    // SAFETY: the whole pages in between are inside one live allocation, and the advice changes no content. If it fails,
    // only speed is lost.
    let _ = unsafe { madvise(address.cast(), end.saturating_sub(start), Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge<T>(_: &Vec<T>) {}

/// Prefetches the cache line of a value that will be read soon.
#[inline]
pub(crate) fn prefetch<T>(value: Option<&T>) {
    #[cfg(target_arch = "x86_64")]
    if let Some(value) = value {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing the program can see, and the address is that of a live reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
