//! What the choice of a protocol for long messages needs to know about the machine. Each fact is
//! found once per process, by this process alone.

use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::cma::{self, Direction};

/// Bytes that the probe of copies moves: few enough for a core's own cache.
const PROBE_LEN: usize = 64 << 10;
/// Runs of the probe, of which the shortest counts: the first ones meet cold memory.
const PROBE_RUNS: usize = 4;
/// Bytes. Shortest message for which streaming stores to a far core pay off on processors that
/// overwrite whole cache lines without fetching them by plain copies, too
/// (docs/performance.md, "Long messages within a node").
const STREAMING_WHOLE_LINES: usize = 512 << 10;

/// Returns whether the kernel copies 64 KiB in less time than two copies by the processor take.
pub(crate) fn has_cheap_kernel_copy() -> bool {
    static CHEAP: OnceLock<bool> = OnceLock::new();
    *CHEAP.get_or_init(|| {
        let from = vec![1_u8; PROBE_LEN];
        let mut to = vec![2_u8; PROBE_LEN];
        let processor = shortest(|| to.copy_from_slice(std::hint::black_box(&from)));
        let mut is_refused = false;
        let kernel = shortest(|| {
            let (pid, place) = (std::process::id(), from.as_ptr() as u64);
            // SAFETY: both buffers have this length, and both belong to this process.
            let copied =
                unsafe { cma::copy(Direction::Read, pid, to.as_mut_ptr(), place, PROBE_LEN) };
            is_refused |= copied.is_err();
        });
        !is_refused && kernel < 2 * processor
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

/// Returns the length in bytes from which on streaming stores reach a core with which this one
/// shares no cache faster than plain ones.
pub(crate) fn streaming_min() -> usize {
    if netmod_kit::overwrites_without_fetch() {
        STREAMING_WHOLE_LINES
    } else if netmod_kit::keeps_stores_cached() {
        usize::MAX
    } else {
        0
    }
}

/// Returns a number that processes have in common if all cores that they may run on share a
/// last-level cache, as far as the system says so; 0 if these cores share none, or it is unknown.
pub(crate) fn cache_domain() -> u64 {
    static DOMAIN: OnceLock<u64> = OnceLock::new();
    *DOMAIN.get_or_init(|| {
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
    fn probes_give_one_answer() {
        assert_eq!(has_cheap_kernel_copy(), has_cheap_kernel_copy());
        assert_eq!(cache_domain(), cache_domain());
        assert!(!allowed_cores().is_empty());
    }
}
