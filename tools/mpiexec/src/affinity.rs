//! CPUs and memory policy of each rank on this machine.

use std::collections::HashMap;
use std::env;
use std::path::Path;

use crate::binding::{Bind, Library, Policy, To};
use crate::cgroup::Limits;
use crate::system;
use crate::topology::{Machine, ObjectKind, hwloc, show_list};

/// A rank's share of its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuShare {
    /// The affinity mask, a bit per CPU; empty for no binding.
    pub cpus: Vec<u64>,
    /// The memory policy; `None` for the kernel's default.
    pub memory: Option<Policy>,
    /// Number of ranks of this machine that can run at once.
    pub cores: usize,
}

/// The shares of all ranks on a machine.
#[derive(Debug)]
pub struct Affinity {
    machine: Machine,
    sets: Vec<Vec<usize>>,
    memory: Vec<Option<Policy>>,
    limits: Limits,
}

/// Variables that make hwloc describe another machine, or read this one differently.
const VARIABLES: &[&str] = &[
    "HWLOC_SYNTHETIC",
    "HWLOC_XMLFILE",
    "HWLOC_FSROOT",
    "HWLOC_COMPONENTS",
];

/// Reads this machine's topology, restricted to the CPUs that this process may use.
fn machine(bind: &Bind) -> Machine {
    let allowed = cpus(&system::allowed_cpus());
    let configured = VARIABLES
        .iter()
        .find(|name| env::var_os(name).is_some_and(|text| !text.is_empty()));
    let (wanted, name) = match &bind.library {
        Library::Sys => (false, hwloc::NAME),
        Library::Hwloc(name) => (true, name.as_str()),
        // Loading hwloc takes longer than starting a rank; equal shares don't need it.
        Library::Auto => {
            let shares = bind.to == To::Auto && bind.map.is_none();
            (configured.is_some() || !shares, hwloc::NAME)
        }
    };
    if wanted {
        match hwloc::read(name, &allowed) {
            Ok(machine) => return machine,
            Err(why) if configured.is_some() || bind.library != Library::Auto => {
                let what =
                    configured.map_or(String::new(), |name| format!("{name} has no effect: "));
                eprintln!("mpiexec: {what}{why}; the topology is read from /sys instead");
            }
            Err(_) => {}
        }
    }
    Machine::read(Path::new("/sys"), &allowed)
}

/// Returns the cores that this process may use, each as its allowed CPUs.
pub fn cores() -> Vec<Vec<usize>> {
    machine(&Bind::AUTO).objects(ObjectKind::Core)
}

/// Returns the number of this machine's objects of a kind, at least 1.
pub fn objects(kind: ObjectKind, bind: &Bind) -> usize {
    machine(bind).objects(kind).len().max(1)
}

/// Returns the number of ranks that can run at once on this machine.
pub fn slots() -> usize {
    let cpus: usize = system::allowed_cpus()
        .iter()
        .map(|word| word.count_ones() as usize)
        .sum();
    cpus.min(Limits::get().whole_cpus()).max(1)
}

impl Affinity {
    /// Computes the shares of `ranks` ranks.
    ///
    /// # Errors
    /// The binding names an object that the machine lacks.
    pub fn find(bind: &Bind, ranks: usize) -> Result<Affinity, String> {
        let machine = machine(bind);
        let mut limits = Limits::get();
        if !machine.is_here() {
            limits = Limits::default();
        }
        let mut sets = bind.sets(ranks, &machine)?;
        // With a quota of CPU time the job owns no cores, so other jobs may run on them: the
        // scheduler places ranks better than a fixed binding.
        if bind.to == To::Auto && limits.whole_cpus() < machine.cpus().len() {
            sets = vec![Vec::new(); ranks];
        }
        let memory = sets.iter().map(|set| bind.memory.policy(set, &machine));
        Ok(Affinity {
            memory: memory.collect(),
            machine,
            sets,
            limits,
        })
    }

    /// Returns the share of each rank. On the topology of another machine ranks are not bound.
    pub fn shares(&self) -> Vec<CpuShare> {
        let cores = self.cores();
        let share = |(set, memory): (&Vec<usize>, &Option<Policy>)| match self.machine.is_here() {
            true => CpuShare {
                cpus: mask(set),
                memory: memory.clone(),
                cores,
            },
            false => CpuShare {
                cores: slots(),
                ..CpuShare::default()
            },
        };
        self.sets.iter().zip(&self.memory).map(share).collect()
    }

    /// Returns the number of ranks that can run at once: the CPUs, unless more ranks are bound to
    /// one set.
    fn cores(&self) -> usize {
        let ranks = self.sets.len();
        let all = self.machine.cpus().len().min(self.limits.whole_cpus());
        let mut crowds: HashMap<&[usize], usize> = HashMap::new();
        for set in self.sets.iter().filter(|set| !set.is_empty()) {
            *crowds.entry(set).or_default() += 1;
        }
        let crowded = crowds.into_iter().filter(|(set, same)| same > &set.len());
        let least = crowded.map(|(set, same)| ranks * set.len() / same).min();
        least.map_or(all, |least| all.min(least)).max(1)
    }

    /// Describes the binding of each rank.
    pub fn pictures(&self) -> Vec<String> {
        let picture = |(set, memory): (&Vec<usize>, &Option<Policy>)| {
            let memory = memory
                .as_ref()
                .map(|memory| format!(", {}", memory.describe()));
            let memory = memory.unwrap_or_default();
            match set.is_empty() {
                true => format!("not bound{memory}"),
                false => format!(
                    "bound to CPUs {}{memory}: {}",
                    show_list(set),
                    self.machine.picture(set)
                ),
            }
        };
        self.sets.iter().zip(&self.memory).map(picture).collect()
    }
}

fn mask(cpus: &[usize]) -> Vec<u64> {
    let mut mask = Vec::new();
    for cpu in cpus {
        let word = cpu / 64;
        if word >= mask.len() {
            mask.resize(word + 1, 0);
        }
        mask[word] |= 1 << (cpu % 64);
    }
    mask
}

fn cpus(mask: &[u64]) -> Vec<usize> {
    let is_set = |&cpu: &usize| mask[cpu / 64] >> (cpu % 64) & 1 == 1;
    (0..mask.len() * 64).filter(is_set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding;
    use crate::topology::tests::sys;

    #[test]
    fn masks_hold_what_they_are_made_of() {
        for set in [vec![], vec![0], vec![3, 64, 130]] {
            assert_eq!(cpus(&mask(&set)), set);
        }
    }

    #[test]
    fn crowds_are_noticed() {
        let dir = sys();
        let machine = Machine::read(dir.path(), &(0..32).collect::<Vec<_>>());
        for (to, ranks, quota, expected) in [
            ("core", 8, None, 32),
            ("core", 16, None, 32),
            // Two threads for three ranks.
            ("core", 48, None, 32),
            ("user:0", 4, None, 1),
            ("user:0,0,1,2", 4, None, 2),
            ("socket", 40, None, 32),
            ("none", 40, None, 32),
            ("none", 8, Some(2.5), 2),
            ("hwthread", 8, Some(0.1), 1),
        ] {
            let bind = Bind {
                to: binding::to(to).unwrap(),
                ..Bind::AUTO
            };
            let affinity = Affinity {
                machine: machine.clone(),
                sets: bind.sets(ranks, &machine).unwrap(),
                memory: vec![None; ranks],
                limits: Limits { cpus: quota },
            };
            assert_eq!(affinity.cores(), expected, "{ranks} to {to}");
        }
    }
}
