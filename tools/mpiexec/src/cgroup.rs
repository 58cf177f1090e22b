//! Limits of control groups, with which containers and batch systems restrict jobs.
//!
//! A limit applies to a group and all groups below it, so the smallest limit up to the mount point
//! counts. Cpusets are not read: `sched_getaffinity` already leaves their forbidden CPUs out.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The limits of this process that each start of a job needs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// Number of CPUs, by quota over period.
    pub cpus: Option<f64>,
}

impl Limits {
    /// Returns the limits, which are read at the first call.
    pub fn get() -> Limits {
        static LIMITS: OnceLock<Limits> = OnceLock::new();
        *LIMITS.get_or_init(|| Limits {
            cpus: cpus(&|path| fs::read_to_string(path).ok()),
        })
    }

    /// Returns the number of ranks that can run at once within the quota, at least one.
    pub fn whole_cpus(&self) -> usize {
        self.cpus.map_or(usize::MAX, |cpus| (cpus as usize).max(1))
    }
}

/// Returns the bytes of memory that this process may use, if they are limited.
pub fn memory_limit() -> Option<u64> {
    memory(&|path| fs::read_to_string(path).ok())
}

fn number(file: &impl Fn(&Path) -> Option<String>, path: &Path, name: &str) -> Option<f64> {
    file(&path.join(name))?.trim().parse().ok()
}

fn cpus(file: &impl Fn(&Path) -> Option<String>) -> Option<f64> {
    let [first, second] = folders(file, "cpu");
    let share = |quota: f64, period: f64| (quota > 0.0 && period > 0.0).then_some(quota / period);
    let first = first.into_iter().filter_map(|path| {
        let quota = number(file, &path, "cpu.cfs_quota_us")?;
        share(quota, number(file, &path, "cpu.cfs_period_us")?)
    });
    let second = second.into_iter().filter_map(|path| {
        let text = file(&path.join("cpu.max"))?;
        let (quota, period) = text.trim().split_once(' ')?;
        share(quota.parse().ok()?, period.parse().ok()?)
    });
    first.chain(second).reduce(f64::min)
}

fn memory(file: &impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let [first, second] = folders(file, "memory");
    // Version 1 reports a number near 2^63 for no limit.
    let fits = |bytes: f64| (bytes > 0.0 && bytes < 2f64.powi(60)).then_some(bytes);
    let first = first
        .into_iter()
        .filter_map(|path| fits(number(file, &path, "memory.limit_in_bytes")?));
    let second = second
        .into_iter()
        .filter_map(|path| fits(number(file, &path, "memory.max")?));
    first
        .chain(second)
        .reduce(f64::min)
        .map(|bytes| bytes as u64)
}

/// Returns the folders of this process's group and its ancestors, below version 1's mount of a controller
/// and below version 2's.
fn folders(file: &impl Fn(&Path) -> Option<String>, controller: &str) -> [Vec<PathBuf>; 2] {
    let own = file(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let mounts = file(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    [controller, ""].map(|controller| folders_of(&own, &mounts, controller))
}

/// Returns the folder of this process's group and its ancestors; `controller` is empty for version
/// 2.
fn folders_of(own: &str, mounts: &str, controller: &str) -> Vec<PathBuf> {
    let has = |list: &str| list.split(',').any(|name| name == controller);
    let path = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (names, path) = (parts.next()?, parts.next()?);
        has(names).then_some(path)
    });
    let mount = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let (kind, options) = (kind.next()?, kind.nth(1)?);
        let fits = match controller {
            "" => kind == "cgroup2",
            _ => kind == "cgroup" && has(options),
        };
        let mut place = place.split(' ').skip(3);
        fits.then_some((place.next()?, place.next()?))
    });
    let (Some(path), Some((root, mount))) = (path, mount) else {
        return Vec::new();
    };
    // In a container the mount may begin at the group itself, whose path is the host's.
    let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
    let mount = Path::new(mount);
    let all = mount.join(below);
    let within = all.ancestors().take_while(|path| path.starts_with(mount));
    within.map(Path::to_path_buf).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(files: &[(&str, &str)]) -> (Limits, Option<u64>) {
        let file = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        let cpus = cpus(&file);
        (Limits { cpus }, memory(&file))
    }

    const SECOND: &str = "24 1 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn version_2_as_docker_kubernetes_and_slurm_have_it() {
        // Kubernetes: the pod has a limit, its container another.
        let path = "/kubepods.slice/pod1.slice/c.scope";
        let files = [
            ("/proc/self/cgroup", format!("0::{path}\n")),
            ("/proc/self/mountinfo", SECOND.to_owned()),
            (
                &format!("/sys/fs/cgroup{path}/cpu.max"),
                "max 100000\n".to_owned(),
            ),
            (
                &format!("/sys/fs/cgroup{path}/memory.max"),
                "max\n".to_owned(),
            ),
            (
                "/sys/fs/cgroup/kubepods.slice/pod1.slice/cpu.max",
                "250000 100000\n".to_owned(),
            ),
            (
                "/sys/fs/cgroup/kubepods.slice/pod1.slice/memory.max",
                "1073741824\n".to_owned(),
            ),
            (
                "/sys/fs/cgroup/kubepods.slice/cpu.max",
                "800000 100000\n".to_owned(),
            ),
        ];
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        let (limits, memory) = with(&files);
        assert_eq!((limits.cpus, limits.whole_cpus()), (Some(2.5), 2));
        assert_eq!(memory, Some(1 << 30));
        // Within a namespace of groups the own one is the root.
        let (limits, _) = with(&[
            ("/proc/self/cgroup", "0::/\n"),
            ("/proc/self/mountinfo", SECOND),
            ("/sys/fs/cgroup/cpu.max", "50000 100000\n"),
        ]);
        assert_eq!((limits.cpus, limits.whole_cpus()), (Some(0.5), 1));
    }

    #[test]
    fn version_1_as_docker_and_slurm_have_it() {
        let mounts = "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let own = "4:memory:/slurm/uid_0/job_1\n3:cpu,cpuacct:/docker/abc/job\n0::/x\n";
        let limits = with(&[
            ("/proc/self/cgroup", own),
            ("/proc/self/mountinfo", mounts),
            ("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n"),
            (
                "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us",
                "100000\n",
            ),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            (
                "/sys/fs/cgroup/memory/slurm/uid_0/job_1/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            (
                "/sys/fs/cgroup/memory/slurm/uid_0/memory.limit_in_bytes",
                "4096\n",
            ),
        ]);
        assert_eq!(limits, (Limits { cpus: Some(3.0) }, Some(4096)));
    }

    #[test]
    fn no_groups_are_no_limits() {
        assert_eq!(with(&[]), (Limits::default(), None));
        let odd = [
            ("/proc/self/cgroup", "0::/a\nx\n"),
            ("/proc/self/mountinfo", "x - y\n\n"),
        ];
        assert_eq!(with(&odd), (Limits::default(), None));
        assert_eq!(Limits::default().whole_cpus(), usize::MAX);
    }

    #[test]
    fn the_standard_library_sees_the_same_here() {
        let allowed: u32 = crate::system::allowed_cpus()
            .iter()
            .map(|word| word.count_ones())
            .sum();
        let here = std::thread::available_parallelism().unwrap().get();
        assert_eq!(Limits::get().whole_cpus().min(allowed as usize), here);
    }
}
