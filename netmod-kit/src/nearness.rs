//! Detects whether another process's core shares a cache with this one's: whether stores to memory
//! that the other reads should bypass the caches, or overwrite whole lines without reading them
//! where the processor can.
//!
//! Cores that share a cache exchange lines through it. Otherwise each line is fetched from the
//! cache of the core that wrote it, which takes longer than from memory and overlaps less. So the
//! time to load a line that the other process has just written is compared with the time to load
//! one from memory. Each process measures both alone, so that delays of others don't matter, and
//! repeats that now and then, since the system migrates processes and virtual machines. Processes
//! needn't agree.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Long stores per sample.
const CALLS_PER_SAMPLE: u32 = 32;
/// Samples that are remembered.
const SAMPLES: u32 = 7;
/// Far samples out of [`SAMPLES`] that switch to far, and to near; hysteresis in between. Messages of
/// 1 MiB and more evict the line from its writer's cache, so that single samples of far cores look
/// near.
const FAR_SAMPLES: u32 = 5;
const NEAR_SAMPLES: u32 = 0;

/// A line of memory that no other thread uses.
#[repr(align(64))]
#[derive(Default)]
struct Line(AtomicU64);

/// Measures the distance to the cores of other processes.
#[derive(Default)]
pub struct Nearness {
    far: AtomicBool,
    /// Long stores.
    calls: AtomicU32,
    /// The latest samples, a bit each that is set for far; the latest is lowest.
    samples: AtomicU32,
    /// Ticks of a load from this core's cache, and from memory: the recent minima.
    hit: AtomicU32,
    miss: AtomicU32,
    own: Line,
}

impl Nearness {
    /// Returns whether the other cores share no cache with this one.
    #[inline]
    pub fn is_far(&self) -> bool {
        self.far.load(Ordering::Relaxed)
    }

    /// Counts a long store. Returns the number of the sample if one is due.
    #[inline]
    pub fn sample_due(&self) -> Option<u32> {
        let calls = self.calls.load(Ordering::Relaxed).wrapping_add(1);
        self.calls.store(calls, Ordering::Relaxed);
        // The first calls are all sampled.
        (calls <= SAMPLES || calls.is_multiple_of(CALLS_PER_SAMPLE))
            .then_some(calls / CALLS_PER_SAMPLE + calls % CALLS_PER_SAMPLE)
    }

    /// Samples a line that another process has written since this one last read it: `is_new` says
    /// whether its value shows that.
    ///
    /// `beside` is in the same page, so that the sample doesn't include a TLB miss.
    #[cfg(target_arch = "x86_64")]
    #[cold]
    pub fn sample(&self, line: &AtomicU64, beside: &AtomicU64, is_new: impl FnOnce(u64) -> bool) {
        beside.load(Ordering::Relaxed);
        let peer = ticks_of_load(line);
        if !is_new(line.load(Ordering::Relaxed)) {
            return;
        }
        let own = &self.own.0;
        own.load(Ordering::Relaxed);
        // SAFETY: evicts this process's own line from the caches; its content stays.
        unsafe {
            std::arch::x86_64::_mm_clflush((&raw const *own).cast());
            std::arch::x86_64::_mm_mfence();
        }
        let miss = ticks_of_load(own);
        self.note(peer, ticks_of_load(own), miss);
    }

    /// Does nothing: there is no other store on this processor, whose counter may tick too slowly to
    /// time one load (25 to 125 MHz on many aarch64).
    #[cfg(not(target_arch = "x86_64"))]
    pub fn sample(
        &self,
        _line: &AtomicU64,
        _beside: &AtomicU64,
        _is_new: impl FnOnce(u64) -> bool,
    ) {
    }

