//! Memory for the program that processes of this node can map (`MPI_Alloc_mem`): windows that are
//! created of it are as good as those that MPI allocates.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use netmod::{OpenError, SharedMemory, SharedSegment};

use crate::window::registry::Windows;
use mpi_core::process::Process;

/// Memory that processes of this node can map, at the beginning of a page. It takes room when it is
/// written to. What the program has freed before may be given again, as it was left.
///
/// # Errors
/// There is no shared memory, or not so much.
pub fn alloc_shared(process: &Process, len: usize) -> Result<*mut u8, OpenError> {
    let pieces = &process.source::<Windows>().shared_pieces;
    let forks = forks();
    if let Some(start) = pieces.reuse(len, forks) {
        return Ok(start);
    }
    let shared = process.shared_memory();
    let shared = shared.ok_or_else(|| OpenError("there is no shared memory".into()))?;
    let memory = match create(&**shared, len) {
        Err(_) if pieces.give_back() => create(&**shared, len)?,
        made => made?,
    };
    let start = memory.as_ptr();
    pieces.insert(memory, len, forks);
    Ok(start)
}

fn create(shared: &dyn SharedMemory, len: usize) -> Result<Arc<dyn SharedSegment>, OpenError> {
    let waits = shared.may_wait(len)?;
    let memory: Arc<dyn SharedSegment> = shared.create(len)?.into();
    if !waits {
        memory.reserve(0, len)?;
    }
    Ok(memory)
}

/// Takes back what [`alloc_shared`] gave. Returns whether there was such a piece.
///
/// # Safety
/// Nobody uses the memory any more.
pub unsafe fn free_shared(process: &Process, start: *mut u8) -> bool {
    let pieces = &process.source::<Windows>().shared_pieces;
    pieces.free(start.addr(), forks())
}

unsafe extern "C" {
    // Of the C library (POSIX), which the crate libc doesn't have for Linux.
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> libc::c_int;
}

/// How often the process has forked since this was called first. A child has the same shared memory and may use it after
/// this process has freed it. Another number each time if that can't be known.
fn forks() -> usize {
    static FORKS: AtomicUsize = AtomicUsize::new(0);
    static COUNTED: OnceLock<bool> = OnceLock::new();
    extern "C" fn count() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the function only adds to a number, which is allowed before any `fork`, and stays as long as this library:
    // the C library forgets the handlers of one that is unloaded.
    let register = || unsafe { pthread_atfork(Some(count), None, None) == 0 };
    match COUNTED.get_or_init(register) {
        true => FORKS.load(Ordering::Relaxed),
        false => FORKS.fetch_add(1, Ordering::Relaxed),
    }
}
