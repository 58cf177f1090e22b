//! Memory for the program that processes of this node can map (`MPI_Alloc_mem`).
//!
//! Windows created on it have the same access mode as windows that MPI allocates.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use netmod::{OpenError, SharedMemory, SharedSegment};

use crate::window::registry::Windows;
use mpi_core::process::Process;

/// Allocates page-aligned memory that processes of this node can map.
///
/// It is committed at first touch. Memory that the program has freed may be reused with its
/// contents.
///
/// # Errors
/// There is no shared memory, or too little.
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
    let waits = shared.commits_lazily(len)?;
    let memory: Arc<dyn SharedSegment> = shared.create(len)?.into();
    if !waits {
        memory.reserve(0, len)?;
    }
    Ok(memory)
}

/// Frees memory of [`alloc_shared`]. Returns whether `start` is such memory.
///
/// # Safety
/// Nothing uses the memory any more.
pub unsafe fn free_shared(process: &Process, start: *mut u8) -> bool {
    let pieces = &process.source::<Windows>().shared_pieces;
    pieces.free(start.addr(), forks())
}

unsafe extern "C" {
    // POSIX; the crate libc lacks it for Linux.
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> libc::c_int;
}

/// Returns how often the process has forked since the first call.
///
/// A child has the same shared memory and may use it after this process has freed it. If forks
/// can't be counted, each call returns another number.
fn forks() -> usize {
    static FORKS: AtomicUsize = AtomicUsize::new(0);
    static COUNTED: OnceLock<bool> = OnceLock::new();
    extern "C" fn count() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler only adds to an atomic, which is allowed before `fork`; the C library
    // forgets the handlers of a library that is unloaded.
    let register = || unsafe { pthread_atfork(Some(count), None, None) == 0 };
    match COUNTED.get_or_init(register) {
        true => FORKS.load(Ordering::Relaxed),
        false => FORKS.fetch_add(1, Ordering::Relaxed),
    }
}
