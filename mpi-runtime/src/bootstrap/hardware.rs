//! The hardware that this process may use, as reported by the kernel.
//!
//! Serves `MPI_Get_hw_resource_info` and the guided modes of `MPI_Comm_split_type` (MPI-4.1
//! sections 7.4.2 and 9.1). Resource names are hwloc's.

use rustix::thread::{CpuSet, sched_getaffinity};
use std::fs;

/// A resource type and the instance that this process is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resource {
    /// The name of the type, a URI.
    pub name: &'static str,
    /// The number on this node of the instance that the process is bound to; `None` if it may use
    /// several.
    pub instance: Option<u64>,
}

/// The resource types, from coarsest to finest. No process is bound to one that the kernel does not
/// report.
pub const KINDS: [&str; 8] = [
    "hwloc://Machine",
    "hwloc://Package",
    "hwloc://NUMANode",
    "hwloc://L3Cache",
    "hwloc://L2Cache",
    "hwloc://L1Cache",
    "hwloc://Core",
    "hwloc://PU",
];

/// The standard's name of the resource type whose members can share memory.
pub const SHARED_MEMORY: &str = "mpi_shared_memory";

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// Returns all resource types, for the calling thread's affinity.
pub fn resources() -> [Resource; 8] {
    let cpus = allowed();
    let kind = |name: &'static str| Resource {
        name,
        instance: instance(name, &cpus),
    };
    KINDS.map(kind)
}

/// Returns the instance of a type that contains all of `cpus`, if one does.
fn instance(name: &str, cpus: &[usize]) -> Option<u64> {
    if name == KINDS[0] {
        return Some(0);
    }
    let mut of_each = cpus.iter().map(|cpu| of_cpu(name, *cpu));
    let first = of_each.next()??;
    of_each.all(|other| other == Some(first)).then_some(first)
}

/// Returns the instance of a type that a CPU belongs to.
fn of_cpu(name: &str, cpu: usize) -> Option<u64> {
    match name.trim_start_matches("hwloc://") {
        "Package" => number(&format!("{CPUS}/cpu{cpu}/topology/physical_package_id")),
        "NUMANode" => numa_node(cpu),
        "L3Cache" => cache(cpu, "3"),
        "L2Cache" => cache(cpu, "2"),
        "L1Cache" => cache(cpu, "1"),
        "Core" => first_of(&format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list")),
        "PU" => Some(cpu as u64),
        _ => None,
    }
}

fn numa_node(cpu: usize) -> Option<u64> {
    for entry in fs::read_dir(NODES).ok()?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let Some(node) = name.strip_prefix("node").and_then(|node| node.parse().ok()) else {
            continue;
        };
        let list = fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
        if parse_list(&list).contains(&cpu) {
            return Some(node);
        }
    }
    None
}

/// Identifies the data cache of a level by the first CPU that shares it.
fn cache(cpu: usize, level: &str) -> Option<u64> {
    for index in 0..8 {
        let path = format!("{CPUS}/cpu{cpu}/cache/index{index}");
        let Ok(found) = fs::read_to_string(format!("{path}/level")) else {
            return None;
        };
        let kind = fs::read_to_string(format!("{path}/type")).unwrap_or_default();
        if found.trim() == level && kind.trim() != "Instruction" {
            return first_of(&format!("{path}/shared_cpu_list"));
        }
    }
    None
}

fn number(path: &str) -> Option<u64> {
    // The kernel reports -1 on machines that do not number their packages.
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn first_of(path: &str) -> Option<u64> {
    let list = parse_list(&fs::read_to_string(path).ok()?);
    list.first().map(|cpu| *cpu as u64)
}

/// Parses the kernel's list format, `0-3,8`.
fn parse_list(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for part in text.trim().split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.parse::<usize>(), to.parse::<usize>()) {
            found.extend(from..=to);
        }
    }
    found
}

/// Returns the CPUs that the calling thread may use.
fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_list("5\n"), [5]);
        assert!(parse_list("\n").is_empty());
    }

    #[test]
    fn a_thread_on_one_processor_is_confined_to_one_of_every_reported_type() {
        let everywhere = resources();
        assert_eq!(everywhere[0].instance, Some(0));
        let one = allowed()[0];
        assert_eq!(instance("hwloc://PU", &[one]), Some(one as u64));
        assert_eq!(instance("hwloc://PU", &[one, one + 1]), None);
        assert_eq!(instance("hwloc://Nothing", &[one]), None);
    }
}
