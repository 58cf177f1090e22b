//! Detects whether another process's core shares a cache with this one's: whether stores to memory
//! that the other reads should bypass the caches, or overwrite whole lines without reading them
//! where the processor can.
//!
//! Cores that share a cache exchange lines through it. Otherwise each line is fetched from the
//! cache of the core that wrote it, which takes longer than from memory and overlaps less. So the
//! time to load a line that the other process has just written is compared with the time to load
//! one from memory. A process that waits writes its [`Beacon`], and samples those of others now and
//! then, since the system migrates processes and virtual machines. Each process measures alone, so
//! that delays of others don't matter, and processes needn't agree.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// Samples that are remembered.
const SAMPLES: u32 = 7;
/// Far samples out of [`SAMPLES`] that switch to far, and to near; hysteresis in between. Messages of
/// 1 MiB and more evict the line from its writer's cache, so that single samples of far cores look
/// near.
const FAR_SAMPLES: u32 = 5;
const NEAR_SAMPLES: u32 = 0;
/// Ticks, about 1 ms. Oldest beacon that is sampled: its line may have left all caches since.
#[cfg(target_arch = "x86_64")]
const MAX_AGE: u64 = 1 << 21;

/// Whether cores of other processes share a cache with this one, by the latest samples.
#[derive(Default)]
pub struct Nearness {
    far: AtomicBool,
    /// The latest samples, a bit each that is set for far; the latest is lowest.
    samples: AtomicU8,
}

impl Nearness {
    /// Returns the nearness of all other processes of the node together.
    #[inline]
    pub fn of_node() -> &'static Nearness {
        static NODE: Nearness = Nearness {
            far: AtomicBool::new(false),
            samples: AtomicU8::new(0),
        };
        &NODE
    }

    /// Returns whether the other cores share no cache with this one.
    #[inline]
    pub fn is_far(&self) -> bool {
        self.far.load(Ordering::Relaxed)
    }

    /// Records a sample.
    pub fn note(&self, is_far: bool) {
        let before = self.samples.load(Ordering::Relaxed);
        let samples = (before << 1 | u8::from(is_far)) & ((1 << SAMPLES) - 1);
        self.samples.store(samples, Ordering::Relaxed);
        match samples.count_ones() {
            FAR_SAMPLES.. => self.far.store(true, Ordering::Relaxed),
            NEAR_SAMPLES => self.far.store(false, Ordering::Relaxed),
            _ => {}
        }
    }
}

/// A line in shared memory by which other processes measure how near its writer's core is.
#[repr(C, align(128))]
pub struct Beacon {
    /// In the page of `written`, far enough from it that no prefetcher takes the two for
    /// neighbours, and never written.
    beside: AtomicU64,
    apart: [u64; 31],
    /// Time stamp counter at the last write.
    written: AtomicU64,
    alone: [u64; 15],
}

impl Beacon {
    /// Writes the line. Its owner does so while it waits.
    #[inline]
    pub fn write(&self) {
        #[cfg(target_arch = "x86_64")]
        self.written.store(ticks(), Ordering::Relaxed);
    }
}

/// Samples beacons.
#[derive(Default)]
pub struct Sampler {
    /// Ticks of a load from this core's cache, and from memory: the recent minima.
    hit: u32,
    miss: u32,
    own: Line,
}

/// A line of memory that no other thread uses.
#[repr(align(64))]
#[derive(Default)]
struct Line(AtomicU64);

impl Sampler {
    /// Returns whether the writer of a beacon is far; `None` if it has not been written lately, or
    /// not since the last sample.
    #[cfg(target_arch = "x86_64")]
    #[cold]
    pub fn sample(&mut self, beacon: &Beacon) -> Option<bool> {
        // Otherwise the sample would include a TLB miss.
        beacon.beside.load(Ordering::Relaxed);
        let peer = ticks_of_load(&beacon.written);
        if ticks().wrapping_sub(beacon.written.load(Ordering::Relaxed)) > MAX_AGE {
            return None;
        }
        let own = &self.own.0;
        own.load(Ordering::Relaxed);
        // SAFETY: evicts this process's own line from the caches; its content stays.
        unsafe {
            std::arch::x86_64::_mm_clflush((&raw const *own).cast());
            std::arch::x86_64::_mm_mfence();
        }
        let miss = ticks_of_load(own);
        let hit = ticks_of_load(own);
        self.is_far(peer, hit, miss)
    }

