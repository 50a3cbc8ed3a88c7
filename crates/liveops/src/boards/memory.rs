//! Memory that is read here and there.

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Asks for the cache line of a value that will be read soon.
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

/// Asks for large pages for a piece of some megabytes: a read in a large table then misses one cache less. Without them
/// it works as well.
pub fn in_large_pages<T>(piece: &Vec<T>) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        let page = rustix::param::page_size();
        let start = piece.as_ptr().addr().next_multiple_of(page);
        let end = (piece.as_ptr().addr() + piece.capacity() * size_of::<T>()) / page * page;
        let address = piece.as_ptr().cast_mut().cast::<u8>().with_addr(start);
        // SAFETY: the whole pages between are inside one live allocation, and the advice changes no content. Its
        // failure costs speed alone.
        let _ = unsafe { madvise(address.cast(), end.saturating_sub(start), Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = piece;
}
