//! What the C library keeps of memory that was freed.

/// Gives freed memory back to the system, after a library that takes tens of megabytes has been closed. The
/// allocator takes what has been freed once as large pieces from its heap the next time, where the smallest piece that
/// lives above keeps all: a process that connects and disconnects would seem to grow.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a value only, and may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
