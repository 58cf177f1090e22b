//! Memory policies of ranks by `-membind`.

use crate::topology::{Machine, cpu_list, show_list};

/// The value of `-membind`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Memory {
    /// Prefer the NUMA nodes of the rank's CPUs.
    Local,
    /// The kernel's default.
    None,
    /// Only these nodes; those of the rank's CPUs if the list is empty.
    Bind(Vec<usize>),
    /// These nodes in turn; those of the rank's CPUs if the list is empty.
    Interleave(Vec<usize>),
}

/// A mode of `set_mempolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `MPOL_PREFERRED`.
    Preferred = 1,
    /// `MPOL_BIND`.
    Bind = 2,
    /// `MPOL_INTERLEAVE`.
    Interleave = 3,
    /// `MPOL_PREFERRED_MANY`.
    PreferredMany = 5,
}

/// The policy of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The mode.
    pub mode: Mode,
    /// Nodes in ascending order.
    pub nodes: Vec<usize>,
}

impl Memory {
    /// Parses the value of `-membind`.
    pub fn read(text: &str) -> Option<Memory> {
        let (name, nodes) = match text.split_once(':') {
            // Commas and `+` are equivalent here.
            Some((name, list)) => (name, cpu_list(&list.replace('+', ","))?),
            None => (text, Vec::new()),
        };
        match name {
            "bind" => Some(Memory::Bind(nodes)),
            "interleave" => Some(Memory::Interleave(nodes)),
            _ if text.contains(':') => None,
            "local" => Some(Memory::Local),
            // The kernel puts memory where it is first touched.
            "none" | "firsttouch" => Some(Memory::None),
            _ => None,
        }
    }

    /// Formats the value for [`Memory::read`].
    pub fn show(&self) -> String {
        let list = |name: &str, nodes: &Vec<usize>| match nodes.is_empty() {
            true => name.to_owned(),
            false => format!("{name}:{}", show_list(nodes)),
        };
        match self {
            Memory::Local => "local".to_owned(),
            Memory::None => "none".to_owned(),
            Memory::Bind(nodes) => list("bind", nodes),
            Memory::Interleave(nodes) => list("interleave", nodes),
        }
    }

    /// Returns the policy of a rank with these CPUs; `None` if the kernel's default has the same
    /// effect.
    pub fn policy(&self, cpus: &[usize], machine: &Machine) -> Option<Policy> {
        let all = machine.nodes(&machine.cpus());
        let mine = match cpus.is_empty() {
            true => all.clone(),
            false => machine.nodes(cpus),
        };
        let named = |nodes: &Vec<usize>| match nodes.is_empty() {
            true => mine.clone(),
            false => nodes.clone(),
        };
        let (mode, nodes) = match self {
            Memory::None => return None,
            Memory::Local if mine == all => return None,
            Memory::Local if mine.len() == 1 => (Mode::Preferred, mine),
            Memory::Local => (Mode::PreferredMany, mine),
            Memory::Bind(nodes) => (Mode::Bind, named(nodes)),
            Memory::Interleave(nodes) => (Mode::Interleave, named(nodes)),
        };
        Some(Policy { mode, nodes })
    }
}

impl Policy {
    /// Describes the policy for the user.
    pub fn describe(&self) -> String {
        let nodes = match self.nodes[..] {
            [one] => format!("node {one}"),
            _ => format!("nodes {}", show_list(&self.nodes)),
        };
        match self.mode {
            Mode::Preferred | Mode::PreferredMany => format!("memory of {nodes} first"),
            Mode::Bind => format!("memory of {nodes} only"),
            Mode::Interleave => format!("memory of {nodes} in turn"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::sys;

    #[test]
    fn memory_is_where_the_cpus_are() {
        let dir = sys();
        let machine = Machine::read(dir.path(), &(0..32).collect::<Vec<_>>());
        for (text, cpus, expected) in [
            ("local", &[4, 20][..], "memory of node 1 first"),
            ("local", &[4, 8], "memory of nodes 1-2 first"),
            ("local", &[], ""),
            ("local", &[0, 4, 8, 12], ""),
            ("none", &[4], ""),
            ("firsttouch", &[4], ""),
            ("bind", &[4], "memory of node 1 only"),
            ("bind:2+3", &[4], "memory of nodes 2-3 only"),
            ("bind", &[], "memory of nodes 0-3 only"),
            ("interleave", &[0, 4], "memory of nodes 0-1 in turn"),
            ("interleave:0,3", &[], "memory of nodes 0,3 in turn"),
        ] {
            let memory = Memory::read(text).unwrap();
            let policy = memory.policy(cpus, &machine);
            let words = policy.map_or(String::new(), |policy| policy.describe());
            assert_eq!(words, expected, "{text} {cpus:?}");
            assert_eq!(Memory::read(&memory.show()), Some(memory));
        }
        for text in ["", "moon", "bind:", "bind:x", "local:1", "none:1"] {
            assert_eq!(Memory::read(text), None, "{text}");
        }
    }
}
