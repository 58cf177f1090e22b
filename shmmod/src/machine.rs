//! What the choice of a protocol for long messages needs to know about the machine. Each fact is
//! found once per process, by this process alone.

use std::fs;
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

/// Whether two processes run on cores that share a last-level cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Distance {
    /// They do.
    Near,
    /// They do not.
    Far,
    /// The system does not say, or cannot be believed.
    Unknown,
}

impl Distance {
    /// Compares two processes' [`cache_domain`].
    pub fn between(one: u64, other: u64) -> Distance {
        match (one, other) {
            (0, _) | (_, 0) => Distance::Unknown,
            _ if one == other => Distance::Near,
            _ => Distance::Far,
        }
    }
}

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

/// Returns the number of the last-level cache that all cores which this process may run on share;
/// 0 if they share none, or the system does not say. A virtual machine's word does not count.
pub(crate) fn cache_domain() -> u64 {
    static DOMAIN: OnceLock<u64> = OnceLock::new();
    *DOMAIN.get_or_init(|| {
        if netmod_kit::is_virtual_machine() {
            return 0;
        }
        let allowed = allowed_cores();
        let Some(first) = allowed.first() else {
            return 0;
        };
        let path = format!("/sys/devices/system/cpu/cpu{first}/cache/index3/shared_cpu_list");
        let Ok(list) = fs::read_to_string(path) else {
            return 0;
        };
        match parse_cores(&list) {
            Some(shared) if allowed.iter().all(|core| shared.contains(core)) => {
                shared.iter().min().map_or(0, |core| *core as u64 + 1)
            }
            _ => 0,
        }
    })
}

/// Returns the cores that the calling thread may run on.
fn allowed_cores() -> Vec<usize> {
    // SAFETY: a set of cores consists of integers, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes at most the set's size to it.
    let found = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } == 0;
    let cores = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: the cores are below the size of the set.
    let is_set = |core: &usize| found && unsafe { libc::CPU_ISSET(*core, &set) };
    cores.filter(is_set).collect()
}

/// Parses a list of cores such as `0-7,64-71`.
fn parse_cores(list: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cores.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_parsed_or_refused() {
        assert_eq!(parse_cores("0-2,64\n"), Some(vec![0, 1, 2, 64]));
        assert_eq!(parse_cores("3"), Some(vec![3]));
        assert_eq!([parse_cores(""), parse_cores("0-x")], [None, None]);
    }

    #[test]
    fn unknown_caches_are_neither_near_nor_far() {
        let distances = [(1, 1), (1, 2), (0, 0), (0, 1), (1, 0)];
        let distances = distances.map(|(one, other)| Distance::between(one, other));
        use Distance::*;
        assert_eq!(distances, [Near, Far, Unknown, Unknown, Unknown]);
    }

    #[test]
    fn probes_give_one_answer() {
        assert_eq!(has_cheap_kernel_copy(), has_cheap_kernel_copy());
        assert!(cache_domain() == 0 || !netmod_kit::is_virtual_machine());
        assert!(!allowed_cores().is_empty());
    }
}
