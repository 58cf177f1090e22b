//! What each thread keeps of its calls.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::clock;
use crate::events::{Event, Events};
use crate::names::NAMES;
use crate::sizes::Sizes;
use crate::watch::Call;

/// What is done at each call: nothing, or a sum of the others. It is so from the end of `MPI_Init` to the beginning of
/// `MPI_Finalize`.
pub static MODE: AtomicU8 = AtomicU8::new(0);
/// Calls are counted.
pub const COUNTING: u8 = 1;
/// Each call is kept, too.
pub const TRACING: u8 = 2;
/// Each call is told to `mpiexec -top` while it lasts.
pub const WATCHING: u8 = 4;

/// All threads that have called MPI. What they have kept stays when they end.
static THREADS: Mutex<Vec<&'static Thread>> = Mutex::new(Vec::new());

/// What is counted of a function.
#[derive(Default)]
pub struct Counter {
    /// Calls.
    pub calls: AtomicU64,
    /// Ticks in calls that the program made itself, not functions that MPI called.
    pub ticks: AtomicU64,
    /// Bytes that calls say they move.
    pub bytes: AtomicU64,
}

/// What a thread has counted. Only it writes; others read when all is over, and what `mpiexec -top` shows meanwhile.
pub struct Thread {
    /// What it is doing.
    pub call: Call,
    /// Calls within calls: functions of the program's that MPI calls may call MPI.
    depth: AtomicU32,
    /// Sizes of the datatypes that it uses.
    sizes: Sizes,
    /// A counter for each function.
    pub counters: [Counter; NAMES.len()],
    /// The calls, if they are kept.
    pub events: Events,
}

thread_local! {
    // The only one: to find it takes a call of the loader's, so that a call of MPI does it once.
    static OWN: Cell<*const Thread> = const { Cell::new(ptr::null()) };
}

/// A call that has begun.
pub struct Begun {
    thread: &'static Thread,
    /// In ticks.
    begin: u64,
    /// How many calls it is in.
    depth: u32,
    mode: u8,
}

/// Before a call of function number `function`; none if it isn't counted. `whom` is communicator, other rank and
/// tag, as far as the function has them.
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

/// After a call of function number `function`. `bytes` says how many it moves.
#[inline]
pub fn leave(begun: Option<Begun>, function: usize, bytes: impl FnOnce(&Sizes) -> u64) {
    let Some(begun) = begun else { return };
    let end = clock::ticks();
    let Begun { thread, begin, .. } = begun;
    thread.depth.store(begun.depth, Ordering::Relaxed);
    let bytes = bytes(&thread.sizes);
    let ticks = end.saturating_sub(begin);
    // Only this thread writes, so that no atomic addition is needed.
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
    // SAFETY: only `begin` sets it, to what is never freed.
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

/// All threads that have called MPI, in the order in which they first did.
pub fn threads() -> Vec<&'static Thread> {
    THREADS.lock().clone()
}

/// Sums over all threads of this process.
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
