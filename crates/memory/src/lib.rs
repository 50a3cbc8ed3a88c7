//! Hints to the processor and the kernel about large tables that are read at random places.
//!
//! Every hint is optional: where it is not available, the same code runs slower.

/// The size of a cache line in bytes.
pub const LINE_BYTES: usize = 64;

/// Fetches the cache line of a value that will be read soon.
#[inline]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing the program can see, and the address is that of a live reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Asks the kernel to back the vector's capacity with huge pages, so that a random read misses one cache less. Worth it
/// from some megabytes on.
pub fn advise_huge_pages<T>(values: &Vec<T>) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        let page = rustix::param::page_size();
        let start = values.as_ptr().addr().next_multiple_of(page);
        let end = (values.as_ptr().addr() + values.capacity() * size_of::<T>()) / page * page;
        let address = values.as_ptr().cast_mut().cast::<u8>().with_addr(start);
        // SAFETY: the whole pages between lie inside one live allocation, and the advice changes no content.
        let _ = unsafe { madvise(address.cast(), end.saturating_sub(start), Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = values;
}
