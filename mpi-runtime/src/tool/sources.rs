//! The source of events (MPI-4.1 section 15.3.8): one, which delivers them in their order.

use std::sync::LazyLock;
use std::time::Instant;

/// A source of events. Its clock counts nanoseconds.
pub struct Source {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub help: &'static str,
}

/// All sources, by number.
pub const SOURCES: [Source; 1] = [Source {
    name: "weft",
    help: "The library, in the thread that causes an event.",
}];

/// Ticks of the clock per second.
pub const TICKS_PER_SECOND: i64 = 1_000_000_000;

/// Returns the time of events: nanoseconds since the first call.
pub fn now() -> i64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as i64
}
