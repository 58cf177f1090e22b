//! What each thread keeps of its calls.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::clock;
use crate::names::NAMES;
use crate::watch::{Call, WATCHING};

/// Calls of one thread that are kept for the timeline, at most.
const EVENTS: usize = 1 << 20;

/// Whether calls are counted now: from the end of `MPI_Init` to the beginning of `MPI_Finalize`.
pub static COUNTING: AtomicBool = AtomicBool::new(false);
/// Whether each call is kept, too.
pub static TRACING: AtomicBool = AtomicBool::new(false);

/// All threads that have called MPI. What they have kept stays when they end.
static THREADS: Mutex<Vec<&'static Thread>> = Mutex::new(Vec::new());

/// A call, in ticks.
#[derive(Clone, Copy)]
pub struct Event {
    /// The function's number.
    pub function: u32,
    /// When it began.
    pub begin: u64,
    /// When it returned.
    pub end: u64,
    /// Bytes that it says it moves.
    pub bytes: u64,
}

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
    /// A counter for each function.
    pub counters: [Counter; NAMES.len()],
    /// The calls, if they are kept, and how many there was no room for.
    pub events: Mutex<(Vec<Event>, u64)>,
}

thread_local! {
    static OWN: Cell<*const Thread> = const { Cell::new(ptr::null()) };
    /// Calls within calls: functions of the program's that MPI calls may call MPI.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Before a call of function number `function`; none if it isn't counted. `whom` is communicator, other rank and
/// tag, as far as the function has them.
#[inline]
pub fn enter(function: usize, whom: [usize; 3]) -> Option<u64> {
    if !COUNTING.load(Ordering::Relaxed) {
        return None;
    }
    let depth = DEPTH.get();
    DEPTH.set(depth + 1);
    let begin = clock::ticks();
    if depth == 0 && WATCHING.load(Ordering::Relaxed) {
        own().call.begin(begin, function, whom);
    }
    Some(begin)
}

/// After a call of function number `function`.
#[inline]
pub fn leave(begin: Option<u64>, function: usize, bytes: impl FnOnce() -> u64) {
    let Some(begin) = begin else { return };
    let end = clock::ticks();
    DEPTH.set(DEPTH.get() - 1);
    let thread = own();
    let counter = &thread.counters[function];
    let add =
        |to: &AtomicU64, more: u64| to.store(to.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    let bytes = bytes();
    add(&counter.calls, 1);
    add(&counter.bytes, bytes);
    if DEPTH.get() == 0 {
        add(&counter.ticks, end.saturating_sub(begin));
        if WATCHING.load(Ordering::Relaxed) {
            thread.call.end();
        }
    }
    if TRACING.load(Ordering::Relaxed) {
        let mut events = thread.events.lock();
        if events.0.len() < EVENTS {
            events.0.push(Event {
                function: function as u32,
                begin,
                end,
                bytes,
            });
        } else {
            events.1 += 1;
        }
    }
}

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
        counters: std::array::from_fn(|_| Counter::default()),
        events: Mutex::new((Vec::new(), 0)),
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
