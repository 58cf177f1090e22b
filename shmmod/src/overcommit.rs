//! Decides whether shared segments may be allocated on first touch.
//!
//! Pages of an anonymous file are allocated when they are first touched. No file system limits the
//! size of such files, so only the memory of the machine, or the job's limit, can run out: the
//! kernel then kills a process, as for any memory. Only if the kernel accounts for promised memory
//! (`vm.overcommit_memory` = 2) does a touch fail by SIGBUS; there, pages must be allocated
//! immediately. So are small segments, for which that costs nothing. A segment larger than the
//! available memory is refused.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use netmod::OpenError;
use parking_lot::Mutex;

/// Bytes. Smaller segments are allocated immediately.
const SMALL: u64 = 1 << 20;

/// Time for which the kernel's figures are used again, and the fraction of them: reading them takes
/// as long as everything else that makes a communicator's slots.
const COUNTS: Duration = Duration::from_secs(1);
const PART: u64 = 16;

/// Bytes that may be allocated without reading the kernel's figures again.
#[derive(Clone, Copy)]
struct Budget {
    since: Instant,
    left: u64,
}

static BUDGET: Mutex<Option<Budget>> = Mutex::new(None);

impl Budget {
    /// Makes a budget from the bytes that are free now, `len` of which are being allocated.
    fn now(free: u64, len: u64) -> Budget {
        Budget {
            since: Instant::now(),
            left: free.saturating_sub(len) / PART,
        }
    }

    /// Takes `len` bytes from the budget, if it is fresh and large enough.
    fn take(&mut self, len: u64) -> bool {
        let counts = len <= self.left && self.since.elapsed() < COUNTS;
        if counts {
            self.left -= len;
        }
        counts
    }
}

/// Version 1 of control groups reports more than this if there is no limit.
const NO_LIMIT: u64 = 1 << 60;

/// Returns whether `len` bytes may be allocated on first touch.
///
/// # Errors
/// The machine or the job has less memory available.
pub(crate) fn commits_lazily(len: usize) -> Result<bool, OpenError> {
    let len = len as u64;
    if len <= SMALL || touches_may_fail() {
        return Ok(false);
    }
    let mut budget = BUDGET.lock();
    if budget.as_mut().is_some_and(|budget| budget.take(len)) {
        return Ok(true);
    }
    let (free, whose) = free();
    if len <= free {
        *budget = Some(Budget::now(free, len));
        return Ok(true);
    }
    Err(OpenError(format!(
        "cannot allocate {len} bytes: {whose} has {free} left; ask for less, or raise the memory \
         limit of the job or container"
    )))
}

/// Returns whether the kernel accounts for promised memory, so that the first touch of a page may
/// fail.
pub(crate) fn touches_may_fail() -> bool {
    static MAY_FAIL: OnceLock<bool> = OnceLock::new();
    *MAY_FAIL.get_or_init(|| {
        let mut mode = [0; 1];
        let file = fs::File::open("/proc/sys/vm/overcommit_memory");
        file.is_ok_and(|mut file| file.read_exact(&mut mode).is_ok() && mode == *b"2")
    })
}

/// Returns the available bytes, and the name of what limits them.
fn free() -> (u64, &'static str) {
    let info = read("/proc/meminfo".as_ref()).unwrap_or_default();
    let machine = of_machine(&info).unwrap_or(u64::MAX);
    let groups = read("/proc/self/cgroup".as_ref()).unwrap_or_default();
    match of_groups(&groups, Path::new("/sys/fs/cgroup")) {
        Some(group) if group < machine => (group, "the job's or container's memory limit"),
        _ => (machine, "the machine"),
    }
}

