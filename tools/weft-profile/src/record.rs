//! Counters and events of each thread's calls.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::clock;
use crate::events::{Event, Events};
use crate::names::NAMES;
use crate::sizes::Sizes;
use crate::watch::Call;

/// The set of measurements at each call; 0 before the end of `MPI_Init` and after the start of
/// `MPI_Finalize`.
pub static MODE: AtomicU8 = AtomicU8::new(0);
/// Count calls.
pub const COUNTING: u8 = 1;
/// Store each call, too.
pub const TRACING: u8 = 2;
/// Publish the current call for `mpiexec -top`.
pub const WATCHING: u8 = 4;

/// All threads that have called MPI, including those that have ended.
static THREADS: Mutex<Vec<&'static Thread>> = Mutex::new(Vec::new());

/// The counters of a function.
#[derive(Default)]
pub struct Counter {
    /// Calls.
    pub calls: AtomicU64,
    /// Ticks in outermost calls, without those that callbacks make.
    pub ticks: AtomicU64,
    /// Bytes by the calls' arguments.
    pub bytes: AtomicU64,
}

/// A thread's measurements. Only the thread writes; others read at the end, and for `mpiexec -top`.
pub struct Thread {
    /// Its current call.
    pub call: Call,
    /// Nesting of calls: callbacks of the program may call MPI.
    depth: AtomicU32,
    /// Cached sizes of datatypes.
    sizes: Sizes,
    /// The counters of each function.
    pub counters: [Counter; NAMES.len()],
    /// Its calls for the timeline.
    pub events: Events,
}

thread_local! {
    // One thread-local pointer: in a preloaded library each access costs a call into the loader.
    static OWN: Cell<*const Thread> = const { Cell::new(ptr::null()) };
}

/// A call in progress.
pub struct Begun {
    thread: &'static Thread,
    /// Its start in ticks.
    begin: u64,
    /// Number of calls around it.
    depth: u32,
    mode: u8,
}

/// Begins a call of function number `function`. Returns `None` if it isn't measured. `whom` is
/// communicator, peer and tag, as far as the function has them.
#[inline]
pub fn enter(function: usize, whom: [usize; 3]) -> Option<Begun> {
    let mode = MODE.load(Ordering::Relaxed);
    if mode == 0 {
        return None;
    }
    let thread = own();
    let depth = thread.depth.load(Ordering::Relaxed);
    thread.depth.store(depth + 1, Ordering::Relaxed);
    let begin = clock::ticks();
    if mode & WATCHING != 0 && depth == 0 {
        thread.call.begin(begin, function, whom);
    }
    Some(Begun {
        thread,
        begin,
        depth,
        mode,
    })
}

/// Ends a call of function number `function`. `bytes` returns the bytes that it moves.
#[inline]
pub fn leave(begun: Option<Begun>, function: usize, bytes: impl FnOnce(&Sizes) -> u64) {
    let Some(begun) = begun else { return };
    let end = clock::ticks();
    let Begun { thread, begin, .. } = begun;
    thread.depth.store(begun.depth, Ordering::Relaxed);
    let bytes = bytes(&thread.sizes);
    let ticks = end.saturating_sub(begin);
    // Only this thread writes, so a load and a store suffice.
    let add =
        |to: &AtomicU64, more: u64| to.store(to.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    let counter = &thread.counters[function];
    add(&counter.calls, 1);
    add(&counter.bytes, bytes);
    if begun.depth == 0 {
        add(&counter.ticks, ticks);
        if begun.mode & WATCHING != 0 {
            thread.call.end();
        }
    }
    if begun.mode & TRACING != 0 {
        thread.events.keep(Event {
            function,
            begin,
            ticks,
            bytes,
        });
    }
}

#[inline]
fn own() -> &'static Thread {
    let own = OWN.get();
    if own.is_null() {
        return begin();
    }
    // SAFETY: only `begin` sets the pointer, to a leaked box.
    unsafe { &*own }
}

#[cold]
fn begin() -> &'static Thread {
    let thread: &'static Thread = Box::leak(Box::new(Thread {
        call: Call::new(),
        depth: AtomicU32::new(0),
        sizes: Sizes::default(),
        counters: std::array::from_fn(|_| Counter::default()),
        events: Events::default(),
    }));
    THREADS.lock().push(thread);
    OWN.set(thread);
    thread
}

/// Returns all threads that have called MPI, in the order of their first calls.
pub fn threads() -> Vec<&'static Thread> {
    THREADS.lock().clone()
}

/// Returns calls, ticks and bytes per function, over all threads of this process.
pub fn sums() -> Vec<[u64; 3]> {
    let mut sums = vec![[0; 3]; NAMES.len()];
    for thread in threads() {
        for (sum, counter) in sums.iter_mut().zip(&thread.counters) {
            sum[0] += counter.calls.load(Ordering::Relaxed);
            sum[1] += counter.ticks.load(Ordering::Relaxed);
            sum[2] += counter.bytes.load(Ordering::Relaxed);
        }
    }
    sums
}
