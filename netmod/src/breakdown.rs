//! Where the time of a call goes: time stamps at the borders between layers, for `osu-bench breakdown`.
//!
//! [`enter`] begins a part and returns a [`Span`] that ends it; each part gets the time outside the
//! spans within it. Without the feature `breakdown` spans are empty and [`enter`] compiles to nothing.

/// What a thread does: a layer of the library, from the program down to the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Part {
    /// The program, between calls.
    Program,
    /// The C entry point: handles, arguments, fast paths that never leave it.
    Entry,
    /// Messages, matching, requests, windows; within a node also the ring.
    Core,
    /// A wait: rounds of polls and what they find out.
    Progress,
    /// The transport.
    Lane,
    /// A system call, or a call of the adapter's driver.
    System,
}

/// Number of parts.
pub const PARTS: usize = Part::System as usize + 1;

#[cfg(feature = "breakdown")]
mod clock {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::{PARTS, Part};

    /// Threads that count. Without any, a span costs a load.
    static COUNTING: AtomicU32 = AtomicU32::new(0);

    struct Clock {
        part: Cell<usize>,
        since: Cell<u64>,
        /// Ticks of each part, then how often it began.
        totals: [Cell<u64>; 2 * PARTS],
    }

    thread_local! {
        static CLOCK: Clock = const {
            Clock {
                part: Cell::new(0),
                since: Cell::new(0),
                totals: [const { Cell::new(0) }; 2 * PARTS],
            }
        };
    }

    /// Returns the time in ticks, of which a second has the same number on all cores.
    #[inline(always)]
    fn now() -> u64 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has the instruction.
        return unsafe { std::arch::x86_64::_rdtsc() };
        #[cfg(not(target_arch = "x86_64"))]
        {
            use std::sync::LazyLock;
            use std::time::Instant;
            static START: LazyLock<Instant> = LazyLock::new(Instant::now);
            START.elapsed().as_nanos() as u64
        }
    }

    /// Ends the current part, begins another and returns the former.
    fn switch(to: usize) -> usize {
        CLOCK.with(|clock| {
            let now = now();
            let from = clock.part.replace(to);
            let add = |to: usize, count| clock.totals[to].set(clock.totals[to].get() + count);
            add(from, now.wrapping_sub(clock.since.replace(now)));
            add(PARTS + to, 1);
            from
        })
    }

    /// A part that ends when it is dropped.
    #[must_use]
    pub struct Span(Option<usize>);

    /// Begins a part.
    #[inline]
    pub fn enter(part: Part) -> Span {
        let counts = COUNTING.load(Ordering::Relaxed) != 0;
        Span(counts.then(|| switch(part as usize)))
    }

    impl Drop for Span {
        #[inline]
        fn drop(&mut self) {
            if let Some(before) = self.0 {
                switch(before);
            }
        }
    }

    /// Begins to count the calling thread's time, from zero.
    pub fn begin() {
        CLOCK.with(|clock| {
            clock.part.set(Part::Program as usize);
            clock.totals.iter().for_each(|total| total.set(0));
            COUNTING.fetch_add(1, Ordering::Relaxed);
            clock.since.set(now());
        });
    }

    /// Ends what [`begin`] began. Returns the ticks of each part, then how often it began.
    pub fn end() -> [u64; 2 * PARTS] {
        switch(Part::Program as usize);
        COUNTING.fetch_sub(1, Ordering::Relaxed);
        CLOCK.with(|clock| std::array::from_fn(|part| clock.totals[part].get()))
    }
}

#[cfg(feature = "breakdown")]
pub use clock::{Span, begin, end, enter};

/// A part that ends when it is dropped.
#[cfg(not(feature = "breakdown"))]
#[must_use]
pub struct Span;

/// Begins a part.
#[cfg(not(feature = "breakdown"))]
#[inline(always)]
pub fn enter(_: Part) -> Span {
    Span
}

#[cfg(all(test, feature = "breakdown"))]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn each_part_has_its_own_time() {
        let spin = |milliseconds| {
            let until = Instant::now() + Duration::from_millis(milliseconds);
            while Instant::now() < until {}
        };
        begin();
        let entry = enter(Part::Entry);
        spin(3);
        let core = enter(Part::Core);
        spin(30);
        drop(core);
        drop(entry);
        let totals = end();
        let [entry, core] = [Part::Entry, Part::Core].map(|part| totals[part as usize]);
        assert!(core > 5 * entry / 2 && entry > 0, "{totals:?}");
        assert_eq!(totals[PARTS + Part::Entry as usize], 2);
        drop(enter(Part::System));
        assert_eq!(super::end()[PARTS + Part::System as usize], 0);
    }
}