/// Reads a file of the kernel, whose length is reported as 0, by few calls.
fn read(path: &Path) -> Option<String> {
    let mut text = String::with_capacity(16 << 10);
    fs::File::open(path).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

/// Reads the available memory and swap from the text of `/proc/meminfo`.
fn of_machine(info: &str) -> Option<u64> {
    let kib = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    let swap = kib("SwapFree:").unwrap_or(0);
    kib("MemAvailable:").map(|memory| (memory + swap).saturating_mul(1024))
}

/// Returns the smallest space left in a control group of this process. `groups` is the text of
/// `/proc/self/cgroup`.
fn of_groups(groups: &str, root: &Path) -> Option<u64> {
    let mut least: Option<u64> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (root, files) = match controllers {
            "" => (root.to_owned(), ["memory.max", "memory.current"]),
            _ if controllers.split(',').any(|one| one == "memory") => {
                let files = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
                (root.join("memory"), files)
            }
            _ => continue,
        };
        // A group's limit holds for all groups below. In a container the path may be the host's.
        let path = Path::new(path.trim_start_matches('/'));
        for group in path.ancestors() {
            let left = left_in(&root.join(group), files);
            least = least.into_iter().chain(left).min();
        }
    }
    least
}

/// Returns the memory that a group may still allocate, including its file cache.
fn left_in(group: &Path, [limit, usage]: [&str; 2]) -> Option<u64> {
    let number = |file: &str| read(&group.join(file))?.trim().parse::<u64>().ok();
    // The other files are slow to read.
    let limit = number(limit).filter(|&limit| limit < NO_LIMIT)?;
    let usage = number(usage)?;
    let stat = read(&group.join("memory.stat")).unwrap_or_default();
    let cached = |name: &str| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(key, _)| *key == name);
        found.and_then(|(_, value)| value.trim().parse::<u64>().ok())
    };
    let cached = ["inactive_file", "active_file"]
        .into_iter()
        .filter_map(cached)
        .sum();
    Some(limit.saturating_sub(usage.saturating_sub(cached)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_has_is_free_memory_and_swap() {
        let info = "MemTotal:  100 kB\nMemFree: 5 kB\nMemAvailable:   40 kB\nSwapFree:  2 kB\n";
        assert_eq!(of_machine(info), Some(42 * 1024));
        assert_eq!(of_machine("MemTotal: 100 kB\n"), None);
    }

    #[test]
    fn the_tightest_group_counts_of_both_versions() {
        let root = std::env::temp_dir().join(format!("weft-room-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/memory.max", "1000\n");
        write("a/memory.current", "300\n");
        write(
            "a/memory.stat",
            "anon 100\ninactive_file 150\nactive_file 50\n",
        );
        write("a/b/memory.max", "max\n");
        write("a/b/memory.current", "200\n");
        write("memory/c/memory.limit_in_bytes", "500\n");
        write("memory/c/memory.usage_in_bytes", "450\n");
        write("memory/d/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/d/memory.usage_in_bytes", "450\n");
        assert_eq!(of_groups("0::/a/b\n", &root), Some(900));
        assert_eq!(
            of_groups("3:cpu,memory:/c\n0::/a\n1:pids:/a\n", &root),
            Some(50)
        );
        assert_eq!(of_groups("3:memory:/d\n", &root), None);
        assert_eq!(of_groups("0::/elsewhere\n1:pids:/a\n", &root), None);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn budgets_are_a_part_of_the_free_memory_and_expire() {
        let mut budget = Budget::now(16_000, 0);
        assert!(budget.take(600) && budget.take(400) && !budget.take(1));
        let mut budget = Budget::now(16_000, 16_000);
        assert!(!budget.take(1));
        let since = Instant::now().checked_sub(COUNTS);
        let mut old = Budget {
            since: since.expect("the machine runs for longer"),
            left: 1000,
        };
        assert!(!old.take(1));
    }

    #[test]
    fn small_segments_are_allocated_and_absurd_ones_refused() {
        assert_eq!(commits_lazily(1000), Ok(false));
        if !touches_may_fail() {
            assert!(commits_lazily(1 << 50).is_err());
        }
    }
}
