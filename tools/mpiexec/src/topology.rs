//! The topology of a machine, from hwloc or /sys: hardware threads, cores, caches, NUMA nodes,
//! sockets.

pub mod hwloc;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// A kind of object to which ranks can be bound or dealt out, in ascending size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A hardware thread, which the kernel calls a CPU.
    Thread,
    /// A core.
    Core,
    /// A second-level cache.
    L2,
    /// A third-level cache.
    L3,
    /// A NUMA node.
    Numa,
    /// A socket.
    Socket,
    /// The whole machine.
    Board,
}

impl ObjectKind {
    /// Returns the kind with this name in Hydra, Open MPI or Intel MPI.
    pub fn named(name: &str) -> Option<ObjectKind> {
        Some(match name {
            "hwthread" | "pu" | "thread" => ObjectKind::Thread,
            // Each core has one first-level cache.
            "core" | "l1cache" | "l1" => ObjectKind::Core,
            "l2cache" | "l2" => ObjectKind::L2,
            "l3cache" | "l3" => ObjectKind::L3,
            "numa" | "numanode" => ObjectKind::Numa,
            "socket" | "package" => ObjectKind::Socket,
            "board" | "machine" => ObjectKind::Board,
            _ => return None,
        })
    }

    /// Returns the kind's name.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Thread => "hwthread",
            ObjectKind::Core => "core",
            ObjectKind::L2 => "l2cache",
            ObjectKind::L3 => "l3cache",
            ObjectKind::Numa => "numa",
            ObjectKind::Socket => "socket",
            ObjectKind::Board => "board",
        }
    }
}

/// A hardware thread and the objects that contain it, each named by its first CPU, the NUMA node by
/// its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Thread {
    cpu: usize,
    core: usize,
    l2: usize,
    l3: usize,
    numa: usize,
    socket: usize,
}

/// Returns the CPUs that share a CPU's L2 cache, and those that share its L3 cache. `dir` is the
/// CPU's folder in sysfs.
fn data_caches(dir: &Path) -> [Option<Vec<usize>>; 2] {
    let mut caches = [None, None];
    for index in 0.. {
        let index = dir.join(format!("cache/index{index}"));
        let read = |name: &str| fs::read_to_string(index.join(name));
        let Ok(level) = read("level") else { break };
        let cache = match level.trim() {
            "2" => &mut caches[0],
            "3" => &mut caches[1],
            _ => continue,
        };
        // Only first-level caches are for instructions or data alone.
        *cache = read("shared_cpu_list")
            .ok()
            .and_then(|list| cpu_list(list.trim()));
    }
    caches
}

/// A machine, restricted to the CPUs that this process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Sorted by socket, NUMA node, caches and core.
    threads: Vec<Thread>,
    /// Whether this process runs on it.
    here: bool,
}

impl Machine {
    /// Reads the topology of these CPUs below `root`, which is `/sys`. Without any files the
    /// machine has one socket and one NUMA node, and each thread is a core.
    pub fn read(root: &Path, allowed: &[usize]) -> Machine {
        let node_of = nodes(root);
        let first = |list: Option<Vec<usize>>, cpu: usize| {
            let list = list.unwrap_or_default();
            // A list without the CPU itself is wrong, and ignored.
            let min = list.iter().copied().min();
            min.filter(|_| list.contains(&cpu))
        };
        let mut packages: HashMap<i64, usize> = HashMap::new();
        let mut threads = Vec::new();
        for &cpu in allowed {
            let dir = root.join(format!("devices/system/cpu/cpu{cpu}"));
            let list = |name: &str| {
                let text = fs::read_to_string(dir.join(name)).ok()?;
                cpu_list(text.trim())
            };
            let siblings = || list("topology/thread_siblings_list");
            let core = first(list("topology/core_cpus_list").or_else(siblings), cpu);
            let core = core.unwrap_or(cpu);
            let package = fs::read_to_string(dir.join("topology/physical_package_id"));
            let package = package
                .ok()
                .and_then(|text| text.trim().parse::<i64>().ok());
            let socket = *packages.entry(package.unwrap_or(0)).or_insert(cpu);
            let numa = node_of.get(&cpu).copied().unwrap_or(0);
            let [l2, l3] = data_caches(&dir).map(|list| first(list, cpu));
            threads.push(Thread {
                cpu,
                core,
                l2: l2.unwrap_or(core),
                l3: l3.unwrap_or(no_cache(socket, numa)),
                numa,
                socket,
            });
        }
        threads.sort_by_key(|t| (t.socket, t.numa, t.l3, t.l2, t.core, t.cpu));
        Machine {
            threads,
            here: true,
        }
    }

