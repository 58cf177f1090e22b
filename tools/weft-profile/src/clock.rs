//! Clocks. Each traced call reads the clock twice, so on x86-64 it reads the time stamp counter,
//! which all cores share.

/// Returns the current time in ticks, of unknown length and origin.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has RDTSC.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return nanoseconds();
}

/// Returns the current time in nanoseconds since the machine's start, the same for all its
/// processes.
pub fn nanoseconds() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to the local `now`.
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

/// Number of readings for a [`Moment`].
const READINGS: usize = 16;

impl Moment {
    /// Reads both clocks.
    pub fn now() -> Moment {
        Moment::narrowest(std::array::from_fn::<_, READINGS, _>(|_| {
            (ticks(), nanoseconds(), ticks())
        }))
    }

    /// Selects the reading (ticks before, nanoseconds, ticks after) that took least.
    ///
    /// Other readings may have been interrupted by a page fault or another process, which would
    /// shift all times.
    fn narrowest(readings: [(u64, u64, u64); READINGS]) -> Moment {
        let took = |&(before, _, after): &(u64, u64, u64)| after.wrapping_sub(before);
        let (ticks, nanoseconds, _) = readings
            .into_iter()
            .min_by_key(took)
            .expect("there are readings");
        Moment { ticks, nanoseconds }
    }
}

/// The conversion of ticks to nanoseconds.
#[derive(Clone, Copy)]
pub struct Scale {
    begin: Moment,
    per_tick: f64,
    /// Nanoseconds between the moments.
    pub elapsed: u64,
}

impl Scale {
    /// Computes the conversion from a first and a last moment.
    pub fn between(begin: Moment, end: Moment) -> Scale {
        let elapsed = end.nanoseconds.saturating_sub(begin.nanoseconds);
        let ticks = end.ticks.saturating_sub(begin.ticks).max(1);
        Scale {
            begin,
            per_tick: elapsed as f64 / ticks as f64,
            elapsed,
        }
    }

    /// Converts a time span to nanoseconds.
    pub fn span(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.per_tick) as u64
    }

    /// Converts a time to nanoseconds on the machine's clock.
    pub fn moment(&self, ticks: u64) -> u64 {
        self.begin.nanoseconds + self.span(ticks.saturating_sub(self.begin.ticks))
    }
}

#[cfg(test)]
mod tests {
    use super::{Moment, READINGS, Scale};

    #[test]
    fn an_interrupted_reading_does_not_count() {
        // A tick is half a nanosecond; a reading takes 20 of them.
        let reading = |at: u64, lost: u64| (at, (at + lost) / 2, at + lost + 20);
        let mut readings =
            std::array::from_fn(|number| reading(1_000 + 20 * number as u64, 4_000_000));
        readings[READINGS / 2] = reading(50_000_000, 0);
        let begin = Moment::narrowest(readings);
        let quiet = std::array::from_fn(|number| reading(90_000_000 + 20 * number as u64, 0));
        let scale = Scale::between(begin, Moment::narrowest(quiet));
        assert_eq!(scale.elapsed, 20_000_000);
        assert_eq!(scale.moment(70_000_000), 35_000_000);
    }
}
