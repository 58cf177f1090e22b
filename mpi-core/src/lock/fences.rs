//! Asymmetric fences, which cost one side nothing, and numbers of threads.
//!
//! If one thread stores and then loads, and another does the same with the variables swapped, each
//! needs a full fence in between, or both may miss the other's store. The frequent side uses only a
//! compiler fence ([`light`]). The rare side ([`heavy`]) makes the kernel put a fence into all
//! running threads of the process (`membarrier(2)`); the others had one when they were descheduled.

#[cfg(not(loom))]
mod kernel {
    use std::sync::OnceLock;
    use std::sync::atomic::{Ordering, compiler_fence};

    const QUERY: i32 = 0;
    const PRIVATE_EXPEDITED: i32 = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

    fn membarrier(command: i32) -> i64 {
        // SAFETY: membarrier accesses no memory of the program.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
    }

    /// Whether the kernel supports [`heavy`]. The first call registers the process, which is
    /// cheapest while it has one thread; the result is the same for all locks.
    pub fn is_ready() -> bool {
        static READY: OnceLock<bool> = OnceLock::new();
        *READY.get_or_init(|| {
            let offered = membarrier(QUERY);
            let wanted = i64::from(PRIVATE_EXPEDITED | REGISTER_PRIVATE_EXPEDITED);
            offered > 0
                && offered & wanted == wanted
                && membarrier(REGISTER_PRIVATE_EXPEDITED) == 0
                && membarrier(PRIVATE_EXPEDITED) == 0
        })
    }

    /// Fence of the frequent side, between its store and its load.
    #[inline(always)]
    pub fn light() {
        compiler_fence(Ordering::SeqCst);
    }

    /// Fence of the rare side, between its store and its load.
    ///
    /// # Panics
    /// If the kernel refuses although [`is_ready`] returned true.
    pub fn heavy() {
        let refused = membarrier(PRIVATE_EXPEDITED) != 0
            // A forked process has to register again.
            && (membarrier(REGISTER_PRIVATE_EXPEDITED) != 0 || membarrier(PRIVATE_EXPEDITED) != 0);
        assert!(
            !refused,
            "internal error: membarrier is refused although it was granted"
        );
    }

    /// Returns the calling thread's number, unique among live threads: a multiple of 64, and not 0.
    #[inline(always)]
    pub fn this_thread() -> usize {
        let number = thread_number();
        debug_assert!(number & 63 == 0 && number != 0, "thread number {number:#x}");
        number
    }

    /// Returns `word - this_thread()`, wrapping.
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    #[inline(always)]
    pub fn above_this_thread(word: usize) -> usize {
        let above;
        // SAFETY: the segment register points to a block that begins with its own address (System V
        // ABI, thread-local storage), so that the load at offset 0 is valid.
        unsafe {
            std::arch::asm!("sub {}, fs:[0]", inout(reg) word => above, options(nostack, pure, readonly));
        }
        above
    }

    /// Returns `word - this_thread()`, wrapping.
    #[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
    #[inline(always)]
    pub fn above_this_thread(word: usize) -> usize {
        word.wrapping_sub(this_thread())
    }

    /// Returns the thread pointer: glibc aligns it to 64 bytes on this architecture
    /// (`TLS_TCB_ALIGN`).
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    #[inline(always)]
    fn thread_number() -> usize {
        thread_pointer()
    }

    /// Returns the thread pointer shifted left, since it may be a multiple of 8 only: 32 modulo 64
    /// on aarch64 with glibc; 8, 24, 40 and 56 on x86-64 with musl. Addresses have at most 57 bits;
    /// the flags in an owner's word lie above the shifted ones.
    #[cfg(any(
        target_arch = "aarch64",
        all(target_arch = "x86_64", not(target_env = "gnu"))
    ))]
    #[inline(always)]
    fn thread_number() -> usize {
        thread_pointer() << 3
    }

    /// Returns the address of an aligned thread-local variable.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn thread_number() -> usize {
        #[repr(align(64))]
        struct Own {
            _byte: u8,
        }
        thread_local!(static OWN: Own = const { Own { _byte: 0 } });
        OWN.with(|own| std::ptr::from_ref(own) as usize)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn thread_pointer() -> usize {
        let pointer;
        // SAFETY: the segment register points to a block that begins with its own address (System V
        // ABI, thread-local storage).
        unsafe {
            std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, pure, readonly));
        }
        pointer
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    fn thread_pointer() -> usize {
        let pointer;
        // SAFETY: reads a register that user code may read in every thread.
        unsafe {
            std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, pure, nomem));
        }
        pointer
    }

    /// Returns a monotonic time in microseconds, which wraps.
    pub fn microseconds() -> u32 {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `now` is a local that the call may write.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        (now.tv_sec as u32)
            .wrapping_mul(1_000_000)
            .wrapping_add(now.tv_nsec as u32 / 1_000)
    }
}

/// Loom has no asymmetric fences: both sides use a full one.
#[cfg(loom)]
mod kernel {
    use std::hash::{DefaultHasher, Hash, Hasher};

    use crate::sync::{Ordering, fence};

    pub fn is_ready() -> bool {
        true
    }

    pub fn light() {
        fence(Ordering::SeqCst);
    }

    pub fn heavy() {
        fence(Ordering::SeqCst);
    }

    pub fn this_thread() -> usize {
        let mut hasher = DefaultHasher::new();
        loom::thread::current().id().hash(&mut hasher);
        hasher.finish() as usize >> 2 & !63 | 64
    }

    pub fn above_this_thread(word: usize) -> usize {
        word.wrapping_sub(this_thread())
    }

    pub fn microseconds() -> u32 {
        0
    }
}

pub use kernel::{above_this_thread, heavy, is_ready, light, microseconds, this_thread};

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Barrier, Mutex};

    use super::*;

    /// An owner's word is a thread's number with the index of a counter in its lowest bits.
    #[test]
    fn numbers_of_threads_differ_and_leave_their_lowest_bits_free() {
        const THREADS: usize = 16;
        let (all, met) = (Mutex::new(BTreeSet::new()), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for number in 0..THREADS {
                let (all, met) = (&all, &met);
                // Stacks of odd sizes, so that thread-local blocks have different addresses.
                let builder = std::thread::Builder::new().stack_size((256 << 10) + number * 16);
                let run = move || {
                    all.lock().unwrap().insert(this_thread());
                    assert_eq!(above_this_thread(this_thread() | 5), 5);
                    met.wait();
                };
                builder.spawn_scoped(scope, run).unwrap();
            }
        });
        let all = all.into_inner().unwrap();
        assert_eq!(all.len(), THREADS);
        assert!(
            all.iter()
                .all(|one| one & 63 == 0 && *one != 0 && one >> 61 == 0)
        );
    }
}