    /// Returns the CPUs of each object of a kind, neighbours next to each other.
    pub fn objects(&self, kind: ObjectKind) -> Vec<Vec<usize>> {
        let mut objects: Vec<(usize, Vec<usize>)> = Vec::new();
        for thread in &self.threads {
            let name = match kind {
                ObjectKind::Thread => thread.cpu,
                ObjectKind::Core => thread.core,
                ObjectKind::L2 => thread.l2,
                ObjectKind::L3 => thread.l3,
                ObjectKind::Numa => thread.numa,
                ObjectKind::Socket => thread.socket,
                ObjectKind::Board => 0,
            };
            match objects.iter_mut().find(|(known, _)| *known == name) {
                Some((_, cpus)) => cpus.push(thread.cpu),
                None => objects.push((name, vec![thread.cpu])),
            }
        }
        objects.into_iter().map(|(_, cpus)| cpus).collect()
    }

    /// Returns whether this process runs on the machine, so that ranks can be bound to its CPUs.
    pub fn is_here(&self) -> bool {
        self.here
    }

    /// Returns all CPUs.
    pub fn cpus(&self) -> Vec<usize> {
        self.threads.iter().map(|thread| thread.cpu).collect()
    }

    /// Returns the NUMA nodes of these CPUs in ascending order.
    pub fn nodes(&self, cpus: &[usize]) -> Vec<usize> {
        let mine = self.threads.iter().filter(|t| cpus.contains(&t.cpu));
        let mut nodes: Vec<usize> = mine.map(|t| t.numa).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Draws the machine with the CPUs of a set as `B`, others as `.`: sockets in brackets, `|`
    /// between NUMA nodes, `/` between cores.
    pub fn picture(&self, set: &[usize]) -> String {
        let mut text = String::new();
        let mut last: Option<&Thread> = None;
        for thread in &self.threads {
            match last {
                Some(last) if last.socket != thread.socket => text += "] [",
                Some(last) if last.numa != thread.numa => text.push('|'),
                Some(last) if last.core != thread.core => text.push('/'),
                Some(_) => {}
                None => text.push('['),
            }
            text.push(if set.contains(&thread.cpu) { 'B' } else { '.' });
            last = Some(thread);
        }
        text.push(']');
        text
    }
}

/// Returns a name for the unknown third-level cache of a thread: its socket and NUMA node.
fn no_cache(socket: usize, numa: usize) -> usize {
    1 << 48 | socket << 24 | numa
}

/// Reads the NUMA node of each CPU.
fn nodes(root: &Path) -> HashMap<usize, usize> {
    let mut all = HashMap::new();
    let entries = fs::read_dir(root.join("devices/system/node"));
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(number) = name.strip_prefix("node").and_then(|n| n.parse().ok()) else {
            continue;
        };
        let text = fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
        let cpus = cpu_list(text.trim()).unwrap_or_default();
        all.extend(cpus.into_iter().map(|cpu| (cpu, number)));
    }
    all
}

/// Highest number of a CPU, and most CPUs in a list.
const MOST: usize = 1 << 16;

/// Parses a list such as `0,4-6`.
pub fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut list: Vec<usize> = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // Bounds the memory that a mistyped list takes.
        if first > last || last > MOST || list.len() > MOST {
            return None;
        }
        list.extend(first..=last);
    }
    Some(list)
}

