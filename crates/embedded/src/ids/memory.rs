//! Big tables read at random places: what the processor and the kernel should know about them beforehand.

/// From this size on large pages pay.
const HUGE_BYTES_MIN: usize = 4 << 20;

/// Zeros, on large pages where the system has them: a random read of small pages costs a second miss, for the page's
/// address, and their first use a fault for each 4 KiB.
pub(super) fn zeros(count: usize) -> Vec<u128> {
    // Fresh from the system such memory is zero already, and untouched until the advice was given.
    let values = vec![0; count];
    advise_huge(&values);
    values
}

/// An empty vector with room for so many values, on large pages where the system has them.
pub(super) fn room<T>(count: usize) -> Vec<T> {
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
    // SAFETY: the whole pages between are inside one live allocation, and the advice changes no content. Its failure
    // costs speed alone.
    let _ = unsafe { madvise(address.cast(), end.saturating_sub(start), Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge<T>(_: &Vec<T>) {}

/// Asks for the cache line of a value that will be read soon.
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
