//! The cost of the kernel's copy (CMA) on this machine, measured once per process.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::cma::{self, Direction};

/// Bytes that the probe of copies moves: few enough for a core's own cache.
const PROBE_LEN: usize = 64 << 10;
/// Runs of the probe, of which the shortest counts: the first ones meet cold memory.
const PROBE_RUNS: usize = 4;
/// Break-even of the kernel's copy against two copies between cores, in copies within a core's own
/// cache (docs/decisions/long-messages.md).
const LOCAL_COPIES: u32 = 4;

/// Returns whether the kernel's copy takes less time than two copies between cores are expected to.
pub(crate) fn has_cheap_kernel_copy() -> bool {
    static CHEAP: OnceLock<bool> = OnceLock::new();
    *CHEAP.get_or_init(|| {
        let from = vec![1_u8; PROBE_LEN];
        let mut to = vec![2_u8; PROBE_LEN];
        let processor = shortest(|| {
            to.copy_from_slice(black_box(&from));
            // Otherwise the compiler might leave copies out that the next one overwrites.
            black_box(&mut to);
        });
        let mut is_refused = false;
        let kernel = shortest(|| {
            let (pid, place) = (std::process::id(), from.as_ptr() as u64);
            // SAFETY: both buffers have this length, and both belong to this process.
            let copied =
                unsafe { cma::copy(Direction::Read, pid, to.as_mut_ptr(), place, PROBE_LEN) };
            is_refused |= copied.is_err();
        });
        !is_refused && kernel < LOCAL_COPIES * processor
    })
}

fn shortest(mut run: impl FnMut()) -> Duration {
    let times = (0..PROBE_RUNS).map(|_| {
        let begun = Instant::now();
        run();
        begun.elapsed()
    });
    times.min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_give_one_answer() {
        assert_eq!(has_cheap_kernel_copy(), has_cheap_kernel_copy());
    }
}