    /// Records the ticks of loads: of another process's line, from this core's cache, and from memory.
    #[cfg(any(target_arch = "x86_64", test))]
    fn note(&self, peer: u32, hit: u32, miss: u32) {
        let [hit, miss] = [(&self.hit, hit), (&self.miss, miss)].map(|(least, now)| {
            // Disturbances only make loads longer. The minimum decays.
            let before = least.load(Ordering::Relaxed);
            let kept = match before {
                0 => now,
                _ => now.min(before + before.div_ceil(16)),
            };
            least.store(kept, Ordering::Relaxed);
            kept
        });
        let memory = miss.saturating_sub(hit);
        let line = peer.saturating_sub(hit);
        // A prefetcher has brought the line before, or an interruption made the load longer than any
        // line takes: the sample says nothing about the other core.
        if memory == 0 || line <= hit / 2 || line / 8 > memory {
            return;
        }
        let is_far = u64::from(line) * 4 > u64::from(memory) * 3;
        let samples =
            (self.samples.load(Ordering::Relaxed) << 1 | u32::from(is_far)) & ((1 << SAMPLES) - 1);
        self.samples.store(samples, Ordering::Relaxed);
        match samples.count_ones() {
            FAR_SAMPLES.. => self.far.store(true, Ordering::Relaxed),
            NEAR_SAMPLES => self.far.store(false, Ordering::Relaxed),
            _ => {}
        }
    }
}

/// Returns the ticks of a load.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks_of_load(word: &AtomicU64) -> u32 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: reads a counter; the fences keep the load between both readings.
    let before = unsafe {
        _mm_lfence();
        let before = _rdtsc();
        _mm_lfence();
        before
    };
    std::hint::black_box(word.load(Ordering::Relaxed));
    // SAFETY: reads a counter; the fences keep the load between both readings.
    let after = unsafe {
        _mm_lfence();
        _rdtsc()
    };
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

    #[test]
    fn ranks_are_near_until_most_looks_say_otherwise() {
        let nearness = Nearness::default();
        for _ in 0..FAR_SAMPLES - 1 {
            nearness.note(DISTANT, HIT, MISS);
            assert!(!nearness.is_far());
        }
        nearness.note(DISTANT, HIT, MISS);
        assert!(nearness.is_far());
        for _ in 0..SAMPLES - 1 {
            nearness.note(CLOSE, HIT, MISS);
            assert!(nearness.is_far());
        }
        nearness.note(CLOSE, HIT, MISS);
        assert!(!nearness.is_far());
    }

    #[test]
    fn single_looks_that_were_disturbed_change_nothing() {
        let nearness = Nearness::default();
        for i in 0..1000 {
            // Slow memory, a slow hit, an interrupt.
            match i % 10 {
                2 => nearness.note(CLOSE, HIT, 9 * MISS),
                4 => nearness.note(DISTANT + 50, 2 * HIT, MISS),
                7 => nearness.note(40_000, HIT, MISS),
                9 => nearness.note(DISTANT, HIT, MISS),
                _ => nearness.note(CLOSE, HIT, MISS),
            }
            assert!(!nearness.is_far(), "{i}");
        }
        for _ in 0..SAMPLES {
            nearness.note(DISTANT, HIT, MISS);
        }
        for i in 0..1000 {
            match i % 10 {
                2 => nearness.note(DISTANT, HIT, 9 * MISS),
                7 => nearness.note(40_000, HIT, MISS),
                9 => nearness.note(CLOSE, HIT, MISS),
                _ => nearness.note(DISTANT, HIT, MISS),
            }
            assert!(nearness.is_far(), "{i}");
        }
    }

    #[test]
    fn another_clock_or_memory_is_learnt() {
        let nearness = Nearness::default();
        for _ in 0..SAMPLES {
            nearness.note(CLOSE, HIT, MISS);
        }
        // All take three times the ticks: by the old measure, near would be far.
        for i in 0..200 {
            nearness.note(3 * CLOSE, 3 * HIT, 3 * MISS);
            assert!(i < 50 || !nearness.is_far(), "{i}");
        }
    }

    #[test]
    fn samples_are_frequent_at_first_and_rare_later() {
        let nearness = Nearness::default();
        let calls = 100 * CALLS_PER_SAMPLE;
        let samples = (0..calls)
            .filter(|_| nearness.sample_due().is_some())
            .count();
        assert_eq!(samples, 100 + SAMPLES as usize);
        let numbers: Vec<u32> = (0..5 * CALLS_PER_SAMPLE)
            .filter_map(|_| nearness.sample_due())
            .collect();
        assert!(
            numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
            "{numbers:?}"
        );
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn an_own_line_is_near() {
        let nearness = Nearness::default();
        let (line, beside) = (AtomicU64::new(5 << 32), AtomicU64::new(2));
        for _ in 0..100 {
            nearness.sample(&line, &beside, |word| word >> 32 == 5);
        }
        assert!(!nearness.is_far());
    }
}
