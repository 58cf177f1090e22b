//! Freed memory that the C library keeps.

/// Returns freed memory to the system, after a library that takes tens of megabytes has been
/// closed. Otherwise the smallest live allocation above the freed memory keeps all of it in the
/// heap, so that a process which connects and disconnects would seem to grow.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` takes no pointer and may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