/// Formats a list such as `0,4-6`.
pub fn show_list(cpus: &[usize]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for cpu in sorted {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let show = |(first, last): (usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let parts: Vec<String> = parts.into_iter().map(show).collect();
    parts.join(",")
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A /sys of 2 sockets with 2 nodes each, 4 cores of 2 threads in each node, which share a
    /// cache; the second threads are numbered behind all first ones, as Linux does.
    pub fn sys() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: String, text: String| {
            let path = dir.path().join("devices/system").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text + "\n").unwrap();
        };
        for cpu in 0..32 {
            let core = cpu % 16;
            let node = core / 4;
            let pair = format!("{core},{}", core + 16);
            let whole = format!(
                "{}-{},{}-{}",
                node * 4,
                node * 4 + 3,
                node * 4 + 16,
                node * 4 + 19
            );
            write(
                format!("cpu/cpu{cpu}/topology/core_cpus_list"),
                pair.clone(),
            );
            write(
                format!("cpu/cpu{cpu}/topology/physical_package_id"),
                (node / 2).to_string(),
            );
            for (index, level, kind, shared) in [
                (0, 1, "Data", &pair),
                (1, 1, "Instruction", &pair),
                (2, 2, "Unified", &pair),
                (3, 3, "Unified", &whole),
            ] {
                let dir = format!("cpu/cpu{cpu}/cache/index{index}");
                write(format!("{dir}/level"), level.to_string());
                write(format!("{dir}/type"), kind.to_owned());
                write(format!("{dir}/shared_cpu_list"), shared.clone());
            }
            write(format!("node/node{node}/cpulist"), whole);
        }
        dir
    }

    #[test]
    fn objects_hold_their_threads() {
        let dir = sys();
        let machine = Machine::read(dir.path(), &(0..32).collect::<Vec<_>>());
        let counts = |kind| machine.objects(kind).len();
        let kinds = [
            ObjectKind::Thread,
            ObjectKind::Core,
            ObjectKind::L2,
            ObjectKind::L3,
            ObjectKind::Numa,
            ObjectKind::Socket,
            ObjectKind::Board,
        ];
        assert_eq!(kinds.map(counts), [32, 16, 16, 4, 4, 2, 1]);
        assert_eq!(machine.objects(ObjectKind::Core)[5], [5, 21]);
        assert_eq!(machine.objects(ObjectKind::Thread)[..3], [[0], [16], [1]]);
        assert_eq!(
            machine.objects(ObjectKind::Numa)[1],
            [4, 20, 5, 21, 6, 22, 7, 23]
        );
        assert_eq!(
            machine.objects(ObjectKind::L3),
            machine.objects(ObjectKind::Numa)
        );
        assert_eq!(machine.objects(ObjectKind::Socket)[1].len(), 16);
        assert_eq!(
            machine.picture(&[1, 17, 8]),
            "[../BB/../..|../../../..] [B./../../..|../../../..]"
        );
    }

    #[test]
    fn only_what_is_allowed_counts() {
        let dir = sys();
        let machine = Machine::read(dir.path(), &[2, 3, 18, 9]);
        assert_eq!(machine.nodes(&[3, 9]), [0, 2]);
        assert_eq!(machine.nodes(&machine.cpus()), [0, 2]);
        assert_eq!(
            machine.objects(ObjectKind::Core),
            [vec![2, 18], vec![3], vec![9]]
        );
        assert_eq!(
            machine.objects(ObjectKind::Socket),
            [vec![2, 18, 3], vec![9]]
        );
    }

    #[test]
    fn without_facts_each_thread_is_a_core() {
        let machine = Machine::read(Path::new("/nowhere"), &[0, 1, 5]);
        assert_eq!(machine.objects(ObjectKind::Core), [[0], [1], [5]]);
        for kind in [
            ObjectKind::L3,
            ObjectKind::Numa,
            ObjectKind::Socket,
            ObjectKind::Board,
        ] {
            assert_eq!(machine.objects(kind), [[0, 1, 5]], "{kind:?}");
        }
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpu_list("0-1,8"), Some(vec![0, 1, 8]));
        assert_eq!(cpu_list("x"), None);
        assert_eq!(cpu_list("3-1"), None);
        assert_eq!(cpu_list("0-99999999999"), None);
        assert_eq!(cpu_list(&["0-65535"; 9].join(",")), None);
        assert_eq!(show_list(&[8, 0, 1, 2]), "0-2,8");
    }
}
