//! Time: the processor's counter where it has one that is the same on all cores, since two readings
//! are what each call pays.

/// Now, in ticks of an unknown length, from an unknown beginning.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has the instruction.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return nanoseconds();
}

/// Now, in nanoseconds since the machine's start; the same for all processes of a machine.
pub fn nanoseconds() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place can be written to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A moment on both clocks.
#[derive(Clone, Copy)]
pub struct Moment {
    ticks: u64,
    /// On the machine's clock.
    pub nanoseconds: u64,
}

impl Moment {
    /// Now.
    pub fn now() -> Moment {
        Moment {
            ticks: ticks(),
            nanoseconds: nanoseconds(),
        }
    }
}

/// What ticks mean, from two moments.
#[derive(Clone, Copy)]
pub struct Scale {
    begin: Moment,
    per_tick: f64,
    /// Nanoseconds between the moments.
    pub elapsed: u64,
}

impl Scale {
    /// By the process's first and last moment.
    pub fn between(begin: Moment, end: Moment) -> Scale {
        let elapsed = end.nanoseconds.saturating_sub(begin.nanoseconds);
        let ticks = end.ticks.saturating_sub(begin.ticks).max(1);
        Scale {
            begin,
            per_tick: elapsed as f64 / ticks as f64,
            elapsed,
        }
    }

    /// A span of time in nanoseconds.
    pub fn span(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.per_tick) as u64
    }

    /// A moment in nanoseconds on the machine's clock.
    pub fn moment(&self, ticks: u64) -> u64 {
        self.begin.nanoseconds + self.span(ticks.saturating_sub(self.begin.ticks))
    }
}