    /// Returns `None`: there is no other store on this processor.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn sample(&mut self, _beacon: &Beacon) -> Option<bool> {
        None
    }

    /// Compares the ticks of loads: of another process's line, from this core's cache, and from
    /// memory.
    #[cfg(any(target_arch = "x86_64", test))]
    fn is_far(&mut self, peer: u32, hit: u32, miss: u32) -> Option<bool> {
        // Disturbances only make loads longer. The minimum decays.
        let least = |before: u32, now: u32| match before {
            0 => now,
            _ => now.min(before + before.div_ceil(16)),
        };
        self.hit = least(self.hit, hit);
        self.miss = least(self.miss, miss);
        let memory = self.miss.saturating_sub(self.hit);
        let line = peer.saturating_sub(self.hit);
        // The line was in this core's cache, since it was not written again or a prefetcher has
        // brought it, or an interruption made the load longer than any line takes: the sample says
        // nothing about the other core.
        if memory == 0 || line <= self.hit / 2 || line / 8 > memory {
            return None;
        }
        Some(u64::from(line) * 4 > u64::from(memory) * 3)
    }
}

/// Reads the time stamp counter.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Returns the ticks of a load.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks_of_load(word: &AtomicU64) -> u32 {
    use std::arch::x86_64::_mm_lfence;
    // SAFETY: the fences keep the load between both readings.
    let fence = || unsafe { _mm_lfence() };
    fence();
    let before = ticks();
    fence();
    std::hint::black_box(word.load(Ordering::Relaxed));
    fence();
    let after = ticks();
    after.wrapping_sub(before).min(u64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks of loads on a processor: from the own cache, a near one, a far one, memory.
    const HIT: u32 = 70;
    const CLOSE: u32 = 145;
    const DISTANT: u32 = 350;
    const MISS: u32 = 300;

    /// A sampler, and what its samples say.
    #[derive(Default)]
    struct Samples(Sampler, Nearness);

    impl Samples {
        fn note(&mut self, peer: u32, hit: u32, miss: u32) {
            if let Some(is_far) = self.0.is_far(peer, hit, miss) {
                self.1.note(is_far);
            }
        }

        fn is_far(&self) -> bool {
            self.1.is_far()
        }
    }

    #[test]
    fn ranks_are_near_until_most_looks_say_otherwise() {
        let mut samples = Samples::default();
        for _ in 0..FAR_SAMPLES - 1 {
            samples.note(DISTANT, HIT, MISS);
            assert!(!samples.is_far());
        }
        samples.note(DISTANT, HIT, MISS);
        assert!(samples.is_far());
        for _ in 0..SAMPLES - 1 {
            samples.note(CLOSE, HIT, MISS);
            assert!(samples.is_far());
        }
        samples.note(CLOSE, HIT, MISS);
        assert!(!samples.is_far());
    }

    #[test]
    fn single_looks_that_were_disturbed_change_nothing() {
        let mut samples = Samples::default();
        for i in 0..1000 {
            // Slow memory, a slow hit, an interrupt.
            match i % 10 {
                2 => samples.note(CLOSE, HIT, 9 * MISS),
                4 => samples.note(DISTANT + 50, 2 * HIT, MISS),
                7 => samples.note(40_000, HIT, MISS),
                9 => samples.note(DISTANT, HIT, MISS),
                _ => samples.note(CLOSE, HIT, MISS),
            }
            assert!(!samples.is_far(), "{i}");
        }
        for _ in 0..SAMPLES {
            samples.note(DISTANT, HIT, MISS);
        }
        for i in 0..1000 {
            match i % 10 {
                2 => samples.note(DISTANT, HIT, 9 * MISS),
                7 => samples.note(40_000, HIT, MISS),
                9 => samples.note(CLOSE, HIT, MISS),
                _ => samples.note(DISTANT, HIT, MISS),
            }
            assert!(samples.is_far(), "{i}");
        }
    }

    #[test]
    fn another_clock_or_memory_is_learnt() {
        let mut samples = Samples::default();
        for _ in 0..SAMPLES {
            samples.note(CLOSE, HIT, MISS);
        }
        // All take three times the ticks: by the old measure, near would be far.
        for i in 0..200 {
            samples.note(3 * CLOSE, 3 * HIT, 3 * MISS);
            assert!(i < 50 || !samples.is_far(), "{i}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn an_own_line_is_not_far_and_an_old_one_is_not_sampled() {
        let beacon = Beacon {
            beside: AtomicU64::new(0),
            apart: [0; 31],
            written: AtomicU64::new(ticks().wrapping_sub(2 * MAX_AGE)),
            alone: [0; 15],
        };
        let mut sampler = Sampler::default();
        assert_eq!(sampler.sample(&beacon), None);
        let nearness = Nearness::default();
        for _ in 0..100 {
            beacon.write();
            if let Some(is_far) = sampler.sample(&beacon) {
                nearness.note(is_far);
            }
        }
        assert!(!nearness.is_far());
    }
}
